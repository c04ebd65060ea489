//! The core turned by hand: what one turn does, in which order, and how much of it; and that no shard
//! holds up another.

use crate::common::draw::Draw;
use crate::common::{FIRST, Hand, SECOND, classes, of, one_at_a_time, open, pinned};
use tollgate::{Command, Engine, ModelIndex, Nanos, Request, Worker, WorkerId};

#[test]
fn a_lone_request_goes_out_in_the_turn_after_its_submit() {
    let mut hand = Hand::with_workers(open(), [7], |builder| builder);
    assert!(hand.turn().is_idle());
    hand.submit(Request::new(512, 1));
    let report = hand.turn();
    assert_eq!((report.intake, report.dispatched), (1, 1));
    let dispatch = hand.dispatch(0);
    assert_eq!(
        (dispatch.endpoint.worker, dispatch.attempt),
        (WorkerId(7), 1)
    );
    assert_eq!(dispatch.snapshot.cost(), 512);
    assert!(hand.turn().is_idle());
}

#[test]
fn a_request_keeps_the_times_of_its_submission_and_dispatch() {
    let mut hand = Hand::with_workers(one_at_a_time(), [1], |builder| builder);
    hand.advance(5);
    hand.submit(Request::new(1, 1));
    hand.turn();
    let first = hand.dispatch(0);
    hand.advance(5);
    hand.submit(Request::new(1, 2));
    hand.turn();
    hand.advance(20);
    hand.egress[0].complete(first.receipt());
    hand.turn();
    let second = hand.dispatch(0);
    let times = [&first, &second].map(|d| (d.submitted_at.0, d.dispatched_at.0));
    assert_eq!(times, [(5_000, 5_000), (10_000, 30_000)]);
}

#[test]
fn a_completion_lets_a_waiting_head_go_in_the_same_turn() {
    let mut hand = Hand::with_workers(one_at_a_time(), [1], |builder| builder);
    hand.submit(Request::new(1, 1));
    hand.submit(Request::new(1, 2));
    hand.turn();
    let first = hand.dispatch(0);
    for release in [false, true] {
        if release {
            hand.egress[0].complete(first.receipt());
        }
        let report = hand.turn();
        assert_eq!(report.dispatched, u64::from(release));
    }
    assert_eq!(hand.told(0), ["2 -> 1.0"]);
}

#[test]
fn feedback_is_taken_before_submissions_of_the_same_turn() {
    let profile =
        classes(&["a quantum: 10, prefill_busy_threshold: 0, request_queue_limit_per_worker: 1"]);
    let mut hand = Hand::with_workers(profile, [1], |builder| builder);
    hand.submit(Request::new(1, 1));
    hand.submit(Request::new(1, 2));
    hand.turn();
    let first = hand.dispatch(0);
    // The third finds the limit reached, unless the completion has let the second go.
    hand.submit(Request::new(1, 3));
    hand.egress[0].complete(first.receipt());
    hand.turn();
    assert_eq!(hand.told(0), ["2 -> 1.0"]);
    assert_eq!(hand.state().waiting, 1);
}

#[test]
fn a_cancel_and_a_freed_worker_of_one_batch_come_out_alike_in_both_orders() {
    for cancel_first in [true, false] {
        let mut hand = Hand::with_workers(one_at_a_time(), [1], |builder| builder);
        hand.submit(Request::new(1, 0));
        hand.turn();
        let running = hand.dispatch(0);
        let cancelled = hand.submit(Request::new(1, 1));
        hand.submit(Request::new(1, 2));
        hand.turn();
        if cancel_first {
            hand.ingress[0].cancel(cancelled);
        }
        hand.egress[0].complete(running.receipt());
        if !cancel_first {
            hand.ingress[0].cancel(cancelled);
        }
        let report = hand.turn();
        assert_eq!(
            report.dispatched, 1,
            "the freed worker is used in the same turn"
        );
        assert_eq!(hand.told(0), ["1 cancelled", "2 -> 1.0"]);
        let class = &hand.state().classes[0];
        assert_eq!((class.counters.charged_tokens, class.waiting), (2, 0));
        assert_eq!(hand.stale(), 0);
    }
}

#[test]
fn a_turn_takes_a_bounded_number_of_everything() {
    let mut hand = Hand::with_workers(open(), [1], |builder| builder);
    for number in 0..200 {
        hand.submit(Request::new(1, number));
    }
    let turns: Vec<_> = (0..5).map(|_| hand.turn()).collect();
    let counts = |of: fn(&tollgate::TurnReport) -> u64| turns.iter().map(of).collect::<Vec<_>>();
    assert_eq!(counts(|turn| turn.intake), [64, 64, 64, 8, 0]);
    assert_eq!(counts(|turn| turn.dispatched), [64, 64, 64, 8, 0]);
    let dispatches = hand.dispatches(0);
    assert_eq!(dispatches.len(), 200);
    for dispatch in &dispatches {
        hand.egress[0].prefill_done(dispatch.receipt());
    }
    assert_eq!([hand.turn().feedback, hand.turn().feedback], [128, 72]);
    for dispatch in &dispatches {
        hand.releases.complete(dispatch.receipt());
    }
    let letters: Vec<_> = (0..5).map(|_| hand.turn().letters).collect();
    assert_eq!(letters, [64, 64, 64, 8, 0]);
    let state = hand.state();
    assert_eq!((state.outstanding, state.stale_events), (0, 0));
}

