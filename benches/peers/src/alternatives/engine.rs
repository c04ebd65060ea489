//! Tollgate's engine: turned by hand on one thread, and with the arbiter on a thread of its own.

use tollgate::policy::OrderPolicy;
use tollgate::{Built, ByHand, EgressShard, Idle, IngressShard};
use tollgate_harness::machine::{Cores, on_core};
use tollgate_harness::pipeline::{BATCH, Gate, Receiver, Rig, Submitter};

use super::Setting;
use super::work::{Once, WINDOW, asks};
use crate::measure::time;

/// The engine of the other benchmarks: 8 classes, 256 endpoints, thresholds out of reach.
const RIG: Rig = Rig {
    order: OrderPolicy::Fcfs,
    gate: Gate::Open,
    ingress_shards: 1,
    idle: Idle::Spin,
};

/// Everything on the calling thread.
pub(super) fn by_hand(setting: &Setting) -> f64 {
    let built = RIG.builder(Cores::NOBODY).build_by_hand();
    let ByHand {
        mut core,
        handles,
        ingress,
        mut egress,
    } = built.expect("the rig is valid");
    let clock = handles.clock();
    let mut lives = Lives::new(ingress, egress.remove(0));
    lives.warm_then_timed(setting.requests, || {
        core.turn(clock.now());
    })
}

/// The arbiter on one core, the thread that submits and receives on the other.
pub(super) fn with_threads(setting: &Setting) -> f64 {
    let Built {
        engine,
        ingress,
        mut egress,
        ..
    } = RIG
        .builder(setting.cores)
        .build()
        .expect("the rig is valid");
    let mut lives = Lives::new(ingress, egress.remove(0));
    let nanos = on_core(setting.cores.shards, move || {
        lives.warm_then_timed(setting.requests, || ())
    });
    drop(engine);
    nanos
}

/// A closed loop: requests are submitted as far as the window allows, received and completed, in batches.
struct Lives {
    submitter: Submitter,
    receiver: Receiver,
}

impl Lives {
    fn new(ingress: Vec<IngressShard<u64>>, egress: EgressShard<u64>) -> Self {
        Self {
            submitter: Submitter::of(asks(), ingress),
            receiver: Receiver::new(egress, false),
        }
    }

    /// Nanoseconds a request, after a quarter as many that nobody times.
    fn warm_then_timed(&mut self, requests: u32, mut turn: impl FnMut()) -> f64 {
        self.run(requests / 4, &mut turn);
        let ((), nanos) = time(u64::from(requests), || self.run(requests, &mut turn));
        nanos
    }

    fn run(&mut self, requests: u32, turn: &mut impl FnMut()) {
        let mut once = Once::new(requests);
        let requests = u64::from(requests);
        let (mut sent, mut received) = (0, 0);
        while received < requests {
            let room = u64::from(WINDOW) - (sent - received);
            let batch = room.min(BATCH as u64).min(requests - sent);
            if batch > 0 {
                let ids = sent..sent + batch;
                let accepted = self.submitter.submit(ids, |_| ());
                assert_eq!(accepted as u64, batch, "the window fits into every ring");
                sent += batch;
            }
            turn();
            let count = self.receiver.receive(|id| {
                once.tick(u32::try_from(id).expect("they are counted in 32 bits"));
            });
            received += count as u64;
        }
        once.finish();
    }
}
