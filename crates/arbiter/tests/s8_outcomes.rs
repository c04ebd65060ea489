//! S8: outcomes, their reasons, and the order of tests at submission.

mod common;

use common::{Ask, World, classes, classes_and};
use tollgate_arbiter::{HINTS_MAX, InvalidRequest, Refusal, Resource, WorkerRecord};

fn world() -> World {
    World::with_worker(&classes(&[
        "a quantum: 1, request_queue_limit_per_worker: 1",
    ]))
}

fn too_many_hints(name: &str) -> Ask {
    (0..=HINTS_MAX as u64).fold(Ask::new(name, 1), |ask, id| ask.hint(id, 0, 1))
}

#[test]
fn s8_order_of_tests_at_submission() {
    // Each request fails every test from its own on.
    let mut world = world();
    world.shut(1, 0);
    world.submit(("fills the limit", 1));
    world.take();
    world.advance_us(100);
    world.submit(Ask::new("limits", 1));
    world.submit(Ask::new("pin", 1).pin(9, 0));
    world.submit(Ask::new("eligibility", 1).allow(&[9]));
    world.submit(Ask::new("deadline", 1).pin(9, 0).deadline_us(100));
    world.expect(&[
        "rejected limits requests 1/1",
        "failed pin pinned_worker_unknown",
        "failed eligibility no_eligible_worker",
        "expired deadline",
    ]);
    world.remove(1);
    world.submit(Ask::new("no workers", 1).pin(9, 0));
    world.submit(Ask::new("deadline2", 1).pin(9, 0).deadline_us(1));
    world.expect(&["failed no workers no_workers", "expired deadline2"]);
    world.stop_us(1_000);
    world.take();
    let closed = world.try_submit(Ask::new("closed", 1).pin(9, 0).deadline_us(1));
    assert_eq!(closed, Err(Refusal::Closed));
    let invalid = world.try_submit(too_many_hints("invalid").deadline_us(1));
    assert_eq!(
        invalid,
        Err(Refusal::Invalid(InvalidRequest::TooManyHints { found: 17 }))
    );
    world.expect(&[]);
}

#[test]
fn s8_pins_fail_in_their_order_at_submission_and_while_waiting() {
    // From the last reason to the first: each step breaks one more condition.
    let mut world = World::new(&classes(&["a quantum: 1, prefill_busy_threshold: 0"]));
    world.worker(2);
    let good = WorkerRecord {
        taints: &["gpu"],
        ..WorkerRecord::new(1)
    };
    let overloaded = WorkerRecord {
        overloaded: true,
        ..good
    };
    let untainted = WorkerRecord {
        taints: &[],
        ..overloaded
    };
    let other_rank = WorkerRecord {
        first_rank: 1,
        ..untainted
    };
    let unavailable = WorkerRecord {
        available: false,
        ..other_rank
    };
    let steps = [
        (overloaded, "pinned_worker_overloaded"),
        (untainted, "pinned_taint_missing"),
        (other_rank, "pinned_rank_out_of_range"),
        (unavailable, "pinned_worker_unavailable"),
    ];
    for (at, (record, reason)) in steps.into_iter().enumerate() {
        world.upsert(&good).expect("room");
        world.shut(1, 0);
        let (waits, comes) = (format!("waits{at}"), format!("comes{at}"));
        world.submit(Ask::new(&waits, 1).pin(1, 0).taint("gpu"));
        world.take();
        world.open(1, 0);
        world.upsert(&record).expect("room");
        world.advance_us(0);
        world.submit(Ask::new(&comes, 1).pin(1, 0).taint("gpu"));
        world.expect(&[
            &format!("failed {waits} {reason}"),
            &format!("failed {comes} {reason}"),
        ]);
    }
    world.remove(1);
    world.submit(Ask::new("unknown", 1).pin(1, 0).taint("gpu"));
    world.submit(
        Ask::new("not allowed", 1)
            .pin(1, 0)
            .taint("gpu")
            .allow(&[2]),
    );
    world.remove(2);
    world.submit(Ask::new("none", 1).pin(1, 0).taint("gpu").allow(&[2]));
    world.expect(&[
        "failed unknown pinned_worker_unknown",
        "failed not allowed pinned_worker_not_allowed",
        "failed none no_workers",
    ]);
}

