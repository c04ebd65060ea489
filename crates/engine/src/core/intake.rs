//! What comes in: submissions and cancels from the ingress rings, feedback from the egress rings.

use arrayvec::ArrayVec;
use crossbeam_channel::Sender;
use rtrb::{Consumer, Producer};
use tollgate_arbiter::{Outcome, Refused, Request};

use super::Core;
use super::hall::Desk;
use crate::Ended;
use crate::request::REQUIRED_TAINTS_MAX;
use crate::ticket::{Place, Ticket};
use crate::wire::extension::{Block, UNKNOWN_TAINT};
use crate::wire::{Feedback, Intake, Submission};

/// How many records of all ingress rings one turn takes.
const INTAKE_PER_TURN: u64 = 64;
/// How many records of one egress shard's feedback one turn takes.
const FEEDBACK_PER_TURN: u64 = 128;
/// The name that no worker's taint has.
const NO_TAINT: &str = "";

/// The way from one ingress shard.
#[derive(Debug)]
pub(super) struct Inlet<P> {
    pub(super) ring: Consumer<Intake<P>>,
    blocks: Consumer<Block>,
    /// How many records were taken.
    pub(super) taken: u64,
    pub(super) returned: Sender<Consumer<Intake<P>>>,
}

/// The ends of an ingress shard's rings that the core holds.
#[derive(Debug)]
pub(crate) struct InletEnds<P> {
    pub(crate) ring: Consumer<Intake<P>>,
    pub(crate) blocks: Consumer<Block>,
    pub(crate) returned: Sender<Consumer<Intake<P>>>,
    pub(crate) freed: Producer<Place>,
}

impl<P> Inlet<P> {
    pub(super) const fn new(
        ring: Consumer<Intake<P>>,
        blocks: Consumer<Block>,
        returned: Sender<Consumer<Intake<P>>>,
    ) -> Self {
        Self {
            ring,
            blocks,
            taken: 0,
            returned,
        }
    }

    /// When the first record in the ring was put in.
    fn front(&self) -> Option<u64> {
        match self.ring.peek().ok()? {
            Intake::Submit(record) => Some(record.submitted_at.0),
            Intake::Cancel(_, at) => Some(at.0),
        }
    }
}

impl<P> Core<P> {
    /// Takes in what the ingress shards submitted, in the order of their time stamps, so that what
    /// several shards submit stays in arrival order; how many.
    pub(super) fn take_in(&mut self) -> u64 {
        if self.inlets.len() == 1 {
            return self.take_from(0, INTAKE_PER_TURN, u64::MAX);
        }
        let mut taken = 0;
        while taken < INTAKE_PER_TURN {
            let mut first = (u64::MAX, usize::MAX);
            let mut second = u64::MAX;
            for (at, inlet) in self.inlets.iter().enumerate() {
                let Some(stamp) = inlet.front() else { continue };
                if first.1 == usize::MAX || stamp < first.0 {
                    second = first.0;
                    first = (stamp, at);
                } else {
                    second = second.min(stamp);
                }
            }
            if first.1 == usize::MAX {
                break;
            }
            // As long as this shard's next one is not later than the others' first.
            taken += self.take_from(first.1, INTAKE_PER_TURN - taken, second);
        }
        taken
    }

    /// Takes at least one record from an inlet that has one, then more while they are not stamped
    /// later than `until`; at most `max`.
    pub(super) fn take_from(&mut self, inlet: usize, max: u64, until: u64) -> u64 {
        let mut taken = 0;
        while taken < max {
            let from = &mut self.inlets[inlet];
            if taken > 0 && until != u64::MAX && from.front().is_none_or(|stamp| stamp > until) {
                break;
            }
            let Ok(record) = from.ring.pop() else { break };
            from.taken += 1;
            taken += 1;
            match record {
                Intake::Submit(record) => self.submit(inlet, record),
                Intake::Cancel(ticket, _) => self.cancel(ticket),
            }
        }
        taken
    }

