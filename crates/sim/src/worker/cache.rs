//! The prefix cache of a modelled worker.

use std::num::NonZeroUsize;

use lru::LruCache;

/// Remembers the blocks that were computed or found last.
#[derive(Debug)]
pub(super) struct PrefixCache {
    blocks: LruCache<u64, ()>,
    evicted: u64,
}

impl PrefixCache {
    /// Room for so many blocks; it grows as it is used.
    pub(super) fn new(capacity: NonZeroUsize) -> Self {
        let mut blocks = LruCache::unbounded();
        blocks.resize(capacity);
        Self { blocks, evicted: 0 }
    }

    /// How many blocks of a prompt, from its beginning, are there.
    pub(super) fn hits(&self, prompt: &[u64]) -> usize {
        let there = |block: &&u64| self.blocks.contains(*block);
        prompt.iter().take_while(there).count()
    }

    /// The same, and they count as used. The beginning is used last, so that a prompt's end goes first.
    pub(super) fn use_hits(&mut self, prompt: &[u64]) -> usize {
        let hits = self.hits(prompt);
        for block in prompt[..hits].iter().rev() {
            self.blocks.promote(block);
        }
        hits
    }

    /// Takes in the blocks of a prompt that was computed.
    pub(super) fn insert(&mut self, prompt: &[u64]) {
        for &block in prompt.iter().rev() {
            let before = self.blocks.push(block, ());
            self.evicted += u64::from(before.is_some_and(|(other, ())| other != block));
        }
    }

    /// How many blocks made room for others.
    pub(super) const fn evicted(&self) -> u64 {
        self.evicted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(capacity: usize) -> PrefixCache {
        PrefixCache::new(NonZeroUsize::new(capacity).expect("not 0"))
    }

    #[test]
    fn hits_end_at_the_first_block_that_is_missing() {
        let mut cache = cache(8);
        cache.insert(&[1, 2, 3]);
        assert_eq!(cache.hits(&[1, 2, 9, 3]), 2);
        assert_eq!(cache.hits(&[2, 3]), 2);
        assert_eq!(cache.hits(&[9, 1]), 0);
        assert_eq!(cache.hits(&[]), 0);
    }

    #[test]
    fn the_end_of_the_prompt_that_was_used_longest_ago_goes_first() {
        let mut cache = cache(4);
        cache.insert(&[1, 2]);
        cache.insert(&[7, 8]);
        assert_eq!(cache.use_hits(&[1, 2]), 2);
        cache.insert(&[5]);
        assert_eq!(cache.evicted(), 1);
        assert_eq!((cache.hits(&[1, 2]), cache.hits(&[7, 8])), (2, 1));
        cache.insert(&[5]);
        assert_eq!(cache.evicted(), 1, "it is there already");
        cache.insert(&[6, 4]);
        assert_eq!((cache.hits(&[1, 2]), cache.hits(&[7])), (1, 0));
    }
}