#[test]
fn s5_4_the_lane_of_a_removed_worker_fails_in_the_next_turn() {
    let mut hand = Hand::with_workers(one_at_a_time(), [1, 2], |builder| builder);
    hand.set_load(1, 9);
    for number in 0..150 {
        hand.submit(pinned(1, number));
    }
    hand.settle();
    hand.remove(1);
    hand.turn();
    let failed = |number| format!("{number} failed pinned_worker_unknown");
    assert_eq!(hand.told(0), (0..150).map(failed).collect::<Vec<_>>());
    let class = &hand.state().classes[0];
    assert_eq!((class.waiting, class.deficit), (0, 0));
    assert!(hand.turn().is_idle());
}

#[test]
fn sweeps_are_cut_into_slices() {
    let mut hand = Hand::with_workers(one_at_a_time(), [1], |builder| builder);
    hand.set_load(1, 9);
    for number in 0..700 {
        let deadline = Some(Nanos(500));
        hand.submit(Request {
            deadline,
            ..Request::new(1, number)
        });
    }
    hand.settle();
    hand.advance(1);
    let turns = [hand.turn(), hand.turn(), hand.turn(), hand.turn()];
    assert_eq!(turns.map(|turn| turn.more), [true, true, false, false]);
    let told = hand.told(0);
    let expected: Vec<String> = (0..700).map(|number| format!("{number} expired")).collect();
    assert_eq!(told, expected);
}

#[test]
fn a_shard_that_never_submits_holds_up_nobody() {
    let mut hand = Hand::with_workers(open(), [1], |builder| builder.ingress_shards(4));
    for number in 0..300 {
        hand.submit_to(1 + number % 3, Request::new(1, number));
        hand.advance(1);
    }
    hand.settle();
    let numbers: Vec<_> = hand.dispatches(0).iter().map(|d| d.payload).collect();
    assert_eq!(numbers, (0..300).collect::<Vec<_>>());
}

#[test]
fn what_several_shards_submit_is_taken_in_by_time_stamp() {
    let policy = "a quantum: 10, queue_policy: wspt, prefill_busy_threshold: 0";
    for seed in 0..20 {
        let mut draw = Draw(seed);
        let shards = |builder: tollgate::Builder| builder.ingress_shards(3);
        let mut hand = Hand::with_workers(classes(&[policy]), [1], shards);
        hand.set_load(1, 9);
        let mut submitted = Vec::new();
        for number in 0..300_u64 {
            let shard = draw.place(3);
            submitted.push((hand.now(), shard, number));
            hand.submit_to(shard, Request::new(1, number));
            hand.advance(draw.below(2));
        }
        hand.settle();
        // Equal keys: they leave in the order of intake.
        hand.set_load(1, 0);
        let mut taken = Vec::new();
        while taken.len() < submitted.len() {
            hand.turn();
            let dispatch = hand.dispatch(0);
            let place = usize::try_from(dispatch.payload).expect("small");
            taken.push(submitted[place]);
            hand.egress[0].complete(dispatch.receipt());
        }
        assert!(taken.is_sorted_by_key(|&(stamp, ..)| stamp), "{taken:?}");
        for shard in 0..3 {
            let mine = taken.iter().filter(|&&(_, from, _)| from == shard);
            assert!(mine.is_sorted_by_key(|&(.., number)| number));
        }
    }
}

#[test]
fn s7_2_who_may_not_wait_is_judged_at_the_end_of_the_turn() {
    let mut hand = Hand::with_workers(one_at_a_time(), [1], |builder| builder);
    let hasty = |number| Request {
        may_wait: false,
        ..Request::new(1, number)
    };
    hand.submit(hasty(1));
    hand.submit(hasty(2));
    hand.turn();
    assert_eq!(hand.told(0), ["1 -> 1.0", "2 rejected may_wait"]);
    // Nobody is refused who goes out in the turn after those before it.
    let mut hand = Hand::with_workers(open(), [1], |builder| builder);
    for number in 0..60 {
        hand.submit(Request::new(1, number));
    }
    for number in 60..70 {
        hand.submit(hasty(number));
    }
    hand.settle();
    assert_eq!(hand.dispatches(0).len(), 70);
}

#[test]
fn s7_2_the_bound_of_a_turn_lets_only_the_head_wait() {
    // A turn dispatches 64. Of two that may not wait, the head is next and stays; the other is none.
    let profile = classes(&["a quantum: 1000, prefill_busy_threshold: 5"]);
    let mut hand = Hand::with_workers(profile, [1], |builder| builder);
    hand.set_load(1, 9);
    for number in 0..64 {
        hand.submit(Request::new(0, number));
    }
    hand.settle();
    hand.set_load(1, 0);
    let hasty = |number| Request {
        may_wait: false,
        ..Request::new(0, number)
    };
    hand.submit(hasty(64));
    hand.submit(hasty(65));
    let report = hand.turn();
    assert_eq!((report.dispatched, report.more), (64, true));
    let told = hand.told(0);
    assert_eq!(told[64..], ["65 rejected may_wait"]);
    hand.turn();
    assert_eq!(hand.told(0), ["64 -> 1.0"]);
}

