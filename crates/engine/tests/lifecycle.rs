//! Start, stop, drop and crash, in every order: nobody hangs, and every payload is handed out or dropped
//! exactly once, never on the arbiter's thread.

#![expect(
    clippy::disallowed_methods,
    reason = "these tests need threads and the time that things take"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tollgate::policy::{Bucket, ClassPolicy, Profile, ProfileSpec};
use tollgate::selector::{Activity, Draws, Pool, Selector};
use tollgate::{
    Built, Closed, ControlError, Delivery, EgressShard, Endpoint, EndpointIndex, Engine, Idle,
    ModelIndex, Outcome, Refusal, Request, Worker,
};

/// A class whose workers take one request at a time.
fn one_at_a_time() -> Profile {
    let class = ClassPolicy {
        prefill_busy_threshold: Some(0),
        ..ClassPolicy::matrix("all", "all", 0, 1_000)
    };
    let spec = ProfileSpec::new("all", vec![Bucket::new(0, "any")], vec![class]);
    Profile::build(spec).expect("it is valid")
}

fn small(profile: Profile) -> tollgate::Builder {
    Engine::builder(profile)
        .slots(256)
        .ring(16)
        .dispatch_ring(16)
        .feedback_ring(4)
        .extension_ring(133)
        .extension_blocks(256)
        .workers(8)
        .endpoints(8)
        .classes(1)
        .idle(Idle::SpinThenPark {
            spins: 10,
            yields: 2,
        })
}

/// How often each payload was dropped, and whether any was on the wrong thread.
#[derive(Debug, Default)]
struct Ledger {
    made: AtomicU32,
    dropped: AtomicU32,
    twice: AtomicBool,
    on_arbiter: AtomicBool,
}

#[derive(Debug)]
struct Counted {
    ledger: Arc<Ledger>,
    alive: bool,
}

