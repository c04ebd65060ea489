//! The engine: a core on a thread of its own, and the handles around it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::Sender;
use tollgate_policy::Profile;

use crate::builder::{Builder, StartError};
use crate::clock::Clock;
use crate::control::Control;
use crate::core::Core;
use crate::directory::Directory;
use crate::placement::{PlacementWarning, Role};
use crate::releases::Releases;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::stats::Stats;
use crate::{Admission, Closed, Courier, EgressShard, IngressShard, ModelIndex, Waiter};

/// A running engine: owns the arbiter's thread, hands out the handles that any thread may use.
///
/// Dropping it stops the engine at once and waits for the thread, which waits for nobody: what was
/// accepted and still waits ends as `shutting_down`, and the shards find the engine closed.
///
/// ```
/// use tollgate::{Delivery, Engine, ModelIndex, Request, Worker};
/// use tollgate::policy::Profile;
///
/// let built = Engine::builder(Profile::synthetic(None)).worker(Worker::new(7)).build::<&str>()?;
/// let (engine, mut ingress, mut egress) = (built.engine, built.ingress, built.egress);
/// ingress[0].try_submit(Request::new(512, "hello")).expect("there is room");
/// let Delivery::Dispatch(dispatch) = egress[0].recv()? else { panic!("a worker is free") };
/// assert_eq!((dispatch.endpoint.worker.0, dispatch.payload), (7, "hello"));
/// egress[0].complete(dispatch.receipt());
/// engine.stop()?;
/// engine.join()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Engine<P> {
    handles: Handles,
    thread: Option<JoinHandle<Finished<P>>>,
    /// Threads that end by themselves once the engine is closed.
    couriers: Vec<JoinHandle<()>>,
}

/// What the arbiter's thread leaves behind: everything that must be dropped elsewhere.
#[derive(Debug)]
struct Finished<P> {
    core: Core<P>,
    panic: Option<Box<dyn Any + Send>>,
}

/// The handles that any thread may use.
#[derive(Clone, Debug)]
pub struct Handles {
    shared: Arc<Shared>,
    control: Control,
    stats: Stats,
    clock: Clock,
    settings: Arc<Settings>,
}

/// A running engine with its shards.
#[derive(Debug)]
pub struct Built<P> {
    /// The engine.
    pub engine: Engine<P>,
    /// Its ingress shards, by number.
    pub ingress: Vec<IngressShard<P>>,
    /// Its egress shards, by number.
    pub egress: Vec<EgressShard<P>>,
    /// What is not as good as it could be about where it runs.
    pub warnings: Vec<PlacementWarning>,
}

/// An engine without a thread: whoever holds the core turns it.
#[derive(Debug)]
pub struct ByHand<P> {
    /// The core.
    pub core: Core<P>,
    /// The handles that any thread may use.
    pub handles: Handles,
    /// Its ingress shards, by number.
    pub ingress: Vec<IngressShard<P>>,
    /// Its egress shards, by number.
    pub egress: Vec<EgressShard<P>>,
}

/// A running engine that gives permits.
#[derive(Debug)]
pub struct BuiltAdmission {
    /// The engine.
    pub engine: Engine<Waiter>,
    /// Where tasks ask for permits.
    pub admission: Admission,
    /// What is not as good as it could be about where it runs.
    pub warnings: Vec<PlacementWarning>,
}

/// An engine that gives permits and has no threads: whoever holds the core and the couriers turns them.
#[derive(Debug)]
pub struct AdmissionByHand {
    /// The core.
    pub core: Core<Waiter>,
    /// The handles that any thread may use.
    pub handles: Handles,
    /// Where tasks ask for permits.
    pub admission: Admission,
    /// Who delivers, by egress shard.
    pub couriers: Vec<Courier>,
}

/// The arbiter's thread panicked, or the destructor of a payload that it left behind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a panic ended the engine: {message}")]
pub struct Lost {
    /// What the panic said.
    pub message: String,
}

impl Handles {
    pub(crate) fn new(
        shared: Arc<Shared>,
        control: Control,
        stats: Stats,
        clock: Clock,
        settings: Settings,
    ) -> Self {
        Self {
            shared,
            control,
            stats,
            clock,
            settings: Arc::new(settings),
        }
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// The control plane.
    #[must_use]
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Releases from any thread.
    #[must_use]
    pub fn releases(&self) -> Releases {
        Releases {
            shared: Arc::clone(&self.shared),
        }
    }

    /// What is counted and measured.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats.clone()
    }

    /// The clock that all times of the engine are on.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.clock.clone()
    }

    /// The settings in effect: print them.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The model of that name.
    #[must_use]
    pub fn model(&self, name: &str) -> Option<ModelIndex> {
        let at = self
            .settings
            .models
            .iter()
            .position(|known| **known == *name)?;
        u8::try_from(at).ok().map(ModelIndex)
    }

    /// The policy in force for a model; `None` if there is no such model.
    #[must_use]
    pub fn profile(&self, model: ModelIndex) -> Option<Arc<Profile>> {
        let directory: &Directory = &self.shared.directory;
        (model.at() < directory.len())
            .then(|| Arc::clone(&directory.model(model.at()).load().profile))
    }

    /// Whether new requests are refused, and why; `None` while they are taken.
    #[must_use]
    pub fn closed(&self) -> Option<Closed> {
        self.shared.is_closed().then(|| self.shared.why_closed())
    }
}

