//! What a loop needs that turns an arbiter for ever: time without a sweep, what is due next, a drain
//! that ends in a turn, and the releases of what an egress lost.

use crate::arbiter::Arbiter;
use crate::slab::Stage;
use crate::{Nanos, SlotIndex, Ticket};

impl<P> Arbiter<P> {
    /// Sets the time, which never goes back, and nothing else: what it makes due happens in the next
    /// [`turn`](Self::turn), or before the next selection. O(1).
    pub fn set_time(&mut self, now: Nanos) {
        self.now = self.now.max(now);
    }

    /// When something is due by itself: the earliest deadline of a waiting request, or the end of a
    /// drain while requests wait. O(1).
    #[must_use]
    pub fn next_deadline(&self) -> Option<Nanos> {
        let expiry = self.deadlines.first().map(|(deadline, _)| Nanos(deadline));
        let drain_end = self.drain_deadline.filter(|_| self.waiting > 0);
        expiry.into_iter().chain(drain_end).min()
    }

    /// As [`stop`](Self::stop), but ends nothing by itself: the next turn does, once the drain is over
    /// (S11.3). O(1).
    pub fn begin_drain(&mut self, drain: Nanos) {
        let deadline = self.now.saturating_add(drain);
        self.drain_deadline = Some(
            self.drain_deadline
                .map_or(deadline, |old| old.min(deadline)),
        );
    }

    /// Completes what was dispatched to the workers of an egress group, for an egress that is lost:
    /// looks at `budget` slots from `from`; `freed` hears of each slot that is free again. Where to go
    /// on, or `None` when the last slot was looked at. O(budget + what is completed).
    pub fn abandon_egress(
        &mut self,
        group: u16,
        from: SlotIndex,
        budget: u32,
        mut freed: impl FnMut(Ticket),
    ) -> Option<SlotIndex> {
        let end = from.0.saturating_add(budget).min(self.capacities.slots);
        for slot in from.0..end {
            let entry = self.slab[slot];
            if entry.stage() != Stage::Dispatched {
                continue;
            }
            let number = self.lanes.order.links[slot as usize].a;
            let worker = self.endpoints.slot(number).endpoint.worker;
            if self.capacities.egress_group(worker) == group {
                let ticket = entry.ticket(slot);
                if self.complete(ticket, entry.attempt).is_ok() {
                    freed(ticket);
                }
            }
        }
        (end < self.capacities.slots).then_some(SlotIndex(end))
    }
}