    fn submit(&mut self, inlet: usize, record: Submission<P>) {
        let places = self.shared.places;
        let at = places.model(record.ticket.place);
        let model = &mut self.models[at];
        model.touched = true;
        let mut request = record.request();
        // A stamp is a time that has been: the arbiter's time is never before it.
        model.arbiter.set_time(request.submitted_at);
        let mut names = ArrayVec::<&str, REQUIRED_TAINTS_MAX>::new();
        if record.blocks > 0 {
            let blocks = usize::from(record.blocks);
            let Ok(chunk) = self.inlets[inlet].blocks.read_chunk(blocks) else {
                unreachable!("blocks are published before their record");
            };
            self.parts.decode(chunk.into_iter());
            let parts = &self.parts;
            let name = |&id: &u16| match id {
                UNKNOWN_TAINT => NO_TAINT,
                id => &*self.taint_names[usize::from(id)],
            };
            names.extend(parts.taints.iter().map(name));
            request = Request {
                hints: &parts.hints,
                allow: parts.has_allow.then_some(&parts.allow),
                deadline: parts.deadline,
                priority_jump: parts.priority_jump,
                require_taints: &names,
                ..request
            };
        }
        let ticket = places.to_arbiter(record.ticket);
        let class = tollgate_arbiter::ClassIndex(record.class);
        let snapshot = record.snapshot();
        if let Some(journal) = &mut model.journal {
            let now = model.arbiter.now();
            journal.intake(now, ticket, record.class, snapshot, &request);
        }
        let mut desk = Desk {
            hall: &mut self.hall,
            model: at,
            journal: model.journal.as_deref_mut(),
        };
        let submitted =
            model
                .arbiter
                .submit_at(ticket, class, snapshot, &request, record.payload, &mut desk);
        if let Err(Refused { reason, payload }) = submitted {
            // The doorway has tested everything else that an arbiter refuses a request for.
            debug_assert_eq!(reason, tollgate_arbiter::Refusal::Closed);
            self.hall.end(Ended {
                ticket: record.ticket,
                class,
                outcome: Outcome::ShuttingDown,
                payload,
            });
        }
    }

    pub(super) fn cancel(&mut self, ticket: Ticket) {
        let at = self.shared.places.model(ticket.place);
        // Another engine's ticket may name a model that there is not.
        let Some(model) = self.models.get_mut(at) else {
            return;
        };
        model.touched = true;
        let ticket = self.shared.places.to_arbiter(ticket);
        model.record(|journal| journal.cancel(ticket));
        let mut desk = Desk {
            hall: &mut self.hall,
            model: at,
            journal: model.journal.as_deref_mut(),
        };
        // A stale one is counted by the arbiter.
        let _ = model.arbiter.cancel(ticket, &mut desk);
    }

    /// Takes the egress shards' feedback; how many records.
    pub(super) fn take_feedback(&mut self) -> u64 {
        let mut taken = 0;
        for outlet in 0..self.hall.outlets.len() {
            taken += self.take_feedback_from(outlet, FEEDBACK_PER_TURN);
        }
        taken
    }

    pub(super) fn take_feedback_from(&mut self, outlet: usize, max: u64) -> u64 {
        let mut taken = 0;
        while taken < max {
            let Ok(record) = self.hall.outlets[outlet].feedback.pop() else {
                break;
            };
            taken += 1;
            match record {
                Feedback::PrefillDone(receipt) => self.prefill_done(receipt),
                Feedback::Complete(receipt) => {
                    self.catch_up(receipt);
                    self.complete(receipt);
                }
                Feedback::Requeue(receipt, payload) => {
                    self.catch_up(receipt);
                    self.requeue(receipt, payload);
                }
            }
        }
        self.hall.outlets[outlet].taken += taken;
        taken
    }

    pub(super) fn prefill_done(&mut self, receipt: crate::Receipt) {
        let places = self.shared.places;
        let Some(model) = self.models.get_mut(places.model(receipt.ticket.place)) else {
            return;
        };
        model.touched = true;
        let ticket = places.to_arbiter(receipt.ticket);
        model.record(|journal| journal.prefill_done(ticket, receipt.attempt));
        // A stale one is counted by the arbiter.
        let _ = model.arbiter.prefill_done(ticket, receipt.attempt);
    }

    pub(super) fn complete(&mut self, receipt: crate::Receipt) {
        let places = self.shared.places;
        let Some(model) = self.models.get_mut(places.model(receipt.ticket.place)) else {
            return;
        };
        model.touched = true;
        let ticket = places.to_arbiter(receipt.ticket);
        model.record(|journal| journal.complete(ticket, receipt.attempt));
        if model.arbiter.complete(ticket, receipt.attempt).is_ok() {
            self.hall.free(receipt.ticket);
        }
    }

    fn requeue(&mut self, receipt: crate::Receipt, payload: P) {
        let places = self.shared.places;
        let at = places.model(receipt.ticket.place);
        let Some(model) = self.models.get_mut(at) else {
            self.hall.give_back(receipt.ticket, payload);
            return;
        };
        model.touched = true;
        let ticket = places.to_arbiter(receipt.ticket);
        model.record(|journal| journal.requeue(ticket, receipt.attempt));
        let mut desk = Desk {
            hall: &mut self.hall,
            model: at,
            journal: model.journal.as_deref_mut(),
        };
        let requeued = model
            .arbiter
            .requeue(ticket, receipt.attempt, payload, &mut desk);
        if let Err(stale) = requeued {
            self.hall.give_back(receipt.ticket, stale.payload);
        }
    }
}
