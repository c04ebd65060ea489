//! A lone request, and an engine with nothing to do.
//!
//! - `round_trip`: submit one request, look until it comes out, release it, wait a moment, repeat; with an
//!   arbiter that spins, and with the default, which spins for a while before it sleeps;
//! - `asleep`: the same after a pause in which the default arbiter goes to sleep, so that the request has to
//!   wake it; in turns with a bare pair of threads, of which one parks, is unparked, and writes a word that
//!   the other one looks for. Both sleepers are on the arbiter's core;
//! - `idle`: what the arbiter's thread takes of a core, by the scheduler's account, while nothing happens.
//!
//! The time between submission and delivery is read from the engine's clock on one thread; one reading of the
//! clock is in every number.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tollgate::{
    Built, Clock, Delivery, EgressShard, Endpoint, Engine, Idle, IngressShard, Request,
};
use tollgate_report::Recording;
use tollgate_report::bench::{Better, Unit};

use crate::Plan;
use crate::machine::{Cores, nanos, on_core, pin};
use crate::method::{Case, Kind, Sample};
use crate::pipeline::Rig;
use crate::suites::running::as_f64;

/// Round trips of one repetition of a full run.
const TRIPS: u64 = 100_000;
/// Wake-ups of each kind in one repetition of a full run.
const WAKE_UPS: u64 = 4_000;
/// Between two round trips, so that the arbiter is done with the last one's release.
const MOMENT: Duration = Duration::from_micros(2);
/// Between two wake-ups: more than the default arbiter spins.
const PAUSE: Duration = Duration::from_micros(500);
/// How long an idle engine is watched.
const IDLE: Duration = Duration::from_secs(2);

const RATIO_P50: Kind = Kind::new("engine over bare thread, p50", Unit::Share, Better::Lower);
const RATIO_P99: Kind = Kind::new("engine over bare thread, p99", Unit::Share, Better::Lower);
const SLEEPS: Kind = Kind::new("sleeps", Unit::Count, Better::Neither);
const PART: Kind = Kind::new("part of a core", Unit::Share, Better::Lower);

pub(super) fn cases(plan: &Plan) -> Vec<Case> {
    let cores = plan.cores;
    let strategies = [("spin", Idle::Spin), ("default", Idle::default())];
    let mut cases = Vec::new();
    let trips = plan.count(TRIPS);
    for (name, idle) in strategies {
        cases.push(Case::new(format!("round_trip/{name}"), move || {
            Sample::default().recordings([round_trips(idle, cores, trips)])
        }));
    }
    let wake_ups = plan.count(WAKE_UPS);
    cases.push(Case::new("asleep", move || asleep(cores, wake_ups)));
    let span = plan.span(IDLE);
    for (name, idle) in [("default", Idle::default()), ("park", Idle::Park)] {
        // Where the system does not tell what a thread takes, there is nothing to measure.
        if run_ns(std::process::id()).is_some() {
            cases.push(Case::new(format!("idle/{name}"), move || {
                Sample::of(PART, idle_part(idle, cores, span))
            }));
        }
    }
    cases
}

/// A running engine in the hands of one thread.
struct Lone {
    engine: Engine<u64>,
    ingress: IngressShard<u64>,
    egress: EgressShard<u64>,
    clock: Clock,
    /// Whether the arbiter has a core that is not this thread's.
    is_apart: bool,
    sent: u64,
}

impl Lone {
    fn new(idle: Idle, cores: Cores) -> Self {
        let rig = Rig { idle, ..Rig::USUAL };
        let Built {
            engine,
            mut ingress,
            mut egress,
            ..
        } = rig.builder(cores).build().expect("the rig is valid");
        Self {
            clock: engine.handles().clock(),
            engine,
            is_apart: cores.arbiter.is_some(),
            ingress: ingress.remove(0),
            egress: egress.remove(0),
            sent: 0,
        }
    }

