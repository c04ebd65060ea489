//! Who waits, why, behind which gate: what `GET /state` answers, as values.
//!
//! The page at `/ui` and `tollgate top` read the same. Names are stable; more fields may come. Numbers of one
//! model's arbiter are of one moment, but for what is marked as published: that is what the arbiter showed last,
//! at most some milliseconds before.

mod build;
mod lane;
mod query;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub(super) use self::build::show;
pub use crate::fleet::{Standing, WorkerReport};

/// A router at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RouterState {
    /// The version that runs.
    pub version: String,
    /// How far it is on its way out.
    pub phase: PhaseState,
    /// For how many seconds it has run.
    pub uptime_seconds: f64,
    /// Requests that have no end yet.
    pub open_requests: u64,
    /// Which policy is in force, from 1.
    pub policy_generation: u64,
    /// The thread that decides; published.
    pub arbiter: LoopState,
    /// The models that were asked for, in the order in which they became known.
    pub models: Vec<ModelState>,
    /// All workers, as the router sees them.
    pub workers: Vec<WorkerReport>,
}

/// How far a router is on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PhaseState {
    /// It takes requests.
    Serving,
    /// It takes none; what is there may go on.
    Draining,
    /// What is still there ends now.
    Ending,
}

/// What the arbiters' thread did since it started.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoopState {
    /// Turns of its loop.
    pub turns: u64,
    /// Seconds in turns that did something.
    pub busy_seconds: f64,
    /// Seconds in turns that did nothing, and asleep.
    pub idle_seconds: f64,
    /// How often it went to sleep.
    pub parks: u64,
    /// Dispatches decided.
    pub dispatches: u64,
}

/// A model's arbiter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelState {
    /// Its name.
    pub name: String,
    /// Which policy its arbiter goes by: 1 when the engine was built, one more for each load.
    pub generation: u64,
    /// `exact` or `page` (S6).
    pub arbitration: String,
    /// The classes in ring order (S6).
    pub ring: Vec<String>,
    /// Requests that wait.
    pub waiting: u64,
    /// Requests that wait for room in the engine, and are in no class yet; published.
    pub waiting_for_room: u64,
    /// Requests that are dispatched and not complete.
    pub outstanding: u64,
    /// It takes no new requests (S11.3).
    pub closed: bool,
    /// Its classes, in table order.
    pub classes: Vec<ClassState>,
    /// Its endpoints: each rank of each worker that serves it.
    pub endpoints: Vec<EndpointState>,
}

/// One class of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassState {
    /// Its name.
    pub name: String,
    /// It left the policy and takes no new requests (S3.7).
    pub draining: bool,
    /// Uncached prompt tokens granted in a turn.
    pub quantum: u64,
    /// Credit, in uncached prompt tokens.
    pub deficit: u64,
    /// Its turn is open (S6).
    pub turn_open: bool,
    /// Requests that wait.
    pub waiting: u64,
    /// Their prompt tokens.
    pub raw_tokens: u64,
    /// Those of them that are expected in a cache.
    pub cached_tokens: u64,
    /// Requests that are dispatched and not complete.
    pub outstanding: u64,
    /// What may wait at present.
    pub limits: LimitsState,
    /// What the policy says of it; none for a class that left the policy.
    pub policy: Option<ThresholdsState>,
    /// How long its oldest request has waited, in milliseconds; 0 if none waits. Published.
    pub oldest_wait_ms: f64,
    /// Tokens dispatched while it was backlogged. Published.
    pub served_tokens: u64,
    /// Tokens that its quantum entitled it to meanwhile. Published.
    pub entitled_tokens: u64,
    /// What became of its requests.
    pub counters: CountersState,
    /// Its lanes with requests: the shared one first.
    pub lanes: Vec<LaneState>,
}

