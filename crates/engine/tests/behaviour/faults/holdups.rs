//! Handles that are used wrongly, or by somebody who never stops, and hold nobody else up.

use std::cell::Cell;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tollgate::{
    Builder, Command, Delivery, EgressShard, Endpoint, Engine, FailReason, Hint, IngressShard,
    ModelIndex, Nanos, Outcome, Receipt, Refusal, Request, Ticket, Worker,
};

use super::{by_hand, dispatch, must_recv, now, small, turn};
use crate::common::classes;

/// A shard that cancels more in each turn than a turn takes in.
#[test]
fn cancels_of_one_shard_do_not_hold_up_another() {
    let builder = small().ingress_shards(2).ring(256).worker(Worker::new(1));
    let (mut built, hand) = by_hand::<u64>(builder);
    let ticket = built.ingress[0].try_submit(Request::new(1, 0));
    let ticket = ticket.expect("there is room");
    turn(&mut built, &hand);
    let first = dispatch(built.egress[0].try_recv().expect("open"));
    built.ingress[1]
        .try_submit(Request::new(1, 1))
        .expect("there is room");
    for _ in 0..4 {
        // Stale: it was dispatched.
        (0..200).for_each(|_| built.ingress[0].cancel(ticket));
        turn(&mut built, &hand);
    }
    assert_eq!(first.payload, 0);
    let second = dispatch(built.egress[0].try_recv().expect("open"));
    assert_eq!(second.payload, 1);
}

/// More payloads than there are slots, on their way back at one time.
#[test]
fn stale_requeues_come_back_however_many_they_are() {
    const ROUNDS: u64 = 20;
    let builder = small().slots(4).dispatch_ring(4).worker(Worker::new(1));
    let (mut built, hand) = by_hand::<u64>(builder);
    let mut done = Vec::new();
    for round in 0..ROUNDS {
        for payload in 0..4 {
            built.ingress[0]
                .try_submit(Request::new(1, 4 * round + payload))
                .expect("there is room");
        }
        turn(&mut built, &hand);
        for _ in 0..4 {
            let dispatch = dispatch(built.egress[0].try_recv().expect("open"));
            built.egress[0].complete(dispatch.receipt());
            done.push(dispatch);
        }
        turn(&mut built, &hand);
    }
    for dispatch in done {
        built.egress[0].requeue(dispatch).expect("there is room");
    }
    turn(&mut built, &hand);
    for payload in 0..4 * ROUNDS {
        match built.egress[0].try_recv() {
            Ok(Some(Delivery::Returned { payload: found, .. })) => assert_eq!(found, payload),
            other => panic!("{payload} was to come back, not {other:?}"),
        }
        turn(&mut built, &hand);
    }
}

/// Requests that are released before their dispatch was handed out: their slots serve others while
/// the dispatches still wait for room.
#[test]
fn releases_before_the_hand_out_keep_every_dispatch() {
    let profile = classes(&[
        "timed quantum: 1, prefill_busy_threshold: 0",
        "free quantum: 1",
    ]);
    let builder = Engine::builder(profile).slots(8).dispatch_ring(4);
    let builder = builder.worker(Worker::new(1)).worker(Worker::new(2));
    let (mut built, hand) = by_hand::<u64>(builder);
    let control = built.handles.control();
    let (model, endpoint) = (ModelIndex(0), Endpoint::new(2, 0));
    let load = Command::SetLoad {
        model,
        endpoint,
        tokens: 1,
    };
    built.core.execute(&control, load).expect("a known worker");
    let deadline = Nanos::from_millis(1);
    let mut submit = |family, pin, deadline, payload| {
        let request = Request {
            family: Some(family),
            pin,
            deadline,
            ..Request::new(1, payload)
        };
        built.ingress[0].try_submit(request).expect("there is room")
    };
    // Four fill the ring as they expire, in the turn that dispatches four more.
    (0..4).for_each(|payload| _ = submit("timed", Some(endpoint), Some(deadline), payload));
    built.core.turn(Nanos(0));
    let tickets: Vec<Ticket> = (4..8)
        .map(|payload| submit("free", None, None, payload))
        .collect();
    hand.set(deadline);
    assert_eq!(built.core.turn(deadline).dispatched, 4);
    let releases = built.handles.releases();
    for ticket in tickets {
        releases.complete(Receipt { ticket, attempt: 1 });
    }
    assert_eq!(built.core.turn(deadline).letters, 4);
    let nowhere = Some(Endpoint::new(9, 0));
    (8..16).for_each(|payload| _ = submit("free", nowhere, None, payload));
    for payload in 0..16 {
        turn(&mut built, &hand);
        let delivery = built.egress[0].try_recv().expect("open");
        let delivery = delivery.expect("nothing was lost");
        assert_eq!(
            matches!(delivery, Delivery::Dispatch(_)),
            (4..8).contains(&payload)
        );
        assert_eq!(delivery.into_payload(), payload);
    }
}

