//! Egress shards: where dispatches and outcomes come out, and feedback goes back in.

mod exit;
mod feedback;

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use rtrb::{Consumer, Producer};
use tollgate_arbiter::Nanos;

pub(crate) use self::exit::Exit;
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
    exit: Exit<P>,
    /// What a timeout is measured by.
    wall: Clock,
    idle: Idle,
    sleeper: Sleeper,
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
        let (exit, sleeper) = Exit::new(shared, shard, clock, stats, ends);
        Self {
            exit,
            wall: Clock::monotonic(),
            idle,
            sleeper,
        }
    }

    /// The half that never waits, who sleeps until something comes for it, and how it waits.
    pub(crate) fn into_parts(self) -> (Exit<P>, Sleeper, Idle) {
        (self.exit, self.sleeper, self.idle)
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
        self.exit.try_recv()
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
        self.exit.try_recv_batch(max, into)
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
        self.exit.requeue_with(dispatch, between)
    }

    /// Several `prefill_done` and `complete`, published together when it is dropped.
    pub fn feedback(&mut self) -> FeedbackBatch<'_, P> {
        self.exit.feedback()
    }

    /// Waits until something is there, until nothing more will come, or until `deadline`.
    fn wait(&mut self, deadline: Option<Nanos>) {
        let mut patience = Patience::new(self.idle);
        while !self.exit.has_news() {
            let left = deadline.map(|deadline| deadline.saturating_sub(self.wall.now()));
            if left == Some(Nanos(0)) {
                break;
            }
            if !patience.wait() {
                let exit = &self.exit;
                let timeout = left.map(|left| Duration::from_nanos(left.0));
                self.sleeper.sleep_unless(|| exit.has_news(), timeout);
                patience = Patience::new(self.idle);
            }
        }
    }
}
