//! The CSV files of the Azure Public Dataset's LLM inference traces.
//!
//! Three columns: `TIMESTAMP,ContextTokens,GeneratedTokens`, as in
//! `2023-11-16 18:17:03.9799600,4808,10`. A header is optional; if there is one, it names the
//! columns, in any order, and further columns are ignored. Without a header there are exactly these
//! three in this order. Fields may stand in double quotes; blank lines are ignored.

use std::io::Read;
use std::path::Path;

use csv::{ByteRecord, Reader, ReaderBuilder};
use tollgate_arbiter::Nanos;

use super::bounded::{BoundedLines, LINE_BYTES_MAX};
use super::{Trace, TraceError, TraceRow, Unsorted, open, timestamp};

const COLUMNS: [&str; 3] = ["TIMESTAMP", "ContextTokens", "GeneratedTokens"];

/// Reads the file at `path`, the first `limit` requests of it.
///
/// # Errors
/// Where the file cannot be read, holds no request, or has a line that is wrong.
pub fn read_file(path: &Path, limit: Option<u64>) -> Result<Trace, TraceError> {
    read(open(path)?, &path.display().to_string(), limit)
}

/// Reads from `input`; `source_name` stands in messages.
///
/// # Errors
/// As [`read_file`].
///
/// # Examples
/// ```
/// use tollgate_sim::trace::azure;
///
/// let text = "TIMESTAMP,ContextTokens,GeneratedTokens\n\
///             2023-11-16 18:17:03.5,4808,10\n\
///             2023-11-16 18:17:04.0,3180,8\n";
/// let trace = azure::read(text.as_bytes(), "trace.csv", None)?;
/// assert_eq!(trace.rows[1].at.as_micros(), 500_000);
/// assert_eq!(trace.rows[1].prompt_tokens, 3_180);
///
/// let wrong = azure::read("2023-11-16 18:17:03,-5,1\n".as_bytes(), "trace.csv", None);
/// assert!(wrong.unwrap_err().to_string().starts_with("trace.csv:1: ContextTokens must be"));
/// # Ok::<(), tollgate_sim::trace::TraceError>(())
/// ```
pub fn read(input: impl Read, source_name: &str, limit: Option<u64>) -> Result<Trace, TraceError> {
    let mut rows = Vec::new();
    let mut unsorted: Option<Unsorted> = None;
    let mut source = Source::new(input, source_name);
    let limit = usize::try_from(limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    while rows.len() < limit
        && let Some(row) = source.next_row()?
    {
        if rows.last().is_some_and(|last: &TraceRow| row.at < last.at) {
            unsorted
                .get_or_insert(Unsorted {
                    first_line: source.line,
                    rows: 0,
                })
                .rows += 1;
        }
        rows.push(row);
    }
    let first = rows.iter().map(|row| row.at).min();
    let Some(first) = first else {
        return Err(TraceError::Empty {
            source_name: source_name.to_owned(),
        });
    };
    rows.sort_by_key(|row| row.at);
    for row in &mut rows {
        row.at = row.at.saturating_sub(first);
    }
    Ok(Trace { rows, unsorted })
}

/// An open file: its lines, and which field is which.
struct Source<'a, R> {
    name: &'a str,
    reader: Reader<BoundedLines<R>>,
    record: ByteRecord,
    line: u64,
    columns: Option<Columns>,
}

/// Where the three columns stand.
#[derive(Clone, Copy)]
struct Columns {
    places: [usize; 3],
    /// How many fields a line has.
    count: usize,
}

impl<'a, R: Read> Source<'a, R> {
    fn new(input: R, name: &'a str) -> Self {
        // Quotes are taken off field by field: an open quote cannot swallow the rest of the file.
        let reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .quoting(false)
            .from_reader(BoundedLines::new(input));
        Self {
            name,
            reader,
            record: ByteRecord::new(),
            line: 0,
            columns: None,
        }
    }

    /// The next request; its time is that of the file.
    fn next_row(&mut self) -> Result<Option<TraceRow>, TraceError> {
        if !self.next_record()? {
            return Ok(None);
        }
        let columns = match self.columns {
            Some(columns) => columns,
            None if self.is_header() => {
                let columns = self.read_header().map_err(|message| self.wrong(message))?;
                self.columns = Some(columns);
                return self.next_row();
            }
            None => *self.columns.insert(Columns {
                places: [0, 1, 2],
                count: 3,
            }),
        };
        self.read_row(columns)
            .map(Some)
            .map_err(|message| self.wrong(message))
    }

