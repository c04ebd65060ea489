//! The oracle: a naive machine, written from the rules alone, to compare the arbiter with.
//!
//! Everything that can be looked up is looked up: plain vectors, full scans, no index, no cache, no
//! state that follows from other state. It shares no code with the arbiter. An operation costs
//! O(n²) and worse; that is the price of being short enough to check against the rules by eye.
//!
//! | file | rules |
//! |---|---|
//! | `submit` | S2, S3.4, S7.1, S8: what becomes of a submission |
//! | `order` | S4: keys, lanes, heads |
//! | `gate` | S5.1 to S5.4, S5.6: who may run where, now, later or never |
//! | `select` | S6: turns, credit, which class |
//! | `choose` | S10: which endpoint |
//! | `sweep` | S5.5, S6.6, S7.2, S11.3: leaving without service |
//! | `worker` | S9.1 to S9.4: workers, bookings, hand-overs |
//! | `reload` | S3.7 |
//! | `snapshot` | S13: the state |
//!
//! # Readings
//!
//! Where the rules leave a choice, the oracle reads them like this.
//!
//! - **Class order** (S5.5, S7.2, the list of classes): the first file's order, then new classes as
//!   they come, each reload's in its file's order. A vanished class keeps its place; it leaves the
//!   table and the ring at the end of the operation after which it has neither waiting requests nor
//!   dispatched ones that are not complete, and not while such classes are held. If a later file names
//!   it before that, it is matched.
//! - **Reload** (S3.7): vanished classes that are empty leave first, then new ones join. The epoch of
//!   a class rises when its order policy really changes; a request keeps the epoch and key of its
//!   submission, also when it is requeued. A change of `arbitration` puts
//!   the ring into class order, closes all turns, and forgets holder and remembered entries; the
//!   cursor is at the first class. Deficits are cut as in every reload. The generation counts
//!   successful reloads, so the first one reports 1.
//! - **Cursor** (S6.8): it stands on a class. Past the last class it stands on the first, even if a
//!   class joins the end later. If its class leaves the table, it stands on the next one.
//! - **Ending a turn in `page`** (S6.3, S9.4): the class stops being holder.
//! - **WSPT** (S4.2): the jump is the whole number of nanoseconds of S4.3, divided by 10^9.
//! - **EDF** (S4.2): the deadline is the effective one, `queue_timeout_ms` included.
//! - **Limits at submission** (S7.1): the limit is tested again after every selection, also after
//!   the dry one, since its sweep may have made room. A limit of 0 is left to S7.2.
//! - **Requests that may not wait** (S7.2): decided at submission with the class's limits of that
//!   moment; a later reload changes neither that nor the kind.
//! - **The candidate of S6.6** is judged by the present workers and loads, without a sweep: an entry
//!   whose deadline has passed counts until it is swept, one that can run nowhere does not.
//! - **One event** (S6.6): one cancel, one sweep (expiries and all rounds of failures), one S7.2
//!   refusal (all at once), one answer to a stop.
//! - **No worker known** (S7.3, S8): `no_workers` for pins too, new and waiting.
//! - **Hints for a pin** (S2.3): overload is ignored there as well; a pin that fails another check
//!   counts nothing as cached, also without hints.
//! - **Refunds** (S9.4): the failed hand-over at the last attempt, and the one after a stop, give
//!   the credit back and end the turn exactly like a requeue; nothing of it happens to a class that
//!   is empty. A request may be requeued after `prefill_done`.
//! - **Replacing a worker** (S9.3): ranks that go away are removed before new ones get their
//!   numbers.
//! - **Endpoint numbers** (S10.2): a new endpoint takes the lowest number that neither a known
//!   endpoint nor a live request refers to. A request refers to its pin, to the endpoint that it was
//!   dispatched to until that dispatch is over, and to those that it avoids; it lives until its
//!   outcome, or until `complete`. An endpoint that returns while its number is held takes it again.
//! - **Egress groups** (S5.1, S10.2): worker w is in group `w mod n` of n. The lowest free number is
//!   that of the worker's group: those that leave the group when divided by n, rounded up to a power
//!   of two. An endpoint whose group has no room is busy like one that was shut, and so is one that
//!   comes later; room opens the group, not an endpoint of it that was shut itself.
//! - **Draws** (S10.2): `power_of_two` draws from the candidates in the order of their numbers; one
//!   candidate needs no draw; two distinct ones come from SplitMix64, seeded at build.
//! - **Stop** (S11.3): the end of the drain is tested by `stop` itself and by `advance`.
//!   `stop` after the end changes nothing.
//! - **Outcome counts** include what ended at submission.

