//! Winner trees over the heads of open exact lanes, one for each class and egress group.
//!
//! A leaf holds the rank of an open lane's head, and [`NO_KEY`] where there is no lane or the lane
//! is shut, so that one write is all that a new head or a flipped gate costs here. An inner node
//! holds the best of its four children. The last change waits until another leaf changes or the
//! best is asked for, since a dispatch often changes its leaf twice: a new head, then a busy endpoint.
//! Whoever changes many leaves at once says so, and pays one pass over the tree instead of a path for
//! each.
//!
//! Invariants:
//! - T1. After [`Trees::best`], each inner node of the tree is the best of its children.
//! - T2. Before it, that holds but for the path of the one pending leaf, or for a tree in bulk.

use crate::order::{NO_KEY, Rank, SlotOrder, slot_of};

/// No leaf is pending.
const NOTHING: u32 = u32::MAX;
/// Any leaf may have changed.
const BULK: u32 = u32::MAX - 1;

/// Trees of one size.
///
/// A tree is numbered by level from its top: the children of node n are 4n + 1 to 4n + 4. They stand
/// together in quad n, so that one step up reads one line.
#[derive(Debug)]
pub(crate) struct Trees {
    /// By tree: the quads of all inner nodes.
    quads: Vec<[Rank; 4]>,
    /// By tree: the leaf whose change is not carried up yet, or [`NOTHING`], or [`BULK`].
    pending: Vec<u32>,
    quads_per_tree: usize,
    /// The lowest node that spans all leaves that were ever used.
    root: usize,
    /// How many leaves it spans.
    span: usize,
}

impl Trees {
    pub(crate) fn new(trees: usize, most_leaves: usize) -> Self {
        let mut leaves = 4;
        while leaves < most_leaves {
            leaves *= 4;
        }
        let quads_per_tree = first_of(leaves);
        Self {
            quads: vec![[NO_KEY; 4]; trees * quads_per_tree],
            pending: vec![NOTHING; trees],
            quads_per_tree,
            root: first_of(leaves / 4),
            span: 4,
        }
    }

    /// Trees that span all their leaves from the start.
    pub(crate) fn spanning(trees: usize, leaves: usize) -> Self {
        let whole = Self::new(trees, leaves);
        Self {
            span: 3 * whole.quads_per_tree + 1,
            root: 0,
            ..whole
        }
    }

    /// Makes the trees span leaf `index`. O(1) while they do.
    #[inline]
    pub(crate) fn reach(&mut self, index: u32, order: &SlotOrder) {
        if index as usize >= self.span {
            self.widen(index as usize, order);
        }
    }

    #[cold]
    fn widen(&mut self, index: usize, order: &SlotOrder) {
        while index >= self.span {
            for tree in 0..self.pending.len() {
                let quads = &mut self.quads[tree * self.quads_per_tree..][..self.quads_per_tree];
                quads[(self.root - 1) / 4][0] = order.best_of_four(&quads[self.root]).1;
            }
            self.root = (self.root - 1) / 4;
            self.span *= 4;
        }
    }

    /// Says that many leaves of a tree are about to change.
    pub(crate) fn begin_bulk(&mut self, tree: usize) {
        self.pending[tree] = BULK;
    }

    /// Carries up what changed in bulk.
    pub(crate) fn end_bulk(&mut self, tree: usize, order: &SlotOrder) {
        if self.pending[tree] == BULK {
            self.pending[tree] = NOTHING;
            self.carry_all(tree, order);
        }
    }

    /// Where a leaf stands: its quad, and its place in there.
    #[inline]
    fn place(&self, tree: usize, leaf: u32) -> (usize, usize) {
        let node = self.quads_per_tree + leaf as usize;
        (tree * self.quads_per_tree + (node - 1) / 4, (node - 1) % 4)
    }

    #[inline]
    pub(crate) fn leaf(&self, tree: usize, leaf: u32) -> Rank {
        let (quad, place) = self.place(tree, leaf);
        self.quads[quad][place]
    }

    /// Sets a leaf. O(log leaves), or O(1) in bulk.
    #[inline]
    pub(crate) fn set(&mut self, tree: usize, leaf: u32, rank: Rank, order: &SlotOrder) {
        let pending = self.pending[tree];
        if pending != leaf && pending != BULK {
            if pending != NOTHING {
                self.carry(tree, pending, order);
            }
            self.pending[tree] = leaf;
        }
        let (quad, place) = self.place(tree, leaf);
        self.quads[quad][place] = rank;
    }

    /// The best leaf's rank. O(log leaves), or after a bulk one pass over the tree.
    #[inline]
    pub(crate) fn best(&mut self, tree: usize, order: &SlotOrder) -> Rank {
        match std::mem::replace(&mut self.pending[tree], NOTHING) {
            NOTHING => {}
            BULK => self.carry_all(tree, order),
            leaf => self.carry(tree, leaf, order),
        }
        self.top(tree, order)
    }

    /// The best leaf's rank as it was last carried up.
    #[inline]
    pub(crate) fn top(&self, tree: usize, order: &SlotOrder) -> Rank {
        order
            .best_of_four(&self.quads[tree * self.quads_per_tree + self.root])
            .1
    }

    /// Carries one leaf's change up, until a node keeps another entry that was there before.
    #[inline]
    fn carry(&mut self, tree: usize, leaf: u32, order: &SlotOrder) {
        let changed = slot_of(self.leaf(tree, leaf));
        let quads = &mut self.quads[tree * self.quads_per_tree..][..self.quads_per_tree];
        let mut node = (self.quads_per_tree + leaf as usize - 1) / 4;
        while node != self.root {
            let best = order.best_of_four(&quads[node]).1;
            let above = (node - 1) / 4;
            let place = &mut quads[above][(node - 1) % 4];
            // An equal rank of the changed slot may be a new entry in an old slot: its tie-break
            // is new, so the nodes above must look again.
            if *place == best && slot_of(best) != changed {
                return;
            }
            *place = best;
            node = above;
        }
    }

    /// Computes every inner node below the root.
    fn carry_all(&mut self, tree: usize, order: &SlotOrder) {
        let quads = &mut self.quads[tree * self.quads_per_tree..][..self.quads_per_tree];
        for level in levels(self.quads_per_tree, self.root) {
            for node in level {
                let best = order.best_of_four(&quads[node]).1;
                quads[(node - 1) / 4][(node - 1) % 4] = best;
            }
        }
    }

    /// Asserts T1 for a tree with nothing pending.
    pub(crate) fn check(&self, tree: usize, order: &SlotOrder) {
        if self.pending[tree] != NOTHING {
            return;
        }
        let quads = &self.quads[tree * self.quads_per_tree..][..self.quads_per_tree];
        for node in levels(self.quads_per_tree, self.root).flatten() {
            let best = order.best_of_four(&quads[node]).1;
            let above = quads[(node - 1) / 4][(node - 1) % 4];
            assert_eq!(above, best, "T1: an inner node is the best of its children");
        }
    }
}

/// The number of the first node in the level that has `width` nodes.
const fn first_of(width: usize) -> usize {
    (width - 1) / 3
}

/// The inner nodes strictly below `root` that its span covers, level by level from the bottom.
fn levels(leaves_start: usize, root: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let (mut first, mut count) = (leaves_start, 1);
    let mut top = leaves_start;
    while top != root {
        top = (top - 1) / 4;
        count *= 4;
    }
    std::iter::from_fn(move || {
        first = (first - 1) / 4;
        count /= 4;
        (count > 1).then_some(first..first + count)
    })
}
