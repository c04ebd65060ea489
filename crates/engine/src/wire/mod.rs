//! What travels in the rings.
//!
//! | record | from | to |
//! |---|---|---|
//! | [`Intake`] | ingress shard | arbiter |
//! | [`Block`](extension::Block) | ingress shard | arbiter |
//! | [`Feedback`] | egress shard | arbiter |
//! | [`Parcel`] | arbiter | egress shard |
//! | [`Place`] of a freed slot | arbiter | ingress shard |
//!
//! A record with a payload of up to 16 bytes takes one cache line.

pub(crate) mod extension;

use rtrb::Consumer;
use tollgate_arbiter::{
    ClassIndex, CostSnapshot, Endpoint, Nanos, Outcome, Request as ArbiterRequest, WorkerId,
};

use crate::delivery::{Delivery, Dispatch, Ended};
use crate::request::Request;
use crate::ticket::{Receipt, Ticket};

/// One submission, or the wish to cancel one.
#[derive(Debug)]
pub(crate) enum Intake<P> {
    Submit(Submission<P>),
    /// Which, and when the wish was uttered.
    Cancel(Ticket, Nanos),
}

/// A submission with everything that the doorway found out: what fits a cache line. The words `a` and
/// `b` hold a pin, or deadline and head start; a pinned request with either has them in its
/// extension.
#[derive(Debug)]
pub(crate) struct Submission<P> {
    pub(crate) ticket: Ticket,
    pub(crate) submitted_at: Nanos,
    a: u64,
    b: u64,
    snapshot: CostSnapshot,
    strict_priority: u32,
    pub(crate) class: u16,
    form: Form,
    /// How many blocks in the extension ring belong to it.
    pub(crate) blocks: u8,
    pub(crate) payload: P,
}

/// What `a` and `b` of a submission mean, and whether it may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `b` is the head start.
    Free,
    FreeImpatient,
    /// `a` is the deadline, `b` the head start.
    Timed,
    TimedImpatient,
    /// `a` is the pinned worker, `b` its rank.
    Pinned,
    PinnedImpatient,
}

impl Form {
    const fn of<P>(request: &Request<'_, P>) -> Self {
        match (
            request.pin.is_some(),
            request.deadline.is_some(),
            request.may_wait,
        ) {
            (true, _, true) => Self::Pinned,
            (true, _, false) => Self::PinnedImpatient,
            (false, true, true) => Self::Timed,
            (false, true, false) => Self::TimedImpatient,
            (false, false, true) => Self::Free,
            (false, false, false) => Self::FreeImpatient,
        }
    }

    const fn may_wait(self) -> bool {
        matches!(self, Self::Free | Self::Timed | Self::Pinned)
    }
}

/// What the doorway settles about a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settled {
    pub(crate) ticket: Ticket,
    pub(crate) class: u16,
    pub(crate) snapshot: CostSnapshot,
    pub(crate) submitted_at: Nanos,
    pub(crate) blocks: u8,
}

impl<P> Submission<P> {
    /// The record of a request; and the request without its payload.
    pub(crate) fn new<'a>(request: Request<'a, P>, settled: &Settled) -> (Self, Request<'a, ()>) {
        let (payload, request) = request.replace_payload(());
        let (a, b) = match request.pin {
            Some(pin) => (pin.worker.0, u64::from(pin.rank)),
            None => (
                request.deadline.map_or(0, |deadline| deadline.0),
                request.priority_jump.to_bits(),
            ),
        };
        let record = Self {
            ticket: settled.ticket,
            submitted_at: settled.submitted_at,
            a,
            b,
            snapshot: settled.snapshot,
            strict_priority: request.strict_priority,
            class: settled.class,
            form: Form::of(&request),
            blocks: settled.blocks,
            payload,
        };
        (record, request)
    }

    pub(crate) const fn snapshot(&self) -> CostSnapshot {
        self.snapshot
    }

    /// The request in the arbiter's words, without what its extension holds.
    #[inline]
    pub(crate) fn request(&self) -> ArbiterRequest<'static> {
        let mut request = ArbiterRequest {
            cached_tokens: self.snapshot.cached,
            strict_priority: self.strict_priority,
            may_wait: self.form.may_wait(),
            ..ArbiterRequest::new(self.snapshot.raw, self.submitted_at)
        };
        match self.form {
            Form::Pinned | Form::PinnedImpatient => {
                #[expect(clippy::cast_possible_truncation, reason = "a rank was put in")]
                let rank = self.b as u32;
                request.pin = Some(Endpoint::new(self.a, rank));
            }
            Form::Timed | Form::TimedImpatient => {
                request.deadline = Some(Nanos(self.a));
                request.priority_jump = f64::from_bits(self.b);
            }
            Form::Free | Form::FreeImpatient => {
                request.priority_jump = f64::from_bits(self.b);
            }
        }
        request
    }
}

/// What an egress shard tells the arbiter about what it was handed.
#[derive(Debug)]
pub(crate) enum Feedback<P> {
    PrefillDone(Receipt),
    Complete(Receipt),
    Requeue(Receipt, P),
}

/// What a closed core leaves an egress shard.
#[derive(Debug)]
pub(crate) struct Rest<P> {
    /// What found no room in its ring, in order.
    pub(crate) parcels: Vec<Parcel<P>>,
    /// The core's end of its feedback ring: what was sent too late is in it.
    pub(crate) feedback: Consumer<Feedback<P>>,
}

/// A [`Delivery`] on its way, laid out flat.
#[derive(Debug)]
pub(crate) enum Parcel<P> {
    Dispatch {
        ticket: Ticket,
        class: ClassIndex,
        attempt: u8,
        rank: u32,
        worker: WorkerId,
        snapshot: CostSnapshot,
        submitted_at: Nanos,
        dispatched_at: Nanos,
        payload: P,
    },
    Ended {
        ticket: Ticket,
        class: ClassIndex,
        outcome: Outcome,
        payload: P,
    },
    Returned {
        ticket: Ticket,
        payload: P,
    },
}

impl<P> Parcel<P> {
    /// What the embedder is handed.
    #[inline]
    pub(crate) fn open(self) -> Delivery<P> {
        match self {
            Self::Dispatch {
                ticket,
                class,
                attempt,
                rank,
                worker,
                snapshot,
                submitted_at,
                dispatched_at,
                payload,
            } => Delivery::Dispatch(Dispatch {
                ticket,
                class,
                attempt,
                endpoint: Endpoint { worker, rank },
                snapshot,
                submitted_at,
                dispatched_at,
                payload,
            }),
            Self::Ended {
                ticket,
                class,
                outcome,
                payload,
            } => Delivery::Ended(Ended {
                ticket,
                class,
                outcome,
                payload,
            }),
            Self::Returned { ticket, payload } => Delivery::Returned { ticket, payload },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_with_a_small_payload_take_one_cache_line() {
        assert_eq!(size_of::<Intake<u64>>(), 56);
        assert_eq!(size_of::<Intake<[u64; 2]>>(), 64);
        assert_eq!(size_of::<Parcel<[u64; 2]>>(), 64);
    }
}
