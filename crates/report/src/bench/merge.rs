//! Reports put together.
//!
//! Samples and recordings are appended, so nothing is rounded, and the order of the reports matters for
//! nothing but the order in which things stand, and for which of two courses is kept: the last.
//!
//! Of the machine the worse is kept, so that no merge makes a suite trusted that was not: of the line
//! transfer and of the reading of the clock the pair before and after that moved most, of the lost time the
//! pair that is distrusted or else the greater one; of everything else the greater number, before and after.

use super::trust::{factor, has_lost_more};
use super::{Arm, BenchReport, Calibration, ClassShare, Metric, Population, SuiteRun};
use crate::Fact;
use crate::text::cell;

/// Why reports cannot be put together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// There is none.
    #[error("no report to merge")]
    Nothing,
    /// An arm is not the same in two of them.
    #[error("suite {suite}, arm {arm}: {what} is {first} in one report and {second} in another")]
    Differs {
        /// The suite.
        suite: String,
        /// The arm.
        arm: String,
        /// What of it.
        what: String,
        /// Its value in the earlier report.
        first: String,
        /// Its value in the later one.
        second: String,
    },
}

/// Where two reports differ.
struct Place<'a> {
    suite: &'a str,
    arm: &'a str,
}

impl Place<'_> {
    fn same(&self, what: &str, first: &str, second: &str) -> Result<(), MergeError> {
        if first == second {
            return Ok(());
        }
        Err(MergeError::Differs {
            suite: cell(self.suite),
            arm: cell(self.arm),
            what: cell(what),
            first: cell(first),
            second: cell(second),
        })
    }
}

impl BenchReport {
    /// One report of several: suites and arms of the same name become one, with the repetitions of all.
    /// Attempts are summed, notes united; facts of the machine that differ are told as `this | that`. Of the
    /// calibrations the worse is kept, so that what cannot be trusted alone is not trusted in company.
    ///
    /// # Errors
    /// [`MergeError::Differs`] if an arm was run with other settings, or its metrics, populations or classes
    /// of the same name are not of the same kind; [`MergeError::Nothing`] if there is no report.
    pub fn merge(reports: Vec<Self>) -> Result<Self, MergeError> {
        let mut reports = reports.into_iter();
        let mut merged = reports.next().ok_or(MergeError::Nothing)?;
        for report in reports {
            merged.absorb(report)?;
        }
        Ok(merged)
    }

    fn absorb(&mut self, other: Self) -> Result<(), MergeError> {
        unite(&mut self.title, &other.title, " | ");
        unite(&mut self.command, &other.command, "\n");
        for fact in other.machine {
            match self.machine.iter_mut().find(|old| old.name == fact.name) {
                Some(old) => unite(&mut old.value, &fact.value, " | "),
                None => self.machine.push(fact),
            }
        }
        for suite in other.suites {
            match self.suites.iter_mut().find(|old| old.name == suite.name) {
                Some(old) => old.absorb(suite)?,
                None => self.suites.push(suite),
            }
        }
        Ok(())
    }
}

/// Adds those parts of `new` that `old` does not have.
fn unite(old: &mut String, new: &str, between: &str) {
    for part in new.split(between) {
        if old.split(between).all(|known| known != part) {
            old.push_str(between);
            old.push_str(part);
        }
    }
}

fn unite_notes(old: &mut Vec<String>, new: Vec<String>) {
    for note in new {
        if !old.contains(&note) {
            old.push(note);
        }
    }
}

impl SuiteRun {
    fn absorb(&mut self, other: Self) -> Result<(), MergeError> {
        unite(&mut self.about, &other.about, " | ");
        let theirs = (&other.before, &other.after);
        (self.before, self.after) = worse((&self.before, &self.after), theirs);
        self.attempts = self.attempts.saturating_add(other.attempts);
        unite_notes(&mut self.notes, other.notes);
        for arm in other.arms {
            match self.arms.iter_mut().find(|old| old.name == arm.name) {
                Some(old) => old.absorb(arm, &self.name)?,
                None => self.arms.push(arm),
            }
        }
        Ok(())
    }
}

/// The machine before and after.
type Around<'a> = (&'a Calibration, &'a Calibration);

fn worse(a: Around<'_>, b: Around<'_>) -> (Calibration, Calibration) {
    let mut before = greater(a.0, b.0);
    let mut after = greater(a.1, b.1);
    let lines = |of: Around<'_>| (of.0.line_ns, of.1.line_ns);
    let moved = |(old, new): (Option<f64>, Option<f64>)| {
        let both = old.zip(new);
        (
            both.map_or(0.0, |(old, new)| factor(old, new)),
            old.unwrap_or(0.0).max(new.unwrap_or(0.0)),
        )
    };
    let (line_a, line_b) = (lines(a), lines(b));
    (before.line_ns, after.line_ns) = pick(line_a, line_b, moved(line_a), moved(line_b));
    let clock = |of: Around<'_>| (of.0.clock_ns, of.1.clock_ns);
    let moved = |(old, new): (f64, f64)| (factor(old, new), old.max(new));
    let (clock_a, clock_b) = (clock(a), clock(b));
    (before.clock_ns, after.clock_ns) = pick(clock_a, clock_b, moved(clock_a), moved(clock_b));
    let lost = |of: Around<'_>| (of.0.gaps.lost, of.1.gaps.lost);
    let moved = |(old, new): (f64, f64)| {
        let is_distrusted = has_lost_more(old, new);
        (if is_distrusted { 1.0 } else { 0.0 }, old.max(new))
    };
    let (lost_a, lost_b) = (lost(a), lost(b));
    (before.gaps.lost, after.gaps.lost) = pick(lost_a, lost_b, moved(lost_a), moved(lost_b));
    (before, after)
}

