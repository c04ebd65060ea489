//! S9.1 to S9.3: bookings, attempts, stale events.

mod common;

use common::{Ask, World, classes};
use tollgate_arbiter::{WorkerError, WorkerRecord};

fn world() -> World {
    World::with_worker(&classes(&["a quantum: 10", "b quantum: 10"]))
}

fn tokens(world: &World, worker: u64) -> (u64, u64) {
    let endpoint = world.endpoint(worker, 0);
    (endpoint.prefill_tokens, endpoint.active)
}

fn two_ranks(id: u64) -> WorkerRecord<'static> {
    WorkerRecord {
        ranks: 2,
        ..WorkerRecord::new(id)
    }
}

// S9.1.

#[test]
fn s9_1_a_dispatch_books_raw_less_cached_and_feedback_releases_it() {
    let mut world = world();
    world.submit(Ask::new("x", 100).cached(30));
    world.run();
    assert_eq!(tokens(&world, 1), (70, 1));
    assert!(world.prefill_done("x"));
    assert_eq!(tokens(&world, 1), (0, 1));
    assert!(world.complete("x"));
    assert_eq!(tokens(&world, 1), (0, 0));
}

#[test]
fn s9_1_complete_without_prefill_done_releases_both_once() {
    let mut world = world();
    world.submit_many(2, ("x", 100));
    world.run();
    assert_eq!(tokens(&world, 1), (200, 2));
    assert!(world.complete("x0"));
    assert_eq!(tokens(&world, 1), (100, 1));
    assert!(!world.complete_of("x0", 1), "stale");
    assert!(!world.prefill_done_of("x0", 1), "stale");
    assert_eq!(tokens(&world, 1), (100, 1));
    assert_eq!(world.state().stale_events, 2);
}

#[test]
fn s9_1_the_cache_of_the_chosen_endpoint_counts_not_the_best() {
    let mut world = World::new(&classes(&["a quantum: 10"]));
    world.worker(1);
    world.worker(2);
    world.submit(Ask::new("x", 100).hint(1, 0, 80));
    world.load(1, 0, 1_000);
    world.run();
    let sent = world.sent();
    assert_eq!(
        (sent[0].at, sent[0].cost),
        ((2, 0), 20),
        "charged by the snapshot"
    );
    assert_eq!(
        tokens(&world, 2),
        (100, 1),
        "booked by what it has to compute"
    );
}

#[test]
fn s9_1_a_fully_cached_request_costs_1_and_books_0() {
    let mut world = world();
    world.submit(Ask::new("x", 100).cached(4_000_000_000));
    world.run();
    assert_eq!(world.sent()[0].cost, 1);
    assert_eq!(tokens(&world, 1), (0, 1));
}

// S9.2.

#[test]
fn s9_2_load_is_booked_tokens_and_the_last_report() {
    let mut world = world();
    world.submit(("x", 100));
    world.run();
    assert!(world.load(1, 0, 1_000));
    assert_eq!(tokens(&world, 1).0, 1_100);
    assert!(world.load(1, 0, 7));
    let endpoint = world.endpoint(1, 0);
    assert_eq!(
        (
            endpoint.prefill_tokens,
            endpoint.booked_tokens,
            endpoint.reported_tokens
        ),
        (107, 100, 7)
    );
    assert!(world.prefill_done("x"));
    assert_eq!(tokens(&world, 1).0, 7);
}

#[test]
fn s9_2_the_sum_saturates_and_comes_back() {
    let mut world = world();
    assert!(world.load(1, 0, u64::MAX));
    world.submit(("x", 100));
    world.run();
    assert_eq!(tokens(&world, 1).0, u64::MAX);
    assert!(world.load(1, 0, 0));
    assert_eq!(tokens(&world, 1).0, 100);
    assert!(world.complete("x"));
    assert_eq!(tokens(&world, 1).0, 0);
}

// S9.3.

