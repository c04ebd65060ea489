//! One request at a time: how it becomes a permit, and what becomes of the permit.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tollgate::{
    AdmitError, ClassIndex, Command, Endpoint, FailReason, InvalidRequest, LimitKind, Nanos,
    Outcome, Permit, Refusal, Request, Worker, WorkerId,
};

use crate::common::{Admitted, FIRST, Hand, Task, classes, one_at_a_time, open};

fn is_threadsafe<T: Send + Sync>() {}

#[test]
fn an_admission_is_shared_and_its_futures_and_permits_move_between_threads() {
    is_threadsafe::<tollgate::Admission>();
    is_threadsafe::<Permit>();
    is_threadsafe::<tollgate::Admit<'static>>();
    is_threadsafe::<tollgate::Requeue>();
    fn is_cloned<T: Clone>() {}
    is_cloned::<tollgate::Admission>();
}

#[test]
fn a_permit_says_where_the_request_goes_and_what_it_was_charged_by() {
    let mut hand = Hand::new(open(), |builder| builder);
    let request = Request {
        cached_tokens: 100,
        ..Request::new(512, ())
    };
    let task = Task::begun(hand.admission.admit(request));
    hand.settle();
    let permit = task.end().expect("a worker is free");
    assert_eq!(permit.endpoint(), Endpoint::new(1, 0));
    assert_eq!((permit.attempt(), permit.class().0), (1, 0));
    assert_eq!(permit.snapshot().cost(), 412);
    assert!(permit.submitted_at() <= permit.dispatched_at());
    assert_eq!(hand.counts(), (0, 1));
}

#[test]
fn a_future_tells_its_class_while_it_waits() {
    let policy = classes(&[
        "a quantum: 1000, prefill_busy_threshold: 0",
        "b quantum: 1, prefill_busy_threshold: 0",
    ]);
    let mut hand = Hand::new(policy, |builder| builder);
    let first = Task::begun(hand.admission.admit(Request::new(1, ())));
    hand.settle();
    let request = Request {
        family: Some("b"),
        ..Request::new(1, ())
    };
    let mut waiting = std::pin::pin!(hand.admission.admit(request));
    assert_eq!(waiting.class(), None, "it was not submitted yet");
    let mut context = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    assert_eq!(waiting.class(), Some(ClassIndex(1)));
    assert_eq!(hand.counts(), (1, 1));
    drop(first.end());
}

#[test]
fn nothing_is_submitted_before_the_first_poll() {
    let mut hand = Hand::new(open(), |builder| builder);
    let unpolled = hand.admission.admit(Request::new(1, ()));
    assert_eq!(hand.counts(), (0, 0));
    drop(unpolled);
    assert_eq!(hand.counts(), (0, 0));
}

#[test]
fn dropping_a_permit_completes_its_request_and_lets_the_next_one_go() {
    let mut hand = Hand::new(one_at_a_time(), |builder| builder);
    let first = Task::begun(hand.admission.admit(Request::new(1, ())));
    let mut second = Task::begun(hand.admission.admit(Request::new(1, ())));
    hand.settle();
    let permit = first.end().expect("a worker is free");
    assert!(!second.is_woken());
    assert!(second.poll().is_pending());
    drop(permit);
    hand.settle();
    second.end().expect("it is free again").complete();
    assert_eq!(hand.counts(), (0, 0));
}

#[test]
fn prefill_done_frees_the_tokens_and_keeps_the_booking() {
    let mut hand = Hand::new(one_at_a_time(), |builder| builder);
    let first = Task::begun(hand.admission.admit(Request::new(1, ())));
    let second = Task::begun(hand.admission.admit(Request::new(1, ())));
    hand.settle();
    let mut permit = first.end().expect("a worker is free");
    permit.prefill_done();
    permit.prefill_done();
    hand.settle();
    let other = second.end().expect("its tokens are free");
    assert_eq!(hand.counts(), (0, 2));
    assert_eq!(hand.state().stale_events, 0, "the second call did nothing");
    drop((permit, other));
    assert_eq!(hand.counts(), (0, 0));
}

#[test]
fn dropping_a_future_cancels_the_waiting_request() {
    let mut hand = Hand::new(one_at_a_time(), |builder| builder);
    let first = Task::begun(hand.admission.admit(Request::new(1, ())));
    let waiting = Task::begun(hand.admission.admit(Request::new(1, ())));
    assert_eq!(hand.counts(), (1, 1));
    drop(waiting);
    assert_eq!(hand.counts(), (0, 1));
    drop(first.end());
    assert_eq!(hand.counts(), (0, 0));
}

