//! The arbiter's words in those of the scenario protocol.

use tollgate_arbiter::{self as arbiter, ClassIndex, Outcome};
use tollgate_policy::Arbitration;

use super::ArbiterMachine;
use crate::protocol::{
    ClassState, EffectiveLimits, Endpoint, EndpointState, Event, FailReason, Hint, Lane, LaneState,
    LimitKind, Machine, OutcomeCounts, RejectedCounts, State,
};

pub(super) const fn to_arbiter(endpoint: Endpoint) -> arbiter::Endpoint {
    arbiter::Endpoint::new(endpoint.worker, endpoint.rank)
}

pub(super) const fn from_arbiter(endpoint: arbiter::Endpoint) -> Endpoint {
    Endpoint::new(endpoint.worker.0, endpoint.rank)
}

pub(super) fn lane_of(endpoint: Option<arbiter::Endpoint>) -> Lane {
    endpoint.map_or(Lane::Shared, |endpoint| Lane::Exact(from_arbiter(endpoint)))
}

/// The arbiter's first policy is generation 1; a scenario counts reloads.
pub(super) const fn reloads(generation: u64) -> u64 {
    generation.saturating_sub(1)
}

/// The event for a request's fate.
pub(super) fn ended(now_us: u64, id: String, class: String, outcome: Outcome) -> Event {
    match outcome {
        Outcome::Rejected(rejection) => Event::Rejected {
            now_us,
            id,
            class,
            limit_kind: limit_kind(rejection.kind),
            current: rejection.current,
            limit: rejection.limit,
            workers: rejection.workers,
        },
        Outcome::Expired => Event::Expired { now_us, id, class },
        Outcome::Cancelled => Event::Cancelled { now_us, id, class },
        Outcome::Failed(reason) => Event::Failed {
            now_us,
            id,
            class,
            reason: fail_reason(reason),
        },
        Outcome::ShuttingDown => Event::ShuttingDown { now_us, id, class },
    }
}

pub(crate) const fn hint_of(hint: Hint) -> arbiter::Hint {
    arbiter::Hint {
        endpoint: to_arbiter(hint.endpoint),
        cached: hint.cached,
    }
}

pub(crate) const fn limit_kind_of(kind: LimitKind) -> arbiter::LimitKind {
    match kind {
        LimitKind::Requests => arbiter::LimitKind::Requests,
        LimitKind::RawIslTokens => arbiter::LimitKind::RawIslTokens,
        LimitKind::CachedTokens => arbiter::LimitKind::CachedTokens,
        LimitKind::MayWait => arbiter::LimitKind::MayWait,
    }
}

const fn limit_kind(kind: arbiter::LimitKind) -> LimitKind {
    match kind {
        arbiter::LimitKind::Requests => LimitKind::Requests,
        arbiter::LimitKind::RawIslTokens => LimitKind::RawIslTokens,
        arbiter::LimitKind::CachedTokens => LimitKind::CachedTokens,
        arbiter::LimitKind::MayWait => LimitKind::MayWait,
    }
}

pub(crate) const fn fail_reason(reason: arbiter::FailReason) -> FailReason {
    use arbiter::FailReason as From;
    match reason {
        From::NoWorkers => FailReason::NoWorkers,
        From::NoEligibleWorker => FailReason::NoEligibleWorker,
        From::AllEligibleOverloaded => FailReason::AllEligibleOverloaded,
        From::HandOff => FailReason::HandOff,
        From::PinnedWorkerNotAllowed => FailReason::PinnedWorkerNotAllowed,
        From::PinnedWorkerUnknown => FailReason::PinnedWorkerUnknown,
        From::PinnedWorkerUnavailable => FailReason::PinnedWorkerUnavailable,
        From::PinnedRankOutOfRange => FailReason::PinnedRankOutOfRange,
        From::PinnedTaintMissing => FailReason::PinnedTaintMissing,
        From::PinnedWorkerOverloaded => FailReason::PinnedWorkerOverloaded,
    }
}

