//! The report of a benchmark: what was measured, how often, and whether the machine kept still meanwhile.
//!
//! The caller fills in a [`BenchReport`]. A report is told as text, as JSON, as one HTML page, and as
//! logs of the HdrHistogram family; its JSON is read back whole, so that reports can be
//! [merged](BenchReport::merge) and [compared](Comparison).
//!
//! A *suite* asks one kind of question, an *arm* is one configuration of it, and every arm is measured in
//! several *repetitions*. A number is a [`Metric`] with a sample for each repetition; durations are a
//! [`Population`] with a recording for each. Repetitions are kept apart, since their spread is all that is known
//! of the noise.

//!
//! What a reader may rely on: quantiles are told only where they can be known ([`Recording::told`]), a suite
//! during which the machine moved is marked ([`SuiteRun::distrust`]), and no mean stands alone.
//!
//! # JSON
//! [`BenchReport::json`] gives one object. Names are those of the fields of the types below, and so are
//! units: what ends in `_ns` is nanoseconds, in `_tokens` tokens. Fields are added without notice; whatever
//! else changes changes the number in `schema`.
//!
//! | Field | Unit | Meaning |
//! |---|---|---|
//! | `schema` | text | `tollgate.bench/1`, always first |
//! | `title`, `command` | text | what was measured, and the command that did it |
//! | `machine[]` | `name`, `value` | facts about the machine and the build |
//! | `suites[]` | object | the suites, as [`SuiteRun`] |
//! | `suites[].before`, `.after` | object | the machine, as [`Calibration`]; what is not known is `null` |
//! | `suites[].arms[]` | object | the configurations, as [`Arm`] |
//! | `..metrics[].unit` | text | `count`, `per_second`, `nanos`, `bytes`, `share` |
//! | `..metrics[].better` | text | `higher`, `lower`, `neither` |
//! | `..metrics[].samples[]` | the unit | one for each repetition |
//! | `..populations[].whole` | summary | all repetitions as one; it is not read back |
//! | `..populations[].repetitions[]` | recording | one for each repetition |
//! | `..course` | object | as [`Course`], or `null` |
//! | `..classes[]` | object | as [`ClassShare`] |
//!
//! A recording has `tag`, `name`, `population` (text), the numbers of a summary, and its whole content:
//! `sum_ns`, the sum of all durations (text, since it has up to 128 bits), and `hdr`, the histogram in the
//! encoding V2 of HdrHistogram, deflated, in base64, with three digits from 1 to 2^46.
//!
//! A summary: `count`, `clamped` (durations; those above 2^46 ns, which count at that top in the quantiles),
//! `min_ns`, `mean_ns`, `p50_ns`, `p90_ns`, `p99_ns`, `p999_ns`, `max_ns`; `null` where nothing was recorded,
//! or too little to tell the quantile.

mod check;
mod compare;
mod html;
mod json;
mod log;
mod merge;
mod number;
mod plots;
mod population;
mod tables;
mod text;
mod trust;

use serde::{Deserialize, Serialize};

pub use self::compare::{Comparison, REPETITIONS_MIN, Row, Verdict};
pub use self::json::RECORDINGS_MAX;
pub use self::merge::MergeError;
pub use self::number::Spread;
use crate::{Fact, Quantiles, Recording};

/// Everything that one run of the harness measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BenchReport {
    /// What the page is headed with.
    pub title: String,
    /// The command that made the report; several, one a line, if reports were merged.
    pub command: String,
    /// The machine and the build: processor, cores and mask, governor, clock source, kernel, versions.
    pub machine: Vec<Fact>,
    /// The suites, in the order in which they ran. Their names are unique.
    pub suites: Vec<SuiteRun>,
}

/// One suite, and the machine before and after it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SuiteRun {
    /// Its name, as the command line has it.
    pub name: String,
    /// The question that it answers, a sentence.
    pub about: String,
    /// The machine before the first arm.
    pub before: Calibration,
    /// The machine after the last arm.
    pub after: Calibration,
    /// How many runs it took until the machine kept still, or until no more were allowed; the last one is told.
    pub attempts: u32,
    /// What a reader has to know, a sentence or more each.
    pub notes: Vec<String>,
    /// The arms, in order. Their names are unique in the suite.
    pub arms: Vec<Arm>,
}

