//! How long a thread that does nothing but look at the clock is kept from doing so.

use std::time::{Duration, Instant};

use tollgate::placement::CoreId;
use tollgate_report::bench::Gaps;

use super::{nanos, on_core};

/// Gaps below this are the clock's own.
const SHORTEST_NS: u64 = 1_000;

/// Spins for `span` on a core and watches the clock jump.
///
/// # Panics
/// If the core cannot be had.
#[must_use]
pub fn measure_gaps(core: Option<CoreId>, span: Duration) -> Gaps {
    on_core(core, || {
        let mut seen = Seen::default();
        let start = Instant::now();
        let mut last = start;
        while last - start < span {
            let now = Instant::now();
            seen.gap(nanos(now - last));
            last = now;
        }
        seen.over(last - start)
    })
}

/// Gaps by their least length, in powers of ten from a microsecond on.
#[derive(Debug, Default)]
struct Seen {
    counts: [u32; 3],
    longest_ns: u64,
    lost_ns: u64,
}

impl Seen {
    #[inline]
    fn gap(&mut self, ns: u64) {
        self.longest_ns = self.longest_ns.max(ns);
        if ns < SHORTEST_NS {
            return;
        }
        self.lost_ns += ns;
        let mut least = SHORTEST_NS;
        for count in &mut self.counts {
            *count += u32::from(ns >= least);
            least *= 10;
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "spans stay far below 2^53")]
    fn over(&self, span: Duration) -> Gaps {
        let seconds = span.as_secs_f64();
        let [micros, tens, hundreds] = self.counts.map(|count| f64::from(count) / seconds);
        Gaps {
            span_ns: nanos(span),
            micros_per_second: micros,
            ten_micros_per_second: tens,
            hundred_micros_per_second: hundreds,
            longest_ns: self.longest_ns,
            lost: self.lost_ns as f64 / nanos(span) as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_counted_by_length() {
        let mut seen = Seen::default();
        for ns in [50, 2_000, 20_000, 30_000, 200_000] {
            seen.gap(ns);
        }
        let gaps = seen.over(Duration::from_millis(2));
        assert_eq!(gaps.micros_per_second, 2_000.0);
        assert_eq!(gaps.ten_micros_per_second, 1_500.0);
        assert_eq!(gaps.hundred_micros_per_second, 500.0);
        assert_eq!((gaps.longest_ns, gaps.lost), (200_000, 0.126));
    }

    #[test]
    fn a_thread_that_looks_sees_its_whole_span() {
        let gaps = measure_gaps(None, Duration::from_millis(1));
        assert!(gaps.span_ns >= 1_000_000);
        assert!(gaps.longest_ns > 0);
    }
}
