//! The choice of worker for a shared request (S10).
//!
//! A [`Selector`] sees the free endpoints of one request through a read-only [`Pool`] and names one
//! of them. Four are shipped; an embedder may bring another. Where a request has no constraint and
//! the best endpoint by standing score is free, the answer comes from an index over the scores;
//! otherwise the pool is scanned, 64 endpoints a word.

mod draws;
mod kinds;

pub use draws::Draws;
pub use kinds::{Cost, LeastLoaded, PowerOfTwo, RoundRobin};
use std::fmt;

use tollgate_policy::SelectorKind;

use crate::bits::ones;
use crate::endpoints::Endpoints;
use crate::extension::{Extensions, Header};
use crate::gate::Gates;
use crate::load_tree::{LoadTree, used_before};
use crate::{CostSnapshot, EndpointIndex};

/// What is active on one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    /// Active prefill tokens: booked ones and the external report (S9.2).
    pub prefill_tokens: u64,
    /// Active requests.
    pub active: u64,
}

/// Chooses the endpoint of a shared request.
///
/// It runs inside the arbiter's turn: it may not block or allocate.
pub trait Selector: fmt::Debug {
    /// The part of an endpoint's score that does not depend on the request; lower is better. The
    /// arbiter keeps an index over it, and asks again when the activity changes.
    fn standing(&self, activity: Activity) -> u128;

    /// Whether it names the endpoint with the lowest standing score wherever a request has neither
    /// hints nor constraints; then the arbiter looks it up without asking. Default false.
    fn follows_standing(&self) -> bool {
        false
    }

    /// Names one endpoint of a pool, which is never empty.
    fn choose(&mut self, pool: &Pool<'_>, draws: &mut Draws) -> EndpointIndex;
}

/// The shipped selector of a kind.
pub(crate) fn shipped(kind: SelectorKind, decode_weight: u64) -> Box<dyn Selector + Send> {
    match kind {
        SelectorKind::Cost => Box::new(Cost { decode_weight }),
        SelectorKind::LeastLoaded => Box::new(LeastLoaded { decode_weight }),
        SelectorKind::RoundRobin => Box::new(RoundRobin),
        SelectorKind::PowerOfTwo => Box::new(PowerOfTwo { decode_weight }),
    }
}

/// How an endpoint's standing score comes about, without asking a shipped selector for it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Standing {
    /// Prefill tokens, and this much for each active request.
    Weighed(u64),
    /// All scores are equal.
    Level,
    /// The selector knows.
    Asked,
}

impl Standing {
    /// The rule of a shipped selector.
    pub(crate) const fn of_kind(kind: SelectorKind, decode_weight: u64) -> Self {
        match kind {
            SelectorKind::Cost | SelectorKind::LeastLoaded => Self::Weighed(decode_weight),
            SelectorKind::RoundRobin | SelectorKind::PowerOfTwo => Self::Level,
        }
    }

    /// The score; `None` if the selector must be asked, or it does not fit.
    #[inline]
    pub(crate) fn of(self, prefill_tokens: u64, active: u64) -> Option<u64> {
        match self {
            Self::Weighed(weight) => weight.checked_mul(active)?.checked_add(prefill_tokens),
            Self::Level => Some(0),
            Self::Asked => None,
        }
    }
}

/// The endpoints that may take one request now: eligible, not busy for its class, and, while
/// another such endpoint exists, not one that failed it before (S9.4).
#[derive(Debug)]
pub struct Pool<'a> {
    pub(crate) gates: &'a Gates,
    pub(crate) endpoints: &'a Endpoints,
    pub(crate) index: &'a LoadTree,
    pub(crate) extensions: &'a Extensions,
    pub(crate) class: usize,
    pub(crate) snapshot: CostSnapshot,
    pub(crate) header: Option<Header>,
    /// Endpoint numbers to avoid; empty if there is nothing else.
    pub(crate) avoided: &'a [u32],
}

impl<'a> Pool<'a> {
    /// Drops the avoided endpoints if nothing else would be left.
    pub(crate) fn settle(mut self) -> Self {
        if !self.avoided.is_empty() && self.iter().next().is_none() {
            self.avoided = &[];
        }
        self
    }

    fn is_masked(&self) -> bool {
        self.header.is_some_and(|header| header.is_constrained())
    }

