//! One indexed tree per class over the heads of its open exact lanes.
//!
//! A leaf holds the rank of an open lane's head, and [`NO_KEY`] where there is no lane or the lane
//! is shut, so that one write is all that a new head or a flipped gate costs here. Inner nodes hold
//! the best of four. Changes are collected and carried up when the best is asked for: a few changes
//! each along its own path, many level by level, so that flipping every lane at once costs one pass
//! over the tree, not a path for each.
//!
//! Invariants:
//! - T1. After [`Forest::best`], each inner node of the class is the best of its four children.
//! - T2. A leaf that changed since is listed, or its group is marked dirty.

use crate::order::{NO_KEY, Rank, SlotOrder, slot_of};

/// Changes that are carried up one by one; beyond them, level by level.
const SINGLE_MAX: usize = 8;

/// A list of changed leaves, and whether it overflowed into the dirty marks.
#[derive(Clone, Copy, Debug)]
struct Pending {
    leaves: [u32; SINGLE_MAX],
    len: u8,
    marked: bool,
}

/// The trees of all classes over one range of endpoints.
#[derive(Debug)]
pub(crate) struct Forest {
    /// Groups of four siblings, by class, then by level from the leaves up.
    groups: Vec<[Rank; 4]>,
    /// Dirty marks of the groups, by class, in the same order.
    dirty: Vec<u64>,
    pending: Vec<Pending>,
    /// Where each level's groups start within a class.
    level_start: Vec<usize>,
    groups_per_class: usize,
    words_per_class: usize,
    /// The level whose first group spans all endpoints that were ever used.
    top: usize,
}

impl Forest {
    pub(crate) fn new(classes: usize, endpoints: usize) -> Self {
        let mut level_start = Vec::new();
        let mut groups_per_class = 0;
        let mut nodes = endpoints;
        loop {
            let groups = nodes.div_ceil(4);
            level_start.push(groups_per_class);
            groups_per_class += groups;
            if groups == 1 {
                break;
            }
            nodes = groups;
        }
        let words_per_class = groups_per_class.div_ceil(64);
        Self {
            groups: vec![[NO_KEY; 4]; classes * groups_per_class],
            dirty: vec![0; classes * words_per_class],
            pending: vec![
                Pending {
                    leaves: [0; SINGLE_MAX],
                    len: 0,
                    marked: false
                };
                classes
            ],
            level_start,
            groups_per_class,
            words_per_class,
            top: 0,
        }
    }

    /// Makes the trees span endpoint `index`.
    pub(crate) fn reach(&mut self, index: u32) {
        let mut top = 0;
        let mut group = index as usize / 4;
        while group > 0 {
            group /= 4;
            top += 1;
        }
        if top <= self.top {
            return;
        }
        // What the old top held becomes a child of the levels above it.
        for class in 0..self.pending.len() {
            let old = self.pending[class];
            if !old.marked && old.len == 0 {
                self.mark(class, self.level_start[self.top]);
                self.pending[class].marked = true;
            } else {
                self.spill(class);
                self.mark(class, self.level_start[self.top]);
            }
        }
        self.top = top;
    }

    #[inline]
    pub(crate) fn leaf(&self, class: usize, endpoint: u32) -> Rank {
        let endpoint = endpoint as usize;
        self.groups[class * self.groups_per_class + endpoint / 4][endpoint % 4]
    }

    /// Sets a leaf. O(1).
    pub(crate) fn set(&mut self, class: usize, endpoint: u32, rank: Rank) {
        let at = endpoint as usize;
        self.groups[class * self.groups_per_class + at / 4][at % 4] = rank;
        let pending = &mut self.pending[class];
        if pending.marked {
            self.mark(class, at / 4);
        } else if pending.leaves[..pending.len as usize].contains(&endpoint) {
            // Listed already.
        } else if (pending.len as usize) < SINGLE_MAX {
            pending.leaves[pending.len as usize] = endpoint;
            pending.len += 1;
        } else {
            self.spill(class);
            self.mark(class, at / 4);
        }
    }

