//! One winner tree per class over the heads of its open exact lanes.
//!
//! A leaf holds the rank of an open lane's head, and [`NO_KEY`] where there is no lane or the lane
//! is shut, so that one write is all that a new head or a flipped gate costs here. An inner node
//! holds the best of its four children. The last change waits until another leaf changes or the
//! best is asked for, since a dispatch often changes its leaf twice: a new head, then a busy endpoint.
//! Whoever changes many leaves at once says so, and pays one pass over the tree instead of a path for
//! each.
//!
//! Invariants:
//! - T1. After [`Forest::best`], each inner node of the class is the best of its children.
//! - T2. Before it, that holds but for the path of the one pending leaf, or for a class in bulk.

use crate::order::{NO_KEY, Rank, SlotOrder, slot_of};

/// No leaf is pending.
const NOTHING: u32 = u32::MAX;
/// Any leaf may have changed.
const BULK: u32 = u32::MAX - 1;

/// The trees of all classes over one range of endpoints.
///
/// A tree is numbered by level from its top: the children of node n are 4n + 1 to 4n + 4. They stand
/// together in group n, so that one step up reads one line.
#[derive(Debug)]
pub(crate) struct Forest {
    /// By class: the groups of all inner nodes.
    groups: Vec<[Rank; 4]>,
    /// By class: the leaf whose change is not carried up yet, or [`NOTHING`], or [`BULK`].
    pending: Vec<u32>,
    groups_per_class: usize,
    /// The lowest node that spans all endpoints that were ever used.
    root: usize,
    /// How many leaves it spans.
    span: usize,
}

impl Forest {
    pub(crate) fn new(classes: usize, endpoints: usize) -> Self {
        let mut leaves = 4;
        while leaves < endpoints {
            leaves *= 4;
        }
        let groups_per_class = first_of(leaves);
        Self {
            groups: vec![[NO_KEY; 4]; classes * groups_per_class],
            pending: vec![NOTHING; classes],
            groups_per_class,
            root: first_of(leaves / 4),
            span: 4,
        }
    }

    /// Makes the trees span endpoint `index`. O(1) while they do.
    #[inline]
    pub(crate) fn reach(&mut self, index: u32, order: &SlotOrder) {
        if index as usize >= self.span {
            self.widen(index as usize, order);
        }
    }

    #[cold]
    fn widen(&mut self, index: usize, order: &SlotOrder) {
        while index >= self.span {
            for class in 0..self.pending.len() {
                let groups =
                    &mut self.groups[class * self.groups_per_class..][..self.groups_per_class];
                groups[(self.root - 1) / 4][0] = order.best_of_four(&groups[self.root]).1;
            }
            self.root = (self.root - 1) / 4;
            self.span *= 4;
        }
    }

    /// Says that many leaves of a class are about to change.
    pub(crate) fn begin_bulk(&mut self, class: usize) {
        self.pending[class] = BULK;
    }

    /// Carries up what changed in bulk.
    pub(crate) fn end_bulk(&mut self, class: usize, order: &SlotOrder) {
        if self.pending[class] == BULK {
            self.pending[class] = NOTHING;
            self.carry_all(class, order);
        }
    }

    /// Where a leaf stands: its group, and its place in there.
    #[inline]
    fn place(&self, class: usize, endpoint: u32) -> (usize, usize) {
        let node = self.groups_per_class + endpoint as usize;
        (
            class * self.groups_per_class + (node - 1) / 4,
            (node - 1) % 4,
        )
    }

    #[inline]
    pub(crate) fn leaf(&self, class: usize, endpoint: u32) -> Rank {
        let (group, place) = self.place(class, endpoint);
        self.groups[group][place]
    }

    /// Sets a leaf. O(log endpoints), or O(1) in bulk.
    #[inline]
    pub(crate) fn set(&mut self, class: usize, endpoint: u32, rank: Rank, order: &SlotOrder) {
        let pending = self.pending[class];
        if pending != endpoint && pending != BULK {
            if pending != NOTHING {
                self.carry(class, pending, order);
            }
            self.pending[class] = endpoint;
        }
        let (group, place) = self.place(class, endpoint);
        self.groups[group][place] = rank;
    }

    /// The best leaf's rank. O(log endpoints), or after a bulk one pass over the tree.
    #[inline]
    pub(crate) fn best(&mut self, class: usize, order: &SlotOrder) -> Rank {
        match std::mem::replace(&mut self.pending[class], NOTHING) {
            NOTHING => {}
            BULK => self.carry_all(class, order),
            leaf => self.carry(class, leaf, order),
        }
        order
            .best_of_four(&self.groups[class * self.groups_per_class + self.root])
            .1
    }

    /// Carries one leaf's change up, until a node keeps another entry that was there before.
    #[inline]
    fn carry(&mut self, class: usize, leaf: u32, order: &SlotOrder) {
        let changed = slot_of(self.leaf(class, leaf));
        let groups = &mut self.groups[class * self.groups_per_class..][..self.groups_per_class];
        let mut node = (self.groups_per_class + leaf as usize - 1) / 4;
        while node != self.root {
            let best = order.best_of_four(&groups[node]).1;
            let above = (node - 1) / 4;
            let place = &mut groups[above][(node - 1) % 4];
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
    fn carry_all(&mut self, class: usize, order: &SlotOrder) {
        let groups = &mut self.groups[class * self.groups_per_class..][..self.groups_per_class];
        for level in levels(self.groups_per_class, self.root) {
            for node in level {
                let best = order.best_of_four(&groups[node]).1;
                groups[(node - 1) / 4][(node - 1) % 4] = best;
            }
        }
    }

    /// Asserts T1 for a class with nothing pending.
    pub(crate) fn check(&self, class: usize, order: &SlotOrder) {
        if self.pending[class] != NOTHING {
            return;
        }
        let groups = &self.groups[class * self.groups_per_class..][..self.groups_per_class];
        for node in levels(self.groups_per_class, self.root).flatten() {
            let best = order.best_of_four(&groups[node]).1;
            let above = groups[(node - 1) / 4][(node - 1) % 4];
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
