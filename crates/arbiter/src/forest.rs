//! The best head of a class's open exact lanes (S4.4), over all egress groups that are not shut.
//!
//! Each class has, for each egress group, a run of lanes, where they are few or their heads come in order,
//! and a winner tree of the others, and where there are several groups a small
//! tree over their winners. A shut group's leaf there is empty, so shutting one costs each class a
//! path in the small tree. Winners are brought up there when the best is asked for.
//!
//! Invariant:
//! - F1. For a class and a group that are not marked as changed, the group's leaf among the winners
//!   is the best of the group's run and tree, or [`NO_KEY`] if the group is shut. While a group is marked, its
//!   leaf there may name a request that is gone, and whose slot is another's.
//! - F2. An open lane stands in its run or in its tree, and no other lane in either.

use crate::group::Groups;
use crate::lane_runs::{LaneRuns, REACH};
use crate::order::{NO_KEY, NONE, Rank, SlotOrder};
use crate::trees::Trees;

/// An exact lane and the head that it competes with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenLane {
    /// The endpoint's number.
    pub(crate) number: u32,
    /// Its place among the lanes, or [`NONE`] where there is no lane. One that is gone since the last
    /// change is named once more.
    pub(crate) lane: u32,
    /// Its head; [`NO_KEY`] if it is empty or does not compete.
    pub(crate) head: Rank,
}

#[derive(Debug)]
pub(crate) struct Forest {
    /// By class, then group.
    runs: LaneRuns,
    /// By class, then group.
    trees: Trees,
    /// By class, over the groups; without use where there is only one.
    winners: Trees,
    /// By class: the groups whose leaf in `winners` may be old, a bit for each.
    changed: Vec<u64>,
    groups: Groups,
}

