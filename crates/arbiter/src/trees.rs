//! Winner trees over the heads of open exact lanes, one for each class and egress group.
//!
//! A leaf holds the rank of a lane's head, shut or open, and [`NO_KEY`] where there is none. Which
//! lanes are open is kept elsewhere, in bits, and handed in, a bit for each of four leaves: a gate that
//! opens or shuts changes no leaf, so that any number of them costs one pass over bits and leaves.
//!
//! An inner node holds the best of its four children, of leaves the best open one; a better leaf needs
//! one comparison for each node that it wins, a worse one is looked at again only where it was the best.
//! Whoever changes many leaves at once says so, and pays one pass over the tree instead of a path for
//! each.
//!
//! Invariant:
//! - T1. Each inner node of a tree that is not in bulk is the best of its open children.

use crate::order::{NO_KEY, Rank, SlotOrder, ties};
use crate::quads::{Shape, above, children};

/// Trees of one size.
#[derive(Debug)]
pub(crate) struct Trees {
    /// By tree: its quads.
    quads: Vec<[Rank; 4]>,
    shape: Shape,
    /// No leaf at or above this place among them was ever used.
    reach: usize,
    /// By tree: any leaf may have changed.
    bulk: Vec<bool>,
    /// How many trees are in bulk.
    in_bulk: usize,
}

impl Trees {
    pub(crate) fn new(trees: usize, most_leaves: usize) -> Self {
        // A leaf does not tell whether it is open, so that there is always a node above it.
        let mut shape = Shape::new(most_leaves.max(2));
        shape.widen();
        Self::of_shape(trees, shape)
    }

    /// Trees that span all their leaves from the start.
    pub(crate) fn spanning(trees: usize, leaves: usize) -> Self {
        Self::of_shape(trees, Shape::spanning(leaves))
    }

    fn of_shape(trees: usize, shape: Shape) -> Self {
        Self {
            quads: vec![[NO_KEY; 4]; trees * shape.quads],
            shape,
            reach: 0,
            bulk: vec![false; trees],
            in_bulk: 0,
        }
    }

    /// Makes the trees span leaf `index`. O(1) while they do.
    #[inline]
    pub(crate) fn reach(&mut self, index: u32) {
        self.reach = self.reach.max(index as usize + 1);
        if index as usize >= self.shape.span {
            self.widen(index as usize);
        }
    }

    #[cold]
    fn widen(&mut self, index: usize) {
        while index >= self.shape.span {
            let below = self.shape.root;
            self.shape.widen();
            for tree in self.quads.chunks_mut(self.shape.quads) {
                let best = tree[below / 4][below % 4];
                tree[self.shape.root / 4][self.shape.root % 4] = best;
            }
        }
    }

    /// Says that many leaves of a tree are about to change.
    pub(crate) fn begin_bulk(&mut self, tree: usize) {
        self.in_bulk += usize::from(!self.bulk[tree]);
        self.bulk[tree] = true;
    }

    /// Whether many leaves may have changed.
    pub(crate) fn is_in_bulk(&self, tree: usize) -> bool {
        self.bulk[tree]
    }

    /// Carries up what changed in a tree that is in bulk; `open` tells which of the 64 leaves from one on are.
    pub(crate) fn end_bulk(&mut self, tree: usize, open: impl Fn(usize) -> u64, order: &SlotOrder) {
        self.bulk[tree] = false;
        self.in_bulk -= 1;
        let quads = &mut self.quads[tree * self.shape.quads..][..self.shape.quads];
        let mut first = self.shape.leaf(0);
        let mut used = self.reach.div_ceil(4);
        let (nodes, leaves) = level(quads, first, used);
        let quads_of_words = nodes.chunks_mut(16).zip(leaves.chunks(16));
        for (word, (nodes, leaves)) in quads_of_words.enumerate() {
            let mut open = open(word * 64);
            if open == 0 {
                nodes.fill(NO_KEY);
                continue;
            }
            for (node, four) in nodes.iter_mut().zip(leaves) {
                *node = best_open(four, open, order);
                open >>= 4;
            }
        }
        first = above(first);
        while first > self.shape.root {
            used = used.div_ceil(4);
            let (nodes, below) = level(quads, first, used);
            for (node, four) in nodes.iter_mut().zip(below) {
                *node = order.best_of_four(four);
            }
            first = above(first);
        }
    }

