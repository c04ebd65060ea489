//! Releases that may not fail: what is posted here when a feedback ring is full, or in `Drop`,
//! from any thread.
//!
//! A word for each slot says what is released; a bitmap over the slots, with a summary bit for
//! each of its words, and so on up to one word, says where to look. All of it is allocated at
//! build. Posting never waits for the collector and cannot find the box full: what is posted is
//! kept by slot, and a slot is not used anew before its release was seen. The protocol, its
//! invariants (M1..M4) and why no letter is lost: the `README.md` of `sync`.
//!
//! A letter that meets another one in its word, not yet collected:
//!
//! | | becomes |
//! |---|---|
//! | same generation, same attempt | both, in one letter |
//! | same generation, later attempt | the later; a cancel stays |
//! | same generation, earlier attempt | dropped: stale (S9.3) |
//! | same generation, a cancel | both: a cancel belongs to the request, not to an attempt |
//! | later generation | the later alone |
//! | earlier generation | dropped: stale |
//!
//! Generations wrap: the later of two is the one that the other reaches by counting up less than
//! 2^31 times. Nothing is compared with letters that were collected: the collector's own check
//! judges those, and a slot may go through any number of generations without a letter.

use std::fmt;

use arrayvec::ArrayVec;
use crossbeam::utils::CachePadded;

use super::shim::{Arc, AtomicU64, Ordering, WORD_BITS};

const CANCEL: u64 = 1;
const PREFILL_DONE: u64 = 2;
const COMPLETE: u64 = 4;
const FLAGS: u64 = CANCEL | PREFILL_DONE | COMPLETE;
const ATTEMPT_SHIFT: u32 = 24;
const GENERATION_SHIFT: u32 = 32;

/// What is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    /// The request is no longer wanted, whether it waits now or returns to wait (S11.2).
    Cancel,
    /// The prompt tokens of this attempt are through (S9.1).
    PrefillDone,
    /// This attempt is over (S9.1).
    Complete,
}

/// What was posted for one use of one slot since it was last collected; at least one of the
/// releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Letter {
    /// The slot.
    pub(crate) slot: u32,
    /// Which use of the slot.
    pub(crate) generation: u32,
    /// Which attempt `prefill_done` and `complete` speak of, from 1; 0 where only `cancel` is set.
    pub(crate) attempt: u8,
    /// [`Release::Cancel`] was posted.
    pub(crate) cancel: bool,
    /// [`Release::PrefillDone`] was posted.
    pub(crate) prefill_done: bool,
    /// [`Release::Complete`] was posted.
    pub(crate) complete: bool,
}

/// The end that posts: any number of clones, on any threads.
#[derive(Clone, Debug)]
pub(crate) struct Mail {
    shared: Arc<Shared>,
}

/// The end that collects: one thread at a time.
#[derive(Debug)]
pub(crate) struct Letterbox {
    shared: Arc<Shared>,
    /// The slot at which the next collection begins.
    next: usize,
}

struct Shared {
    /// By slot: generation, attempt, flags. No flags: no letter, and the rest means nothing.
    letters: Box<[AtomicU64]>,
    /// Level 0: a bit for each slot. Level k + 1: a bit for each word of level k. The level above
    /// the last is `root`.
    levels: Box<[Box<[AtomicU64]>]>,
    /// One word, alone in its line because the collector reads it every turn.
    root: CachePadded<AtomicU64>,
}

/// A box for `slots` slots, empty.
///
/// # Panics
/// If `slots` is 0.
pub(crate) fn mail(slots: u32) -> (Mail, Letterbox) {
    let shared = Arc::new(Shared::new(slots as usize));
    (
        Mail {
            shared: Arc::clone(&shared),
        },
        Letterbox { shared, next: 0 },
    )
}

