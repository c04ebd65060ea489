//! Samples in a few numbers, and numbers as people read them.

use super::Unit;
use crate::text::{duration, grouped, three_digits};

/// A few samples in five numbers. Quartiles lie between samples, in proportion.
///
/// ```
/// use tollgate_report::bench::Spread;
///
/// let spread = Spread::of(&[4.0, 1.0, 2.0, 3.0]).expect("there are samples");
/// assert_eq!((spread.median, spread.low, spread.high), (2.5, 1.75, 3.25));
/// assert_eq!(Spread::of(&[]), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Spread {
    /// How many samples there are.
    pub count: usize,
    /// The least.
    pub min: f64,
    /// A quarter of the samples is below it.
    pub low: f64,
    /// The middle one, or half-way between the two in the middle.
    pub median: f64,
    /// A quarter of the samples is above it.
    pub high: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// Of these samples, in any order; those that are not finite are left out. `None` if none is left.
    #[must_use]
    pub fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted: Vec<f64> = samples.iter().copied().filter(|x| x.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            count: sorted.len(),
            min: *sorted.first()?,
            low: between(&sorted, 0.25),
            median: between(&sorted, 0.5),
            high: between(&sorted, 0.75),
            max: *sorted.last()?,
        })
    }
}

/// The value at the part `q` of the way through sorted samples, of which there is one at least.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a place among samples"
)]
pub(super) fn between(sorted: &[f64], q: f64) -> f64 {
    let place = q * (sorted.len() - 1) as f64;
    let (below, part) = (place.floor() as usize, place.fract());
    let (low, high) = (sorted[below], sorted[(below + 1).min(sorted.len() - 1)]);
    // Halved first, so that the sum of two great numbers stays finite.
    low * (1.0 - part) + high * part
}

impl Unit {
    /// A value to three digits with its unit.
    ///
    /// ```
    /// use tollgate_report::bench::Unit;
    ///
    /// assert_eq!(Unit::PerSecond.tell(1_823_400.0), "1.82 M/s");
    /// assert_eq!(Unit::Nanos.tell(231.2), "231 ns");
    /// assert_eq!(Unit::Count.tell(17.0), "17");
    /// assert_eq!(Unit::Share.tell(0.0123), "1.23 %");
    /// assert_eq!(Unit::Bytes.tell(f64::NAN), "-");
    /// ```
    #[must_use]
    pub fn tell(self, value: f64) -> String {
        if !value.is_finite() {
            return "-".to_owned();
        }
        if value < 0.0 {
            return format!("-{}", self.tell(-value));
        }
        match self {
            Self::Count => scaled(value, ""),
            Self::PerSecond => scaled(value, "/s"),
            Self::Bytes => scaled(value, "B"),
            Self::Share => format!("{} %", digits(100.0 * value)),
            Self::Nanos => nanos(value),
        }
    }
}

/// Nanoseconds, also parts of them.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a positive value; beyond the greatest integer the cast saturates"
)]
fn nanos(value: f64) -> String {
    if value > 0.0 && value < 999.5 {
        format!("{} ns", digits(value))
    } else {
        duration(value.round() as u64)
    }
}

fn scaled(value: f64, unit: &str) -> String {
    let (scale, prefix) = match value {
        ..999.5 => (1.0, ""),
        ..999.5e3 => (1e3, "k"),
        ..999.5e6 => (1e6, "M"),
        ..999.5e9 => (1e9, "G"),
        ..999.5e12 => (1e12, "T"),
        _ => return format!("{value:.2e} {unit}").trim_end().to_owned(),
    };
    let unit = format!("{prefix}{unit}");
    format!("{} {unit}", digits(value / scale))
        .trim_end()
        .to_owned()
}

/// Three digits; a whole number below 1,000 has no decimals.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the value was found to be whole and small"
)]
fn digits(value: f64) -> String {
    if value.fract() == 0.0 && value < 1e15 {
        return grouped(value as u64);
    }
    if value < 0.01 {
        return format!("{value:.2e}");
    }
    three_digits(value, "").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit_on_every_scale() {
        for (unit, value, told) in [
            (Unit::Nanos, 0.0, "0 s"),
            (Unit::Nanos, 1.234, "1.23 ns"),
            (Unit::Nanos, 999.7, "1.00 µs"),
            (Unit::Nanos, 12_345.0, "12.3 µs"),
            (Unit::PerSecond, 999_499.0, "999 k/s"),
            (Unit::PerSecond, 999_600.0, "1.00 M/s"),
            (Unit::PerSecond, 0.004, "4.00e-3 /s"),
            (Unit::Bytes, 1_536.0, "1.54 kB"),
            (Unit::Count, 1e300, "1.00e300"),
            (Unit::Share, 1.0, "100 %"),
            (Unit::Share, -0.5, "-50 %"),
            (Unit::Count, f64::INFINITY, "-"),
        ] {
            assert_eq!(unit.tell(value), told);
        }
    }

    #[test]
    fn a_spread_of_great_numbers_stays_finite() {
        let spread = Spread::of(&[f64::MAX, f64::MAX, f64::NAN]).expect("two are left");
        assert_eq!((spread.median, spread.count), (f64::MAX, 2));
    }
}
