//! The half of an egress shard that never waits.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use crossbeam_channel::{Receiver, Sender};
use rtrb::{Consumer, Producer, RingBuffer};
use tollgate_arbiter::Nanos;

use super::{Closed, EgressEnds, FeedbackBatch, RequeueRefused};
use crate::clock::Clock;
use crate::delivery::{Delivery, Dispatch};
use crate::shared::Shared;
use crate::stats::EgressStats;
use crate::sync::doorbell::Sleeper;
use crate::ticket::Receipt;
use crate::wire::{Feedback, Parcel, Rest};

/// The shard's ends of its rings, and how they are used without waiting.
#[derive(Debug)]
pub(crate) struct Exit<P> {
    shared: Arc<Shared>,
    shard: usize,
    clock: Clock,
    ring: Consumer<Parcel<P>>,
    feedback: Producer<Feedback<P>>,
    /// Where the core leaves what no longer fitted the ring when it closed.
    rest: Receiver<Rest<P>>,
    /// Where this shard leaves its end of the ring when it is dropped.
    leave: Sender<Consumer<Parcel<P>>>,
    /// That rest, once it came; its parcels last first.
    left: Option<Rest<P>>,
    /// The engine was told that nobody receives here any more.
    has_left: bool,
    stats: EgressStats,
}

impl<P> Exit<P> {
    /// The exit, and who sleeps until something comes.
    pub(super) fn new(
        shared: Arc<Shared>,
        shard: usize,
        clock: Clock,
        stats: EgressStats,
        ends: EgressEnds<P>,
    ) -> (Self, Sleeper) {
        let exit = Self {
            shared,
            shard,
            clock,
            ring: ends.ring,
            feedback: ends.feedback,
            rest: ends.rest,
            leave: ends.leave,
            left: None,
            has_left: false,
            stats,
        };
        (exit, ends.sleeper)
    }

    /// Whether something is in the ring, or nothing more will come.
    pub(crate) fn has_news(&self) -> bool {
        !self.ring.is_empty() || self.shared.egress[self.shard].is_closed()
    }

    /// As [`EgressShard::try_recv`](super::EgressShard::try_recv).
    pub(super) fn try_recv(&mut self) -> Result<Option<Delivery<P>>, Closed> {
        let Ok(parcel) = self.ring.pop() else {
            return self.take_rest();
        };
        tally(&mut self.stats, &parcel, self.clock.now());
        drop(Room(&self.shared, self.shard));
        Ok(Some(parcel.open()))
    }

    /// As [`EgressShard::try_recv_batch`](super::EgressShard::try_recv_batch).
    pub(crate) fn try_recv_batch(
        &mut self,
        max: usize,
        into: &mut impl Extend<Delivery<P>>,
    ) -> Result<usize, Closed> {
        let count = self.ring.slots().min(max);
        if count == 0 {
            if max == 0 {
                return Ok(0);
            }
            let delivery = self.take_rest()?;
            let count = usize::from(delivery.is_some());
            into.extend(delivery);
            return Ok(count);
        }
        let now = self.clock.now();
        let Ok(chunk) = self.ring.read_chunk(count) else {
            unreachable!("so many were there, and only this shard takes them");
        };
        // Said also where `into` panics: by then some have been taken.
        let _room = Room(&self.shared, self.shard);
        let (stats, mut taken) = (&mut self.stats, 0);
        into.extend(chunk.into_iter().map(|parcel| {
            taken += 1;
            tally(stats, &parcel, now);
            parcel.open()
        }));
        Ok(taken)
    }

    /// As [`EgressShard::requeue`](super::EgressShard::requeue); the core may get on where `between` is
    /// called. Only tests do anything there.
    pub(crate) fn requeue_with(
        &mut self,
        dispatch: Dispatch<P>,
        between: impl FnOnce(),
    ) -> Result<(), RequeueRefused<P>> {
        if self.shared.bell.is_gone() {
            return Err(RequeueRefused::Closed(dispatch));
        }
        if self.feedback.is_full() {
            return Err(RequeueRefused::Full(dispatch));
        }
        between();
        let receipt = dispatch.receipt();
        let record = Feedback::Requeue(receipt, dispatch.payload);
        let Ok(()) = self.feedback.push(record) else {
            unreachable!("only this shard takes the room that there was");
        };
        // Where the arbiter is gone by now, the payload comes back with what it leaves.
        let _ = self.shared.bell.ring();
        Ok(())
    }

