//! S9: workers, bookings, hand-overs.

use super::{Booking, Branch, ClassId, Ending, Mutation, Oracle, Place, Worker};
use crate::protocol::{
    Endpoint, Event, FailReason, Lane, Machine, OpName, Phase, Subject, WorkerRecord,
};

impl Oracle {
    pub(super) fn place_mut(&mut self, endpoint: Endpoint) -> Option<&mut Place> {
        let places = self
            .workers
            .iter_mut()
            .flat_map(|worker| &mut worker.endpoints);
        places.into_iter().find(|place| place.endpoint == endpoint)
    }

    /// S9.3: a worker appears, or its record is replaced; what remains of its ranks keeps its load.
    pub(super) fn upsert_worker(&mut self, record: &WorkerRecord) {
        let ranks: Vec<Endpoint> = record.endpoints().collect();
        self.drop_free_numbers();
        let place = self
            .workers
            .iter()
            .position(|worker| worker.record.id == record.id);
        let waits = self
            .waiting()
            .any(|it| matches!(it.lane, Lane::Exact(pin) if pin.worker == record.id));
        self.coverage
            .note_if(place.is_none() && waits, Branch::LaneSurvivesReturn);
        let old = place.map_or_else(Vec::new, |place| self.workers.remove(place).endpoints);
        let (mut kept, removed): (Vec<_>, Vec<_>) = old
            .into_iter()
            .partition(|place| ranks.contains(&place.endpoint));
        for place in removed {
            self.coverage.note(Branch::RankDropped);
            self.forget(place.endpoint);
        }
        for endpoint in ranks {
            if kept.iter().all(|place| place.endpoint != endpoint) {
                kept.push(Place {
                    endpoint,
                    reported_tokens: 0,
                    shut: false,
                    last_use: 0,
                });
            }
        }
        kept.sort_unstable_by_key(|place| place.endpoint);
        self.workers.push(Worker {
            record: record.clone(),
            endpoints: kept,
        });
        self.workers.sort_unstable_by_key(|worker| worker.record.id);
        self.renumber();
    }

    /// S9.3; the exact lanes of the worker are the next sweep's business (S5.4).
    pub(super) fn remove_worker(&mut self, id: u64, out: &mut Vec<Event>) {
        let Some(place) = self
            .workers
            .iter()
            .position(|worker| worker.record.id == id)
        else {
            return self.now_stale(OpName::RemoveWorker, Subject::Worker(id), out);
        };
        for place in self.workers.remove(place).endpoints {
            self.forget(place.endpoint);
        }
    }

    /// S9.3: bookings on a removed endpoint are gone; their requests stay the caller's.
    fn forget(&mut self, endpoint: Endpoint) {
        let flights = self
            .requests
            .iter_mut()
            .filter_map(|request| request.flight.as_mut());
        for flight in flights.filter(|flight| flight.endpoint == endpoint) {
            self.coverage.note(Branch::RemovedWithBookings);
            flight.booking = Booking::Lost;
        }
    }

    /// S10.2: a number is free as soon as nothing refers to it.
    fn drop_free_numbers(&mut self) {
        let mut numbers = std::mem::take(&mut self.numbers);
        numbers.retain(|(endpoint, _)| {
            self.place(*endpoint).is_some() || self.is_referred_to(*endpoint)
        });
        self.numbers = numbers;
    }

    /// S10.2: gives the lowest free numbers to endpoints without one, by (worker, rank).
    fn renumber(&mut self) {
        self.drop_free_numbers();
        let mut numbers = std::mem::take(&mut self.numbers);
        let known = self.workers.iter().flat_map(|worker| &worker.endpoints);
        for place in known {
            if numbers
                .iter()
                .all(|(endpoint, _)| *endpoint != place.endpoint)
            {
                let stride = self.rooms.len().next_power_of_two();
                let free = (self.group(place.endpoint) as u64..)
                    .step_by(stride)
                    .find(|free| numbers.iter().all(|(_, number)| number != free));
                numbers.push((place.endpoint, free.expect("numbers do not run out")));
            }
        }
        self.numbers = numbers;
    }

    fn is_referred_to(&self, endpoint: Endpoint) -> bool {
        self.requests.iter().any(|request| {
            request.lane == Lane::Exact(endpoint)
                || request.avoided.contains(&endpoint)
                || request
                    .flight
                    .as_ref()
                    .is_some_and(|flight| flight.endpoint == endpoint)
        })
    }

