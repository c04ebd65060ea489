//! What is put beside what.

use super::bootstrap::intervals;
use super::{Comparison, Pair, REPETITIONS_MIN, Row, Verdict};
use crate::Fact;
use crate::bench::{Arm, BenchReport, Better, Metric, Population, Spread, SuiteRun, Unit};
use crate::text::cell;

/// The quantiles that are compared.
const QUANTILES: [(f64, &str); 3] = [(0.5, "p50"), (0.99, "p99"), (0.999, "p99.9")];

/// One number's repetitions on both sides, before they are judged.
struct Found {
    what: String,
    unit: Unit,
    better: Better,
    old: Vec<f64>,
    new: Vec<f64>,
}

pub(super) fn compare(old: &BenchReport, new: &BenchReport) -> Comparison {
    let mut comparison = Comparison {
        old: old.title.clone(),
        new: new.title.clone(),
        notes: differences("the machine", &old.machine, &new.machine),
        distrust: Vec::new(),
        rows: Vec::new(),
        pairs: Vec::new(),
    };
    for suite in &new.suites {
        let before = old.suites.iter().find(|other| other.name == suite.name);
        add_suite(&mut comparison, before, Some(suite));
    }
    for suite in &old.suites {
        if new.suites.iter().all(|other| other.name != suite.name) {
            add_suite(&mut comparison, Some(suite), None);
        }
    }
    comparison
}

/// Facts that differ, or that one side lacks.
fn differences(of: &str, old: &[Fact], new: &[Fact]) -> Vec<String> {
    let value = |facts: &[Fact], name: &str| {
        let fact = facts.iter().find(|fact| fact.name == name);
        fact.map_or_else(|| "not told".to_owned(), |fact| cell(&fact.value))
    };
    let lost = old
        .iter()
        .filter(|fact| new.iter().all(|other| other.name != fact.name));
    let names = new.iter().chain(lost).map(|fact| fact.name.as_str());
    names
        .filter_map(|name| {
            let (before, after) = (value(old, name), value(new, name));
            let is_other = before != after;
            is_other.then(|| format!("Of {of}, {} was {before} and is {after}.", cell(name)))
        })
        .collect()
}

fn add_suite(comparison: &mut Comparison, old: Option<&SuiteRun>, new: Option<&SuiteRun>) {
    let Some(suite) = new.or(old).map(|suite| suite.name.as_str()) else {
        return;
    };
    let mut is_distrusted = false;
    for (side, run) in [("old", old), ("new", new)] {
        for why in run.map(SuiteRun::distrust).unwrap_or_default() {
            is_distrusted = true;
            let sentence = format!("Suite {} of the {side} report: {why}", cell(suite));
            comparison.distrust.push(sentence);
        }
    }
    let arms = |run: Option<&'_ SuiteRun>| run.map(|run| run.arms.clone()).unwrap_or_default();
    let (before, after) = (arms(old), arms(new));
    let lost = before
        .iter()
        .filter(|arm| after.iter().all(|other| other.name != arm.name));
    for arm in after.iter().chain(lost) {
        let of_name = |arms: &[Arm]| arms.iter().find(|other| other.name == arm.name).cloned();
        let (before, after) = (of_name(&before), of_name(&after));
        if let (Some(before), Some(after)) = (&before, &after) {
            let of = format!("{}/{}", cell(suite), cell(&arm.name));
            let notes = differences(&of, &before.settings, &after.settings);
            comparison.notes.extend(notes);
            comparison.pairs.extend(pairs(suite, before, after));
        }
        let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
        let found = metrics(&before, &after)
            .into_iter()
            .chain(populations(&before, &after));
        let row = |found| judge(suite, &arm.name, found, is_distrusted);
        comparison.rows.extend(found.map(row));
    }
}

/// The items of both sides that have the same name, those of the new side first.
fn matched<'a, T>(
    old: &'a [T],
    new: &'a [T],
    name: fn(&T) -> &str,
) -> Vec<(Option<&'a T>, Option<&'a T>)> {
    let of_name = |items: &'a [T], wanted: &str| items.iter().find(|item| name(item) == wanted);
    let kept = new
        .iter()
        .map(|item| (of_name(old, name(item)), Some(item)));
    let lost = old.iter().filter(|item| of_name(new, name(item)).is_none());
    kept.chain(lost.map(|item| (Some(item), None))).collect()
}

