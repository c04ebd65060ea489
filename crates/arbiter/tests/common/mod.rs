//! A small world around one arbiter: requests by name, events as text, and the laws that hold in
//! every test: a request ends once, a payload comes back with its own request, and the arbiter's
//! invariants hold after each call.

#![allow(
    dead_code,
    unused_imports,
    reason = "every test file uses a part of the world"
)]

mod ask;
mod policy;

use std::sync::Arc;

use std::collections::BTreeMap;

pub(crate) use ask::Ask;
pub(crate) use policy::{classes, classes_and};
use tollgate_arbiter::{
    Arbiter, Capacities, ClassState, Dispatch, Endpoint, EndpointState, Event, HeadState,
    LaneState, Nanos, Options, Outcome, Refusal, SlotPool, State, Ticket, TurnBudget, TurnReport,
    WorkerError, WorkerId, WorkerRecord,
};
use tollgate_policy::Profile;

/// Where a request stands, as its events tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Submitted,
    Waiting,
    Running,
    Over,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    ticket: Ticket,
    attempt: u8,
    stage: Stage,
}

/// One dispatch, as it was reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) name: String,
    pub(crate) class: String,
    pub(crate) at: (u64, u32),
    pub(crate) cost: u32,
    pub(crate) deficit: u64,
    pub(crate) attempt: u8,
    pub(crate) wait: Nanos,
}

pub(crate) struct World {
    pub(crate) arbiter: Arbiter<u32>,
    slots: SlotPool,
    names: Vec<String>,
    known: BTreeMap<String, Known>,
    raw: Vec<Event<u32>>,
    told: Vec<String>,
    sent: Vec<Sent>,
    /// Whether invariants are checked after each call; off only in long runs.
    pub(crate) checks: bool,
}

impl World {
    pub(crate) fn new(profile: &Profile) -> Self {
        Self::sized(
            profile,
            Capacities {
                slots: 2_048,
                endpoints: 128,
                ..Capacities::default()
            },
        )
    }

    pub(crate) fn sized(profile: &Profile, capacities: Capacities) -> Self {
        let arbiter = Arbiter::build(profile, capacities, Options::default()).expect("it fits");
        Self {
            arbiter,
            slots: SlotPool::new(capacities.slots),
            names: Vec::new(),
            known: BTreeMap::new(),
            raw: Vec::new(),
            told: Vec::new(),
            sent: Vec::new(),
            checks: true,
        }
    }

    /// A world of one worker, id 1, with one rank.
    pub(crate) fn with_worker(profile: &Profile) -> Self {
        let mut world = Self::new(profile);
        world.worker(1);
        world
    }

    // Workers.

    pub(crate) fn worker(&mut self, id: u64) {
        self.upsert(&WorkerRecord::new(id))
            .expect("room for a worker");
    }

    pub(crate) fn upsert(&mut self, record: &WorkerRecord<'_>) -> Result<(), WorkerError> {
        let result = self.arbiter.upsert_worker(record);
        self.settle();
        result
    }

    pub(crate) fn remove(&mut self, id: u64) -> bool {
        let result = self.arbiter.remove_worker(WorkerId(id));
        self.settle();
        result.is_ok()
    }

    pub(crate) fn overload(&mut self, id: u64, overloaded: bool) {
        self.arbiter
            .set_overloaded(WorkerId(id), overloaded)
            .expect("a known worker");
        self.settle();
    }

    pub(crate) fn available(&mut self, id: u64, available: bool) {
        self.arbiter
            .set_available(WorkerId(id), available)
            .expect("a known worker");
        self.settle();
    }

    pub(crate) fn load(&mut self, worker: u64, rank: u32, tokens: u64) -> bool {
        let result = self.arbiter.load(Endpoint::new(worker, rank), tokens);
        self.settle();
        result.is_ok()
    }

    pub(crate) fn shut(&mut self, worker: u64, rank: u32) -> bool {
        let result = self.arbiter.shut(Endpoint::new(worker, rank));
        self.settle();
        result.is_ok()
    }

    pub(crate) fn open(&mut self, worker: u64, rank: u32) -> bool {
        let result = self.arbiter.open(Endpoint::new(worker, rank));
        self.settle();
        result.is_ok()
    }

