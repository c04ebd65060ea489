//! What the core publishes of a class and of an endpoint, as plain values.

use tollgate_arbiter::{ClassCounters, Endpoint};

/// One class at one moment.
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

/// One endpoint at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointGauges {
    /// Its identity.
    pub endpoint: Endpoint,
    /// Booked prefill tokens and the external report together: its load (S9.2).
    pub prefill_tokens: u64,
    /// Active requests.
    pub active: u64,
    /// Dispatches to it.
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
