//! The writing ends of the counters: one for the core, one for each shard.
//!
//! Every counter has one writer, which changes it by a load and a store; the writing ends are not
//! `Clone` and count by `&mut self`. Counters say nothing about each other, so all accesses are
//! relaxed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crossbeam::utils::CachePadded;
use tollgate_arbiter::{ClassIndex, EndpointGauges, EndpointIndex, Nanos};

use super::board::{Board, ClassRow};
use super::histogram::Recorder;

/// A number with one writer at a time.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// One more.
    #[inline]
    pub(crate) fn bump(&self) {
        self.add(1);
    }

    /// `count` more; wraps at 2^64.
    #[inline]
    pub(crate) fn add(&self, count: u64) {
        self.set(self.value().wrapping_add(count));
    }

    /// From now on it is `value`.
    #[inline]
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// What it is.
    #[inline]
    pub(crate) fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// What the core counts; [`CoreSnapshot`](super::CoreSnapshot) says what each is.
#[derive(Debug, Default)]
pub(crate) struct CoreCounters {
    pub(crate) turns: Counter,
    pub(crate) busy_ns: Counter,
    pub(crate) idle_ns: Counter,
    pub(crate) parks: Counter,
    pub(crate) dispatches: Counter,
    pub(crate) intake: Counter,
    pub(crate) letters: Counter,
    pub(crate) stale: Counter,
    /// By ingress shard: records in its ring.
    pub(crate) ingress_ring_len: Box<[Counter]>,
    /// By egress shard.
    pub(crate) egress: Box<[OutletCounters]>,
}

/// What the core counts of the way to one egress shard.
#[derive(Debug, Default)]
pub(crate) struct OutletCounters {
    /// Deliveries that were put into the ring; 0 once nobody takes any more out.
    pub(crate) put: Counter,
    pub(crate) outbox_len: Counter,
    pub(crate) outboxed: Counter,
    pub(crate) reopenings: Counter,
    pub(crate) lost: Counter,
}

/// The core's writing end.
#[derive(Debug)]
pub(crate) struct CoreStats {
    pub(super) counters: Arc<CachePadded<CoreCounters>>,
    pub(super) boards: Arc<[Board]>,
    /// What one selection took, in nanoseconds; a sample of them.
    pub(crate) selection: Recorder,
}

impl CoreStats {
    /// The counters, to be written.
    #[inline]
    pub(crate) fn counters(&mut self) -> &CoreCounters {
        &self.counters
    }

    /// Shows a class of a model, or that its place is free.
    ///
    /// # Panics
    /// If the shape that the statistics were created with has no such place.
    pub(crate) fn publish_class(
        &mut self,
        model: usize,
        index: ClassIndex,
        row: Option<&ClassRow>,
    ) {
        self.boards[model].publish_class(index, row);
    }

    /// Shows an endpoint of a model, or that its place is free.
    ///
    /// # Panics
    /// If the shape that the statistics were created with has no such place.
    pub(crate) fn publish_endpoint(
        &mut self,
        model: usize,
        index: EndpointIndex,
        gauges: Option<&EndpointGauges>,
    ) {
        self.boards[model].publish_endpoint(index, gauges);
    }
}

/// What an ingress shard counts; [`IngressSnapshot`](super::IngressSnapshot) says what each is.
#[derive(Debug, Default)]
pub(crate) struct IngressCounters {
    pub(super) accepted: Counter,
    pub(super) refused_full: Counter,
    pub(super) refused_closed: Counter,
    pub(super) refused_invalid: Counter,
    pub(super) cancels_by_mail: Counter,
    pub(super) unknown_names: Counter,
}

/// An ingress shard's writing end.
#[derive(Debug)]
pub(crate) struct IngressStats(pub(super) Arc<CachePadded<IngressCounters>>);

impl IngressStats {
    /// `count` requests are on their way to the core.
    #[inline]
    pub(crate) fn accepted(&mut self, count: u64) {
        self.0.accepted.add(count);
    }

    /// A request came back: there was no room.
    pub(crate) fn refused_full(&mut self) {
        self.0.refused_full.bump();
    }

    /// A request came back: the engine takes no more.
    pub(crate) fn refused_closed(&mut self) {
        self.0.refused_closed.bump();
    }

    /// A request came back: it never will be taken.
    pub(crate) fn refused_invalid(&mut self) {
        self.0.refused_invalid.bump();
    }

    /// A cancel went by mail.
    pub(crate) fn cancelled_by_mail(&mut self) {
        self.0.cancels_by_mail.bump();
    }

    /// A request named a class or family that does not exist.
    pub(crate) fn unknown_name(&mut self) {
        self.0.unknown_names.bump();
    }
}

/// What an egress shard counts; [`EgressSnapshot`](super::EgressSnapshot) says what each is.
#[derive(Debug, Default)]
pub(crate) struct EgressCounters {
    pub(super) delivered: Counter,
    pub(super) outcomes: Counter,
    pub(super) returned: Counter,
    pub(super) releases_by_mail: Counter,
}

/// An egress shard's writing end.
#[derive(Debug)]
pub(crate) struct EgressStats {
    pub(super) counters: Arc<CachePadded<EgressCounters>>,
    pub(super) wait: Recorder,
    pub(super) ring: Recorder,
}

impl EgressStats {
    /// A dispatch is handed out `now`.
    #[inline]
    pub(crate) fn dispatched(&mut self, submitted_at: Nanos, dispatched_at: Nanos, now: Nanos) {
        self.counters.delivered.bump();
        self.wait
            .record(dispatched_at.saturating_sub(submitted_at).0);
        self.ring.record(now.saturating_sub(dispatched_at).0);
    }

    /// A fate is handed out.
    #[inline]
    pub(crate) fn ended(&mut self) {
        self.counters.outcomes.bump();
    }

    /// The payload of a requeue that found nothing to do is handed out.
    pub(crate) fn returned(&mut self) {
        self.counters.returned.bump();
    }

    /// Feedback found no room in the ring and went by mail.
    pub(crate) fn released_by_mail(&mut self) {
        self.counters.releases_by_mail.bump();
    }
}