/// A batch whose own records, not yet published, hold the room that its next request needs.
#[test]
fn a_batch_that_finds_no_room_publishes_what_it_holds_back() {
    let builder = small().extension_ring(133).worker(Worker::new(1));
    let (mut built, hand) = by_hand::<u64>(builder);
    let hints: Vec<Hint> = (0..16)
        .map(|id| Hint {
            endpoint: Endpoint::new(id, 0),
            cached: 1,
        })
        .collect();
    let request = |payload| Request {
        hints: &hints,
        ..Request::new(2, payload)
    };
    // Five blocks each: 133 are not enough for 32 of them.
    let (accepted, tries) = (Cell::new(0), Cell::new(0));
    let (core, clock) = (&mut built.core, built.handles.clock());
    let again = std::iter::from_fn(|| {
        tries.set(tries.get() + 1);
        hand.advance(Nanos(1));
        core.turn(clock.now());
        (accepted.get() < 32 && tries.get() < 100).then(|| request(accepted.get()))
    });
    built.ingress[0].submit_batch(again, |result| {
        accepted.set(accepted.get() + u64::from(result.is_ok()));
    });
    assert_eq!(accepted.get(), 32, "after {} tries", tries.get());
}

/// Threads that never stop cancelling and giving feedback do not keep the engine from closing.
#[test]
fn an_engine_closes_beside_threads_that_never_stop_talking() {
    let built = small().ingress_shards(2).worker(Worker::new(1)).build();
    let mut built = built.unwrap_or_else(|errors| panic!("{errors}"));
    let ticket = built.ingress[0].try_submit(Request::new(1, 0_u64));
    let ticket = ticket.expect("there is room");
    let receipt = Receipt { ticket, attempt: 9 };
    let over = AtomicBool::new(false);
    let (ingress, egress) = (&mut built.ingress, &mut built.egress);
    thread::scope(|scope| {
        let goes_on = || !over.load(Ordering::Relaxed);
        for shard in ingress {
            scope.spawn(move || {
                while goes_on() {
                    shard.cancel(ticket);
                }
            });
        }
        scope.spawn(move || {
            while goes_on() {
                egress[0].complete(receipt);
            }
        });
        let begun = now();
        drop(built.engine);
        let took = begun.elapsed();
        over.store(true, Ordering::Relaxed);
        assert!(took < Duration::from_secs(5), "closing took {took:?}");
    });
    // Dispatched, cancelled, or told of the end.
    let rest = std::iter::from_fn(|| built.egress[0].try_recv().ok().flatten());
    assert_eq!(rest.count(), 1);
}

/// A worker that is gone when its request comes; and the same of a name that no worker ever had.
#[test]
fn requests_for_nobody_come_back_in_the_same_turn() {
    let (mut built, hand) = by_hand::<u64>(small().worker(Worker::new(1)));
    let pin = Some(Endpoint::new(2, 0));
    let pinned = Request {
        pin,
        ..Request::new(1, 1)
    };
    let tainted = Request {
        require_taints: &["gpu-none"],
        ..Request::new(1, 2)
    };
    for request in [pinned, tainted] {
        built.ingress[0].try_submit(request).expect("there is room");
    }
    turn(&mut built, &hand);
    for reason in [
        FailReason::PinnedWorkerUnknown,
        FailReason::NoEligibleWorker,
    ] {
        match built.egress[0].try_recv() {
            Ok(Some(Delivery::Ended(ended))) => {
                assert_eq!(ended.outcome, Outcome::Failed(reason));
            }
            other => panic!("{reason:?} was to come, not {other:?}"),
        }
    }
}

