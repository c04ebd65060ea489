//! Doorway and intake: a request's price, its class, the tests in their order, and its lane
//! (S2, S3.4, S7, S8).

use tollgate_policy::OrderPolicy;

use crate::arbiter::Arbiter;
use crate::arbiter::settle::{index16, write_mask};
use crate::forest::LaneHead;
use crate::order::{KeyParts, NONE, Structure, encode, jump_nanos, slot_of};
use crate::slab::{Entry, Stage};
use crate::{
    ClassIndex, CostSnapshot, Endpoint, Event, FailReason, HINTS_MAX, InvalidRequest, LimitKind,
    Nanos, Outcome, Refusal, Refused, Rejection, Request, Sink, Ticket,
};

/// What intake has found out about a request before it takes a slot.
struct Admission {
    class: usize,
    order: OrderPolicy,
    epoch: u8,
    deadline: Option<Nanos>,
    jump: Nanos,
    impatience: Option<LimitKind>,
    /// The pinned endpoint's number, or [`NONE`].
    pin: u32,
    taints: u128,
}

impl<P> Arbiter<P> {
    /// The price of a request as the workers stand now (S2.1, S2.3). O(hints x log endpoints),
    /// plus O(endpoints / 64 + allowed workers) for an unpinned one with hints and constraints.
    #[must_use]
    pub fn cost_snapshot(&self, request: &Request<'_>) -> CostSnapshot {
        let raw = request.raw_tokens;
        let best = match request.pin {
            Some(pin) => {
                if self.pin_holds(request) {
                    let hints = request.hints.iter().filter(|hint| hint.endpoint == pin);
                    let hinted = hints.map(|hint| hint.cached).max().unwrap_or(0);
                    if request.hints.is_empty() {
                        request.cached_tokens
                    } else {
                        hinted
                    }
                } else {
                    0
                }
            }
            None if request.hints.is_empty() => request.cached_tokens,
            None => {
                let hints = request.hints.iter();
                let eligible = hints.filter(|hint| self.may_run(request, hint.endpoint));
                eligible.map(|hint| hint.cached).max().unwrap_or(0)
            }
        };
        CostSnapshot {
            raw,
            cached: best.min(raw),
        }
    }

    /// Whether a pin passes the checks of S8, overload aside.
    fn pin_holds(&self, request: &Request<'_>) -> bool {
        request.pin.is_some_and(|pin| self.may_run(request, pin))
    }

    /// Whether an endpoint is eligible for a request, overload aside.
    fn may_run(&self, request: &Request<'_>, endpoint: Endpoint) -> bool {
        request
            .allow
            .is_none_or(|allow| allow.contains(&endpoint.worker))
            && self
                .endpoints
                .worker(endpoint.worker)
                .is_some_and(|worker| {
                    let taints = self.taints.find(request.require_taints);
                    worker.available
                        && worker.has_rank(endpoint.rank)
                        && taints.is_some_and(|taints| taints & !worker.taints == 0)
                })
    }

    /// The class of a requested name and the uncached tokens, and whether the name is unknown and
    /// to be counted (S3.4).
    #[must_use]
    pub fn resolve(&self, family: Option<&str>, uncached: u32) -> (ClassIndex, bool) {
        let resolution = self.profile.resolve(family, u64::from(uncached));
        (
            ClassIndex(self.class_of[resolution.class]),
            resolution.unknown_name,
        )
    }

    /// [`cost_snapshot`](Self::cost_snapshot), [`resolve`](Self::resolve) and
    /// [`submit_at`](Self::submit_at) in one.
    ///
    /// # Errors
    /// As [`submit_at`](Self::submit_at).
    pub fn submit(
        &mut self,
        ticket: Ticket,
        family: Option<&str>,
        request: &Request<'_>,
        payload: P,
        sink: &mut impl Sink<P>,
    ) -> Result<(), Refused<P>> {
        let snapshot = self.cost_snapshot(request);
        let (class, unknown_name) = self.resolve(family, snapshot.uncached());
        self.submit_at(ticket, class, snapshot, request, payload, sink)?;
        self.unknown_names += u64::from(unknown_name);
        Ok(())
    }

