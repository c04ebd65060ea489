//! However the engine ends, no future is left waiting.

use std::time::Duration;

use tollgate::policy::Profile;
use tollgate::{
    AdmitError, Closed, Command, EndpointIndex, Engine, Nanos, Outcome, Refusal, Request, Worker,
    selector,
};

use crate::common::{Admitted, FIRST, Hand, Task, block_on, one_at_a_time, open};

fn stop(hand: &mut Hand) {
    hand.execute(Command::Stop { drain: Nanos(0) });
    hand.settle();
}

#[test]
fn a_stop_answers_who_waits_in_the_engine_and_who_waits_for_room() {
    let mut hand = Hand::new(one_at_a_time(), |builder| builder.slots(2).room_waiters(8));
    let running = Task::begun(hand.admission.admit(Request::new(1, ())));
    hand.settle();
    let permit = running.end().expect("a worker is free");
    let inside = Task::begun(hand.admission.admit(Request::new(1, ())));
    let outside = Task::begun(hand.admission.admit(Request::new(1, ())));
    hand.settle();
    assert_eq!(hand.admission.waiting_for_room(FIRST), 1);
    stop(&mut hand);
    let inside = inside.end().expect_err("it was stopped");
    assert_eq!(inside.outcome(), Some(Outcome::ShuttingDown));
    let outside = outside.end().expect_err("it was stopped");
    assert_eq!(outside, AdmitError::Refused(Refusal::Closed));
    assert_eq!(hand.admission.waiting_for_room(FIRST), 0);
    assert_eq!(hand.couriers[0].turn(), Err(Closed::Stopped));
    // Too late for anything but to be dropped.
    drop(permit);
    let late = Task::new(hand.admission.admit(Request::new(1, ()))).poll();
    let std::task::Poll::Ready(Err(late)) = late else {
        panic!("it is closed");
    };
    assert_eq!(late, AdmitError::Refused(Refusal::Closed));
}

#[test]
fn a_stop_turns_away_who_waits_for_room_before_the_drain_is_over() {
    let built = Engine::builder(one_at_a_time())
        .worker(Worker::new(1))
        .slots(1)
        .build_admission()
        .unwrap_or_else(|errors| panic!("{errors}"));
    let permit = block_on(built.admission.admit(Request::new(1, ()))).expect("a worker is free");
    let tasks: Vec<_> = (0..100)
        .map(|_| {
            let admission = built.admission.clone();
            std::thread::spawn(move || block_on(admission.admit(Request::new(1, ()))))
        })
        .collect();
    while built.admission.waiting_for_room(FIRST) < 100 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let control = built.engine.control();
    control.stop(Duration::from_secs(3_600)).expect("it runs");
    for task in tasks {
        let end = task.join().expect("a task does not panic");
        let error = end.expect_err("nothing new is taken in");
        assert_eq!(error, AdmitError::Refused(Refusal::Closed));
    }
    drop(permit);
    built.engine.join().expect("nothing panicked");
}

#[test]
fn what_was_never_taken_in_is_told_so() {
    let hand = Hand::new(open(), |builder| builder);
    let task = Task::begun(hand.admission.admit(Request::new(1, ())));
    let Hand {
        core,
        mut couriers,
        admission,
        ..
    } = hand;
    // Without a turn: the core is gone with its last look into the ring.
    drop(core);
    assert_eq!(couriers[0].turn(), Ok(1));
    assert_eq!(couriers[0].turn(), Err(Closed::Stopped));
    let error = task.end().expect_err("the engine is gone");
    assert_eq!(error.outcome(), Some(Outcome::ShuttingDown));
    drop(admission);
}

/// A selector that panics at its first choice.
#[derive(Debug)]
struct Broken;

impl selector::Selector for Broken {
    fn standing(&self, _: selector::Activity) -> u128 {
        0
    }

    fn choose(&mut self, _: &selector::Pool<'_>, _: &mut selector::Draws) -> EndpointIndex {
        panic!("the embedder's selector is broken");
    }
}

#[test]
fn a_lost_arbiter_leaves_nobody_waiting() {
    let built = Engine::builder(one_at_a_time())
        .selector(Box::new(Broken))
        .worker(Worker::new(1))
        .slots(8)
        .room_waiters(8)
        .build_admission()
        .unwrap_or_else(|errors| panic!("{errors}"));
    let tasks: Vec<_> = (0..12)
        .map(|_| {
            let admission = built.admission.clone();
            std::thread::spawn(move || block_on(admission.admit(Request::new(1, ()))))
        })
        .collect();
    let ends: Vec<Admitted> = tasks
        .into_iter()
        .map(|task| task.join().expect("a task does not panic"))
        .collect();
    // The one that was being dispatched is, by the first free endpoint.
    assert!(ends.iter().filter(|end| end.is_ok()).count() <= 1);
    assert!(built.engine.join().is_err());
}

