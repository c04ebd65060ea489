//! What the futures, the permits and the couriers of one engine share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Waiter;
use super::cells::{Cells, Held, thread_number};
use super::courier::{deliver, wake};
use super::news::{Fate, Grant};
use super::room::RoomQueue;
use super::waiters::{Stock, Waiters};
use crate::egress::Exit;
use crate::shared::Shared;
use crate::sync::mail::Release;
use crate::ticket::Ticket;
use crate::{IngressShard, Refusal, Request, Room};

/// One way in: an ingress shard, and the free entries that belong to it.
#[derive(Debug)]
pub(super) struct Front {
    pub(super) shard: IngressShard<Waiter>,
    pub(super) stock: Stock,
}

/// Everything.
#[derive(Debug)]
pub(super) struct Lobby {
    pub(super) waiters: Waiters,
    pub(super) fronts: Cells<Front>,
    pub(super) desks: Cells<Exit<Waiter>>,
    pub(super) room: RoomQueue,
    pub(super) shared: Arc<Shared>,
    /// Couriers that have not found the engine closed yet.
    couriers: AtomicUsize,
}

/// How a request fared at the fronts.
#[derive(Debug)]
pub(super) enum Entered {
    /// It is in the engine.
    Accepted(u32, Ticket),
    /// No front has room.
    Full(u32, Room),
    /// Another thread uses a front that may have room, for a moment.
    Busy(Option<u32>),
    /// It was refused for good.
    Refused(Refusal),
    /// There is no free entry.
    NoEntry,
}

impl Lobby {
    pub(super) fn new(
        waiters: Waiters,
        fronts: Vec<Front>,
        desks: Vec<Exit<Waiter>>,
        room: RoomQueue,
        shared: Arc<Shared>,
    ) -> Self {
        Self {
            waiters,
            fronts: Cells::new(fronts),
            couriers: AtomicUsize::new(desks.len()),
            desks: Cells::new(desks),
            room,
            shared,
        }
    }

    /// The front of the calling thread, or else another that nobody uses now.
    pub(super) fn any_front(&self) -> Option<Held<'_, Front>> {
        let (home, count) = (thread_number(), self.fronts.len());
        (0..count).find_map(|step| self.fronts.take((home + step) % count))
    }

    /// Tries every front, the calling thread's own first, to submit a request for an entry, or for a new
    /// one. The entry's waker is `waker` then.
    pub(super) fn enter(
        &self,
        request: &Request<'_, ()>,
        entry: Option<u32>,
        waker: &std::task::Waker,
    ) -> Entered {
        let (home, count) = (thread_number(), self.fronts.len());
        let (mut entry, mut is_busy, mut full) = (entry, false, None);
        for step in 0..count {
            let Some(mut front) = self.fronts.take((home + step) % count) else {
                is_busy = true;
                continue;
            };
            entry = entry.or_else(|| self.waiters.take(&mut front.stock));
            let Some(index) = entry else { continue };
            self.waiters.expect(index, waker);
            let ((), request) = request.replace_payload(Waiter(index));
            match front.shard.try_submit(request) {
                Ok(ticket) => return Entered::Accepted(index, ticket),
                Err(refused) => match refused.reason {
                    Refusal::Full { what } => full = Some(what),
                    reason => {
                        self.waiters.give_back(index);
                        return Entered::Refused(reason);
                    }
                },
            }
        }
        match (entry, full) {
            (entry, _) if is_busy => Entered::Busy(entry),
            (Some(index), Some(what)) => Entered::Full(index, what),
            _ => Entered::NoEntry,
        }
    }

    /// Delivers some of what is there, if nobody else does so now: whoever waits helps.
    pub(super) fn help(&self) {
        let at = thread_number() % self.desks.len();
        // Where the engine is closed, the couriers find that out.
        let _ = deliver(self, at);
    }

    /// A dispatch is over. By the ring if nobody uses it now, else by mail.
    pub(super) fn complete(&self, grant: &Grant) {
        self.release(grant, Release::Complete);
    }

    /// A dispatch's prefill is over; the same way.
    pub(super) fn prefill_done(&self, grant: &Grant) {
        self.release(grant, Release::PrefillDone);
    }

    fn release(&self, grant: &Grant, what: Release) {
        let receipt = grant.receipt();
        match self.desks.take(self.desk_of(grant)) {
            Some(mut desk) if what == Release::Complete => desk.feedback().complete(receipt),
            Some(mut desk) => desk.feedback().prefill_done(receipt),
            None => {
                self.shared.post(receipt.ticket, receipt.attempt, what);
                let _ = self.shared.bell.ring();
            }
        }
    }

    /// Where a dispatch came out, and its feedback goes in: in one ring, so that it stays in order.
    pub(super) fn desk_of(&self, grant: &Grant) -> usize {
        let desks = self.desks.len() as u64;
        usize::try_from(grant.endpoint.worker.0 % desks).expect("less than the desks")
    }

    /// A waiting request is no longer wanted.
    pub(super) fn cancel(&self, ticket: Ticket) {
        let places = self.shared.places;
        match self.fronts.take(places.shard(places.slot(ticket.place))) {
            Some(mut front) => front.shard.cancel(ticket),
            None => {
                self.shared.post(ticket, 0, Release::Cancel);
                let _ = self.shared.bell.ring();
            }
        }
    }

    /// A courier has found the engine closed and has delivered everything. The last one tells all that
    /// still wait: what the engine never took in, what a lost arbiter left unanswered, and those who
    /// wait for room.
    pub(super) fn leave(&self) {
        self.waiters.close();
        // ORDERING: Release and Acquire: the last one sees what the others have delivered.
        if self.couriers.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.waiters.close_all(wake);
        }
    }

    /// What a future is told that the engine never took in.
    pub(super) const NEVER_TAKEN_IN: Fate = Fate::Closed;
}
