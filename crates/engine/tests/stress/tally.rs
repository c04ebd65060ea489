//! What happened how often.

use std::fmt;

use tollgate::{FailReason, LimitKind, Outcome, Room};

/// Something that is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Count {
    Accepted,
    RefusedInvalid,
    RefusedClosed,
    Full(Room),
    Batch,
    Cancel,
    Dispatch,
    Outcome(Outcome),
    Returned,
    Requeue,
    RequeueRefused,
    Pause,
    TakenBack,
    /// Feedback and cancels that found a ring full.
    Mail,
    /// Deliveries that found a ring full.
    Outboxed,
    /// Shut workers that were opened again.
    Reopening,
    Park,
    Stale,
    UnknownName,
    ControlCall,
    Reload,
}

const OUTCOMES: usize = 3 + LimitKind::ALL.len() + FailReason::ALL.len();
const OTHERS: usize = 19;
const KINDS: usize = OTHERS + Room::ALL.len() + OUTCOMES;

impl Count {
    fn row(self) -> usize {
        let kind = |kind: LimitKind| position(&LimitKind::ALL, kind);
        match self {
            Self::Accepted => 0,
            Self::RefusedInvalid => 1,
            Self::RefusedClosed => 2,
            Self::Batch => 3,
            Self::Cancel => 4,
            Self::Dispatch => 5,
            Self::Returned => 6,
            Self::Requeue => 7,
            Self::RequeueRefused => 8,
            Self::Pause => 9,
            Self::TakenBack => 10,
            Self::Mail => 11,
            Self::Outboxed => 12,
            Self::Reopening => 13,
            Self::Park => 14,
            Self::Stale => 15,
            Self::UnknownName => 16,
            Self::ControlCall => 17,
            Self::Reload => 18,
            Self::Full(room) => OTHERS + position(&Room::ALL, room),
            Self::Outcome(outcome) => {
                let first = OTHERS + Room::ALL.len();
                first
                    + match outcome {
                        Outcome::Expired => 0,
                        Outcome::Cancelled => 1,
                        Outcome::ShuttingDown => 2,
                        Outcome::Rejected(rejection) => 3 + kind(rejection.kind),
                        Outcome::Failed(reason) => 7 + position(&FailReason::ALL, reason),
                    }
            }
        }
    }
}

fn position<T: PartialEq>(all: &[T], one: T) -> usize {
    let found = all.iter().position(|other| *other == one);
    found.expect("one of all")
}

const NAMES: [&str; OTHERS] = [
    "accepted",
    "refused: invalid",
    "refused: closed",
    "batches",
    "cancels",
    "dispatched",
    "returned",
    "requeues",
    "requeues refused",
    "pauses of a receiver",
    "taken back",
    "by mail",
    "through the outbox",
    "opened again",
    "parks",
    "stale",
    "unknown names",
    "control calls",
    "reloads",
];

/// Counts of everything.
#[derive(Clone, Debug)]
pub(crate) struct Tally([u64; KINDS]);

impl Default for Tally {
    fn default() -> Self {
        Self([0; KINDS])
    }
}

impl Tally {
    pub(crate) fn add(&mut self, count: Count, times: u64) {
        self.0[count.row()] += times;
    }

    pub(crate) fn of(&self, count: Count) -> u64 {
        self.0[count.row()]
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (sum, count) in self.0.iter_mut().zip(other.0) {
            *sum += count;
        }
    }

    /// All outcomes that are no dispatch.
    pub(crate) fn outcomes(&self) -> u64 {
        self.0[OTHERS + Room::ALL.len()..].iter().sum()
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = (String, u64)> {
        let others = NAMES.map(str::to_owned).into_iter();
        let rooms = Room::ALL.map(|room| format!("full: {room}")).into_iter();
        let outcomes = ["expired", "cancelled", "shutting down"].map(str::to_owned);
        let rejected = LimitKind::ALL.map(|kind| format!("rejected: {}", kind.code()));
        let failed = FailReason::ALL.map(|reason| format!("failed: {}", reason.code()));
        let names = others
            .chain(rooms)
            .chain(outcomes)
            .chain(rejected)
            .chain(failed);
        names.zip(self.0)
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, count) in self.rows() {
            writeln!(f, "{count:12}  {name}")?;
        }
        Ok(())
    }
}
