//! The best head of a class's open exact lanes (S4.4), over all egress groups that are not shut.
//!
//! Each class has, for each egress group, a run of open lanes, where they are few or their heads come in
//! order, and a winner tree of the others, and where there are several groups a small tree over their
//! winners. A shut group's leaf there is empty, so shutting one costs each class a path in the small
//! tree. Winners are brought up there when the best is asked for.
//!
//! Which lanes are open is the gates' to say. A shut lane keeps its head in the tree, so that a mass change
//! of gates is one pass over the tree, and one over the run for those of it that are shut now.
//!
//! Invariants:
//! - F1. For a class and a group that are not marked as changed, the group's leaf among the winners
//!   is the best of the group's run and tree, or [`NO_KEY`] if the group is shut. While a group is marked,
//!   its leaf there may name a request that is gone, and whose slot is another's.
//! - F2. A lane whose head can run stands in its run or in its tree, and no other lane in either. A lane in
//!   a run is open, but in a tree that is in bulk.

use crate::gate::Gates;
use crate::group::Groups;
use crate::lane_runs::{LaneRuns, REACH};
use crate::order::{Lanes, NO_KEY, Rank, SlotOrder};
use crate::trees::Trees;

/// An exact lane and its head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneHead {
    /// The endpoint's number.
    pub(crate) number: u32,
    /// Its place among the lanes. A lane that is gone since the last change is named once more.
    pub(crate) lane: u32,
    /// Its head; [`NO_KEY`] if it is empty or can run nowhere.
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
    pub(crate) fn end_bulk(&mut self, class: usize, gates: &Gates, lanes: &Lanes) {
        for group in 0..self.groups.stride() {
            let row = self.row(class, group);
            if self.trees.is_in_bulk(row) {
                let Self { runs, trees, .. } = self;
                runs.retain(row, |lane, rank| {
                    let number = lanes.get(lane).endpoint;
                    let is_open = gates.is_open(class, number);
                    if !is_open {
                        trees.put_shut(row, self.groups.place(number), rank);
                    }
                    is_open
                });
                let open = |place| gates.open_places(class, group, place);
                trees.end_bulk(row, open, &lanes.order);
            }
        }
    }

    /// Says that a group's winner may have changed, or that the group was shut or opened.
    #[inline]
    pub(crate) fn mark(&mut self, class: usize, group: usize) {
        self.changed[class] |= 1 << group;
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

    /// [`mark`](Self::mark) for the group of an endpoint, where the best may have changed.
    #[inline(always)]
    fn mark_if(&mut self, class: usize, number: u32, is_changed: bool) -> bool {
        if is_changed && self.groups.are_many() {
            self.mark(class, self.groups.of(number));
        }
        is_changed
    }

    /// Sets the head of a lane; whether the best of its class may be another now. `in_order` tells that
    /// heads mostly come worse than all before. O(1) in a run, O(log endpoints) in a tree, or O(1) in
    /// bulk.
    #[inline(always)]
    pub(crate) fn set(
        &mut self,
        class: usize,
        lane: LaneHead,
        in_order: bool,
        gates: &Gates,
        order: &SlotOrder,
    ) -> bool {
        let (row, place) = self.row_and_place(class, lane.number);
        let mut was_best = false;
        let is_free = if self.runs.rank(lane.lane) == NO_KEY {
            self.trees.leaf(row, place) == NO_KEY
        } else {
            was_best = self.runs.remove(row, lane.lane);
            true
        };
        let is_changed = if is_free && lane.head == NO_KEY {
            was_best
        } else {
            let is_open = gates.is_open(class, lane.number);
            let joined = if is_free && is_open {
                self.join_run(row, lane, in_order, order)
            } else {
                None
            };
            joined.unwrap_or_else(|| {
                let open = || gates.open_quad(class, lane.number);
                self.trees.set(row, place, lane.head, is_open, open, order)
            }) || was_best
        };
        self.mark_if(class, lane.number, is_changed)
    }

    /// The same for an open lane that stands nowhere yet.
    #[inline(always)]
    pub(crate) fn open(
        &mut self,
        class: usize,
        lane: LaneHead,
        in_order: bool,
        gates: &Gates,
        order: &SlotOrder,
    ) -> bool {
        debug_assert!(gates.is_open(class, lane.number), "F2");
        let (row, place) = self.row_and_place(class, lane.number);
        let joined = self.join_run(row, lane, in_order, order);
        let is_changed = joined.unwrap_or_else(|| {
            let open = || gates.open_quad(class, lane.number);
            self.trees.set(row, place, lane.head, true, open, order)
        });
        self.mark_if(class, lane.number, is_changed)
    }

    /// The same for a lane that stands nowhere any more.
    #[inline(always)]
    pub(crate) fn close(
        &mut self,
        class: usize,
        number: u32,
        lane: u32,
        gates: &Gates,
        order: &SlotOrder,
    ) -> bool {
        let (row, place) = self.row_and_place(class, number);
        let is_changed = if self.runs.rank(lane) == NO_KEY {
            let is_open = gates.is_open(class, number);
            let open = || gates.open_quad(class, number);
            self.trees.set(row, place, NO_KEY, is_open, open, order)
        } else {
            self.runs.remove(row, lane)
        };
        self.mark_if(class, number, is_changed)
    }

    /// Puts a lane into its run, where that is worth the search: what the tree has taken in is so much
    /// that the rest will hardly be a few lanes.
    #[inline(always)]
    fn join_run(
        &mut self,
        row: usize,
        lane: LaneHead,
        in_order: bool,
        order: &SlotOrder,
    ) -> Option<bool> {
        let LaneHead { lane, head, .. } = lane;
        if !in_order && self.trees.top(row) != NO_KEY {
            return None;
        }
        self.runs.append(row, lane, head, order).or_else(|| {
            let is_small = self.trees.top(row) == NO_KEY;
            let reach = if is_small { REACH } else { 0 };
            self.runs.insert(row, lane, head, reach, order)
        })
    }

    /// An endpoint with a lane became open or not to a class, as the gates tell by now; whether the best
    /// may be another now. O(1) in a run, O(log endpoints) in a tree, or O(1) in bulk.
    pub(crate) fn turn(
        &mut self,
        class: usize,
        number: u32,
        lane: u32,
        in_order: bool,
        gates: &Gates,
        order: &SlotOrder,
    ) -> bool {
        let (row, place) = self.row_and_place(class, number);
        let is_changed = if gates.is_open(class, number) {
            let head = self.trees.leaf(row, place);
            if head == NO_KEY {
                return false;
            }
            if let Some(is_best) =
                self.join_run(row, LaneHead { number, lane, head }, in_order, order)
            {
                self.trees.put_shut(row, place, NO_KEY);
                is_best
            } else {
                let open = || gates.open_quad(class, number);
                self.trees.turn(row, place, true, open, order);
                true
            }
        } else {
            let rank = self.runs.rank(lane);
            if rank == NO_KEY {
                let open = || gates.open_quad(class, number);
                self.trees.turn(row, place, false, open, order)
            } else {
                self.trees.put_shut(row, place, rank);
                self.runs.remove(row, lane)
            }
        };
        self.mark_if(class, number, is_changed)
    }

    /// Sets the head of a lane of which nothing is known, not even whether it was open. O(log endpoints), or
    /// O(1) in bulk.
    pub(crate) fn reset(&mut self, class: usize, lane: LaneHead, gates: &Gates, order: &SlotOrder) {
        let LaneHead { number, lane, head } = lane;
        let (row, place) = self.row_and_place(class, number);
        let in_run = self.runs.rank(lane);
        if in_run != NO_KEY {
            if in_run == head && gates.is_open(class, number) {
                return;
            }
            self.runs.remove(row, lane);
        }
        let open = gates.open_quad(class, number);
        self.trees.reset(row, place, head, open, order);
        self.mark(class, self.groups.of(number));
    }

    /// The best open head, over the groups whose bit in `shut` is not set. O(log groups) for each
    /// group that changed.
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
    fn best_of(&self, row: usize, order: &SlotOrder) -> Rank {
        let best = self.trees.top(row);
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
        self.winners.top(class)
    }

    /// How many of a class's lanes stand in runs.
    #[cfg(test)]
    pub(crate) fn in_runs(&self, class: usize) -> usize {
        let rows = (0..self.groups.stride()).map(|group| self.row(class, group));
        rows.map(|row| self.runs.count(row)).sum()
    }

    /// Asserts F2 for a lane with a head, or [`NO_KEY`] if that can run nowhere.
    pub(crate) fn check_lane(&self, class: usize, lane: LaneHead, gates: &Gates) {
        let LaneHead { number, lane, head } = lane;
        let (row, place) = self.row_and_place(class, number);
        let (leaf, in_run) = (self.trees.leaf(row, place), self.runs.rank(lane));
        assert!(leaf == NO_KEY || in_run == NO_KEY, "F2: in one of both");
        assert_eq!(leaf.max(in_run), head, "F2: with its head");
        let is_open = gates.is_open(class, number);
        assert!(in_run == NO_KEY || is_open, "F2: a run's lanes are open");
    }

    /// Asserts F1 and the invariants of runs and trees, for a class.
    pub(crate) fn check(&self, class: usize, gates: &Gates, order: &SlotOrder) {
        let shut = gates.shut_word();
        for group in 0..self.groups.stride() {
            let open = |place| gates.open_places(class, group, place);
            self.trees.check(self.row(class, group), open, order);
            self.runs.check(self.row(class, group), order);
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
                self.best_of(self.row(class, group), order)
            };
            let place = u32::try_from(group).expect("at most 64 groups");
            assert_eq!(self.winners.leaf(class, place), expected, "F1");
        }
    }
}