#[test]
fn dropping_the_engine_ends_all_futures() {
    let built = Engine::builder(one_at_a_time())
        .worker(Worker::new(1))
        .slots(4)
        .build_admission()
        .unwrap_or_else(|errors| panic!("{errors}"));
    let admission = built.admission.clone();
    let permit = block_on(admission.admit(Request::new(1, ()))).expect("a worker is free");
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let admission = admission.clone();
            std::thread::spawn(move || block_on(admission.admit(Request::new(1, ()))))
        })
        .collect();
    std::thread::sleep(Duration::from_millis(20));
    drop(built.engine);
    for task in tasks {
        let end = task.join().expect("a task does not panic");
        assert!(end.is_err());
    }
    drop(permit);
}

#[test]
fn a_drain_serves_who_waits_in_the_engine() {
    let built = Engine::builder(one_at_a_time())
        .worker(Worker::new(1))
        .drain(Duration::from_secs(20))
        .build_admission()
        .unwrap_or_else(|errors| panic!("{errors}"));
    let permit = block_on(built.admission.admit(Request::new(1, ()))).expect("a worker is free");
    let admission = built.admission.clone();
    let waits = std::thread::spawn(move || {
        block_on(admission.admit(Request::new(1, ()))).map(|permit| permit.attempt())
    });
    let stats = built.engine.handles().stats();
    while stats.read().models[0].classes[0].gauges.waiting == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    built.engine.stop().expect("it runs");
    drop(permit);
    assert_eq!(waits.join().expect("it does not panic"), Ok(1));
    built.engine.join().expect("nothing panicked");
}

#[test]
fn a_courier_that_is_dropped_is_a_lost_egress_shard() {
    let mut hand = Hand::new(open(), |builder| {
        builder.egress_shards(2).worker(Worker::new(2))
    });
    let task = Task::begun(hand.admission.admit(Request::new(1, ())));
    hand.settle();
    let permit = task.end().expect("a worker is free");
    let delivered = Task::begun(hand.admission.admit(Request::new(1, ())));
    hand.core.turn(hand.handles.clock().now());
    // A dispatch is in its ring.
    drop(hand.couriers.remove(0));
    hand.settle();
    let late = delivered.end();
    drop((permit, late));
    assert_eq!(hand.counts(), (0, 0));
    // The other one delivers for both.
    let task = Task::begun(hand.admission.admit(Request::new(1, ())));
    hand.settle();
    let permit = task.end().expect("a worker is free");
    drop(hand.couriers.remove(0));
    // Nobody is left to deliver: the engine closes.
    hand.settle();
    assert!(hand.handles.closed().is_some());
    drop(permit);
}

#[test]
fn starts_and_stops_end() {
    for _ in 0..200 {
        let built = Engine::builder(Profile::synthetic(None))
            .worker(Worker::new(1))
            .slots(16)
            .room_waiters(16)
            .build_admission()
            .unwrap_or_else(|errors| panic!("{errors}"));
        let permit = block_on(built.admission.admit(Request::new(1, ())));
        drop(permit);
        built
            .engine
            .control()
            .stop(Duration::ZERO)
            .expect("it runs");
        built.engine.join().expect("nothing panicked");
    }
}

#[test]
fn whoever_is_left_lets_in_those_who_wait_for_room() {
    let mut hand = Hand::new(open(), |builder| {
        builder
            .egress_shards(3)
            .slots(2)
            .room_waiters(8)
            .worker(Worker::new(2))
    });
    let admit = |hand: &Hand| Task::begun(hand.admission.admit(Request::new(1, ())));
    let running = [admit(&hand), admit(&hand)];
    hand.settle();
    let [one, other] = running.map(|task| task.end().expect("a worker is free"));
    let mut waiting = admit(&hand);
    hand.settle();
    drop(hand.couriers.remove(0));
    drop(hand.couriers.remove(0));
    let mut late = admit(&hand);
    assert_eq!(hand.admission.waiting_for_room(FIRST), 2);
    assert!(hand.handles.closed().is_none());
    drop((one, other));
    hand.settle();
    for task in [&mut waiting, &mut late] {
        assert!(task.is_woken(), "there is room");
        assert!(task.poll().is_pending());
    }
    hand.settle();
    let permit = waiting.end().expect("a worker is free");
    let again = Task::begun(permit.requeue());
    hand.settle();
    assert_eq!(again.end().expect("it goes out again").attempt(), 2);
    assert!(late.end().is_ok());
    drop(hand.couriers.remove(0));
    hand.settle();
    assert!(hand.handles.closed().is_some());
}
