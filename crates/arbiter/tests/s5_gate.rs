//! S5: which heads may go, which wait, and which can run nowhere.

mod common;

use common::{Ask, World, classes, classes_and};
use tollgate_arbiter::{FailReason, HeadState, WorkerRecord};

fn threshold(tokens: u64) -> World {
    World::with_worker(&classes(&[&format!(
        "a quantum: 100, prefill_busy_threshold: {tokens}"
    )]))
}

fn is_busy(world: &World, worker: u64, class: &str) -> bool {
    let index = world.class(class).index;
    world.endpoint(worker, 0).busy_for.contains(&index)
}

fn doomed(reason: FailReason) -> HeadState {
    HeadState::Doomed(reason)
}

fn shut(busy: u32, eligible: u32) -> HeadState {
    HeadState::Shut { busy, eligible }
}

// S5.1.

#[test]
fn s5_1_threshold_1536_lets_four_requests_of_512_through() {
    let mut world = threshold(1_536);
    world.submit_many(8, ("x", 512));
    assert_eq!(world.run().dispatched, 4);
    assert!(is_busy(&world, 1, "a"));
    assert!(world.prefill_done("x0"));
    assert!(!is_busy(&world, 1, "a"), "1536 is not above 1536");
    assert_eq!(world.run().dispatched, 1);
}

#[test]
fn s5_1_threshold_0_is_not_an_unset_one() {
    let mut world = threshold(0);
    world.submit_many(2, ("x", 1));
    assert_eq!(world.run().dispatched, 1);
    let mut world = World::with_worker(&classes(&["a quantum: 100"]));
    world.load(1, 0, u64::MAX);
    world.submit_many(50, ("x", u32::MAX));
    assert_eq!(
        world.run().dispatched,
        50,
        "without a threshold nothing is ever busy by load"
    );
}

#[test]
fn s5_1_fraction_of_max_batched_tokens_is_floored_exactly() {
    // 0.29 x 100 is 29, where binary floating point says 28.999.
    let mut world = World::new(&classes(&[
        "a quantum: 1, prefill_busy_threshold_frac: 0.29",
    ]));
    let record = WorkerRecord {
        max_batched_tokens: Some(100),
        ..WorkerRecord::new(1)
    };
    world.upsert(&record).expect("room");
    world.load(1, 0, 29);
    assert!(!is_busy(&world, 1, "a"));
    world.load(1, 0, 30);
    assert!(is_busy(&world, 1, "a"));
    // 0.999 of 1000 is 999; of 1 it is 0.
    let record = WorkerRecord {
        max_batched_tokens: Some(3),
        ..WorkerRecord::new(1)
    };
    world.upsert(&record).expect("room");
    world.load(1, 0, 0);
    assert!(
        !is_busy(&world, 1, "a"),
        "floor(0.87) is 0, and 0 is not above 0"
    );
    world.load(1, 0, 1);
    assert!(is_busy(&world, 1, "a"));
}

#[test]
fn s5_1_without_max_batched_tokens_ten_million_count() {
    let mut world = World::with_worker(&classes(&[
        "a quantum: 1, prefill_busy_threshold_frac: 0.5",
    ]));
    world.load(1, 0, 5_000_000);
    assert!(!is_busy(&world, 1, "a"));
    world.load(1, 0, 5_000_001);
    assert!(is_busy(&world, 1, "a"));
}

#[test]
fn s5_1_either_threshold_makes_busy() {
    let line = "a quantum: 1, prefill_busy_threshold: 100, prefill_busy_threshold_frac: 0.5";
    let mut world = World::new(&classes(&[line]));
    for (id, max, from) in [(1, 1_000, 101), (2, 100, 51)] {
        let record = WorkerRecord {
            max_batched_tokens: Some(max),
            ..WorkerRecord::new(id)
        };
        world.upsert(&record).expect("room");
        world.load(id, 0, from - 1);
        assert!(!is_busy(&world, id, "a"));
        world.load(id, 0, from);
        assert!(is_busy(&world, id, "a"));
    }
}

