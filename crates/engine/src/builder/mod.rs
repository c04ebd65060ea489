//! How an engine is put together.

mod admission;
mod check;
mod error;

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use crossbeam_channel::{Sender, bounded};
use rtrb::RingBuffer;
use tollgate_arbiter::selector::Selector;
use tollgate_arbiter::{Arbiter, Capacities, Options};
use tollgate_policy::Profile;

pub use self::error::{BuildError, BuildErrors, StartError};
use crate::clock::Clock;
use crate::control::{Command, Control};
use crate::core::{Core, CoreParts, Guard, InletEnds, OutletEnds, Panic};
use crate::directory::{Directory, View};
use crate::egress::EgressEnds;
use crate::engine::{Built, ByHand, Engine, Handles};
use crate::idle::Idle;
use crate::ingress::{IngressEnds, Slots};
use crate::placement::{Machine, Placement};
use crate::settings::Settings;
use crate::shared::Shared;
use crate::stats::{self, Stats};
use crate::sync::doorbell::doorbell;
use crate::sync::mail::mail;
use crate::ticket::PlaceMap;
use crate::{EgressShard, IngressShard, ModelIndex, Worker};

/// The largest payload, in bytes.
pub const PAYLOAD_MAX: usize = 4_096;

/// Collects what an engine is to be; [`build`](Self::build) checks it all at once and allocates
/// everything.
///
/// ```
/// use tollgate::{Engine, Idle};
/// use tollgate::policy::Profile;
///
/// let builder = Engine::builder(Profile::synthetic(None)).slots(0).ring(1);
/// let errors = builder.build::<u64>().unwrap_err();
/// assert_eq!(
///     errors.to_string(),
///     "slots must be between 1 and 16777216, not 0\nring must be between 2 and 1048576, not 1",
/// );
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until it builds"]
pub struct Builder {
    models: Vec<Model>,
    workers: Vec<(ModelIndex, Worker)>,
    ingress_shards: usize,
    egress_shards: usize,
    slots: usize,
    ring: usize,
    dispatch_ring: usize,
    feedback_ring: usize,
    extension_ring: usize,
    extension_blocks: usize,
    classes: usize,
    worker_capacity: usize,
    endpoints: usize,
    placement: Placement,
    idle: Idle,
    drain: Duration,
    clock: Option<Clock>,
    seed: u64,
    room_waiters: usize,
    journal: Option<usize>,
}

#[derive(Debug)]
struct Model {
    name: Box<str>,
    profile: Profile,
    selector: Option<Box<dyn Selector + Send>>,
}

impl Builder {
    pub(crate) fn new(profile: Profile) -> Self {
        Self {
            models: vec![Model {
                name: "default".into(),
                profile,
                selector: None,
            }],
            workers: Vec::new(),
            ingress_shards: 1,
            egress_shards: 1,
            slots: 1 << 16,
            ring: 1 << 10,
            dispatch_ring: 1 << 10,
            feedback_ring: 1 << 10,
            extension_ring: 1 << 10,
            extension_blocks: 1 << 16,
            classes: 64,
            worker_capacity: 1_024,
            endpoints: 2_048,
            placement: Placement::default(),
            idle: Idle::default(),
            drain: Duration::from_secs(30),
            clock: None,
            seed: 0,
            room_waiters: 1 << 16,
            journal: None,
        }
    }

    /// Adds a model with workers, classes and limits of its own, on the same arbiter thread. Its index
    /// is the number of models before it. At most 256, each with another name.
    pub fn model(mut self, name: &str, profile: Profile) -> Self {
        self.models.push(Model {
            name: name.into(),
            profile,
            selector: None,
        });
        self
    }

    /// Has the model that was added last choose workers by a selector of the embedder's own (S10.2),
    /// also after reloads. It runs on the arbiter's thread: it must not block, allocate or panic.
    pub fn selector(mut self, selector: Box<dyn Selector + Send>) -> Self {
        if let Some(model) = self.models.last_mut() {
            model.selector = Some(selector);
        }
        self
    }

    /// Adds a worker to the model that was added last, known from the start.
    pub fn worker(mut self, worker: Worker) -> Self {
        let model = u8::try_from(self.models.len() - 1).unwrap_or(u8::MAX);
        self.workers.push((ModelIndex(model), worker));
        self
    }

    /// How many threads submit, 1 to 64. Default 1.
    pub const fn ingress_shards(mut self, shards: usize) -> Self {
        self.ingress_shards = shards;
        self
    }

