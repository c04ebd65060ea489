//! Feedback on dispatched requests: `prefill_done`, `complete`, `requeue` (S9).

use crate::arbiter::Arbiter;
use crate::order::NONE;
use crate::slab::{Entry, Stage};
use crate::{ClassIndex, Event, FailReason, Outcome, Sink, Stale, StaleRequeue, Ticket};

/// What a dispatch holds on its endpoint. An unpinned one holds a reference to the number as well; a
/// pin's own does for both.
struct Booking {
    class: usize,
    is_pinned: bool,
    is_prefilled: bool,
    /// The request has variable parts, or remembers hand-overs that failed.
    has_parts: bool,
    number: u32,
    tokens: u32,
    /// The endpoint has not departed since.
    holds: bool,
}

impl<P> Arbiter<P> {
    /// The prefill is over: the booked tokens are released (S9.1). Repeating it for a live booking
    /// is silent. O(C), plus O(log L) for each lane that opens.
    ///
    /// # Errors
    /// [`Stale`] for an old ticket or attempt, or where the endpoint is gone (S9.3).
    pub fn prefill_done(&mut self, ticket: Ticket, attempt: u8) -> Result<(), Stale> {
        let slot = ticket.slot.0;
        let Some(booking) = self
            .booking(ticket, attempt)
            .filter(|booking| booking.holds)
        else {
            return Err(self.stale());
        };
        if !booking.is_prefilled {
            self.slab[slot].set_prefilled(true);
            self.endpoints.slot_mut(booking.number).booked -= u64::from(booking.tokens);
            self.settle_activity(booking.number);
        }
        Ok(())
    }

    /// The request is over: whatever it holds is released, and its slot is free (S9.1). Where the
    /// endpoint is gone it frees nothing more, silently. O(C), plus O(log L) for each lane that
    /// opens.
    ///
    /// # Errors
    /// [`Stale`] for an old ticket or attempt (S9.3).
    pub fn complete(&mut self, ticket: Ticket, attempt: u8) -> Result<(), Stale> {
        let slot = ticket.slot.0;
        let Some(booking) = self.booking(ticket, attempt) else {
            return Err(self.stale());
        };
        self.unbook(&booking);
        self.free_booked(slot, &booking);
        self.retire_drained();
        Ok(())
    }

    /// The hand-over failed: the booking is undone, the dispatch is taken back, and the request
    /// waits again in its old place, its class refunded and its turn ended; or it ends, where it
    /// was handed over as often as it may be, or the arbiter stops (S9.4). O(log n + log L + C).
    ///
    /// # Errors
    /// The payload comes back for an old ticket or attempt.
    pub fn requeue(
        &mut self,
        ticket: Ticket,
        attempt: u8,
        payload: P,
        sink: &mut impl Sink<P>,
    ) -> Result<(), StaleRequeue<P>> {
        let slot = ticket.slot.0;
        let Some(booking) = self.booking(ticket, attempt) else {
            self.stale_events += 1;
            return Err(StaleRequeue { payload });
        };
        let entry = self.slab[slot];
        let class = ClassIndex(super::settle::index16(entry.class()));
        self.unbook(&booking);
        self.withdraw_dispatch(&entry);

        let outcome = if self.drain_deadline.is_some() {
            Some(Outcome::ShuttingDown)
        } else if attempt >= self.profile.max_attempts() {
            Some(Outcome::Failed(FailReason::HandOff))
        } else {
            None
        };
        if let Some(outcome) = outcome {
            self.classes[class.at()].counters.count(outcome);
            self.free_booked(slot, &booking);
            self.refund(class, &entry);
            sink.event(Event::Ended {
                ticket,
                class,
                outcome,
                payload,
            });
        } else {
            self.classes[class.at()].counters.requeued += 1;
            if !booking.is_pinned {
                self.avoid(slot, booking.number);
            }
            self.lanes.order.links[slot as usize].c = NONE;
            let mut entry = self.slab[slot];
            entry.set_stage(Stage::Waiting);
            self.enter_lane(slot, entry, payload);
            self.refund(class, &entry);
            sink.event(Event::Requeued { ticket, class });
        }
        self.retire_drained();
        Ok(())
    }

    /// The booking that a ticket and attempt mean; `None` if they are stale.
    #[inline(always)]
    fn booking(&self, ticket: Ticket, attempt: u8) -> Option<Booking> {
        let entry = self.slab.find(ticket)?;
        if entry.stage() != Stage::Dispatched || entry.attempt != attempt {
            return None;
        }
        let links = self.lanes.order.links[ticket.slot.at()];
        let holds = self.endpoints.slot(links.a).incarnation == links.c;
        Some(Booking {
            class: entry.class(),
            is_pinned: entry.pin != NONE,
            is_prefilled: entry.is_prefilled(),
            has_parts: entry.extension != NONE || entry.attempt > 1,
            number: links.a,
            tokens: links.b,
            holds,
        })
    }

    /// Releases what a booking still holds on its endpoint, and the dispatch's place among the
    /// outstanding ones.
    #[inline(always)]
    fn unbook(&mut self, booking: &Booking) {
        self.classes[booking.class].outstanding -= 1;
        self.outstanding -= 1;
        if booking.holds {
            let place = self.endpoints.slot_mut(booking.number);
            place.active -= 1;
            if !booking.is_prefilled {
                place.booked -= u64::from(booking.tokens);
            }
            self.settle_activity(booking.number);
        }
    }

    /// A dispatched request has ended: its slot and all that it refers to are free.
    #[inline(always)]
    fn free_booked(&mut self, slot: u32, booking: &Booking) {
        self.endpoints.release(booking.number);
        self.slab[slot].set_stage(Stage::Vacant);
        if booking.has_parts {
            let entry = self.slab[slot];
            self.free_parts(slot, &entry);
        }
    }

    fn withdraw_dispatch(&mut self, entry: &Entry) {
        let counters = &mut self.classes[entry.class()].counters;
        counters.dispatched -= 1;
        counters.charged_tokens -= u64::from(entry.snapshot().cost());
    }

    /// Gives a class back what a withdrawn dispatch cost it, and ends its turn, unless it is empty.
    fn refund(&mut self, class: ClassIndex, entry: &Entry) {
        if self.classes[class.at()].waiting() == 0 {
            return;
        }
        let cost = u64::from(entry.snapshot().cost());
        let node = self.ring.node(class.at());
        let most = node.quantum.saturating_add(cost);
        let deficit = node
            .deficit
            .max(node.deficit.saturating_add(cost).min(most));
        self.ring.set_deficit(class.at(), deficit);
        self.end_turn(class.0);
    }

    /// Remembers that a hand-over of an unpinned request failed. The booking's reference to the
    /// endpoint becomes the list's, unless it is listed already.
    fn avoid(&mut self, slot: u32, number: u32) {
        let stride = self.capacities.attempts as usize - 1;
        let row = &mut self.avoided[slot as usize * stride..][..stride];
        let place = row
            .iter()
            .position(|&listed| listed == 0 || listed == number + 1);
        match place {
            Some(place) if row[place] == 0 => {
                row[place] = number + 1;
            }
            _ => self.endpoints.release(number),
        }
    }
}
