//! Lanes and the order inside them (S4).
//!
//! A lane is one priority queue. Its entries live in two structures that share nothing but the
//! lane's record, so that neither the common case nor the worst case pays for the other:
//!
//! 1. **The run**: a doubly linked list through the slots, best first. A key that is worse than the
//!    run's tail is appended, one that is better than its head is prepended, and one that belongs a
//!    few steps before the tail is linked in there. Keys that arrive in order cost O(1) in and out.
//! 2. **The heap**: for all other keys; a 4-ary heap whose nodes come from one pool that all lanes
//!    share, O(log n) in and out, also by handle.
//!
//! The lane's head is the better of the two fronts.
//!
//! Invariants (checked by `check_invariants`):
//! - I1. `head` is the better of the run's front and the heap's root; 0 means that both are empty.
//! - I2. The run is sorted: each entry is better than the next.
//! - I3. Every heap node is better than its children, and its slot's link names its place.
//! - I4. The heap is complete: its chunks, in level order, are full but for the last.

mod heap;
mod key;
mod lane;

use heap::HeapPool;
pub(crate) use key::{EPOCH_MAX, KeyParts, NO_KEY, Rank, SLOT_BITS, encode, jump_nanos, slot_of};
pub(crate) use lane::{LaneStatus, Lanes, Structure};

/// No node, no slot, no chunk.
pub(crate) const NONE: u32 = u32::MAX;

/// Where a waiting slot stands in its lane, and in the list of impatient requests; where a
/// dispatched one is booked.
///
/// | field | waiting in the run | waiting in the heap | dispatched |
/// |---|---|---|---|
/// | `a` | better neighbour | place in the heap | endpoint |
/// | `b` | worse neighbour | unused | booked tokens |
/// | `c` | place among the impatient | the same | the endpoint's incarnation |
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links {
    pub(crate) a: u32,
    pub(crate) b: u32,
    pub(crate) c: u32,
}

/// What ordering needs to know of every slot, in dense arrays: ties and links.
#[derive(Debug)]
pub(crate) struct SlotOrder {
    /// Intake numbers: of two equal keys the one with the smaller number is better (S4.2).
    pub(crate) seq: Vec<u64>,
    pub(crate) links: Vec<Links>,
}

impl SlotOrder {
    pub(crate) fn new(slots: usize) -> Self {
        Self {
            seq: vec![0; slots],
            links: vec![
                Links {
                    a: NONE,
                    b: NONE,
                    c: NONE
                };
                slots
            ],
        }
    }

    /// Whether `a` goes before `b`; 0 goes after everything.
    #[inline]
    pub(crate) fn better(&self, a: Rank, b: Rank) -> bool {
        if may_tie(a, b) {
            self.is_earlier(a, b)
        } else {
            a > b
        }
    }

    /// The better of two.
    #[inline]
    pub(crate) fn best(&self, a: Rank, b: Rank) -> Rank {
        if may_tie(a, b) {
            return if self.is_earlier(b, a) { b } else { a };
        }
        a.max(b)
    }

    /// [`better`](Self::better) where intake numbers may be needed.
    #[cold]
    fn is_earlier(&self, a: Rank, b: Rank) -> bool {
        if ties(a, b) {
            self.seq[slot_of(a) as usize] < self.seq[slot_of(b) as usize]
        } else {
            a > b
        }
    }

    /// The best of four.
    #[inline]
    pub(crate) fn best_of_four(&self, four: &[Rank; 4]) -> Rank {
        let [a, b, c, d] = *four;
        let (left, right) = (a.max(b), c.max(d));
        if may_tie(a, b) || may_tie(c, d) || may_tie(left, right) {
            return self.best_of_ties(four).1;
        }
        left.max(right)
    }

    /// The best of four, and its index.
    #[inline]
    pub(crate) fn first_of_four(&self, four: &[Rank; 4]) -> (usize, Rank) {
        let [a, b, c, d] = *four;
        if may_tie(a, b) || may_tie(c, d) {
            return self.best_of_ties(four);
        }
        let (i, left) = if b > a { (1, b) } else { (0, a) };
        let (j, right) = if d > c { (3, d) } else { (2, c) };
        if may_tie(left, right) {
            return self.best_of_ties(four);
        }
        if right > left { (j, right) } else { (i, left) }
    }

    #[cold]
    fn best_of_ties(&self, four: &[Rank; 4]) -> (usize, Rank) {
        let mut best = (0, four[0]);
        for (at, &rank) in four.iter().enumerate().skip(1) {
            if self.better(rank, best.1) {
                best = (at, rank);
            }
        }
        best
    }
}

/// Whether only the intake numbers tell two entries' keys apart. Two gaps are no tie.
#[inline]
pub(crate) const fn ties(a: Rank, b: Rank) -> bool {
    (a ^ b) >> SLOT_BITS == 0 && a != NO_KEY
}

/// Whether two entries' keys may differ in nothing but the slot: true for all that do, and for hardly
/// any others. Two gaps do not, nor does an entry from itself.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the lower half")]
const fn may_tie(a: Rank, b: Rank) -> bool {
    ((a ^ b) as u64).wrapping_sub(1) < (1 << SLOT_BITS) - 1
}