    // Requests.

    /// Submits a request that must be accepted.
    pub(crate) fn submit(&mut self, ask: impl Into<Ask>) {
        let ask = ask.into();
        let name = ask.name.clone();
        self.try_submit(ask)
            .unwrap_or_else(|refusal| panic!("{name} is accepted: {refusal}"));
    }

    /// Submits a request; a refused one leaves no trace but its unused name.
    pub(crate) fn try_submit(&mut self, ask: impl Into<Ask>) -> Result<(), Refusal> {
        let ask = ask.into();
        let ticket = self.slots.take().expect("a free slot");
        let payload = u32::try_from(self.names.len()).expect("few names");
        self.names.push(ask.name.clone());
        let known = Known {
            ticket,
            attempt: 0,
            stage: Stage::Submitted,
        };
        assert!(
            self.known.insert(ask.name.clone(), known).is_none(),
            "{} is new",
            ask.name
        );
        let now = self.arbiter.now();
        let raw = &mut self.raw;
        let result = ask.with_request(now, |family, request| {
            self.arbiter
                .submit(ticket, family, request, payload, &mut |e| raw.push(e))
        });
        if let Err(refused) = &result {
            assert_eq!(refused.payload, payload, "a refused payload comes back");
            self.known.remove(&ask.name);
            self.slots.put(ticket);
        }
        self.settle();
        result.map_err(|refused| refused.reason)
    }

    /// Submits `count` requests named `prefix0`, `prefix1` and so on.
    pub(crate) fn submit_many(&mut self, count: usize, like: impl Into<Ask>) {
        let like = like.into();
        for at in 0..count {
            let mut ask = like.clone();
            ask.name = format!("{}{at}", like.name);
            self.submit(ask);
        }
    }

    pub(crate) fn cancel(&mut self, name: &str) -> bool {
        let ticket = self.ticket(name);
        let raw = &mut self.raw;
        let result = self.arbiter.cancel(ticket, &mut |e| raw.push(e));
        self.settle();
        result.is_ok()
    }

    pub(crate) fn prefill_done(&mut self, name: &str) -> bool {
        self.prefill_done_of(name, self.known[name].attempt)
    }

    pub(crate) fn prefill_done_of(&mut self, name: &str, attempt: u8) -> bool {
        let result = self.arbiter.prefill_done(self.ticket(name), attempt);
        self.settle();
        result.is_ok()
    }

    pub(crate) fn complete(&mut self, name: &str) -> bool {
        self.complete_of(name, self.known[name].attempt)
    }

    pub(crate) fn complete_of(&mut self, name: &str, attempt: u8) -> bool {
        let known = self.known[name];
        let result = self.arbiter.complete(known.ticket, attempt);
        if result.is_ok() {
            assert_eq!(known.stage, Stage::Running, "{name} was dispatched");
            self.move_to(name, Stage::Over);
            self.slots.put(known.ticket);
        }
        self.settle();
        result.is_ok()
    }

    pub(crate) fn requeue(&mut self, name: &str) -> bool {
        self.requeue_of(name, self.known[name].attempt)
    }

    pub(crate) fn requeue_of(&mut self, name: &str, attempt: u8) -> bool {
        let payload = self
            .names
            .iter()
            .rposition(|n| n == name)
            .expect("a known name");
        let payload = u32::try_from(payload).expect("few names");
        let ticket = self.ticket(name);
        let raw = &mut self.raw;
        let result = self
            .arbiter
            .requeue(ticket, attempt, payload, &mut |e| raw.push(e));
        if let Err(stale) = &result {
            assert_eq!(stale.payload, payload, "a stale payload comes back");
        }
        self.settle();
        result.is_ok()
    }

    // Turns and time.

    pub(crate) fn select(&mut self) -> bool {
        let raw = &mut self.raw;
        let dispatched = self.arbiter.select(&mut |e| raw.push(e));
        self.settle();
        dispatched
    }

    pub(crate) fn arbitrate(&mut self, max: u64) -> TurnReport {
        let raw = &mut self.raw;
        let report = self.arbiter.arbitrate(Some(max), &mut |e| raw.push(e));
        self.settle();
        report
    }

