//! Events: what comes out of a scenario.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::{Decided, Endpoint, Explanation, OpName, State};

/// One event of a scenario (S13).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[expect(
    missing_docs,
    reason = "`now_us` (when), `id` (the request) and `class` (its class) mean the same everywhere"
)]
pub enum Event {
    /// A request was taken and waits in its lane.
    Queued {
        now_us: u64,
        id: String,
        class: String,
        /// `max(1, uncached)` (S2.1).
        cost: u64,
        /// Where it waits.
        lane: Lane,
    },
    /// A limit was in the way (S7.1), or the request may not wait (S7.2).
    Rejected {
        now_us: u64,
        id: String,
        class: String,
        /// Which limit.
        limit_kind: LimitKind,
        /// What counts against the limit at present.
        current: u64,
        /// The effective limit.
        limit: u64,
        /// How many workers are known.
        workers: u64,
    },
    /// A request was handed to an endpoint.
    Dispatched {
        now_us: u64,
        id: String,
        class: String,
        /// The endpoint.
        worker: Endpoint,
        /// What was charged.
        cost: u64,
        /// The class's deficit when the dispatch is complete (S6.2).
        deficit: u64,
        /// How often the request has been handed over, this time included (S9.3).
        attempt: u32,
        /// From submission until now.
        wait_us: u64,
    },
    /// A request can run nowhere, or could not be handed over.
    Failed {
        now_us: u64,
        id: String,
        class: String,
        /// Why.
        reason: FailReason,
    },
    /// A deadline passed (S11.1).
    Expired {
        now_us: u64,
        id: String,
        class: String,
    },
    /// The caller gave the request up (S11.2).
    Cancelled {
        now_us: u64,
        id: String,
        class: String,
    },
    /// A request that could not be handed over is back in its lane (S9.4).
    Requeued {
        now_us: u64,
        id: String,
        class: String,
    },
    /// The drain is over, or the hand-over failed while it lasted (S11.3).
    ShuttingDown {
        now_us: u64,
        id: String,
        class: String,
    },
    /// A submission after `stop`; it was not accepted.
    Closed { now_us: u64, id: String },
    /// An operation that found nothing to do and touched nothing (S9.3).
    Stale {
        now_us: u64,
        /// The operation.
        op: OpName,
        /// What it was about.
        #[serde(flatten)]
        subject: Subject,
    },
    /// A turn ended because no class had a candidate.
    Dry {
        now_us: u64,
        /// Requests that still wait.
        waiting: u64,
    },
    /// A new profile is in force (S3.7).
    Reloaded {
        now_us: u64,
        /// How many reloads have succeeded.
        generation: u64,
    },
    /// A line that is not an operation, or a file that is not a policy; nothing was changed.
    Invalid {
        now_us: u64,
        /// The line's number, from 1.
        line: u64,
        /// What is wrong and what would be right.
        error: String,
    },
    /// A journal says that something else was decided; the replay ends.
    Differs {
        now_us: u64,
        /// The journal's line, from 1.
        line: u64,
        /// What the line says; none if it is no decision.
        recorded: Option<Decided>,
        /// What the replay decided; none if nothing more.
        replayed: Option<Decided>,
    },
    /// The answer to [`Op::State`](super::Op::State).
    State(Box<State>),
    /// Why a selection went as it did; only from machines that were asked to explain.
    Explain(Box<Explanation>),
}

impl Event {
    /// The event as one line, without line end.
    #[must_use]
    #[expect(
        clippy::missing_panics_doc,
        reason = "its keys are strings and its numbers whole"
    )]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("an event has string keys and whole numbers")
    }
}

/// Puts the events of each run of consecutive `failed`, and of each run of consecutive `expired`,
/// events into the order of their ids: inside such a run the order is free (S13).
pub fn settle_order(events: &mut [Event]) {
    let free = |event: &Event| matches!(event, Event::Failed { .. } | Event::Expired { .. });
    let same = |a: &Event, b: &Event| {
        free(a) && free(b) && std::mem::discriminant(a) == std::mem::discriminant(b)
    };
    for run in events.chunk_by_mut(same).filter(|run| run.len() > 1) {
        run.sort_by(|a, b| free_id(a).cmp(&free_id(b)));
    }
}

fn free_id(event: &Event) -> Option<&str> {
    match event {
        Event::Failed { id, .. } | Event::Expired { id, .. } => Some(id),
        _ => None,
    }
}

/// A lane of a class; written `"shared"` or `[worker, rank]` (S4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// The lane of everything that is not pinned.
    Shared,
    /// The lane of what is pinned to one endpoint.
    Exact(Endpoint),
}

impl Serialize for Lane {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Shared => serializer.serialize_str("shared"),
            Self::Exact(endpoint) => endpoint.serialize(serializer),
        }
    }
}

/// What an operation without effect was about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A request; written as `id`.
    Request(String),
    /// A worker; written as `id`.
    Worker(u64),
    /// An endpoint; written as `worker`.
    Endpoint(Endpoint),
}

