//! How somebody who waits for room in the ingress shards hears of it: a word beside a doorbell.
//!
//! The one who waits says so ([`RoomWord::want`]) and looks at the shards after that; the core asks
//! ([`RoomWord::tell`]) after slots, blocks or room in a ring came back, and rings if it is told to. Of
//! the two fences one is first, so that either the look sees the room, or the core sees the wish.

use crossbeam::utils::CachePadded;

use super::shim::{AtomicU32, Ordering, fence};

/// Nobody waits for room.
const UNASKED: u32 = 0;
/// Somebody waits for room, and is to be told.
const WANTED: u32 = 1;
/// Room came back since it was wanted.
const NEWS: u32 = 2;

/// The word.
#[derive(Debug)]
pub(crate) struct RoomWord {
    state: CachePadded<AtomicU32>,
    /// Who is told: the number of an egress shard.
    usher: AtomicU32,
}

impl RoomWord {
    pub(crate) fn new() -> Self {
        Self {
            state: CachePadded::new(AtomicU32::new(UNASKED)),
            usher: AtomicU32::new(0),
        }
    }

    /// Whose bell is to be rung.
    pub(crate) fn usher(&self) -> usize {
        // ORDERING: Acquire with the Release of `hand_on`: who found the old one gone finds the new one.
        self.usher.load(Ordering::Acquire) as usize
    }

    /// Another one is told from now on. The old one is gone already: whoever rings for it learns that,
    /// and asks again.
    pub(crate) fn hand_on(&self, heir: usize) {
        let heir = u32::try_from(heir).expect("shards are few");
        // ORDERING: Release with the Acquire of `usher`.
        self.usher.store(heir, Ordering::Release);
    }

    /// Somebody waits for room; to be said before the shards are looked at.
    pub(crate) fn want(&self) {
        self.state.store(WANTED, Ordering::Relaxed);
        // ORDERING: with the fence of `tell`: of what comes back after the look that follows there will
        // be news.
        fence(Ordering::SeqCst);
    }

    /// Nobody waits for room any more.
    pub(crate) fn want_none(&self) {
        self.state.store(UNASKED, Ordering::Relaxed);
    }

    /// Whether room came back since somebody wanted some.
    pub(crate) fn has_news(&self) -> bool {
        self.state.load(Ordering::Relaxed) == NEWS
    }

    /// By the core, after something came back: whether it is to ring.
    pub(crate) fn tell(&self) -> bool {
        // ORDERING: with the fence of `want`.
        fence(Ordering::SeqCst);
        let is_wanted = self.state.load(Ordering::Relaxed) == WANTED;
        if is_wanted {
            self.state.store(NEWS, Ordering::Relaxed);
        }
        is_wanted
    }
}

#[cfg(all(test, loom))]
mod model;
