//! An engine that is turned by hand beside an arbiter that is fed directly: what is submitted arrives
//! as it was submitted, whatever parts it has, and what happens is the same, step by step.

use crate::common::draw::Draw;
use crate::common::{FIRST, Hand, classes_and};
use tollgate::policy::Profile;
use tollgate::{
    Builder, ClassIndex, Command, CostSnapshot, Delivery, Endpoint, Engine, Hint, Nanos, Request,
    Worker, WorkerId,
};
use tollgate_arbiter::{
    Arbiter, Capacities, Event, Options, SlotPool, Ticket, TurnBudget, WorkerRecord,
};

const TAINTS: [&str; 3] = ["gpu", "eu", "spot"];
/// What one turn of the engine does.
const BUDGET: TurnBudget = TurnBudget {
    dispatches: 64,
    removals: 256,
};

fn profile() -> Profile {
    classes_and(
        &[
            "a quantum: 40, prefill_busy_threshold: 100",
            "b quantum: 10, queue_policy: wspt, prefill_busy_threshold: 60, request_queue_limit_per_worker: 3",
            "c quantum: 25, queue_policy: edf, busy_worker_ratio: 0.5, prefill_busy_threshold: 30, queue_timeout_ms: 2",
            "d quantum: 5, queue_policy: lcfs, raw_isl_token_queue_limit_per_worker: 0, prefill_busy_threshold: 0",
        ],
        "decode_weight: 3\nselector: cost",
    )
}

/// A request with parts of its own.
#[derive(Clone, Debug)]
struct Asked {
    family: &'static str,
    raw: u32,
    cached: u32,
    hints: Vec<Hint>,
    priority: u32,
    jump: f64,
    pin: Option<Endpoint>,
    allow: Option<Vec<WorkerId>>,
    taints: Vec<&'static str>,
    deadline: Option<Nanos>,
    may_wait: bool,
}

impl Asked {
    fn draw(draw: &mut Draw, now: Nanos) -> Self {
        let hints = if draw.chance(40) {
            draw.below(6) + 11 * draw.below(2)
        } else {
            0
        };
        let allow = draw.chance(20).then(|| draw.pick(&[0, 1, 3, 9]));
        let taints = if draw.chance(15) {
            1 + draw.place(2)
        } else {
            0
        };
        Self {
            family: draw.pick(&["a", "a", "b", "c", "d", "nobody", ""]),
            raw: draw.pick(&[0, 1, 10, 30, 100, u32::MAX]),
            cached: draw.pick(&[0, 0, 5, 200]),
            hints: (0..hints)
                .map(|_| Hint {
                    endpoint: endpoint(draw),
                    cached: draw.small(120),
                })
                .collect(),
            priority: draw.pick(&[0, 0, 1, u32::MAX]),
            jump: draw.pick(&[0.0, 0.0, 0.000_001, -1.0, 1e300]),
            pin: draw.chance(40).then(|| endpoint(draw)),
            allow: allow.map(|count| (0..count).map(|_| WorkerId(draw.below(6))).collect()),
            taints: (0..taints).map(|_| draw.pick(&TAINTS)).collect(),
            deadline: draw
                .chance(30)
                .then(|| now.saturating_add(Nanos(draw.pick(&[0, 900, 4_000, u64::MAX])))),
            may_wait: !draw.chance(10),
        }
    }

    fn request(&self, payload: u64) -> Request<'_, u64> {
        Request {
            family: Some(self.family),
            cached_tokens: self.cached,
            hints: &self.hints,
            strict_priority: self.priority,
            priority_jump: self.jump,
            pin: self.pin,
            allow: self.allow.as_deref(),
            require_taints: &self.taints,
            deadline: self.deadline,
            may_wait: self.may_wait,
            ..Request::new(self.raw, payload)
        }
    }

    fn to_arbiter(&self, submitted_at: Nanos) -> tollgate_arbiter::Request<'_> {
        tollgate_arbiter::Request {
            cached_tokens: self.cached,
            hints: &self.hints,
            strict_priority: self.priority,
            priority_jump: self.jump,
            pin: self.pin,
            allow: self.allow.as_deref(),
            require_taints: &self.taints,
            deadline: self.deadline,
            may_wait: self.may_wait,
            ..tollgate_arbiter::Request::new(self.raw, submitted_at)
        }
    }
}

