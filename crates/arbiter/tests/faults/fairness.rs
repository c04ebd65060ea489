//! Fairness: head-of-line blocking, starvation, order among equals.

use tollgate_arbiter::{
    Arbiter, Capacities, Event, Nanos, Options, Request, SlotPool, WorkerRecord,
};

use crate::common::{Ask, Stage, World, classes};
use crate::{blocked_lane, draw, tokens_of};

// One blocked thing blocks too much, or too little.

/// A blocked head stops the whole class, or lets everything behind it pass.
#[test]
fn hol_a_blocked_shared_head_blocks_its_lane_alone() {
    let mut world = blocked_lane();
    world.worker(2);
    world.submit(Ask::new("s1", 1).allow(&[1]));
    world.submit(Ask::new("s2", 1));
    world.submit(Ask::new("p", 1).pin(2, 0));
    world.run();
    assert_eq!(world.order(), ["p"]);
    assert!(world.complete("p"));
    world.load(1, 0, 0);
    world.run();
    assert_eq!(world.order(), ["s1", "s2"]);
}

/// "Remove this lane" is done by removing the first one: a lane is lost, another served twice.
#[test]
fn hol_the_middle_lane_of_three_is_blocked_and_freed() {
    let mut world = World::new(&classes(&["a quantum: 100, prefill_busy_threshold: 0"]));
    for id in 1..=3 {
        world.worker(id);
        world.submit(Ask::new(&format!("x{id}"), 1).pin(id, 0));
    }
    world.shut(2, 0);
    world.run();
    assert_eq!(world.order(), ["x1", "x3"]);
    world.open(2, 0);
    world.run();
    assert_eq!(world.order(), ["x2"]);
    assert!(!world.select());
}

// Starvation, the wrong unit of fairness, credit that winds up.

/// The reference: four to one, in the order that the quanta say, and what is left over.
#[test]
fn fair_four_to_one_in_order() {
    let mut world = World::with_worker(&classes(&["p quantum: 2048", "r quantum: 512"]));
    world.checks = false;
    world.submit_many(320, Ask::new("p", 512).of("p"));
    world.submit_many(320, Ask::new("r", 512).of("r"));
    world.take();
    world.arbitrate(320);
    let order: String = world.sent().iter().map(|sent| sent.class.clone()).collect();
    assert_eq!(order, "ppppr".repeat(64));
    while world.class("p").waiting > 0 {
        assert!(world.select());
    }
    assert_eq!(world.class("r").waiting, 241, "r waits for its 80th turn");
}

/// The same with the other class first in the file.
#[test]
fn fair_four_to_one_with_the_smaller_class_first() {
    let mut world = World::with_worker(&classes(&["r quantum: 512", "p quantum: 2048"]));
    world.checks = false;
    world.submit_many(320, Ask::new("p", 512).of("p"));
    world.submit_many(320, Ask::new("r", 512).of("r"));
    while world.class("p").waiting > 0 {
        assert!(world.select());
    }
    assert_eq!(world.class("r").waiting, 240);
}

/// Serves `quanta.len()` classes that never run empty; the tokens of each.
fn long_run(quanta: &[u64], selections: u64, cost: impl Fn(&mut u64, usize) -> u64) -> Vec<u64> {
    let lines: Vec<_> = quanta
        .iter()
        .enumerate()
        .map(|(at, q)| format!("c{at} quantum: {q}"))
        .collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let mut arbiter =
        Arbiter::build(&classes(&lines), Capacities::default(), Options::default()).expect("fits");
    let mut slots = SlotPool::new(64);
    let mut state = 3;
    arbiter.upsert_worker(&WorkerRecord::new(1)).expect("room");
    let mut tokens = vec![0; quanta.len()];
    let mut submit = |arbiter: &mut Arbiter<usize>, slots: &mut SlotPool, class: usize| {
        let tokens = u32::try_from(cost(&mut state, class)).expect("a cost");
        let ticket = slots.take().expect("a slot");
        let request = Request::new(tokens, Nanos(0));
        let name = format!("c{class}");
        arbiter
            .submit(ticket, Some(&name), &request, class, &mut |_| {})
            .expect("accepted");
    };
    for class in 0..quanta.len() {
        submit(&mut arbiter, &mut slots, class);
        submit(&mut arbiter, &mut slots, class);
    }
    for _ in 0..selections {
        let mut sent = None;
        assert!(arbiter.select(&mut |event: Event<usize>| {
            if let Event::Dispatched(dispatch) = event {
                sent = Some(dispatch);
            }
        }));
        let sent = sent.expect("dispatched");
        tokens[sent.payload] += u64::from(sent.snapshot.cost());
        arbiter.complete(sent.ticket, 1).expect("it runs");
        slots.put(sent.ticket);
        submit(&mut arbiter, &mut slots, sent.payload);
    }
    tokens
}

