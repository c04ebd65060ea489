//! What all handles of one engine and its core share besides rings.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crossbeam::utils::CachePadded;

use crate::Closed;
use crate::directory::Directory;
use crate::sync::doorbell::Doorbell;
use crate::sync::mail::{Mail, Release};
use crate::sync::room::RoomWord;
use crate::ticket::{PlaceMap, Ticket};

/// A shard that is gone has seen every version.
const SEEN_ALL: u64 = u64::MAX;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) places: PlaceMap,
    pub(crate) directory: Directory,
    /// Releases that may not fail; posted by [`post`](Self::post).
    mail: Mail,
    /// By place: which use of the slot is current. Written by the shard that owns the slot.
    pub(crate) generations: Arc<[AtomicU32]>,
    /// Letters that were not posted because they are of no current use of a slot.
    stale_letters: AtomicU64,
    /// The arbiter's.
    pub(crate) bell: Doorbell,
    /// No new requests are taken.
    closed: AtomicBool,
    /// The core panicked.
    lost: AtomicBool,
    /// By ingress shard, then model: the version of the newest view that the shard works under.
    seen: Box<[CachePadded<AtomicU64>]>,
    pub(crate) egress: Box<[CachePadded<EgressFlags>]>,
    /// Whether anybody waits for room in the ingress shards, and whether there is news of it.
    pub(crate) room: RoomWord,
}

/// What an egress shard and the core tell each other.
#[derive(Debug, Default)]
pub(crate) struct EgressFlags {
    /// The shard's handle was dropped.
    dropped: AtomicBool,
    /// The core waits for room in the shard's ring.
    hungry: AtomicBool,
    /// The core delivers nothing more.
    closed: AtomicBool,
}

/// Generations of different engines begin this far apart, so that a handle of one is stale in another.
const GENERATION_STEP: u32 = 0x9E37_79B9;

impl Shared {
    pub(crate) fn new(
        places: PlaceMap,
        directory: Directory,
        (mail, reach): (Mail, u32),
        bell: Doorbell,
        shards: (usize, usize),
    ) -> Self {
        static BEGINNING: AtomicU32 = AtomicU32::new(0);
        let beginning = BEGINNING.fetch_add(GENERATION_STEP, Ordering::Relaxed);
        let (ingress, egress) = shards;
        let seen = (0..ingress * directory.len()).map(|_| CachePadded::default());
        Self {
            places,
            mail,
            generations: (0..reach).map(|_| AtomicU32::new(beginning)).collect(),
            stale_letters: AtomicU64::new(0),
            bell,
            closed: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            seen: seen.collect(),
            egress: (0..egress).map(|_| CachePadded::default()).collect(),
            room: RoomWord::new(),
            directory,
        }
    }

    /// Posts a release for the current use of a slot; one of another use, or of another engine, is stale
    /// and must not take the place of one that is not. Whoever has a ticket sees its generation or a
    /// later one.
    pub(crate) fn post(&self, ticket: Ticket, attempt: u8, what: Release) {
        let place = ticket.place.0;
        let current = self.generations.get(place as usize);
        let is_current =
            current.is_some_and(|current| current.load(Ordering::Relaxed) == ticket.generation);
        if !is_current || !self.mail.post(place, ticket.generation, attempt, what) {
            self.stale_letters.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Letters that were stale when they were posted.
    pub(crate) fn stale_letters(&self) -> u64 {
        self.stale_letters.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        // ORDERING: pairs with `close`; a shard that misses it is answered by the core.
        self.closed.load(Ordering::Acquire)
    }

    pub(crate) fn close(&self) {
        // ORDERING: pairs with `is_closed`.
        self.closed.store(true, Ordering::Release);
    }

    pub(crate) fn lose(&self) {
        // ORDERING: pairs with `why_closed`; `lost` is known before `closed` is.
        self.lost.store(true, Ordering::Release);
        self.close();
    }

    pub(crate) fn why_closed(&self) -> Closed {
        // ORDERING: pairs with `lose`.
        if self.lost.load(Ordering::Acquire) {
            Closed::Lost
        } else {
            Closed::Stopped
        }
    }

    /// A shard works under `version` of a model's view from now on; what it sent before is in its
    /// ring already.
    pub(crate) fn see(&self, shard: usize, model: usize, version: u64) {
        // ORDERING: pairs with `all_see`: the core then finds in the ring what was sent before.
        self.seen[shard * self.directory.len() + model].store(version, Ordering::Release);
    }

    /// A shard sends nothing more.
    pub(crate) fn see_no_more(&self, shard: usize) {
        for model in 0..self.directory.len() {
            self.see(shard, model, SEEN_ALL);
        }
    }

    /// Whether every shard works under `version` of a model's view, or a newer one.
    pub(crate) fn all_see(&self, model: usize, version: u64) -> bool {
        let mut seen = self.seen.iter().skip(model).step_by(self.directory.len());
        // ORDERING: pairs with `see`.
        seen.all(|seen| seen.load(Ordering::Acquire) >= version)
    }
}

impl EgressFlags {
    pub(crate) fn is_dropped(&self) -> bool {
        // ORDERING: pairs with `drop_handle`: what the shard sent back before is in its ring.
        self.dropped.load(Ordering::Acquire)
    }

    pub(crate) fn drop_handle(&self) {
        // ORDERING: pairs with `is_dropped`.
        self.dropped.store(true, Ordering::Release);
    }

    /// Said by the core before it looks at the ring's room once more and sleeps.
    pub(crate) fn set_hungry(&self, hungry: bool) {
        self.hungry.store(hungry, Ordering::Relaxed);
    }

    /// Asked by the shard after it made room and after a fence.
    #[inline]
    pub(crate) fn is_hungry(&self) -> bool {
        self.hungry.load(Ordering::Relaxed)
    }

    pub(crate) fn is_closed(&self) -> bool {
        // ORDERING: pairs with `close`: all that will ever come is in ring and channel.
        self.closed.load(Ordering::Acquire)
    }

    pub(crate) fn close(&self) {
        // ORDERING: pairs with `is_closed`.
        self.closed.store(true, Ordering::Release);
    }
}