fn endpoint(draw: &mut Draw) -> Endpoint {
    Endpoint::new(draw.below(5), draw.small(3))
}

/// Something for the arbiter that the engine has in a ring.
enum Pending {
    Submit(Asked, Nanos, u64, ClassIndex, CostSnapshot),
    Cancel(u64),
    PrefillDone(u64, u8),
    Complete(u64, u8),
    Requeue(u64, u8),
}

/// Both, and what is on its way.
struct Mirror {
    draw: Draw,
    hand: Hand<u64>,
    arbiter: Arbiter<u64>,
    slots: SlotPool,
    /// By payload: the two tickets, and the latest attempt that is dispatched.
    requests: Vec<(tollgate::Ticket, Option<Ticket>, u8)>,
    feedback: Vec<Pending>,
    intake: Vec<Pending>,
    running: Vec<tollgate::Dispatch<u64>>,
    told: u64,
}

impl Mirror {
    fn new(seed: u64) -> Self {
        let rooms = |builder: Builder| builder.slots(4_096).egress_shards(1);
        let mut hand = Hand::new(rooms(Engine::builder(profile())));
        let capacities = Capacities::default();
        let mut arbiter =
            Arbiter::build(&profile(), capacities, Options::default()).expect("it fits");
        // A name that no worker ever had is unknown from the doorway on, whoever comes meanwhile.
        hand.upsert(Worker::new(9).with_taints(TAINTS));
        hand.remove(9);
        for id in 0..3 {
            hand.upsert(Worker::new(id));
            arbiter
                .upsert_worker(&WorkerRecord::new(id))
                .expect("it fits");
        }
        Self {
            draw: Draw(seed),
            hand,
            arbiter,
            slots: SlotPool::new(4_096),
            requests: Vec::new(),
            feedback: Vec::new(),
            intake: Vec::new(),
            running: Vec::new(),
            told: 0,
        }
    }

    fn submit(&mut self) {
        let asked = Asked::draw(&mut self.draw, self.hand.now());
        let payload = self.requests.len() as u64;
        let ticket = self.hand.submit(asked.request(payload));
        self.requests.push((ticket, None, 0));
        // The price and the class are those of the moment, whatever happens on the way.
        let at = self.hand.now();
        let snapshot = self.arbiter.cost_snapshot(&asked.to_arbiter(at));
        let (class, _) = self
            .arbiter
            .resolve(Some(asked.family), snapshot.uncached());
        let submitted = Pending::Submit(asked, at, payload, class, snapshot);
        self.intake.push(submitted);
    }

    fn cancel(&mut self) {
        let back = 1 + self.draw.place(self.requests.len().min(60));
        let payload = self.requests.len() - back;
        self.hand.ingress[0].cancel(self.requests[payload].0);
        self.intake.push(Pending::Cancel(payload as u64));
    }

    fn feedback(&mut self) {
        if self.running.is_empty() {
            return;
        }
        let at = self.draw.place(self.running.len());
        let dispatch = self.running.swap_remove(at);
        let (payload, attempt) = (dispatch.payload, dispatch.attempt);
        match self.draw.below(6) {
            0 => {
                let requeued = self.hand.egress[0].requeue(dispatch);
                assert!(requeued.is_ok(), "there is room");
                self.feedback.push(Pending::Requeue(payload, attempt));
            }
            1 | 2 => {
                self.hand.egress[0].prefill_done(dispatch.receipt());
                self.feedback.push(Pending::PrefillDone(payload, attempt));
                self.running.push(dispatch);
            }
            _ => {
                self.hand.egress[0].complete(dispatch.receipt());
                self.feedback.push(Pending::Complete(payload, attempt));
            }
        }
    }

