//! The way out: what the arbiters decide, on its way to the egress shards; and the slots, on their way
//! back to the ingress shards.

use arrayvec::ArrayVec;
use crossbeam_channel::{Receiver, Sender};
use rtrb::{Consumer, Producer, RingBuffer};
use tollgate_arbiter::{Dispatch as Decision, Event, Sink};

use super::outbox::Outbox;
use crate::delivery::Ended;
use crate::journal::Recorder;
use crate::shared::Shared;
use crate::sync::doorbell::Doorbell;
use crate::ticket::{Place, PlaceMap, Ticket};
use crate::wire::{Feedback, Parcel, Rest};

/// How many deliveries, or freed slots, are published at once at most.
const BATCH: usize = 32;

/// All ways out.
#[derive(Debug)]
pub(super) struct Hall<P> {
    pub(super) places: PlaceMap,
    pub(super) outlets: Vec<Outlet<P>>,
    pub(super) outbox: Outbox<P>,
    freed: Vec<Freed>,
    /// Slots went back since that was asked last.
    has_freed: bool,
    /// By egress group: the outlet that its dispatches leave by.
    pub(super) routes: Vec<usize>,
    /// What was left for shards that were gone.
    unclaimed: Vec<Rest<P>>,
    /// By outlet: how many groups leave by it.
    sharing: Vec<usize>,
}

/// The way to one egress shard.
#[derive(Debug)]
pub(super) struct Outlet<P> {
    ring: Producer<Parcel<P>>,
    pub(super) feedback: Consumer<Feedback<P>>,
    /// How many feedback records were taken.
    pub(super) taken: u64,
    rest: Sender<Rest<P>>,
    /// Where the shard's end of the ring comes when the shard is dropped.
    left: Receiver<Consumer<Parcel<P>>>,
    pub(super) bell: Doorbell,
    staged: ArrayVec<Parcel<P>, BATCH>,
    /// Room in the ring when it was asked last, less what was put in since.
    room: usize,
    /// Something was published that the shard may sleep through.
    rings: bool,
    /// The core sleeps and waits for room in the ring.
    pub(super) hungry: bool,
    /// Nobody receives any more.
    pub(super) lost: bool,
    /// How many parcels were put into the ring.
    put: u64,
    /// How many parcels found no room and waited in the outbox.
    pub(super) outboxed: u64,
    /// How often workers behind it were opened again.
    pub(super) reopenings: u64,
}

/// Slots on their way back to one ingress shard.
#[derive(Debug)]
struct Freed {
    ring: Producer<Place>,
    staged: ArrayVec<Place, BATCH>,
}

/// The ends of an egress shard's rings that the core holds.
#[derive(Debug)]
pub(crate) struct OutletEnds<P> {
    pub(crate) ring: Producer<Parcel<P>>,
    pub(crate) feedback: Consumer<Feedback<P>>,
    pub(crate) rest: Sender<Rest<P>>,
    pub(crate) left: Receiver<Consumer<Parcel<P>>>,
    pub(crate) bell: Doorbell,
}

impl<P> Outlet<P> {
    fn new(ends: OutletEnds<P>) -> Self {
        Self {
            room: ends.ring.slots(),
            ring: ends.ring,
            feedback: ends.feedback,
            taken: 0,
            rest: ends.rest,
            left: ends.left,
            bell: ends.bell,
            staged: ArrayVec::new(),
            rings: false,
            hungry: false,
            lost: false,
            put: 0,
            outboxed: 0,
            reopenings: 0,
        }
    }

    pub(super) fn capacity(&self) -> usize {
        self.ring.buffer().capacity()
    }

    /// Asks the ring how much room there is.
    fn refresh(&mut self) {
        self.room = self.ring.slots() - self.staged.len();
    }

    /// How much room opens a full ring again.
    fn quarter(&self) -> usize {
        self.capacity().div_ceil(4)
    }