mod choose;
mod coverage;
mod gate;
mod mutation;
mod order;
mod reload;
mod select;
mod snapshot;
mod submit;
mod sweep;
#[cfg(test)]
mod tests;
mod worker;

pub use coverage::{Branch, Coverage};
pub use mutation::Mutation;

use tollgate_policy::{Arbitration, ClassPolicy, Profile};

use self::choose::SplitMix64;
use self::order::Key;
use crate::protocol::{
    Endpoint, Event, FailReason, Hint, Lane, LimitKind, Machine, Op, OpName, OutcomeCounts, Phase,
    State, Subject, WorkerRecord,
};

/// The naive machine.
///
/// # Examples
///
/// ```
/// use tollgate_policy::Profile;
/// use tollgate_sim::oracle::Oracle;
/// use tollgate_sim::protocol::{Event, Machine, Op};
///
/// let mut oracle = Oracle::new(&Profile::synthetic(None), 0);
/// let mut events = Vec::new();
/// for line in [
///     r#"{"op": "worker", "id": 1}"#,
///     r#"{"op": "submit", "id": "a", "isl": 512}"#,
///     r#"{"op": "arbitrate", "max": 1}"#,
/// ] {
///     oracle.apply(&Op::parse(line)?, &mut events);
/// }
/// assert!(matches!(&events[..], [Event::Queued { .. }, Event::Dispatched { cost: 512, .. }]));
/// # Ok::<(), tollgate_sim::protocol::OpError>(())
/// ```
#[derive(Debug)]
pub struct Oracle {
    profile: Profile,
    mutation: Option<Mutation>,
    coverage: Coverage,
    now_ns: u64,
    phase: Phase,
    /// Meaningful while draining.
    drain_until_ns: u64,
    /// In class order.
    classes: Vec<Class>,
    /// Every class, the next one first; followed in mode `exact`.
    ring: Vec<ClassId>,
    /// Followed in mode `page`.
    cursor: ClassId,
    /// Followed in mode `page`.
    holder: Option<ClassId>,
    /// Every live request, waiting or dispatched, in intake order.
    requests: Vec<Request>,
    /// By id.
    workers: Vec<Worker>,
    /// Endpoint numbers in use.
    numbers: Vec<(Endpoint, u64)>,
    /// Vanished classes stay when they are empty.
    holds_drained: bool,
    /// By egress group: how many more dispatches it takes; none: without bound.
    rooms: Vec<Option<u32>>,
    draws: SplitMix64,
    /// Requests taken so far.
    intakes: u64,
    /// Classes seen so far.
    class_ids: u64,
    /// Dispatches so far.
    uses: u64,
    generation: u64,
    stale: u64,
    unknown_names: u64,
}

/// A class's identity, whatever joins or leaves the table around it.
type ClassId = u64;

#[derive(Debug)]
struct Class {
    id: ClassId,
    policy: ClassPolicy,
    vanished: bool,
    /// How often its order policy has changed.
    epoch: u64,
    deficit: u64,
    turn_open: bool,
    /// The intake number of the entry that its turn last opened for (S6.6).
    remembered: Option<u64>,
    dispatched: u64,
    charged_tokens: u64,
    outcomes: OutcomeCounts,
    /// Always 0, unless [`Mutation::CountLeakedOnExpiry`] is at work.
    leaked: Usage,
}

/// A request from its acceptance to its end; waiting if it is not in flight.
#[derive(Debug)]
struct Request {
    id: String,
    intake: u64,
    class: ClassId,
    /// Raw prompt tokens.
    raw: u64,
    /// Cached prompt tokens of the snapshot (S2.1).
    cached: u64,
    cost: u64,
    /// What is cached on every endpoint if there are no hints.
    plain_cached: u64,
    hints: Vec<Hint>,
    strict_priority: u32,
    epoch: u64,
    key: Key,
    lane: Lane,
    allow: Option<Vec<u64>>,
    require_taints: Vec<String>,
    deadline_ns: Option<u64>,
    arrival_ns: u64,
    /// It may not wait; the kind that it is refused with (S7.2).
    impatient: Option<LimitKind>,
    attempt: u32,
    avoided: Vec<Endpoint>,
    flight: Option<Flight>,
}

