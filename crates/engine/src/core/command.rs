//! Control calls, as the core carries them out.

use std::sync::Arc;

use arrayvec::ArrayVec;
use tollgate_arbiter::{ClassIndex, Nanos, TAINTS_MAX};
use tollgate_policy::Profile;

use super::letters::Fence;
use super::{Core, Retiring};
use crate::ModelIndex;
use crate::control::{Command, Control, ControlError, Done, Order, Reply};
use crate::journal::{Journal, Start};

/// A worker with more taints than an arbiter holds names is refused; so many are passed on. The names
/// of a command are all different.
const TAINTS_PASSED: usize = TAINTS_MAX as usize + 1;

impl<P> Core<P> {
    /// Carries a control call out at once, for whoever turns the core by hand; `control` is of the
    /// same engine. Calls of other threads that are under way are carried out before it.
    ///
    /// # Errors
    /// As [`Control::call`].
    pub fn execute(&mut self, control: &Control, command: Command) -> Result<Done, ControlError> {
        let desk = &control.desk;
        let mut registry = loop {
            if let Some(registry) = desk.try_lock() {
                break registry;
            }
            // Who holds it waits for this core.
            self.obey_one();
            std::thread::yield_now();
        };
        desk.carry_with(&mut registry, command, |_, _, order| Ok(self.obey(order)))
    }

    /// Carries out one command, if there is one; how many.
    pub(super) fn obey_one(&mut self) -> u64 {
        let Ok(order) = self.commands.try_recv() else {
            return 0;
        };
        let reply = self.obey(order);
        self.answer(reply);
        1
    }

    /// Answers the caller who waits; there is one at most, and the channel has room for its answer.
    pub(super) fn answer(&self, reply: Reply) {
        if let Some(replies) = &self.replies {
            // A caller that found the engine closed meanwhile does not wait any more.
            let _ = replies.try_send(reply);
        }
    }

    fn obey(&mut self, mut order: Order) -> Reply {
        self.taint_names.append(&mut order.fresh_names);
        let mut before = None;
        let result = self.carry_out(&mut order, &mut before);
        Reply {
            result,
            order,
            before,
        }
    }

    fn carry_out(
        &mut self,
        order: &mut Order,
        before: &mut Option<Arc<Profile>>,
    ) -> Result<Done, ControlError> {
        if let Command::Stop { drain } = order.command {
            self.begin_stop(drain);
            return Ok(Done::Applied);
        }
        let at = order.command.model().map_or(0, |model| model.at());
        match order.command {
            Command::StartJournal { model, .. } => return self.start_journal(model, order),
            Command::TakeJournal { .. } => {
                let journal = self.models[at].journal.take().map(Journal::new);
                return Ok(Done::Journal(journal));
            }
            _ => {}
        }
        let result = self.carry_out_at(at, order, before);
        // What was refused has changed nothing; what was stale was counted.
        if matches!(result, Ok(_) | Err(ControlError::Unknown)) {
            self.models[at].record(|journal| journal.command(&order.command));
        }
        result
    }

    /// Begins a capture. The buffer was allocated by the caller; the checkpoint is made here.
    fn start_journal(
        &mut self,
        index: ModelIndex,
        order: &mut Order,
    ) -> Result<Done, ControlError> {
        let model = &mut self.models[index.at()];
        if model.journal.is_some() {
            return Err(ControlError::JournalRuns);
        }
        let Some(mut recorder) = order.recorder.take() else {
            unreachable!("a journal's buffer comes with its order");
        };
        let started = self.clock.now();
        let checkpoint = match model.arbiter.checkpoint() {
            Ok(checkpoint) => checkpoint,
            Err(own) => {
                order.recorder = Some(recorder);
                return Err(own.into());
            }
        };
        recorder.begin(Box::new(Start {
            model: index,
            places: self.shared.places,
            profile: Arc::clone(model.arbiter.profile()),
            capacities: model.arbiter.capacities(),
            checkpoint,
            pause: self.clock.now().saturating_sub(started),
        }));
        model.journal = Some(recorder);
        Ok(Done::Applied)
    }

