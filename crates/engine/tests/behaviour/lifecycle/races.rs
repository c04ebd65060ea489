//! Submissions that meet the end of the engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tollgate::{Built, Refusal, Request, Worker};

use super::{Counted, Ledger, one_at_a_time, receive_all, small};

/// Submits from one thread while another stops; every accepted submission has an outcome or comes back.
fn submit_against_stop<P: Send + 'static>(make: impl Fn() -> P + Sync, rounds: usize) {
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
                while engine.control().stop(Duration::ZERO).is_ok() {
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
        assert_eq!(
            accepted.load(Ordering::Relaxed),
            delivered + back_now,
            "round {round}"
        );
        engine.join().expect("nothing panicked");
    }
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
