//! An arbiter out of a checkpoint: built empty, then brought to where the other one was, by the same
//! steps that events take. What can be derived is not restored but comes about again.

use std::sync::Arc;

use tollgate_policy::Profile;

use crate::arbiter::Arbiter;
use crate::arbiter::stop::Closing;
use crate::class::Class;
use crate::drr::{NO_SLOT, Ring};
use crate::endpoints::Worker;
use crate::load_tree::precedence_used;
use crate::order::{NONE, SLOT_BITS};
use crate::selector::Draws;
use crate::slab::{Entry, Stage};
use crate::{
    BookingCheckpoint, Capacities, Checkpoint, ClassIndex, Options, Request, RequestCheckpoint,
    RestoreError, Ticket, WorkerCheckpoint, WorkerRecord,
};

fn wrong(part: &'static str, which: usize, problem: &'static str) -> RestoreError {
    RestoreError::Inconsistent {
        part,
        which,
        problem,
    }
}

impl<P> Arbiter<P> {
    /// An arbiter that goes on where the one of `checkpoint` stood: with the profile that was in force
    /// there and the same capacities, it gives the same events for the same calls. `payload` makes the
    /// payload of each request that waits.
    ///
    /// # Errors
    /// The profile does not fit the capacities, the checkpoint does not, or it contradicts itself.
    pub fn restore(
        profile: &Arc<Profile>,
        capacities: Capacities,
        checkpoint: &Checkpoint,
        payload: impl FnMut(Ticket) -> P,
    ) -> Result<Self, RestoreError> {
        let mut arbiter = Self::build(profile, capacities, Options::default())?;
        arbiter.profile = Arc::clone(profile);
        arbiter.now = checkpoint.now;
        arbiter.generation = checkpoint.generation;
        arbiter.draws = Draws::new(checkpoint.draws);
        arbiter.restore_classes(profile, checkpoint)?;
        arbiter.restore_rooms(checkpoint)?;
        arbiter.restore_endpoints(checkpoint)?;
        for (at, worker) in checkpoint.workers.iter().enumerate() {
            arbiter.restore_worker(at, worker)?;
        }
        arbiter.restore_activity(checkpoint);
        arbiter.settle_pools();
        arbiter.restore_requests(checkpoint, payload)?;
        arbiter.check_counters(checkpoint)?;
        arbiter.restore_turns(checkpoint)?;
        arbiter.next_seq = checkpoint.next_intake;
        arbiter.dispatches = checkpoint.dispatches;
        arbiter.stale_events = checkpoint.stale_events;
        arbiter.unknown_names = checkpoint.unknown_names;
        arbiter.drain_deadline = checkpoint.drain_deadline;
        arbiter.restore_closing(checkpoint)?;
        arbiter.holds_drained = checkpoint.holds_drained;
        Ok(arbiter)
    }

    fn restore_classes(
        &mut self,
        profile: &Profile,
        checkpoint: &Checkpoint,
    ) -> Result<(), RestoreError> {
        let places = self.classes.len();
        self.ring = Ring::new(places);
        self.classes
            .iter_mut()
            .for_each(|class| *class = Class::unused());
        self.table.clear();
        self.class_of.clear();
        self.dirty.clear();
        for (at, saved) in checkpoint.classes.iter().enumerate() {
            let index = saved.index.at();
            let is_free = self.classes.get(index).is_some_and(|class| !class.in_use);
            if !is_free {
                return Err(wrong("class", at, "its place is taken, or there is none"));
            }
            let named = |class: &&Class| class.in_use && class.name == saved.policy.name;
            if self.classes.iter().any(|class| named(&class)) {
                return Err(wrong("class", at, "its name stands twice"));
            }
            let by_name = profile
                .classes()
                .iter()
                .find(|p| p.name == saved.policy.name);
            if by_name.is_some() == saved.draining {
                return Err(wrong("class", at, "it drains or not, against the policy"));
            }
            let class = &mut self.classes[index];
            *class = Class::named(saved.policy.name.clone());
            class.configure(by_name.unwrap_or(&saved.policy));
            class.draining = saved.draining;
            class.epoch = saved.epoch.min(crate::order::EPOCH_MAX);
            class.counters = saved.counters;
            self.table.push(saved.index.0);
            self.mark_dirty(index);
        }
        for policy in profile.classes() {
            let known = self.table.iter().copied();
            let class = known
                .clone()
                .find(|&c| self.classes[usize::from(c)].name == policy.name);
            let class = class.ok_or(wrong("class", 0, "one of the policy is missing"))?;
            self.class_of.push(class);
        }
        self.draining = self.count_draining();
        self.restore_ring(profile, checkpoint)
    }

