//! Gate: what stands between each lane's head and its dispatch, kept current by events (S5).

use crate::arbiter::Arbiter;
use crate::bits::BitRows;
use crate::class::ShutAt;
use crate::endpoints::Endpoints;
use crate::forest::LaneHead;
use crate::gate::{Band, Counts};
use crate::order::{LaneStatus, NO_KEY, NONE, Rank, slot_of};
use crate::selector::Activity;
use crate::{Endpoint, FailReason, WorkerId};

impl<P> Arbiter<P> {
    /// Looks at a class's candidate again before the next pick.
    #[inline]
    pub(super) fn mark_dirty(&mut self, class: usize) {
        let is_dirty = &mut self.classes[class].is_dirty;
        if !*is_dirty {
            *is_dirty = true;
            self.dirty.push(index16(class));
        }
    }

    /// Brings every candidate up to date.
    #[inline(always)]
    pub(super) fn refresh(&mut self) {
        while let Some(class) = self.dirty.pop() {
            self.refresh_class(class as usize);
        }
    }

    #[inline(always)]
    fn refresh_class(&mut self, class: usize) {
        self.classes[class].is_dirty = false;
        let shut = self.gates.shut_word();
        let exact = self.forest.best(class, shut, &self.lanes.order);
        let shared = self.lanes.shared(class);
        let candidate = if shared.status == LaneStatus::Open {
            self.lanes.order.best(shared.head, exact)
        } else {
            exact
        };
        self.candidates[class] = candidate;
        let slot = slot_of(candidate);
        let cost = if candidate == NO_KEY {
            0
        } else {
            self.slab[slot].snapshot().cost()
        };
        self.ring.set_candidate(class, slot, cost);
    }

    /// After a lane got another head, or lost its last entry.
    #[inline]
    pub(super) fn settle_head(&mut self, class: usize, pin: u32, lane: u32, head: Rank) {
        if pin == NONE {
            self.settle_shared_head(class, head);
        } else {
            self.settle_exact_head(class, pin, lane, head);
        }
    }

    /// After a class's shared lane got another head. Where neither it nor the one before has requirements
    /// of its own, the lane stays as it is.
    #[inline]
    fn settle_shared_head(&mut self, class: usize, head: Rank) {
        let is_plain = head != NO_KEY
            && self.classes[class].masked_head == NONE
            && self.slab[slot_of(head)].extension == NONE;
        if is_plain && self.lanes.shared(class).status == LaneStatus::Open {
            self.mark_dirty(class);
        } else {
            self.settle_shared(class, false);
        }
    }

    /// After anything that a class's shared head depends on changed; `remask` where the set of
    /// endpoints that may run a constrained head may have changed as well.
    #[inline(never)]
    pub(super) fn settle_shared(&mut self, class: usize, remask: bool) {
        self.settle_mask(class, self.lanes.shared(class).head, remask);
        self.settle_shared_status(class);
        self.mark_dirty(class);
    }

    /// After only the busy bits changed.
    #[inline(always)]
    pub(super) fn settle_shared_status(&mut self, class: usize) {
        let lane = self.lanes.shared(class);
        let before = lane.status;
        let status = if lane.head == NO_KEY {
            LaneStatus::Shut
        } else {
            match self.judge_shared(class) {
                Ok(true) => LaneStatus::Open,
                Ok(false) => LaneStatus::Shut,
                Err(_) => LaneStatus::Doomed,
            }
        };
        if status != before {
            let is_doomed = |status| u32::from(status == LaneStatus::Doomed);
            self.doomed = self.doomed + is_doomed(status) - is_doomed(before);
            self.lanes.set_status(u32::from(index16(class)), status);
            self.mark_dirty(class);
        }
    }

    #[inline(always)]
    fn settle_mask(&mut self, class: usize, head: Rank, remask: bool) {
        if head == NO_KEY || self.slab[slot_of(head)].extension == NONE {
            self.classes[class].masked_head = NONE;
        } else {
            self.write_head_mask(class, slot_of(head), remask);
        }
    }

