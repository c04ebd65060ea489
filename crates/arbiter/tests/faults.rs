//! What goes wrong in schedulers, gateways and routers of this kind, each as a small scenario.

mod common;

use std::time::{Duration, Instant};

use common::{Ask, Stage, World, classes, classes_and};
use tollgate_arbiter::{
    Arbiter, Capacities, Endpoint, Event, Nanos, Options, Request, SlotPool, WorkerRecord,
};

fn blocked_lane() -> World {
    let mut world = World::with_worker(&classes(&["a quantum: 100, prefill_busy_threshold: 0"]));
    world.load(1, 0, 1);
    world
}

/// `SplitMix64`, below `bound`.
fn draw(state: &mut u64, bound: u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (z ^ (z >> 31)) % bound
}

fn tokens_of(world: &World, class: &str) -> u64 {
    world.class(class).counters.charged_tokens
}

// Cancelled work that still counts, waits or is dispatched.

/// Heaps without removal keep a tombstone at the head, and the lane looks blocked or empty.
#[test]
fn cancel_head_of_a_blocked_lane() {
    let mut world = blocked_lane();
    world.submit(Ask::new("x", 5).pin(1, 0));
    world.submit(Ask::new("y", 5).pin(1, 0));
    world.take();
    assert!(world.cancel("x"));
    world.load(1, 0, 0);
    world.run();
    world.expect(&["cancelled x", "y -> 1.0"]);
    assert_eq!(
        tokens_of(&world, "a"),
        5,
        "the cancelled head cost no credit"
    );
}

/// Removal from the middle is left to the pop, so counts lag and memory grows.
#[test]
fn cancel_every_second_of_ten_thousand_from_the_back() {
    let profile = classes(&["a quantum: 1000"]);
    let capacities = Capacities {
        slots: 10_000,
        ..Capacities::default()
    };
    let mut arbiter = Arbiter::build(&profile, capacities, Options::default()).expect("fits");
    let mut slots = SlotPool::new(10_000);
    arbiter.upsert_worker(&WorkerRecord::new(1)).expect("room");
    arbiter.shut(Endpoint::new(1, 0)).expect("known");
    let request = Request {
        pin: Some(Endpoint::new(1, 0)),
        ..Request::new(3, Nanos(0))
    };
    let tickets: Vec<_> = (0..10_000_u32)
        .map(|at| {
            let ticket = slots.take().expect("a slot");
            arbiter
                .submit(ticket, None, &request, at, &mut |_| {})
                .expect("accepted");
            ticket
        })
        .collect();
    for (cancelled, ticket) in (1..).zip(tickets.iter().rev().step_by(2)) {
        arbiter.cancel(*ticket, &mut |_| {}).expect("it waits");
        assert_eq!(arbiter.waiting(), 10_000 - cancelled);
    }
    arbiter.check_invariants();
    arbiter.open(Endpoint::new(1, 0)).expect("known");
    let mut order = Vec::new();
    arbiter.arbitrate(None, &mut |event: Event<u32>| {
        if let Event::Dispatched(dispatch) = event {
            order.push(dispatch.payload);
        }
    });
    assert_eq!(order, (0..10_000).step_by(2).collect::<Vec<_>>());
}

/// A lane whose last entry was cancelled stays registered, and each event looks at it again.
#[test]
fn cancel_the_only_entry_removes_the_lane() {
    let mut world = blocked_lane();
    world.submit(Ask::new("x", 5).pin(1, 0));
    assert_eq!(world.class("a").lanes.len(), 1);
    assert!(world.cancel("x"));
    assert!(world.class("a").lanes.is_empty());
    let before = world.state();
    for load in 0..1_000 {
        world.load(1, 0, load % 2);
    }
    world.load(1, 0, 1);
    assert_eq!(world.state(), before);
}