#[test]
fn a_dispatch_that_finds_its_future_gone_is_released_at_once() {
    let mut hand = Hand::new(open(), |builder| builder);
    let task = Task::begun(hand.admission.admit(Request::new(1, ())));
    // It is dispatched, but not delivered yet.
    hand.core.turn(hand.handles.clock().now());
    assert_eq!(hand.state().outstanding, 1);
    drop(task);
    assert_eq!(hand.counts(), (0, 0));
}

#[test]
fn a_grant_that_nobody_looks_at_is_released_with_its_future() {
    let mut hand = Hand::new(open(), |builder| builder);
    let mut task = Task::begun(hand.admission.admit(Request::new(1, ())));
    hand.settle();
    assert!(task.is_woken());
    assert_eq!(hand.counts(), (0, 1));
    drop(task);
    assert_eq!(hand.counts(), (0, 0));
}

#[test]
fn what_is_not_dispatched_tells_its_outcome() {
    let profile =
        classes(&["a quantum: 10, prefill_busy_threshold: 0, request_queue_limit_per_worker: 1"]);
    let mut hand = Hand::new(profile, |builder| builder);
    let permit = Task::begun(hand.admission.admit(Request::new(1, ())));
    let waits = Task::begun(hand.admission.admit(Request::new(1, ())));
    let too_many = Task::begun(hand.admission.admit(Request::new(1, ())));
    let nobody = Request {
        allow: Some(&[]),
        ..Request::new(1, ())
    };
    let nobody = Task::begun(hand.admission.admit(nobody));
    let past = Request {
        deadline: Some(Nanos(0)),
        ..Request::new(1, ())
    };
    let past = Task::begun(hand.admission.admit(past));
    hand.settle();
    let outcome = |task: Task<tollgate::Admit<'_>>| {
        let error = task.end().expect_err("it is not dispatched");
        error.outcome().expect("it was taken in")
    };
    let Outcome::Rejected(rejection) = outcome(too_many) else {
        panic!("the limit is reached");
    };
    assert_eq!(
        (
            rejection.kind,
            rejection.current,
            rejection.limit,
            rejection.workers
        ),
        (LimitKind::Requests, 1, 1, 1)
    );
    assert_eq!(
        outcome(nobody),
        Outcome::Failed(FailReason::NoEligibleWorker)
    );
    assert_eq!(outcome(past), Outcome::Expired);
    drop((permit, waits));
    assert_eq!(hand.counts(), (0, 0));
}

#[test]
fn an_invalid_request_is_refused_at_once() {
    let hand = Hand::new(open(), |builder| builder);
    let request = Request {
        priority_jump: f64::NAN,
        ..Request::new(1, ())
    };
    let refused = Task::new(hand.admission.admit(request)).poll();
    let Poll::Ready(Err(AdmitError::Refused(Refusal::Invalid(reason)))) = refused else {
        panic!("{refused:?}");
    };
    assert!(matches!(reason, InvalidRequest::JumpNotFinite { .. }));
}

#[test]
fn a_deadline_passes_while_it_waits() {
    let mut hand = Hand::new(one_at_a_time(), |builder| builder);
    let permit = Task::begun(hand.admission.admit(Request::new(1, ())));
    let soon = hand
        .handles
        .clock()
        .now()
        .saturating_add(Nanos::from_micros(2_000));
    let timed = Request {
        deadline: Some(soon),
        ..Request::new(1, ())
    };
    let mut timed = Task::begun(hand.admission.admit(timed));
    hand.settle();
    assert!(!timed.is_woken());
    std::thread::sleep(Duration::from_millis(3));
    hand.settle();
    let error = timed.end().expect_err("its time is over");
    assert_eq!(error.outcome(), Some(Outcome::Expired));
    drop(permit);
}

#[test]
fn a_worker_that_comes_lets_a_waiting_task_go() {
    let mut hand = Hand::new(one_at_a_time(), |builder| builder);
    let first = Task::begun(hand.admission.admit(Request::new(1, ())));
    let mut second = Task::begun(hand.admission.admit(Request::new(1, ())));
    hand.settle();
    assert!(!second.is_woken());
    hand.execute(Command::UpsertWorker {
        model: FIRST,
        worker: Worker::new(2),
    });
    hand.settle();
    let permit = second.end().expect("there is a free worker");
    assert_eq!(permit.endpoint().worker, WorkerId(2));
    drop(first);
}

