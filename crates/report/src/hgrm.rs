//! A recording as the percentile distribution that HdrHistogram's plotters read.
//!
//! The text has four columns (value, percentile, total count, `1/(1-percentile)`) and three lines at
//! its foot. There are five rows to each half of the distance to 100 %, so the tail has as many as the
//! body. The last row is the longest duration and has no fourth column.

use std::io;

use crate::Recording;

/// Rows for each half of the distance that remains to 100 %.
const TICKS_PER_HALF: u32 = 5;
/// How many steps each bucket has at three significant digits.
const SUB_BUCKETS: u32 = 2_048;

/// In what the values of a distribution are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// With three decimals, all of them 0 but in the mean.
    Nanoseconds,
    /// With three decimals.
    Microseconds,
    /// With six decimals.
    Milliseconds,
    /// With nine decimals.
    Seconds,
}

impl Unit {
    /// How many nanoseconds the unit has.
    #[must_use]
    pub const fn nanos(self) -> f64 {
        match self {
            Self::Nanoseconds => 1.0,
            Self::Microseconds => 1e3,
            Self::Milliseconds => 1e6,
            Self::Seconds => 1e9,
        }
    }

    /// How many decimals show a whole nanosecond.
    const fn decimals(self) -> usize {
        match self {
            Self::Nanoseconds | Self::Microseconds => 3,
            Self::Milliseconds => 6,
            Self::Seconds => 9,
        }
    }
}

/// Writes the distribution of `recording`. The columns bear no unit: the reader has to know it.
///
/// ```
/// use tollgate_report::{Recording, hgrm};
///
/// let mut wait = Recording::new("wait", "wait", "all requests");
/// wait.record(1_500);
/// let mut text = Vec::new();
/// hgrm::write(&mut text, &wait, hgrm::Unit::Microseconds)?;
/// assert!(String::from_utf8_lossy(&text).contains("1.500 1.000000000000"));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// If `out` refuses.
#[expect(
    clippy::cast_precision_loss,
    reason = "values have three significant digits"
)]
pub fn write(out: &mut impl io::Write, recording: &Recording, unit: Unit) -> io::Result<()> {
    let decimals = unit.decimals();
    let in_unit = |nanos: u64| nanos as f64 / unit.nanos();
    let max = recording.max().unwrap_or(0);
    let total = recording.count();
    writeln!(
        out,
        "{:>12} {:>14} {:>10} {:>14}\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    )?;
    let mut counted = 0;
    for step in recording.histogram().iter_quantiles(TICKS_PER_HALF) {
        counted += step.count_since_last_iteration();
        let share = step.quantile_iterated_to();
        if share >= 1.0 {
            break;
        }
        let value = in_unit(step.value_iterated_to().min(max));
        let distance = 1.0 / (1.0 - share);
        writeln!(
            out,
            "{value:>12.decimals$} {share:.12} {counted:>10} {distance:>14.2}"
        )?;
    }
    let longest = in_unit(max);
    writeln!(out, "{longest:>12.decimals$} {:.12} {total:>10}", 1.0)?;
    let mean = recording.mean().unwrap_or(0.0) / unit.nanos();
    let spread = if total == 0 {
        0.0
    } else {
        recording.histogram().stdev() / unit.nanos()
    };
    writeln!(
        out,
        "#[Mean    = {mean:>12.decimals$}, StdDeviation   = {spread:>12.decimals$}]"
    )?;
    writeln!(
        out,
        "#[Max     = {longest:>12.decimals$}, Total count    = {total:>12}]"
    )?;
    writeln!(
        out,
        "#[Buckets = {:>12}, SubBuckets     = {:>12}]",
        recording.histogram().buckets(),
        SUB_BUCKETS
    )
}
