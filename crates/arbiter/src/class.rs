//! The classes of one arbiter: settings, usage, counters.

use tollgate_policy::{ClassPolicy, Fraction, OrderPolicy};

use crate::gate::Counts;
use crate::order::NONE;
use crate::{ClassCounters, LimitKind, Nanos};

/// What fractions of thresholds refer to where a worker does not say (S5.1).
const MAX_BATCHED_TOKENS_DEFAULT: u64 = 10_000_000;

/// One class, or an unused place for one.
#[derive(Debug)]
pub(crate) struct Class {
    pub(crate) name: Box<str>,
    pub(crate) in_use: bool,
    /// It vanished from the policy and takes no new requests (S3.7).
    pub(crate) draining: bool,
    pub(crate) order: OrderPolicy,
    /// Rises when `order` changes; entries of older epochs go first within a strict tier (S3.7).
    pub(crate) epoch: u8,
    threshold: Option<u64>,
    threshold_frac: Option<Fraction>,
    busy_ratio: Option<Fraction>,
    /// Per worker, by [`LimitKind::ALL`] without the last.
    limits: [Option<u64>; 3],
    /// Some limit is set.
    pub(crate) is_limited: bool,
    queue_timeout: Option<Nanos>,
    /// Waiting requests, their raw tokens, their cached tokens.
    pub(crate) usage: [u64; 3],
    pub(crate) outstanding: u64,
    pub(crate) counters: ClassCounters,
    /// Counts over all endpoints.
    pub(crate) counts: Counts,
    /// Busy counts that shut the shared lane, for the counts of `counts` (S5.3).
    pub(crate) shut_at: ShutAt,
    /// The slot of the shared lane's head if it is constrained, else [`NONE`].
    pub(crate) masked_head: u32,
    /// Counts over the mask of that head.
    pub(crate) masked_counts: Counts,
    pub(crate) masked_shut_at: ShutAt,
    /// Exact lanes whose head fails at the next sweep.
    pub(crate) doomed_lanes: u32,
    pub(crate) is_dirty: bool,
    pub(crate) is_cut: bool,
}

/// How many busy endpoints shut a lane: of the available ones, and of the eligible ones.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ShutAt {
    pub(crate) available: u32,
    pub(crate) eligible: u32,
}

impl Class {
    pub(crate) fn unused() -> Self {
        Self {
            name: Box::default(),
            in_use: false,
            draining: false,
            order: OrderPolicy::Fcfs,
            epoch: 0,
            threshold: None,
            threshold_frac: None,
            busy_ratio: None,
            limits: [None; 3],
            is_limited: false,
            queue_timeout: None,
            usage: [0; 3],
            outstanding: 0,
            counters: ClassCounters::default(),
            counts: Counts::default(),
            shut_at: ShutAt::default(),
            masked_head: NONE,
            masked_counts: Counts::default(),
            masked_shut_at: ShutAt::default(),
            doomed_lanes: 0,
            is_dirty: false,
            is_cut: false,
        }
    }

    pub(crate) fn named(name: Box<str>) -> Self {
        Self {
            name,
            in_use: true,
            ..Self::unused()
        }
    }

    /// Takes a class's settings over; queue, counters and epoch stay.
    pub(crate) fn configure(&mut self, policy: &ClassPolicy) {
        self.draining = false;
        self.order = policy.order;
        self.threshold = policy.prefill_busy_threshold;
        self.threshold_frac = policy.prefill_busy_threshold_frac;
        self.busy_ratio = policy.busy_worker_ratio;
        self.limits = [
            policy.request_queue_limit_per_worker,
            policy.raw_isl_token_queue_limit_per_worker,
            policy.cached_token_queue_limit_per_worker,
        ];
        self.is_limited = self.limits.iter().any(Option::is_some);
        self.queue_timeout = policy.queue_timeout_ms.map(Nanos::from_millis);
    }