/// What the machine was like at one moment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Calibration {
    /// Nanoseconds that one cache line takes from core to core: half a round trip, the median. `None` where
    /// there are not two cores.
    pub line_ns: Option<f64>,
    /// Nanoseconds that one reading of the clock takes.
    pub clock_ns: f64,
    /// When a thread that only looks at the clock was kept from it.
    pub gaps: Gaps,
    /// The load average over the last minute; `None` where the system does not tell.
    pub load_average: Option<f64>,
    /// The part of the processors' time that the hypervisor took since the reading before this one, or since
    /// the start of the system, 0 to 1; `None` where the system does not tell.
    pub steal: Option<f64>,
}

/// The machine's own noise: how a spinning thread saw time jump.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Gaps {
    /// How long it looked, in nanoseconds.
    pub span_ns: u64,
    /// Gaps of 1 microsecond and more, a second.
    pub micros_per_second: f64,
    /// Gaps of 10 microseconds and more, a second.
    pub ten_micros_per_second: f64,
    /// Gaps of 100 microseconds and more, a second.
    pub hundred_micros_per_second: f64,
    /// The longest, in nanoseconds.
    pub longest_ns: u64,
    /// The part of the span that lay in gaps of 1 microsecond and more, 0 to 1.
    pub lost: f64,
}

/// One configuration.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Arm {
    /// Its name, as `--filter` sees it: `full_life/fcfs/spin`.
    pub name: String,
    /// What it was run with.
    pub settings: Vec<Fact>,
    /// Numbers, a sample for each repetition. Their names are unique in the arm.
    pub metrics: Vec<Metric>,
    /// Durations, a recording for each repetition. Their tags are unique in the arm.
    pub populations: Vec<Population>,
    /// How the last repetition went over time; `None` where it was not watched.
    pub course: Option<Course>,
    /// How the classes shared the service, over all repetitions; empty where they did not compete.
    pub classes: Vec<ClassShare>,
    /// What a reader has to know, a sentence or more each.
    pub notes: Vec<String>,
}

/// A number that was measured once in each repetition.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Metric {
    /// What it is: `lives a second`.
    pub name: String,
    /// What its samples count.
    pub unit: Unit,
    /// In which direction it improves.
    pub better: Better,
    /// One for each repetition, in their order.
    pub samples: Vec<f64>,
}

/// What the samples of a [`Metric`] are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Things.
    Count,
    /// Things a second.
    PerSecond,
    /// Nanoseconds.
    Nanos,
    /// Bytes.
    Bytes,
    /// Parts of one, shown in per cent.
    Share,
}

/// In which direction a [`Metric`] improves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
    /// It describes; no comparison judges it.
    Neither,
}

/// Durations of one kind, a recording for each repetition.
///
/// All recordings have the same tag, name and population.
#[derive(Clone, Debug, Deserialize)]
pub struct Population {
    /// One for each repetition, in their order; at least one.
    pub repetitions: Vec<Recording>,
}

/// One repetition over time, cut into steps. All vectors in it have an entry for each step.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Course {
    /// How long a step is, in nanoseconds.
    pub step_ns: u64,
    /// Requests that came out in the step.
    pub handed_out: Vec<u64>,
    /// The most requests that were under way at a time.
    pub in_flight_max: Vec<u64>,
    /// From the scheduled arrival to the end, of the requests that came out in the step.
    pub latency: Vec<Quantiles>,
}

/// One class's part of the service.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClassShare {
    /// The class.
    pub name: String,
    /// Tokens that it is granted each time its turn opens.
    pub quantum_tokens: u64,
    /// Tokens served while it was backlogged beside others.
    pub served_tokens: u64,
    /// Tokens that its quantum entitled it to in that time.
    pub entitled_tokens: u64,
}

/// The tokens served and entitled of all classes, which their shares are parts of.
fn wholes(classes: &[ClassShare]) -> (f64, f64) {
    let sum = |of: fn(&ClassShare) -> u64| classes.iter().map(|class| as_f64(of(class))).sum();
    (
        sum(|class| class.served_tokens),
        sum(|class| class.entitled_tokens),
    )
}

/// A count as a number to divide; beyond 2^53 it is rounded.
#[expect(
    clippy::cast_precision_loss,
    reason = "what is divided is told to a few digits"
)]
fn as_f64(count: u64) -> f64 {
    count as f64
}
