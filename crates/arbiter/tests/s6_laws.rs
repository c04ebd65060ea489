//! S6.10: the laws of `exact`, over long runs in which anything may be blocked at any time.
//!
//! A model of one class is a queue of random costs behind one pinned worker; shutting the worker
//! blocks the class. Laws are checked at every selection, law (a) by the running maximum and
//! minimum of each pair's gap, so that no interval is left out. Such an interval lasts while both
//! classes of the pair have a candidate or neither has; classes that are blocked together share one
//! that lasts the whole run.

mod common;

use std::collections::VecDeque;
use tollgate_arbiter::{
    Arbiter, Capacities, Dispatch, Endpoint, Event, Nanos, Options, Request, SlotPool, WorkerRecord,
};

use common::classes;

/// Selections of each long run: a million where optimised, fewer where debug assertions run.
const SELECTIONS: u64 = if cfg!(debug_assertions) {
    100_000
} else {
    1_000_000
};

/// `SplitMix64`.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }
}

/// The gap `served_i / q_i - served_j / q_j` of a pair over the selections that count, in units of
/// `1 / (q_i x q_j)` tokens: exact.
#[derive(Clone, Copy, Default)]
struct Gap {
    now: i128,
    highest: i128,
    lowest: i128,
}

impl Gap {
    fn move_by(&mut self, by: i128) {
        self.now += by;
        self.highest = self.highest.max(self.now);
        self.lowest = self.lowest.min(self.now);
    }

    /// The largest gap over any interval.
    fn widest(&self) -> i128 {
        self.highest - self.lowest
    }
}

/// A class that became backlogged, or whose service law (b) has begun to count.
#[derive(Clone, Copy)]
struct Latency {
    head: u64,
    others: u64,
}

struct Class {
    quantum: u64,
    /// Costs of the waiting requests, first come first.
    queue: VecDeque<u32>,
    blocked: bool,
    /// The largest cost ever presented as a candidate.
    largest: u64,
    latency: Option<Latency>,
}

struct Model {
    arbiter: Arbiter<()>,
    slots: SlotPool,
    classes: Vec<Class>,
    names: Vec<String>,
    gaps: Vec<Vec<Gap>>,
    was_blocked: bool,
    dispatched: u64,
}

impl Model {
    fn new(quanta: &[u64]) -> Self {
        let lines: Vec<_> = quanta
            .iter()
            .enumerate()
            .map(|(at, q)| format!("c{at} quantum: {q}"))
            .collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let capacities = Capacities {
            slots: 1 << 10,
            endpoints: 64,
            ..Capacities::default()
        };
        let mut arbiter =
            Arbiter::build(&classes(&lines), capacities, Options::default()).expect("fits");
        for at in 0..quanta.len() {
            arbiter
                .upsert_worker(&WorkerRecord::new(at as u64))
                .expect("room");
        }
        let class = |&quantum: &u64| Class {
            quantum,
            queue: VecDeque::new(),
            blocked: false,
            largest: 0,
            latency: None,
        };
        Self {
            arbiter,
            slots: SlotPool::new(capacities.slots),
            classes: quanta.iter().map(class).collect(),
            names: (0..quanta.len()).map(|at| format!("c{at}")).collect(),
            gaps: vec![vec![Gap::default(); quanta.len()]; quanta.len()],
            was_blocked: false,
            dispatched: 0,
        }
    }

    fn submit(&mut self, at: usize, cost: u32) {
        let ticket = self.slots.take().expect("a slot");
        let request = Request {
            pin: Some(Endpoint::new(at as u64, 0)),
            ..Request::new(cost, Nanos(0))
        };
        let name = Some(self.names[at].as_str());
        self.arbiter
            .submit(ticket, name, &request, (), &mut |_| {})
            .expect("accepted");
        let class = &mut self.classes[at];
        if class.queue.is_empty() {
            class.latency = Some(Latency {
                head: u64::from(cost),
                others: 0,
            });
        }
        class.queue.push_back(cost);
    }

    fn block(&mut self, at: usize, blocked: bool) {
        let endpoint = Endpoint::new(at as u64, 0);
        let result = if blocked {
            self.arbiter.shut(endpoint)
        } else {
            self.arbiter.open(endpoint)
        };
        result.expect("a known worker");
        self.classes[at].blocked = blocked;
        self.was_blocked |= blocked;
    }

    fn has_candidate(&self, at: usize) -> bool {
        !self.classes[at].blocked && !self.classes[at].queue.is_empty()
    }

