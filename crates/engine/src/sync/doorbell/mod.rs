//! How a thread that ran out of work sleeps, and how those that bring work wake it.
//!
//! One [`Sleeper`] (the arbiter's thread, or an egress shard's receiver), any number of
//! [`Doorbell`]s. Ringing somebody who is awake, the common case, is a fence and a load. The
//! protocol, its invariants (D1..D4) and why no wake-up is lost: the `README.md` of `sync`.

use std::time::Duration;

use crossbeam::utils::CachePadded;

use super::shim::{Arc, AtomicU32, Ordering, Parker, Unparker, fence};

/// The sleeper works, or is about to look for work.
const AWAKE: u32 = 0;
/// The sleeper has announced its sleep: who publishes now has to wake it.
const ASLEEP: u32 = 1;
/// Nobody will ever look for work again. Final (D1).
const GONE: u32 = 2;

/// What a ring met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Answer {
    /// The sleeper will look at what was published before the ring: it is awake, or has been
    /// woken, or closes and has not yet begun its last look (D3, D4).
    Heard,
    /// The sleeper's side has closed. Its last look may or may not have found what was published
    /// before the ring.
    Gone,
}

/// Why a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// There was work at the last look: the sleeper did not park.
    Work,
    /// Somebody rang. What was published before that ring is visible.
    Rung,
    /// The time went by, or the wake-up was spurious (a late token of an earlier ring).
    Elapsed,
}

/// The ringer's end: for whoever publishes work, on any thread.
#[derive(Clone, Debug)]
pub(crate) struct Doorbell {
    shared: Arc<Shared>,
}

/// The sleeper's end, for one thread at a time. Dropping it closes.
#[derive(Debug)]
pub(crate) struct Sleeper {
    shared: Arc<Shared>,
    parker: Parker,
    sleep_count: u64,
}

#[derive(Debug)]
struct Shared {
    state: CachePadded<AtomicU32>,
    unparker: Unparker,
}

/// A doorbell and the one who listens to it, awake.
pub(crate) fn doorbell() -> (Doorbell, Sleeper) {
    let parker = Parker::new();
    let shared = Arc::new(Shared {
        state: CachePadded::new(AtomicU32::new(AWAKE)),
        unparker: parker.unparker().clone(),
    });
    (
        Doorbell {
            shared: Arc::clone(&shared),
        },
        Sleeper {
            shared,
            parker,
            sleep_count: 0,
        },
    )
}

impl Doorbell {
    /// Says that work was published: call it after the publishing store. Wakes the sleeper if it
    /// sleeps; of several ringers that meet one sleep, one pays for the wake-up.
    ///
    /// # Complexity
    /// O(1): a fence and a load while the sleeper is awake; a compare-and-set, and for one ringer
    /// an unpark (a lock and a system call), while it sleeps.
    #[inline]
    pub(crate) fn ring(&self) -> Answer {
        // ORDERING: with the fences of `Sleeper::sleep_unless` and `Sleeper::close`. Of two such
        // fences one is first, so that either this load sees what the sleeper announced, or the
        // sleeper's look after its fence sees what was published before this one.
        fence(Ordering::SeqCst);
        if self.shared.state.load(Ordering::Relaxed) == AWAKE {
            return Answer::Heard;
        }
        self.wake()
    }

    /// The sleeper sleeps, or is gone.
    #[cold]
    fn wake(&self) -> Answer {
        // ORDERING: Release with the Acquire swap of `sleep_unless`: who learns there that it was
        // rung sees what was published. Acquire on failure with the Release store of `close`.
        let exchange =
            self.shared
                .state
                .compare_exchange(ASLEEP, AWAKE, Ordering::Release, Ordering::Acquire);
        match exchange {
            Ok(_) => {
                self.shared.unparker.unpark();
                Answer::Heard
            }
            Err(GONE) => Answer::Gone,
            // Another ringer was first, or the sleeper woke by itself: it looks once more
            // before it sleeps again.
            Err(_) => Answer::Heard,
        }
    }

    /// Whether the sleeper's side has closed. Once true, for ever true; then whatever the sleeper
    /// did before it closed is visible.
    pub(crate) fn is_gone(&self) -> bool {
        // ORDERING: Acquire with the Release store of `Sleeper::close`.
        self.shared.state.load(Ordering::Acquire) == GONE
    }

    /// Whether the sleeper sleeps, or is about to; old when it is read.
    #[cfg(test)]
    pub(crate) fn is_asleep(&self) -> bool {
        self.shared.state.load(Ordering::Relaxed) == ASLEEP
    }
}

impl Sleeper {
    /// Sleeps until somebody rings or `timeout` (none: no end) has passed, unless `has_work` finds
    /// something at the last look. `has_work` runs once, after the sleep was announced; it must
    /// load what the ringers store, not a copy kept from before.
    ///
    /// Look for work whatever is returned: a ring may come for work that was taken before the
    /// sleep, and work may come a moment before its ring.
    ///
    /// # Panics
    /// After [`close`](Self::close): who is gone does not come back (D1).
    pub(crate) fn sleep_unless(
        &mut self,
        mut has_work: impl FnMut() -> bool,
        timeout: Option<Duration>,
    ) -> Woken {
        let state = &*self.shared.state;
        assert!(
            state.load(Ordering::Relaxed) != GONE,
            "a closed sleeper does not sleep"
        );
        state.store(ASLEEP, Ordering::Relaxed);
        // ORDERING: with the fence of `Doorbell::ring`, see there.
        fence(Ordering::SeqCst);
        if has_work() {
            // A ringer that has taken ASLEEP gives a token that ends the next sleep early.
            state.store(AWAKE, Ordering::Relaxed);
            return Woken::Work;
        }
        self.sleep_count += 1;
        match timeout {
            None => self.parker.park(),
            Some(timeout) => self.parker.park_timeout(timeout),
        }
        // ORDERING: Acquire with the Release exchange of `Doorbell::wake`.
        if state.swap(AWAKE, Ordering::Acquire) == AWAKE {
            Woken::Rung
        } else {
            Woken::Elapsed
        }
    }

    /// Nobody listens any more: from here on every ring answers [`Answer::Gone`], and a last look
    /// after this call finds whatever was published before a ring that was heard (D4). A second
    /// call does nothing more.
    pub(crate) fn close(&mut self) {
        // ORDERING: Release with the Acquire loads of `Doorbell::is_gone` and `Doorbell::wake`.
        self.shared.state.store(GONE, Ordering::Release);
        // ORDERING: with the fence of `Doorbell::ring`, see there.
        fence(Ordering::SeqCst);
    }

    /// How often it parked.
    pub(crate) fn sleeps(&self) -> u64 {
        self.sleep_count
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod model;