    /// How many threads receive, 1 to 64. Default 1.
    pub const fn egress_shards(mut self, shards: usize) -> Self {
        self.egress_shards = shards;
        self
    }

    /// How many requests of a model may live at one time, waiting or dispatched and not complete: 1 to
    /// 2^24. They are split evenly over the ingress shards, and a shard's part is rounded up to a power
    /// of two. Default 65,536.
    pub const fn slots(mut self, slots: usize) -> Self {
        self.slots = slots;
        self
    }

    /// Records in each ingress ring, 2 to 2^20: how much a shard may run ahead of the arbiter; what is
    /// in it does not count as waiting yet (S7.4). Default 1,024.
    pub const fn ring(mut self, records: usize) -> Self {
        self.ring = records;
        self
    }

    /// Deliveries in each egress ring, 4 to 2^20: a full one shuts the workers behind it (S5.1).
    /// Default 1,024.
    pub const fn dispatch_ring(mut self, deliveries: usize) -> Self {
        self.dispatch_ring = deliveries;
        self
    }

    /// Records in each feedback ring, 2 to 2^20; what finds no room in it goes by a slower way.
    /// Default 1,024.
    pub const fn feedback_ring(mut self, records: usize) -> Self {
        self.feedback_ring = records;
        self
    }

    /// 64-byte blocks in each ring for variable parts, 133 to 2^20: a request that has hints, an
    /// allow-list or required taints, or a pin and a deadline, takes one, and one more for each 4
    /// hints and for each 8 allowed workers. Default 1,024.
    pub const fn extension_ring(mut self, blocks: usize) -> Self {
        self.extension_ring = blocks;
        self
    }

    /// Blocks of the same kind that the live requests of a model may hold, 0 to 2^26, split over the
    /// ingress shards. Default 65,536.
    pub const fn extension_blocks(mut self, blocks: usize) -> Self {
        self.extension_blocks = blocks;
        self
    }

    /// Classes of a model at one time, those that drain after a reload included: 1 to 2^14.
    /// Default 64, or as many as the model's policy has.
    pub const fn classes(mut self, classes: usize) -> Self {
        self.classes = classes;
        self
    }

    /// Known workers of a model, 1 to 2^20. Default 1,024.
    pub const fn workers(mut self, workers: usize) -> Self {
        self.worker_capacity = workers;
        self
    }

    /// Endpoints of a model, 1 to 2^20, split evenly over the egress shards: known ones, and departed
    /// ones that live requests refer to. Default 2,048.
    pub const fn endpoints(mut self, endpoints: usize) -> Self {
        self.endpoints = endpoints;
        self
    }

    /// Where threads run. Default: nowhere in particular.
    pub fn placement(mut self, placement: Placement) -> Self {
        self.placement = placement;
        self
    }

    /// How the arbiter's thread, and threads in `recv`, wait. Default: spin, then yield, then park.
    pub const fn idle(mut self, idle: Idle) -> Self {
        self.idle = idle;
        self
    }

    /// How long [`Engine::stop`] dispatches on before what waits ends. Default 30 s.
    pub const fn drain(mut self, drain: Duration) -> Self {
        self.drain = drain;
        self
    }

    /// The clock of all times. Default: [`Clock::monotonic`], from the moment of building.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Seed of the draws of `power_of_two` (S10.2). Default 0.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Captures what each model's arbiter takes in and decides, from the start on, each in a buffer of so
    /// many bytes, 4,096 to 2^36: [`Control::start_journal`]. Default: nothing.
    pub const fn journal(mut self, capacity_bytes: usize) -> Self {
        self.journal = Some(capacity_bytes);
        self
    }

