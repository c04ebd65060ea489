//! How long do requests take when they come at their own pace, at half and at 70 % of what the engine
//! can do, and how long does the arbiter take for a selection then?
//!
//! First the peak of a closed loop, as in `pipeline`: full lives, an arbiter that spins, one thread
//! that submits and receives. Then arrivals with exponential gaps at a part of that peak. A request is
//! due at its scheduled time whatever happened to those before it, and its latency runs from then to
//! the moment when the egress shard has handed it out; what found no room is submitted again, and its
//! latency runs on. The thread that submits is late at times as well; how late is printed, and is part
//! of every latency.
//!
//! For the time of a selection the core is turned by a thread of this program, which reads the clock
//! after every turn: a turn's time, with everything that it took in and gave out, divided by its
//! dispatches, counted once for each of them. Beside it stands how often the core is taken away from a
//! thread that does nothing but look at the clock.
#![expect(clippy::print_stdout, reason = "what it prints is its result")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tollgate::policy::OrderPolicy;
use tollgate::{Built, ByHand, Clock, Core, EgressShard, Idle, IngressShard, Nanos};
use tollgate_benches::machine::{
    Cores, Gaps, histogram, line_transfer_ns, load_average, on_core, pin,
};
use tollgate_benches::pipeline::{BATCH, CoreLoad, Flow, Gate, Receiver, Rig, Submitter};
use tollgate_benches::{Summary, is_smoke, scaled};

const RIG: Rig = Rig {
    order: OrderPolicy::Fcfs,
    gate: Gate::Open,
    ingress_shards: 1,
    idle: Idle::Spin,
};
/// Requests in flight in the closed loop.
const WINDOW: usize = 1_024;
const PEAK_LIVES: u64 = 1_000_000;
const PEAK_ROUNDS: usize = 7;
/// Arrivals of each arm in one round.
const ARRIVALS: u64 = 5_000_000;
const ROUNDS: usize = 4;

/// Gaps between arrivals, exponential around 1, drawn beforehand and taken round and round.
struct Arrivals {
    gaps: Vec<f64>,
    next: usize,
    /// Mean gap, in nanoseconds.
    mean: f64,
    at: f64,
}

impl Arrivals {
    const LEN: usize = 1 << 16;

    fn new(per_second: f64, start: Nanos) -> Self {
        let mut state = 0x2545_F491_4F6C_DD1D_u64;
        let mut uniform = || {
            // xorshift64*: 53 good bits are all that is needed.
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            let bits = state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11;
            #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
            let part = (bits as f64 + 0.5) / (1_u64 << 53) as f64;
            part
        };
        let gaps = (0..Self::LEN).map(|_| -uniform().ln()).collect();
        #[expect(clippy::cast_precision_loss, reason = "the clock began a moment ago")]
        let at = start.0 as f64;
        Self {
            gaps,
            next: 0,
            mean: 1e9 / per_second,
            at,
        }
    }

    /// When the next request is due, in nanoseconds on the engine's clock.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "times are positive and far below 2^53"
    )]
    const fn due(&self) -> u64 {
        self.at as u64
    }

    fn advance(&mut self) {
        self.at += self.mean * self.gaps[self.next % Self::LEN];
        self.next += 1;
    }
}

/// What one run of arrivals gave.
struct Run {
    /// From the scheduled arrival to the hand-out, in nanoseconds.
    latency: Histogram<u64>,
    /// From the scheduled arrival to the first attempt at submission, in nanoseconds.
    late: Histogram<u64>,
    /// Scheduled arrivals a second.
    offered: f64,
    /// Requests handed out a second.
    achieved: f64,
    /// Requests that found no room at first.
    full: u64,
}

/// Lets `count` requests arrive and receives them all.
fn arrive(
    submitter: &mut Submitter,
    receiver: &mut Receiver,
    clock: &Clock,
    (per_second, count): (f64, u64),
) -> Run {
    let mut run = Run {
        latency: histogram(),
        late: histogram(),
        offered: 0.0,
        achieved: 0.0,
        full: 0,
    };
    let start = clock.now();
    let mut arrivals = Arrivals::new(per_second, start);
    let (mut scheduled, mut received) = (0, 0);
    // Due and not accepted yet.
    let (mut waiting, mut refused) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
    while received < count {
        let now = clock.now().0;
        while waiting.len() < BATCH && scheduled < count && arrivals.due() <= now {
            run.late.saturating_record(now - arrivals.due());
            waiting.push(arrivals.due());
            arrivals.advance();
            scheduled += 1;
        }
        if !waiting.is_empty() {
            submitter.submit(waiting.drain(..), |payload| refused.push(payload));
            run.full += refused.len() as u64;
            std::mem::swap(&mut waiting, &mut refused);
        }
        let mut handed_out_at = None;
        received += receiver.receive(|due| {
            let now = *handed_out_at.get_or_insert_with(|| clock.now().0);
            run.latency.saturating_record(now.saturating_sub(due));
        }) as u64;
    }
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts and spans stay far below 2^53"
    )]
    let [count, scheduled_over, received_over] = [
        count as f64,
        arrivals.due().saturating_sub(start.0) as f64 / 1e9,
        clock.now().saturating_sub(start).0 as f64 / 1e9,
    ];
    run.offered = count / scheduled_over;
    run.achieved = count / received_over;
    run
}

