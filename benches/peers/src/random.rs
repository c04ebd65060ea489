//! A small seeded generator, so that both sides see the same stream on every machine.

/// SplitMix64.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// A generator whose whole stream follows from `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which must not be 0.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the high half of a product with a 32-bit bound fits 32 bits"
    )]
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        assert!(bound > 0, "an empty range has no number");
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u32
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u32, high: u32) -> u32 {
        low + self.below(high - low + 1)
    }

    /// True `percent` times in a hundred.
    pub(crate) fn percent(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }

    /// One of `choices`.
    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        let count = u32::try_from(choices.len()).expect("a handful of choices");
        choices[self.below(count) as usize]
    }
}
