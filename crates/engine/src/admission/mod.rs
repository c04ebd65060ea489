//! Permits: the engine as an async function, for any runtime.
//!
//! A task asks for a permit with [`Admission::admit`] and holds it while its request is served. There is
//! no channel of its own to each task, and nothing is allocated for it: the request's payload is the
//! number of an entry in a table of waiters ([`waiters`]), allocated when the engine is built.
//!
//! | who | does |
//! |---|---|
//! | a task's thread | takes a *front* (an ingress shard in a cell), submits, puts it back; then helps to deliver |
//! | a [`Courier`] for each egress shard | delivers to the entries and wakes their tasks; one of them has the usher, who lets in those who wait for room ([`room`]) |
//! | the arbiter's thread | nothing of this: it wakes no task and runs no code of a runtime's |
//!
//! A front or a *desk* (an egress shard's rings) is used by one thread at a time, for some hundred
//! nanoseconds; nobody waits for one. A task that finds all fronts in use yields to others and comes
//! again; a release that finds its desk in use goes by mail, which is never full.

mod admit;
mod cells;
mod courier;
mod lobby;
mod news;
mod permit;
mod room;
mod waiters;

use std::sync::Arc;

#[cfg(feature = "tower")]
pub(crate) use self::admit::Passage;
pub use self::admit::{Admit, AdmitError};
pub use self::courier::Courier;
use self::lobby::{Front, Lobby};
pub use self::permit::{Permit, Requeue};
use self::room::{RoomQueue, Usher};
use self::waiters::Waiters;
use crate::shared::Shared;
use crate::sync::doorbell::Doorbell;
use crate::{EgressShard, IngressShard, ModelIndex, Request};

/// The payload of an engine that gives permits: which future waits for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiter(u32);

/// Where tasks ask for permits. Clones are of the same engine; any thread may use any of them.
#[derive(Clone, Debug)]
pub struct Admission {
    lobby: Arc<Lobby>,
}

impl Admission {
    /// Submits a request and waits until it is dispatched.
    ///
    /// It is submitted when the future is first polled. Where the engine has no room, it waits for some:
    /// first come, first served among the requests of its model that wait for room, and nobody who comes
    /// later is let in before them. A deadline is looked at once the request is in the engine.
    ///
    /// Dropping the future cancels the request; a dispatch that was on its way already is released.
    ///
    /// # Errors
    /// See [`AdmitError`]. The request's payload is `()`: what a task needs, it has.
    ///
    /// # Complexity
    /// Allocates nothing, and waits for no lock. A submission is that of
    /// [`IngressShard::try_submit`](crate::IngressShard::try_submit).
    pub fn admit<'a>(&self, request: Request<'a, ()>) -> Admit<'a> {
        Admit::new(Arc::clone(&self.lobby), request, true)
    }

    /// The same, but refuses where there is no room now.
    ///
    /// # Errors
    /// See [`AdmitError`]; [`Refusal::Full`](crate::Refusal::Full) in it says of what there is none.
    pub fn try_admit<'a>(&self, request: Request<'a, ()>) -> Admit<'a> {
        Admit::new(Arc::clone(&self.lobby), request, false)
    }

    /// A request's way to a permit, for a future that keeps the request itself.
    #[cfg(feature = "tower")]
    pub(crate) fn passage(&self, waits: bool) -> Passage {
        Passage::new(Arc::clone(&self.lobby), waits)
    }

    /// How many futures wait for room for a request of a model, and are not in the engine yet.
    #[must_use]
    pub fn waiting_for_room(&self, model: ModelIndex) -> u32 {
        self.lobby.room.waiting(model.at())
    }
}

/// Puts the shards of an engine behind an admission. So many entries for each front; the bells are those
/// of the egress shards.
pub(crate) fn open(
    shared: Arc<Shared>,
    ingress: Vec<IngressShard<Waiter>>,
    egress: Vec<EgressShard<Waiter>>,
    entries_per_front: u32,
    bells: Box<[Doorbell]>,
) -> (Admission, Vec<Courier>) {
    let models = shared.directory.len();
    let (waiters, stocks) = Waiters::new(ingress.len(), entries_per_front);
    let fronts = ingress.into_iter().zip(stocks);
    let fronts = fronts.map(|(shard, stock)| Front { shard, stock });
    let room = RoomQueue::new(waiters.len(), models, bells);
    let usher = Usher::new(waiters.len(), models);
    let (mut desks, mut sleepers) = (Vec::new(), Vec::new());
    for shard in egress {
        let (exit, sleeper, idle) = shard.into_parts();
        desks.push(exit);
        sleepers.push((sleeper, idle));
    }
    let lobby = Lobby::new(waiters, fronts.collect(), desks, (room, usher), shared);
    let lobby = Arc::new(lobby);
    let couriers = sleepers
        .into_iter()
        .enumerate()
        .map(|(shard, sleeper)| Courier::new(Arc::clone(&lobby), shard, sleeper));
    let couriers = couriers.collect();
    (Admission { lobby }, couriers)
}
