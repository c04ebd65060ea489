//! A worker's record, as the outside states it.

use crate::WorkerId;

/// All that is said about a worker at once; an upsert replaces the whole record (S9.3).
#[derive(Clone, Copy, Debug)]
pub struct WorkerRecord<'a> {
    /// Which worker.
    pub id: WorkerId,
    /// Its first rank. Default 0.
    pub first_rank: u32,
    /// How many ranks it has, at least 1. Default 1.
    pub ranks: u32,
    /// What fractions of a policy's thresholds refer to, in tokens; unset: 10,000,000 (S5.1).
    pub max_batched_tokens: Option<u64>,
    /// The taints that it carries.
    pub taints: &'a [&'a str],
    /// It takes no new requests for now (S5.4, S5.6). Default false.
    pub overloaded: bool,
    /// It may be used at all. Default true.
    pub available: bool,
}

impl WorkerRecord<'static> {
    /// A worker with one rank, available, without taints.
    #[must_use]
    pub const fn new(id: u64) -> Self {
        Self {
            id: WorkerId(id),
            first_rank: 0,
            ranks: 1,
            max_batched_tokens: None,
            taints: &[],
            overloaded: false,
            available: true,
        }
    }
}
