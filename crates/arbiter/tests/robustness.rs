//! Random calls with random, stale, absurd arguments: never a panic, every invariant after every
//! call, one outcome for every accepted request, and nothing left behind.

mod common;

use std::sync::Arc;

use common::{classes, classes_and};
use std::collections::BTreeMap;
use tollgate_arbiter::{
    Arbiter, Capacities, ClassIndex, CostSnapshot, Endpoint, EndpointState, Event, Hint, Nanos,
    Options, Request, SlotIndex, SlotPool, Ticket, TurnBudget, WorkerId, WorkerRecord,
};
use tollgate_policy::Profile;

const TAINTS: [&str; 4] = ["gpu", "tpu", "", "a taint with a long name"];
const SLOTS: u32 = 48;

/// `SplitMix64`.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    fn small(&mut self, bound: u32) -> u32 {
        u32::try_from(self.below(u64::from(bound))).expect("below a u32")
    }

    /// Mostly small, at times at the edge.
    fn tokens(&mut self) -> u32 {
        match self.below(12) {
            0 => 0,
            1 => u32::MAX,
            2 => self.small(u32::MAX),
            _ => self.small(900),
        }
    }

    fn wide(&mut self) -> u64 {
        match self.below(8) {
            0 => u64::MAX,
            1 => self.next(),
            _ => self.below(3_000),
        }
    }

    fn jump(&mut self) -> f64 {
        let jumps = [
            0.0,
            1e-6,
            -3.0,
            1e9,
            1e300,
            f64::NAN,
            f64::INFINITY,
            f64::MIN_POSITIVE,
        ];
        jumps[usize::try_from(self.below(16)).expect("small").min(7)]
    }

    fn endpoint(&mut self) -> Endpoint {
        if self.one_in(20) {
            return Endpoint::new(self.next(), self.small(u32::MAX));
        }
        Endpoint::new(self.below(6), self.small(3))
    }

    fn ticket(&mut self, live: &BTreeMap<Ticket, Live>) -> Ticket {
        if self.one_in(8) || live.is_empty() {
            return Ticket {
                slot: SlotIndex(self.small(SLOTS + 3)),
                generation: self.small(4),
            };
        }
        let at = usize::try_from(self.below(live.len() as u64)).expect("small");
        *live.keys().nth(at).expect("below the count")
    }
}

#[derive(Clone, Copy, Debug)]
struct Live {
    payload: u64,
    attempt: u8,
    running: bool,
}

struct Run {
    arbiter: Arbiter<u64>,
    slots: SlotPool,
    live: BTreeMap<Ticket, Live>,
    events: Vec<Event<u64>>,
    accepted: u64,
    ended: u64,
    next_payload: u64,
    clock: u64,
}

fn profiles() -> Vec<Profile> {
    let wide = "quantum: 9223372036854775808, prefill_busy_threshold: 700";
    vec![
        classes(&[
            "a quantum: 100, prefill_busy_threshold: 900, request_queue_limit_per_worker: 3",
            "b quantum: 1, queue_policy: wspt, prefill_busy_threshold: 2000, busy_worker_ratio: 0.5",
            &format!("c {wide}, queue_policy: edf, queue_timeout_ms: 1"),
        ]),
        classes_and(
            &[
                "b quantum: 700, queue_policy: lcfs, raw_isl_token_queue_limit_per_worker: 0",
                "d quantum: 3, prefill_busy_threshold_frac: 0.0001",
            ],
            "arbitration: page\noverload_action: hold\nselector: power_of_two\nmax_attempts: 2",
        ),
        classes_and(
            &[
                "a quantum: 100, queue_policy: lcfs",
                "e quantum: 1000, cached_token_queue_limit_per_worker: 50",
            ],
            "selector: round_robin\nmax_attempts: 4",
        ),
        classes_and(
            &[
                "c quantum: 10",
                "a quantum: 7, prefill_busy_threshold: 0",
                "b quantum: 5",
            ],
            "selector: least_loaded\ndecode_weight: 18446744073709551615",
        ),
    ]
}

