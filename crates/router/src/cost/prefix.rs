//! Which beginnings of prompts are likely to be cached at which endpoint.
//!
//! The index remembers, for each endpoint, the blocks of the prompts that were sent there: as many as its
//! cache may hold, those that were used last. It is approximate: what a worker really holds, only the worker
//! knows.
//!
//! Each endpoint has a lock of its own, and the table of endpoints is replaced as a whole, so that a look-up
//! waits for nobody but, briefly, for one who teaches the same endpoint.
//!
//! # Invariants
//! - I1. The blocks of a prompt are taken in from its end to its beginning, and a block's hash stands for all
//!   that comes before it. So whoever uses a block uses those before it later, and what is forgotten first is
//!   a prompt's end: if an endpoint knows a block, it knows all blocks before it. Only while somebody teaches
//!   it, may some be missing.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use arrayvec::ArrayVec;
use lru::LruCache;
use tollgate::{Endpoint, WorkerId};

use super::body::{BLOCK_BYTES, Prompt};

/// Endpoints that a look-up gives at most: as many as a request may have hints for.
pub const MATCHES_MAX: usize = 16;

/// Token ids of one block.
const BLOCK_IDS: u64 = BLOCK_BYTES as u64 / 4;
/// Blocks that are taken in before the lock is given up for others in between; some 50 µs.
const STRIDE: usize = 512;

/// The blocks that one endpoint knows.
#[derive(Debug)]
struct Known(Mutex<LruCache<u64, ()>>);