    #[inline]
    pub(crate) fn leaf(&self, tree: usize, leaf: u32) -> Rank {
        self.at(tree, self.shape.leaf(leaf as usize))
    }

    #[inline]
    fn at(&self, tree: usize, place: usize) -> Rank {
        self.quads.as_flattened()[4 * tree * self.shape.quads + place]
    }

    #[inline(always)]
    fn replace(&mut self, tree: usize, place: usize, rank: Rank) -> Rank {
        let nodes = self.quads.as_flattened_mut();
        std::mem::replace(&mut nodes[4 * tree * self.shape.quads + place], rank)
    }

    /// Sets a leaf whose lane is shut, or was all the time that it stood there: nothing stands above.
    #[inline]
    pub(crate) fn put_shut(&mut self, tree: usize, leaf: u32, rank: Rank) {
        self.replace(tree, self.shape.leaf(leaf as usize), rank);
    }

    /// Sets a leaf; whether what stands above may have changed. `open` tells which of the leaf and its
    /// siblings are, if that matters, `is_open` whether the leaf is. O(log leaves), or O(1) in bulk.
    #[inline(always)]
    pub(crate) fn set(
        &mut self,
        tree: usize,
        leaf: u32,
        rank: Rank,
        is_open: bool,
        open: impl Fn() -> u64,
        order: &SlotOrder,
    ) -> bool {
        let place = self.shape.leaf(leaf as usize);
        let old = self.replace(tree, place, rank);
        let is_changed = old != rank && is_open;
        if is_changed {
            self.carry(tree, place, old, rank, open, order);
        }
        is_changed
    }

    /// A leaf's lane was opened or shut; whether what stands above may have changed. `open` is as in
    /// [`set`](Self::set). O(log leaves), or O(1) in bulk.
    #[inline(always)]
    pub(crate) fn turn(
        &mut self,
        tree: usize,
        leaf: u32,
        is_open: bool,
        open: impl Fn() -> u64,
        order: &SlotOrder,
    ) -> bool {
        let place = self.shape.leaf(leaf as usize);
        let rank = self.at(tree, place);
        if rank == NO_KEY {
            return false;
        }
        if is_open {
            self.carry(tree, place, NO_KEY, rank, open, order);
        } else {
            self.carry(tree, place, rank, NO_KEY, open, order);
        }
        true
    }

    /// Sets a leaf of which nothing is known, not even whether its lane was open. O(log leaves), or O(1)
    /// in bulk.
    pub(crate) fn reset(
        &mut self,
        tree: usize,
        leaf: u32,
        rank: Rank,
        open: u64,
        order: &SlotOrder,
    ) {
        let place = self.shape.leaf(leaf as usize);
        self.replace(tree, place, rank);
        if !self.bulk[tree] {
            let quads = &mut self.quads[tree * self.shape.quads..][..self.shape.quads];
            carry_whole(quads, place, self.shape.root, open, order);
        }
    }

    /// Sets a leaf whose old entry may be gone and its slot another request's: equal ranks may differ in
    /// their intake numbers then, so the whole path is looked at again. O(log leaves).
    pub(crate) fn renew(&mut self, tree: usize, leaf: u32, rank: Rank, order: &SlotOrder) {
        let Shape { quads, root, .. } = self.shape;
        let place = self.shape.leaf(leaf as usize);
        let quads = &mut self.quads[tree * quads..][..quads];
        quads[place / 4][place % 4] = rank;
        carry_whole(quads, place, root, ALL_OPEN, order);
    }

    /// Carries a leaf's change up, as far as it matters.
    #[inline(never)]
    fn carry(
        &mut self,
        tree: usize,
        leaf: usize,
        old: Rank,
        rank: Rank,
        open: impl Fn() -> u64,
        order: &SlotOrder,
    ) {
        if self.in_bulk > 0 && self.bulk[tree] {
            return;
        }
        let Shape { quads, root, .. } = self.shape;
        let quads = &mut self.quads[tree * quads..][..quads];
        let mut place = leaf;
        // The old entry's slot may be another request's by now, so that nothing may hang on its tie-break.
        if ties(old, rank) {
            carry_whole(quads, place, root, open(), order);
        } else if rank > old {
            while place > root {
                place = above(place);
                let best = &mut quads.as_flattened_mut()[place];
                if order.better(*best, rank) {
                    return;
                }
                *best = rank;
            }
        } else {
            let mut is_leaf = true;
            while place > root {
                let parent = above(place);
                if quads.as_flattened()[parent] != old {
                    return;
                }
                let open = if is_leaf { open() } else { ALL_OPEN };
                is_leaf = false;
                let best = best_open(&quads[place / 4], open, order);
                quads.as_flattened_mut()[parent] = best;
                place = parent;
            }
        }
    }