    /// As [`EgressShard::feedback`](super::EgressShard::feedback).
    pub(crate) fn feedback(&mut self) -> FeedbackBatch<'_, P> {
        FeedbackBatch::new(&mut self.feedback, &self.shared, &mut self.stats)
    }

    /// What the core left behind when it closed.
    fn take_rest(&mut self) -> Result<Option<Delivery<P>>, Closed> {
        if !self.shared.egress[self.shard].is_closed() {
            return Ok(None);
        }
        // It may have come between the look into the ring and the core's last word.
        if let Ok(parcel) = self.ring.pop() {
            tally(&mut self.stats, &parcel, self.clock.now());
            return Ok(Some(parcel.open()));
        }
        if let Ok(mut rest) = self.rest.try_recv() {
            rest.parcels.reverse();
            self.left = Some(rest);
        }
        let Some(parcel) = self.left.as_mut().and_then(Rest::pop) else {
            return Err(self.shared.why_closed());
        };
        tally(&mut self.stats, &parcel, self.clock.now());
        Ok(Some(parcel.open()))
    }

    /// Leaves the engine while it runs: hands what was not received to `each`; the arbiter does the rest,
    /// also with what comes meanwhile.
    pub(crate) fn leave(&mut self, mut each: impl FnMut(Delivery<P>)) {
        self.shared.egress[self.shard].drop_handle();
        let _ = self.shared.bell.ring();
        while let Ok(parcel) = self.ring.pop() {
            each(parcel.open());
        }
        let (_, nothing) = RingBuffer::new(0);
        let ring = std::mem::replace(&mut self.ring, nothing);
        // Where the core is gone for good, it is dropped here.
        let _ = self.leave.try_send(ring);
        self.has_left = true;
        let _ = self.shared.bell.ring();
    }
}

/// Says at its end that there is room in a shard's ring again.
struct Room<'a>(&'a Shared, usize);

impl Drop for Room<'_> {
    /// Tells the arbiter if it waits for that.
    #[inline]
    fn drop(&mut self) {
        // ORDERING: pairs with the fence of the core's `sleep_unless`: either this load sees that the
        // core is hungry, or the core's last look sees the room.
        fence(Ordering::SeqCst);
        if self.0.egress[self.1].is_hungry() {
            let _ = self.0.bell.ring();
        }
    }
}

impl<P> Rest<P> {
    /// The next parcel; then the payloads of requeues that came too late.
    fn pop(&mut self) -> Option<Parcel<P>> {
        if let Some(parcel) = self.parcels.pop() {
            return Some(parcel);
        }
        while let Ok(record) = self.feedback.pop() {
            if let Feedback::Requeue(Receipt { ticket, .. }, payload) = record {
                return Some(Parcel::Returned { ticket, payload });
            }
        }
        None
    }
}

/// Counts what is handed out `now`.
#[inline]
fn tally<P>(stats: &mut EgressStats, parcel: &Parcel<P>, now: Nanos) {
    match parcel {
        Parcel::Dispatch {
            submitted_at,
            dispatched_at,
            ..
        } => stats.dispatched(*submitted_at, *dispatched_at, now),
        Parcel::Ended { .. } => stats.ended(),
        Parcel::Returned { .. } => stats.returned(),
    }
}

impl<P> Drop for Exit<P> {
    /// Drops what was not received on this thread, each by itself.
    fn drop(&mut self) {
        if self.has_left {
            return;
        }
        let mut outcome = Ok(());
        self.leave(|delivery| {
            let dropped = catch_unwind(AssertUnwindSafe(|| drop(delivery)));
            if outcome.is_ok() {
                outcome = dropped;
            }
        });
        if let Err(panic) = outcome
            && !std::thread::panicking()
        {
            resume_unwind(panic);
        }
    }
}