    fn write_head_mask(&mut self, class: usize, slot: u32, remask: bool) {
        let header = Some(self.extensions.header(self.slab[slot].extension))
            .filter(|header| header.is_constrained());
        let Some(header) = header else {
            self.classes[class].masked_head = NONE;
            return;
        };
        if self.classes[class].masked_head != slot || remask {
            let Self {
                gates,
                endpoints,
                taint_rows,
                extensions,
                ..
            } = self;
            let allowed = header.limited.then(|| extensions.allowed(&header));
            write_mask(
                gates.mask_mut(class),
                endpoints,
                taint_rows,
                header.taints,
                allowed,
            );
            let counts = self.gates.count_masked(class, class);
            let class = &mut self.classes[class];
            class.masked_head = slot;
            class.masked_counts = counts;
            class.masked_shut_at = class.shut_at(counts);
        }
    }

    /// Whether the shared head of `class` may go (true), waits (false), or can run nowhere.
    pub(super) fn judge_shared(&self, class: usize) -> Result<bool, FailReason> {
        let class = &self.classes[class];
        if class.masked_head == NONE {
            self.judge_pool(class.counts, class.shut_at)
        } else {
            self.judge_pool(class.masked_counts, class.masked_shut_at)
        }
    }

    /// The same for any pool (S5.3, S5.4).
    pub(super) fn judge_pool(&self, counts: Counts, shut_at: ShutAt) -> Result<bool, FailReason> {
        if self.endpoints.worker_count() == 0 {
            Err(FailReason::NoWorkers)
        } else if counts.available == 0 {
            Err(FailReason::NoEligibleWorker)
        } else if counts.eligible > 0 {
            Ok(counts.busy_eligible < shut_at.eligible)
        } else if counts.busy_available < shut_at.available {
            Err(FailReason::AllEligibleOverloaded)
        } else {
            Ok(false)
        }
    }

    /// After anything that an exact lane depends on changed.
    pub(super) fn settle_exact(&mut self, class: usize, number: u32) {
        let Some(lane) = self.lanes.exact(class, number) else {
            return;
        };
        let head = self.lanes.get(lane).head;
        let head = self.settle_verdict(class, number, head);
        let lane = LaneHead { number, lane, head };
        self.forest
            .reset(class, lane, &self.gates, &self.lanes.order);
        self.mark_dirty(class);
    }

    /// After an exact lane was given up.
    #[inline(always)]
    pub(super) fn settle_dissolved(&mut self, class: usize, number: u32, lane: u32) {
        if self.doomed_bits > 0 {
            self.settle_exact_head(class, number, lane, NO_KEY);
        } else if self
            .forest
            .close(class, number, lane, &self.gates, &self.lanes.order)
        {
            self.mark_dirty(class);
        }
    }

    /// After an exact lane got another head; a head of [`NO_KEY`] is no lane.
    #[inline(never)]
    fn settle_exact_head(&mut self, class: usize, number: u32, lane: u32, head: Rank) {
        let head = self.settle_verdict(class, number, head);
        let lane = LaneHead { number, lane, head };
        let is_in_order = self.classes[class].is_in_order();
        if self
            .forest
            .set(class, lane, is_in_order, &self.gates, &self.lanes.order)
        {
            self.mark_dirty(class);
        }
    }

    /// After an endpoint became busy or free for a class.
    pub(super) fn settle_exact_gate(&mut self, class: usize, number: u32) {
        let Some(lane) = self.lanes.exact(class, number) else {
            return;
        };
        if !self.gates.is_eligible(number) {
            // Busy endpoints spare heads that would fail by overload.
            return self.settle_exact(class, number);
        }
        if self.turn_lane(class, number, lane) {
            self.mark_dirty(class);
        }
    }

    /// The lane of an endpoint that became open or not to a class; whether the best of the class's may be
    /// another now.
    #[inline]
    pub(super) fn turn_lane(&mut self, class: usize, number: u32, lane: u32) -> bool {
        let is_in_order = self.classes[class].is_in_order();
        let Self {
            forest,
            gates,
            lanes,
            ..
        } = self;
        forest.turn(class, number, lane, is_in_order, gates, &lanes.order)
    }

    /// Judges the head of an exact lane, its gate aside; its leaf in the tree, which it has unless it can
    /// run nowhere.
    #[inline(always)]
    fn settle_verdict(&mut self, class: usize, number: u32, head: Rank) -> Rank {
        let doom = if head == NO_KEY {
            None
        } else {
            self.judge_exact_alone(class, number, slot_of(head)).err()
        };
        if doom.is_some() || self.doomed_bits > 0 && self.doomed_exact.get(class, number) {
            self.settle_doom(class, number, doom);
        }
        if doom.is_some() { NO_KEY } else { head }
    }

