//! S5.1: egress groups and their rooms.

mod common;

use common::{Ask, World, classes, classes_and};
use tollgate_arbiter::{BuildError, Capacities, HeadState, Resource, WorkerRecord};

fn groups(count: u16) -> Capacities {
    Capacities {
        slots: 256,
        endpoints: 64,
        egress_groups: count,
        ..Capacities::default()
    }
}

/// Workers 1 to `workers`, in `count` groups: worker w is in group `w % count`.
fn world(lines: &[&str], count: u16, workers: u64) -> World {
    let mut world = World::sized(&classes(lines), groups(count));
    for id in 1..=workers {
        world.worker(id);
    }
    world
}

fn room(world: &mut World, group: u16, room: u32) {
    world.arbiter.set_egress_room(group, room);
    world.arbiter.check_invariants();
}

#[test]
fn s5_1_a_room_is_without_bound_at_first_and_then_never_used_up() {
    let mut world = world(&["a quantum: 1"], 2, 2);
    world.submit_many(9, ("x", 1));
    world.run();
    assert_eq!(world.arbiter.egress_room(0), u32::MAX);
    assert_eq!(world.arbiter.egress_room(1), u32::MAX);
}

#[test]
fn s5_1_a_full_egress_group_is_busy_for_every_class_and_loses_nothing() {
    let mut world = world(&["a quantum: 1", "b quantum: 1"], 1, 2);
    room(&mut world, 0, 0);
    world.submit(Ask::new("x", 1).of("a"));
    world.submit(Ask::new("y", 1).of("b").pin(1, 0));
    world.take();
    assert!(!world.select());
    for worker in [1, 2] {
        let endpoint = world.endpoint(worker, 0);
        assert!(endpoint.shut, "the group's state is each endpoint's");
        assert_eq!(endpoint.busy_for.len(), 2);
    }
    let shut = |n| HeadState::Shut {
        busy: n,
        eligible: n,
    };
    assert_eq!(world.head("a", None), shut(2));
    assert_eq!(world.head("b", Some((1, 0))), shut(1));
    room(&mut world, 0, 1);
    world.run();
    world.expect(&["x -> 1.0"]);
    assert_eq!(world.arbiter.egress_room(0), 0);
    room(&mut world, 0, 5);
    world.run();
    world.expect(&["y -> 1.0"]);
    assert_eq!(world.arbiter.egress_room(0), 4);
}

#[test]
fn s5_1_a_full_egress_group_leaves_the_others_alone() {
    let mut world = world(&["a quantum: 1"], 3, 5);
    room(&mut world, 1, 0);
    for (name, worker) in [("p1", 1), ("p2", 2), ("p3", 3), ("p4", 4), ("p5", 5)] {
        world.submit(Ask::new(name, 1).pin(worker, 0));
    }
    world.submit_many(4, ("s", 1));
    world.take();
    world.run();
    let order = world.order();
    assert_eq!(order, ["p2", "p3", "p5", "s0", "s1", "s2", "s3"]);
    assert_eq!(world.arbiter.waiting(), 2);
    world.worker(7);
    assert!(
        world.endpoint(7, 0).shut,
        "one that comes finds its group as it is"
    );
    room(&mut world, 1, u32::MAX);
    world.run();
    world.expect(&["p1 -> 1.0", "p4 -> 4.0"]);
}

#[test]
fn s5_1_room_does_not_open_an_endpoint_that_was_shut_itself() {
    let mut world = world(&["a quantum: 1"], 2, 2);
    world.shut(1, 0);
    room(&mut world, 1, 0);
    room(&mut world, 1, 3);
    assert!(world.endpoint(1, 0).shut);
    room(&mut world, 1, 0);
    world.open(1, 0);
    assert!(world.endpoint(1, 0).shut, "its group still is");
    room(&mut world, 1, 3);
    assert!(!world.endpoint(1, 0).shut);
}

#[test]
fn s5_1_the_chooser_goes_round_a_full_egress_group() {
    for selector in ["cost", "least_loaded", "round_robin", "power_of_two"] {
        let profile = classes_and(&["a quantum: 1"], &format!("selector: {selector}"));
        let mut world = World::sized(&profile, groups(4));
        for id in 0..8 {
            world.worker(id);
        }
        for group in [0, 1, 3] {
            room(&mut world, group, 2);
        }
        room(&mut world, 2, 0);
        world.submit_many(9, ("x", 10));
        world.run();
        let mut at: Vec<u64> = world.sent().iter().map(|sent| sent.at.0 % 4).collect();
        at.sort_unstable();
        assert_eq!(at, [0, 0, 1, 1, 3, 3], "{selector}");
    }
}

#[test]
fn s5_3_a_ratio_counts_the_endpoints_of_a_full_group() {
    let line = "a quantum: 1, prefill_busy_threshold: 100, busy_worker_ratio: 0.5";
    let mut world = world(&[line], 4, 4);
    world.submit(("x", 1));
    world.submit(Ask::new("y", 1).allow(&[2, 3, 4]));
    world.take();
    room(&mut world, 2, 0);
    room(&mut world, 3, 0);
    assert!(!world.select(), "2 of 4 are busy");
    room(&mut world, 3, 1);
    world.run();
    world.expect(&["x -> 1.0", "y -> 3.0"]);
    world.submit(Ask::new("z", 1).allow(&[2, 3, 4]));
    world.take();
    assert_eq!(
        world.head("a", None),
        HeadState::Shut {
            busy: 2,
            eligible: 3
        },
        "the dispatch to worker 3 used its group's room up"
    );
}