/// A rotation skips a class, or favours the one behind an empty one.
#[test]
fn fair_no_class_is_missing_from_the_rotation() {
    let tokens = long_run(&[100; 5], 100_000, |state, _| 1 + draw(state, 3_000));
    let total: u64 = tokens.iter().sum();
    for (class, &tokens) in tokens.iter().enumerate() {
        assert!(
            tokens * 1_000 >= total * 195 && tokens * 1_000 <= total * 205,
            "class {class}"
        );
    }
    let tokens = long_run(&[100, 200, 300], 100_000, |state, _| 1 + draw(state, 3_000));
    let total: u64 = tokens.iter().sum();
    for (tokens, parts) in tokens.into_iter().zip([1, 2, 3]) {
        let share = total * parts / 6;
        assert!(tokens.abs_diff(share) * 200 <= share, "{tokens} of {share}");
    }
}

/// Fairness is counted in requests: whoever sends large ones gets more.
#[test]
fn fair_is_counted_in_tokens() {
    let tokens = long_run(
        &[100, 100],
        110,
        |_, class| if class == 0 { 10 } else { 100 },
    );
    assert_eq!(tokens, [1_000, 1_000]);
}

/// A high tier in one class starves the other class.
#[test]
fn fair_tiers_starve_inside_their_class_only() {
    let mut world = World::with_worker(&classes(&["a quantum: 100", "b quantum: 100"]));
    world.checks = false;
    world.submit(Ask::new("low", 100).of("a"));
    world.submit_many(200, Ask::new("high", 100).of("a").tier(1));
    world.submit_many(200, Ask::new("b", 100).of("b"));
    world.arbitrate(200);
    assert_eq!(
        world.stage("low"),
        Stage::Waiting,
        "by contract, while the tier above lasts"
    );
    assert_eq!(
        (tokens_of(&world, "a"), tokens_of(&world, "b")),
        (10_000, 10_000)
    );
    world.advance_us(1_000);
    let lane = &world.class("a").lanes[0];
    let oldest = lane.entries.iter().map(|entry| entry.submitted_at).min();
    assert_eq!(oldest, Some(Nanos(0)), "its age can be seen");
}

/// Shortest-first starves the large request; that is its contract, and it can be seen.
#[test]
fn fair_wspt_does_not_serve_the_large_one_while_small_ones_come() {
    let mut world = World::with_worker(&classes(&["a quantum: 1, queue_policy: wspt"]));
    world.submit(("large", 10_000));
    for at in 0..300 {
        world.submit(Ask::new(&format!("s{at}"), 10));
        assert!(world.select());
        assert!(world.complete(&format!("s{at}")));
    }
    assert_eq!(world.stage("large"), Stage::Waiting);
    assert!(world.select());
    assert_eq!(world.stage("large"), Stage::Running);
}

/// An urgent request stands behind what came first, or equals overtake each other.
#[test]
fn fair_no_priority_inversion_and_no_ping_pong() {
    let mut world = World::with_worker(&classes(&["a quantum: 100, prefill_busy_threshold: 0"]));
    world.submit_many(20, ("x", 1));
    world.run();
    world.submit(Ask::new("urgent", 1).tier(1));
    for _ in 0..50 {
        assert!(!world.select());
    }
    world.take();
    assert!(world.complete("x0"));
    world.run();
    assert_eq!(world.order(), ["urgent"]);
    assert!(world.complete("urgent"));
    for at in 1..20 {
        world.run();
        assert_eq!(world.order(), [format!("x{at}")]);
        assert!(world.complete(&format!("x{at}")));
    }
}

