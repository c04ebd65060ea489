//! The end: everything that was accepted gets its outcome, and everybody hears of it (S11.3).

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use tollgate_arbiter::{ClassIndex, Nanos, Outcome};

use super::Core;
use super::hall::Desk;
use crate::Ended;
use crate::control::{ControlError, Reply};
use crate::journal::Recorder;
use crate::wire::Intake;

impl<P> Core<P> {
    /// Closes for good. In this order, so that nobody waits for ever and nothing is lost:
    ///
    /// 1. Says that the core is gone. Whoever publishes after this finds that out when it rings; what
    ///    was published before is found by the last look into the rings.
    /// 2. Takes what is in the rings, and ends what waits and what comes as `shutting_down`.
    /// 3. Leaves the egress shards what does not fit their rings, with what they sent back too late,
    ///    and tells them that this is all.
    /// 4. Hands the ingress shards their rings back, with whatever came too late.
    /// 5. Lets go of journals, and answers the control calls that wait.
    pub(super) fn close(&mut self) {
        self.close_with(|| {});
    }

    /// The same; others may get on where `between` is called. Only tests do anything there.
    pub(super) fn close_with(&mut self, mut between: impl FnMut()) {
        if !self.is_closed {
            self.leave();
            between();
            self.answer_all();
            between();
            self.tell_the_rest();
            self.let_go();
        }
    }

    /// Closes after a panic. What the arbiters know is answered if they are still able to; what they
    /// never took in is answered without them, and requeues go back to the shards that sent them.
    ///
    /// After a panic in the middle of a close as well: what was answered by then stays so.
    pub(crate) fn close_lost(&mut self) {
        self.close_lost_with(|| {});
    }

    /// The same; others may get on where `between` is called. Only tests do anything there.
    pub(super) fn close_lost_with(&mut self, mut between: impl FnMut()) {
        // The last that a close does.
        if self.replies.is_none() {
            return;
        }
        self.shared.lose();
        self.leave();
        between();
        // A second panic leaves payloads where they are, to be dropped with the core; nobody may wait
        // for ever because of it.
        let _ = catch_unwind(AssertUnwindSafe(|| self.end_waiting()));
        let _ = catch_unwind(AssertUnwindSafe(|| self.answer_submissions()));
        between();
        let _ = catch_unwind(AssertUnwindSafe(|| self.tell_the_rest()));
        self.let_go();
    }

    /// Closes a core that never turned.
    pub(crate) fn close_unused(&mut self) {
        self.close();
    }

    fn leave(&mut self) {
        self.is_closed = true;
        self.shared.close();
        self.sleeper.close();
    }

    /// Looks at what is in the rings now and no further: who publishes later finds the core gone, and
    /// does not keep it from going.
    fn answer_all(&mut self) {
        for outlet in 0..self.hall.outlets.len() {
            let there = self.hall.outlets[outlet].feedback.slots();
            self.take_feedback_from(outlet, there as u64);
        }
        self.end_waiting();
        for inlet in 0..self.inlets.len() {
            let there = self.inlets[inlet].ring.slots();
            self.take_from(inlet, there as u64, u64::MAX);
        }
    }

    fn end_waiting(&mut self) {
        for at in 0..self.models.len() {
            let (model, hall) = (&mut self.models[at], &mut self.hall);
            model.record(Recorder::stop);
            let mut desk = Desk {
                hall,
                model: at,
                journal: model.journal.as_deref_mut(),
            };
            model.arbiter.stop(Nanos(0), &mut desk);
        }
    }

    /// The last deliveries and figures.
    fn tell_the_rest(&mut self) {
        self.hall.close();
        self.publish_all();
    }

    /// Nothing more comes: everybody hears of it, and gets back what is theirs.
    fn let_go(&mut self) {
        for (outlet, flags) in self.hall.outlets.iter().zip(&self.shared.egress) {
            flags.close();
            let _ = outlet.bell.ring();
        }
        for inlet in self.inlets.drain(..) {
            if let Err(unsent) = inlet.returned.try_send(inlet.ring) {
                self.unclaimed.push(unsent.into_inner());
            }
        }
        for model in &mut self.models {
            if let Some(journal) = model.journal.take() {
                // There is room for the journals of all models.
                let _ = self.journals.try_send(journal);
            }
        }
        self.refuse_commands();
    }

    fn answer_submissions(&mut self) {
        for inlet in 0..self.inlets.len() {
            for _ in 0..self.inlets[inlet].ring.slots() {
                let Ok(record) = self.inlets[inlet].ring.pop() else {
                    break;
                };
                if let Intake::Submit(record) = record {
                    self.hall.end(Ended {
                        ticket: record.ticket,
                        class: ClassIndex(record.class),
                        outcome: Outcome::ShuttingDown,
                        payload: record.payload,
                    });
                }
            }
        }
    }

    fn refuse_commands(&mut self) {
        while let Ok(order) = self.commands.try_recv() {
            let result = Err(ControlError::Closed(self.shared.why_closed()));
            self.answer(Reply {
                result,
                order,
                before: None,
            });
        }
        // A call that a panic left without its answer waits no longer either.
        self.replies = None;
    }
}

impl<P> Drop for Core<P> {
    fn drop(&mut self) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.close())) {
            self.close_lost();
            resume_unwind(panic);
        }
    }
}
