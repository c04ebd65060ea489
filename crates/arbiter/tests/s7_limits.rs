//! S7: queue limits, selections at submission, requests that may not wait.

mod common;

use common::{Ask, Stage, World, classes, classes_and};

/// One worker, shut, under `line`.
fn blocked(line: &str) -> World {
    let mut world = World::with_worker(&classes(&[line]));
    world.shut(1, 0);
    world
}

// S7.1.

#[test]
fn s7_1_the_crossing_request_is_taken() {
    let mut world = blocked("a quantum: 1, raw_isl_token_queue_limit_per_worker: 100");
    world.submit(("x", 99));
    world.submit(("y", 1_000));
    world.submit(("z", 1));
    world.expect(&["queued x", "queued y", "rejected z raw_isl_tokens 1099/100"]);
}

#[test]
fn s7_1_a_limit_is_reached_at_its_value() {
    let mut world = blocked("a quantum: 1, request_queue_limit_per_worker: 2");
    world.submit_many(3, ("x", 1));
    world.expect(&["queued x0", "queued x1", "rejected x2 requests 2/2"]);
    assert!(world.cancel("x0"));
    world.take();
    world.submit(("y", 1));
    world.expect(&["queued y"]);
}

#[test]
fn s7_1_cached_tokens_are_counted_by_the_snapshot() {
    let mut world = blocked("a quantum: 1, cached_token_queue_limit_per_worker: 50");
    world.submit(Ask::new("x", 100).cached(49));
    world.submit(Ask::new("y", 10).cached(99));
    world.submit(Ask::new("z", 10));
    world.expect(&["queued x", "queued y", "rejected z cached_tokens 59/50"]);
    assert_eq!(world.class("a").cached_tokens, 59);
}

#[test]
fn s7_1_the_first_limit_in_order_answers() {
    let line = "a quantum: 1, request_queue_limit_per_worker: 2, \
                raw_isl_token_queue_limit_per_worker: 20, cached_token_queue_limit_per_worker: 4";
    let mut world = blocked(line);
    world.submit(Ask::new("x", 10).cached(5));
    world.submit(("cached", 1));
    assert!(world.cancel("x"));
    world.submit(Ask::new("y", 30).cached(5));
    world.submit(("raw", 1));
    world.submit(("raw too", 1));
    world.expect(&[
        "queued x",
        "rejected cached cached_tokens 5/4",
        "cancelled x",
        "queued y",
        "rejected raw raw_isl_tokens 30/20",
        "rejected raw too raw_isl_tokens 30/20",
    ]);
    let rejected = world.class("a").counters.rejected;
    assert_eq!(rejected, [0, 2, 1, 0]);
}

#[test]
fn s7_1_all_limits_exceeded_names_requests() {
    let line = "a quantum: 1, request_queue_limit_per_worker: 1, \
                raw_isl_token_queue_limit_per_worker: 1, cached_token_queue_limit_per_worker: 1";
    let mut world = blocked(line);
    world.submit(Ask::new("x", 10).cached(5));
    world.submit(("y", 1));
    world.expect(&["queued x", "rejected y requests 1/1"]);
    assert_eq!(world.class("a").counters.rejected, [1, 0, 0, 0]);
}

#[test]
fn s7_1_limits_are_per_worker_id_not_per_endpoint() {
    let mut world = World::new(&classes(&[
        "a quantum: 1, request_queue_limit_per_worker: 2",
    ]));
    for id in 1..=3 {
        let record = tollgate_arbiter::WorkerRecord {
            ranks: 5,
            ..tollgate_arbiter::WorkerRecord::new(id)
        };
        world.upsert(&record).expect("room");
        for rank in 0..5 {
            world.shut(id, rank);
        }
    }
    assert_eq!(world.class("a").limits, [Some(6), None, None]);
    world.submit_many(7, ("x", 1));
    assert_eq!(
        world.take().last().map(String::as_str),
        Some("rejected x6 requests 6/6")
    );
    // Unavailable and overloaded workers are known.
    world.available(1, false);
    assert_eq!(world.class("a").limits[0], Some(6));
}

