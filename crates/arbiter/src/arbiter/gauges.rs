//! What a metrics board copies out, without allocation.

use crate::arbiter::Arbiter;
use crate::slab::Stage;
use crate::{ClassGauges, ClassIndex, EndpointGauges, EndpointIndex, Nanos, SlotIndex};

impl<P> Arbiter<P> {
    /// Where the class at a place of the profile in force stands in the tables; `None` if the profile
    /// has fewer. O(1).
    #[must_use]
    pub fn class_index(&self, class: usize) -> Option<ClassIndex> {
        self.class_of.get(class).copied().map(ClassIndex)
    }

    /// The figures of a class; `None` for a place that is not in use. O(1).
    #[must_use]
    pub fn class_gauges(&self, index: ClassIndex) -> Option<ClassGauges> {
        let class = self.classes.get(index.at()).filter(|class| class.in_use)?;
        let node = self.ring.node(index.at());
        let workers = self.endpoints.worker_count();
        Some(ClassGauges {
            waiting: class.usage[0],
            raw_isl_tokens: class.usage[1],
            cached_tokens: class.usage[2],
            outstanding: class.outstanding,
            deficit: node.deficit,
            quantum: node.quantum,
            limits: [0, 1, 2].map(|kind| class.effective_limit(kind, workers)),
            counters: class.counters,
            draining: class.draining,
            turn_open: self.is_exact && node.open,
        })
    }

    /// How far the tables of endpoints were ever used: all numbers in use are below. O(1).
    #[must_use]
    pub const fn endpoint_reach(&self) -> u32 {
        self.endpoints.reach()
    }

    /// The figures of a known endpoint; `None` for a number that is none. O(log workers).
    #[must_use]
    pub fn endpoint_gauges(&self, index: EndpointIndex) -> Option<EndpointGauges> {
        if index.0 >= self.endpoints.reach() {
            return None;
        }
        let slot = Some(self.endpoints.slot(index.0)).filter(|slot| slot.known)?;
        let worker = self.endpoints.worker(slot.endpoint.worker)?;
        Some(EndpointGauges {
            endpoint: slot.endpoint,
            prefill_tokens: slot.load(),
            active: u64::from(slot.active),
            dispatched: slot.dispatched,
            charged_tokens: slot.charged_tokens,
            available: worker.available,
            overloaded: worker.overloaded,
            shut: self.gates.is_shut(index.0) || self.gates.is_group_shut(index.0),
        })
    }

    /// Events that found nothing to do (S9.3).
    #[must_use]
    pub const fn stale_events(&self) -> u64 {
        self.stale_events
    }

    /// Looks at `budget` slots from `from`, and lowers `oldest`, by class, to the submission of each
    /// waiting request that was submitted before. Where to go on; slot 0 after the last. Whole passes
    /// find who has waited longest. O(budget).
    ///
    /// # Panics
    /// If `oldest` has less room than there are classes.
    pub fn oldest_waiting(&self, from: SlotIndex, budget: u32, oldest: &mut [Nanos]) -> SlotIndex {
        let end = from.0.saturating_add(budget).min(self.capacities.slots);
        for slot in from.0..end {
            let entry = &self.slab[slot];
            if entry.stage() == Stage::Waiting {
                let oldest = &mut oldest[entry.class()];
                *oldest = (*oldest).min(Nanos(entry.submitted_at));
            }
        }
        SlotIndex(if end < self.capacities.slots { end } else { 0 })
    }
}
