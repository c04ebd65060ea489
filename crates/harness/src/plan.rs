//! What is to be measured, how long, and where.

use std::time::Duration;

use tollgate_policy::OrderPolicy;

use crate::machine::{Cores, Thoroughness};

/// How much time everything gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Minutes: figures to quote.
    Full,
    /// All suites in less than a minute: figures to look at.
    Quick,
    /// Seconds, in any build: that it runs, not how fast.
    Smoke,
}

/// The values that arms of the suites `arbiter`, `ring` and `latency` are made from; an empty list stands
/// for the suite's own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axes {
    /// Classes.
    pub classes: Vec<u32>,
    /// Exact lanes of each class; 0 is the shared lane alone.
    pub lanes: Vec<u32>,
    /// Requests that wait throughout.
    pub waiting: Vec<u32>,
    /// Orders of the lanes.
    pub orders: Vec<OrderPolicy>,
    /// Parts of the lanes that are blocked, 0 to 1.
    pub blocked: Vec<f64>,
    /// Records that a ring holds.
    pub capacities: Vec<u32>,
    /// Parts of the measured peak at which requests arrive, above 0 and below 1.
    pub loads: Vec<f64>,
}

/// What one run of the harness does.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How much time everything gets.
    pub scale: Scale,
    /// Repetitions of each arm, at least 1; without it 5, or 3 in a quick run, and 1 of the suite `soak`.
    pub repetitions: Option<u32>,
    /// Only arms whose `suite/name` contains this.
    pub filter: Option<String>,
    /// Who runs where.
    pub cores: Cores,
    /// What arms are made from.
    pub axes: Axes,
    /// Lives a second that loads are parts of; without it what a closed loop reaches that is measured first.
    pub peak: Option<f64>,
    /// How long the suite `soak` runs; without it 5 minutes, or 4 seconds in a quick run.
    pub soak: Option<Duration>,
    /// How often a suite is run again while the machine did not keep still.
    pub retries: u32,
}

impl Plan {
    /// A plan without a filter.
    #[must_use]
    pub fn new(scale: Scale, cores: Cores) -> Self {
        Self {
            scale,
            repetitions: None,
            filter: None,
            cores,
            axes: Axes::default(),
            peak: None,
            soak: None,
            retries: 0,
        }
    }

    /// How often each arm is measured.
    #[must_use]
    pub fn repetitions(&self) -> u32 {
        let usual = match self.scale {
            Scale::Full => 5,
            Scale::Quick => 3,
            Scale::Smoke => 1,
        };
        self.repetitions.unwrap_or(usual).max(1)
    }

    /// Whether an arm is to be measured.
    #[must_use]
    pub fn wants(&self, suite: &str, arm: &str) -> bool {
        let filter = self.filter.as_ref();
        filter.is_none_or(|filter| format!("{suite}/{arm}").contains(filter.as_str()))
    }

    /// How long a repetition of an arm takes that gets `full` in a full run: a tenth in a quick one.
    #[must_use]
    pub fn span(&self, full: Duration) -> Duration {
        match self.scale {
            Scale::Full => full,
            Scale::Quick => full / 10,
            Scale::Smoke => (full / 1_000).max(Duration::from_micros(500)),
        }
    }

    /// How many there are where a full run has `full`: a tenth in a quick one, at least 1.
    #[must_use]
    pub fn count(&self, full: u64) -> u64 {
        match self.scale {
            Scale::Full => full,
            Scale::Quick => (full / 10).max(1),
            Scale::Smoke => (full / 1_000).max(1),
        }
    }

    /// How large something is that is `full` but in a smoke run.
    #[must_use]
    pub fn size(&self, full: u32) -> u32 {
        match self.scale {
            Scale::Full | Scale::Quick => full,
            Scale::Smoke => full.min(64),
        }
    }

    /// How closely the machine is looked at.
    #[must_use]
    pub const fn thoroughness(&self) -> Thoroughness {
        match self.scale {
            Scale::Full => Thoroughness::Full,
            Scale::Quick => Thoroughness::Quick,
            Scale::Smoke => Thoroughness::Smoke,
        }
    }

    /// How long the suite `soak` runs.
    #[must_use]
    pub fn soak(&self) -> Duration {
        self.soak.unwrap_or(match self.scale {
            Scale::Full => Duration::from_secs(300),
            Scale::Quick => Duration::from_secs(4),
            Scale::Smoke => Duration::from_millis(20),
        })
    }
}