impl Engine<()> {
    /// Begins an engine whose first model, called `default`, runs under `profile`.
    pub fn builder(profile: Profile) -> Builder {
        Builder::new(profile)
    }
}

impl<P> Engine<P> {
    /// The handles that any thread may use, to be copied and kept beside the engine.
    #[must_use]
    pub const fn handles(&self) -> &Handles {
        &self.handles
    }

    /// The control plane.
    #[must_use]
    pub fn control(&self) -> Control {
        self.handles.control()
    }

    /// Stops with the drain that the engine was built with; see [`Control::stop`].
    ///
    /// # Errors
    /// The engine is closed already.
    pub fn stop(&self) -> Result<(), crate::ControlError> {
        self.handles.control.stop(self.handles.settings.drain)
    }

    /// Waits until the arbiter's thread has ended: after [`stop`](Self::stop), once nothing waits and
    /// nothing runs, or the drain is over. Drops what the thread left, on this one.
    ///
    /// # Errors
    /// The thread panicked.
    pub fn join(mut self) -> Result<(), Lost> {
        self.join_thread()
    }

    fn join_thread(&mut self) -> Result<(), Lost> {
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        let panic = match thread.join() {
            Ok(Finished { core, panic }) => {
                // Payloads may be dropped here, and a payload may panic.
                let dropped = catch_unwind(AssertUnwindSafe(|| drop(core)));
                panic.or(dropped.err())
            }
            Err(panic) => Some(panic),
        };
        // They run no code that panics but wakers, and those panics they catch.
        let own = std::thread::current().id();
        for courier in self.couriers.drain(..) {
            // A waker may drop the engine on a courier's thread, which then ends by itself.
            if courier.thread().id() != own {
                let _ = courier.join();
            }
        }
        match panic {
            None => Ok(()),
            Some(panic) => Err(Lost {
                message: message(&*panic),
            }),
        }
    }
}

impl<P: Send + 'static> Engine<P> {
    /// Puts a core on a thread, pinned as the settings say.
    pub(crate) fn start(core: Core<P>, handles: Handles) -> Result<Self, StartError> {
        let (started, heard) = crossbeam_channel::bounded(1);
        let settings = Arc::clone(&handles.settings);
        let thread = std::thread::Builder::new().name("tollgate-arbiter".into());
        #[expect(
            clippy::disallowed_methods,
            reason = "the one thread that the engine starts"
        )]
        let thread = thread
            .spawn(move || live(core, &settings, &started))
            .map_err(|error| StartError::Thread {
                message: error.to_string(),
            })?;
        let engine = Self {
            handles,
            thread: Some(thread),
            couriers: Vec::new(),
        };
        match heard.recv() {
            Ok(Ok(())) => Ok(engine),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(StartError::Thread {
                message: "it ended before it began".into(),
            }),
        }
    }
}

impl Engine<Waiter> {
    /// Puts a courier on a thread, pinned as the settings say.
    pub(crate) fn start_courier(
        &mut self,
        mut courier: Courier,
        shard: usize,
    ) -> Result<(), StartError> {
        let (started, heard) = crossbeam_channel::bounded(1);
        let settings = Arc::clone(&self.handles.settings);
        let thread = std::thread::Builder::new().name(format!("tollgate-courier-{shard}"));
        let deliver = move || {
            let pinned = settings.placement.pin_current_thread(Role::Egress(shard));
            let is_pinned = pinned.is_ok();
            let _ = started.send(pinned);
            if is_pinned {
                courier.run();
            }
        };
        #[expect(clippy::disallowed_methods, reason = "the threads that deliver")]
        let thread = thread.spawn(deliver).map_err(|error| StartError::Thread {
            message: error.to_string(),
        })?;
        self.couriers.push(thread);
        match heard.recv() {
            Ok(pinned) => Ok(pinned.map(|_| ())?),
            Err(_) => Err(StartError::Thread {
                message: "it ended before it began".into(),
            }),
        }
    }
}

/// The arbiter's thread.
fn live<P>(
    mut core: Core<P>,
    settings: &Settings,
    started: &Sender<Result<(), StartError>>,
) -> Finished<P> {
    if let Err(error) = settings.placement.pin_current_thread(Role::Arbiter) {
        core.close_unused();
        let _ = started.send(Err(error.into()));
        return Finished { core, panic: None };
    }
    let _ = started.send(Ok(()));
    let run = catch_unwind(AssertUnwindSafe(|| core.run(settings.idle)));
    let panic = run.err();
    if panic.is_some() {
        core.close_lost();
    }
    // A selector's panic that came when the core closed finds nobody else to be told to.
    let panic = panic.or_else(|| core.take_alarm());
    Finished { core, panic }
}

/// What a panic said.
fn message(panic: &(dyn Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text.clone()
    } else {
        "without a message".to_owned()
    }
}

impl<P> Drop for Engine<P> {
    fn drop(&mut self) {
        if self.thread.is_some() {
            // Closed already: then the thread ends by itself.
            let _ = self.handles.control.stop(Duration::ZERO);
            // A panic was told to the shards; there is nobody to tell it to here.
            let _ = self.join_thread();
        }
    }
}