fn metrics(old: &Arm, new: &Arm) -> Vec<Found> {
    let mut all = Vec::new();
    for (old, new) in matched(&old.metrics, &new.metrics, |metric| &metric.name) {
        let is_same = |old: &Metric, new: &Metric| old.unit == new.unit && old.better == new.better;
        let found = |metric: &Metric, old: &[f64], new: &[f64]| Found {
            what: metric.name.clone(),
            unit: metric.unit,
            better: metric.better,
            old: finite(old),
            new: finite(new),
        };
        match (old, new) {
            (Some(old), Some(new)) if is_same(old, new) => {
                all.push(found(new, &old.samples, &new.samples));
            }
            // The name is the same, the thing is not.
            (old, new) => {
                all.extend(new.map(|new| found(new, &[], &new.samples)));
                all.extend(old.map(|old| found(old, &old.samples, &[])));
            }
        }
    }
    all
}

fn finite(samples: &[f64]) -> Vec<f64> {
    let samples = samples.iter().copied();
    samples.filter(|sample| sample.is_finite()).collect()
}

fn populations(old: &Arm, new: &Arm) -> Vec<Found> {
    let mut all = Vec::new();
    for (old, new) in matched(&old.populations, &new.populations, Population::tag) {
        let name = new.or(old).map_or("", Population::name);
        let whole = |side: Option<&Population>| side.map(Population::whole);
        let (old_whole, new_whole) = (whole(old), whole(new));
        for (q, head) in QUANTILES {
            let samples = |side: Option<&Population>, whole: &Option<crate::Recording>| {
                let is_told = whole.as_ref().is_some_and(|whole| whole.told(q).is_some());
                let side = side.filter(|_| is_told);
                side.map(|side| side.over_repetitions(q))
                    .unwrap_or_default()
            };
            all.push(Found {
                what: format!("{name} {head}"),
                unit: Unit::Nanos,
                better: Better::Lower,
                old: samples(old, &old_whole),
                new: samples(new, &new_whole),
            });
        }
        let greatest = |side: Option<&Population>| {
            side.map(|side| side.over_repetitions(1.0))
                .unwrap_or_default()
        };
        all.push(Found {
            what: format!("{name} max"),
            unit: Unit::Nanos,
            better: Better::Neither,
            old: greatest(old),
            new: greatest(new),
        });
    }
    all.retain(|found| !found.old.is_empty() || !found.new.is_empty());
    all
}

fn pairs(suite: &str, old: &Arm, new: &Arm) -> Vec<Pair> {
    let both = matched(&old.populations, &new.populations, Population::tag);
    let pair = |(before, after): (Option<&Population>, Option<&Population>)| {
        let (before, after) = (before?.whole(), after?.whole());
        let has_any = before.count() > 0 && after.count() > 0;
        has_any.then(|| Pair {
            suite: suite.to_owned(),
            arm: new.name.clone(),
            old: before,
            new: after,
        })
    };
    both.into_iter().filter_map(pair).collect()
}

fn judge(suite: &str, arm: &str, found: Found, is_distrusted: bool) -> Row {
    let (old, new) = (Spread::of(&found.old), Spread::of(&found.new));
    let (ratio, interval, verdict) = match (&old, &new) {
        (Some(old), Some(new)) => {
            let (interval, verdict) = verdict(&found);
            (ratio(old.median, new.median), interval, verdict)
        }
        (Some(_), None) => (None, None, Verdict::OnlyOld),
        (None, Some(_)) => (None, None, Verdict::OnlyNew),
        (None, None) => (None, None, Verdict::Unknown),
    };
    Row {
        suite: suite.to_owned(),
        arm: arm.to_owned(),
        what: found.what,
        unit: found.unit,
        better: found.better,
        old,
        new,
        ratio,
        interval,
        verdict,
        is_distrusted,
    }
}

/// 1 if both are the same, whatever they are.
fn ratio(old: f64, new: f64) -> Option<f64> {
    if old.total_cmp(&new).is_eq() {
        return Some(1.0);
    }
    let ratio = new / old;
    (old > 0.0 && new >= 0.0 && ratio.is_finite()).then_some(ratio)
}

fn verdict(found: &Found) -> (Option<(f64, f64)>, Verdict) {
    if found.old.len().min(found.new.len()) < REPETITIONS_MIN {
        return (None, Verdict::Unknown);
    }
    let intervals = intervals(&found.old, &found.new);
    let (low, high, still) = match intervals.ratio {
        Some((low, high)) => (low, high, 1.0),
        None => (intervals.difference.0, intervals.difference.1, 0.0),
    };
    let verdict = if low <= still && still <= high {
        Verdict::Noise
    } else {
        match (found.better, low > still) {
            (Better::Neither, _) => Verdict::Changed,
            (Better::Higher, true) | (Better::Lower, false) => Verdict::Better,
            (Better::Higher, false) | (Better::Lower, true) => Verdict::Worse,
        }
    };
    (intervals.ratio, verdict)
}
