//! Fixed bitsets over endpoints, 64 in a word.

/// One row of bits for each of several owners.
#[derive(Debug)]
pub(crate) struct BitRows {
    words: Vec<u64>,
    words_per_row: usize,
}

impl BitRows {
    pub(crate) fn new(rows: usize, bits: usize) -> Self {
        let words_per_row = bits.div_ceil(64);
        Self {
            words: vec![0; rows * words_per_row],
            words_per_row,
        }
    }

    pub(crate) const fn words_per_row(&self) -> usize {
        self.words_per_row
    }

    #[inline]
    pub(crate) fn get(&self, row: usize, bit: u32) -> bool {
        self.word(row, bit) >> (bit % 64) & 1 != 0
    }

    /// The word that holds a bit.
    #[inline]
    pub(crate) fn word(&self, row: usize, bit: u32) -> u64 {
        self.words[row * self.words_per_row + bit as usize / 64]
    }

    /// A word by its place in its row.
    #[inline]
    pub(crate) fn at(&self, row: usize, word: usize) -> u64 {
        self.words[row * self.words_per_row + word]
    }

    #[inline]
    pub(crate) fn set(&mut self, row: usize, bit: u32, value: bool) {
        let word = &mut self.words[row * self.words_per_row + bit as usize / 64];
        *word = *word & !(1 << (bit % 64)) | u64::from(value) << (bit % 64);
    }

    /// The words from that of a bit of row 0 on: those of the same bit stand a row apart.
    #[inline]
    pub(crate) fn column_mut(&mut self, bit: u32) -> &mut [u64] {
        &mut self.words[bit as usize / 64..]
    }

    #[inline]
    pub(crate) fn row(&self, row: usize) -> &[u64] {
        &self.words[row * self.words_per_row..(row + 1) * self.words_per_row]
    }

    #[inline]
    pub(crate) fn row_mut(&mut self, row: usize) -> &mut [u64] {
        &mut self.words[row * self.words_per_row..(row + 1) * self.words_per_row]
    }
}

/// The positions of the set bits of `words`, rising.
pub(crate) fn ones(words: impl IntoIterator<Item = u64>) -> impl Iterator<Item = u32> {
    (0..).step_by(64).zip(words).flat_map(|(base, word)| {
        let mut rest = word;
        std::iter::from_fn(move || {
            let bit = (rest != 0).then(|| rest.trailing_zeros())?;
            rest &= rest - 1;
            Some(base + bit)
        })
    })
}