#[test]
fn s9_3_an_event_of_an_earlier_attempt_is_stale() {
    let mut world = world();
    world.submit(("x", 100));
    world.run();
    assert!(world.requeue("x"));
    world.run();
    assert_eq!(world.sent().last().map(|sent| sent.attempt), Some(2));
    assert!(!world.prefill_done_of("x", 1));
    assert!(!world.complete_of("x", 1));
    assert!(!world.requeue_of("x", 1));
    assert!(!world.complete_of("x", 0));
    assert!(!world.complete_of("x", 3));
    assert_eq!(tokens(&world, 1), (100, 1));
    assert_eq!(world.state().stale_events, 5);
    assert!(world.complete_of("x", 2));
}

#[test]
fn s9_3_events_of_a_waiting_request_are_stale() {
    let mut world = world();
    world.submit(("x", 100));
    for attempt in [0, 1] {
        assert!(!world.prefill_done_of("x", attempt));
        assert!(!world.complete_of("x", attempt));
        assert!(!world.requeue_of("x", attempt));
    }
    assert_eq!(world.state().stale_events, 6);
    world.run();
    assert!(
        !world.cancel("x"),
        "a dispatched request cannot be cancelled"
    );
    assert!(world.requeue("x"));
    assert!(!world.complete_of("x", 1), "it waits again");
    assert!(world.cancel("x"));
    assert_eq!(world.state().stale_events, 8);
}

#[test]
fn s9_3_a_repeated_prefill_done_of_a_live_booking_is_silent() {
    let mut world = world();
    world.submit(("x", 100));
    world.run();
    for _ in 0..3 {
        assert!(world.prefill_done("x"));
        assert_eq!(tokens(&world, 1), (0, 1));
    }
    assert_eq!(world.state().stale_events, 0);
}

#[test]
fn s9_3_a_slot_that_came_back_is_not_mistaken() {
    let mut world = world();
    world.submit(("old", 100));
    world.run();
    assert!(world.complete("old"));
    world.submit(("new", 50));
    assert_eq!(world.ticket("old").slot, world.ticket("new").slot);
    world.run();
    assert!(!world.prefill_done_of("old", 1));
    assert!(!world.complete_of("old", 1));
    assert!(!world.requeue_of("old", 1));
    assert!(!world.cancel("old"));
    assert_eq!(tokens(&world, 1), (50, 1));
    assert_eq!(world.state().stale_events, 4);
}

#[test]
fn s9_3_a_worker_that_came_back_is_not_mistaken() {
    let mut world = world();
    world.submit(("r1", 100));
    world.run();
    world.remove(1);
    world.worker(1);
    assert_eq!(tokens(&world, 1), (0, 0), "forgotten");
    world.submit(("r2", 200));
    world.run();
    assert!(!world.prefill_done("r1"), "stale");
    assert_eq!(tokens(&world, 1), (200, 1));
    assert!(world.complete("r1"), "silent");
    assert_eq!(tokens(&world, 1), (200, 1));
    assert!(world.complete("r2"));
    assert_eq!(tokens(&world, 1), (0, 0));
    assert_eq!(world.state().stale_events, 1);
}

#[test]
fn s9_3_one_complete_of_a_removed_workers_request_is_silent() {
    let mut world = world();
    world.submit_many(2, ("x", 100));
    world.run();
    world.remove(1);
    assert_eq!(world.state().outstanding, 2, "they stay the caller's");
    assert!(!world.prefill_done("x0"));
    assert!(world.complete("x0"));
    assert!(!world.complete_of("x0", 1));
    assert_eq!(world.state().outstanding, 1);
    assert!(world.complete("x1"));
    assert_eq!(world.state().stale_events, 2);
}

