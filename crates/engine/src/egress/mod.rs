//! Egress shards: where dispatches and outcomes come out, and feedback goes back in.

mod feedback;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use rtrb::{Consumer, Producer, RingBuffer};
use tollgate_arbiter::Nanos;

pub use self::feedback::FeedbackBatch;
use crate::clock::Clock;
use crate::delivery::{Delivery, Dispatch};
use crate::idle::{Idle, Patience};
use crate::shared::Shared;
use crate::stats::EgressStats;
use crate::sync::doorbell::Sleeper;
use crate::ticket::Receipt;
use crate::wire::{Feedback, Parcel, Rest};

/// Nothing more comes out of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Closed {
    /// The engine was stopped, and all that it had for this shard is delivered.
    #[error("closed: the engine has stopped")]
    Stopped,
    /// The arbiter's thread panicked. What could be saved is delivered.
    #[error("lost: the arbiter's thread panicked")]
    Lost,
}

/// A requeue that the engine cannot take; the dispatch comes back.
#[derive(Debug, thiserror::Error)]
pub enum RequeueRefused<P> {
    /// The ring to the arbiter is full: try again.
    #[error("full: no room in the ring to the arbiter")]
    Full(Dispatch<P>),
    /// The arbiter is gone.
    #[error("closed: no requeues are taken")]
    Closed(Dispatch<P>),
}

/// One exit of an engine: hands out dispatches and outcomes, and takes feedback, for the thread that
/// owns it.
///
/// The dispatches to a worker come out of the shard `worker id % egress shards`; all other outcomes out
/// of the shard `i % egress shards` for a request that ingress shard i submitted. `Send`, not `Sync`.
///
/// Keep the handle for as long as requests run that it handed out: an engine whose shard is dropped
/// while it runs takes that shard for lost. It releases everything that was dispatched through it, as
/// `complete` does, counts it as lost, and sends later dispatches and outcomes out of another shard;
/// without any shard it closes. What the shard had not received is dropped with it, but for what was
/// still on its way: that comes out of another shard too, a dispatch as [`Delivery::Returned`].
///
/// ```compile_fail
/// fn shared_between_threads<T: Sync>() {}
/// shared_between_threads::<tollgate::EgressShard<u64>>();
/// ```
#[derive(Debug)]
pub struct EgressShard<P> {
    shared: Arc<Shared>,
    shard: usize,
    clock: Clock,
    /// What a timeout is measured by.
    wall: Clock,
    idle: Idle,
    sleeper: Sleeper,
    ring: Consumer<Parcel<P>>,
    feedback: Producer<Feedback<P>>,
    /// Where the core leaves what no longer fitted the ring when it closed.
    rest: Receiver<Rest<P>>,
    /// Where this shard leaves its end of the ring when it is dropped.
    leave: Sender<Consumer<Parcel<P>>>,
    /// That rest, once it came; its parcels last first.
    left: Option<Rest<P>>,
    stats: EgressStats,
}

/// The ends of an egress shard's rings that the shard holds.
#[derive(Debug)]
pub(crate) struct EgressEnds<P> {
    pub(crate) ring: Consumer<Parcel<P>>,
    pub(crate) feedback: Producer<Feedback<P>>,
    pub(crate) rest: Receiver<Rest<P>>,
    pub(crate) leave: Sender<Consumer<Parcel<P>>>,
    pub(crate) sleeper: Sleeper,
}

impl<P> EgressShard<P> {
    pub(crate) fn new(
        shared: Arc<Shared>,
        shard: usize,
        (clock, idle): (Clock, Idle),
        stats: EgressStats,
        ends: EgressEnds<P>,
    ) -> Self {
        Self {
            shared,
            shard,
            clock,
            wall: Clock::monotonic(),
            idle,
            sleeper: ends.sleeper,
            ring: ends.ring,
            feedback: ends.feedback,
            rest: ends.rest,
            leave: ends.leave,
            left: None,
            stats,
        }
    }

    /// Waits for the next delivery, by the engine's idle strategy.
    ///
    /// # Errors
    /// The engine is closed, and everything was delivered.
    pub fn recv(&mut self) -> Result<Delivery<P>, Closed> {
        loop {
            self.wait(None);
            if let Some(delivery) = self.try_recv()? {
                return Ok(delivery);
            }
        }
    }