impl Mail {
    /// Posts a release. Ring the collector's doorbell afterwards. `attempt` (from 1) is that of
    /// the dispatch; with [`Release::Cancel`] it is not looked at.
    ///
    /// False, and nothing is posted: a later release of this slot is waiting to be collected, or
    /// there is no such slot. True says that the letter will be collected, not that it is current.
    ///
    /// Any thread, at any time. A post does not wait for the collector, and for other posts only
    /// as long as they change the same slot's word in the same instant.
    ///
    /// # Complexity
    /// O(log slots), base 64: one compare-and-set and a bit set in each level.
    pub(crate) fn post(&self, slot: u32, generation: u32, attempt: u8, what: Release) -> bool {
        let slot = slot as usize;
        if slot >= self.shared.letters.len() {
            return false;
        }
        let posted = self.shared.write(slot, generation, attempt, what);
        if posted {
            self.shared.raise(slot);
        }
        posted
    }
}

impl Letterbox {
    /// Whether nothing waits: one load. A post is seen here when it has returned and its ring was
    /// heard; one that is still going on may not be seen yet.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.shared.root.load(Ordering::Relaxed) == 0
    }

    /// Takes letters, at most one for each slot, until `into` is full or every slot was looked at
    /// once. The next call goes on where this one stopped, so that no slot waits for
    /// another more than once around.
    ///
    /// # Complexity
    /// O(log slots), base 64, for each letter, and O(1) without any.
    pub(crate) fn collect<const N: usize>(&mut self, into: &mut ArrayVec<Letter, N>) {
        if self.is_empty() {
            return;
        }
        let first = self.next;
        let mut wrapped = false;
        while !into.is_full() {
            match self.shared.find(self.next) {
                Some(slot) if wrapped && slot >= first => break,
                Some(slot) => {
                    self.next = slot + 1;
                    into.extend(self.shared.take(slot));
                }
                None if wrapped => break,
                None => {
                    wrapped = true;
                    self.next = 0;
                }
            }
        }
    }

    /// Takes a `prefill_done` out of a slot's letter that was not collected yet; whether it was there.
    /// What else the letter says stays.
    ///
    /// # Complexity
    /// O(1).
    pub(crate) fn recall_prefill_done(&mut self, slot: u32, generation: u32, attempt: u8) -> bool {
        let Some(letter) = self.shared.letters.get(slot as usize) else {
            return false;
        };
        let without = |word| {
            let is_it = word & PREFILL_DONE != 0
                && generation_of(word) == generation
                && attempt_of(word) == attempt;
            is_it.then_some(word & !PREFILL_DONE)
        };
        // ORDERING: Acquire with the Release of `write`, as in `take`. The slot's bit stays: who
        // collects it finds a letter that says nothing, as of one that was taken before.
        letter
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, without)
            .is_ok()
    }
}

impl Shared {
    fn new(slots: usize) -> Self {
        assert!(slots > 0, "a box has slots");
        let zeros = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect::<Box<[_]>>();
        let mut levels = Vec::new();
        let mut bits = slots;
        while bits > WORD_BITS {
            bits = bits.div_ceil(WORD_BITS);
            levels.push(zeros(bits));
        }
        Self {
            letters: zeros(slots),
            levels: levels.into(),
            root: CachePadded::new(AtomicU64::new(0)),
        }
    }

    /// The word `index` of `level`.
    fn word(&self, level: usize, index: usize) -> &AtomicU64 {
        self.levels
            .get(level)
            .map_or(&*self.root, |words| &words[index])
    }

    /// Puts the release into the slot's word; false if it is stale there.
    fn write(&self, slot: usize, generation: u32, attempt: u8, what: Release) -> bool {
        // ORDERING: Release with the Acquire swap of `take`.
        self.letters[slot]
            .fetch_update(Ordering::Release, Ordering::Relaxed, |word| {
                merged(word, generation, attempt, what)
            })
            .is_ok()
    }

    /// Sets the slot's bits from the lowest level to the root, whatever is set already (M2).
    fn raise(&self, slot: usize) {
        let mut position = slot;
        for level in 0..=self.levels.len() {
            // ORDERING: Release with the Acquire of `find`, `prune` and `take`: who sees a bit
            // sees those below it, and the letter.
            self.word(level, position / WORD_BITS)
                .fetch_or(1 << (position % WORD_BITS), Ordering::Release);
            position /= WORD_BITS;
        }
    }

