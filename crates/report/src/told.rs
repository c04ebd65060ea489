//! The small types that all kinds of reports share.

use serde::{Deserialize, Serialize};

/// Something worth knowing, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// What it is.
    pub name: String,
    /// How much or which it is, with its unit.
    pub value: String,
}

/// A population of durations in four numbers, all 0 if it is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quantiles {
    /// How many there are.
    pub count: u64,
    /// The median, in nanoseconds.
    pub p50_ns: u64,
    /// What 99 % do not exceed, in nanoseconds.
    pub p99_ns: u64,
    /// The longest, in nanoseconds.
    pub max_ns: u64,
}
