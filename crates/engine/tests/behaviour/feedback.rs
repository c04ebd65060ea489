//! Feedback on dispatches: by ring and by mail, from shards and from anywhere; in order, and never too
//! often.

use crate::common::draw::Draw;
use crate::common::{Hand, classes, classes_and, one_at_a_time, open};
use tollgate::{Builder, Dispatch, Receipt, Request, RequeueRefused, Worker};

/// Prefill tokens and active requests of each endpoint.
fn loads<P>(hand: &mut Hand<P>) -> Vec<(u64, u64)> {
    let endpoints = hand.state().endpoints.into_iter();
    endpoints
        .map(|endpoint| (endpoint.prefill_tokens, endpoint.active))
        .collect()
}

/// An engine with feedback rings of two records.
fn tight(builder: Builder) -> Builder {
    builder.feedback_ring(2)
}

/// Dispatches of `count` requests of ten tokens to worker 1.
fn dispatched(hand: &mut Hand<u64>, count: u64) -> Vec<Dispatch<u64>> {
    for number in 0..count {
        hand.submit(Request::new(10, number));
    }
    hand.settle();
    hand.dispatches(0)
}

#[test]
fn s9_1_prefill_done_releases_the_tokens_and_complete_the_rest() {
    let profile = classes(&["a quantum: 9, prefill_busy_threshold: 999"]);
    let mut hand = Hand::with_workers(profile, [1], |builder| builder);
    hand.submit(Request::new(1_000, 1));
    hand.submit(Request::new(1_000, 2));
    hand.submit(Request::new(1_000, 3));
    hand.turn();
    let first = hand.dispatch(0);
    assert_eq!(loads(&mut hand), [(1_000, 1)]);
    hand.egress[0].prefill_done(first.receipt());
    hand.turn();
    let second = hand.dispatch(0);
    assert_eq!(loads(&mut hand), [(1_000, 2)]);
    hand.egress[0].complete(first.receipt());
    hand.turn();
    assert_eq!(
        loads(&mut hand),
        [(1_000, 1)],
        "its tokens are not released twice"
    );
    // Without `prefill_done`, both at once.
    hand.egress[0].complete(second.receipt());
    hand.turn();
    let third = hand.dispatch(0);
    hand.egress[0].complete(third.receipt());
    hand.turn();
    assert_eq!((loads(&mut hand), hand.stale()), (vec![(0, 0)], 0));
}

#[test]
fn s9_3_what_finds_nothing_to_do_is_counted_and_touches_nothing() {
    let mut hand = Hand::with_workers(open(), [1], |builder| builder);
    let all = dispatched(&mut hand, 2);
    let receipts: Vec<Receipt> = all.iter().map(Dispatch::receipt).collect();
    let ahead = Receipt {
        attempt: 2,
        ..receipts[0]
    };
    hand.egress[0].complete(ahead);
    hand.egress[0].prefill_done(ahead);
    hand.turn();
    assert_eq!((hand.stale(), loads(&mut hand)), (2, vec![(20, 2)]));
    for _ in 0..3 {
        hand.egress[0].prefill_done(receipts[0]);
    }
    hand.turn();
    assert_eq!(hand.stale(), 2, "repeated for a live booking, it is silent");
    for _ in 0..3 {
        hand.egress[0].complete(receipts[0]);
    }
    hand.turn();
    hand.egress[0].prefill_done(receipts[0]);
    hand.ingress[0].cancel(receipts[1].ticket);
    hand.turn();
    assert_eq!((hand.stale(), loads(&mut hand)), (6, vec![(10, 1)]));
    // The slot's next use is another request.
    hand.egress[0].complete(receipts[1]);
    hand.turn();
    let next = dispatched(&mut hand, 2);
    hand.egress[0].complete(receipts[0]);
    hand.egress[0].complete(receipts[1]);
    hand.turn();
    assert_eq!((hand.stale(), loads(&mut hand)), (8, vec![(20, 2)]));
    assert_eq!(next.len(), 2);
}

