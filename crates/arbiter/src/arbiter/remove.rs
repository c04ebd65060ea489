//! Removal without service: cancel, sweep, credit cuts, impatience (S5.5, S6.6, S7.2, S11.2).

use crate::arbiter::Arbiter;
use crate::order::{LaneStatus, NONE, slot_of};
use crate::slab::{Entry, Stage};
use crate::{ClassCounters, ClassIndex, Event, LimitKind, Outcome, Rejection, Sink, Stale, Ticket};

impl ClassCounters {
    pub(super) const fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Rejected(rejection) => self.rejected[rejection.kind as usize] += 1,
            Outcome::Expired => self.expired += 1,
            Outcome::Cancelled => self.cancelled += 1,
            Outcome::Failed(reason) => self.failed[reason as usize] += 1,
            Outcome::ShuttingDown => self.shutting_down += 1,
        }
    }
}

impl<P> Arbiter<P> {
    /// Cancels a waiting request (S11.2). O(log n + log L).
    ///
    /// # Errors
    /// [`Stale`] if the ticket's request does not wait; nothing is touched.
    pub fn cancel(&mut self, ticket: Ticket, sink: &mut impl Sink<P>) -> Result<(), Stale> {
        if self
            .slab
            .find(ticket)
            .is_none_or(|entry| entry.stage() != Stage::Waiting)
        {
            return Err(self.stale());
        }
        self.remove_waiting(ticket.slot.0, Outcome::Cancelled, sink);
        self.settle_cuts();
        self.retire_drained();
        Ok(())
    }

    pub(super) fn sweep_all(&mut self, sink: &mut impl Sink<P>) {
        let mut unbounded = u64::MAX;
        self.sweep(&mut unbounded, sink);
    }

    /// Sweeps, where there is anything to do.
    #[inline(always)]
    pub(super) fn sweep(&mut self, budget: &mut u64, sink: &mut impl Sink<P>) {
        if self.has_unswept() || !self.cuts.is_empty() {
            self.sweep_due(budget, sink);
        }
    }

    /// The sweep of S5.5, as far as `budget` reaches: expiry, then failures in rounds, then the
    /// credit cuts of the whole.
    fn sweep_due(&mut self, budget: &mut u64, sink: &mut impl Sink<P>) {
        while let Some((deadline, slot)) = self.deadlines.first() {
            if deadline > self.now.0 || *budget == 0 {
                break;
            }
            *budget -= 1;
            self.remove_waiting(slot, Outcome::Expired, sink);
        }
        while self.doomed > 0 && *budget > 0 {
            self.fail_round(budget, sink);
        }
        self.settle_cuts();
    }

    #[inline]
    pub(super) fn has_unswept(&self) -> bool {
        self.doomed > 0
            || self
                .deadlines
                .first()
                .is_some_and(|(deadline, _)| deadline <= self.now.0)
    }

    /// Fails the doomed heads of all lanes, classes in table order; a head that moves up is judged
    /// by the next round.
    fn fail_round(&mut self, budget: &mut u64, sink: &mut impl Sink<P>) {
        for at in 0..self.table.len() {
            let class = self.table[at] as usize;
            if self.lanes.shared(class).status == LaneStatus::Doomed && *budget > 0 {
                *budget -= 1;
                self.fail_head(class, NONE, sink);
            }
            if self.classes[class].doomed_lanes == 0 {
                continue;
            }
            for word in 0..self.doomed_exact.words_per_row() {
                let spared = self.overloaded_exact.row(class)[word] & self.gates.shut_word();
                let mut lanes = self.doomed_exact.row(class)[word] & !spared;
                while lanes != 0 && *budget > 0 {
                    let number = index32(word * 64) + lanes.trailing_zeros();
                    lanes &= lanes - 1;
                    *budget -= 1;
                    self.fail_head(class, number, sink);
                }
            }
        }
    }

    fn fail_head(&mut self, class: usize, pin: u32, sink: &mut impl Sink<P>) {
        let (head, verdict) = if pin == NONE {
            (self.lanes.shared(class).head, self.judge_shared(class))
        } else {
            let lane = self
                .lanes
                .exact(class, pin)
                .expect("a doomed lane has entries");
            let head = self.lanes.get(lane).head;
            (head, self.judge_exact(class, pin, slot_of(head)))
        };
        let reason = verdict.expect_err("a doomed head can run nowhere");
        self.remove_waiting(slot_of(head), Outcome::Failed(reason), sink);
    }

    /// Ends a waiting request without service.
    pub(super) fn remove_waiting(&mut self, slot: u32, outcome: Outcome, sink: &mut impl Sink<P>) {
        let entry = self.slab[slot];
        let class = entry.class();
        let index = super::settle::index16(class);
        let payload = self.slab.take_payload(slot);
        self.leave_lane(slot, &entry);
        let settings = &mut self.classes[class];
        settings.counters.count(outcome);
        let is_empty = settings.waiting() == 0;
        if self.ring.forget(class, slot) && !settings.is_cut {
            settings.is_cut = true;
            self.cuts.push(index);
        }
        if is_empty {
            self.settle_emptied(index);
        }
        self.free_slot(slot);
        let ticket = entry.ticket(slot);
        sink.event(Event::Ended {
            ticket,
            class: ClassIndex(index),
            outcome,
            payload,
        });
    }