/// What may wait in a class at present: its limits for each worker times the known workers (S7.1). None: any
/// number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitsState {
    /// Requests.
    pub requests: Option<u64>,
    /// Their prompt tokens.
    pub raw_tokens: Option<u64>,
    /// Those of them that are expected in a cache.
    pub cached_tokens: Option<u64>,
}

/// What a policy says of a class's gate and deadline; none: it says nothing (S5.1, S5.3, S11.1).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThresholdsState {
    /// An endpoint with a load above so many tokens is busy.
    pub prefill_busy_threshold: Option<u64>,
    /// The same as a fraction of the worker's `max_batched_tokens`.
    pub prefill_busy_threshold_frac: Option<f64>,
    /// The part of the eligible endpoints that shuts the shared lane when it is busy; none: all.
    pub busy_worker_ratio: Option<f64>,
    /// How long a request may wait, in milliseconds.
    pub queue_timeout_ms: Option<u64>,
}

/// What became of a class's requests, since the class is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountersState {
    /// Dispatches that were not taken back.
    pub dispatched: u64,
    /// Their uncached prompt tokens.
    pub charged_tokens: u64,
    /// Hand-overs that failed and put the request back (S9.4).
    pub requeued: u64,
    /// Deadlines that passed.
    pub expired: u64,
    /// Clients that went away.
    pub cancelled: u64,
    /// Requests that the end found waiting.
    pub shutting_down: u64,
    /// Refusals, by limit.
    pub rejected: BTreeMap<String, u64>,
    /// Failures, by reason.
    pub failed: BTreeMap<String, u64>,
}

/// One lane of a class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaneState {
    /// `shared`, or `worker:rank` of the only endpoint that may run its requests.
    pub lane: String,
    /// What stands between its head and a dispatch.
    pub head: HeadState,
    /// The same in words.
    pub why: String,
    /// Its best requests, the best first; as many as were asked for.
    pub entries: Vec<EntryState>,
}

/// What stands between a lane's head and its dispatch (S5.3, S5.4).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum HeadState {
    /// Nothing: it competes for the next dispatch.
    Open,
    /// Too many endpoints are busy.
    Shut {
        /// Eligible endpoints that are busy for the class.
        busy: u32,
        /// Endpoints that may run the request.
        eligible: u32,
        /// So many busy ones shut the lane.
        shut_at: u32,
        /// The lowest threshold, in tokens, that the load of a busy endpoint exceeds; none: they are busy since
        /// their egress is full, or a moment's difference.
        threshold_tokens: Option<u64>,
    },
    /// It can run nowhere and is about to fail.
    Doomed {
        /// Why, as in the counters of failures.
        reason: String,
    },
}

/// One waiting request.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EntryState {
    /// Uncached prompt tokens.
    pub cost_tokens: u32,
    /// How long it has waited, in milliseconds.
    pub waited_ms: f64,
    /// When it expires, in milliseconds from now, if ever.
    pub deadline_in_ms: Option<f64>,
    /// Hand-overs that failed so far.
    pub attempts: u8,
}

/// One endpoint of a model, as its arbiter knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointState {
    /// The worker's number.
    pub worker: u64,
    /// Where it is; none for a worker that was just removed.
    pub url: Option<String>,
    /// Its data-parallel rank.
    pub rank: u32,
    /// Booked and reported prefill tokens together (S9.2).
    pub load_tokens: u64,
    /// The booked ones.
    pub booked_tokens: u64,
    /// The reported ones.
    pub reported_tokens: u64,
    /// Requests that run there.
    pub active: u64,
    /// Its worker is well.
    pub available: bool,
    /// An operator said that it takes no requests for now.
    pub overloaded: bool,
    /// Its egress is full (S5.1).
    pub shut: bool,
    /// The classes that count it busy.
    pub busy_for: Vec<String>,
    /// By class: a load above so many tokens makes it busy (S5.1). No entry: its load never does.
    #[serde(default)]
    pub busy_above_tokens: BTreeMap<String, u64>,
}