impl Forest {
    pub(crate) fn new(classes: usize, groups: Groups, lanes: usize) -> Self {
        Self {
            runs: LaneRuns::new(classes * groups.stride(), lanes),
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
    pub(crate) fn end_bulk(&mut self, class: usize, order: &SlotOrder) {
        for group in 0..self.groups.stride() {
            self.trees.end_bulk(self.row(class, group), order);
        }
    }

    /// Says that a group's winner may have changed, or that the group was shut or opened.
    #[inline]
    pub(crate) fn mark(&mut self, class: usize, group: usize) {
        self.changed[class] |= 1 << group;
    }

    /// The head that a lane competes with, or [`NO_KEY`].
    pub(crate) fn head(&self, class: usize, number: u32, lane: u32) -> Rank {
        let row = self.row(class, self.groups.of(number));
        let leaf = self.trees.leaf(row, self.groups.place(number));
        let in_run = self.runs.rank(lane);
        assert!(leaf == NO_KEY || in_run == NO_KEY, "F2");
        leaf.max(in_run)
    }

    /// Sets the head with which a lane competes; whether the best of its class may be another now.
    /// `in_order` tells that heads mostly come worse than all before. O(1) in a run, O(log endpoints)
    /// in a tree, or O(1) in bulk.
    #[inline(always)]
    pub(crate) fn set(
        &mut self,
        class: usize,
        open: OpenLane,
        in_order: bool,
        order: &SlotOrder,
    ) -> bool {
        let OpenLane { number, lane, head } = open;
        let (row, place) = self.row_and_place(class, number);
        let is_changed = self.move_to(row, place, lane, head, in_order, order);
        if is_changed && self.groups.are_many() {
            self.mark(class, self.groups.of(number));
        }
        is_changed
    }

    /// The same for a lane that stands nowhere yet.
    #[inline(always)]
    pub(crate) fn open(
        &mut self,
        class: usize,
        open: OpenLane,
        in_order: bool,
        order: &SlotOrder,
    ) -> bool {
        let OpenLane { number, lane, head } = open;
        let (row, place) = self.row_and_place(class, number);
        let is_changed = match self.join_run(row, lane, head, in_order, order) {
            Some(is_best) => is_best,
            None => {
                self.trees.set(row, place, head, order);
                true
            }
        };
        if is_changed && self.groups.are_many() {
            self.mark(class, self.groups.of(number));
        }
        is_changed
    }

    /// Puts a lane into its run, where that is worth the search: what the tree has taken in is so much
    /// that the rest will hardly be a few lanes.
    #[inline(always)]
    fn join_run(
        &mut self,
        row: usize,
        lane: u32,
        head: Rank,
        in_order: bool,
        order: &SlotOrder,
    ) -> Option<bool> {
        if !in_order && self.trees.top(row) != NO_KEY {
            return None;
        }
        self.runs.append(row, lane, head, order).or_else(|| {
            let is_small = self.trees.top(row) == NO_KEY;
            let reach = if is_small { REACH } else { 0 };
            self.runs.insert(row, lane, head, reach, order)
        })
    }

    /// The same for a lane that stands nowhere any more.
    #[inline(always)]
    pub(crate) fn close(
        &mut self,
        class: usize,
        number: u32,
        lane: u32,
        order: &SlotOrder,
    ) -> bool {
        let (row, place) = self.row_and_place(class, number);
        let is_changed = if self.runs.rank(lane) != NO_KEY {
            self.runs.remove(row, lane)
        } else {
            self.trees.set(row, place, NO_KEY, order) != NO_KEY
        };
        if is_changed && self.groups.are_many() {
            self.mark(class, self.groups.of(number));
        }
        is_changed
    }

    #[inline(always)]
    fn row_and_place(&self, class: usize, number: u32) -> (usize, u32) {
        if self.groups.are_many() {
            let row = self.row(class, self.groups.of(number));
            (row, self.groups.place(number))
        } else {
            (class, number)
        }
    }

    #[inline(always)]
    fn move_to(
        &mut self,
        row: usize,
        place: u32,
        lane: u32,
        head: Rank,
        in_order: bool,
        order: &SlotOrder,
    ) -> bool {
        if lane == NONE {
            return self.trees.set(row, place, head, order) != head;
        }
        let in_run = self.runs.rank(lane);
        let mut was_best = false;
        if in_run != NO_KEY {
            was_best = self.runs.remove(row, lane);
            if head == NO_KEY {
                return was_best;
            }
        }
        if head != NO_KEY
            && self.trees.leaf(row, place) == NO_KEY
            && let Some(is_best) = self.join_run(row, lane, head, in_order, order)
        {
            return was_best || is_best;
        }
        self.trees.set(row, place, head, order) != head || was_best
    }

    /// The best head, over the groups whose bit in `shut` is not set. O(log groups) for each
    /// group that changed, or after a bulk one pass over its tree.
    #[inline]
    pub(crate) fn best(&mut self, class: usize, shut: u64, order: &SlotOrder) -> Rank {
        if self.groups.are_many() {
            self.best_of_groups(class, shut, order)
        } else if shut == 0 {
            self.best_of(class, order)
        } else {
            NO_KEY
        }
    }

    /// The best of a run and its tree.
    #[inline]
    fn best_of(&mut self, row: usize, order: &SlotOrder) -> Rank {
        let best = self.trees.best(row, order);
        if self.runs.is_empty(row) {
            return best;
        }
        order.best(self.runs.best(row), best)
    }

    fn best_of_groups(&mut self, class: usize, shut: u64, order: &SlotOrder) -> Rank {
        let mut rest = std::mem::take(&mut self.changed[class]);
        while rest != 0 {
            let group = rest.trailing_zeros();
            rest &= rest - 1;
            let best = if shut >> group & 1 != 0 {
                NO_KEY
            } else {
                self.best_of(self.row(class, group as usize), order)
            };
            self.winners.renew(class, group, best, order);
        }
        self.winners.best(class, order)
    }

    /// Asserts F1 and the invariants of the trees, for a class.
    pub(crate) fn check(&self, class: usize, shut: u64, order: &SlotOrder) {
        for group in 0..self.groups.stride() {
            self.trees.check(self.row(class, group), order);
            self.runs.check(self.row(class, group), order);
        }
        if !self.groups.are_many() {
            return;
        }
        if self.changed[class] == 0 {
            self.winners.check(class, order);
        }
        for group in (0..self.groups.stride()).filter(|group| self.changed[class] >> group & 1 == 0)
        {
            let expected = if shut >> group & 1 != 0 {
                NO_KEY
            } else {
                let row = self.row(class, group);
                order.best(self.runs.best(row), self.trees.top(row))
            };
            let place = u32::try_from(group).expect("at most 64 groups");
            assert_eq!(self.winners.leaf(class, place), expected, "F1");
        }
    }
}
