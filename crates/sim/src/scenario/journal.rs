//! A machine that goes on from a journal's checkpoint, and a journal's operations on it.

use std::sync::Arc;

use tollgate_arbiter::{
    self as arbiter, Arbiter, Capacities, Checkpoint, ClassIndex, CostSnapshot, Nanos, Request,
    RestoreError, SlotIndex, Ticket, TurnBudget, WorkerId,
};
use tollgate_policy::Profile;

use super::ArbiterMachine;
use super::names::Names;
use super::translate::{hint_of, to_arbiter};
use crate::protocol::{Amendment, Event, Intake, Machine, OpName, Subject};

/// How a journal names the requests of one arbiter: by the places of an engine, which number the slots
/// of all its models.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    model: u8,
    slot_bits: u32,
}

impl Places {
    /// The places of a model whose arbiter has so many slots.
    fn new(model: u8, slots: u32) -> Self {
        Self {
            model,
            // Wider than any number of slots: a wrong one is refused later.
            slot_bits: u64::from(slots.max(1)).next_power_of_two().ilog2(),
        }
    }

    fn name(self, ticket: Ticket) -> String {
        let place = u64::from(self.model) << self.slot_bits | u64::from(ticket.slot.0);
        format!("{place}.{}", ticket.generation)
    }

    /// The arbiter's ticket of a place.
    fn slot_of(self, ticket: Ticket) -> Ticket {
        let mask = (1_u64 << self.slot_bits) - 1;
        let slot = u32::try_from(u64::from(ticket.slot.0) & mask).expect("not more than it was");
        Ticket {
            slot: SlotIndex(slot),
            ..ticket
        }
    }
}

/// A ticket's parts, its place as the slot.
pub(crate) fn parse_ticket(id: &str) -> Option<Ticket> {
    let (place, generation) = id.split_once('.')?;
    let is_plain = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_plain(place) || !is_plain(generation) {
        return None;
    }
    Some(Ticket {
        slot: SlotIndex(place.parse().ok()?),
        generation: generation.parse().ok()?,
    })
}

impl ArbiterMachine {
    /// A machine whose arbiter goes on where that of `checkpoint` stood, for a model of an engine:
    /// its requests are called by their tickets.
    ///
    /// # Errors
    /// The checkpoint does not fit profile or capacities, or contradicts itself.
    pub fn restored(
        profile: &Profile,
        capacities: Capacities,
        model: u8,
        checkpoint: &Checkpoint,
    ) -> Result<Self, RestoreError> {
        let places = Places::new(model, capacities.slots);
        let mut checkpoint = checkpoint.clone();
        for request in &mut checkpoint.requests {
            request.ticket = places.slot_of(request.ticket);
        }
        let mut names = Names::default();
        for request in &checkpoint.requests {
            if request.ticket.slot.0 < capacities.slots {
                let number = names.add(&places.name(request.ticket), request.ticket);
                names.set_attempt(number, request.attempt);
            }
        }
        let profile = Arc::new(profile.clone());
        let arbiter = Arbiter::restore(&profile, capacities, &checkpoint, |ticket| {
            names.number_of_ticket(ticket)
        })?;
        let mut machine = Self::around(arbiter, None, names);
        machine.places = Some(places);
        machine.resume(&checkpoint);
        Ok(machine)
    }

    /// The same machine with its arbiter put back together out of a checkpoint of itself.
    ///
    /// # Panics
    /// If an arbiter's own checkpoint cannot be restored: a fault in the arbiter.
    #[must_use]
    pub fn resumed(&self) -> Self {
        let checkpoint = self.checkpoint();
        let (profile, capacities) = (self.arbiter.profile(), self.arbiter.capacities());
        let arbiter = Arbiter::restore(profile, capacities, &checkpoint, |ticket| {
            self.names.number_of_ticket(ticket)
        });
        let arbiter = arbiter.expect("a checkpoint of its own can be restored");
        let mut machine = Self::around(arbiter, self.slots.clone(), self.names.clone());
        machine.places = self.places;
        machine.resume(&checkpoint);
        machine
    }

    /// A checkpoint of the arbiter.
    ///
    /// # Panics
    /// Never: its selectors are the shipped ones.
    #[must_use]
    pub fn checkpoint(&self) -> Checkpoint {
        let checkpoint = self.arbiter.checkpoint();
        checkpoint.expect("a scenario has no selector of its own")
    }

    fn resume(&mut self, checkpoint: &Checkpoint) {
        let given =
            |worker: &arbiter::WorkerCheckpoint| Some((worker.id.0, worker.max_batched_tokens?));
        self.max_batched = checkpoint.workers.iter().filter_map(given).collect();
        self.drain_until = checkpoint.drain_deadline;
        self.learn_class_names();
    }

    /// Whether there is such an egress group.
    pub(super) fn check_group(&self, group: u16) -> Result<(), String> {
        let groups = self.arbiter.capacities().egress_groups;
        if group < groups {
            return Ok(());
        }
        Err(format!(
            "field `group` is {group}; it must be below {groups}"
        ))
    }

