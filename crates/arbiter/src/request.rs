//! What is asked for: a request, its hints, and its cost snapshot.

use crate::{Endpoint, Nanos, WorkerId};

/// How many hints a request may carry (S2.3).
pub const HINTS_MAX: usize = 16;

/// How many of a prompt's tokens an endpoint holds in its cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// Cached prompt tokens there.
    pub cached: u32,
}

/// A request as it stands at the doorway; it borrows its variable parts.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Prompt tokens, cached or not.
    pub raw_tokens: u32,
    /// Cached prompt tokens, holding on every endpoint; ignored when there are hints (S2.3).
    pub cached_tokens: u32,
    /// Cached prompt tokens by endpoint, at most [`HINTS_MAX`]; of two for one endpoint the larger
    /// counts.
    pub hints: &'a [Hint],
    /// Tier inside the class; a higher one goes first (S4.2).
    pub strict_priority: u32,
    /// Head start in seconds; clamped to 0 ..= 10^9, rounded to whole nanoseconds (S4.3).
    pub priority_jump: f64,
    /// The only endpoint that may run it; makes it wait in that endpoint's exact lane (S4.1).
    pub pin: Option<Endpoint>,
    /// The only workers that may run it; `None` allows all, an empty list nobody (S5.2).
    pub allow: Option<&'a [WorkerId]>,
    /// Taints that a worker must carry to run it.
    pub require_taints: &'a [&'a str],
    /// Absolute time at which it expires (S11.1).
    pub deadline: Option<Nanos>,
    /// False: dispatched in the turn that takes it in, or refused at that turn's end (S7.2).
    pub may_wait: bool,
    /// When it was submitted: its arrival in S4.2, and the start of its wait.
    pub submitted_at: Nanos,
}

impl Request<'_> {
    /// It has no hints, no allow-list and no required taints.
    #[inline]
    pub(crate) const fn is_plain(&self) -> bool {
        self.hints.is_empty() && self.allow.is_none() && self.require_taints.is_empty()
    }
}

impl Request<'static> {
    /// A request of `raw_tokens` with nothing cached and everything else left at its default.
    #[must_use]
    pub const fn new(raw_tokens: u32, submitted_at: Nanos) -> Self {
        Self {
            raw_tokens,
            cached_tokens: 0,
            hints: &[],
            strict_priority: 0,
            priority_jump: 0.0,
            pin: None,
            allow: None,
            require_taints: &[],
            deadline: None,
            may_wait: true,
            submitted_at,
        }
    }
}

/// The price of a request, fixed at submission and immutable while it waits (S2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostSnapshot {
    /// Prompt tokens.
    pub raw: u32,
    /// The best cached prefix among the endpoints that may run it, at most `raw`.
    pub cached: u32,
}

impl CostSnapshot {
    /// `raw - cached`: picks the bucket; may be 0 (S2.2).
    ///
    /// ```
    /// # use tollgate_arbiter::CostSnapshot;
    /// let snapshot = CostSnapshot { raw: 10, cached: 10 };
    /// assert_eq!((snapshot.uncached(), snapshot.cost()), (0, 1));
    /// ```
    #[must_use]
    pub const fn uncached(self) -> u32 {
        self.raw.saturating_sub(self.cached)
    }

    /// `max(1, uncached)`: drives DRR and WSPT; never 0 (S2.2).
    #[must_use]
    pub const fn cost(self) -> u32 {
        let uncached = self.uncached();
        if uncached == 0 { 1 } else { uncached }
    }
}
