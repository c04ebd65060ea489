//! When requests are due: schedules that are fixed before anything is measured.
//!
//! A schedule does not know how the engine fares. A request is due at its time whatever happened to those
//! before it, and its latency runs from then on: a measurement that waits for an answer before it asks
//! again asks less while the engine is slow, and so hides what it was made to find (coordinated omission).

/// When the next request is due.
pub trait Arrivals {
    /// The time of the next request on the engine's clock, in nanoseconds; `None` when there are no more.
    /// The same until [`advance`](Self::advance) is called.
    fn due(&self) -> Option<u64>;

    /// Goes on to the request after.
    fn advance(&mut self);

    /// A request came out at this time. Only a closed loop cares.
    fn came_out(&mut self, _now: u64) {}
}

/// Gaps, exponential around 1, drawn beforehand and taken round and round.
#[derive(Clone, Debug)]
struct Gaps {
    gaps: Vec<f32>,
    next: usize,
}

impl Gaps {
    const LEN: usize = 1 << 16;

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "24 bits of chance are plenty for a gap"
    )]
    fn new() -> Self {
        let mut state = 0x2545_F491_4F6C_DD1D_u64;
        let mut draw = || {
            // xorshift64*: its high bits are good.
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            let bits = state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11;
            let uniform = (bits as f64 + 0.5) / (1_u64 << 53) as f64;
            -uniform.ln() as f32
        };
        Self {
            gaps: (0..Self::LEN).map(|_| draw()).collect(),
            next: 0,
        }
    }

    #[inline]
    fn draw(&mut self) -> f64 {
        let gap = self.gaps[self.next % Self::LEN];
        self.next += 1;
        f64::from(gap)
    }
}

/// Arrivals at random, each independent of the others, at a mean rate; all the time, or in bursts.
#[derive(Clone, Debug)]
pub struct Random {
    gaps: Gaps,
    /// Mean gap while requests arrive, in nanoseconds.
    mean: f64,
    at: f64,
    end: f64,
    /// Nanoseconds of each period in which requests arrive, and of the whole period.
    period: Option<(f64, f64)>,
    /// When the period began that `at` is in.
    period_began: f64,
}

impl Random {
    /// A Poisson process: `per_second` from `start` (nanoseconds on the engine's clock) for `span`
    /// nanoseconds.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "the clock began a moment ago, and spans are minutes"
    )]
    pub fn poisson(per_second: f64, start: u64, span: u64) -> Self {
        let mut arrivals = Self {
            gaps: Gaps::new(),
            mean: 1e9 / per_second,
            at: start as f64,
            end: (start + span) as f64,
            period: None,
            period_began: start as f64,
        };
        arrivals.advance();
        arrivals
    }

    /// The same mean rate, but all of it in the first `on` nanoseconds of each `period`.
    ///
    /// # Panics
    /// If `on` is 0 or longer than the period.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "spans are minutes at most")]
    pub fn bursts(per_second: f64, (on, period): (u64, u64), start: u64, span: u64) -> Self {
        assert!(0 < on && on <= period, "a burst fits into its period");
        let while_on = per_second * period as f64 / on as f64;
        Self {
            period: Some((on as f64, period as f64)),
            ..Self::poisson(while_on, start, span)
        }
    }
}

impl Arrivals for Random {
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "times are positive and far below 2^53"
    )]
    fn due(&self) -> Option<u64> {
        (self.at < self.end).then_some(self.at as u64)
    }

    #[inline]
    fn advance(&mut self) {
        self.at += self.mean * self.gaps.draw();
        if let Some((on, period)) = self.period {
            // What falls beyond the burst falls into the next one.
            while self.at - self.period_began >= on {
                self.period_began += period;
                self.at += period - on;
            }
        }
    }
}

/// So many requests at one moment.
#[derive(Clone, Debug)]
pub struct AtOnce {
    at: u64,
    left: u64,
}

impl AtOnce {
    /// `count` requests, all due at `at` (nanoseconds on the engine's clock).
    #[must_use]
    pub const fn new(count: u64, at: u64) -> Self {
        Self { at, left: count }
    }
}

impl Arrivals for AtOnce {
    fn due(&self) -> Option<u64> {
        (self.left > 0).then_some(self.at)
    }

    fn advance(&mut self) {
        self.left -= 1;
    }
}

/// A closed loop: a request is due when one before it came out. It shows what a loop that waits for its
/// answers believes; nothing else here uses it to tell latencies.
#[derive(Clone, Debug)]
pub struct Closed {
    ready: u64,
    at: u64,
    left: u64,
}

impl Closed {
    /// `count` requests, `window` of them at a time, from `start` (nanoseconds on the engine's clock) on.
    #[must_use]
    pub const fn new(count: u64, window: u64, start: u64) -> Self {
        Self {
            ready: window,
            at: start,
            left: count,
        }
    }
}

impl Arrivals for Closed {
    fn due(&self) -> Option<u64> {
        (self.left > 0 && self.ready > 0).then_some(self.at)
    }

    fn advance(&mut self) {
        self.ready -= 1;
        self.left -= 1;
    }

    fn came_out(&mut self, now: u64) {
        self.ready += 1;
        self.at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut arrivals: impl Arrivals) -> Vec<u64> {
        let mut times = Vec::new();
        while let Some(due) = arrivals.due() {
            times.push(due);
            arrivals.advance();
        }
        times
    }

    #[test]
    fn a_poisson_process_keeps_its_rate_and_its_span() {
        let times = all(Random::poisson(1e6, 5_000, 100_000_000));
        assert!(times.is_sorted());
        assert!(times.iter().all(|&at| (5_000..100_005_000).contains(&at)));
        let count = f64::from(u32::try_from(times.len()).expect("few"));
        assert!((count / 1e5 - 1.0).abs() < 0.02, "{count}");
        // Exponential gaps: the part below the mean is 1 - 1/e.
        let below = times.windows(2).filter(|pair| pair[1] - pair[0] < 1_000);
        let below = f64::from(u32::try_from(below.count()).expect("few")) / count;
        assert!((below - 0.632).abs() < 0.02, "{below}");
    }

    #[test]
    fn bursts_keep_the_mean_rate_and_stay_in_their_part_of_the_period() {
        let times = all(Random::bursts(1e6, (20_000, 100_000), 0, 100_000_000));
        assert!(times.iter().all(|at| at % 100_000 <= 20_000));
        let count = f64::from(u32::try_from(times.len()).expect("few"));
        assert!((count / 1e5 - 1.0).abs() < 0.02, "{count}");
    }

    #[test]
    fn a_burst_is_at_one_moment() {
        assert_eq!(all(AtOnce::new(3, 7)), [7, 7, 7]);
    }

    #[test]
    fn a_closed_loop_asks_when_it_was_answered() {
        let mut closed = Closed::new(3, 1, 10);
        assert_eq!(closed.due(), Some(10));
        closed.advance();
        assert_eq!(closed.due(), None);
        closed.came_out(50);
        assert_eq!(closed.due(), Some(50));
        closed.advance();
        closed.came_out(60);
        closed.advance();
        closed.came_out(70);
        assert_eq!(closed.due(), None);
    }
}
