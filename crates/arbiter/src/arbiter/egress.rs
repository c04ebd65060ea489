//! Rooms of egress groups: how many more dispatches may go to a group's endpoints (S5.1).
//!
//! A group without room is *shut*: its endpoints are busy for every class, as if each had been
//! [`shut`](Arbiter::shut). The two are told apart: room reopens a group, not an endpoint of it that
//! was shut by itself.

use crate::arbiter::Arbiter;
use crate::order::NONE;
use crate::slab::Stage;
use crate::{SlotIndex, Ticket};

/// A room that dispatches do not use up.
pub(super) const UNBOUNDED_ROOM: u32 = u32::MAX;

impl<P> Arbiter<P> {
    /// Sets how many more dispatches may go to the endpoints of an egress group; `u32::MAX` is
    /// without bound, as at first. Each dispatch takes one, also those that a limit causes (S7.1).
    /// At 0 the group is shut: its endpoints are busy for every class (S5.1), until room is set
    /// again.
    ///
    /// # Complexity
    /// O(1) while the group neither shuts nor opens; then O(C x log groups), plus O(endpoints / 64)
    /// for each class whose shared head is constrained. How many endpoints and lanes there are does
    /// not matter.
    ///
    /// # Panics
    /// If there is no such group.
    pub fn set_egress_room(&mut self, group: u16, room: u32) {
        let before = self.egress_room(group);
        self.rooms[usize::from(group)] = room;
        if (before == 0) != (room == 0) {
            self.settle_group(usize::from(group));
        }
    }

    /// How many more dispatches may go to the endpoints of an egress group; `u32::MAX` is without
    /// bound.
    ///
    /// # Panics
    /// If there is no such group.
    #[must_use]
    pub fn egress_room(&self, group: u16) -> u32 {
        assert!(
            group < self.capacities.egress_groups,
            "group {group} of {}",
            self.capacities.egress_groups
        );
        self.rooms[usize::from(group)]
    }

    /// Completes what was dispatched to the workers of an egress group, for an egress that is lost:
    /// looks at `budget` slots from `from`; `freed` hears of each slot that is free again. Where to go
    /// on, or `None` when the last slot was looked at. What is dispatched meanwhile may be passed over,
    /// so the group is best shut before. O(budget + what is completed).
    pub fn abandon_egress(
        &mut self,
        group: u16,
        from: SlotIndex,
        budget: u32,
        mut freed: impl FnMut(Ticket),
    ) -> Option<SlotIndex> {
        let end = from.0.saturating_add(budget).min(self.capacities.slots);
        for slot in from.0..end {
            let entry = self.slab[slot];
            let number = self.lanes.order.links[slot as usize].a;
            if entry.stage() == Stage::Dispatched && self.groups.of(number) == usize::from(group) {
                let ticket = entry.ticket(slot);
                if self.complete(ticket, entry.attempt).is_ok() {
                    freed(ticket);
                }
            }
        }
        (end < self.capacities.slots).then_some(SlotIndex(end))
    }

    /// Takes one dispatch off the room of an endpoint's group.
    #[inline]
    pub(super) fn use_room(&mut self, number: u32) {
        let group = self.groups.of(number);
        let room = &mut self.rooms[group];
        if *room != UNBOUNDED_ROOM {
            *room -= 1;
            if *room == 0 {
                self.settle_group(group);
            }
        }
    }

    /// After a group was shut or opened: all that hangs on whether its endpoints are busy.
    #[cold]
    fn settle_group(&mut self, group: usize) {
        let shut = self.rooms[group] == 0;
        self.gates.set_group_shut(group, shut);
        self.load_tree.set_group_shut(group, shut, &self.endpoints);
        for at in 0..self.table.len() {
            let class = self.table[at] as usize;
            let (available, eligible) = self.gates.of_group(class, group).free();
            self.classes[class].counts.flip(available, eligible, shut);
            self.forest.mark(class, group);
            if self.classes[class].waiting() == 0 {
                continue;
            }
            self.spare_overloaded(class, group, shut);
            if self.classes[class].masked_head != NONE {
                self.classes[class].masked_counts = self.gates.count_masked(class, class);
            }
            self.settle_shared_status(class);
            self.mark_dirty(class);
        }
    }

    /// Overload alone fails nobody whose endpoint is busy (S5.4).
    fn spare_overloaded(&mut self, class: usize, group: usize, spare: bool) {
        let lanes = self.overloaded_lanes[class << self.groups.shift() | group];
        let settings = &mut self.classes[class];
        if spare {
            settings.doomed_lanes -= lanes;
            self.doomed -= lanes;
        } else {
            settings.doomed_lanes += lanes;
            self.doomed += lanes;
        }
    }
}