    /// The same, for at most `timeout` of real time, whatever clock the engine is on; `None` when it has
    /// passed.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<Option<Delivery<P>>, Closed> {
        let nanos = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        self.wait(Some(self.wall.now().saturating_add(Nanos(nanos))));
        self.try_recv()
    }

    /// The next delivery if there is one. Never blocks.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn try_recv(&mut self) -> Result<Option<Delivery<P>>, Closed> {
        let Ok(parcel) = self.ring.pop() else {
            return self.take_rest();
        };
        tally(&mut self.stats, &parcel, self.clock.now());
        drop(Room(&self.shared, self.shard));
        Ok(Some(parcel.open()))
    }

    /// Waits for a delivery, then moves as many as there are, at most `max`, to the end of `into`; how
    /// many it took. What it leaves stays, also where it panics.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn recv_batch(
        &mut self,
        max: usize,
        into: &mut impl Extend<Delivery<P>>,
    ) -> Result<usize, Closed> {
        self.wait(None);
        self.try_recv_batch(max, into)
    }

    /// The same without waiting; 0 if there is nothing now.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn try_recv_batch(
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

    /// The prefill of a dispatch is over: its tokens no longer count (S9.1). Never fails; what is
    /// stale is counted.
    pub fn prefill_done(&mut self, receipt: Receipt) {
        self.feedback().prefill_done(receipt);
    }

    /// A dispatched request is over: whatever it holds is released (S9.1). Never fails; what is stale
    /// is counted.
    pub fn complete(&mut self, receipt: Receipt) {
        self.feedback().complete(receipt);
    }

    /// The hand-over failed: the request waits again in its old place, or ends where it was handed
    /// over as often as it may be (S9.4).
    ///
    /// # Errors
    /// The dispatch comes back if the ring to the arbiter is full, or the arbiter is gone.
    pub fn requeue(&mut self, dispatch: Dispatch<P>) -> Result<(), RequeueRefused<P>> {
        self.requeue_with(dispatch, || {})
    }

    /// The same; the core may get on where `between` is called. Only tests do anything there.
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

    /// Several `prefill_done` and `complete`, published together when it is dropped.
    pub fn feedback(&mut self) -> FeedbackBatch<'_, P> {
        FeedbackBatch::new(&mut self.feedback, &self.shared, &mut self.stats)
    }

    /// Waits until something is there, until nothing more will come, or until `deadline`.
    fn wait(&mut self, deadline: Option<Nanos>) {
        let mut patience = Patience::new(self.idle);
        while self.ring.is_empty() && !self.is_closed() {
            let left = deadline.map(|deadline| deadline.saturating_sub(self.wall.now()));
            if left == Some(Nanos(0)) {
                break;
            }
            if !patience.wait() {
                let (ring, flags) = (&self.ring, &self.shared.egress[self.shard]);
                let timeout = left.map(|left| Duration::from_nanos(left.0));
                self.sleeper
                    .sleep_unless(|| !ring.is_empty() || flags.is_closed(), timeout);
                patience = Patience::new(self.idle);
            }
        }
    }

    fn is_closed(&self) -> bool {
        self.shared.egress[self.shard].is_closed()
    }

    /// What the core left behind when it closed.
    fn take_rest(&mut self) -> Result<Option<Delivery<P>>, Closed> {
        if !self.is_closed() {
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

impl<P> EgressShard<P> {
    /// Drops what was not received, each by itself; the first panic of a destructor.
    fn drop_parcels(&mut self) -> std::thread::Result<()> {
        let mut outcome = Ok(());
        while let Ok(parcel) = self.ring.pop() {
            let dropped = catch_unwind(AssertUnwindSafe(|| drop(parcel)));
            outcome = outcome.and(dropped);
        }
        outcome
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

impl<P> Drop for EgressShard<P> {
    /// Drops what was not received, on this thread; the arbiter does the rest, also with what comes
    /// meanwhile.
    fn drop(&mut self) {
        self.shared.egress[self.shard].drop_handle();
        let _ = self.shared.bell.ring();
        let dropped = self.drop_parcels();
        let (_, nothing) = RingBuffer::new(0);
        let ring = std::mem::replace(&mut self.ring, nothing);
        // Where the core is gone for good, it is dropped here.
        let _ = self.leave.try_send(ring);
        let _ = self.shared.bell.ring();
        if let Err(panic) = dropped
            && !std::thread::panicking()
        {
            resume_unwind(panic);
        }
    }
}