#[test]
fn s5_1_a_load_change_flips_only_the_classes_between() {
    let mut world = World::with_worker(&classes(&[
        "low quantum: 1, prefill_busy_threshold: 10",
        "mid quantum: 1, prefill_busy_threshold: 20",
        "high quantum: 1, prefill_busy_threshold: 30",
        "free quantum: 1",
    ]));
    let busy = |world: &World| {
        let names = ["low", "mid", "high", "free"];
        names
            .into_iter()
            .filter(|class| is_busy(world, 1, class))
            .collect::<Vec<_>>()
    };
    for (load, expected) in [
        (10, vec![]),
        (11, vec!["low"]),
        (20, vec!["low"]),
        (21, vec!["low", "mid"]),
        (31, vec!["low", "mid", "high"]),
        (u64::MAX, vec!["low", "mid", "high"]),
        (30, vec!["low", "mid"]),
        (0, vec![]),
    ] {
        world.load(1, 0, load);
        assert_eq!(busy(&world), expected, "load {load}");
    }
}

#[test]
fn s5_1_a_shut_egress_is_busy_for_every_class_and_loses_nothing() {
    let mut world = World::with_worker(&classes(&["a quantum: 1", "b quantum: 1"]));
    world.shut(1, 0);
    world.submit(Ask::new("x", 1).of("a"));
    world.submit(Ask::new("y", 1).of("b").pin(1, 0));
    world.take();
    assert!(is_busy(&world, 1, "a") && is_busy(&world, 1, "b"));
    assert!(!world.select());
    world.open(1, 0);
    world.run();
    world.expect(&["x -> 1.0", "y -> 1.0"]);
}

#[test]
fn s5_1_thresholds_follow_an_upsert() {
    let mut world = World::new(&classes(&[
        "a quantum: 1, prefill_busy_threshold_frac: 0.5",
    ]));
    let record = |max| WorkerRecord {
        max_batched_tokens: Some(max),
        ..WorkerRecord::new(1)
    };
    world.upsert(&record(100)).expect("room");
    world.load(1, 0, 60);
    world.submit(("x", 1));
    assert!(!world.select());
    world.upsert(&record(200)).expect("room");
    assert!(world.select(), "60 is not above 100");
}

// S5.2.

#[test]
fn s5_2_one_idle_overloaded_worker_does_not_open_the_gate() {
    let mut world = threshold(100);
    world.worker(2);
    world.load(1, 0, 101);
    world.overload(2, true);
    world.submit(("x", 1));
    world.take();
    assert!(!world.select(), "the only eligible worker is busy");
    assert_eq!(world.head("a", None), shut(1, 1));
    world.overload(2, false);
    world.run();
    world.expect(&["x -> 2.0"]);
}

#[test]
fn s5_2_every_condition_of_eligibility_counts_in_gate_and_choice() {
    let mut world = World::new(&classes(&["a quantum: 100, prefill_busy_threshold: 0"]));
    for id in 1..=4 {
        let taints: &[&str] = if id == 4 { &["gpu", "big"] } else { &["gpu"] };
        world
            .upsert(&WorkerRecord {
                taints,
                ..WorkerRecord::new(id)
            })
            .expect("room");
    }
    world.submit(Ask::new("taint", 5).taint("big").taint("gpu"));
    world.submit(Ask::new("taint2", 5).taint("big"));
    assert_eq!(world.run().dispatched, 1);
    assert_eq!(world.sent()[0].at, (4, 0));
    assert_eq!(world.head("a", None), shut(1, 1));
    assert!(world.cancel("taint2"));
    world.available(1, false);
    world.submit(Ask::new("allowed", 5).allow(&[1, 2]));
    world.submit(Ask::new("allowed2", 5).allow(&[2, 1, 9]));
    assert_eq!(world.run().dispatched, 1);
    assert_eq!(world.sent()[0].at, (2, 0));
    assert_eq!(world.head("a", None), shut(1, 1));
    world.available(1, true);
    assert_eq!(world.run().dispatched, 1);
    assert_eq!(world.sent()[0].at, (1, 0));
}