    /// One selection, checked against (b), (c), (d), and counted for (a).
    fn select(&mut self) {
        let count = self.classes.len();
        let candidates: Vec<bool> = (0..count).map(|at| self.has_candidate(at)).collect();
        for (class, _) in self
            .classes
            .iter_mut()
            .zip(&candidates)
            .filter(|(_, is)| **is)
        {
            class.largest = class.largest.max(u64::from(class.queue[0]));
        }
        let mut sent: Option<Dispatch<()>> = None;
        let went = self.arbiter.select(&mut |event| {
            if let Event::Dispatched(dispatch) = event {
                sent = Some(dispatch);
            }
        });
        assert_eq!(
            went,
            candidates.contains(&true),
            "(d): dry only without a candidate"
        );
        let Some(sent) = sent else { return };
        self.dispatched += 1;
        let winner = usize::try_from(sent.endpoint.worker.0).expect("small");
        assert!(candidates[winner]);
        let cost = self.classes[winner].queue.pop_front().expect("it waited");
        assert_eq!(cost, sent.snapshot.cost());
        let class = &self.classes[winner];
        // l >= 1 and q >= 1; with l = 1 and q = 1 the law says 0.
        assert!(
            sent.deficit <= class.quantum + class.largest - 2,
            "(c): deficit {} of quantum {} and largest {}",
            sent.deficit,
            class.quantum,
            class.largest
        );
        self.arbiter.complete(sent.ticket, 1).expect("dispatched");
        self.slots.put(sent.ticket);
        self.count_gaps(winner, cost, &candidates);
        self.count_latencies(winner, cost, &candidates);
        if self.classes[winner].queue.is_empty() {
            self.end_intervals_of(winner);
        }
    }

    /// A class that ran empty gave its credit up (S6.3): its intervals end here.
    fn end_intervals_of(&mut self, at: usize) {
        for other in (0..self.classes.len()).filter(|&other| other != at) {
            self.end_interval(at.min(other), at.max(other));
        }
    }

    fn count_gaps(&mut self, winner: usize, cost: u32, candidates: &[bool]) {
        for i in 0..self.classes.len() {
            for j in i + 1..self.classes.len() {
                if candidates[i] != candidates[j] {
                    self.end_interval(i, j);
                } else if winner == i {
                    let by = i128::from(cost) * i128::from(self.classes[j].quantum);
                    self.gaps[i][j].move_by(by);
                } else if winner == j {
                    let by = i128::from(cost) * i128::from(self.classes[i].quantum);
                    self.gaps[i][j].move_by(-by);
                }
            }
        }
    }

    fn end_interval(&mut self, i: usize, j: usize) {
        self.check_gap(i, j);
        self.gaps[i][j] = Gap::default();
    }

    fn count_latencies(&mut self, winner: usize, cost: u32, candidates: &[bool]) {
        for (at, &is_candidate) in candidates.iter().enumerate() {
            if at == winner {
                self.classes[at].latency = None;
                continue;
            }
            let Some(mut latency) = self.classes[at].latency else {
                continue;
            };
            if !is_candidate {
                continue;
            }
            latency.others += u64::from(cost);
            self.classes[at].latency = Some(latency);
            let turns = latency.head.div_ceil(self.classes[at].quantum);
            let bound: u64 = (0..self.classes.len())
                .filter(|&other| other != at && self.classes[other].largest > 0)
                .map(|other| turns * self.classes[other].quantum + self.classes[other].largest - 1)
                .sum();
            assert!(
                latency.others <= bound,
                "(b): {} of {bound}",
                latency.others
            );
        }
    }

    /// Law (c) for every class, not only for the one that was dispatched last.
    fn check_deficits(&self) {
        for (state, class) in self.arbiter.state().classes.iter().zip(&self.classes) {
            assert!(
                state.deficit <= (class.quantum + class.largest).saturating_sub(2),
                "(c)"
            );
        }
    }

    fn check_gaps(&self) {
        for i in 0..self.classes.len() {
            for j in i + 1..self.classes.len() {
                self.check_gap(i, j);
            }
        }
    }

    fn check_gap(&self, i: usize, j: usize) {
        let constant = if self.was_blocked { 2 } else { 1 };
        let (first, second) = (&self.classes[i], &self.classes[j]);
        let (q_i, q_j) = (i128::from(first.quantum), i128::from(second.quantum));
        let slack = |class: &Class| i128::from(class.largest.saturating_sub(1));
        let bound = constant * q_i * q_j + slack(first) * q_j + slack(second) * q_i;
        let widest = self.gaps[i][j].widest();
        assert!(
            widest <= bound,
            "(a): classes {i} and {j}: {widest} of {bound}"
        );
    }
}

/// How a run's costs, blocking and idling are drawn.
struct Plan {
    quanta: Vec<u64>,
    costs: Vec<u64>,
    /// One group of classes in so many is flipped before a selection; 0 blocks nobody.
    block_one_in: u64,
    /// How many neighbours are blocked and freed together.
    group: usize,
    /// Whether classes run empty now and then.
    idles: bool,
}

/// Blocks or frees groups of classes at random.
fn flip(model: &mut Model, plan: &Plan, draw: &mut Draw) {
    let count = plan.quanta.len();
    for first in (0..count).step_by(plan.group) {
        if plan.block_one_in > 0 && draw.below(plan.block_one_in) == 0 {
            let blocked = !model.classes[first].blocked;
            for at in first..count.min(first + plan.group) {
                model.block(at, blocked);
            }
        }
    }
}

