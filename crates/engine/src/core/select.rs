//! Selection: what may be dispatched now, as far as the egress rings have room (S5.1, S6).

use tollgate_arbiter::TurnBudget;

use super::hall::Desk;
use super::upkeep::index16;
use super::{Core, TurnReport};

/// What one turn does for one model.
const BUDGET: TurnBudget = TurnBudget {
    dispatches: 64,
    removals: 256,
};

impl<P> Core<P> {
    /// Lets every arbiter decide that something happened to, or that something is due at.
    pub(super) fn select(&mut self, report: &mut TurnReport) {
        for at in 0..self.models.len() {
            self.open_and_shut(at);
            let model = &mut self.models[at];
            let is_due = || {
                let due = model.arbiter.next_deadline();
                due.is_some_and(|due| due <= self.now)
            };
            if !model.touched && !is_due() {
                continue;
            }
            let model = &mut self.models[at];
            model.record(|journal| journal.turn(BUDGET));
            let started = self.publisher.sample(&self.clock);
            let mut desk = Desk {
                hall: &mut self.hall,
                model: at,
                journal: model.journal.as_deref_mut(),
            };
            let turn = model.arbiter.turn(BUDGET, &mut desk);
            if let Some(started) = started.filter(|_| turn.dispatched > 0) {
                let took = self.clock.now().saturating_sub(started);
                self.publisher.selected(took, turn.dispatched);
            }
            model.touched = turn.more;
            report.dispatched += turn.dispatched;
            report.more |= turn.more;
        }
    }

    /// Tells an arbiter how many dispatches each egress shard takes: none once its ring is full, and
    /// none again until a quarter of it is free.
    pub(super) fn open_and_shut(&mut self, model: usize) {
        let model = &mut self.models[model];
        for group in 0..self.hall.routes.len() {
            let index = index16(group);
            let known = model.arbiter.egress_room(index);
            let room = if self.upkeep.is_shut(group) {
                0
            } else {
                self.hall.room_for(group)
            };
            // The ring's room decides, not the group's part of it.
            let reopens = known == 0 && room > 0 && self.hall.has_reopened(group);
            let room = u32::try_from(room).unwrap_or(u32::MAX - 1);
            if known != room && (known > 0 || reopens) {
                if known == 0 {
                    model.touched = true;
                    let outlet = self.hall.routes[group];
                    self.hall.outlets[outlet].reopenings += 1;
                }
                model.record(|journal| journal.room_of_group(index, room));
                model.arbiter.set_egress_room(index, room);
            }
        }
    }
}
