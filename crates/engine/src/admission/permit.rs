//! Permits: dispatched requests, held by whoever serves them.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tollgate_arbiter::{ClassIndex, CostSnapshot, Endpoint, Nanos};

use super::Waiter;
use super::admit::{AdmitError, Passage};
use super::courier::discard;
use super::lobby::Lobby;
use super::news::Grant;
use crate::{Refusal, RequeueRefused, Ticket};

/// A request that was dispatched: it is charged, and booked at its endpoint until this is dropped (S9.1).
///
/// Hold it for as long as the worker serves the request, the end of a streamed answer included. Dropping
/// it completes the request, on any thread, whatever is full, without waiting. A permit that is leaked
/// keeps its booking and its slot until the engine ends.
#[must_use = "dropping a permit completes its request"]
pub struct Permit {
    /// None: it went back.
    lobby: Option<Arc<Lobby>>,
    index: u32,
    grant: Grant,
    prefill_is_done: bool,
}

impl Permit {
    pub(super) const fn new(lobby: Arc<Lobby>, index: u32, grant: Grant) -> Self {
        Self {
            lobby: Some(lobby),
            index,
            grant,
            prefill_is_done: false,
        }
    }

    /// Where the request goes.
    #[must_use]
    pub const fn endpoint(&self) -> Endpoint {
        self.grant.endpoint
    }

    /// Which dispatch of the request this is, from 1.
    #[must_use]
    pub const fn attempt(&self) -> u8 {
        self.grant.attempt
    }

    /// Its class's place in its model's tables; [`Stats`](crate::stats::Stats) knows the name.
    #[must_use]
    pub const fn class(&self) -> ClassIndex {
        self.grant.class
    }

    /// What it was charged by.
    #[must_use]
    pub const fn snapshot(&self) -> CostSnapshot {
        self.grant.snapshot
    }

    /// Its handle.
    #[must_use]
    pub const fn ticket(&self) -> Ticket {
        self.grant.ticket
    }

    /// When it was submitted, on the engine's [`Clock`](crate::Clock).
    #[must_use]
    pub const fn submitted_at(&self) -> Nanos {
        self.grant.submitted_at
    }

    /// When it was dispatched.
    #[must_use]
    pub const fn dispatched_at(&self) -> Nanos {
        self.grant.dispatched_at
    }

    /// The prefill is over: its tokens no longer count against the endpoint (S9.1). Never fails, never
    /// waits; a second call does nothing.
    pub fn prefill_done(&mut self) {
        if let Some(lobby) = &self.lobby
            && !std::mem::replace(&mut self.prefill_is_done, true)
        {
            lobby.prefill_done(&self.grant);
        }
    }

    /// The same as dropping it.
    pub fn complete(self) {}

    /// The hand-over failed: the request waits again in its old place, and the future gives a permit for
    /// its next dispatch; or it ends where it was handed over as often as it may be (S9.4).
    ///
    /// Where the way to the arbiter is full it yields to other tasks and tries again.
    pub const fn requeue(self) -> Requeue {
        Requeue {
            stage: Back::Holds(self),
        }
    }

    /// One try to go back.
    fn go_back(mut self, context: &mut Context<'_>) -> WentBack {
        let Some(lobby) = self.lobby.take() else {
            return WentBack::Closed;
        };
        let at = lobby.desk_of(&self.grant);
        // Before anything is held: this drops and clones wakers.
        lobby.waiters.expect(self.index, context.waker());
        let desk = lobby.desks.take(at);
        let requeued = desk.map(|mut desk| {
            let dispatch = self.grant.dispatch(Waiter(self.index));
            desk.requeue_with(dispatch, || {})
        });
        let is_closed = match requeued {
            Some(Ok(())) => {
                let ticket = self.grant.ticket;
                return WentBack::Waits(Passage::inside(lobby, self.index, ticket));
            }
            Some(Err(RequeueRefused::Full(_))) => false,
            Some(Err(RequeueRefused::Closed(_))) => true,
            // In use for a moment, or gone for good with its courier.
            None => !lobby.has_courier(at),
        };
        lobby.waiters.hold(self.index);
        self.lobby = Some(lobby);
        if is_closed {
            WentBack::Closed
        } else {
            WentBack::NotYet(self)
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("grant", &self.grant)
            .finish_non_exhaustive()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(lobby) = self.lobby.take() {
            lobby.complete(&self.grant);
            discard(lobby.waiters.give_back(self.index));
        }
    }
}

/// A permit on its way back: see [`Permit::requeue`]. Dropping it completes the dispatch, or cancels the
/// request where it waits again.
#[derive(Debug)]
#[must_use = "a future does nothing until it is polled"]
pub struct Requeue {
    stage: Back,
}

#[derive(Debug)]
enum Back {
    /// The permit is still held.
    Holds(Permit),
    /// The request waits again.
    Waits(Passage),
    Over,
}

/// How a permit fared on its way back.
enum WentBack {
    Waits(Passage),
    NotYet(Permit),
    Closed,
}

impl Future for Requeue {
    type Output = Result<Permit, AdmitError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut passage = match std::mem::replace(&mut self.stage, Back::Over) {
            Back::Waits(passage) => passage,
            Back::Holds(permit) => match permit.go_back(context) {
                WentBack::Waits(passage) => passage,
                WentBack::NotYet(permit) => {
                    self.stage = Back::Holds(permit);
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                WentBack::Closed => {
                    return Poll::Ready(Err(AdmitError::Refused(Refusal::Closed)));
                }
            },
            Back::Over => panic!("polled after it was ready"),
        };
        let result = passage.poll_inside(context);
        if result.is_pending() {
            self.stage = Back::Waits(passage);
        }
        result
    }
}