    /// Sets the time and nothing else (S11.1).
    pub fn set_time(&mut self, now: Nanos) {
        self.arbiter.set_time(now);
    }

    /// A request as an engine's arbiter took it in. Only of a machine that was
    /// [`restored`](Self::restored).
    pub fn intake(&mut self, intake: &Intake, out: &mut Vec<Event>) {
        let ticket = self.places.zip(parse_ticket(&intake.id));
        let Some(ticket) = ticket.map(|(places, ticket)| places.slot_of(ticket)) else {
            let error = format!("{:?} is no ticket of a restored machine", intake.id);
            return out.push(self.invalid(error));
        };
        // A stamp is a time that has been.
        self.arbiter.set_time(Nanos(intake.at_ns));
        if self.explaining && self.has_limits() {
            self.explain_limits(&intake.id, out, |machine, events| {
                machine.take_in(intake, ticket, events);
            });
        } else {
            self.take_in(intake, ticket, out);
        }
    }

    fn take_in(&mut self, intake: &Intake, ticket: Ticket, out: &mut Vec<Event>) {
        let hints: Vec<_> = intake.hints.iter().copied().map(hint_of).collect();
        let allow = intake.allow.as_ref();
        let allow: Option<Vec<_>> = allow.map(|ids| ids.iter().copied().map(WorkerId).collect());
        let taints: Vec<&str> = intake.require_taints.iter().map(String::as_str).collect();
        let request = Request {
            raw_tokens: intake.isl,
            cached_tokens: intake.cached,
            hints: &hints,
            strict_priority: intake.strict_priority,
            priority_jump: intake.priority_jump,
            pin: intake.pin.map(to_arbiter),
            allow: allow.as_deref(),
            require_taints: &taints,
            deadline: intake.deadline_ns.map(Nanos),
            may_wait: intake.may_wait,
            submitted_at: Nanos(intake.at_ns),
        };
        let snapshot = CostSnapshot {
            raw: intake.isl,
            cached: intake.cached,
        };
        let is_free = self
            .names
            .is_free(&intake.id, ticket, self.arbiter.capacities().slots);
        if !is_free {
            let error = format!("ticket {:?} is used twice, or of no slot", intake.id);
            return out.push(self.invalid(error));
        }
        let number = self.names.add(&intake.id, ticket);
        let class = ClassIndex(intake.class);
        let reported = &mut self.reported;
        let taken =
            self.arbiter
                .submit_at(ticket, class, snapshot, &request, number, &mut |event| {
                    reported.push(event);
                });
        self.report(out);
        if let Err(refused) = taken {
            out.push(match refused.reason {
                arbiter::Refusal::Closed => Event::Closed {
                    now_us: self.now_us(),
                    id: intake.id.clone(),
                },
                reason => self.invalid(reason.to_string()),
            });
        }
    }

    /// A turn within a budget; with `dry` if it ran dry.
    pub fn turn(&mut self, dispatches: u64, removals: u64, out: &mut Vec<Event>) {
        let budget = TurnBudget {
            dispatches,
            removals,
        };
        if self.explaining {
            return self.turn_explained(budget, out);
        }
        let reported = &mut self.reported;
        let turn = self.arbiter.turn(budget, &mut |event| reported.push(event));
        self.report(out);
        self.tell_dry(turn, out);
    }

    /// Changes a known worker's record in one field.
    pub fn amend(&mut self, id: u64, change: &Amendment, out: &mut Vec<Event>) {
        let worker = WorkerId(id);
        let amended = match change {
            Amendment::Overloaded(overloaded) => self.arbiter.set_overloaded(worker, *overloaded),
            Amendment::Available(available) => self.arbiter.set_available(worker, *available),
            Amendment::Taints(taints) => {
                let taints: Vec<&str> = taints.iter().map(String::as_str).collect();
                match self.arbiter.set_taints(worker, &taints) {
                    Ok(amended) => amended,
                    Err(full) => return out.push(self.invalid(full.to_string())),
                }
            }
        };
        if amended.is_err() {
            out.push(Event::Stale {
                now_us: self.now_us(),
                op: OpName::Amend,
                subject: Subject::Worker(id),
            });
        }
    }

    /// Completes what was dispatched to the workers of a lost egress group.
    pub fn abandon(&mut self, group: u16, from: u32, budget: u32) {
        let slots = &mut self.slots;
        let freed = |ticket| {
            if let Some(slots) = slots {
                slots.put(ticket);
            }
        };
        let _ = self
            .arbiter
            .abandon_egress(group, SlotIndex(from), budget, freed);
    }

    /// No new requests from now on; the next turns end what is left when the drain is over (S11.3).
    pub fn begin_drain(&mut self, drain: Nanos) {
        let until = self.arbiter.now().saturating_add(drain);
        self.drain_until = Some(self.drain_until.map_or(until, |earlier| earlier.min(until)));
        self.arbiter.begin_drain(drain);
    }
}
