//! How sure a change is: repetitions drawn again and again from those that there are.

use crate::bench::number::between;

/// How many times both sides are drawn.
const DRAWS: usize = 2_000;
/// The part of the draws outside of the interval, on each side of it.
const OUTSIDE: f64 = 0.025;
/// The same draws every time.
const SEED: u64 = 0x746f_6c6c_6761_7465;

/// The intervals that hold 95 % of the draws, from low to high.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Intervals {
    /// Of the new median by the old one; `None` if one of them may be 0 or less, or a ratio too great.
    pub(super) ratio: Option<(f64, f64)>,
    /// Of the new median less the old one.
    pub(super) difference: (f64, f64),
}

/// Draws from finite samples, one at least on each side.
pub(super) fn intervals(old: &[f64], new: &[f64]) -> Intervals {
    let mut draw = Draw(SEED);
    let mut room = Vec::new();
    let mut ratios = Vec::with_capacity(DRAWS);
    let mut differences = Vec::with_capacity(DRAWS);
    for _ in 0..DRAWS {
        let before = draw.median(old, &mut room);
        let after = draw.median(new, &mut room);
        ratios.push(after / before);
        differences.push(after - before);
    }
    let is_positive = old.iter().all(|&old| old > 0.0) && new.iter().all(|&new| new >= 0.0);
    let middle = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        (between(values, OUTSIDE), between(values, 1.0 - OUTSIDE))
    };
    let ratio = middle(&mut ratios);
    Intervals {
        ratio: (is_positive && ratio.0.is_finite() && ratio.1.is_finite()).then_some(ratio),
        difference: middle(&mut differences),
    }
}

/// Numbers that look random: `SplitMix64`.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A place below `count`.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the upper half of the product is below the count"
    )]
    fn below(&mut self, count: usize) -> usize {
        ((u128::from(self.next()) * count as u128) >> 64) as usize
    }

    /// The median of as many draws from `samples` as there are of them.
    fn median(&mut self, samples: &[f64], room: &mut Vec<f64>) -> f64 {
        room.clear();
        room.extend((0..samples.len()).map(|_| samples[self.below(samples.len())]));
        let middle = room.len() / 2;
        let (lower, &mut upper, _) = room.select_nth_unstable_by(middle, f64::total_cmp);
        match lower.iter().copied().max_by(f64::total_cmp) {
            Some(lower) if samples.len().is_multiple_of(2) => f64::midpoint(lower, upper),
            _ => upper,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_samples_give_the_same_interval_around_the_change() {
        let old = [10.0, 10.2, 9.9, 10.1, 10.0];
        let new = old.map(|old| 1.2 * old);
        let (low, high) = intervals(&old, &new).ratio.expect("positive numbers");
        assert!(
            low > 1.15 && low < 1.2 && high > 1.2 && high < 1.25,
            "{low} {high}"
        );
        assert_eq!(intervals(&old, &new), intervals(&old, &new));
        let (low, high) = intervals(&old, &old).ratio.expect("positive numbers");
        assert!(low < 1.0 && high > 1.0);
    }

    #[test]
    fn a_ratio_that_makes_no_sense_has_no_interval() {
        for (old, new) in [
            ([0.0; 3], [1.0; 3]),
            ([-1.0; 3], [1.0; 3]),
            ([1.0; 3], [-1.0; 3]),
            ([1e-300; 3], [1e300; 3]),
        ] {
            let found = intervals(&old, &new);
            assert_eq!(found.ratio, None);
            assert!((found.difference.0 - (new[0] - old[0])).abs() < 1e-9);
        }
        assert_eq!(intervals(&[2.0; 3], &[0.0; 3]).ratio, Some((0.0, 0.0)));
        let greatest = intervals(&[-f64::MAX; 3], &[f64::MAX; 3]);
        assert!(greatest.difference.0 > 0.0);
    }

    #[test]
    fn a_median_of_even_many_lies_between() {
        let mut draw = Draw(1);
        let mut room = Vec::new();
        assert!((draw.median(&[3.0], &mut room) - 3.0).abs() < 1e-9);
        for _ in 0..50 {
            let median = draw.median(&[1.0, 3.0], &mut room);
            assert!([1.0, 2.0, 3.0].iter().any(|&x| (median - x).abs() < 1e-9));
        }
    }
}