fn shards(
    mut ingress: Vec<IngressShard<u64>>,
    mut egress: Vec<EgressShard<u64>>,
) -> (Submitter, Receiver) {
    let submitter = Submitter::new(vec![ingress.remove(0)]);
    (submitter, Receiver::new(egress.remove(0), true))
}

/// Full lives a second in a closed loop: the median.
fn peak(cores: Cores) -> f64 {
    let lives = scaled(PEAK_LIVES);
    let round = |_| {
        let built = RIG.builder(cores).build().expect("the rig is valid");
        let Built {
            engine,
            ingress,
            egress,
            ..
        } = built;
        let (submitter, receiver) = shards(ingress, egress);
        let span = on_core(cores.shards, || {
            let mut flow = Flow::new(submitter, receiver);
            flow.run(lives / 10, WINDOW);
            let start = Instant::now();
            flow.run(lives, WINDOW);
            start.elapsed()
        });
        drop(engine);
        #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
        let lives = lives as f64;
        lives / span.as_secs_f64()
    };
    let rates = Summary::of((0..PEAK_ROUNDS).map(round).collect());
    let shown = Summary {
        minimum: rates.minimum / 1e6,
        low: rates.low / 1e6,
        median: rates.median / 1e6,
        high: rates.high / 1e6,
        maximum: rates.maximum / 1e6,
    };
    println!("full lives in a closed loop, millions a second: {shown:.2}");
    rates.median
}

fn print_quantiles(name: &str, times: &Histogram<u64>) {
    let [p50, p99, p999, p9999] =
        [0.5, 0.99, 0.999, 0.9999].map(|part| times.value_at_quantile(part));
    println!(
        "  {name:36} p50 {p50:6}  p99 {p99:7}  p99.9 {p999:8}  p99.99 {p9999:8}  max {:9} ns, {} \
         samples",
        times.max(),
        times.len()
    );
}

fn print_run(runs: &[Run]) {
    let (mut latency, mut late) = (histogram(), histogram());
    for run in runs {
        latency.add(&run.latency).expect("the bounds are the same");
        late.add(&run.late).expect("the bounds are the same");
    }
    let rate = |of: fn(&Run) -> f64| Summary::of(runs.iter().map(of).collect()).median / 1e6;
    let full: u64 = runs.iter().map(|run| run.full).sum();
    println!(
        "  offered {:.3} M/s, achieved {:.3} M/s, {full} found no room at first",
        rate(|run| run.offered),
        rate(|run| run.achieved)
    );
    print_quantiles("scheduled arrival to hand-out", &latency);
    print_quantiles("of which the submitting thread late", &late);
}

/// Latencies at a part of the peak, through an engine with its own thread.
fn print_latencies(cores: Cores, peak: f64, part: f64) {
    println!(
        "\nat {:.0} % of the peak, by the engine's thread",
        100.0 * part
    );
    let mut runs = Vec::new();
    let mut loads = Vec::new();
    for _ in 0..ROUNDS {
        let built = RIG.builder(cores).build().expect("the rig is valid");
        let Built {
            engine,
            ingress,
            egress,
            ..
        } = built;
        let (mut submitter, mut receiver) = shards(ingress, egress);
        let (clock, stats) = (engine.handles().clock(), engine.handles().stats());
        let run = on_core(cores.shards, || {
            let arrive = |submitter: &mut _, receiver: &mut _, count| {
                arrive(submitter, receiver, &clock, (part * peak, count))
            };
            arrive(&mut submitter, &mut receiver, scaled(ARRIVALS / 10));
            let before = stats.read().core;
            let run = arrive(&mut submitter, &mut receiver, scaled(ARRIVALS));
            loads.push(CoreLoad::between(&before, &stats.read().core));
            run
        });
        runs.push(run);
        if runs.len() == ROUNDS {
            let selection = stats.read().core.selection.histogram;
            print_run(&runs);
            print_quantiles("one selection, the engine's own sample", &selection);
        }
        drop(engine);
    }
    let busy = loads.iter().map(|load| 100.0 * load.busy).collect();
    let turns = loads.iter().map(|load| load.dispatches_a_turn).collect();
    println!(
        "  the arbiter is busy {:.0} % of the time, {:.2} dispatches a turn",
        Summary::of(busy).median,
        Summary::of(turns).median
    );
}

