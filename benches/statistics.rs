//! What do the engine's statistics cost?
//!
//! They cannot be switched off, so their parts are measured, each by the difference between two things
//! that are done in turns on one thread, with an engine that is turned by hand:
//!
//! - *a hand-out*: an egress shard records two durations of every dispatch, and counts it; an outcome
//!   is counted alone. The difference between handing out one and the other, which also holds that a
//!   dispatch is the longer of the two, bounds what recording costs.
//! - *a slice*: a turning core publishes a slice of its classes, endpoints and slots every 500 us. The
//!   difference between idle turns that publish and idle turns that do not, by 500 us.
//! - *a turn*: all of an idle turn bounds what counting turns and measuring time costs, and one turn in
//!   64 reads the clock twice more.
//!
//! Beside them a whole life of a request, of which they are a part.
#![expect(clippy::print_stdout, reason = "what it prints is its result")]

use std::time::Instant;

use tollgate::{ByHand, Clock, Core, Delivery, EgressShard, IngressShard, Nanos, Request};
use tollgate_benches::scaled;
use tollgate_harness::Summary;
use tollgate_harness::machine::{Cores, load_average, on_core};
use tollgate_harness::pipeline::{Asks, BATCH, Parts, Rig};

/// Requests in flight in a whole life.
const WINDOW: usize = 1_024;
const LIVES: u64 = 500_000;
const ROUNDS: u64 = 31;
/// Batches in one round.
const BATCHES: u64 = 2_000;
/// Idle turns in one round.
const TURNS: u64 = 2_000;
/// More than a core turns between two slices.
const SLICE_AFTER: Nanos = Nanos::from_micros(501);

/// An engine that is turned by hand, on a clock that stands still.
struct Bench {
    core: Core<u64>,
    ingress: IngressShard<u64>,
    egress: EgressShard<u64>,
    received: Vec<Delivery<u64>>,
    now: Nanos,
}

impl Bench {
    fn new() -> Self {
        let (clock, hand) = Clock::manual();
        // Zero is when requests expire that are to have an outcome.
        hand.set(Nanos(1));
        let ByHand {
            core,
            mut ingress,
            mut egress,
            ..
        } = Rig::USUAL
            .builder(Cores::NOBODY)
            .clock(clock)
            .build_by_hand()
            .expect("the rig is valid");
        Self {
            core,
            ingress: ingress.remove(0),
            egress: egress.remove(0),
            received: Vec::with_capacity(BATCH),
            now: Nanos(1),
        }
    }

    /// Nanoseconds that it takes to hand out one delivery of a batch: dispatches, or outcomes.
    fn hand_out(&mut self, deadline: Option<Nanos>) -> f64 {
        let mut spent = std::time::Duration::ZERO;
        for _ in 0..scaled(BATCHES) {
            let request = Request {
                deadline,
                ..Request::new(512, 0)
            };
            let requests = std::iter::repeat_n(request, BATCH);
            self.ingress
                .submit_batch(requests, |answer| assert!(answer.is_ok(), "there is room"));
            self.core.turn(self.now);
            let start = Instant::now();
            let received = self.egress.try_recv_batch(BATCH, &mut self.received);
            spent += start.elapsed();
            assert_eq!(received, Ok(BATCH));
            let mut feedback = self.egress.feedback();
            for delivery in self.received.drain(..) {
                match (delivery, deadline) {
                    (Delivery::Dispatch(dispatch), None) => feedback.complete(dispatch.receipt()),
                    (Delivery::Ended(_), Some(_)) => {}
                    (delivery, _) => panic!("another delivery was expected than {delivery:?}"),
                }
            }
            drop(feedback);
            self.core.turn(self.now);
        }
        per(spent.as_secs_f64(), scaled(BATCHES) * BATCH as u64)
    }

    /// Nanoseconds of an idle turn, with `step` from each to the next.
    fn idle_turn(&mut self, step: Nanos) -> f64 {
        let start = Instant::now();
        for _ in 0..scaled(TURNS) {
            self.now = self.now.saturating_add(step);
            let report = self.core.turn(self.now);
            assert!(report.is_idle(), "nothing is submitted");
        }
        per(start.elapsed().as_secs_f64(), scaled(TURNS))
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
fn per(seconds: f64, count: u64) -> f64 {
    seconds * 1e9 / count as f64
}

/// Nanoseconds of a look at the clock that the engine uses.
fn look() -> f64 {
    let clock = Clock::monotonic();
    let start = Instant::now();
    for _ in 0..scaled(1_000_000) {
        std::hint::black_box(clock.now());
    }
    per(start.elapsed().as_secs_f64(), scaled(1_000_000))
}

fn run() {
    let mut bench = Bench::new();
    let mut samples = [const { Vec::new() }; 6];
    for _ in 0..scaled(ROUNDS) {
        let parts = Parts::by_hand(&Rig::USUAL, Asks::default(), true, scaled(LIVES), WINDOW);
        let round = [
            bench.hand_out(None),
            bench.hand_out(Some(Nanos(0))),
            bench.idle_turn(Nanos(0)),
            bench.idle_turn(SLICE_AFTER),
            parts.doorway + parts.core + parts.egress,
            look(),
        ];
        for (samples, sample) in samples.iter_mut().zip(round) {
            samples.push(sample);
        }
    }
    let summaries = samples.map(Summary::of);
    let names = [
        "handing out a dispatch",
        "handing out an outcome",
        "an idle turn",
        "an idle turn that publishes a slice",
        "a full life, by hand",
        "a look at the clock",
    ];
    println!(
        "\nnanoseconds: median [quartiles] extremes of {} rounds",
        scaled(ROUNDS)
    );
    for (name, summary) in names.iter().zip(&summaries) {
        println!("{name:38} {summary:>48.1}");
    }
    let [dispatch, outcome, turn, publishing, life, look] = summaries.map(|all| all.median);
    let recording = dispatch - outcome;
    let slice = (publishing - turn) / 500_000.0;
    println!(
        "\nrecording and handing out the longer delivery: {recording:.1} ns, at most {:.2} % of a life\n\
         slices: {:.2} % of a core that turns\n\
         counting in turns: at most {:.2} % of a life where a turn dispatches {BATCH}, the whole of \
         {turn:.1} ns; looks at the clock {:.2} %",
        100.0 * recording / life,
        100.0 * slice,
        100.0 * turn / BATCH as f64 / life,
        100.0 * look * 2.0 / 64.0 / BATCH as f64 / life,
    );
}

fn main() {
    let cores = Cores::choose();
    println!("load average before: {}", load_average());
    on_core(cores.arbiter, run);
    println!("load average after: {}", load_average());
}