/// Cancel and release in one batch: one path forgets the cancel check, and the dead request takes
/// the capacity.
#[test]
fn cancel_and_release_in_either_order() {
    for cancel_first in [true, false] {
        let mut world = blocked_lane();
        world.submit(Ask::new("r1", 5).pin(1, 0));
        world.submit(Ask::new("next", 7).pin(1, 0));
        world.take();
        if cancel_first {
            assert!(world.cancel("r1"));
            world.load(1, 0, 0);
        } else {
            world.load(1, 0, 0);
            assert!(world.cancel("r1"));
        }
        world.run();
        world.expect(&["cancelled r1", "next -> 1.0"]);
        assert_eq!(tokens_of(&world, "a"), 7);
    }
}

// Counters that leak, are released twice, or drift.

/// An aborted request releases its slot but not its tokens; the worker fills up for ever.
#[test]
fn count_aborts_and_completions_both_release() {
    let mut world = World::new(&classes(&[
        "a quantum: 1000, prefill_busy_threshold: 50000",
    ]));
    world.checks = false;
    for id in 1..=4 {
        world.worker(id);
    }
    world.submit_many(1_000, ("r", 100));
    assert_eq!(world.run().dispatched, 1_000);
    for at in 0..1_000 {
        if at % 3 == 0 {
            assert!(world.prefill_done(&format!("r{at}")));
        }
        assert!(world.complete(&format!("r{at}")));
    }
    for id in 1..=4 {
        let endpoint = world.endpoint(id, 0);
        assert_eq!(
            (endpoint.booked_tokens, endpoint.active),
            (0, 0),
            "worker {id}"
        );
    }
    world.worker(5);
    world.submit_many(1_000, ("s", 100));
    world.run();
    for id in 1..=5 {
        assert_eq!(
            world.endpoint(id, 0).prefill_tokens,
            20_000,
            "spread evenly"
        );
    }
}

/// The key of a booking has no generation: the old life's completion frees the new life's load.
#[test]
fn count_a_reused_worker_id_has_its_own_bookings() {
    let mut world = World::with_worker(&classes(&["a quantum: 1000"]));
    world.submit(("r1", 100));
    world.run();
    world.remove(1);
    world.worker(1);
    world.submit(("r2", 200));
    world.run();
    assert!(world.complete("r1"));
    assert_eq!(world.endpoint(1, 0).prefill_tokens, 200);
    assert!(world.complete("r2"));
    assert_eq!(world.endpoint(1, 0).prefill_tokens, 0);
}

/// Tokens are released at the wrong end: at completion only, or at both.
#[test]
fn count_release_is_tied_to_prefill_and_happens_once() {
    let mut world = World::with_worker(&classes(&["a quantum: 1000, prefill_busy_threshold: 999"]));
    world.submit(("r1", 1_000));
    world.submit(("r2", 1_000));
    world.run();
    assert_eq!(world.stage("r2"), Stage::Waiting);
    assert!(world.prefill_done("r1"));
    world.run();
    assert_eq!(
        world.stage("r2"),
        Stage::Running,
        "dispatchable in the very next turn"
    );
    assert!(world.complete("r1"));
    assert_eq!(
        world.endpoint(1, 0).prefill_tokens,
        1_000,
        "no second release"
    );
    assert!(world.complete("r2"));
    assert_eq!(world.endpoint(1, 0).prefill_tokens, 0);
}

/// A release that comes before its booking leaves a negative load or a leftover behind.
#[test]
fn count_a_release_before_its_booking_touches_nothing() {
    let mut world = World::with_worker(&classes(&["a quantum: 1000"]));
    for at in 0..1_000 {
        let name = format!("r{at}");
        world.submit(Ask::new(&name, 100));
        assert!(!world.prefill_done_of(&name, 1) && !world.complete_of(&name, 1));
        world.run();
        assert!(world.complete(&name));
    }
    let endpoint = world.endpoint(1, 0);
    assert_eq!((endpoint.prefill_tokens, endpoint.active), (0, 0));
}

