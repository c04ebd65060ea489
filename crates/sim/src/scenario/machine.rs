//! The real arbiter behind the scenario protocol.

use std::collections::BTreeMap;
use std::sync::Arc;

use tollgate_arbiter::{
    self as arbiter, Arbiter, BuildError, Capacities, ClassIndex, Nanos, Options, SlotPool, Ticket,
    TurnReport, WorkerId,
};
use tollgate_policy::Profile;

use super::journal::Places;
use super::names::Names;
use super::translate::{self, ended, from_arbiter, lane_of, reloads, to_arbiter};
use crate::protocol::{Event, Machine, Op, Phase, State, Subject, WorkerRecord};

/// How many classes a scenario may hold at one time, those that drain after a reload included.
pub const CLASSES_MAX: u32 = 2_048;

/// What a machine is built with, beside its policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineOptions {
    /// Seed of the selector `power_of_two`. Default 0.
    pub seed: u64,
    /// Live requests: waiting, or dispatched and not complete. Default 65,536.
    pub slots: u32,
    /// Known workers and endpoints, each. Default 16,384.
    pub endpoints: u32,
    /// How often a policy may let a request be handed over, 1 to 255; the first policy's own number
    /// always suffices. Default 16.
    pub attempts: u8,
    /// Egress groups; worker w is in group `w % egress_groups`. 1 to 64. Default 1.
    pub egress_groups: u16,
}

impl Default for MachineOptions {
    fn default() -> Self {
        Self {
            seed: 0,
            slots: 1 << 16,
            endpoints: 1 << 14,
            attempts: 16,
            egress_groups: 1,
        }
    }
}

/// A [`Machine`] that is the arbiter itself.
///
/// # Examples
/// ```
/// use tollgate_policy::Profile;
/// use tollgate_sim::protocol::{Machine, Op};
/// use tollgate_sim::scenario::{ArbiterMachine, MachineOptions};
///
/// let mut machine = ArbiterMachine::new(&Profile::synthetic(None), MachineOptions::default())?;
/// let mut events = Vec::new();
/// for line in [
///     r#"{"op": "worker", "id": 1}"#,
///     r#"{"op": "submit", "id": "x", "isl": 100}"#,
///     r#"{"op": "arbitrate"}"#,
/// ] {
///     machine.apply(&Op::parse(line).unwrap(), &mut events);
/// }
/// let names: Vec<String> = events.iter().map(|event| event.to_json()).collect();
/// assert!(names[0].contains("queued") && names[1].contains("dispatched"));
/// assert!(names[2].contains("dry"));
/// # Ok::<(), tollgate_arbiter::BuildError>(())
/// ```
#[derive(Debug)]
pub struct ArbiterMachine {
    pub(super) arbiter: Arbiter<u32>,
    /// Free slots; `None` where operations name theirs.
    pub(super) slots: Option<SlotPool>,
    /// How operations name slots, if they do.
    pub(super) places: Option<Places>,
    pub(super) names: Names,
    /// Names by class index. An index is given to another class by a reload only.
    class_names: Vec<Box<str>>,
    /// `max_batched_tokens` of the known workers that gave one.
    pub(super) max_batched: BTreeMap<u64, u64>,
    pub(super) drain_until: Option<Nanos>,
    pub(super) explaining: bool,
    /// What the arbiter reported during the present operation.
    pub(super) reported: Vec<arbiter::Event<u32>>,
}

impl ArbiterMachine {
    /// An arbiter with `profile` and nothing else yet.
    ///
    /// # Errors
    /// Where an option is outside its range, or the profile needs more than it allows.
    pub fn new(profile: &Profile, options: MachineOptions) -> Result<Self, BuildError> {
        let capacities = Capacities {
            slots: options.slots,
            classes: CLASSES_MAX,
            workers: options.endpoints,
            endpoints: options.endpoints,
            attempts: options.attempts.max(profile.max_attempts()),
            egress_groups: options.egress_groups,
            ..Capacities::default()
        };
        let arbiter = Arbiter::build(profile, capacities, Options { seed: options.seed })?;
        let slots = SlotPool::new(options.slots);
        let mut machine = Self::around(arbiter, Some(slots), Names::default());
        machine.learn_class_names();
        Ok(machine)
    }

    pub(super) fn around(arbiter: Arbiter<u32>, slots: Option<SlotPool>, names: Names) -> Self {
        Self {
            arbiter,
            slots,
            places: None,
            names,
            class_names: Vec::new(),
            max_batched: BTreeMap::new(),
            drain_until: None,
            explaining: false,
            reported: Vec::new(),
        }
    }

    /// Takes back the slot of what has ended.
    pub(super) fn free(&mut self, ticket: Ticket) {
        if let Some(slots) = &mut self.slots {
            slots.put(ticket);
        }
    }

    /// The same machine, appending an [`Event::Explain`] after each selection of an `arbitrate`,
    /// dry ones included, and after each selection that a full class made a submission wait for.
    #[must_use]
    pub const fn explaining(mut self) -> Self {
        self.explaining = true;
        self
    }

