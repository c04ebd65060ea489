//! A replay's report as a page.

use super::{ReplayReport, ReplayRun, plots, summary, tables};
use crate::Fact;
use crate::page::{Page, Part, Section};
use crate::text::{cut, duration, grouped, percent, seconds};

/// The most characters of a policy's name in a heading.
const NAME_CHARS: usize = 40;

impl ReplayReport {
    /// The report as one HTML page: for each run the same as [`ReplayReport::text`], and charts. With
    /// several runs, each kind of chart stands side by side for all runs, with the same axes.
    #[must_use]
    pub fn html(&self) -> String {
        self.page().render()
    }

    /// The same page, to be added to: first a section for each run, then those of all runs.
    #[must_use]
    pub fn page(&self) -> Page {
        let mut sections: Vec<Section> = self.runs.iter().map(of_run).collect();
        sections.push(section(
            "Classes",
            vec![
                Part::Table("Each class, all requests".to_owned(), tables::classes(self)),
                Part::Text(summary::WAITS.to_owned()),
                Part::Text(summary::SHARES.to_owned()),
                Part::Table(
                    "Waits of the requests that had to wait".to_owned(),
                    tables::queued(self),
                ),
                Part::Text(summary::QUEUED.to_owned()),
            ],
        ));
        sections.push(section(
            "Workers",
            vec![
                Part::Table("Each worker".to_owned(), tables::workers(self)),
                Part::Text(summary::WORKERS.to_owned()),
            ],
        ));
        if !self.runs.is_empty() {
            sections.extend(plots::sections(self));
        }
        Page {
            title: self.title.clone(),
            command: self.command.clone(),
            facts: pairs(&self.trace),
            sections,
        }
    }
}

pub(super) fn section(title: &str, parts: Vec<Part>) -> Section {
    Section {
        title: title.to_owned(),
        parts,
    }
}

fn pairs(facts: &[Fact]) -> Vec<(String, String)> {
    let pair = |fact: &Fact| (fact.name.clone(), fact.value.clone());
    facts.iter().map(pair).collect()
}

fn of_run(run: &ReplayRun) -> Section {
    let totals = &run.totals;
    let cached = percent(
        tables::as_f64(totals.cached_tokens),
        tables::as_f64(totals.prompt_tokens),
    );
    let key = [
        ("requests", grouped(totals.requests)),
        ("completed", grouped(totals.completed)),
        ("last arrival", seconds(totals.last_arrival_ns)),
        ("last token out", seconds(totals.finish_ns)),
        ("prompt tokens", grouped(totals.prompt_tokens)),
        ("of them from caches", cached),
        ("tokens charged", grouped(totals.charged_tokens)),
        ("output tokens", grouped(totals.output_tokens)),
        (
            "dispatches with two classes waiting",
            grouped(totals.contended_dispatches),
        ),
        ("a step of the charts", duration(run.timeline.step_ns)),
    ];
    let mut facts = pairs(&run.settings);
    facts.extend(key.map(|(name, value)| (name.to_owned(), value)));
    let mut parts = vec![Part::Facts(facts)];
    parts.extend(run.notes.iter().cloned().map(Part::Note));
    parts.extend(summary::clamped(run).into_iter().map(Part::Note));
    section(&format!("Policy {}", cut(&run.policy, NAME_CHARS)), parts)
}