    /// Builds the engine and starts the arbiter's thread, pinned where the placement says so.
    ///
    /// A payload is moved by value from ring to ring: up to 16 bytes cost nothing extra, and more than
    /// [`PAYLOAD_MAX`] do not compile. Box what is large.
    ///
    /// # Errors
    /// Everything that is wrong at once; nothing is started then.
    pub fn build<P: Send + 'static>(self) -> Result<Built<P>, BuildErrors> {
        const {
            assert!(
                size_of::<P>() <= PAYLOAD_MAX,
                "the payload is large: box it"
            );
        };
        let machine = Machine::read();
        let (placement, roles) = (self.placement.clone(), self.roles());
        let by_hand = self.assemble(Some(&machine))?;
        let engine = Engine::start(by_hand.core, by_hand.handles).map_err(BuildError::Start)?;
        Ok(Built {
            engine,
            ingress: by_hand.ingress,
            egress: by_hand.egress,
            warnings: placement.warnings(&machine, roles),
        })
    }

    /// Builds the engine without a thread, for whoever turns the core. Of the placement, only the
    /// shards' cores are of use then.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_by_hand<P>(self) -> Result<ByHand<P>, BuildErrors> {
        const {
            assert!(
                size_of::<P>() <= PAYLOAD_MAX,
                "the payload is large: box it"
            );
        };
        self.assemble(None)
    }

    fn assemble<P>(self, machine: Option<&Machine>) -> Result<ByHand<P>, BuildErrors> {
        let settings = self.check::<P>(machine)?;
        let places = PlaceMap {
            local_bits: settings.slots_per_shard.ilog2(),
            slot_bits: settings.slots_per_model.next_power_of_two().ilog2(),
        };
        let capacities = capacities(&settings);
        let clock = self.clock.unwrap_or_else(Clock::monotonic);
        let has_selectors = self.models.iter().any(|model| model.selector.is_some());
        let (ring_alarm, alarm) = bounded(1);
        let seed = settings.seed;
        let (arbiters, views) = build_arbiters::<P>(self.models, capacities, seed, &ring_alarm)?;
        let models = arbiters.len();

        let (bell, sleeper) = doorbell();
        let reach = places.reach(models);
        let (post, letterbox) = mail(reach);
        let shards = (settings.ingress_shards, settings.egress_shards);
        let shared = Shared::new(places, Directory::new(views), (post, reach), bell, shards);
        let shared = Arc::new(shared);
        let time = clock.clone();
        let (core_stats, ingress_stats, egress_stats, stats) =
            stats::create(&shape(&settings), move || time.now());
        name_classes(&stats, &arbiters);

        let (ingress_ends, inlets): (Vec<_>, Vec<_>) = (0..settings.ingress_shards)
            .map(|shard| ingress_rings(&settings, places, shard, models, &shared.generations))
            .unzip();
        let (egress_ends, outlets): (Vec<_>, Vec<_>) = (0..settings.egress_shards)
            .map(|_| egress_rings(&settings))
            .unzip();
        let (commands, orders) = bounded(1);
        let (answers, replies) = bounded(1);
        let (leave_journal, left) = bounded(models);
        let control = Control::new(Arc::clone(&shared), commands, replies, left, stats.clone());
        let mut core = Core::new(CoreParts {
            shared: Arc::clone(&shared),
            sleeper,
            letterbox,
            clock: clock.clone(),
            arbiters,
            inlets,
            outlets,
            commands: orders,
            replies: answers,
            stats: core_stats,
            alarm: has_selectors.then_some(alarm),
            journals: leave_journal,
        });
        start_journals(&mut core, &control, self.journal, models)?;
        add_workers(&mut core, &control, self.workers)?;

        let ingress = ingress_ends.into_iter().zip(ingress_stats).enumerate();
        let ingress = ingress.map(|(shard, (ends, stats))| {
            IngressShard::new(Arc::clone(&shared), shard, clock.clone(), stats, ends)
        });
        let egress = egress_ends.into_iter().zip(egress_stats).enumerate();
        let egress = egress.map(|(shard, (ends, stats))| {
            let waits = (clock.clone(), settings.idle);
            EgressShard::new(Arc::clone(&shared), shard, waits, stats, ends)
        });
        Ok(ByHand {
            ingress: ingress.collect(),
            egress: egress.collect(),
            core,
            handles: Handles::new(Arc::clone(&shared), control, stats, clock, settings),
        })
    }
}

fn capacities(settings: &Settings) -> Capacities {
    let shards = u32::try_from(settings.ingress_shards).expect("checked");
    Capacities {
        slots: settings.slots_per_model,
        classes: settings.classes,
        workers: settings.workers,
        endpoints: settings.endpoints,
        extension_blocks: settings.extension_blocks_per_shard * shards,
        attempts: settings.attempts,
        egress_groups: u16::try_from(settings.egress_shards).expect("checked"),
    }
}

fn shape(settings: &Settings) -> stats::Shape {
    // Numbers of endpoints name their egress shard in whole bits.
    let groups = settings.egress_shards.next_power_of_two();
    let endpoints = settings.endpoints as usize;
    stats::Shape {
        models: settings.models.clone(),
        classes: settings.classes as usize,
        endpoints: endpoints.div_ceil(settings.egress_shards) * groups,
        ingress_shards: settings.ingress_shards,
        egress_shards: settings.egress_shards,
        ring: settings.ring,
        dispatch_ring: settings.dispatch_ring,
    }
}

