//! S5: who may run where, now, later or never.

use tollgate_policy::{Fraction, OverloadAction};

use super::{Booking, Branch, Class, Oracle, Place, Request, Worker};
use crate::protocol::{Endpoint, FailReason, Lane};

/// S5.1: what a worker batches at most if its record does not say.
const MAX_BATCHED_TOKENS_DEFAULT: u64 = 10_000_000;

/// What can become of a head now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Dispatchable,
    Waits,
    Fails(FailReason),
}

/// `floor(fraction x value)`.
pub(super) fn floor_of(fraction: Fraction, value: u64) -> u128 {
    let product = u128::from(fraction.mantissa()) * u128::from(value);
    // A product of two u64 is below 10^39, so a power that does not fit divides it to 0.
    10_u128
        .checked_pow(fraction.scale())
        .map_or(0, |power| product / power)
}

/// `ceil(fraction x value)`.
pub(super) fn ceil_of(fraction: Fraction, value: u64) -> u128 {
    let product = u128::from(fraction.mantissa()) * u128::from(value);
    10_u128
        .checked_pow(fraction.scale())
        .map_or(u128::from(product > 0), |power| product.div_ceil(power))
}

impl Oracle {
    pub(super) fn worker(&self, id: u64) -> Option<&Worker> {
        self.workers.iter().find(|worker| worker.record.id == id)
    }

    pub(super) fn place(&self, endpoint: Endpoint) -> Option<&Place> {
        self.worker(endpoint.worker)?
            .endpoints
            .iter()
            .find(|place| place.endpoint == endpoint)
    }

    pub(super) fn bookings(&self, endpoint: Endpoint) -> impl Iterator<Item = Booking> {
        self.requests
            .iter()
            .filter_map(|request| request.flight.as_ref())
            .filter(move |flight| flight.endpoint == endpoint)
            .map(|flight| flight.booking)
            .filter(|booking| *booking != Booking::Lost)
    }

    /// S9.2: booked and reported prefill tokens of a known endpoint.
    pub(super) fn prefill_tokens(&self, place: &Place) -> u64 {
        self.bookings(place.endpoint)
            .fold(place.reported_tokens, |sum, booking| match booking {
                Booking::Prefill(tokens) => sum.saturating_add(tokens),
                Booking::Decode | Booking::Lost => sum,
            })
    }

    fn holds_on_overload(&self) -> bool {
        self.profile.overload_action() == OverloadAction::Hold
    }

    fn is_overloaded(&self, endpoint: Endpoint) -> bool {
        self.worker(endpoint.worker)
            .is_some_and(|worker| worker.record.overloaded)
    }

    /// S5.1, S5.6: whether a known endpoint is busy for a class.
    pub(super) fn is_busy(&self, class: &Class, endpoint: Endpoint) -> bool {
        let worker = self.worker(endpoint.worker).expect("the endpoint is known");
        let place = self.place(endpoint).expect("the endpoint is known");
        let load = self.prefill_tokens(place);
        let max = worker
            .record
            .max_batched_tokens
            .unwrap_or(MAX_BATCHED_TOKENS_DEFAULT);
        let above = class
            .policy
            .prefill_busy_threshold
            .is_some_and(|threshold| load > threshold);
        let above_fraction = class
            .policy
            .prefill_busy_threshold_frac
            .is_some_and(|fraction| u128::from(load) > floor_of(fraction, max));
        let held = self.holds_on_overload() && worker.record.overloaded;
        self.coverage.note_if(held, Branch::Held);
        above || above_fraction || self.is_place_shut(place) || held
    }

    /// S5.1: whether an endpoint's egress, or its group's, is full.
    pub(super) fn is_place_shut(&self, place: &Place) -> bool {
        place.shut || self.rooms[self.group(place.endpoint)] == Some(0)
    }

    /// S5.1: the egress group of an endpoint.
    pub(super) fn group(&self, endpoint: Endpoint) -> usize {
        let group = endpoint.worker % self.rooms.len() as u64;
        usize::try_from(group).expect("groups are few")
    }

    /// S5.1: a dispatch takes room of its egress group.
    pub(super) fn use_room(&mut self, endpoint: Endpoint) {
        let group = self.group(endpoint);
        if let Some(room) = &mut self.rooms[group] {
            *room -= 1;
            self.coverage.note_if(*room == 0, Branch::GroupFull);
        }
    }

