//! The tables of a replay's report, the same for text and page.
//!
//! With several runs, the rows of a class (or a worker) under each policy stand together, and a second
//! column names the policy. Classes come in the order in which they first appear in the runs.

use std::collections::{BTreeMap, BTreeSet};

use super::{ClassRun, Count, ReplayReport, ReplayRun, WorkerRun};
use crate::Recording;
use crate::text::{Side, Table, cut, duration_or_dash, grouped, percent};

/// How the sum over all classes is called.
const ALL: &str = "all classes";

/// The most characters of a name.
const NAME_CHARS: usize = 40;

/// The names of all classes, each once, in the order in which they first appear.
pub(super) fn class_names(report: &ReplayReport) -> Vec<&str> {
    let classes = report.runs.iter().flat_map(|run| &run.classes);
    distinct(classes.map(|class| class.name.as_str()))
}

/// The names of all workers, in the same way.
pub(super) fn worker_names(report: &ReplayReport) -> Vec<&str> {
    let workers = report.runs.iter().flat_map(|run| &run.workers);
    distinct(workers.map(|worker| worker.name.as_str()))
}

fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = BTreeSet::new();
    names.filter(|&name| seen.insert(name)).collect()
}

/// A table whose first columns are `what` and, with several runs, the policy.
fn table(report: &ReplayReport, what: &str, others: &[(&str, Side)]) -> Table {
    let mut heads = vec![(what, Side::Left)];
    if report.runs.len() > 1 {
        heads.push(("policy", Side::Left));
    }
    heads.extend(others);
    Table::new(&heads)
}

fn row(report: &ReplayReport, run: &ReplayRun, name: &str, others: Vec<String>) -> Vec<String> {
    let mut cells = vec![cut(name, NAME_CHARS)];
    if report.runs.len() > 1 {
        cells.push(cut(&run.policy, NAME_CHARS));
    }
    cells.extend(others);
    cells
}

/// What all classes of a run have in common: the sums that their shares are parts of.
struct Whole {
    served: f64,
    entitled: f64,
}

impl Whole {
    fn of(run: &ReplayRun) -> Self {
        let finite = |tokens: &f64| tokens.is_finite();
        Self {
            served: as_f64(
                run.classes
                    .iter()
                    .fold(0, |sum: u64, class| sum.saturating_add(class.served_tokens)),
            ),
            entitled: run
                .classes
                .iter()
                .map(|class| class.entitled_tokens)
                .filter(finite)
                .sum(),
        }
    }
}

/// The parts of one that each class was served and was due, in the run's order.
pub(super) fn shares(run: &ReplayRun) -> Vec<(f64, f64)> {
    let whole = Whole::of(run);
    let part = |tokens: f64, whole: f64| {
        if whole > 0.0 {
            tokens / whole
        } else {
            f64::NAN
        }
    };
    let shares = |class: &ClassRun| {
        (
            part(as_f64(class.served_tokens), whole.served),
            part(class.entitled_tokens, whole.entitled),
        )
    };
    run.classes.iter().map(shares).collect()
}

/// What became of each class.
pub(super) fn classes(report: &ReplayReport) -> Table {
    let mut table = table(
        report,
        "class",
        &[
            ("requests", Side::Right),
            ("tokens charged", Side::Right),
            ("share served", Side::Right),
            ("entitled", Side::Right),
            ("wait p50", Side::Right),
            ("wait p90", Side::Right),
            ("wait p99", Side::Right),
            ("wait p99.9", Side::Right),
            ("wait max", Side::Right),
            ("first token p50", Side::Right),
            ("first token p99", Side::Right),
            ("outcomes", Side::Left),
            ("limits hit", Side::Left),
        ],
    );
    for name in class_names(report) {
        for run in &report.runs {
            let whole = Whole::of(run);
            for class in run.classes.iter().filter(|class| class.name == name) {
                table.row(&row(report, run, name, class_cells(class, &whole)));
            }
        }
    }
    for run in &report.runs {
        if let Some(all) = sum(run) {
            table.row(&row(report, run, ALL, class_cells(&all, &Whole::of(run))));
        }
    }
    table
}

fn class_cells(class: &ClassRun, whole: &Whole) -> Vec<String> {
    let mut cells = vec![
        grouped(class.requests),
        grouped(class.charged_tokens),
        percent(as_f64(class.served_tokens), whole.served),
        percent(class.entitled_tokens, whole.entitled),
    ];
    cells.extend(wait_cells(&class.wait));
    cells.push(duration_or_dash(class.first_token.quantile(0.5)));
    cells.push(duration_or_dash(class.first_token.quantile(0.99)));
    cells.push(outcomes(class));
    cells.push(counts(&class.rejected));
    cells
}

fn wait_cells(wait: &Recording) -> Vec<String> {
    let mut cells: Vec<String> = [0.5, 0.9, 0.99, 0.999]
        .iter()
        .map(|&share| duration_or_dash(wait.quantile(share)))
        .collect();
    cells.push(duration_or_dash(wait.max()));
    cells
}

