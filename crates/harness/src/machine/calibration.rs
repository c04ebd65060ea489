//! The calibration block: what the machine is like at one moment.

use std::time::{Duration, Instant};

use tollgate::Clock;
use tollgate_report::bench::Calibration;

use super::{Cores, line_transfer_ns, measure_gaps};

/// How long a calibration looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thoroughness {
    /// Some 3 seconds.
    Full,
    /// Some half a second.
    Quick,
    /// Some milliseconds: enough to see that it works.
    Smoke,
}

impl Thoroughness {
    const fn trips(self) -> u64 {
        match self {
            Self::Full => 20_000,
            Self::Quick => 5_000,
            Self::Smoke => 50,
        }
    }

    const fn gaps(self) -> Duration {
        match self {
            Self::Full => Duration::from_secs(2),
            Self::Quick => Duration::from_millis(300),
            Self::Smoke => Duration::from_millis(2),
        }
    }

    const fn looks(self) -> u32 {
        match self {
            Self::Full | Self::Quick => 1_000_000,
            Self::Smoke => 1_000,
        }
    }
}

/// Reads the machine. Steal is counted since `earlier`, where the caller has kept that.
///
/// # Panics
/// If a core cannot be had.
#[must_use]
pub fn calibrate(cores: Cores, thoroughness: Thoroughness, since: &CpuTime) -> Calibration {
    let both = cores.arbiter.is_some() && cores.shards.is_some();
    Calibration {
        line_ns: both.then(|| line_transfer_ns(cores, thoroughness.trips())),
        clock_ns: clock_ns(thoroughness.looks()),
        gaps: measure_gaps(cores.arbiter, thoroughness.gaps()),
        load_average: load_average(),
        steal: CpuTime::read().and_then(|now| now.stolen_since(since)),
    }
}

/// The least of five rounds, since whatever interrupts only adds.
fn clock_ns(looks: u32) -> f64 {
    let clock = Clock::monotonic();
    let round = |_| {
        let start = Instant::now();
        for _ in 0..looks {
            std::hint::black_box(clock.now());
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(looks)
    };
    (0..5).map(round).fold(f64::INFINITY, f64::min)
}

fn load_average() -> Option<f64> {
    let line = std::fs::read_to_string("/proc/loadavg").ok()?;
    line.split_whitespace().next()?.parse().ok()
}

/// What Linux has counted of the processors' time since the system started, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    all: u64,
    stolen: u64,
}

impl CpuTime {
    /// Reads it; `None` where the system does not tell.
    #[must_use]
    pub fn read() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    /// The first line: user, nice, system, idle, waiting, interrupts, soft interrupts, stolen.
    fn parse(stat: &str) -> Option<Self> {
        let rest = stat.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Option<Vec<u64>> = rest
            .split_whitespace()
            .take(8)
            .map(|field| field.parse().ok())
            .collect();
        let ticks = ticks.filter(|ticks| ticks.len() == 8)?;
        Some(Self {
            all: ticks.iter().sum(),
            stolen: ticks[7],
        })
    }

    /// The part of the time since then that the hypervisor took, 0 to 1; `None` if no time was counted.
    #[expect(clippy::cast_precision_loss, reason = "ticks stay far below 2^53")]
    fn stolen_since(&self, earlier: &Self) -> Option<f64> {
        let all = self.all.checked_sub(earlier.all).filter(|&all| all > 0)?;
        let stolen = self.stolen.saturating_sub(earlier.stolen);
        Some(stolen as f64 / all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_the_eighth_number_of_the_first_line() {
        let earlier = CpuTime::parse("cpu  10 0 0 80 0 0 0 10 0 0\ncpu0 1 1").expect("it is one");
        let later = CpuTime::parse("cpu  20 0 0 160 0 0 0 20 0 0").expect("it is one");
        assert_eq!(later.stolen_since(&earlier), Some(0.1));
        assert_eq!(earlier.stolen_since(&earlier), None);
        for damaged in ["", "cpu", "cpu  1 2 3", "cpu  a b c d e f g h", "intr 5"] {
            assert_eq!(CpuTime::parse(damaged), None, "{damaged:?}");
        }
    }

    #[test]
    fn a_calibration_tells_what_it_can() {
        let cores = Cores::choose();
        let told = calibrate(cores, Thoroughness::Smoke, &CpuTime::default());
        assert_eq!(told.line_ns.is_some(), cores.arbiter.is_some());
        assert!(told.clock_ns > 0.0);
        assert!(told.gaps.span_ns >= 2_000_000);
    }
}
