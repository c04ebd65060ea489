//! S3.7, S8, S9, S11: reload, bookings, hand-overs, time, stop.

use std::num::NonZeroU8;

use tollgate_policy::{Arbitration, ClassPolicy, OrderPolicy, SelectorKind};

use super::{Run, class, count_of, page, profile, single};
use crate::protocol::{EndpointState, Phase};

fn endpoint(run: &Run, worker: u64) -> EndpointState {
    run.state()
        .workers
        .into_iter()
        .find(|it| it.id == worker)
        .unwrap()
}

#[test]
fn s9_1_bookings_are_released_once() {
    let mut run = Run::new(&profile(vec![class("a", 1_000)]));
    run.ops(&[
        r#"{"op":"worker","id":1}"#,
        r#"{"op":"submit","id":"x","isl":100,"cached":40}"#,
        r#"{"op":"submit","id":"y","isl":9}"#,
        r#"{"op":"arbitrate"}"#,
    ]);
    assert_eq!(
        (endpoint(&run, 1).prefill_tokens, endpoint(&run, 1).active),
        (69, 2)
    );
    run.ops(&[
        r#"{"op":"prefill_done","id":"x"}"#,
        r#"{"op":"prefill_done","id":"x"}"#,
    ]);
    assert_eq!(run.said(1), ["dry 0"], "a repeated prefill_done is silent");
    assert_eq!(
        (endpoint(&run, 1).prefill_tokens, endpoint(&run, 1).active),
        (9, 2)
    );
    run.ops(&[
        r#"{"op":"complete","id":"x"}"#,
        r#"{"op":"complete","id":"y"}"#,
        r#"{"op":"prefill_done","id":"x"}"#,
        r#"{"op":"complete","id":"x"}"#,
    ]);
    assert_eq!(run.said(2), ["stale prefill_done", "stale complete"]);
    assert_eq!(
        (endpoint(&run, 1).prefill_tokens, endpoint(&run, 1).active),
        (0, 0)
    );
    assert_eq!(run.state().stale, 2);
}