    /// Whether enough of the ring is free to open it again.
    fn has_quarter(&self) -> bool {
        self.ring.slots() >= self.quarter()
    }

    /// How many deliveries were put into the ring for its shard; 0 once nobody receives any more.
    pub(super) const fn put(&self) -> u64 {
        if self.lost { 0 } else { self.put }
    }

    /// Puts what is staged into the ring, which has room for it.
    fn publish(&mut self) {
        if self.staged.is_empty() {
            return;
        }
        let Ok(chunk) = self.ring.write_chunk_uninit(self.staged.len()) else {
            unreachable!("staged only what there is room for");
        };
        self.put += self.staged.len() as u64;
        chunk.fill_from_iter(self.staged.drain(..));
        self.rings = true;
    }
}

impl<P> Hall<P> {
    pub(super) fn new(
        places: PlaceMap,
        slots: usize,
        outlets: Vec<OutletEnds<P>>,
        freed: Vec<Producer<Place>>,
    ) -> Self {
        let freed = freed.into_iter().map(|ring| Freed {
            ring,
            staged: ArrayVec::new(),
        });
        Self {
            places,
            outbox: Outbox::new(outlets.len(), slots),
            routes: (0..outlets.len()).collect(),
            unclaimed: Vec::with_capacity(outlets.len()),
            sharing: vec![1; outlets.len()],
            outlets: outlets.into_iter().map(Outlet::new).collect(),
            freed: freed.collect(),
            has_freed: false,
        }
    }

    /// How many more deliveries an outlet takes before they wait; asks the ring when little is left.
    pub(super) fn room(&mut self, outlet: usize) -> usize {
        if self.outbox.len(outlet) > 0 {
            return 0;
        }
        let outlet = &mut self.outlets[outlet];
        if outlet.room < outlet.capacity() / 2 {
            outlet.refresh();
        }
        outlet.room
    }

    /// How many dispatches a group of workers may have: its part of its outlet's room.
    pub(super) fn room_for(&mut self, group: usize) -> usize {
        let outlet = self.routes[group];
        match self.sharing[outlet] {
            1 => self.room(outlet),
            sharing => self.room(outlet).div_ceil(sharing),
        }
    }

    /// Whether a group of workers that is shut is to be opened again: a quarter of its outlet's ring is
    /// free.
    pub(super) fn has_reopened(&mut self, group: usize) -> bool {
        let outlet = self.routes[group];
        self.room(outlet) >= self.outlets[outlet].quarter()
    }

    /// Sends a lost outlet's group of workers out by the next one that is not.
    pub(super) fn reroute(&mut self, group: usize) {
        let route = self.routes[group];
        if let Some(next) = self.next_live(route) {
            self.routes[group] = next;
            self.sharing[route] -= 1;
            self.sharing[next] += 1;
        }
    }

    /// Whether there is the room that a sleeping core waits for.
    pub(super) fn has_news_of_room(&self) -> bool {
        self.outlets.iter().enumerate().any(|(at, outlet)| {
            let waits = self.outbox.len(at) > 0;
            outlet.hungry && (outlet.has_quarter() || waits && outlet.ring.slots() > 0)
        })
    }

    /// Whether the handle of a shard was dropped and the core has not noticed yet.
    pub(super) fn has_lost(&self, shared: &Shared) -> bool {
        let mut outlets = self.outlets.iter().zip(&shared.egress);
        outlets.any(|(outlet, flags)| !outlet.lost && flags.is_dropped())
    }

    fn deliver(&mut self, outlet: usize, parcel: Parcel<P>) {
        let frees = matches!(parcel, Parcel::Ended { .. });
        self.pass_on(outlet, parcel, frees);
    }