    /// After the reason why an exact lane's head can run nowhere, its egress group aside, came, went
    /// or changed.
    #[cold]
    fn settle_doom(&mut self, class: usize, number: u32, doom: Option<FailReason>) {
        let is_group_shut = self.gates.is_group_shut(number);
        let counts =
            |doomed: bool, overloaded: bool| u32::from(doomed && !(overloaded && is_group_shut));
        let (is_doomed, is_overloaded) = (
            doom.is_some(),
            doom == Some(FailReason::PinnedWorkerOverloaded),
        );
        let (was_doomed, was_overloaded) = (
            self.doomed_exact.get(class, number),
            self.overloaded_exact.get(class, number),
        );
        self.doomed_exact.set(class, number, is_doomed);
        self.doomed_bits = self.doomed_bits + u32::from(is_doomed) - u32::from(was_doomed);
        self.overloaded_exact.set(class, number, is_overloaded);
        let place = class << self.groups.shift() | self.groups.of(number);
        let overloaded = &mut self.overloaded_lanes[place];
        *overloaded = *overloaded + u32::from(is_overloaded) - u32::from(was_overloaded);
        let (now, before) = (
            counts(is_doomed, is_overloaded),
            counts(was_doomed, was_overloaded),
        );
        self.doomed = self.doomed + now - before;
        let doomed_lanes = &mut self.classes[class].doomed_lanes;
        *doomed_lanes = *doomed_lanes + now - before;
    }

    /// Whether an exact head may go (true), waits (false), or can run nowhere.
    pub(super) fn judge_exact(
        &self,
        class: usize,
        number: u32,
        slot: u32,
    ) -> Result<bool, FailReason> {
        let alone = self.judge_exact_alone(class, number, slot);
        if !self.gates.is_group_shut(number) {
            return alone;
        }
        match alone {
            Ok(_) | Err(FailReason::PinnedWorkerOverloaded) => Ok(false),
            other => other,
        }
    }

    /// The same, its endpoint's egress group aside.
    #[inline(always)]
    pub(super) fn judge_exact_alone(
        &self,
        class: usize,
        number: u32,
        slot: u32,
    ) -> Result<bool, FailReason> {
        let extension = self.slab[slot].extension;
        if extension == NONE && self.gates.is_eligible(number) {
            return Ok(!self.gates.busy_bit(class, number));
        }
        self.judge_extended(class, number, extension)
    }

    /// The same where requirements of its own may keep the head back, or its endpoint is not eligible.
    fn judge_extended(
        &self,
        class: usize,
        number: u32,
        extension: u32,
    ) -> Result<bool, FailReason> {
        let is_busy = self.gates.busy_bit(class, number);
        let taints = if extension == NONE {
            0
        } else {
            self.extensions.header(extension).taints
        };
        self.judge_pin(self.endpoints.slot(number).endpoint, Some(taints), is_busy)
    }

    /// The same for any pin, its allow-list aside, in the order of S8. Required taints of `None`
    /// are carried by nobody; `is_busy` tells whether the endpoint is, if it is known.
    pub(super) fn judge_pin(
        &self,
        endpoint: Endpoint,
        taints: Option<u128>,
        is_busy: bool,
    ) -> Result<bool, FailReason> {
        if self.endpoints.worker_count() == 0 {
            return Err(FailReason::NoWorkers);
        }
        let Some(worker) = self.endpoints.worker(endpoint.worker) else {
            return Err(FailReason::PinnedWorkerUnknown);
        };
        if !worker.available {
            return Err(FailReason::PinnedWorkerUnavailable);
        }
        if !worker.has_rank(endpoint.rank) {
            return Err(FailReason::PinnedRankOutOfRange);
        }
        if taints.is_none_or(|taints| taints & !worker.taints != 0) {
            return Err(FailReason::PinnedTaintMissing);
        }
        if worker.overloaded && !self.holds_on_overload() && !is_busy {
            return Err(FailReason::PinnedWorkerOverloaded);
        }
        Ok(!is_busy)
    }

