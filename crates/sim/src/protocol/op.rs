//! Operations: what goes into a scenario.

use serde::{Serialize, Serializer};

/// How many hints a submission may carry (S2.3).
pub const HINTS_MAX: usize = 16;
/// How many ranks a worker may have in a scenario.
pub const RANKS_MAX: u32 = 4_096;

/// One rank of one worker; written `[worker, rank]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// The worker's id.
    pub worker: u64,
    /// The rank, within the worker's `first_rank .. first_rank + ranks`.
    pub rank: u32,
}

impl Endpoint {
    /// The endpoint of `rank` on `worker`.
    #[must_use]
    pub const fn new(worker: u64, rank: u32) -> Self {
        Self { worker, rank }
    }
}

impl Serialize for Endpoint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.worker, self.rank).serialize(serializer)
    }
}

/// What the caller knows of an endpoint's cache; written `[worker, rank, cached]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// Prompt tokens that it has cached.
    pub cached: u32,
}

impl Serialize for Hint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.endpoint.worker, self.endpoint.rank, self.cached).serialize(serializer)
    }
}

/// One operation of a scenario (S13).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Op {
    /// A worker appears, or its record is replaced whole (S9.3).
    Worker(WorkerRecord),
    /// A worker goes away (S9.3).
    RemoveWorker {
        /// The worker's id.
        id: u64,
    },
    /// An external report of an endpoint's active prefill tokens replaces the last one (S9.2).
    Load {
        /// The endpoint.
        worker: Endpoint,
        /// The report, without our own bookings.
        tokens: u64,
    },
    /// An endpoint's egress is full: it is busy for every class (S5.1).
    Shut {
        /// The endpoint.
        worker: Endpoint,
    },
    /// An endpoint's egress has room again.
    Open {
        /// The endpoint.
        worker: Endpoint,
    },
    /// A request arrives.
    Submit(Submission),
    /// A dispatched request's prefill is over: its tokens are released (S9.1).
    PrefillDone {
        /// The request.
        id: String,
        /// The attempt that is meant; unset: the latest.
        #[serde(skip_serializing_if = "Option::is_none")]
        attempt: Option<u32>,
    },
    /// A dispatched request is over: the rest of its booking is released (S9.1).
    Complete {
        /// The request.
        id: String,
        /// The attempt that is meant; unset: the latest.
        #[serde(skip_serializing_if = "Option::is_none")]
        attempt: Option<u32>,
    },
    /// A dispatched request could not be handed over (S9.4).
    Requeue {
        /// The request.
        id: String,
        /// The attempt that is meant; unset: the latest.
        #[serde(skip_serializing_if = "Option::is_none")]
        attempt: Option<u32>,
    },
    /// The caller gives up a waiting request (S11.2).
    Cancel {
        /// The request.
        id: String,
    },
    /// Time passes; a sweep follows (S5.5).
    Advance {
        /// Microseconds.
        us: u64,
    },
    /// One turn: selections until one is dry or `max` requests were dispatched.
    Arbitrate {
        /// The most dispatches; unset: no bound; 0: nothing happens.
        #[serde(skip_serializing_if = "Option::is_none")]
        max: Option<u64>,
    },
    /// A new policy file (S3.7).
    Reload {
        /// The file's path.
        #[serde(rename = "policy")]
        path: String,
    },
    /// No new work; what waits may still go out for a while (S11.3).
    Stop {
        /// Microseconds from now to the end of the drain.
        #[serde(skip_serializing_if = "is_default")]
        drain_us: u64,
    },
    /// Asks for [`Event::State`](super::Event::State).
    State,
}

impl Op {
    /// Which operation it is.
    #[must_use]
    pub const fn name(&self) -> OpName {
        match self {
            Self::Worker(_) => OpName::Worker,
            Self::RemoveWorker { .. } => OpName::RemoveWorker,
            Self::Load { .. } => OpName::Load,
            Self::Shut { .. } => OpName::Shut,
            Self::Open { .. } => OpName::Open,
            Self::Submit(_) => OpName::Submit,
            Self::PrefillDone { .. } => OpName::PrefillDone,
            Self::Complete { .. } => OpName::Complete,
            Self::Requeue { .. } => OpName::Requeue,
            Self::Cancel { .. } => OpName::Cancel,
            Self::Advance { .. } => OpName::Advance,
            Self::Arbitrate { .. } => OpName::Arbitrate,
            Self::Reload { .. } => OpName::Reload,
            Self::Stop { .. } => OpName::Stop,
            Self::State => OpName::State,
        }
    }

    /// The operation as one line, without line end; [`Op::parse`] reads it back.
    #[must_use]
    #[expect(
        clippy::missing_panics_doc,
        reason = "its keys are strings and its numbers finite"
    )]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("an operation has string keys and finite numbers")
    }
}

/// The name of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(
    missing_docs,
    reason = "each is the name of the variant of Op, or of JournalOp, that is called the same"
)]
pub enum OpName {
    Worker,
    RemoveWorker,
    Load,
    Shut,
    Open,
    Submit,
    PrefillDone,
    Complete,
    Requeue,
    Cancel,
    Advance,
    Arbitrate,
    Reload,
    Stop,
    State,
    Restore,
    RestoreClass,
    RestoreWorker,
    RestoreEndpoint,
    RestoreRequest,
    At,
    Intake,
    Turn,
    Room,
    Hold,
    Amend,
    Abandon,
    Drain,
    Decided,
    End,
}