#[test]
fn a_worker_that_came_back_is_not_freed_by_what_it_ran_before() {
    let mut hand = Hand::with_workers(open(), [1], |builder| builder);
    let first = dispatched(&mut hand, 1).remove(0);
    hand.remove(1);
    hand.upsert(Worker::new(1));
    let second = dispatched(&mut hand, 1).remove(0);
    hand.egress[0].complete(first.receipt());
    hand.turn();
    assert_eq!((loads(&mut hand), hand.stale()), (vec![(10, 1)], 0));
    hand.egress[0].complete(second.receipt());
    hand.turn();
    assert_eq!((loads(&mut hand), hand.stale()), (vec![(0, 0)], 0));
}

#[test]
fn s9_4_a_requeued_request_waits_in_its_place_and_avoids_the_worker() {
    let mut hand = Hand::with_workers(one_at_a_time(), [1, 2], |builder| builder);
    let mut running = dispatched(&mut hand, 3);
    assert_eq!(running.len(), 2);
    let (second, first) = (running.remove(1), running.remove(0));
    let from = first.endpoint.worker.0;
    let old = first.receipt();
    assert!(hand.egress[0].requeue(first).is_ok());
    hand.turn();
    // Its old worker is free and the other is not: there is nothing else to choose.
    assert_eq!(hand.told(0), [format!("0 -> {from}.0#2")]);
    hand.egress[0].complete(old);
    hand.egress[0].complete(second.receipt());
    hand.turn();
    assert_eq!((hand.told(0).len(), hand.stale()), (1, 1));
    let class = &hand.state().classes[0];
    assert_eq!((class.counters.requeued, class.counters.dispatched), (1, 3));
}

#[test]
fn s9_4_after_the_last_attempt_a_request_fails() {
    let profile = classes_and(&["a quantum: 9"], "max_attempts: 3");
    let mut hand = Hand::with_workers(profile, [1], |builder| builder);
    hand.submit(Request::new(10, 7));
    for attempt in 1..=3 {
        hand.turn();
        let dispatch = hand.dispatch(0);
        assert_eq!(dispatch.attempt, attempt);
        assert!(hand.egress[0].requeue(dispatch).is_ok());
    }
    hand.turn();
    assert_eq!(hand.told(0), ["7 failed hand_off"]);
    let class = &hand.state().classes[0];
    assert_eq!(
        (class.counters.dispatched, class.counters.charged_tokens),
        (0, 0)
    );
    assert_eq!(loads(&mut hand), [(0, 0)]);
}

#[test]
fn s9_4_after_a_stop_a_requeued_request_ends() {
    let mut hand = Hand::with_workers(open(), [1], |builder| builder);
    let mut running = dispatched(&mut hand, 2);
    hand.stop(tollgate::Nanos::from_millis(1));
    assert!(hand.egress[0].requeue(running.remove(0)).is_ok());
    assert!(!hand.turn().closed, "one runs still");
    assert_eq!(hand.told(0), ["0 shutting_down"]);
    hand.egress[0].complete(running[0].receipt());
    assert!(hand.turn().closed);
}

#[test]
fn a_stale_requeue_gives_its_payload_back() {
    let mut hand = Hand::with_workers(open(), [1], |builder| builder);
    let dispatch = dispatched(&mut hand, 1).remove(0);
    let receipt = dispatch.receipt();
    hand.egress[0].complete(receipt);
    assert!(hand.egress[0].requeue(dispatch).is_ok());
    hand.turn();
    let mut deliveries = hand.deliveries(0);
    assert_eq!(
        deliveries
            .iter()
            .map(crate::common::text)
            .collect::<Vec<_>>(),
        ["0 returned"]
    );
    assert_eq!(deliveries.remove(0).ticket(), receipt.ticket);
    assert_eq!((hand.stale(), loads(&mut hand)), (1, vec![(0, 0)]));
    let read = hand.handles.stats().read().egress[0].clone();
    assert_eq!((read.delivered, read.outcomes, read.returned), (1, 0, 1));
}

