//! A selector of the embedder's own: what it is asked, and what its panic leaves behind.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::common::ledger::{Entry, Ledger};
use crate::common::{FIRST, Hand, classes, one_at_a_time, open, text, within};
use tollgate::selector::{Activity, Draws, Pool, Selector};
use tollgate::{
    Builder, Closed, Command, ControlError, Endpoint, EndpointIndex, Engine, Nanos, Request, Worker,
};

/// Where a selector panics from now on.
#[derive(Clone, Debug, Default)]
struct Switch {
    standing: Arc<AtomicBool>,
    choose: Arc<AtomicBool>,
}

/// Takes the last endpoint of a pool, or panics.
#[derive(Debug)]
struct Last(Switch);

impl Selector for Last {
    fn standing(&self, activity: Activity) -> u128 {
        assert!(!self.0.standing.load(SeqCst), "no standing");
        u128::from(activity.active)
    }

    fn choose(&mut self, pool: &Pool<'_>, _: &mut Draws) -> EndpointIndex {
        assert!(!self.0.choose.load(SeqCst), "no choice");
        pool.iter().last().expect("a pool is never empty")
    }
}

/// Names an endpoint that is not in the pool.
#[derive(Debug)]
struct Outsider;

impl Selector for Outsider {
    fn standing(&self, _: Activity) -> u128 {
        0
    }

    fn choose(&mut self, pool: &Pool<'_>, _: &mut Draws) -> EndpointIndex {
        let last = pool.iter().last().expect("a pool is never empty");
        EndpointIndex(last.0 + 1)
    }
}

fn with_last(switch: &Switch) -> impl FnOnce(Builder) -> Builder {
    let selector = Last(switch.clone());
    |builder| builder.selector(Box::new(selector))
}

/// The message that a turn panics with.
fn turn_panics<P>(hand: &mut Hand<P>) -> String {
    let panic = catch_unwind(AssertUnwindSafe(|| hand.turn())).expect_err("it panics");
    match panic.downcast_ref::<&str>() {
        Some(message) => (*message).to_owned(),
        None => panic.downcast_ref::<String>().expect("a text").clone(),
    }
}

#[test]
fn s10_2_an_embedders_selector_chooses_also_after_a_reload() {
    let mut hand = Hand::with_workers(open(), [1, 2, 3], with_last(&Switch::default()));
    hand.submit(Request::new(1, 0));
    hand.turn();
    hand.reload(one_at_a_time()).expect("it fits");
    for number in 1..4 {
        hand.submit(Request::new(1, number));
    }
    hand.turn();
    // Worker 3 is busy under the new policy.
    assert_eq!(hand.told(0), ["0 -> 3.0", "1 -> 2.0", "2 -> 1.0"]);
}

#[test]
fn a_panic_in_a_choice_ends_the_turn_after_it_is_delivered() {
    let switch = Switch::default();
    let mut hand = Hand::with_workers(open(), [1, 2], with_last(&switch));
    hand.submit(Request::new(1, 0));
    hand.submit(Request::new(1, 1));
    switch.choose.store(true, SeqCst);
    assert_eq!(turn_panics(&mut hand), "no choice");
    // Both go to the first free worker.
    assert_eq!(hand.told(0), ["0 -> 1.0", "1 -> 1.0"]);
}

#[test]
fn a_panic_in_the_middle_of_a_submission_loses_no_payload() {
    let policy = "a quantum: 9, request_queue_limit_per_worker: 1";
    let (switch, ledger) = (Switch::default(), Ledger::new(3));
    let mut hand = Hand::with_workers(classes(&[policy]), [1], with_last(&switch));
    // The second finds the limit reached: the first is dispatched while the second is in hand.
    for id in 0..3 {
        hand.submit(Request::new(1, ledger.entry(id)));
    }
    switch.choose.store(true, SeqCst);
    turn_panics(&mut hand);
    assert_eq!(ledger.dropped(), 0);
    assert_eq!(hand.told(0), ["0 -> 1.0", "1 -> 1.0", "2 -> 1.0"]);
    drop(hand);
    ledger.assert_settled(3);
}

#[test]
fn a_panic_in_a_requeue_loses_no_payload() {
    let switch = Switch::default();
    let mut hand = Hand::with_workers(open(), [1], with_last(&switch));
    hand.submit(Request::new(1, 7));
    hand.turn();
    let dispatch = hand.dispatch(0);
    switch.standing.store(true, SeqCst);
    assert!(hand.egress[0].requeue(dispatch).is_ok());
    assert_eq!(turn_panics(&mut hand), "no standing");
    assert_eq!(hand.told(0), ["7 -> 1.0#2"]);
}

#[test]
fn a_panic_in_a_control_call_is_told_by_the_next_turn() {
    let switch = Switch::default();
    let mut hand = Hand::<u64>::with_workers(open(), [1], with_last(&switch));
    switch.standing.store(true, SeqCst);
    hand.set_load(1, 5);
    assert_eq!(turn_panics(&mut hand), "no standing");
    assert_eq!(hand.state().endpoints[0].prefill_tokens, 5);
}

/// Names an endpoint that no engine has.
#[derive(Debug)]
struct Nowhere;

impl Selector for Nowhere {
    fn standing(&self, _: Activity) -> u128 {
        0
    }

    fn choose(&mut self, pool: &Pool<'_>, _: &mut Draws) -> EndpointIndex {
        assert!(!pool.contains(EndpointIndex(u32::MAX)));
        EndpointIndex(u32::MAX)
    }
}

