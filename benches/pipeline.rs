//! How many requests a second go through the engine, and which part is the narrowest?
//!
//! Closed loops: a thread keeps a window of requests in flight, with the arbiter on a core of its own.
//! 8 classes, 256 endpoints, every request pinned to one: exact lanes throughout.
//!
//! - *one-shot*: submit, dispatch, `complete`, slot back; in arrival order and by weighted shortest
//!   time.
//! - *full life*: the same with `prefill_done` before `complete`. The headline.
//! - *backlog*: full lives while each endpoint takes one prefill at a time, so that every dispatch
//!   shuts lanes, every `prefill_done` opens them, and thousands of requests wait.
//!
//! One thread submits and receives in turns; in the arms with *separate threads*, one submits and
//! another receives, both on the core that is not the arbiter's, since two cores are all that a small
//! machine has. All arms run once in each round, so that what disturbs the machine disturbs all.
//!
//! Below stand the same lives on one thread, an engine turned by hand: what submitting, the core's
//! turns, and receiving with feedback each take when no line moves between cores. The part that takes
//! longest bounds the rate; what a thread loses beyond that it loses to the other core's cache.
#![expect(clippy::print_stdout, reason = "what it prints is its result")]

use std::iter::repeat_n;
use std::time::{Duration, Instant};

use tollgate::policy::OrderPolicy;
use tollgate::stats::Stats;
use tollgate::{Built, Idle};
use tollgate_benches::machine::{Cores, Gaps, line_transfer_ns, load_average, on_core, pin};
use tollgate_benches::pipeline::{BATCH, CoreLoad, Flow, Gate, Parts, Receiver, Rig, Submitter};
use tollgate_benches::{Summary, is_smoke, scaled};

/// Requests in flight where nothing has to wait.
const WINDOW: usize = 1_024;
/// Requests in flight where most of them wait.
const BACKLOG: usize = 8_192;
const LIVES: u64 = 1_000_000;
const ROUNDS: u64 = 15;

/// What is done with each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    OneShot,
    Full,
    Backlog,
}

/// Who submits and receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Threads {
    One,
    Separate,
}

#[derive(Clone, Copy, Debug)]
struct Arm {
    life: Life,
    order: OrderPolicy,
    ingress_shards: usize,
    idle: Idle,
    threads: Threads,
}

impl Arm {
    const fn rig(&self) -> Rig {
        Rig {
            order: self.order,
            gate: match self.life {
                Life::OneShot | Life::Full => Gate::Open,
                Life::Backlog => Gate::OneAtATime,
            },
            ingress_shards: self.ingress_shards,
            idle: self.idle,
        }
    }

    fn prefill(&self) -> bool {
        self.life != Life::OneShot
    }

    const fn window(&self) -> usize {
        match self.life {
            Life::OneShot | Life::Full => WINDOW,
            Life::Backlog => BACKLOG,
        }
    }

    fn name(&self) -> String {
        let life = match self.life {
            Life::OneShot => "one-shot",
            Life::Full => "full life",
            Life::Backlog => "backlog",
        };
        let order = format!("{:?}", self.order).to_lowercase();
        let idle = if self.idle == Idle::Spin {
            "spin"
        } else {
            "default"
        };
        let threads = match self.threads {
            Threads::One => "",
            Threads::Separate => ", separate threads",
        };
        let shards = self.ingress_shards;
        format!("{life:9} {order} {idle:7} {shards} ingress{threads}")
    }
}

/// Every arm: each life and order with both ways of waiting, one and two ingress shards; then those
/// that differ otherwise.
fn arms() -> Vec<Arm> {
    let mut arms = Vec::new();
    for (life, order) in [
        (Life::OneShot, OrderPolicy::Fcfs),
        (Life::OneShot, OrderPolicy::Wspt),
        (Life::Full, OrderPolicy::Fcfs),
    ] {
        for ingress_shards in [1, 2] {
            for idle in [Idle::Spin, Idle::default()] {
                arms.push(Arm {
                    life,
                    order,
                    ingress_shards,
                    idle,
                    threads: Threads::One,
                });
            }
        }
    }
    let full = Arm {
        life: Life::Full,
        order: OrderPolicy::Fcfs,
        ingress_shards: 1,
        idle: Idle::Spin,
        threads: Threads::Separate,
    };
    let backlog = Arm {
        life: Life::Backlog,
        threads: Threads::One,
        ..full
    };
    let shortest_first = Arm {
        order: OrderPolicy::Wspt,
        ..backlog
    };
    arms.extend([full, backlog, shortest_first]);
    arms
}

/// What one repetition gave.
#[derive(Clone, Copy, Debug)]
struct Sample {
    lives_per_second: f64,
    load: CoreLoad,
}

/// Times what passes between [`start`](Self::start) and [`stop`](Self::stop).
struct Stopwatch<'a> {
    stats: &'a Stats,
    before: tollgate::stats::CoreSnapshot,
    begun: Instant,
}

impl<'a> Stopwatch<'a> {
    fn start(stats: &'a Stats) -> Self {
        Self {
            before: stats.read().core,
            stats,
            begun: Instant::now(),
        }
    }

    fn stop(self, lives: u64) -> Sample {
        let span = self.begun.elapsed();
        #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
        let lives = lives as f64;
        Sample {
            lives_per_second: lives / span.as_secs_f64(),
            load: CoreLoad::between(&self.before, &self.stats.read().core),
        }
    }
}

