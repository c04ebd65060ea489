//! Text for people: tables that align, and numbers with their units.
//!
//! Invariant: whatever goes into a table, each row is one line, and each cell has at most
//! [`CELL_CHARS_MAX`] characters.

use std::fmt;

/// The most characters that [`cell`] leaves of a text.
pub const CELL_CHARS_MAX: usize = 120;

/// `text` as one cell shows it: made [`plain`], and cut to [`CELL_CHARS_MAX`] characters, the last an
/// ellipsis where more was there.
///
/// ```
/// # use tollgate_report::text::cell;
/// assert_eq!(cell("premium"), "premium");
/// assert_eq!(cell(&"p".repeat(10_000)).chars().count(), 120);
/// ```
#[must_use]
pub fn cell(text: &str) -> String {
    cut(text, CELL_CHARS_MAX)
}

/// `text` made [`plain`] and cut to `chars` characters (at least 1), as [`cell`] does.
///
/// ```
/// # use tollgate_report::text::cut;
/// assert_eq!(cut("premium", 4), "pre…");
/// ```
#[must_use]
pub fn cut(text: &str, chars: usize) -> String {
    let mut kept: String = text.chars().take(chars).map(harmless).collect();
    if text.chars().nth(chars).is_some() {
        kept.pop();
        kept.push('…');
    }
    kept
}

/// `text` with a replacement character for each that would break a line, reorder its neighbours, or
/// cannot stand in XML.
///
/// ```
/// # use tollgate_report::text::plain;
/// assert_eq!(plain("a\nb\u{202e}"), "a\u{fffd}b\u{fffd}");
/// ```
#[must_use]
pub fn plain(text: &str) -> String {
    text.chars().map(harmless).collect()
}

fn harmless(c: char) -> char {
    let is_harmful = c.is_control()
        || matches!(
            c,
            '\u{61c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
                | '\u{fffe}'
                | '\u{ffff}'
        );
    if is_harmful {
        char::REPLACEMENT_CHARACTER
    } else {
        c
    }
}

