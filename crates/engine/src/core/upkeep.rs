//! Upkeep: egress shards whose handle was dropped, and classes that may leave.

use tollgate_arbiter::{Nanos, SlotIndex};

use super::letters::Fence;
use super::{Core, Retiring, TurnReport};

/// How many slots one turn looks at for dispatches of a lost egress shard.
const ABANDONED_PER_TURN: u32 = 256;

/// Lost egress shards, and how far the releases of what they had have come.
#[derive(Debug)]
pub(super) struct Upkeep {
    /// By egress group: its shard is lost, and its dispatches are not released yet.
    abandoning: Box<[Option<Abandoning>]>,
}

/// Where the releases of a lost egress shard's dispatches go on.
#[derive(Clone, Copy, Debug)]
struct Abandoning {
    model: usize,
    from: SlotIndex,
}

impl Upkeep {
    pub(super) fn new(groups: usize) -> Self {
        Self {
            abandoning: vec![None; groups].into(),
        }
    }

    /// Whether nothing may be dispatched to the workers of a group now.
    pub(super) fn is_shut(&self, group: usize) -> bool {
        self.abandoning[group].is_some()
    }
}

impl<P> Core<P> {
    /// Before a selection, so that nothing is dispatched to a shard that is gone as far as is known.
    pub(super) fn notice_losses(&mut self, report: &mut TurnReport) {
        if self.hall.has_lost(&self.shared) {
            self.lose_some();
            report.more = true;
        }
    }

    pub(super) fn tend(&mut self, report: &mut TurnReport) {
        if self.hall.has_leftovers() {
            self.hall.redirect_leftovers();
            report.more = true;
        }
        for group in 0..self.hall.routes.len() {
            if self.upkeep.abandoning[group].is_some() {
                self.abandon_some(group);
                report.more = true;
            }
        }
        for model in 0..self.models.len() {
            if self.models[model].retiring.is_some() {
                self.retire(model);
            }
        }
    }

    /// Handles of egress shards were dropped while the engine runs: their dispatches are released,
    /// their workers served by the next shard. Without any shard nothing can come out any more: the
    /// engine stops.
    fn lose_some(&mut self) {
        self.hall.lose(&self.shared);
        for group in 0..self.hall.routes.len() {
            let is_lost = self.hall.outlets[self.hall.routes[group]].lost;
            if is_lost && self.upkeep.abandoning[group].is_none() {
                self.upkeep.abandoning[group] = Some(Abandoning {
                    model: 0,
                    from: SlotIndex(0),
                });
                for model in &mut self.models {
                    model.record(|journal| journal.room_of_group(index16(group), 0));
                    model.arbiter.set_egress_room(index16(group), 0);
                }
            }
        }
        if self.hall.outlets.iter().all(|outlet| outlet.lost) {
            self.begin_stop(Nanos(0));
        }
    }

    /// Releases some of what was dispatched to a lost shard's workers, once all feedback that the
    /// shard left in its ring is taken; then lets them be served by another.
    fn abandon_some(&mut self, group: usize) {
        let Some(at) = self.upkeep.abandoning[group] else {
            return;
        };
        let lost = self.hall.routes[group];
        if !self.hall.outlets[lost].feedback.is_empty() {
            return;
        }
        let (places, hall) = (self.shared.places, &mut self.hall);
        let model = &mut self.models[at.model];
        model.touched = true;
        let budget = ABANDONED_PER_TURN;
        model.record(|journal| journal.abandon(index16(group), at.from, budget));
        let mut count = 0;
        let next = model
            .arbiter
            .abandon_egress(index16(group), at.from, budget, |ticket| {
                count += 1;
                hall.free(places.to_engine(at.model, ticket));
            });
        self.publisher.abandoned(lost, count);
        self.upkeep.abandoning[group] = match next {
            Some(from) => Some(Abandoning { from, ..at }),
            None if at.model + 1 < self.models.len() => Some(Abandoning {
                model: at.model + 1,
                from: SlotIndex(0),
            }),
            None => {
                self.hall.reroute(group);
                None
            }
        };
    }

    /// Lets the classes go that left a model's policy, once no record can come that was resolved
    /// under it (S3.7).
    fn retire(&mut self, model: usize) {
        let Some(mut retiring) = self.models[model].retiring.take() else {
            return;
        };
        let is_past = match &mut retiring.fence {
            Some(fence) => fence.is_reached(self),
            None if self.shared.all_see(model, retiring.version) => {
                let mut fence = Fence::new(self.inlets.len(), self.hall.outlets.len());
                fence.raise(self);
                let is_past = fence.is_reached(self);
                retiring.fence = Some(fence);
                is_past
            }
            None => false,
        };
        if is_past {
            self.models[model].hold_drained(false);
        } else {
            self.models[model].retiring = Some(Retiring { ..retiring });
        }
    }
}

/// An egress group in the arbiters' words.
pub(super) fn index16(group: usize) -> u16 {
    u16::try_from(group).expect("there are at most 64 egress shards")
}
