//! A request on its way to a permit.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tollgate_arbiter::{ClassIndex, Outcome};

use super::Permit;
use super::courier::discard;
use super::lobby::{Entered, Lobby, Vetted};
use super::news::{Fate, Grant};
use super::waiters::{Found, Wish};
use crate::ticket::Ticket;
use crate::{Refusal, Request};

/// Why there is no permit.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AdmitError {
    /// The request was not taken in: it is invalid, the engine is closed, or there is no room and it was
    /// not to wait for some.
    #[error("refused: {0}")]
    Refused(Refusal),
    /// So many futures wait and so many permits are out as may be at one time
    /// ([`Builder::room_waiters`](crate::Builder::room_waiters)).
    #[error("full: {max} futures and permits, as many as there may be")]
    TooMany {
        /// How many there may be.
        max: usize,
    },
    /// The request ended before it was dispatched (S8).
    #[error("{outcome}")]
    Ended {
        /// Its class's place in its model's tables.
        class: ClassIndex,
        /// Its fate.
        outcome: Outcome,
    },
}

impl AdmitError {
    /// The fate of a request that was taken in.
    #[must_use]
    pub const fn outcome(&self) -> Option<Outcome> {
        match self {
            Self::Ended { outcome, .. } => Some(*outcome),
            _ => None,
        }
    }
}

impl From<Fate> for AdmitError {
    fn from(fate: Fate) -> Self {
        match fate {
            Fate::Ended(class, outcome) => Self::Ended { class, outcome },
            Fate::Closed => Self::Refused(Refusal::Closed),
        }
    }
}

/// A request on its way: see [`Admission::admit`](super::Admission::admit). Dropping it before it is
/// ready cancels the request; a dispatch that was on its way is released.
#[derive(Debug)]
#[must_use = "a future does nothing until it is polled"]
pub struct Admit<'a> {
    request: Request<'a, ()>,
    passage: Passage,
}

impl<'a> Admit<'a> {
    pub(super) const fn new(lobby: Arc<Lobby>, request: Request<'a, ()>, waits: bool) -> Self {
        Self {
            request,
            passage: Passage::new(lobby, waits),
        }
    }

    /// The class that the request was queued in (S3.4), its place in its model's tables; none before it is in
    /// the engine.
    #[must_use]
    pub const fn class(&self) -> Option<ClassIndex> {
        self.passage.progress.class
    }
}

impl Future for Admit<'_> {
    type Output = Result<Permit, AdmitError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { request, passage } = &mut *self;
        passage.poll(request, context)
    }
}

/// What [`Admit`] is without its request: how far it has come.
pub(crate) struct Passage {
    /// None: it is over.
    lobby: Option<Arc<Lobby>>,
    progress: Progress,
}

#[derive(Clone, Copy, Debug)]
struct Progress {
    /// Whether it waits for room.
    waits: bool,
    stage: Stage,
    /// None before it is in the engine, and where it was submitted by another future.
    class: Option<ClassIndex>,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Not in the engine; perhaps with an entry already.
    Outside(Option<u32>),
    /// Waits for room.
    Room { index: u32, wish: Wish },
    /// In the engine.
    Inside { index: u32, ticket: Ticket },
}

/// What a step came to.
enum Step {
    /// Look again.
    On,
    /// The waker is where it will be woken.
    Wait,
    Granted(u32, Grant),
    Over(AdmitError),
}

impl Passage {
    pub(super) const fn new(lobby: Arc<Lobby>, waits: bool) -> Self {
        Self::at(lobby, waits, Stage::Outside(None))
    }

    /// Of a request that is in the engine.
    pub(super) const fn inside(lobby: Arc<Lobby>, index: u32, ticket: Ticket) -> Self {
        Self::at(lobby, false, Stage::Inside { index, ticket })
    }

