//! Why each lane's head waits, for people.

use tollgate_arbiter::{ClassState, EndpointState, HeadState, LaneState, State};
use tollgate_policy::ClassPolicy;

use super::ArbiterMachine;
use super::select_trace::{Winner, trace};
use super::translate::lane_of;
use crate::protocol::{HeadTrace, WaitsFor};

/// What fractional thresholds refer to where a worker does not say (S5.1).
const MAX_BATCHED_TOKENS_UNSET: u64 = 10_000_000;

/// Every lane's head in `state`, and what it waits for.
pub(super) fn heads(machine: &ArbiterMachine, state: &State) -> Vec<HeadTrace> {
    let next = trace(state).winner;
    let mut heads = Vec::new();
    for class in &state.classes {
        for lane in &class.lanes {
            let Some(head) = lane.entries.first() else {
                continue;
            };
            let (waits_for, why) = match lane.head {
                HeadState::Doomed(reason) => (
                    WaitsFor::Failure,
                    format!(
                        "it can run nowhere ({}) and fails at the next sweep",
                        reason.code()
                    ),
                ),
                HeadState::Shut { busy, eligible } => (
                    WaitsFor::Gate,
                    gate(machine, state, class, lane, busy, eligible),
                ),
                HeadState::Open => open(machine, class, head.ticket, next.as_ref()),
            };
            heads.push(HeadTrace {
                id: machine.names.id_of_ticket(head.ticket),
                class: class.name.to_string(),
                lane: lane_of(lane.endpoint),
                waits_for,
                why,
            });
        }
    }
    heads
}

/// A head that its gate would let through.
fn open(
    machine: &ArbiterMachine,
    class: &ClassState,
    ticket: tollgate_arbiter::Ticket,
    next: Option<&Winner>,
) -> (WaitsFor, String) {
    match class.candidate {
        Some((candidate, _)) if candidate != ticket => {
            let better = machine.names.id_of_ticket(candidate);
            (
                WaitsFor::BetterHead,
                format!("{better} is the better head of its class"),
            )
        }
        Some((_, cost)) if next.is_some_and(|next| next.class != class.index) => {
            let deficit = class.deficit;
            let turn = if class.turn_open { "open" } else { "closed" };
            let why = format!(
                "its class's turn has not come: deficit {deficit} of cost {cost}, turn {turn}"
            );
            (WaitsFor::Turn, why)
        }
        _ => (
            WaitsFor::Selection,
            "nothing: it goes at the next selection".to_owned(),
        ),
    }
}

/// A head whose gate is shut: the counts, and what makes each busy endpoint busy.
fn gate(
    machine: &ArbiterMachine,
    state: &State,
    class: &ClassState,
    lane: &LaneState,
    busy: u32,
    eligible: u32,
) -> String {
    let policy = machine
        .arbiter
        .profile()
        .classes()
        .iter()
        .find(|policy| policy.name == class.name);
    let mut why = match (
        lane.endpoint,
        policy.and_then(|policy| policy.busy_worker_ratio),
    ) {
        (Some(_), _) => "its endpoint is busy".to_owned(),
        (None, None) => format!("{busy} of {eligible} eligible endpoints are busy"),
        (None, Some(ratio)) => format!(
            "{busy} of {eligible} eligible endpoints are busy, busy_worker_ratio is {ratio}"
        ),
    };
    let busy_here = state.endpoints.iter().filter(|endpoint| {
        endpoint.busy_for.contains(&class.index)
            && lane.endpoint.is_none_or(|pin| pin == endpoint.endpoint)
    });
    for (at, endpoint) in busy_here.enumerate() {
        why.push_str(if at == 0 { ": " } else { "; " });
        why.push_str(&busy_endpoint(machine, endpoint, policy));
    }
    why
}

/// Everything that makes `endpoint` busy for a class.
fn busy_endpoint(
    machine: &ArbiterMachine,
    endpoint: &EndpointState,
    policy: Option<&ClassPolicy>,
) -> String {
    let tokens = endpoint.prefill_tokens;
    let mut reasons = Vec::new();
    if let Some(threshold) = policy.and_then(|policy| policy.prefill_busy_threshold)
        && tokens > threshold
    {
        reasons.push(format!(
            "{tokens} prefill tokens > prefill_busy_threshold {threshold}"
        ));
    }
    if let Some(fraction) = policy.and_then(|policy| policy.prefill_busy_threshold_frac) {
        let worker = endpoint.endpoint.worker.0;
        let max = machine
            .max_batched
            .get(&worker)
            .copied()
            .unwrap_or(MAX_BATCHED_TOKENS_UNSET);
        let threshold = fraction.floor_of(max);
        if tokens > threshold {
            reasons.push(format!(
                "{tokens} prefill tokens > prefill_busy_threshold_frac {fraction} of {max}, \
                 {threshold}"
            ));
        }
    }
    if endpoint.shut {
        reasons.push("its egress is full".to_owned());
    }
    if endpoint.overloaded {
        reasons.push("overloaded".to_owned());
    }
    format!("{} {}", endpoint.endpoint, reasons.join(", "))
}
