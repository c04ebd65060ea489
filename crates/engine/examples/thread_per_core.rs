//! The skeleton of a router: threads that take requests in, threads that hand them to workers, the
//! arbiter between them, each on a core of its own where there are enough, and an orderly end.
//!
//! Ingress threads make up requests, each of one class; where there is no room they wait a moment and try
//! again, so that classes which wait get what their quanta say. Egress threads play the workers: a dispatch
//! prefills for a while, decodes for a while, and is complete. After some time the main thread stops the
//! engine: what waits is still served, and every thread ends by itself when it is told that the engine is
//! closed.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "an example shows what happens, and its threads wait"
)]

use std::collections::VecDeque;
use std::error::Error;
use std::thread;
use std::time::Duration;

use tollgate::placement::{CoreId, Machine, PinError, Placement, Role};
use tollgate::policy::{Bucket, ClassPolicy, Profile, ProfileSpec};
use tollgate::stats::Snapshot;
use tollgate::{
    Built, Clock, Closed, Delivery, EgressShard, Engine, IngressShard, Nanos, Receipt, Refusal,
    Refused, Request, Worker,
};

/// What each ingress thread's clients are.
const FAMILIES: [&str; 2] = ["premium", "regular"];
const INGRESS_THREADS: usize = FAMILIES.len();
const EGRESS_THREADS: usize = 2;
const WORKERS: u64 = 8;
/// Until the engine is stopped.
const OPEN_FOR: Duration = Duration::from_millis(500);
/// What a worker takes for a request, whatever its length.
const PREFILL: Nanos = Nanos::from_micros(200);
const DECODE: Nanos = Nanos::from_micros(300);

/// Four premium tokens for each regular one as long as both wait, and one prefill at a time on each
/// worker.
fn policy() -> Result<Profile, Box<dyn Error>> {
    let class = |name, quantum| {
        let mut class = ClassPolicy::matrix(name, name, 0, quantum);
        class.prefill_busy_threshold = Some(0);
        class
    };
    let classes = vec![class("premium", 4_096), class("regular", 1_024)];
    let buckets = vec![Bucket::new(0, "all")];
    Ok(Profile::build(ProfileSpec::new(
        "regular", buckets, classes,
    ))?)
}

/// A core for everybody, the last one for the arbiter; where there are too few, for the arbiter alone;
/// where there is only one, for nobody.
fn placement() -> Placement {
    let pinnable = Machine::read().pinnable().unwrap_or_default();
    let mut cores: Vec<CoreId> = pinnable.iter().collect();
    let mut placement = Placement::default();
    if cores.len() > 1 {
        placement.arbiter = cores.pop();
    }
    if cores.len() >= INGRESS_THREADS + EGRESS_THREADS {
        placement.ingress = cores.drain(..INGRESS_THREADS).collect();
        placement.egress = cores.drain(..EGRESS_THREADS).collect();
    }
    placement
}

/// Takes requests of a family in until the engine is closed; how many it accepted.
fn take_in(mut shard: IngressShard<u64>, family: &str) -> u64 {
    let mut accepted = 0;
    loop {
        let request = Request {
            family: Some(family),
            ..Request::new(256 + (accepted % 7) as u32 * 256, accepted)
        };
        match shard.try_submit(request) {
            Ok(_ticket) => accepted += 1,
            Err(Refused {
                reason: Refusal::Full { .. },
                ..
            }) => thread::sleep(Duration::from_micros(100)),
            Err(refused) => {
                println!("ingress ends after {accepted} requests: {}", refused.reason);
                return accepted;
            }
        }
    }
}

/// Requests that run, in the order in which something is due.
struct Running {
    clock: Clock,
    prefills: VecDeque<(Nanos, Receipt)>,
    decodes: VecDeque<(Nanos, Receipt)>,
}

impl Running {
    fn new(clock: Clock) -> Self {
        Self {
            clock,
            prefills: VecDeque::new(),
            decodes: VecDeque::new(),
        }
    }

    fn begin(&mut self, receipt: Receipt) {
        let due = self.clock.now().saturating_add(PREFILL);
        self.prefills.push_back((due, receipt));
    }

