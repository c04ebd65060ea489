//! The engine that is measured.

use std::sync::Arc;

use tollgate::placement::Placement;
use tollgate::policy::{Bucket, ClassPolicy, OrderPolicy, OverloadAction, Profile, ProfileSpec};
use tollgate::stats::CoreSnapshot;
use tollgate::{Builder, Endpoint, Engine, Idle, Request, Worker};

use crate::Stream;
use crate::machine::Cores;

/// Classes, a family each.
const CLASSES: usize = 8;
/// What clients name the classes by.
const FAMILIES: [&str; CLASSES] = [
    "family0", "family1", "family2", "family3", "family4", "family5", "family6", "family7",
];
/// Endpoints, and exact lanes of each class: 8 ranks of each of 32 workers.
pub const ENDPOINTS: u64 = WORKERS * RANKS as u64;
const WORKERS: u64 = 32;
const RANKS: u32 = 8;
/// The smallest and the largest request, in tokens.
const TOKENS_MIN: u32 = 64;
const TOKENS_MAX: u32 = 4_159;
/// Live requests.
pub const SLOTS: usize = 1 << 14;
/// Records of every ring.
const RING: usize = 1 << 10;

/// When an endpoint takes no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Never: the threshold is out of reach. Loads are kept and compared all the same.
    Open,
    /// While one request prefills there: its lanes shut at each dispatch and open at each
    /// `prefill_done`, and a backlog waits in them.
    OneAtATime,
}

/// Which engine.
#[derive(Clone, Copy, Debug)]
pub struct Rig {
    /// The order of all lanes.
    pub order: OrderPolicy,
    /// When endpoints are busy.
    pub gate: Gate,
    /// Ingress shards; there is one egress shard.
    pub ingress_shards: usize,
    /// How the arbiter's thread waits.
    pub idle: Idle,
}

impl Rig {
    /// In arrival order, never busy, one ingress shard, an arbiter that spins.
    pub const USUAL: Self = Self {
        order: OrderPolicy::Fcfs,
        gate: Gate::Open,
        ingress_shards: 1,
        idle: Idle::Spin,
    };

    /// The policy: 8 classes with quanta from 1,024 to 8,192; requests wait for overloaded workers.
    ///
    /// # Panics
    /// Never: it is fixed.
    #[must_use]
    pub fn profile(&self) -> Profile {
        let threshold = match self.gate {
            Gate::Open => 1 << 62,
            Gate::OneAtATime => 0,
        };
        let class = |index: usize| {
            let quantum = 1_024 * (index as u64 + 1);
            let mut class =
                ClassPolicy::matrix(&format!("class{index}"), FAMILIES[index], 0, quantum);
            class.order = self.order;
            class.prefill_busy_threshold = Some(threshold);
            class
        };
        let buckets = vec![Bucket::new(0, "all")];
        let classes = (0..CLASSES).map(class).collect();
        Profile::build(ProfileSpec::new(FAMILIES[0], buckets, classes))
            .expect("the policy is valid")
            .with_overload_action(OverloadAction::Hold)
    }

    /// What the classes are called, by index.
    pub fn class_names() -> impl Iterator<Item = String> {
        (0..CLASSES).map(|index| format!("class{index}"))
    }

    /// The engine's builder, all workers known.
    pub fn builder(&self, cores: Cores) -> Builder {
        let placement = Placement {
            arbiter: cores.arbiter,
            ..Placement::default()
        };
        let builder = Engine::builder(self.profile())
            .idle(self.idle)
            .ingress_shards(self.ingress_shards)
            .slots(SLOTS)
            .ring(RING)
            .dispatch_ring(RING)
            // Two records a life.
            .feedback_ring(2 * RING)
            .placement(placement);
        workers().fold(builder, Builder::worker)
    }
}

/// All workers.
pub fn workers() -> impl Iterator<Item = Worker> {
    (0..WORKERS).map(|id| Worker {
        ranks: RANKS,
        ..Worker::new(id)
    })
}

/// Requests drawn beforehand: class, endpoint and cost uniform, each pinned to its endpoint. Clones share
/// the table.
#[derive(Clone, Debug)]
pub struct Asks {
    table: Arc<[Ask]>,
    next: usize,
    pinned: bool,
}

#[derive(Clone, Copy, Debug)]
struct Ask {
    family: &'static str,
    pin: Endpoint,
    tokens: u32,
}

impl Default for Asks {
    /// Those of a fixed stream, from its beginning.
    fn default() -> Self {
        let mut stream = Stream::new(TOKENS_MAX + 1 - TOKENS_MIN, 0, 0);
        let mut ask = || {
            let draw = stream.draw();
            let number = u64::from(draw.number);
            let lane = number % ENDPOINTS;
            Ask {
                family: FAMILIES[(number / ENDPOINTS) as usize % CLASSES],
                pin: Endpoint::new(lane / u64::from(RANKS), draw.number % RANKS),
                tokens: TOKENS_MIN - 1 + draw.tokens,
            }
        };
        Self {
            table: (0..Stream::LEN).map(|_| ask()).collect(),
            next: 0,
            pinned: true,
        }
    }
}

impl Asks {
    /// The same requests, for whichever endpoint the engine chooses.
    #[must_use]
    pub fn unpinned(self) -> Self {
        Self {
            pinned: false,
            ..self
        }
    }

    /// The same requests from another one on: far from those of other numbers.
    #[must_use]
    pub fn from(&self, number: usize) -> Self {
        Self {
            table: Arc::clone(&self.table),
            next: number * 1_009,
            pinned: self.pinned,
        }
    }

    /// The next one, with a payload.
    #[inline]
    pub fn ask<P>(&mut self, payload: P) -> Request<'static, P> {
        let ask = self.table[self.next % Stream::LEN];
        self.next += 1;
        Request {
            family: Some(ask.family),
            pin: self.pinned.then_some(ask.pin),
            ..Request::new(ask.tokens, payload)
        }
    }
}

/// What the arbiter's thread did between two readings of its statistics.
#[derive(Clone, Copy, Debug)]
pub struct CoreLoad {
    /// The part of its time in turns that did something, 0 to 1.
    pub busy: f64,
    /// Dispatches of a turn, on average over all turns that did something or not.
    pub dispatches_a_turn: f64,
}

impl CoreLoad {
    /// From an earlier and a later reading.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts and spans stay far below 2^53"
    )]
    pub fn between(earlier: &CoreSnapshot, later: &CoreSnapshot) -> Self {
        let busy = (later.busy_ns - earlier.busy_ns) as f64;
        let idle = (later.idle_ns - earlier.idle_ns) as f64;
        let turns = (later.turns - earlier.turns) as f64;
        Self {
            busy: busy / (busy + idle).max(1.0),
            dispatches_a_turn: (later.dispatches - earlier.dispatches) as f64 / turns.max(1.0),
        }
    }
}
