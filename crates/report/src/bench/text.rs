//! A benchmark's report as text, and the sentences that text and page share.

use super::{Arm, BenchReport, SuiteRun, tables};
use crate::Fact;
use crate::recording::TOP_NS;
use crate::text::{counted, cut, duration, grouped, plain};

/// The most characters of a name within a line.
const NAME_CHARS: usize = 60;

/// How wide a terminal is taken to be.
const COLUMNS: usize = 116;

/// What marks a suite whose figures cannot be trusted, in words.
pub(super) const DISTRUSTED: &str = "NOT TO BE TRUSTED";

/// What the columns of the machine mean.
pub(super) const MACHINE: &str = "Line: a cache line from core to core. Clock: one reading of it. Gaps: how \
    often a second a spinning thread was kept from running for so long; lost: the part of the time in them.";

/// What the columns of the metrics mean.
pub(super) const METRICS: &str =
    "One sample for each repetition; a quarter of them is below, a quarter above the quartiles.";

/// What the columns of the populations mean.
pub(super) const POPULATIONS: &str = "All repetitions as one population. A quantile is told where a hundred \
    durations or more lie above it; the last column is the least and the greatest p99 of a repetition.";

/// What the shares mean.
pub(super) const SHARES: &str = "Shares are those of the tokens served while a class and another one were \
    backlogged; a class is entitled to its quantum's part.";

/// How often the suite was run, if more than once.
pub(super) fn attempts(suite: &SuiteRun) -> Option<String> {
    (suite.attempts > 1).then(|| {
        format!(
            "{} in all: those that were made again because the machine did not keep still, of which the last is \
             told, and those of all reports that were merged.",
            counted(u64::from(suite.attempts), "run"),
        )
    })
}

/// The settings of an arm in a line.
pub(super) fn settings(arm: &Arm) -> String {
    let told = |fact: &Fact| format!("{} {}", plain(&fact.name), plain(&fact.value));
    let settings: Vec<String> = arm.settings.iter().map(told).collect();
    settings.join(", ")
}

/// What has to be said of the arms: their notes, and what was cut at the top of the histograms.
pub(super) fn notes(suite: &SuiteRun) -> Vec<String> {
    let mut notes: Vec<String> = suite.notes.iter().map(|note| plain(note)).collect();
    for arm in &suite.arms {
        let name = cut(&arm.name, NAME_CHARS);
        notes.extend(
            arm.notes
                .iter()
                .map(|note| format!("{name}: {}", plain(note))),
        );
        for population in &arm.populations {
            let whole = population.whole();
            if whole.clamped() > 0 {
                notes.push(format!(
                    "{name}: {} of {} in {} lie above {}; quantiles count them as that.",
                    grouped(whole.clamped()),
                    counted(whole.count(), "duration"),
                    cut(whole.name(), NAME_CHARS),
                    duration(TOP_NS),
                ));
            }
        }
    }
    notes
}

/// A sentence of ours with line breaks, so that it fits a terminal.
pub(super) fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last().map_or(0, String::len);
        if line > 0 && line + 1 + word.len() > COLUMNS {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join("\n")
}

impl BenchReport {
    /// The report for a terminal: lines of text, tables without colours. No line is broken; where names are
    /// short, none has more than 120 columns.
    #[must_use]
    pub fn text(&self) -> String {
        let mut lines = vec![plain(&self.title)];
        lines.extend(self.command.lines().map(plain));
        let fact = |fact: &Fact| format!("{}: {}", plain(&fact.name), plain(&fact.value));
        lines.extend(self.machine.iter().map(fact));
        for suite in &self.suites {
            lines.push(String::new());
            lines.extend(suite_lines(suite));
        }
        lines.push(String::new());
        lines.join("\n")
    }
}

fn suite_lines(suite: &SuiteRun) -> Vec<String> {
    let distrust = suite.distrust();
    let name = cut(&suite.name, NAME_CHARS);
    let mut lines = vec![if distrust.is_empty() {
        format!("suite {name}")
    } else {
        format!("suite {name} *** {DISTRUSTED} ***")
    }];
    lines.push(plain(&suite.about));
    lines.extend(distrust.iter().map(|why| format!("  !! {why}")));
    lines.extend(attempts(suite).map(|note| format!("  note: {note}")));
    lines.extend(notes(suite).iter().map(|note| format!("  note: {note}")));
    for arm in suite.arms.iter().filter(|arm| !arm.settings.is_empty()) {
        lines.push(format!(
            "  {}: {}",
            cut(&arm.name, NAME_CHARS),
            settings(arm)
        ));
    }
    let parts = [
        (tables::calibration(suite), MACHINE),
        (tables::metrics(suite), METRICS),
        (tables::populations(suite), POPULATIONS),
        (tables::shares(suite), SHARES),
    ];
    for (table, explanation) in parts {
        if !table.rows().is_empty() {
            lines.push(String::new());
            lines.push(format!("{table}{}", wrapped(explanation)));
        }
    }
    lines
}