#[test]
fn s5_2_an_empty_allow_list_allows_nobody() {
    let mut world = threshold(100);
    world.submit(Ask::new("x", 1).allow(&[]));
    world.submit(Ask::new("y", 1).allow(&[]).pin(1, 0));
    world.expect(&[
        "failed x no_eligible_worker",
        "failed y pinned_worker_not_allowed",
    ]);
}

#[test]
fn s5_2_ranks_are_endpoints_of_their_own() {
    let mut world = World::new(&classes(&["a quantum: 100, prefill_busy_threshold: 0"]));
    world
        .upsert(&WorkerRecord {
            first_rank: 4,
            ranks: 3,
            ..WorkerRecord::new(1)
        })
        .expect("room");
    world.submit_many(4, ("x", 5));
    world.submit(Ask::new("p", 5).pin(1, 3));
    world.submit(Ask::new("q", 5).pin(1, 7));
    world.take();
    assert_eq!(world.run().dispatched, 3);
    world.expect(&["x0 -> 1.4", "x1 -> 1.5", "x2 -> 1.6"]);
}

// S5.3.

#[test]
fn s5_3_a_shared_head_waits_for_every_eligible_endpoint() {
    let mut world = threshold(100);
    world.worker(2);
    world.load(1, 0, 101);
    world.submit(("x", 1));
    assert!(world.select());
    assert_eq!(world.sent()[0].at, (2, 0));
    world.load(2, 0, 101);
    world.submit(("y", 1));
    assert!(!world.select());
    assert_eq!(world.head("a", None), shut(2, 2));
}

#[test]
fn s5_3_an_exact_head_waits_for_its_own_endpoint_only() {
    let mut world = threshold(100);
    world.worker(2);
    world.load(1, 0, 101);
    world.submit(Ask::new("x", 1).pin(1, 0));
    world.submit(Ask::new("y", 1).pin(2, 0));
    world.take();
    world.run();
    world.expect(&["y -> 2.0"]);
    assert_eq!(world.head("a", Some((1, 0))), shut(1, 1));
}

#[test]
fn s5_3_busy_worker_ratio_shuts_at_the_ceiling_of_its_share() {
    // With 4 eligible: 0.25 shuts at 1, 0.26 at 2, 0.5 at 2, 1 at 4.
    for (ratio, at) in [
        ("0.001", 1),
        ("0.25", 1),
        ("0.26", 2),
        ("0.5", 2),
        ("0.51", 3),
        ("1", 4),
    ] {
        let line = format!("a quantum: 1, prefill_busy_threshold: 0, busy_worker_ratio: {ratio}");
        let mut world = World::new(&classes(&[&line]));
        for id in 1..=4 {
            world.worker(id);
        }
        world.shut(1, 0);
        world.shut(2, 0);
        world.shut(3, 0);
        world.shut(4, 0);
        world.submit(("x", 1));
        for open in 1..=4_u32 {
            world.open(u64::from(open), 0);
            let head = world.head("a", None);
            let expected = if 4 - open < at {
                HeadState::Open
            } else {
                shut(4 - open, 4)
            };
            assert_eq!(head, expected, "ratio {ratio}, {open} open");
        }
    }
}

#[test]
fn s5_3_busy_worker_ratio_counts_the_eligible_of_a_constrained_head() {
    let line = "a quantum: 1, prefill_busy_threshold: 0, busy_worker_ratio: 0.5";
    let mut world = World::new(&classes(&[line]));
    for id in 1..=8 {
        world.worker(id);
    }
    world.load(1, 0, 1);
    world.submit(Ask::new("x", 1).allow(&[1, 2]));
    assert_eq!(world.head("a", None), shut(1, 2), "1 of 2 is half");
    assert!(world.cancel("x"));
    world.submit(Ask::new("y", 1).allow(&[1, 2, 3]));
    assert_eq!(
        world.head("a", None),
        HeadState::Open,
        "1 of 3 is less than ceil(1.5)"
    );
    world.available(3, false);
    assert_eq!(
        world.head("a", None),
        shut(1, 2),
        "the mask follows availability"
    );
}

