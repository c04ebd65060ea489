//! Selections with their reasons.
//!
//! The arbiter copies out its whole state before a selection; the rules are played on that copy
//! ([`select_trace`](super::select_trace)), and the state after it says what the rest waits for
//! ([`wait_trace`](super::wait_trace)). Events and their order stay exactly as without explaining.

use std::cell::RefCell;

use tollgate_arbiter::{State, TurnBudget};

use super::select_trace::{Trace, trace};
use super::translate::lane_of;
use super::{ArbiterMachine, wait_trace};
use crate::protocol::{ClassTrace, Event, Explanation, Machine, Submission};

impl ArbiterMachine {
    /// A turn like [`ArbiterMachine::arbitrate`], selection by selection.
    pub(super) fn arbitrate_explained(&mut self, max: Option<u64>, out: &mut Vec<Event>) {
        if max == Some(0) {
            return self.arbitrate(max, out);
        }
        let mut left = max;
        loop {
            // The sweep of the selection, done ahead so that the copy shows what the selection saw.
            let now = self.arbiter.now();
            self.advance(now, out);
            let before = self.arbiter.state();
            let from = out.len();
            if left == Some(1) {
                self.arbitrate(left, out);
                return self.explain(&before, from, out);
            }
            if !self.select(out) {
                // A dry selection changes nothing: the turn's own one is as dry.
                self.arbitrate(left, out);
                return self.explain(&before, from, out);
            }
            self.explain(&before, from, out);
            left = left.map(|left| left - 1);
        }
    }

    /// A submission. Selections that a limit made it wait for are pointed out, and the dry one before
    /// a refusal is explained in full (S7.1).
    pub(super) fn submit_explained(&mut self, submission: &Submission, out: &mut Vec<Event>) {
        if !self.has_limits() {
            return self.submit(submission, out);
        }
        self.explain_limits(&submission.id, out, |machine, events| {
            machine.submit(submission, events);
        });
    }

    /// The same for any way of submitting.
    pub(super) fn explain_limits(
        &mut self,
        id: &str,
        out: &mut Vec<Event>,
        submit: impl FnOnce(&mut Self, &mut Vec<Event>),
    ) {
        let before = self.arbiter.state();
        let mut events = Vec::new();
        submit(self, &mut events);
        // The copy is what the first selection saw if its sweep had nothing to do. Nobody saw what
        // the arbiter was like between two selections.
        let swept_nothing = matches!(events.first(), Some(Event::Dispatched { .. }));
        let mut seen = swept_nothing.then_some(before);
        let limit = format!("a limit stood in the way of {id}");
        for event in events {
            match event {
                Event::Dispatched { ref id, .. } => {
                    let selection = seen
                        .take()
                        .map(|seen| self.class_traces(&seen, trace(&seen)));
                    let explanation = Explanation {
                        now_us: self.now_us(),
                        dispatched: Some(id.clone()),
                        why: format!("{limit}, so selections ran before it was judged (S7.1)"),
                        selection: selection.unwrap_or_default(),
                        waiting: None,
                        refused: Vec::new(),
                    };
                    out.push(event);
                    out.push(Event::Explain(Box::new(explanation)));
                }
                Event::Rejected { .. } => {
                    // Neither the dry selection nor the refusal after it changed what counts here.
                    let now = self.arbiter.state();
                    let explanation = Explanation {
                        now_us: self.now_us(),
                        dispatched: None,
                        why: format!("{limit}, and no class had a candidate (S7.1)"),
                        selection: self.class_traces(&now, trace(&now)),
                        waiting: Some(wait_trace::heads(self, &now)),
                        refused: Vec::new(),
                    };
                    out.push(Event::Explain(Box::new(explanation)));
                    out.push(event);
                }
                event => out.push(event),
            }
        }
    }

    /// Whether a submission may cause selections.
    pub(super) fn has_limits(&self) -> bool {
        let classes = self.arbiter.profile().classes();
        classes.iter().any(|class| {
            class.request_queue_limit_per_worker.is_some()
                || class.raw_isl_token_queue_limit_per_worker.is_some()
                || class.cached_token_queue_limit_per_worker.is_some()
        })
    }

