//! Numbers for people: tables, times and waits as text.

use std::borrow::Cow;
use std::fmt;

use hdrhistogram::Histogram;
use tollgate_arbiter::Nanos;

/// The most characters that [`cell`] leaves of a text.
pub const CELL_CHARS_MAX: usize = 60;

/// `text` as a column of a table shows it: at most [`CELL_CHARS_MAX`] characters, the last of them an
/// ellipsis where more is cut off.
///
/// ```
/// # use tollgate_sim::report::cell;
/// assert_eq!(cell("premium"), "premium");
/// assert_eq!(cell(&"p".repeat(1_000)).chars().count(), 60);
/// ```
#[must_use]
pub fn cell(text: &str) -> Cow<'_, str> {
    if text.chars().nth(CELL_CHARS_MAX).is_none() {
        return Cow::Borrowed(text);
    }
    let kept = text.chars().take(CELL_CHARS_MAX - 1);
    Cow::Owned(kept.chain(['…']).collect())
}

/// On which side of its column a cell stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// Appends `cell`, with blanks up to `width` characters. `{:<width$}` would panic for a width above
/// 65,535.
pub fn push_padded(line: &mut String, cell: &str, width: usize, side: Side) {
    let blanks = width.saturating_sub(cell.chars().count());
    let blanks = std::iter::repeat_n(' ', blanks);
    match side {
        Side::Left => {
            line.push_str(cell);
            line.extend(blanks);
        }
        Side::Right => {
            line.extend(blanks);
            line.push_str(cell);
        }
    }
}

/// A table of text: the first column to the left, the others to the right, each cell cut by [`cell`].
#[derive(Debug)]
pub struct Table {
    columns: usize,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these column heads.
    #[must_use]
    pub fn new(heads: &[&str]) -> Self {
        let heads: Vec<String> = heads.iter().map(|&head| head.to_owned()).collect();
        Self {
            columns: heads.len(),
            rows: vec![heads],
        }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If it does not have a cell for each column.
    pub fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.columns, "a cell for each column");
        self.rows
            .push(cells.iter().map(|text| cell(text).into_owned()).collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            self.rows
                .iter()
                .map(|row| row[column].chars().count())
                .max()
        };
        let widths: Vec<usize> = (0..self.columns).filter_map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                if column == 0 {
                    push_padded(&mut line, cell, width, Side::Left);
                } else {
                    line.push_str("  ");
                    push_padded(&mut line, cell, width, Side::Right);
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// How long requests waited: every wait to three significant digits.
#[derive(Clone, Debug)]
pub struct Waits {
    nanos: Histogram<u64>,
}

impl Default for Waits {
    fn default() -> Self {
        Self {
            nanos: Histogram::new(3).expect("three significant digits are allowed"),
        }
    }
}

impl Waits {
    /// Adds one wait.
    ///
    /// # Panics
    /// Never: the histogram grows as it must.
    pub fn record(&mut self, wait: Nanos) {
        self.nanos
            .record(wait.0)
            .expect("a growing histogram takes every value");
    }

    /// Adds all of `other`'s waits.
    ///
    /// # Panics
    /// Never: the histogram grows as it must.
    pub fn add(&mut self, other: &Self) {
        self.nanos
            .add(&other.nanos)
            .expect("a growing histogram takes every value");
    }

    /// The wait that `share` (0 to 1) of the requests did not exceed; `-` if there was none.
    #[must_use]
    pub fn quantile(&self, share: f64) -> String {
        self.text(self.nanos.value_at_quantile(share))
    }

    /// The longest wait; `-` if there was none.
    #[must_use]
    pub fn longest(&self) -> String {
        self.text(self.nanos.max())
    }

    fn text(&self, nanos: u64) -> String {
        if self.nanos.is_empty() {
            "-".to_owned()
        } else {
            seconds(Nanos(nanos))
        }
    }
}

/// A time in seconds, to the millisecond, as in `12.345 s`.
///
/// ```
/// # use tollgate_arbiter::Nanos;
/// # use tollgate_sim::report::seconds;
/// assert_eq!(seconds(Nanos(12_345_600_000)), "12.346 s");
/// ```
#[must_use]
pub fn seconds(time: Nanos) -> String {
    let millis = (u128::from(time.0) + 500_000) / 1_000_000;
    format!("{}.{:03} s", millis / 1_000, millis % 1_000)
}

/// `count` things, as in `1 request` or `20 requests`.
///
/// ```
/// # use tollgate_sim::report::counted;
/// assert_eq!(counted(1, "round"), "1 round");
/// assert_eq!(counted(0, "round"), "0 rounds");
/// ```
#[must_use]
pub fn counted(count: u64, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {thing}{plural}")
}

/// `part` of `whole` in per cent, as in `80.12 %`; `-` of nothing.
///
/// ```
/// # use tollgate_sim::report::percent;
/// assert_eq!(percent(2.0, 3.0), "66.67 %");
/// assert_eq!(percent(0.0, 0.0), "-");
/// assert_eq!(percent(1e308, 1e308), "100.00 %");
/// ```
#[must_use]
pub fn percent(part: f64, whole: f64) -> String {
    if whole > 0.0 {
        format!("{:.2} %", 100.0 * (part / whole))
    } else {
        "-".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&["class", "n"]);
        table.row(vec!["a".to_owned(), "1000".to_owned()]);
        table.row(vec!["regular".to_owned(), "1".to_owned()]);
        assert_eq!(
            table.to_string(),
            "class       n\na        1000\nregular     1\n"
        );
    }

    #[test]
    fn a_cell_is_cut_however_long_it_is() {
        let mut table = Table::new(&["class", "n"]);
        table.row(vec!["é".repeat(1 << 17), "1".to_owned()]);
        table.row(vec!["e".repeat(60), "2".to_owned()]);
        let expected = format!(
            "{:<60}  n\n{}…  1\n{}  2\n",
            "class",
            "é".repeat(59),
            "e".repeat(60)
        );
        assert_eq!(table.to_string(), expected);
    }

    #[test]
    fn padding_takes_any_width() {
        let mut line = String::new();
        push_padded(&mut line, "x", 1 << 17, Side::Right);
        push_padded(&mut line, "y", 0, Side::Left);
        assert_eq!(line.len(), (1 << 17) + 1);
        assert!(line.ends_with(" xy"));
    }

    #[test]
    fn waits_are_told_to_three_digits_and_none_as_none() {
        let mut waits = Waits::default();
        assert_eq!(waits.quantile(0.5), "-");
        assert_eq!(waits.longest(), "-");
        for millis in 1..=1_000 {
            waits.record(Nanos::from_millis(millis));
        }
        assert_eq!(waits.quantile(0.5), "0.500 s");
        waits.record(Nanos::MAX);
        waits.record(Nanos(0));
        let mut both = Waits::default();
        both.add(&waits);
        assert_eq!(both.quantile(0.5), "0.500 s");
    }
}