    /// The first slot from `from` on whose bit is set, by the collector alone. Clears the bits
    /// above words that it finds empty.
    fn find(&self, from: usize) -> Option<usize> {
        let (mut level, mut position) = (0, from);
        loop {
            let (index, bit) = (position / WORD_BITS, position % WORD_BITS);
            let past_the_end = self
                .levels
                .get(level)
                .map_or(index > 0, |w| index >= w.len());
            if past_the_end {
                return None;
            }
            // ORDERING: Acquire with the Release of `raise`.
            let set = self.word(level, index).load(Ordering::Acquire);
            let right = set & (u64::MAX << bit);
            if right != 0 {
                position = index * WORD_BITS + right.trailing_zeros() as usize;
                if level == 0 {
                    return Some(position);
                }
                level -= 1;
                position *= WORD_BITS;
            } else if level == self.levels.len() {
                return None;
            } else {
                if set == 0 {
                    self.prune(level, index);
                }
                level += 1;
                position = index + 1;
            }
        }
    }

    /// Takes the letter of a slot whose bit is set; none if it was taken already, before its
    /// poster had set the bit.
    fn take(&self, slot: usize) -> Option<Letter> {
        let (index, bit) = (slot / WORD_BITS, 1 << (slot % WORD_BITS));
        // ORDERING: Acquire with the Release of `raise`. The bit goes before the letter (M3).
        let rest = self.word(0, index).fetch_and(!bit, Ordering::Acquire) & !bit;
        // ORDERING: Acquire with the Release of `write`.
        let word = self.letters[slot].swap(0, Ordering::Acquire);
        if rest == 0 {
            self.prune(0, index);
        }
        letter(slot, word)
    }

    /// The word `index` of `level` was seen empty: clears the bit above it, and those above words
    /// that become empty by that.
    fn prune(&self, level: usize, index: usize) {
        let (mut level, mut index) = (level, index);
        while level < self.levels.len() {
            let above = self.word(level + 1, index / WORD_BITS);
            let bit = 1 << (index % WORD_BITS);
            if above.load(Ordering::Relaxed) & bit == 0 {
                return;
            }
            // ORDERING: Acquire with the Release of `raise`: if this clears the bit of a post,
            // the second look sees that post's bit below (M4).
            let rest = above.fetch_and(!bit, Ordering::Acquire) & !bit;
            // ORDERING: Acquire with the Release of `raise`.
            if self.word(level, index).load(Ordering::Acquire) != 0 {
                above.fetch_or(bit, Ordering::Relaxed);
                return;
            }
            if rest != 0 {
                return;
            }
            level += 1;
            index /= WORD_BITS;
        }
    }
}

/// By size alone: a box may have a million words.
impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("slots", &self.letters.len())
            .finish_non_exhaustive()
    }
}

/// What a slot's word becomes by a release; none if the release is stale.
fn merged(word: u64, generation: u32, attempt: u8, what: Release) -> Option<u64> {
    let (flag, attempt) = match what {
        Release::Cancel => (CANCEL, 0),
        Release::PrefillDone => (PREFILL_DONE, attempt),
        Release::Complete => (COMPLETE, attempt),
    };
    let alone =
        u64::from(generation) << GENERATION_SHIFT | u64::from(attempt) << ATTEMPT_SHIFT | flag;
    if word & FLAGS == 0 {
        return Some(alone);
    }
    let ahead = generation.wrapping_sub(generation_of(word));
    if ahead != 0 {
        return (ahead < 1 << 31).then_some(alone);
    }
    if flag == CANCEL || attempt == attempt_of(word) {
        return Some(word | flag);
    }
    (attempt > attempt_of(word)).then_some(alone | word & CANCEL)
}

fn generation_of(word: u64) -> u32 {
    (word >> GENERATION_SHIFT) as u32
}

fn attempt_of(word: u64) -> u8 {
    (word >> ATTEMPT_SHIFT & 0xff) as u8
}

fn letter(slot: usize, word: u64) -> Option<Letter> {
    if word & FLAGS == 0 {
        return None;
    }
    Some(Letter {
        slot: u32::try_from(slot).expect("slots are counted in 32 bits"),
        generation: generation_of(word),
        attempt: attempt_of(word),
        cancel: word & CANCEL != 0,
        prefill_done: word & PREFILL_DONE != 0,
        complete: word & COMPLETE != 0,
    })
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod model;