    /// A whole turn without a bound on dispatches.
    pub(crate) fn run(&mut self) -> TurnReport {
        let raw = &mut self.raw;
        let report = self.arbiter.arbitrate(None, &mut |e| raw.push(e));
        self.settle();
        report
    }

    pub(crate) fn turn(&mut self, dispatches: u64, removals: u64) -> TurnReport {
        let raw = &mut self.raw;
        let report = self.arbiter.turn(
            TurnBudget {
                dispatches,
                removals,
            },
            &mut |e| raw.push(e),
        );
        self.settle();
        report
    }

    pub(crate) fn advance_us(&mut self, us: u64) {
        let raw = &mut self.raw;
        self.arbiter
            .advance(Nanos::from_micros(us), &mut |e| raw.push(e));
        self.settle();
    }

    pub(crate) fn stop_us(&mut self, drain_us: u64) {
        let raw = &mut self.raw;
        self.arbiter
            .stop(Nanos::from_micros(drain_us), &mut |e| raw.push(e));
        self.settle();
    }

    pub(crate) fn reload(&mut self, profile: &Profile) {
        self.arbiter
            .reload(Arc::new(profile.clone()))
            .expect("it fits");
        self.settle();
    }

    // What was seen.

    /// The events since the last look, as text: `queued x`, `x -> 1.0`, `expired x`,
    /// `failed x no_workers`, `rejected x requests 2/2`.
    #[track_caller]
    pub(crate) fn expect(&mut self, events: &[&str]) {
        let told = self.take();
        assert_eq!(told, events);
    }

    pub(crate) fn take(&mut self) -> Vec<String> {
        self.sent.clear();
        std::mem::take(&mut self.told)
    }

    /// The dispatches since the last look.
    pub(crate) fn sent(&mut self) -> Vec<Sent> {
        self.told.clear();
        std::mem::take(&mut self.sent)
    }

    /// The names dispatched since the last look.
    pub(crate) fn order(&mut self) -> Vec<String> {
        self.sent().into_iter().map(|sent| sent.name).collect()
    }

    pub(crate) fn ticket(&self, name: &str) -> Ticket {
        self.known[name].ticket
    }

    pub(crate) fn stage(&self, name: &str) -> Stage {
        self.known[name].stage
    }

    pub(crate) fn state(&self) -> State {
        self.arbiter.state()
    }

    pub(crate) fn class(&self, name: &str) -> ClassState {
        let classes = self.state().classes;
        classes
            .into_iter()
            .find(|class| &*class.name == name)
            .expect("a class of that name")
    }

    pub(crate) fn endpoint(&self, worker: u64, rank: u32) -> EndpointState {
        let wanted = Endpoint::new(worker, rank);
        let endpoints = self.state().endpoints;
        endpoints
            .into_iter()
            .find(|e| e.endpoint == wanted)
            .expect("a known endpoint")
    }

    pub(crate) fn deficit(&self, class: &str) -> u64 {
        self.class(class).deficit
    }

    pub(crate) fn deficits(&self, names: &[&str]) -> Vec<u64> {
        names.iter().map(|name| self.deficit(name)).collect()
    }

    /// The classes in ring order; open turns are marked with a star.
    pub(crate) fn ring(&self) -> String {
        let state = self.state();
        let of = |index| state.classes.iter().find(|class| class.index == index);
        let mark = |class: &ClassState| {
            let star = if class.turn_open { "*" } else { "" };
            format!("{}{star}", class.name)
        };
        let ring: Vec<_> = state
            .ring
            .iter()
            .map(|&index| mark(of(index).expect("it")))
            .collect();
        ring.join(" ")
    }

    fn lane_state(&self, class: &str, pin: Option<(u64, u32)>) -> LaneState {
        let wanted = pin.map(|(worker, rank)| Endpoint::new(worker, rank));
        let lanes = self.class(class).lanes;
        lanes
            .into_iter()
            .find(|lane| lane.endpoint == wanted)
            .expect("a lane with entries")
    }

    /// The names that wait in a lane, best first.
    pub(crate) fn lane(&self, class: &str, pin: Option<(u64, u32)>) -> Vec<String> {
        let entries = self.lane_state(class, pin).entries;
        entries
            .into_iter()
            .map(|entry| self.name_of(entry.ticket))
            .collect()
    }

