//! Couriers: who brings dispatches and outcomes to the futures that wait for them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;

use arrayvec::ArrayVec;

use super::Waiter;
use super::lobby::Lobby;
use super::news::{Fate, Grant};
use super::waiters::Waiters;
use crate::idle::{Idle, Patience};
use crate::sync::doorbell::Sleeper;
use crate::ticket::Receipt;
use crate::{Closed, Delivery};

/// How many deliveries are made at once at most.
const BATCH: usize = 32;

/// Brings what comes out of one egress shard to the futures that wait for it, and wakes them.
///
/// [`Builder::build_admission`](crate::Builder::build_admission) starts a thread for each; one that was
/// built by hand is turned by whoever holds it. Futures that are polled meanwhile help; without its
/// courier nobody is sure to be woken. One that is dropped while the engine runs is a lost egress shard
/// ([`EgressShard`](crate::EgressShard)).
#[derive(Debug)]
pub struct Courier {
    lobby: Arc<Lobby>,
    shard: usize,
    sleeper: Sleeper,
    idle: Idle,
    closed: Option<Closed>,
}

impl Courier {
    pub(super) fn new(lobby: Arc<Lobby>, shard: usize, (sleeper, idle): (Sleeper, Idle)) -> Self {
        Self {
            lobby,
            shard,
            sleeper,
            idle,
            closed: None,
        }
    }

    /// Delivers until the engine is closed; why it is.
    pub fn run(&mut self) -> Closed {
        let mut patience = Patience::new(self.idle);
        loop {
            match self.turn() {
                Ok(0) if patience.wait() => {}
                Ok(0) => {
                    self.sleep();
                    patience = Patience::new(self.idle);
                }
                Ok(_) => patience = Patience::new(self.idle),
                Err(closed) => return closed,
            }
        }
    }

    /// Delivers at most 32 of what is there, and lets in some of those who wait for room; how many of
    /// both. Never waits.
    ///
    /// # Errors
    /// The engine is closed, and everything was delivered; no future is left waiting once every courier
    /// has found that.
    pub fn turn(&mut self) -> Result<usize, Closed> {
        if let Some(closed) = self.closed {
            return Err(closed);
        }
        match deliver(&self.lobby, self.shard) {
            Ok(delivered) => Ok(delivered + self.lobby.usher(self.shard)),
            Err(closed) => {
                self.closed = Some(closed);
                // From here on a ring for it is answered, and goes to the next one.
                self.sleeper.close();
                self.lobby.leave(self.shard);
                Err(closed)
            }
        }
    }

    fn sleep(&mut self) {
        let (lobby, shard) = (&self.lobby, self.shard);
        let has_work = || {
            let desk = lobby.desks.take(shard);
            desk.is_none_or(|desk| desk.has_news()) || lobby.has_work_for_usher(shard)
        };
        self.sleeper.sleep_unless(has_work, None);
    }
}

impl Drop for Courier {
    fn drop(&mut self) {
        if self.closed.is_some() {
            return;
        }
        // The engine runs on without it, and is to know: it releases what was dispatched here.
        let mut desk = loop {
            if let Some(desk) = self.lobby.desks.remove(self.shard) {
                break desk;
            }
            // Who uses it puts it back in a moment.
            std::thread::yield_now();
        };
        let waiters = &self.lobby.waiters;
        desk.leave(|delivery| {
            let mut round = Round::new(waiters);
            round.take(&delivery);
            round.wake();
        });
        self.sleeper.close();
        self.lobby.leave(self.shard);
    }
}

/// Moves some of what came out of an egress shard to the waiters, if nobody else does so now; how many.
pub(super) fn deliver(lobby: &Lobby, shard: usize) -> Result<usize, Closed> {
    let mut round = Round::new(&lobby.waiters);
    let Some(mut desk) = lobby.desks.take(shard) else {
        return Ok(0);
    };
    let delivered = desk.try_recv_batch(BATCH, &mut round);
    if !round.unwanted.is_empty() {
        let mut feedback = desk.feedback();
        for receipt in round.unwanted.drain(..) {
            feedback.complete(receipt);
        }
    }
    // Before anybody is woken: who is may want it.
    drop(desk);
    round.wake();
    delivered
}

/// Wakes a task. Should that panic, it concerns nobody but that task.
pub(super) fn wake(waker: Waker) {
    contain(|| waker.wake());
}

/// Drops a waker that is of no use any more; the same of a panic.
pub(super) fn discard(waker: Option<Waker>) {
    if let Some(waker) = waker {
        contain(|| drop(waker));
    }
}

fn contain(run: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
        // Dropping what it carries might panic as well.
        std::mem::forget(panic);
    }
}

/// One batch of deliveries.
struct Round<'a> {
    waiters: &'a Waiters,
    wakers: ArrayVec<Waker, BATCH>,
    /// Wakers of futures that are gone.
    spent: ArrayVec<Waker, BATCH>,
    /// Dispatches whose futures are gone.
    unwanted: ArrayVec<Receipt, BATCH>,
}

impl Extend<Delivery<Waiter>> for Round<'_> {
    fn extend<T: IntoIterator<Item = Delivery<Waiter>>>(&mut self, deliveries: T) {
        for delivery in deliveries {
            self.take(&delivery);
        }
    }
}

impl<'a> Round<'a> {
    fn new(waiters: &'a Waiters) -> Self {
        Self {
            waiters,
            wakers: ArrayVec::new(),
            spent: ArrayVec::new(),
            unwanted: ArrayVec::new(),
        }
    }

    fn take(&mut self, delivery: &Delivery<Waiter>) {
        let (Waiter(index), is_wanted) = match delivery {
            Delivery::Dispatch(dispatch) => {
                let (waiter, grant) = (dispatch.payload, Grant::of(dispatch));
                let is_wanted = self.waiters.grant(waiter.0, grant);
                if !is_wanted {
                    self.unwanted.push(grant.receipt());
                }
                (waiter, is_wanted)
            }
            Delivery::Ended(ended) => {
                let fate = Fate::Ended(ended.class, ended.outcome);
                (ended.payload, self.waiters.end(ended.payload.0, fate))
            }
            // A requeue that came after the close, or a dispatch of a courier that is gone.
            Delivery::Returned { payload, .. } => {
                (*payload, self.waiters.end(payload.0, Lobby::NEVER_TAKEN_IN))
            }
        };
        if is_wanted {
            self.wakers.extend(self.waiters.waker(index));
        } else {
            self.spent.extend(self.waiters.give_back(index));
        }
    }

    fn wake(self) {
        self.wakers.into_iter().for_each(wake);
        self.spent
            .into_iter()
            .for_each(|waker| discard(Some(waker)));
    }
}