fn outcomes(class: &ClassRun) -> String {
    let mut parts = vec![format!("{} completed", grouped(class.completed))];
    if class.expired > 0 {
        parts.push(format!("{} expired", grouped(class.expired)));
    }
    let rejected = total(&class.rejected);
    if rejected > 0 {
        parts.push(format!("{} rejected", grouped(rejected)));
    }
    if total(&class.failed) > 0 {
        parts.push(format!("failed: {}", counts(&class.failed)));
    }
    parts.join(", ")
}

fn total(counts: &[Count]) -> u64 {
    let add = |sum: u64, count: &Count| sum.saturating_add(count.count);
    counts.iter().fold(0, add)
}

fn counts(counts: &[Count]) -> String {
    if counts.is_empty() {
        return "-".to_owned();
    }
    let told = |count: &Count| format!("{} {}", grouped(count.count), count.code);
    let parts: Vec<String> = counts.iter().map(told).collect();
    parts.join(", ")
}

/// All classes of a run as one; `None` if it has none.
fn sum(run: &ReplayRun) -> Option<ClassRun> {
    let (first, rest) = run.classes.split_first()?;
    let mut all = first.clone();
    for class in rest {
        let pairs = [
            (&mut all.requests, class.requests),
            (&mut all.completed, class.completed),
            (&mut all.expired, class.expired),
            (&mut all.charged_tokens, class.charged_tokens),
            (&mut all.served_tokens, class.served_tokens),
        ];
        for (sum, part) in pairs {
            *sum = sum.saturating_add(part);
        }
        add_counts(&mut all.rejected, &class.rejected);
        add_counts(&mut all.failed, &class.failed);
        all.wait.add(&class.wait);
        all.wait_queued.add(&class.wait_queued);
        all.first_token.add(&class.first_token);
    }
    all.entitled_tokens = Whole::of(run).entitled;
    Some(all)
}

fn add_counts(sums: &mut Vec<Count>, counts: &[Count]) {
    for count in counts {
        match sums.iter_mut().find(|sum| sum.code == count.code) {
            Some(sum) => sum.count = sum.count.saturating_add(count.count),
            None => sums.push(count.clone()),
        }
    }
}

/// The waits of those that had to wait.
pub(super) fn queued(report: &ReplayReport) -> Table {
    let mut table = table(
        report,
        "class",
        &[
            ("had to wait", Side::Right),
            ("of dispatched", Side::Right),
            ("wait p50", Side::Right),
            ("wait p90", Side::Right),
            ("wait p99", Side::Right),
            ("wait p99.9", Side::Right),
            ("wait max", Side::Right),
        ],
    );
    for name in class_names(report) {
        for run in &report.runs {
            for class in run.classes.iter().filter(|class| class.name == name) {
                let waited = class.wait_queued.count();
                let mut cells = vec![
                    grouped(waited),
                    percent(as_f64(waited), as_f64(class.wait.count())),
                ];
                cells.extend(wait_cells(&class.wait_queued));
                table.row(&row(report, run, name, cells));
            }
        }
    }
    table
}

/// What each worker did.
pub(super) fn workers(report: &ReplayReport) -> Table {
    let mut table = table(
        report,
        "worker",
        &[
            ("requests", Side::Right),
            ("busy", Side::Right),
            ("prefilling", Side::Right),
            ("tokens prefilled", Side::Right),
            ("from cache", Side::Right),
            ("tokens put out", Side::Right),
            ("peak sequences", Side::Right),
            ("blocks evicted", Side::Right),
        ],
    );
    let by_name: Vec<BTreeMap<&str, &WorkerRun>> = (report.runs.iter())
        .map(|run| {
            run.workers
                .iter()
                .map(|worker| (worker.name.as_str(), worker))
        })
        .map(Iterator::collect)
        .collect();
    for name in worker_names(report) {
        for (run, workers) in report.runs.iter().zip(&by_name) {
            if let Some(worker) = workers.get(name) {
                table.row(&row(report, run, name, worker_cells(worker, run)));
            }
        }
    }
    table
}

fn worker_cells(worker: &WorkerRun, run: &ReplayRun) -> Vec<String> {
    let finish = as_f64(run.totals.finish_ns);
    let cached = as_f64(worker.cached_tokens);
    vec![
        grouped(worker.requests),
        percent(as_f64(worker.busy_ns), finish),
        percent(as_f64(worker.prefill_ns), finish),
        grouped(worker.prefill_tokens),
        percent(cached, cached + as_f64(worker.prefill_tokens)),
        grouped(worker.output_tokens),
        worker.peak_sequences.to_string(),
        grouped(worker.evicted_blocks),
    ]
}

/// A count as a number to divide; beyond 2^53 it is rounded.
#[expect(
    clippy::cast_precision_loss,
    reason = "what is divided is told to a few digits"
)]
pub(super) fn as_f64(count: u64) -> f64 {
    count as f64
}
