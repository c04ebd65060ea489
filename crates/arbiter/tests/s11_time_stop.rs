//! S11: time, cancel, stop.

mod common;

use common::{Ask, Stage, World, classes};
use tollgate_arbiter::{Nanos, Refusal};

fn blocked() -> World {
    let mut world = World::with_worker(&classes(&["a quantum: 10", "b quantum: 10"]));
    world.shut(1, 0);
    world
}

// S11.1.

#[test]
fn s11_1_now_at_the_deadline_is_expired_at_submission_and_while_waiting() {
    let mut world = blocked();
    world.submit(Ask::new("x", 1).deadline_us(100));
    world.advance_us(99);
    world.expect(&["queued x"]);
    world.advance_us(100);
    world.expect(&["expired x"]);
    world.submit(Ask::new("y", 1).deadline_us(100));
    world.submit(Ask::new("z", 1).deadline_us(101));
    world.expect(&["expired y", "queued z"]);
}

#[test]
fn s11_1_deadlines_are_exact_to_the_nanosecond() {
    let mut world = blocked();
    world.submit(Ask::new("x", 1).deadline_us(1));
    world
        .arbiter
        .advance(Nanos(999), &mut |event| panic!("{event:?}"));
    world.advance_us(1);
    assert_eq!(world.stage("x"), Stage::Over);
}

#[test]
fn s11_1_time_never_goes_back() {
    let mut world = blocked();
    world.advance_us(100);
    world.advance_us(40);
    assert_eq!(world.arbiter.now(), Nanos::from_micros(100));
    world.submit(Ask::new("x", 1).deadline_us(50));
    assert_eq!(world.stage("x"), Stage::Over);
}

#[test]
fn s11_1_the_earlier_of_own_deadline_and_class_timeout_counts() {
    let line = "a quantum: 10, queue_timeout_ms: 1";
    let mut world = World::with_worker(&classes(&[line]));
    world.shut(1, 0);
    world.submit(Ask::new("own", 1).deadline_us(500));
    world.submit(Ask::new("class", 1).deadline_us(5_000));
    world.submit(Ask::new("none", 1));
    world.take();
    world.advance_us(500);
    world.expect(&["expired own"]);
    world.advance_us(1_000);
    world.expect(&["expired class", "expired none"]);
}

#[test]
fn s11_1_wait_is_measured_from_submission() {
    let mut world = blocked();
    world.advance_us(10);
    world.submit(Ask::new("x", 1).arrival(Nanos::from_micros(4)));
    world.submit(Ask::new("future", 1).arrival(Nanos::from_micros(400)));
    world.advance_us(30);
    world.open(1, 0);
    world.run();
    let waits: Vec<_> = world
        .sent()
        .iter()
        .map(|sent| sent.wait.as_micros())
        .collect();
    assert_eq!(waits, [26, 0]);
}

#[test]
fn s11_1_expiry_from_the_middle_of_lanes_keeps_the_order() {
    let mut world = blocked();
    for at in 0..200_u64 {
        let ask = Ask::new(&format!("x{at}"), 1);
        world.submit(if at % 3 == 0 {
            ask.deadline_us(1 + at % 7)
        } else {
            ask
        });
    }
    world.advance_us(9);
    let expected: Vec<_> = (0..200)
        .filter(|at| at % 3 != 0)
        .map(|at| format!("x{at}"))
        .collect();
    assert_eq!(world.lane("a", None), expected);
    assert_eq!(world.class("a").counters.expired, 67);
}

// S11.2.

#[test]
fn s11_2_cancel_frees_counts_and_limits_at_once() {
    let line = "a quantum: 10, request_queue_limit_per_worker: 1";
    let mut world = World::with_worker(&classes(&[line]));
    world.shut(1, 0);
    world.submit(Ask::new("x", 50).cached(20));
    assert!(world.cancel("x"));
    let class = world.class("a");
    assert_eq!(
        (class.waiting, class.raw_isl_tokens, class.cached_tokens),
        (0, 0, 0)
    );
    world.submit(("y", 1));
    world.expect(&["queued x", "cancelled x", "queued y"]);
}

#[test]
fn s11_2_a_stale_handle_is_a_no_op_that_says_so() {
    let mut world = blocked();
    world.submit(("x", 1));
    assert!(world.cancel("x"));
    let before = world.state();
    assert!(!world.cancel("x"));
    let after = world.state();
    assert_eq!(after.stale_events, before.stale_events + 1);
    assert_eq!(after.classes, before.classes);
    // The slot lives on as another request.
    world.submit(("y", 1));
    assert!(!world.cancel("x"));
    assert_eq!(world.stage("y"), Stage::Waiting);
}

