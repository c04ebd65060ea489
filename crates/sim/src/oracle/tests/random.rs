//! Random runs: nothing panics, everything adds up, and without blocking the order is the textbook's.

use std::collections::{BTreeMap, VecDeque};

use tollgate_policy::{
    Arbitration, ClassPolicy, Fraction, OrderPolicy, OverloadAction, Profile, SelectorKind,
};

use super::super::choose::SplitMix64;
use super::{Run, class, profile};
use crate::protocol::{Endpoint, Event, FailReason, Hint, Op, State, Submission, WorkerRecord};

/// Random choices for one run.
struct Dice(SplitMix64);

impl Dice {
    fn up_to(&mut self, bound: u64) -> u64 {
        self.0.below(usize::try_from(bound).unwrap() + 1) as u64
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.up_to(count - 1) == 0
    }

    fn maybe(&mut self, bound: u64) -> Option<u64> {
        self.one_in(2).then(|| self.up_to(bound))
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.0.below(items.len())]
    }

    fn small(&mut self, bound: u32) -> u32 {
        u32::try_from(self.up_to(u64::from(bound))).unwrap()
    }

    fn policy(&mut self, name: &str) -> ClassPolicy {
        let mut policy = class(name, 1 + self.up_to(60));
        let orders = [
            OrderPolicy::Fcfs,
            OrderPolicy::Wspt,
            OrderPolicy::Lcfs,
            OrderPolicy::Edf,
        ];
        policy.order = self.pick(&orders);
        policy.prefill_busy_threshold = self.maybe(80);
        policy.prefill_busy_threshold_frac =
            self.maybe(90).map(|percent| Fraction::new(percent, 2));
        if policy.has_threshold() && self.one_in(2) {
            policy.busy_worker_ratio = Some(Fraction::new(1 + self.up_to(99), 2));
        }
        if self.one_in(3) {
            policy.request_queue_limit_per_worker = self.maybe(4);
            policy.raw_isl_token_queue_limit_per_worker = self.maybe(99);
            policy.cached_token_queue_limit_per_worker = self.maybe(60);
        }
        policy.queue_timeout_ms = self.one_in(4).then(|| self.up_to(3));
        policy
    }

    fn profile(&mut self) -> Profile {
        let mut names = vec!["a", "b", "c", "d"];
        names.rotate_left(self.0.below(4));
        names.truncate(1 + self.0.below(4));
        let classes = names.into_iter().map(|name| self.policy(name)).collect();
        let selectors = [
            SelectorKind::Cost,
            SelectorKind::LeastLoaded,
            SelectorKind::RoundRobin,
            SelectorKind::PowerOfTwo,
        ];
        profile(classes)
            .with_arbitration(self.pick(&[Arbitration::Exact, Arbitration::Page]))
            .with_overload_action(self.pick(&[OverloadAction::Fail, OverloadAction::Hold]))
            .with_selector(self.pick(&selectors))
            .with_decode_weight(self.up_to(9))
    }

    fn endpoint(&mut self) -> Endpoint {
        Endpoint::new(self.up_to(3), self.small(2))
    }

    fn submission(&mut self, id: String) -> Submission {
        let mut submission = Submission::new(&id, self.small(100));
        submission.family = Some(self.pick(&["a", "b", "c", "d", "e", ""]).to_owned());
        submission.cached = self.small(60);
        submission.strict_priority = self.small(1);
        submission.priority_jump = f64::from(self.small(3)) - 1.0;
        submission.pin = self.one_in(3).then(|| self.endpoint());
        submission.allow = self.one_in(4).then(|| vec![self.up_to(3), self.up_to(3)]);
        submission.deadline_us = self.one_in(4).then(|| self.up_to(9_000));
        submission.may_wait = !self.one_in(6);
        if self.one_in(8) {
            submission.require_taints.push("t".to_owned());
        }
        for _ in 0..self.up_to(2) {
            submission.hints.push(Hint {
                endpoint: self.endpoint(),
                cached: self.small(60),
            });
        }
        submission
    }

    fn worker(&mut self) -> WorkerRecord {
        WorkerRecord {
            ranks: 1 + self.small(1),
            first_rank: self.small(1),
            max_batched_tokens: self.maybe(99).map(|tokens| tokens + 1),
            taints: if self.one_in(2) {
                vec!["t".to_owned()]
            } else {
                Vec::new()
            },
            overloaded: self.one_in(5),
            available: !self.one_in(8),
            ..WorkerRecord::new(self.up_to(3))
        }
    }

    fn op(&mut self, submitted: u64) -> Op {
        let id = format!("r{}", self.up_to(submitted));
        let attempt = self.one_in(4).then(|| self.small(3));
        match self.up_to(30) {
            0..=9 => Op::Submit(self.submission(format!("r{submitted}"))),
            10..=13 => Op::Arbitrate { max: self.maybe(3) },
            14..=16 => Op::Complete { id, attempt },
            17 | 18 => Op::PrefillDone { id, attempt },
            19 | 20 => Op::Requeue { id, attempt },
            21 | 22 => Op::Cancel { id },
            23 => Op::Advance {
                us: self.up_to(900),
            },
            24 => Op::RemoveWorker { id: self.up_to(3) },
            25 => Op::Load {
                worker: self.endpoint(),
                tokens: self.up_to(60),
            },
            26 => Op::Shut {
                worker: self.endpoint(),
            },
            27 => Op::Open {
                worker: self.endpoint(),
            },
            _ => Op::Worker(self.worker()),
        }
    }
}