    fn restore_ring(
        &mut self,
        profile: &Profile,
        checkpoint: &Checkpoint,
    ) -> Result<(), RestoreError> {
        let mut left = self.table.clone();
        for (at, class) in checkpoint.ring.iter().enumerate() {
            let place = left.iter().position(|&index| index == class.0);
            let place = place.ok_or(wrong("ring", at, "no class, or one that stands twice"))?;
            left.swap_remove(place);
            let saved = checkpoint
                .classes
                .iter()
                .find(|saved| saved.index == *class);
            let saved = saved.ok_or(wrong("ring", at, "no such class"))?;
            let name = &saved.policy.name;
            let policy = profile.classes().iter().find(|policy| policy.name == *name);
            let quantum = policy.map_or(saved.policy.quantum, |policy| policy.quantum);
            if quantum == 0 {
                return Err(wrong("ring", at, "its quantum is 0"));
            }
            self.ring.join(class.0, quantum);
        }
        if left.is_empty() {
            return Ok(());
        }
        Err(wrong("ring", 0, "a class is missing"))
    }

    fn restore_rooms(&mut self, checkpoint: &Checkpoint) -> Result<(), RestoreError> {
        let groups = self.capacities.egress_groups;
        if checkpoint.rooms.len() != usize::from(groups) {
            return Err(wrong("room", 0, "one for each egress group is needed"));
        }
        for (group, &room) in (0..groups).zip(&checkpoint.rooms) {
            self.set_egress_room(group, room);
        }
        Ok(())
    }

    fn restore_endpoints(&mut self, checkpoint: &Checkpoint) -> Result<(), RestoreError> {
        for (at, saved) in checkpoint.endpoints.iter().enumerate() {
            if !self.endpoints.place(saved.index.0, saved.endpoint) {
                let problem = "its number or identity is taken, or no number of its egress group";
                return Err(wrong("endpoint", at, problem));
            }
            self.forest.reach(saved.index.0);
        }
        Ok(())
    }

    fn restore_worker(&mut self, at: usize, saved: &WorkerCheckpoint) -> Result<(), RestoreError> {
        let record = WorkerRecord {
            id: saved.id,
            first_rank: saved.first_rank,
            ranks: saved.ranks,
            max_batched_tokens: saved.max_batched_tokens,
            taints: &[],
            overloaded: saved.overloaded,
            available: saved.available,
        };
        if self.endpoints.worker(saved.id).is_some() {
            return Err(wrong("worker", at, "it stands twice"));
        }
        match self.endpoints.reserve(&record) {
            Ok(()) => {}
            Err(crate::WorkerError::Full(full)) => return Err(full.into()),
            Err(_) => return Err(wrong("worker", at, "its ranks are no range")),
        }
        let names: Vec<&str> = saved.taints.iter().map(|name| &**name).collect();
        let worker = Worker {
            id: saved.id,
            first_rank: saved.first_rank,
            ranks: saved.ranks,
            max_batched_tokens: saved.max_batched_tokens,
            taints: self.taints.intern(&names)?,
            overloaded: saved.overloaded,
            available: saved.available,
            run: None,
        };
        self.endpoints.put_worker(worker);
        for rank in worker.all_ranks() {
            let endpoint = crate::Endpoint {
                worker: worker.id,
                rank,
            };
            if self.endpoints.number(endpoint).is_none() {
                return Err(wrong("worker", at, "one of its ranks has no endpoint"));
            }
        }
        self.endpoints.arrive(&worker);
        Ok(())
    }

    /// What endpoints carry of their own; bookings come with the requests.
    fn restore_activity(&mut self, checkpoint: &Checkpoint) {
        for saved in &checkpoint.endpoints {
            let number = saved.index.0;
            let slot = self.endpoints.slot_mut(number);
            if !slot.known {
                continue;
            }
            slot.reported = saved.reported_tokens;
            slot.dispatched = saved.dispatched;
            slot.charged_tokens = saved.charged_tokens;
            if saved.last_use > 0 {
                slot.precedence = precedence_used(saved.last_use);
            }
            self.gates.set_shut(number, saved.shut);
            let worker = self.endpoints.worker(saved.endpoint.worker).copied();
            self.restate(number, worker.as_ref());
        }
    }