/// The whole state of `machine`, with ids and names in place of tickets and indices.
pub(super) fn state(machine: &ArbiterMachine) -> State {
    let state = machine.arbiter.state();
    let name = |class: ClassIndex| machine.class_name(class);
    let ring: Vec<String> = state.ring.iter().copied().map(name).collect();
    let is_open = |class: &&ClassIndex| {
        state
            .classes
            .iter()
            .any(|known| known.index == **class && known.turn_open)
    };
    let open_turns = state
        .ring
        .iter()
        .filter(is_open)
        .copied()
        .map(name)
        .collect();
    let exact = state.arbitration == Arbitration::Exact;
    let (phase, drain_until) = machine.phase(state.closed);
    State {
        now_us: machine.now_us(),
        waiting: state.waiting,
        classes: state
            .classes
            .iter()
            .map(|class| class_state(machine, class))
            .collect(),
        workers: endpoint_states(&state.endpoints),
        ring: exact.then_some(ring),
        open_turns: exact.then_some(open_turns),
        cursor: state.cursor.map(name),
        holder: state.holder.map(name),
        generation: reloads(state.generation),
        stale: state.stale_events + machine.names.unknown(),
        unknown_names: state.unknown_names,
        phase,
        drain_until_us: drain_until.map(arbiter::Nanos::as_micros),
    }
}

fn class_state(machine: &ArbiterMachine, class: &arbiter::ClassState) -> ClassState {
    let [requests, raw_isl_tokens, cached_tokens] = class.limits;
    let counters = &class.counters;
    let [rejected_requests, rejected_raw, rejected_cached, may_wait] = counters.rejected;
    let lane = |lane: &arbiter::LaneState| LaneState {
        lane: lane_of(lane.endpoint),
        waiting: lane
            .entries
            .iter()
            .map(|entry| machine.names.id_of_ticket(entry.ticket))
            .collect(),
    };
    ClassState {
        name: class.name.to_string(),
        waiting: class.waiting,
        raw_isl_tokens: class.raw_isl_tokens,
        cached_tokens: class.cached_tokens,
        deficit: class.deficit,
        dispatched: counters.dispatched,
        charged_tokens: counters.charged_tokens,
        in_flight: class.outstanding,
        quantum: class.quantum,
        vanished: class.draining,
        limits: EffectiveLimits {
            requests,
            raw_isl_tokens,
            cached_tokens,
        },
        outcomes: OutcomeCounts {
            rejected: RejectedCounts {
                requests: rejected_requests,
                raw_isl_tokens: rejected_raw,
                cached_tokens: rejected_cached,
                may_wait,
            },
            expired: counters.expired,
            cancelled: counters.cancelled,
            failed: counters.failed.iter().sum(),
            shutting_down: counters.shutting_down,
        },
        remembered: class
            .remembered
            .map(|ticket| machine.names.id_of_ticket(ticket)),
        lanes: class.lanes.iter().map(lane).collect(),
    }
}

fn endpoint_states(endpoints: &[arbiter::EndpointState]) -> Vec<EndpointState> {
    let mut uses: Vec<u64> = endpoints
        .iter()
        .map(|endpoint| endpoint.last_use)
        .filter(|&last_use| last_use > 0)
        .collect();
    uses.sort_unstable();
    endpoints
        .iter()
        .map(|endpoint| EndpointState {
            id: endpoint.endpoint.worker.0,
            rank: endpoint.endpoint.rank,
            prefill_tokens: endpoint.prefill_tokens,
            active: endpoint.active,
            reported_tokens: endpoint.reported_tokens,
            shut: endpoint.shut,
            last_use_place: uses
                .binary_search(&endpoint.last_use)
                .map_or(0, |at| at as u64 + 1),
            number: u64::from(endpoint.index.0),
            available: endpoint.available,
            overloaded: endpoint.overloaded,
        })
        .collect()
}