/// What holds in every state (S6.3 among others).
fn check(state: &State) {
    let mut waiting = 0;
    for class in &state.classes {
        let listed: usize = class.lanes.iter().map(|lane| lane.waiting.len()).sum();
        assert_eq!(class.waiting, listed as u64);
        waiting += class.waiting;
        if class.waiting == 0 {
            assert_eq!(
                (class.deficit, &class.remembered),
                (0, &None),
                "{}",
                class.name
            );
            let open = state.open_turns.iter().flatten();
            assert!(open.into_iter().all(|name| *name != class.name));
            assert_ne!(state.holder.as_ref(), Some(&class.name));
        }
        assert!(!class.vanished || class.waiting + class.in_flight > 0);
    }
    assert_eq!(state.waiting, waiting);
    if let Some(ring) = &state.ring {
        let mut ring = ring.clone();
        let mut names: Vec<_> = state
            .classes
            .iter()
            .map(|class| class.name.clone())
            .collect();
        ring.sort();
        names.sort();
        assert_eq!(ring, names);
    }
    let mut numbers: Vec<_> = state
        .workers
        .iter()
        .map(|endpoint| endpoint.number)
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), state.workers.len());
}

/// S8: how often each request came to an end; a requeue withdraws a dispatch.
fn endings(events: &[Event]) -> BTreeMap<&str, i32> {
    let mut endings = BTreeMap::new();
    for event in events {
        let (id, ends) = match event {
            Event::Queued { id, .. } => (id, 0),
            Event::Requeued { id, .. } => (id, -1),
            Event::Failed {
                id,
                reason: FailReason::HandOff,
                ..
            } => (id, 0),
            Event::Rejected { id, .. }
            | Event::Dispatched { id, .. }
            | Event::Failed { id, .. }
            | Event::Expired { id, .. }
            | Event::Cancelled { id, .. }
            | Event::ShuttingDown { id, .. }
            | Event::Closed { id, .. } => (id, 1),
            _ => continue,
        };
        *endings.entry(id.as_str()).or_default() += ends;
    }
    endings
}

/// One random run from start to stop.
fn random_run(seed: u64) {
    let mut dice = Dice(SplitMix64::new(seed));
    let mut run = Run::new(&dice.profile());
    let mut submitted = 0;
    for _ in 0..150 {
        if dice.one_in(40) {
            run.reload(&dice.profile());
        } else {
            let op = dice.op(submitted);
            submitted += u64::from(matches!(op, Op::Submit(_)));
            run.op(&op.to_json());
        }
        check(&run.state());
    }
    run.op(r#"{"op":"stop"}"#);
    for id in 0..submitted {
        run.op(&format!(r#"{{"op":"complete","id":"r{id}"}}"#));
    }
    let state = run.state();
    check(&state);
    assert_eq!(state.waiting, 0);
    for endpoint in &state.workers {
        assert_eq!(
            (endpoint.active, endpoint.prefill_tokens),
            (0, endpoint.reported_tokens)
        );
    }
    assert!(
        state
            .classes
            .iter()
            .all(|class| class.in_flight == 0 && !class.vanished)
    );
    let endings = endings(&run.events);
    assert_eq!(endings.len() as u64, submitted);
    for (id, count) in endings {
        assert_eq!(count, 1, "{id} with seed {seed}");
    }
}

#[test]
fn s8_every_request_ends_once_and_everything_adds_up() {
    for seed in 0..200 {
        random_run(seed);
    }
}

/// The textbook: each visit of a class that has work grants one quantum and serves what it can pay.
fn textbook(quanta: &[u64], mut queues: Vec<VecDeque<(String, u64)>>) -> Vec<String> {
    let mut deficits = vec![0; quanta.len()];
    let mut order = Vec::new();
    while queues.iter().any(|queue| !queue.is_empty()) {
        for (index, queue) in queues.iter_mut().enumerate() {
            if queue.is_empty() {
                continue;
            }
            deficits[index] += quanta[index];
            while let Some((id, cost)) = queue.pop_front_if(|(_, cost)| *cost <= deficits[index]) {
                deficits[index] -= cost;
                order.push(id);
            }
            if queue.is_empty() {
                deficits[index] = 0;
            }
        }
    }
    order
}

#[test]
fn s6_9_without_blocking_the_order_is_the_textbooks() {
    let names = ["a", "b", "c", "d"];
    for seed in 0..100 {
        let mut dice = Dice(SplitMix64::new(seed));
        let quanta: Vec<u64> = names.iter().map(|_| 1 + dice.up_to(50)).collect();
        let classes = names
            .iter()
            .zip(&quanta)
            .map(|(name, quantum)| class(name, *quantum));
        let mut run = Run::new(&profile(classes.collect()));
        run.op(r#"{"op":"worker","id":1}"#);
        let mut queues = vec![VecDeque::new(); names.len()];
        for number in 0..40 {
            let place = dice.0.below(names.len());
            let cost = 1 + dice.up_to(200);
            let (name, id) = (names[place], format!("{}{number}", names[place]));
            run.op(&format!(
                r#"{{"op":"submit","id":"{id}","family":"{name}","isl":{cost}}}"#
            ));
            queues[place].push_back((id, cost));
        }
        let expected = textbook(&quanta, queues);
        assert_eq!(run.turn_ids(99), expected, "seed {seed}");
    }
}
