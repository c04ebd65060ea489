//! Limits and busy signals: what may wait, and when.

use tollgate_arbiter::WorkerRecord;

use crate::common::{Ask, World, classes};

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
