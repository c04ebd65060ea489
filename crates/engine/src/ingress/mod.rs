//! Ingress shards: where requests come in.

mod doorway;
mod slots;

use std::sync::Arc;

use arrayvec::ArrayVec;
use crossbeam_channel::Receiver;
use rtrb::{Consumer, Producer};
use tollgate_arbiter::ClassIndex;

use self::doorway::Doorway;
pub(crate) use self::slots::Slots;
use crate::clock::Clock;
use crate::request::{Refusal, Refused, Request};
use crate::shared::Shared;
use crate::stats::IngressStats;
use crate::sync::doorbell::{Answer, Doorbell};
use crate::sync::mail::Release;
use crate::ticket::Ticket;
use crate::wire::extension::Block;
use crate::wire::{Intake, Submission};

/// How many records of a batch are published at once at most.
const BATCH: usize = 32;

/// One doorway of an engine: takes requests in, for the thread that owns it.
///
/// It prices a request, finds its class, stamps the time and writes one record into a ring of its own,
/// all on the caller's thread and without waiting for anybody. `Send`, not `Sync`: one thread uses it
/// at a time; several threads take several shards. Dropping it leaves what it submitted untouched.
///
/// ```compile_fail
/// fn shared_between_threads<T: Sync>() {}
/// shared_between_threads::<tollgate::IngressShard<u64>>();
/// ```
#[derive(Debug)]
pub struct IngressShard<P> {
    doorway: Doorway,
    clock: Clock,
    bell: Doorbell,
    ring: Producer<Intake<P>>,
    /// Where the core's end of the ring comes back when the core is gone.
    returned: Receiver<Consumer<Intake<P>>>,
    /// The core's end of the ring, once it came back.
    untaken: Option<Consumer<Intake<P>>>,
}

/// What a shard has room for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Space {
    slots: usize,
    ring: usize,
    blocks: usize,
    extension_ring: usize,
}

impl Space {
    /// For how many requests without extension blocks there is room.
    pub(crate) fn requests(&self) -> usize {
        self.slots.min(self.ring)
    }

    /// Takes the room for a request with so many extension blocks out, if it is there.
    pub(crate) fn take(&mut self, blocks: usize) -> bool {
        let has_room = self.slots > 0
            && self.ring > 0
            && self.blocks >= blocks
            && self.extension_ring >= blocks;
        if has_room {
            self.slots -= 1;
            self.ring -= 1;
            self.blocks -= blocks;
            self.extension_ring -= blocks;
        }
        has_room
    }
}

/// Places in a submission where the core may get on in between; only tests stop there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seam {
    /// All is settled, and the record not yet in the ring.
    Settled,
    /// The record is in the ring, and the bell not yet rung.
    Published,
    /// The core is gone, and its last word is to be waited for.
    Gone,
}

/// The ends of an ingress shard's rings that the shard holds.
#[derive(Debug)]
pub(crate) struct IngressEnds<P> {
    pub(crate) ring: Producer<Intake<P>>,
    pub(crate) blocks: Producer<Block>,
    pub(crate) slots: Slots,
    pub(crate) returned: Receiver<Consumer<Intake<P>>>,
}

impl<P> IngressShard<P> {
    pub(crate) fn new(
        shared: Arc<Shared>,
        shard: usize,
        clock: Clock,
        stats: IngressStats,
        ends: IngressEnds<P>,
    ) -> Self {
        Self {
            bell: shared.bell.clone(),
            doorway: Doorway::new(shared, shard, ends.slots, ends.blocks, stats),
            clock,
            ring: ends.ring,
            returned: ends.returned,
            untaken: None,
        }
    }