    /// S10.2: the number of a known endpoint.
    pub(super) fn number(&self, endpoint: Endpoint) -> u64 {
        let numbered = self
            .numbers
            .iter()
            .find(|(numbered, _)| *numbered == endpoint);
        numbered.expect("a known endpoint has a number").1
    }

    /// S9.3: `load`, `shut` and `open` set a state; stale only for an unknown endpoint.
    pub(super) fn set_place(
        &mut self,
        op: OpName,
        endpoint: Endpoint,
        out: &mut Vec<Event>,
        set: impl FnOnce(&mut Place),
    ) {
        let pinned = self
            .waiting()
            .any(|request| request.lane == Lane::Exact(endpoint));
        self.coverage
            .note_if(pinned && op != OpName::Load, Branch::Egress);
        match self.place_mut(endpoint) {
            Some(place) => set(place),
            None => self.now_stale(op, Subject::Endpoint(endpoint), out),
        }
    }

    /// S9.3: the dispatched request that an operation is about, if its attempt is the latest.
    fn in_flight(&self, id: &str, attempt: Option<u32>) -> Option<(u64, Booking)> {
        let request = self.requests.iter().find(|request| request.id == id)?;
        let flight = request.flight.as_ref()?;
        let latest = attempt.is_none_or(|attempt| attempt == request.attempt);
        latest.then_some((request.intake, flight.booking))
    }

    /// S9.1, S9.3: silent if repeated while the booking lives.
    pub(super) fn prefill_done(&mut self, id: &str, attempt: Option<u32>, out: &mut Vec<Event>) {
        match self.in_flight(id, attempt) {
            None | Some((_, Booking::Lost)) => {
                self.now_stale(OpName::PrefillDone, Subject::Request(id.to_owned()), out);
            }
            Some((intake, _)) => {
                self.coverage.note(Branch::PrefillDone);
                let flight = self.request_mut(intake).flight.as_mut();
                flight.expect("it is in flight").booking = Booking::Decode;
            }
        }
    }

    /// S9.1, S9.3: silent also if the worker is gone.
    pub(super) fn complete(&mut self, id: &str, attempt: Option<u32>, out: &mut Vec<Event>) {
        match self.in_flight(id, attempt) {
            None => self.now_stale(OpName::Complete, Subject::Request(id.to_owned()), out),
            Some((intake, booking)) => {
                self.coverage
                    .note_if(booking == Booking::Lost, Branch::CompletedLost);
                self.remove_request(intake);
            }
        }
    }

    /// S9.4: a hand-over failed.
    pub(super) fn requeue(&mut self, id: &str, attempt: Option<u32>, out: &mut Vec<Event>) {
        let Some((intake, booking)) = self.in_flight(id, attempt) else {
            return self.now_stale(OpName::Requeue, Subject::Request(id.to_owned()), out);
        };
        self.coverage
            .note_if(booking == Booking::Lost, Branch::RequeueLost);
        let request = self.request_mut(intake);
        let flight = request.flight.take().expect("it is in flight");
        request.avoided.push(flight.endpoint);
        let (class, cost, attempt) = (request.class, request.cost, request.attempt);
        let entry = self.class_mut(class);
        entry.dispatched -= 1;
        entry.charged_tokens = entry.charged_tokens.saturating_sub(cost);

        let ending = if self.phase != Phase::Open {
            Some(Ending::ShuttingDown)
        } else if attempt >= u32::from(self.profile.max_attempts()) {
            Some(Ending::Failed(FailReason::HandOff))
        } else {
            None
        };
        match ending {
            Some(ending) => {
                let is_last = matches!(ending, Ending::Failed(_));
                self.coverage.note_if(is_last, Branch::HandOff);
                self.remove_request(intake);
                self.report(class, id.to_owned(), ending, out);
            }
            None => {
                self.coverage.note(Branch::Requeue);
                out.push(Event::Requeued {
                    now_us: self.now_us(),
                    id: id.to_owned(),
                    class: self.class(class).policy.name.to_string(),
                });
            }
        }
        self.refund(class, cost);
    }

    /// S9.4: the credit comes back, at most up to what one turn and this request are worth.
    fn refund(&mut self, class: ClassId, cost: u64) {
        if self.is_empty(class) {
            return;
        }
        let entry = self.class_mut(class);
        let back = entry.deficit.saturating_add(cost);
        let most = entry.policy.quantum.saturating_add(cost);
        entry.deficit = entry.deficit.max(back.min(most));
        if !self.has_fault(Mutation::TurnKeptAfterRequeue) {
            self.end_turn(class);
        }
    }
}
