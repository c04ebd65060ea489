//! The models that are routed to, their workers, and the engine's knowledge of both.
//!
//! A worker serves one model or several; each model has an arbiter of its own in the one engine, with the
//! policy's profile for its name (S3.6). An engine's models are fixed when it is built, so that it is built with
//! places for more: the first worker that serves a new model takes a place for it, with its profile.
//!
//! 1. Whoever changes workers or policy holds [`Changes`]; so changes take effect one after the other.
//! 2. Readers take the tables as they are, without waiting.
//! 3. A control call waits for the arbiter's turn. Async callers go through [`Fleet::change`].

mod counters;
mod model;
mod policy;
mod watch;
mod worker;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tokio::sync::broadcast;
use tollgate::policy::PolicyFile;
use tollgate::{Control, ControlError, Handles, ModelIndex, State, WorkerId};

pub use self::counters::{CounterError, CounterErrors};
pub(crate) use self::counters::{CounterFigures, Counters};
pub(crate) use self::model::Model;
pub(crate) use self::policy::{PolicyFailure, Reloaded, read_policy};
pub(crate) use self::watch::watch;
use self::worker::Failing;
pub(crate) use self::worker::{Severity, Worker};
pub use self::worker::{Standing, WorkerReport};
use crate::config::{Config, WorkerConfig};

/// Events that a slow listener may be behind.
const EVENTS: usize = 256;

/// All models and workers of a router.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) config: Arc<Config>,
    pub(crate) handles: Handles,
    control: Control,
    counters: Counters,
    models: ArcSwap<Vec<Arc<Model>>>,
    workers: ArcSwap<BTreeMap<u64, Arc<Worker>>>,
    policy: ArcSwap<PolicyFile>,
    /// Which policy is in force, from 1. Raised by who holds the changes.
    generation: AtomicU64,
    changes: Mutex<Changes>,
    events: broadcast::Sender<String>,
}

/// What changes one at a time.
#[derive(Debug)]
struct Changes {
    next_worker: u64,
}

/// Why a change of workers has no effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ChangeError {
    #[error("there is no worker {0}")]
    UnknownWorker(u64),
    #[error("{0} is a worker already, number {1}")]
    Known(String, u64),
    #[error("there may be {max} models at one time; {name} would be one more (setting models)")]
    TooManyModels { name: String, max: usize },
    #[error(
        "ranks: {ranks}; {model} has room for {left} more of {max} at one time (setting endpoints)"
    )]
    TooManyRanks {
        ranks: u32,
        model: String,
        left: u64,
        max: usize,
    },
    #[error("{0}")]
    Engine(#[from] ControlError),
}

/// Why a request finds no model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unroutable {
    /// The client must name one of these.
    Unnamed(Vec<Arc<str>>),
    /// It named none of these.
    Unknown(Vec<Arc<str>>),
    /// No worker has told yet what it serves.
    NoneKnown,
}