impl Known {
    fn new(capacity: NonZeroUsize) -> Self {
        // It grows as it is used, instead of taking its whole memory now.
        let mut blocks = LruCache::unbounded();
        blocks.resize(capacity);
        Self(Mutex::new(blocks))
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<u64, ()>> {
        // Nobody leaves the blocks half changed, so a thread that died does no harm.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many blocks, from the first, are known: by I1 those that are known come before those that are not.
    fn matched(&self, blocks: &[u64]) -> usize {
        let known = self.lock();
        if blocks.first().is_none_or(|first| !known.contains(first)) {
            return 0;
        }
        blocks.partition_point(|block| known.contains(block))
    }

    /// Takes in blocks; gives how many made room for others.
    fn learn(&self, blocks: &[u64]) -> u64 {
        let mut evicted = 0;
        for stride in blocks.rchunks(STRIDE) {
            let mut known = self.lock();
            for &block in stride.iter().rev() {
                let before = known.push(block, ());
                evicted += u64::from(before.is_some_and(|(other, ())| other != block));
            }
        }
        evicted
    }
}

type Endpoints = BTreeMap<Endpoint, Arc<Known>>;

/// The index. Any thread may ask and teach at any time.
#[derive(Debug)]
pub struct PrefixIndex {
    /// Unset: nothing is remembered.
    blocks_per_endpoint: Option<NonZeroUsize>,
    endpoints: ArcSwap<Endpoints>,
    evicted: AtomicU64,
}

impl PrefixIndex {
    /// An index of so many blocks for each endpoint; with 0, it stays empty. A block takes some 70 bytes, when
    /// it is first there.
    #[must_use]
    pub fn new(blocks_per_endpoint: usize) -> Self {
        Self {
            blocks_per_endpoint: NonZeroUsize::new(blocks_per_endpoint),
            endpoints: ArcSwap::default(),
            evicted: AtomicU64::new(0),
        }
    }

    /// The endpoints that know the longest beginnings of a prompt, and how many of its blocks: the longest
    /// first, equal ones by endpoint. Those that know nothing are not among them.
    ///
    /// # Complexity
    /// For each endpoint one look-up of a block, and where it is known the logarithm of the prompt's blocks.
    /// Waits at most for somebody to take 512 blocks in.
    #[must_use]
    pub fn matches(&self, blocks: &[u64]) -> ArrayVec<(Endpoint, usize), MATCHES_MAX> {
        let mut longest = ArrayVec::<_, MATCHES_MAX>::new();
        if blocks.is_empty() {
            return longest;
        }
        for (&endpoint, known) in self.endpoints.load().iter() {
            let matched = known.matched(blocks);
            // They come in the order of the endpoints, so that an equal one goes behind.
            let place = longest.partition_point(|&(_, other)| other >= matched);
            if matched == 0 || place == MATCHES_MAX {
                continue;
            }
            longest.truncate(MATCHES_MAX - 1);
            longest.insert(place, (endpoint, matched));
        }
        longest
    }

    /// A prompt went to an endpoint: it knows its blocks from now on.
    ///
    /// # Complexity
    /// Linear in the blocks; an endpoint's first copies the table of endpoints.
    pub fn learn(&self, endpoint: Endpoint, blocks: &[u64]) {
        let Some(capacity) = self.blocks_per_endpoint.filter(|_| !blocks.is_empty()) else {
            return;
        };
        // More than there is room for would only push itself out.
        let blocks = &blocks[..blocks.len().min(capacity.get())];
        let known = self
            .known(endpoint)
            .unwrap_or_else(|| self.add(endpoint, capacity));
        self.evicted
            .fetch_add(known.learn(blocks), Ordering::Relaxed);
    }

    /// Forgets what the endpoints of a worker know: it is gone, or its cache is.
    pub fn forget_worker(&self, worker: WorkerId) {
        if !self
            .endpoints
            .load()
            .keys()
            .any(|known| known.worker == worker)
        {
            return;
        }
        self.endpoints.rcu(|endpoints| {
            let mut endpoints = Endpoints::clone(endpoints);
            endpoints.retain(|endpoint, _| endpoint.worker != worker);
            endpoints
        });
    }

    /// How many blocks an endpoint knows.
    #[must_use]
    pub fn len(&self, endpoint: Endpoint) -> usize {
        self.known(endpoint).map_or(0, |known| known.lock().len())
    }

    /// How many blocks made room for others, at all endpoints, since the beginning.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    fn known(&self, endpoint: Endpoint) -> Option<Arc<Known>> {
        self.endpoints.load().get(&endpoint).map(Arc::clone)
    }

    /// The endpoint's place in the table, which somebody else may have made meanwhile.
    fn add(&self, endpoint: Endpoint, capacity: NonZeroUsize) -> Arc<Known> {
        let new = Arc::new(Known::new(capacity));
        let mut known = Arc::clone(&new);
        self.endpoints.rcu(|endpoints| {
            let mut endpoints = Endpoints::clone(endpoints);
            known = Arc::clone(
                endpoints
                    .entry(endpoint)
                    .or_insert_with(|| Arc::clone(&new)),
            );
            endpoints
        });
        known
    }
}

/// How many of a prompt's `tokens` are cached where so many of its blocks are.
///
/// A block of ids is 64 tokens; one of text is its part of the prompt's stream. Never all of them: the last
/// token is always computed.
///
/// ```
/// use tollgate_router::cost::body::Prompt;
/// use tollgate_router::cost::prefix::cached_tokens;
///
/// let ids = Prompt { token_ids: 200, stream_bytes: 800, ..Prompt::default() };
/// assert_eq!(cached_tokens(2, &ids, 200), 128);
/// let text = Prompt { text_bytes: 1_000, stream_bytes: 1_024, ..Prompt::default() };
/// assert_eq!(cached_tokens(2, &text, 300), 150);
/// ```
#[must_use]
pub fn cached_tokens(matched_blocks: usize, prompt: &Prompt, tokens: u32) -> u32 {
    let matched = matched_blocks as u64;
    let cached = if prompt.token_ids > 0 {
        u128::from(matched) * u128::from(BLOCK_IDS)
    } else {
        let matched_bytes = u128::from(matched) * BLOCK_BYTES as u128;
        let stream_bytes = u128::from(prompt.stream_bytes.max(1));
        matched_bytes * u128::from(tokens) / stream_bytes
    };
    let computed_at_least = tokens.saturating_sub(1);
    u32::try_from(cached).map_or(computed_at_least, |cached| cached.min(computed_at_least))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const A: Endpoint = Endpoint::new(1, 0);
    const B: Endpoint = Endpoint::new(2, 0);

    /// A prompt's blocks: each stands for the way to it.
    fn chained(contents: &[u8]) -> Vec<u64> {
        let mut before = 7_u64;
        let next = |&content: &u8| {
            before =
                before.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(content) ^ (before >> 29);
            before
        };
        contents.iter().map(next).collect()
    }

    #[test]
    fn the_longest_beginnings_come_first_and_equal_ones_by_endpoint() {
        let index = PrefixIndex::new(100);
        let prompt = chained(&[1, 2, 3, 4]);
        index.learn(B, &prompt[..2]);
        index.learn(Endpoint::new(1, 1), &prompt[..3]);
        index.learn(A, &prompt[..2]);
        index.learn(Endpoint::new(3, 0), &chained(&[9]));
        let matches = index.matches(&prompt);
        assert_eq!(
            matches.as_slice(),
            [(Endpoint::new(1, 1), 3), (A, 2), (B, 2)]
        );
        assert!(index.matches(&[]).is_empty());
        assert!(index.matches(&chained(&[2, 3])).is_empty());
    }

    #[test]
    fn only_the_sixteen_longest_are_given() {
        let index = PrefixIndex::new(100);
        let prompt = chained(&[5; 40]);
        for worker in 0..40 {
            let length = usize::try_from(worker * 7 % 40 + 1).expect("small");
            index.learn(Endpoint::new(worker, 0), &prompt[..length]);
        }
        let lengths: Vec<_> = index
            .matches(&prompt)
            .iter()
            .map(|&(_, length)| length)
            .collect();
        let expected: Vec<_> = (25..=40).rev().collect();
        assert_eq!(lengths, expected);
    }

    #[test]
    fn the_beginning_of_a_prompt_outlives_its_end() {
        let index = PrefixIndex::new(4);
        let (one, two) = (chained(&[1, 1, 1]), chained(&[2, 2, 2]));
        index.learn(A, &one);
        assert_eq!(index.evicted(), 0);
        index.learn(A, &two);
        assert_eq!(index.matches(&one).as_slice(), [(A, 1)]);
        assert_eq!(index.matches(&two).as_slice(), [(A, 3)]);
        assert_eq!((index.len(A), index.evicted()), (4, 2));
    }

    #[test]
    fn using_a_prompt_again_keeps_it() {
        let index = PrefixIndex::new(4);
        let (one, two, three) = (chained(&[1, 1]), chained(&[2, 2]), chained(&[3]));
        for prompt in [&one, &two, &one, &three] {
            index.learn(A, prompt);
        }
        assert_eq!(index.matches(&one).as_slice(), [(A, 2)]);
        assert_eq!(index.matches(&two).as_slice(), [(A, 1)]);
        assert_eq!(index.evicted(), 1);
    }

    #[test]
    fn of_a_prompt_that_is_too_long_the_beginning_is_kept() {
        let index = PrefixIndex::new(1_000);
        let prompt = chained(&[3; 2_500]);
        index.learn(A, &prompt);
        assert_eq!(index.matches(&prompt).as_slice(), [(A, 1_000)]);
        assert_eq!((index.len(A), index.evicted()), (1_000, 0));
    }

    #[test]
    fn a_worker_is_forgotten_with_all_its_ranks() {
        let index = PrefixIndex::new(10);
        let prompt = chained(&[1, 2]);
        for endpoint in [A, Endpoint::new(1, 1), B] {
            index.learn(endpoint, &prompt);
        }
        index.forget_worker(WorkerId(1));
        index.forget_worker(WorkerId(7));
        assert_eq!(index.matches(&prompt).as_slice(), [(B, 2)]);
        assert_eq!((index.len(A), index.len(B)), (0, 2));
    }

    #[test]
    fn an_index_of_no_blocks_stays_empty() {
        let index = PrefixIndex::new(0);
        index.learn(A, &chained(&[1]));
        assert!(index.matches(&chained(&[1])).is_empty());
        assert_eq!(index.len(A), 0);
    }

    #[test]
    fn threads_look_up_while_others_teach() {
        let index = PrefixIndex::new(5_000);
        let prompt = chained(&[1; 4_000]);
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let (index, prompt) = (&index, &prompt);
                scope.spawn(move || {
                    for round in 0..10 {
                        index.learn(Endpoint::new(worker % 2, 0), &prompt[..(round + 1) * 400]);
                        assert!(
                            index
                                .matches(prompt)
                                .iter()
                                .all(|&(_, blocks)| blocks <= 4_000)
                        );
                    }
                });
            }
        });
        let whole = [(Endpoint::new(0, 0), 4_000), (Endpoint::new(1, 0), 4_000)];
        assert_eq!(index.matches(&prompt).as_slice(), whole);
    }

    #[test]
    fn the_last_token_is_never_cached_nor_more_than_there_are() {
        let ids = |count| Prompt {
            token_ids: count,
            stream_bytes: count * 4,
            ..Prompt::default()
        };
        assert_eq!(cached_tokens(1, &ids(64), 64), 63);
        assert_eq!(cached_tokens(1, &ids(65), 65), 64);
        assert_eq!(cached_tokens(usize::MAX, &ids(64), 64), 63);
        let text = Prompt {
            stream_bytes: 512,
            ..Prompt::default()
        };
        assert_eq!(cached_tokens(2, &text, 100), 99);
        assert_eq!(cached_tokens(1, &text, 100), 50);
        assert_eq!(cached_tokens(0, &text, 100), 0);
        assert_eq!(cached_tokens(1, &text, 0), 0);
        assert_eq!(cached_tokens(1, &Prompt::default(), 10), 9);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// I1, and the same answer as of a search block by block.
        #[test]
        fn what_is_known_of_a_prompt_is_its_beginning(
            capacity in 1_usize..20,
            prompts in prop::collection::vec(prop::collection::vec(0_u8..2, 0..10), 1..20),
        ) {
            let index = PrefixIndex::new(capacity);
            for prompt in &prompts {
                index.learn(A, &chained(prompt));
                prop_assert!(index.len(A) <= capacity);
                for other in &prompts {
                    let blocks = chained(other);
                    let knows = |block: &u64| {
                        index.known(A).is_some_and(|known| known.lock().contains(block))
                    };
                    let one_by_one = blocks.iter().take_while(|block| knows(block)).count();
                    let all = blocks.iter().filter(|block| knows(block)).count();
                    prop_assert_eq!(one_by_one, all);
                    let found = index.matches(&blocks).first().map_or(0, |&(_, length)| length);
                    prop_assert_eq!(found, all);
                }
            }
        }
    }
}