    /// The best leaf's rank. O(changes x log endpoints), at most one pass over the tree.
    pub(crate) fn best(&mut self, class: usize, order: &SlotOrder) -> Rank {
        let pending = self.pending[class];
        if pending.marked {
            self.carry_levels(class, order);
        } else {
            for &leaf in &pending.leaves[..pending.len as usize] {
                self.carry_leaf(class, leaf as usize, order);
            }
        }
        self.pending[class].len = 0;
        self.pending[class].marked = false;
        let top = class * self.groups_per_class + self.level_start[self.top];
        order.best_of_four(&self.groups[top]).1
    }

    /// Carries one leaf's change up until a group's best is another entry that was there before.
    fn carry_leaf(&mut self, class: usize, leaf: usize, order: &SlotOrder) {
        let base = class * self.groups_per_class;
        let changed = self.groups[base + leaf / 4][leaf % 4];
        let mut group = leaf / 4;
        for level in 0..self.top {
            let best = order
                .best_of_four(&self.groups[base + self.level_start[level] + group])
                .1;
            let above = &mut self.groups[base + self.level_start[level + 1] + group / 4][group % 4];
            // An equal rank of the changed slot may be a new entry in an old slot: its tie-break
            // is new, so the levels above must look again.
            if *above == best && slot_of(best) != slot_of(changed) {
                return;
            }
            *above = best;
            group /= 4;
        }
    }

    fn carry_levels(&mut self, class: usize, order: &SlotOrder) {
        let base = class * self.groups_per_class;
        let words = class * self.words_per_class;
        for level in 0..=self.top {
            let first = self.level_start[level];
            let end = self
                .level_start
                .get(level + 1)
                .copied()
                .unwrap_or(self.groups_per_class);
            for word in first / 64..end.div_ceil(64) {
                let mut bits = self.dirty[words + word] & bits_between(first, end, word);
                self.dirty[words + word] &= !bits;
                while bits != 0 {
                    let at = word * 64 + bits.trailing_zeros() as usize;
                    bits &= bits - 1;
                    if level < self.top {
                        let group = at - first;
                        let best = order.best_of_four(&self.groups[base + at]).1;
                        let above = self.level_start[level + 1] + group / 4;
                        self.groups[base + above][group % 4] = best;
                        self.dirty[words + above / 64] |= 1 << (above % 64);
                    }
                }
            }
        }
    }

    fn spill(&mut self, class: usize) {
        let pending = self.pending[class];
        for &leaf in &pending.leaves[..pending.len as usize] {
            self.mark(class, leaf as usize / 4);
        }
        self.pending[class].len = 0;
        self.pending[class].marked = true;
    }

    fn mark(&mut self, class: usize, group: usize) {
        self.dirty[class * self.words_per_class + group / 64] |= 1 << (group % 64);
    }

    /// Asserts T1 for a class whose changes were all carried up.
    pub(crate) fn check(&self, class: usize, order: &SlotOrder) {
        if self.pending[class].marked || self.pending[class].len > 0 {
            return;
        }
        let base = class * self.groups_per_class;
        for level in 0..self.top {
            let first = base + self.level_start[level];
            let count = self.level_start[level + 1] - self.level_start[level];
            for group in 0..count {
                let best = order.best_of_four(&self.groups[first + group]).1;
                let above = self.groups[base + self.level_start[level + 1] + group / 4][group % 4];
                assert_eq!(best, above, "T1: an inner node is the best of its children");
            }
        }
    }
}

/// The bits of `word` that belong to positions `first .. end`.
fn bits_between(first: usize, end: usize, word: usize) -> u64 {
    let low = first.saturating_sub(word * 64).min(64);
    let high = end.saturating_sub(word * 64).min(64);
    let below = |n: usize| if n == 64 { u64::MAX } else { (1 << n) - 1 };
    below(high) & !below(low)
}
