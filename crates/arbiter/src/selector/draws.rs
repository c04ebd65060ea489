//! The randomness of selectors.

/// Draws that follow from a seed (`SplitMix64`); they go on over reloads.
#[derive(Clone, Debug)]
pub struct Draws {
    state: u64,
}

impl Draws {
    /// The draws of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The seed with which these draws would go on.
    pub(crate) const fn state(&self) -> u64 {
        self.state
    }

    /// A whole number below `bound`: `next x bound / 2^64`.
    ///
    /// ```
    /// use tollgate_arbiter::selector::Draws;
    /// let mut draws = Draws::new(7);
    /// assert!((0..100).all(|_| draws.below(3) < 3));
    /// ```
    pub fn below(&mut self, bound: usize) -> usize {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let z = z ^ (z >> 31);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "below `bound`, which is a usize"
        )]
        let draw = ((u128::from(z) * bound as u128) >> 64) as usize;
        draw
    }
}