/// The pair whose weight is the greater; the first if they are equal.
fn pick<T>(a: T, b: T, weight_a: (f64, f64), weight_b: (f64, f64)) -> T {
    let order = weight_a.0.total_cmp(&weight_b.0);
    if order.then(weight_a.1.total_cmp(&weight_b.1)).is_lt() {
        b
    } else {
        a
    }
}

/// The greater of each number of two calibrations.
fn greater(a: &Calibration, b: &Calibration) -> Calibration {
    let either = |a: Option<f64>, b: Option<f64>| match (a, b) {
        (Some(a), Some(b)) => Some(a.max(b)),
        (a, b) => a.or(b),
    };
    let (x, y) = (&a.gaps, &b.gaps);
    Calibration {
        line_ns: either(a.line_ns, b.line_ns),
        clock_ns: a.clock_ns.max(b.clock_ns),
        gaps: super::Gaps {
            span_ns: x.span_ns.max(y.span_ns),
            micros_per_second: x.micros_per_second.max(y.micros_per_second),
            ten_micros_per_second: x.ten_micros_per_second.max(y.ten_micros_per_second),
            hundred_micros_per_second: x.hundred_micros_per_second.max(y.hundred_micros_per_second),
            longest_ns: x.longest_ns.max(y.longest_ns),
            lost: x.lost.max(y.lost),
        },
        load_average: either(a.load_average, b.load_average),
        steal: either(a.steal, b.steal),
    }
}

impl Arm {
    fn absorb(&mut self, other: Self, suite: &str) -> Result<(), MergeError> {
        let name = self.name.clone();
        let place = Place { suite, arm: &name };
        same_settings(&place, &self.settings, &other.settings)?;
        for metric in other.metrics {
            match self.metrics.iter_mut().find(|old| old.name == metric.name) {
                Some(old) => old.absorb(metric, &place)?,
                None => self.metrics.push(metric),
            }
        }
        for population in other.populations {
            let is_same = |old: &&mut Population| old.tag() == population.tag();
            match self.populations.iter_mut().find(is_same) {
                Some(old) => old.absorb(population, &place)?,
                None => self.populations.push(population),
            }
        }
        for class in other.classes {
            match self.classes.iter_mut().find(|old| old.name == class.name) {
                Some(old) => old.absorb(&class, &place)?,
                None => self.classes.push(class),
            }
        }
        self.course = other.course.or(self.course.take());
        unite_notes(&mut self.notes, other.notes);
        Ok(())
    }
}

fn same_settings(place: &Place<'_>, old: &[Fact], new: &[Fact]) -> Result<(), MergeError> {
    for fact in old.iter().chain(new) {
        let value = |facts: &[Fact]| {
            let known = facts.iter().find(|other| other.name == fact.name);
            known.map_or_else(|| "not set".to_owned(), |fact| fact.value.clone())
        };
        place.same(&fact.name, &value(old), &value(new))?;
    }
    Ok(())
}

impl Metric {
    fn absorb(&mut self, other: Self, place: &Place<'_>) -> Result<(), MergeError> {
        let told = |metric: &Self| format!("{:?}, {:?}", metric.unit, metric.better);
        place.same(&self.name, &told(self), &told(&other))?;
        self.samples.extend(other.samples);
        Ok(())
    }
}

impl Population {
    fn absorb(&mut self, other: Self, place: &Place<'_>) -> Result<(), MergeError> {
        if let (Some(old), Some(new)) = (self.repetitions.first(), other.repetitions.first()) {
            let what = |of: &str| format!("{of} of {}", old.tag());
            place.same(&what("the name"), old.name(), new.name())?;
            place.same(&what("the population"), old.population(), new.population())?;
        }
        self.repetitions.extend(other.repetitions);
        Ok(())
    }
}

impl ClassShare {
    fn absorb(&mut self, other: &Self, place: &Place<'_>) -> Result<(), MergeError> {
        place.same(
            &format!("the quantum of class {}", self.name),
            &self.quantum_tokens.to_string(),
            &other.quantum_tokens.to_string(),
        )?;
        self.served_tokens = self.served_tokens.saturating_add(other.served_tokens);
        self.entitled_tokens = self.entitled_tokens.saturating_add(other.entitled_tokens);
        Ok(())
    }
}
