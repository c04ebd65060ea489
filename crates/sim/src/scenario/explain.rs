//! Selections with their reasons.
//!
//! The arbiter copies out its whole state before a selection; the rules are played on that copy
//! ([`select_trace`](super::select_trace)), and the state after it says what the rest waits for
//! ([`wait_trace`](super::wait_trace)). Events and their order stay exactly as without explaining.

use tollgate_arbiter::State;

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

    /// A submission; selections that a limit made it wait for are pointed out.
    pub(super) fn submit_explained(&mut self, submission: &Submission, out: &mut Vec<Event>) {
        let mut events = Vec::new();
        self.submit(submission, &mut events);
        for event in events {
            let selected = match &event {
                Event::Dispatched { id, .. } => Some(id.clone()),
                _ => None,
            };
            out.push(event);
            if let Some(id) = selected {
                let why = format!(
                    "a limit stood in the way of {}, so selections ran before it was judged (S7.1)",
                    submission.id
                );
                out.push(Event::Explain(Box::new(Explanation {
                    now_us: self.now_us(),
                    dispatched: Some(id),
                    why,
                    selection: Vec::new(),
                    waiting: Vec::new(),
                })));
            }
        }
    }

    /// Puts the explanation of the one selection behind its dispatch, or at the end if it was dry.
    fn explain(&self, before: &State, from: usize, out: &mut Vec<Event>) {
        let played = trace(before);
        let dispatched = out[from..]
            .iter()
            .position(|event| matches!(event, Event::Dispatched { .. }));
        let at = dispatched.map_or(out.len(), |offset| from + offset + 1);
        let (id, why) = match out.get(at - 1) {
            Some(Event::Dispatched {
                id, class, worker, ..
            }) if dispatched.is_some() => {
                let because = played.winner.as_ref().map_or("", |winner| winner.because);
                let (worker, rank) = (worker.worker, worker.rank);
                (
                    Some(id.clone()),
                    format!("{class} sent {id} to [{worker}, {rank}]: {because}"),
                )
            }
            _ => (
                None,
                "no class had a candidate: nothing was granted, nothing changed".to_owned(),
            ),
        };
        let explanation = Explanation {
            now_us: self.now_us(),
            dispatched: id,
            why,
            selection: self.class_traces(before, played),
            waiting: wait_trace::heads(self, &self.arbiter.state()),
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
