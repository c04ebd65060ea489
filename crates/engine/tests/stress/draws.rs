//! Numbers drawn from a seed.

/// `SplitMix64`.
#[derive(Debug)]
pub(crate) struct Draws(u64);

impl Draws {
    /// A stream of its own for each `stream` of a seed.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut draws = Self(seed ^ stream.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        draws.next();
        draws
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Less than `bound`.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        u32::try_from(self.next() % u64::from(bound)).expect("less than a u32")
    }

    /// One time in `times`.
    pub(crate) fn one_in(&mut self, times: u32) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        let bound = u32::try_from(from.len()).expect("a few");
        from[self.below(bound) as usize]
    }
}