#[test]
fn s5_4_overload_in_a_full_group_fails_nobody() {
    let mut world = world(&["a quantum: 1"], 2, 2);
    room(&mut world, 1, 0);
    world.submit(Ask::new("pin", 1).pin(1, 0));
    world.submit(Ask::new("pool", 1).allow(&[1]));
    world.take();
    world.overload(1, true);
    world.advance_us(1);
    world.expect(&[]);
    room(&mut world, 1, 1);
    room(&mut world, 1, 0);
    world.advance_us(2);
    world.expect(&[]);
    room(&mut world, 1, 1);
    world.advance_us(3);
    world.expect(&[
        "failed pool all_eligible_overloaded",
        "failed pin pinned_worker_overloaded",
    ]);
}

#[test]
fn s5_4_a_lane_that_can_run_nowhere_fails_in_a_full_group_too() {
    let mut world = world(&["a quantum: 1"], 2, 2);
    room(&mut world, 1, 0);
    world.submit(Ask::new("x", 1).pin(1, 0));
    world.take();
    world.available(1, false);
    world.advance_us(1);
    world.expect(&["failed x pinned_worker_unavailable"]);
}

#[test]
fn s7_1_selections_inside_a_submission_use_room() {
    let mut world = world(&["a quantum: 1, request_queue_limit_per_worker: 1"], 1, 1);
    room(&mut world, 0, 1);
    world.submit_many(2, ("x", 1));
    world.expect(&["queued x0", "x0 -> 1.0", "queued x1"]);
    world.submit(("x2", 1));
    world.expect(&["rejected x2 requests 1/1"]);
}

#[test]
fn s7_2_a_head_in_a_full_group_is_not_dispatchable() {
    let mut world = world(&["a quantum: 1"], 2, 2);
    room(&mut world, 1, 0);
    world.submit(Ask::new("x", 1).pin(1, 0).impatient());
    world.take();
    world.run();
    world.expect(&["rejected x may_wait 0/0"]);
}

#[test]
fn s9_3_a_worker_that_returns_finds_its_group_as_it_is() {
    let mut world = world(&["a quantum: 1"], 2, 2);
    room(&mut world, 1, 0);
    world.remove(1);
    world
        .upsert(&WorkerRecord {
            ranks: 2,
            ..WorkerRecord::new(1)
        })
        .expect("room");
    assert!(world.endpoint(1, 1).shut);
    room(&mut world, 1, 2);
    assert!(!world.endpoint(1, 0).shut);
}

#[test]
fn capacities_name_groups_out_of_range() {
    for found in [0, 65] {
        let built = tollgate_arbiter::Arbiter::<()>::build(
            &classes(&["a quantum: 1"]),
            groups(found),
            tollgate_arbiter::Options::default(),
        );
        let error = built.expect_err("out of range");
        let found = u64::from(found);
        assert_eq!(
            error,
            BuildError::OutOfRange {
                what: Resource::EgressGroups,
                min: 1,
                max: 64,
                found
            }
        );
    }
}

#[test]
fn s5_1_endpoint_numbers_follow_the_group_and_are_taken_again() {
    let mut world = World::sized(&classes(&["a quantum: 1"]), groups(3));
    let number = |world: &World, worker, rank| world.endpoint(worker, rank).index.0;
    for (worker, ranks) in [(4, 2), (3, 1), (5, 1), (7, 1), (9, 2)] {
        let record = WorkerRecord {
            ranks,
            ..WorkerRecord::new(worker)
        };
        world.upsert(&record).expect("room");
    }
    // Groups are told apart by the number modulo 4, the next power of two.
    assert_eq!(
        [(3, 0), (9, 0), (9, 1)].map(|(w, r)| number(&world, w, r)),
        [0, 4, 8]
    );
    assert_eq!(
        [(4, 0), (4, 1), (7, 0)].map(|(w, r)| number(&world, w, r)),
        [1, 5, 9]
    );
    assert_eq!(number(&world, 5, 0), 2);
    assert!(world.remove(4));
    world.worker(10);
    world.worker(13);
    assert_eq!(number(&world, 10, 0), 1);
    assert_eq!(number(&world, 13, 0), 5);
    assert!(number(&world, 9, 1) < world.arbiter.capacities().endpoint_numbers());
}

#[test]
fn s5_1_each_group_has_its_share_of_the_endpoints() {
    let capacities = Capacities {
        endpoints: 5,
        ..groups(2)
    };
    let mut world = World::sized(&classes(&["a quantum: 1"]), capacities);
    for worker in [1, 3, 5] {
        world.worker(worker);
    }
    let full = world
        .upsert(&WorkerRecord::new(7))
        .expect_err("3 for each group");
    assert_eq!(
        full.to_string(),
        "not enough endpoints_of_egress_group: 4 required, 3 available"
    );
    world.worker(2);
    world.remove(3);
    world.worker(7);
}

#[test]
fn s5_1_a_worker_that_comes_into_a_full_group_is_not_chosen() {
    let mut world = World::sized(&classes(&["a quantum: 1"]), groups(3));
    room(&mut world, 0, 0);
    world.worker(3);
    world.submit(("x", 1));
    world.take();
    assert!(!world.select());
    world.worker(2);
    world.run();
    world.expect(&["x -> 2.0"]);
}
