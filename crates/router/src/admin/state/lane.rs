//! A lane's gate in numbers and words.

use tollgate::policy::ClassPolicy;
use tollgate::{EndpointState, HeadState as EngineHead, LaneState as EngineLane, Nanos};

use super::{EntryState, HeadState, LaneState};

/// What a worker that does not say its `max_batched_tokens` is taken to have (S5.1).
const MAX_BATCHED_TOKENS_DEFAULT: u64 = 10_000_000;

/// The load above which an endpoint of such a worker is busy for a class (S5.1); none: load makes nothing busy.
pub(super) fn threshold(policy: &ClassPolicy, max_batched_tokens: Option<u64>) -> Option<u64> {
    let relative = policy.prefill_busy_threshold_frac.map(|fraction| {
        fraction.floor_of(max_batched_tokens.unwrap_or(MAX_BATCHED_TOKENS_DEFAULT))
    });
    let absolute = policy.prefill_busy_threshold;
    absolute.into_iter().chain(relative).min()
}

/// Of which class a lane is, and what decides over it.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) now: Nanos,
    pub(super) policy: Option<&'a ClassPolicy>,
    /// The endpoints that the class counts busy, with their workers' `max_batched_tokens`.
    pub(super) busy: &'a [(&'a EndpointState, Option<u64>)],
}

/// A lane as an operator sees it.
pub(super) fn lane(lane: &EngineLane, context: Context<'_>) -> LaneState {
    let head = head(lane, context);
    let entries = lane.entries.iter().map(|entry| EntryState {
        cost_tokens: entry.cost,
        waited_ms: millis(context.now.0.saturating_sub(entry.submitted_at.0)),
        deadline_in_ms: entry
            .deadline
            .map(|deadline| millis(deadline.0.saturating_sub(context.now.0))),
        attempts: entry.attempts,
    });
    LaneState {
        lane: lane.endpoint.map_or_else(
            || "shared".to_owned(),
            |endpoint| format!("{}:{}", endpoint.worker.0, endpoint.rank),
        ),
        why: words(&head, lane.endpoint.is_some()),
        entries: entries.collect(),
        head,
    }
}

fn head(lane: &EngineLane, context: Context<'_>) -> HeadState {
    match lane.head {
        EngineHead::Open => HeadState::Open,
        EngineHead::Doomed(reason) => HeadState::Doomed {
            reason: reason.code().to_owned(),
        },
        EngineHead::Shut { busy, eligible } => {
            let ratio = context.policy.and_then(|policy| policy.busy_worker_ratio);
            let ratio = ratio.filter(|_| lane.endpoint.is_none());
            let part = ratio.map_or(u64::from(eligible), |ratio| ratio.ceil_of(eligible.into()));
            HeadState::Shut {
                busy,
                eligible,
                shut_at: u32::try_from(part.max(1)).unwrap_or(eligible),
                threshold_tokens: exceeded(lane, context),
            }
        }
    }
}

/// The lowest threshold that a busy endpoint of the lane exceeds.
fn exceeded(lane: &EngineLane, context: Context<'_>) -> Option<u64> {
    let of_lane = context
        .busy
        .iter()
        .filter(|(endpoint, _)| lane.endpoint.is_none_or(|only| only == endpoint.endpoint));
    let thresholds = of_lane.filter_map(|&(endpoint, max_batched_tokens)| {
        let threshold = threshold(context.policy?, max_batched_tokens)?;
        (endpoint.prefill_tokens > threshold).then_some(threshold)
    });
    thresholds.min()
}

fn words(head: &HeadState, is_exact: bool) -> String {
    match head {
        HeadState::Open => "open: it goes when its class has its turn and the credit".to_owned(),
        HeadState::Doomed { reason } => {
            format!("it can run nowhere and is about to fail: {reason}")
        }
        HeadState::Shut {
            busy,
            eligible,
            shut_at,
            threshold_tokens,
        } => {
            let why = threshold_tokens.map_or_else(
                || "no more can be sent there for the moment".to_owned(),
                |threshold| format!("loaded above {threshold} tokens"),
            );
            if is_exact || *eligible == 1 {
                format!("shut: the only worker that may run it is busy, {why}")
            } else if shut_at == eligible {
                format!("shut: all {eligible} workers that may run it are busy, {why}")
            } else {
                let part = format!("{busy} of {eligible} workers that may run it");
                format!("shut: {part} are busy, {why}; {shut_at} suffice to shut it")
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a time to look at")]
pub(super) fn millis(nanos: u64) -> f64 {
    (nanos / 1_000) as f64 / 1e3
}
