//! What an egress shard hands out: dispatches and fates.

use tollgate_arbiter::{ClassIndex, CostSnapshot, Endpoint, Nanos, Outcome};

use crate::{Receipt, Ticket};

/// One thing that an egress shard hands to the embedder.
#[derive(Debug)]
pub enum Delivery<P> {
    /// A request goes to an endpoint.
    Dispatch(Dispatch<P>),
    /// A request's fate; its slot is free again.
    Ended(Ended<P>),
    /// The payload of a requeue that found nothing to do: its receipt was stale (S9.3), or the engine
    /// had closed when it came. Or that of a dispatch whose egress shard was dropped while it was on its
    /// way: it is released like all others of that shard.
    Returned {
        /// The submission that the receipt named.
        ticket: Ticket,
        /// The embedder's own.
        payload: P,
    },
}

impl<P> Delivery<P> {
    /// The submission that it is about.
    #[must_use]
    pub const fn ticket(&self) -> Ticket {
        match self {
            Self::Dispatch(dispatch) => dispatch.ticket,
            Self::Ended(ended) => ended.ticket,
            Self::Returned { ticket, .. } => *ticket,
        }
    }

    /// The embedder's own.
    #[must_use]
    pub fn into_payload(self) -> P {
        match self {
            Self::Dispatch(dispatch) => dispatch.payload,
            Self::Ended(ended) => ended.payload,
            Self::Returned { payload, .. } => payload,
        }
    }
}

/// A request on its way to an endpoint: charged, and booked there until it is complete (S6.2, S9.1).
#[derive(Debug)]
pub struct Dispatch<P> {
    /// Its handle.
    pub ticket: Ticket,
    /// Its class's place in its model's tables; [`Stats`](crate::stats::Stats) knows the name.
    pub class: ClassIndex,
    /// Which dispatch of the request this is, from 1.
    pub attempt: u8,
    /// Where it goes.
    pub endpoint: Endpoint,
    /// What it was charged by.
    pub snapshot: CostSnapshot,
    /// When it was submitted.
    pub submitted_at: Nanos,
    /// When it was dispatched.
    pub dispatched_at: Nanos,
    /// The embedder's own.
    pub payload: P,
}

impl<P> Dispatch<P> {
    /// What feedback refers to.
    #[must_use]
    pub const fn receipt(&self) -> Receipt {
        Receipt {
            ticket: self.ticket,
            attempt: self.attempt,
        }
    }
}

/// A request that was not, or did not stay, dispatched.
#[derive(Debug)]
pub struct Ended<P> {
    /// Its handle, now stale.
    pub ticket: Ticket,
    /// Its class's place in its model's tables.
    pub class: ClassIndex,
    /// Its fate (S8).
    pub outcome: Outcome,
    /// The embedder's own.
    pub payload: P,
}
