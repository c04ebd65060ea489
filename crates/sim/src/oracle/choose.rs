//! S10: which endpoint.

use tollgate_policy::SelectorKind;

use super::{Branch, Oracle, Request};
use crate::protocol::Endpoint;

/// The generator of S10.2's draws: SplitMix64.
#[derive(Debug)]
pub(super) struct SplitMix64(u64);

impl SplitMix64 {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        let scaled = (u128::from(self.next()) * bound as u128) >> 64;
        usize::try_from(scaled).expect("it is below a usize")
    }
}

impl Oracle {
    /// S10.1, S10.2, S9.4: the endpoint of a shared request that is dispatchable.
    pub(super) fn choose(&mut self, intake: u64) -> Endpoint {
        let mut able = self.able(self.request(intake));
        if self.profile.selector() == SelectorKind::PowerOfTwo && able.len() > 1 {
            self.coverage.note(Branch::Drawn);
            able.sort_by_key(|endpoint| self.number(*endpoint));
            let first = self.draws.below(able.len());
            let other = self.draws.below(able.len() - 1);
            let second = if other >= first { other + 1 } else { other };
            able = vec![able[first], able[second]];
        }
        let request = self.request(intake);
        let differs = |a: &Endpoint| request.cached_on(*a) != request.cached_on(able[0]);
        self.coverage
            .note_if(able.iter().any(differs), Branch::HintsDecide);
        let best = able.into_iter().min_by_key(|endpoint| {
            (
                self.score(request, *endpoint),
                self.last_use(*endpoint),
                *endpoint,
            )
        });
        best.expect("an open shared lane has an endpoint that is not busy")
    }

    /// The eligible endpoints that are not busy, without those to be avoided unless all are.
    fn able(&self, request: &Request) -> Vec<Endpoint> {
        let class = self.class(request.class);
        let mut able = self.eligible(request);
        able.retain(|endpoint| !self.is_busy(class, *endpoint));
        let fresh = |endpoint: &Endpoint| !request.avoided.contains(endpoint);
        let (fresh_ones, all) = (
            able.iter().filter(|endpoint| fresh(endpoint)).count(),
            able.len(),
        );
        if fresh_ones > 0 {
            self.coverage.note_if(fresh_ones < all, Branch::Avoided);
            able.retain(fresh);
        } else {
            self.coverage.note(Branch::AllAvoided);
        }
        able
    }

    /// Lower is better.
    fn score(&self, request: &Request, endpoint: Endpoint) -> u128 {
        let place = self.place(endpoint).expect("an eligible endpoint is known");
        let active = self.bookings(endpoint).count() as u128;
        let prefill = u128::from(self.prefill_tokens(place));
        let decode = u128::from(self.profile.decode_weight()) * active;
        let uncached = u128::from(request.uncached_on(endpoint));
        match self.profile.selector() {
            SelectorKind::Cost | SelectorKind::PowerOfTwo => prefill + uncached + decode,
            SelectorKind::LeastLoaded => prefill + decode,
            SelectorKind::RoundRobin => 0,
        }
    }

    fn last_use(&self, endpoint: Endpoint) -> u64 {
        self.place(endpoint)
            .expect("an eligible endpoint is known")
            .last_use
    }
}
