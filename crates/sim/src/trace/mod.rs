//! Recorded request traces, read into rows on a virtual clock.
//!
//! Three formats, recognised by their first line: the CSV files of the Azure Public Dataset
//! ([`azure`]), the JSON lines of Mooncake ([`mooncake`]), and Tollgate's own JSON lines ([`native`]),
//! which can be written as well. What is packed with gzip or zstd is unpacked on the way. A file is
//! read line by line, and what cannot be right is a [`TraceError`] with its line; nothing is guessed.
//! Wrong lines are left out, and counted, only where [`ReadOptions::skip_bad`] says so.

pub mod azure;
mod column;
mod input;
mod lines;
pub mod mooncake;
pub mod native;
mod timestamp;

use std::fmt;
use std::io::Read;
use std::path::Path;

use tollgate_arbiter::Nanos;

use self::lines::{LINE_BYTES_MAX, Line, Lines};

/// Tokens in a block of a prompt, the unit of the hashes in a Mooncake trace.
pub const BLOCK_TOKENS: u32 = 512;

/// One request of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceRow {
    /// When it arrived, from the first arrival of the trace.
    pub at: Nanos,
    /// Prompt tokens.
    pub prompt_tokens: u32,
    /// Generated tokens.
    pub output_tokens: u32,
    /// Prompt tokens that are cached wherever it runs; not used if it has `blocks`.
    pub cached_tokens: u32,
    /// The blocks of its prompt, if the trace names them.
    pub blocks: Blocks,
    /// The family that the trace itself gives it, as a place in [`Trace::families`].
    pub family: Option<u32>,
    /// The only worker that may run it.
    pub pin: Option<u64>,
    /// Its strict tier.
    pub tier: u32,
    /// How long after its arrival it expires.
    pub patience: Option<Nanos>,
    /// A hash of the column that [`ReadOptions::key`] names; equal values have equal ones.
    pub key: u64,
}

/// A place in [`Trace::blocks`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    from: u64,
    count: u32,
}

impl Blocks {
    /// There are none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.count == 0
    }

    /// How many there are.
    #[must_use]
    pub const fn len(self) -> usize {
        self.count as usize
    }
}

/// A whole trace, by arrival; rows of one moment stay in file order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The requests; at least one.
    pub rows: Vec<TraceRow>,
    /// The names of blocks, row after row: see [`blocks_of`](Self::blocks_of).
    pub blocks: Vec<u64>,
    /// The families that the trace itself names.
    pub families: Vec<String>,
    /// The first place where time went backwards in the file, and how many there were.
    pub unsorted: Option<Unsorted>,
    /// The first line that was left out because it is wrong, and how many there were.
    pub skipped: Option<Skipped>,
}

impl Trace {
    /// The names of a row's blocks, from the prompt's beginning.
    ///
    /// # Panics
    /// If the blocks are of another trace.
    #[must_use]
    pub fn blocks_of(&self, blocks: Blocks) -> &[u64] {
        let from = usize::try_from(blocks.from).unwrap_or(usize::MAX);
        &self.blocks[from..from + blocks.len()]
    }

    /// Adds blocks for a row to be added.
    pub(crate) fn push_blocks(&mut self, names: &[u64]) -> Blocks {
        let from = self.blocks.len() as u64;
        self.blocks.extend_from_slice(names);
        Blocks {
            from,
            count: u32::try_from(names.len()).unwrap_or(u32::MAX),
        }
    }
}

/// Rows that arrived before the row above them. The trace was put in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsorted {
    /// The line of the first of them, from 1.
    pub first_line: u64,
    /// How many there are.
    pub rows: u64,
}

/// Lines that are wrong, and were left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The line of the first of them, from 1.
    pub first_line: u64,
    /// What is wrong with that one.
    pub message: String,
    /// How many there are.
    pub lines: u64,
}

/// A form of trace files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// See [`azure`].
    Azure,
    /// See [`mooncake`].
    Mooncake,
    /// See [`native`].
    Native,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 3] = [Self::Azure, Self::Mooncake, Self::Native];

    /// Its name: `azure`, `mooncake` or `tollgate`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Azure => "azure",
            Self::Mooncake => "mooncake",
            Self::Native => "tollgate",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How a trace is read.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// The format; unset: what the first line looks like.
    pub format: Option<Format>,
    /// The first so many requests only.
    pub limit: Option<u64>,
    /// Lines that are wrong are left out and counted, instead of ending it.
    pub skip_bad: bool,
    /// The column whose values [`TraceRow::key`] tells apart: a column of the CSV header, or a key of
    /// the JSON objects. Of a list its first element counts, so that prompts with one beginning are
    /// equal.
    pub key: Option<String>,
}

/// Why a trace cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file cannot be read.
    #[error("{source_name}: {error}")]
    Unreadable {
        /// The file.
        source_name: String,
        /// What the system says.
        error: std::io::Error,
    },
    /// A line is wrong.
    #[error("{source_name}:{line}: {message}")]
    Line {
        /// The file.
        source_name: String,
        /// Its line, from 1.
        line: u64,
        /// What is wrong, and what would be right.
        message: String,
    },
    /// There is nothing in it.
    #[error("{source_name}: no requests: the file is empty or holds a header only")]
    Empty {
        /// The file.
        source_name: String,
    },
    /// There is nothing right in it.
    #[error(
        "{source_name}: no requests: all {lines} lines are wrong; line {first_line}: {message}"
    )]
    NothingRight {
        /// The file.
        source_name: String,
        /// How many lines there are.
        lines: u64,
        /// The first of them.
        first_line: u64,
        /// What is wrong with that one.
        message: String,
    },
}

