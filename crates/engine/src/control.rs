//! The control plane: workers, load, policy, stop; from any thread.

use std::collections::BTreeSet;
use std::ops::DerefMut;
use std::sync::{Arc, PoisonError, TryLockError};

use crossbeam_channel::{Receiver, Sender};
use tollgate_arbiter::{
    ClassIndex, Endpoint, Full, Nanos, OwnSelector, State, WorkerError, WorkerId,
};
use tollgate_policy::Profile;

use crate::directory::{TAINT_NAMES_MAX, TaintNames, View};
use crate::journal::{self, JOURNAL_BYTES_MAX, JOURNAL_BYTES_MIN, Journal, Recorder};
use crate::shared::Shared;
use crate::stats::Stats;
use crate::{Closed, ModelIndex, Worker};

/// Changes workers and policy, reports load, stops, and asks for the whole state.
///
/// `Clone`, `Send` and `Sync`. A call returns when it has taken effect for every submission that
/// begins later, or says why it has none. Calls of several threads take effect one after the other;
/// they wait for the arbiter's current turn, not for the data path to be idle. Do not call it from the
/// thread that turns a [`Core`](crate::Core) by hand: see [`Core::execute`](crate::Core::execute).
#[derive(Clone, Debug)]
pub struct Control {
    pub(crate) desk: Arc<ControlDesk>,
}

/// What the handles of one control plane share.
#[derive(Debug)]
pub(crate) struct ControlDesk {
    pub(crate) shared: Arc<Shared>,
    commands: Sender<Order>,
    stats: Stats,
    #[expect(
        clippy::disallowed_types,
        reason = "control calls take effect one after the other; no data path comes here"
    )]
    registry: std::sync::Mutex<Registry>,
}

/// What control calls use one at a time.
#[derive(Debug)]
pub(crate) struct Registry {
    replies: Receiver<Reply>,
    names: TaintNames,
    /// Names that the core has not been told yet, in the order of their numbers.
    fresh_names: Vec<Arc<str>>,
    /// Journals that nobody took before the engine closed, on their way and here.
    left: Receiver<Box<Recorder>>,
    journals: Vec<Journal>,
}

/// A control call in words.
#[derive(Clone, Debug)]
pub enum Command {
    /// Makes a worker known, or replaces its whole record (S9.3).
    UpsertWorker {
        /// Whose worker.
        model: ModelIndex,
        /// The record.
        worker: Worker,
    },
    /// Makes a worker unknown (S9.3).
    RemoveWorker {
        /// Whose worker.
        model: ModelIndex,
        /// Which.
        id: WorkerId,
    },
    /// Sets the external report of an endpoint's prefill tokens (S9.2).
    SetLoad {
        /// Whose worker.
        model: ModelIndex,
        /// Which endpoint.
        endpoint: Endpoint,
        /// Absolute, without the engine's own bookings.
        tokens: u64,
    },
    /// Sets whether a worker is overloaded (S5.4, S5.6).
    SetOverloaded {
        /// Whose worker.
        model: ModelIndex,
        /// Which.
        id: WorkerId,
        /// The new value.
        overloaded: bool,
    },
    /// Sets whether a worker is available (S5.2).
    SetAvailable {
        /// Whose worker.
        model: ModelIndex,
        /// Which.
        id: WorkerId,
        /// The new value.
        available: bool,
    },
    /// Replaces a worker's taints (S5.2).
    SetTaints {
        /// Whose worker.
        model: ModelIndex,
        /// Which.
        id: WorkerId,
        /// The new ones.
        taints: Vec<Box<str>>,
    },
    /// Puts another policy in force (S3.7).
    Reload {
        /// Whose.
        model: ModelIndex,
        /// The policy.
        profile: Arc<Profile>,
    },
    /// Refuses new requests, dispatches on for at most `drain`, then ends what still waits (S11.3).
    Stop {
        /// How long.
        drain: Nanos,
    },
    /// Begins to capture what a model's arbiter takes in and decides.
    StartJournal {
        /// Of which model.
        model: ModelIndex,
        /// The size of the buffer.
        capacity_bytes: usize,
    },
    /// Ends a capture and hands it out.
    TakeJournal {
        /// Of which model.
        model: ModelIndex,
    },
    /// Copies the whole state.
    Snapshot {
        /// Of which model.
        model: ModelIndex,
        /// How many waiting requests of each lane to list.
        entries_per_lane: usize,
    },
}

/// What a control call brought about.
#[derive(Clone, Debug)]
pub enum Done {
    /// It took effect.
    Applied,
    /// The policy is in force, as the generation of this number.
    Reloaded {
        /// 1 is the policy that the engine was built with.
        generation: u64,
    },
    /// The state.
    State(Box<State>),
    /// What was captured; `None` if nothing was.
    Journal(Option<Journal>),
}