    /// After an endpoint's load, active requests or last use changed.
    #[inline(always)]
    pub(super) fn settle_activity(&mut self, number: u32) {
        let slot = self.endpoints.slot(number);
        let load = slot.load();
        let is_in_band = slot.band.contains(load);
        let score = self.standing.of(load, u64::from(slot.active));
        let is_settled = score.is_some_and(|score| {
            let endpoints = &self.endpoints;
            self.load_tree.update_packed(number, score, slot, endpoints)
        });
        if !is_settled {
            self.settle_standing(number);
        }
        if !is_in_band {
            self.settle_busy(number);
        }
    }

    /// Puts an endpoint where it belongs in the index over standing scores.
    #[inline(never)]
    pub(super) fn settle_standing(&mut self, number: u32) {
        let slot = self.endpoints.slot(number);
        if !slot.known {
            return self.load_tree.take_out(number, &self.endpoints);
        }
        let (prefill_tokens, active) = (slot.load(), u64::from(slot.active));
        let score = match self.standing.of(prefill_tokens, active) {
            Some(score) => u128::from(score),
            None => self.selector.standing(Activity {
                prefill_tokens,
                active,
            }),
        };
        let competes = self.gates.competes(number);
        self.load_tree
            .update(number, score, competes, &self.endpoints);
    }

    /// Brings an endpoint's bits up to date, and what depends on them (G1).
    #[inline(never)]
    pub(super) fn settle_busy(&mut self, number: u32) {
        let load = self.endpoints.slot(number).load();
        let mut band = Band::ALL;
        for first in (0..self.table.len()).step_by(64) {
            let mut flipped = self.flip_bits(number, load, first, &mut band);
            while flipped != 0 {
                let class = self.table[first + flipped.trailing_zeros() as usize] as usize;
                flipped &= flipped - 1;
                if self.lanes.shared(class).head != NO_KEY {
                    self.settle_shared_status(class);
                }
                self.settle_exact_gate(class, number);
            }
        }
        self.endpoints.slot_mut(number).band = band;
    }

    /// Brings the bits and counts of up to 64 classes of the table up to date, from place `first`
    /// on, and narrows the band by their thresholds; of those that flipped, the ones whose requests
    /// wait, a bit for each.
    #[inline(never)]
    fn flip_bits(&mut self, number: u32, load: u64, first: usize, band: &mut Band) -> u64 {
        let (available, eligible) = self.gates.weight(number);
        let is_group_shut = self.gates.is_group_shut(number);
        let (mut crossing, masks) = self.gates.crossing(number, load);
        let classes = &mut self.classes[..];
        let mut narrowed = *band;
        let mut flipped = 0;
        let mut bit = 1;
        for &class in self.table[first..].iter().take(64) {
            let class = class as usize;
            if let Some(busy) = crossing.cross(class, &mut narrowed) {
                crossing.by_group(class).flip(available, eligible, busy);
                let entry = &mut classes[class];
                if !is_group_shut {
                    entry.counts.flip(available, eligible, busy);
                    if entry.masked_head != NONE && masks.get(class, number) {
                        entry.masked_counts.flip(available, eligible, busy);
                    }
                }
                if entry.waiting() > 0 {
                    flipped |= bit;
                }
            }
            bit <<= 1;
        }
        *band = narrowed;
        flipped
    }

    pub(super) fn settle_band(&mut self, number: u32, load: u64) {
        let classes = self.table.iter().map(|&class| class as usize);
        self.endpoints.slot_mut(number).band = self.gates.band(number, load, classes);
    }
}

/// Writes into `mask` the endpoints that carry `taints` and belong to `allowed` workers.
pub(super) fn write_mask(
    mask: &mut [u64],
    endpoints: &Endpoints,
    taint_rows: &BitRows,
    taints: u128,
    allowed: Option<impl Iterator<Item = WorkerId>>,
) {
    match allowed {
        None => mask.fill(u64::MAX),
        Some(workers) => {
            mask.fill(0);
            for number in workers.flat_map(|worker| endpoints.numbers_of(worker)) {
                mask[number as usize / 64] |= 1 << (number % 64);
            }
        }
    }
    let mut rest = taints;
    while rest != 0 {
        let taint = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        for (mask, carries) in mask.iter_mut().zip(taint_rows.row(taint)) {
            *mask &= carries;
        }
    }
}

pub(super) fn index16(class: usize) -> u16 {
    u16::try_from(class).expect("classes are bounded by CLASSES_MAX")
}
