//! Requests that come in a crowd for workers that hold, and end otherwise than by a dispatch.

use tollgate::{Endpoint, IngressShard, Nanos, Request, Ticket, WorkerId};

use super::HELD;
use crate::open_loop::{FOREIGN, Outside};

/// Between two storms, in nanoseconds.
pub(super) const PERIOD_NS: u64 = 10_000_000;
/// Requests of a storm.
const STORM: usize = 1_000;
/// Requests that wait for the worker that leaves.
const CROWD: usize = 100;
/// Of a storm at each look: more would make the schedule's own requests late.
const AT_A_LOOK: usize = 32;
/// How long the requests of a deadline storm have, in nanoseconds: time enough to submit them all.
const PATIENCE_NS: u64 = 5_000_000;

/// When storms begin: period by period until the schedule is over.
#[derive(Debug)]
struct Storms {
    span: u64,
    began: Option<u64>,
    count: u64,
}

impl Storms {
    const fn new(span: u64) -> Self {
        Self {
            span,
            began: None,
            count: 0,
        }
    }

    /// Whether another storm begins now.
    fn begins(&mut self, now: u64) -> bool {
        let since = now - *self.began.get_or_insert(now);
        let begins = since < self.span && since >= self.count * PERIOD_NS;
        if begins {
            self.count = since / PERIOD_NS + 1;
        }
        begins
    }
}

/// Submits as many as one look takes, and no more than are left; how many were accepted. Those that find
/// no room are dropped: the storm is smaller then.
fn submit(
    ingress: &mut IngressShard<u64>,
    left: &mut usize,
    (worker, deadline): (WorkerId, Option<Nanos>),
    mut accepted: impl FnMut(Ticket),
) -> u64 {
    let count = AT_A_LOOK.min(*left);
    *left -= count;
    let request = Request {
        pin: Some(Endpoint::new(worker.0, 0)),
        deadline,
        ..Request::new(512, FOREIGN)
    };
    let mut submitted = 0;
    let requests = std::iter::repeat_n(request, count);
    ingress.submit_batch(requests, |answer| {
        if let Ok(ticket) = answer {
            submitted += 1;
            accepted(ticket);
        }
    });
    submitted
}

/// A thousand requests, all cancelled once they wait.
#[derive(Debug)]
pub(in super::super) struct CancelStorm {
    storms: Storms,
    left: usize,
    tickets: Vec<Ticket>,
}

impl CancelStorm {
    /// Storms for so many nanoseconds from the first look on.
    pub(in super::super) fn new(span: u64) -> Self {
        Self {
            storms: Storms::new(span),
            left: 0,
            tickets: Vec::with_capacity(STORM),
        }
    }
}

impl Outside for CancelStorm {
    fn at_doorway(&mut self, now: u64, ingress: &mut IngressShard<u64>) -> u64 {
        if self.left == 0 && self.tickets.is_empty() && self.storms.begins(now) {
            self.left = STORM;
        }
        if self.left > 0 {
            let tickets = &mut self.tickets;
            return submit(ingress, &mut self.left, (HELD, None), |ticket| {
                tickets.push(ticket);
            });
        }
        for _ in 0..AT_A_LOOK {
            let Some(ticket) = self.tickets.pop() else {
                break;
            };
            ingress.cancel(ticket);
        }
        0
    }
}

/// A thousand requests with one deadline.
#[derive(Debug)]
pub(super) struct DeadlineStorm {
    storms: Storms,
    left: usize,
    deadline: Nanos,
}

impl DeadlineStorm {
    pub(super) const fn new(span: u64) -> Self {
        Self {
            storms: Storms::new(span),
            left: 0,
            deadline: Nanos(0),
        }
    }
}

impl Outside for DeadlineStorm {
    fn at_doorway(&mut self, now: u64, ingress: &mut IngressShard<u64>) -> u64 {
        if self.left == 0 && self.storms.begins(now) {
            self.left = STORM;
            self.deadline = Nanos(now + PATIENCE_NS);
        }
        let to = (HELD, Some(self.deadline));
        submit(ingress, &mut self.left, to, |_| ())
    }
}

/// A hundred requests that wait for a worker until it leaves.
#[derive(Debug)]
pub(super) struct Crowd {
    worker: WorkerId,
    storms: Storms,
    left: usize,
}

impl Crowd {
    pub(super) const fn new(worker: WorkerId, span: u64) -> Self {
        Self {
            worker,
            storms: Storms::new(span),
            left: 0,
        }
    }
}

impl Outside for Crowd {
    fn at_doorway(&mut self, now: u64, ingress: &mut IngressShard<u64>) -> u64 {
        if self.left == 0 && self.storms.begins(now) {
            self.left = CROWD;
        }
        submit(ingress, &mut self.left, (self.worker, None), |_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_begins_once_a_period_until_the_schedule_is_over() {
        let mut storms = Storms::new(3 * PERIOD_NS);
        let looks = (0..100).map(|look| 7 + look * PERIOD_NS / 10);
        let begun: Vec<u64> = looks.filter(|&now| storms.begins(now)).collect();
        assert_eq!(begun, [0, 1, 2].map(|period| 7 + period * PERIOD_NS));
    }
}
