//! S9.4: hand-offs that failed.

mod common;

use common::{Ask, Stage, World, classes, classes_and};

fn world() -> World {
    World::with_worker(&classes(&["a quantum: 10", "b quantum: 10"]))
}

fn tokens(world: &World, worker: u64) -> (u64, u64) {
    let endpoint = world.endpoint(worker, 0);
    (endpoint.prefill_tokens, endpoint.active)
}

// S9.4.

#[test]
fn s9_4_requeue_undoes_booking_charge_and_place() {
    let mut world = world();
    world.submit_many(3, ("x", 4));
    world.run();
    assert_eq!(tokens(&world, 1), (12, 3));
    world.load(1, 0, 0);
    world.shut(1, 0);
    world.submit_many(2, ("y", 4));
    world.take();
    assert!(world.requeue("x1"));
    world.expect(&["requeued x1"]);
    assert_eq!(tokens(&world, 1), (8, 2));
    let class = world.class("a");
    assert_eq!(
        (class.counters.dispatched, class.counters.charged_tokens),
        (2, 8)
    );
    assert_eq!(
        (class.waiting, class.raw_isl_tokens, class.outstanding),
        (3, 12, 2)
    );
    assert_eq!(class.counters.requeued, 1);
    assert_eq!(
        world.lane("a", None),
        ["x1", "y0", "y1"],
        "its original key"
    );
}

#[test]
fn s9_4_requeue_after_prefill_done_releases_the_rest() {
    let mut world = world();
    world.submit(("x", 4));
    world.run();
    assert!(world.prefill_done("x"));
    assert!(world.requeue("x"));
    assert_eq!(tokens(&world, 1), (0, 0));
    world.run();
    assert_eq!(tokens(&world, 1), (4, 1), "booked anew");
}

#[test]
fn s9_4_the_refund_is_the_cost_up_to_quantum_and_cost() {
    // Deficit 2 after x0 of 8; then the turn of a opens again for y of 15: 12.
    let mut world = world();
    world.submit(Ask::new("x", 8).of("a"));
    world.submit(Ask::new("y", 15).of("a"));
    world.submit_many(5, Ask::new("b", 10).of("b"));
    world.arbitrate(3);
    assert_eq!(world.order(), ["x", "b0", "b1"]);
    assert_eq!(world.deficit("a"), 12);
    assert!(world.requeue("x"));
    assert_eq!(world.deficit("a"), 18, "min(12 + 8, 10 + 8)");
}

#[test]
fn s9_4_the_refund_never_lowers_a_deficit() {
    let mut world = world();
    world.submit(Ask::new("x", 8).of("a"));
    world.submit(Ask::new("big", 1_000).of("a"));
    world.submit_many(60, Ask::new("b", 10).of("b"));
    world.arbitrate(31);
    assert_eq!(world.deficit("a"), 2 + 290);
    assert!(world.requeue("x"));
    assert_eq!(world.deficit("a"), 292);
}

#[test]
fn s9_4_a_requeue_ends_the_turn() {
    let mut world = world();
    world.submit_many(3, Ask::new("a", 3).of("a"));
    world.submit_many(3, Ask::new("b", 3).of("b"));
    assert!(world.select());
    assert_eq!(world.ring(), "a* b");
    assert!(world.requeue("a0"));
    assert_eq!(world.ring(), "b a");
    assert_eq!(world.deficit("a"), 10);
    world.take();
    world.run();
    assert_eq!(world.order(), ["b0", "b1", "b2", "a0", "a1", "a2"]);
}

#[test]
fn s9_4_a_requeue_into_an_empty_class_refunds_its_cost() {
    let mut world = world();
    world.submit(Ask::new("x", 3).of("a"));
    world.submit(Ask::new("y", 3).of("b"));
    assert!(world.select());
    assert_eq!((world.ring().as_str(), world.deficit("a")), ("b a", 0));
    assert!(world.requeue("x"));
    assert_eq!((world.ring().as_str(), world.deficit("a")), ("b a", 3));
}