    /// S5.3: whether a pool is shut for a class's shared lane; a pool of nobody is.
    fn is_shut(&self, class: &Class, pool: &[Endpoint]) -> bool {
        let busy = pool
            .iter()
            .filter(|endpoint| self.is_busy(class, **endpoint))
            .count();
        let enough = class
            .policy
            .busy_worker_ratio
            .is_some_and(|ratio| busy as u128 >= ceil_of(ratio, pool.len() as u64).max(1));
        self.coverage
            .note_if(enough && busy < pool.len(), Branch::RatioShut);
        busy == pool.len() || enough
    }

    /// S5.2 but for overload: the endpoints that may run a shared request, by (worker, rank).
    pub(super) fn pool(&self, request: &Request) -> Vec<Endpoint> {
        self.workers
            .iter()
            .filter(|worker| worker.record.available)
            .filter(|worker| request.allows(worker.record.id))
            .filter(|worker| request.tolerates(worker))
            .flat_map(|worker| worker.endpoints.iter().map(|place| place.endpoint))
            .collect()
    }

    /// S5.2, S5.6: the endpoints that a shared request may go to; gate and choice both use it.
    pub(super) fn eligible(&self, request: &Request) -> Vec<Endpoint> {
        let mut eligible = self.pool(request);
        if !self.holds_on_overload() {
            eligible.retain(|endpoint| !self.is_overloaded(*endpoint));
        }
        eligible
    }

    /// S8: what is wrong with a pin, overload apart, in the order of the tests.
    pub(super) fn pin_fault(&self, request: &Request, pin: Endpoint) -> Option<FailReason> {
        if !request.allows(pin.worker) {
            return Some(FailReason::PinnedWorkerNotAllowed);
        }
        let Some(worker) = self.worker(pin.worker) else {
            return Some(FailReason::PinnedWorkerUnknown);
        };
        if !worker.record.available {
            return Some(FailReason::PinnedWorkerUnavailable);
        }
        if self.place(pin).is_none() {
            return Some(FailReason::PinnedRankOutOfRange);
        }
        (!request.tolerates(worker)).then_some(FailReason::PinnedTaintMissing)
    }

    /// S5.3, S5.4, S8: what can become of a request if it is new, or the head of its lane.
    pub(super) fn judge(&self, request: &Request) -> Verdict {
        if self.workers.is_empty() {
            return Verdict::Fails(FailReason::NoWorkers);
        }
        match request.lane {
            Lane::Shared => self.judge_shared(request),
            Lane::Exact(pin) => self.judge_pin(request, pin),
        }
    }

    fn judge_shared(&self, request: &Request) -> Verdict {
        let class = self.class(request.class);
        let pool = self.pool(request);
        if pool.is_empty() {
            return Verdict::Fails(FailReason::NoEligibleWorker);
        }
        let eligible = self.eligible(request);
        if eligible.is_empty() {
            return match self.is_shut(class, &pool) {
                true => {
                    self.coverage.note(Branch::OverloadedWaits);
                    Verdict::Waits
                }
                false => Verdict::Fails(FailReason::AllEligibleOverloaded),
            };
        }
        match self.is_shut(class, &eligible) {
            true => Verdict::Waits,
            false => Verdict::Dispatchable,
        }
    }

    fn judge_pin(&self, request: &Request, pin: Endpoint) -> Verdict {
        if let Some(reason) = self.pin_fault(request, pin) {
            return Verdict::Fails(reason);
        }
        if self.is_busy(self.class(request.class), pin) {
            return Verdict::Waits;
        }
        match self.is_overloaded(pin) {
            true => Verdict::Fails(FailReason::PinnedWorkerOverloaded),
            false => Verdict::Dispatchable,
        }
    }

    pub(super) fn is_dispatchable(&self, head: &Request) -> bool {
        self.judge(head) == Verdict::Dispatchable
    }
}

impl Request {
    fn allows(&self, worker: u64) -> bool {
        self.allow
            .as_ref()
            .is_none_or(|allow| allow.contains(&worker))
    }

    fn tolerates(&self, worker: &Worker) -> bool {
        self.require_taints
            .iter()
            .all(|taint| worker.record.taints.contains(taint))
    }
}