    /// Takes a request in at a slot of the caller's (S8). An accepted one ends in exactly one
    /// outcome, at once or later, through the sink; selections that a limit causes (S7.1) report
    /// first. The slot is free again after the outcome, or once a dispatched request is
    /// [`complete`](Self::complete).
    ///
    /// # Errors
    /// The payload comes back, and nothing has happened, if the request is invalid, the arbiter is
    /// closed, or there is no room for the request's variable parts.
    ///
    /// # Complexity
    /// O(log n + log L), plus O(endpoints / 64 + allowed workers) for a constrained shared request,
    /// plus the selections that a limit causes.
    pub fn submit_at(
        &mut self,
        ticket: Ticket,
        class: ClassIndex,
        snapshot: CostSnapshot,
        request: &Request<'_>,
        payload: P,
        sink: &mut impl Sink<P>,
    ) -> Result<(), Refused<P>> {
        let snapshot = CostSnapshot {
            cached: snapshot.cached.min(snapshot.raw),
            ..snapshot
        };
        let is_plain = request.is_plain();
        let jump = match self.accept(ticket, class, request, is_plain) {
            Ok(jump) => jump,
            Err(reason) => return Err(Refused { reason, payload }),
        };
        match self.admit(class.at(), jump, request, is_plain, sink) {
            Ok(admission) => {
                self.take_in(ticket, &admission, snapshot, request, is_plain, payload);
                sink.event(Event::Queued {
                    ticket,
                    class,
                    cost: snapshot.cost(),
                    lane: request.pin,
                });
            }
            Err(outcome) => {
                self.classes[class.at()].counters.count(outcome);
                sink.event(Event::Ended {
                    ticket,
                    class,
                    outcome,
                    payload,
                });
            }
        }
        self.retire_drained();
        Ok(())
    }

    /// Whether a submission is accepted at all; its head start if so.
    fn accept(
        &self,
        ticket: Ticket,
        class: ClassIndex,
        request: &Request<'_>,
        is_plain: bool,
    ) -> Result<Nanos, Refusal> {
        let slot = ticket.slot.0;
        if ticket.slot.at() >= self.slab.len() {
            let available = self.capacities.slots;
            return Err(InvalidRequest::SlotOutOfRange {
                found: slot,
                available,
            }
            .into());
        }
        if self.slab[slot].stage() != Stage::Vacant {
            return Err(InvalidRequest::SlotInUse { found: slot }.into());
        }
        if !self
            .classes
            .get(class.at())
            .is_some_and(|class| class.in_use)
        {
            return Err(InvalidRequest::UnknownClass { found: class.0 }.into());
        }
        if request.hints.len() > HINTS_MAX {
            return Err(InvalidRequest::TooManyHints {
                found: request.hints.len(),
            }
            .into());
        }
        let jump = jump_nanos(request.priority_jump)?;
        if self.drain_deadline.is_some() {
            return Err(Refusal::Closed);
        }
        if !is_plain {
            self.extensions.reserve(request)?;
        }
        Ok(jump)
    }

