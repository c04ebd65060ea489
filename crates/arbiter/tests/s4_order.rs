//! S4: lanes, and the order inside a class.

mod common;

use common::{Ask, World, classes};
use tollgate_arbiter::{HeadState, InvalidRequest, Nanos, Refusal};

/// A class under `order` whose only worker is shut.
fn shut_world(order: &str) -> World {
    let mut world =
        World::with_worker(&classes(&[&format!("a quantum: 1, queue_policy: {order}")]));
    world.shut(1, 0);
    world
}

fn lane(world: &World) -> Vec<String> {
    world.lane("a", None)
}

fn at(name: &str, us: u64) -> Ask {
    Ask::new(name, 1).arrival(Nanos::from_micros(us))
}

// S4.1.

#[test]
fn s4_1_only_a_pin_selects_an_exact_lane() {
    let mut world = shut_world("fcfs");
    world.submit(Ask::new("allow", 1).allow(&[1]));
    world.submit(Ask::new("hint", 1).hint(1, 0, 1));
    world.submit(Ask::new("pin", 1).pin(1, 0));
    world.submit(Ask::new("both", 1).pin(1, 0).allow(&[1]));
    world.expect(&[
        "queued allow",
        "queued hint",
        "queued pin 1.0",
        "queued both 1.0",
    ]);
    assert_eq!(lane(&world), ["allow", "hint"]);
    assert_eq!(world.lane("a", Some((1, 0))), ["pin", "both"]);
}

#[test]
fn s4_1_limits_order_and_charge_apply_to_an_allow_list_of_one() {
    let mut world = World::with_worker(&classes(&[
        "a quantum: 10, request_queue_limit_per_worker: 1",
    ]));
    world.shut(1, 0);
    world.submit(Ask::new("x", 4).allow(&[1]));
    world.submit(Ask::new("y", 4).allow(&[1]));
    world.expect(&["queued x", "rejected y requests 1/1"]);
    world.open(1, 0);
    world.run();
    assert_eq!(world.class("a").counters.charged_tokens, 4);
}

// S4.2.

#[test]
fn s4_2_fcfs_goes_by_arrival_less_jump() {
    let mut world = shut_world("fcfs");
    world.submit(at("t10", 10));
    world.submit(at("t5", 5));
    world.submit(at("t20-16", 20).jump(0.000_016));
    world.submit(at("t1-9", 1).jump(9.0));
    world.submit(at("t5 too", 5));
    assert_eq!(lane(&world), ["t1-9", "t20-16", "t5", "t5 too", "t10"]);
}

#[test]
fn s4_2_fcfs_times_may_be_negative() {
    let mut world = shut_world("fcfs");
    world.submit(at("-1", 0).jump(1.0));
    world.submit(at("-3", 0).jump(3.0));
    world.submit(at("-2", 1_000_000).jump(3.0));
    world.submit(at("-1e9", 0).jump(1e9));
    assert_eq!(lane(&world), ["-1e9", "-3", "-2", "-1"]);
}

#[test]
fn s4_2_wspt_goes_by_weight_over_cost() {
    let mut world = shut_world("wspt");
    world.submit(Ask::new("1/100", 100));
    world.submit(Ask::new("1/10", 10));
    world.submit(Ask::new("3/20", 20).jump(2.0));
    world.submit(Ask::new("1/10 too", 30).cached(20));
    world.submit(Ask::new("1/1", 50).cached(50));
    assert_eq!(lane(&world), ["1/1", "3/20", "1/10", "1/10 too", "1/100"]);
}

#[test]
fn s4_2_lcfs_goes_by_later_arrival_and_jump_ties_by_intake() {
    let mut world = shut_world("lcfs");
    world.submit(at("t10", 10));
    world.submit(at("t30", 30));
    world.submit(at("t5+40", 5).jump(0.000_040));
    world.submit(at("t30 too", 30));
    assert_eq!(lane(&world), ["t5+40", "t30", "t30 too", "t10"]);
}