/// A dispatch that is not complete.
#[derive(Debug)]
struct Flight {
    endpoint: Endpoint,
    booking: Booking,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Booking {
    /// These prefill tokens and one active request.
    Prefill(u64),
    /// One active request.
    Decode,
    /// Nothing: the endpoint was removed (S9.3).
    Lost,
}

#[derive(Debug)]
struct Worker {
    record: WorkerRecord,
    /// By rank.
    endpoints: Vec<Place>,
}

/// What is kept of an endpoint beside its worker's record.
#[derive(Debug)]
struct Place {
    endpoint: Endpoint,
    reported_tokens: u64,
    shut: bool,
    /// The number of the last dispatch to it; 0: never.
    last_use: u64,
}

/// What counts against limits.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    requests: u64,
    raw_isl_tokens: u64,
    cached_tokens: u64,
}

/// How a request ends other than by a dispatch.
#[derive(Clone, Copy, Debug)]
enum Ending {
    Rejected {
        kind: LimitKind,
        current: u64,
        limit: u64,
    },
    Failed(FailReason),
    Expired,
    Cancelled,
    ShuttingDown,
}

impl Oracle {
    /// A machine at time 0 with no workers. `seed` feeds the draws of `power_of_two`.
    #[must_use]
    pub fn new(profile: &Profile, seed: u64) -> Self {
        let mut oracle = Self {
            profile: profile.clone(),
            mutation: None,
            coverage: Coverage::default(),
            now_ns: 0,
            phase: Phase::Open,
            drain_until_ns: 0,
            classes: Vec::new(),
            ring: Vec::new(),
            cursor: 0,
            holder: None,
            requests: Vec::new(),
            workers: Vec::new(),
            numbers: Vec::new(),
            holds_drained: false,
            rooms: vec![None],
            draws: SplitMix64::new(seed),
            intakes: 0,
            class_ids: 0,
            uses: 0,
            generation: 0,
            stale: 0,
            unknown_names: 0,
        };
        for policy in profile.classes() {
            oracle.join(policy.clone());
        }
        oracle
    }

    /// A machine with one deliberate fault, to show that a comparison finds it. For tests only.
    #[must_use]
    pub fn mutated(profile: &Profile, seed: u64, mutation: Mutation) -> Self {
        Self {
            mutation: Some(mutation),
            ..Self::new(profile, seed)
        }
    }

    /// The same machine with so many egress groups, each without bound. For one that has no workers
    /// yet.
    ///
    /// # Panics
    /// If that is 0.
    #[must_use]
    pub fn with_egress_groups(self, groups: u16) -> Self {
        assert!(groups > 0, "a worker is in a group");
        Self {
            rooms: vec![None; usize::from(groups)],
            ..self
        }
    }

