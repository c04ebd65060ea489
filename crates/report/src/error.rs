//! What can go wrong when a report is written or read.

use std::io;

/// Why a report or a log was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The place to write to refused.
    #[error("cannot write: {0}")]
    Io(#[from] io::Error),
    /// The report could not become JSON.
    #[error("cannot serialise the report: {0}")]
    Json(#[from] serde_json::Error),
    /// A recording could not be encoded.
    #[error("cannot encode the recording {tag}: {reason}")]
    Encode {
        /// The recording's tag.
        tag: String,
        /// What the encoder said.
        reason: String,
    },
}

/// Why a report or a log was not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// It is no JSON, or lacks what a report has.
    #[error("not a benchmark report: {0}")]
    Json(#[from] serde_json::Error),
    /// It is JSON of something else.
    #[error("its schema is {found:?}, where {expected:?} is needed")]
    Schema {
        /// What it says it is, cut.
        found: String,
        /// What was to be read.
        expected: &'static str,
    },
    /// It is JSON, and does not say of what.
    #[error("it has no schema, where {expected:?} is needed")]
    NoSchema {
        /// What was to be read.
        expected: &'static str,
    },
    /// It breaks a rule that every report keeps.
    #[error("{at}: {why}")]
    Invalid {
        /// Where, as in `suites[1].arms[3].metrics[0]`.
        at: String,
        /// What is wrong.
        why: String,
    },
    /// A line of an interval log is wrong.
    #[error("line {line}: {why}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// It holds more recordings than are read.
    #[error("more than {most} recordings")]
    TooMany {
        /// How many are read.
        most: usize,
    },
}
