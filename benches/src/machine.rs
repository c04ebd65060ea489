//! The machine that is measured on: which cores there are, and how much it disturbs.
//!
//! A number that was taken across cores says little without these: the load average, the time a
//! cache line takes from one core to the other, which on virtual machines changes within minutes,
//! and the gaps in which the hypervisor or the kernel runs something else.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tollgate::placement::{CoreId, Machine, pin_current_thread};

/// Two cores: one for the arbiter, and one for everybody else.
///
/// Without two cores to pin to, nobody is pinned.
#[derive(Clone, Copy, Debug)]
pub struct Cores {
    /// The arbiter's.
    pub arbiter: Option<CoreId>,
    /// That of the threads that submit and receive.
    pub shards: Option<CoreId>,
}

impl Cores {
    /// Nobody is pinned.
    pub const NOBODY: Self = Self {
        arbiter: None,
        shards: None,
    };

    /// The last core that this process may use is the arbiter's, since the first one often serves
    /// interrupts; the last but one is that of the shards.
    #[must_use]
    pub fn choose() -> Self {
        let pinnable = Machine::read().pinnable().unwrap_or_default();
        let mut last = pinnable.iter().rev();
        match (last.next(), last.next()) {
            (Some(arbiter), Some(shards)) => Self {
                arbiter: Some(arbiter),
                shards: Some(shards),
            },
            _ => Self::NOBODY,
        }
    }
}

impl std::fmt::Display for Cores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.arbiter, self.shards) {
            (Some(arbiter), Some(shards)) => {
                write!(
                    f,
                    "arbiter on core {arbiter}, everybody else on core {shards}"
                )
            }
            _ => f.write_str("fewer than two cores: nobody is pinned"),
        }
    }
}

/// Runs `work` on a thread of its own, pinned to a core if there is one. The caller stays where it is:
/// a pin only narrows, and threads inherit it.
///
/// # Panics
/// If the core cannot be had, or `work` panics.
pub fn on_core<R: Send>(core: Option<CoreId>, work: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            pin(core);
            work()
        });
        match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Pins the calling thread, if there is a core for it.
///
/// # Panics
/// If the core cannot be had.
pub fn pin(core: Option<CoreId>) {
    if let Some(core) = core {
        pin_current_thread(core).expect("the core is one that this process may use");
    }
}

/// How busy the machine is, as Linux tells it.
#[must_use]
pub fn load_average() -> String {
    let told = std::fs::read_to_string("/proc/loadavg");
    told.map_or_else(
        |error| format!("unknown ({error})"),
        |line| line.trim().to_owned(),
    )
}

/// Nanoseconds that one cache line takes from one core to the other and is seen there: half a round
/// trip, the median of 32 runs of `trips` each.
///
/// # Panics
/// If a core cannot be had.
#[must_use]
pub fn line_transfer_ns(cores: Cores, trips: u64) -> f64 {
    const RUNS: usize = 32;
    let (there, back) = (AtomicU64::new(0), AtomicU64::new(0));
    let total = trips * RUNS as u64;
    let mut samples = Vec::with_capacity(RUNS);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(cores.arbiter);
            for trip in 1..=total {
                await_value(&there, trip);
                // ORDERING: pairs with the other thread's `await_value`.
                back.store(trip, Ordering::Release);
            }
        });
        scope.spawn(|| {
            pin(cores.shards);
            let mut trip = 0;
            for _ in 0..RUNS {
                let start = Instant::now();
                for _ in 0..trips {
                    trip += 1;
                    // ORDERING: pairs with the other thread's `await_value`.
                    there.store(trip, Ordering::Release);
                    await_value(&back, trip);
                }
                samples.push(start.elapsed().as_secs_f64() * 1e9 / (2 * trips) as f64);
            }
        });
    });
    crate::Summary::of(samples).median
}

fn await_value(word: &AtomicU64, value: u64) {
    let mut looks = 0_u32;
    // ORDERING: pairs with the stores of the thread that is waited for.
    while word.load(Ordering::Acquire) != value {
        looks += 1;
        if looks.is_multiple_of(1 << 16) {
            // Both threads may be on one core.
            std::thread::yield_now();
        }
        std::hint::spin_loop();
    }
}

/// How long a thread that does nothing but look at the clock is kept from doing so.
#[derive(Clone, Debug)]
pub struct Gaps {
    /// Nanoseconds between two looks.
    pub between_looks: Histogram<u64>,
    /// How long it looked.
    pub span: Duration,
}

impl Gaps {
    /// Spins for `span` on a core.
    ///
    /// # Panics
    /// If the core cannot be had.
    #[must_use]
    pub fn measure(core: Option<CoreId>, span: Duration) -> Self {
        on_core(core, || {
            let mut between_looks = histogram();
            let start = Instant::now();
            let mut last = start;
            while last - start < span {
                let now = Instant::now();
                between_looks.saturating_record(nanos(now - last));
                last = now;
            }
            Self {
                between_looks,
                span: last - start,
            }
        })
    }

    /// How often a second a gap was at least this long.
    #[must_use]
    pub fn per_second(&self, at_least_ns: u64) -> f64 {
        let count: u64 = self
            .between_looks
            .iter_recorded()
            .filter(|step| step.value_iterated_to() >= at_least_ns)
            .map(|step| step.count_at_value())
            .sum();
        #[expect(clippy::cast_precision_loss, reason = "there are few gaps")]
        let count = count as f64;
        count / self.span.as_secs_f64()
    }
}

impl std::fmt::Display for Gaps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [micro, ten, hundred] = [1_000, 10_000, 100_000].map(|ns| self.per_second(ns));
        let longest = self.between_looks.max() / 1_000;
        write!(
            f,
            "{micro:.0} gaps a second of 1 us and more, {ten:.0} of 10 us, {hundred:.1} of 100 us; \
             the longest {longest} us"
        )
    }
}

/// A histogram of nanoseconds up to a minute, to three digits.
///
/// # Panics
/// Never: the bounds are fixed.
#[must_use]
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are fixed and valid")
}

/// Whole nanoseconds of a span.
#[must_use]
pub fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_counted_by_length() {
        let mut gaps = Gaps {
            between_looks: histogram(),
            span: Duration::from_secs(2),
        };
        for ns in [50, 2_000, 20_000, 30_000] {
            gaps.between_looks.saturating_record(ns);
        }
        assert_eq!(gaps.per_second(1_000), 1.5);
        assert_eq!(gaps.per_second(10_000), 1.0);
        assert_eq!(gaps.per_second(1_000_000), 0.0);
    }

    #[test]
    fn a_line_takes_some_time_and_a_thread_has_gaps() {
        let cores = Cores::choose();
        assert!(line_transfer_ns(cores, 10) > 0.0);
        let gaps = Gaps::measure(cores.arbiter, Duration::from_millis(1));
        assert!(gaps.span >= Duration::from_millis(1));
        assert!(!gaps.between_looks.is_empty());
    }
}
