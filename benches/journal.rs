//! What does a journal cost while it is captured?
//!
//! The same lives of requests (submitted, dispatched, handed out, completed) on two engines that are
//! turned by hand on one thread, in turns: one captures a journal, the other does not. Each round of the
//! first begins with a checkpoint and ends before the buffer is full; both are outside what is timed. The
//! result is the median of the rounds' ratios.
#![expect(clippy::print_stdout, reason = "what it prints is its result")]

use std::time::Instant;

use tollgate::{
    ByHand, Clock, Command, Control, Core, Delivery, Done, EgressShard, IngressShard, Journal,
    ManualClock, ModelIndex, Nanos, Request,
};
use tollgate_benches::scaled;
use tollgate_harness::Summary;
use tollgate_harness::machine::{Cores, load_average, on_core};
use tollgate_harness::pipeline::{BATCH, Rig};

const ROUNDS: u64 = 101;
/// Batches in one round.
const BATCHES: u64 = 4_000;
/// More than the records of a round take.
const JOURNAL_BYTES: usize = 1 << 26;
const MODEL: ModelIndex = ModelIndex(0);

/// An engine that is turned by hand; time goes on by a microsecond with each batch.
struct Bench {
    core: Core<u64>,
    control: Control,
    ingress: IngressShard<u64>,
    egress: EgressShard<u64>,
    received: Vec<Delivery<u64>>,
    hand: ManualClock,
    now: Nanos,
}

impl Bench {
    fn new() -> Self {
        let (clock, hand) = Clock::manual();
        let ByHand {
            core,
            mut ingress,
            mut egress,
            handles,
        } = Rig::USUAL
            .builder(Cores::NOBODY)
            .clock(clock)
            .build_by_hand()
            .expect("the rig is valid");
        Self {
            core,
            control: handles.control(),
            ingress: ingress.remove(0),
            egress: egress.remove(0),
            received: Vec::with_capacity(BATCH),
            hand,
            now: Nanos(0),
        }
    }

    fn start_journal(&mut self) {
        let command = Command::StartJournal {
            model: MODEL,
            capacity_bytes: JOURNAL_BYTES,
        };
        let started = self.core.execute(&self.control, command);
        started.expect("the one before was taken");
    }

    fn take_journal(&mut self) -> Journal {
        let command = Command::TakeJournal { model: MODEL };
        match self.core.execute(&self.control, command) {
            Ok(Done::Journal(Some(journal))) => journal,
            other => panic!("it was started, and not {other:?}"),
        }
    }

    /// Nanoseconds of a life.
    fn round(&mut self) -> f64 {
        let start = Instant::now();
        for _ in 0..scaled(BATCHES) {
            self.now = self.now.saturating_add(Nanos(1_000));
            self.hand.set(self.now);
            let requests = std::iter::repeat_n(Request::new(512, 0), BATCH);
            self.ingress
                .submit_batch(requests, |answer| assert!(answer.is_ok(), "there is room"));
            self.core.turn(self.now);
            let received = self.egress.try_recv_batch(BATCH, &mut self.received);
            assert_eq!(received, Ok(BATCH));
            let mut feedback = self.egress.feedback();
            for delivery in self.received.drain(..) {
                let Delivery::Dispatch(dispatch) = delivery else {
                    panic!("a dispatch was expected, not {delivery:?}");
                };
                feedback.prefill_done(dispatch.receipt());
                feedback.complete(dispatch.receipt());
            }
            drop(feedback);
            self.core.turn(self.now);
        }
        per(
            start.elapsed().as_secs_f64(),
            scaled(BATCHES) * BATCH as u64,
        )
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
fn per(amount: f64, count: u64) -> f64 {
    amount * 1e9 / count as f64
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
fn run() {
    let (mut without, mut with) = (Bench::new(), Bench::new());
    let mut samples = [const { Vec::new() }; 3];
    let mut last = None;
    for _ in 0..scaled(ROUNDS) {
        let off = without.round();
        with.start_journal();
        let on = with.round();
        let journal = with.take_journal();
        assert!(!journal.is_full(), "{journal:?}");
        last = Some(journal);
        for (samples, sample) in samples.iter_mut().zip([off, on, 100.0 * (on / off - 1.0)]) {
            samples.push(sample);
        }
    }
    let names = [
        "a life without a journal, ns",
        "a life with a journal, ns",
        "the journal's part, % of a life",
    ];
    println!("\nmedian [quartiles] extremes of {} rounds", scaled(ROUNDS));
    for (name, samples) in names.iter().zip(samples) {
        println!("{name:38} {:>48.2}", Summary::of(samples));
    }
    if let Some(journal) = last {
        let lives = scaled(BATCHES) * BATCH as u64;
        let bytes = journal.bytes() as f64 / lives as f64;
        println!("bytes of a life in the journal         {bytes:>48.1}");
    }
}

fn main() {
    let cores = Cores::choose();
    println!("load average before: {}", load_average());
    on_core(cores.arbiter, run);
    println!("load average after: {}", load_average());
}
