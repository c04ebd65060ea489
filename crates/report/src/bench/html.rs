//! A benchmark's report as a page.

use super::{BenchReport, SuiteRun, plots, tables, text};
use crate::Fact;
use crate::page::{Page, Part, Section};
use crate::text::{Table, cut, plain};

/// The most characters of a suite's name in a heading.
const NAME_CHARS: usize = 60;

impl BenchReport {
    /// The report as one HTML page: the same as [`BenchReport::text`], and charts. The charts of a suite that
    /// show the same for several arms have the same axes.
    #[must_use]
    pub fn html(&self) -> String {
        Page {
            title: self.title.clone(),
            command: self.command.clone(),
            facts: pairs(&self.machine),
            sections: self.suites.iter().map(of_suite).collect(),
        }
        .render()
    }
}

pub(super) fn pairs(facts: &[Fact]) -> Vec<(String, String)> {
    let pair = |fact: &Fact| (fact.name.clone(), fact.value.clone());
    facts.iter().map(pair).collect()
}

fn of_suite(suite: &SuiteRun) -> Section {
    let distrust = suite.distrust();
    let name = cut(&suite.name, NAME_CHARS);
    let mut parts = vec![Part::Text(plain(&suite.about))];
    let is_distrusted = !distrust.is_empty();
    let why = distrust.into_iter();
    parts.extend(why.map(|why| Part::Note(format!("{}: {why}", text::DISTRUSTED))));
    parts.extend(text::attempts(suite).map(Part::Note));
    parts.extend(text::notes(suite).into_iter().map(Part::Note));
    let settings: Vec<(String, String)> = (suite.arms.iter())
        .filter(|arm| !arm.settings.is_empty())
        .map(|arm| (arm.name.clone(), text::settings(arm)))
        .collect();
    if !settings.is_empty() {
        parts.push(Part::Facts(settings));
    }
    let captioned = |caption: &str| {
        if is_distrusted {
            format!("{caption} ({})", text::DISTRUSTED)
        } else {
            caption.to_owned()
        }
    };
    for (head, table, explanation) in [
        ("The machine", tables::calibration(suite), text::MACHINE),
        ("Metrics", tables::metrics(suite), text::METRICS),
        ("Durations", tables::populations(suite), text::POPULATIONS),
        ("Shares of the classes", tables::shares(suite), text::SHARES),
    ] {
        parts.extend(with_table(&captioned(head), table, explanation));
    }
    parts.extend(plots::parts(suite));
    Section {
        title: if is_distrusted {
            format!("{name} ({})", text::DISTRUSTED)
        } else {
            name
        },
        parts,
    }
}

/// A table with what its columns mean; nothing if it has no rows.
fn with_table(caption: &str, table: Table, explanation: &str) -> Vec<Part> {
    if table.rows().is_empty() {
        return Vec::new();
    }
    vec![
        Part::Table(caption.to_owned(), table),
        Part::Text(explanation.to_owned()),
    ]
}