    /// Asserts what must hold in the arbiter between any two operations.
    ///
    /// # Panics
    /// If it does not hold.
    pub fn check_invariants(&self) {
        self.arbiter.check_invariants();
    }

    pub(super) fn learn_class_names(&mut self) {
        for class in self.arbiter.state().classes {
            let at = usize::from(class.index.0);
            if self.class_names.len() <= at {
                self.class_names.resize(at + 1, Box::default());
            }
            self.class_names[at] = class.name;
        }
    }

    pub(super) fn class_name(&self, class: ClassIndex) -> String {
        self.class_names[usize::from(class.0)].to_string()
    }

    /// S11.3, as far as the arbiter's own state leaves it open.
    pub(super) fn phase(&self, closed: bool) -> (Phase, Option<Nanos>) {
        match self.drain_until {
            Some(until) if closed && self.arbiter.now() < until => (Phase::Draining, Some(until)),
            _ if closed => (Phase::Closed, None),
            _ => (Phase::Open, None),
        }
    }

    fn prefill_done(&mut self, id: &str, attempt: Option<u32>) -> Result<(), arbiter::Stale> {
        let request = self.names.find(id)?;
        self.arbiter.prefill_done(
            self.names.ticket(request),
            self.names.attempt(request, attempt),
        )
    }

    fn complete(&mut self, id: &str, attempt: Option<u32>) -> Result<(), arbiter::Stale> {
        let request = self.names.find(id)?;
        let ticket = self.names.ticket(request);
        self.arbiter
            .complete(ticket, self.names.attempt(request, attempt))?;
        self.free(ticket);
        Ok(())
    }

    fn requeue(
        &mut self,
        id: &str,
        attempt: Option<u32>,
        out: &mut Vec<Event>,
    ) -> Result<(), arbiter::Stale> {
        let request = self.names.find(id)?;
        let (ticket, attempt) = (
            self.names.ticket(request),
            self.names.attempt(request, attempt),
        );
        let reported = &mut self.reported;
        let requeued = self
            .arbiter
            .requeue(ticket, attempt, request, &mut |event| reported.push(event));
        self.report(out);
        requeued.map_err(|_| arbiter::Stale)
    }

    fn cancel(&mut self, id: &str, out: &mut Vec<Event>) -> Result<(), arbiter::Stale> {
        let request = self.names.find(id)?;
        let ticket = self.names.ticket(request);
        let reported = &mut self.reported;
        let cancelled = self
            .arbiter
            .cancel(ticket, &mut |event| reported.push(event));
        self.report(out);
        cancelled
    }

    fn worker(&mut self, record: &WorkerRecord, out: &mut Vec<Event>) {
        let taints: Vec<&str> = record.taints.iter().map(String::as_str).collect();
        let upsert = self.arbiter.upsert_worker(&arbiter::WorkerRecord {
            id: WorkerId(record.id),
            first_rank: record.first_rank,
            ranks: record.ranks,
            max_batched_tokens: record.max_batched_tokens,
            taints: &taints,
            overloaded: record.overloaded,
            available: record.available,
        });
        match upsert {
            Ok(()) => {
                self.max_batched.remove(&record.id);
                self.max_batched
                    .extend(record.max_batched_tokens.map(|max| (record.id, max)));
            }
            Err(error) => out.push(self.invalid(error.to_string())),
        }
    }

    /// Time passes; a drain that ends answers what still waits.
    pub(super) fn advance(&mut self, to: Nanos, out: &mut Vec<Event>) {
        let reported = &mut self.reported;
        self.arbiter.advance(to, &mut |event| reported.push(event));
        self.report(out);
    }

    /// One selection with its sweep; false: it was dry.
    pub(super) fn select(&mut self, out: &mut Vec<Event>) -> bool {
        let reported = &mut self.reported;
        let dispatched = self.arbiter.select(&mut |event| reported.push(event));
        self.report(out);
        dispatched
    }

    /// A whole turn, with `dry` if it ran dry.
    pub(super) fn arbitrate(&mut self, max: Option<u64>, out: &mut Vec<Event>) {
        let reported = &mut self.reported;
        let turn = self
            .arbiter
            .arbitrate(max, &mut |event| reported.push(event));
        self.report(out);
        self.tell_dry(turn, out);
    }

    pub(super) fn tell_dry(&self, turn: TurnReport, out: &mut Vec<Event>) {
        if turn.dry {
            out.push(Event::Dry {
                now_us: self.now_us(),
                waiting: self.arbiter.waiting(),
            });
        }
    }

    fn stop(&mut self, drain: Nanos, out: &mut Vec<Event>) {
        let until = self.arbiter.now().saturating_add(drain);
        self.drain_until = Some(self.drain_until.map_or(until, |earlier| earlier.min(until)));
        let reported = &mut self.reported;
        self.arbiter.stop(drain, &mut |event| reported.push(event));
        self.report(out);
    }

