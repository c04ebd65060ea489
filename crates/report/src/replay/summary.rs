//! A replay's report as text, and the sentences that text and page share.

use super::{ReplayReport, ReplayRun, tables};
use crate::Fact;
use crate::recording::TOP_NS;
use crate::text::{counted, cut, duration, grouped, plain, seconds};

/// The most characters of a name within a sentence.
const NAME_CHARS: usize = 40;

/// What the shares mean.
pub(super) const SHARES: &str = "Shares are those of the tokens served while a class and another \
    one were backlogged. A class is entitled to its quantum's part of the quanta of the classes that \
    were backlogged with it.";

/// Of whom the waits of the first table are.
pub(super) const WAITS: &str = "Waits are those of all requests that were dispatched, also those \
    that did not have to wait.";

/// Of whom the waits of the second table are.
pub(super) const QUEUED: &str = "Waits of those requests alone that had to wait.";

/// What the columns of the workers mean.
pub(super) const WORKERS: &str = "A worker is busy while it has a sequence or more. From cache: the \
    part of its prompt tokens that it did not compute.";

/// The run in a sentence or two.
pub(super) fn totals(run: &ReplayRun) -> String {
    let totals = &run.totals;
    format!(
        "{} of {} completed; the last arrived at {}, the last token came out at {}. {}, {} of them \
         from caches, {} charged; {}. {} while two classes or more waited.",
        grouped(totals.completed),
        counted(totals.requests, "request"),
        seconds(totals.last_arrival_ns),
        seconds(totals.finish_ns),
        counted(totals.prompt_tokens, "prompt token"),
        grouped(totals.cached_tokens),
        grouped(totals.charged_tokens),
        counted(totals.output_tokens, "output token"),
        counted_in(totals.contended_dispatches, "dispatch", "dispatches"),
    )
}

fn counted_in(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(count), if count == 1 { one } else { many })
}

/// What was cut at the top of the histograms, a sentence for each recording that was.
pub(super) fn clamped(run: &ReplayRun) -> Vec<String> {
    let recordings = run
        .classes
        .iter()
        .flat_map(|class| [&class.wait, &class.wait_queued, &class.first_token]);
    recordings
        .filter(|recording| recording.clamped() > 0)
        .map(|recording| {
            format!(
                "Clamped: {} of {} in {} ({}) lie above {}; quantiles count them as that.",
                grouped(recording.clamped()),
                counted(recording.count(), "duration"),
                cut(recording.name(), NAME_CHARS),
                cut(recording.population(), 2 * NAME_CHARS),
                duration(TOP_NS),
            )
        })
        .collect()
}

impl ReplayReport {
    /// The report for a terminal: lines of text, tables without colours. The tables are wide; none of
    /// their lines is broken.
    #[must_use]
    pub fn text(&self) -> String {
        let mut lines = vec![plain(&self.title)];
        if !self.command.is_empty() {
            lines.push(plain(&self.command));
        }
        let fact = |fact: &Fact| format!("{}: {}", plain(&fact.name), plain(&fact.value));
        lines.extend(self.trace.iter().map(fact));
        for run in &self.runs {
            lines.push(String::new());
            lines.push(format!("policy {}", cut(&run.policy, NAME_CHARS)));
            lines.extend(
                run.settings
                    .iter()
                    .map(|setting| format!("  {}", fact(setting))),
            );
            lines.push(format!("  {}", totals(run)));
            let notes = run.notes.iter().map(|note| plain(note));
            lines.extend(
                notes
                    .chain(clamped(run))
                    .map(|note| format!("  note: {note}")),
            );
        }
        let parts = [
            (
                "Classes",
                tables::classes(self),
                format!("{WAITS}\n{SHARES}"),
            ),
            (
                "Only what was queued",
                tables::queued(self),
                QUEUED.to_owned(),
            ),
            ("Workers", tables::workers(self), WORKERS.to_owned()),
        ];
        for (head, table, explanation) in parts {
            lines.push(format!("\n{head}"));
            if table.rows().is_empty() {
                lines.push("none".to_owned());
            } else {
                lines.push(format!("{table}{explanation}"));
            }
        }
        lines.push(String::new());
        lines.join("\n")
    }
}