#[test]
fn s9_3_an_upsert_keeps_what_hangs_on_ranks_that_remain() {
    let mut world = World::new(&classes(&["a quantum: 10"]));
    world.upsert(&two_ranks(1)).expect("room");
    world.submit(Ask::new("x", 100).pin(1, 0));
    world.submit(Ask::new("y", 100).pin(1, 1));
    world.run();
    world.load(1, 1, 5);
    world.shut(1, 1);
    let last_use = world.endpoint(1, 1).last_use;
    world
        .upsert(&WorkerRecord {
            first_rank: 1,
            overloaded: true,
            ..two_ranks(1)
        })
        .expect("room");
    assert_eq!(world.state().endpoints.len(), 2);
    let kept = world.endpoint(1, 1);
    assert_eq!((kept.prefill_tokens, kept.active), (105, 1));
    assert!(kept.shut && kept.overloaded);
    assert_eq!(kept.last_use, last_use);
    let fresh = world.endpoint(1, 2);
    assert_eq!(
        (fresh.prefill_tokens, fresh.active, fresh.last_use),
        (0, 0, 0)
    );
    // Rank 0 went away as if removed.
    assert!(!world.prefill_done("x"));
    assert!(world.complete("x"));
    assert!(world.complete("y"));
    assert_eq!(world.endpoint(1, 1).prefill_tokens, 5);
}

#[test]
fn s9_3_a_rank_that_goes_and_returns_starts_afresh() {
    let mut world = World::new(&classes(&["a quantum: 10"]));
    world.upsert(&two_ranks(1)).expect("room");
    world.submit(Ask::new("x", 100).pin(1, 1));
    world.run();
    world.load(1, 1, 9);
    world.shut(1, 1);
    world.worker(1);
    world.upsert(&two_ranks(1)).expect("room");
    let back = world.endpoint(1, 1);
    assert_eq!(
        (back.prefill_tokens, back.active, back.last_use, back.shut),
        (0, 0, 0, false)
    );
    assert!(world.complete("x"));
    assert_eq!(world.endpoint(1, 1).active, 0);
}

#[test]
fn s9_3_an_upsert_replaces_the_whole_record() {
    let mut world = World::new(&classes(&["a quantum: 10"]));
    let record = WorkerRecord {
        taints: &["gpu"],
        overloaded: true,
        available: false,
        max_batched_tokens: Some(5),
        ..WorkerRecord::new(1)
    };
    world.upsert(&record).expect("room");
    world.worker(1);
    let endpoint = world.endpoint(1, 0);
    assert!(endpoint.available && !endpoint.overloaded);
    world.submit(Ask::new("x", 1).taint("gpu"));
    world.submit(("y", 1));
    world.expect(&["failed x no_eligible_worker", "queued y"]);
}

#[test]
fn s9_3_state_setting_events_are_stale_only_for_unknown_endpoints() {
    let mut world = world();
    for _ in 0..2 {
        assert!(world.load(1, 0, 0) && world.shut(1, 0));
        assert!(world.shut(1, 0) && world.open(1, 0) && world.open(1, 0));
    }
    assert_eq!(world.state().stale_events, 0);
    assert!(!world.load(1, 1, 5) && !world.load(2, 0, 5) && !world.shut(2, 0));
    assert!(!world.open(1, 9) && !world.remove(7));
    assert!(
        world
            .arbiter
            .set_overloaded(tollgate_arbiter::WorkerId(7), true)
            .is_err()
    );
    assert!(
        world
            .arbiter
            .set_available(tollgate_arbiter::WorkerId(7), true)
            .is_err()
    );
    assert!(
        world
            .arbiter
            .set_taints(tollgate_arbiter::WorkerId(7), &["x"])
            .expect("room")
            .is_err()
    );
    assert_eq!(world.state().stale_events, 8);
    // A departed endpoint that a live request still refers to is unknown as well.
    world.submit(("x", 5));
    world.run();
    world.remove(1);
    assert!(!world.load(1, 0, 5) && !world.shut(1, 0) && !world.open(1, 0));
    assert_eq!(world.state().stale_events, 11);
}

#[test]
fn s9_3_an_upsert_that_does_not_fit_changes_nothing() {
    let mut world = world();
    world.submit(Ask::new("x", 5).pin(1, 0));
    let before = world.state();
    let refused = world.upsert(&WorkerRecord {
        ranks: 4_000,
        ..WorkerRecord::new(1)
    });
    assert!(matches!(refused, Err(WorkerError::Full(_))));
    assert!(
        world
            .upsert(&WorkerRecord {
                ranks: 0,
                ..WorkerRecord::new(1)
            })
            .is_err()
    );
    assert_eq!(world.state(), before);
}