impl Serialize for Subject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        match self {
            Self::Request(id) => map.serialize_entry("id", id)?,
            Self::Worker(id) => map.serialize_entry("id", id)?,
            Self::Endpoint(endpoint) => map.serialize_entry("worker", endpoint)?,
        }
        map.end()
    }
}

/// What stood in the way of a rejected request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// `request_queue_limit_per_worker`.
    Requests,
    /// `raw_isl_token_queue_limit_per_worker`.
    RawIslTokens,
    /// `cached_token_queue_limit_per_worker`.
    CachedTokens,
    /// It would have had to wait, and was submitted with `may_wait: false`.
    MayWait,
}

/// Why a request failed (S8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailReason {
    /// No worker is known.
    NoWorkers,
    /// No known endpoint may run it.
    NoEligibleWorker,
    /// Every endpoint that may run it is overloaded.
    AllEligibleOverloaded,
    /// It was handed over as often as allowed, each time without success (S9.4).
    HandOff,
    /// Its pin is not in its own allow-list.
    PinnedWorkerNotAllowed,
    /// Its worker is not known.
    PinnedWorkerUnknown,
    /// Its worker is not available.
    PinnedWorkerUnavailable,
    /// Its worker has no such rank.
    PinnedRankOutOfRange,
    /// Its worker lacks a taint that it asks for.
    PinnedTaintMissing,
    /// Its worker is overloaded.
    PinnedWorkerOverloaded,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> String {
        text.to_owned()
    }

    #[test]
    fn s13_fields_stand_in_the_documented_order() {
        let (id, class) = (text("a"), text("c"));
        let dispatched = Event::Dispatched {
            now_us: 1,
            id: id.clone(),
            class: class.clone(),
            worker: Endpoint::new(7, 2),
            cost: 5,
            deficit: 6,
            attempt: 1,
            wait_us: 3,
        };
        assert_eq!(
            dispatched.to_json(),
            r#"{"event":"dispatched","now_us":1,"id":"a","class":"c","worker":[7,2],"cost":5,"deficit":6,"attempt":1,"wait_us":3}"#
        );
        let rejected = Event::Rejected {
            now_us: 1,
            id: id.clone(),
            class: class.clone(),
            limit_kind: LimitKind::RawIslTokens,
            current: 9,
            limit: 8,
            workers: 2,
        };
        assert_eq!(
            rejected.to_json(),
            r#"{"event":"rejected","now_us":1,"id":"a","class":"c","limit_kind":"raw_isl_tokens","current":9,"limit":8,"workers":2}"#
        );
        for (lane, shown) in [
            (Lane::Shared, r#""shared""#),
            (Lane::Exact(Endpoint::new(1, 0)), "[1,0]"),
        ] {
            let (id, class) = (id.clone(), class.clone());
            let queued = Event::Queued {
                now_us: 0,
                id,
                class,
                cost: 1,
                lane,
            };
            assert_eq!(
                queued.to_json(),
                format!(
                    r#"{{"event":"queued","now_us":0,"id":"a","class":"c","cost":1,"lane":{shown}}}"#
                )
            );
        }
        let failed = Event::Failed {
            now_us: 0,
            id,
            class,
            reason: FailReason::PinnedTaintMissing,
        };
        assert!(
            failed
                .to_json()
                .ends_with(r#""reason":"pinned_taint_missing"}"#)
        );
    }

    #[test]
    fn s13_stale_names_what_it_was_about() {
        for (op, subject, rest) in [
            (
                OpName::Cancel,
                Subject::Request(text("x")),
                r#""op":"cancel","id":"x"}"#,
            ),
            (
                OpName::RemoveWorker,
                Subject::Worker(3),
                r#""op":"remove_worker","id":3}"#,
            ),
            (
                OpName::Load,
                Subject::Endpoint(Endpoint::new(3, 1)),
                r#""op":"load","worker":[3,1]}"#,
            ),
        ] {
            let stale = Event::Stale {
                now_us: 4,
                op,
                subject,
            };
            assert_eq!(
                stale.to_json(),
                format!(r#"{{"event":"stale","now_us":4,{rest}"#)
            );
        }
    }

    #[test]
    fn s13_only_runs_of_one_kind_are_put_in_order() {
        let failed = |id| Event::Failed {
            now_us: 0,
            id: text(id),
            class: text("c"),
            reason: FailReason::NoWorkers,
        };
        let expired = |id| Event::Expired {
            now_us: 0,
            id: text(id),
            class: text("c"),
        };
        let dry = Event::Dry {
            now_us: 0,
            waiting: 0,
        };
        let mut events = [
            failed("z"),
            failed("b"),
            expired("y"),
            expired("a"),
            dry.clone(),
            failed("a"),
        ];
        settle_order(&mut events);
        let settled = [
            failed("b"),
            failed("z"),
            expired("a"),
            expired("y"),
            dry,
            failed("a"),
        ];
        assert_eq!(events, settled);
    }
}