    fn carry_out_at(
        &mut self,
        at: usize,
        order: &mut Order,
        before: &mut Option<Arc<Profile>>,
    ) -> Result<Done, ControlError> {
        let model = &mut self.models[at];
        model.touched = true;
        let arbiter = &mut model.arbiter;
        let known =
            |result: Result<(), tollgate_arbiter::Stale>| result.map_err(|_| ControlError::Unknown);
        match &order.command {
            Command::UpsertWorker { worker, .. } => {
                let taints: ArrayVec<&str, TAINTS_PASSED> = passed(&worker.taints);
                arbiter.upsert_worker(&worker.record(&taints))?;
            }
            Command::RemoveWorker { id, .. } => known(arbiter.remove_worker(*id))?,
            Command::SetLoad {
                endpoint, tokens, ..
            } => known(arbiter.load(*endpoint, *tokens))?,
            Command::SetOverloaded { id, overloaded, .. } => {
                known(arbiter.set_overloaded(*id, *overloaded))?;
            }
            Command::SetAvailable { id, available, .. } => {
                known(arbiter.set_available(*id, *available))?;
            }
            Command::SetTaints { id, taints, .. } => {
                known(arbiter.set_taints(*id, &passed(taints))?)?;
            }
            Command::Reload { profile, .. } => {
                let profile = Arc::clone(profile);
                let classes = profile.classes().len();
                let generation = self.reload(at, profile, order.version, before)?;
                let arbiter = &self.models[at].arbiter;
                let index = |class| arbiter.class_index(class).unwrap_or(ClassIndex(0));
                order.class_of.extend((0..classes).map(index));
                return Ok(Done::Reloaded { generation });
            }
            Command::Snapshot {
                entries_per_lane, ..
            } => {
                let state = arbiter.state_limited(*entries_per_lane);
                return Ok(Done::State(Box::new(state)));
            }
            Command::Stop { .. } | Command::StartJournal { .. } | Command::TakeJournal { .. } => {}
        }
        Ok(Done::Applied)
    }

    fn reload(
        &mut self,
        at: usize,
        profile: Arc<Profile>,
        version: u64,
        before: &mut Option<Arc<Profile>>,
    ) -> Result<u64, ControlError> {
        self.forget_free_places(at);
        let model = &mut self.models[at];
        // Shards may still send what they resolved under the policy of before.
        model.hold_drained(true);
        match model.arbiter.reload(Arc::clone(&profile)) {
            Ok(reloaded) => {
                model.record(|journal| journal.reload(&profile));
                *before = Some(reloaded.before);
                model.retiring = Some(Retiring {
                    version,
                    fence: None,
                });
                Ok(reloaded.generation)
            }
            Err(full) => {
                model.hold_drained(model.retiring.is_some());
                Err(full.into())
            }
        }
    }

    /// No new requests from now on; what was submitted before is taken in, and what waits is dispatched
    /// until the drain's end (S11.3).
    pub(super) fn begin_stop(&mut self, drain: Nanos) {
        self.shared.close();
        if self.drain_end.is_none() {
            self.take_in_all();
        }
        let end = self.now.saturating_add(drain);
        self.drain_end = Some(self.drain_end.map_or(end, |known| known.min(end)));
        for model in &mut self.models {
            model.touched = true;
            model.record(|journal| journal.drain(drain));
            model.arbiter.begin_drain(drain);
        }
        if self.tells_of_room {
            // There will be none for those who wait for room.
            self.ring_for_usher();
        }
    }

    /// Takes in everything that is in the ingress rings now, for once without a bound but theirs.
    fn take_in_all(&mut self) {
        let mut fence = Fence::new(self.inlets.len(), self.hall.outlets.len());
        fence.raise(self);
        while !fence.is_reached_by_intake(self) {
            self.take_in();
        }
    }
}

fn passed(taints: &[Box<str>]) -> ArrayVec<&str, TAINTS_PASSED> {
    taints
        .iter()
        .map(|name| &**name)
        .take(TAINTS_PASSED)
        .collect()
}
