//! Bars that lie: each category has its name on a line of its own, above its bars, so that long names
//! have room.

use maud::{Markup, html};

use super::svg::{self, WIDTH, unit};
use super::{Axis, Figure, Key, SERIES_MAX};
use crate::text::{cut, plain};

/// How many categories are drawn; the figure notes how many are not.
const CATEGORIES_MAX: usize = 32;
/// Where bars begin and where the longest ends; its value stands behind it.
const BEGIN: f64 = 4.0;
const END: f64 = 392.0;
const LABEL_HEIGHT: f64 = 20.0;
const BAR_HEIGHT: f64 = 13.0;
const GAP: f64 = 4.0;
/// The most characters of a category's name.
const NAME_CHARS: usize = 30;

/// Where the bars of a category stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Below each other, from the same line.
    Grouped,
    /// Behind each other, each from the end of the one before.
    Stacked,
}

/// A bar in each category.
#[derive(Clone, Debug)]
pub struct BarSeries {
    /// What the legend calls it.
    pub name: String,
    /// The value of each category; one that is not finite has no bar.
    pub values: Vec<f64>,
    /// From where to where the values of each category lie, drawn as a whisker; empty if that is not known.
    pub spans: Vec<(f64, f64)>,
    /// What stands behind each bar; empty if the axis says it.
    pub labels: Vec<String>,
}

/// Bars by category.
#[derive(Clone, Debug)]
pub struct Bars {
    /// What stands above.
    pub title: String,
    /// What the chart shows, for those who do not see it.
    pub description: String,
    /// The values.
    pub axis: Axis,
    /// The names of the categories.
    pub categories: Vec<String>,
    /// Filled the first, open the second, and so on in turn.
    pub series: Vec<BarSeries>,
    /// Where the bars stand.
    pub layout: Layout,
}

/// A bar from one place to another, in units.
struct Bar {
    series: usize,
    from: f64,
    to: f64,
    top: f64,
    /// The ends of the whisker.
    span: Option<(f64, f64)>,
    label: String,
}

impl Bar {
    /// Where the bar and its whisker end.
    fn end(&self) -> f64 {
        self.span.map_or(self.to, |(_, high)| high.max(self.to))
    }

    fn markup(&self) -> Markup {
        let (top, bottom) = (self.top, self.top + BAR_HEIGHT);
        let corners = [
            (self.from, top),
            (self.to, top),
            (self.to, bottom),
            (self.from, bottom),
        ];
        let open = if self.series % 2 == 1 { " open" } else { "" };
        html! {
            path class={"bar" (open) " s" (self.series % SERIES_MAX)}
                d={(svg::path(&corners.map(Some))) "Z"} {}
            @if let Some((low, high)) = self.span {
                @let d = whisker(low, high, top);
                path class="halo" d=(d) {}
                path class="whisker" d=(d) {}
            }
            text class="tick" x=(unit(self.end() + 5.0)) y=(unit(bottom - 2.0)) { (self.label) }
        }
    }
}

impl Bars {
    /// Draws the chart.
    #[must_use]
    pub fn figure(&self) -> Figure {
        let shown = self.categories.len().min(CATEGORIES_MAX);
        let mut figure = Figure {
            title: self.title.clone(),
            drawing: svg::nothing(&self.title, &self.description),
            legend: Vec::new(),
            notes: Vec::new(),
        };
        if shown == 0 || self.series.is_empty() {
            return figure;
        }
        // One alone is what the title says.
        for (at, series) in self
            .series
            .iter()
            .enumerate()
            .filter(|_| self.series.len() > 1)
        {
            figure.legend.push((key(at), at, series.name.clone()));
        }
        if shown < self.categories.len() {
            figure.note(format!("{} of {} are shown.", shown, self.categories.len()));
        }
        let rows = match self.layout {
            Layout::Grouped => svg::as_f64(self.series.len()),
            Layout::Stacked => 1.0,
        };
        let pitch = LABEL_HEIGHT + rows * (BAR_HEIGHT + GAP) + GAP;
        let height = pitch * svg::as_f64(shown) + 2.0 * GAP;
        let view = format!("0 0 {WIDTH} {}", unit(height));
        figure.drawing = html! {
            svg class="chart" xmlns=(svg::NAMESPACE) viewBox=(view) role="img" {
                title { (cut(&self.title, 120)) }
                desc { (plain(&self.description)) }
                @for (at, name) in self.categories.iter().take(shown).enumerate() {
                    @let top = pitch * svg::as_f64(at) + LABEL_HEIGHT;
                    text class="name" x=(unit(BEGIN)) y=(unit(top - 6.0)) {
                        (cut(name, NAME_CHARS))
                    }
                    @for bar in self.bars(at, top) { (bar.markup()) }
                }
            }
        };
        figure
    }