#[test]
fn s4_2_edf_goes_by_deadline_and_those_without_come_last_by_arrival() {
    let mut world = shut_world("edf");
    world.submit(at("none 9", 9));
    world.submit(at("d50", 5).deadline_us(50));
    world.submit(at("none 9-4", 9).jump(0.000_004));
    world.submit(at("d20", 9).deadline_us(20));
    world.submit(at("d50 early", 1).deadline_us(50).jump(1.0));
    world.submit(at("dmax", 0).deadline_us(u64::MAX));
    world.submit(at("none 6", 6));
    assert_eq!(
        lane(&world),
        [
            "d20",
            "d50",
            "d50 early",
            "dmax",
            "none 9-4",
            "none 6",
            "none 9"
        ]
    );
}

#[test]
fn s4_2_edf_takes_the_classes_own_timeout_into_account() {
    let mut world = World::with_worker(&classes(&[
        "a quantum: 1, queue_policy: edf, queue_timeout_ms: 1",
    ]));
    world.shut(1, 0);
    world.submit(at("own", 0).deadline_us(1_500));
    world.submit(at("sooner", 0).deadline_us(900));
    world.submit(at("class", 0));
    assert_eq!(
        lane(&world),
        ["sooner", "own", "class"],
        "own is cut to 1000 us, a tie"
    );
}

#[test]
fn s4_2_higher_tiers_go_first_under_every_policy() {
    for order in ["fcfs", "wspt", "lcfs", "edf"] {
        let mut world = shut_world(order);
        world.submit(at("0", 0).deadline_us(1));
        world.submit(at("also 0", 9));
        world.submit(at("max", 9).tier(u32::MAX));
        world.submit(at("seven", 9).tier(7));
        assert_eq!(lane(&world)[..2], ["max", "seven"], "{order}");
    }
}

#[test]
fn s4_2_equal_keys_go_by_intake_whatever_slots_they_get() {
    let mut world = shut_world("fcfs");
    world.submit_many(40, ("old", 1));
    for at in [3, 17, 30, 5, 22, 39, 0] {
        assert!(world.cancel(&format!("old{at}")));
    }
    for at in 0..40 {
        if ![3, 17, 30, 5, 22, 39, 0].contains(&at) {
            assert!(world.cancel(&format!("old{at}")));
        }
    }
    world.submit_many(40, ("x", 1));
    let expected: Vec<_> = (0..40).map(|at| format!("x{at}")).collect();
    assert_eq!(lane(&world), expected);
    world.open(1, 0);
    world.run();
    assert_eq!(world.order(), expected);
}

// S4.3.

#[test]
fn s4_3_jump_is_clamped_and_rounded_half_up() {
    // Each pair must tie, so intake decides: the second never passes the first.
    for (first, second) in [
        (0.0, -5.0),
        (1e9, 1e300),
        (1e-9, 0.6e-9),
        (3e-9, 2.5e-9),
        (-0.0, 0.4e-9),
    ] {
        for order in ["fcfs", "lcfs"] {
            let mut world = shut_world(order);
            world.submit(Ask::new("first", 1).jump(first));
            world.submit(Ask::new("second", 1).jump(second));
            assert_eq!(
                lane(&world),
                ["first", "second"],
                "{first} {second} {order}"
            );
            let mut world = shut_world(order);
            world.submit(Ask::new("second", 1).jump(second));
            world.submit(Ask::new("first", 1).jump(first));
            assert_eq!(
                lane(&world),
                ["second", "first"],
                "{second} {first} {order}"
            );
        }
    }
}

#[test]
fn s4_3_a_jump_that_is_no_number_is_invalid() {
    let mut world = shut_world("fcfs");
    for jump in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let refusal = world.try_submit(Ask::new("x", 1).jump(jump));
        assert!(
            matches!(
                refusal,
                Err(Refusal::Invalid(InvalidRequest::JumpNotFinite { .. }))
            ),
            "{jump}"
        );
    }
    assert_eq!(world.state().waiting, 0);
}

