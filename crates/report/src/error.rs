//! What can go wrong when a report is written.

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