    /// Submits one request; its outcome comes out of an egress shard (S8). The arbiter sees it at
    /// once: a lone request waits for no other. Allocates nothing, and waits for nobody; only where the
    /// engine closes in this very moment it waits for the arbiter's last turn.
    ///
    /// # Errors
    /// The request comes back whole if it is invalid, the engine is closed, or there is no room; an
    /// earlier reason of this list wins. Nothing has happened then.
    #[inline]
    #[expect(clippy::result_large_err, reason = "the request comes back whole")]
    pub fn try_submit<'a>(
        &mut self,
        request: Request<'a, P>,
    ) -> Result<Ticket, Refused<Request<'a, P>>> {
        let submitted = self.submit_with(request, |_| {});
        submitted.map(|(ticket, _)| ticket)
    }

    /// The same, and tells the request's class as well; `between` is called at each place where the core may
    /// get on in between.
    #[inline]
    #[expect(clippy::result_large_err, reason = "the request comes back whole")]
    pub(crate) fn submit_with<'a>(
        &mut self,
        request: Request<'a, P>,
        mut between: impl FnMut(Seam),
    ) -> Result<(Ticket, ClassIndex), Refused<Request<'a, P>>> {
        let now = self.clock.now();
        let settled = if self.ring.is_full() {
            Err(self.doorway.without_room(&request))
        } else {
            self.doorway.settle(&request, now)
        };
        self.doorway.announce();
        let settled = match settled {
            Ok(settled) => settled,
            Err(reason) => {
                self.doorway.count(reason);
                return Err(Refused { reason, request });
            }
        };
        between(Seam::Settled);
        let (record, request) = Submission::new(request, &settled);
        let Ok(()) = self.ring.push(Intake::Submit(record)) else {
            unreachable!("only this shard takes the room that there was");
        };
        between(Seam::Published);
        if self.bell.ring() == Answer::Gone {
            between(Seam::Gone);
            let submitted = self.submitted_too_late(settled.ticket, request);
            return submitted.map(|ticket| (ticket, ClassIndex(settled.class)));
        }
        self.doorway.stats.accepted(1);
        Ok((settled.ticket, ClassIndex(settled.class)))
    }

    /// Submits requests until the iterator ends, with one time stamp and one publication for up to 32
    /// of them; `each` hears of every request what [`try_submit`](Self::try_submit) would have
    /// answered, in order. What has been accepted when the engine stops meanwhile, and was never taken
    /// in, comes back through [`take_back`](Self::take_back).
    ///
    /// If the iterator or `each` panics, the requests that were accepted before are submitted. A
    /// request may still be held back when `each` hears of it: do not cancel it through another handle
    /// before this call returns.
    pub fn submit_batch<'a>(
        &mut self,
        requests: impl IntoIterator<Item = Request<'a, P>>,
        mut each: impl FnMut(Result<Ticket, Refused<Request<'a, P>>>),
    ) {
        let mut batch = Batch {
            room: self.ring.slots(),
            doorway: &mut self.doorway,
            ring: &mut self.ring,
            bell: &self.bell,
            records: ArrayVec::new(),
        };
        let mut now = self.clock.now();
        for request in requests {
            if batch.is_full() {
                batch.publish();
                now = self.clock.now();
            }
            let settled = if batch.room == 0 {
                Err(batch.doorway.without_room(&request))
            } else {
                batch.doorway.settle(&request, now)
            };
            match settled {
                Ok(settled) => {
                    batch
                        .records
                        .push(Intake::Submit(Submission::new(request, &settled).0));
                    batch.doorway.stats.accepted(1);
                    each(Ok(settled.ticket));
                }
                Err(reason) => {
                    // What is held back here may be what there is no room for.
                    batch.publish();
                    batch.doorway.count(reason);
                    each(Err(Refused { reason, request }));
                }
            }
        }
    }

    /// Asks for a waiting request to be cancelled (S11.2); its outcome, `cancelled` unless it was
    /// dispatched or ended before, comes out of an egress shard. A stale ticket is counted and changes
    /// nothing. Never fails: where the ring is full, or another shard submitted the request, the wish
    /// takes another way.
    pub fn cancel(&mut self, ticket: Ticket) {
        let shared = &self.doorway.shared;
        let places = shared.places;
        // What is in another shard's ring must not be overtaken by what is in this one's.
        let is_own = places.shard(places.slot(ticket.place)) == self.doorway.shard;
        let record = Intake::Cancel(ticket, self.clock.now());
        if !is_own || self.ring.push(record).is_err() {
            shared.post(ticket, 0, Release::Cancel);
            self.doorway.stats.cancelled_by_mail();
        }
        let _ = self.bell.ring();
    }

    /// Takes notice of control calls that returned meanwhile, as every submission does. A shard that
    /// submits nothing for long should do this now and then: a class that a reload took out of the
    /// policy keeps its place until every shard has noticed (S3.7).
    pub fn refresh(&mut self) {
        self.doorway.refresh();
        let _ = self.bell.ring();
    }

    /// What there is room for now, in requests of a model that there is.
    pub(crate) fn space(&mut self, model: usize) -> Space {
        let (slots, blocks) = self.doorway.slots.free(model);
        Space {
            slots,
            ring: self.ring.slots(),
            blocks,
            extension_ring: self.doorway.blocks.slots(),
        }
    }

    /// Whether a request may be submitted once there is room; the extension blocks that it takes.
    pub(crate) fn vet<Q>(&self, request: &Request<'_, Q>) -> Result<usize, Refusal> {
        let blocks = self.doorway.check(request)?;
        if self.doorway.shared.is_closed() {
            return Err(Refusal::Closed);
        }
        Ok(blocks)
    }

    /// Once the engine is closed: the submissions of this shard that were accepted but never taken
    /// in, in order; each with its payload, and without any other outcome. `None`: there are no more.
    /// Waits for the arbiter's last turn if that is still going on.
    pub fn take_back(&mut self) -> Option<(Ticket, P)> {
        if self.untaken.is_none() {
            if !self.doorway.shared.bell.is_gone() {
                return None;
            }
            self.untaken = self.returned.recv().ok();
        }
        let untaken = self.untaken.as_mut()?;
        loop {
            match untaken.pop().ok()? {
                Intake::Submit(record) => return Some((record.ticket, record.payload)),
                Intake::Cancel(..) => {}
            }
        }
    }

    /// The record was published while the core closed: either the core found it in its last look, then
    /// it is answered like all others, or it is still in the ring, then it comes back.
    #[cold]
    #[expect(clippy::result_large_err, reason = "the request comes back whole")]
    fn submitted_too_late<'a>(
        &mut self,
        ticket: Ticket,
        request: Request<'a, ()>,
    ) -> Result<Ticket, Refused<Request<'a, P>>> {
        match self.take_back() {
            // Only this record can be there: whatever came before was published before the close.
            Some((_, payload)) => {
                self.doorway.withdraw(ticket);
                self.doorway.count(Refusal::Closed);
                let ((), request) = request.replace_payload(payload);
                let reason = Refusal::Closed;
                Err(Refused { reason, request })
            }
            None => {
                self.doorway.stats.accepted(1);
                Ok(ticket)
            }
        }
    }
}

/// Records that are published together; also when the iterator or the listener panics.
struct Batch<'a, P> {
    doorway: &'a mut Doorway,
    ring: &'a mut Producer<Intake<P>>,
    bell: &'a Doorbell,
    records: ArrayVec<Intake<P>, BATCH>,
    /// How many records the ring had room for when that was asked last.
    room: usize,
}

impl<P> Batch<'_, P> {
    fn is_full(&self) -> bool {
        self.records.len() == self.room.min(BATCH)
    }

    fn publish(&mut self) {
        if !self.records.is_empty() {
            let Ok(chunk) = self.ring.write_chunk_uninit(self.records.len()) else {
                unreachable!("only this shard takes the room that it asked for");
            };
            chunk.fill_from_iter(self.records.drain(..));
            self.doorway.announce();
            // A closed engine has these records brought back by `take_back`.
            let _ = self.bell.ring();
        }
        self.room = self.ring.slots();
    }
}

impl<P> Drop for Batch<'_, P> {
    fn drop(&mut self) {
        self.publish();
    }
}