    /// A turn within a budget, as one: what a selection saw is copied out right before it.
    pub(super) fn turn_explained(&mut self, budget: TurnBudget, out: &mut Vec<Event>) {
        let reported = RefCell::new(std::mem::take(&mut self.reported));
        let mut seen = Vec::new();
        let turn = self.arbiter.turn_watched(
            budget,
            &mut |event| reported.borrow_mut().push(event),
            |arbiter| seen.push((reported.borrow().len(), arbiter.state())),
        );
        let mut reported = reported.into_inner().into_iter();
        let last = self.arbiter.state();
        let states = seen.iter().skip(1).map(|(_, state)| state).chain([&last]);
        let ends = seen.iter().skip(1).map(|&(at, _)| at).chain([usize::MAX]);
        let mut taken = seen.first().map_or(usize::MAX, |&(at, _)| at);
        self.reported = reported.by_ref().take(taken).collect();
        self.report(out);
        for (((start, before), after), end) in seen.iter().zip(states).zip(ends) {
            debug_assert_eq!(*start, taken);
            let from = out.len();
            // The sweep of the next selection comes behind this one's explanation.
            let count = end.saturating_sub(taken);
            self.reported = reported.by_ref().take(count).collect();
            self.report(out);
            taken = end;
            if end == usize::MAX {
                self.tell_dry(turn, out);
            }
            self.explain_between(before, after, from, out);
        }
    }

    /// Puts the explanation of the one selection behind its dispatch, or at the end if it was dry.
    fn explain(&self, before: &State, from: usize, out: &mut Vec<Event>) {
        self.explain_between(before, &self.arbiter.state(), from, out);
    }

    fn explain_between(&self, before: &State, after: &State, from: usize, out: &mut Vec<Event>) {
        let played = trace(before);
        let refused = wait_trace::refused(self, before, after, &out[from..]);
        let dispatched = out[from..]
            .iter()
            .position(|event| matches!(event, Event::Dispatched { .. }));
        let at = dispatched.map_or(out.len(), |offset| from + offset + 1);
        let (id, why, left) = match out.get(at - 1) {
            Some(Event::Dispatched {
                id, class, worker, ..
            }) if dispatched.is_some() => {
                let because = played.winner.as_ref().map_or("", |winner| winner.because);
                let (worker, rank) = (worker.worker, worker.rank);
                let why = format!("{class} sent {id} to [{worker}, {rank}]: {because}");
                (Some(id.clone()), why, after)
            }
            _ => {
                let why = "no class had a candidate: nothing was granted, nothing changed";
                // What is refused (S7.2) waited while the selection ran.
                (None, why.to_owned(), before)
            }
        };
        let explanation = Explanation {
            now_us: self.now_us(),
            dispatched: id,
            why,
            selection: self.class_traces(before, played),
            waiting: Some(wait_trace::heads(self, left)),
            refused,
        };
        out.insert(at, Event::Explain(Box::new(explanation)));
    }

    fn class_traces(&self, before: &State, played: Trace) -> Vec<ClassTrace> {
        let traced = played.classes.into_iter().filter_map(|traced| {
            let class = before
                .classes
                .iter()
                .find(|class| class.index == traced.class)?;
            let candidate = class.candidate.map(|(ticket, _)| ticket);
            let lane = class.lanes.iter().find(|lane| {
                lane.entries
                    .first()
                    .is_some_and(|head| Some(head.ticket) == candidate)
            });
            Some(ClassTrace {
                class: class.name.to_string(),
                candidate: candidate.map(|ticket| self.names.id_of_ticket(ticket)),
                lane: lane.map(|lane| lane_of(lane.endpoint)),
                cost: class.candidate.map(|(_, cost)| u64::from(cost)),
                deficit: class.deficit,
                quantum: class.quantum,
                turn_open: class.turn_open,
                steps: traced.steps,
            })
        });
        traced.collect()
    }
}
