//! The whole state of a machine, as far as it can be seen from outside.

use serde::Serialize;

use super::{Endpoint, Lane};

/// A machine's state at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct State {
    /// When.
    pub now_us: u64,
    /// Waiting requests of all classes.
    pub waiting: u64,
    /// Every class: those of the first file in its order, then later ones as they came.
    pub classes: Vec<ClassState>,
    /// Every known endpoint, by (worker, rank).
    pub workers: Vec<EndpointState>,
    /// Names in ring order, the next one first; mode `exact` only (S6.1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ring: Option<Vec<String>>,
    /// Names of the classes whose turn is open, in ring order; mode `exact` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_turns: Option<Vec<String>>,
    /// The class that the next pass starts with; mode `page` only (S6.8).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// The class that goes on as long as it can pay, if there is one; mode `page` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// How many reloads have succeeded.
    pub generation: u64,
    /// How many operations found nothing to do (S9.3).
    pub stale: u64,
    /// Submissions that named neither a family nor an explicit class (S3.4).
    pub unknown_names: u64,
    /// Whether new work is taken.
    pub phase: Phase,
    /// When the drain ends, while it lasts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain_until_us: Option<u64>,
}

/// Whether new work is taken (S11.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It is.
    Open,
    /// It is not; what waits may still go out.
    Draining,
    /// It is not, and nothing waits.
    Closed,
}

/// One class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClassState {
    /// Its name.
    pub name: String,
    /// Waiting requests.
    pub waiting: u64,
    /// Their raw prompt tokens.
    pub raw_isl_tokens: u64,
    /// Their cached prompt tokens.
    pub cached_tokens: u64,
    /// Uncached tokens earned and not yet spent.
    pub deficit: u64,
    /// Dispatches that were not withdrawn by a requeue.
    pub dispatched: u64,
    /// Their cost.
    pub charged_tokens: u64,
    /// Dispatched requests that are not complete.
    pub in_flight: u64,
    /// Uncached tokens per turn.
    pub quantum: u64,
    /// It stood in an earlier file only: it takes no new requests and goes when it is empty (S3.7).
    pub vanished: bool,
    /// What the limits come to with the known workers (S7.1).
    pub limits: EffectiveLimits,
    /// How its requests ended, dispatches apart.
    pub outcomes: OutcomeCounts,
    /// The waiting request that its turn last opened for; mode `exact` only (S6.6).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remembered: Option<String>,
    /// The lanes in which something waits: the shared one, then the exact ones by endpoint.
    pub lanes: Vec<LaneState>,
}

/// Limit per worker x known workers, saturating; unset: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EffectiveLimits {
    /// Waiting requests.
    pub requests: Option<u64>,
    /// Waiting raw prompt tokens.
    pub raw_isl_tokens: Option<u64>,
    /// Waiting cached prompt tokens.
    pub cached_tokens: Option<u64>,
}

/// How often each outcome came about in a class, at submission or later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OutcomeCounts {
    /// `rejected`, by kind.
    pub rejected: RejectedCounts,
    /// `expired`.
    pub expired: u64,
    /// `cancelled`.
    pub cancelled: u64,
    /// `failed`.
    pub failed: u64,
    /// `shutting_down`.
    pub shutting_down: u64,
}

/// How often requests were rejected, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RejectedCounts {
    /// The limit on requests.
    pub requests: u64,
    /// The limit on raw prompt tokens.
    pub raw_isl_tokens: u64,
    /// The limit on cached prompt tokens.
    pub cached_tokens: u64,
    /// Requests that may not wait.
    pub may_wait: u64,
}

/// One lane in which something waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LaneState {
    /// Which lane.
    pub lane: Lane,
    /// Its requests, best first (S4.2).
    pub waiting: Vec<String>,
}

/// One known endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EndpointState {
    /// The worker's id.
    pub id: u64,
    /// The rank.
    pub rank: u32,
    /// Active prefill tokens: booked and reported ones, saturating (S9.2).
    pub prefill_tokens: u64,
    /// Booked requests that are not complete.
    pub active: u64,
    /// The external report's part of `prefill_tokens`.
    pub reported_tokens: u64,
    /// Its egress is full.
    pub shut: bool,
    /// Its place among the known endpoints by last dispatch, from 1, longest ago first; 0: never.
    pub last_use_place: u64,
    /// Its number: draws of `power_of_two` go by it (S10.2).
    pub number: u64,
    /// As its record says.
    pub available: bool,
    /// As its record says.
    pub overloaded: bool,
}

impl EndpointState {
    /// The endpoint that this is about.
    #[must_use]
    pub const fn endpoint(&self) -> Endpoint {
        Endpoint::new(self.id, self.rank)
    }
}