/// Why a control call has no effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The engine is closed.
    #[error(transparent)]
    Closed(#[from] Closed),
    /// The engine has no such model.
    #[error("model {found} does not exist, there are {available}")]
    UnknownModel {
        /// The index given.
        found: u8,
        /// How many models there are.
        available: usize,
    },
    /// The worker, or the endpoint, is not known. Counted as stale (S9.3).
    #[error("the worker or endpoint is not known")]
    Unknown,
    /// A capacity does not suffice.
    #[error(transparent)]
    Full(#[from] Full),
    /// The worker's record is wrong, or a capacity does not suffice for it.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// A taint has no name, or workers have carried too many different ones over the engine's life.
    #[error(
        "a taint without a name, or one new name more than the {} that an engine takes in its life",
        TAINT_NAMES_MAX
    )]
    TaintNames,
    /// The buffer of a journal is too small or too large.
    #[error(
        "a journal's buffer must have between {} and {} bytes, not {found}",
        JOURNAL_BYTES_MIN,
        JOURNAL_BYTES_MAX
    )]
    JournalBytes {
        /// The size given.
        found: usize,
    },
    /// There is no memory for the buffer of a journal.
    #[error("there is no memory for a journal's buffer of {required} bytes")]
    JournalMemory {
        /// The size given.
        required: usize,
    },
    /// A journal of this model is captured already, or has not been taken since.
    #[error("a journal of this model has been started and not been taken")]
    JournalRuns,
    /// A journal cannot begin: the model's workers are chosen by a selector of the embedder's own.
    #[error(transparent)]
    OwnSelector(#[from] OwnSelector),
}

/// A command on its way to the core, with what the core needs to carry it out.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) command: Command,
    /// Taint names that are new, in the order of their numbers.
    pub(crate) fresh_names: Vec<Arc<str>>,
    /// The version of the view that will be published when it has taken effect.
    pub(crate) version: u64,
    /// For a reload: room for the classes of the profile.
    pub(crate) class_of: Vec<ClassIndex>,
    /// For the start of a journal: its buffer.
    pub(crate) recorder: Option<Box<Recorder>>,
}

/// The core's answer; the order comes back, so that the caller drops it.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) result: Result<Done, ControlError>,
    pub(crate) order: Order,
    /// The policy that was in force before a reload.
    pub(crate) before: Option<Arc<Profile>>,
}

impl Command {
    /// Whose it is; `None` is all of them.
    pub(crate) const fn model(&self) -> Option<ModelIndex> {
        match self {
            Self::UpsertWorker { model, .. }
            | Self::RemoveWorker { model, .. }
            | Self::SetLoad { model, .. }
            | Self::SetOverloaded { model, .. }
            | Self::SetAvailable { model, .. }
            | Self::SetTaints { model, .. }
            | Self::Reload { model, .. }
            | Self::StartJournal { model, .. }
            | Self::TakeJournal { model }
            | Self::Snapshot { model, .. } => Some(*model),
            Self::Stop { .. } => None,
        }
    }

    fn taints(&self) -> &[Box<str>] {
        match self {
            Self::UpsertWorker { worker, .. } => &worker.taints,
            Self::SetTaints { taints, .. } => taints,
            _ => &[],
        }
    }

    fn name_each_taint_once(&mut self) {
        let (Self::UpsertWorker {
            worker: Worker { taints, .. },
            ..
        }
        | Self::SetTaints { taints, .. }) = self
        else {
            return;
        };
        let mut seen = BTreeSet::new();
        taints.retain(|name| seen.insert(name.clone()));
    }
}

impl Control {
    pub(crate) fn new(
        shared: Arc<Shared>,
        commands: Sender<Order>,
        replies: Receiver<Reply>,
        left: Receiver<Box<Recorder>>,
        stats: Stats,
    ) -> Self {
        let registry = Registry {
            replies,
            names: TaintNames::default(),
            fresh_names: Vec::new(),
            left,
            journals: Vec::new(),
        };
        let desk = ControlDesk {
            shared,
            commands,
            stats,
            registry: registry.into(),
        };
        Self {
            desk: Arc::new(desk),
        }
    }

    /// Makes a worker known, or replaces its whole record: bookings, load and last use of ranks that
    /// remain stay (S9.3).
    ///
    /// # Errors
    /// Its ranks are no range, a capacity does not suffice, a taint name is bad, or the engine is
    /// closed.
    pub fn upsert_worker(&self, model: ModelIndex, worker: Worker) -> Result<(), ControlError> {
        self.apply(Command::UpsertWorker { model, worker })
    }