// S5.4.

#[test]
fn s5_4_at_submission_it_fails_before_limits() {
    let mut world = World::with_worker(&classes(&[
        "a quantum: 1, request_queue_limit_per_worker: 1",
    ]));
    world.shut(1, 0);
    world.submit(("x", 1));
    world.submit(Ask::new("y", 1).pin(9, 0));
    world.submit(("z", 1));
    world.expect(&[
        "queued x",
        "failed y pinned_worker_unknown",
        "rejected z requests 1/1",
    ]);
}

#[test]
fn s5_4_while_waiting_it_fails_as_soon_as_it_is_the_head() {
    let mut world = threshold(0);
    world.worker(2);
    world.load(1, 0, 1);
    world.load(2, 0, 1);
    world.submit(("first", 1));
    world.submit(Ask::new("second", 1).allow(&[2]));
    world.take();
    world.remove(2);
    world.advance_us(1);
    world.expect(&[]);
    assert!(world.cancel("first"));
    world.expect(&["cancelled first"]);
    assert_eq!(world.head("a", None), doomed(FailReason::NoEligibleWorker));
    world.advance_us(1);
    world.expect(&["failed second no_eligible_worker"]);
}

#[test]
fn s5_4_failing_needs_no_credit_and_pays_none() {
    let mut world = World::new(&classes(&["a quantum: 1", "b quantum: 1"]));
    world.worker(1);
    world.worker(2);
    world.submit(Ask::new("dear", 1_000_000).of("a").pin(2, 0));
    world.submit(Ask::new("a1", 5).of("a"));
    world.submit_many(3, Ask::new("b", 1).of("b"));
    world.remove(2);
    world.take();
    assert!(world.select());
    assert_eq!(world.take()[0], "failed dear pinned_worker_unknown");
    assert_eq!(world.class("a").counters.charged_tokens, 0);
    assert_eq!(world.deficit("a"), 1);
}

#[test]
fn s5_4_overload_alone_fails_only_where_the_gate_would_be_open() {
    let mut world = threshold(100);
    world.overload(1, true);
    world.submit(("now", 1));
    world.submit(Ask::new("pin", 1).pin(1, 0));
    world.expect(&[
        "failed now all_eligible_overloaded",
        "failed pin pinned_worker_overloaded",
    ]);
    world.load(1, 0, 101);
    world.submit(("waits", 1));
    world.submit(Ask::new("waits too", 1).pin(1, 0));
    world.advance_us(5);
    world.expect(&["queued waits", "queued waits too 1.0"]);
    assert_eq!(world.head("a", None), shut(1, 1));
    world.load(1, 0, 100);
    world.advance_us(5);
    let mut told = world.take();
    told.sort();
    assert_eq!(
        told,
        [
            "failed waits all_eligible_overloaded",
            "failed waits too pinned_worker_overloaded"
        ]
    );
}

#[test]
fn s5_4_overload_of_some_is_not_overload_of_all() {
    let mut world = threshold(100);
    world.worker(2);
    world.overload(1, true);
    world.submit(Ask::new("x", 1).allow(&[1]));
    world.submit(("y", 1));
    world.expect(&["failed x all_eligible_overloaded", "queued y"]);
}

#[test]
fn s5_4_overload_respects_busy_worker_ratio() {
    let line = "a quantum: 1, prefill_busy_threshold: 100, busy_worker_ratio: 0.5";
    let mut world = World::new(&classes(&[line]));
    for id in 1..=4 {
        world.worker(id);
        world.overload(id, true);
    }
    world.load(1, 0, 101);
    world.submit(("fails", 1));
    world.expect(&["failed fails all_eligible_overloaded"]);
    world.load(2, 0, 101);
    world.submit(("waits", 1));
    world.expect(&["queued waits"]);
}

