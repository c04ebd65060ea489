//! What travels in the engine's rings: whole, in order, as often as it was put in, whatever the
//! capacities, the sizes of batches, and the moment at which an end is dropped.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tollgate::policy::Profile;
use tollgate::{Delivery, Engine, IngressShard, Outcome, Refusal, Request, Room, Worker};

use super::{by_hand, dispatch, must_recv, small, turn};
use crate::common::draw::Draw;

/// Through both rings of a running engine: 32 bytes, the last eight a sum of the others.
#[test]
fn payloads_come_out_as_they_went_in() {
    const ITEMS: u64 = 200_000;
    let sealed = |n: u64| [n, n.wrapping_mul(0x9E37_79B9_7F4A_7C15), !n, 0];
    let seal = |words: &[u64; 4]| words[0].rotate_left(7) ^ words[1] ^ words[2].rotate_right(9);
    let built = small().slots(256).ring(16).dispatch_ring(16);
    let built = built.worker(Worker::new(1)).build::<[u64; 4]>();
    let mut built = built.unwrap_or_else(|errors| panic!("{errors}"));
    let (ingress, egress) = (&mut built.ingress[0], &mut built.egress[0]);
    thread::scope(|scope| {
        scope.spawn(|| {
            for item in 0..ITEMS {
                let mut payload = sealed(item);
                payload[3] = seal(&payload);
                let mut request = Request::new(1, payload);
                while let Err(refused) = ingress.try_submit(request) {
                    request = refused.request;
                    thread::yield_now();
                }
            }
        });
        for item in 0..ITEMS {
            let dispatch = dispatch(Some(must_recv(egress)));
            let mut words = sealed(item);
            words[3] = seal(&words);
            assert_eq!(dispatch.payload, words);
            egress.complete(dispatch.receipt());
        }
    });
}

/// Batches of any size on both sides, over rings that they do not divide.
#[test]
fn batches_of_any_size_leave_no_gap_and_repeat_nothing() {
    const ITEMS: u64 = 300_000;
    let built = small().slots(64).ring(7).dispatch_ring(5);
    let built = built.worker(Worker::new(1)).build::<u64>();
    let mut built = built.unwrap_or_else(|errors| panic!("{errors}"));
    let (ingress, egress) = (&mut built.ingress[0], &mut built.egress[0]);
    thread::scope(|scope| {
        scope.spawn(|| submit_in_batches(ingress, ITEMS));
        let (mut draws, mut next, mut batch) = (Draw(2), 0, Vec::new());
        while next < ITEMS {
            let max = 1 + draws.place(9);
            egress.recv_batch(max, &mut batch).expect("it runs");
            assert!(batch.len() <= max);
            let mut done = Vec::new();
            for delivery in batch.drain(..) {
                let dispatch = dispatch(Some(delivery));
                assert_eq!(dispatch.payload, next);
                next += 1;
                done.push(dispatch.receipt());
            }
            let mut feedback = egress.feedback();
            done.into_iter()
                .for_each(|receipt| feedback.complete(receipt));
        }
    });
}

fn submit_in_batches(ingress: &mut IngressShard<u64>, items: u64) {
    let (mut draws, mut sent) = (Draw(1), 0);
    while sent < items {
        let end = (sent + 1 + draws.below(40)).min(items);
        // What was refused ends the batch; the next one begins with it.
        let is_refused = Cell::new(false);
        let requests = (sent..end).map(|item| Request::new(1, item));
        let requests = requests.take_while(|_| !is_refused.get());
        ingress.submit_batch(requests, |result| match result {
            Ok(_) => sent += 1,
            Err(_) => is_refused.set(true),
        });
        thread::yield_now();
    }
}