#[test]
fn s7_1_effective_limits_saturate() {
    let line = "a quantum: 1, request_queue_limit_per_worker: 18446744073709551615, \
                raw_isl_token_queue_limit_per_worker: 9223372036854775808";
    let mut world = blocked(line);
    world.worker(2);
    world.shut(2, 0);
    assert_eq!(
        world.class("a").limits,
        [Some(u64::MAX), Some(u64::MAX), None]
    );
    world.submit_many(100, ("x", u32::MAX));
    assert_eq!(world.state().waiting, 100);
}

#[test]
fn s7_1_classes_do_not_share_limits() {
    let mut world = World::with_worker(&classes(&[
        "a quantum: 1, request_queue_limit_per_worker: 1",
        "b quantum: 1, request_queue_limit_per_worker: 1",
    ]));
    world.shut(1, 0);
    world.submit_many(2, Ask::new("a", 1).of("a"));
    world.submit_many(2, Ask::new("b", 1).of("b"));
    world.expect(&[
        "queued a0",
        "rejected a1 requests 1/1",
        "queued b0",
        "rejected b1 requests 1/1",
    ]);
}

#[test]
fn s7_1_an_idle_pool_refuses_nobody() {
    let mut world = World::with_worker(&classes(&[
        "a quantum: 1, request_queue_limit_per_worker: 1",
    ]));
    world.submit_many(500, ("x", 7));
    let told = world.take();
    assert!(
        told.iter().all(|event| !event.starts_with("rejected")),
        "{told:?}"
    );
    assert_eq!(
        &told[..3],
        ["queued x0", "x0 -> 1.0", "queued x1"],
        "their events come first"
    );
    assert_eq!(world.state().waiting, 1);
}

#[test]
fn s7_1_no_more_selections_than_the_limit_needs() {
    let mut world = World::with_worker(&classes(&[
        "a quantum: 100, request_queue_limit_per_worker: 3",
    ]));
    world.submit_many(3, ("x", 1));
    world.take();
    world.submit(("y", 1));
    world.expect(&["x0 -> 1.0", "queued y"]);
    assert_eq!(world.state().waiting, 3);
}

#[test]
fn s7_1_selections_at_submission_serve_all_classes_by_their_turns() {
    let mut world = World::with_worker(&classes(&[
        "a quantum: 10, request_queue_limit_per_worker: 1",
        "b quantum: 20",
    ]));
    world.submit(Ask::new("b0", 10).of("b"));
    world.submit(Ask::new("b1", 10).of("b"));
    world.submit(Ask::new("a0", 20).of("a"));
    world.take();
    // a cannot pay in its first turn: b is served on the way.
    world.submit(Ask::new("a1", 20).of("a"));
    world.expect(&["b0 -> 1.0", "b1 -> 1.0", "a0 -> 1.0", "queued a1"]);
}

#[test]
fn s7_1_a_selection_at_submission_sweeps() {
    let mut world = World::with_worker(&classes(&[
        "a quantum: 1, request_queue_limit_per_worker: 1",
    ]));
    world.worker(2);
    world.shut(1, 0);
    world.shut(2, 0);
    world.submit(Ask::new("x", 1).pin(2, 0));
    world.submit(Ask::new("y", 1).pin(2, 0));
    world.remove(2);
    world.take();
    // The limit is 1 now; x and y fail in the dry selection's sweep, and z has room.
    world.submit(("z", 1));
    world.expect(&[
        "failed x pinned_worker_unknown",
        "failed y pinned_worker_unknown",
        "queued z",
    ]);
}

#[test]
fn s7_1_the_answer_does_not_depend_on_turns_before() {
    // Submitting 20 and then a turn, or a turn after each: the same are refused.
    let line = "a quantum: 1, prefill_busy_threshold: 3, request_queue_limit_per_worker: 4";
    let refused = |turns: bool| {
        let mut world = World::with_worker(&classes(&[line]));
        let mut refused = Vec::new();
        for at in 0..20 {
            world.submit(Ask::new(&format!("x{at}"), 1));
            if turns {
                world.run();
            }
            refused.extend(
                world
                    .take()
                    .into_iter()
                    .filter(|event| event.starts_with("rejected")),
            );
        }
        refused
    };
    assert_eq!(refused(true), refused(false));
    assert_eq!(refused(true).len(), 12, "4 go, 4 wait");
}

// S7.2.

