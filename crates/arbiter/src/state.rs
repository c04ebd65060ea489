//! A copy of everything that an arbiter knows, for people, tests and tools.

use tollgate_policy::Arbitration;

use crate::{ClassIndex, Endpoint, EndpointIndex, FailReason, Nanos, Ticket};

/// The whole state of an arbiter at one moment; see [`Arbiter::state`](crate::Arbiter::state).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The arbiter's time.
    pub now: Nanos,
    /// Which policy is in force: 1 when built, one more for each reload.
    pub generation: u64,
    /// The arbitration in force.
    pub arbitration: Arbitration,
    /// The classes in ring order (S6). In `page` the ring does not move.
    pub ring: Vec<ClassIndex>,
    /// In `page`, the class whose turn is next (S6.8); `None` in `exact`.
    pub cursor: Option<ClassIndex>,
    /// In `page`, the class that may go on (S6.8); `None` in `exact`.
    pub holder: Option<ClassIndex>,
    /// Waiting requests.
    pub waiting: u64,
    /// Requests that are dispatched and not complete.
    pub outstanding: u64,
    /// Known workers.
    pub worker_count: u64,
    /// No new requests are taken (S11.3).
    pub closed: bool,
    /// Events that found nothing to do (S9.3).
    pub stale_events: u64,
    /// Submissions that named a class or family that does not exist (S3.4).
    pub unknown_names: u64,
    /// Every class, in table order.
    pub classes: Vec<ClassState>,
    /// Every known endpoint, by (worker, rank).
    pub endpoints: Vec<EndpointState>,
}

/// One class of a [`State`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassState {
    /// Its place in the tables.
    pub index: ClassIndex,
    /// Its name.
    pub name: Box<str>,
    /// It vanished from the policy and takes no new requests (S3.7).
    pub draining: bool,
    /// Its quantum, in uncached tokens.
    pub quantum: u64,
    /// Waiting requests.
    pub waiting: u64,
    /// Their raw prompt tokens.
    pub raw_isl_tokens: u64,
    /// Their cached prompt tokens.
    pub cached_tokens: u64,
    /// Requests that are dispatched and not complete.
    pub outstanding: u64,
    /// Credit, in uncached tokens.
    pub deficit: u64,
    /// Its turn is open (S6); always false in `page`.
    pub turn_open: bool,
    /// The entry that was its candidate when its turn last opened, while it still waits (S6.6).
    pub remembered: Option<Ticket>,
    /// Its best dispatchable head and that head's cost.
    pub candidate: Option<(Ticket, u32)>,
    /// Effective limits on requests, raw tokens and cached tokens; `None` is unlimited (S7.1).
    pub limits: [Option<u64>; 3],
    /// What became of its requests.
    pub counters: ClassCounters,
    /// Its lanes with entries: the shared lane, then exact lanes by (worker, rank).
    pub lanes: Vec<LaneState>,
}

/// The figures of one class at one moment; see [`Arbiter::class_gauges`](crate::Arbiter::class_gauges).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassGauges {
    /// Waiting requests.
    pub waiting: u64,
    /// Their raw prompt tokens.
    pub raw_isl_tokens: u64,
    /// Their cached prompt tokens.
    pub cached_tokens: u64,
    /// Requests that are dispatched and not complete.
    pub outstanding: u64,
    /// Credit, in uncached tokens.
    pub deficit: u64,
    /// Its quantum, in uncached tokens.
    pub quantum: u64,
    /// Effective limits on requests, raw tokens and cached tokens; `None` is unlimited (S7.1).
    pub limits: [Option<u64>; 3],
    /// What became of its requests.
    pub counters: ClassCounters,
    /// It vanished from the policy and takes no new requests (S3.7).
    pub draining: bool,
    /// Its turn is open (S6); always false in `page`.
    pub turn_open: bool,
}

/// The figures of one endpoint at one moment; see
/// [`Arbiter::endpoint_gauges`](crate::Arbiter::endpoint_gauges).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointGauges {
    /// Its identity.
    pub endpoint: Endpoint,
    /// Booked prefill tokens and the external report together: its load (S9.2).
    pub prefill_tokens: u64,
    /// Active requests.
    pub active: u64,
    /// Dispatches to it since it became known, those that a requeue withdrew included.
    pub dispatched: u64,
    /// Their costs.
    pub charged_tokens: u64,
    /// Its worker is available.
    pub available: bool,
    /// Its worker is overloaded.
    pub overloaded: bool,
    /// Its egress is full (S5.1).
    pub shut: bool,
}

/// Counters of one class, from the start of the arbiter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounters {
    /// Dispatches that no requeue withdrew.
    pub dispatched: u64,
    /// Their costs.
    pub charged_tokens: u64,
    /// Refused by a limit, by [`LimitKind::ALL`](crate::LimitKind::ALL).
    pub rejected: [u64; 4],
    /// Expired.
    pub expired: u64,
    /// Cancelled.
    pub cancelled: u64,
    /// Failed, by [`FailReason::ALL`].
    pub failed: [u64; 10],
    /// Answered that the arbiter stops.
    pub shutting_down: u64,
    /// Hand-overs that failed and put the request back (S9.4).
    pub requeued: u64,
}

/// What stands between a lane's head and its dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadState {
    /// Nothing: it competes for its class's next dispatch.
    Open,
    /// Its endpoint, or enough of its pool, is busy (S5.3); with the busy and eligible counts. An
    /// exact lane counts its one endpoint.
    Shut {
        /// Endpoints that are busy for the class.
        busy: u32,
        /// Endpoints that may run it; where all of them are overloaded, those count.
        eligible: u32,
    },
    /// It can run nowhere and fails at the next sweep (S5.4).
    Doomed(FailReason),
}

/// One lane of a [`ClassState`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneState {
    /// The endpoint of an exact lane; `None` for the shared lane.
    pub endpoint: Option<Endpoint>,
    /// What stands between the head and its dispatch.
    pub head: HeadState,
    /// The waiting requests, best first.
    pub entries: Vec<EntryState>,
}

/// One waiting request of a [`LaneState`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryState {
    /// Its handle.
    pub ticket: Ticket,
    /// Its cost in uncached tokens.
    pub cost: u32,
    /// When it was submitted.
    pub submitted_at: Nanos,
    /// When it expires, if ever.
    pub deadline: Option<Nanos>,
    /// Failed hand-overs so far.
    pub attempts: u8,
}

/// One known endpoint of a [`State`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointState {
    /// Its identity.
    pub endpoint: Endpoint,
    /// Its place in the tables.
    pub index: EndpointIndex,
    /// Booked prefill tokens and the external report together: its load (S9.2).
    pub prefill_tokens: u64,
    /// The booked part.
    pub booked_tokens: u64,
    /// The external report.
    pub reported_tokens: u64,
    /// Active requests.
    pub active: u64,
    /// Its worker is available.
    pub available: bool,
    /// Its worker is overloaded.
    pub overloaded: bool,
    /// Its egress is full (S5.1): its own, or its egress group's.
    pub shut: bool,
    /// The number of the last dispatch to it; 0 is never (S10.1).
    pub last_use: u64,
    /// The classes that count it busy, in table order.
    pub busy_for: Vec<ClassIndex>,
}
