//! Threads that panic and shards that are dropped while the engine runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tollgate::selector::{Activity, Draws, Pool, Selector};
use tollgate::{
    Built, Closed, ControlError, Delivery, Endpoint, EndpointIndex, ModelIndex, Refusal, Request,
    Worker,
};

use super::{Counted, Ledger, is_shutting_down, one_at_a_time, receive_all, small};

/// A selector that panics when it is told to.
#[derive(Debug)]
struct Panics(Arc<AtomicBool>);

impl Selector for Panics {
    fn standing(&self, _: Activity) -> u128 {
        0
    }

    fn choose(&mut self, pool: &Pool<'_>, _: &mut Draws) -> EndpointIndex {
        assert!(!self.0.load(Ordering::Relaxed), "the selector was told to");
        pool.iter().next().expect("a pool is never empty")
    }
}

#[test]
fn a_panic_on_the_arbiters_thread_closes_everything_with_an_error() {
    let ledger = Arc::new(Ledger::default());
    let told = Arc::new(AtomicBool::new(false));
    let builder = small(one_at_a_time()).selector(Box::new(Panics(Arc::clone(&told))));
    let Built {
        engine,
        mut ingress,
        mut egress,
        ..
    } = builder.worker(Worker::new(1)).build().expect("it is valid");
    for _ in 0..6 {
        let request = Request::new(10, Counted::new(&ledger));
        ingress[0].try_submit(request).expect("there is room");
    }
    let Delivery::Dispatch(first) = egress[0].recv().expect("it runs") else {
        panic!("the first is dispatched");
    };
    told.store(true, Ordering::Relaxed);
    // The next selection is the last.
    egress[0].complete(first.receipt());
    let (rest, closed) = receive_all(&mut egress[0]);
    assert_eq!(closed, Closed::Lost);
    // The turn in which it panics is completed: one goes out, to the worker that there is.
    let ended = rest.iter().filter(|delivery| is_shutting_down(delivery));
    assert_eq!((rest.len(), ended.count()), (5, 4), "{rest:?}");
    let request = Request::new(10, Counted::new(&ledger));
    let refused = ingress[0].try_submit(request).expect_err("it is lost");
    assert_eq!(refused.reason, Refusal::Closed);
    drop(refused);
    let call = engine
        .control()
        .remove_worker(ModelIndex(0), tollgate::WorkerId(1));
    assert_eq!(call, Err(ControlError::Closed(Closed::Lost)));
    assert_eq!(engine.handles().closed(), Some(Closed::Lost));
    let lost = engine.join().expect_err("it panicked");
    assert_eq!(
        lost.to_string(),
        "a panic ended the engine: the selector was told to"
    );
    drop((first, rest, ingress, egress));
    ledger.check("after the panic");
}

#[test]
fn a_control_call_that_meets_the_panic_returns() {
    for _ in 0..20 {
        let told = Arc::new(AtomicBool::new(false));
        let builder = small(one_at_a_time()).selector(Box::new(Panics(Arc::clone(&told))));
        let builder = builder.worker(Worker::new(1));
        let Built {
            engine,
            mut ingress,
            egress,
            ..
        } = builder.build::<u32>().expect("it is valid");
        told.store(true, Ordering::Relaxed);
        let control = engine.control();
        let caller = thread::spawn(move || {
            for load in 0.. {
                let endpoint = Endpoint::new(1, 0);
                if control.set_load(ModelIndex(0), endpoint, load % 2).is_err() {
                    return;
                }
            }
        });
        let _ = ingress[0].try_submit(Request::new(10, 1));
        caller.join().expect("it hears of the end");
        engine.join().expect_err("it panicked");
        drop(egress);
    }
}

/// A payload whose destructor panics.
#[derive(Debug)]
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !thread::panicking() {
            panic!("a payload went off");
        }
    }
}

#[test]
fn a_payload_that_panics_when_it_is_dropped_stops_nobody() {
    let built = small(one_at_a_time()).egress_shards(2).ingress_shards(2);
    let built = built.worker(Worker::new(0)).worker(Worker::new(1));
    let Built {
        engine,
        mut ingress,
        mut egress,
        ..
    } = built.build::<Bomb>().expect("it is valid");
    for worker in [0, 0, 1, 1] {
        let request = Request {
            pin: Some(Endpoint::new(worker, 0)),
            ..Request::new(10, Bomb)
        };
        ingress[0].try_submit(request).expect("there is room");
    }
    let mut other = egress.pop().expect("two");
    let one = egress.pop().expect("two");
    std::mem::forget(other.recv().expect("worker 1 is free"));
    // What was on its way to worker 0 goes off here.
    thread::spawn(move || drop(one))
        .join()
        .expect_err("it went off");
    engine
        .control()
        .stop(Duration::ZERO)
        .expect("it still runs");
    loop {
        match other.recv() {
            Ok(delivery) => std::mem::forget(delivery),
            Err(closed) => break assert_eq!(closed, Closed::Stopped),
        }
    }
    // Nothing is left, or it goes off there and is told.
    let _ = engine.join();
}

