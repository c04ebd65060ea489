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

mod serial;

pub(crate) use serial::{numbers, summary};

/// The greatest duration that is told apart, in nanoseconds: about 19.5 hours.
pub const TOP_NS: u64 = 1 << 46;

/// The most durations of a recording that is read, so that thousands of such are summed in 64 bits.
pub(crate) const READ_MAX: u64 = 1 << 48;

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
        Self {
            tag: plain_tag(tag),
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

    /// Adds `count` durations that lie between `lowest` and `highest`, as the highest; the least of them is
    /// taken as the lowest. `None`, and nothing is added, if that would count more than [`READ_MAX`].
    pub(crate) fn record_bucket(&mut self, lowest: u64, highest: u64, count: u64) -> Option<()> {
        self.count()
            .checked_add(count)
            .filter(|&all| all <= READ_MAX)?;
        if lowest > TOP_NS {
            self.clamped += count;
        }
        self.histogram
            .record_n(highest.min(TOP_NS), count)
            .expect("the value lies within the bounds");
        self.sum += u128::from(lowest.midpoint(highest)) * u128::from(count);
        self.min = self.min.min(lowest);
        self.max = self.max.max(highest);
        Some(())
    }

    /// Adds all durations of `other`, as if they had been recorded here. Nothing is rounded.
    ///
    /// # Panics
    /// Never: all recordings have the same bounds.
    pub fn add(&mut self, other: &Self) {
        self.histogram
            .add(&other.histogram)
            .expect("all recordings have the same bounds");
        // What was read may claim anything.
        self.clamped = self.clamped.saturating_add(other.clamped);
        self.sum = self.sum.saturating_add(other.sum);
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

    /// [`Recording::quantile`], if there are enough durations to know it: [`enough_for`] `q`.
    ///
    /// ```
    /// # use tollgate_report::Recording;
    /// let mut wait = Recording::new("wait", "wait", "all requests");
    /// (0..9_999).for_each(|_| wait.record(5));
    /// assert_eq!((wait.told(0.9), wait.told(0.99)), (Some(5), None));
    /// wait.record(5);
    /// assert_eq!(wait.told(0.99), Some(5));
    /// ```
    #[must_use]
    pub fn told(&self, q: f64) -> Option<u64> {
        enough_for(q, self.count()).then(|| self.quantile(q))?
    }

    /// The same durations under another tag, made plain as by [`Recording::new`].
    #[must_use]
    pub fn tagged(mut self, tag: &str) -> Self {
        self.tag = plain_tag(tag);
        self
    }

    /// The histogram, for what is not offered here. Its values above 2,047 are rounded.
    #[must_use]
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.histogram
    }

    fn mean_nanos(&self) -> Option<u64> {
        let count = u128::from(self.count());
        let mean = self.sum.saturating_add(count / 2).checked_div(count)?;
        u64::try_from(mean).ok()
    }
}

fn plain_tag(tag: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let plain = |c: char| if is_plain(c) { c } else { '_' };
    tag.chars().map(plain).collect()
}

/// Whether `count` durations are enough to tell their quantile `q` (0 to 1): a hundred of them must lie
/// above it. From 1 on none are: the greatest is an event of its own.
///
/// ```
/// use tollgate_report::recording::enough_for;
///
/// assert!(enough_for(0.999, 100_000) && !enough_for(0.999, 99_999));
/// ```
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a positive number; beyond the greatest integer the cast saturates"
)]
pub fn enough_for(q: f64, count: u64) -> bool {
    // Rounded, since 1 - 0.9999 is a little less than 0.0001 as a double.
    q < 1.0 && count >= (100.0 / (1.0 - q.max(0.0))).round() as u64
}
