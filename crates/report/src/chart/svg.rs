//! What all charts are drawn with: the frame with its grid, and paths.
//!
//! A drawing is 480 units wide and scales with its box. Letters are sized by the page, larger in
//! units where the box is small, so the margins leave room for them.

use std::fmt::Write;

use maud::{Markup, html};

use super::Axis;
use crate::text::{cut, plain};

/// What makes a drawing one of SVG where it stands alone.
pub(super) const NAMESPACE: &str = "http://www.w3.org/2000/svg";
/// The width of every drawing.
pub(super) const WIDTH: f64 = 480.0;
/// The height of those that have a y axis.
pub(super) const HEIGHT: f64 = 250.0;
/// The plot within the drawing.
pub(super) const LEFT: f64 = 66.0;
pub(super) const RIGHT: f64 = 462.0;
pub(super) const TOP: f64 = 12.0;
pub(super) const BOTTOM: f64 = 218.0;

/// How many points a line may have before it is thinned out.
const POINTS_MAX: usize = 792;

/// A place on the x axis, 0 to 1, in units of the drawing.
pub(super) fn x_at(place: f64) -> f64 {
    LEFT + place * (RIGHT - LEFT)
}

/// A place on the y axis, 0 to 1, in units of the drawing, whose y points down.
pub(super) fn y_at(place: f64) -> f64 {
    BOTTOM - place * (BOTTOM - TOP)
}

/// A length with at most one decimal.
pub(super) fn unit(length: f64) -> String {
    let text = format!("{length:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

/// A drawing with grid, ticks, and what is inside. `x_ticks` are places and labels.
pub(super) fn frame(
    title: &str,
    description: &str,
    x_ticks: &[(f64, String)],
    y: &Axis,
    data_x: &str,
    inside: &Markup,
) -> Markup {
    let view = format!("0 0 {WIDTH} {HEIGHT}");
    html! {
        svg class="chart" xmlns=(NAMESPACE) viewBox=(view) role="img"
            data-x=(data_x) data-y=(y.data()) {
            title { (cut(title, 120)) }
            desc { (plain(description)) }
            @for (place, label) in y.ticks() {
                @let y = y_at(place);
                path class="grid" d=(segment((LEFT, y), (RIGHT, y))) {}
                text class="tick" x=(unit(LEFT - 6.0)) y=(unit(y + 4.0)) text-anchor="end" {
                    (label)
                }
            }
            @for (place, label) in x_ticks {
                @let x = x_at(*place);
                path class="grid" d=(segment((x, TOP), (x, BOTTOM))) {}
                text class="tick" x=(unit(x)) y=(unit(BOTTOM + 20.0)) text-anchor=(anchor(*place)) {
                    (label)
                }
            }
            (inside)
        }
    }
}

/// A drawing that says that there is nothing to draw.
pub(super) fn nothing(title: &str, description: &str) -> Markup {
    html! {
        svg class="chart" xmlns=(NAMESPACE) viewBox={"0 0 " (WIDTH) " 60"} role="img" {
            title { (cut(title, 120)) }
            desc { (plain(description)) }
            text class="tick" x=(unit(WIDTH / 2.0)) y="34" text-anchor="middle" { "nothing to show" }
        }
    }
}

fn segment(from: (f64, f64), to: (f64, f64)) -> String {
    path(&[Some(from), Some(to)])
}

/// Labels at the right edge end there, so that none is cut off.
fn anchor(place: f64) -> &'static str {
    if place > 0.96 { "end" } else { "middle" }
}

/// Points in units of the drawing, a gap where there is none.
pub(super) type Points = Vec<Option<(f64, f64)>>;

/// A path through points. A point between two gaps becomes a dot.
pub(super) fn path(points: &[Option<(f64, f64)>]) -> String {
    let mut d = String::with_capacity(points.len() * 11);
    let mut run = 0;
    for point in points.iter().chain([&None]) {
        match point {
            Some((x, y)) => {
                let command = if run == 0 { 'M' } else { 'L' };
                let _ = write!(d, "{command}{} {}", unit(*x), unit(*y));
                run += 1;
            }
            None => {
                if run == 1 {
                    d.push_str("h0");
                }
                run = 0;
            }
        }
    }
    d
}

/// Values of equal steps over time as points. `x` ends at `x_high` steps' worth of time.
pub(super) fn over_time(values: &[f64], step_ns: f64, x: &Axis, y: &Axis) -> Points {
    let points: Points = values
        .iter()
        .enumerate()
        .map(|(at, &value)| {
            let middle = (as_f64(at) + 0.5) * step_ns;
            Some((x_at(x.place(middle)?), y_at(y.place(value)?)))
        })
        .collect();
    thin_out(&points)
}

/// At most [`POINTS_MAX`] points: of each group of neighbours the lowest and the highest.
fn thin_out(points: &[Option<(f64, f64)>]) -> Points {
    if points.len() <= POINTS_MAX {
        return points.to_vec();
    }
    let group = points.len().div_ceil(POINTS_MAX / 2);
    let mut kept = Points::new();
    for neighbours in points.chunks(group) {
        let by_y = |a: &(usize, (f64, f64)), b: &(usize, (f64, f64))| a.1.1.total_cmp(&b.1.1);
        let there = || {
            let placed = neighbours.iter().enumerate();
            placed.filter_map(|(at, point)| point.map(|point| (at, point)))
        };
        match (there().min_by(by_y), there().max_by(by_y)) {
            (Some(a), Some(b)) if a.0 != b.0 => {
                let (first, second) = if a.0 < b.0 { (a, b) } else { (b, a) };
                kept.extend([Some(first.1), Some(second.1)]);
            }
            (Some(only), _) => kept.push(Some(only.1)),
            (None, _) => kept.push(None),
        }
    }
    kept
}

/// A number of steps or series to calculate with.
#[expect(clippy::cast_precision_loss, reason = "nobody has 2^53 of them")]
pub(super) fn as_f64(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::Unit;

    #[test]
    fn gaps_part_a_path_and_a_lone_point_is_a_dot() {
        let points = [Some((1.0, 2.0)), None, Some((3.0, 4.0)), Some((5.06, 6.0))];
        assert_eq!(path(&points), "M1 2h0M3 4L5.1 6");
        assert_eq!(path(&[]), "");
    }

    #[test]
    fn a_thinned_line_keeps_its_peak() {
        let mut values = vec![0.0; 100_000];
        values[77_777] = 10.0;
        let x = Axis::exact(Unit::Time, [1e5]);
        let y = Axis::linear(Unit::Count, [10.0]);
        let points = over_time(&values, 1.0, &x, &y);
        assert!(points.len() <= POINTS_MAX);
        let peaks = points.iter().flatten().filter(|point| point.1 <= TOP);
        assert_eq!(peaks.count(), 1);
    }
}