/// A thread that stands still in the middle of a batch: others pass it by, and no stop waits for it.
#[test]
fn a_thread_frozen_in_a_batch_holds_up_nobody() {
    const OTHERS: u64 = 7;
    const EACH: u64 = 10_000;
    let builder = small().ingress_shards(8).slots(8 * 1_024);
    let built = builder.worker(Worker::new(1)).build::<Option<u64>>();
    let mut built = built.unwrap_or_else(|errors| panic!("{errors}"));
    let mut first = built.ingress.remove(0);
    let (frozen, thawed) = (Barrier::new(2), Barrier::new(2));
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let requests = (0..3).map(|number| {
                if number == 2 {
                    frozen.wait();
                    thawed.wait();
                }
                Request::new(1, None)
            });
            let mut answers = Vec::new();
            first.submit_batch(requests, |answer| {
                answers.push(answer.map_err(|refused| refused.reason));
            });
            answers
        });
        frozen.wait();
        for (shard, mut ingress) in (0..).zip(built.ingress) {
            scope.spawn(move || {
                for number in 0..EACH {
                    let mut request = Request::new(1, Some(shard * EACH + number));
                    while let Err(refused) = ingress.try_submit(request) {
                        request = refused.request;
                        thread::yield_now();
                    }
                }
            });
        }
        let mut seen = vec![false; usize::try_from(OTHERS * EACH).expect("small")];
        for _ in 0..OTHERS * EACH {
            let dispatch = dispatch(Some(must_recv(&mut built.egress[0])));
            built.egress[0].complete(dispatch.receipt());
            let number = dispatch.payload.expect("the frozen thread's are held back");
            let number = usize::try_from(number).expect("small");
            assert!(
                !std::mem::replace(&mut seen[number], true),
                "{number} came twice"
            );
        }
        let begun = now();
        let stopped = built.engine.control().stop(Duration::ZERO);
        assert_eq!(stopped, Ok(()));
        assert_eq!(built.engine.join(), Ok(()));
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(5), "the stop took {took:?}");
        thawed.wait();
        let answers = sleeper.join().expect("it was only frozen");
        assert!(answers[..2].iter().all(Result::is_ok));
        assert_eq!(answers[2], Err(Refusal::Closed));
    });
    // What it held back was accepted, and never taken in.
    assert_eq!(std::iter::from_fn(|| first.take_back()).count(), 2);
}

/// One lone life after the other at worker 1.
fn lives(ingress: &mut IngressShard<u64>, egress: &mut EgressShard<u64>, count: u64) -> Duration {
    let began = now();
    for payload in 0..count {
        while ingress.try_submit(for_worker(1, payload)).is_err() {
            thread::yield_now();
        }
        let dispatch = dispatch(Some(must_recv(egress)));
        assert_eq!(dispatch.payload, payload);
        egress.complete(dispatch.receipt());
    }
    began.elapsed()
}

fn for_worker(worker: u64, payload: u64) -> Request<'static, u64> {
    Request {
        pin: Some(Endpoint::new(worker, 0)),
        ..Request::new(1, payload)
    }
}

/// A thread that stops receiving for its workers: another one's keep their rate, and what was for it comes
/// when it is back.
#[test]
fn a_receiver_that_stands_still_leaves_the_others_their_rate() {
    const LIVES: u64 = 3_000;
    let workers = [0, 1].map(Worker::new);
    let builder = workers.into_iter().fold(small(), Builder::worker);
    let built = builder.ingress_shards(2).egress_shards(2).slots(512);
    let built = built.build().unwrap_or_else(|errors| panic!("{errors}"));
    let [mut for_first, mut for_other] = <[_; 2]>::try_from(built.ingress).expect("two");
    let [mut first, mut other] = <[_; 2]>::try_from(built.egress).expect("two");
    let (is_frozen, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    let (mut undisturbed, mut beside_frozen) = (Duration::MAX, Duration::MAX);
    thread::scope(|scope| {
        let submitted = scope.spawn(|| {
            let mut accepted = 0;
            while !is_over.load(Ordering::Relaxed) {
                match for_first.try_submit(for_worker(0, accepted)) {
                    Ok(_) => accepted += 1,
                    Err(_) => thread::yield_now(),
                }
            }
            accepted
        });
        let received = scope.spawn(|| {
            let mut received = 0;
            loop {
                if is_frozen.load(Ordering::Relaxed) {
                    thread::park_timeout(Duration::from_millis(1));
                } else if let Ok(Some(delivery)) = first.recv_timeout(Duration::from_millis(200)) {
                    let dispatch = dispatch(Some(delivery));
                    assert_eq!(dispatch.payload, received);
                    first.complete(dispatch.receipt());
                    received += 1;
                } else if is_over.load(Ordering::Relaxed) {
                    return received;
                }
            }
        });
        for _ in 0..3 {
            undisturbed = undisturbed.min(lives(&mut for_other, &mut other, LIVES));
            is_frozen.store(true, Ordering::Relaxed);
            beside_frozen = beside_frozen.min(lives(&mut for_other, &mut other, LIVES));
            is_frozen.store(false, Ordering::Relaxed);
        }
        is_over.store(true, Ordering::Relaxed);
        let accepted = submitted.join().expect("it does not panic");
        assert!(accepted > 0);
        assert_eq!(received.join().expect("it does not panic"), accepted);
    });
    assert!(
        beside_frozen < undisturbed * 4,
        "{undisturbed:?} while all receive, {beside_frozen:?} beside one that does not"
    );
}