#[test]
fn s11_1_a_deadline_passes_in_the_ring_as_anywhere() {
    let mut hand = Hand::with_workers(open(), [1], |builder| builder);
    let until = |micros, number| Request {
        deadline: Some(Nanos::from_micros(micros)),
        ..Request::new(1, number)
    };
    hand.submit(until(1_000, 1));
    hand.submit(until(1_001, 2));
    hand.advance(1_000);
    hand.turn();
    assert_eq!(hand.told(0), ["1 expired", "2 -> 1.0"]);
}

#[test]
fn s11_1_a_queue_timeout_counts_from_submission_and_ends_once() {
    let profile = classes(&["a quantum: 10, prefill_busy_threshold: 0, queue_timeout_ms: 100"]);
    let mut hand = Hand::with_workers(profile, [1], |builder| builder);
    hand.set_load(1, 9);
    hand.submit(Request::new(1, 1));
    // 40 ms in the ring, then a look every 10 ms.
    hand.advance(40_000);
    let mut expired_at = Vec::new();
    while hand.now() < Nanos::from_millis(200) {
        hand.turn();
        expired_at.extend(
            hand.told(0)
                .into_iter()
                .map(|told| (hand.now().as_micros(), told)),
        );
        hand.advance(10_000);
    }
    assert_eq!(expired_at, [(100_000, "1 expired".to_owned())]);
    hand.set_load(1, 0);
    hand.settle();
    assert_eq!(hand.told(0).len(), 0);
}

#[test]
fn two_models_share_nothing_but_the_core() {
    let builder = Engine::builder(classes(&["a quantum: 10, prefill_busy_threshold: 0"]))
        .worker(Worker::new(1))
        .model("other", classes(&["b quantum: 10", "c quantum: 20"]))
        .worker(Worker::new(1))
        .worker(Worker::new(2))
        .slots(2);
    let mut hand = Hand::new(builder);
    fn to(model: ModelIndex, family: &str, number: u64) -> Request<'_, u64> {
        Request {
            model,
            ..of(family, number)
        }
    }
    for number in 0..2 {
        hand.submit(to(FIRST, "a", number));
        hand.submit(to(SECOND, "c", 10 + number));
    }
    // Each model has slots of its own.
    for model in [FIRST, SECOND] {
        let refused = hand.ingress[0]
            .try_submit(to(model, "a", 99))
            .expect_err("no slot is left");
        assert_eq!(refused.reason.to_string(), "full: no room in slots");
    }
    hand.turn();
    // The first model's worker is busy with one request; the second model's are others.
    assert_eq!(hand.told(0), ["0 -> 1.0", "10 -> 1.0", "11 -> 2.0"]);
    let (first, second) = (hand.state_of(FIRST), hand.state_of(SECOND));
    assert_eq!((first.waiting, second.waiting), (1, 0));
    assert_eq!(first.classes.len(), 1);
    assert_eq!(second.classes[1].counters.dispatched, 2);
    assert_eq!(hand.handles.model("default"), Some(FIRST));
    assert_eq!(hand.handles.model("other"), Some(SECOND));
    assert_eq!(hand.handles.model("third"), None);
    assert!(hand.handles.profile(SECOND).is_some());
    assert!(hand.handles.profile(ModelIndex(2)).is_none());
}

#[test]
fn a_control_call_is_carried_out_before_the_rest_of_its_turn() {
    let mut hand = Hand::with_workers(open(), [], |builder| builder);
    hand.submit(Request::new(1, 1));
    hand.upsert(Worker::new(3));
    hand.submit(Request::new(1, 2));
    hand.turn();
    assert_eq!(hand.told(0), ["1 -> 3.0", "2 -> 3.0"]);
    let command = Command::SetAvailable {
        model: FIRST,
        id: WorkerId(3),
        available: false,
    };
    hand.execute(command).expect("it is known");
    hand.submit(Request::new(1, 3));
    hand.turn();
    assert_eq!(hand.told(0), ["3 failed no_eligible_worker"]);
}

#[test]
fn time_does_not_go_back() {
    let mut hand = Hand::with_workers(one_at_a_time(), [1], |builder| builder);
    hand.set_load(1, 9);
    hand.submit(Request {
        deadline: Some(Nanos(2_000)),
        ..Request::new(1, 1)
    });
    hand.core.turn(Nanos(1_999));
    hand.core.turn(Nanos(5));
    assert_eq!(hand.state().now, Nanos(1_999));
    hand.core.turn(Nanos(2_000));
    assert_eq!(hand.told(0), ["1 expired"]);
    assert_eq!(hand.core.turn(Nanos::MAX).dispatched, 0);
}
