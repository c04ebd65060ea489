//! Threads that have less of a processor than they would like.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tollgate::placement::{current_core, pin_current_thread};
use tollgate::{Idle, Refusal, Request, Worker};

use super::{dispatch, now, small};

/// Two threads submit and two receive so many requests, on the cores that the calling thread may use;
/// how long that took. Every request is dispatched once, and refused for lack of room alone.
fn work_off(idle: Idle, requests: u64) -> Duration {
    let builder = (0..4).fold(small(), |builder, id| builder.worker(Worker::new(id)));
    let builder = builder.ingress_shards(2).egress_shards(2).slots(512);
    let built = builder.idle(idle).build::<u64>();
    let built = built.unwrap_or_else(|errors| panic!("{errors}"));
    let begun = now();
    let mut received = thread::scope(|scope| {
        let receivers = built.egress.into_iter().map(|mut egress| {
            scope.spawn(move || {
                let mut received = Vec::new();
                while let Ok(delivery) = egress.recv() {
                    let dispatch = dispatch(Some(delivery));
                    egress.complete(dispatch.receipt());
                    received.push(dispatch.payload);
                }
                received
            })
        });
        let receivers: Vec<_> = receivers.collect();
        let submitters = (0..).zip(built.ingress).map(|(shard, mut ingress)| {
            scope.spawn(move || {
                for number in 0..requests / 2 {
                    let mut request = Request::new(1, 2 * number + shard);
                    while let Err(refused) = ingress.try_submit(request) {
                        assert!(matches!(refused.reason, Refusal::Full { .. }));
                        request = refused.request;
                        thread::yield_now();
                    }
                }
            })
        });
        let submitters: Vec<_> = submitters.collect();
        for submitter in submitters {
            submitter.join().expect("it only submits");
        }
        built.engine.stop().expect("it runs");
        let received = receivers.into_iter();
        let received = received.map(|receiver| receiver.join().expect("it only receives"));
        received.flatten().collect::<Vec<u64>>()
    });
    let took = begun.elapsed();
    received.sort_unstable();
    assert_eq!(received, (0..requests).collect::<Vec<_>>());
    took
}

/// Runs a test on a thread of its own that may use one core alone, and so may all that it starts.
fn on_one_core<T: Send>(test: impl FnOnce() -> T + Send) -> T {
    let pinned = || {
        let core = current_core().expect("the system tells");
        pin_current_thread(core).expect("it runs there already");
        test()
    };
    thread::scope(|scope| scope.spawn(pinned).join().expect("the test says why"))
}

/// Five threads on one core, none of which may keep the others from running for long.
#[test]
fn an_engine_on_one_core_is_slower_and_does_not_stand_still() {
    const REQUESTS: u64 = 100_000;
    for idle in [Idle::default(), Idle::Spin, Idle::Park] {
        let many = work_off(idle, REQUESTS);
        let one = on_one_core(|| work_off(idle, REQUESTS));
        assert!(
            one <= many * 20 + Duration::from_secs(1),
            "{idle}: {one:?} on one core, {many:?} on all"
        );
    }
}

/// Lets the neighbours go, also where the test fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Two threads that never stop, on the core of all the others.
#[test]
fn busy_neighbours_cost_time_and_no_request() {
    for idle in [Idle::default(), Idle::Spin, Idle::Park] {
        on_one_core(|| {
            let goes_on = AtomicBool::new(true);
            thread::scope(|scope| {
                let _end = End(&goes_on);
                for _ in 0..2 {
                    scope.spawn(|| {
                        while goes_on.load(Ordering::Relaxed) {
                            std::hint::spin_loop();
                        }
                    });
                }
                work_off(idle, 2_000);
            });
        });
    }
}
