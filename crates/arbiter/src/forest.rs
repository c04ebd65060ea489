//! The best head of a class's open exact lanes (S4.4), over all egress groups that are not shut.
//!
//! Each class has a winner tree for each egress group, and where there are several groups a small
//! tree over their winners. A shut group's leaf there is empty, so shutting one costs each class a
//! path in the small tree. Winners are brought up there when the best is asked for.
//!
//! Invariant:
//! - F1. For a class and a group that are not marked as changed, the group's leaf among the winners
//!   is the best of the group's tree, or [`NO_KEY`] if the group is shut. While a group is marked, its
//!   leaf there may name a request that is gone, and whose slot is another's.

use crate::gate::Gates;
use crate::group::Groups;
use crate::order::{NO_KEY, Rank, SlotOrder};
use crate::trees::Trees;

#[derive(Debug)]
pub(crate) struct Forest {
    /// By class, then group.
    trees: Trees,
    /// By class, over the groups; without use where there is only one.
    winners: Trees,
    /// By class: the groups whose leaf in `winners` may be old, a bit for each.
    changed: Vec<u64>,
    groups: Groups,
}

impl Forest {
    pub(crate) fn new(classes: usize, groups: Groups) -> Self {
        Self {
            trees: Trees::new(classes * groups.stride(), groups.per_group() as usize),
            winners: Trees::spanning(classes, groups.stride()),
            changed: vec![0; classes],
            groups,
        }
    }

    #[inline]
    fn row(&self, class: usize, group: usize) -> usize {
        class << self.groups.shift() | group
    }

    /// Makes the trees span endpoint `number`. O(1) while they do.
    #[inline]
    pub(crate) fn reach(&mut self, number: u32) {
        self.trees.reach(self.groups.place(number));
    }

    /// Says that many leaves of a class and a group are about to change.
    pub(crate) fn begin_bulk(&mut self, class: usize, group: usize) {
        self.trees.begin_bulk(self.row(class, group));
        self.mark(class, group);
    }

    /// Carries up what changed in bulk.
    pub(crate) fn end_bulk(&mut self, class: usize, gates: &Gates, order: &SlotOrder) {
        for group in 0..self.groups.stride() {
            let row = self.row(class, group);
            let open = |place| gates.open_places(class, group, place);
            self.trees.end_bulk(row, open, order);
        }
    }

    /// Says that a group's winner may have changed, or that the group was shut or opened.
    #[inline]
    pub(crate) fn mark(&mut self, class: usize, group: usize) {
        self.changed[class] |= 1 << group;
    }

    #[inline]
    pub(crate) fn leaf(&self, class: usize, number: u32) -> Rank {
        if !self.groups.are_many() {
            return self.trees.leaf(class, number);
        }
        let row = self.row(class, self.groups.of(number));
        self.trees.leaf(row, self.groups.place(number))
    }

    /// Sets a leaf; whether that may have changed the best. `open` is the endpoint's
    /// [`open_quad`](Gates::open_quad). O(log endpoints), or O(1) in bulk.
    #[inline(always)]
    pub(crate) fn set(
        &mut self,
        class: usize,
        number: u32,
        rank: Rank,
        open: u64,
        order: &SlotOrder,
    ) -> bool {
        if !self.groups.are_many() {
            return self.trees.set(class, number, rank, open, order);
        }
        let group = self.groups.of(number);
        let row = self.row(class, group);
        let place = self.groups.place(number);
        let is_changed = self.trees.set(row, place, rank, open, order);
        if is_changed {
            self.mark(class, group);
        }
        is_changed
    }

    /// An endpoint became open or not to a class, as `open` tells by now; whether that may have changed
    /// the best. O(log endpoints), or O(1) in bulk.
    pub(crate) fn turn(&mut self, class: usize, number: u32, open: u64, order: &SlotOrder) -> bool {
        let group = self.groups.of(number);
        let row = self.row(class, group);
        let is_changed = self.trees.turn(row, self.groups.place(number), open, order);
        if is_changed {
            self.mark(class, group);
        }
        is_changed
    }

    /// Sets a leaf of which nothing is known, not even whether it was open. O(log endpoints), or O(1) in
    /// bulk.
    pub(crate) fn reset(
        &mut self,
        class: usize,
        number: u32,
        rank: Rank,
        open: u64,
        order: &SlotOrder,
    ) {
        let group = self.groups.of(number);
        let place = self.groups.place(number);
        self.trees
            .reset(self.row(class, group), place, rank, open, order);
        self.mark(class, group);
    }

    /// The best open leaf's rank, over the groups whose bit in `shut` is not set. O(log groups) for each
    /// group that changed.
    #[inline]
    pub(crate) fn best(&mut self, class: usize, shut: u64, order: &SlotOrder) -> Rank {
        if self.groups.are_many() {
            self.best_of_groups(class, shut, order)
        } else if shut == 0 {
            self.trees.top(class)
        } else {
            NO_KEY
        }
    }

    fn best_of_groups(&mut self, class: usize, shut: u64, order: &SlotOrder) -> Rank {
        let mut rest = std::mem::take(&mut self.changed[class]);
        while rest != 0 {
            let group = rest.trailing_zeros();
            rest &= rest - 1;
            let best = if shut >> group & 1 != 0 {
                NO_KEY
            } else {
                self.trees.top(self.row(class, group as usize))
            };
            self.winners.renew(class, group, best, order);
        }
        self.winners.top(class)
    }

    /// Asserts F1 and the invariants of the trees, for a class.
    pub(crate) fn check(&self, class: usize, gates: &Gates, order: &SlotOrder) {
        let shut = gates.shut_word();
        for group in 0..self.groups.stride() {
            let open = |place| gates.open_places(class, group, place);
            self.trees.check(self.row(class, group), open, order);
        }
        if !self.groups.are_many() {
            return;
        }
        if self.changed[class] == 0 {
            self.winners.check(class, |_| u64::MAX, order);
        }
        for group in (0..self.groups.stride()).filter(|group| self.changed[class] >> group & 1 == 0)
        {
            let expected = if shut >> group & 1 != 0 {
                NO_KEY
            } else {
                self.trees.top(self.row(class, group))
            };
            let place = u32::try_from(group).expect("at most 64 groups");
            assert_eq!(self.winners.leaf(class, place), expected, "F1");
        }
    }
}
