//! Selection: which class, which request, which endpoint (S6, S9.1, S10).

use crate::arbiter::Arbiter;
use crate::drr;
use crate::load_tree::precedence_used;
use crate::order::{NONE, slot_of};
use crate::selector::{Pool, cached_on};
use crate::slab::{Entry, Stage};
use crate::{ClassIndex, Dispatch, EndpointIndex, Event, Nanos, Outcome, Sink};

/// How much one turn may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnBudget {
    /// Dispatches.
    pub dispatches: u64,
    /// Requests that expire or fail in sweeps (S5.5), or that are answered at a drain's end (S11.3).
    /// Finding the latter takes from it as well: one for every 16 slots, once.
    pub removals: u64,
}

impl TurnBudget {
    /// No bound.
    pub const UNBOUNDED: Self = Self {
        dispatches: u64::MAX,
        removals: u64::MAX,
    };
}

/// What one turn did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnReport {
    /// Dispatches.
    pub dispatched: u64,
    /// The last selection found no candidate.
    pub dry: bool,
    /// The budget ended the turn before the work did.
    pub more: bool,
}

impl<P> Arbiter<P> {
    /// One selection with its sweep (S6). False: it was dry. After a drain's end nothing is selected
    /// any more: who still waits is answered first, all at once (S11.3).
    ///
    /// # Complexity
    /// O(C + log L + log n), plus the sweep's removals; see the crate's docs.
    pub fn select(&mut self, sink: &mut impl Sink<P>) -> bool {
        self.end_drain_whole(sink);
        let dispatched = self.select_one(sink);
        self.retire_drained();
        dispatched
    }

    /// A whole turn: sweep and select until it runs dry or `max` requests are dispatched, sweep
    /// again, then refuse who may not wait (S7.2, S13). After a drain's end, who still waits is
    /// answered instead (S11.3). `Some(0)` does nothing.
    pub fn arbitrate(&mut self, max: Option<u64>, sink: &mut impl Sink<P>) -> TurnReport {
        if max == Some(0) {
            return TurnReport::default();
        }
        let dispatches = max.unwrap_or(u64::MAX);
        self.turn(
            TurnBudget {
                dispatches,
                ..TurnBudget::UNBOUNDED
            },
            sink,
        )
    }

    /// The same within a budget, for a loop that must stay responsive. What is left of a sweep is
    /// done in later turns: until then a lane whose head can run nowhere counts as shut, and a head
    /// whose deadline has passed expires instead of being dispatched (S5.5). So is what is left of the
    /// answers at a drain's end (S11.3): until all are given, nothing is dispatched, and the report
    /// says [`more`](TurnReport::more).
    pub fn turn(&mut self, budget: TurnBudget, sink: &mut impl Sink<P>) -> TurnReport {
        self.turn_watched(budget, sink, |_| {})
    }

    /// The same, showing `before` the arbiter before each selection, its sweep done: for explanations.
    #[inline]
    pub fn turn_watched(
        &mut self,
        budget: TurnBudget,
        sink: &mut impl Sink<P>,
        mut before: impl FnMut(&Self),
    ) -> TurnReport {
        let mut report = TurnReport::default();
        let mut removals = budget.removals;
        self.end_drain(&mut removals, sink);
        if self.is_drain_over() {
            report.more = true;
            self.retire_drained();
            return report;
        }
        loop {
            self.sweep(&mut removals, sink);
            if report.dispatched == budget.dispatches {
                report.more = true;
                break;
            }
            before(self);
            if !self.select_swept(sink) {
                report.dry = true;
                break;
            }
            report.dispatched += 1;
        }
        self.refuse_impatient(sink);
        self.retire_drained();
        report.more |= self.has_unswept();
        report
    }

    pub(super) fn select_one(&mut self, sink: &mut impl Sink<P>) -> bool {
        self.sweep_all(sink);
        self.select_swept(sink)
    }

    #[inline(always)]
    fn select_swept(&mut self, sink: &mut impl Sink<P>) -> bool {
        loop {
            self.refresh();
            let Some(class) = self.pick() else {
                return false;
            };
            let slot = slot_of(self.candidates[class as usize]);
            let entry = self.slab[slot];
            if !(entry.has_deadline() && self.is_overdue(slot)) {
                self.dispatch(class, slot, &entry, sink);
                return true;
            }
            self.remove_waiting(slot, Outcome::Expired, sink);
            self.settle_cuts();
        }
    }

    /// Whether a sweep's slice has not come to this request's deadline yet.
    fn is_overdue(&self, slot: u32) -> bool {
        self.deadlines.of(slot) <= self.now.0
    }

    #[inline(always)]
    fn pick(&mut self) -> drr::Pick {
        if self.is_exact {
            drr::exact::pick(&mut self.ring)
        } else {
            drr::page::pick(&mut self.ring)
        }
    }