    /// Releases what is due.
    fn release(&mut self, shard: &mut EgressShard<u64>) {
        let now = self.clock.now();
        let mut feedback = shard.feedback();
        while let Some((_, receipt)) = self.prefills.pop_front_if(|(due, _)| *due <= now) {
            feedback.prefill_done(receipt);
            self.decodes
                .push_back((now.saturating_add(DECODE), receipt));
        }
        while let Some((_, receipt)) = self.decodes.pop_front_if(|(due, _)| *due <= now) {
            feedback.complete(receipt);
        }
    }

    /// How long nothing is due.
    fn leisure(&self) -> Duration {
        let due = [self.prefills.front(), self.decodes.front()];
        let due = due.into_iter().flatten().map(|(due, _)| *due).min();
        due.map_or(Duration::from_secs(1), |due| {
            Duration::from_nanos(due.saturating_sub(self.clock.now()).0)
        })
    }
}

/// What an egress thread saw.
#[derive(Clone, Copy, Default)]
struct Tally {
    served: u64,
    ended: u64,
}

/// Hands dispatches to workers until the engine has nothing more.
fn hand_out(mut shard: EgressShard<u64>, clock: Clock) -> Tally {
    let mut tally = Tally::default();
    let mut running = Running::new(clock);
    loop {
        running.release(&mut shard);
        match shard.recv_timeout(running.leisure()) {
            Ok(Some(Delivery::Dispatch(dispatch))) => {
                tally.served += 1;
                running.begin(dispatch.receipt());
            }
            Ok(Some(_)) => tally.ended += 1,
            Ok(None) => {}
            Err(closed @ (Closed::Stopped | Closed::Lost)) => {
                println!(
                    "egress ends after {} requests served: {closed}",
                    tally.served
                );
                return tally;
            }
        }
    }
}

/// What the engine has counted.
fn print(read: &Snapshot) {
    for class in &read.models[0].classes {
        println!(
            "{}: {} dispatched; while requests waited {} tokens, {} by its quantum",
            class.name,
            class.gauges.counters.dispatched,
            class.share.served_tokens,
            class.share.entitled_tokens
        );
    }
    for (number, shard) in read.egress.iter().enumerate() {
        let wait = &shard.wait.histogram;
        println!(
            "egress shard {number}: requests waited {} us at the median, {} us at p99",
            wait.value_at_quantile(0.5) / 1_000,
            wait.value_at_quantile(0.99) / 1_000
        );
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let placement = placement();
    let builder = Engine::builder(policy()?)
        .ingress_shards(INGRESS_THREADS)
        .egress_shards(EGRESS_THREADS)
        .slots(512)
        .placement(placement.clone())
        .drain(Duration::from_secs(1));
    let builder = (0..WORKERS).fold(builder, |builder, id| builder.worker(Worker::new(id)));
    let Built {
        engine,
        ingress,
        egress,
        warnings,
    } = builder.build()?;
    for warning in warnings {
        println!("warning: {warning}");
    }
    println!("{}", engine.handles().settings());

    thread::scope(|scope| -> Result<(), Box<dyn Error>> {
        let placement = &placement;
        let spawn_ingress = |(number, shard)| {
            scope.spawn(move || {
                placement.pin_current_thread(Role::Ingress(number))?;
                Ok(take_in(shard, FAMILIES[number]))
            })
        };
        let spawn_egress = |(number, shard)| {
            let clock = engine.handles().clock();
            scope.spawn(move || {
                placement.pin_current_thread(Role::Egress(number))?;
                Ok(hand_out(shard, clock))
            })
        };
        let ingress: Vec<_> = ingress.into_iter().enumerate().map(spawn_ingress).collect();
        let egress: Vec<_> = egress.into_iter().enumerate().map(spawn_egress).collect();

        thread::sleep(OPEN_FOR);
        engine.stop()?;

        let (mut accepted, mut tally) = (0, Tally::default());
        for thread in ingress {
            let of_one: Result<u64, PinError> = thread.join().expect("it does not panic");
            accepted += of_one?;
        }
        for thread in egress {
            let of_one: Result<Tally, PinError> = thread.join().expect("it does not panic");
            let Tally { served, ended } = of_one?;
            tally.served += served;
            tally.ended += ended;
        }
        let Tally { served, ended } = tally;
        println!("accepted {accepted}, served {served}, ended otherwise {ended}");
        Ok(())
    })?;

    print(&engine.handles().stats().read());
    Ok(engine.join()?)
}
