//! Taint names as bits.
//!
//! A name holds its bit while a worker carries it or a live request requires it, so that churn of
//! names never fills the table.

use crate::bits::ones;
use crate::capacity::TAINTS_MAX;
use crate::{Full, Resource};

#[derive(Debug)]
pub(crate) struct Taints {
    names: Vec<Box<str>>,
    refs: Vec<u64>,
}

impl Taints {
    pub(crate) fn new() -> Self {
        let count = TAINTS_MAX as usize;
        Self {
            names: vec![Box::default(); count],
            refs: vec![0; count],
        }
    }

    /// The bit of a name that is in use.
    fn bit(&self, name: &str) -> Option<usize> {
        self.names
            .iter()
            .zip(&self.refs)
            .position(|(n, &refs)| refs > 0 && **n == *name)
    }

    /// The bits of `names`; `None` if one of them is in nobody's use, so that no worker carries it.
    pub(crate) fn find(&self, names: &[&str]) -> Option<u128> {
        names
            .iter()
            .try_fold(0, |bits, name| Some(bits | 1 << self.bit(name)?))
    }

    /// The bits of `names`, giving bits to new names; each bit gains one reference.
    pub(crate) fn intern(&mut self, names: &[&str]) -> Result<u128, Full> {
        let mut bits = 0;
        for (at, name) in names.iter().enumerate() {
            let bit = self
                .bit(name)
                .or_else(|| self.refs.iter().position(|&refs| refs == 0));
            let Some(bit) = bit else {
                self.release(bits);
                let required = u64::from(TAINTS_MAX) + (names.len() - at) as u64;
                let available = u64::from(TAINTS_MAX);
                return Err(Full {
                    what: Resource::Taints,
                    required,
                    available,
                });
            };
            if bits >> bit & 1 == 0 {
                if self.refs[bit] == 0 {
                    self.names[bit] = (*name).into();
                }
                self.refs[bit] += 1;
                bits |= 1 << bit;
            }
        }
        Ok(bits)
    }

    /// Each of `bits` gains a reference.
    pub(crate) fn refer(&mut self, bits: u128) {
        for bit in ones(words(bits)) {
            self.refs[bit as usize] += 1;
        }
    }

    /// Each of `bits` loses a reference.
    pub(crate) fn release(&mut self, bits: u128) {
        for bit in ones(words(bits)) {
            self.refs[bit as usize] -= 1;
        }
    }

    /// The names of bits that are in use, in order.
    pub(crate) fn names(&self, bits: u128) -> Vec<Box<str>> {
        let names = ones(words(bits)).map(|bit| self.names[bit as usize].clone());
        let mut names: Vec<_> = names.collect();
        names.sort_unstable();
        names
    }

    /// How many names are in use.
    pub(crate) fn in_use(&self) -> usize {
        self.refs.iter().filter(|&&refs| refs > 0).count()
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the halves of a u128")]
fn words(bits: u128) -> [u64; 2] {
    [bits as u64, (bits >> 64) as u64]
}