impl Counted {
    fn new(ledger: &Arc<Ledger>) -> Self {
        ledger.made.fetch_add(1, Ordering::Relaxed);
        Self {
            ledger: Arc::clone(ledger),
            alive: true,
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let was_alive = std::mem::replace(&mut self.alive, false);
        self.ledger.twice.fetch_or(!was_alive, Ordering::Relaxed);
        let on_arbiter = thread::current().name() == Some("tollgate-arbiter");
        self.ledger
            .on_arbiter
            .fetch_or(on_arbiter, Ordering::Relaxed);
        self.ledger.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

impl Ledger {
    fn check(&self, when: &str) {
        let (made, dropped) = (&self.made, &self.dropped);
        assert_eq!(
            made.load(Ordering::Relaxed),
            dropped.load(Ordering::Relaxed),
            "{when}"
        );
        assert!(!self.twice.load(Ordering::Relaxed), "{when}: dropped twice");
        assert!(
            !self.on_arbiter.load(Ordering::Relaxed),
            "{when}: dropped on the arbiter's thread"
        );
    }
}

/// All orders of `count` things.
fn permutations(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let shorter = permutations(count - 1);
    let longer = shorter.into_iter().flat_map(|order| {
        (0..count).map(move |at| {
            let mut order = order.clone();
            order.insert(at, count - 1);
            order
        })
    });
    longer.collect()
}

#[test]
fn handles_may_be_dropped_in_any_order() {
    for order in permutations(6) {
        let ledger = Arc::new(Ledger::default());
        let built = small(one_at_a_time()).worker(Worker::new(1));
        let built = built.build::<Counted>().expect("it is valid");
        let (engine, mut ingress, mut egress) = (built.engine, built.ingress, built.egress);
        let handles = engine.handles().clone();
        for _ in 0..4 {
            let request = Request::new(10, Counted::new(&ledger));
            ingress[0].try_submit(request).expect("there is room");
        }
        // One is received and runs, the others wait, or are on their way.
        let received = egress[0].recv().expect("the engine runs");
        let (mut engine, mut ingress, mut egress) = (Some(engine), Some(ingress), Some(egress));
        let (mut control, mut stats) = (Some(handles.control()), Some(handles.stats()));
        let mut releases = Some(handles.releases());
        drop(handles);
        for &which in &order {
            match which {
                0 => drop(engine.take()),
                1 => drop(ingress.take()),
                2 => drop(egress.take()),
                3 => drop(control.take()),
                4 => drop(stats.take()),
                _ => drop(releases.take()),
            }
        }
        drop(received);
        ledger.check(&format!("{order:?}"));
    }
}

/// Receives until the engine has nothing more; the outcomes in order, and why it closed.
fn receive_all<P>(egress: &mut EgressShard<P>) -> (Vec<Delivery<P>>, Closed) {
    let mut all = Vec::new();
    loop {
        match egress.recv() {
            Ok(delivery) => all.push(delivery),
            Err(closed) => return (all, closed),
        }
    }
}

fn is_shutting_down<P>(delivery: &Delivery<P>) -> bool {
    matches!(delivery, Delivery::Ended(ended) if ended.outcome == Outcome::ShuttingDown)
}

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
    let submit = |shard: &mut tollgate::IngressShard<Counted>| {
        shard.try_submit(Request::new(10, Counted::new(&ledger)))
    };
    for _ in 0..6 {
        submit(&mut ingress[0]).expect("there is room");
    }
    let Delivery::Dispatch(first) = egress[0].recv().expect("it runs") else {
        panic!("the first is dispatched");
    };
    told.store(true, Ordering::Relaxed);
    // The next selection is the last.
    egress[0].complete(first.receipt());
    let (rest, closed) = receive_all(&mut egress[0]);
    assert_eq!(closed, Closed::Lost);
    assert!(rest.iter().all(is_shutting_down), "{rest:?}");
    let refused = submit(&mut ingress[0]).expect_err("it is lost");
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

/// Submits from one thread while another stops; every accepted submission has an outcome or comes back.
fn submit_against_stop<P: Send + 'static>(make: impl Fn() -> P + Sync, rounds: usize) {
    let back = AtomicUsize::new(0);
    for round in 0..rounds {
        let Built {
            engine,
            mut ingress,
            mut egress,
            ..
        } = small(one_at_a_time())
            .worker(Worker::new(1))
            .build::<P>()
            .expect("it is valid");
        let (accepted, taken_back) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let mut delivered = 0;
        thread::scope(|scope| {
            scope.spawn(|| {
                let shard = &mut ingress[0];
                let mut is_open = true;
                while is_open {
                    if round % 2 == 0 {
                        match shard.try_submit(Request::new(1, make())) {
                            Ok(_) => _ = accepted.fetch_add(1, Ordering::Relaxed),
                            Err(refused) => is_open = refused.reason != Refusal::Closed,
                        }
                    } else {
                        let requests = (0..5).map(|_| Request::new(1, make()));
                        shard.submit_batch(requests, |result| match result {
                            Ok(_) => _ = accepted.fetch_add(1, Ordering::Relaxed),
                            Err(refused) => is_open &= refused.reason != Refusal::Closed,
                        });
                    }
                }
                // `closed` is known before the core is gone.
                while !engine.handles().control().stop(Duration::ZERO).is_err() {
                    thread::yield_now();
                }
                while shard.take_back().is_some() {
                    taken_back.fetch_add(1, Ordering::Relaxed);
                }
            });
            scope.spawn(|| {
                for _ in 0..round * 7 {
                    std::hint::spin_loop();
                }
                let _ = engine.control().stop(Duration::ZERO);
            });
            let (all, _) = receive_all(&mut egress[0]);
            delivered = all.len();
        });
        let back_now = taken_back.load(Ordering::Relaxed);
        back.fetch_add(back_now, Ordering::Relaxed);
        assert_eq!(
            accepted.load(Ordering::Relaxed),
            delivered + back_now,
            "round {round}"
        );
        engine.join().expect("nothing panicked");
    }
    println!("{} came back", back.load(Ordering::Relaxed));
}

#[test]
fn what_is_accepted_while_the_engine_stops_has_its_outcome_or_comes_back() {
    submit_against_stop(|| 1_u64, 200);
}

#[test]
fn payloads_of_any_kind_come_out_or_come_back() {
    submit_against_stop(|| Box::new(7_u32), 20);
    submit_against_stop(|| [1_u8; 256], 20);
    let ledger = Arc::new(Ledger::default());
    submit_against_stop(|| Counted::new(&ledger), 20);
    ledger.check("after all rounds");
}

/// A line of `/proc/self/status`, as a number.
fn status(key: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with(key))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[test]
fn a_thousand_starts_and_stops_leak_nothing() {
    let cycle = || {
        let built = small(one_at_a_time()).worker(Worker::new(1)).build::<u64>();
        let mut built = built.expect("it is valid");
        for id in 0..3 {
            built.ingress[0]
                .try_submit(Request::new(10, id))
                .expect("there is room");
        }
        built.egress[0].recv().expect("it runs");
        built.engine.stop().expect("it runs");
    };
    let files = || std::fs::read_dir("/proc/self/fd").map(Iterator::count).ok();
    for _ in 0..100 {
        cycle();
    }
    let (files_before, memory_before) = (files(), status("VmRSS:"));
    for _ in 0..900 {
        cycle();
    }
    // Other tests of this program run beside this one: a thread each, and what they hold.
    assert!(
        files()
            .zip(files_before)
            .is_none_or(|(now, before)| now <= before + 20)
    );
    let grown = status("VmRSS:").zip(memory_before);
    assert!(
        grown.is_none_or(|(now, before)| now <= before + 20_000),
        "resident memory grew: {grown:?} KiB"
    );
    assert!(status("Threads:").is_none_or(|threads| threads < 60));
}

#[test]
fn a_shard_that_never_submits_does_not_hold_up_a_stop() {
    let built = small(one_at_a_time())
        .ingress_shards(2)
        .worker(Worker::new(1));
    let Built {
        engine, ingress, ..
    } = built.build::<u32>().expect("it is valid");
    let begun = Instant::now();
    engine.control().stop(Duration::ZERO).expect("it runs");
    engine.join().expect("nothing panicked");
    assert!(
        begun.elapsed() < Duration::from_millis(100),
        "{:?}",
        begun.elapsed()
    );
    drop(ingress);
}