    /// Makes a worker unknown: what waits for it alone fails, what was dispatched to it stays the
    /// caller's (S9.3).
    ///
    /// # Errors
    /// It is not known, or the engine is closed.
    pub fn remove_worker(&self, model: ModelIndex, id: WorkerId) -> Result<(), ControlError> {
        self.apply(Command::RemoveWorker { model, id })
    }

    /// Sets the external report of an endpoint's prefill tokens: absolute, without the engine's own
    /// bookings (S9.2).
    ///
    /// # Errors
    /// The endpoint is not known, or the engine is closed.
    pub fn set_load(
        &self,
        model: ModelIndex,
        endpoint: Endpoint,
        tokens: u64,
    ) -> Result<(), ControlError> {
        self.apply(Command::SetLoad {
            model,
            endpoint,
            tokens,
        })
    }

    /// Sets whether a worker is overloaded (S5.4, S5.6).
    ///
    /// # Errors
    /// It is not known, or the engine is closed.
    pub fn set_overloaded(
        &self,
        model: ModelIndex,
        id: WorkerId,
        overloaded: bool,
    ) -> Result<(), ControlError> {
        self.apply(Command::SetOverloaded {
            model,
            id,
            overloaded,
        })
    }

    /// Sets whether a worker is available (S5.2).
    ///
    /// # Errors
    /// It is not known, or the engine is closed.
    pub fn set_available(
        &self,
        model: ModelIndex,
        id: WorkerId,
        available: bool,
    ) -> Result<(), ControlError> {
        self.apply(Command::SetAvailable {
            model,
            id,
            available,
        })
    }

    /// Replaces a worker's taints (S5.2).
    ///
    /// # Errors
    /// It is not known, a taint name is bad or one too many, or the engine is closed.
    pub fn set_taints<'a>(
        &self,
        model: ModelIndex,
        id: WorkerId,
        taints: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), ControlError> {
        let taints = taints.into_iter().map(Box::from).collect();
        self.apply(Command::SetTaints { model, id, taints })
    }

    /// Puts another policy in force between two selections; its generation (S3.7).
    ///
    /// # Errors
    /// Nothing is changed if the policy does not fit the capacities, or the engine is closed.
    pub fn reload(&self, model: ModelIndex, profile: Profile) -> Result<u64, ControlError> {
        let profile = Arc::new(profile);
        match self.call(Command::Reload { model, profile })? {
            Done::Reloaded { generation } => Ok(generation),
            done => unreachable!("a reload is answered by a generation, not {done:?}"),
        }
    }

    /// Refuses new requests from now on, dispatches on for at most `drain`, then ends what still waits
    /// as `shutting_down`. Returns when no shard takes requests any more; the drain goes on. A later
    /// stop may only shorten it (S11.3).
    ///
    /// # Errors
    /// The engine is closed already.
    pub fn stop(&self, drain: std::time::Duration) -> Result<(), ControlError> {
        let drain = Nanos(u64::try_from(drain.as_nanos()).unwrap_or(u64::MAX));
        self.apply(Command::Stop { drain })
    }

    /// A copy of a model's whole state at one moment, with at most `entries_per_lane` waiting requests
    /// of each lane. The arbiter pauses for it: O(lanes x entries listed + classes x endpoints).
    ///
    /// # Errors
    /// The engine is closed.
    pub fn snapshot(
        &self,
        model: ModelIndex,
        entries_per_lane: usize,
    ) -> Result<State, ControlError> {
        let command = Command::Snapshot {
            model,
            entries_per_lane,
        };
        match self.call(command)? {
            Done::State(state) => Ok(*state),
            done => unreachable!("a snapshot is answered by a state, not {done:?}"),
        }
    }

    pub(crate) fn apply(&self, command: Command) -> Result<(), ControlError> {
        self.call(command).map(|_| ())
    }

    /// Carries a command to the core and waits for its answer.
    ///
    /// # Errors
    /// As the method of that name.
    pub fn call(&self, command: Command) -> Result<Done, ControlError> {
        self.desk.carry(command, |desk, replies, order| {
            desk.send(order)?;
            replies.recv().map_err(|_| desk.closed())
        })
    }
}

impl ControlDesk {
    /// Puts an order before the core. Its answer comes, or the core lets go of its end of the answers:
    /// a core that is gone by now may have carried it out all the same, as a stop makes it do.
    pub(crate) fn send(&self, order: Order) -> Result<(), ControlError> {
        self.commands.send(order).map_err(|_| self.closed())?;
        let _ = self.shared.bell.ring();
        Ok(())
    }

