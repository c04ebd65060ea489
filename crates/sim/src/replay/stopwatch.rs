//! How long the arbiter's calls take, without making them much longer.

/// Of so many moments one is measured.
const SAMPLED: u64 = 64;
/// A call that seems to have taken so long was interrupted: the machine did something else meanwhile, which would
/// count 64 times.
const LOST_NS: u64 = 1_000_000;

/// Measures some calls by a clock, and estimates the time of all.
#[derive(Debug)]
pub(super) struct Stopwatch {
    clock: Option<fn() -> u64>,
    /// What looking at the clock takes.
    look: u64,
    moments: u64,
    is_on: bool,
    sampled_ns: u64,
}

impl Stopwatch {
    pub(super) fn new(clock: Option<fn() -> u64>) -> Self {
        let look = |clock: fn() -> u64| {
            let looks = (0..1_000).map(|_| {
                let before = clock();
                clock().saturating_sub(before)
            });
            looks.min().unwrap_or(0)
        };
        Self {
            look: clock.map_or(0, look),
            clock,
            moments: 0,
            is_on: false,
            sampled_ns: 0,
        }
    }

    /// Another moment begins.
    pub(super) fn next_moment(&mut self) {
        self.is_on = self.clock.is_some() && self.moments.is_multiple_of(SAMPLED);
        self.moments += 1;
    }

    pub(super) fn time<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let Some(clock) = self.clock.filter(|_| self.is_on) else {
            return call();
        };
        let before = clock();
        let done = call();
        let took = clock().saturating_sub(before);
        if took < LOST_NS {
            self.sampled_ns += took.saturating_sub(self.look);
        }
        done
    }

    /// About how long all calls took, in nanoseconds.
    pub(super) const fn total(&self) -> u64 {
        self.sampled_ns.saturating_mul(SAMPLED)
    }
}
