//! S5.5, S6.6, S7.2, S11: leaving without service.

use super::gate::Verdict;
use super::{Branch, ClassId, Ending, Mutation, Oracle};
use crate::protocol::{Event, LimitKind, OpName, Phase, Subject};

impl Oracle {
    /// S5.5: expiry, then failures in rounds.
    pub(super) fn sweep(&mut self, out: &mut Vec<Event>) {
        let mut gone = Vec::new();
        for intake in self.overdue() {
            self.coverage.note(Branch::Expired);
            self.leak_on_expiry(intake);
            self.leave(intake, Ending::Expired, &mut gone, out);
        }
        for round in 1.. {
            let failing = self.failing_heads();
            if failing.is_empty() {
                break;
            }
            self.coverage.note_if(round == 2, Branch::SecondRound);
            for (intake, ending) in failing {
                self.coverage.note(Branch::FailedWhileWaiting);
                self.leave(intake, ending, &mut gone, out);
            }
        }
        self.settle(&gone);
    }

    /// S11.1: what has expired, by (deadline, intake).
    fn overdue(&self) -> Vec<u64> {
        let mut overdue: Vec<_> = self
            .waiting()
            .filter_map(|request| Some((request.deadline_ns?, request.intake)))
            .filter(|(deadline, _)| self.now_ns >= *deadline)
            .collect();
        overdue.sort_unstable();
        overdue.into_iter().map(|(_, intake)| intake).collect()
    }

    /// S5.5: one round over every lane's head.
    fn failing_heads(&self) -> Vec<(u64, Ending)> {
        let heads = self
            .class_order()
            .into_iter()
            .flat_map(|class| self.lanes(class));
        heads
            .filter_map(|(_, entries)| match self.judge(entries[0]) {
                Verdict::Fails(reason) => Some((entries[0].intake, Ending::Failed(reason))),
                Verdict::Dispatchable | Verdict::Waits => None,
            })
            .collect()
    }

    fn leak_on_expiry(&mut self, intake: u64) {
        if self.has_fault(Mutation::CountLeakedOnExpiry) {
            let (class, raw) = (self.request(intake).class, self.request(intake).raw);
            let leaked = &mut self.class_mut(class).leaked;
            leaked.requests += 1;
            leaked.raw_isl_tokens += raw;
        }
    }

    /// S6.3: one waiting request leaves without service; it is added to what is `gone`.
    fn leave(
        &mut self,
        intake: u64,
        ending: Ending,
        gone: &mut Vec<(ClassId, u64)>,
        out: &mut Vec<Event>,
    ) {
        let request = self.remove_request(intake);
        self.report(request.class, request.id, ending, out);
        if self.is_empty(request.class) {
            self.became_empty(request.class);
        }
        gone.push((request.class, intake));
    }

    /// S6.6: after all removals of one event, credit that was granted for an entry that left is cut.
    fn settle(&mut self, gone: &[(ClassId, u64)]) {
        for (id, intake) in gone {
            if self.class(*id).remembered != Some(*intake) {
                continue;
            }
            self.coverage.note(Branch::RememberedLeft);
            let cost = self.candidate(*id).map_or(0, |candidate| candidate.cost);
            let kept = self.class(*id).policy.quantum.saturating_add(cost);
            self.coverage
                .note_if(self.class(*id).deficit > kept, Branch::Cut);
            let class = self.class_mut(*id);
            class.remembered = None;
            class.deficit = class.deficit.min(kept);
        }
    }

    /// S7.2: at the end of a turn, what may not wait and cannot go is refused, all at once.
    pub(super) fn refuse_impatient(&mut self, out: &mut Vec<Event>) {
        let refused: Vec<(u64, LimitKind)> = self
            .class_order()
            .into_iter()
            .flat_map(|class| self.waiting_of(class))
            .filter_map(|request| Some((request.intake, request.impatient?)))
            .filter(|(intake, _)| !self.is_dispatchable_head(*intake))
            .collect();
        let mut gone = Vec::new();
        for (intake, kind) in refused {
            self.coverage.note(Branch::Impatience);
            let ending = Ending::Rejected {
                kind,
                current: 0,
                limit: 0,
            };
            self.leave(intake, ending, &mut gone, out);
        }
        self.settle(&gone);
    }

    fn is_dispatchable_head(&self, intake: u64) -> bool {
        let request = self.request(intake);
        let lanes = self.lanes(request.class);
        let (_, entries) = lanes
            .iter()
            .find(|(lane, _)| *lane == request.lane)
            .expect("a waiting request stands in its lane");
        entries[0].intake == intake && self.is_dispatchable(request)
    }

    /// S11.2.
    pub(super) fn cancel(&mut self, id: &str, out: &mut Vec<Event>) {
        let Some(intake) = self
            .waiting()
            .find(|request| request.id == id)
            .map(|it| it.intake)
        else {
            return self.now_stale(OpName::Cancel, Subject::Request(id.to_owned()), out);
        };
        self.coverage.note(Branch::Cancelled);
        let mut gone = Vec::new();
        self.leave(intake, Ending::Cancelled, &mut gone, out);
        self.settle(&gone);
    }

    /// S11.1: time passes; S11.3: the drain may be over.
    pub(super) fn advance(&mut self, us: u64, out: &mut Vec<Event>) {
        self.now_ns = self.now_ns.saturating_add(us.saturating_mul(1_000));
        self.sweep(out);
        self.end_drain(out);
    }

    /// S11.3.
    pub(super) fn stop(&mut self, drain_us: u64, out: &mut Vec<Event>) {
        let until_ns = self.now_ns.saturating_add(drain_us.saturating_mul(1_000));
        match self.phase {
            Phase::Open => {
                self.phase = Phase::Draining;
                self.drain_until_ns = until_ns;
            }
            Phase::Draining => self.drain_until_ns = self.drain_until_ns.min(until_ns),
            Phase::Closed => return,
        }
        if self.now_ns >= self.drain_until_ns {
            self.sweep(out);
        }
        self.end_drain(out);
    }

    /// S11.3: answers everything that still waits, if the drain is over. Follows a sweep.
    fn end_drain(&mut self, out: &mut Vec<Event>) {
        if self.phase != Phase::Draining || self.now_ns < self.drain_until_ns {
            return;
        }
        self.phase = Phase::Closed;
        let left: Vec<u64> = self.waiting().map(|request| request.intake).collect();
        let mut gone = Vec::new();
        for intake in left {
            self.coverage.note(Branch::ShuttingDown);
            self.leave(intake, Ending::ShuttingDown, &mut gone, out);
        }
        self.settle(&gone);
    }
}
