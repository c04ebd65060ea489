//! Stops with and without a drain (S11.3).

use std::thread;
use std::time::{Duration, Instant};

use tollgate::{Built, Closed, ControlError, Delivery, Refusal, Request, Worker};

use super::{is_shutting_down, one_at_a_time, receive_all, small};

#[test]
fn s11_3_a_stop_without_drain_answers_what_waits_at_once_and_in_order() {
    let built = small(one_at_a_time()).worker(Worker::new(1));
    let Built {
        engine,
        mut ingress,
        mut egress,
        ..
    } = built.build::<u32>().expect("it is valid");
    for id in 0..101 {
        while ingress[0].try_submit(Request::new(10, id)).is_err() {
            thread::yield_now();
        }
    }
    let first = egress[0].recv().expect("the engine runs");
    assert_eq!(first.into_payload(), 0);
    let stopped = Instant::now();
    engine.control().stop(Duration::ZERO).expect("it runs");
    let refused = ingress[0]
        .try_submit(Request::new(10, 999))
        .expect_err("it is closed");
    assert_eq!(
        (refused.reason, refused.request.payload),
        (Refusal::Closed, 999)
    );
    let (rest, closed) = receive_all(&mut egress[0]);
    assert!(
        stopped.elapsed() < Duration::from_millis(100),
        "{:?}",
        stopped.elapsed()
    );
    assert_eq!(closed, Closed::Stopped);
    assert!(rest.iter().all(is_shutting_down));
    let ids: Vec<u32> = rest.into_iter().map(Delivery::into_payload).collect();
    assert_eq!(ids, (1..101).collect::<Vec<u32>>());
    let again = engine.control().stop(Duration::ZERO);
    assert!(again.is_ok() || again == Err(ControlError::Closed(Closed::Stopped)));
    engine.join().expect("nothing panicked");
}

#[test]
fn s11_3_a_drain_dispatches_on_and_ends_when_nothing_waits_or_runs() {
    let built = small(one_at_a_time()).worker(Worker::new(1));
    let Built {
        engine,
        mut ingress,
        mut egress,
        ..
    } = built.build::<u32>().expect("it is valid");
    for id in 0..10 {
        ingress[0]
            .try_submit(Request::new(10, id))
            .expect("there is room");
    }
    let begun = Instant::now();
    engine
        .control()
        .stop(Duration::from_secs(60))
        .expect("it runs");
    for id in 0..10 {
        let Delivery::Dispatch(dispatch) = egress[0].recv().expect("it drains") else {
            panic!("all are dispatched");
        };
        assert_eq!(dispatch.payload, id);
        egress[0].complete(dispatch.receipt());
    }
    let (rest, closed) = receive_all(&mut egress[0]);
    assert!(rest.is_empty(), "{rest:?}");
    assert_eq!(closed, Closed::Stopped);
    engine.join().expect("nothing panicked");
    assert!(
        begun.elapsed() < Duration::from_secs(30),
        "it did not wait for the drain's end"
    );
}

#[test]
fn s11_3_the_end_of_a_drain_answers_what_still_waits_and_a_later_stop_only_shortens_it() {
    for later in [Duration::from_millis(1), Duration::from_secs(60)] {
        let built = small(one_at_a_time()).worker(Worker::new(1));
        let Built {
            engine,
            mut ingress,
            mut egress,
            ..
        } = built.build::<u32>().expect("it is valid");
        for id in 0..5 {
            ingress[0]
                .try_submit(Request::new(10, id))
                .expect("there is room");
        }
        egress[0].recv().expect("the first goes out");
        let long = later < Duration::from_secs(1);
        let first = Duration::from_millis(if long { 60_000 } else { 20 });
        let begun = Instant::now();
        engine.control().stop(first).expect("it runs");
        let _ = engine.control().stop(later);
        let (rest, _) = receive_all(&mut egress[0]);
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "{first:?}, then {later:?}"
        );
        assert!(rest.iter().all(is_shutting_down));
        let ids: Vec<u32> = rest.into_iter().map(Delivery::into_payload).collect();
        assert_eq!(ids, [1, 2, 3, 4]);
        engine.join().expect("nothing panicked");
    }
}

#[test]
fn a_requeue_while_draining_ends_as_shutting_down() {
    let built = small(one_at_a_time()).worker(Worker::new(1));
    let Built {
        engine,
        mut ingress,
        mut egress,
        ..
    } = built.build::<u32>().expect("it is valid");
    ingress[0]
        .try_submit(Request::new(10, 7))
        .expect("there is room");
    let Delivery::Dispatch(dispatch) = egress[0].recv().expect("it runs") else {
        panic!("it is dispatched");
    };
    engine
        .control()
        .stop(Duration::from_secs(60))
        .expect("it runs");
    egress[0].requeue(dispatch).expect("there is room");
    let (rest, _) = receive_all(&mut egress[0]);
    assert!(rest.len() == 1 && is_shutting_down(&rest[0]), "{rest:?}");
    engine.join().expect("nothing panicked");
}

#[test]
fn a_shard_that_never_submits_does_not_hold_up_a_stop() {
    let built = small(one_at_a_time())
        .ingress_shards(2)
        .worker(Worker::new(1));
    // An engine whose egress shards are gone ends by itself.
    let Built {
        engine,
        ingress,
        egress,
        ..
    } = built.build::<u32>().expect("it is valid");
    let begun = Instant::now();
    engine.control().stop(Duration::ZERO).expect("it runs");
    engine.join().expect("nothing panicked");
    assert!(
        begun.elapsed() < Duration::from_millis(100),
        "{:?}",
        begun.elapsed()
    );
    drop((ingress, egress));
}
