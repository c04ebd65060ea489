//! Names for the numbers that cross the arbiter's border.

use std::fmt;

/// A point in time or a span, in nanoseconds; arithmetic saturates (S11.1).
///
/// The arbiter has no clock: whoever drives it chooses the zero and hands the time in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The largest time; a deadline of this is never reached by arithmetic on smaller times.
    pub const MAX: Self = Self(u64::MAX);

    /// A time given in microseconds.
    ///
    /// ```
    /// # use tollgate_arbiter::Nanos;
    /// assert_eq!(Nanos::from_micros(3), Nanos(3_000));
    /// assert_eq!(Nanos::from_micros(u64::MAX), Nanos::MAX);
    /// ```
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// A time given in milliseconds.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Whole microseconds, rounded down.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// `self + span`, at most [`Nanos::MAX`].
    #[must_use]
    pub const fn saturating_add(self, span: Self) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// `self - earlier`, at least 0.
    #[must_use]
    pub const fn saturating_sub(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

/// The identity that the outside gives to a worker; it may leave and return.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub u64);

/// One rank of one worker: what a request is pinned to and dispatched to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// The worker.
    pub worker: WorkerId,
    /// Its rank, within `first_rank .. first_rank + ranks` of the worker's record.
    pub rank: u32,
}

impl Endpoint {
    /// The endpoint of `worker` with `rank`.
    #[must_use]
    pub const fn new(worker: u64, rank: u32) -> Self {
        Self {
            worker: WorkerId(worker),
            rank,
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {}]", self.worker.0, self.rank)
    }
}

/// A class's place in the arbiter's tables; valid until the class is retired by a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassIndex(pub u16);

impl ClassIndex {
    pub(crate) const fn at(self) -> usize {
        self.0 as usize
    }
}

/// An endpoint's place in the arbiter's tables.
///
/// A new endpoint takes the lowest free number of its worker's egress group: the numbers of group g
/// are those that leave g when divided by the groups, their count rounded up to a power of two; with
/// one group, all numbers. The number stays taken while the endpoint is known
/// or a live request refers to it (by its pin, its booking, or because it avoids it).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointIndex(pub u32);

/// A place for one request, from its submission to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotIndex(pub u32);

impl SlotIndex {
    pub(crate) const fn at(self) -> usize {
        self.0 as usize
    }
}

/// The handle of one submission: a slot and which of its uses is meant.
///
/// Whoever owns the slots (see [`SlotPool`](crate::SlotPool)) raises the generation at each use, so
/// that a handle kept too long is recognised as stale (S11.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    /// The slot.
    pub slot: SlotIndex,
    /// Which use of the slot.
    pub generation: u32,
}
