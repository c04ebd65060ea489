//! How long does a lone request take through an engine that has nothing else to do, and what does that
//! engine cost while it has nothing to do at all?
//!
//! - *round trip*: submit one request, look until it comes out, release it, wait a moment, repeat;
//!   with an arbiter that spins, and with the default, which spins for some 100 us before it sleeps.
//!   The two take turns.
//! - *asleep*: the same after a pause in which the default arbiter goes to sleep, so that the request
//!   has to wake it; in turns with a bare pair of threads, of which one parks, is unparked, and writes
//!   a word that the other one looks for. Both sleepers are on the arbiter's core.
//! - *idle*: what the arbiter's thread takes of a core, by the scheduler's account, while nothing
//!   happens.
//!
//! The time between submission and delivery is read from the engine's clock on one thread; one look at
//! the clock is in every number, and is printed.
#![expect(clippy::print_stdout, reason = "what it prints is its result")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tollgate::policy::OrderPolicy;
use tollgate::{Built, Clock, Delivery, EgressShard, Endpoint, Idle, IngressShard, Request};
use tollgate_benches::machine::{
    Cores, Gaps, histogram, line_transfer_ns, load_average, nanos, on_core, pin,
};
use tollgate_benches::pipeline::{Gate, Rig};
use tollgate_benches::{is_smoke, scaled};

/// Round trips of each arm in one round.
const TRIPS: u64 = 50_000;
const ROUNDS: usize = 10;
/// Wake-ups of each kind.
const WAKE_UPS: u64 = 10_000;
/// Between two round trips, so that the arbiter is done with the last one's release.
const MOMENT: Duration = Duration::from_micros(2);
/// Between two wake-ups: more than the default arbiter spins.
const PAUSE: Duration = Duration::from_micros(500);

/// A running engine in the hands of one thread.
struct Lone {
    engine: tollgate::Engine<u64>,
    ingress: IngressShard<u64>,
    egress: EgressShard<u64>,
    clock: Clock,
    sent: u64,
}

impl Lone {
    fn new(idle: Idle, cores: Cores) -> Self {
        let rig = Rig {
            order: OrderPolicy::Fcfs,
            gate: Gate::Open,
            ingress_shards: 1,
            idle,
        };
        let Built {
            engine,
            mut ingress,
            mut egress,
            ..
        } = rig.builder(cores).build().expect("the rig is valid");
        Self {
            clock: engine.handles().clock(),
            engine,
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
            std::hint::spin_loop();
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

fn print(name: &str, times: &Histogram<u64>) {
    let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|part| times.value_at_quantile(part));
    println!(
        "{name:34} p50 {p50:6}  p99 {p99:6}  p99.9 {p999:7}  max {:9} ns, {} samples",
        times.max(),
        times.len()
    );
}

fn spin_for(span: Duration) {
    let start = Instant::now();
    while start.elapsed() < span {
        std::hint::spin_loop();
    }
}

fn print_round_trips(cores: Cores) {
    let trips = scaled(TRIPS);
    let strategies = [("spin", Idle::Spin), ("default", Idle::default())];
    let mut times = [histogram(), histogram()];
    for _ in 0..ROUNDS {
        for ((_, idle), times) in strategies.iter().zip(&mut times) {
            // Alone with its arbiter: two that spin would share one core.
            let mut lone = Lone::new(*idle, cores);
            on_core(cores.shards, || {
                for _ in 0..trips / 10 {
                    lone.trip();
                }
                for _ in 0..trips {
                    times.saturating_record(lone.trip());
                    spin_for(MOMENT);
                }
            });
        }
    }
    println!();
    for ((name, _), times) in strategies.iter().zip(&times) {
        print(&format!("round trip, {name}"), times);
    }
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

fn print_wake_ups(cores: Cores) {
    let samples = scaled(WAKE_UPS);
    let (mut bare, mut woken) = (histogram(), histogram());
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
                bare.saturating_record(sleeper.wake(&parked, &lone.clock, number));
                std::thread::sleep(PAUSE);
                woken.saturating_record(lone.trip());
            }
            // ORDERING: pairs with `live`.
            sleeper.ends.store(true, Ordering::Release);
            parked.unpark();
        });
    });
    println!();
    print("asleep, a bare park and unpark", &bare);
    print("asleep, the engine", &woken);
    for part in [0.5, 0.99] {
        #[expect(
            clippy::cast_precision_loss,
            reason = "nanoseconds stay far below 2^53"
        )]
        let [woken, bare] = [&woken, &bare].map(|times| times.value_at_quantile(part) as f64);
        println!("ratio at p{}: {:.2}", part * 100.0, woken / bare);
    }
    println!(
        "the arbiter slept {} times in {samples} pairs",
        lone.parks() - parks
    );
}

/// Nanoseconds that the arbiter's thread of this process has run, by Linux's account.
fn arbiter_run_ns() -> Option<u64> {
    // As far as the system keeps the name `tollgate-arbiter`.
    const NAME: &str = "tollgate-arbite";
    let tasks = std::fs::read_dir("/proc/self/task").ok()?;
    let mut paths = tasks.filter_map(|task| Some(task.ok()?.path()));
    let path = paths.find(|path| {
        std::fs::read_to_string(path.join("comm")).is_ok_and(|name| name.trim() == NAME)
    })?;
    let account = std::fs::read_to_string(path.join("schedstat")).ok()?;
    account.split_whitespace().next()?.parse().ok()
}

fn print_idle(cores: Cores) {
    let span = Duration::from_millis(if is_smoke() { 20 } else { 2_000 });
    println!();
    for (name, idle) in [("default", Idle::default()), ("park", Idle::Park)] {
        let mut lone = Lone::new(idle, cores);
        lone.trip();
        std::thread::sleep(Duration::from_millis(10));
        let (before, start) = (arbiter_run_ns(), Instant::now());
        std::thread::sleep(span);
        let (after, span) = (arbiter_run_ns(), start.elapsed());
        let Some((before, after)) = before.zip(after) else {
            println!("idle, {name}: this system does not tell what a thread takes");
            return;
        };
        #[expect(clippy::cast_precision_loss, reason = "spans stay far below 2^53")]
        let part = (after - before) as f64 / nanos(span) as f64;
        println!(
            "idle, {name}: {:.4} % of a core over {:.2} s",
            100.0 * part,
            span.as_secs_f64()
        );
    }
}

fn look_ns(clock: &Clock) -> f64 {
    const LOOKS: u32 = 1_000_000;
    let start = Instant::now();
    for _ in 0..LOOKS {
        std::hint::black_box(clock.now());
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(LOOKS)
}

fn main() {
    let cores = Cores::choose();
    let lines = scaled(20_000);
    println!("{cores}");
    println!("load average before: {}", load_average());
    println!(
        "a line from core to core, before: {:.0} ns; a look at the clock: {:.1} ns",
        line_transfer_ns(cores, lines),
        look_ns(&Clock::monotonic())
    );
    print_round_trips(cores);
    print_wake_ups(cores);
    print_idle(cores);
    println!(
        "\na line from core to core, after: {:.0} ns",
        line_transfer_ns(cores, lines)
    );
    let gaps_span = Duration::from_millis(if is_smoke() { 1 } else { 2_000 });
    println!("{}", Gaps::measure(cores.arbiter, gaps_span));
    println!("load average after: {}", load_average());
}
