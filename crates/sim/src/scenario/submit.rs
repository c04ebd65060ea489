//! A submission's way into the arbiter.

use tollgate_arbiter::{self as arbiter, Nanos, Request, SlotPool, Ticket, WorkerId};

use super::ArbiterMachine;
use super::translate::{hint_of, to_arbiter};
use crate::protocol::{Event, Machine, Submission};

impl ArbiterMachine {
    /// Gives the request a slot and submits it.
    pub(super) fn submit(&mut self, submission: &Submission, out: &mut Vec<Event>) {
        let Some(ticket) = self.slots.as_mut().and_then(SlotPool::take) else {
            let slots = self.arbiter.capacities().slots;
            let error = format!("no room: as many requests are live as may be, {slots}");
            out.push(self.invalid(error));
            return;
        };
        let request = self.names.add(&submission.id, ticket);
        let refused = self.submit_to_arbiter(submission, ticket, request);
        self.report(out);
        if let Err(refused) = refused {
            self.free(ticket);
            out.push(match refused.reason {
                arbiter::Refusal::Closed => Event::Closed {
                    now_us: self.now_us(),
                    id: submission.id.clone(),
                },
                reason => self.invalid(reason.to_string()),
            });
        }
    }

    fn submit_to_arbiter(
        &mut self,
        submission: &Submission,
        ticket: Ticket,
        payload: u32,
    ) -> Result<(), arbiter::Refused<u32>> {
        let hints: Vec<arbiter::Hint> = submission.hints.iter().copied().map(hint_of).collect();
        let allow: Option<Vec<WorkerId>> = submission
            .allow
            .as_ref()
            .map(|ids| ids.iter().copied().map(WorkerId).collect());
        let taints: Vec<&str> = submission
            .require_taints
            .iter()
            .map(String::as_str)
            .collect();
        let request = Request {
            raw_tokens: submission.isl,
            cached_tokens: submission.cached,
            hints: &hints,
            strict_priority: submission.strict_priority,
            priority_jump: submission.priority_jump,
            pin: submission.pin.map(to_arbiter),
            allow: allow.as_deref(),
            require_taints: &taints,
            deadline: submission.deadline_us.map(Nanos::from_micros),
            may_wait: submission.may_wait,
            submitted_at: self.arbiter.now(),
        };
        let reported = &mut self.reported;
        let family = submission.family.as_deref();
        self.arbiter
            .submit(ticket, family, &request, payload, &mut |event| {
                reported.push(event);
            })
    }
}
