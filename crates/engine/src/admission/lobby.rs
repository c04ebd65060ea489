//! What the futures, the permits and the couriers of one engine share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tollgate_arbiter::ClassIndex;

use super::Waiter;
use super::cells::{Cells, thread_number, unless_inside};
use super::courier::{deliver, discard, wake};
use super::news::{Fate, Grant};
use super::room::{RoomQueue, Usher};
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
    /// Who invites those who wait for room; in the hands of one courier.
    ushers: Cells<Usher>,
    /// By egress shard: its courier delivers.
    couriers: Box<[AtomicBool]>,
    /// How many do.
    living: AtomicUsize,
}

/// Whether a request may wait for room.
#[derive(Debug)]
pub(super) enum Vetted {
    /// It may; it needs so many extension blocks.
    MayWait { index: u32, blocks: usize },
    /// It was refused for good.
    Refused(Refusal),
    /// Another thread uses a front that may have a free entry.
    Busy,
    /// There is no free entry.
    NoEntry,
}

/// How a request fared at the fronts.
#[derive(Debug)]
pub(super) enum Entered {
    /// It is in the engine.
    Accepted(u32, Ticket, ClassIndex),
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
        (room, usher): (RoomQueue, Usher),
        shared: Arc<Shared>,
    ) -> Self {
        Self {
            waiters,
            fronts: Cells::new(fronts),
            couriers: desks.iter().map(|_| AtomicBool::new(true)).collect(),
            living: AtomicUsize::new(desks.len()),
            desks: Cells::new(desks),
            room,
            ushers: Cells::new([usher]),
            shared,
        }
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
        let (mut entry, mut is_busy, mut is_dry, mut full) = (entry, false, false, None);
        for step in 0..count {
            let Some(mut front) = self.fronts.take((home + step) % count) else {
                is_busy = true;
                continue;
            };
            entry = entry.or_else(|| self.waiters.take(&mut front.stock));
            let Some(index) = entry else {
                is_dry = true;
                continue;
            };
            self.waiters.expect(index, waker);
            let ((), request) = request.replace_payload(Waiter(index));
            match front.shard.submit_with(request, |_| {}) {
                Ok((ticket, class)) => return Entered::Accepted(index, ticket, class),
                Err(refused) => match refused.reason {
                    Refusal::Full { what } => full = Some(what),
                    reason => {
                        drop(front);
                        discard(self.waiters.give_back(index));
                        return Entered::Refused(reason);
                    }
                },
            }
        }
        match (entry, full) {
            // A front without a free entry may have room for another one's.
            (Some(_), _) if is_dry => self.enter(request, entry, waker),
            (entry, _) if is_busy => Entered::Busy(entry),
            (Some(index), Some(what)) => Entered::Full(index, what),
            _ => Entered::NoEntry,
        }
    }

    /// What a request that is to wait for room needs: whether it may, and an entry, from whichever front
    /// has a free one.
    pub(super) fn vet(&self, request: &Request<'_, ()>, entry: Option<u32>) -> Vetted {
        let (home, count) = (thread_number(), self.fronts.len());
        let mut is_busy = false;
        for step in 0..count {
            let Some(mut front) = self.fronts.take((home + step) % count) else {
                is_busy = true;
                continue;
            };
            let blocks = match front.shard.vet(request) {
                Ok(blocks) => blocks,
                Err(reason) => return Vetted::Refused(reason),
            };
            if let Some(index) = entry.or_else(|| self.waiters.take(&mut front.stock)) {
                return Vetted::MayWait { index, blocks };
            }
        }
        if is_busy {
            Vetted::Busy
        } else {
            Vetted::NoEntry
        }
    }

    /// Delivers some of what is there, if nobody else does so now: whoever waits helps.
    pub(super) fn help(&self) {
        let at = thread_number() % self.desks.len();
        // Where the engine is closed, the couriers find that out.
        unless_inside(|| {
            let _ = deliver(self, at);
        });
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

    /// Where a dispatch came out, and its feedback goes in: in one ring, so that it stays in order. The
    /// next one where its courier is gone.
    pub(super) fn desk_of(&self, grant: &Grant) -> usize {
        let count = self.desks.len();
        let home = grant.endpoint.worker.0 % count as u64;
        let home = usize::try_from(home).expect("less than the desks");
        let mut others = (0..count).map(|step| (home + step) % count);
        others.find(|&at| self.has_courier(at)).unwrap_or(home)
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

    /// Has the usher do something, if this courier has it; how much.
    pub(super) fn usher(&self, shard: usize) -> usize {
        if self.shared.room.usher() != shard {
            return 0;
        }
        self.ushers.take(0).map_or(0, |mut usher| usher.turn(self))
    }

    /// Whether the usher would do something, if this courier has it.
    pub(super) fn has_work_for_usher(&self, shard: usize) -> bool {
        let is_usher = self.shared.room.usher() == shard;
        is_usher && self.ushers.take(0).is_none_or(|usher| usher.has_work(self))
    }

    /// Whether the courier of an egress shard delivers.
    pub(super) fn has_courier(&self, shard: usize) -> bool {
        // ORDERING: Acquire with the Release of `leave`.
        self.couriers[shard].load(Ordering::Acquire)
    }

    /// A courier delivers no more: it has found the engine closed, or was dropped. Another one gets the
    /// usher. The last one tells all that still wait: what the engine never took in, what a lost arbiter
    /// left unanswered, and those who wait for room.
    pub(super) fn leave(&self, shard: usize) {
        // ORDERING: Release with the Acquire of `has_courier`.
        self.couriers[shard].store(false, Ordering::Release);
        // ORDERING: Release and Acquire: the last one sees what the others have delivered.
        if self.living.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.waiters.close_all(wake);
            return;
        }
        let mut others = 0..self.couriers.len();
        if self.shared.room.usher() == shard
            && let Some(heir) = others.find(|&other| self.has_courier(other))
        {
            if let Some(mut usher) = self.ushers.take(0) {
                usher.change_hands();
            }
            self.shared.room.hand_on(heir);
            self.room.ring(&self.shared.room);
        }
    }

    /// What a future is told that the engine never took in.
    pub(super) const NEVER_TAKEN_IN: Fate = Fate::Closed;
}
