//! The CSV files of the Azure Public Dataset's LLM inference traces.
//!
//! Three columns: `TIMESTAMP,ContextTokens,GeneratedTokens`, as in
//! `2023-11-16 18:17:03.9799600,4808,10`. A header is optional; if there is one, it names the
//! columns, in any order, and further columns are ignored. Without a header there are exactly these
//! three in this order. A field may stand in double quotes, which are taken off field by field: no field
//! of interest can hold a comma, and an open quote cannot swallow the rest of the file.

use tollgate_arbiter::Nanos;

use super::column::hash;
use super::{TraceRow, timestamp};

const COLUMNS: [&str; 3] = ["TIMESTAMP", "ContextTokens", "GeneratedTokens"];

/// Reads lines, once it knows which field is which.
#[derive(Debug, Default)]
pub(super) struct Parser {
    columns: Option<Columns>,
}

/// Where the columns stand.
#[derive(Clone, Copy, Debug)]
struct Columns {
    places: [usize; 3],
    key: Option<usize>,
    /// How many fields a line has.
    count: usize,
}

impl Parser {
    pub(super) const fn knows_columns(&self) -> bool {
        self.columns.is_some()
    }

    /// The request of a line, with its time as in the file; none if it is the header.
    pub(super) fn parse(
        &mut self,
        line: &str,
        key: Option<&str>,
    ) -> Result<Option<TraceRow>, String> {
        if let Some(columns) = self.columns {
            return columns.row(line).map(Some);
        }
        let names: Vec<&str> = fields(line).collect();
        // A first line that does not begin like a time stamp names the columns.
        let is_header = !names[0].starts_with(|digit: char| digit.is_ascii_digit());
        let columns = if is_header {
            Columns::named(&names, key)?
        } else {
            Columns::named(&COLUMNS, key)?
        };
        self.columns = Some(columns);
        if is_header {
            return Ok(None);
        }
        columns.row(line).map(Some)
    }
}

impl Columns {
    fn named(names: &[&str], key: Option<&str>) -> Result<Self, String> {
        let place = |name: &str| names.iter().position(|known| *known == name);
        if let Some(twice) = COLUMNS
            .iter()
            .find(|column| names.iter().filter(|name| *name == *column).count() > 1)
        {
            return Err(format!("the header names the column {twice} twice"));
        }
        let mut places = [0; 3];
        for (at, name) in places.iter_mut().zip(COLUMNS) {
            *at = place(name).ok_or_else(|| {
                let needed = COLUMNS.join(",");
                format!("the header names no column {name}; needed are {needed}")
            })?;
        }
        let no_key =
            |key: &str| format!("there is no column {key:?}; there are {}", names.join(","));
        let key = key.map(|key| place(key).ok_or_else(|| no_key(key)));
        Ok(Self {
            places,
            key: key.transpose()?,
            count: names.len(),
        })
    }

    fn row(&self, line: &str) -> Result<TraceRow, String> {
        let (mut found, mut parts, mut key) = (0, [""; 3], 0);
        for field in fields(line) {
            for (part, &at) in parts.iter_mut().zip(&self.places) {
                if at == found {
                    *part = field;
                }
            }
            if self.key == Some(found) {
                key = hash(field.as_bytes());
            }
            found += 1;
        }
        if found != self.count {
            return Err(format!("{} fields expected, {found} found", self.count));
        }
        let [at, prompt, output] = parts;
        Ok(TraceRow {
            at: time(at)?,
            prompt_tokens: tokens(prompt, COLUMNS[1])?,
            output_tokens: tokens(output, COLUMNS[2])?,
            key,
            ..TraceRow::default()
        })
    }
}

/// The fields of a line, without blanks and quotes around them.
fn fields(line: &str) -> impl Iterator<Item = &str> {
    line.split(',').map(|field| {
        let field = field.trim_ascii();
        let inner = field.strip_prefix('"');
        inner
            .and_then(|inner| inner.strip_suffix('"'))
            .unwrap_or(field)
    })
}

fn time(text: &str) -> Result<Nanos, String> {
    timestamp::parse(text).map_err(|message| format!("{}: {message}", COLUMNS[0]))
}

fn tokens(text: &str, column: &str) -> Result<u32, String> {
    text.parse().map_err(|_| {
        format!(
            "{column} must be a whole number from 0 to {}, not {text:?}",
            u32::MAX
        )
    })
}