#[test]
fn s5_4_removing_a_worker_fails_its_exact_lanes_in_every_class() {
    let mut world = World::new(&classes(&[
        "a quantum: 1, prefill_busy_threshold: 0",
        "b quantum: 1, prefill_busy_threshold: 0",
    ]));
    world.worker(1);
    world.worker(2);
    world.shut(2, 0);
    world.submit_many(3, Ask::new("a", 5).of("a").pin(2, 0));
    world.submit_many(2, Ask::new("b", 5).of("b").pin(2, 0));
    world.take();
    world.remove(2);
    assert_eq!(
        world.state().waiting,
        5,
        "until the sweep they count as waiting"
    );
    world.advance_us(0);
    // Rounds: a head of each lane, classes in file order.
    let reason = "pinned_worker_unknown";
    world.expect(
        &["a0", "b0", "a1", "b1", "a2"]
            .map(|name| format!("failed {name} {reason}"))
            .each_ref()
            .map(String::as_str),
    );
    assert_eq!(world.state().waiting, 0);
}

#[test]
fn s5_4_a_worker_that_is_back_before_the_sweep_keeps_its_lanes() {
    let mut world = threshold(0);
    world.worker(2);
    world.load(2, 0, 1);
    world.submit_many(3, Ask::new("x", 5).pin(2, 0));
    world.take();
    world.remove(2);
    world.worker(2);
    world.advance_us(0);
    world.expect(&[]);
    assert_eq!(world.lane("a", Some((2, 0))), ["x0", "x1", "x2"]);
    assert!(world.select(), "its load was forgotten");
}

#[test]
fn s5_4_a_rank_that_goes_away_fails_its_lane() {
    let mut world = threshold(0);
    world
        .upsert(&WorkerRecord {
            ranks: 2,
            ..WorkerRecord::new(2)
        })
        .expect("room");
    world.load(2, 1, 1);
    world.load(2, 0, 1);
    world.submit(Ask::new("x", 5).pin(2, 1));
    world.submit(Ask::new("y", 5).pin(2, 0));
    world.take();
    world.worker(2);
    world.advance_us(0);
    world.expect(&["failed x pinned_rank_out_of_range"]);
}

#[test]
fn s5_4_without_any_worker_all_waiting_fail_with_no_workers() {
    let mut world = threshold(0);
    world.load(1, 0, 1);
    world.submit(("x", 5));
    world.submit(Ask::new("y", 5).pin(1, 0));
    world.take();
    world.remove(1);
    world.advance_us(0);
    let mut told = world.take();
    told.sort();
    assert_eq!(told, ["failed x no_workers", "failed y no_workers"]);
}

// S5.5.

#[test]
fn s5_5_expiry_comes_before_failure_and_goes_by_deadline_then_intake() {
    let mut world = threshold(0);
    world.worker(2);
    world.load(1, 0, 1);
    world.load(2, 0, 1);
    world.submit(Ask::new("late", 1).deadline_us(9));
    world.submit(Ask::new("gone", 1).pin(2, 0));
    world.submit(Ask::new("early", 1).deadline_us(7));
    world.submit(Ask::new("early2", 1).deadline_us(7).tier(5));
    world.submit(Ask::new("both", 1).pin(2, 0).deadline_us(9).tier(1));
    world.take();
    world.remove(2);
    world.advance_us(9);
    world.expect(&[
        "expired early",
        "expired early2",
        "expired late",
        "expired both",
        "failed gone pinned_worker_unknown",
    ]);
}

#[test]
fn s5_5_rounds_judge_each_lane_until_none_fails() {
    // Behind the doomed heads of the shared lane stands one that may go.
    let mut world = threshold(0);
    world.worker(2);
    world.load(1, 0, 1);
    world.load(2, 0, 1);
    world.submit(Ask::new("x", 1).allow(&[2]));
    world.submit(Ask::new("y", 1).allow(&[2]));
    world.submit(Ask::new("z", 1).allow(&[1]));
    world.submit(Ask::new("w", 1).allow(&[2]));
    world.take();
    world.remove(2);
    assert!(!world.select());
    world.expect(&["failed x no_eligible_worker", "failed y no_eligible_worker"]);
    world.load(1, 0, 0);
    world.run();
    world.expect(&["z -> 1.0", "failed w no_eligible_worker"]);
}