#[test]
fn s9_3_bookings_of_before_never_match_again() {
    let mut run = Run::new(&profile(vec![class("a", 1_000)]));
    run.ops(&[
        r#"{"op":"worker","id":1}"#,
        r#"{"op":"load","worker":[1,0],"tokens":7}"#,
        r#"{"op":"shut","worker":[1,0]}"#,
        r#"{"op":"open","worker":[1,0]}"#,
        r#"{"op":"submit","id":"x","isl":100}"#,
        r#"{"op":"arbitrate"}"#,
        r#"{"op":"remove_worker","id":1}"#,
        r#"{"op":"worker","id":1}"#,
    ]);
    let fresh = endpoint(&run, 1);
    assert_eq!(
        (fresh.prefill_tokens, fresh.active, fresh.last_use_place),
        (0, 0, 0)
    );
    run.ops(&[
        r#"{"op":"submit","id":"y","isl":200}"#,
        r#"{"op":"arbitrate"}"#,
    ]);
    run.op(r#"{"op":"prefill_done","id":"x"}"#);
    assert_eq!(run.said(1), ["stale prefill_done"]);
    assert!(
        run.op(r#"{"op":"complete","id":"x"}"#).is_empty(),
        "one complete is silent"
    );
    assert_eq!(endpoint(&run, 1).prefill_tokens, 200, "and frees nothing");
    run.op(r#"{"op":"complete","id":"x"}"#);
    assert_eq!(run.said(1), ["stale complete"]);
}

#[test]
fn s9_3_an_upsert_keeps_the_ranks_that_remain() {
    let mut run = Run::new(&profile(vec![class("a", 1_000)]));
    run.ops(&[
        r#"{"op":"worker","id":1,"ranks":2}"#,
        r#"{"op":"load","worker":[1,0],"tokens":5}"#,
        r#"{"op":"load","worker":[1,1],"tokens":6}"#,
        r#"{"op":"shut","worker":[1,1]}"#,
        r#"{"op":"submit","id":"gone","isl":1,"pin":[1,0]}"#,
        r#"{"op":"worker","id":1,"first_rank":1,"ranks":2,"taints":["t"]}"#,
    ]);
    let ranks: Vec<_> = run
        .state()
        .workers
        .iter()
        .map(|it| (it.rank, it.prefill_tokens, it.shut, it.number))
        .collect();
    // Number 0 stays with the rank that `gone` is pinned to.
    assert_eq!(ranks, [(1, 6, true, 1), (2, 0, false, 2)]);
    run.ops(&[
        r#"{"op":"load","worker":[1,0],"tokens":1}"#,
        r#"{"op":"advance","us":0}"#,
    ]);
    assert_eq!(
        run.said(2),
        ["stale load", "failed gone PinnedRankOutOfRange"]
    );
}

#[test]
fn s9_4_a_failed_hand_over_gives_back_what_it_took() {
    let mut run = Run::new(&profile(vec![single("a", 100), single("b", 100)]));
    run.ops(&[
        r#"{"op":"worker","id":1}"#,
        r#"{"op":"submit","id":"a0","family":"a","isl":80}"#,
        r#"{"op":"submit","id":"a1","family":"a","isl":80}"#,
        r#"{"op":"submit","id":"b0","family":"b","isl":80}"#,
        r#"{"op":"arbitrate","max":1}"#,
        r#"{"op":"prefill_done","id":"a0"}"#,
        r#"{"op":"requeue","id":"a0"}"#,
    ]);
    let a = run.class("a");
    assert_eq!(
        (a.deficit, a.dispatched, a.charged_tokens, a.in_flight),
        (100, 0, 0, 0)
    );
    assert_eq!(a.lanes[0].waiting, ["a0", "a1"], "in its old place");
    assert_eq!(run.state().ring.unwrap(), ["b", "a"]);
    assert_eq!(
        endpoint(&run, 1).last_use_place,
        1,
        "the failed dispatch was a use"
    );
}

#[test]
fn s9_4_the_refund_is_worth_one_turn_and_the_request_at_most() {
    let mut run = Run::new(&profile(vec![class("a", 100), class("b", 1_000)]));
    run.ops(&[
        r#"{"op":"worker","id":1}"#,
        r#"{"op":"submit","id":"a0","family":"a","isl":10}"#,
        r#"{"op":"submit","id":"a1","family":"a","isl":10}"#,
        r#"{"op":"submit","id":"a2","family":"a","isl":10}"#,
        r#"{"op":"arbitrate","max":2}"#,
    ]);
    assert_eq!(run.class("a").deficit, 80);
    run.op(r#"{"op":"requeue","id":"a0"}"#);
    assert_eq!(run.class("a").deficit, 90);
    run.op(r#"{"op":"requeue","id":"a1"}"#);
    assert_eq!(run.class("a").deficit, 100);
    assert_eq!(
        run.turn(1)[0],
        ("a0".to_owned(), 190),
        "a new turn, a new quantum"
    );
    run.op(r#"{"op":"requeue","id":"a0"}"#);
    assert_eq!(
        run.class("a").deficit,
        190,
        "never less than before, here the cap is 110"
    );
}

#[test]
fn s9_4_attempts_end_and_endpoints_are_avoided() {
    let limited = profile(vec![class("a", 100)]).with_max_attempts(NonZeroU8::new(2).unwrap());
    let mut run = Run::new(&limited);
    run.ops(&[
        r#"{"op":"worker","id":1}"#,
        r#"{"op":"worker","id":2}"#,
        r#"{"op":"load","worker":[2,0],"tokens":1000}"#,
        r#"{"op":"submit","id":"x","isl":5}"#,
        r#"{"op":"arbitrate"}"#,
        r#"{"op":"requeue","id":"x"}"#,
        r#"{"op":"remove_worker","id":1}"#,
        r#"{"op":"worker","id":1}"#,
        r#"{"op":"arbitrate"}"#,
    ]);
    assert_eq!(
        run.said(2),
        ["dispatched x 2/0 2", "dry 0"],
        "1 is avoided though it came back"
    );
    run.op(r#"{"op":"requeue","id":"x","attempt":1}"#);
    assert_eq!(run.said(1), ["stale requeue"]);
    run.ops(&[
        r#"{"op":"remove_worker","id":2}"#,
        r#"{"op":"requeue","id":"x","attempt":2}"#,
    ]);
    assert_eq!(
        run.said(1),
        ["failed x HandOff"],
        "valid though the worker is gone"
    );
    assert_eq!(
        (run.class("a").dispatched, run.class("a").outcomes.failed),
        (0, 1)
    );
}

#[test]
fn s11_1_time_saturates() {
    let mut run = Run::new(&profile(vec![single("a", 100)]));
    run.ops(&[
        r#"{"op":"worker","id":1}"#,
        r#"{"op":"shut","worker":[1,0]}"#,
        r#"{"op":"submit","id":"x","isl":5,"deadline_us":18446744073709551615}"#,
        r#"{"op":"advance","us":18446744073709551615}"#,
    ]);
    assert_eq!(
        run.said(1),
        ["expired x"],
        "a deadline beyond the end of time is the end of time"
    );
    assert_eq!(run.state().now_us, u64::MAX / 1_000);
}

#[test]
fn s11_1_a_requeued_request_may_be_overdue() {
    let mut run = Run::new(&profile(vec![class("a", 100)]));
    run.ops(&[
        r#"{"op":"worker","id":1}"#,
        r#"{"op":"submit","id":"x","isl":5,"deadline_us":10}"#,
        r#"{"op":"arbitrate"}"#,
        r#"{"op":"advance","us":10}"#,
        r#"{"op":"requeue","id":"x"}"#,
    ]);
    assert_eq!(run.state().waiting, 1);
    run.op(r#"{"op":"arbitrate"}"#);
    assert_eq!(run.said(3), ["requeued x", "expired x", "dry 0"]);
}

#[test]
fn s11_3_a_later_stop_only_shortens() {
    let mut run = Run::new(&profile(vec![single("a", 100)]));
    run.ops(&[
        r#"{"op":"worker","id":1}"#,
        r#"{"op":"submit","id":"x","isl":5}"#,
        r#"{"op":"submit","id":"y","isl":5}"#,
        r#"{"op":"submit","id":"z","isl":5,"strict_priority":1}"#,
        r#"{"op":"arbitrate"}"#,
        r#"{"op":"stop","drain_us":50}"#,
        r#"{"op":"stop","drain_us":90}"#,
    ]);
    assert_eq!(run.state().drain_until_us, Some(50));
    run.op(r#"{"op":"requeue","id":"z"}"#);
    assert_eq!(run.said(1), ["shutting_down z"]);
    run.op(r#"{"op":"stop","drain_us":20}"#);
    assert_eq!(
        (run.state().phase, run.state().drain_until_us),
        (Phase::Draining, Some(20))
    );
    run.ops(&[
        r#"{"op":"advance","us":19}"#,
        r#"{"op":"submit","id":"w","isl":5}"#,
    ]);
    assert_eq!(run.said(1), ["closed w"]);
    run.op(r#"{"op":"advance","us":1}"#);
    assert_eq!(run.said(2), ["shutting_down x", "shutting_down y"]);
    assert_eq!(
        (run.state().phase, run.state().drain_until_us),
        (Phase::Closed, None)
    );
    assert!(run.op(r#"{"op":"stop"}"#).is_empty());
}

#[test]
fn s11_3_a_stop_without_drain_answers_at_once() {
    let mut run = Run::new(&profile(vec![single("a", 100)]));
    run.ops(&[
        r#"{"op":"worker","id":1}"#,
        r#"{"op":"worker","id":2}"#,
        r#"{"op":"submit","id":"p","isl":5,"pin":[2,0]}"#,
        r#"{"op":"submit","id":"x","isl":5}"#,
        r#"{"op":"remove_worker","id":2}"#,
        r#"{"op":"stop"}"#,
    ]);
    assert_eq!(
        run.said(2),
        ["failed p PinnedWorkerUnknown", "shutting_down x"],
        "swept first"
    );
    assert_eq!(run.state().phase, Phase::Closed);
}

#[test]
fn s3_7_classes_match_by_name() {
    let before = profile(vec![class("a", 100), class("b", 100), class("c", 100)]);
    let mut run = Run::new(&before);
    run.op(r#"{"op":"worker","id":1}"#);
    for name in ["a", "b", "c"] {
        run.submit_many(name, 3, 10);
    }
    run.turn(1);
    assert_eq!(run.class("a").deficit, 90);
    run.reload(&profile(vec![
        class("d", 7),
        class("c", 50),
        class("a", 20),
    ]));
    assert_eq!(run.said(1), ["reloaded 1"]);
    let state = run.state();
    let names: Vec<_> = state
        .classes
        .iter()
        .map(|it| (&*it.name, it.vanished))
        .collect();
    assert_eq!(
        names,
        [("a", false), ("b", true), ("c", false), ("d", false)]
    );
    assert_eq!(state.ring.unwrap(), ["a", "b", "c", "d"]);
    assert_eq!(state.open_turns.unwrap(), ["a"]);
    assert_eq!(
        run.class("a").deficit,
        30,
        "the new quantum and its dearest head"
    );
    assert_eq!(
        run.class("b").quantum,
        100,
        "a vanished class keeps its settings"
    );

    run.op(r#"{"op":"submit","id":"x","family":"b","isl":10}"#);
    assert_eq!(run.said(1), ["queued x d 10"], "and takes no new requests");
    let ids = run.turn_ids(99);
    assert_eq!(count_of(&ids, "b"), 3);
    assert_eq!(run.class("b").in_flight, 3);
    run.ops(&[
        r#"{"op":"complete","id":"b0"}"#,
        r#"{"op":"complete","id":"b1"}"#,
        r#"{"op":"requeue","id":"b2"}"#,
    ]);
    assert_eq!(run.class("b").waiting, 1);
    run.op(r#"{"op":"cancel","id":"b2"}"#);
    assert!(
        run.state().classes.iter().all(|it| it.name != "b"),
        "now nothing is left of it"
    );
    assert_eq!(run.state().ring.unwrap().len(), 3);
}

#[test]
fn s3_7_a_class_that_comes_back_in_time_is_the_same() {
    let both = profile(vec![class("a", 100), class("b", 100)]);
    let mut run = Run::new(&both);
    run.op(r#"{"op":"worker","id":1}"#);
    run.submit_many("b", 2, 10);
    run.turn(1);
    run.reload(&profile(vec![class("a", 100)]));
    run.reload(&both);
    let b = run.class("b");
    assert_eq!(
        (b.vanished, b.dispatched, b.waiting, b.deficit),
        (false, 1, 1, 90)
    );
}

#[test]
fn s3_7_older_entries_go_first_after_a_change_of_order() {
    let with = |order| {
        profile(vec![ClassPolicy {
            order,
            ..single("a", 1_000)
        }])
    };
    let mut run = Run::new(&with(OrderPolicy::Fcfs));
    run.ops(&[
        r#"{"op":"worker","id":1}"#,
        r#"{"op":"shut","worker":[1,0]}"#,
        r#"{"op":"submit","id":"old9","isl":9}"#,
        r#"{"op":"submit","id":"old1","isl":1}"#,
    ]);
    run.reload(&with(OrderPolicy::Wspt));
    run.ops(&[
        r#"{"op":"submit","id":"new9","isl":9}"#,
        r#"{"op":"submit","id":"new1","isl":1}"#,
        r#"{"op":"submit","id":"tier","isl":99,"strict_priority":1}"#,
    ]);
    assert_eq!(
        run.class("a").lanes[0].waiting,
        ["tier", "old9", "old1", "new1", "new9"]
    );
    run.reload(&with(OrderPolicy::Wspt).with_selector(SelectorKind::RoundRobin));
    run.op(r#"{"op":"submit","id":"newest1","isl":1}"#);
    let waiting = ["tier", "old9", "old1", "new1", "newest1", "new9"];
    assert_eq!(
        run.class("a").lanes[0].waiting,
        waiting,
        "the order did not change again"
    );
}

#[test]
fn s3_7_another_arbitration_starts_with_nobody_in_turn() {
    let classes = || vec![class("a", 100), class("b", 100)];
    let mut run = Run::new(&profile(classes()));
    run.op(r#"{"op":"worker","id":1}"#);
    run.submit_many("a", 3, 10);
    run.submit_many("b", 3, 100);
    assert_eq!(run.turn(2)[1], ("a1".to_owned(), 80));
    run.reload(&page(classes()));
    let state = run.state();
    assert_eq!((state.cursor.as_deref(), state.holder), (Some("a"), None));
    assert_eq!(run.class("a").deficit, 80);
    assert_eq!(run.turn_ids(1), ["a2"], "credit is credit in either mode");
    assert_eq!(run.state().cursor.as_deref(), Some("b"));
    run.reload(&profile(classes()).with_arbitration(Arbitration::Exact));
    assert_eq!(run.state().ring.unwrap(), ["a", "b"]);
    assert!(run.state().open_turns.unwrap().is_empty());
}

#[test]
fn s3_7_the_cursor_moves_on_when_its_class_goes() {
    let next = || class("next", 100);
    let mut run = Run::new(&page(vec![class("a", 100), class("b", 100), next()]));
    run.op(r#"{"op":"worker","id":1}"#);
    run.submit_many("a", 2, 10);
    run.turn(1);
    assert_eq!(run.state().cursor.as_deref(), Some("b"));
    run.reload(&page(vec![class("a", 100), class("c", 100), next()]));
    assert_eq!(run.state().cursor.as_deref(), Some("next"));
}

#[test]
fn s8_the_order_of_the_tests_at_submission() {
    let impossible = ClassPolicy {
        queue_timeout_ms: Some(0),
        ..class("late", 10)
    };
    let mut run = Run::new(&profile(vec![class("a", 10), impossible]));
    run.op(r#"{"op":"submit","id":"1","family":"late","isl":1,"pin":[1,0]}"#);
    run.op(r#"{"op":"submit","id":"2","isl":1,"pin":[1,0]}"#);
    run.op(r#"{"op":"worker","id":7}"#);
    run.op(r#"{"op":"submit","id":"3","isl":1,"pin":[1,0]}"#);
    run.ops(&[
        r#"{"op":"stop"}"#,
        r#"{"op":"submit","id":"4","family":"late","isl":1}"#,
    ]);
    assert_eq!(
        run.said(4),
        [
            "expired 1",
            "failed 2 NoWorkers",
            "failed 3 PinnedWorkerUnknown",
            "closed 4"
        ]
    );
}
