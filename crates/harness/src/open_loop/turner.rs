//! A core that is turned by the harness, which sees every turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tollgate::{Clock, Core, TurnReport};
use tollgate_report::Recording;

/// When each accepted request was taken in, from the thread that turns to the one that feeds.
///
/// Requests of one ingress shard are taken in in the order in which they were accepted, so a number is
/// all that has to be passed.
#[derive(Debug)]
pub struct Intakes {
    stamps: Box<[AtomicU64]>,
    /// Requests taken in so far.
    count: AtomicU64,
}

impl Intakes {
    /// For at most `live` requests that are not handed out yet.
    #[must_use]
    pub fn new(live: usize) -> Arc<Self> {
        let stamps = (0..live.next_power_of_two()).map(|_| AtomicU64::new(0));
        Arc::new(Self {
            stamps: stamps.collect(),
            count: AtomicU64::new(0),
        })
    }

    /// `more` requests were taken in by the turn that began at `now`.
    fn took(&self, more: u64, now: u64) {
        let before = self.count.load(Ordering::Relaxed);
        for order in before..before + more {
            self.stamp(order).store(now, Ordering::Relaxed);
        }
        // ORDERING: pairs with `of`; whoever reads the count reads the stamps before it.
        self.count.store(before + more, Ordering::Release);
    }

    /// Requests taken in so far.
    pub(super) fn count(&self) -> u64 {
        // ORDERING: pairs with `took`.
        self.count.load(Ordering::Acquire)
    }

    /// When the request at this place was taken in; `None` until that is known.
    pub(super) fn of(&self, order: u64) -> Option<u64> {
        let is_known = order < self.count();
        is_known.then(|| self.stamp(order).load(Ordering::Relaxed))
    }

    fn stamp(&self, order: u64) -> &AtomicU64 {
        let mask = self.stamps.len() as u64 - 1;
        &self.stamps[usize::try_from(order & mask).expect("a place in a slice")]
    }
}

/// Turns a core until it is told to stop, and times each turn.
#[derive(Debug)]
pub struct Turner {
    core: Core<u64>,
    clock: Clock,
    intakes: Option<Arc<Intakes>>,
    /// A turn's time by its dispatches, once for each of them.
    pub selection: Recording,
    /// Whole turns that dispatched.
    pub turn: Recording,
}

impl Turner {
    /// Tells `intakes`, if there are any, what it takes in.
    #[must_use]
    pub fn new(core: Core<u64>, clock: Clock, intakes: Option<Arc<Intakes>>) -> Self {
        let [selection, turn] = Self::recordings();
        Self {
            core,
            clock,
            intakes,
            selection,
            turn,
        }
    }

    fn recordings() -> [Recording; 2] {
        [
            Recording::new("selection", "a turn's time for each dispatch", "dispatches"),
            Recording::new("turn", "a turn that dispatches", "turns"),
        ]
    }

    /// Forgets what it has recorded.
    pub fn forget(&mut self) {
        [self.selection, self.turn] = Self::recordings();
    }

    /// One turn; then, `outside` of its time, whatever the caller wants to do to the core. Returns the
    /// turn's report.
    pub fn turn(&mut self, outside: impl FnOnce(&mut Core<u64>, u64, &TurnReport)) -> TurnReport {
        let now = self.clock.now();
        let report = self.core.turn(now);
        let took = self.clock.now().saturating_sub(now).0;
        if let Some(intakes) = self.intakes.as_ref().filter(|_| report.intake > 0) {
            intakes.took(report.intake, now.0);
        }
        if let Some(each) = took.checked_div(report.dispatched) {
            self.turn.record(took);
            for _ in 0..report.dispatched {
                self.selection.record(each);
            }
        }
        outside(&mut self.core, now.0, &report);
        report
    }

    /// Turns until `ends` is set.
    pub fn turn_until(&mut self, ends: &AtomicBool, mut outside: impl FnMut(&mut Core<u64>, u64)) {
        // ORDERING: pairs with the store of the thread that ends it.
        while !ends.load(Ordering::Acquire) {
            self.turn(|core, now, _| outside(core, now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_intake_is_known_once_it_was_told() {
        let intakes = Intakes::new(3);
        assert_eq!(intakes.of(0), None);
        intakes.took(2, 50);
        intakes.took(1, 60);
        assert_eq!(
            [0, 1, 2, 3].map(|order| intakes.of(order)),
            [Some(50), Some(50), Some(60), None]
        );
    }
}
