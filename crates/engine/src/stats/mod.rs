//! What the engine counts and measures.
//!
//! Any thread reads everything at any time through [`Stats`], without a lock and without the help of
//! those who count: an idle or blocked shard holds no reader up, and everything that it counted so
//! far is in every answer. Reading changes nothing, so asking twice loses and doubles nothing.
//!
//! Each number has one writer, the core or the thread of a shard, which counts without a locked
//! instruction. Durations are counted in histograms that any reader may add up.
//!
//! ```
//! use tollgate::policy::Profile;
//! use tollgate::{Engine, Request, Worker};
//!
//! let mut built =
//!     Engine::builder(Profile::synthetic(None)).worker(Worker::new(7)).build::<u64>()?;
//! let stats = built.engine.handles().stats();
//! for id in 0..3 {
//!     built.ingress[0].try_submit(Request::new(512, id)).expect("there is room");
//!     built.egress[0].recv()?;
//! }
//! let read = stats.read();
//! assert_eq!(read.ingress[0].accepted, 3);
//! assert_eq!(read.egress[0].delivered, 3);
//! let wait = &read.egress[0].wait;
//! assert_eq!(wait.histogram.len(), 3);
//! assert!(wait.histogram.value_at_quantile(0.99) >= wait.min_ns);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod board;
mod counters;
mod histogram;
mod record;
pub(crate) mod share;
mod snapshot;

use std::fmt;
use std::sync::Arc;

use crossbeam::utils::CachePadded;
use tollgate_arbiter::{ClassIndex, Nanos};

pub(crate) use self::counters::{CoreStats, EgressStats, IngressStats};
pub use self::snapshot::*;
pub use tollgate_arbiter::{ClassCounters, ClassGauges, EndpointGauges};

use self::board::Board;
use self::counters::{CoreCounters, Counter, EgressCounters, IngressCounters, OutletCounters};
use self::histogram::{HistogramReader, histogram};

/// What there is to count.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    /// The models' names.
    pub(crate) models: Vec<Box<str>>,
    /// Places for classes in each model's tables.
    pub(crate) classes: usize,
    /// Places for endpoints in each model's tables: more than the largest number of one.
    pub(crate) endpoints: usize,
    pub(crate) ingress_shards: usize,
    pub(crate) egress_shards: usize,
    /// Records in an ingress ring.
    pub(crate) ring: usize,
    /// Deliveries in an egress ring.
    pub(crate) dispatch_ring: usize,
}

/// All ends of an engine's statistics: the core's, the ingress shards', the egress shards', and the
/// readers'. `clock` tells the engine's time.
///
/// Writers count through `counters`, measure durations through `histogram`, show classes and endpoints
/// on a `board`, which stands on `record`; `share` compares a class's service with its quantum.
pub(crate) fn create(
    shape: &Shape,
    clock: impl Fn() -> Nanos + Send + Sync + 'static,
) -> (CoreStats, Vec<IngressStats>, Vec<EgressStats>, Stats) {
    let boards = shape.models.iter();
    let boards: Arc<[_]> = boards
        .map(|name| Board::new(name, shape.classes, shape.endpoints))
        .collect();
    let core = Arc::new(CachePadded::new(CoreCounters {
        ingress_ring_len: (0..shape.ingress_shards)
            .map(|_| Counter::default())
            .collect(),
        egress: (0..shape.egress_shards)
            .map(|_| OutletCounters::default())
            .collect(),
        ..CoreCounters::default()
    }));
    let (selection, selection_reader) = histogram();
    let ingress = (0..shape.ingress_shards).map(|_| ingress_ends(shape.ring));
    let (ingress, ingress_readers) = ingress.unzip();
    let egress = (0..shape.egress_shards).map(|_| egress_ends(shape.dispatch_ring));
    let (egress, egress_readers) = egress.unzip();
    let stats = Stats(Arc::new(Readers {
        clock: Box::new(clock),
        boards: Arc::clone(&boards),
        core: Arc::clone(&core),
        selection: selection_reader,
        ingress: ingress_readers,
        egress: egress_readers,
    }));
    let core = CoreStats {
        counters: core,
        boards,
        selection,
    };
    (core, ingress, egress, stats)
}

fn ingress_ends(ring_capacity: usize) -> (IngressStats, IngressReader) {
    let counters = Arc::new(CachePadded::new(IngressCounters::default()));
    let reader = IngressReader {
        counters: Arc::clone(&counters),
        ring_capacity,
    };
    (IngressStats(counters), reader)
}

fn egress_ends(ring_capacity: usize) -> (EgressStats, EgressReader) {
    let counters = Arc::new(CachePadded::new(EgressCounters::default()));
    let (wait, wait_reader) = histogram();
    let (ring, ring_reader) = histogram();
    let reader = EgressReader {
        counters: Arc::clone(&counters),
        wait: wait_reader,
        ring: ring_reader,
        ring_capacity,
    };
    let stats = EgressStats {
        counters,
        wait,
        ring,
    };
    (stats, reader)
}

/// The reading end of an engine's statistics.
///
/// Copies read the same numbers, on any thread, also after the engine is gone.
#[derive(Clone)]
pub struct Stats(Arc<Readers>);

