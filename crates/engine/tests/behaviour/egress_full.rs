//! A full egress ring shuts the workers behind it and nobody else; nothing is lost, and memory stays
//! bounded (S5.1).

use crate::common::{FIRST, Hand, SECOND, classes, open, pinned};
use tollgate::{Builder, Engine, Nanos, Request, Worker};

/// Two egress shards with room for eight: even workers leave by the first, odd ones by the second.
fn two_shards(builder: Builder) -> Builder {
    builder.egress_shards(2).dispatch_ring(8)
}

fn shut(hand: &mut Hand<u64>) -> Vec<bool> {
    hand.state()
        .endpoints
        .iter()
        .map(|endpoint| endpoint.shut)
        .collect()
}

#[test]
fn s5_1_a_frozen_egress_shuts_its_own_workers_alone() {
    let mut hand = Hand::with_workers(open(), [2, 3], two_shards);
    for number in 0..20 {
        hand.submit(pinned(2, number));
        hand.submit(pinned(3, 100 + number));
    }
    let mut served = Vec::new();
    for _ in 0..10 {
        hand.turn();
        served.extend(
            hand.dispatches(1)
                .into_iter()
                .map(|dispatch| dispatch.payload),
        );
    }
    assert_eq!(served, (100..120).collect::<Vec<_>>());
    let state = hand.state();
    assert_eq!((state.waiting, state.outstanding), (12, 28));
    assert_eq!(shut(&mut hand), [true, false]);
    hand.advance(1_000);
    hand.turn();
    let read = hand.handles.stats().read();
    assert_eq!((read.egress[0].ring_len, read.egress[0].outbox_len), (8, 0));
    assert_eq!(read.egress[0].ring_capacity, 8);
}

#[test]
fn s5_1_shut_workers_open_again_at_a_quarter() {
    let mut hand = Hand::with_workers(open(), [2], two_shards);
    for number in 0..20 {
        hand.submit(pinned(2, number));
    }
    hand.settle();
    assert_eq!((hand.state().waiting, shut(&mut hand)), (12, vec![true]));
    let mut received = Vec::new();
    let mut receive = |hand: &mut Hand<u64>| {
        let delivery = hand.egress[0]
            .try_recv()
            .expect("open")
            .expect("there is one");
        received.push(delivery.into_payload());
    };
    receive(&mut hand);
    hand.settle();
    assert_eq!((hand.state().waiting, shut(&mut hand)), (12, vec![true]));
    receive(&mut hand);
    assert!(!hand.turn().is_idle());
    assert_eq!((hand.state().waiting, shut(&mut hand)), (10, vec![true]));
    while received.len() < 20 {
        let got = hand.dispatches(0);
        received.extend(got.into_iter().map(|dispatch| dispatch.payload));
        hand.settle();
    }
    assert_eq!(received, (0..20).collect::<Vec<_>>(), "in order, each once");
    assert_eq!((hand.state().waiting, shut(&mut hand)), (0, vec![false]));
}

#[test]
fn s5_1_requests_for_any_worker_go_where_there_is_room() {
    let mut hand = Hand::with_workers(open(), [2, 3], two_shards);
    for number in 0..200 {
        hand.submit(Request::new(1, number));
    }
    let mut served = 0;
    for _ in 0..100 {
        hand.turn();
        served += hand.dispatches(1).len();
    }
    assert_eq!((served, hand.dispatches(0).len()), (192, 8));
}

