//! S5.5, S11: what a loop that must stay responsive does in slices.

mod common;

use common::{Ask, Stage, World, classes};
use tollgate_arbiter::Nanos;

/// Two classes, two workers whose egress is full, so that everything waits.
fn blocked() -> World {
    let mut world = World::new(&classes(&["a quantum: 10", "b quantum: 20"]));
    for worker in [1, 2] {
        world.worker(worker);
        world.shut(worker, 0);
    }
    world
}

fn set_time_us(world: &mut World, us: u64) {
    world.arbiter.set_time(Nanos::from_micros(us));
    world.arbiter.check_invariants();
}

fn begin_drain_us(world: &mut World, us: u64) {
    world.arbiter.begin_drain(Nanos::from_micros(us));
    world.arbiter.check_invariants();
}

#[test]
fn s11_1_setting_the_time_sweeps_nothing() {
    let mut world = blocked();
    world.submit(Ask::new("x", 1).deadline_us(10));
    world.take();
    set_time_us(&mut world, 10);
    world.expect(&[]);
    assert_eq!(world.arbiter.waiting(), 1);
    set_time_us(&mut world, 9);
    assert_eq!(
        world.arbiter.now(),
        Nanos::from_micros(10),
        "it never goes back"
    );
    let report = world.turn(1, 1);
    world.expect(&["expired x"]);
    assert!(report.dry && !report.more);
}

#[test]
fn s11_1_the_next_deadline_is_the_earliest_or_the_drains() {
    let mut world = blocked();
    let next = |world: &World| world.arbiter.next_deadline().map(Nanos::as_micros);
    assert_eq!(next(&world), None);
    world.submit(("patient", 1));
    assert_eq!(next(&world), None);
    world.submit(Ask::new("late", 1).deadline_us(90));
    world.submit(Ask::new("early", 1).deadline_us(40));
    assert_eq!(next(&world), Some(40));
    begin_drain_us(&mut world, 60);
    assert_eq!(next(&world), Some(40));
    world.cancel("early");
    assert_eq!(next(&world), Some(60));
    world.cancel("late");
    assert_eq!(next(&world), Some(60));
    world.cancel("patient");
    assert_eq!(next(&world), None, "nobody is left to answer");
}

#[test]
fn s11_3_a_drain_that_is_begun_ends_nothing_by_itself() {
    let mut world = blocked();
    world.submit(("x", 1));
    world.take();
    begin_drain_us(&mut world, 0);
    world.expect(&[]);
    assert!(world.try_submit(("y", 1)).is_err(), "closed");
    assert_eq!(world.arbiter.waiting(), 1);
    world.turn(1, 9_999);
    world.expect(&["shutting_down x"]);
}

#[test]
fn s11_3_a_turn_ends_a_drain_in_slices_and_in_intake_order() {
    let mut world = blocked();
    for at in 0..40 {
        let ask = Ask::new(&format!("x{at}"), 1 + at).tier(at % 7);
        world.submit(match at % 4 {
            0 => ask.pin(1, 0),
            1 => ask.of("b"),
            2 => ask.of("b").pin(2, 0),
            _ => ask,
        });
    }
    begin_drain_us(&mut world, 5);
    set_time_us(&mut world, 5);
    for worker in [1, 2] {
        world.open(worker, 0);
    }
    world.take();
    let mut told = Vec::new();
    let mut turns = 0;
    while world.arbiter.waiting() > 0 {
        let report = world.turn(9, 3);
        assert_eq!(
            report.dispatched, 0,
            "nothing is dispatched after the drain"
        );
        let slice = world.take();
        assert!(slice.len() <= 3);
        told.extend(slice);
        assert_eq!(report.more, world.arbiter.waiting() > 0);
        turns += 1;
    }
    let expected: Vec<_> = (0..40).map(|at| format!("shutting_down x{at}")).collect();
    assert_eq!(told, expected);
    // 2,048 slots are looked at, 16 for each of the 3; then 40 are answered.
    assert_eq!(turns, (2_048_u32 / 16 + 40).div_ceil(3));
    let report = world.turn(9, 3);
    assert!(report.dry && !report.more);
}

#[test]
fn s11_3_a_drain_that_ends_takes_cancels_and_feedback() {
    let mut world = blocked();
    world.open(1, 0);
    world.submit_many(3, Ask::new("run", 1).pin(1, 0));
    assert_eq!(world.run().dispatched, 3);
    world.shut(1, 0);
    world.submit_many(9, ("x", 1));
    world.submit(Ask::new("pin", 1).pin(2, 0));
    begin_drain_us(&mut world, 0);
    world.turn(1, 2_048 / 16 + 2);
    world.take();
    assert!(world.cancel("x2"), "gathered, not answered");
    assert!(world.cancel("pin"));
    assert!(world.complete("run0"));
    assert!(world.requeue("run1"));
    world.remove(2);
    world.expect(&["cancelled x2", "cancelled pin", "shutting_down run1"]);
    world.stop_us(1_000);
    world.expect(&[
        "shutting_down x3",
        "shutting_down x4",
        "shutting_down x5",
        "shutting_down x6",
        "shutting_down x7",
        "shutting_down x8",
    ]);
    assert!(world.complete("run2"));
    assert_eq!(
        (world.arbiter.waiting(), world.arbiter.outstanding()),
        (0, 0)
    );
}