#[test]
fn s8_shared_requests_fail_with_the_exact_reason() {
    let mut world = World::with_worker(&classes(&["a quantum: 1"]));
    world.available(1, false);
    world.submit(("unavailable", 1));
    world.available(1, true);
    world.submit(Ask::new("taint", 1).taint("gpu"));
    world.submit(Ask::new("allow", 1).allow(&[2, 3]));
    world.overload(1, true);
    world.submit(("overloaded", 1));
    world.submit(Ask::new("both", 1).taint("gpu"));
    world.remove(1);
    world.submit(("none", 1));
    world.expect(&[
        "failed unavailable no_eligible_worker",
        "failed taint no_eligible_worker",
        "failed allow no_eligible_worker",
        "failed overloaded all_eligible_overloaded",
        "failed both no_eligible_worker",
        "failed none no_workers",
    ]);
    let failed = world.class("a").counters.failed;
    assert_eq!(failed[..3], [1, 4, 1]);
}

#[test]
fn s8_overload_under_hold_is_no_reason() {
    let mut world = World::with_worker(&classes_and(&["a quantum: 1"], "overload_action: hold"));
    world.overload(1, true);
    world.submit(("x", 1));
    world.submit(Ask::new("y", 1).pin(1, 0));
    world.expect(&["queued x", "queued y 1.0"]);
}

#[test]
fn s8_each_outcome_is_counted_once_for_its_own_kind() {
    let mut world = World::new(&classes_and(
        &["a quantum: 1, request_queue_limit_per_worker: 2"],
        "max_attempts: 1",
    ));
    world.worker(1);
    world.submit(("goes", 1));
    world.submit(("hand off", 1));
    world.run();
    assert!(world.requeue("hand off"));
    world.shut(1, 0);
    world.submit(("cancelled", 1));
    world.submit(Ask::new("expired", 1).deadline_us(5));
    world.submit(("rejected", 1));
    assert!(world.cancel("cancelled"));
    world.advance_us(5);
    world.submit(Ask::new("late", 1).deadline_us(5));
    world.submit(Ask::new("pin", 1).pin(8, 8));
    world.submit(("stopped", 1));
    world.stop_us(0);
    world.take();
    let counters = world.class("a").counters;
    assert_eq!((counters.dispatched, counters.charged_tokens), (1, 1));
    assert_eq!(counters.rejected, [1, 0, 0, 0]);
    assert_eq!(
        (counters.expired, counters.cancelled, counters.shutting_down),
        (2, 1, 1)
    );
    assert_eq!(counters.failed.iter().sum::<u64>(), 2);
    assert_eq!((counters.failed[3], counters.failed[5]), (1, 1));
    assert!(world.complete("goes"));
    let state = world.state();
    assert_eq!((state.waiting, state.outstanding), (0, 0));
}

#[test]
fn s8_what_was_not_accepted_comes_back_whole_and_is_not_counted() {
    let capacities = tollgate_arbiter::Capacities {
        extension_blocks: 0,
        ..tollgate_arbiter::Capacities::default()
    };
    let mut world = World::sized(&classes(&["a quantum: 1"]), capacities);
    world.worker(1);
    let before = world.state();
    let full = world.try_submit(Ask::new("full", 1).allow(&[1]));
    assert!(matches!(full, Err(Refusal::Full(full)) if full.what == Resource::ExtensionBlocks));
    assert!(world.try_submit(too_many_hints("invalid")).is_err());
    assert!(
        world
            .try_submit(Ask::new("jump", 1).jump(f64::NAN))
            .is_err()
    );
    assert_eq!(world.state(), before);
    world.stop_us(0);
    assert_eq!(world.try_submit(("closed", 1)), Err(Refusal::Closed));
}

#[test]
fn s8_a_deadline_is_tested_with_the_classes_timeout() {
    let mut world = World::with_worker(&classes(&["a quantum: 1, queue_timeout_ms: 1"]));
    world.advance_us(1_000);
    world.submit(Ask::new("old", 1).arrival(tollgate_arbiter::Nanos(0)));
    world.submit(Ask::new("new", 1));
    world.expect(&["expired old", "queued new"]);
}