    fn workers(&mut self) {
        let id = WorkerId(self.draw.below(5));
        let model = FIRST;
        match self.draw.below(6) {
            0 => {
                let got = self.hand.execute(Command::RemoveWorker { model, id });
                assert_eq!(got.is_ok(), self.arbiter.remove_worker(id).is_ok());
            }
            1 => {
                let (endpoint, tokens) = (endpoint(&mut self.draw), self.draw.below(200));
                let command = Command::SetLoad {
                    model,
                    endpoint,
                    tokens,
                };
                let got = self.hand.execute(command);
                assert_eq!(got.is_ok(), self.arbiter.load(endpoint, tokens).is_ok());
            }
            2 => {
                let overloaded = self.draw.chance(50);
                let command = Command::SetOverloaded {
                    model,
                    id,
                    overloaded,
                };
                let got = self.hand.execute(command);
                assert_eq!(
                    got.is_ok(),
                    self.arbiter.set_overloaded(id, overloaded).is_ok()
                );
            }
            3 => {
                let available = self.draw.chance(70);
                let command = Command::SetAvailable {
                    model,
                    id,
                    available,
                };
                let got = self.hand.execute(command);
                assert_eq!(
                    got.is_ok(),
                    self.arbiter.set_available(id, available).is_ok()
                );
            }
            4 => {
                let taints = &TAINTS[..self.draw.place(4)];
                let named = taints.iter().map(|&name| name.into()).collect();
                let got = self.hand.execute(Command::SetTaints {
                    model,
                    id,
                    taints: named,
                });
                let set = self.arbiter.set_taints(id, taints).expect("few names");
                assert_eq!(got.is_ok(), set.is_ok());
            }
            _ => self.upsert(id),
        }
    }

    fn upsert(&mut self, id: WorkerId) {
        let taints = &TAINTS[..self.draw.place(4)];
        let worker = Worker {
            id,
            first_rank: self.draw.small(2),
            ranks: 1 + self.draw.small(3),
            ..Worker::new(0)
        };
        let record = WorkerRecord {
            first_rank: worker.first_rank,
            ranks: worker.ranks,
            taints,
            ..WorkerRecord::new(id.0)
        };
        self.hand.upsert(worker.with_taints(taints.iter().copied()));
        self.arbiter.upsert_worker(&record).expect("it fits");
    }

    /// A turn of both, and what they say.
    fn turn(&mut self) {
        self.hand.turn();
        let mut said = Vec::new();
        self.arbiter.set_time(self.hand.now());
        let (feedback, intake) = (&mut self.feedback, &mut self.intake);
        for pending in feedback.drain(..).chain(intake.drain(..)) {
            let sink = &mut |event| said.push(event);
            match pending {
                Pending::Submit(asked, at, payload, class, snapshot) => {
                    let ticket = self
                        .slots
                        .take()
                        .expect("there are as many as the engine has");
                    self.requests[usize::try_from(payload).expect("small")].1 = Some(ticket);
                    let (arbiter, request) = (&mut self.arbiter, asked.to_arbiter(at));
                    let submitted =
                        arbiter.submit_at(ticket, class, snapshot, &request, payload, sink);
                    assert!(submitted.is_ok(), "the engine accepted it");
                }
                Pending::Cancel(payload) => {
                    let _ = self.arbiter.cancel(known(&self.requests, payload), sink);
                }
                Pending::PrefillDone(payload, attempt) => {
                    let ticket = known(&self.requests, payload);
                    let _ = self.arbiter.prefill_done(ticket, attempt);
                }
                Pending::Complete(payload, attempt) => {
                    let ticket = known(&self.requests, payload);
                    if self.arbiter.complete(ticket, attempt).is_ok() {
                        self.slots.put(ticket);
                    }
                }
                Pending::Requeue(payload, attempt) => {
                    let ticket = known(&self.requests, payload);
                    let requeued = self.arbiter.requeue(ticket, attempt, payload, sink);
                    assert!(requeued.is_ok(), "each dispatch is requeued once");
                }
            }
        }
        self.arbiter.turn(BUDGET, &mut |event| said.push(event));
        self.compare(said);
    }