#[test]
fn s11_3_a_drain_whose_last_ones_are_cancelled_is_over() {
    let mut world = blocked();
    world.submit_many(3, ("x", 1));
    begin_drain_us(&mut world, 0);
    world.turn(1, 2_048 / 16 + 1);
    world.take();
    assert!(world.cancel("x1") && world.cancel("x2"));
    let report = world.turn(1, 1);
    assert!(report.dry && !report.more);
    world.expect(&["cancelled x1", "cancelled x2"]);
}

#[test]
fn s11_3_the_impatient_are_answered_like_all_others() {
    let mut world = blocked();
    world.submit(Ask::new("x", 1).impatient());
    world.submit(("y", 1));
    world.submit(Ask::new("z", 1).impatient());
    begin_drain_us(&mut world, 0);
    world.take();
    while world.turn(1, 5).more {}
    world.expect(&["shutting_down x", "shutting_down y", "shutting_down z"]);
}

#[test]
fn s11_3_nothing_is_selected_after_the_drain() {
    let mut world = World::with_worker(&classes(&["a quantum: 10"]));
    world.submit_many(2, ("x", 1));
    begin_drain_us(&mut world, 5);
    assert!(world.select(), "the drain goes on");
    set_time_us(&mut world, 5);
    assert!(!world.select());
    assert_eq!(world.stage("x1"), Stage::Over);
}

/// Waiting requests of all kinds, some of which expire or can run nowhere when the drain ends.
fn mixed(seed: u32) -> World {
    let mut world = blocked();
    world.checks = false;
    let mut draw = seed;
    let mut below = |bound: u32| {
        draw = draw.wrapping_mul(0x0019_660D).wrapping_add(0x3C6E_F35F);
        (draw >> 8) % bound
    };
    for at in 0..120 {
        let mut ask = Ask::new(&format!("x{at}"), 1 + below(50)).tier(below(3));
        if below(2) == 0 {
            ask = ask.of("b");
        }
        if below(3) == 0 {
            ask = ask.pin(1 + u64::from(below(2)), 0);
        }
        if below(4) == 0 {
            ask = ask.deadline_us(1 + u64::from(below(20)));
        }
        world.submit(ask);
    }
    world.remove(2);
    world.take();
    world
}

#[test]
fn s11_3_slices_end_a_drain_like_the_whole() {
    for seed in 0..20 {
        let (mut whole, mut sliced) = (mixed(seed), mixed(seed));
        whole.stop_us(10);
        whole.advance_us(10);
        let mut expected = whole.take();
        begin_drain_us(&mut sliced, 10);
        set_time_us(&mut sliced, 10);
        let mut turns = 0;
        while sliced.turn(7, 1 + u64::from(seed)).more {
            turns += 1;
        }
        assert!(turns > 5);
        let mut told = sliced.take();
        // The order among failures is free.
        let failures = |told: &mut Vec<String>| {
            let mut failed: Vec<_> = told
                .iter()
                .filter(|t| t.starts_with("failed"))
                .cloned()
                .collect();
            told.retain(|t| !t.starts_with("failed"));
            failed.sort();
            failed
        };
        assert_eq!(failures(&mut told), failures(&mut expected));
        assert_eq!(told, expected);
        let (whole, sliced) = (whole.state(), sliced.state());
        assert_eq!(whole, sliced);
    }
}

#[test]
fn s5_5_the_lanes_of_a_removed_worker_fail_in_slices() {
    let mut world = blocked();
    world.submit_many(50, Ask::new("x", 1).pin(1, 0));
    world.submit_many(50, Ask::new("y", 1).of("b").pin(1, 0));
    world.submit_many(10, ("s", 1));
    world.remove(1);
    world.open(2, 0);
    world.take();
    let mut dispatched = 0;
    for turn in 1..=10 {
        let report = world.turn(1, 10);
        dispatched += report.dispatched;
        let told = world.take();
        let failed = told.iter().filter(|t| t.ends_with("pinned_worker_unknown"));
        assert_eq!(failed.count(), 10);
        assert_eq!(report.dispatched, 1, "others go meanwhile");
        assert!(turn == 10 || report.more);
    }
    assert_eq!((dispatched, world.arbiter.waiting()), (10, 0));
}