    /// Puts a parcel on its way; `frees`: its request's slot goes back once it is in a ring (C3).
    fn pass_on(&mut self, outlet: usize, parcel: Parcel<P>, frees: bool) {
        if self.outlets[outlet].lost || self.room(outlet) == 0 {
            self.outlets[outlet].outboxed += 1;
            self.outbox.push(outlet, parcel, frees);
            return;
        }
        self.stage(outlet, parcel, frees);
    }

    fn stage(&mut self, outlet: usize, parcel: Parcel<P>, frees: bool) {
        if let Parcel::Ended { ticket, .. } = &parcel
            && frees
        {
            self.free(*ticket);
        }
        let outlet = &mut self.outlets[outlet];
        outlet.room -= 1;
        outlet.staged.push(parcel);
        if outlet.staged.is_full() {
            outlet.publish();
        }
    }

    /// Gives a slot back to the shard that owns it.
    pub(super) fn free(&mut self, ticket: Ticket) {
        let shard = self.places.shard(self.places.slot(ticket.place));
        let freed = &mut self.freed[shard];
        self.has_freed = true;
        freed.staged.push(ticket.place);
        if freed.staged.is_full() {
            freed.publish();
        }
    }

    /// Where the fate of a request goes: the home of the ingress shard that submitted it, or the next
    /// one that still has somebody to receive.
    fn home(&self, ticket: Ticket) -> usize {
        let count = self.outlets.len();
        let home = self.places.shard(self.places.slot(ticket.place)) % count;
        self.next_live(home).unwrap_or(home)
    }

    /// This outlet, or the next one that still has somebody to receive.
    fn next_live(&self, outlet: usize) -> Option<usize> {
        let count = self.outlets.len();
        let mut outlets = (0..count).map(|step| (outlet + step) % count);
        outlets.find(|&outlet| !self.outlets[outlet].lost)
    }

    pub(super) fn end(&mut self, ended: Ended<P>) {
        let Ended {
            ticket,
            class,
            outcome,
            payload,
        } = ended;
        let parcel = Parcel::Ended {
            ticket,
            class,
            outcome,
            payload,
        };
        self.deliver(self.home(ticket), parcel);
    }

    pub(super) fn give_back(&mut self, ticket: Ticket, payload: P) {
        self.deliver(self.home(ticket), Parcel::Returned { ticket, payload });
    }

    fn dispatch(&mut self, model: usize, decision: Decision<P>) {
        let ticket = self.places.to_engine(model, decision.ticket);
        let group = group_of(decision.endpoint.worker.0, self.outlets.len());
        let parcel = Parcel::Dispatch {
            ticket,
            class: decision.class,
            attempt: decision.attempt,
            rank: decision.endpoint.rank,
            worker: decision.endpoint.worker,
            snapshot: decision.snapshot,
            submitted_at: decision.submitted_at,
            dispatched_at: decision.dispatched_at,
            payload: decision.payload,
        };
        self.deliver(self.routes[group], parcel);
    }

    /// Moves what waits into the rings as far as they have room, publishes what is staged, and wakes
    /// those who may sleep through it; whether slots went back since the last time.
    pub(super) fn settle(&mut self) -> bool {
        for at in 0..self.outlets.len() {
            while self.outbox.len(at) > 0 && !self.outlets[at].lost {
                if self.outlets[at].room == 0 {
                    self.outlets[at].refresh();
                }
                if self.outlets[at].room == 0 {
                    break;
                }
                let Some((parcel, frees)) = self.outbox.pop(at) else {
                    break;
                };
                self.stage(at, parcel, frees);
            }
            let outlet = &mut self.outlets[at];
            outlet.publish();
            if std::mem::take(&mut outlet.rings) {
                let _ = outlet.bell.ring();
            }
        }
        for freed in &mut self.freed {
            freed.publish();
        }
        std::mem::take(&mut self.has_freed)
    }

