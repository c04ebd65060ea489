//! S5.1 to S5.3 and S5.6: which heads may go.

mod common;

use common::{Ask, World, classes, classes_and};
use tollgate_arbiter::{HeadState, WorkerRecord};

fn threshold(tokens: u64) -> World {
    World::with_worker(&classes(&[&format!(
        "a quantum: 100, prefill_busy_threshold: {tokens}"
    )]))
}

fn is_busy(world: &World, worker: u64, class: &str) -> bool {
    let index = world.class(class).index;
    world.endpoint(worker, 0).busy_for.contains(&index)
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
