//! A worker's record, as control calls state it.

use tollgate_arbiter::{WorkerId, WorkerRecord};

/// All that is said about a worker at once; an upsert replaces the whole record (S9.3).
///
/// ```
/// use tollgate::Worker;
/// let worker = Worker { ranks: 2, ..Worker::new(7) }.with_taints(["gpu-h100"]);
/// assert_eq!((worker.id.0, worker.ranks, worker.taints.len()), (7, 2, 1));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Which worker.
    pub id: WorkerId,
    /// Its first rank. Default 0.
    pub first_rank: u32,
    /// How many ranks it has, at least 1. Default 1.
    pub ranks: u32,
    /// What fractions of a policy's thresholds refer to, in tokens; unset: 10,000,000 (S5.1).
    pub max_batched_tokens: Option<u64>,
    /// The taints that it carries.
    pub taints: Vec<Box<str>>,
    /// It takes no new requests for now (S5.4, S5.6). Default false.
    pub overloaded: bool,
    /// It may be used at all. Default true.
    pub available: bool,
}

impl Worker {
    /// A worker with one rank, available, without taints.
    #[must_use]
    pub const fn new(id: u64) -> Self {
        Self {
            id: WorkerId(id),
            first_rank: 0,
            ranks: 1,
            max_batched_tokens: None,
            taints: Vec::new(),
            overloaded: false,
            available: true,
        }
    }

    /// The same with these taints.
    #[must_use]
    pub fn with_taints<'a>(self, taints: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            taints: taints.into_iter().map(Box::from).collect(),
            ..self
        }
    }

    /// The record in the arbiter's words.
    pub(crate) const fn record<'a>(&self, taints: &'a [&'a str]) -> WorkerRecord<'a> {
        WorkerRecord {
            id: self.id,
            first_rank: self.first_rank,
            ranks: self.ranks,
            max_batched_tokens: self.max_batched_tokens,
            taints,
            overloaded: self.overloaded,
            available: self.available,
        }
    }
}