    fn restore_requests(
        &mut self,
        checkpoint: &Checkpoint,
        mut payload: impl FnMut(Ticket) -> P,
    ) -> Result<(), RestoreError> {
        let mut least = 0;
        for (at, saved) in checkpoint.requests.iter().enumerate() {
            if saved.intake < least || saved.intake >= checkpoint.next_intake {
                return Err(wrong("request", at, "its intake number is out of order"));
            }
            least = saved.intake + 1;
            let mut entry = self.restore_entry(at, saved)?;
            let slot = saved.ticket.slot.0;
            match saved.booking {
                None => self.enter_lane(slot, entry, payload(saved.ticket)),
                Some(booking) => {
                    entry.set_stage(Stage::Dispatched);
                    entry.set_prefilled(booking.prefilled);
                    self.slab[slot] = entry;
                    self.restore_booking(slot, &booking);
                }
            }
        }
        Ok(())
    }

    /// Counters go down when a dispatch is taken back, and others only up.
    fn check_counters(&self, checkpoint: &Checkpoint) -> Result<(), RestoreError> {
        const MAX: u64 = u64::MAX / 2;
        for (at, saved) in checkpoint.classes.iter().enumerate() {
            let mine = checkpoint
                .requests
                .iter()
                .filter(|request| request.booking.is_some() && request.class == saved.index);
            let costs = mine.map(|request| u64::from(request.snapshot.cost()));
            let (count, cost) = costs.fold((0, 0), |(n, sum), cost| (n + 1, sum + cost));
            let counters = saved.counters;
            if counters.dispatched < count || counters.charged_tokens < cost {
                return Err(wrong(
                    "class",
                    at,
                    "it has dispatched less than what is outstanding",
                ));
            }
        }
        let numbers = [
            checkpoint.next_intake,
            checkpoint.dispatches,
            checkpoint.generation,
            checkpoint.stale_events,
            checkpoint.unknown_names,
        ];
        if numbers.into_iter().any(|number| number > MAX) {
            return Err(wrong("number", 0, "larger than an arbiter counts"));
        }
        Ok(())
    }

    /// A request's record with all that it refers to, in no lane yet.
    fn restore_entry(
        &mut self,
        at: usize,
        saved: &RequestCheckpoint,
    ) -> Result<Entry, RestoreError> {
        let slot = saved.ticket.slot;
        if slot.at() >= self.slab.len() || self.slab[slot.0].stage() != Stage::Vacant {
            return Err(wrong("request", at, "its slot is taken, or there is none"));
        }
        if !self.table.contains(&saved.class.0) {
            return Err(wrong("request", at, "no such class"));
        }
        let epoch = saved.key >> (128 - 32 - SLOT_BITS - 6) & 0x3f;
        if saved.key >> (128 - SLOT_BITS) != 0
            || epoch == 0
            || saved.snapshot.cached > saved.snapshot.raw
        {
            return Err(wrong("request", at, "its key or its price is none"));
        }
        let numbers = saved.pin.iter().chain(&saved.avoided);
        let booked = saved.booking.iter().map(|booking| &booking.index);
        if numbers
            .chain(booked)
            .any(|number| !self.endpoints.is_taken(number.0))
        {
            return Err(wrong(
                "request",
                at,
                "it refers to an endpoint that is not listed",
            ));
        }
        if let (Some(pin), Some(booking)) = (saved.pin, saved.booking)
            && booking.index != pin
        {
            return Err(wrong("request", at, "it is booked beside its pin"));
        }
        let stride = self.capacities.attempts as usize - 1;
        let is_dispatched = saved.booking.is_some();
        if saved.avoided.len() > stride || is_dispatched && saved.attempt == 0 {
            return Err(wrong("request", at, "its attempts are not as many"));
        }
        let rank = saved.key << SLOT_BITS | u128::from(slot.0);
        let (class, price) = (saved.class, saved.snapshot);
        let mut entry = Entry::waiting(rank, saved.ticket, class, price, saved.submitted_at);
        entry.attempt = saved.attempt;
        entry.extension = self.restore_parts(saved)?;
        if let Some(pin) = saved.pin {
            entry.pin = pin.0;
            self.endpoints.refer(pin.0);
        }
        if let Some(kind) = saved.impatience {
            entry.set_impatience(kind);
        }
        if let Some(deadline) = saved.deadline {
            entry.set_has_deadline();
            self.deadlines.set(slot.0, deadline.0);
        }
        let row = &mut self.avoided[slot.at() * stride..][..stride];
        for (place, number) in row.iter_mut().zip(&saved.avoided) {
            *place = number.0 + 1;
        }
        for number in &saved.avoided {
            self.endpoints.refer(number.0);
        }
        self.lanes.order.seq[slot.at()] = saved.intake;
        Ok(entry)
    }