#[test]
fn payloads_that_come_back_to_a_full_ring_wait_however_many_they_are() {
    let mut hand = Hand::with_workers(open(), [1], |builder| builder.slots(1).dispatch_ring(4));
    let dispatch = dispatched(&mut hand, 1).remove(0);
    hand.egress[0].complete(dispatch.receipt());
    hand.settle();
    for number in 0..100 {
        let again = Dispatch {
            payload: 1_000 + number,
            ..copy(&dispatch)
        };
        assert!(hand.egress[0].requeue(again).is_ok());
        hand.settle();
    }
    let mut payloads = Vec::new();
    while payloads.len() < 100 {
        payloads.extend(
            hand.deliveries(0)
                .into_iter()
                .map(tollgate::Delivery::into_payload),
        );
        hand.settle();
    }
    assert_eq!(payloads, (1_000..1_100).collect::<Vec<_>>());
}

fn copy(dispatch: &Dispatch<u64>) -> Dispatch<u64> {
    Dispatch {
        ticket: dispatch.ticket,
        class: dispatch.class,
        attempt: dispatch.attempt,
        endpoint: dispatch.endpoint,
        snapshot: dispatch.snapshot,
        submitted_at: dispatch.submitted_at,
        dispatched_at: dispatch.dispatched_at,
        payload: dispatch.payload,
    }
}

#[test]
fn a_requeue_that_finds_no_room_gives_the_dispatch_back() {
    let mut hand = Hand::with_workers(open(), [1], tight);
    let mut running = dispatched(&mut hand, 3);
    for _ in 0..2 {
        assert!(hand.egress[0].requeue(running.remove(0)).is_ok());
    }
    let Err(RequeueRefused::Full(dispatch)) = hand.egress[0].requeue(running.remove(0)) else {
        panic!("the ring has room for two")
    };
    assert_eq!((dispatch.payload, dispatch.attempt), (2, 1));
    hand.turn();
    assert!(hand.egress[0].requeue(dispatch).is_ok());
    hand.stop(tollgate::Nanos(0));
    hand.settle();
    let mut told = hand.told(0);
    told.sort();
    assert_eq!(told, ["0 -> 1.0#2", "1 -> 1.0#2", "2 shutting_down"]);
    let gone = Dispatch {
        attempt: 2,
        ..copy_of(&hand)
    };
    let Err(RequeueRefused::Closed(gone)) = hand.egress[0].requeue(gone) else {
        panic!("the core is gone")
    };
    assert_eq!(gone.payload, 99);
}

/// A dispatch of another engine.
fn copy_of(_: &Hand<u64>) -> Dispatch<u64> {
    let mut other = Hand::with_workers(open(), [1], |builder| builder);
    let mut dispatch = dispatched(&mut other, 1).remove(0);
    dispatch.payload = 99;
    dispatch
}

#[test]
fn feedback_that_overflows_the_ring_goes_by_mail_in_order() {
    let mut hand = Hand::with_workers(open(), [1], tight);
    let running = dispatched(&mut hand, 4);
    let receipts: Vec<_> = running.iter().map(Dispatch::receipt).collect();
    // In the ring: two times `prefill_done`. By mail: everything else.
    for &receipt in &receipts {
        hand.egress[0].prefill_done(receipt);
    }
    for &receipt in &receipts {
        hand.egress[0].complete(receipt);
    }
    let report = hand.turn();
    assert_eq!(
        (report.feedback, report.letters),
        (2, 4),
        "one letter for each request"
    );
    assert_eq!((loads(&mut hand), hand.stale()), (vec![(0, 0)], 0));
    assert_eq!(hand.handles.stats().read().egress[0].releases_by_mail, 6);
}

