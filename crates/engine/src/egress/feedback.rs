//! Feedback in batches, by a way that cannot fail.

use std::sync::Arc;

use arrayvec::ArrayVec;
use rtrb::Producer;

use crate::shared::Shared;
use crate::stats::EgressStats;
use crate::sync::mail::Release;
use crate::ticket::Receipt;
use crate::wire::Feedback;

/// How many records are published at once at most.
const BATCH: usize = 32;

/// Several `prefill_done` and `complete` of one shard; published when it is full or dropped, with one
/// look at whether the arbiter sleeps.
#[derive(Debug)]
pub struct FeedbackBatch<'a, P> {
    ring: &'a mut Producer<Feedback<P>>,
    shared: &'a Arc<Shared>,
    stats: &'a mut EgressStats,
    records: ArrayVec<Feedback<P>, BATCH>,
}

impl<'a, P> FeedbackBatch<'a, P> {
    pub(super) fn new(
        ring: &'a mut Producer<Feedback<P>>,
        shared: &'a Arc<Shared>,
        stats: &'a mut EgressStats,
    ) -> Self {
        Self {
            ring,
            shared,
            stats,
            records: ArrayVec::new(),
        }
    }

    /// As [`EgressShard::prefill_done`](crate::EgressShard::prefill_done).
    #[inline]
    pub fn prefill_done(&mut self, receipt: Receipt) {
        self.push(Feedback::PrefillDone(receipt));
    }

    /// As [`EgressShard::complete`](crate::EgressShard::complete).
    #[inline]
    pub fn complete(&mut self, receipt: Receipt) {
        self.push(Feedback::Complete(receipt));
    }

    #[inline]
    fn push(&mut self, record: Feedback<P>) {
        self.records.push(record);
        if self.records.is_full() {
            self.publish();
        }
    }

    fn publish(&mut self) {
        if self.records.is_empty() {
            return;
        }
        let in_ring = self.ring.slots().min(self.records.len());
        if let Ok(chunk) = self.ring.write_chunk_uninit(in_ring) {
            chunk.fill_from_iter(self.records.drain(..in_ring));
        }
        for record in self.records.drain(..) {
            self.stats.released_by_mail();
            post(self.shared, &record);
        }
        let _ = self.shared.bell.ring();
    }
}

/// The way for what finds no room in the ring. The arbiter reads a letter only after all that was in
/// the ring when it came, so the order of one request's feedback is kept.
fn post<P>(shared: &Shared, record: &Feedback<P>) {
    let (receipt, what) = match record {
        Feedback::PrefillDone(receipt) => (receipt, Release::PrefillDone),
        Feedback::Complete(receipt) => (receipt, Release::Complete),
        Feedback::Requeue(..) => unreachable!("a requeue is never in a batch"),
    };
    shared.post(receipt.ticket, receipt.attempt, what);
}

impl<P> Drop for FeedbackBatch<'_, P> {
    fn drop(&mut self) {
        self.publish();
    }
}