/// One repetition: a fresh engine, a tenth of the lives untimed, then `lives` timed ones.
fn repeat(arm: &Arm, cores: Cores, lives: u64) -> Sample {
    let built = arm.rig().builder(cores).build::<u64>();
    let Built {
        engine,
        ingress,
        mut egress,
        ..
    } = built.expect("the rig is valid");
    let stats = engine.handles().stats();
    let submitter = Submitter::new(ingress);
    let receiver = Receiver::new(egress.remove(0), arm.prefill());
    let warm = lives / 10 + 1;
    let sample = match arm.threads {
        Threads::One => {
            let mut flow = Flow::new(submitter, receiver);
            on_core(cores.shards, || {
                flow.run(warm, arm.window());
                let watch = Stopwatch::start(&stats);
                flow.run(lives, arm.window());
                watch.stop(lives)
            })
        }
        Threads::Separate => separately(submitter, receiver, cores, &stats, (warm, lives)),
    };
    // What is still in flight is dispatched to nobody.
    drop(engine);
    sample
}

/// The same with a thread that submits as long as there is room, and another that receives. Both are
/// on one core, so each offers it to the other when it finds nothing to do.
fn separately(
    mut submitter: Submitter,
    mut receiver: Receiver,
    cores: Cores,
    stats: &Stats,
    (warm, lives): (u64, u64),
) -> Sample {
    std::thread::scope(|scope| {
        scope.spawn(move || {
            pin(cores.shards);
            // More than are counted: the receiver takes whole batches.
            let mut left = usize::try_from(warm + lives).expect("a few millions") + BATCH;
            while left > 0 {
                let accepted = submitter.submit(repeat_n(0, BATCH.min(left)), |_| ());
                left -= accepted;
                if accepted == 0 {
                    std::thread::yield_now();
                }
            }
        });
        let receiving = scope.spawn(move || {
            pin(cores.shards);
            let mut receive = |count| {
                let mut received = 0;
                while received < count {
                    let some = receiver.receive(|_| ());
                    received += some as u64;
                    if some == 0 {
                        std::thread::yield_now();
                    }
                }
                received
            };
            receive(warm);
            let watch = Stopwatch::start(stats);
            watch.stop(receive(lives - BATCH as u64))
        });
        receiving.join().expect("it does not panic")
    })
}

fn print_rates(cores: Cores) {
    let (lives, rounds) = (scaled(LIVES), scaled(ROUNDS));
    let arms = arms();
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); arms.len()];
    for _ in 0..rounds {
        for (arm, samples) in arms.iter().zip(&mut samples) {
            samples.push(repeat(arm, cores, lives));
        }
    }
    println!(
        "\nmillions a second: median [quartiles] extremes of {rounds} rounds of {lives} lives; the \
         arbiter's thread"
    );
    for (arm, samples) in arms.iter().zip(samples) {
        let rates = samples.iter().map(|sample| sample.lives_per_second / 1e6);
        let busy = samples.iter().map(|sample| 100.0 * sample.load.busy);
        let turns = samples.iter().map(|sample| sample.load.dispatches_a_turn);
        let parks: u64 = samples.iter().map(|sample| sample.load.parks).sum();
        println!(
            "{:50} {:>36.2}  busy {:3.0} %, {:4.1} dispatches a turn, {parks} sleeps",
            arm.name(),
            Summary::of(rates.collect()),
            Summary::of(busy.collect()).median,
            Summary::of(turns.collect()).median,
        );
    }
}

fn print_parts(cores: Cores) {
    let (lives, rounds) = (scaled(LIVES / 2), scaled(ROUNDS));
    println!(
        "\nby hand, on one thread, nanoseconds a life: medians of {rounds} rounds of {lives} lives"
    );
    for arm in arms() {
        if arm.threads != Threads::One || arm.idle != Idle::Spin {
            continue;
        }
        let part = |_| {
            let (rig, prefill, window) = (arm.rig(), arm.prefill(), arm.window());
            on_core(cores.arbiter, move || {
                Parts::by_hand(&rig, prefill, lives, window)
            })
        };
        let parts: Vec<Parts> = (0..rounds).map(part).collect();
        let median = |of: fn(&Parts) -> f64| Summary::of(parts.iter().map(of).collect()).median;
        let (doorway, core, egress) = (
            median(|parts| parts.doorway),
            median(|parts| parts.core),
            median(|parts| parts.egress),
        );
        println!(
            "{:50} submit {doorway:6.1}  turns {core:6.1}  receive and release {egress:6.1}  so at most \
             {:.1} M/s by the arbiter, {:.1} by one shard thread",
            arm.name(),
            1e3 / core,
            1e3 / (doorway + egress),
        );
    }
}

fn main() {
    let cores = Cores::choose();
    let trips = scaled(20_000);
    let gaps_span = Duration::from_millis(if is_smoke() { 1 } else { 2_000 });
    println!("{cores}");
    println!("load average before: {}", load_average());
    println!(
        "a line from core to core, before: {:.0} ns",
        line_transfer_ns(cores, trips)
    );
    print_rates(cores);
    print_parts(cores);
    println!(
        "\na line from core to core, after: {:.0} ns",
        line_transfer_ns(cores, trips)
    );
    println!("{}", Gaps::measure(cores.arbiter, gaps_span));
    println!("load average after: {}", load_average());
}