/// A request larger than the quantum is never affordable, or costs a loop per quantum.
#[test]
fn fair_a_request_larger_than_the_quantum_is_served_in_its_time() {
    let mut world = World::with_worker(&classes(&["a quantum: 1", "b quantum: 1"]));
    world.submit(Ask::new("a0", 1_000_000).of("a"));
    world.submit(Ask::new("a1", 1).of("a"));
    world.submit_many(10, Ask::new("b", 10).of("b"));
    let mut order = Vec::new();
    for _ in 0..12 {
        assert_eq!(world.arbitrate(1).dispatched, 1, "each call dispatches");
        order.extend(world.order());
    }
    assert_eq!(
        order[..10],
        ["b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7", "b8", "b9"]
    );
    assert_eq!(order[10..], ["a0", "a1"]);
}

/// Without a threshold nothing waits, so priorities mean nothing: no request may be held back.
#[test]
fn fair_without_a_threshold_nothing_waits() {
    let mut world = World::with_worker(&classes(&["a quantum: 100"]));
    world.checks = false;
    for at in 0..1_000 {
        let name = format!("x{at}");
        world.submit(Ask::new(&name, 50).tier(at % 3));
        world.run();
        assert_eq!(world.order(), [name]);
        assert_eq!(world.state().waiting, 0);
    }
}

/// Idle classes count as active and dilute the shares of those that have work.
#[test]
fn fair_idle_classes_change_neither_order_nor_share() {
    let lines: Vec<_> = (1..=100).map(|q| format!("c{q} quantum: {q}")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let capacities = Capacities {
        classes: 100,
        ..Capacities::default()
    };
    let mut world = World::sized(&classes(&lines), capacities);
    world.checks = false;
    world.worker(1);
    world.submit_many(40, Ask::new("a", 5).of("c10"));
    world.submit_many(80, Ask::new("b", 5).of("c20"));
    world.take();
    world.arbitrate(60);
    let order: Vec<_> = world.sent().into_iter().map(|sent| sent.class).collect();
    for round in order.chunks(6) {
        assert_eq!(round, ["c10", "c10", "c20", "c20", "c20", "c20"]);
    }
}

// Ties, requeue positions, polarity.

/// Looking at a blocked lane takes the head out and puts it back behind its equals.
#[test]
fn order_a_thousand_dry_turns_change_nothing() {
    let mut world = blocked_lane();
    world.submit_many(3, ("r", 5));
    for _ in 0..1_000 {
        world.run();
    }
    world.load(1, 0, 0);
    for expected in ["r0", "r1", "r2"] {
        world.run();
        assert_eq!(world.order(), [expected]);
        assert!(world.complete(expected));
    }
}

/// Heaps are not stable: equal keys come out shuffled.
#[test]
fn order_a_thousand_equal_keys_keep_their_intake_order() {
    for order in ["fcfs", "wspt", "lcfs", "edf"] {
        let line = format!("a quantum: 100000, queue_policy: {order}");
        let mut world = World::with_worker(&classes(&[&line]));
        world.checks = false;
        world.shut(1, 0);
        world.submit_many(1_000, ("x", 7));
        world.open(1, 0);
        world.take();
        world.run();
        let expected: Vec<_> = (0..1_000).map(|at| format!("x{at}")).collect();
        assert_eq!(world.order(), expected, "{order}");
    }
}

/// Nobody remembers whether a high or a low number is the urgent one.
#[test]
fn order_a_higher_strict_priority_goes_first() {
    let mut world = blocked_lane();
    for tier in [0, 5, 1] {
        world.submit(Ask::new(&format!("t{tier}"), 1).tier(tier));
    }
    assert_eq!(world.lane("a", None), ["t5", "t1", "t0"]);
}
