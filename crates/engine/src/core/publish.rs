//! Figures for the readers of statistics: written by the core alone, read by anybody at any time.
//!
//! Counters of the loop are kept current turn by turn. Classes and endpoints are copied out in slices,
//! a slice each half millisecond while the core turns, and all of them before it sleeps and when it
//! closes. A class's oldest wait is found by passes over the slots, also in slices.

use tollgate_arbiter::{Arbiter, ClassIndex, EndpointIndex, Nanos, SlotIndex};

use super::{Core, TurnReport};
use crate::clock::Clock;
use crate::stats::CoreStats;
use crate::stats::board::ClassRow;
use crate::stats::share::{Backlog, Shares};

/// A selection's time is measured in one turn of so many.
const TURNS_PER_SAMPLE: u64 = 64;
/// How long the core turns between two slices.
const PUBLISH_EVERY: Nanos = Nanos::from_micros(500);
/// How many endpoints one slice copies out.
const ENDPOINTS_PER_SLICE: u32 = 64;
/// How many slots one slice looks at for who has waited longest.
const SLOTS_PER_SLICE: u32 = 256;
/// The same for a core that has nothing else to do.
const SLOTS_PER_IDLE_SLICE: u32 = 4_096;

/// What the core counts of itself, and how far it has come with the rest.
#[derive(Debug)]
pub(super) struct Publisher {
    pub(super) stats: CoreStats,
    turns: u64,
    last_turn: Nanos,
    was_idle: bool,
    /// Models whose oldest waiting requests a sleeping core would show wrong: something happened since
    /// the last pass over their slots began.
    unsettled: usize,
    due: Nanos,
    /// The model whose turn it is, and its endpoint.
    model: usize,
    endpoint: u32,
    models: Vec<Published>,
}

/// One model's passes.
#[derive(Debug)]
struct Published {
    shares: Shares,
    backlogs: Vec<Backlog>,
    /// By class: it is on the board.
    shown: Vec<bool>,
    slot: SlotIndex,
    /// By class: the oldest that the pass at hand has found, and what the last whole pass found.
    found: Vec<Nanos>,
    oldest: Vec<Nanos>,
    /// The pass at hand began after all that happened.
    settles: bool,
}

impl Published {
    /// Begins another pass.
    fn restart(&mut self) {
        self.slot = SlotIndex(0);
        self.found.fill(Nanos::MAX);
    }
}

impl Publisher {
    pub(super) fn new<P>(stats: CoreStats, arbiters: &[Arbiter<P>]) -> Self {
        let published = |arbiter: &Arbiter<P>| {
            let classes = arbiter.capacities().classes as usize;
            Published {
                shares: Shares::new(classes),
                backlogs: vec![Backlog::default(); classes],
                shown: vec![false; classes],
                slot: SlotIndex(0),
                found: vec![Nanos::MAX; classes],
                oldest: vec![Nanos::MAX; classes],
                settles: false,
            }
        };
        Self {
            stats,
            turns: 0,
            last_turn: Nanos(0),
            was_idle: true,
            unsettled: 0,
            due: Nanos(0),
            model: 0,
            endpoint: 0,
            models: arbiters.iter().map(published).collect(),
        }
    }

    pub(super) fn turned(&mut self, now: Nanos, report: &TurnReport) {
        self.turns += 1;
        let span = now.saturating_sub(self.last_turn).0;
        self.last_turn = now;
        let counters = self.stats.counters();
        counters.turns.bump();
        if self.was_idle {
            counters.idle_ns.add(span);
        } else {
            counters.busy_ns.add(span);
        }
        counters.dispatches.add(report.dispatched);
        counters.intake.add(report.intake);
        counters.letters.add(report.letters);
        self.was_idle = report.is_idle();
        if !self.was_idle {
            self.unsettled = self.models.len();
            for model in &mut self.models {
                model.settles = false;
            }
        }
    }

    pub(super) fn is_due(&self, now: Nanos) -> bool {
        now >= self.due
    }

    /// The time, if this turn's selections are to be measured.
    pub(super) fn sample(&self, clock: &Clock) -> Option<Nanos> {
        self.turns
            .is_multiple_of(TURNS_PER_SAMPLE)
            .then(|| clock.now())
    }

    /// So many selections took so long.
    pub(super) fn selected(&mut self, took: Nanos, dispatched: u64) {
        self.stats.selection.record(took.0 / dispatched);
    }

    /// So many dispatches of a lost egress shard were released.
    pub(super) fn abandoned(&mut self, outlet: usize, count: u64) {
        self.stats.counters().egress[outlet].lost.add(count);
    }
}