#[test]
fn s11_2_cancel_of_a_head_lets_the_next_one_go() {
    let mut world = World::with_worker(&classes(&["a quantum: 10"]));
    world.submit(Ask::new("x", 1).pin(1, 0));
    world.submit(Ask::new("y", 1).pin(1, 0));
    assert!(world.cancel("x"));
    world.run();
    assert_eq!(world.order(), ["y"]);
}

// S11.3.

#[test]
fn s11_3_stop_refuses_new_work_and_answers_the_rest_in_intake_order() {
    let mut world = blocked();
    world.submit(Ask::new("0", 1).of("b"));
    world.submit(Ask::new("1", 1).of("a").tier(9));
    world.submit(Ask::new("2", 1).of("b").pin(1, 0));
    world.submit(Ask::new("3", 1).of("a").impatient());
    world.submit(Ask::new("4", 1).of("a"));
    world.take();
    world.stop_us(0);
    world.expect(
        &["0", "1", "2", "3", "4"]
            .map(|n| format!("shutting_down {n}"))
            .each_ref()
            .map(String::as_str),
    );
    assert_eq!(world.try_submit(("late", 1)), Err(Refusal::Closed));
    let state = world.state();
    assert!(state.closed);
    assert_eq!((state.waiting, state.outstanding), (0, 0));
}

#[test]
fn s11_3_dispatches_until_the_drain_deadline() {
    let mut world = blocked();
    world.submit_many(4, ("x", 1));
    world.take();
    world.advance_us(100);
    world.stop_us(50);
    assert_eq!(world.try_submit(("late", 1)), Err(Refusal::Closed));
    world.open(1, 0);
    world.arbitrate(2);
    world.expect(&["x0 -> 1.0", "x1 -> 1.0"]);
    world.advance_us(149);
    world.expect(&[]);
    world.advance_us(150);
    world.expect(&["shutting_down x2", "shutting_down x3"]);
}

#[test]
fn s11_3_a_later_stop_may_only_shorten_the_drain() {
    let mut world = blocked();
    world.submit(("x", 1));
    world.stop_us(100);
    world.stop_us(1_000);
    world.advance_us(50);
    world.stop_us(30);
    world.take();
    world.advance_us(79);
    world.expect(&[]);
    world.advance_us(80);
    world.expect(&["shutting_down x"]);
    world.stop_us(0);
    world.stop_us(1_000_000);
    world.expect(&[]);
    assert_eq!(world.try_submit(("late", 1)), Err(Refusal::Closed));
}

#[test]
fn s11_3_the_rest_is_swept_before_it_is_answered() {
    let mut world = blocked();
    world.worker(2);
    world.shut(2, 0);
    world.submit(Ask::new("gone", 1).pin(2, 0));
    world.submit(Ask::new("old", 1).deadline_us(10));
    world.submit(("x", 1));
    world.take();
    world.remove(2);
    world.stop_us(0);
    world.expect(&[
        "failed gone pinned_worker_unknown",
        "shutting_down old",
        "shutting_down x",
    ]);
    let mut world = blocked();
    world.submit(Ask::new("old", 1).deadline_us(10));
    world.submit(("x", 1));
    world.take();
    world.stop_us(10);
    world.advance_us(10);
    world.expect(&["expired old", "shutting_down x"]);
}

#[test]
fn s11_3_feedback_goes_on_after_a_stop() {
    let mut world = World::with_worker(&classes(&["a quantum: 10"]));
    world.submit_many(2, ("x", 5));
    world.run();
    world.stop_us(0);
    assert!(world.prefill_done("x0") && world.complete("x0") && world.complete("x1"));
    let state = world.state();
    assert_eq!((state.outstanding, state.endpoints[0].active), (0, 0));
}

#[test]
fn s11_3_a_drain_span_saturates() {
    let mut world = blocked();
    world.submit(("x", 1));
    world.advance_us(5);
    world
        .arbiter
        .stop(Nanos::MAX, &mut |event| panic!("{event:?}"));
    world.advance_us(u64::MAX / 2_000);
    assert_eq!(world.stage("x"), Stage::Waiting);
}
