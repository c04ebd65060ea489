//! Charts over time: lines, and bands of quantiles.

use maud::html;

use super::svg::{self, Points};
use super::{Axis, Figure, Key, SERIES_MAX};
use crate::text::cut;

/// One line of [`Lines`].
#[derive(Clone, Debug)]
pub struct Series {
    /// What the legend calls it.
    pub name: String,
    /// Its colour and dash pattern, below [`SERIES_MAX`].
    pub slot: usize,
    /// A value for each step; one that is not finite is a gap.
    pub values: Vec<f64>,
    /// A second line of the same colour, thin; empty if there is none.
    pub second: Vec<f64>,
}

/// Several lines over time.
#[derive(Clone, Debug)]
pub struct Lines<'a> {
    /// What stands above.
    pub title: String,
    /// What the chart shows, for those who do not see it.
    pub description: String,
    /// How long a step is, in nanoseconds.
    pub step_ns: f64,
    /// The time.
    pub x: Axis,
    /// The values.
    pub y: Axis,
    /// The lines.
    pub series: Vec<Series>,
    /// What the strong and the thin lines are, if there are thin ones.
    pub styles: Option<(&'a str, &'a str)>,
}

impl Lines<'_> {
    /// Draws the chart.
    #[must_use]
    pub fn figure(&self) -> Figure {
        let place = |values: &[f64]| svg::over_time(values, self.step_ns, &self.x, &self.y);
        let is_drawn = |points: &Points| points.iter().any(Option::is_some);
        let lines: Vec<(&Series, Points, Points)> = self
            .series
            .iter()
            .map(|series| (series, place(&series.values), place(&series.second)))
            .filter(|(_, first, second)| is_drawn(first) || is_drawn(second))
            .collect();
        let mut legend: Vec<(Key, usize, String)> = lines
            .iter()
            .map(|(series, ..)| (Key::Line, series.slot, series.name.clone()))
            .collect();
        if lines.is_empty() {
            return Figure {
                title: self.title.clone(),
                drawing: svg::nothing(&self.title, &self.description),
                legend,
                notes: Vec::new(),
            };
        }
        let inside = html! {
            @for (series, _, second) in &lines {
                @if is_drawn(second) {
                    path class={"thin s" (series.slot % SERIES_MAX)} d=(svg::path(second)) {}
                }
            }
            @for (series, first, _) in &lines {
                path class={"line s" (series.slot % SERIES_MAX)} data-name=(cut(&series.name, 24))
                    d=(svg::path(first)) {}
            }
        };
        if let Some((strong, thin)) = self.styles {
            legend.push((Key::AnyLine, 0, format!("strong: {strong}")));
            legend.push((Key::AnyThin, 0, format!("thin: {thin}")));
        }
        let ticks = self.x.ticks();
        Figure {
            title: self.title.clone(),
            drawing: svg::frame(
                &self.title,
                &self.description,
                &ticks,
                &self.y,
                &self.x.data(),
                &inside,
            ),
            legend,
            notes: Vec::new(),
        }
    }
}

/// One population of durations over time: the median as a line, the area up to the 99th percentile,
/// and the longest as a thin line.
#[derive(Clone, Debug)]
pub struct Bands {
    /// What stands above.
    pub title: String,
    /// What the chart shows, for those who do not see it.
    pub description: String,
    /// How long a step is, in nanoseconds.
    pub step_ns: f64,
    /// The time.
    pub x: Axis,
    /// The durations.
    pub y: Axis,
    /// The colour, below [`SERIES_MAX`].
    pub slot: usize,
    /// The median of each step, in nanoseconds; one that is not finite is a gap.
    pub p50: Vec<f64>,
    /// What 99 % did not exceed.
    pub p99: Vec<f64>,
    /// The longest.
    pub max: Vec<f64>,
}

impl Bands {
    /// Draws the chart.
    #[must_use]
    pub fn figure(&self) -> Figure {
        let place = |values: &[f64]| svg::over_time(values, self.step_ns, &self.x, &self.y);
        let (p50, p99, max) = (place(&self.p50), place(&self.p99), place(&self.max));
        let slot = self.slot % SERIES_MAX;
        if p50.iter().chain(&max).all(Option::is_none) {
            return Figure {
                title: self.title.clone(),
                drawing: svg::nothing(&self.title, &self.description),
                legend: Vec::new(),
                notes: Vec::new(),
            };
        }
        let inside = html! {
            path class={"area s" (slot)} d=(area(&p50, &p99)) {}
            path class={"thin s" (slot)} data-name="max" d=(svg::path(&max)) {}
            path class={"edge s" (slot)} data-name="p99" d=(svg::path(&p99)) {}
            path class={"line s" (slot)} data-name="p50" d=(svg::path(&p50)) {}
        };
        Figure {
            title: self.title.clone(),
            drawing: svg::frame(
                &self.title,
                &self.description,
                &self.x.ticks(),
                &self.y,
                &self.x.data(),
                &inside,
            ),
            legend: vec![
                (Key::Line, slot, "median".to_owned()),
                (Key::Area, slot, "up to p99".to_owned()),
                (Key::Thin, slot, "longest".to_owned()),
            ],
            notes: Vec::new(),
        }
    }
}

/// The area between two lines, in one closed piece for each stretch without a gap.
fn area(low: &[Option<(f64, f64)>], high: &[Option<(f64, f64)>]) -> String {
    let pairs = low.iter().zip(high);
    let pairs: Vec<_> = pairs.map(|(low, high)| low.zip(*high)).collect();
    let mut d = String::new();
    for stretch in pairs.split(Option::is_none) {
        let stretch: Vec<_> = stretch.iter().flatten().collect();
        if stretch.len() < 2 {
            continue;
        }
        let up = stretch.iter().map(|pair| Some(pair.1));
        let back = stretch.iter().rev().map(|pair| Some(pair.0));
        let ring: Points = up.chain(back).collect();
        d.push_str(&svg::path(&ring));
        d.push('Z');
    }
    d
}