/// Reads the file at `path`.
///
/// # Errors
/// Where the file cannot be read, holds no request, or has a line that is wrong and not to be left out.
pub fn read_file(path: &Path, options: &ReadOptions) -> Result<Trace, TraceError> {
    read(input::open(path)?, &path.display().to_string(), options)
}

/// Reads from `input`; `source_name` stands in messages.
///
/// # Errors
/// As [`read_file`].
///
/// # Examples
/// ```
/// use tollgate_sim::trace::{ReadOptions, read};
///
/// let text = "TIMESTAMP,ContextTokens,GeneratedTokens\n\
///             2023-11-16 18:17:03.5,4808,10\n\
///             2023-11-16 18:17:04.0,3180,8\n";
/// let trace = read(text.as_bytes(), "trace.csv", &ReadOptions::default())?;
/// assert_eq!(trace.rows[1].at.as_micros(), 500_000);
/// assert_eq!(trace.rows[1].prompt_tokens, 3_180);
///
/// let wrong = read("2023-11-16 18:17:03,-5,1\n".as_bytes(), "trace.csv", &ReadOptions::default());
/// assert!(wrong.unwrap_err().to_string().starts_with("trace.csv:1: ContextTokens must be"));
/// # Ok::<(), tollgate_sim::trace::TraceError>(())
/// ```
pub fn read(
    input: impl Read,
    source_name: &str,
    options: &ReadOptions,
) -> Result<Trace, TraceError> {
    let unreadable = |error| TraceError::Unreadable {
        source_name: source_name.to_owned(),
        error,
    };
    let mut lines = Lines::new(input::unpack(input).map_err(unreadable)?);
    let limit = usize::try_from(options.limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    let mut trace = Trace::default();
    let mut parser: Option<Parser> = None;
    while trace.rows.len() < limit {
        let line = lines.next_line().map_err(unreadable)?;
        let parsed = match line {
            None => break,
            Some(Line::TooLong) => Err(format!("the line is longer than {LINE_BYTES_MAX} bytes")),
            Some(Line::Whole(text)) => parser
                .get_or_insert_with(|| Parser::of(options.format, text))
                .parse(text, options.key.as_deref(), &mut trace),
        };
        match parsed {
            Ok(Some(row)) => push(&mut trace, row, lines.number),
            Ok(None) => {}
            Err(message) if options.skip_bad && !parser.as_ref().is_some_and(Parser::is_lost) => {
                skip(&mut trace, message, lines.number);
            }
            Err(message) => {
                return Err(TraceError::Line {
                    source_name: source_name.to_owned(),
                    line: lines.number,
                    message,
                });
            }
        }
    }
    finish(trace, source_name)
}

fn push(trace: &mut Trace, row: TraceRow, line: u64) {
    if trace.rows.last().is_some_and(|last| row.at < last.at) {
        let first = Unsorted {
            first_line: line,
            rows: 0,
        };
        trace.unsorted.get_or_insert(first).rows += 1;
    }
    trace.rows.push(row);
}

fn skip(trace: &mut Trace, message: String, line: u64) {
    let first = || Skipped {
        first_line: line,
        message,
        lines: 0,
    };
    trace.skipped.get_or_insert_with(first).lines += 1;
}

/// In order, from the first arrival.
fn finish(mut trace: Trace, source_name: &str) -> Result<Trace, TraceError> {
    let Some(first) = trace.rows.iter().map(|row| row.at).min() else {
        let source_name = source_name.to_owned();
        return Err(match trace.skipped {
            None => TraceError::Empty { source_name },
            Some(skipped) => TraceError::NothingRight {
                source_name,
                lines: skipped.lines,
                first_line: skipped.first_line,
                message: skipped.message,
            },
        });
    };
    trace.rows.sort_by_key(|row| row.at);
    for row in &mut trace.rows {
        row.at = row.at.saturating_sub(first);
    }
    Ok(trace)
}

/// What reads the lines of one format.
enum Parser {
    Azure(azure::Parser),
    Mooncake,
    Native,
}

impl Parser {
    /// For the format that is asked for, or that the first line looks like: CSV unless it begins an
    /// object; then Mooncake's if it has one of its keys and none of Tollgate's.
    fn of(format: Option<Format>, first_line: &[u8]) -> Self {
        let format = format.unwrap_or_else(|| {
            let has = |key: &str| first_line.windows(key.len()).any(|at| at == key.as_bytes());
            if !first_line.starts_with(b"{") {
                Format::Azure
            } else if has("\"arrival_ns\"") || !has("\"timestamp\"") && !has("\"input_length\"") {
                Format::Native
            } else {
                Format::Mooncake
            }
        });
        match format {
            Format::Azure => Self::Azure(azure::Parser::default()),
            Format::Mooncake => Self::Mooncake,
            Format::Native => Self::Native,
        }
    }

    /// It does not know the columns: no further line can be understood.
    const fn is_lost(&self) -> bool {
        matches!(self, Self::Azure(parser) if !parser.knows_columns())
    }

    /// The request of a line; none if it is a header.
    fn parse(
        &mut self,
        line: &[u8],
        key: Option<&str>,
        trace: &mut Trace,
    ) -> Result<Option<TraceRow>, String> {
        let line = std::str::from_utf8(line).map_err(|_| "not UTF-8 text".to_owned())?;
        if !matches!(self, Self::Azure(_)) && !line.starts_with('{') {
            return Err("a row is a JSON object: it begins with {".to_owned());
        }
        match self {
            Self::Azure(parser) => parser.parse(line, key),
            Self::Mooncake => mooncake::parse(line, key, trace).map(Some),
            Self::Native => native::parse(line, key, trace).map(Some),
        }
    }
}

#[cfg(test)]
mod tests;
