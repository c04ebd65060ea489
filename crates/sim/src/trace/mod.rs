//! Recorded request traces, read into rows on a virtual clock.
//!
//! [`azure`] reads the CSV files of the Azure Public Dataset. A file is read row by row, and what
//! cannot be right is a [`TraceError`] with its line; nothing is guessed or skipped.

pub mod azure;
mod bounded;
mod timestamp;

use std::path::Path;

use tollgate_arbiter::Nanos;

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRow {
    /// When it arrived, from the first arrival of the trace.
    pub at: Nanos,
    /// Prompt tokens.
    pub prompt_tokens: u32,
    /// Generated tokens.
    pub output_tokens: u32,
}

/// A whole trace, by arrival; rows of one moment stay in file order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The requests; at least one.
    pub rows: Vec<TraceRow>,
    /// The first place where time went backwards in the file, and how many there were.
    pub unsorted: Option<Unsorted>,
}

/// Rows that arrived before the row above them. The trace was put in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsorted {
    /// The line of the first of them, from 1.
    pub first_line: u64,
    /// How many there are.
    pub rows: u64,
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
}

/// Opens `path` for reading; a directory is an error here and not at the first read.
pub(crate) fn open(path: &Path) -> Result<std::fs::File, TraceError> {
    let unreadable = |error| TraceError::Unreadable {
        source_name: path.display().to_string(),
        error,
    };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    if file.metadata().map_err(unreadable)?.is_dir() {
        return Err(unreadable(std::io::Error::from(
            std::io::ErrorKind::IsADirectory,
        )));
    }
    Ok(file)
}