    /// The tests of S8 on an accepted request: deadline, workers, pin or eligibility, limits.
    fn admit(
        &mut self,
        class: usize,
        jump: Nanos,
        request: &Request<'_>,
        is_plain: bool,
        sink: &mut impl Sink<P>,
    ) -> Result<Admission, Outcome> {
        let settings = &self.classes[class];
        let (order, epoch, is_limited) = (settings.order, settings.epoch, settings.is_limited);
        let deadline = settings.deadline(request.deadline, request.submitted_at);
        if deadline.is_some_and(|deadline| self.now >= deadline) {
            return Err(Outcome::Expired);
        }
        let place = self.find_place(class, request, is_plain);
        let (pin, taints) = place.map_err(Outcome::Failed)?;
        let mut impatience = (!request.may_wait).then_some(LimitKind::MayWait);
        if is_limited {
            impatience = self.classes[class].zero_limit().or(impatience);
            self.pass_limits(class, sink).map_err(Outcome::Rejected)?;
        }
        Ok(Admission {
            class,
            order,
            epoch,
            deadline,
            jump,
            impatience,
            pin,
            taints,
        })
    }

    /// Whether a request can run somewhere or may wait for it (S5.4); its pin's number, or
    /// [`NONE`], and its required taints if so.
    fn find_place(
        &mut self,
        class: usize,
        request: &Request<'_>,
        is_plain: bool,
    ) -> Result<(u32, u128), FailReason> {
        let is_free = is_plain || request.allow.is_none() && request.require_taints.is_empty();
        if let Some(pin) = request.pin {
            let number = self.endpoints.number(pin);
            let may_run = |number: u32| self.gates.is_eligible(number);
            if let Some(number) = number.filter(|&number| is_free && may_run(number)) {
                return Ok((number, 0));
            }
            let is_busy = number.is_some_and(|number| self.gates.is_busy(class, number));
            let taints = self.check_pin(pin, request, is_busy)?;
            return Ok((number.expect("a pin that holds has a number"), taints));
        }
        if is_free {
            self.judge_pool(self.classes[class].counts, self.classes[class].shut_at)?;
            return Ok((NONE, 0));
        }
        if self.endpoints.worker_count() == 0 {
            return Err(FailReason::NoWorkers);
        }
        let taints = self.taints.find(request.require_taints);
        let taints = taints.ok_or(FailReason::NoEligibleWorker)?;
        let row = self.gates.scratch_row();
        let Self {
            gates,
            endpoints,
            taint_rows,
            ..
        } = self;
        let allowed = request.allow.map(|allow| allow.iter().copied());
        write_mask(gates.mask_mut(row), endpoints, taint_rows, taints, allowed);
        let counts = self.gates.count_masked(class, row);
        self.judge_pool(counts, self.classes[class].shut_at(counts))?;
        Ok((NONE, taints))
    }

    /// The tests of a pin in the order of S8; the required taints if it passes.
    fn check_pin(
        &self,
        pin: Endpoint,
        request: &Request<'_>,
        is_busy: bool,
    ) -> Result<u128, FailReason> {
        if self.endpoints.worker_count() == 0 {
            return Err(FailReason::NoWorkers);
        }
        if request
            .allow
            .is_some_and(|allow| !allow.contains(&pin.worker))
        {
            return Err(FailReason::PinnedWorkerNotAllowed);
        }
        let taints = self.taints.find(request.require_taints);
        self.judge_pin(pin, taints, is_busy)?;
        Ok(taints.unwrap_or_default())
    }

    /// Makes room below the limits by selections, or says which limit refuses (S7.1).
    fn pass_limits(&mut self, class: usize, sink: &mut impl Sink<P>) -> Result<(), Rejection> {
        let workers = self.endpoints.worker_count();
        for (at, kind) in LimitKind::ALL.into_iter().take(3).enumerate() {
            let limit = self.classes[class]
                .effective_limit(at, workers)
                .filter(|&limit| limit > 0);
            let Some(limit) = limit else { continue };
            while self.classes[class].usage[at] >= limit {
                if !self.select_one(sink) {
                    let current = self.classes[class].usage[at];
                    if current < limit {
                        break;
                    }
                    return Err(Rejection {
                        kind,
                        current,
                        limit,
                        workers,
                    });
                }
            }
        }
        Ok(())
    }