#[test]
fn what_goes_by_mail_is_not_overtaken_in_the_ring() {
    let mut hand = Hand::with_workers(open(), [1], tight);
    let mut running = dispatched(&mut hand, 4);
    let last = running.pop().expect("four");
    let receipts: Vec<_> = running.iter().map(Dispatch::receipt).collect();
    hand.egress[0].prefill_done(receipts[0]);
    hand.egress[0].prefill_done(receipts[1]);
    hand.egress[0].prefill_done(receipts[2]);
    hand.egress[0].prefill_done(last.receipt());
    // A completion of the ring's owner makes room, and what follows is in the ring again.
    hand.core.turn(hand.handles.clock().now());
    hand.releases.prefill_done(receipts[0]);
    hand.egress[0].complete(receipts[0]);
    hand.releases.prefill_done(last.receipt());
    assert!(hand.egress[0].requeue(last).is_ok());
    hand.turn();
    assert_eq!(hand.stale(), 0);
    hand.settle();
    assert_eq!(hand.told(0), ["3 -> 1.0#2"]);
    assert_eq!(loads(&mut hand), [(10, 3)]);
}

#[test]
fn an_overflow_that_the_ring_overtakes_counts_nothing_as_stale() {
    let mut draw = Draw(3);
    for _ in 0..200 {
        let mut hand = Hand::with_workers(open(), [1], tight);
        let mut running = dispatched(&mut hand, 6);
        let mut done = Vec::new();
        while !running.is_empty() || !done.is_empty() {
            match draw.below(4) {
                0 if !running.is_empty() => {
                    let dispatch = running.swap_remove(draw.place(running.len()));
                    hand.egress[0].prefill_done(dispatch.receipt());
                    done.push(dispatch);
                }
                1 if !done.is_empty() => {
                    let dispatch = done.swap_remove(draw.place(done.len()));
                    hand.egress[0].complete(dispatch.receipt());
                }
                2 if !done.is_empty() => {
                    let dispatch = done.swap_remove(draw.place(done.len()));
                    hand.releases.complete(dispatch.receipt());
                }
                _ => {
                    hand.turn();
                }
            }
        }
        hand.settle();
        assert_eq!((hand.stale(), loads(&mut hand)), (0, vec![(0, 0)]));
    }
}

#[test]
fn releases_come_from_any_thread_and_repeated_ones_are_one() {
    let mut hand = Hand::with_workers(open(), [1], |builder| builder);
    let running = dispatched(&mut hand, 300);
    let receipts: Vec<_> = running.iter().map(Dispatch::receipt).collect();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let releases = hand.handles.releases();
                for &receipt in &receipts {
                    releases.prefill_done(receipt);
                    releases.complete(receipt);
                    releases.complete(receipt);
                }
            });
        }
    });
    hand.settle();
    assert_eq!((loads(&mut hand), hand.stale()), (vec![(0, 0)], 0));
    // Once they are applied, another one is too late.
    hand.releases.complete(receipts[0]);
    hand.settle();
    assert_eq!(hand.stale(), 1);
    assert_eq!(hand.state().outstanding, 0);
}

#[test]
fn s11_2_a_cancel_by_mail_does_not_overtake_its_submission() {
    let mut hand = Hand::with_workers(one_at_a_time(), [1], |builder| builder.ring(2));
    hand.set_load(1, 9);
    hand.submit(Request::new(1, 0));
    let ticket = hand.submit(Request::new(1, 1));
    hand.ingress[0].cancel(ticket);
    assert_eq!(hand.handles.stats().read().ingress[0].cancels_by_mail, 1);
    hand.settle();
    assert_eq!(
        (hand.told(0), hand.stale()),
        (vec!["1 cancelled".to_owned()], 0)
    );

    // More in the ring than one turn takes, and letters of others.
    let mut hand = Hand::with_workers(one_at_a_time(), [1], |builder| builder);
    hand.set_load(1, 9);
    let tickets: Vec<_> = (0..200)
        .map(|number| hand.submit(Request::new(1, number)))
        .collect();
    for &ticket in tickets.iter().rev().take(70) {
        hand.releases.cancel(ticket);
    }
    let letters: Vec<_> = (0..6).map(|_| hand.turn().letters).collect();
    assert_eq!(letters.iter().sum::<u64>(), 70);
    assert_eq!(letters[..3], [0, 0, 0], "200 records take four turns");
    assert_eq!((hand.told(0).len(), hand.stale()), (70, 0));
}