impl Run {
    fn new(profile: &Profile, seed: u64) -> Self {
        let capacities = Capacities {
            slots: SLOTS,
            classes: 7,
            workers: 5,
            endpoints: 12,
            extension_blocks: 24,
            attempts: 4,
            egress_groups: 2,
        };
        Self {
            arbiter: Arbiter::build(profile, capacities, Options { seed }).expect("it fits"),
            slots: SlotPool::new(SLOTS),
            live: BTreeMap::new(),
            events: Vec::new(),
            accepted: 0,
            ended: 0,
            next_payload: 0,
            clock: 0,
        }
    }

    fn settle(&mut self) {
        for event in std::mem::take(&mut self.events) {
            match event {
                Event::Queued { ticket, .. } => {
                    assert!(!self.live[&ticket].running, "queued once, before it goes");
                }
                Event::Dispatched(dispatch) => {
                    let live = self.live.get_mut(&dispatch.ticket).expect("a live request");
                    assert_eq!(live.payload, dispatch.payload, "its own payload");
                    assert!(!live.running, "dispatched while it waits");
                    assert_eq!(live.attempt + 1, dispatch.attempt);
                    (live.running, live.attempt) = (true, dispatch.attempt);
                }
                Event::Ended {
                    ticket, payload, ..
                } => {
                    let live = self.live.remove(&ticket).expect("ends once");
                    assert_eq!(live.payload, payload, "its own payload");
                    self.ended += 1;
                    self.slots.put(ticket);
                }
                Event::Requeued { ticket, .. } => {
                    let live = self.live.get_mut(&ticket).expect("a live request");
                    assert!(std::mem::take(&mut live.running));
                }
            }
        }
        self.arbiter.check_invariants();
        let running = self.live.values().filter(|live| live.running).count() as u64;
        assert_eq!(self.arbiter.outstanding(), running);
        assert_eq!(self.arbiter.waiting(), self.live.len() as u64 - running);
    }

    fn submit(&mut self, draw: &mut Draw) {
        let hints: Vec<Hint> = (0..draw.below(4) * draw.below(6))
            .map(|_| Hint {
                endpoint: draw.endpoint(),
                cached: draw.tokens(),
            })
            .collect();
        let allow: Vec<WorkerId> = (0..draw.below(11))
            .map(|_| draw.endpoint().worker)
            .collect();
        let taint = TAINTS[usize::try_from(draw.below(4)).expect("small")];
        let taints = [taint, "gpu", taint];
        let taint_count = if draw.one_in(4) {
            usize::try_from(draw.below(4)).expect("small")
        } else {
            0
        };
        let request = Request {
            raw_tokens: draw.tokens(),
            cached_tokens: if draw.one_in(2) { 0 } else { draw.tokens() },
            hints: &hints,
            strict_priority: if draw.one_in(4) {
                draw.small(u32::MAX)
            } else {
                0
            },
            priority_jump: draw.jump(),
            pin: draw.one_in(3).then(|| draw.endpoint()),
            allow: draw.one_in(5).then_some(allow.as_slice()),
            require_taints: &taints[..taint_count],
            deadline: draw
                .one_in(4)
                .then(|| Nanos(self.clock.saturating_add(draw.below(4_000)))),
            may_wait: !draw.one_in(6),
            submitted_at: Nanos(if draw.one_in(9) {
                draw.wide()
            } else {
                self.clock
            }),
        };
        self.offer(draw, &request);
    }

    /// Submits a request at a slot, by name or by class index.
    fn offer(&mut self, draw: &mut Draw, request: &Request<'_>) {
        let Some(ticket) = self.slots.take() else {
            return;
        };
        let payload = self.next_payload;
        self.next_payload += 1;
        self.live.insert(
            ticket,
            Live {
                payload,
                attempt: 0,
                running: false,
            },
        );
        let events = &mut self.events;
        let sink = &mut |event| events.push(event);
        let result = if draw.one_in(10) {
            let class = ClassIndex(u16::try_from(draw.below(9)).expect("small"));
            let raw = draw.tokens();
            let snapshot = CostSnapshot {
                raw,
                cached: draw.tokens(),
            };
            self.arbiter
                .submit_at(ticket, class, snapshot, request, payload, sink)
        } else {
            let names = [
                None,
                Some("a"),
                Some("b"),
                Some("c"),
                Some("d"),
                Some("nobody"),
            ];
            let family = names[usize::try_from(draw.below(6)).expect("small")];
            self.arbiter.submit(ticket, family, request, payload, sink)
        };
        match result {
            Ok(()) => self.accepted += 1,
            Err(refused) => {
                assert_eq!(refused.payload, payload);
                assert!(self.live.remove(&ticket).is_some() && self.events.is_empty());
                self.slots.put(ticket);
            }
        }
    }