    pub(crate) fn head(&self, class: &str, pin: Option<(u64, u32)>) -> HeadState {
        self.lane_state(class, pin).head
    }

    fn name_of(&self, ticket: Ticket) -> String {
        let mut known = self
            .known
            .iter()
            .filter(|(_, known)| known.stage != Stage::Over);
        known
            .find(|(_, known)| known.ticket == ticket)
            .expect("a live request")
            .0
            .clone()
    }

    /// Every request that is still dispatched completes; after that nothing may be left behind.
    pub(crate) fn complete_all(&mut self) {
        let mut names: Vec<_> = self
            .known
            .iter()
            .filter(|(_, k)| k.stage == Stage::Running)
            .collect();
        names.sort_by_key(|(_, known)| known.ticket);
        let names: Vec<String> = names.into_iter().map(|(name, _)| name.clone()).collect();
        for name in names {
            assert!(self.complete(&name), "{name} completes");
        }
    }

    // Bookkeeping.

    fn settle(&mut self) {
        for event in std::mem::take(&mut self.raw) {
            self.hear(event);
        }
        if self.checks {
            self.arbiter.check_invariants();
        }
    }

    fn hear(&mut self, event: Event<u32>) {
        match event {
            Event::Queued { ticket, lane, .. } => {
                let name = self.name_of(ticket);
                assert_eq!(self.stage(&name), Stage::Submitted, "{name} is queued once");
                self.move_to(&name, Stage::Waiting);
                self.told.push(match lane {
                    Some(Endpoint { worker, rank }) => format!("queued {name} {}.{rank}", worker.0),
                    None => format!("queued {name}"),
                });
            }
            Event::Dispatched(dispatch) => self.hear_dispatch(&dispatch),
            Event::Ended {
                ticket,
                outcome,
                payload,
                ..
            } => {
                let name = self.names[payload as usize].clone();
                assert_eq!(
                    self.ticket(&name),
                    ticket,
                    "the payload is the request's own"
                );
                assert_ne!(self.stage(&name), Stage::Over, "{name} ends once");
                self.move_to(&name, Stage::Over);
                self.slots.put(ticket);
                self.told.push(tell(&name, outcome));
            }
            Event::Requeued { ticket, .. } => {
                let name = self.name_of(ticket);
                assert_eq!(self.stage(&name), Stage::Running, "{name} was dispatched");
                self.move_to(&name, Stage::Waiting);
                self.told.push(format!("requeued {name}"));
            }
        }
    }

    fn hear_dispatch(&mut self, dispatch: &Dispatch<u32>) {
        let name = self.names[dispatch.payload as usize].clone();
        let known = self.known.get_mut(&name).expect("a known name");
        assert_eq!(
            known.ticket, dispatch.ticket,
            "the payload is the request's own"
        );
        assert_eq!(known.stage, Stage::Waiting, "{name} waits before it goes");
        assert_eq!(
            known.attempt + 1,
            dispatch.attempt,
            "attempts count up from 1"
        );
        (known.stage, known.attempt) = (Stage::Running, dispatch.attempt);
        let Endpoint { worker, rank } = dispatch.endpoint;
        self.told.push(format!("{name} -> {}.{rank}", worker.0));
        self.sent.push(Sent {
            name,
            class: self.arbiter.class_name(dispatch.class).to_owned(),
            at: (worker.0, rank),
            cost: dispatch.snapshot.cost(),
            deficit: dispatch.deficit,
            attempt: dispatch.attempt,
            wait: dispatch.dispatched_at.saturating_sub(dispatch.submitted_at),
        });
    }

    fn move_to(&mut self, name: &str, stage: Stage) {
        self.known.get_mut(name).expect("a known name").stage = stage;
    }
}

fn tell(name: &str, outcome: Outcome) -> String {
    match outcome {
        Outcome::Rejected(rejection) => format!(
            "rejected {name} {} {}/{}",
            rejection.kind.code(),
            rejection.current,
            rejection.limit
        ),
        Outcome::Expired => format!("expired {name}"),
        Outcome::Cancelled => format!("cancelled {name}"),
        Outcome::Failed(reason) => format!("failed {name} {}", reason.code()),
        Outcome::ShuttingDown => format!("shutting_down {name}"),
    }
}