    /// One request from submission to delivery, in nanoseconds; released after that.
    fn trip(&mut self) -> u64 {
        self.sent += 1;
        let request = Request {
            pin: Some(Endpoint::new(self.sent % 32, 0)),
            ..Request::new(512, self.sent)
        };
        let start = self.clock.now();
        self.ingress.try_submit(request).expect("there is room");
        let delivery = loop {
            if let Some(delivery) = self.egress.try_recv().expect("the engine runs") {
                break delivery;
            }
            if self.is_apart {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        };
        let took = self.clock.now().saturating_sub(start);
        let Delivery::Dispatch(dispatch) = delivery else {
            panic!("nothing but dispatches is expected, not {delivery:?}");
        };
        assert_eq!(dispatch.payload, self.sent);
        let mut feedback = self.egress.feedback();
        feedback.prefill_done(dispatch.receipt());
        feedback.complete(dispatch.receipt());
        took.0
    }

    fn parks(&self) -> u64 {
        self.engine.handles().stats().read().core.parks
    }
}

fn spin_for(span: Duration) {
    let start = Instant::now();
    while start.elapsed() < span {
        std::hint::spin_loop();
    }
}

fn round_trips(idle: Idle, cores: Cores, trips: u64) -> Recording {
    let mut times = Recording::new("round_trip", "submission to hand-out", "lone requests");
    // Alone with its arbiter: two that spin would share one core.
    let mut lone = Lone::new(idle, cores);
    on_core(cores.shards, || {
        for _ in 0..trips / 10 {
            lone.trip();
        }
        for _ in 0..trips {
            times.record(lone.trip());
            spin_for(MOMENT);
        }
    });
    times
}

/// A thread that parks, and writes what it was asked for when it is woken.
struct Sleeper {
    asked: AtomicU64,
    answered: AtomicU64,
    ends: AtomicBool,
}

impl Sleeper {
    fn live(&self) {
        // ORDERING: pairs with the stores of the thread that wakes it.
        while !self.ends.load(Ordering::Acquire) {
            std::thread::park();
            // ORDERING: pairs with the stores and loads of `wake`.
            let asked = self.asked.load(Ordering::Acquire);
            self.answered.store(asked, Ordering::Release);
        }
    }

    /// From before the call to `unpark` until the answer is seen, in nanoseconds.
    fn wake(&self, thread: &std::thread::Thread, clock: &Clock, number: u64) -> u64 {
        let start = clock.now();
        // ORDERING: pairs with `live`.
        self.asked.store(number, Ordering::Release);
        thread.unpark();
        while self.answered.load(Ordering::Acquire) != number {
            std::hint::spin_loop();
        }
        clock.now().saturating_sub(start).0
    }
}

fn asleep(cores: Cores, samples: u64) -> Sample {
    let mut bare = Recording::new("bare", "a bare park and unpark", "wake-ups");
    let mut woken = Recording::new("woken", "submission to hand-out", "requests that wake it");
    let mut lone = Lone::new(Idle::default(), cores);
    let sleeper = Sleeper {
        asked: AtomicU64::new(0),
        answered: AtomicU64::new(0),
        ends: AtomicBool::new(false),
    };
    let parks = lone.parks();
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            pin(cores.arbiter);
            sleeper.live();
        });
        let (bare, woken, lone, sleeper) = (&mut bare, &mut woken, &mut lone, &sleeper);
        let parked = thread.thread().clone();
        scope.spawn(move || {
            pin(cores.shards);
            for number in 1..=samples {
                std::thread::sleep(PAUSE);
                bare.record(sleeper.wake(&parked, &lone.clock, number));
                std::thread::sleep(PAUSE);
                woken.record(lone.trip());
            }
            // ORDERING: pairs with `live`.
            sleeper.ends.store(true, Ordering::Release);
            parked.unpark();
        });
    });
    let slept = lone.parks() - parks;
    let ratio = |part| {
        let [woken, bare] = [&woken, &bare].map(|times| times.quantile(part).unwrap_or(0));
        as_f64(woken) / as_f64(bare.max(1))
    };
    Sample::of(RATIO_P50, ratio(0.5))
        .metric(RATIO_P99, ratio(0.99))
        .metric(SLEEPS, as_f64(slept))
        .recordings([woken, bare])
}

/// Nanoseconds that a thread has run, by Linux's account.
fn run_ns(thread: u32) -> Option<u64> {
    let account = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
    account.split_whitespace().next()?.parse().ok()
}

/// The arbiter's thread of this process.
fn arbiter_thread() -> Option<u32> {
    // As far as the system keeps the name `tollgate-arbiter`.
    const NAME: &str = "tollgate-arbite";
    let tasks = std::fs::read_dir("/proc/self/task").ok()?;
    let mut paths = tasks.filter_map(|task| Some(task.ok()?.path()));
    let path = paths.find(|path| {
        std::fs::read_to_string(path.join("comm")).is_ok_and(|name| name.trim() == NAME)
    })?;
    path.file_name()?.to_str()?.parse().ok()
}

/// The part of a core that an engine takes which has nothing to do, 0 to 1.
fn idle_part(idle: Idle, cores: Cores, span: Duration) -> f64 {
    let mut lone = Lone::new(idle, cores);
    lone.trip();
    std::thread::sleep(Duration::from_millis(10));
    let thread = arbiter_thread().expect("the engine runs");
    let run = || run_ns(thread).expect("the engine runs");
    let (before, start) = (run(), Instant::now());
    std::thread::sleep(span);
    let (after, span) = (run(), start.elapsed());
    as_f64(after - before) / as_f64(nanos(span))
}
