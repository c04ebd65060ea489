//! Everything that decides what an arbiter does next, as plain data; see
//! [`Arbiter::checkpoint`](crate::Arbiter::checkpoint).
//!
//! A checkpoint holds what the rules speak of, and what they leave to the arbiter and later decisions
//! depend on: which numbers classes, endpoints and requests have, and how far draws have come. It holds
//! neither the policy nor the capacities, which whoever restores it hands in, and no payload.

use tollgate_policy::ClassPolicy;

use crate::{
    ClassCounters, ClassIndex, CostSnapshot, Endpoint, EndpointIndex, Hint, LimitKind, Nanos,
    SlotIndex, Ticket, WorkerId,
};

/// All of an arbiter at one moment between two calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// The arbiter's time.
    pub now: Nanos,
    /// Which policy is in force: 1 when built, one more for each reload.
    pub generation: u64,
    /// Where the draws of `power_of_two` stand (S10.2): the seed with which they would go on.
    pub draws: u64,
    /// The number that the next request to be taken in gets (S4.2).
    pub next_intake: u64,
    /// How many dispatches there were; the last one's number (S10.1).
    pub dispatches: u64,
    /// Events that found nothing to do (S9.3).
    pub stale_events: u64,
    /// Submissions that named a class or family that does not exist (S3.4).
    pub unknown_names: u64,
    /// When the drain ends, once there is one (S11.3).
    pub drain_deadline: Option<Nanos>,
    /// The answers at the drain's end, once they are under way.
    pub closing: Option<ClosingCheckpoint>,
    /// Empty classes that left the policy keep their places.
    pub holds_drained: bool,
    /// By egress group: how many more dispatches its endpoints take (S5.1); `u32::MAX` is without
    /// bound.
    pub rooms: Vec<u32>,
    /// The classes in ring order (S6).
    pub ring: Vec<ClassIndex>,
    /// In `page`, the class whose turn is next (S6.8).
    pub cursor: Option<ClassIndex>,
    /// In `page`, the class that may go on (S6.8).
    pub holder: Option<ClassIndex>,
    /// The classes in table order.
    pub classes: Vec<ClassCheckpoint>,
    /// Known workers.
    pub workers: Vec<WorkerCheckpoint>,
    /// Endpoint numbers in use.
    pub endpoints: Vec<EndpointCheckpoint>,
    /// Live requests in intake order.
    pub requests: Vec<RequestCheckpoint>,
}

/// One class of a [`Checkpoint`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassCheckpoint {
    /// Its place in the tables.
    pub index: ClassIndex,
    /// Name and settings in force. One that left the policy keeps its last ones, as those of an
    /// explicit class (S3.7).
    pub policy: ClassPolicy,
    /// It left the policy.
    pub draining: bool,
    /// How often its order changed while entries waited: older entries go first (S3.7).
    pub epoch: u8,
    /// Credit, in uncached tokens.
    pub deficit: u64,
    /// Its turn is open (S6).
    pub turn_open: bool,
    /// The slot of the entry that was its candidate when its turn last opened (S6.6).
    pub remembered: Option<SlotIndex>,
    /// What became of its requests.
    pub counters: ClassCounters,
}

/// One known worker of a [`Checkpoint`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerCheckpoint {
    /// Which.
    pub id: WorkerId,
    /// Its first rank.
    pub first_rank: u32,
    /// How many ranks it has.
    pub ranks: u32,
    /// What fractions of thresholds refer to, in tokens.
    pub max_batched_tokens: Option<u64>,
    /// The taints that it carries.
    pub taints: Vec<Box<str>>,
    /// It is overloaded.
    pub overloaded: bool,
    /// It is available.
    pub available: bool,
}

/// One endpoint number of a [`Checkpoint`]: a known endpoint, or one that live requests refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointCheckpoint {
    /// Its number.
    pub index: EndpointIndex,
    /// Its identity.
    pub endpoint: Endpoint,
    /// The external report of its prefill tokens (S9.2).
    pub reported_tokens: u64,
    /// It was shut by itself, its egress group aside (S5.1).
    pub shut: bool,
    /// The number of the last dispatch to it; 0 is never (S10.1).
    pub last_use: u64,
    /// Dispatches to it since it became known.
    pub dispatched: u64,
    /// Their costs.
    pub charged_tokens: u64,
}

/// One live request of a [`Checkpoint`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestCheckpoint {
    /// Its handle.
    pub ticket: Ticket,
    /// Its class.
    pub class: ClassIndex,
    /// Its price, as frozen at submission (S2.1).
    pub snapshot: CostSnapshot,
    /// When it was submitted.
    pub submitted_at: Nanos,
    /// Strict tier, epoch and policy key, as frozen at submission: larger goes first (S4.2). Below
    /// 2^104.
    pub key: u128,
    /// Its intake number: of two equal keys the smaller goes first.
    pub intake: u64,
    /// The number of the pinned endpoint.
    pub pin: Option<EndpointIndex>,
    /// When it expires, its class's timeout included.
    pub deadline: Option<Nanos>,
    /// The kind with which it is refused if it would have to wait (S7.2).
    pub impatience: Option<LimitKind>,
    /// Dispatches so far, the present one included.
    pub attempt: u8,
    /// The endpoints that it avoids (S9.4).
    pub avoided: Vec<EndpointIndex>,
    /// Its hints; none are kept of a pinned one.
    pub hints: Vec<Hint>,
    /// The workers that may run it; not kept of a pinned one.
    pub allow: Option<Vec<WorkerId>>,
    /// The taints that its worker must have.
    pub require_taints: Vec<Box<str>>,
    /// What it holds, if it is dispatched; `None` while it waits.
    pub booking: Option<BookingCheckpoint>,
}

/// What a dispatched request of a [`Checkpoint`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BookingCheckpoint {
    /// The number of the endpoint that it was dispatched to.
    pub index: EndpointIndex,
    /// The prefill tokens that were booked there.
    pub tokens: u32,
    /// Its prefill is over: they are released.
    pub prefilled: bool,
    /// The endpoint has not departed since: the booking counts there (S9.3).
    pub holds: bool,
}

/// How far the answers at a drain's end have come (S11.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosingCheckpoint {
    /// Slots below this one are gathered; `None`: all are.
    pub gathered: Option<u32>,
    /// The gathered slots that are not answered yet, with their intake numbers, in no order.
    pub slots: Vec<(SlotIndex, u64)>,
}

/// A checkpoint cannot be taken: what a selector of the embedder's own knows is not the arbiter's to
/// copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("workers are chosen by a selector of the embedder's own, whose state cannot be copied")]
pub struct OwnSelector;

/// Why a checkpoint cannot be restored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// A capacity is outside its range, or the profile needs more than the capacities give.
    #[error(transparent)]
    Build(#[from] crate::BuildError),
    /// A capacity does not suffice.
    #[error(transparent)]
    Full(#[from] crate::Full),
    /// Two of its parts do not agree: no arbiter wrote it.
    #[error("{part} {which}: {problem}")]
    Inconsistent {
        /// What kind of part: a class, a worker, an endpoint, a request.
        part: &'static str,
        /// Which one, by its place in the checkpoint, from 0.
        which: usize,
        /// What is wrong with it.
        problem: &'static str,
    },
}
