//! Permits that go back.

use tollgate::{AdmitError, Command, FailReason, Outcome, Refusal, Request};

use crate::common::{FIRST, Hand, Task, one_at_a_time, open};

#[test]
fn a_requeued_request_keeps_its_place_and_counts_its_attempts() {
    let mut hand = Hand::new(one_at_a_time(), |builder| builder);
    let first = Task::begun(hand.admission.admit(Request::new(1, ())));
    let mut second = Task::begun(hand.admission.admit(Request::new(1, ())));
    hand.settle();
    let permit = first.end().expect("a worker is free");
    assert_eq!(permit.attempt(), 1);
    let ticket = permit.ticket();
    let back = Task::begun(permit.requeue());
    hand.settle();
    assert!(!second.is_woken(), "the one that came back is older");
    let permit = back.end().expect("it goes out again");
    assert_eq!((permit.attempt(), permit.ticket()), (2, ticket));
    drop(permit);
    hand.settle();
    assert_eq!(second.end().expect("its turn").attempt(), 1);
    assert_eq!(hand.counts(), (0, 0));
}

#[test]
fn a_request_is_handed_over_so_often_and_fails_then() {
    let twice = std::num::NonZeroU8::new(2).expect("not 0");
    let profile = open().with_max_attempts(twice);
    let mut hand = Hand::new(profile, |builder| builder);
    let task = Task::begun(hand.admission.admit(Request::new(1, ())));
    hand.settle();
    let again = Task::begun(task.end().expect("a worker is free").requeue());
    hand.settle();
    let last = Task::begun(again.end().expect("its second attempt").requeue());
    hand.settle();
    let error = last.end().expect_err("it was its last");
    assert_eq!(error.outcome(), Some(Outcome::Failed(FailReason::HandOff)));
    assert_eq!(hand.counts(), (0, 0));
}

#[test]
fn an_unpolled_requeue_completes_and_a_waiting_one_cancels() {
    let mut hand = Hand::new(one_at_a_time(), |builder| builder);
    let task = Task::begun(hand.admission.admit(Request::new(1, ())));
    hand.settle();
    drop(task.end().expect("a worker is free").requeue());
    assert_eq!(hand.counts(), (0, 0));

    let task = Task::begun(hand.admission.admit(Request::new(1, ())));
    hand.settle();
    let permit = task.end().expect("a worker is free");
    hand.execute(Command::SetLoad {
        model: FIRST,
        endpoint: permit.endpoint(),
        tokens: 10,
    });
    let back = Task::begun(permit.requeue());
    assert_eq!(hand.counts(), (1, 0));
    drop(back);
    assert_eq!(hand.counts(), (0, 0));
}

#[test]
fn a_requeue_that_finds_the_way_full_tries_again() {
    let mut hand = Hand::new(open(), |builder| builder.feedback_ring(2));
    let mut permits = Vec::new();
    for _ in 0..3 {
        let task = Task::begun(hand.admission.admit(Request::new(1, ())));
        hand.settle();
        permits.push(task.end().expect("a worker is free"));
    }
    let last = permits.pop().expect("three");
    // Two completions fill the ring.
    drop(permits);
    let mut back = Task::begun(last.requeue());
    assert!(back.is_woken(), "it wakes itself");
    assert!(back.poll().is_pending());
    hand.settle();
    assert!(back.poll().is_pending(), "now it is on its way");
    assert!(back.is_woken());
    hand.settle();
    assert_eq!(back.end().expect("a worker is free").attempt(), 2);
}

#[test]
fn a_requeue_into_a_closed_engine_is_refused() {
    let mut hand = Hand::new(open(), |builder| builder);
    let task = Task::begun(hand.admission.admit(Request::new(1, ())));
    hand.settle();
    let permit = task.end().expect("a worker is free");
    hand.execute(Command::Stop {
        drain: tollgate::Nanos(0),
    });
    hand.settle();
    let mut back = Task::new(permit.requeue());
    let std::task::Poll::Ready(Err(error)) = back.poll() else {
        panic!("it is closed");
    };
    assert_eq!(error, AdmitError::Refused(Refusal::Closed));
}
