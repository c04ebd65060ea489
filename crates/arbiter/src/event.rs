//! What the arbiter reports: admissions, dispatches and outcomes.

use std::fmt;

use crate::{ClassIndex, CostSnapshot, Endpoint, EndpointIndex, Nanos, Ticket};

/// Why a request can run nowhere (S8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailReason {
    /// No worker is known.
    NoWorkers,
    /// No known worker may run it, overload left aside.
    NoEligibleWorker,
    /// All workers that may run it are overloaded, and its gate would be open otherwise.
    AllEligibleOverloaded,
    /// It was handed over as often as it may be, and each hand-over failed (S9.4).
    HandOff,
    /// Its allow-list leaves its pin out.
    PinnedWorkerNotAllowed,
    /// Its pinned worker is not known.
    PinnedWorkerUnknown,
    /// Its pinned worker is not available.
    PinnedWorkerUnavailable,
    /// Its pinned worker has no such rank.
    PinnedRankOutOfRange,
    /// Its pinned worker lacks a required taint.
    PinnedTaintMissing,
    /// Its pinned worker is overloaded, and its gate would be open otherwise.
    PinnedWorkerOverloaded,
}

impl FailReason {
    /// Every reason, in the order of S8.
    pub const ALL: [Self; 10] = [
        Self::NoWorkers,
        Self::NoEligibleWorker,
        Self::AllEligibleOverloaded,
        Self::HandOff,
        Self::PinnedWorkerNotAllowed,
        Self::PinnedWorkerUnknown,
        Self::PinnedWorkerUnavailable,
        Self::PinnedRankOutOfRange,
        Self::PinnedTaintMissing,
        Self::PinnedWorkerOverloaded,
    ];

    /// The stable code, as in `pinned_worker_unknown`.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::NoWorkers => "no_workers",
            Self::NoEligibleWorker => "no_eligible_worker",
            Self::AllEligibleOverloaded => "all_eligible_overloaded",
            Self::HandOff => "hand_off",
            Self::PinnedWorkerNotAllowed => "pinned_worker_not_allowed",
            Self::PinnedWorkerUnknown => "pinned_worker_unknown",
            Self::PinnedWorkerUnavailable => "pinned_worker_unavailable",
            Self::PinnedRankOutOfRange => "pinned_rank_out_of_range",
            Self::PinnedTaintMissing => "pinned_taint_missing",
            Self::PinnedWorkerOverloaded => "pinned_worker_overloaded",
        }
    }
}

/// Which limit refused a request (S7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LimitKind {
    /// Waiting requests.
    Requests,
    /// Waiting raw prompt tokens.
    RawIslTokens,
    /// Waiting cached prompt tokens.
    CachedTokens,
    /// The request itself may not wait.
    MayWait,
}

impl LimitKind {
    /// Every kind, in the order in which they are tested (S7.1).
    pub const ALL: [Self; 4] = [
        Self::Requests,
        Self::RawIslTokens,
        Self::CachedTokens,
        Self::MayWait,
    ];

    /// The stable code, as in `raw_isl_tokens`.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::RawIslTokens => "raw_isl_tokens",
            Self::CachedTokens => "cached_tokens",
            Self::MayWait => "may_wait",
        }
    }
}

/// A refusal by a queue limit, with the facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The limit that tripped.
    pub kind: LimitKind,
    /// What was waiting, in the limit's own unit; 0 where the request may not wait.
    pub current: u64,
    /// The effective limit: the class's value times the known workers; 0 where it may not wait.
    pub limit: u64,
    /// Known workers.
    pub workers: u64,
}

/// The fate of a request that was not, or did not stay, dispatched (S8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A queue limit refused it.
    Rejected(Rejection),
    /// Its deadline passed.
    Expired,
    /// It was cancelled.
    Cancelled,
    /// It can run nowhere.
    Failed(FailReason),
    /// The arbiter stops.
    ShuttingDown,
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.code())?;
        match self.kind {
            LimitKind::MayWait => Ok(()),
            LimitKind::Requests | LimitKind::RawIslTokens | LimitKind::CachedTokens => write!(
                f,
                ", {} of {} for {} workers",
                self.current, self.limit, self.workers
            ),
        }
    }
}

/// The codes of S8, a refusal with its facts: `failed: no_workers`, `rejected: requests, 8 of 8 for 4
/// workers`.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected(rejection) => write!(f, "rejected: {rejection}"),
            Self::Expired => f.write_str("expired"),
            Self::Cancelled => f.write_str("cancelled"),
            Self::Failed(reason) => write!(f, "failed: {}", reason.code()),
            Self::ShuttingDown => f.write_str("shutting_down"),
        }
    }
}

/// A request on its way to an endpoint; booked and charged (S6.2, S9.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dispatch<P> {
    /// Its handle, valid until it is complete.
    pub ticket: Ticket,
    /// Its class.
    pub class: ClassIndex,
    /// Where it goes.
    pub endpoint: Endpoint,
    /// The endpoint's place in the arbiter's tables.
    pub endpoint_index: EndpointIndex,
    /// What it was charged by.
    pub snapshot: CostSnapshot,
    /// The class's deficit when the dispatch is complete; 0 if the class became empty.
    pub deficit: u64,
    /// From 1; feedback names it (S9.3).
    pub attempt: u8,
    /// When it was submitted.
    pub submitted_at: Nanos,
    /// When it was dispatched.
    pub dispatched_at: Nanos,
    /// The caller's payload.
    pub payload: P,
}

/// What the arbiter reports to its [`Sink`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<P> {
    /// A submission waits.
    Queued {
        /// Its handle.
        ticket: Ticket,
        /// Its class.
        class: ClassIndex,
        /// Its cost in uncached tokens, at least 1.
        cost: u32,
        /// Its exact lane's endpoint; `None` for the shared lane.
        lane: Option<Endpoint>,
    },
    /// A request goes to an endpoint.
    Dispatched(Dispatch<P>),
    /// A request's fate; its slot is free again.
    Ended {
        /// Its handle, now stale.
        ticket: Ticket,
        /// Its class.
        class: ClassIndex,
        /// The fate.
        outcome: Outcome,
        /// The caller's payload.
        payload: P,
    },
    /// A dispatched request waits again (S9.4).
    Requeued {
        /// Its handle.
        ticket: Ticket,
        /// Its class.
        class: ClassIndex,
    },
}

/// Where events go. The arbiter calls it in the order in which things take effect.
///
/// Implemented for closures over [`Event`].
pub trait Sink<P> {
    /// Takes one event. It must not block: it runs inside the arbiter's turn.
    fn event(&mut self, event: Event<P>);
}

impl<P, F: FnMut(Event<P>)> Sink<P> for F {
    fn event(&mut self, event: Event<P>) {
        self(event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_written_with_its_code_and_facts() {
        let rejected = |kind| {
            Outcome::Rejected(Rejection {
                kind,
                current: 7,
                limit: 8,
                workers: 4,
            })
        };
        let texts = [
            rejected(LimitKind::RawIslTokens),
            rejected(LimitKind::MayWait),
            Outcome::Failed(FailReason::PinnedWorkerUnknown),
            Outcome::Expired,
        ]
        .map(|outcome| outcome.to_string());
        assert_eq!(
            texts,
            [
                "rejected: raw_isl_tokens, 7 of 8 for 4 workers",
                "rejected: may_wait",
                "failed: pinned_worker_unknown",
                "expired"
            ]
        );
    }
}