#[test]
fn outcomes_wait_for_room_in_order_and_hold_their_slots() {
    let mut hand = Hand::with_workers(
        classes(&["a quantum: 9, prefill_busy_threshold: 0"]),
        [1],
        |builder| builder.slots(32).dispatch_ring(4),
    );
    hand.set_load(1, 9);
    let tickets: Vec<_> = (0..30)
        .map(|number| hand.submit(Request::new(1, number)))
        .collect();
    hand.settle();
    for &ticket in &tickets {
        hand.ingress[0].cancel(ticket);
    }
    hand.settle();
    hand.advance(1_000);
    hand.turn();
    let read = hand.handles.stats().read();
    assert_eq!(
        (read.egress[0].ring_len, read.egress[0].outbox_len),
        (4, 26)
    );
    // They have taken effect, but 26 slots are not free yet: two that never were used and four whose
    // outcomes are in the ring are.
    assert_eq!(hand.state().waiting, 0);
    let mut accepted = 0;
    while hand.ingress[0]
        .try_submit(Request::new(1, 30 + accepted))
        .is_ok()
    {
        accepted += 1;
    }
    assert_eq!(accepted, 6);
    // No dispatch is decided for workers behind deliveries that wait.
    hand.set_load(1, 0);
    hand.settle();
    assert_eq!(hand.state().outstanding, 0);
    let mut told = Vec::new();
    while told.len() < 31 {
        told.extend(hand.told(0));
        hand.settle();
    }
    let mut expected: Vec<_> = (0..30)
        .map(|number| format!("{number} cancelled"))
        .collect();
    expected.push("30 -> 1.0".to_owned());
    assert_eq!(told, expected);
}

#[test]
fn dispatches_of_several_models_into_one_ring_are_not_lost() {
    let builder = Engine::builder(open())
        .worker(Worker::new(1))
        .model("other", open())
        .worker(Worker::new(1))
        .slots(64)
        .dispatch_ring(4);
    let mut hand = Hand::new(builder);
    for number in 0..50 {
        for model in [FIRST, SECOND] {
            hand.submit(Request {
                model,
                ..Request::new(1, number + 100 * u64::from(model.0))
            });
        }
    }
    let mut payloads = Vec::new();
    while payloads.len() < 100 {
        hand.turn();
        payloads.extend(
            hand.dispatches(0)
                .into_iter()
                .map(|dispatch| dispatch.payload),
        );
    }
    let (first, second): (Vec<_>, Vec<_>) =
        payloads.into_iter().partition(|&payload| payload < 100);
    assert_eq!(first, (0..50).collect::<Vec<_>>());
    assert_eq!(second, (100..150).collect::<Vec<_>>());
}

#[test]
fn s7_1_dispatches_that_a_limit_causes_keep_to_the_room() {
    let profile = classes(&["a quantum: 9, request_queue_limit_per_worker: 1"]);
    let mut hand = Hand::with_workers(profile, [1], |builder| builder.dispatch_ring(4));
    for number in 0..10 {
        hand.submit(Request::new(1, number));
    }
    hand.turn();
    let mut told = hand.told(0);
    while told.len() < 10 {
        hand.turn();
        told.extend(hand.told(0));
    }
    // Four fit the ring and one waits; the others find the limit reached and nobody dispatchable.
    let mut dispatched: Vec<_> = (0..5).map(|number| format!("{number} -> 1.0")).collect();
    let (gone, refused): (Vec<_>, Vec<_>) = told.into_iter().partition(|told| told.contains("->"));
    assert_eq!(gone, std::mem::take(&mut dispatched));
    let expected: Vec<_> = (5..10)
        .map(|number| format!("{number} rejected requests"))
        .collect();
    assert_eq!(refused, expected);
}

#[test]
fn a_deadline_runs_on_while_the_egress_is_frozen() {
    let mut hand = Hand::with_workers(open(), [2, 3], two_shards);
    for number in 0..9 {
        let deadline = Some(Nanos::from_micros(100));
        hand.submit(Request {
            deadline,
            ..pinned(2, number)
        });
    }
    hand.settle();
    hand.advance(100);
    hand.settle();
    assert_eq!(hand.state().waiting, 0);
    let told: Vec<_> = std::iter::from_fn(|| {
        let told = hand.told(0);
        hand.turn();
        (!told.is_empty()).then_some(told)
    })
    .flatten()
    .collect();
    assert_eq!(told.len(), 9);
    assert_eq!(told[8], "8 expired");
}
