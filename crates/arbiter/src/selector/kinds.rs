//! The shipped selectors (S10.1, S10.2).

use super::{Activity, Draws, Pool, Selector};
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
    fn follows_standing(&self) -> bool {
        true
    }

    fn standing(&self, activity: Activity) -> u128 {
        weighed(activity, self.decode_weight)
    }

    /// An endpoint without a hint has nothing cached, so the best of them is the one with the
    /// lowest standing score, unless that one has a hint itself; then its cost, with the hint, is
    /// below that of all without. Either way the answer is it or a hinted one.
    fn choose(&mut self, pool: &Pool<'_>, _: &mut Draws) -> EndpointIndex {
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
    fn follows_standing(&self) -> bool {
        true
    }

    fn standing(&self, activity: Activity) -> u128 {
        weighed(activity, self.decode_weight)
    }

    fn choose(&mut self, pool: &Pool<'_>, _: &mut Draws) -> EndpointIndex {
        pool.lowest_standing(self)
    }
}

/// The endpoint dispatched to longest ago.
#[derive(Clone, Copy, Debug)]
pub struct RoundRobin;

impl Selector for RoundRobin {
    fn follows_standing(&self) -> bool {
        true
    }

    fn standing(&self, _: Activity) -> u128 {
        0
    }

    fn choose(&mut self, pool: &Pool<'_>, _: &mut Draws) -> EndpointIndex {
        pool.lowest_standing(self)
    }
}

/// Two endpoints drawn at random, the cheaper by the measure of [`Cost`].
///
/// With k endpoints in the pool, in the order of their numbers, the first is the draw below k, the
/// second the draw below k - 1, one more from the first on. A pool of one takes no draw.
#[derive(Clone, Copy, Debug)]
pub struct PowerOfTwo {
    /// What one active request weighs, in tokens.
    pub decode_weight: u64,
}

impl Selector for PowerOfTwo {
    fn standing(&self, _: Activity) -> u128 {
        0
    }

    fn choose(&mut self, pool: &Pool<'_>, draws: &mut Draws) -> EndpointIndex {
        let count = pool.iter().count();
        let nth = |n| pool.iter().nth(n).expect("a draw is below the count");
        if count == 1 {
            return nth(0);
        }
        let first = draws.below(count);
        let second = draws.below(count - 1);
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
