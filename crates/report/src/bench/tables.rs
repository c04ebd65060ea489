//! The tables of a benchmark's report, the same for text and page.

use super::number::Spread;
use super::population::QUANTILES;
use super::{Calibration, Population, SuiteRun, Unit};
use crate::text::{Side, Table, cut, duration, duration_or_dash, grouped, percent};

/// The most characters of a name.
const NAME_CHARS: usize = 40;
/// The most characters of what was measured, which may be a tag of a log.
const TAG_CHARS: usize = 100;

/// The machine before and after a suite, with rows as far as something was looked at.
pub(super) fn calibration(suite: &SuiteRun) -> Table {
    let mut table = Table::new(&[
        ("the machine", Side::Left),
        ("line", Side::Right),
        ("clock", Side::Right),
        ("gaps ≥1 µs", Side::Right),
        ("≥10 µs", Side::Right),
        ("≥100 µs", Side::Right),
        ("longest", Side::Right),
        ("lost", Side::Right),
        ("load", Side::Right),
        ("steal", Side::Right),
    ]);
    for (when, of) in [("before", &suite.before), ("after", &suite.after)] {
        if !of.is_unknown() {
            table.row(&calibration_row(when, of));
        }
    }
    table
}

fn calibration_row(when: &str, of: &Calibration) -> Vec<String> {
    let tell = |unit: Unit, value: Option<f64>| {
        value.map_or_else(|| "-".to_owned(), |value| unit.tell(value))
    };
    let gaps = &of.gaps;
    vec![
        when.to_owned(),
        tell(Unit::Nanos, of.line_ns),
        Unit::Nanos.tell(of.clock_ns),
        Unit::PerSecond.tell(gaps.micros_per_second),
        Unit::PerSecond.tell(gaps.ten_micros_per_second),
        Unit::PerSecond.tell(gaps.hundred_micros_per_second),
        duration(gaps.longest_ns),
        Unit::Share.tell(gaps.lost),
        of.load_average
            .map_or_else(|| "-".to_owned(), |load| format!("{load:.2}")),
        tell(Unit::Share, of.steal),
    ]
}

/// The metrics of all arms of a suite.
pub(super) fn metrics(suite: &SuiteRun) -> Table {
    let mut table = Table::new(&[
        ("arm", Side::Left),
        ("metric", Side::Left),
        ("median", Side::Right),
        ("quartiles", Side::Right),
        ("min", Side::Right),
        ("max", Side::Right),
        ("repetitions", Side::Right),
    ]);
    for arm in &suite.arms {
        for metric in &arm.metrics {
            let mut row = vec![cut(&arm.name, NAME_CHARS), cut(&metric.name, NAME_CHARS)];
            match Spread::of(&metric.samples) {
                Some(spread) => row.extend([
                    metric.unit.tell(spread.median),
                    range(metric.unit, spread.low, spread.high),
                    metric.unit.tell(spread.min),
                    metric.unit.tell(spread.max),
                    spread.count.to_string(),
                ]),
                None => row.extend(["-", "-", "-", "-", "0"].map(str::to_owned)),
            }
            table.row(&row);
        }
    }
    table
}

/// Two values that share a unit with the unit once: `1.79..1.85 M/s`.
pub(super) fn range(unit: Unit, low: f64, high: f64) -> String {
    let (low, high) = (unit.tell(low), unit.tell(high));
    match (low.rsplit_once(' '), high.rsplit_once(' ')) {
        (Some((number, a)), Some((_, b))) if a == b => format!("{number}..{high}"),
        _ => format!("{low}..{high}"),
    }
}

/// The populations of all arms of a suite.
pub(super) fn populations(suite: &SuiteRun) -> Table {
    let mut heads = vec![
        ("arm", Side::Left),
        ("what", Side::Left),
        ("count", Side::Right),
    ];
    heads.extend(QUANTILES.map(|(_, head)| (head, Side::Right)));
    heads.extend([("max", Side::Right), ("p99 over repetitions", Side::Right)]);
    let mut table = Table::new(&heads);
    for arm in &suite.arms {
        for population in &arm.populations {
            let mut row = vec![
                cut(&arm.name, NAME_CHARS),
                cut(population.name(), TAG_CHARS),
            ];
            row.extend(population_cells(population));
            table.row(&row);
        }
    }
    table
}

fn population_cells(population: &Population) -> Vec<String> {
    let whole = population.whole();
    let mut cells = vec![grouped(whole.count())];
    cells.extend(QUANTILES.map(|(q, _)| duration_or_dash(whole.told(q))));
    cells.push(duration_or_dash(whole.max()));
    let spread = whole
        .told(0.99)
        .and_then(|_| Spread::of(&population.over_repetitions(0.99)));
    cells.push(spread.map_or_else(
        || "-".to_owned(),
        |spread| range(Unit::Nanos, spread.min, spread.max),
    ));
    cells
}

/// How the classes of all arms of a suite shared the service.
pub(super) fn shares(suite: &SuiteRun) -> Table {
    let mut table = Table::new(&[
        ("arm", Side::Left),
        ("class", Side::Left),
        ("quantum", Side::Right),
        ("tokens served", Side::Right),
        ("share served", Side::Right),
        ("entitled", Side::Right),
    ]);
    for arm in &suite.arms {
        let (served, entitled) = super::wholes(&arm.classes);
        for class in &arm.classes {
            table.row(&[
                cut(&arm.name, NAME_CHARS),
                cut(&class.name, NAME_CHARS),
                grouped(class.quantum_tokens),
                grouped(class.served_tokens),
                percent(super::as_f64(class.served_tokens), served),
                percent(super::as_f64(class.entitled_tokens), entitled),
            ]);
        }
    }
    table
}