    const fn at(lobby: Arc<Lobby>, waits: bool, stage: Stage) -> Self {
        Self {
            lobby: Some(lobby),
            progress: Progress {
                waits,
                stage,
                class: None,
            },
        }
    }

    /// One step; `request` is the same each time.
    ///
    /// # Panics
    /// After it was ready.
    pub(crate) fn poll(
        &mut self,
        request: &Request<'_, ()>,
        context: &mut Context<'_>,
    ) -> Poll<Result<Permit, AdmitError>> {
        let lobby = self.lobby.as_ref().expect("polled after it was ready");
        let result = loop {
            match self.progress.step(lobby, request, context.waker()) {
                Step::On => {}
                Step::Wait => return Poll::Pending,
                Step::Granted(index, grant) => break Ok((index, grant)),
                Step::Over(error) => break Err(error),
            }
        };
        let lobby = self.lobby.take().expect("it was there");
        Poll::Ready(result.map(|(index, grant)| Permit::new(lobby, index, grant)))
    }

    /// The same for a request that is in the engine.
    pub(super) fn poll_inside(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Permit, AdmitError>> {
        self.poll(&Request::new(0, ()), context)
    }
}

impl fmt::Debug for Passage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Passage")
            .field("is_over", &self.lobby.is_none())
            .field("progress", &self.progress)
            .finish()
    }
}

impl Progress {
    fn step(&mut self, lobby: &Lobby, request: &Request<'_, ()>, waker: &Waker) -> Step {
        match self.stage {
            Stage::Outside(entry) => self.step_in(entry, lobby, request, waker),
            Stage::Room { index, wish } => self.step_up(index, wish, lobby, request, waker),
            Stage::Inside { index, .. } => look(index, lobby, waker),
        }
    }

    /// From outside into the engine, or to those who wait for room.
    fn step_in(
        &mut self,
        entry: Option<u32>,
        lobby: &Lobby,
        request: &Request<'_, ()>,
        waker: &Waker,
    ) -> Step {
        if self.waits && lobby.room.waiting(request.model.at()) > 0 {
            return self.ask_for_room(entry, lobby, request, waker);
        }
        match lobby.enter(request, entry, waker) {
            Entered::Accepted(index, ticket, class) => {
                self.stage = Stage::Inside { index, ticket };
                self.class = Some(class);
                lobby.help();
                Step::On
            }
            Entered::Busy(entry) => self.again_outside(entry, waker),
            Entered::Full(index, _) if self.waits => {
                self.ask_for_room(Some(index), lobby, request, waker)
            }
            Entered::Full(index, what) => {
                discard(lobby.waiters.give_back(index));
                Step::refused(Refusal::Full { what })
            }
            Entered::Refused(reason) => Step::refused(reason),
            Entered::NoEntry => Step::too_many(lobby),
        }
    }

    /// All fronts are in use for a moment: others run first.
    fn again_outside(&mut self, entry: Option<u32>, waker: &Waker) -> Step {
        self.stage = Stage::Outside(entry);
        waker.wake_by_ref();
        Step::Wait
    }

    /// To those who wait for room, if it is not refused at once.
    fn ask_for_room(
        &mut self,
        entry: Option<u32>,
        lobby: &Lobby,
        request: &Request<'_, ()>,
        waker: &Waker,
    ) -> Step {
        match lobby.vet(request, entry) {
            Vetted::MayWait { index, blocks } => {
                let model = request.model.at();
                let arrival = lobby.room.arrive(model);
                let wish = Wish {
                    arrival,
                    model,
                    blocks,
                };
                self.wait_for_room(index, wish, lobby, waker)
            }
            Vetted::Busy => self.again_outside(entry, waker),
            Vetted::NoEntry => Step::too_many(lobby),
            Vetted::Refused(reason) => {
                discard(entry.and_then(|index| lobby.waiters.give_back(index)));
                Step::refused(reason)
            }
        }
    }

