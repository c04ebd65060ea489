//! The shipped selectors (S10.1, S10.2).

use super::{Activity, Pool, Selector};
use crate::EndpointIndex;

fn weighed(activity: Activity, decode_weight: u64) -> u128 {
    u128::from(activity.prefill_tokens) + u128::from(decode_weight) * u128::from(activity.active)
}

/// `active prefill tokens + raw - cached there + decode_weight x active`.
fn cost(pool: &Pool<'_>, endpoint: EndpointIndex, decode_weight: u64) -> u128 {
    weighed(pool.activity(endpoint), decode_weight) + u128::from(pool.uncached(endpoint))
}

/// Lowest `active prefill tokens + raw - cached there + decode_weight x active requests`; the
/// default.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// What one active request weighs, in tokens.
    pub decode_weight: u64,
}

impl Selector for Cost {
    fn standing(&self, activity: Activity) -> u128 {
        weighed(activity, self.decode_weight)
    }

    /// An endpoint without a hint has nothing cached, so the best of them is the one with the
    /// lowest standing score, unless that one has a hint itself; then its cost, with the hint, is
    /// below that of all without. Either way the answer is it or a hinted one.
    fn choose(&mut self, pool: &Pool<'_>) -> EndpointIndex {
        let mut best = pool.lowest_standing(self);
        let mut lowest = None;
        for endpoint in pool.hinted() {
            let held = *lowest.get_or_insert_with(|| cost(pool, best, self.decode_weight));
            let score = cost(pool, endpoint, self.decode_weight);
            if score < held || score == held && pool.breaks_tie(endpoint, best) {
                (best, lowest) = (endpoint, Some(score));
            }
        }
        best
    }
}

/// Lowest `active prefill tokens + decode_weight x active requests`.
#[derive(Clone, Copy, Debug)]
pub struct LeastLoaded {
    /// What one active request weighs, in tokens.
    pub decode_weight: u64,
}

impl Selector for LeastLoaded {
    fn standing(&self, activity: Activity) -> u128 {
        weighed(activity, self.decode_weight)
    }

    fn choose(&mut self, pool: &Pool<'_>) -> EndpointIndex {
        pool.lowest_standing(self)
    }
}

/// The endpoint dispatched to longest ago.
#[derive(Clone, Copy, Debug)]
pub struct RoundRobin;

impl Selector for RoundRobin {
    fn standing(&self, _: Activity) -> u128 {
        0
    }

    fn choose(&mut self, pool: &Pool<'_>) -> EndpointIndex {
        pool.lowest_standing(self)
    }
}

/// Two endpoints drawn at random, the cheaper by the measure of [`Cost`].
///
/// Draws come from `SplitMix64`. With k endpoints in the pool, in the order of their numbers, the
/// first draw is `next x k / 2^64`, the second `next x (k - 1) / 2^64`, one more from the first on.
/// A pool of one takes no draw.
#[derive(Clone, Copy, Debug)]
pub struct PowerOfTwo {
    decode_weight: u64,
    state: u64,
}

impl PowerOfTwo {
    /// A selector whose draws follow from `seed`.
    #[must_use]
    pub const fn new(decode_weight: u64, seed: u64) -> Self {
        Self {
            decode_weight,
            state: seed,
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "below `bound`, which is a usize"
        )]
        let draw = ((u128::from(z) * bound as u128) >> 64) as usize;
        draw
    }
}

impl Selector for PowerOfTwo {
    fn standing(&self, _: Activity) -> u128 {
        0
    }

    fn choose(&mut self, pool: &Pool<'_>) -> EndpointIndex {
        let count = pool.iter().count();
        let nth = |n| pool.iter().nth(n).expect("a draw is below the count");
        if count == 1 {
            return nth(0);
        }
        let first = self.below(count);
        let second = self.below(count - 1);
        let (a, b) = (nth(first), nth(second + usize::from(second >= first)));
        let (cost_a, cost_b) = (
            cost(pool, a, self.decode_weight),
            cost(pool, b, self.decode_weight),
        );
        if cost_b < cost_a || cost_b == cost_a && pool.breaks_tie(b, a) {
            b
        } else {
            a
        }
    }
}