fn name_classes<P>(stats: &Stats, arbiters: &[Arbiter<P>]) {
    for (model, arbiter) in arbiters.iter().enumerate() {
        let named = arbiter.profile().classes().iter().enumerate();
        let named = named.filter_map(|(at, class)| Some((arbiter.class_index(at)?, &*class.name)));
        stats.set_names(model, named);
    }
}

type Arbiters<P> = (Vec<Arbiter<P>>, Vec<View>);

fn build_arbiters<P>(
    models: Vec<Model>,
    capacities: Capacities,
    seed: u64,
    alarm: &Sender<Panic>,
) -> Result<Arbiters<P>, BuildErrors> {
    let mut built = (Vec::new(), Vec::new());
    let mut errors = Vec::new();
    for model in models {
        let arbiter = match model.selector {
            None => Arbiter::build(&model.profile, capacities, Options { seed }),
            Some(selector) => {
                let guard = Box::new(Guard::new(selector, alarm.clone()));
                Arbiter::build_with_selector(&model.profile, capacities, guard)
            }
        };
        match arbiter {
            Ok(arbiter) => {
                let classes = 0..model.profile.classes().len();
                let class_of = classes.filter_map(|class| arbiter.class_index(class));
                built
                    .1
                    .push(View::new(Arc::new(model.profile), class_of.collect()));
                built.0.push(arbiter);
            }
            Err(error) => errors.push(BuildError::Model {
                name: model.name,
                error,
            }),
        }
    }
    BuildErrors::none_of(errors).map(|()| built)
}

fn ingress_rings<P>(
    settings: &Settings,
    places: PlaceMap,
    shard: usize,
    models: usize,
    generations: &Arc<[AtomicU32]>,
) -> (IngressEnds<P>, InletEnds<P>) {
    let (ring, records) = RingBuffer::new(settings.ring);
    let (blocks, read_blocks) = RingBuffer::new(settings.extension_ring);
    let (free, freed) = RingBuffer::new(settings.slots_per_shard as usize * models);
    let (give, returned) = bounded(1);
    let blocks_per_shard = settings.extension_blocks_per_shard;
    let ingress = IngressEnds {
        ring,
        blocks,
        slots: Slots::new(
            places,
            shard,
            models,
            blocks_per_shard,
            freed,
            Arc::clone(generations),
        ),
        returned,
    };
    let inlet = InletEnds {
        ring: records,
        blocks: read_blocks,
        returned: give,
        freed: free,
    };
    (ingress, inlet)
}

fn egress_rings<P>(settings: &Settings) -> (EgressEnds<P>, OutletEnds<P>) {
    let (deliver, ring) = RingBuffer::new(settings.dispatch_ring);
    let (feedback, take) = RingBuffer::new(settings.feedback_ring);
    let (leave_rest, rest) = bounded(1);
    let (leave, left) = bounded(1);
    let (bell, sleeper) = doorbell();
    let egress = EgressEnds {
        ring,
        feedback,
        rest,
        leave,
        sleeper,
    };
    let outlet = OutletEnds {
        ring: deliver,
        feedback: take,
        rest: leave_rest,
        left,
        bell,
    };
    (egress, outlet)
}

fn start_journals<P>(
    core: &mut Core<P>,
    control: &Control,
    journal: Option<usize>,
    models: usize,
) -> Result<(), BuildErrors> {
    let mut errors = Vec::new();
    let Some(capacity_bytes) = journal else {
        return Ok(());
    };
    for model in (0..models)
        .filter_map(|model| u8::try_from(model).ok())
        .map(ModelIndex)
    {
        let command = Command::StartJournal {
            model,
            capacity_bytes,
        };
        if let Err(error) = core.execute(control, command) {
            errors.push(BuildError::Journal { model, error });
        }
    }
    BuildErrors::none_of(errors)
}

fn add_workers<P>(
    core: &mut Core<P>,
    control: &Control,
    workers: Vec<(ModelIndex, Worker)>,
) -> Result<(), BuildErrors> {
    let mut errors = Vec::new();
    for (model, worker) in workers {
        let id = worker.id;
        let added = core.execute(control, Command::UpsertWorker { model, worker });
        if let Err(error) = added {
            errors.push(BuildError::Worker { id, error });
        }
    }
    BuildErrors::none_of(errors)
}
