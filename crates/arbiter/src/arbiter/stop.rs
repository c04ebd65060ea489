//! Stop: the drain, and the answers at its end (S11.3).
//!
//! What still waits when the drain ends is answered in intake order. Nothing keeps that order while
//! requests are served, so it is made then, in three steps, each of which can be cut into slices:
//!
//! 1. The sweep: who has expired or can run nowhere is told so, for the last time.
//! 2. The waiting slots are gathered into a heap by intake number.
//! 3. The heap is emptied, an answer each.
//!
//! From step 1 on nothing is dispatched and nothing enters a lane; requests may still be cancelled, and
//! step 3 passes over their slots. The heap stands in the list of impatient requests, which has room
//! for every slot and no other use any more.

use crate::arbiter::Arbiter;
use crate::order::NONE;
use crate::slab::Stage;
use crate::{Nanos, Outcome, Sink};

/// How many slots step 2 looks at for one unit of a turn's removals.
const SLOTS_PER_REMOVAL: u32 = 16;

/// How far the answers at a drain's end have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    /// There is no drain, or it has not ended, or step 1 is not done.
    NotGathered,
    /// Step 2; slots below this one are gathered.
    Gathering(u32),
    /// Step 3.
    Answering,
}

impl<P> Arbiter<P> {
    /// Closes for new requests at once. When the drain's deadline is reached, what then still waits
    /// is answered in intake order (S11.3): by this call, if it is reached already, by
    /// [`advance`](Self::advance), or in slices by [`turn`](Self::turn). A later stop may only shorten
    /// the drain.
    pub fn stop(&mut self, drain: Nanos, sink: &mut impl Sink<P>) {
        self.begin_drain(drain);
        self.end_drain_whole(sink);
        self.retire_drained();
    }

    /// As [`stop`](Self::stop), but ends nothing by itself: the next turns do, once the drain is over.
    /// O(1).
    pub fn begin_drain(&mut self, drain: Nanos) {
        let deadline = self.now.saturating_add(drain);
        self.drain_deadline = Some(
            self.drain_deadline
                .map_or(deadline, |old| old.min(deadline)),
        );
    }

    /// Whether the answers at the drain's end have come to step 2: nobody is swept any more, and the
    /// list of impatient requests is the heap.
    pub(super) fn is_closing(&self) -> bool {
        self.closing != Closing::NotGathered
    }

    /// Whether the drain's deadline is reached while requests wait.
    #[inline]
    pub(super) fn is_drain_over(&self) -> bool {
        self.drain_deadline
            .is_some_and(|deadline| deadline <= self.now && self.waiting > 0)
    }

    /// Answers who still waits after the drain's end.
    pub(super) fn end_drain_whole(&mut self, sink: &mut impl Sink<P>) {
        if self.is_drain_over() {
            let mut unbounded = u64::MAX;
            self.end_drain(&mut unbounded, sink);
        }
    }

    /// Answers who still waits after the drain's end, as far as `budget` reaches.
    pub(super) fn end_drain(&mut self, budget: &mut u64, sink: &mut impl Sink<P>) {
        if !self.is_drain_over() {
            return;
        }
        if !self.is_closing() {
            self.sweep(budget, sink);
            if self.has_unswept() {
                return;
            }
            // The impatient are answered like all others now.
            for &slot in &self.impatient {
                self.lanes.order.links[slot as usize].c = NONE;
            }
            self.impatient.clear();
            self.closing = Closing::Gathering(0);
        }
        while let Closing::Gathering(next) = self.closing {
            if *budget == 0 {
                return;
            }
            *budget -= 1;
            self.closing = self.gather_waiting(next);
        }
        while *budget > 0 && self.waiting > 0 {
            *budget -= 1;
            let slot = self.take_earliest();
            if self.slab[slot].stage() == Stage::Waiting {
                self.remove_waiting(slot, Outcome::ShuttingDown, sink);
            }
        }
        self.settle_cuts();
    }

    /// Gathers the waiting ones of some slots from `next` on.
    fn gather_waiting(&mut self, next: u32) -> Closing {
        let end = next
            .saturating_add(SLOTS_PER_REMOVAL)
            .min(self.capacities.slots);
        for slot in next..end {
            if self.slab[slot].stage() == Stage::Waiting {
                self.put_by_intake(slot);
            }
        }
        if end == self.capacities.slots {
            Closing::Answering
        } else {
            Closing::Gathering(end)
        }
    }

    /// Adds a slot to the heap by intake number.
    pub(super) fn put_by_intake(&mut self, slot: u32) {
        let seq = &self.lanes.order.seq;
        let heap = &mut self.impatient;
        let mut place = heap.len();
        heap.push(slot);
        while place > 0 {
            let above = (place - 1) / 2;
            if seq[heap[above] as usize] < seq[slot as usize] {
                break;
            }
            heap.swap(above, place);
            place = above;
        }
    }

    /// Takes the slot with the lowest intake number out of the heap.
    fn take_earliest(&mut self) -> u32 {
        let seq = &self.lanes.order.seq;
        let heap = &mut self.impatient;
        let earliest = heap.swap_remove(0);
        let mut place = 0;
        loop {
            let earlier = |a: usize, b: usize| seq[heap[a] as usize] < seq[heap[b] as usize];
            let mut child = 2 * place + 1;
            if child >= heap.len() {
                return earliest;
            }
            if child + 1 < heap.len() && earlier(child + 1, child) {
                child += 1;
            }
            if earlier(place, child) {
                return earliest;
            }
            heap.swap(place, child);
            place = child;
        }
    }
}
