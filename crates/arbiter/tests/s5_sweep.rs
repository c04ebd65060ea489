//! S5.4 and S5.5: what can run nowhere, what expires, and the sweep that says so.

mod common;

use common::{Ask, World, classes};
use tollgate_arbiter::{FailReason, HeadState, WorkerRecord};

fn threshold(tokens: u64) -> World {
    World::with_worker(&classes(&[&format!(
        "a quantum: 100, prefill_busy_threshold: {tokens}"
    )]))
}

fn doomed(reason: FailReason) -> HeadState {
    HeadState::Doomed(reason)
}

fn shut(busy: u32, eligible: u32) -> HeadState {
    HeadState::Shut { busy, eligible }
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