    /// Whether its thresholds are those of a policy.
    pub(crate) fn has_thresholds_of(&self, policy: &ClassPolicy) -> bool {
        self.threshold == policy.prefill_busy_threshold
            && self.threshold_frac == policy.prefill_busy_threshold_frac
    }

    /// Whether its thresholds depend on the worker.
    pub(crate) const fn has_relative_threshold(&self) -> bool {
        self.threshold_frac.is_some()
    }

    /// Its settings as those of an explicit class of a policy.
    pub(crate) fn settings(&self, quantum: u64) -> ClassPolicy {
        ClassPolicy {
            order: self.order,
            prefill_busy_threshold: self.threshold,
            prefill_busy_threshold_frac: self.threshold_frac,
            busy_worker_ratio: self.busy_ratio,
            request_queue_limit_per_worker: self.limits[0],
            raw_isl_token_queue_limit_per_worker: self.limits[1],
            cached_token_queue_limit_per_worker: self.limits[2],
            queue_timeout_ms: self.queue_timeout.map(|timeout| match timeout {
                Nanos::MAX => u64::MAX,
                Nanos(nanos) => nanos / 1_000_000,
            }),
            ..ClassPolicy::explicit(&self.name, quantum)
        }
    }

    /// Nothing of it waits or runs.
    pub(crate) const fn is_idle(&self) -> bool {
        self.usage[0] == 0 && self.outstanding == 0
    }

    pub(crate) const fn waiting(&self) -> u64 {
        self.usage[0]
    }

    /// The load above which an endpoint is busy: both thresholds folded into one (S5.1).
    pub(crate) fn threshold_for(&self, max_batched_tokens: Option<u64>) -> u64 {
        let absolute = self.threshold.unwrap_or(u64::MAX);
        let relative = self.threshold_frac.map_or(u64::MAX, |fraction| {
            fraction.floor_of(max_batched_tokens.unwrap_or(MAX_BATCHED_TOKENS_DEFAULT))
        });
        absolute.min(relative)
    }

    /// `max(1, ceil(ratio x endpoints))` (S5.3).
    pub(crate) fn shut_at(&self, counts: Counts) -> ShutAt {
        let of = |endpoints: u32| {
            self.busy_ratio.map_or(endpoints, |ratio| {
                u32::try_from(ratio.ceil_of(u64::from(endpoints))).unwrap_or(u32::MAX)
            })
        };
        ShutAt {
            available: of(counts.available).max(1),
            eligible: of(counts.eligible).max(1),
        }
    }

    /// The earlier of a request's own deadline and the class's (S3.1).
    #[inline]
    pub(crate) fn deadline(&self, own: Option<Nanos>, submitted_at: Nanos) -> Option<Nanos> {
        let Some(span) = self.queue_timeout else {
            return own;
        };
        let timeout = submitted_at.saturating_add(span);
        Some(own.map_or(timeout, |own| own.min(timeout)))
    }

    /// The first limit of 0, in the order of tests (S7.2).
    pub(crate) fn zero_limit(&self) -> Option<LimitKind> {
        LimitKind::ALL
            .into_iter()
            .zip(self.limits)
            .find(|&(_, limit)| limit == Some(0))
            .map(|l| l.0)
    }

    /// The effective limit of a kind: its value times the workers (S7.1).
    pub(crate) fn effective_limit(&self, kind: usize, workers: u64) -> Option<u64> {
        self.limits[kind].map(|limit| limit.saturating_mul(workers))
    }

    /// Whether new requests mostly go after all that wait.
    #[inline]
    pub(crate) const fn is_in_order(&self) -> bool {
        matches!(self.order, OrderPolicy::Fcfs | OrderPolicy::Edf)
    }

    /// How far from a run's tail a new key may belong and still be linked in there. Keys that
    /// follow the clock are nearly in order; others are not worth the search.
    pub(crate) const fn reach(&self) -> u32 {
        match self.order {
            OrderPolicy::Fcfs | OrderPolicy::Edf => 8,
            OrderPolicy::Lcfs | OrderPolicy::Wspt => 0,
        }
    }
}