    /// The best open leaf's rank, but for what changed in a bulk that goes on. O(1).
    #[inline]
    pub(crate) fn top(&self, tree: usize) -> Rank {
        self.at(tree, self.shape.root)
    }

    /// Asserts T1 for a tree; `open` is as in [`end_bulk`](Self::end_bulk).
    pub(crate) fn check(&self, tree: usize, open: impl Fn(usize) -> u64, order: &SlotOrder) {
        assert!(!self.bulk[tree], "a bulk ends with the event");
        let quads = &self.quads[tree * self.shape.quads..][..self.shape.quads];
        for place in self.shape.inner() {
            let below = children(place);
            let open = match below.checked_sub(self.shape.leaf(0)) {
                Some(leaf) if leaf < self.reach => open(leaf / 64 * 64) >> (leaf % 64),
                _ => ALL_OPEN,
            };
            let best = best_open(&quads[below / 4], open, order);
            assert_eq!(
                quads[place / 4][place % 4],
                best,
                "T1: an inner node is the best of its children"
            );
        }
    }
}

/// Four open leaves, or nodes.
const ALL_OPEN: u64 = 0b1111;

/// The best of four leaves of which some are open.
#[inline(always)]
fn best_open(four: &[Rank; 4], open: u64, order: &SlotOrder) -> Rank {
    if open & ALL_OPEN == ALL_OPEN {
        return order.best_of_four(four);
    }
    let mut four = *four;
    for (at, rank) in four.iter_mut().enumerate() {
        if open >> at & 1 == 0 {
            *rank = NO_KEY;
        }
    }
    order.best_of_four(&four)
}

/// The level whose first place is `first`, `used` quads of it, and the nodes above them.
fn level(quads: &mut [[Rank; 4]], first: usize, used: usize) -> (&mut [Rank], &[[Rank; 4]]) {
    let (upper, lower) = quads.split_at_mut(first / 4);
    (
        &mut upper.as_flattened_mut()[above(first)..][..used],
        &lower[..used],
    )
}

/// Carries a leaf's change up to the root.
fn carry_whole(quads: &mut [[Rank; 4]], leaf: usize, root: usize, open: u64, order: &SlotOrder) {
    let best = best_open(&quads[leaf / 4], open, order);
    let mut place = above(leaf);
    quads[place / 4][place % 4] = best;
    while place > root {
        let best = order.best_of_four(&quads[place / 4]);
        place = above(place);
        quads[place / 4][place % 4] = best;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_policy::OrderPolicy;

    use crate::order::{KeyParts, encode};
    use crate::{CostSnapshot, Nanos};

    #[test]
    fn a_slot_that_was_used_anew_gives_its_place_to_an_earlier_request() {
        let mut order = SlotOrder::new(2);
        order.seq.copy_from_slice(&[1, 2]);
        let parts = KeyParts {
            strict_priority: 0,
            epoch: 0,
            arrival: Nanos(5),
            jump: Nanos(0),
            deadline: None,
            snapshot: CostSnapshot { raw: 1, cached: 0 },
        };
        let rank = |slot| encode(OrderPolicy::Fcfs, &parts, slot);
        let mut trees = Trees::spanning(1, 2);
        trees.set(0, 0, rank(0), true, || ALL_OPEN, &order);
        trees.set(0, 1, rank(1), true, || ALL_OPEN, &order);
        assert_eq!(trees.top(0), rank(0));
        // The first request is gone, and a later one with an equal key has its slot.
        order.seq[0] = 3;
        trees.renew(0, 0, rank(0), &order);
        assert_eq!(trees.top(0), rank(1));
        trees.check(0, |_| ALL_OPEN, &order);
    }
}
