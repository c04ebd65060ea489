//! Requests drawn beforehand, so that drawing them is no part of what is measured.

use std::num::NonZeroU64;

/// What varies between the requests of a benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Draw {
    /// Prompt tokens, none cached: its cost.
    pub tokens: u32,
    /// Its `priority_jump`, in seconds.
    pub jump_seconds: f64,
    /// Nanoseconds from arrival to deadline; `None` is no deadline.
    pub patience: Option<NonZeroU64>,
    /// A number to choose lanes and victims with.
    pub number: u32,
}

impl Draw {
    /// A request of this cost, without jump or deadline.
    #[must_use]
    pub const fn of(tokens: u32) -> Self {
        Self {
            tokens,
            jump_seconds: 0.0,
            patience: None,
            number: 0,
        }
    }
}

/// A fixed table of draws, taken round and round; the same on every machine.
#[derive(Clone, Debug)]
pub struct Stream {
    draws: Vec<Draw>,
    next: usize,
}

impl Stream {
    /// How many draws differ before they repeat.
    pub const LEN: usize = 1 << 12;

    /// Costs uniform in `1 ..= tokens_max`; jumps uniform below `jump_max_nanos` (0: none);
    /// patience uniform between 1 and 2 times `patience_nanos` (0: no deadline).
    #[must_use]
    pub fn new(tokens_max: u32, jump_max_nanos: u64, patience_nanos: u64) -> Self {
        let mut random = SplitMix(42);
        let draws = (0..Self::LEN)
            .map(|_| Draw {
                tokens: 1 + random.below(tokens_max),
                jump_seconds: random.below_wide(jump_max_nanos) / 1e9,
                patience: NonZeroU64::new(patience_nanos).map(|least| {
                    least.saturating_add(u64::from(random.below(u32::MAX)) % least.get())
                }),
                number: random.below(u32::MAX),
            })
            .collect();
        Self { draws, next: 0 }
    }

    /// The next draw.
    #[inline]
    pub fn draw(&mut self) -> Draw {
        let draw = self.draws[self.next % Self::LEN];
        self.next += 1;
        draw
    }
}

/// SplitMix64: small, seeded, good enough to spread keys.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, or 0.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the high half of a product with a 32-bit bound fits 32 bits"
    )]
    fn below(&mut self, bound: u32) -> u32 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u32
    }

    /// A whole number below `bound`, or 0.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a random number loses nothing by rounding"
    )]
    fn below_wide(&mut self, bound: u64) -> f64 {
        (self.next() % bound.max(1)) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_stay_in_range_and_repeat() {
        let mut stream = Stream::new(8, 1_000, 500);
        let first: Vec<Draw> = (0..Stream::LEN).map(|_| stream.draw()).collect();
        for draw in &first {
            assert!((1..=8).contains(&draw.tokens));
            assert!((0.0..1e-6).contains(&draw.jump_seconds));
            let patience = draw.patience.expect("a deadline was asked for").get();
            assert!((500..1_000).contains(&patience));
        }
        assert!(first.iter().any(|draw| draw.tokens == 1));
        assert!(first.iter().any(|draw| draw.tokens == 8));
        assert_eq!(stream.draw().number, first[0].number);
    }

    #[test]
    fn without_jump_and_patience_there_is_neither() {
        let draw = Stream::new(1, 0, 0).draw();
        assert_eq!(
            (draw.tokens, draw.jump_seconds, draw.patience),
            (1, 0.0, None)
        );
    }
}
