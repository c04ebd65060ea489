//! A checkpoint of everything, for an arbiter that goes on elsewhere.

use crate::arbiter::Arbiter;
use crate::arbiter::stop::Closing;
use crate::drr::NO_SLOT;
use crate::order::{NONE, SLOT_BITS};
use crate::slab::{Entry, Stage};
use crate::{
    BookingCheckpoint, Checkpoint, ClassCheckpoint, ClassIndex, ClosingCheckpoint,
    EndpointCheckpoint, EndpointIndex, Nanos, OwnSelector, RequestCheckpoint, SlotIndex,
    WorkerCheckpoint,
};

impl<P> Arbiter<P> {
    /// A copy of everything that later decisions depend on, payloads aside:
    /// [`restore`](Self::restore) makes an arbiter of it that gives the same events for the same calls.
    /// Allocates; O(slots + requests x log requests + endpoints + classes).
    ///
    /// # Errors
    /// [`OwnSelector`] if workers are chosen by a selector of the embedder's own.
    pub fn checkpoint(&self) -> Result<Checkpoint, OwnSelector> {
        if self.own_selector {
            return Err(OwnSelector);
        }
        let class = |class: u16| (class != u16::MAX).then_some(ClassIndex(class));
        let groups = usize::from(self.capacities.egress_groups);
        Ok(Checkpoint {
            now: self.now,
            generation: self.generation,
            draws: self.draws.state(),
            next_intake: self.next_seq,
            dispatches: self.dispatches,
            stale_events: self.stale_events,
            unknown_names: self.unknown_names,
            drain_deadline: self.drain_deadline,
            closing: self.save_closing(),
            holds_drained: self.holds_drained,
            rooms: self.rooms[..groups].to_vec(),
            ring: self.ring.iter().map(ClassIndex).collect(),
            cursor: class(self.ring.cursor).filter(|_| !self.is_exact),
            holder: class(self.ring.holder).filter(|_| !self.is_exact),
            classes: self.table.iter().map(|&at| self.save_class(at)).collect(),
            workers: self.save_workers(),
            endpoints: self.save_endpoints(),
            requests: self.save_requests(),
        })
    }

    fn save_closing(&self) -> Option<ClosingCheckpoint> {
        let gathered = match self.closing {
            Closing::NotGathered => return None,
            Closing::Gathering(next) => Some(next),
            Closing::Answering => None,
        };
        let seq = &self.lanes.order.seq;
        let slots = self.impatient.iter();
        let slots = slots.map(|&slot| (SlotIndex(slot), seq[slot as usize]));
        Some(ClosingCheckpoint {
            gathered,
            slots: slots.collect(),
        })
    }

    fn save_class(&self, index: u16) -> ClassCheckpoint {
        let class = &self.classes[usize::from(index)];
        let node = self.ring.node(usize::from(index));
        ClassCheckpoint {
            index: ClassIndex(index),
            policy: class.settings(node.quantum),
            draining: class.draining,
            epoch: class.epoch,
            deficit: node.deficit,
            turn_open: node.open,
            remembered: (node.remembered != NO_SLOT).then_some(SlotIndex(node.remembered)),
            counters: class.counters,
        }
    }

    fn save_workers(&self) -> Vec<WorkerCheckpoint> {
        let workers = self.endpoints.workers().iter();
        let workers = workers.map(|worker| WorkerCheckpoint {
            id: worker.id,
            first_rank: worker.first_rank,
            ranks: worker.ranks,
            max_batched_tokens: worker.max_batched_tokens,
            taints: self.taints.names(worker.taints),
            overloaded: worker.overloaded,
            available: worker.available,
        });
        workers.collect()
    }

    fn save_endpoints(&self) -> Vec<EndpointCheckpoint> {
        let endpoints = self.endpoints.iter();
        let endpoints = endpoints.map(|(number, slot)| EndpointCheckpoint {
            index: EndpointIndex(number),
            endpoint: slot.endpoint,
            reported_tokens: slot.reported,
            shut: self.gates.is_shut(number),
            last_use: slot.last_use(),
            dispatched: slot.dispatched,
            charged_tokens: slot.charged_tokens,
        });
        endpoints.collect()
    }

    fn save_requests(&self) -> Vec<RequestCheckpoint> {
        let live = self.slab.iter().filter(|(_, e)| e.stage() != Stage::Vacant);
        let live = live.map(|(slot, entry)| self.save_request(slot, entry));
        let mut requests: Vec<_> = live.collect();
        requests.sort_unstable_by_key(|request| request.intake);
        requests
    }

    fn save_request(&self, slot: u32, entry: &Entry) -> RequestCheckpoint {
        let header = (entry.extension != NONE).then(|| self.extensions.header(entry.extension));
        let header = header.as_ref();
        let stride = self.capacities.attempts as usize - 1;
        let avoided = &self.avoided[slot as usize * stride..][..stride];
        let avoided = avoided.iter().map_while(|number| number.checked_sub(1));
        let links = self.lanes.order.links[slot as usize];
        let holds = |number| self.endpoints.slot(number).incarnation == links.c;
        RequestCheckpoint {
            ticket: entry.ticket(slot),
            class: ClassIndex(super::settle::index16(entry.class())),
            snapshot: entry.snapshot(),
            submitted_at: Nanos(entry.submitted_at),
            key: entry.rank >> SLOT_BITS,
            intake: self.lanes.order.seq[slot as usize],
            pin: (entry.pin != NONE).then_some(EndpointIndex(entry.pin)),
            deadline: entry.has_deadline().then(|| Nanos(self.deadlines.of(slot))),
            impatience: entry.impatience(),
            attempt: entry.attempt,
            avoided: avoided.map(EndpointIndex).collect(),
            hints: header.map_or_else(Vec::new, |h| self.extensions.hints(h).collect()),
            allow: header
                .filter(|header| header.limited)
                .map(|header| self.extensions.allowed(header).collect()),
            require_taints: header.map_or_else(Vec::new, |h| self.taints.names(h.taints)),
            booking: (entry.stage() == Stage::Dispatched).then(|| BookingCheckpoint {
                index: EndpointIndex(links.a),
                tokens: links.b,
                prefilled: entry.is_prefilled(),
                holds: holds(links.a),
            }),
        }
    }
}