/// Failures are reported twice, before and after the prefill: the load goes below zero.
#[test]
fn count_repeated_reports_of_either_phase() {
    let mut world = World::with_worker(&classes(&["a quantum: 100000"]));
    world.checks = false;
    world.submit_many(1_000, ("r", 10));
    world.run();
    for at in 0..1_000 {
        let name = format!("r{at}");
        if at % 2 == 0 {
            assert!(world.prefill_done(&name) && world.prefill_done(&name));
        }
        assert!(world.complete(&name));
        assert!(!world.complete_of(&name, 1));
        assert_eq!(world.endpoint(1, 0).active, 999 - at);
    }
    let state = world.state();
    assert_eq!(
        (state.endpoints[0].prefill_tokens, state.outstanding),
        (0, 0)
    );
    world.arbiter.check_invariants();
}

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

// Zero, overflow, truncation.

/// The sum of the largest quanta, or of the largest costs, wraps.
#[test]
fn math_the_largest_quanta_and_costs() {
    let lines = ["a", "b", "c", "d"].map(|name| format!("{name} quantum: 9223372036854775808"));
    let mut world = World::with_worker(&classes(&lines.each_ref().map(String::as_str)));
    for class in ["a", "b", "c", "d"] {
        world.submit_many(40, Ask::new(class, u32::MAX).of(class));
    }
    assert_eq!(world.class("a").raw_isl_tokens, 40 * u64::from(u32::MAX));
    assert_eq!(world.run().dispatched, 160);
    assert_eq!(
        world.endpoint(1, 0).prefill_tokens,
        160 * u64::from(u32::MAX)
    );
    for class in ["a", "b", "c", "d"] {
        assert_eq!(tokens_of(&world, class), 40 * u64::from(u32::MAX));
    }
    world.complete_all();
    assert_eq!(world.endpoint(1, 0).prefill_tokens, 0);
}

/// "Unlimited" is the largest number, and times 64 workers it wraps to a small one.
#[test]
fn math_a_sentinel_limit_does_not_wrap() {
    let line = "a quantum: 1, request_queue_limit_per_worker: 18446744073709551615, \
                cached_token_queue_limit_per_worker: 288230376151711745";
    let mut world = World::new(&classes(&[line]));
    for id in 0..64 {
        world.worker(id);
        world.shut(id, 0);
    }
    world.submit_many(50, Ask::new("x", 1_000).cached(900));
    assert_eq!(world.state().waiting, 50);
    assert_eq!(
        world.class("a").limits,
        [Some(u64::MAX), None, Some(u64::MAX)]
    );
}

/// Requests and tokens share a type, and one is compared with the other's limit.
#[test]
fn math_each_limit_counts_in_its_own_unit() {
    let mut world = World::with_worker(&classes(&[
        "a quantum: 1, raw_isl_token_queue_limit_per_worker: 100",
        "b quantum: 1, request_queue_limit_per_worker: 2",
    ]));
    world.shut(1, 0);
    world.submit_many(50, Ask::new("a", 1).of("a"));
    world.submit_many(2, Ask::new("b", 1_000_000).of("b"));
    assert_eq!(world.state().waiting, 52);
    world.take();
    world.submit(Ask::new("b third", 1).of("b"));
    world.submit(Ask::new("a large", 50).of("a"));
    world.submit(Ask::new("a late", 1).of("a"));
    world.expect(&[
        "rejected b third requests 2/2",
        "queued a large",
        "rejected a late raw_isl_tokens 100/100",
    ]);
}

/// What is charged and what is settled drift apart.
#[test]
fn math_charges_are_the_sum_of_snapshot_costs() {
    let mut world = World::with_worker(&classes(&["a quantum: 700", "b quantum: 300"]));
    world.checks = false;
    let (mut state, mut charged) = (5, [0_u64; 2]);
    for at in 0..1_500 {
        let name = format!("x{at}");
        let class = ["a", "b"][usize::try_from(draw(&mut state, 2)).expect("small")];
        let raw = u32::try_from(draw(&mut state, 5_000)).expect("small");
        world.submit(Ask::new(&name, raw).cached(raw / 3).of(class));
        if draw(&mut state, 3) == 0 {
            assert!(world.cancel(&name));
        }
        if draw(&mut state, 4) == 0 {
            world.run();
        }
        for sent in world.sent() {
            charged[usize::from(sent.class == "b")] += u64::from(sent.cost);
            assert!(world.complete(&sent.name));
        }
    }
    assert_eq!([tokens_of(&world, "a"), tokens_of(&world, "b")], charged);
    world.arbiter.check_invariants();
}