    fn compare(&mut self, said: Vec<Event<u64>>) {
        let mut expected = Vec::new();
        for event in said {
            match event {
                Event::Dispatched(d) => expected.push(format!(
                    "{} -> {} class {:?} {:?} attempt {} at {:?} after {:?}",
                    d.payload,
                    d.endpoint,
                    d.class,
                    d.snapshot,
                    d.attempt,
                    d.dispatched_at,
                    d.submitted_at
                )),
                Event::Ended {
                    ticket,
                    class,
                    outcome,
                    payload,
                } => {
                    self.slots.put(ticket);
                    expected.push(format!("{payload} class {class:?} {outcome:?}"));
                }
                Event::Queued { .. } | Event::Requeued { .. } => {}
            }
        }
        let mut got = Vec::new();
        for delivery in self.hand.deliveries(0) {
            match delivery {
                Delivery::Dispatch(d) => {
                    got.push(format!(
                        "{} -> {} class {:?} {:?} attempt {} at {:?} after {:?}",
                        d.payload,
                        d.endpoint,
                        d.class,
                        d.snapshot,
                        d.attempt,
                        d.dispatched_at,
                        d.submitted_at
                    ));
                    self.running.push(d);
                }
                Delivery::Ended(e) => {
                    got.push(format!("{} class {:?} {:?}", e.payload, e.class, e.outcome));
                }
                Delivery::Returned { payload, .. } => got.push(format!("{payload} returned")),
            }
        }
        assert_eq!(got, expected);
        self.told += got.len() as u64;
    }

    /// What does not name tickets.
    fn compare_states(&mut self) {
        let (got, expected) = (self.hand.state(), self.arbiter.state());
        assert_eq!(got.ring, expected.ring);
        assert_eq!(got.endpoints, expected.endpoints);
        assert_eq!(
            (got.waiting, got.outstanding),
            (expected.waiting, expected.outstanding)
        );
        for (got, expected) in got.classes.iter().zip(&expected.classes) {
            assert_eq!(got.counters, expected.counters, "{}", got.name);
            assert_eq!(
                (got.deficit, got.turn_open),
                (expected.deficit, expected.turn_open)
            );
            let lanes = |class: &tollgate_arbiter::ClassState| -> Vec<_> {
                let lanes = class.lanes.iter();
                lanes
                    .map(|lane| (lane.endpoint, lane.head, lane.entries.len()))
                    .collect()
            };
            assert_eq!(lanes(got), lanes(expected), "{}", got.name);
        }
    }
}

fn known(requests: &[(tollgate::Ticket, Option<Ticket>, u8)], payload: u64) -> Ticket {
    let at = usize::try_from(payload).expect("small");
    requests[at].1.expect("it was submitted before")
}

#[test]
fn what_is_submitted_arrives_as_it_was_submitted() {
    let mut told = 0;
    for seed in 0..12 {
        let mut mirror = Mirror::new(seed);
        mirror.turn();
        for step in 0..4_000 {
            match mirror.draw.below(20) {
                0..8 if mirror.intake.len() < 60 => mirror.submit(),
                8..10 if !mirror.requests.is_empty() && mirror.intake.len() < 60 => mirror.cancel(),
                10..14 if mirror.feedback.len() < 120 => mirror.feedback(),
                14 => mirror.workers(),
                15 | 16 => {
                    let span = mirror.draw.pick(&[0, 1, 300, 2_000_000]);
                    mirror.hand.time.advance(Nanos(span));
                }
                _ => mirror.turn(),
            }
            if step % 50 == 0 {
                mirror.compare_states();
            }
        }
        mirror.turn();
        mirror.compare_states();
        told += mirror.told;
    }
    assert!(told > 5_000, "{told} dispatches and outcomes were compared");
}