impl OpName {
    /// Every operation of a scenario, in the order in which they are documented.
    pub const ALL: [Self; 15] = [
        Self::Worker,
        Self::RemoveWorker,
        Self::Load,
        Self::Shut,
        Self::Open,
        Self::Submit,
        Self::PrefillDone,
        Self::Complete,
        Self::Requeue,
        Self::Cancel,
        Self::Advance,
        Self::Arbitrate,
        Self::Reload,
        Self::Stop,
        Self::State,
    ];

    /// The operations of journals alone.
    pub const OF_JOURNALS: [Self; 15] = [
        Self::Restore,
        Self::RestoreClass,
        Self::RestoreWorker,
        Self::RestoreEndpoint,
        Self::RestoreRequest,
        Self::At,
        Self::Intake,
        Self::Turn,
        Self::Room,
        Self::Hold,
        Self::Amend,
        Self::Abandon,
        Self::Drain,
        Self::Decided,
        Self::End,
    ];

    /// The name as it is written in the field `op`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::RemoveWorker => "remove_worker",
            Self::Load => "load",
            Self::Shut => "shut",
            Self::Open => "open",
            Self::Submit => "submit",
            Self::PrefillDone => "prefill_done",
            Self::Complete => "complete",
            Self::Requeue => "requeue",
            Self::Cancel => "cancel",
            Self::Advance => "advance",
            Self::Arbitrate => "arbitrate",
            Self::Reload => "reload",
            Self::Stop => "stop",
            Self::State => "state",
            Self::Restore => "restore",
            Self::RestoreClass => "restore_class",
            Self::RestoreWorker => "restore_worker",
            Self::RestoreEndpoint => "restore_endpoint",
            Self::RestoreRequest => "restore_request",
            Self::At => "at",
            Self::Intake => "intake",
            Self::Turn => "turn",
            Self::Room => "room",
            Self::Hold => "hold",
            Self::Amend => "amend",
            Self::Abandon => "abandon",
            Self::Drain => "drain",
            Self::Decided => "decided",
            Self::End => "end",
        }
    }
}

/// Everything that is told of a worker; each upsert replaces it whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorkerRecord {
    /// The worker's id.
    pub id: u64,
    /// How many ranks it has, 1 to [`RANKS_MAX`].
    #[serde(skip_serializing_if = "is_one")]
    pub ranks: u32,
    /// Its first rank; the last one is at most `u32::MAX`.
    #[serde(skip_serializing_if = "is_default")]
    pub first_rank: u32,
    /// What fractional thresholds refer to, at least 1; unset: 10,000,000 tokens (S5.1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_batched_tokens: Option<u64>,
    /// Its taints: requests may ask for them (S5.2).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<String>,
    /// Takes no new work, or counts as busy (S5.6).
    #[serde(skip_serializing_if = "is_default")]
    pub overloaded: bool,
    /// May be dispatched to at all.
    #[serde(skip_serializing_if = "is_true")]
    pub available: bool,
}

impl WorkerRecord {
    /// A worker with one rank and the defaults of every other field.
    #[must_use]
    pub const fn new(id: u64) -> Self {
        Self {
            id,
            ranks: 1,
            first_rank: 0,
            max_batched_tokens: None,
            taints: Vec::new(),
            overloaded: false,
            available: true,
        }
    }

    /// Its endpoints, by rank.
    pub fn endpoints(&self) -> impl Iterator<Item = Endpoint> + use<> {
        let (id, first) = (self.id, self.first_rank);
        (0..self.ranks).map(move |offset| Endpoint::new(id, first + offset))
    }
}

/// A request as it is submitted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Submission {
    /// Names the request in this run; used once.
    pub id: String,
    /// The family or explicit class that is asked for (S3.4).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// Raw prompt tokens.
    pub isl: u32,
    /// Prompt tokens that are cached on every endpoint; not used if there are hints (S2.3).
    #[serde(skip_serializing_if = "is_default")]
    pub cached: u32,
    /// Cached prompt tokens per endpoint, at most [`HINTS_MAX`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<Hint>,
    /// Strict tier inside the class; higher goes first (S4.2).
    #[serde(skip_serializing_if = "is_default")]
    pub strict_priority: u32,
    /// Seconds by which it jumps ahead, finite (S4.3).
    #[serde(skip_serializing_if = "is_default")]
    pub priority_jump: f64,
    /// The one endpoint that it may run on: it waits in that endpoint's exact lane (S4.1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pin: Option<Endpoint>,
    /// The workers that it may run on; an empty list allows nobody (S5.2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<u64>>,
    /// Taints that its worker must have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub require_taints: Vec<String>,
    /// Absolute deadline in microseconds (S11.1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_us: Option<u64>,
    /// False: it goes out in the next turn or not at all (S7.2).
    #[serde(skip_serializing_if = "is_true")]
    pub may_wait: bool,
}

impl Submission {
    /// A request of `isl` raw tokens with the defaults of every other field.
    #[must_use]
    pub fn new(id: &str, isl: u32) -> Self {
        Self {
            id: id.to_owned(),
            family: None,
            isl,
            cached: 0,
            hints: Vec::new(),
            strict_priority: 0,
            priority_jump: 0.0,
            pin: None,
            allow: None,
            require_taints: Vec::new(),
            deadline_us: None,
            may_wait: true,
        }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes fields by reference"
)]
const fn is_true(value: &bool) -> bool {
    *value
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes fields by reference"
)]
const fn is_one(value: &u32) -> bool {
    *value == 1
}