    fn wait_for_room(&mut self, index: u32, wish: Wish, lobby: &Lobby, waker: &Waker) -> Step {
        lobby.waiters.wish(index, waker, wish);
        self.stage = Stage::Room { index, wish };
        lobby.room.came(index, &lobby.shared.room);
        // The last courier may have told everybody by now.
        if lobby.waiters.is_closed() {
            lobby.waiters.close_one(index);
            return Step::On;
        }
        Step::Wait
    }

    /// From those who wait for room into the engine, if invited.
    fn step_up(
        &mut self,
        index: u32,
        wish: Wish,
        lobby: &Lobby,
        request: &Request<'_, ()>,
        waker: &Waker,
    ) -> Step {
        match lobby.waiters.look(index, waker) {
            Found::Invitation => self.follow_invitation(index, wish, lobby, request, waker),
            Found::Nothing => Step::Wait,
            Found::Granted(_) => unreachable!("nothing is granted to what was not submitted"),
            Found::Ended(fate) => {
                lobby.room.depart(wish.model);
                discard(lobby.waiters.give_back(index));
                Step::Over(fate.into())
            }
        }
    }

    fn follow_invitation(
        &mut self,
        index: u32,
        wish: Wish,
        lobby: &Lobby,
        request: &Request<'_, ()>,
        waker: &Waker,
    ) -> Step {
        let step = match lobby.enter(request, Some(index), waker) {
            Entered::Accepted(index, ticket, class) => {
                self.stage = Stage::Inside { index, ticket };
                self.class = Some(class);
                Step::On
            }
            Entered::Refused(reason) => Step::refused(reason),
            Entered::Busy(_) => {
                lobby.waiters.stay_invited(index);
                waker.wake_by_ref();
                return Step::Wait;
            }
            // Another took the room: again, in the old place.
            Entered::Full(..) | Entered::NoEntry => {
                let step = self.wait_for_room(index, wish, lobby, waker);
                lobby.room.answer(wish.model, false, &lobby.shared.room);
                return step;
            }
        };
        lobby.room.depart(wish.model);
        lobby
            .room
            .answer(wish.model, matches!(step, Step::On), &lobby.shared.room);
        step
    }
}

/// What has become of a request in the engine.
fn look(index: u32, lobby: &Lobby, waker: &Waker) -> Step {
    match lobby.waiters.look(index, waker) {
        Found::Nothing => Step::Wait,
        Found::Invitation => unreachable!("what was submitted is not invited"),
        Found::Granted(grant) => Step::Granted(index, grant),
        Found::Ended(fate) => {
            discard(lobby.waiters.give_back(index));
            Step::Over(fate.into())
        }
    }
}

impl Step {
    const fn refused(reason: Refusal) -> Self {
        Self::Over(AdmitError::Refused(reason))
    }

    fn too_many(lobby: &Lobby) -> Self {
        let max = lobby.waiters.len() as usize;
        Self::Over(AdmitError::TooMany { max })
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        let Some(lobby) = self.lobby.take() else {
            return;
        };
        let index = match self.progress.stage {
            Stage::Outside(None) => return,
            Stage::Outside(Some(index)) => index,
            Stage::Room { index, wish } => {
                let found = lobby.waiters.leave(index);
                lobby.room.depart(wish.model);
                match found {
                    Found::Nothing => return lobby.room.went(index, &lobby.shared.room),
                    Found::Invitation => {
                        lobby.room.answer(wish.model, false, &lobby.shared.room);
                    }
                    Found::Granted(_) | Found::Ended(_) => {}
                }
                index
            }
            Stage::Inside { index, ticket } => {
                match lobby.waiters.leave(index) {
                    Found::Nothing => return lobby.cancel(ticket),
                    Found::Granted(grant) => lobby.complete(&grant),
                    Found::Ended(_) | Found::Invitation => {}
                }
                index
            }
        };
        discard(lobby.waiters.give_back(index));
    }
}
