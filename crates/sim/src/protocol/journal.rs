//! Operations of a journal: what an engine's arbiter took in and decided, one JSON object a line.
//!
//! A journal begins with `restore`, which holds the policy, the capacities and what the arbiter knew;
//! the parts that it counts follow, each on a line of its own. Then come operations, each followed by
//! what was `decided`, and `end`. [`JournalOp::parse`] is as strict as [`Op::parse`].

use serde::Serialize;
use tollgate_arbiter::{
    Capacities, Checkpoint, ClassCheckpoint, EndpointCheckpoint, RequestCheckpoint,
    WorkerCheckpoint,
};

use super::{Endpoint, Event, FailReason, Hint, LimitKind, Op};

/// The version of the format that is read and written.
pub const JOURNAL_VERSION: u64 = 1;

/// One line of a journal.
#[derive(Clone, Debug, PartialEq)]
pub enum JournalOp {
    /// An operation that scenarios have as well.
    Op(Op),
    /// The first line.
    Restore(Box<Restore>),
    /// A class of the checkpoint.
    RestoreClass(Box<ClassCheckpoint>),
    /// A worker of the checkpoint.
    RestoreWorker(WorkerCheckpoint),
    /// An endpoint of the checkpoint.
    RestoreEndpoint(EndpointCheckpoint),
    /// A live request of the checkpoint; the slot of its ticket is its place.
    RestoreRequest(Box<RequestCheckpoint>),
    /// Time stands here from now on, and nothing else happens (S11.1).
    At {
        /// Absolute nanoseconds.
        ns: u64,
    },
    /// A request arrives at the arbiter, its price frozen and its class found.
    Intake(Box<Intake>),
    /// A turn within a budget.
    Turn {
        /// Dispatches at most.
        dispatches: u64,
        /// Removals at most (S5.5).
        removals: u64,
    },
    /// So many more dispatches may go to an egress group (S5.1).
    Room {
        /// The group.
        group: u16,
        /// `None` is without bound.
        room: Option<u32>,
    },
    /// Whether empty classes that left the policy keep their places.
    Hold {
        /// They do.
        on: bool,
    },
    /// A known worker's record is changed in one field.
    Amend {
        /// The worker.
        id: u64,
        /// The change.
        change: Amendment,
    },
    /// What was dispatched to a lost egress group is completed.
    Abandon {
        /// The group.
        group: u16,
        /// The first slot that is looked at.
        from: u32,
        /// How many slots are.
        budget: u32,
    },
    /// No new requests; what waits may still go out for so long, and the next turns end the rest.
    Drain {
        /// Nanoseconds from now.
        ns: u64,
    },
    /// Another policy.
    Reload(PolicyText),
    /// What the recording says came out.
    Decided(Decided),
    /// The last line.
    End {
        /// The capture ended because there was no room for more.
        full: bool,
        /// How many records were captured.
        records: u64,
    },
}

/// A policy written out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyText {
    /// The text of a policy file; its root's profile is meant.
    pub text: String,
    /// The threshold of the synthetic class, where there is no other.
    pub queue_threshold: Option<tollgate_policy::Fraction>,
}

/// The first line of a journal.
#[derive(Clone, Debug, PartialEq)]
pub struct Restore {
    /// The model's index, which places are numbered by.
    pub model: u8,
    /// The policy in force.
    pub policy: PolicyText,
    /// What the arbiter can hold.
    pub capacities: Capacities,
    /// What is not in parts of its own.
    pub checkpoint: Checkpoint,
    /// How many classes, workers, endpoints and requests follow.
    pub counts: [u64; 4],
}

/// What an amendment sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Amendment {
    /// Whether it is overloaded.
    Overloaded(bool),
    /// Whether it is available.
    Available(bool),
    /// Its taints.
    Taints(Vec<String>),
}

/// A request as the arbiter took it in.
#[derive(Clone, Debug, PartialEq)]
pub struct Intake {
    /// `place.generation`.
    pub id: String,
    /// When it was submitted, in nanoseconds.
    pub at_ns: u64,
    /// Its class's place in the tables.
    pub class: u16,
    /// Raw prompt tokens.
    pub isl: u32,
    /// Cached prompt tokens, as frozen at submission (S2.1).
    pub cached: u32,
    /// Cached prompt tokens per endpoint.
    pub hints: Vec<Hint>,
    /// Strict tier.
    pub strict_priority: u32,
    /// Head start in seconds.
    pub priority_jump: f64,
    /// The one endpoint that it may run on.
    pub pin: Option<Endpoint>,
    /// The workers that it may run on.
    pub allow: Option<Vec<u64>>,
    /// Taints that its worker must have.
    pub require_taints: Vec<String>,
    /// Its own deadline, absolute nanoseconds.
    pub deadline_ns: Option<u64>,
    /// False: it goes out in the next turn or not at all.
    pub may_wait: bool,
}

/// A decision: what a recording says of a request, or what its replay makes of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[expect(missing_docs, reason = "as in the events of the same names")]
pub enum Decided {
    Dispatched {
        id: String,
        worker: Endpoint,
        attempt: u32,
        deficit: u64,
    },
    Requeued {
        id: String,
    },
    Rejected {
        id: String,
        limit_kind: LimitKind,
        current: u64,
        limit: u64,
        workers: u64,
    },
    Failed {
        id: String,
        reason: FailReason,
    },
    Expired {
        id: String,
    },
    Cancelled {
        id: String,
    },
    ShuttingDown {
        id: String,
    },
}

impl Decided {
    /// The decision in an event; `None` where nothing was decided.
    #[must_use]
    pub fn of(event: &Event) -> Option<Self> {
        Some(match event {
            Event::Dispatched {
                id,
                worker,
                attempt,
                deficit,
                ..
            } => Self::Dispatched {
                id: id.clone(),
                worker: *worker,
                attempt: *attempt,
                deficit: *deficit,
            },
            Event::Requeued { id, .. } => Self::Requeued { id: id.clone() },
            Event::Rejected {
                id,
                limit_kind,
                current,
                limit,
                workers,
                ..
            } => Self::Rejected {
                id: id.clone(),
                limit_kind: *limit_kind,
                current: *current,
                limit: *limit,
                workers: *workers,
            },
            Event::Failed { id, reason, .. } => Self::Failed {
                id: id.clone(),
                reason: *reason,
            },
            Event::Expired { id, .. } => Self::Expired { id: id.clone() },
            Event::Cancelled { id, .. } => Self::Cancelled { id: id.clone() },
            Event::ShuttingDown { id, .. } => Self::ShuttingDown { id: id.clone() },
            _ => return None,
        })
    }
}