    fn feedback(&mut self, draw: &mut Draw) {
        let ticket = draw.ticket(&self.live);
        let live = self.live.get(&ticket).copied();
        let attempt = match live {
            Some(live) if !draw.one_in(10) => live.attempt,
            _ => u8::try_from(draw.below(256)).expect("a byte"),
        };
        let is_latest = live.is_some_and(|live| live.running && live.attempt == attempt);
        let events = &mut self.events;
        let sink = &mut |event| events.push(event);
        match draw.below(5) {
            0 => {
                let waits = live.is_some_and(|live| !live.running);
                assert_eq!(self.arbiter.cancel(ticket, sink).is_ok(), waits);
            }
            1 => {
                let done = self.arbiter.prefill_done(ticket, attempt).is_ok();
                assert!(!done || is_latest);
            }
            2 | 3 => {
                assert_eq!(self.arbiter.complete(ticket, attempt).is_ok(), is_latest);
                if is_latest {
                    self.live.remove(&ticket);
                    self.slots.put(ticket);
                }
            }
            _ => {
                let payload = live.map_or(u64::MAX, |live| live.payload);
                let result = self.arbiter.requeue(ticket, attempt, payload, sink);
                assert_eq!(result.is_ok(), is_latest);
            }
        }
    }

    fn worker(&mut self, draw: &mut Draw) {
        let endpoint = draw.endpoint();
        let id = endpoint.worker;
        let count = usize::try_from(draw.below(4)).expect("small");
        match draw.below(12) {
            0..=2 => {
                let record = WorkerRecord {
                    id,
                    first_rank: if draw.one_in(9) {
                        u32::MAX - draw.small(3)
                    } else {
                        draw.small(2)
                    },
                    ranks: if draw.one_in(9) {
                        draw.small(u32::MAX)
                    } else {
                        draw.small(4)
                    },
                    max_batched_tokens: draw.one_in(2).then(|| draw.wide()),
                    taints: &TAINTS[..count],
                    overloaded: draw.one_in(4),
                    available: !draw.one_in(5),
                };
                let _ = self.arbiter.upsert_worker(&record);
            }
            3 => _ = self.arbiter.remove_worker(id),
            4 => _ = self.arbiter.set_overloaded(id, draw.one_in(2)),
            5 => _ = self.arbiter.set_available(id, draw.one_in(2)),
            6 => {
                _ = self
                    .arbiter
                    .set_taints(id, &TAINTS[count..])
                    .map(|result| result.is_ok());
            }
            7 => _ = self.arbiter.load(endpoint, draw.wide()),
            8..=10 => {
                let group = self.arbiter.capacities().egress_group(id);
                let room = [0, 1, 2, 5, u32::MAX][usize::try_from(draw.below(5)).expect("small")];
                self.arbiter.set_egress_room(group, room);
            }
            _ if draw.one_in(2) => _ = self.arbiter.shut(endpoint),
            _ => _ = self.arbiter.open(endpoint),
        }
    }