#[test]
fn s5_5_a_sweep_comes_before_each_selection() {
    let mut world = World::with_worker(&classes(&["a quantum: 10"]));
    world.worker(2);
    world.submit(Ask::new("gone", 1).pin(2, 0));
    world.submit(("x", 1));
    world.take();
    world.remove(2);
    assert!(world.select());
    world.expect(&["failed gone pinned_worker_unknown", "x -> 1.0"]);
}

#[test]
fn s5_5_a_freed_endpoint_is_a_candidate_at_the_next_selection() {
    let mut world = threshold(0);
    world.submit_many(3, Ask::new("x", 5).pin(1, 0));
    world.submit(("s", 5));
    world.take();
    for expected in ["x0", "x1", "x2", "s"] {
        assert!(world.select());
        assert!(!world.select());
        assert_eq!(world.order(), [expected]);
        assert!(world.complete(expected));
    }
}

#[test]
fn s5_5_slices_never_dispatch_what_is_overdue_or_can_run_nowhere() {
    let mut world = threshold(1_000);
    world.worker(2);
    world.submit_many(6, Ask::new("gone", 1).pin(2, 0));
    world.submit_many(4, Ask::new("old", 1).deadline_us(50));
    world.submit(("ok", 1));
    world.take();
    world.remove(2);
    // No advance: its sweep is not bounded. The clock stands at 0, so only failures are pending.
    let report = world.turn(u64::MAX, 2);
    assert!(report.more, "four of the lane are left");
    let told = world.take();
    assert_eq!(
        told.iter()
            .filter(|event| event.starts_with("failed"))
            .count(),
        2
    );
    assert!(told.iter().all(|event| !event.ends_with("2.0")), "{told:?}");
    let report = world.turn(u64::MAX, u64::MAX);
    assert!(!report.more);
    assert_eq!(world.state().waiting, 0);
}

// S5.6.

fn holding(line: &str) -> World {
    World::with_worker(&classes_and(&[line], "overload_action: hold"))
}

#[test]
fn s5_6_hold_flushes_nobody() {
    let mut world = holding("a quantum: 1, prefill_busy_threshold: 100");
    world.overload(1, true);
    world.submit(("x", 1));
    world.submit(Ask::new("y", 1).pin(1, 0));
    assert!(!world.select());
    world.expect(&["queued x", "queued y 1.0"]);
    assert_eq!(world.head("a", None), shut(1, 1));
    assert!(is_busy(&world, 1, "a"));
    world.overload(1, false);
    world.run();
    world.expect(&["x -> 1.0", "y -> 1.0"]);
}

#[test]
fn s5_6_hold_counts_overloaded_endpoints_as_busy_without_any_threshold() {
    let mut world = holding("a quantum: 1");
    world.worker(2);
    world.overload(1, true);
    world.submit(("x", 1));
    world.run();
    assert_eq!(world.sent()[0].at, (2, 0));
}

#[test]
fn s5_6_hold_keeps_overloaded_endpoints_eligible_for_the_ratio() {
    let mut world = holding("a quantum: 1, prefill_busy_threshold: 0, busy_worker_ratio: 0.5");
    world.worker(2);
    world.overload(1, true);
    world.submit(("x", 1));
    assert_eq!(world.head("a", None), shut(1, 2));
    assert!(!world.select());
}

#[test]
fn s5_6_shut_and_overload_are_told_apart_under_hold() {
    let mut world = holding("a quantum: 1");
    world.overload(1, true);
    world.shut(1, 0);
    world.submit(("x", 1));
    world.overload(1, false);
    assert!(!world.select(), "still shut");
    world.overload(1, true);
    world.open(1, 0);
    assert!(!world.select(), "still overloaded");
    world.overload(1, false);
    assert!(world.select());
}