    /// Takes a waiting request out of its lane, and of everything that counts waiting requests.
    #[inline(always)]
    pub(super) fn leave_lane(&mut self, slot: u32, entry: &Entry) {
        let class = entry.class();
        let usage = &mut self.classes[class].usage;
        usage[0] -= 1;
        usage[1] -= u64::from(entry.raw);
        usage[2] -= u64::from(entry.cached);
        self.waiting -= 1;
        if entry.is_watched() {
            self.unwatch(slot, entry);
        }
        let Self { slab, lanes, .. } = self;
        let lane = lanes.lane_of(class, entry.pin);
        if entry.pin != NONE && lanes.dissolve(lane, slot) {
            self.settle_dissolved(class, entry.pin, lane);
            return;
        }
        let head = lanes.remove(lane, slot, entry.structure(), |slot| slab.rank(slot));
        if let Some(head) = head {
            self.settle_head(class, entry.pin, lane, head);
        }
    }

    /// Takes a waiting request out of the deadlines and the list of the impatient.
    fn unwatch(&mut self, slot: u32, entry: &Entry) {
        let order = &mut self.lanes.order;
        if entry.has_deadline() {
            self.deadlines.forget(slot, &order.seq);
            self.watched_deadlines -= 1;
        }
        if entry.impatience().is_some() {
            let place = std::mem::replace(&mut order.links[slot as usize].c, NONE);
            if place != NONE {
                self.impatient.swap_remove(place as usize);
                if let Some(&moved) = self.impatient.get(place as usize) {
                    order.links[moved as usize].c = place;
                }
            }
        }
    }

    /// A request that waited has ended: its slot and all that it refers to are free.
    #[inline(always)]
    fn free_slot(&mut self, slot: u32) {
        let record = &mut self.slab[slot];
        let entry = *record;
        record.set_stage(Stage::Vacant);
        if entry.pin != NONE {
            self.endpoints.release(entry.pin);
        }
        if entry.extension != NONE || entry.attempt > 0 {
            self.free_parts(slot, &entry);
        }
    }

    /// Frees a request's variable parts, and what it remembers of hand-overs that failed.
    pub(super) fn free_parts(&mut self, slot: u32, entry: &Entry) {
        if entry.extension != NONE {
            self.taints
                .release(self.extensions.header(entry.extension).taints);
            self.extensions.release(entry.extension);
        }
        if entry.attempt > 0 {
            let stride = self.capacities.attempts as usize - 1;
            for place in &mut self.avoided[slot as usize * stride..][..stride] {
                let Some(number) = std::mem::take(place).checked_sub(1) else {
                    break;
                };
                self.endpoints.release(number);
            }
        }
    }

    /// Cuts the credit of the classes whose remembered entry left during this event (S6.6).
    #[inline]
    pub(super) fn settle_cuts(&mut self) {
        if !self.cuts.is_empty() {
            self.cut_credit();
        }
    }

    #[cold]
    fn cut_credit(&mut self) {
        self.refresh();
        while let Some(class) = self.cuts.pop() {
            let class = class as usize;
            self.classes[class].is_cut = false;
            let node = self.ring.node(class);
            let kept = node.quantum.saturating_add(u64::from(node.cost));
            let deficit = node.deficit.min(kept);
            self.ring.set_deficit(class, deficit);
        }
    }

    /// Refuses who may not wait and is no dispatchable head, all judged at once (S7.2).
    pub(super) fn refuse_impatient(&mut self, sink: &mut impl Sink<P>) {
        if self.impatient.is_empty() || self.is_closing() {
            return;
        }
        let refused = self.gather_impatient();
        let workers = self.endpoints.worker_count();
        for at in 0..refused {
            let slot = self.impatient[at];
            let kind = self.slab[slot].impatience().unwrap_or(LimitKind::MayWait);
            let rejection = Rejection {
                kind,
                current: 0,
                limit: 0,
                workers,
            };
            self.remove_waiting(slot, Outcome::Rejected(rejection), sink);
        }
        self.impatient.drain(..refused);
        for (place, &slot) in (0..).zip(&self.impatient) {
            self.lanes.order.links[slot as usize].c = place;
        }
        self.settle_cuts();
    }

    /// Moves those to refuse to the front of the list, in class order, then intake order, and
    /// detaches them from it; how many they are.
    fn gather_impatient(&mut self) -> usize {
        let mut refused = 0;
        for at in 0..self.impatient.len() {
            if !self.is_dispatchable_head(self.impatient[at]) {
                self.impatient.swap(refused, at);
                refused += 1;
            }
        }
        let Self {
            impatient,
            slab,
            lanes,
            table,
            ..
        } = self;
        let seq = &lanes.order.seq;
        impatient[..refused].sort_unstable_by_key(|&slot| {
            let class = slab[slot].class();
            let place = table.iter().position(|&other| other as usize == class);
            (place, seq[slot as usize])
        });
        for &slot in &impatient[..refused] {
            lanes.order.links[slot as usize].c = NONE;
        }
        refused
    }

    fn is_dispatchable_head(&self, slot: u32) -> bool {
        let entry = &self.slab[slot];
        let class = entry.class();
        if entry.pin == NONE {
            let lane = self.lanes.shared(class);
            return lane.head == entry.rank && lane.status == LaneStatus::Open;
        }
        let lane = self.lanes.exact(class, entry.pin);
        lane.is_some_and(|lane| self.lanes.get(lane).head == entry.rank)
            && self.gates.is_open(class, entry.pin)
            && !self.gates.is_group_shut(entry.pin)
            && !self.doomed_exact.get(class, entry.pin)
    }

    pub(super) fn stale(&mut self) -> Stale {
        self.stale_events += 1;
        Stale
    }
}

fn index32(index: usize) -> u32 {
    u32::try_from(index).expect("endpoints are bounded by ENDPOINTS_MAX")
}