    fn step(&mut self, draw: &mut Draw, profiles: &[Profile]) {
        let choice = draw.below(100);
        match choice {
            0..40 => self.submit(draw),
            40..60 => self.feedback(draw),
            60..76 => self.worker(draw),
            76..77 => self.arbiter.hold_drained(draw.one_in(2)),
            77..79 => {
                let profile =
                    &profiles[usize::try_from(draw.below(profiles.len() as u64)).expect("small")];
                let _ = self.arbiter.reload(Arc::new(profile.clone()));
            }
            _ => {
                let events = &mut self.events;
                let sink = &mut |event| events.push(event);
                match choice {
                    79..81 => {
                        self.clock += draw.below(2_000);
                        self.arbiter.set_time(Nanos(self.clock));
                        let _ = self.arbiter.next_deadline();
                    }
                    81..84 => {
                        self.clock += draw.below(2_000);
                        self.arbiter
                            .advance(Nanos(self.clock.saturating_sub(draw.below(3))), sink);
                    }
                    84..90 => _ = self.arbiter.select(sink),
                    90..95 => {
                        _ = self
                            .arbiter
                            .arbitrate(draw.one_in(3).then(|| draw.below(3)), sink);
                    }
                    _ => {
                        let budget = TurnBudget {
                            dispatches: draw.below(4),
                            removals: draw.below(4),
                        };
                        let _ = self.arbiter.turn(budget, sink);
                    }
                }
            }
        }
        self.settle();
    }

    /// Group 0 is lost: what was dispatched there is complete.
    fn abandon(&mut self) {
        let mut next = Some(SlotIndex(0));
        let mut freed = Vec::new();
        while let Some(from) = next {
            next = self
                .arbiter
                .abandon_egress(0, from, 7, |ticket| freed.push(ticket));
            self.arbiter.check_invariants();
        }
        for ticket in freed {
            let live = self.live.remove(&ticket).expect("a live request");
            assert!(live.running);
            self.ended += 1;
        }
        let active = |group| {
            let endpoints = self.arbiter.state().endpoints;
            let of = |e: &EndpointState| e.endpoint.worker.0 % 2 == group;
            endpoints
                .iter()
                .filter(|e| of(e))
                .map(|e| e.active)
                .sum::<u64>()
        };
        assert_eq!(active(0), 0, "nothing runs there any more");
        let running = self.live.values().filter(|live| live.running).count() as u64;
        assert!(active(1) <= running, "the other group's go on");
    }

    /// Stops, completes what runs, and looks for leftovers.
    fn finish(mut self, draw: &mut Draw) {
        self.arbiter.hold_drained(false);
        self.arbiter.begin_drain(Nanos(0));
        while self.arbiter.waiting() > 0 {
            let events = &mut self.events;
            let budget = TurnBudget {
                dispatches: 9,
                removals: 1 + draw.below(4),
            };
            let report = self.arbiter.turn(budget, &mut |event| events.push(event));
            assert_eq!(report.dispatched, 0, "the drain is over");
            self.settle();
            self.feedback(draw);
            self.settle();
        }
        self.abandon();
        for (ticket, live) in std::mem::take(&mut self.live) {
            self.arbiter
                .complete(ticket, live.attempt)
                .expect("it runs");
            self.ended += 1;
        }
        self.arbiter.check_invariants();
        let state = self.arbiter.state();
        assert_eq!((state.waiting, state.outstanding), (0, 0));
        for endpoint in &state.endpoints {
            assert_eq!(
                (endpoint.booked_tokens, endpoint.active),
                (0, 0),
                "{}",
                endpoint.endpoint
            );
        }
        for class in &state.classes {
            assert!(!class.draining, "{} has drained", class.name);
            assert_eq!(
                (class.waiting, class.raw_isl_tokens, class.cached_tokens),
                (0, 0, 0)
            );
            assert_eq!(
                (class.deficit, class.turn_open, class.remembered),
                (0, false, None)
            );
        }
        let ids: Vec<u64> = state
            .endpoints
            .iter()
            .map(|e| e.endpoint.worker.0)
            .collect();
        for id in ids {
            let _ = self.arbiter.remove_worker(WorkerId(id));
        }
        self.arbiter.check_invariants();
    }
}

#[test]
fn random_calls_never_panic_and_lose_nothing() {
    let profiles = profiles();
    for seed in 0..60 {
        let first = usize::try_from(seed).expect("small") % profiles.len();
        let mut run = Run::new(&profiles[first], seed);
        let mut draw = Draw(seed);
        for _ in 0..8_000 {
            run.step(&mut draw, &profiles);
        }
        let requests = run.accepted;
        assert!(requests > 1_000, "seed {seed}: {requests} accepted");
        run.finish(&mut draw);
    }
}
