//! S13: the state.

use super::{Class, Oracle, Place, Worker};
use crate::protocol::{ClassState, EndpointState, LaneState, Machine, Phase, State};

impl Oracle {
    pub(super) fn snapshot(&self) -> State {
        let exact = self.is_exact();
        let name = |id: u64| self.class(id).policy.name.to_string();
        let ring = || self.ring.iter().copied();
        let open = || ring().filter(|id| self.class(*id).turn_open);
        State {
            now_us: self.now_us(),
            waiting: self.waiting_count(),
            classes: self
                .classes
                .iter()
                .map(|class| self.class_state(class))
                .collect(),
            workers: self
                .workers
                .iter()
                .flat_map(|worker| worker.endpoints.iter().map(move |place| (worker, place)))
                .map(|(worker, place)| self.endpoint_state(worker, place))
                .collect(),
            ring: exact.then(|| ring().map(name).collect()),
            open_turns: exact.then(|| open().map(name).collect()),
            cursor: (!exact).then(|| name(self.cursor)),
            holder: self.holder.map(name),
            generation: self.generation,
            stale: self.stale,
            unknown_names: self.unknown_names,
            phase: self.phase,
            drain_until_us: (self.phase == Phase::Draining).then_some(self.drain_until_ns / 1_000),
        }
    }

    fn class_state(&self, class: &Class) -> ClassState {
        let usage = self.usage(class.id);
        let in_flight = self
            .requests
            .iter()
            .filter(|request| request.class == class.id && request.flight.is_some())
            .count();
        let lanes = self
            .lanes(class.id)
            .into_iter()
            .map(|(lane, entries)| LaneState {
                lane,
                waiting: entries.into_iter().map(|entry| entry.id.clone()).collect(),
            });
        ClassState {
            name: class.policy.name.to_string(),
            waiting: usage.requests,
            raw_isl_tokens: usage.raw_isl_tokens,
            cached_tokens: usage.cached_tokens,
            deficit: class.deficit,
            dispatched: class.dispatched,
            charged_tokens: class.charged_tokens,
            in_flight: in_flight as u64,
            quantum: class.policy.quantum,
            vanished: class.vanished,
            limits: self.effective_limits(class.id),
            outcomes: class.outcomes,
            remembered: class
                .remembered
                .map(|intake| self.request(intake).id.clone()),
            lanes: lanes.collect(),
        }
    }

    fn endpoint_state(&self, worker: &Worker, place: &Place) -> EndpointState {
        let earlier = self
            .workers
            .iter()
            .flat_map(|worker| &worker.endpoints)
            .filter(|other| (1..=place.last_use).contains(&other.last_use))
            .count();
        EndpointState {
            id: place.endpoint.worker,
            rank: place.endpoint.rank,
            prefill_tokens: self.prefill_tokens(place),
            active: self.bookings(place.endpoint).count() as u64,
            reported_tokens: place.reported_tokens,
            shut: self.is_place_shut(place),
            last_use_place: earlier as u64,
            number: self.number(place.endpoint),
            available: worker.record.available,
            overloaded: worker.record.overloaded,
        }
    }
}