    /// What a call is told that the core did not answer.
    pub(crate) fn closed(&self) -> ControlError {
        self.shared.why_closed().into()
    }

    /// What only one call at a time may use; `None` while another one does.
    pub(crate) fn try_lock(&self) -> Option<impl DerefMut<Target = Registry>> {
        match self.registry.try_lock() {
            Ok(registry) => Some(registry),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Prepares a command, has it carried out by `carry`, and publishes what it brought about; after all
    /// calls before it.
    pub(crate) fn carry(
        &self,
        command: Command,
        carry: impl FnOnce(&Self, &Receiver<Reply>, Order) -> Result<Reply, ControlError>,
    ) -> Result<Done, ControlError> {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        self.carry_with(&mut registry, command, carry)
    }

    /// The same for whoever has locked the registry.
    pub(crate) fn carry_with(
        &self,
        registry: &mut Registry,
        mut command: Command,
        carry: impl FnOnce(&Self, &Receiver<Reply>, Order) -> Result<Reply, ControlError>,
    ) -> Result<Done, ControlError> {
        if self.shared.bell.is_gone() {
            if let Command::TakeJournal { model } = command
                && let Some(left) = registry.left_journal(model)
            {
                return Ok(Done::Journal(Some(left)));
            }
            return Err(self.shared.why_closed().into());
        }
        let models = self.shared.directory.len();
        if let Some(model) = command.model().filter(|model| model.at() >= models) {
            return Err(ControlError::UnknownModel {
                found: model.0,
                available: models,
            });
        }
        if command.taints().iter().any(|name| name.is_empty()) {
            return Err(ControlError::TaintNames);
        }
        command.name_each_taint_once();
        let Registry {
            replies,
            names,
            fresh_names,
            ..
        } = registry;
        let recorder = journal::buffer(&command)?;
        let view = self.view_after(&command, names, fresh_names)?;
        let order = Order {
            version: view.as_ref().map_or(0, |view| view.version),
            class_of: room_for_classes(&command),
            recorder,
            command,
            fresh_names: std::mem::take(fresh_names),
        };
        let reply = carry(self, replies, order)?;
        // A policy that was replaced is dropped here, not by the arbiter.
        drop(reply.before);
        let done = reply.result?;
        if let (Some(view), Some(model)) = (view, reply.order.command.model()) {
            self.publish(model.at(), view, reply.order);
        }
        Ok(done)
    }

    /// The view of a model once the command has taken effect; `None` if it stays as it is.
    fn view_after(
        &self,
        command: &Command,
        names: &mut TaintNames,
        fresh: &mut Vec<Arc<str>>,
    ) -> Result<Option<View>, ControlError> {
        let view = |model: &ModelIndex| self.shared.directory.model(model.at()).load();
        let changed = match command {
            Command::UpsertWorker { model, worker } => view(model)
                .with_worker(worker, names, fresh)
                .ok_or(ControlError::TaintNames)?,
            Command::RemoveWorker { model, id } => view(model).without_worker(*id),
            Command::SetAvailable {
                model,
                id,
                available,
            } => view(model).with_available(*id, *available),
            Command::SetTaints { model, id, taints } => view(model)
                .with_taints(*id, taints, names, fresh)
                .ok_or(ControlError::TaintNames)?,
            Command::Reload { model, profile } => {
                let view = view(model);
                view.with_profile(Arc::clone(profile), Arc::clone(&view.class_of))
            }
            Command::SetLoad { .. }
            | Command::SetOverloaded { .. }
            | Command::Stop { .. }
            | Command::StartJournal { .. }
            | Command::TakeJournal { .. }
            | Command::Snapshot { .. } => return Ok(None),
        };
        Ok(Some(changed))
    }

    fn publish(&self, model: usize, mut view: View, order: Order) {
        if let Command::Reload { profile, .. } = order.command {
            view.class_of = order.class_of.into();
            let names = view.class_of.iter().zip(profile.classes());
            self.stats
                .set_names(model, names.map(|(&class, policy)| (class, &*policy.name)));
        }
        self.shared.directory.publish(model, view);
    }
}

impl Registry {
    /// The journal of a model that a closed core has left.
    fn left_journal(&mut self, model: ModelIndex) -> Option<Journal> {
        self.journals.extend(self.left.try_iter().map(Journal::new));
        let at = self
            .journals
            .iter()
            .position(|left| left.model() == model)?;
        Some(self.journals.swap_remove(at))
    }
}

fn room_for_classes(command: &Command) -> Vec<ClassIndex> {
    match command {
        Command::Reload { profile, .. } => Vec::with_capacity(profile.classes().len()),
        _ => Vec::new(),
    }
}