struct Readers {
    clock: Box<dyn Fn() -> Nanos + Send + Sync>,
    boards: Arc<[Board]>,
    core: Arc<CachePadded<CoreCounters>>,
    selection: HistogramReader,
    ingress: Vec<IngressReader>,
    egress: Vec<EgressReader>,
}

struct IngressReader {
    counters: Arc<CachePadded<IngressCounters>>,
    ring_capacity: usize,
}

struct EgressReader {
    counters: Arc<CachePadded<EgressCounters>>,
    wait: HistogramReader,
    ring: HistogramReader,
    ring_capacity: usize,
}

impl Stats {
    /// Everything that is counted and measured, now. Never waits for the core or for a shard.
    ///
    /// # Complexity
    /// A pass over all places for classes and endpoints, and over the buckets of two histograms for
    /// each egress shard. Allocates.
    #[must_use]
    pub fn read(&self) -> Snapshot {
        let readers = &*self.0;
        let now = (readers.clock)();
        Snapshot {
            models: readers
                .boards
                .iter()
                .map(|board| model_snapshot(board, now))
                .collect(),
            core: core_snapshot(&readers.core, &readers.selection),
            ingress: readers
                .ingress
                .iter()
                .zip(&readers.core.ingress_ring_len)
                .map(|(reader, ring_len)| reader.read(ring_len))
                .collect(),
            egress: readers
                .egress
                .iter()
                .zip(&readers.core.egress)
                .map(|(reader, outlet)| reader.read(outlet))
                .collect(),
        }
    }

    /// Names classes of a model by their places; places that are not named keep their names. Called
    /// by one thread at a time for each model: the one that loads a policy.
    pub(crate) fn set_names<'a>(
        &self,
        model: usize,
        names: impl IntoIterator<Item = (ClassIndex, &'a str)>,
    ) {
        self.0.boards[model].set_names(names);
    }
}

impl fmt::Debug for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stats")
            .field("models", &self.0.boards.len())
            .field("ingress", &self.0.ingress.len())
            .field("egress", &self.0.egress.len())
            .finish_non_exhaustive()
    }
}

fn model_snapshot(board: &Board, now: Nanos) -> ModelSnapshot {
    let classes = board.classes().into_iter().map(|(index, name, row)| {
        let oldest = if row.gauges.waiting > 0 {
            // Nanos::MAX where none was found yet: a wait of 0.
            now.saturating_sub(row.oldest_submitted_at)
        } else {
            Nanos(0)
        };
        ClassSnapshot {
            index,
            name,
            gauges: row.gauges,
            oldest_wait_ns: oldest.0,
            share: row.share,
        }
    });
    let endpoints = board.endpoints().into_iter();
    ModelSnapshot {
        name: board.name(),
        classes: classes.collect(),
        endpoints: endpoints
            .map(|(index, gauges)| EndpointSnapshot { index, gauges })
            .collect(),
    }
}

fn core_snapshot(core: &CoreCounters, selection: &HistogramReader) -> CoreSnapshot {
    CoreSnapshot {
        turns: core.turns.value(),
        busy_ns: core.busy_ns.value(),
        idle_ns: core.idle_ns.value(),
        parks: core.parks.value(),
        dispatches: core.dispatches.value(),
        intake: core.intake.value(),
        letters: core.letters.value(),
        stale: core.stale.value(),
        selection: timing(selection),
    }
}

impl IngressReader {
    fn read(&self, ring_len: &Counter) -> IngressSnapshot {
        let counters = &self.counters;
        IngressSnapshot {
            accepted: counters.accepted.value(),
            refused_full: counters.refused_full.value(),
            refused_closed: counters.refused_closed.value(),
            refused_invalid: counters.refused_invalid.value(),
            cancels_by_mail: counters.cancels_by_mail.value(),
            unknown_names: counters.unknown_names.value(),
            ring_len: ring_len.value(),
            ring_capacity: self.ring_capacity as u64,
        }
    }
}

impl EgressReader {
    fn read(&self, outlet: &OutletCounters) -> EgressSnapshot {
        let counters = &self.counters;
        // Before what was taken out is read: what is in the ring is told too low rather than too high.
        let put = outlet.put.value();
        let delivered = counters.delivered.value();
        let outcomes = counters.outcomes.value();
        let returned = counters.returned.value();
        EgressSnapshot {
            delivered,
            outcomes,
            returned,
            releases_by_mail: counters.releases_by_mail.value(),
            wait: timing(&self.wait),
            ring: timing(&self.ring),
            // What is handed out was in the ring, but for what the core left beside it when it closed.
            ring_len: put
                .saturating_sub(delivered + outcomes + returned)
                .min(self.ring_capacity as u64),
            ring_capacity: self.ring_capacity as u64,
            outbox_len: outlet.outbox_len.value(),
            outboxed: outlet.outboxed.value(),
            reopenings: outlet.reopenings.value(),
            lost: outlet.lost.value(),
        }
    }
}

fn timing(reader: &HistogramReader) -> Timing {
    let histogram = reader.read();
    let (min_ns, max_ns) = reader.extremes_of(&histogram);
    Timing {
        sum_ns: reader.sum_nanos(),
        min_ns,
        max_ns,
        clamped: reader.clamped(),
        histogram,
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