impl Fleet {
    pub(crate) fn new(
        config: Arc<Config>,
        handles: Handles,
        policy: PolicyFile,
        counters: Counters,
    ) -> Self {
        let control = handles.control();
        Self {
            config,
            handles,
            control,
            counters,
            models: ArcSwap::default(),
            workers: ArcSwap::default(),
            policy: ArcSwap::from_pointee(policy),
            generation: AtomicU64::new(1),
            changes: Mutex::new(Changes { next_worker: 1 }),
            events: broadcast::Sender::new(EVENTS),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Changes> {
        // A panic in a change leaves tables that are whole.
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a change on a thread that may wait for the arbiter.
    pub(crate) async fn change<T: Send + 'static>(
        self: &Arc<Self>,
        change: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> T {
        let fleet = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || change(&fleet)).await;
        done.expect("changes do not panic, and nobody aborts them")
    }

    /// All models, by their places in the engine.
    pub(crate) fn models(&self) -> Arc<Vec<Arc<Model>>> {
        self.models.load_full()
    }

    /// All workers, by number.
    pub(crate) fn workers(&self) -> Arc<BTreeMap<u64, Arc<Worker>>> {
        self.workers.load_full()
    }

    pub(crate) fn worker(&self, id: WorkerId) -> Option<Arc<Worker>> {
        self.workers.load().get(&id.0).cloned()
    }

    /// Where a request for a model of that name goes; without a name, the only model there is.
    pub(crate) fn route(&self, name: Option<&str>) -> Result<Arc<Model>, Unroutable> {
        let models = self.models.load();
        let found = match name {
            Some(name) => models.iter().find(|model| *model.name == *name),
            None if models.len() == 1 => models.first(),
            None => None,
        };
        if let Some(model) = found {
            return Ok(Arc::clone(model));
        }
        let mut names: Vec<_> = models.iter().map(|model| Arc::clone(&model.name)).collect();
        names.sort_unstable();
        Err(match name {
            _ if names.is_empty() => Unroutable::NoneKnown,
            Some(_) => Unroutable::Unknown(names),
            None => Unroutable::Unnamed(names),
        })
    }

    /// Whether at least one model has a worker that takes requests.
    pub(crate) fn is_ready(&self) -> bool {
        let workers = self.workers.load();
        workers
            .values()
            .any(|worker| worker.standing() == Standing::Well)
    }

    /// Takes a place for a model that nobody may serve yet.
    pub(crate) fn expect_model(&self, name: &str) -> Result<(), ChangeError> {
        let _changes = self.lock();
        self.place(name).map(|_| ())
    }

    /// The place of a model; a new one gets its profile. The caller holds the changes.
    fn place(&self, name: &str) -> Result<ModelIndex, ChangeError> {
        let models = self.models();
        if let Some(model) = models.iter().find(|model| *model.name == *name) {
            return Ok(model.index);
        }
        let max = self.handles.settings().models.len();
        let place = u8::try_from(models.len()).ok();
        let place = place.filter(|_| models.len() < max);
        let Some(place) = place else {
            let name = name.to_owned();
            return Err(ChangeError::TooManyModels { name, max });
        };
        let index = ModelIndex(place);
        let profile = self.policy.load().profile(Some(name)).clone();
        self.control.reload(index, profile)?;
        let mut models = Vec::clone(&models);
        let model = Model::new(name, index, &self.config, self.counters.of(name));
        model.see_classes(&self.handles);
        models.push(Arc::new(model));
        self.models.store(Arc::new(models));
        Ok(index)
    }

    /// Makes a worker known. It takes requests once it was seen to be well.
    pub(crate) fn add_worker(&self, config: WorkerConfig) -> Result<Arc<Worker>, ChangeError> {
        let mut changes = self.lock();
        let workers = self.workers();
        let same = workers
            .values()
            .find(|worker| worker.config.url == config.url);
        if let Some(worker) = same {
            return Err(ChangeError::Known(config.url.to_string(), worker.id));
        }
        self.find_room(&config)?;
        let id = changes.next_worker;
        changes.next_worker += 1;
        let worker = Arc::new(Worker::new(id, config));
        self.say(format!("worker {id} {} is added", worker.config.url));
        let mut workers = BTreeMap::clone(&workers);
        workers.insert(id, Arc::clone(&worker));
        self.workers.store(Arc::new(workers));
        Ok(worker)
    }

    /// Whether a new worker has room in each model that is known to be its; the engine has the last word, once
    /// it was seen to be well. The caller holds the changes.
    fn find_room(&self, config: &WorkerConfig) -> Result<(), ChangeError> {
        let max = self.config.engine.endpoints;
        let most = u64::try_from(max).unwrap_or(u64::MAX);
        let check = |model: &str, taken: u64| {
            let left = most.saturating_sub(taken);
            if u64::from(config.ranks) <= left {
                return Ok(());
            }
            Err(ChangeError::TooManyRanks {
                ranks: config.ranks,
                model: model.to_owned(),
                left,
                max,
            })
        };
        check("a model", 0)?;
        let workers = self.workers();
        for name in &config.models {
            let mine = workers.values().filter(|worker| worker.serves(name));
            let taken = mine.map(|worker| u64::from(worker.config.ranks)).sum();
            check(&format!("model {name}"), taken)?;
        }
        let (models, max) = (self.models(), self.handles.settings().models.len());
        let is_new = |name: &&String| models.iter().all(|model| *model.name != **name);
        let over = config.models.iter().filter(is_new).nth(max - models.len());
        match over.cloned() {
            Some(name) => Err(ChangeError::TooManyModels { name, max }),
            None => Ok(()),
        }
    }

    /// Makes a worker unknown: what waits for it alone fails, what runs there ends by itself (S9.3).
    pub(crate) fn remove_worker(&self, id: u64) -> Result<(), ChangeError> {
        let _changes = self.lock();
        let mut workers = BTreeMap::clone(&self.workers());
        let worker = workers.remove(&id).ok_or(ChangeError::UnknownWorker(id))?;
        self.workers.store(Arc::new(workers));
        worker.stop_watching();
        self.say(format!("worker {id} {} is removed", worker.config.url));
        let left = worker.take_models();
        let left = left.into_iter().map(|name| self.leave(&worker, &name));
        // One that fails leaves no other one in.
        left.fold(Ok(()), Result::and)
    }

    /// A worker serves a model no more. The caller holds the changes.
    fn leave(&self, worker: &Worker, name: &str) -> Result<(), ChangeError> {
        let models = self.models();
        let Some(model) = models.iter().find(|model| *model.name == *name) else {
            return Ok(());
        };
        if let Some(prefixes) = &model.prefixes {
            prefixes.forget_worker(WorkerId(worker.id));
        }
        match self.control.remove_worker(model.index, WorkerId(worker.id)) {
            Ok(()) | Err(ControlError::Unknown) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Sets whether an operator takes a worker for overloaded (S5.4).
    pub(crate) fn set_overloaded(&self, id: u64, overloaded: bool) -> Result<(), ChangeError> {
        let _changes = self.lock();
        let worker = self.worker(WorkerId(id));
        let worker = worker.ok_or(ChangeError::UnknownWorker(id))?;
        worker.set_overloaded(overloaded);
        let not = if overloaded { "" } else { "not " };
        self.say(format!("worker {id} is marked as {not}overloaded"));
        self.tell(&worker)
    }

    /// Replaces a worker's taints (S5.2).
    pub(crate) fn set_taints(&self, id: u64, taints: Vec<String>) -> Result<(), ChangeError> {
        let _changes = self.lock();
        let worker = self.worker(WorkerId(id));
        let worker = worker.ok_or(ChangeError::UnknownWorker(id))?;
        let before = worker.set_taints(taints);
        let names = worker.models();
        let told = names.iter().try_for_each(|name| self.upsert(&worker, name));
        told.or_else(|error| {
            worker.set_taints(before);
            // Some models may have been told.
            self.tell(&worker)?;
            Err(error)
        })
    }

    /// Tells a model's arbiter what is known of a worker. The caller holds the changes.
    fn upsert(&self, worker: &Worker, name: &str) -> Result<(), ChangeError> {
        let record = worker.record(self.config.max_batched_tokens);
        let index = self.place(name)?;
        self.control.upsert_worker(index, record)?;
        Ok(())
    }

    /// Tells every arbiter of a worker's models what is known of it. A model whose arbiter does not take it is
    /// not served by it, and keeps nothing of it; without any, it is out. The caller holds the changes.
    fn tell(&self, worker: &Worker) -> Result<(), ChangeError> {
        let (mut is_taken, mut failure) = (false, None);
        for name in worker.models() {
            match self.upsert(worker, &name) {
                Ok(()) => is_taken = true,
                Err(error) => {
                    worker.unserve(&name, &error.to_string());
                    // A closed engine has forgotten everything anyway.
                    let _ = self.leave(worker, &name);
                    failure = Some(error);
                }
            }
        }
        match failure {
            Some(error) if !is_taken => {
                worker.eject();
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// A worker was looked at and is well, and serves these models.
    pub(crate) fn saw_well(&self, id: u64, models: &[String]) -> Result<(), ChangeError> {
        let _changes = self.lock();
        // It may have been removed since.
        let Some(worker) = self.worker(WorkerId(id)) else {
            return Ok(());
        };
        let before = worker.describe();
        let changed = worker.saw_well(models, self.config.health.readmit_after);
        for name in changed.left {
            self.leave(&worker, &name)?;
        }
        let told = match changed.is_news {
            true => self.tell(&worker),
            false => Ok(()),
        };
        // Each look finds again that there is no place for a model: that is told once.
        let after = worker.describe();
        if after != before {
            self.say(format!("worker {after}"));
        }
        told
    }

    /// A look at a worker failed, or a request could not be handed to it.
    pub(crate) fn saw_failing(
        &self,
        id: u64,
        why: &str,
        severity: Severity,
    ) -> Result<(), ChangeError> {
        let Some(worker) = self.worker(WorkerId(id)) else {
            return Ok(());
        };
        match worker.saw_failing(why, severity, self.config.health.eject_after) {
            Failing::AsBefore => Ok(()),
            Failing::Unseen => {
                self.say(format!("worker {}", worker.describe()));
                Ok(())
            }
            Failing::Out => {
                let _changes = self.lock();
                self.say(format!("worker {}", worker.describe()));
                self.tell(&worker)
            }
        }
    }

    /// A copy of a model's state, with so many waiting requests of each lane. The arbiter pauses for it.
    pub(crate) fn snapshot(&self, model: &Model, entries: usize) -> Result<State, ControlError> {
        self.control.snapshot(model.index, entries)
    }

    /// Hand-overs to a worker fail again and again: it is taken out for a time, if another one is well.
    pub(crate) fn relieve(&self, id: u64) -> Result<(), ChangeError> {
        let _changes = self.lock();
        let Some(worker) = self.worker(WorkerId(id)) else {
            return Ok(());
        };
        let served = worker.models();
        let others = self.workers();
        let mut others = others.values().filter(|other| other.id != id);
        let has_substitute = others.any(|other| {
            other.standing() == Standing::Well
                && served.iter().all(|name| other.models().contains(name))
        });
        if !worker.is_out_of_order() || !has_substitute {
            return Ok(());
        }
        worker.bar(Instant::now());
        self.say(format!(
            "worker {} is taken out: it fails what is handed to it",
            worker.describe()
        ));
        self.tell(&worker)
    }

    /// Tells operators what happened.
    pub(crate) fn say(&self, what: String) {
        // Nobody listens, perhaps.
        let _ = self.events.send(what);
    }

    /// What happens from now on, for operators.
    pub(crate) fn events(&self) -> broadcast::Receiver<String> {
        self.events.subscribe()
    }

    /// How soon the next look may bring a worker back.
    pub(crate) fn next_look(&self) -> Duration {
        self.config.health.interval
    }
}
