//! A comparison as text and as JSON.

use serde::Serialize;

use super::{Comparison, Row, Verdict};
use crate::Error;
use crate::bench::tables::range;
use crate::bench::text::{DISTRUSTED, wrapped};
use crate::bench::{Spread, Unit};
use crate::text::{Side, Table, counted, cut, plain};

/// Names the schema; the number changes when a reader would notice.
const SCHEMA: &str = "tollgate.comparison/1";
/// The most characters of a name.
const NAME_CHARS: usize = 40;
/// The most characters of what is compared: a name, which may be a tag of a log, and a quantile behind it.
const WHAT_CHARS: usize = 100;

/// What the columns mean.
pub(super) const COLUMNS: &str = "Medians over the repetitions, with quartiles; the ratio is new by old. \
    Better and worse: 95\u{a0}% of the ratios of resampled repetitions lie on one side of 1.";

impl Verdict {
    /// In words, as tables have it.
    #[must_use]
    pub const fn told(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "WORSE",
            Self::Noise => "within the noise",
            Self::Unknown => "unknown: few repetitions",
            Self::Changed => "changed",
            Self::OnlyOld => "only in the old",
            Self::OnlyNew => "only in the new",
        }
    }
}

impl Row {
    /// The row in a line: `engine/full_life, lives a second: 1.82 M/s to 1.51 M/s, 20.5 % worse`.
    #[must_use]
    pub fn told(&self) -> String {
        let side = |side: &Option<Spread>| {
            side.map_or_else(|| "-".to_owned(), |spread| self.unit.tell(spread.median))
        };
        let loss = match self.loss() {
            Some(loss) if loss.is_infinite() => ", worse beyond any limit".to_owned(),
            Some(loss) if loss > 0.0 => format!(", {} worse", Unit::Share.tell(loss)),
            _ => String::new(),
        };
        let unsure = if self.verdict == Verdict::Unknown {
            " (too few repetitions to know the noise)"
        } else {
            ""
        };
        format!(
            "{}/{}, {}: {} to {}{loss}{unsure}",
            cut(&self.suite, NAME_CHARS),
            cut(&self.arm, NAME_CHARS),
            cut(&self.what, WHAT_CHARS),
            side(&self.old),
            side(&self.new),
        )
    }

    fn cells(&self) -> Vec<String> {
        let side = |side: &Option<Spread>| match side {
            Some(spread) => with_quartiles(self.unit, spread),
            None => "-".to_owned(),
        };
        let ratio = |ratio: f64| format!("{ratio:.3}");
        let interval = |(low, high): (f64, f64)| format!("{}..{}", ratio(low), ratio(high));
        let dash = || "-".to_owned();
        let mark = if self.is_distrusted {
            " (not trusted)"
        } else {
            ""
        };
        vec![
            cut(&self.arm, NAME_CHARS),
            cut(&self.what, WHAT_CHARS),
            side(&self.old),
            side(&self.new),
            self.ratio.map_or_else(dash, ratio),
            self.interval.map_or_else(dash, interval),
            format!("{}{mark}", self.verdict.told()),
        ]
    }
}

/// A median with its quartiles, the unit once if they share it: `1.80 (1.79..1.82) M/s`.
fn with_quartiles(unit: Unit, spread: &Spread) -> String {
    let median = unit.tell(spread.median);
    let quartiles = range(unit, spread.low, spread.high);
    match (median.rsplit_once(' '), quartiles.rsplit_once(' ')) {
        (Some((number, a)), Some((low_high, b))) if a == b && !low_high.contains(' ') => {
            format!("{number} ({low_high}) {a}")
        }
        _ => format!("{median} ({quartiles})"),
    }
}

/// The comparison with its schema in front.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    #[serde(flatten)]
    comparison: &'a Comparison,
}

impl Comparison {
    /// The comparison as one line of JSON, with a line break at its end.
    ///
    /// # Errors
    /// [`Error::Json`] if it cannot be serialised; none that can be built is known to cause it.
    pub fn json(&self) -> Result<String, Error> {
        let mut text = serde_json::to_string(&Document {
            schema: SCHEMA,
            comparison: self,
        })?;
        text.push('\n');
        Ok(text)
    }

    /// The comparison for a terminal: a table for each suite, and what it comes to.
    #[must_use]
    pub fn text(&self) -> String {
        let mut lines = vec![
            format!("old: {}", plain(&self.old)),
            format!("new: {}", plain(&self.new)),
        ];
        lines.extend(
            self.notes
                .iter()
                .map(|note| format!("note: {}", plain(note))),
        );
        lines.extend(self.distrust.iter().map(|why| format!("!! {}", plain(why))));
        for (suite, is_distrusted, table) in self.tables() {
            let mark = if is_distrusted {
                format!(" *** {DISTRUSTED} ***")
            } else {
                String::new()
            };
            lines.push(format!("\nsuite {}{mark}", cut(&suite, NAME_CHARS)));
            lines.push(table.to_string().trim_end().to_owned());
        }
        lines.push(format!("\n{}\n{}\n", wrapped(COLUMNS), self.summary()));
        lines.join("\n")
    }

    /// How many rows came to what.
    pub(super) fn summary(&self) -> String {
        use Verdict::{Better, Changed, Noise, OnlyNew, OnlyOld, Unknown, Worse};
        let kinds = [Worse, Better, Changed, Noise, Unknown, OnlyOld, OnlyNew];
        let count = |verdict| {
            let count = self
                .rows
                .iter()
                .filter(|row| row.verdict == verdict)
                .count();
            (count > 0).then(|| format!("{count} {}", verdict.told().to_lowercase()))
        };
        let counts: Vec<String> = kinds.into_iter().filter_map(count).collect();
        let rows = counted(self.rows.len() as u64, "row");
        if counts.is_empty() {
            return format!("{rows}: there is nothing to compare.");
        }
        let distrusted = self.rows.iter().filter(|row| row.is_distrusted).count();
        let apart = if distrusted > 0 {
            format!("; {distrusted} of them of suites that are not trusted")
        } else {
            String::new()
        };
        format!("{rows}: {}{apart}.", counts.join(", "))
    }

    /// A table for each suite, in order, with whether it is distrusted.
    pub(super) fn tables(&self) -> Vec<(String, bool, Table)> {
        let mut tables: Vec<(String, bool, Table)> = Vec::new();
        for row in &self.rows {
            if tables.last().is_none_or(|(suite, ..)| *suite != row.suite) {
                tables.push((row.suite.clone(), row.is_distrusted, heads()));
            }
            if let Some((.., table)) = tables.last_mut() {
                table.row(&row.cells());
            }
        }
        tables
    }
}

fn heads() -> Table {
    Table::new(&[
        ("arm", Side::Left),
        ("what", Side::Left),
        ("old", Side::Right),
        ("new", Side::Right),
        ("ratio", Side::Right),
        ("95 %", Side::Right),
        ("verdict", Side::Left),
    ])
}