// S4.4.

#[test]
fn s4_4_shared_and_exact_heads_compare_by_the_same_key() {
    let mut world = World::with_worker(&classes(&["a quantum: 1"]));
    world.worker(2);
    world.submit(at("s3", 3));
    world.submit(at("p2", 2).pin(1, 0));
    world.submit(at("q1", 1).pin(2, 0));
    world.submit(at("s0", 0));
    world.submit(at("q3", 3).pin(2, 0));
    world.submit(at("p tier", 9).pin(1, 0).tier(1));
    world.run();
    assert_eq!(world.order(), ["p tier", "s0", "q1", "p2", "s3", "q3"]);
}

#[test]
fn s4_4_an_equal_key_goes_by_intake_across_lanes() {
    let mut world = World::with_worker(&classes(&["a quantum: 1"]));
    world.worker(2);
    for (name, pin) in [("0", 2), ("1", 0), ("2", 1), ("3", 0), ("4", 2), ("5", 1)] {
        let ask = Ask::new(name, 1);
        world.submit(if pin == 0 { ask } else { ask.pin(pin, 0) });
    }
    world.run();
    assert_eq!(world.order(), ["0", "1", "2", "3", "4", "5"]);
}

// S4.5.

#[test]
fn s4_5_blocking_is_lane_local() {
    let mut world = World::with_worker(&classes(&["a quantum: 1, prefill_busy_threshold: 0"]));
    world.worker(2);
    world.load(1, 0, 1);
    world.submit(Ask::new("s1", 1).allow(&[1]));
    world.submit(Ask::new("s2", 1));
    world.submit(Ask::new("p", 1).pin(2, 0));
    world.submit(Ask::new("q", 1).pin(1, 0));
    world.run();
    assert_eq!(world.order(), ["p"], "s2 does not pass s1");
    assert_eq!(
        world.head("a", None),
        HeadState::Shut {
            busy: 1,
            eligible: 1
        }
    );
    assert!(world.complete("p"));
    world.load(1, 0, 0);
    world.run();
    assert_eq!(world.order(), ["s1", "s2"], "then q waits for worker 1");
}

// S4.6.

#[test]
fn s4_6_strict_tiers_are_inside_a_class() {
    let mut world = World::with_worker(&classes(&["a quantum: 10", "b quantum: 10"]));
    world.submit_many(6, Ask::new("b", 10).of("b").tier(9));
    world.submit_many(6, Ask::new("a", 10).of("a"));
    world.run();
    let order = world.order();
    assert_eq!(order[..6], ["a0", "b0", "a1", "b1", "a2", "b2"]);
}

#[test]
fn s4_6_an_arriving_tier_goes_before_all_that_wait() {
    let mut world = World::with_worker(&classes(&["a quantum: 1, prefill_busy_threshold: 0"]));
    world.load(1, 0, 1);
    world.submit_many(20, ("x", 1));
    world.submit(Ask::new("urgent", 1).tier(1));
    world.load(1, 0, 0);
    world.run();
    assert_eq!(world.order(), ["urgent"]);
}

// S4.7.

#[test]
fn s4_7_no_path_around_waiting_work() {
    // Neither a zero limit, nor an idle other worker, nor may_wait opens a way past a blocked head.
    let mut world = World::with_worker(&classes(&[
        "a quantum: 1, request_queue_limit_per_worker: 0",
    ]));
    world.worker(2);
    world.shut(1, 0);
    world.reload(&classes(&["a quantum: 1"]));
    world.submit(Ask::new("head", 1).allow(&[1]));
    world.reload(&classes(&[
        "a quantum: 1, request_queue_limit_per_worker: 0",
    ]));
    world.submit(Ask::new("zero", 1));
    world.submit(Ask::new("impatient", 1).impatient());
    world.take();
    world.run();
    world.expect(&[
        "rejected zero requests 0/0",
        "rejected impatient requests 0/0",
    ]);
    assert_eq!(lane(&world), ["head"]);
}
