//! Releases from any thread, at any time, that cannot fail.

use std::sync::Arc;

use crate::shared::Shared;
use crate::sync::mail::Release;
use crate::ticket::{Receipt, Ticket};

/// Cancels and releases from anywhere: also from a thread that owns no shard, from `Drop`, and while
/// every ring is full.
///
/// `Clone`, `Send` and `Sync`. Each call sets a few bits that the arbiter looks at once a turn:
/// bounded, without a lock, and repeated calls are one. What a shard's own methods put into a ring is
/// cheaper for the arbiter.
#[derive(Clone, Debug)]
pub struct Releases {
    pub(crate) shared: Arc<Shared>,
}

impl Releases {
    /// As [`IngressShard::cancel`](crate::IngressShard::cancel).
    pub fn cancel(&self, ticket: Ticket) {
        self.post(ticket, 0, Release::Cancel);
    }

    /// As [`EgressShard::prefill_done`](crate::EgressShard::prefill_done).
    pub fn prefill_done(&self, receipt: Receipt) {
        self.post(receipt.ticket, receipt.attempt, Release::PrefillDone);
    }

    /// As [`EgressShard::complete`](crate::EgressShard::complete).
    pub fn complete(&self, receipt: Receipt) {
        self.post(receipt.ticket, receipt.attempt, Release::Complete);
    }

    fn post(&self, ticket: Ticket, attempt: u8, what: Release) {
        self.shared.post(ticket, attempt, what);
        let _ = self.shared.bell.ring();
    }
}