#[test]
fn s9_4_at_max_attempts_it_fails_with_the_same_refund() {
    let mut world = World::with_worker(&classes_and(
        &["a quantum: 10", "b quantum: 10"],
        "max_attempts: 2",
    ));
    world.submit(Ask::new("x", 3).of("a"));
    world.submit_many(5, Ask::new("y", 3).of("a"));
    world.submit_many(3, Ask::new("b", 3).of("b"));
    assert!(world.select());
    assert!(world.requeue("x"));
    assert_eq!(world.arbitrate(7).dispatched, 7);
    assert_eq!(world.order().join(" "), "x b0 b1 b2 x y0 y1 y2");
    assert_eq!(
        (world.ring().as_str(), world.deficit("a")),
        ("a* b", 8),
        "10 + 10 - 4 x 3"
    );
    world.take();
    assert!(world.requeue("x"));
    world.expect(&["failed x hand_off"]);
    assert_eq!((world.ring().as_str(), world.deficit("a")), ("b a", 11));
    assert_eq!(world.class("a").counters.failed[3], 1);
    assert_eq!(tokens(&world, 1).1, 6);
    assert!(!world.complete_of("x", 2), "it is over");
}

#[test]
fn s9_4_a_hand_off_failure_that_leaves_the_class_empty_refunds_nothing() {
    let mut world = World::with_worker(&classes_and(
        &["a quantum: 10", "b quantum: 10"],
        "max_attempts: 1",
    ));
    world.submit(Ask::new("x", 3).of("a"));
    world.submit(Ask::new("b", 3).of("b"));
    assert!(world.select());
    assert!(world.requeue("x"));
    assert_eq!(world.deficit("a"), 0);
    assert_eq!(world.ring(), "b a");
    let counters = world.class("a").counters;
    assert_eq!((counters.dispatched, counters.charged_tokens), (0, 0));
}

#[test]
fn s9_4_failed_endpoints_are_avoided_while_another_may_take_it() {
    let mut world = World::new(&classes_and(
        &["a quantum: 10, prefill_busy_threshold: 100"],
        "max_attempts: 3",
    ));
    for id in 1..=3 {
        world.worker(id);
    }
    world.submit(("x", 4));
    world.run();
    assert_eq!(world.sent()[0].at, (1, 0));
    // Lower cost on worker 1 does not matter: it failed the request.
    world.load(2, 0, 50);
    world.load(3, 0, 60);
    assert!(world.requeue("x"));
    world.run();
    assert_eq!(world.sent()[0].at, (2, 0));
    assert!(world.requeue("x"));
    world.run();
    assert_eq!(world.sent()[0].at, (3, 0), "they add up");
}

#[test]
fn s9_4_where_only_avoided_endpoints_are_free_the_best_of_them_is_taken() {
    let mut world = World::new(&classes(&["a quantum: 10, prefill_busy_threshold: 100"]));
    world.worker(1);
    world.worker(2);
    world.submit(("x", 4));
    world.run();
    assert!(world.requeue("x"));
    world.load(2, 0, 101);
    world.run();
    assert_eq!(world.order(), ["x", "x"]);
    assert_eq!(tokens(&world, 1), (4, 1));
    assert!(world.requeue("x"));
    world.load(2, 0, 0);
    world.run();
    assert_eq!(
        world.sent().last().map(|sent| sent.at),
        Some((2, 0)),
        "named once, still avoided"
    );
}

#[test]
fn s9_4_an_avoided_endpoint_stays_avoided_if_it_leaves_and_returns() {
    let mut world = World::new(&classes(&["a quantum: 10"]));
    world.worker(1);
    world.worker(2);
    world.submit(("x", 4));
    world.run();
    assert_eq!(world.sent()[0].at, (1, 0));
    world.remove(1);
    assert!(world.requeue("x"), "valid also when its worker is gone");
    world.worker(1);
    world.load(2, 0, 1_000);
    world.run();
    assert_eq!(world.sent().last().map(|sent| sent.at), Some((2, 0)));
    // Another request is not concerned.
    world.submit(("y", 4));
    world.run();
    assert_eq!(world.sent()[0].at, (1, 0));
}

#[test]
fn s9_4_the_failed_dispatch_counts_as_last_use() {
    let mut world = World::new(&classes(&["a quantum: 10"]));
    world.worker(1);
    world.worker(2);
    world.submit(("x", 4));
    world.run();
    assert!(world.requeue("x"));
    assert!(world.cancel("x"));
    assert_eq!(world.endpoint(1, 0).last_use, 1);
    world.submit(("y", 4));
    world.run();
    assert_eq!(
        world.sent().last().map(|sent| sent.at),
        Some((2, 0)),
        "used longer ago"
    );
}