    /// Shards were dropped: what waits for them goes out elsewhere.
    pub(super) fn lose(&mut self, shared: &Shared) {
        // All of them first, so that nothing goes from one to another.
        for (outlet, flags) in self.outlets.iter_mut().zip(&shared.egress) {
            outlet.lost |= flags.is_dropped();
        }
        for at in 0..self.outlets.len() {
            let waiting = if self.outlets[at].lost {
                self.outbox.len(at)
            } else {
                0
            };
            for _ in 0..waiting {
                let Some((parcel, frees)) = self.outbox.pop(at) else {
                    break;
                };
                self.redirect(parcel, frees);
            }
        }
    }

    /// Whether a shard that was dropped has left its end of the ring.
    pub(super) fn has_leftovers(&self) -> bool {
        self.outlets.iter().any(|outlet| !outlet.left.is_empty())
    }

    /// Sends out elsewhere what was put into a ring while its shard was being dropped. Nothing is put
    /// there any more once the shard is known to be lost.
    pub(super) fn redirect_leftovers(&mut self) {
        for outlet in 0..self.outlets.len() {
            if !self.outlets[outlet].lost {
                continue;
            }
            let Ok(mut ring) = self.outlets[outlet].left.try_recv() else {
                continue;
            };
            while let Ok(parcel) = ring.pop() {
                // What ended and was in a ring has given its slot back.
                self.redirect(parcel, false);
            }
        }
    }

    /// Sends out elsewhere what was for a shard that was dropped. A dispatch is released with all others
    /// of that shard, so that of it only the payload goes out.
    fn redirect(&mut self, parcel: Parcel<P>, frees: bool) {
        match parcel {
            Parcel::Dispatch {
                ticket, payload, ..
            } => self.give_back(ticket, payload),
            Parcel::Ended { ticket, .. } | Parcel::Returned { ticket, .. } => {
                self.pass_on(self.home(ticket), parcel, frees);
            }
        }
    }

    /// The last of it: what still waits is left where the shards find it.
    pub(super) fn close(&mut self) {
        self.settle();
        for at in 0..self.outlets.len() {
            let mut parcels = Vec::with_capacity(self.outbox.len(at));
            while let Some((parcel, _)) = self.outbox.pop(at) {
                parcels.push(parcel);
            }
            let (_, nothing) = RingBuffer::new(0);
            let outlet = &mut self.outlets[at];
            let feedback = std::mem::replace(&mut outlet.feedback, nothing);
            if let Err(unsent) = outlet.rest.try_send(Rest { parcels, feedback }) {
                // Nobody receives any more: kept, to be dropped by whoever drops the core.
                self.unclaimed.push(unsent.into_inner());
            }
        }
    }
}

impl Freed {
    fn publish(&mut self) {
        if self.staged.is_empty() {
            return;
        }
        let Ok(chunk) = self.ring.write_chunk_uninit(self.staged.len()) else {
            unreachable!("the ring has room for every slot of its shard");
        };
        chunk.fill_from_iter(self.staged.drain(..));
    }
}

/// The egress shard of a worker.
fn group_of(worker: u64, shards: usize) -> usize {
    usize::try_from(worker % shards as u64).expect("less than the shards")
}

/// What one arbiter says, on its way out.
pub(super) struct Desk<'a, P> {
    pub(super) hall: &'a mut Hall<P>,
    pub(super) model: usize,
    /// Where decisions are written down, if they are.
    pub(super) journal: Option<&'a mut Recorder>,
}

impl<P> Sink<P> for Desk<'_, P> {
    #[inline]
    fn event(&mut self, event: Event<P>) {
        if let Some(journal) = &mut self.journal {
            journal.event(&event);
        }
        match event {
            Event::Dispatched(decision) => self.hall.dispatch(self.model, decision),
            Event::Ended {
                ticket,
                class,
                outcome,
                payload,
            } => self.hall.end(Ended {
                ticket: self.hall.places.to_engine(self.model, ticket),
                class,
                outcome,
                payload,
            }),
            Event::Queued { .. } | Event::Requeued { .. } => {}
        }
    }
}