    /// Whether an endpoint is in the pool; one that does not exist is not. O(avoided).
    #[must_use]
    pub fn contains(&self, endpoint: EndpointIndex) -> bool {
        let number = endpoint.0;
        self.gates.exists(number)
            && self.gates.is_eligible(number)
            && !self.gates.is_busy(self.class, number)
            && (!self.is_masked() || self.gates.is_masked(self.class, number))
            && !self.avoided.contains(&number)
    }

    /// The endpoints of the pool, by number. O(endpoints / 64 + pool).
    pub fn iter(&self) -> impl Iterator<Item = EndpointIndex> {
        let masked = self.is_masked();
        let words =
            (0..self.gates.words()).map(move |word| self.gates.free_word(self.class, masked, word));
        ones(words)
            .filter(|number| !self.avoided.contains(number))
            .map(EndpointIndex)
    }

    /// What is active on an endpoint.
    #[must_use]
    pub fn activity(&self, endpoint: EndpointIndex) -> Activity {
        let slot = self.endpoints.slot(endpoint.0);
        Activity {
            prefill_tokens: slot.load(),
            active: u64::from(slot.active),
        }
    }

    /// The request's cached tokens on an endpoint. O(hints).
    #[must_use]
    pub fn cached(&self, endpoint: EndpointIndex) -> u32 {
        cached_on(
            self.extensions,
            self.header.as_ref(),
            self.snapshot,
            self.endpoints,
            endpoint.0,
        )
    }

    /// The tokens that an endpoint would have to compute: `raw - cached there`. O(hints).
    #[must_use]
    pub fn uncached(&self, endpoint: EndpointIndex) -> u32 {
        self.snapshot.raw - self.cached(endpoint)
    }

    /// The endpoints of the pool that the request has hints for.
    pub fn hinted(&self) -> impl Iterator<Item = EndpointIndex> {
        self.header
            .iter()
            .flat_map(|header| self.extensions.hints(header))
            .filter_map(|hint| self.endpoints.number(hint.endpoint).map(EndpointIndex))
            .filter(|&endpoint| self.contains(endpoint))
    }

    /// Whether `a` goes before `b` where scores are equal: dispatched to longer ago, never-used
    /// first, then lower (worker, rank) (S10.1).
    #[must_use]
    pub fn breaks_tie(&self, a: EndpointIndex, b: EndpointIndex) -> bool {
        used_before(a.0, b.0, self.endpoints)
    }

    /// The endpoint with the lowest standing score. O(1) where the request has no constraint and
    /// the best of all endpoints is in the pool, else O(endpoints / 64 + pool).
    ///
    /// # Panics
    /// If the pool is empty, which the arbiter never hands out.
    #[must_use]
    pub fn lowest_standing(&self, selector: &impl Selector) -> EndpointIndex {
        let best = self
            .index
            .best()
            .map(EndpointIndex)
            .filter(|&best| self.contains(best));
        best.or_else(|| self.lowest_by(|endpoint| selector.standing(self.activity(endpoint))))
            .expect("a pool is never empty")
    }

    /// The endpoint with the lowest score. O(endpoints / 64 + pool).
    pub fn lowest_by(&self, score: impl Fn(EndpointIndex) -> u128) -> Option<EndpointIndex> {
        let mut best: Option<(u128, EndpointIndex)> = None;
        for endpoint in self.iter() {
            let score = score(endpoint);
            let wins = best.is_none_or(|(lowest, holder)| {
                score < lowest || score == lowest && self.breaks_tie(endpoint, holder)
            });
            if wins {
                best = Some((score, endpoint));
            }
        }
        best.map(|(_, endpoint)| endpoint)
    }
}

/// A request's cached tokens on one endpoint: its largest hint for it, or, without hints, the plain
/// number (S2.3).
pub(crate) fn cached_on(
    extensions: &Extensions,
    header: Option<&Header>,
    snapshot: CostSnapshot,
    endpoints: &Endpoints,
    number: u32,
) -> u32 {
    let Some(header) = header.filter(|header| header.has_hints()) else {
        return snapshot.cached;
    };
    let endpoint = endpoints.slot(number).endpoint;
    extensions
        .hints(header)
        .filter(|hint| hint.endpoint == endpoint)
        .map(|hint| hint.cached.min(snapshot.raw))
        .max()
        .unwrap_or(0)
}
