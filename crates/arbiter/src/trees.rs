//! Winner trees over the heads of open exact lanes, one for each class and egress group.
//!
//! A leaf holds the rank of an open lane's head, and [`NO_KEY`] where there is no lane or the lane
//! is shut, so that one write and what it changes above is all that a new head or a flipped gate costs
//! here. An inner node holds the best of its four children; a better leaf needs one comparison for each
//! node that it wins, a worse one is looked at again only where it was the best. Whoever changes many
//! leaves at once says so, and pays one pass over the tree instead of a path for each.
//!
//! Invariant:
//! - T1. Each inner node of a tree that is not in bulk is the best of its children.

use crate::order::{NO_KEY, Rank, SlotOrder, ties};
use crate::quads::{Shape, above, children};

/// Trees of one size.
#[derive(Debug)]
pub(crate) struct Trees {
    /// By tree: its quads.
    quads: Vec<[Rank; 4]>,
    shape: Shape,
    /// By tree: any leaf may have changed.
    bulk: Vec<bool>,
    /// How many trees are in bulk.
    in_bulk: usize,
}

impl Trees {
    pub(crate) fn new(trees: usize, most_leaves: usize) -> Self {
        Self::of_shape(trees, Shape::new(most_leaves))
    }

    /// Trees that span all their leaves from the start.
    pub(crate) fn spanning(trees: usize, leaves: usize) -> Self {
        Self::of_shape(trees, Shape::spanning(leaves))
    }

    fn of_shape(trees: usize, shape: Shape) -> Self {
        Self {
            quads: vec![[NO_KEY; 4]; trees * shape.quads],
            shape,
            bulk: vec![false; trees],
            in_bulk: 0,
        }
    }

    /// Makes the trees span leaf `index`. O(1) while they do.
    #[inline]
    pub(crate) fn reach(&mut self, index: u32) {
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

    /// Carries up what changed in bulk.
    pub(crate) fn end_bulk(&mut self, tree: usize, order: &SlotOrder) {
        if self.bulk[tree] {
            self.bulk[tree] = false;
            self.in_bulk -= 1;
            let quads = &mut self.quads[tree * self.shape.quads..][..self.shape.quads];
            for place in self.shape.inner() {
                let best = order.best_of_four(&quads[children(place) / 4]);
                quads[place / 4][place % 4] = best;
            }
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

    /// Sets a leaf; what it was before. O(log leaves), or O(1) in bulk.
    #[inline(always)]
    pub(crate) fn set(&mut self, tree: usize, leaf: u32, rank: Rank, order: &SlotOrder) -> Rank {
        let place = self.shape.leaf(leaf as usize);
        let nodes = self.quads.as_flattened_mut();
        let old = std::mem::replace(&mut nodes[4 * tree * self.shape.quads + place], rank);
        if old != rank {
            self.carry(tree, place, old, rank, order);
        }
        old
    }

    /// Sets a leaf whose old entry may be gone and its slot another request's: equal ranks may differ in
    /// their intake numbers then, so the whole path is looked at again. O(log leaves).
    pub(crate) fn renew(&mut self, tree: usize, leaf: u32, rank: Rank, order: &SlotOrder) {
        let Shape { quads, root, .. } = self.shape;
        let place = self.shape.leaf(leaf as usize);
        let quads = &mut self.quads[tree * quads..][..quads];
        quads[place / 4][place % 4] = rank;
        carry_whole(quads, place, root, order);
    }

    /// Carries a leaf's change up, as far as it matters.
    #[inline(never)]
    fn carry(&mut self, tree: usize, leaf: usize, old: Rank, rank: Rank, order: &SlotOrder) {
        if self.in_bulk > 0 && self.bulk[tree] {
            return;
        }
        let Shape { quads, root, .. } = self.shape;
        let quads = &mut self.quads[tree * quads..][..quads];
        let mut place = leaf;
        // The old entry's slot may be another request's by now, so that nothing may hang on its tie-break.
        if ties(old, rank) {
            carry_whole(quads, place, root, order);
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
            while place > root {
                let parent = above(place);
                if quads.as_flattened()[parent] != old {
                    return;
                }
                let best = order.best_of_four(&quads[place / 4]);
                quads.as_flattened_mut()[parent] = best;
                place = parent;
            }
        }
    }

    /// The best leaf's rank. O(1), or after a bulk one pass over the tree.
    #[inline]
    pub(crate) fn best(&mut self, tree: usize, order: &SlotOrder) -> Rank {
        if self.in_bulk > 0 {
            self.end_bulk(tree, order);
        }
        self.top(tree)
    }

    /// The best leaf's rank as it was last carried up.
    #[inline]
    pub(crate) fn top(&self, tree: usize) -> Rank {
        self.at(tree, self.shape.root)
    }

    /// Asserts T1 for a tree.
    pub(crate) fn check(&self, tree: usize, order: &SlotOrder) {
        if self.bulk[tree] {
            return;
        }
        let quads = &self.quads[tree * self.shape.quads..][..self.shape.quads];
        for place in self.shape.inner() {
            let best = order.best_of_four(&quads[children(place) / 4]);
            assert_eq!(
                quads[place / 4][place % 4],
                best,
                "T1: an inner node is the best of its children"
            );
        }
    }
}

/// Carries a leaf's change up to the root.
fn carry_whole(quads: &mut [[Rank; 4]], mut place: usize, root: usize, order: &SlotOrder) {
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
        trees.set(0, 0, rank(0), &order);
        trees.set(0, 1, rank(1), &order);
        assert_eq!(trees.best(0, &order), rank(0));
        // The first request is gone, and a later one with an equal key has its slot.
        order.seq[0] = 3;
        trees.renew(0, 0, rank(0), &order);
        assert_eq!(trees.best(0, &order), rank(1));
        trees.check(0, &order);
    }
}