    fn next_record(&mut self) -> Result<bool, TraceError> {
        match self.reader.read_byte_record(&mut self.record) {
            Ok(more) => {
                self.line = self
                    .record
                    .position()
                    .map_or(self.line, csv::Position::line);
                Ok(more)
            }
            Err(error) => Err(self.unreadable(error)),
        }
    }

    fn unreadable(&self, error: csv::Error) -> TraceError {
        let error = match error.into_kind() {
            csv::ErrorKind::Io(error) => error,
            other => std::io::Error::other(format!("{other:?}")),
        };
        if error.kind() == std::io::ErrorKind::FileTooLarge {
            self.wrong_at(
                self.reader.position().line(),
                format!("the line is longer than {LINE_BYTES_MAX} bytes"),
            )
        } else {
            TraceError::Unreadable {
                source_name: self.name.to_owned(),
                error,
            }
        }
    }

    /// A first line that does not begin like a time stamp names the columns.
    fn is_header(&self) -> bool {
        !self
            .field(0)
            .is_ok_and(|first| first.starts_with(|digit: char| digit.is_ascii_digit()))
    }

    fn read_header(&self) -> Result<Columns, String> {
        let mut places = [0; 3];
        for (place, name) in places.iter_mut().zip(COLUMNS) {
            *place = (0..self.record.len())
                .find(|&at| self.field(at).is_ok_and(|found| found == name))
                .ok_or_else(|| {
                    format!(
                        "the header names no column {name}; needed are {}",
                        COLUMNS.join(",")
                    )
                })?;
        }
        Ok(Columns {
            places,
            count: self.record.len(),
        })
    }

    fn read_row(&self, columns: Columns) -> Result<TraceRow, String> {
        if self.record.len() != columns.count {
            let (wanted, found) = (columns.count, self.record.len());
            return Err(format!("{wanted} fields expected, {found} found"));
        }
        let [at, prompt, output] = columns.places;
        Ok(TraceRow {
            at: self.timestamp(at)?,
            prompt_tokens: self.tokens(prompt, COLUMNS[1])?,
            output_tokens: self.tokens(output, COLUMNS[2])?,
        })
    }

    fn timestamp(&self, at: usize) -> Result<Nanos, String> {
        timestamp::parse(self.field(at)?).map_err(|message| format!("{}: {message}", COLUMNS[0]))
    }

    fn tokens(&self, at: usize, column: &str) -> Result<u32, String> {
        let text = self.field(at)?;
        text.parse().map_err(|_| {
            format!(
                "{column} must be a whole number from 0 to {}, not {text:?}",
                u32::MAX
            )
        })
    }

    /// A field without blanks and quotes around it.
    fn field(&self, at: usize) -> Result<&str, String> {
        let bytes = self.record.get(at).unwrap_or_default().trim_ascii();
        let text = std::str::from_utf8(bytes).map_err(|_| "not UTF-8 text".to_owned())?;
        Ok(text
            .strip_prefix('"')
            .and_then(|text| text.strip_suffix('"'))
            .unwrap_or(text))
    }

    fn wrong(&self, message: String) -> TraceError {
        self.wrong_at(self.line, message)
    }

