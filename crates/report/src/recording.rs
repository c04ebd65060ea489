//! One population of durations.
//!
//! A [`Recording`] owns a histogram of three significant digits, and beside it what a histogram only
//! knows roughly: the least, the greatest and the sum. Invariants:
//!
//! 1. [`Recording::count`] is the number of calls of [`Recording::record`], over all that was added.
//! 2. Two recordings added are equal to one that recorded both populations.
//! 3. A quantile lies between [`Recording::min`] and [`Recording::max`], unless it is that of a value
//!    above [`TOP_NS`].
//!
//! There is no correction for coordinated omission: what is recorded is what is told.

use hdrhistogram::Histogram;
use serde::ser::{Serialize, SerializeStruct, Serializer};

/// The greatest duration that is told apart, in nanoseconds: about 19.5 hours.
pub const TOP_NS: u64 = 1 << 46;

/// Durations of one population, in nanoseconds.
///
/// ```
/// use tollgate_report::Recording;
///
/// let mut wait = Recording::new("premium.wait", "wait", "requests of class premium");
/// wait.record(0);
/// wait.record(2_000_000);
/// assert_eq!(wait.count(), 2);
/// assert_eq!(wait.quantile(0.5), Some(0));
/// assert_eq!(wait.mean(), Some(1_000_000.0));
/// ```
#[derive(Clone, Debug)]
pub struct Recording {
    tag: String,
    name: String,
    population: String,
    histogram: Histogram<u64>,
    clamped: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Recording {
    /// A recording without durations.
    ///
    /// `tag` names it in logs and must be unique among the recordings of a report. It keeps its ASCII
    /// letters, digits, dots, underscores and hyphens; every other character becomes an underscore.
    /// `name` says what was measured (`wait`), `population` of whom (`requests of class premium`).
    ///
    /// # Panics
    /// Never: the bounds of the histogram are constants that it takes.
    #[must_use]
    pub fn new(tag: &str, name: &str, population: &str) -> Self {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let plain = |c: char| if is_plain(c) { c } else { '_' };
        Self {
            tag: tag.chars().map(plain).collect(),
            name: name.to_owned(),
            population: population.to_owned(),
            histogram: Histogram::new_with_bounds(1, TOP_NS, 3)
                .expect("the bounds are far enough apart for three digits"),
            clamped: 0,
            sum: 0,
            min: u64::MAX,
            max: 0,
        }
    }

    /// Adds one duration. One above [`TOP_NS`] is counted at the top, and in [`Recording::clamped`].
    pub fn record(&mut self, nanos: u64) {
        if nanos > TOP_NS {
            self.clamped += 1;
        }
        self.histogram.saturating_record(nanos.min(TOP_NS));
        self.sum += u128::from(nanos);
        self.min = self.min.min(nanos);
        self.max = self.max.max(nanos);
    }

    /// Adds all durations of `other`, as if they had been recorded here. Nothing is rounded.
    ///
    /// # Panics
    /// Never: all recordings have the same bounds.
    pub fn add(&mut self, other: &Self) {
        self.histogram
            .add(&other.histogram)
            .expect("all recordings have the same bounds");
        self.clamped += other.clamped;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// The name in logs: ASCII letters, digits, `.`, `_` and `-`.
    #[must_use]
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// What was measured.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Of whom it was measured.
    #[must_use]
    pub fn population(&self) -> &str {
        &self.population
    }

    /// How many durations were recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// How many of them were above [`TOP_NS`].
    #[must_use]
    pub fn clamped(&self) -> u64 {
        self.clamped
    }

    /// The shortest duration, exactly.
    #[must_use]
    pub fn min(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.min)
    }

    /// The longest duration, exactly, also where it is above [`TOP_NS`].
    #[must_use]
    pub fn max(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.max)
    }

    /// The mean of the exact durations.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "a mean is told to fewer digits than a double has"
    )]
    pub fn mean(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.sum as f64 / self.count() as f64)
    }

    /// The duration that the share `q` (0 to 1) did not exceed, to three digits; `None` when empty.
    /// From 1 on it is [`Recording::max`]; not a number counts as 0.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let (min, max) = (self.min()?, self.max()?);
        if q >= 1.0 {
            return Some(max);
        }
        let bucket = self.histogram.value_at_quantile(q.max(0.0));
        Some(bucket.min(TOP_NS).clamp(min.min(TOP_NS), max))
    }

    /// The histogram, for what is not offered here. Its values above 2,047 are rounded.
    #[must_use]
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.histogram
    }

    fn mean_nanos(&self) -> Option<u64> {
        let count = u128::from(self.count());
        let mean = (self.sum + count / 2).checked_div(count)?;
        u64::try_from(mean).ok()
    }
}

/// As JSON: what it is, the counts, and the usual quantiles in whole nanoseconds, `null` when empty.
impl Serialize for Recording {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Recording", 12)?;
        fields.serialize_field("tag", &self.tag)?;
        fields.serialize_field("name", &self.name)?;
        fields.serialize_field("population", &self.population)?;
        fields.serialize_field("count", &self.count())?;
        fields.serialize_field("clamped", &self.clamped)?;
        fields.serialize_field("min_ns", &self.min())?;
        fields.serialize_field("mean_ns", &self.mean_nanos())?;
        fields.serialize_field("p50_ns", &self.quantile(0.5))?;
        fields.serialize_field("p90_ns", &self.quantile(0.9))?;
        fields.serialize_field("p99_ns", &self.quantile(0.99))?;
        fields.serialize_field("p999_ns", &self.quantile(0.999))?;
        fields.serialize_field("max_ns", &self.max())?;
        fields.end()
    }
}
