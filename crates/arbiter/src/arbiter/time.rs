//! Time, which is handed in (S11.1).

use crate::Nanos;
use crate::Sink;
use crate::arbiter::Arbiter;

impl<P> Arbiter<P> {
    /// Sets the time, which never goes back, and sweeps: what has expired or can run nowhere ends
    /// (S5.5, S11.1). A drain whose deadline is reached ends as well (S11.3). All of it is done when
    /// the call returns; a loop that must stay responsive uses [`set_time`](Self::set_time) and
    /// [`turn`](Self::turn).
    pub fn advance(&mut self, now: Nanos, sink: &mut impl Sink<P>) {
        self.set_time(now);
        if !self.is_closing() {
            self.sweep_all(sink);
        }
        self.end_drain_whole(sink);
        self.retire_drained();
    }

    /// Sets the time, which never goes back, and nothing else: what it makes due happens in the next
    /// [`turn`](Self::turn), or before the next selection. O(1).
    pub fn set_time(&mut self, now: Nanos) {
        self.now = self.now.max(now);
    }

    /// When something is due by itself: the earliest deadline of a waiting request, or the end of a
    /// drain while requests wait. O(1).
    #[must_use]
    pub fn next_deadline(&self) -> Option<Nanos> {
        let expiry = self.deadlines.first().map(|(deadline, _)| Nanos(deadline));
        let drain_end = self.drain_deadline.filter(|_| self.waiting > 0);
        expiry.into_iter().chain(drain_end).min()
    }
}
