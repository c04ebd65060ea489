//! Axes: from values to places, and the ticks between.

use crate::text;

/// The most powers of ten that a logarithmic axis spans.
const DECADES_MAX: i32 = 5;
/// How many intervals between ticks a linear axis has at most.
const TICKS: f64 = 5.0;

/// What the numbers on an axis are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things: 0, 10, 2k.
    Count,
    /// Parts of one: 50 %.
    Share,
    /// Nanoseconds, in the unit that suits them.
    Time,
}

/// The value range of an axis. It begins at 0, or at a power of ten if it is logarithmic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    unit: Unit,
    low: f64,
    high: f64,
    is_log: bool,
}

impl Axis {
    /// A linear axis from 0 to the greatest of `values`, rounded up to a tick. Without a positive
    /// finite value it ends at 1 (one second, if it is of times).
    #[must_use]
    pub fn linear(unit: Unit, values: impl IntoIterator<Item = f64>) -> Self {
        let exact = Self::exact(unit, values);
        let step = exact.step();
        Self {
            high: ((exact.high / step - 1e-9).ceil() * step).min(f64::MAX),
            ..exact
        }
    }

    /// As [`Axis::linear`], but it ends at the greatest value itself.
    #[must_use]
    pub fn exact(unit: Unit, values: impl IntoIterator<Item = f64>) -> Self {
        let nothing = if unit == Unit::Time { 1e9 } else { 1.0 };
        let high = greatest(values).unwrap_or(nothing);
        let high = if unit == Unit::Count {
            high.max(1.0)
        } else {
            high
        };
        Self {
            unit,
            low: 0.0,
            high,
            is_log: false,
        }
    }

    /// The whole from 0 to 100 %.
    #[must_use]
    pub const fn whole() -> Self {
        Self {
            unit: Unit::Share,
            low: 0.0,
            high: 1.0,
            is_log: false,
        }
    }

    /// A logarithmic axis around the positive `values`, from a power of ten to another. Values below
    /// its low end, 0 among them, stand on that end.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "powers of ten of a double lie within 400"
    )]
    pub fn log(unit: Unit, values: impl IntoIterator<Item = f64>) -> Self {
        let positive = |value: &f64| value.is_finite() && *value > 0.0;
        let range = values
            .into_iter()
            .filter(positive)
            .fold(None, |range, value| {
                let (low, high) = range.unwrap_or((value, value));
                Some((value.min(low), value.max(high)))
            });
        let (low, high) = range.unwrap_or((1e8, 1e9));
        let top = ((high.log10() - 1e-9).ceil() as i32).min(308);
        let bottom = (low.log10().floor() as i32).clamp(top - DECADES_MAX, top - 1);
        Self {
            unit,
            low: 10f64.powi(bottom),
            high: 10f64.powi(top),
            is_log: true,
        }
    }

    /// Where `value` stands, from 0 (low end) to 1; outside it is put on the nearer end. `None` if it
    /// is no finite number.
    #[must_use]
    pub fn place(&self, value: f64) -> Option<f64> {
        if !value.is_finite() {
            return None;
        }
        let place = if !self.is_log {
            value / self.high
        } else if value <= self.low {
            0.0
        } else {
            (value / self.low).log10() / (self.high / self.low).log10()
        };
        Some(place.clamp(0.0, 1.0))
    }

    /// The places of the ticks and what stands there.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        if self.is_log {
            return self.decades();
        }
        let step = self.step();
        let ticks = (0..=20u32).map(|at| f64::from(at) * step);
        ticks
            .take_while(|&value| value.is_finite() && value <= self.high * (1.0 + 1e-9))
            .map(|value| (self.place(value).unwrap_or(0.0), self.label(value)))
            .collect()
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the ends are powers of ten, at most five apart"
    )]
    fn decades(&self) -> Vec<(f64, String)> {
        let count = (self.high / self.low).log10().round() as usize;
        let mut ticks = Vec::new();
        for at in 0..=count {
            let place = at as f64 / count as f64;
            let label = self.label(self.low * 10f64.powi(at as i32));
            let label = if at == 0 {
                format!("≤{label}")
            } else {
                label
            };
            ticks.push((place, label));
        }
        ticks
    }

    /// The distance between ticks: 1, 2 or 5 times a power of ten, in the unit of the labels.
    fn step(&self) -> f64 {
        if self.unit == Unit::Share && (self.high - 1.0).abs() < 1e-9 {
            return 0.25;
        }
        let (scale, _) = self.time_unit();
        let rough = self.high / scale / TICKS;
        let power = 10f64.powf(rough.log10().floor());
        let times = match rough / power {
            ..=1.0 => 1.0,
            ..=2.0 => 2.0,
            ..=5.0 => 5.0,
            _ => 10.0,
        };
        let step = times * power * scale;
        if self.unit == Unit::Count {
            step.max(1.0)
        } else {
            step
        }
    }

    /// The unit of the labels of a linear axis of times; no scale for other axes.
    fn time_unit(&self) -> (f64, &'static str) {
        if self.unit != Unit::Time {
            return (1.0, "");
        }
        match self.high {
            ..1e3 => (1.0, "ns"),
            ..1e6 => (1e3, "µs"),
            ..1e9 => (1e6, "ms"),
            ..6e11 => (1e9, "s"),
            ..1.8e13 => (6e10, "min"),
            _ => (3.6e12, "h"),
        }
    }

    /// A value with its unit, for the end of a bar.
    pub(super) fn exact_label(&self, value: f64) -> String {
        match self.unit {
            Unit::Share => text::percent(value, 1.0),
            _ => self.label(value),
        }
    }

    fn label(&self, value: f64) -> String {
        match self.unit {
            Unit::Share => format!("{} %", digits(100.0 * value)),
            Unit::Count => short(value),
            Unit::Time if self.is_log => round_time(value),
            Unit::Time => {
                let (scale, unit) = self.time_unit();
                format!("{} {unit}", digits(value / scale))
            }
        }
    }

    /// The axis for the script that reads values back: scale, unit, low and high end.
    pub(super) fn data(&self) -> String {
        let scale = if self.is_log { "log" } else { "linear" };
        let unit = match self.unit {
            Unit::Count => "count",
            Unit::Share => "share",
            Unit::Time => "time",
        };
        format!("{scale} {unit} {} {}", self.low, self.high)
    }
}

