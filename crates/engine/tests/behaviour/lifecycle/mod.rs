//! Start, stop, drop and crash, in every order: nobody hangs, and every payload is handed out or dropped
//! exactly once, never on the arbiter's thread.

#![expect(
    clippy::disallowed_methods,
    reason = "these tests need threads and the time that things take"
)]

mod drops;
mod losses;
mod races;
mod stops;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use tollgate::policy::{Bucket, ClassPolicy, Profile, ProfileSpec};
use tollgate::{Closed, Delivery, EgressShard, Engine, Idle, Outcome};

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
