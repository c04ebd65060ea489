//! Egress shards that are dropped while the core turns: what they had, what was on its way to them, and
//! who serves their workers.

use crate::common::ledger::Ledger;
use crate::common::{Hand, one_at_a_time, open, pinned};
use tollgate::{Builder, Delivery, Nanos, Request};

fn two(builder: Builder) -> Builder {
    builder.egress_shards(2).ingress_shards(2).dispatch_ring(4)
}

#[test]
fn what_a_dropped_shard_had_not_received_is_dropped_with_it_and_released() {
    let ledger = Ledger::new(5);
    let mut hand = Hand::with_workers(open(), [2, 3], two);
    for id in 0..5 {
        hand.submit(pinned(2, ledger.entry(id)));
    }
    hand.settle();
    // Four are in the ring, and one waits.
    drop(hand.egress.remove(0));
    assert_eq!(ledger.dropped(), 4);
    hand.settle();
    assert_eq!(hand.told(0), ["4 -> 2.0"], "by the other shard");
    let state = hand.state();
    let loads: Vec<_> = state
        .endpoints
        .iter()
        .map(|e| (e.prefill_tokens, e.active))
        .collect();
    assert_eq!(loads, [(1, 1), (0, 0)]);
    assert_eq!((state.outstanding, state.stale_events), (1, 0));
    assert_eq!(hand.handles.stats().read().egress[0].lost, 4);
    drop(hand);
    ledger.assert_settled(5);
}

#[test]
fn nothing_is_sent_to_a_shard_that_was_dropped_before_the_turn() {
    let mut hand = Hand::with_workers(open(), [2, 3], two);
    drop(hand.egress.remove(0));
    for number in 0..4 {
        hand.submit(pinned(2, number));
    }
    hand.submit(Request {
        deadline: Some(Nanos(0)),
        ..pinned(2, 4)
    });
    let mut told = Vec::new();
    for _ in 0..10 {
        hand.turn();
        told.extend(hand.told(0));
    }
    let expected = ["4 expired", "0 -> 2.0", "1 -> 2.0", "2 -> 2.0", "3 -> 2.0"];
    assert_eq!(told, expected);
    assert_eq!(hand.handles.stats().read().egress[0].lost, 0);
    assert_eq!(hand.state().outstanding, 4);
}

#[test]
fn what_waits_outside_a_dropped_shards_ring_comes_out_of_another() {
    let mut hand = Hand::with_workers(one_at_a_time(), [2, 3], two);
    hand.set_load(2, 9);
    let tickets: Vec<_> = (0..10)
        .map(|number| hand.submit(pinned(2, number)))
        .collect();
    hand.settle();
    for ticket in tickets {
        hand.ingress[0].cancel(ticket);
    }
    hand.settle();
    // Four outcomes are in the ring, and go with the shard; six wait outside.
    drop(hand.egress.remove(0));
    let mut told = Vec::new();
    for _ in 0..10 {
        hand.turn();
        told.extend(hand.told(0));
    }
    let cancelled = |number| format!("{number} cancelled");
    assert_eq!(told, (4..10).map(cancelled).collect::<Vec<_>>());
}

#[test]
fn feedback_that_a_dropped_shard_gave_counts() {
    let mut hand = Hand::with_workers(open(), [2, 3], two);
    for number in 0..3 {
        hand.submit(pinned(2, number));
    }
    hand.turn();
    let mut running = hand.dispatches(0);
    hand.egress[0].complete(running[0].receipt());
    assert!(hand.egress[0].requeue(running.remove(1)).is_ok());
    drop(hand.egress.remove(0));
    hand.settle();
    assert_eq!(hand.told(0), ["1 -> 2.0#2"]);
    assert_eq!(hand.handles.stats().read().egress[0].lost, 1);
    assert_eq!(hand.stale(), 0);
}

#[test]
fn one_shard_serves_the_workers_of_all_that_were_dropped() {
    for kept in 0..5 {
        let shards = |builder: Builder| builder.egress_shards(5).dispatch_ring(8);
        let mut hand = Hand::with_workers(open(), 0..5, shards);
        let last = hand.egress.remove(kept);
        hand.egress.clear();
        hand.egress.push(last);
        hand.settle();
        let mut served = Vec::new();
        for number in 0..200 {
            hand.submit(pinned(number % 5, number));
        }
        for _ in 0..400 {
            hand.turn();
            served.extend(
                hand.dispatches(0)
                    .into_iter()
                    .map(|dispatch| dispatch.payload),
            );
        }
        served.sort_unstable();
        assert_eq!(served, (0..200).collect::<Vec<_>>(), "shard {kept} is left");
    }
}

#[test]
fn without_a_shard_the_core_closes_and_every_payload_is_dropped_once() {
    let ledger = Ledger::new(40);
    let mut hand = Hand::with_workers(one_at_a_time(), [2, 3], two);
    for id in 0..40 {
        hand.submit_to(id % 2, Request::new(1, ledger.entry(id)));
    }
    hand.turn();
    let received: Vec<Delivery<_>> = hand.deliveries(0);
    hand.egress.clear();
    let closed = (0..100).any(|_| hand.turn().closed);
    assert!(closed);
    assert!(hand.ingress[0].take_back().is_none(), "all were taken in");
    drop((received, hand));
    ledger.assert_settled(40);
}
