//! What a waiter is told, as plain words: so that it can be left in atomics without a lock.

use tollgate_arbiter::{
    ClassIndex, CostSnapshot, Endpoint, FailReason, LimitKind, Nanos, Outcome, Rejection, WorkerId,
};

use crate::Dispatch;
use crate::ticket::{Place, Receipt, Ticket};

/// How many words news takes.
pub(super) const WORDS: usize = 6;

/// A dispatch without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grant {
    pub(super) ticket: Ticket,
    pub(super) class: ClassIndex,
    pub(super) attempt: u8,
    pub(super) endpoint: Endpoint,
    pub(super) snapshot: CostSnapshot,
    pub(super) submitted_at: Nanos,
    pub(super) dispatched_at: Nanos,
}

/// The end of a request that is not dispatched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// As the arbiter decided.
    Ended(ClassIndex, Outcome),
    /// The engine is closed and never took it in.
    Closed,
}

impl Grant {
    pub(super) const fn receipt(&self) -> Receipt {
        Receipt {
            ticket: self.ticket,
            attempt: self.attempt,
        }
    }

    pub(super) fn of<P>(dispatch: &Dispatch<P>) -> Self {
        Self {
            ticket: dispatch.ticket,
            class: dispatch.class,
            attempt: dispatch.attempt,
            endpoint: dispatch.endpoint,
            snapshot: dispatch.snapshot,
            submitted_at: dispatch.submitted_at,
            dispatched_at: dispatch.dispatched_at,
        }
    }

    pub(super) fn dispatch<P>(self, payload: P) -> Dispatch<P> {
        Dispatch {
            ticket: self.ticket,
            class: self.class,
            attempt: self.attempt,
            endpoint: self.endpoint,
            snapshot: self.snapshot,
            submitted_at: self.submitted_at,
            dispatched_at: self.dispatched_at,
            payload,
        }
    }

    pub(super) fn to_words(self) -> [u64; WORDS] {
        let Ticket { place, generation } = self.ticket;
        let which = pair(
            self.endpoint.rank,
            u32::from(self.class.0) | u32::from(self.attempt) << 16,
        );
        [
            self.endpoint.worker.0,
            which,
            pair(self.snapshot.raw, self.snapshot.cached),
            self.submitted_at.0,
            self.dispatched_at.0,
            pair(place.0, generation),
        ]
    }

    pub(super) fn from_words(words: [u64; WORDS]) -> Self {
        let [worker, which, cost, submitted_at, dispatched_at, ticket] = words;
        let (rank, class_and_attempt) = halves(which);
        let (raw, cached) = halves(cost);
        let (place, generation) = halves(ticket);
        Self {
            ticket: Ticket {
                place: Place(place),
                generation,
            },
            class: ClassIndex((class_and_attempt & 0xffff) as u16),
            attempt: (class_and_attempt >> 16 & 0xff) as u8,
            endpoint: Endpoint {
                worker: WorkerId(worker),
                rank,
            },
            snapshot: CostSnapshot { raw, cached },
            submitted_at: Nanos(submitted_at),
            dispatched_at: Nanos(dispatched_at),
        }
    }
}

const REJECTED: u32 = 0;
const EXPIRED: u32 = 1;
const CANCELLED: u32 = 2;
const FAILED: u32 = 3;
const SHUTTING_DOWN: u32 = 4;
const CLOSED: u32 = 5;

impl Fate {
    pub(super) fn to_words(self) -> [u64; WORDS] {
        let (class, outcome) = match self {
            Self::Closed => return [u64::from(CLOSED), 0, 0, 0, 0, 0],
            Self::Ended(class, outcome) => (class, outcome),
        };
        let number = |at: Option<usize>| at.and_then(|at| u32::try_from(at).ok()).unwrap_or(0);
        let (kind, which, facts) = match outcome {
            Outcome::Rejected(Rejection {
                kind,
                current,
                limit,
                workers,
            }) => {
                let kind = LimitKind::ALL.iter().position(|&known| known == kind);
                (REJECTED, number(kind), [current, limit, workers])
            }
            Outcome::Expired => (EXPIRED, 0, [0; 3]),
            Outcome::Cancelled => (CANCELLED, 0, [0; 3]),
            Outcome::Failed(reason) => {
                let reason = FailReason::ALL.iter().position(|&known| known == reason);
                (FAILED, number(reason), [0; 3])
            }
            Outcome::ShuttingDown => (SHUTTING_DOWN, 0, [0; 3]),
        };
        let [a, b, c] = facts;
        [pair(kind, which), u64::from(class.0), a, b, c, 0]
    }

    pub(super) fn from_words(words: [u64; WORDS]) -> Self {
        let [what, class, current, limit, workers, _] = words;
        let (kind, which) = halves(what);
        let which = which as usize;
        let outcome = match kind {
            REJECTED => Outcome::Rejected(Rejection {
                kind: LimitKind::ALL[which],
                current,
                limit,
                workers,
            }),
            EXPIRED => Outcome::Expired,
            CANCELLED => Outcome::Cancelled,
            FAILED => Outcome::Failed(FailReason::ALL[which]),
            SHUTTING_DOWN => Outcome::ShuttingDown,
            _ => return Self::Closed,
        };
        Self::Ended(ClassIndex((class & 0xffff) as u16), outcome)
    }
}

const fn pair(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

const fn halves(word: u64) -> (u32, u32) {
    ((word & 0xffff_ffff) as u32, (word >> 32) as u32)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_grant_comes_back_from_its_words() {
        let grant = Grant {
            ticket: Ticket {
                place: Place(u32::MAX - 1),
                generation: 7,
            },
            class: ClassIndex(u16::MAX),
            attempt: u8::MAX,
            endpoint: Endpoint {
                worker: WorkerId(u64::MAX - 2),
                rank: 4_095,
            },
            snapshot: CostSnapshot {
                raw: u32::MAX,
                cached: 3,
            },
            submitted_at: Nanos(11),
            dispatched_at: Nanos(u64::MAX),
        };
        assert_eq!(Grant::from_words(grant.to_words()), grant);
    }

    #[test]
    fn every_fate_comes_back_from_its_words() {
        let rejected = LimitKind::ALL.map(|kind| {
            Outcome::Rejected(Rejection {
                kind,
                current: u64::MAX,
                limit: 5,
                workers: 3,
            })
        });
        let failed = FailReason::ALL.map(Outcome::Failed);
        let others = [Outcome::Expired, Outcome::Cancelled, Outcome::ShuttingDown];
        let outcomes = rejected.into_iter().chain(failed).chain(others);
        let ended = outcomes.map(|outcome| Fate::Ended(ClassIndex(513), outcome));
        for fate in ended.chain([Fate::Closed]) {
            assert_eq!(Fate::from_words(fate.to_words()), fate);
        }
    }
}