#[test]
fn who_chooses_what_does_not_exist_ends_the_engine_with_a_reason() {
    let builder = |builder: Builder| builder.selector(Box::new(Nowhere));
    let mut hand = Hand::with_workers(open(), [1], builder);
    hand.submit(Request::new(1, 7));
    let message = turn_panics(&mut hand);
    assert_eq!(message, "a selector chose an endpoint that is not free");
    assert_eq!(hand.told(0), ["7 -> 1.0"]);
}

#[test]
fn who_chooses_what_is_not_free_ends_the_engine() {
    let builder = |builder: Builder| builder.selector(Box::new(Outsider));
    let mut hand = Hand::with_workers(open(), [1], builder);
    hand.submit(Request::new(1, 7));
    let message = turn_panics(&mut hand);
    assert_eq!(message, "a selector chose an endpoint that is not free");
    assert_eq!(hand.told(0), ["7 -> 1.0"]);
}

#[test]
fn a_call_that_meets_the_panic_on_the_thread_returns() {
    within(20, || {
        let switch = Switch::default();
        let builder = with_last(&switch)(Engine::builder(open()));
        let built = builder.worker(Worker::new(1)).build::<u64>();
        let mut built = built.unwrap_or_else(|errors| panic!("{errors}"));
        let control = built.engine.control();
        switch.standing.store(true, SeqCst);
        let endpoint = Endpoint::new(1, 0);
        // The call itself is carried out; the engine is lost in the same turn.
        assert_eq!(control.set_load(FIRST, endpoint, 5), Ok(()));
        assert_eq!(built.egress[0].recv().map(|_| ()), Err(Closed::Lost));
        let lost = Err(ControlError::Closed(Closed::Lost));
        assert_eq!(control.set_load(FIRST, endpoint, 6), lost);
        let joined = built.engine.join().expect_err("it panicked");
        assert_eq!(joined.message, "no standing");
    });
}

#[test]
fn a_panic_while_the_engine_closes_cuts_nothing_short() {
    within(20, || {
        let (switch, ledger) = (Switch::default(), Ledger::new(6));
        let builder = with_last(&switch)(Engine::builder(one_at_a_time()));
        let built = builder.worker(Worker::new(1)).build::<Entry>();
        let mut built = built.unwrap_or_else(|errors| panic!("{errors}"));
        for id in 0..6 {
            let request = Request::new(1, ledger.entry(id));
            built.ingress[0].try_submit(request).expect("there is room");
        }
        let first = built.egress[0].recv().expect("the worker is free");
        let tollgate::Delivery::Dispatch(first) = first else {
            panic!("it is dispatched")
        };
        switch.standing.store(true, SeqCst);
        switch.choose.store(true, SeqCst);
        // The completion is found by a turn or by the close: either way the selector is asked.
        built.egress[0].complete(first.receipt());
        let _ = built.engine.control().stop(std::time::Duration::ZERO);
        let mut told = Vec::new();
        while let Ok(delivery) = built.egress[0].recv() {
            told.push(text(&delivery));
        }
        assert_eq!(told.len(), 5, "{told:?}");
        let joined = built.engine.join().expect_err("it panicked");
        assert_eq!(joined.message, "no standing");
        drop((first, built.ingress, built.egress));
        ledger.assert_settled(6);
    });
}

#[test]
fn a_core_by_hand_closes_whole_after_a_panic() {
    let (switch, ledger) = (Switch::default(), Ledger::new(4));
    let mut hand = Hand::with_workers(one_at_a_time(), [1], with_last(&switch));
    for id in 0..4 {
        hand.submit(Request::new(1, ledger.entry(id)));
    }
    switch.choose.store(true, SeqCst);
    turn_panics(&mut hand);
    let Hand {
        core, mut egress, ..
    } = hand;
    drop(core);
    let mut told = Vec::new();
    while let Ok(delivery) = egress[0].recv() {
        told.push(text(&delivery));
    }
    let ended = |id| format!("{id} shutting_down");
    assert_eq!(told, ["0 -> 1.0".to_owned(), ended(1), ended(2), ended(3)]);
    ledger.assert_settled(4);
}

#[test]
fn a_call_by_hand_beside_calls_of_other_threads_does_not_wait_for_itself() {
    within(60, || {
        let mut hand = Hand::<u64>::with_workers(open(), [1, 2], |builder| builder);
        let control = hand.control.clone();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let caller = scope.spawn(|| {
                let mut calls = 0;
                while !over.load(SeqCst) {
                    let endpoint = Endpoint::new(1, 0);
                    control
                        .set_load(FIRST, endpoint, calls)
                        .expect("it is known");
                    calls += 1;
                }
                calls
            });
            for tokens in 0..2_000 {
                hand.set_load(2, tokens);
            }
            over.store(true, SeqCst);
            // The last call of the other thread may wait for a turn.
            while !caller.is_finished() {
                hand.turn();
            }
            let calls = caller.join().expect("every call is carried out");
            let loads: Vec<_> = hand
                .state()
                .endpoints
                .iter()
                .map(|e| e.prefill_tokens)
                .collect();
            assert_eq!(loads, [calls.saturating_sub(1), 1_999]);
        });
        let stop = Command::Stop { drain: Nanos(0) };
        hand.execute(stop).expect("it runs");
        assert!(hand.turn().closed);
        assert!(hand.execute(Command::Stop { drain: Nanos(0) }).is_err());
    });
}