    /// Dispatches the candidate of `class` (S6.2, S9.1).
    #[inline(always)]
    fn dispatch(&mut self, class: u16, slot: u32, entry: &Entry, sink: &mut impl Sink<P>) {
        let at = class as usize;
        let snapshot = entry.snapshot();
        let number = if entry.pin == NONE {
            self.choose(at, slot, entry).0
        } else {
            entry.pin
        };
        let tokens = snapshot.raw - self.cached_there(entry, number);
        let payload = self.slab.take_payload(slot);

        self.leave_lane(slot, entry);
        let attempt = self.book(slot, number, tokens, entry);

        let settings = &mut self.classes[at];
        settings.outstanding += 1;
        settings.counters.dispatched += 1;
        let charged = &mut settings.counters.charged_tokens;
        *charged = charged.saturating_add(u64::from(snapshot.cost()));
        self.ring.charge(at, slot);
        self.outstanding += 1;
        self.close_account(class);
        self.use_room(number);

        sink.event(Event::Dispatched(Dispatch {
            ticket: entry.ticket(slot),
            class: ClassIndex(class),
            endpoint: self.endpoints.slot(number).endpoint,
            endpoint_index: EndpointIndex(number),
            snapshot,
            deficit: self.ring.node(at).deficit,
            attempt,
            submitted_at: Nanos(entry.submitted_at),
            dispatched_at: self.now,
            payload,
        }));
    }

    /// Books a dispatch on an endpoint; its attempt.
    #[inline(always)]
    fn book(&mut self, slot: u32, number: u32, tokens: u32, entry: &Entry) -> u8 {
        let cost = entry.snapshot().cost();
        let attempt = entry.attempt + 1;
        let record = &mut self.slab[slot];
        record.attempt = attempt;
        record.set_stage(Stage::Dispatched);
        record.set_prefilled(false);
        self.dispatches += 1;
        let place = self.endpoints.slot_mut(number);
        place.active += 1;
        place.booked = place.booked.saturating_add(u64::from(tokens));
        place.precedence = precedence_used(self.dispatches);
        place.dispatched += 1;
        place.charged_tokens = place.charged_tokens.saturating_add(u64::from(cost));
        let links = &mut self.lanes.order.links[slot as usize];
        (links.a, links.b, links.c) = (number, tokens, place.incarnation);
        if entry.pin == NONE {
            place.refer();
        }
        self.settle_activity(number);
        attempt
    }

    /// What is left of S6.2 once a dispatch is charged and its entry gone.
    #[inline(always)]
    fn close_account(&mut self, class: u16) {
        let is_empty = self.classes[class as usize].waiting() == 0;
        if !self.is_exact {
            drr::page::dispatched(&mut self.ring, class, is_empty);
        }
        if is_empty {
            self.settle_emptied(class);
        } else if self.is_exact && self.ring.node(class as usize).deficit == 0 {
            self.ring.end_turn(class);
        }
    }

    /// A class that becomes empty in any way has no credit and no turn (S6.3, S6.8).
    pub(super) fn settle_emptied(&mut self, class: u16) {
        self.ring.set_deficit(class as usize, 0);
        self.end_turn(class);
    }

    /// Ends a class's turn; in `page`, it stops being holder.
    pub(super) fn end_turn(&mut self, class: u16) {
        if self.is_exact {
            self.ring.end_turn(class);
        } else {
            self.ring.release(class);
        }
    }

    /// The endpoint for the head of a class's shared lane (S10).
    #[inline(always)]
    fn choose(&mut self, class: usize, slot: u32, entry: &Entry) -> EndpointIndex {
        if self.follows_standing && entry.extension == NONE && entry.attempt == 0 {
            let best = self.load_tree.best().filter(|&best| {
                self.endpoints.slot(best).is_calm() || !self.gates.is_busy(class, best)
            });
            if let Some(best) = best {
                return EndpointIndex(best);
            }
        }
        self.ask_selector(class, slot, entry)
    }

    /// The same where the index alone does not answer.
    fn ask_selector(&mut self, class: usize, slot: u32, entry: &Entry) -> EndpointIndex {
        let Self {
            selector,
            draws,
            gates,
            endpoints,
            load_tree,
            extensions,
            ..
        } = self;
        let header = (entry.extension != NONE).then(|| extensions.header(entry.extension));
        let mut avoided = arrayvec::ArrayVec::<u32, 255>::new();
        if entry.attempt > 0 {
            let stride = self.capacities.attempts as usize - 1;
            let row = &self.avoided[slot as usize * stride..][..stride];
            avoided.extend(row.iter().map_while(|&number| number.checked_sub(1)));
        }
        let pool = Pool {
            gates,
            endpoints,
            index: load_tree,
            extensions,
            class,
            snapshot: entry.snapshot(),
            header,
            avoided: &avoided,
        };
        selector.choose(&pool.settle(), draws)
    }

    /// A request's cached tokens on the endpoint that it goes to; a pin's are its snapshot's.
    #[inline]
    fn cached_there(&self, entry: &Entry, number: u32) -> u32 {
        if entry.pin != NONE || entry.extension == NONE {
            return entry.cached;
        }
        let header = self.extensions.header(entry.extension);
        let (extensions, endpoints) = (&self.extensions, &self.endpoints);
        cached_on(
            extensions,
            Some(&header),
            entry.snapshot(),
            endpoints,
            number,
        )
    }
}