/// What a thread that turns the core saw.
struct Turns {
    /// Whole turns that dispatched, in nanoseconds.
    turn: Histogram<u64>,
    /// A turn's time by its dispatches, once for each of them, in nanoseconds.
    selection: Histogram<u64>,
}

impl Turns {
    fn new() -> Self {
        Self {
            turn: histogram(),
            selection: histogram(),
        }
    }

    /// Turns a core until `ends`.
    fn turn_until(&mut self, core: &mut Core<u64>, clock: &Clock, ends: &AtomicBool) {
        let mut now = clock.now();
        // ORDERING: pairs with the store of the thread that ends it.
        while !ends.load(Ordering::Acquire) {
            let report = core.turn(now);
            let after = clock.now();
            let took = after.saturating_sub(now).0;
            now = after;
            if let Some(each) = took.checked_div(report.dispatched) {
                self.turn.saturating_record(took);
                self.selection.saturating_record_n(each, report.dispatched);
                // What recording takes is no part of the next turn.
                now = clock.now();
            }
        }
    }
}

/// The time of a selection at a part of the peak.
fn print_selections(cores: Cores, peak: f64, part: f64) {
    let mut turns = Turns::new();
    let mut runs = Vec::new();
    for _ in 0..ROUNDS {
        let ByHand {
            mut core,
            handles,
            ingress,
            egress,
        } = RIG
            .builder(cores)
            .build_by_hand()
            .expect("the rig is valid");
        let (mut submitter, mut receiver) = shards(ingress, egress);
        let clock = handles.clock();
        let ends = AtomicBool::new(false);
        let run = std::thread::scope(|scope| {
            scope.spawn(|| {
                pin(cores.arbiter);
                turns.turn_until(&mut core, &clock, &ends);
            });
            let arriving = scope.spawn(|| {
                pin(cores.shards);
                let rate = part * peak;
                let run = arrive(
                    &mut submitter,
                    &mut receiver,
                    &clock,
                    (rate, scaled(ARRIVALS)),
                );
                // ORDERING: pairs with `turn_until`.
                ends.store(true, Ordering::Release);
                run
            });
            arriving.join().expect("it does not panic")
        });
        runs.push(run);
    }
    println!(
        "\nat {:.0} % of the peak, turned by this program, every turn timed",
        100.0 * part
    );
    print_run(&runs);
    print_quantiles("a turn that dispatched", &turns.turn);
    print_quantiles("a turn's time for each dispatch", &turns.selection);
    let selections = turns.selection.len();
    let above = selections - turns.selection.count_between(0, 1_000);
    println!("  selections above 1 us: {above} of {selections}");
    print_gaps(cores, &turns);
}

/// How often the core is taken away from whoever is on it, and how many selections that must hit.
fn print_gaps(cores: Cores, turns: &Turns) {
    let span = Duration::from_millis(if is_smoke() { 1 } else { 3_000 });
    let gaps = Gaps::measure(cores.arbiter, span);
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts and spans stay far below 2^53"
    )]
    let (selections, turned) = (
        turns.selection.len() as f64,
        turns.turn.mean() * turns.turn.len() as f64 / 1e9,
    );
    // A gap in a turn is shared out over the turn's dispatches.
    let per_turn = turns.selection.len().div_ceil(turns.turn.len().max(1));
    let hit = gaps.per_second(1_000 * per_turn) * turned * per_turn as f64;
    println!(
        "  the machine: {gaps}\n  so about {hit:.0} of {selections:.0} selections ({:.4} %) were in turns \
         that lost 1 us or more for each dispatch",
        100.0 * hit / selections
    );
}

fn main() {
    let cores = Cores::choose();
    let lines = scaled(20_000);
    println!("{cores}");
    println!("load average before: {}", load_average());
    println!(
        "a line from core to core, before: {:.0} ns",
        line_transfer_ns(cores, lines)
    );
    let peak = peak(cores);
    for part in [0.5, 0.7] {
        print_latencies(cores, peak, part);
    }
    print_selections(cores, peak, 0.7);
    println!(
        "\na line from core to core, after: {:.0} ns",
        line_transfer_ns(cores, lines)
    );
    println!("load average after: {}", load_average());
}