/// On which side of its column a cell stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// Rows and columns with heads, each column on one side. It is shown as aligned text; a page can show
/// the same as HTML.
#[derive(Clone, Debug)]
pub struct Table {
    heads: Vec<(String, Side)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns.
    #[must_use]
    pub fn new(heads: &[(&str, Side)]) -> Self {
        let head = |&(text, side): &(&str, Side)| (cell(text), side);
        Self {
            heads: heads.iter().map(head).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row. Each of its texts is cut by [`cell`].
    ///
    /// # Panics
    /// If it does not have a cell for each column.
    pub fn row(&mut self, cells: &[String]) {
        assert_eq!(cells.len(), self.heads.len(), "a cell for each column");
        self.rows
            .push(cells.iter().map(|text| cell(text)).collect());
    }

    /// The heads of the columns and their sides.
    #[must_use]
    pub fn heads(&self) -> &[(String, Side)] {
        &self.heads
    }

    /// The rows, each with a cell for each column.
    #[must_use]
    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().map(|row| row[column].as_str());
        cells
            .chain([self.heads[column].0.as_str()])
            .map(|text| text.chars().count())
            .max()
            .unwrap_or(0)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths: Vec<usize> = (0..self.heads.len()).map(|at| self.width(at)).collect();
        let heads: Vec<String> = self.heads.iter().map(|(text, _)| text.clone()).collect();
        for row in std::iter::once(&heads).chain(&self.rows) {
            let mut line = String::new();
            for ((text, &width), &(_, side)) in row.iter().zip(&widths).zip(&self.heads) {
                if !line.is_empty() {
                    line.push_str("  ");
                }
                match side {
                    Side::Left => line.push_str(&format!("{text:<width$}")),
                    Side::Right => line.push_str(&format!("{text:>width$}")),
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// A time in seconds, to the millisecond, as in `12.345 s`: for points in time.
///
/// ```
/// # use tollgate_report::text::seconds;
/// assert_eq!(seconds(12_345_600_000), "12.346 s");
/// ```
#[must_use]
pub fn seconds(nanos: u64) -> String {
    let millis = (u128::from(nanos) + 500_000) / 1_000_000;
    format!("{}.{:03} s", millis / 1_000, millis % 1_000)
}

/// A duration to three digits in the unit that suits it, as in `12.3 ms`.
///
/// ```
/// # use tollgate_report::text::duration;
/// assert_eq!(duration(0), "0 s");
/// assert_eq!(duration(850), "850 ns");
/// assert_eq!(duration(12_345), "12.3 µs");
/// assert_eq!(duration(999_999), "1.00 ms");
/// assert_eq!(duration(1_000_000_000), "1.00 s");
/// assert_eq!(duration(u64::MAX), "5124096 h");
/// ```
#[must_use]
#[expect(
    clippy::cast_precision_loss,
    reason = "durations are told to three digits"
)]
pub fn duration(nanos: u64) -> String {
    match nanos {
        0 => "0 s".to_owned(),
        1..1_000 => format!("{nanos} ns"),
        1_000..999_500 => three_digits(nanos as f64 / 1e3, "µs"),
        999_500..999_500_000 => three_digits(nanos as f64 / 1e6, "ms"),
        999_500_000..9_999_500_000_000 => three_digits(nanos as f64 / 1e9, "s"),
        _ => three_digits(nanos as f64 / 3.6e12, "h"),
    }
}

/// [`duration`] of what may be missing: `-`.
#[must_use]
pub fn duration_or_dash(nanos: Option<u64>) -> String {
    nanos.map_or_else(|| "-".to_owned(), duration)
}

pub(crate) fn three_digits(value: f64, unit: &str) -> String {
    let decimals = match value {
        ..9.995 => 2,
        9.995..99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

/// `part` of `whole` in per cent, as in `80.12 %`; `-` of nothing, and where either is no number.
///
/// ```
/// # use tollgate_report::text::percent;
/// assert_eq!(percent(2.0, 3.0), "66.67 %");
/// assert_eq!(percent(0.0, 0.0), "-");
/// assert_eq!(percent(1e308, 1e308), "100.00 %");
/// assert_eq!(percent(f64::NAN, 1.0), "-");
/// assert_eq!(percent(1.0, f64::INFINITY), "-");
/// ```
#[must_use]
pub fn percent(part: f64, whole: f64) -> String {
    if whole > 0.0 && whole.is_finite() && part.is_finite() {
        format!("{:.2} %", 100.0 * (part / whole))
    } else {
        "-".to_owned()
    }
}

/// `count` things, as in `1 request` or `20,000 requests`.
///
/// ```
/// # use tollgate_report::text::counted;
/// assert_eq!(counted(1, "round"), "1 round");
/// assert_eq!(counted(1_000, "round"), "1,000 rounds");
/// ```
#[must_use]
pub fn counted(count: u64, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", grouped(count))
}

/// A number with its digits in groups of three.
///
/// ```
/// # use tollgate_report::text::grouped;
/// assert_eq!(grouped(999), "999");
/// assert_eq!(grouped(1_234_567), "1,234,567");
/// ```
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&[("class", Side::Left), ("n", Side::Right)]);
        table.row(&["a".to_owned(), "1000".to_owned()]);
        table.row(&["regular".to_owned(), "1".to_owned()]);
        assert_eq!(
            table.to_string(),
            "class       n\na        1000\nregular     1\n"
        );
    }

    #[test]
    fn hostile_names_stay_in_their_cell() {
        let mut table = Table::new(&[("class", Side::Left), ("n", Side::Right)]);
        table.row(&["é\n\u{202e}\u{0}".repeat(1 << 14), "1".to_owned()]);
        table.row(&["e".repeat(120), "2".to_owned()]);
        let text = table.to_string();
        assert_eq!(text.lines().count(), 3);
        assert!(text.lines().all(|line| line.chars().count() == 123));
        assert!(!text.contains(['\u{202e}', '\u{0}']));
    }
}
