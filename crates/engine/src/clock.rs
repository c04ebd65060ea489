//! The engine's time: nanoseconds since its clock was made.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_arbiter::Nanos;

/// Where an engine's time comes from; every time and deadline of an engine is on its clock.
///
/// Copies agree with each other, on any thread.
///
/// ```
/// use tollgate::{Clock, Nanos};
/// let clock = Clock::monotonic();
/// let earlier = clock.now();
/// assert!(clock.now() >= earlier);
///
/// let (clock, hand) = Clock::manual();
/// hand.set(Nanos::from_millis(5));
/// assert_eq!(clock.now(), Nanos(5_000_000));
/// ```
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    Monotonic { clock: quanta::Clock, origin: u64 },
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// The machine's monotonic time: the processor's counter where it is steady, else the system's
    /// clock. Zero is now. The first call of a process may take a fraction of a second to calibrate.
    #[must_use]
    pub fn monotonic() -> Self {
        let clock = quanta::Clock::new();
        let origin = clock.raw();
        Self(Source::Monotonic { clock, origin })
    }

    /// A clock that stands still until its hand is moved: for tests and simulations.
    ///
    /// Moving the hand wakes nobody. An engine with a thread of its own sleeps in real time; after the
    /// hand was moved, any submission, feedback or
    /// [`refresh`](crate::IngressShard::refresh) makes it look at the clock.
    #[must_use]
    pub fn manual() -> (Self, ManualClock) {
        let time = Arc::new(AtomicU64::new(0));
        (Self(Source::Manual(Arc::clone(&time))), ManualClock(time))
    }

    /// The time.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Nanos {
        match &self.0 {
            Source::Monotonic { clock, origin } => {
                Nanos(clock.delta_as_nanos(*origin, clock.raw()))
            }
            // ORDERING: pairs with `ManualClock::set`; whoever was told of the new time reads it.
            Source::Manual(time) => Nanos(time.load(Ordering::Acquire)),
        }
    }
}

/// The hand of a [`Clock::manual`].
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// Moves the time forward to `now`; a time in the past changes nothing.
    pub fn set(&self, now: Nanos) {
        // ORDERING: pairs with `Clock::now`.
        self.0.fetch_max(now.0, Ordering::AcqRel);
    }

    /// Moves the time forward by `span`, saturating.
    pub fn advance(&self, span: Nanos) {
        let advance = |now: u64| Some(now.saturating_add(span.0));
        // ORDERING: pairs with `Clock::now`. The closure never declines.
        let _ = self
            .0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, advance);
    }
}