#[test]
fn s9_4_a_pinned_request_returns_to_its_exact_lane() {
    let mut world = world();
    world.worker(2);
    world.submit(Ask::new("x", 4).pin(2, 0));
    world.submit(Ask::new("y", 4).pin(2, 0));
    world.arbitrate(1);
    assert!(world.requeue("x"));
    assert_eq!(world.lane("a", Some((2, 0))), ["x", "y"]);
    world.run();
    assert_eq!(world.order(), ["x", "x", "y"]);
}

#[test]
fn s9_4_a_requeue_whose_pin_is_gone_fails_at_the_sweep() {
    let mut world = world();
    world.worker(2);
    world.submit(Ask::new("x", 4).pin(2, 0));
    world.run();
    world.remove(2);
    world.take();
    assert!(world.requeue("x"));
    world.run();
    world.expect(&["requeued x", "failed x pinned_worker_unknown"]);
}

#[test]
fn s9_4_limits_are_not_tested_at_requeue() {
    let mut world = World::with_worker(&classes(&[
        "a quantum: 10, request_queue_limit_per_worker: 1",
    ]));
    world.submit(("x", 4));
    world.run();
    world.shut(1, 0);
    world.submit(("y", 4));
    assert!(world.requeue("x"));
    assert_eq!(world.lane("a", None), ["x", "y"]);
}

#[test]
fn s9_4_a_deadline_that_passed_meanwhile_expires_the_requeued() {
    let mut world = world();
    world.submit(Ask::new("x", 4).deadline_us(10));
    world.run();
    world.advance_us(20);
    assert_eq!(
        world.stage("x"),
        Stage::Running,
        "a dispatched request does not expire"
    );
    world.take();
    assert!(world.requeue("x"));
    world.run();
    world.expect(&["requeued x", "expired x"]);
}

#[test]
fn s9_4_after_a_stop_a_requeue_is_answered_shutting_down() {
    for drain in [0, 1_000] {
        let mut world = world();
        world.submit(("x", 4));
        world.submit(("y", 4));
        world.arbitrate(1);
        world.stop_us(drain);
        let credit = world.deficit("a");
        world.take();
        assert!(world.requeue("x"));
        world.expect(&["shutting_down x"]);
        let refund = if drain == 0 { 0 } else { 4 };
        assert_eq!(world.deficit("a"), credit + refund, "drain {drain}");
        let counters = world.class("a").counters;
        assert_eq!((counters.dispatched, counters.charged_tokens), (0, 0));
        assert_eq!(tokens(&world, 1), (0, 0));
    }
}

#[test]
fn s9_4_requeue_of_the_latest_attempt_only_and_not_after_complete() {
    let mut world = world();
    world.submit(("x", 4));
    world.run();
    assert!(!world.requeue_of("x", 2));
    assert!(world.complete("x"));
    assert!(!world.requeue_of("x", 1));
    assert_eq!(world.state().stale_events, 2);
}

#[test]
fn s9_4_an_impatient_request_stays_impatient_when_requeued() {
    let mut world = world();
    world.submit(Ask::new("x", 4).impatient());
    world.run();
    world.shut(1, 0);
    world.take();
    assert!(world.requeue("x"));
    world.run();
    world.expect(&["requeued x", "rejected x may_wait 0/0"]);
}

#[test]
fn s9_4_numbers_of_endpoints_stay_taken_while_a_request_refers_to_them() {
    let mut world = World::new(&classes(&["a quantum: 10"]));
    world.worker(1);
    world.worker(2);
    assert_eq!(world.endpoint(1, 0).index.0, 0);
    assert_eq!(world.endpoint(2, 0).index.0, 1);
    world.submit(("x", 4));
    world.run();
    world.remove(1);
    world.worker(3);
    assert_eq!(world.endpoint(3, 0).index.0, 2, "0 is the dispatch's");
    assert!(world.requeue("x"));
    world.worker(4);
    assert_eq!(
        world.endpoint(4, 0).index.0,
        3,
        "0 is avoided by a live request"
    );
    world.worker(1);
    assert_eq!(world.endpoint(1, 0).index.0, 0, "it finds its number again");
    world.remove(1);
    assert!(world.cancel("x"));
    world.worker(5);
    assert_eq!(world.endpoint(5, 0).index.0, 0, "free again");
}