#[test]
fn a_waker_that_changes_is_the_one_that_is_woken() {
    let mut hand = Hand::new(one_at_a_time(), |builder| builder);
    let permit = Task::begun(hand.admission.admit(Request::new(1, ())));
    hand.settle();
    let future = hand.admission.admit(Request::new(1, ()));
    let mut early = Task::begun(future);
    // Another task takes the future over.
    let wakes = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    struct Counts(Arc<std::sync::atomic::AtomicUsize>);
    impl std::task::Wake for Counts {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }
    let waker = Waker::from(Arc::new(Counts(Arc::clone(&wakes))));
    let mut context = Context::from_waker(&waker);
    assert!(early.poll_with(&mut context).is_pending());
    drop(permit);
    hand.settle();
    assert_eq!(wakes.load(std::sync::atomic::Ordering::Relaxed), 1);
    assert!(!early.is_woken());
    assert!(early.poll().is_ready());
}

/// Releases come by mail where the ring is full, from a thread that never submitted.
#[test]
fn permits_dropped_where_every_ring_is_full_are_released() {
    let mut hand = Hand::new(open(), |builder| {
        builder.feedback_ring(2).ring(2).dispatch_ring(4).slots(64)
    });
    let mut permits: Vec<Permit> = Vec::new();
    for _ in 0..32 {
        let task = Task::begun(hand.admission.admit(Request::new(1, ())));
        hand.settle();
        permits.push(task.end().expect("a worker is free"));
    }
    // Two submissions fill the ring to the arbiter, which does not turn meanwhile.
    let full: Vec<_> = (0..2)
        .map(|_| Task::begun(hand.admission.admit(Request::new(1, ()))))
        .collect();
    let refused = Task::new(hand.admission.try_admit(Request::new(1, ()))).poll();
    assert!(matches!(
        refused,
        Poll::Ready(Err(AdmitError::Refused(Refusal::Full { .. })))
    ));
    std::thread::spawn(move || drop(permits))
        .join()
        .expect("a drop does not panic");
    assert_eq!(hand.counts(), (0, 2));
    let mail: u64 = hand.handles.stats().read().egress[0].releases_by_mail;
    assert!(mail >= 30, "{mail} went by mail");
    let ends: Vec<Admitted> = full.into_iter().map(Task::end).collect();
    assert!(ends.iter().all(Result::is_ok));
    drop(ends);
    assert_eq!(hand.counts(), (0, 0));
}

#[test]
fn every_egress_shard_has_its_courier() {
    let mut hand = Hand::new(open(), |builder| {
        let builder = builder.egress_shards(3).ingress_shards(2);
        (2..=6).fold(builder, |builder, id| builder.worker(Worker::new(id)))
    });
    assert_eq!(hand.couriers.len(), 3);
    for worker in 1..=6 {
        let request = Request {
            pin: Some(Endpoint::new(worker, 0)),
            ..Request::new(5, ())
        };
        let task = Task::begun(hand.admission.admit(request));
        hand.settle();
        let mut permit = task.end().expect("its worker is free");
        permit.prefill_done();
        assert_eq!(permit.endpoint().worker, WorkerId(worker));
    }
    assert_eq!(hand.counts(), (0, 0));
    assert_eq!(hand.state().stale_events, 0);
}

#[test]
fn wakers_of_futures_that_are_gone_are_not_kept() {
    let mut hand = Hand::new(one_at_a_time(), |builder| builder);
    let holder = Task::begun(hand.admission.admit(Request::new(1, ())));
    hand.settle();
    let permit = holder.end().expect("a worker is free");
    let waiting = Task::begun(hand.admission.admit(Request::new(1, ())));
    let invalid = Request {
        priority_jump: f64::NAN,
        ..Request::new(1, ())
    };
    let mut refused = Task::new(hand.admission.admit(invalid));
    assert!(refused.poll().is_ready());
    let kept = [waiting.wakes(), refused.wakes()];
    drop((waiting, refused));
    hand.settle();
    for wakes in kept {
        assert_eq!(Arc::strong_count(&wakes), 1, "nobody but this test has it");
    }
    drop(permit);
}

/// A panic whose payload panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "the payload is dropped");
    }
}

#[test]
fn a_waker_that_panics_concerns_its_own_task_alone() {
    struct Broken;
    impl std::task::Wake for Broken {
        fn wake(self: Arc<Self>) {
            std::panic::panic_any(Bomb);
        }
    }
    let mut hand = Hand::new(open(), |builder| builder);
    let waker = Waker::from(Arc::new(Broken));
    let mut broken = Task::new(hand.admission.admit(Request::new(1, ())));
    let mut context = Context::from_waker(&waker);
    assert!(broken.poll_with(&mut context).is_pending());
    let other = Task::begun(hand.admission.admit(Request::new(1, ())));
    hand.settle();
    assert!(other.end().is_ok());
    drop(broken);
    assert_eq!(hand.counts(), (0, 0));
}