    /// A request's hints, allow-list and taints; their block.
    fn restore_parts(&mut self, saved: &RequestCheckpoint) -> Result<u32, RestoreError> {
        let names: Vec<&str> = saved.require_taints.iter().map(|name| &**name).collect();
        let mut request = Request::new(saved.snapshot.raw, saved.submitted_at);
        request.hints = &saved.hints;
        request.allow = saved.allow.as_deref();
        request.require_taints = &names;
        // What a pin leaves over is in its number.
        self.extensions.reserve(&request)?;
        let taints = self.taints.intern(&names)?;
        Ok(self.extensions.store(&request, taints))
    }

    fn restore_booking(&mut self, slot: u32, booking: &BookingCheckpoint) {
        let number = booking.index.0;
        let entry = &self.slab[slot];
        self.classes[entry.class()].outstanding += 1;
        self.outstanding += 1;
        let place = self.endpoints.slot_mut(number);
        if entry.pin == NONE {
            place.refer();
        }
        // Restored endpoints are of incarnation 1, so that 0 is one that has departed.
        let incarnation = if booking.holds { place.incarnation } else { 0 };
        let links = &mut self.lanes.order.links[slot as usize];
        (links.a, links.b, links.c) = (number, booking.tokens, incarnation);
        if booking.holds {
            place.active += 1;
            if !booking.prefilled {
                place.booked = place.booked.saturating_add(u64::from(booking.tokens));
            }
            self.settle_activity(number);
        }
    }

    fn restore_turns(&mut self, checkpoint: &Checkpoint) -> Result<(), RestoreError> {
        for (at, saved) in checkpoint.classes.iter().enumerate() {
            let remembered = saved.remembered.map_or(NO_SLOT, |slot| slot.0);
            let is_waiting = |slot: u32| {
                (slot as usize) < self.slab.len() && self.slab[slot].stage() == Stage::Waiting
            };
            if remembered != NO_SLOT && !is_waiting(remembered) {
                return Err(wrong("class", at, "what it remembers does not wait"));
            }
            let class = saved.index.at();
            self.ring
                .resume(class, saved.deficit, saved.turn_open, remembered);
        }
        if !self.is_exact {
            let known = |class: &Option<ClassIndex>| {
                class
                    .map(|class| class.0)
                    .filter(|class| self.table.contains(class))
            };
            let cursor = known(&checkpoint.cursor);
            self.ring.holder = known(&checkpoint.holder).unwrap_or(u16::MAX);
            self.ring.cursor = cursor.unwrap_or(self.ring.cursor);
        }
        Ok(())
    }

    fn restore_closing(&mut self, checkpoint: &Checkpoint) -> Result<(), RestoreError> {
        let Some(closing) = &checkpoint.closing else {
            return Ok(());
        };
        for &slot in &self.impatient {
            self.lanes.order.links[slot as usize].c = NONE;
        }
        self.impatient.clear();
        for (at, &(slot, intake)) in closing.slots.iter().enumerate() {
            if slot.at() >= self.slab.len() || self.impatient.len() == self.slab.len() {
                return Err(wrong("gathered slot", at, "there is no such slot"));
            }
            let seq = self.lanes.order.seq[slot.at()];
            if self.slab[slot.0].stage() != Stage::Vacant && seq != intake {
                return Err(wrong("gathered slot", at, "its intake number is another"));
            }
            self.lanes.order.seq[slot.at()] = intake;
            self.put_by_intake(slot.0);
        }
        self.closing = match closing.gathered {
            Some(next) => Closing::Gathering(next.min(self.capacities.slots)),
            None => Closing::Answering,
        };
        Ok(())
    }
}
