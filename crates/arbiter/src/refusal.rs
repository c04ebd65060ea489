//! Calls that could not take effect: refusals and stale handles.

use crate::Full;

/// What is wrong with a request (S2, S4.3).
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidRequest {
    /// More hints than [`HINTS_MAX`](crate::HINTS_MAX).
    #[error("{found} hints, at most 16 are allowed")]
    TooManyHints {
        /// How many there were.
        found: usize,
    },
    /// `priority_jump` is NaN or infinite.
    #[error("priority_jump must be a finite number of seconds, not {found}")]
    JumpNotFinite {
        /// What it was.
        found: f64,
    },
    /// The class does not exist, or takes no new requests.
    #[error("class {found} does not take requests")]
    UnknownClass {
        /// The index given.
        found: u16,
    },
    /// The ticket's slot does not exist.
    #[error("slot {found} does not exist, there are {available}")]
    SlotOutOfRange {
        /// The slot given.
        found: u32,
        /// How many slots there are.
        available: u32,
    },
    /// The ticket's slot still holds a live request.
    #[error("slot {found} still holds a live request")]
    SlotInUse {
        /// The slot given.
        found: u32,
    },
}

/// Why a submission was not accepted (S8).
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The request itself is wrong.
    #[error(transparent)]
    Invalid(#[from] InvalidRequest),
    /// The arbiter was stopped (S11.3).
    #[error("closed: no new requests are taken")]
    Closed,
    /// There is no room for its variable parts.
    #[error(transparent)]
    Full(#[from] Full),
}

/// A submission that was not accepted; the payload comes back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Refused<P> {
    /// Why.
    pub reason: Refusal,
    /// The caller's payload.
    pub payload: P,
}

/// An event found nothing to do: an old handle or attempt, or an unknown worker or endpoint
/// (S9.3, S11.2). It touched nothing and was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stale: there is nothing for it to do")]
pub struct Stale;

/// A requeue that found nothing to do; the payload comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaleRequeue<P> {
    /// The caller's payload.
    pub payload: P,
}

/// Why a worker's record was not taken; nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// `ranks` is 0, or `first_rank + ranks` does not fit 32 bits.
    #[error(
        "ranks {first_rank} .. {first_rank} + {ranks} are not a range of 1 or more ranks below 2^32"
    )]
    RankRange {
        /// The first rank given.
        first_rank: u32,
        /// How many ranks were given.
        ranks: u32,
    },
    /// A capacity does not suffice.
    #[error(transparent)]
    Full(#[from] Full),
}