    /// Which branches of the rules were taken so far, and how often.
    #[must_use]
    pub const fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    fn has_fault(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    fn is_exact(&self) -> bool {
        self.profile.arbitration() == Arbitration::Exact
    }

    fn class(&self, id: ClassId) -> &Class {
        self.classes
            .iter()
            .find(|class| class.id == id)
            .expect("its requests keep a class")
    }

    fn class_mut(&mut self, id: ClassId) -> &mut Class {
        self.classes
            .iter_mut()
            .find(|class| class.id == id)
            .expect("its requests keep a class")
    }

    fn class_order(&self) -> Vec<ClassId> {
        self.classes.iter().map(|class| class.id).collect()
    }

    fn request(&self, intake: u64) -> &Request {
        self.requests
            .iter()
            .find(|request| request.intake == intake)
            .expect("it is live")
    }

    fn request_mut(&mut self, intake: u64) -> &mut Request {
        self.requests
            .iter_mut()
            .find(|request| request.intake == intake)
            .expect("it is live")
    }

    fn remove_request(&mut self, intake: u64) -> Request {
        let place = self
            .requests
            .iter()
            .position(|request| request.intake == intake);
        self.requests.remove(place.expect("it is live"))
    }

    /// Waiting requests in intake order.
    fn waiting(&self) -> impl Iterator<Item = &Request> {
        self.requests
            .iter()
            .filter(|request| request.flight.is_none())
    }

    /// Waiting requests of one class in intake order.
    fn waiting_of(&self, class: ClassId) -> impl Iterator<Item = &Request> {
        self.waiting().filter(move |request| request.class == class)
    }

    fn is_empty(&self, class: ClassId) -> bool {
        self.waiting_of(class).next().is_none()
    }

    fn usage(&self, class: ClassId) -> Usage {
        self.waiting_of(class)
            .fold(self.class(class).leaked, |sum, request| Usage {
                requests: sum.requests + 1,
                raw_isl_tokens: sum.raw_isl_tokens + request.raw,
                cached_tokens: sum.cached_tokens + request.cached,
            })
    }

    fn waiting_count(&self) -> u64 {
        self.classes
            .iter()
            .map(|class| self.usage(class.id).requests)
            .sum()
    }

    fn workers_count(&self) -> u64 {
        self.workers.len() as u64
    }

    fn now_stale(&mut self, op: OpName, subject: Subject, out: &mut Vec<Event>) {
        self.stale += 1;
        self.coverage.note(Branch::Stale);
        out.push(Event::Stale {
            now_us: self.now_us(),
            op,
            subject,
        });
    }

    /// S13: one turn.
    fn arbitrate(&mut self, max: Option<u64>, out: &mut Vec<Event>) {
        if max == Some(0) {
            return;
        }
        let mut dispatches = 0;
        let dry = loop {
            self.sweep(out);
            if max == Some(dispatches) {
                break false;
            }
            if !self.select(out) {
                break true;
            }
            dispatches += 1;
        };
        self.sweep(out);
        self.refuse_impatient(out);
        if dry {
            out.push(Event::Dry {
                now_us: self.now_us(),
                waiting: self.waiting_count(),
            });
        }
    }
}

impl Machine for Oracle {
    fn apply(&mut self, op: &Op, out: &mut Vec<Event>) {
        let gates = self.exact_gates();
        match op {
            Op::Worker(record) => self.upsert_worker(record),
            Op::RemoveWorker { id } => self.remove_worker(*id, out),
            Op::Load { worker, tokens } => {
                self.set_place(OpName::Load, *worker, out, |place| {
                    place.reported_tokens = *tokens;
                });
            }
            Op::Shut { worker } => {
                self.set_place(OpName::Shut, *worker, out, |place| place.shut = true);
            }
            Op::Open { worker } => {
                self.set_place(OpName::Open, *worker, out, |place| place.shut = false);
            }
            Op::Submit(submission) => self.submit(submission, out),
            Op::PrefillDone { id, attempt } => self.prefill_done(id, *attempt, out),
            Op::Complete { id, attempt } => self.complete(id, *attempt, out),
            Op::Requeue { id, attempt } => self.requeue(id, *attempt, out),
            Op::Cancel { id } => self.cancel(id, out),
            Op::Advance { us } => self.advance(*us, out),
            Op::Arbitrate { max } => self.arbitrate(*max, out),
            Op::Reload { path } => panic!("the caller loads {path:?} and calls `reload`"),
            Op::Stop { drain_us } => self.stop(*drain_us, out),
            Op::State => out.push(Event::State(Box::new(self.snapshot()))),
        }
        self.drop_finished_classes();
        self.note_flips(&gates);
    }

    fn reload(&mut self, profile: &Profile, out: &mut Vec<Event>) {
        self.take_over(profile);
        self.drop_finished_classes();
        self.generation += 1;
        out.push(Event::Reloaded {
            now_us: self.now_us(),
            generation: self.generation,
        });
    }

    fn set_egress_room(&mut self, group: u16, room: u32) {
        let gates = self.exact_gates();
        let before = self.rooms[usize::from(group)];
        self.rooms[usize::from(group)] = (room < u32::MAX).then_some(room);
        let opens = before == Some(0) && room > 0 && self.waiting().next().is_some();
        self.coverage.note_if(opens, Branch::GroupOpens);
        self.note_flips(&gates);
    }

    fn hold_drained(&mut self, hold: bool) {
        self.holds_drained = hold;
        self.drop_finished_classes();
    }

    fn now_us(&self) -> u64 {
        self.now_ns / 1_000
    }

    fn state(&self) -> State {
        self.snapshot()
    }
}