#[test]
fn s7_2_a_limit_of_0_queues_and_refuses_at_the_turns_end() {
    let mut world = blocked("a quantum: 1, request_queue_limit_per_worker: 0");
    world.submit_many(2, ("x", 5));
    world.expect(&["queued x0", "queued x1"]);
    assert!(!world.select(), "a selection is not a turn");
    assert_eq!(world.state().waiting, 2);
    world.run();
    world.expect(&["rejected x0 requests 0/0", "rejected x1 requests 0/0"]);
    assert_eq!(world.class("a").counters.rejected, [2, 0, 0, 0]);
}

#[test]
fn s7_2_a_limit_of_0_dispatches_where_the_pool_is_idle() {
    let mut world = World::with_worker(&classes(&[
        "a quantum: 1, request_queue_limit_per_worker: 0",
    ]));
    world.submit_many(50, ("x", 5));
    assert_eq!(world.run().dispatched, 50);
}

#[test]
fn s7_2_the_kind_is_the_first_limit_of_0() {
    for (keys, kind) in [
        (
            "request_queue_limit_per_worker: 5, raw_isl_token_queue_limit_per_worker: 0",
            "raw_isl_tokens",
        ),
        ("cached_token_queue_limit_per_worker: 0", "cached_tokens"),
        (
            "cached_token_queue_limit_per_worker: 0, raw_isl_token_queue_limit_per_worker: 0",
            "raw_isl_tokens",
        ),
        ("request_queue_limit_per_worker: 9", "may_wait"),
    ] {
        let mut world = blocked(&format!("a quantum: 1, {keys}"));
        world.submit(Ask::new("x", 5).impatient());
        world.take();
        world.run();
        world.expect(&[&format!("rejected x {kind} 0/0")]);
    }
}

#[test]
fn s7_2_whether_it_may_wait_is_fixed_at_submission() {
    let mut world = blocked("a quantum: 1, request_queue_limit_per_worker: 0");
    world.submit(("early", 5));
    world.reload(&classes(&["a quantum: 1"]));
    world.submit(("late", 5));
    world.take();
    world.run();
    world.expect(&["rejected early requests 0/0"]);
    assert_eq!(world.stage("late"), Stage::Waiting);
    world.reload(&classes(&[
        "a quantum: 1, request_queue_limit_per_worker: 0",
    ]));
    world.run();
    assert_eq!(world.stage("late"), Stage::Waiting);
}

#[test]
fn s7_2_zero_limits_do_not_refuse_at_submission_but_others_do() {
    let line =
        "a quantum: 1, request_queue_limit_per_worker: 0, raw_isl_token_queue_limit_per_worker: 7";
    let mut world = blocked(line);
    world.submit(("x", 7));
    world.submit(("y", 7));
    world.expect(&["queued x", "rejected y raw_isl_tokens 7/7"]);
}

#[test]
fn s7_2_a_dispatchable_head_stays_when_the_turn_is_cut_short() {
    let mut world = World::with_worker(&classes(&["a quantum: 100"]));
    for name in ["x", "y", "z"] {
        world.submit(Ask::new(name, 5).impatient());
    }
    world.take();
    world.arbitrate(1);
    world.expect(&["x -> 1.0", "rejected z may_wait 0/0"]);
    assert_eq!(world.stage("y"), Stage::Waiting);
    world.arbitrate(1);
    world.expect(&["y -> 1.0"]);
}

#[test]
fn s7_2_max_0_does_nothing() {
    let mut world = blocked("a quantum: 1");
    world.submit(Ask::new("x", 5).impatient());
    world.submit(Ask::new("y", 5));
    world.take();
    assert_eq!(world.arbitrate(0), tollgate_arbiter::TurnReport::default());
    world.expect(&[]);
    assert_eq!(world.state().waiting, 2);
}

#[test]
fn s7_2_all_are_judged_at_once() {
    // In the shut lane all are refused; the second does not become a head by the first's refusal.
    let mut world = World::with_worker(&classes(&["a quantum: 100"]));
    world.worker(2);
    world.shut(2, 0);
    for name in ["x", "y"] {
        world.submit(Ask::new(name, 5).impatient().pin(1, 0));
    }
    world.submit(Ask::new("head", 5).pin(2, 0));
    world.submit(Ask::new("w", 5).impatient().pin(2, 0));
    world.submit(Ask::new("first", 5).tier(1));
    world.take();
    world.arbitrate(1);
    // first went; x is an open head, y stands behind it, w behind a shut one.
    world.expect(&[
        "first -> 1.0",
        "rejected y may_wait 0/0",
        "rejected w may_wait 0/0",
    ]);
    assert_eq!(world.stage("x"), Stage::Waiting);
}

