//! Two benchmark reports, an old and a new one, row by row.
//!
//! 1. A row has the medians over the repetitions of both sides, and what can be said of their ratio.
//! 2. What is judged is judged by its interval: resampled repetitions of both sides, 2,000 draws from a fixed
//!    seed, the middle 95 % of the ratios. Under three repetitions on a side nothing is known.
//! 3. A ratio to nothing, or of numbers below 0, makes no sense and is not told; such rows are judged by the
//!    interval of the difference.
//! 4. A suite that either side distrusts is judged, marked, and kept out of [`Comparison::worse_by`].
//!
//! # JSON
//! [`Comparison::json`] gives one object, `schema` first: `tollgate.comparison/1`. `old` and `new` are the
//! titles, `notes[]` and `distrust[]` sentences, `rows[]` as [`Row`]: `old` and `new` as [`Spread`] in the
//! `unit`, `ratio`, `interval` (two numbers), `verdict` (`better`, `worse`, `noise`, `unknown`, `changed`,
//! `only_old`, `only_new`); `null` where there is none.

mod bootstrap;
mod html;
mod rows;
mod text;

use serde::Serialize;

use super::{BenchReport, Better, Spread, Unit};
use crate::Recording;

/// Fewer repetitions than these on a side say too little of the noise: with three, one range in nine does not
/// hold the truth, with five one in thirty.
pub const REPETITIONS_MIN: usize = 5;

/// What changed from one report to another.
///
/// ```
/// use tollgate_report::bench::{BenchReport, Comparison};
///
/// let nothing = BenchReport {
///     title: "empty".to_owned(),
///     command: String::new(),
///     machine: Vec::new(),
///     suites: Vec::new(),
/// };
/// let comparison = Comparison::of(&nothing, &nothing);
/// assert_eq!(comparison.judged().count(), 0);
/// ```
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The title of the old report.
    pub old: String,
    /// The title of the new one.
    pub new: String,
    /// Machines and settings that differ, a sentence each.
    pub notes: Vec<String>,
    /// Why rows are distrusted, a sentence each.
    pub distrust: Vec<String>,
    /// The rows, in the order of the new report; behind them what the old one alone has.
    pub rows: Vec<Row>,
    /// Populations that both have.
    #[serde(skip)]
    pairs: Vec<Pair>,
}

/// One number that was measured on both sides, or on one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The suite.
    pub suite: String,
    /// The arm.
    pub arm: String,
    /// The metric, or the population with its quantile.
    pub what: String,
    /// What the numbers are.
    pub unit: Unit,
    /// In which direction it improves.
    pub better: Better,
    /// The old repetitions; `None` if there are none, or too few durations to tell the quantile.
    pub old: Option<Spread>,
    /// The new ones.
    pub new: Option<Spread>,
    /// The new median by the old one; `None` where that makes no sense.
    pub ratio: Option<f64>,
    /// In what range 95 % of the resampled ratios lie; `None` where that is not known.
    pub interval: Option<(f64, f64)>,
    /// What it comes to.
    pub verdict: Verdict,
    /// Whether either side distrusts the suite.
    pub is_distrusted: bool,
}

/// What a row comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It improved by more than the noise.
    Better,
    /// It got worse by more than the noise.
    Worse,
    /// The interval holds the ratio 1.
    Noise,
    /// Too few repetitions to know the noise.
    Unknown,
    /// It changed by more than the noise, and neither direction is better.
    Changed,
    /// Only the old report has it.
    OnlyOld,
    /// Only the new report has it.
    OnlyNew,
}

/// The same population of both sides.
#[derive(Clone, Debug)]
struct Pair {
    suite: String,
    arm: String,
    old: Recording,
    new: Recording,
}

impl Comparison {
    /// Compares metrics and populations of the same suite, arm and name (of populations, tag).
    ///
    /// Of a population it compares the p50, p99 and p99.9 of the repetitions, each where the
    /// [whole](super::Population::whole) tells it, and the greatest, which is one event and judged by none.
    #[must_use]
    pub fn of(old: &BenchReport, new: &BenchReport) -> Self {
        rows::compare(old, new)
    }

    /// The rows that are there on both sides and have a direction.
    pub fn judged(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.is_judged())
    }

    /// The trusted rows that are worse by more than `limit` (0.1: by more than 10 %): those whose verdict is
    /// worse. Of those whose noise is unknown nothing can be said; they are [`Comparison::unknown`].
    ///
    /// By how much is [`Row::loss`].
    #[must_use]
    pub fn worse_by(&self, limit: f64) -> Vec<&Row> {
        let rows = self.rows.iter();
        rows.filter(|row| !row.is_distrusted && row.is_worse_by(limit))
            .collect()
    }

    /// The rows that would be judged if there were repetitions enough.
    pub fn unknown(&self) -> impl Iterator<Item = &Row> {
        self.judged().filter(|row| row.verdict == Verdict::Unknown)
    }

    /// The rows that one side lacks.
    pub fn one_sided(&self) -> impl Iterator<Item = &Row> {
        self.rows
            .iter()
            .filter(|row| matches!(row.verdict, Verdict::OnlyOld | Verdict::OnlyNew))
    }

    /// The rows that would be among [`Comparison::worse_by`] if their suites were trusted.
    #[must_use]
    pub fn distrusted_worse_by(&self, limit: f64) -> Vec<&Row> {
        let rows = self.rows.iter();
        rows.filter(|row| row.is_distrusted && row.is_worse_by(limit))
            .collect()
    }
}

impl Row {
    /// By which part the median got worse: 0.25 where less is better and it grew from 4 to 5, or where more
    /// is better and it fell from 4 to 3; 0 where it got better or has no direction. Infinite where it came
    /// from 0, or is below 0. `None` if one side lacks it.
    #[must_use]
    pub fn loss(&self) -> Option<f64> {
        let (old, new) = (self.old?.median, self.new?.median);
        let lost = match self.better {
            Better::Higher => old - new,
            Better::Lower => new - old,
            Better::Neither => return Some(0.0),
        };
        Some(if lost <= 0.0 {
            0.0
        } else if old > 0.0 {
            lost / old
        } else {
            f64::INFINITY
        })
    }

    fn is_judged(&self) -> bool {
        self.better != Better::Neither && self.old.is_some() && self.new.is_some()
    }

    fn is_worse_by(&self, limit: f64) -> bool {
        // The medians are rounded, so that the limit itself is within it.
        let is_beyond = |loss: f64| loss > limit + 1e-9;
        self.verdict == Verdict::Worse && self.loss().is_some_and(is_beyond)
    }
}