impl<P> Core<P> {
    /// One slice: the rings, one model's classes, and some of its endpoints and slots.
    pub(super) fn publish(&mut self) {
        self.publisher.due = self.now.saturating_add(PUBLISH_EVERY);
        self.publish_loop();
        let at = self.publisher.model;
        self.look_for_oldest(at, SLOTS_PER_SLICE);
        self.publish_classes(at);
        let from = self.publisher.endpoint;
        let reach = self.models[at].arbiter.endpoint_reach();
        let end = from.saturating_add(ENDPOINTS_PER_SLICE).min(reach);
        self.publish_endpoints(at, from, end);
        self.publisher.endpoint = end;
        if end == reach {
            self.publisher.endpoint = 0;
            self.publisher.model = (at + 1) % self.models.len();
        }
    }

    /// One slice of what must be known before a core that holds requests sleeps; false: all is known.
    pub(super) fn settle_figures(&mut self) -> bool {
        let Some(at) = self.publisher.unsettled.checked_sub(1) else {
            return false;
        };
        let published = &mut self.publisher.models[at];
        if !published.settles {
            published.restart();
            published.settles = true;
        }
        if self.models[at].arbiter.waiting() > 0 {
            self.look_for_oldest(at, SLOTS_PER_IDLE_SLICE);
        }
        if self.publisher.models[at].slot == SlotIndex(0) {
            self.publisher.models[at].settles = false;
            self.publisher.unsettled = at;
        }
        true
    }

    /// A reload is about to give free places to new classes: they start at 0.
    pub(super) fn forget_free_places(&mut self, at: usize) {
        let arbiter = &self.models[at].arbiter;
        let published = &mut self.publisher.models[at];
        for place in 0..published.backlogs.len() {
            let index = u16::try_from(place).map(ClassIndex);
            if index.is_ok_and(|index| arbiter.class_gauges(index).is_none()) {
                published.shares.forget(place);
            }
        }
    }

    /// Everything at once.
    pub(super) fn publish_all(&mut self) {
        self.publisher.due = self.now.saturating_add(PUBLISH_EVERY);
        self.publish_loop();
        for at in 0..self.models.len() {
            let reach = self.models[at].arbiter.endpoint_reach();
            self.publish_classes(at);
            self.publish_endpoints(at, 0, reach);
        }
    }

    fn publish_loop(&mut self) {
        let stale = self.models.iter().map(|model| model.arbiter.stale_events());
        let stale = stale.sum::<u64>() + self.shared.stale_letters();
        let counters = self.publisher.stats.counters();
        counters.stale.set(stale);
        counters.parks.set(self.sleeper.sleeps());
        for (len, inlet) in counters.ingress_ring_len.iter().zip(&self.inlets) {
            len.set(inlet.ring.slots() as u64);
        }
        for (at, outlet) in self.hall.outlets.iter().enumerate() {
            let shown = &counters.egress[at];
            shown.put.set(outlet.put());
            shown.outbox_len.set(self.hall.outbox.len(at) as u64);
            shown.outboxed.set(outlet.outboxed);
            shown.reopenings.set(outlet.reopenings);
        }
    }

    fn look_for_oldest(&mut self, at: usize, slots: u32) {
        let published = &mut self.publisher.models[at];
        let arbiter = &self.models[at].arbiter;
        published.slot = arbiter.oldest_waiting(published.slot, slots, &mut published.found);
        if published.slot == SlotIndex(0) {
            std::mem::swap(&mut published.found, &mut published.oldest);
            published.restart();
        }
    }

    fn publish_classes(&mut self, at: usize) {
        let Self {
            models, publisher, ..
        } = self;
        let arbiter = &models[at].arbiter;
        let Publisher {
            stats,
            models: published,
            ..
        } = publisher;
        let Published {
            shares,
            backlogs,
            shown,
            oldest,
            ..
        } = &mut published[at];
        for (place, backlog) in (0..).zip(backlogs.iter_mut()) {
            let gauges = arbiter.class_gauges(ClassIndex(place));
            *backlog = gauges.map_or(Backlog::default(), |gauges| Backlog {
                waiting: gauges.waiting,
                charged_tokens: gauges.counters.charged_tokens,
                quantum: gauges.quantum,
            });
        }
        shares.step(backlogs);
        for place in 0..backlogs.len() {
            let Ok(index) = u16::try_from(place) else {
                break;
            };
            let row = arbiter.class_gauges(ClassIndex(index)).map(|gauges| {
                let oldest_submitted_at = oldest[place];
                ClassRow {
                    gauges,
                    oldest_submitted_at,
                    share: shares.of(place),
                }
            });
            let was_shown = std::mem::replace(&mut shown[place], row.is_some());
            if row.is_none() && was_shown {
                shares.forget(place);
            }
            if row.is_some() || was_shown {
                stats.publish_class(at, ClassIndex(index), row.as_ref());
            }
        }
    }

    fn publish_endpoints(&mut self, at: usize, from: u32, end: u32) {
        for number in from..end {
            let index = EndpointIndex(number);
            let gauges = self.models[at].arbiter.endpoint_gauges(index);
            self.publisher
                .stats
                .publish_endpoint(at, index, gauges.as_ref());
        }
    }
}