    /// Translates what the arbiter reported, and takes back the slots of what ended.
    pub(super) fn report(&mut self, out: &mut Vec<Event>) {
        let mut reported = std::mem::take(&mut self.reported);
        for event in reported.drain(..) {
            out.push(self.translate(event));
        }
        self.reported = reported;
    }

    fn translate(&mut self, event: arbiter::Event<u32>) -> Event {
        let now_us = self.now_us();
        match event {
            arbiter::Event::Queued {
                ticket,
                class,
                cost,
                lane,
            } => Event::Queued {
                now_us,
                id: self.names.id_of_ticket(ticket),
                class: self.class_name(class),
                cost: u64::from(cost),
                lane: lane_of(lane),
            },
            arbiter::Event::Dispatched(dispatch) => {
                self.names.set_attempt(dispatch.payload, dispatch.attempt);
                Event::Dispatched {
                    now_us,
                    id: self.names.id(dispatch.payload),
                    class: self.class_name(dispatch.class),
                    worker: from_arbiter(dispatch.endpoint),
                    cost: u64::from(dispatch.snapshot.cost()),
                    deficit: dispatch.deficit,
                    attempt: u32::from(dispatch.attempt),
                    wait_us: dispatch
                        .dispatched_at
                        .saturating_sub(dispatch.submitted_at)
                        .as_micros(),
                }
            }
            arbiter::Event::Ended {
                ticket,
                class,
                outcome,
                payload,
            } => {
                self.free(ticket);
                ended(
                    now_us,
                    self.names.id(payload),
                    self.class_name(class),
                    outcome,
                )
            }
            arbiter::Event::Requeued { ticket, class } => Event::Requeued {
                now_us,
                id: self.names.id_of_ticket(ticket),
                class: self.class_name(class),
            },
        }
    }

    /// The session knows the line.
    pub(super) fn invalid(&self, error: String) -> Event {
        Event::Invalid {
            now_us: self.now_us(),
            line: 0,
            error,
        }
    }
}

impl Machine for ArbiterMachine {
    fn apply(&mut self, op: &Op, out: &mut Vec<Event>) {
        let request = |id: &String| Subject::Request(id.clone());
        let (done, subject) = match op {
            Op::Worker(record) => return self.worker(record, out),
            Op::Submit(submission) if self.explaining => {
                return self.submit_explained(submission, out);
            }
            Op::Submit(submission) => return self.submit(submission, out),
            Op::Arbitrate { max } if self.explaining => return self.arbitrate_explained(*max, out),
            Op::Arbitrate { max } => return self.arbitrate(*max, out),
            Op::Advance { us } => {
                let to = self.arbiter.now().saturating_add(Nanos::from_micros(*us));
                return self.advance(to, out);
            }
            Op::Stop { drain_us } => return self.stop(Nanos::from_micros(*drain_us), out),
            Op::State => return out.push(Event::State(Box::new(self.state()))),
            Op::Reload { .. } => unreachable!("a reload's file is loaded by the session"),
            Op::RemoveWorker { id } => {
                self.max_batched.remove(id);
                (
                    self.arbiter.remove_worker(WorkerId(*id)),
                    Subject::Worker(*id),
                )
            }
            Op::Load { worker, tokens } => (
                self.arbiter.load(to_arbiter(*worker), *tokens),
                Subject::Endpoint(*worker),
            ),
            Op::Shut { worker } => (
                self.arbiter.shut(to_arbiter(*worker)),
                Subject::Endpoint(*worker),
            ),
            Op::Open { worker } => (
                self.arbiter.open(to_arbiter(*worker)),
                Subject::Endpoint(*worker),
            ),
            Op::PrefillDone { id, attempt } => (self.prefill_done(id, *attempt), request(id)),
            Op::Complete { id, attempt } => (self.complete(id, *attempt), request(id)),
            Op::Requeue { id, attempt } => (self.requeue(id, *attempt, out), request(id)),
            Op::Cancel { id } => (self.cancel(id, out), request(id)),
        };
        if done.is_err() {
            out.push(Event::Stale {
                now_us: self.now_us(),
                op: op.name(),
                subject,
            });
        }
    }

    fn reload(&mut self, profile: &Profile, out: &mut Vec<Event>) {
        match self.arbiter.reload(Arc::new(profile.clone())) {
            Ok(reloaded) => {
                self.learn_class_names();
                let generation = reloads(reloaded.generation);
                out.push(Event::Reloaded {
                    now_us: self.now_us(),
                    generation,
                });
            }
            Err(full) => out.push(self.invalid(full.to_string())),
        }
    }

    fn set_egress_room(&mut self, group: u16, room: u32) {
        self.arbiter.set_egress_room(group, room);
    }

    fn hold_drained(&mut self, hold: bool) {
        self.arbiter.hold_drained(hold);
    }

    fn now_us(&self) -> u64 {
        self.arbiter.now().as_micros()
    }

    fn state(&self) -> State {
        translate::state(self)
    }
}