/// Three records go into a ring of three, and a fourth does not, wherever the ring begins.
#[test]
fn a_ring_holds_what_it_says_and_not_more() {
    for capacity in [2, 3, 5, 8] {
        let (mut built, hand) = by_hand::<usize>(small().ring(capacity).worker(Worker::new(1)));
        for round in 0..200 {
            for payload in 0..=capacity {
                let result = built.ingress[0].try_submit(Request::new(1, payload));
                let full = result.err().map(|refused| refused.reason);
                let expected = (payload == capacity).then_some(Refusal::Full { what: Room::Ring });
                assert_eq!(full, expected, "round {round}, {payload} of {capacity}");
            }
            turn(&mut built, &hand);
            for payload in 0..capacity {
                let dispatch = dispatch(built.egress[0].try_recv().expect("open"));
                assert_eq!(dispatch.payload, payload);
                built.egress[0].complete(dispatch.receipt());
            }
        }
    }
}

/// Nothing is dropped silently: what finds no room comes back and is counted, the rest arrives.
#[test]
fn what_finds_no_room_comes_back_and_is_counted() {
    let (mut built, hand) = by_hand::<u64>(small().ring(16).worker(Worker::new(1)));
    let mut refused = 0;
    for payload in 0..16 + 1_000 {
        if let Err(back) = built.ingress[0].try_submit(Request::new(1, payload)) {
            assert_eq!(
                (back.request.payload, back.request.raw_tokens),
                (payload, 1)
            );
            refused += 1;
        }
    }
    assert_eq!(refused, 1_000);
    assert_eq!(built.handles.stats().read().ingress[0].refused_full, 1_000);
    turn(&mut built, &hand);
    for payload in 0..16 {
        let dispatch = dispatch(built.egress[0].try_recv().expect("open"));
        assert_eq!(dispatch.payload, payload);
    }
    assert!(matches!(built.egress[0].try_recv(), Ok(None)));
}

/// A payload that counts when it is dropped.
#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Both ends of a ring go at the same moment, on two threads, with a few payloads inside.
#[test]
fn payloads_are_dropped_once_when_both_ends_go_at_once() {
    for round in 0..2_000 {
        let inside = round % 4;
        let builder = Engine::builder(Profile::synthetic(None)).slots(4);
        let builder = builder.ring(4).dispatch_ring(4).classes(1).workers(1);
        let builder = builder
            .endpoints(1)
            .extension_blocks(0)
            .worker(Worker::new(1));
        let (mut built, hand) = by_hand::<Counted>(builder);
        let drops = Arc::new(AtomicUsize::new(0));
        for _ in 0..inside {
            let payload = Counted(Arc::clone(&drops));
            built.ingress[0]
                .try_submit(Request::new(1, payload))
                .expect("there is room");
        }
        let (mut ingress, egress, core) = (built.ingress, built.egress, built.core);
        let mut rest = 0;
        if round % 8 < 4 {
            // In the ingress ring.
            thread::scope(|scope| {
                scope.spawn(|| drop(ingress));
                scope.spawn(|| drop(core));
            });
            drop(egress);
        } else {
            // In the egress ring.
            let mut core = core;
            core.turn(built.handles.clock().now());
            hand.advance(tollgate::Nanos(1));
            thread::scope(|scope| {
                scope.spawn(|| drop(egress));
                scope.spawn(|| drop(core));
            });
            rest = std::iter::from_fn(|| ingress[0].take_back()).count();
        }
        assert_eq!(rest, 0);
        assert_eq!(drops.load(Ordering::Relaxed), inside, "round {round}");
    }
}

/// What was in a ring when the core went comes out of the other one.
#[test]
fn what_is_in_the_rings_at_the_end_comes_out() {
    let (mut built, _hand) = by_hand::<u64>(small().dispatch_ring(4).worker(Worker::new(1)));
    for payload in 0..40 {
        built.ingress[0]
            .try_submit(Request::new(1, payload))
            .expect("there is room");
    }
    drop(built.core);
    for payload in 0..40 {
        match built.egress[0].try_recv() {
            Ok(Some(Delivery::Ended(ended))) => {
                assert_eq!(
                    (ended.payload, ended.outcome),
                    (payload, Outcome::ShuttingDown)
                );
            }
            other => panic!("{payload} was to come, not {other:?}"),
        }
    }
    assert!(built.egress[0].try_recv().is_err());
}