#[test]
fn an_egress_shard_that_is_dropped_while_the_engine_runs_is_replaced() {
    let ledger = Arc::new(Ledger::default());
    let built = small(one_at_a_time()).egress_shards(2);
    let built = built.worker(Worker::new(0)).worker(Worker::new(1));
    let Built {
        engine,
        mut ingress,
        mut egress,
        ..
    } = built.build::<Counted>().expect("it is valid");
    let submit = |shard: &mut tollgate::IngressShard<Counted>, worker| {
        let request = Request {
            pin: Some(Endpoint::new(worker, 0)),
            ..Request::new(10, Counted::new(&ledger))
        };
        shard.try_submit(request).expect("there is room")
    };
    // Worker 1 leaves by shard 1: one request runs there, one waits for it.
    submit(&mut ingress[0], 1);
    submit(&mut ingress[0], 1);
    let mut lost = egress.pop().expect("two");
    let running = lost.recv().expect("worker 1 is free");
    drop(lost);
    // The booking is released, and the other shard serves the worker.
    let Delivery::Dispatch(next) = egress[0].recv().expect("it runs") else {
        panic!("it is dispatched");
    };
    assert_eq!(next.endpoint, Endpoint::new(1, 0));
    egress[0].complete(next.receipt());
    // What the lost shard had is stale now, and touches nothing.
    let Delivery::Dispatch(running) = running else {
        panic!("it was dispatched");
    };
    egress[0].complete(running.receipt());
    submit(&mut ingress[0], 1);
    let Delivery::Dispatch(third) = egress[0].recv().expect("it runs") else {
        panic!("it is dispatched");
    };
    egress[0].complete(third.receipt());
    let control = engine.control();
    let is_idle = || {
        let state = control.snapshot(ModelIndex(0), 0).expect("it runs");
        state.outstanding == 0 && state.waiting == 0
    };
    while !is_idle() {
        thread::yield_now();
    }
    let state = control.snapshot(ModelIndex(0), 0).expect("it runs");
    assert!(
        state
            .endpoints
            .iter()
            .all(|e| e.prefill_tokens == 0 && e.active == 0)
    );
    assert_eq!(state.stale_events, 1);
    engine.stop().expect("it runs");
    let stats = engine.handles().stats();
    engine.join().expect("nothing panicked");
    assert_eq!(stats.read().egress[1].lost, 1);
    drop((ingress, egress, running, next, third));
    ledger.check("after the loss");
}

#[test]
fn outcomes_for_a_lost_egress_shard_leave_by_another() {
    let built = small(one_at_a_time()).egress_shards(2).ingress_shards(2);
    let Built {
        engine,
        mut ingress,
        mut egress,
        ..
    } = built
        .worker(Worker::new(0))
        .build::<u32>()
        .expect("it is valid");
    drop(egress.pop());
    // Shard 1 of two ingress shards has its home there.
    let request = Request {
        pin: Some(Endpoint::new(99, 0)),
        ..Request::new(10, 5)
    };
    ingress[1].try_submit(request).expect("there is room");
    // The loss may be noticed after the outcome, so more than one may be needed.
    let delivery = loop {
        if let Some(delivery) = egress[0]
            .recv_timeout(Duration::from_millis(20))
            .expect("it runs")
        {
            break delivery;
        }
        ingress[1].try_submit(request).expect("there is room");
    };
    assert_eq!(delivery.into_payload(), 5);
    engine.control().stop(Duration::ZERO).expect("it runs");
    engine.join().expect("nothing panicked");
}

#[test]
fn without_any_egress_shard_the_engine_closes() {
    let ledger = Arc::new(Ledger::default());
    let built = small(one_at_a_time()).worker(Worker::new(1));
    let Built {
        engine,
        mut ingress,
        egress,
        ..
    } = built.build::<Counted>().expect("it is valid");
    for _ in 0..5 {
        let request = Request::new(10, Counted::new(&ledger));
        ingress[0].try_submit(request).expect("there is room");
    }
    drop(egress);
    engine.join().expect("nothing panicked");
    let refused = ingress[0].try_submit(Request::new(10, Counted::new(&ledger)));
    assert_eq!(
        refused.map_err(|refused| refused.reason),
        Err(Refusal::Closed)
    );
    drop(ingress);
    ledger.check("without egress");
}