fn run(plan: &Plan, selections: u64, seed: u64) {
    let mut model = Model::new(&plan.quanta);
    let mut draw = Draw(seed);
    let count = plan.quanta.len();
    for step in 0..selections {
        for at in 0..count {
            let depth = model.classes[at].queue.len();
            let refill = if plan.idles {
                depth < 3 && draw.below(4) == 0
            } else {
                depth < 2
            };
            if refill {
                let cost = 1 + draw.below(plan.costs[at]);
                model.submit(at, u32::try_from(cost).expect("a cost"));
            }
        }
        flip(&mut model, plan, &mut draw);
        model.select();
        if step % 4_096 == 0 {
            model.check_gaps();
            model.check_deficits();
            model.arbiter.check_invariants();
        }
    }
    model.check_gaps();
    assert!(
        model.dispatched > selections / 3,
        "{} dispatches",
        model.dispatched
    );
}

#[test]
fn s6_10_a_to_d_unblocked() {
    let plan = Plan {
        quanta: vec![100, 300, 50, 1_000, 7],
        costs: vec![3_000, 50, 400, 1, 90],
        block_one_in: 0,
        group: 1,
        idles: false,
    };
    run(&plan, SELECTIONS, 1);
}

#[test]
fn s6_10_a_to_d_under_random_blocking() {
    let plan = Plan {
        quanta: vec![512, 2_048, 100, 1, 30],
        costs: vec![600, 600, 5_000, 40, 7],
        block_one_in: 3,
        group: 2,
        idles: false,
    };
    run(&plan, SELECTIONS, 2);
}

#[test]
fn s6_10_a_to_d_under_rare_blocking_and_idling() {
    let plan = Plan {
        quanta: vec![10, 20, 40],
        costs: vec![70, 30, 10],
        block_one_in: 40,
        group: 1,
        idles: true,
    };
    run(&plan, SELECTIONS, 3);
}

#[test]
fn s6_10_a_to_d_over_many_configurations() {
    for seed in 0..200 {
        let mut draw = Draw(seed + 1_000);
        let count = 2 + usize::try_from(draw.below(5)).expect("small");
        let scale = |draw: &mut Draw| {
            let scale = [1, 10, 1_000, 100_000][usize::try_from(draw.below(4)).expect("small")];
            1 + draw.below(scale)
        };
        let plan = Plan {
            quanta: (0..count).map(|_| scale(&mut draw)).collect(),
            costs: (0..count).map(|_| scale(&mut draw)).collect(),
            block_one_in: [0, 2, 5, 20][usize::try_from(draw.below(4)).expect("small")],
            group: 1 + usize::try_from(draw.below(3)).expect("small"),
            idles: draw.below(2) == 0,
        };
        let selections = 1_000 + SELECTIONS / 1_000;
        run_loosely(&plan, selections, seed);
    }
}

/// As [`run`], where a plan may leave nearly every selection dry.
fn run_loosely(plan: &Plan, selections: u64, seed: u64) {
    let mut model = Model::new(&plan.quanta);
    let mut draw = Draw(seed);
    for _ in 0..selections {
        for at in 0..plan.quanta.len() {
            if model.classes[at].queue.len() < 2 && (!plan.idles || draw.below(3) == 0) {
                let cost = 1 + draw.below(plan.costs[at]);
                model.submit(at, u32::try_from(cost).expect("a cost"));
            }
        }
        flip(&mut model, plan, &mut draw);
        model.select();
    }
    model.check_gaps();
    model.arbiter.check_invariants();
}

#[test]
fn s6_10_c_deficits_saturate_at_2_64_less_1() {
    let line = format!("c0 quantum: {}", 1_u64 << 63);
    let capacities = Capacities {
        slots: 64,
        ..Capacities::default()
    };
    let mut arbiter = Arbiter::build(
        &classes(&[&line, "c1 quantum: 1"]),
        capacities,
        Options::default(),
    )
    .expect("fits");
    let mut slots = SlotPool::new(64);
    arbiter.upsert_worker(&WorkerRecord::new(0)).expect("room");
    for name in ["c0", "c0", "c0", "c1", "c1", "c1"] {
        let ticket = slots.take().expect("a slot");
        let request = Request::new(u32::MAX, Nanos(0));
        arbiter
            .submit(ticket, Some(name), &request, (), &mut |_| {})
            .expect("accepted");
    }
    // c0 requeues and so opens turn after turn, each with a grant of 2^63.
    for _ in 0..2 {
        let mut first = None;
        arbiter.select(&mut |event| {
            if let Event::Dispatched(dispatch) = event {
                first = Some(dispatch);
            }
        });
        let first = first.expect("dispatched");
        arbiter
            .requeue(first.ticket, first.attempt, (), &mut |_| {})
            .expect("it runs");
        arbiter.check_invariants();
    }
    let state = arbiter.state();
    assert!(state.classes[0].deficit > 1 << 63);
}