#[test]
fn s7_2_refusals_go_by_class_then_intake() {
    let mut world = World::with_worker(&classes(&["a quantum: 1", "b quantum: 1"]));
    world.shut(1, 0);
    world.submit(Ask::new("b0", 5).of("b").impatient());
    world.submit(Ask::new("a0", 5).of("a").impatient());
    world.submit(Ask::new("b1", 5).of("b").impatient().pin(1, 0));
    world.submit(Ask::new("a1", 5).of("a").impatient().tier(7));
    world.submit(Ask::new("a2", 5).of("a"));
    world.take();
    world.run();
    world.expect(
        &["a0", "a1", "b0", "b1"]
            .map(|name| format!("rejected {name} may_wait 0/0"))
            .each_ref()
            .map(String::as_str),
    );
    assert_eq!(world.state().waiting, 1);
}

#[test]
fn s7_2_it_passes_nobody() {
    let mut world = World::with_worker(&classes(&["a quantum: 100"]));
    world.shut(1, 0);
    world.submit(("waiting", 5));
    world.submit(Ask::new("impatient", 5).impatient());
    world.take();
    world.open(1, 0);
    world.run();
    world.expect(&["waiting -> 1.0", "impatient -> 1.0"]);
}

#[test]
fn s7_2_credit_is_cut_for_a_remembered_entry_that_is_refused() {
    let mut world = World::with_worker(&classes(&["a quantum: 10", "b quantum: 10"]));
    world.submit(Ask::new("big", 1_000).of("a").impatient());
    world.submit(Ask::new("small", 5).of("a"));
    world.submit_many(60, Ask::new("b", 10).of("b"));
    world.arbitrate(50);
    assert_eq!(
        world.deficit("a"),
        500,
        "an affordable head or not, it is dispatchable"
    );
    world.shut(1, 0);
    world.run();
    assert_eq!(world.stage("big"), Stage::Over);
    assert_eq!(world.deficit("a"), 10);
}

#[test]
fn s7_2_cancel_and_expiry_of_impatient_requests_leave_no_trace() {
    let mut world = blocked("a quantum: 1");
    for at in 0..6 {
        world.submit(
            Ask::new(&format!("x{at}"), 5)
                .impatient()
                .deadline_us(10 + at),
        );
    }
    assert!(world.cancel("x0") && world.cancel("x3") && world.cancel("x5"));
    world.advance_us(11);
    world.take();
    world.run();
    world.expect(&["rejected x2 may_wait 0/0", "rejected x4 may_wait 0/0"]);
}

// S7.3.

#[test]
fn s7_3_removing_workers_evicts_nothing() {
    let mut world = World::new(&classes(&[
        "a quantum: 1, request_queue_limit_per_worker: 10",
    ]));
    for id in 1..=18 {
        world.worker(id);
        world.shut(id, 0);
    }
    world.submit_many(150, ("x", 1));
    for id in 2..=18 {
        world.remove(id);
    }
    world.advance_us(1);
    assert_eq!(world.state().waiting, 150);
    assert_eq!(world.class("a").limits[0], Some(10));
    world.take();
    world.submit(("y", 1));
    world.expect(&["rejected y requests 150/10"]);
    for at in 0..141 {
        assert!(world.cancel(&format!("x{at}")));
    }
    world.take();
    world.submit(("z", 1));
    world.expect(&["queued z"]);
}

#[test]
fn s7_3_without_workers_the_answer_is_no_workers() {
    let mut world = World::new(&classes(&[
        "a quantum: 1, request_queue_limit_per_worker: 1",
    ]));
    world.submit_many(2, ("x", 1));
    world.expect(&["failed x0 no_workers", "failed x1 no_workers"]);
    assert_eq!(world.class("a").counters.rejected, [0; 4]);
}

#[test]
fn s7_1_limits_work_in_page_mode_too() {
    let mut world = World::with_worker(&classes_and(
        &["a quantum: 1, request_queue_limit_per_worker: 1"],
        "arbitration: page",
    ));
    world.submit_many(50, ("x", 100));
    assert!(
        world
            .take()
            .iter()
            .all(|event| !event.starts_with("rejected"))
    );
}