    fn wrong_at(&self, line: u64, message: String) -> TraceError {
        TraceError::Line {
            source_name: self.name.to_owned(),
            line,
            message,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &[u8]) -> Result<Trace, String> {
        read(text, "t.csv", None).map_err(|error| error.to_string())
    }

    fn tokens(trace: &Trace) -> Vec<(u64, u32, u32)> {
        let row = |row: &TraceRow| (row.at.as_micros(), row.prompt_tokens, row.output_tokens);
        trace.rows.iter().map(row).collect()
    }

    #[test]
    fn a_file_with_and_without_header_reads_the_same() {
        let body = "2023-11-16 18:17:03.5,10,1\n2023-11-16 18:17:04.0,20,2\n";
        let bare = parse(body.as_bytes()).expect("no header");
        assert_eq!(tokens(&bare), [(0, 10, 1), (500_000, 20, 2)]);
        let headed = format!("TIMESTAMP,ContextTokens,GeneratedTokens\r\n\r\n{body}");
        assert_eq!(parse(headed.as_bytes()), Ok(bare));
    }

    #[test]
    fn a_header_may_order_and_add_columns_and_quote_fields() {
        let text = "Model,GeneratedTokens,TIMESTAMP,ContextTokens\n\
                    m,7,\"2024-05-10 00:00:00+00:00\",\" 5\"\n";
        assert!(
            parse(text.as_bytes()).is_err(),
            "a blank inside quotes is no digit"
        );
        let text = text.replace("\" 5\"", " \"5\" ");
        assert_eq!(tokens(&parse(text.as_bytes()).expect("a row")), [(0, 5, 7)]);
    }

    #[test]
    fn time_that_goes_backwards_is_sorted_and_told() {
        let text = "2023-11-16 18:17:05,1,1\n2023-11-16 18:17:04,2,1\n\
                    2023-11-16 18:17:05,3,1\n2023-11-16 18:17:04.5,4,1\n";
        let trace = parse(text.as_bytes()).expect("rows");
        let order: Vec<u32> = trace.rows.iter().map(|row| row.prompt_tokens).collect();
        assert_eq!(order, [2, 4, 1, 3]);
        assert_eq!(trace.rows[0].at, Nanos(0));
        assert_eq!(
            trace.unsorted,
            Some(Unsorted {
                first_line: 2,
                rows: 2
            })
        );
    }

    #[test]
    fn the_limit_stops_before_what_follows() {
        let text = "2023-11-16 18:17:03,10,1\nnonsense\n";
        let trace = read(text.as_bytes(), "t.csv", Some(1)).expect("one row");
        assert_eq!(trace.rows.len(), 1);
    }

    #[test]
    fn every_wrong_line_is_named() {
        let good = "2023-11-16 18:17:03,10,1\n";
        for (line, wanted) in [
            ("2023-11-16 18:17:03,10", "3 fields expected, 2 found"),
            ("2023-11-16 18:17:03,10,1,9", "3 fields expected, 4 found"),
            (
                "2023-11-16 18:17:03,-5,1",
                "ContextTokens must be a whole number",
            ),
            (
                "2023-11-16 18:17:03,NaN,1",
                "ContextTokens must be a whole number",
            ),
            (
                "2023-11-16 18:17:03,1.5,1",
                "ContextTokens must be a whole number",
            ),
            ("2023-11-16 18:17:03,4294967296,1", "not \"4294967296\""),
            (
                "2023-11-16 18:17:03,1,",
                "GeneratedTokens must be a whole number",
            ),
            (
                "2023-11-16 18:17:03,1,1e400",
                "GeneratedTokens must be a whole number",
            ),
            (
                "yesterday,1,1",
                "TIMESTAMP: \"yesterday\" is not a time stamp",
            ),
            (",1,1", "TIMESTAMP: \"\" is not a time stamp"),
        ] {
            let error = parse(format!("{good}{line}\n").as_bytes()).expect_err(line);
            assert!(
                error.starts_with("t.csv:2: ") && error.contains(wanted),
                "{line}: {error}"
            );
        }
    }

    #[test]
    fn what_is_no_trace_at_all_is_refused() {
        for text in ["", "\n\n", "TIMESTAMP,ContextTokens,GeneratedTokens\n"] {
            let error = parse(text.as_bytes()).expect_err("no requests");
            assert!(error.starts_with("t.csv: no requests"), "{error}");
        }
        let missing = parse(b"TIMESTAMP,ContextTokens\n2023-11-16 18:17:03,10\n");
        assert!(missing.is_err_and(|error| error.contains("no column GeneratedTokens")));
        let binary = parse(b"2023-11-16 18:17:03,10,1\n2023\xff\xfe,1,1\n");
        assert_eq!(binary, Err("t.csv:2: not UTF-8 text".to_owned()));
        let mut endless = b"2023-11-16 18:17:03,10,1\n".to_vec();
        endless.resize(1 << 20, b'[');
        let endless = parse(&endless).expect_err("a long line");
        assert_eq!(endless, "t.csv:2: the line is longer than 4096 bytes");
    }
}