fn greatest(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let finite = values.into_iter().filter(|value| value.is_finite());
    finite.reduce(f64::max).filter(|&value| value > 0.0)
}

/// A power of ten of nanoseconds without decimals.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a positive value; beyond the greatest integer the cast saturates"
)]
fn round_time(nanos: f64) -> String {
    let (value, unit) = match nanos {
        ..1e3 => (nanos, "ns"),
        ..1e6 => (nanos / 1e3, "µs"),
        ..1e9 => (nanos / 1e6, "ms"),
        _ => (nanos / 1e9, "s"),
    };
    format!("{} {unit}", text::grouped(value.round() as u64))
}

/// A number without needless decimals.
fn digits(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A count in few characters.
fn short(value: f64) -> String {
    match value {
        ..1e4 => digits(value),
        ..1e6 => format!("{}k", digits(value / 1e3)),
        ..1e9 => format!("{}M", digits(value / 1e6)),
        ..1e12 => format!("{}G", digits(value / 1e9)),
        _ => format!("{value:.0e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<String> {
        axis.ticks().into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_are_round_and_cover_the_values() {
        let axis = Axis::linear(Unit::Count, [3.0, 37.0]);
        assert_eq!(labels(&axis), ["0", "10", "20", "30", "40"]);
        assert_eq!(axis.place(40.0), Some(1.0));
        let axis = Axis::exact(Unit::Time, [95e9]);
        assert_eq!(labels(&axis), ["0 s", "20 s", "40 s", "60 s", "80 s"]);
        assert_eq!(labels(&Axis::whole()).len(), 5);
    }

    #[test]
    fn a_log_axis_goes_from_power_to_power_and_holds_zero_on_its_low_end() {
        let axis = Axis::log(Unit::Time, [0.0, 2e6, 5e8]);
        assert_eq!(labels(&axis), ["≤1 ms", "10 ms", "100 ms", "1 s"]);
        assert_eq!(axis.place(0.0), Some(0.0));
        assert!((axis.place(1e7).expect("finite") - 1.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn every_axis_has_two_ticks_and_finite_places() {
        let extremes: [&[f64]; 6] = [
            &[],
            &[0.0],
            &[f64::NAN, f64::INFINITY, -1.0],
            &[1e-300],
            &[f64::MAX],
            &[1.0, 1e19],
        ];
        for values in extremes {
            for unit in [Unit::Count, Unit::Share, Unit::Time] {
                for make in [Axis::linear, Axis::exact, Axis::log] {
                    let axis = make(unit, values.to_vec());
                    let ticks = axis.ticks();
                    assert!(ticks.len() >= 2, "{values:?} {axis:?} {ticks:?}");
                    assert!(ticks.len() <= 11, "{axis:?}");
                    assert!(ticks.iter().all(|(place, _)| (0.0..=1.0).contains(place)));
                    assert_eq!(axis.place(f64::NAN), None);
                }
            }
        }
    }
}