#[test]
fn s11_2_a_cancel_through_another_shard_does_not_overtake_its_submission() {
    let mut hand = Hand::with_workers(one_at_a_time(), [1], |builder| builder.ingress_shards(2));
    hand.set_load(1, 9);
    for shard in [1, 0] {
        for _ in 0..100 {
            hand.submit_to(shard, Request::new(1, 7));
        }
        let ticket = hand.submit_to(shard, Request::new(1, 8));
        hand.ingress[1 - shard].cancel(ticket);
    }
    hand.settle();
    assert_eq!(hand.told(0), ["8 cancelled", "8 cancelled"]);
    assert_eq!(hand.stale(), 0);
}

#[test]
fn handles_of_another_engine_touch_nothing() {
    let mut other = Hand::new(
        tollgate::Engine::builder(open())
            .model("second", open())
            .model("third", open())
            .worker(Worker::new(1)),
    );
    let model = tollgate::ModelIndex(2);
    other.submit(Request {
        model,
        ..Request::new(1, 5)
    });
    other.turn();
    let foreign = other.dispatch(0);
    let mut hand = Hand::with_workers(open(), [1], |builder| builder);
    hand.submit(Request::new(1, 6));
    hand.turn();
    let own = hand.dispatch(0);
    hand.ingress[0].cancel(foreign.ticket);
    hand.egress[0].prefill_done(foreign.receipt());
    hand.egress[0].complete(foreign.receipt());
    hand.releases.cancel(foreign.ticket);
    hand.releases.complete(foreign.receipt());
    assert!(hand.egress[0].requeue(foreign).is_ok());
    hand.settle();
    assert_eq!(hand.told(0), ["5 returned"]);
    assert_eq!(loads(&mut hand), [(1, 1)]);
    hand.egress[0].complete(own.receipt());
    hand.settle();
    assert_eq!(loads(&mut hand), [(0, 0)]);
}

#[test]
fn a_batch_of_feedback_is_one_publication() {
    let mut hand = Hand::with_workers(open(), [1], |builder| builder);
    let running = dispatched(&mut hand, 100);
    let mut batch = hand.egress[0].feedback();
    for dispatch in &running[..20] {
        batch.prefill_done(dispatch.receipt());
        batch.complete(dispatch.receipt());
    }
    drop(batch);
    assert_eq!(hand.turn().feedback, 40);
    let mut batch = hand.egress[0].feedback();
    for dispatch in &running[20..] {
        batch.complete(dispatch.receipt());
    }
    drop(batch);
    hand.settle();
    assert_eq!((loads(&mut hand), hand.stale()), (vec![(0, 0)], 0));
}

#[test]
fn loads_return_to_zero_whatever_is_reported_how_often() {
    let mut hand = Hand::with_workers(open(), [1, 2, 3, 4], |builder| builder.feedback_ring(64));
    let mut draw = Draw(1);
    for round in 0..20 {
        let running = dispatched(&mut hand, 100);
        assert_eq!(running.len(), 100, "round {round}");
        for dispatch in running {
            let receipt = dispatch.receipt();
            match draw.below(5) {
                // Ended before and after `prefill_done`, twice each.
                0 | 1 => {
                    if draw.chance(50) {
                        hand.egress[0].prefill_done(receipt);
                    }
                    hand.egress[0].complete(receipt);
                    hand.releases.complete(receipt);
                }
                2 => hand.releases.complete(receipt),
                3 => {
                    let _ = hand.egress[0].requeue(dispatch);
                    hand.settle();
                    let again = hand.dispatch(0);
                    hand.egress[0].complete(again.receipt());
                }
                _ => {
                    hand.releases.prefill_done(receipt);
                    hand.egress[0].complete(receipt);
                }
            }
            if draw.chance(5) {
                hand.settle();
            }
            for (tokens, active) in loads(&mut hand) {
                assert!(tokens <= 1_000 && active <= 100);
            }
        }
        hand.settle();
        assert_eq!(loads(&mut hand), [(0, 0); 4]);
        let state = hand.state();
        assert_eq!((state.outstanding, state.waiting), (0, 0));
    }
}