    /// The bars of the category at `at`, the first of them at `top`.
    fn bars(&self, at: usize, top: f64) -> Vec<Bar> {
        let mut bars = Vec::new();
        let mut sum = 0.0;
        for (series, values) in self.series.iter().enumerate() {
            let value = values.values.get(at).copied().unwrap_or(f64::NAN);
            let (from, until) = match self.layout {
                Layout::Grouped => (0.0, value),
                Layout::Stacked => (sum, sum + value),
            };
            let (Some(from), Some(to)) = (self.axis.place(from), self.axis.place(until)) else {
                continue;
            };
            let row = match self.layout {
                Layout::Grouped => svg::as_f64(series),
                Layout::Stacked => 0.0,
            };
            let span = values.spans.get(at).and_then(|&(low, high)| {
                let ends = (self.axis.place(low)?, self.axis.place(high)?);
                Some((
                    BEGIN + ends.0 * (END - BEGIN),
                    BEGIN + ends.1 * (END - BEGIN),
                ))
            });
            let label = values.labels.get(at).cloned();
            sum = until;
            bars.push(Bar {
                series,
                from: BEGIN + from * (END - BEGIN),
                to: BEGIN + to * (END - BEGIN),
                top: top + row * (BAR_HEIGHT + GAP),
                label: match self.layout {
                    Layout::Grouped => label.unwrap_or_else(|| self.axis.exact_label(value)),
                    Layout::Stacked => String::new(),
                },
                span,
            });
        }
        bars
    }
}

/// A line with a stroke across each end, in the middle of the bar at `top`.
fn whisker(low: f64, high: f64, top: f64) -> String {
    let (from, to) = (top + 2.5, top + BAR_HEIGHT - 2.5);
    let middle = top + BAR_HEIGHT / 2.0;
    let strokes = [
        ((low, from), (low, to)),
        ((low, middle), (high, middle)),
        ((high, from), (high, to)),
    ];
    let strokes = strokes.map(|(a, b)| svg::path(&[Some(a), Some(b)]));
    strokes.concat()
}

fn key(at: usize) -> Key {
    if at % 2 == 1 { Key::OpenBar } else { Key::Bar }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::Unit;

    #[test]
    fn stacked_bars_follow_each_other_and_what_is_no_number_has_none() {
        let series = |value: f64| BarSeries {
            name: "s".to_owned(),
            values: vec![value],
            spans: Vec::new(),
            labels: Vec::new(),
        };
        let bars = Bars {
            title: "t".to_owned(),
            description: "d".to_owned(),
            axis: Axis::linear(Unit::Count, [10.0]),
            categories: vec!["c".to_owned()],
            series: vec![series(3.0), series(f64::NAN), series(5.0)],
            layout: Layout::Stacked,
        };
        let drawn = bars.bars(0, 0.0);
        assert_eq!(
            drawn.iter().map(|bar| bar.series).collect::<Vec<_>>(),
            [0, 2]
        );
        assert!((drawn[0].from - BEGIN).abs() < 1e-9);
        assert!((drawn[0].to - drawn[1].from).abs() < 1e-9);
        assert!((drawn[1].to - (BEGIN + 0.8 * (END - BEGIN))).abs() < 1e-9);
        assert!((drawn[0].top - drawn[1].top).abs() < 1e-9);
    }
}
