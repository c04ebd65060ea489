//! Tests of the oracle: every worked value, by chapter, and known faults that must be found.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod drr;
mod lanes;
mod lifecycle;
mod mutations;
mod random;

use tollgate_policy::{Arbitration, Bucket, ClassPolicy, Profile, ProfileSpec};

use super::{Mutation, Oracle};
use crate::protocol::{ClassState, Event, Machine, Op, State};

/// A class that is reached by its own name as the family.
fn class(name: &str, quantum: u64) -> ClassPolicy {
    ClassPolicy::matrix(name, name, 0, quantum)
}

/// A class whose endpoints take one request at a time.
fn single(name: &str, quantum: u64) -> ClassPolicy {
    ClassPolicy {
        prefill_busy_threshold: Some(0),
        ..class(name, quantum)
    }
}

fn profile(classes: Vec<ClassPolicy>) -> Profile {
    let default = classes[0].family().unwrap().to_owned();
    Profile::build(ProfileSpec::new(
        &default,
        vec![Bucket::new(0, "all")],
        classes,
    ))
    .unwrap()
}

fn page(classes: Vec<ClassPolicy>) -> Profile {
    profile(classes).with_arbitration(Arbitration::Page)
}

/// A machine and what it has said.
struct Run {
    oracle: Oracle,
    events: Vec<Event>,
}

impl Run {
    fn new(profile: &Profile) -> Self {
        Self {
            oracle: Oracle::new(profile, 0),
            events: Vec::new(),
        }
    }

    fn mutated(profile: &Profile, mutation: Mutation) -> Self {
        Self {
            oracle: Oracle::mutated(profile, 0, mutation),
            events: Vec::new(),
        }
    }

    /// Carries out one operation; the events that it causes.
    fn op(&mut self, line: &str) -> &[Event] {
        let before = self.events.len();
        self.oracle
            .apply(&Op::parse(line).unwrap(), &mut self.events);
        &self.events[before..]
    }

    fn ops(&mut self, lines: &[&str]) {
        for line in lines {
            self.op(line);
        }
    }

    /// `count` requests of one class, named after it and numbered from 0.
    fn submit_many(&mut self, class: &str, count: usize, isl: u32) {
        for index in 0..count {
            self.op(&format!(
                r#"{{"op":"submit","id":"{class}{index}","family":"{class}","isl":{isl}}}"#
            ));
        }
    }

    fn reload(&mut self, profile: &Profile) {
        self.oracle.reload(profile, &mut self.events);
    }

    /// Runs one turn of at most `max` dispatches; what went out, as (id, deficit).
    fn turn(&mut self, max: u64) -> Vec<(String, u64)> {
        let events = self.op(&format!(r#"{{"op":"arbitrate","max":{max}}}"#));
        dispatches(events)
    }

    /// Runs one turn of at most `max` dispatches; the ids of what went out.
    fn turn_ids(&mut self, max: u64) -> Vec<String> {
        self.turn(max).into_iter().map(|(id, _)| id).collect()
    }

    /// `[worker, rank]` of the last dispatch.
    fn last_worker(&self) -> (u64, u32) {
        let last = self.events.iter().rev().find_map(|event| match event {
            Event::Dispatched { worker, .. } => Some((worker.worker, worker.rank)),
            _ => None,
        });
        last.unwrap()
    }

    /// The last `count` events without their times, as `name id detail`.
    fn said(&self, count: usize) -> Vec<String> {
        self.events[self.events.len() - count..]
            .iter()
            .map(brief)
            .collect()
    }

    fn state(&self) -> State {
        self.oracle.state()
    }

    fn class(&self, name: &str) -> ClassState {
        self.state()
            .classes
            .into_iter()
            .find(|class| class.name == name)
            .unwrap()
    }
}

fn dispatches(events: &[Event]) -> Vec<(String, u64)> {
    let pairs = events.iter().filter_map(|event| match event {
        Event::Dispatched { id, deficit, .. } => Some((id.clone(), *deficit)),
        _ => None,
    });
    pairs.collect()
}

fn count_of(ids: &[String], class: &str) -> usize {
    ids.iter().filter(|id| id.starts_with(class)).count()
}

fn brief(event: &Event) -> String {
    match event {
        Event::Queued {
            id, class, cost, ..
        } => format!("queued {id} {class} {cost}"),
        Event::Rejected {
            id,
            limit_kind,
            current,
            limit,
            ..
        } => {
            format!("rejected {id} {limit_kind:?} {current} {limit}")
        }
        Event::Dispatched {
            id,
            worker,
            attempt,
            ..
        } => {
            format!(
                "dispatched {id} {}/{} {attempt}",
                worker.worker, worker.rank
            )
        }
        Event::Failed { id, reason, .. } => format!("failed {id} {reason:?}"),
        Event::Expired { id, .. } => format!("expired {id}"),
        Event::Cancelled { id, .. } => format!("cancelled {id}"),
        Event::Requeued { id, .. } => format!("requeued {id}"),
        Event::ShuttingDown { id, .. } => format!("shutting_down {id}"),
        Event::Closed { id, .. } => format!("closed {id}"),
        Event::Stale { op, .. } => format!("stale {}", op.as_str()),
        Event::Dry { waiting, .. } => format!("dry {waiting}"),
        Event::Reloaded { generation, .. } => format!("reloaded {generation}"),
        other => other.to_json(),
    }
}