    fn take_in(
        &mut self,
        ticket: Ticket,
        admission: &Admission,
        snapshot: CostSnapshot,
        request: &Request<'_>,
        is_plain: bool,
        payload: P,
    ) {
        let slot = ticket.slot.0;
        let class = admission.class;
        let parts = KeyParts {
            strict_priority: request.strict_priority,
            epoch: admission.epoch,
            arrival: request.submitted_at,
            jump: admission.jump,
            deadline: admission.deadline,
            snapshot,
        };
        let rank = encode(admission.order, &parts, slot);
        let index = ClassIndex(index16(class));
        let mut entry = Entry::waiting(rank, ticket, index, snapshot, request.submitted_at);
        entry.pin = admission.pin;
        if admission.pin != NONE {
            self.endpoints.refer(admission.pin);
        }
        if !is_plain {
            entry.extension = self.extensions.store(request, admission.taints);
            if entry.extension != NONE {
                self.taints.refer(admission.taints);
            }
        }
        if let Some(kind) = admission.impatience {
            entry.set_impatience(kind);
        }
        if let Some(deadline) = admission.deadline {
            entry.set_has_deadline();
            self.deadlines.set(slot, deadline.0);
        }
        self.lanes.order.seq[slot as usize] = self.next_seq;
        self.next_seq += 1;
        self.enter_lane(slot, entry, payload);
    }

    /// Puts a request into its lane, and everything that counts waiting requests.
    #[inline]
    pub(super) fn enter_lane(&mut self, slot: u32, mut entry: Entry, payload: P) {
        let class = entry.class();
        let settings = &mut self.classes[class];
        let (reach, is_in_order) = (settings.reach(), settings.is_in_order());
        let usage = &mut settings.usage;
        usage[0] += 1;
        usage[1] += u64::from(entry.raw);
        usage[2] += u64::from(entry.cached);
        self.waiting += 1;
        if entry.is_watched() {
            self.watch(slot, &entry);
        }
        if entry.pin != NONE && self.found_lane(slot, &mut entry, is_in_order) {
            self.slab[slot] = entry;
            self.slab.put_payload(slot, payload);
            return;
        }
        let Self { slab, lanes, .. } = self;
        let lane = lanes.lane_for(class, entry.pin);
        let (structure, is_head) = lanes.insert(lane, entry.rank, reach, |slot| slab.rank(slot));
        entry.set_structure(structure);
        slab[slot] = entry;
        slab.put_payload(slot, payload);
        if is_head {
            self.settle_head(class, entry.pin, lane, entry.rank);
        }
    }

    /// Makes a pinned request the first of its lane, where nothing keeps it back; false if there is a
    /// lane, or something may.
    #[inline(always)]
    fn found_lane(&mut self, slot: u32, entry: &mut Entry, is_in_order: bool) -> bool {
        let (class, number) = (entry.class(), entry.pin);
        let is_open =
            entry.extension == NONE && self.doomed_bits == 0 && self.gates.is_open(class, number);
        if !is_open {
            return false;
        }
        debug_assert_eq!(slot, slot_of(entry.rank));
        let Some(lane) = self.lanes.found(class, number, entry.rank) else {
            return false;
        };
        entry.set_structure(Structure::Run);
        let head = entry.rank;
        let lane = LaneHead { number, lane, head };
        if self
            .forest
            .open(class, lane, is_in_order, &self.gates, &self.lanes.order)
        {
            self.mark_dirty(class);
        }
        true
    }

    /// Puts a request into the deadlines and the list of the impatient.
    fn watch(&mut self, slot: u32, entry: &Entry) {
        let order = &mut self.lanes.order;
        if entry.has_deadline() {
            self.deadlines.watch(slot, &order.seq);
            self.watched_deadlines += 1;
        }
        if entry.impatience().is_some() {
            let place = u32::try_from(self.impatient.len()).expect("bounded by the slots");
            order.links[slot as usize].c = place;
            self.impatient.push(slot);
        }
    }
}