/// A deficit that equals the cost exactly is taken for too little, or its turn does not end.
#[test]
fn math_a_deficit_that_is_spent_to_exactly_zero() {
    let mut world = World::with_worker(&classes(&["a quantum: 10", "b quantum: 10"]));
    world.submit(Ask::new("a0", 10).of("a"));
    world.submit(Ask::new("a1", 1).of("a"));
    world.submit(Ask::new("b0", 10).of("b"));
    world.submit(Ask::new("b1", 1).of("b"));
    world.take();
    assert!(world.select());
    let sent = world.sent();
    assert_eq!((sent[0].name.as_str(), sent[0].deficit), ("a0", 0));
    assert_eq!(world.ring(), "b a");
    world.run();
    assert_eq!(world.order(), ["b0", "a1", "b1"]);
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

// What a limit means.

/// A limit of zero refuses work that would not have waited.
#[test]
fn limit_zero_dispatches_or_refuses_but_never_keeps() {
    let line = "a quantum: 100, prefill_busy_threshold: 0, request_queue_limit_per_worker: 0";
    let mut world = World::with_worker(&classes(&[line]));
    world.submit(("idle", 5));
    world.run();
    world.submit(("busy", 5));
    world.run();
    world.expect(&[
        "queued idle",
        "idle -> 1.0",
        "queued busy",
        "rejected busy requests 0/0",
    ]);
    assert_eq!(world.state().waiting, 0);
}

/// A cap on concurrency turns into a rate: each turn lets some more through.
#[test]
fn limit_without_completions_nothing_more_is_dispatched() {
    let mut world = World::with_worker(&classes(&["a quantum: 100, prefill_busy_threshold: 90"]));
    world.submit_many(100, ("x", 10));
    world.run();
    for us in 1..500 {
        world.advance_us(us * 10_000);
        world.run();
    }
    assert_eq!(world.order().len(), 10);
    assert_eq!(world.state().waiting, 90);
}

/// Requests in transit count as a backlog, and an idle pool refuses a burst.
#[test]
fn limit_a_burst_onto_idle_workers_is_not_a_backlog() {
    let mut world = World::new(&classes(&[
        "a quantum: 100, request_queue_limit_per_worker: 1",
    ]));
    world.checks = false;
    for id in 0..8 {
        world.worker(id);
    }
    world.submit_many(500, ("x", 1));
    world.run();
    assert_eq!(world.order().len(), 500);
}

/// The refusal names the wrong cap.
#[test]
fn limit_a_full_queue_says_queue_limit() {
    let line = "a quantum: 100, prefill_busy_threshold: 0, request_queue_limit_per_worker: 10";
    let mut world = World::with_worker(&classes(&[line]));
    world.submit(("runs", 5));
    world.run();
    world.submit_many(10, ("x", 5));
    world.take();
    world.submit(("eleventh", 5));
    world.expect(&["rejected eleventh requests 10/10"]);
}

/// A request larger than the threshold never goes, or goes although the worker is busy.
#[test]
fn limit_a_request_larger_than_the_threshold() {
    for (load, goes) in [(0, true), (1_536, true), (1_537, false)] {
        let mut world =
            World::with_worker(&classes(&["a quantum: 100, prefill_busy_threshold: 1536"]));
        world.load(1, 0, load);
        world.submit(("x", 100_000));
        assert_eq!(world.select(), goes, "load {load}");
    }
}

/// Several limits are exceeded, and the answer changes from run to run.
#[test]
fn limit_the_same_reason_each_time_and_only_its_counter() {
    let line = "a quantum: 1, request_queue_limit_per_worker: 1, \
                raw_isl_token_queue_limit_per_worker: 1, cached_token_queue_limit_per_worker: 1";
    let mut world = World::with_worker(&classes(&[line]));
    world.shut(1, 0);
    world.submit(Ask::new("x", 10).cached(5));
    for at in 1..=20 {
        world.submit(Ask::new(&format!("y{at}"), 10).cached(5));
        assert_eq!(world.class("a").counters.rejected, [at, 0, 0, 0]);
    }
}

/// Limits do not follow the pool, or shrinking the pool throws waiting work out.
#[test]
fn limit_follows_the_workers_and_evicts_nobody() {
    let mut world = World::new(&classes(&[
        "a quantum: 1, request_queue_limit_per_worker: 10",
    ]));
    for id in 1..=18 {
        world.worker(id);
        world.shut(id, 0);
    }
    assert_eq!(world.class("a").limits[0], Some(180));
    world.submit_many(150, ("x", 1));
    for id in 2..=18 {
        world.remove(id);
        assert_eq!(world.class("a").limits[0], Some((19 - id) * 10));
    }
    assert_eq!(world.state().waiting, 150);
    world.take();
    world.submit(("y", 1));
    world.expect(&["rejected y requests 150/10"]);
}

/// Two places enforce one deadline: two outcomes, or a dispatch after the expiry.
#[test]
fn limit_one_deadline_one_outcome() {
    let mut world = World::with_worker(&classes(&["a quantum: 1, queue_timeout_ms: 100"]));
    world.shut(1, 0);
    world.submit(Ask::new("x", 1).deadline_us(100_000));
    world.take();
    for us in 0..=20 {
        world.advance_us(us * 10_000);
        world.run();
    }
    world.open(1, 0);
    world.run();
    world.expect(&["expired x"]);
    assert_eq!(world.class("a").counters.expired, 1);
}

// The busy signal.

/// A new report is added to the last one instead of replacing it, or wipes the own bookings out.
#[test]
fn busy_a_report_replaces_the_last_and_leaves_bookings_alone() {
    let mut world = World::new(&classes(&[
        "a quantum: 100, prefill_busy_threshold_frac: 0.6",
    ]));
    let record = WorkerRecord {
        max_batched_tokens: Some(1_000),
        ..WorkerRecord::new(1)
    };
    world.upsert(&record).expect("room");
    world.submit(("own", 590));
    world.run();
    for _ in 0..50 {
        world.load(1, 0, 10);
    }
    world.submit(("x", 1));
    assert!(world.select(), "600 is not above 600");
    world.load(1, 0, 10);
    world.submit(("y", 1));
    assert!(!world.select(), "601 is");
    world.load(1, 0, 0);
    assert!(world.select());
}

/// The signal of a worker is used for the fleet: three busy ones shut the fourth.
#[test]
fn busy_is_per_worker() {
    let mut world = World::new(&classes(&["a quantum: 100, prefill_busy_threshold: 100"]));
    for id in 1..=4 {
        world.worker(id);
        world.load(id, 0, 101);
    }
    world.load(4, 0, 0);
    world.submit_many(20, ("x", 10));
    world.run();
    let sent = world.sent();
    assert_eq!(sent.len(), 11, "100 is not above 100");
    assert!(sent.iter().all(|sent| sent.at.0 == 4));
    assert_eq!(world.state().waiting, 9);
}

/// "Wait" and "refuse" are mixed up: overload parks, or a full worker refuses.
#[test]
fn busy_waits_and_overloaded_fails() {
    let mut world = World::with_worker(&classes(&["a quantum: 100, prefill_busy_threshold: 100"]));
    world.overload(1, true);
    world.submit(("overloaded", 5));
    world.overload(1, false);
    world.load(1, 0, 101);
    world.submit(("busy", 5));
    world.expect(&["failed overloaded all_eligible_overloaded", "queued busy"]);
}

/// The decision is made on old reports, without the own dispatches since: everything piles up.
#[test]
fn busy_own_bookings_count_at_once() {
    let mut world = World::with_worker(&classes(&["a quantum: 100, prefill_busy_threshold: 1536"]));
    world.checks = false;
    world.submit_many(1_000, ("x", 512));
    assert_eq!(world.run().dispatched, 4);
    assert_eq!(world.state().waiting, 996);
}

// Workers and classes that come, go and return.

/// Work bound to a removed worker waits for ever.
#[test]
fn churn_a_removed_workers_waiting_work_is_answered_in_one_turn() {
    let mut world = World::with_worker(&classes(&["a quantum: 100", "b quantum: 100"]));
    world.worker(2);
    world.shut(1, 0);
    world.submit(Ask::new("first", 30).of("a"));
    world.open(1, 0);
    world.submit_many(2, Ask::new("s", 30).of("a"));
    assert!(world.select());
    world.shut(1, 0);
    world.submit_many(20, Ask::new("x", 30).of("a").pin(1, 0));
    let credit = world.deficit("a");
    world.take();
    world.remove(1);
    world.shut(2, 0);
    world.run();
    let told = world.take();
    assert_eq!(told.len(), 20);
    assert!(
        told.iter()
            .all(|event| event.ends_with("pinned_worker_unknown")),
        "{told:?}"
    );
    assert_eq!((world.class("a").waiting, world.deficit("a")), (2, credit));
}

/// Requests dispatched to a lost worker are answered twice, or leave their bookings behind.
#[test]
fn churn_dispatched_work_of_a_lost_worker_stays_the_callers() {
    let mut world = World::with_worker(&classes(&["a quantum: 1000"]));
    world.submit_many(10, ("x", 10));
    world.run();
    world.take();
    world.remove(1);
    world.run();
    world.expect(&[]);
    assert_eq!(world.state().outstanding, 10);
    world.worker(1);
    assert_eq!(world.endpoint(1, 0).prefill_tokens, 0);
    for at in 0..10 {
        let name = format!("x{at}");
        // Half are handed over again, half are given up.
        assert!(if at % 2 == 0 {
            world.requeue(&name)
        } else {
            world.complete(&name)
        });
    }
    world.run();
    assert_eq!(world.endpoint(1, 0).active, 5);
    world.complete_all();
    assert_eq!(world.state().outstanding, 0);
}

/// Whether a class is active is inferred: after a reload one is in the ring twice, or not at all.
#[test]
fn churn_a_reload_keeps_each_class_in_the_ring_once() {
    let lines = [
        "a quantum: 10",
        "b quantum: 10, prefill_busy_threshold: 0",
        "c quantum: 10",
    ];
    let mut world = World::with_worker(&classes(&lines));
    world.worker(2);
    world.load(2, 0, 1);
    world.submit_many(3, Ask::new("b", 5).of("b").pin(2, 0));
    world.submit_many(3, Ask::new("c", 5).of("c"));
    world.select();
    for _ in 0..5 {
        world.reload(&classes(&lines));
        let mut ring: Vec<_> = world.state().ring;
        ring.sort_unstable();
        ring.dedup();
        assert_eq!(ring.len(), 3);
        assert_eq!(world.class("b").waiting, 3);
    }
    world.load(2, 0, 0);
    world.run();
    assert_eq!(world.order(), ["c0", "b0", "c1", "c2"]);
}

/// Start-up waits for workers that were announced and are dead.
#[test]
fn churn_workers_that_left_before_the_first_request_delay_nobody() {
    let mut world = World::new(&classes(&["a quantum: 100, prefill_busy_threshold: 0"]));
    for id in 0..10 {
        world.worker(id);
    }
    for id in 0..3 {
        world.remove(id);
    }
    world.submit_many(7, ("x", 5));
    world.run();
    let mut at: Vec<_> = world.sent().iter().map(|sent| sent.at.0).collect();
    at.sort_unstable();
    assert_eq!(at, [3, 4, 5, 6, 7, 8, 9]);
}

/// Helpers of an item outlive it: ten thousand workers later the tables are full.
#[test]
fn churn_ten_thousand_workers_leave_nothing_behind() {
    let profile = classes(&["a quantum: 100, prefill_busy_threshold: 0"]);
    let capacities = Capacities {
        slots: 4,
        workers: 2,
        endpoints: 3,
        ..Capacities::default()
    };
    let mut arbiter = Arbiter::build(&profile, capacities, Options::default()).expect("fits");
    let mut slots = SlotPool::new(4);
    for id in 0..10_000_u64 {
        let taint = format!("taint {id}");
        let record = WorkerRecord {
            taints: &[&taint],
            ranks: 2,
            ..WorkerRecord::new(id)
        };
        arbiter.upsert_worker(&record).expect("room");
        let taints = [taint.as_str()];
        let request = Request {
            pin: (id % 2 == 0).then(|| Endpoint::new(id, 1)),
            require_taints: &taints,
            ..Request::new(5, Nanos(0))
        };
        let ticket = slots.take().expect("a slot");
        arbiter
            .submit(ticket, None, &request, (), &mut |_| {})
            .expect("accepted");
        assert!(arbiter.select(&mut |_| {}));
        if id % 3 == 0 {
            arbiter.remove_worker(record.id).expect("known");
            arbiter.complete(ticket, 1).expect("it runs");
        } else {
            arbiter.complete(ticket, 1).expect("it runs");
            arbiter.remove_worker(record.id).expect("known");
        }
        slots.put(ticket);
    }
    arbiter.check_invariants();
    let state = arbiter.state();
    assert!(state.endpoints.is_empty());
    assert_eq!((state.outstanding, state.stale_events), (0, 0));
}

// Cost that grows with what is not concerned.

/// The time of one load update and dispatch on the free lane, beside `lanes` blocked ones.
fn free_lane_step(lanes: u64) -> Duration {
    let profile = classes_and(&["a quantum: 100, prefill_busy_threshold: 10"], "");
    let capacities = Capacities {
        slots: 16_384,
        workers: 16_384,
        endpoints: 16_384,
        ..Capacities::default()
    };
    let mut arbiter = Arbiter::build(&profile, capacities, Options::default()).expect("fits");
    let mut slots = SlotPool::new(capacities.slots);
    let mut submit = |arbiter: &mut Arbiter<()>, worker| {
        let ticket = slots.take().expect("a slot");
        let pin = Some(Endpoint::new(worker, 0));
        let request = Request {
            pin,
            ..Request::new(1, Nanos(0))
        };
        arbiter
            .submit(ticket, None, &request, (), &mut |_| {})
            .expect("accepted");
        ticket
    };
    for worker in 0..=lanes {
        arbiter
            .upsert_worker(&WorkerRecord::new(worker))
            .expect("room");
        arbiter.load(Endpoint::new(worker, 0), 11).expect("known");
        if worker > 0 {
            submit(&mut arbiter, worker);
        }
    }
    let mut fastest = Duration::MAX;
    for _ in 0..200 {
        let ticket = submit(&mut arbiter, 0);
        let start = Instant::now();
        arbiter.load(Endpoint::new(0, 0), 0).expect("known");
        let went = arbiter.select(&mut |_| {});
        fastest = fastest.min(start.elapsed());
        assert!(went && !arbiter.select(&mut |_| {}));
        arbiter.complete(ticket, 1).expect("it runs");
        arbiter.load(Endpoint::new(0, 0), 11).expect("known");
    }
    fastest
}

/// Each event looks at every blocked lane.
#[test]
fn scale_ten_thousand_blocked_lanes_do_not_slow_the_free_one() {
    let few = free_lane_step(10);
    let many = free_lane_step(10_000);
    // The fastest of 200, plus a floor for the clock's own grain.
    assert!(
        many <= few * 5 + Duration::from_micros(2),
        "{many:?} against {few:?}"
    );
}
