//! What all handles of one engine and its core share besides rings.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam::utils::CachePadded;

use crate::Closed;
use crate::directory::Directory;
use crate::sync::doorbell::Doorbell;
use crate::sync::mail::Mail;
use crate::ticket::PlaceMap;

/// A shard that is gone has seen every version.
const SEEN_ALL: u64 = u64::MAX;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) places: PlaceMap,
    pub(crate) directory: Directory,
    /// Releases that may not fail.
    pub(crate) mail: Mail,
    /// The arbiter's.
    pub(crate) bell: Doorbell,
    /// No new requests are taken.
    closed: AtomicBool,
    /// The core panicked.
    lost: AtomicBool,
    /// By ingress shard, then model: the version of the newest view that the shard works under.
    seen: Box<[CachePadded<AtomicU64>]>,
    pub(crate) egress: Box<[CachePadded<EgressFlags>]>,
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

impl Shared {
    pub(crate) fn new(
        places: PlaceMap,
        directory: Directory,
        mail: Mail,
        bell: Doorbell,
        shards: (usize, usize),
    ) -> Self {
        let (ingress, egress) = shards;
        let seen = (0..ingress * directory.len()).map(|_| CachePadded::default());
        Self {
            places,
            mail,
            bell,
            closed: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            seen: seen.collect(),
            egress: (0..egress).map(|_| CachePadded::default()).collect(),
            directory,
        }
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
