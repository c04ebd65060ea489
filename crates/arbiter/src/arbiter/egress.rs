//! Rooms of egress groups: how many more dispatches may go to a group's endpoints (S5.1).
//!
//! A group without room is *shut*: its endpoints are busy for every class, as if each had been
//! [`shut`](Arbiter::shut). The two are told apart: room reopens a group, not an endpoint of it that
//! was shut by itself.

use crate::WorkerId;
use crate::arbiter::Arbiter;

/// A room that dispatches do not use up.
pub(super) const UNBOUNDED_ROOM: u32 = u32::MAX;

impl<P> Arbiter<P> {
    /// Sets how many more dispatches may go to the endpoints of an egress group; `u32::MAX` is
    /// without bound, as at first. Each dispatch takes one, also those that a limit causes (S7.1).
    /// At 0 the group is shut: its endpoints are busy for every class (S5.1), until room is set
    /// again.
    ///
    /// # Panics
    /// If there is no such group.
    pub fn set_egress_room(&mut self, group: u16, room: u32) {
        let before = std::mem::replace(&mut self.rooms[usize::from(group)], room);
        if (before == 0) != (room == 0) {
            self.settle_group(group);
        }
    }

    /// How many more dispatches may go to the endpoints of an egress group; `u32::MAX` is without
    /// bound.
    ///
    /// # Panics
    /// If there is no such group.
    #[must_use]
    pub fn egress_room(&self, group: u16) -> u32 {
        self.rooms[usize::from(group)]
    }

    /// Takes one dispatch off the room of a worker's group.
    pub(super) fn use_room(&mut self, worker: WorkerId) {
        let group = self.capacities.egress_group(worker);
        let room = &mut self.rooms[usize::from(group)];
        if *room != UNBOUNDED_ROOM {
            *room -= 1;
            if *room == 0 {
                self.settle_group(group);
            }
        }
    }

    /// Whether a worker's group has no room.
    pub(super) fn is_group_shut(&self, worker: WorkerId) -> bool {
        self.rooms[usize::from(self.capacities.egress_group(worker))] == 0
    }

    fn settle_group(&mut self, group: u16) {
        for number in 0..self.endpoints.reach() {
            let slot = self.endpoints.slot(number);
            if slot.known && self.capacities.egress_group(slot.endpoint.worker) == group {
                self.settle_forced(number);
            }
        }
    }
}
