//! Percentile curves: durations over the share that did not exceed them, on an axis that gives each
//! further nine (90 %, 99 %, 99.9 %) the same room.

use maud::html;

use super::svg::{self, Points, x_at, y_at};
use super::{Axis, Figure, Key, SERIES_MAX};
use crate::Recording;
use crate::text::cut;

/// The most nines that are shown.
const NINES_MAX: u32 = 6;
/// Points for each half of the distance that remains to 100 %.
const TICKS_PER_HALF: u32 = 12;

/// How many nines an axis needs for populations of these sizes: one more than the largest has powers
/// of ten, from 1 to 6.
///
/// ```
/// # use tollgate_report::chart::nines;
/// assert_eq!(nines([5, 1_000]), 4);
/// assert_eq!(nines([]), 1);
/// ```
#[must_use]
pub fn nines(counts: impl IntoIterator<Item = u64>) -> u32 {
    let largest = counts.into_iter().max().unwrap_or(0);
    let powers = largest.checked_ilog10().unwrap_or(0);
    (powers + 1).clamp(1, NINES_MAX)
}

/// One curve of [`Percentiles`].
#[derive(Clone, Copy, Debug)]
pub struct Curve<'a> {
    /// What the legend calls it.
    pub name: &'a str,
    /// Its colour and dash pattern, below [`SERIES_MAX`].
    pub slot: usize,
    /// The durations.
    pub recording: &'a Recording,
    /// Whether the line is thin, behind the strong ones.
    pub is_thin: bool,
}

/// Several distributions.
#[derive(Clone, Debug)]
pub struct Percentiles<'a> {
    /// What stands above.
    pub title: String,
    /// What the chart shows, for those who do not see it.
    pub description: String,
    /// How far the x axis goes, as [`nines`] gives it.
    pub nines: u32,
    /// The durations.
    pub y: Axis,
    /// Whether a curve goes on thin and faint where fewer than a hundred durations lie above it.
    pub fades: bool,
    /// The curves. Those without durations are left out.
    pub curves: Vec<Curve<'a>>,
}

impl Percentiles<'_> {
    /// Draws the chart.
    #[must_use]
    pub fn figure(&self) -> Figure {
        let mut drawn: Vec<(&Curve<'_>, Points)> = self
            .curves
            .iter()
            .filter(|curve| curve.recording.count() > 0)
            .map(|curve| (curve, self.points(curve.recording)))
            .collect();
        // What is strong stands in front.
        drawn.sort_by_key(|(curve, _)| !curve.is_thin);
        let inside = html! {
            @for (curve, points) in &drawn {
                @let (known, rest) = points.split_at(self.known(curve.recording, points));
                @let tail: Points = known.last().into_iter().chain(rest).copied().collect();
                @if !rest.is_empty() {
                    path class={"faint s" (curve.slot % SERIES_MAX)}
                        data-name=(format!("{}, few", cut(curve.name, 24))) d=(svg::path(&tail)) {}
                }
                @let kind = if curve.is_thin { "thin" } else { "line" };
                path class={(kind) " s" (curve.slot % SERIES_MAX)} data-name=(cut(curve.name, 24))
                    d=(svg::path(known)) {}
            }
        };
        let drawing = if drawn.is_empty() {
            svg::nothing(&self.title, &self.description)
        } else {
            let (ticks, data) = (self.ticks(), format!("nines share 0 {}", self.nines));
            svg::frame(
                &self.title,
                &self.description,
                &ticks,
                &self.y,
                &data,
                &inside,
            )
        };
        let legend = drawn.iter().map(|(curve, _)| {
            let key = if curve.is_thin { Key::Thin } else { Key::Line };
            (key, curve.slot, curve.name.to_owned())
        });
        Figure {
            title: self.title.clone(),
            drawing,
            legend: legend.collect(),
            notes: Vec::new(),
        }
    }

    /// How many of the points of a curve are known: all, unless it fades.
    fn known(&self, recording: &Recording, points: &Points) -> usize {
        if !self.fades {
            return points.len();
        }
        let count = svg::as_f64(usize::try_from(recording.count()).unwrap_or(usize::MAX));
        let end = x_at(self.place(1.0 - (100.0 / count).min(1.0))) + 1e-6;
        let is_known = |point: &Option<(f64, f64)>| point.is_some_and(|(x, _)| x <= end);
        points.partition_point(is_known)
    }

    /// Where a share stands, 0 to 1.
    fn place(&self, share: f64) -> f64 {
        (-(1.0 - share).log10() / f64::from(self.nines)).clamp(0.0, 1.0)
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        let label = |at: u32| match at {
            0 => "0".to_owned(),
            // The last label ends at the edge and needs the room of this one.
            _ if at + 1 == NINES_MAX && self.nines == NINES_MAX => String::new(),
            1 => "90".to_owned(),
            2 => "99".to_owned(),
            _ => format!("99.{}", "9".repeat(at as usize - 2)),
        };
        let place = |at: u32| f64::from(at) / f64::from(self.nines);
        (0..=self.nines).map(|at| (place(at), label(at))).collect()
    }

    /// The last point is the longest duration, at the share of which it is the middle.
    fn points(&self, recording: &Recording) -> Points {
        let last =
            1.0 - 0.5 / svg::as_f64(usize::try_from(recording.count()).unwrap_or(usize::MAX));
        let mut shares: Vec<f64> = recording
            .histogram()
            .iter_quantiles(TICKS_PER_HALF)
            .map(|step| step.quantile_iterated_to())
            .take_while(|&share| share < last)
            .collect();
        shares.insert(0, 0.0);
        let mut points: Points = shares
            .iter()
            .map(|&share| self.point(share, recording.quantile(share)))
            .collect();
        points.push(self.point(last, recording.max()));
        points.dedup();
        points
    }

    fn point(&self, share: f64, nanos: Option<u64>) -> Option<(f64, f64)> {
        let value = svg::as_f64(usize::try_from(nanos?).unwrap_or(usize::MAX));
        Some((x_at(self.place(share)), y_at(self.y.place(value)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::Unit;

    #[test]
    fn a_curve_goes_right_and_up_to_the_longest() {
        let mut recording = Recording::new("x", "wait", "all");
        (0..5_000u64).for_each(|at| recording.record(at * at));
        let chart = Percentiles {
            title: String::new(),
            description: String::new(),
            nines: nines([recording.count()]),
            y: Axis::log(Unit::Time, [1e3, 24_990_001.0]),
            fades: false,
            curves: Vec::new(),
        };
        let points: Vec<(f64, f64)> = chart.points(&recording).into_iter().flatten().collect();
        assert!(points.len() > 50);
        assert!(points.is_sorted_by(|a, b| a.0 <= b.0 && a.1 >= b.1));
        assert!((points[0].0 - x_at(0.0)).abs() < 1e-9);
        let &(x, y) = points.last().expect("not empty");
        assert!(
            (x - x_at(1.0)).abs() < 1e-9,
            "half of one in 5,000 is the fourth nine"
        );
        let top = chart.y.place(24_990_001.0).expect("finite");
        assert!((y - y_at(top)).abs() < 1e-9);
    }
}
