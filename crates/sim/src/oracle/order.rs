//! S4: keys, lanes, heads.

use std::cmp::{Ordering, Reverse};

use tollgate_policy::OrderPolicy;

use super::{ClassId, Mutation, Oracle, Request};
use crate::protocol::Lane;

/// The policy key of an entry; made at submission and never again (S3.7, S9.4).
#[derive(Clone, Copy, Debug)]
pub(super) enum Key {
    /// Smaller goes first.
    Fcfs(i128),
    /// Larger goes first.
    Wspt(f64),
    /// Larger goes first.
    Lcfs(i128),
    /// Smaller goes first.
    Edf(u64),
    /// After every [`Key::Edf`]; smaller goes first.
    EdfWithout(i128),
}

impl Key {
    /// S4.2: the key of a request that arrives now.
    pub(super) fn new(
        order: OrderPolicy,
        arrival_ns: u64,
        jump_ns: u64,
        cost: u64,
        deadline_ns: Option<u64>,
    ) -> Self {
        let (arrival, jump) = (i128::from(arrival_ns), i128::from(jump_ns));
        match order {
            OrderPolicy::Fcfs => Self::Fcfs(arrival - jump),
            OrderPolicy::Wspt => Self::Wspt((1.0 + jump_ns as f64 / 1e9) / cost as f64),
            OrderPolicy::Lcfs => Self::Lcfs(arrival + jump),
            OrderPolicy::Edf => match deadline_ns {
                Some(deadline) => Self::Edf(deadline),
                None => Self::EdfWithout(arrival - jump),
            },
        }
    }

    /// S4.2: `Less` goes first.
    fn compare(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Fcfs(a), Self::Fcfs(b)) | (Self::EdfWithout(a), Self::EdfWithout(b)) => {
                a.cmp(&b)
            }
            (Self::Wspt(a), Self::Wspt(b)) => b.total_cmp(&a),
            (Self::Lcfs(a), Self::Lcfs(b)) => b.cmp(&a),
            (Self::Edf(a), Self::Edf(b)) => a.cmp(&b),
            (Self::Edf(_), Self::EdfWithout(_)) => Ordering::Less,
            (Self::EdfWithout(_), Self::Edf(_)) => Ordering::Greater,
            (a, b) => unreachable!("one epoch has one order policy, not {a:?} and {b:?}"),
        }
    }
}

/// S4.3: seconds to whole nanoseconds.
pub(super) fn jump_ns(seconds: f64) -> u64 {
    assert!(seconds.is_finite(), "a submission's jump is finite");
    let nanoseconds = (seconds.clamp(0.0, 1e9) * 1e9).round();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a whole number between 0 and 10^18"
    )]
    let nanoseconds = nanoseconds as u64;
    nanoseconds
}

impl Oracle {
    /// S4.2, S3.7: `Less` goes first. Both are of one class.
    pub(super) fn compare(&self, a: &Request, b: &Request) -> Ordering {
        let by_intake = match self.has_fault(Mutation::TieBreakReversed) {
            true => b.intake.cmp(&a.intake),
            false => a.intake.cmp(&b.intake),
        };
        Reverse(a.strict_priority)
            .cmp(&Reverse(b.strict_priority))
            .then(a.epoch.cmp(&b.epoch))
            .then_with(|| a.key.compare(b.key))
            .then(by_intake)
    }

    /// S4.1: the lanes of a class in which something waits, each with its entries, best first.
    pub(super) fn lanes(&self, class: ClassId) -> Vec<(Lane, Vec<&Request>)> {
        let mut names: Vec<Lane> = self.waiting_of(class).map(|request| request.lane).collect();
        names.sort_unstable();
        names.dedup();
        let entries = |lane| {
            let mut entries: Vec<_> = self
                .waiting_of(class)
                .filter(|request| request.lane == lane)
                .collect();
            entries.sort_by(|a, b| self.compare(a, b));
            entries
        };
        names
            .into_iter()
            .map(|lane| (lane, entries(lane)))
            .collect()
    }

    /// S4.4, S5.3: the best dispatchable head of a class.
    pub(super) fn candidate(&self, class: ClassId) -> Option<&Request> {
        let by_head = |(head, _): &(&Request, &Request), (other, _): &(&Request, &Request)| {
            self.compare(head, other)
        };
        let by_oldest = |(_, oldest): &(&Request, &Request), (_, other): &(&Request, &Request)| {
            self.compare(oldest, other)
        };
        let lanes = self.lanes(class).into_iter().map(|(_, entries)| {
            let oldest = entries.iter().min_by_key(|entry| entry.intake);
            (
                entries[0],
                *oldest.expect("a lane that is listed has an entry"),
            )
        });
        let open = lanes.filter(|(head, _)| self.is_dispatchable(head));
        let best = match self.has_fault(Mutation::StaleLaneHead) {
            true => open.min_by(by_oldest),
            false => open.min_by(by_head),
        };
        best.map(|(head, _)| head)
    }
}
