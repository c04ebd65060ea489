//! Accounts: cancelled work that lives on, counters that drift, numbers that wrap.

use tollgate_arbiter::{
    Arbiter, Capacities, Endpoint, Event, Nanos, Options, Request, SlotPool, WorkerRecord,
};

use crate::common::{Ask, Stage, World, classes};
use crate::{blocked_lane, draw, tokens_of};

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
