//! Why each lane's head waits, and why what may not wait was refused, for people.

use std::collections::{BTreeMap, BTreeSet};

use tollgate_arbiter::{ClassState, EndpointState, HeadState, LaneState, State};
use tollgate_policy::ClassPolicy;

use super::ArbiterMachine;
use super::select_trace::{Winner, trace};
use super::translate::lane_of;
use crate::protocol::{Event, HeadTrace, WaitsFor};

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

/// What `events`, the turn's last, refuse because it may not wait (S7.2), and why each was no
/// dispatchable head. `before` is the state before the turn's last selection, `after` at its end.
pub(super) fn refused(
    machine: &ArbiterMachine,
    before: &State,
    after: &State,
    events: &[Event],
) -> Vec<HeadTrace> {
    let (refused, gone) = fates(events);
    if refused.is_empty() {
        return Vec::new();
    }
    let mut traces = Vec::new();
    for class in &before.classes {
        for lane in &class.lanes {
            // The best that was left in the lane was its head.
            let mut head: Option<String> = None;
            for entry in &lane.entries {
                let id = machine.names.id_of_ticket(entry.ticket);
                if gone.contains(id.as_str()) {
                    continue;
                }
                if let Some(&at) = refused.get(id.as_str()) {
                    let (waits_for, why) = match (&head, lane.head) {
                        (Some(head), _) => (WaitsFor::Lane, format!("{head} stands before it")),
                        (None, HeadState::Shut { busy, eligible }) if gone.is_empty() => {
                            let why = gate(machine, after, class, lane, busy, eligible);
                            (WaitsFor::Gate, why)
                        }
                        (None, _) => {
                            let busy = busy_endpoints(machine, after, class, lane);
                            (WaitsFor::Gate, format!("its gate was shut{busy}"))
                        }
                    };
                    let trace = HeadTrace {
                        id: id.clone(),
                        class: class.name.to_string(),
                        lane: lane_of(lane.endpoint),
                        waits_for,
                        why,
                    };
                    traces.push((at, trace));
                }
                head.get_or_insert(id);
            }
        }
    }
    traces.sort_by_key(|(at, _)| *at);
    traces.into_iter().map(|(_, trace)| trace).collect()
}

/// By id: the places of what was rejected, and what else left its lane.
fn fates(events: &[Event]) -> (BTreeMap<&str, usize>, BTreeSet<&str>) {
    let (mut refused, mut gone) = (BTreeMap::new(), BTreeSet::new());
    for (at, event) in events.iter().enumerate() {
        match event {
            Event::Rejected { id, .. } => {
                refused.insert(id.as_str(), at);
            }
            Event::Dispatched { id, .. } | Event::Expired { id, .. } | Event::Failed { id, .. } => {
                gone.insert(id.as_str());
            }
            _ => {}
        }
    }
    (refused, gone)
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
    let policy = policy_of(machine, class);
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
    why.push_str(&busy_endpoints(machine, state, class, lane));
    why
}

/// Behind a colon, each endpoint that is busy for the lane and why; nothing if there is none.
fn busy_endpoints(
    machine: &ArbiterMachine,
    state: &State,
    class: &ClassState,
    lane: &LaneState,
) -> String {
    let policy = policy_of(machine, class);
    let busy_here = state.endpoints.iter().filter(|endpoint| {
        endpoint.busy_for.contains(&class.index)
            && lane.endpoint.is_none_or(|pin| pin == endpoint.endpoint)
    });
    let mut text = String::new();
    for (at, endpoint) in busy_here.enumerate() {
        text.push_str(if at == 0 { ": " } else { "; " });
        text.push_str(&busy_endpoint(machine, endpoint, policy));
    }
    text
}

fn policy_of<'m>(machine: &'m ArbiterMachine, class: &ClassState) -> Option<&'m ClassPolicy> {
    let mut classes = machine.arbiter.profile().classes().iter();
    classes.find(|policy| policy.name == class.name)
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
