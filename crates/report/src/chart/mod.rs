//! Charts as SVG, for a [`page`](crate::page) to hold.
//!
//! Each kind of chart is a struct with public fields and a method `figure`. A [`Figure`] is the
//! drawing with its title, its legend (text of the page, so that it wraps and is never cut off) and
//! its notes. Charts that are to be compared are given the same [`Axis`].
//!
//! Invariants:
//!
//! 1. A value that is no finite number is a gap; no such number reaches the markup.
//! 2. Series are told apart by the colour of their slot and by its dash pattern.
//! 3. A line has at most two points for each unit of width, however many values it has.
//!
//! Colours, dashes and letter sizes are the page's: the markup names classes only.

mod axis;
mod bars;
mod lines;
mod percentiles;
mod svg;

use maud::{Markup, html};

pub use axis::{Axis, Unit};
pub use bars::{BarSeries, Bars, Layout};
pub use lines::{Bands, Lines, Series};
pub use percentiles::{Curve, Percentiles, nines};

use crate::text::cut;

/// How many series a chart shows: so many colours are told apart.
pub const SERIES_MAX: usize = 8;

/// The most characters of a name in a legend.
const LEGEND_CHARS: usize = 48;

/// The most characters of a title.
const TITLE_CHARS: usize = 64;

/// Which of several named series are shown, and in which slot (colour and dash pattern).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slots {
    slots: Vec<Option<usize>>,
}

impl Slots {
    /// One slot for each of `weights`, in their order. If there are more than [`SERIES_MAX`], the
    /// heaviest get all slots but the last, which is that of the rest; of equal weights the first.
    ///
    /// ```
    /// # use tollgate_report::chart::Slots;
    /// let slots = Slots::of(&[1, 9, 9, 9, 9, 9, 9, 9, 1]);
    /// assert_eq!(slots.get(0), None);
    /// assert_eq!(slots.get(1), Some(0));
    /// assert_eq!(slots.rest(), 2);
    /// ```
    #[must_use]
    pub fn of(weights: &[u64]) -> Self {
        let mut order: Vec<usize> = (0..weights.len()).collect();
        order.sort_by_key(|&at| (std::cmp::Reverse(weights[at]), at));
        if weights.len() > SERIES_MAX {
            order.truncate(SERIES_MAX - 1);
        }
        order.sort_unstable();
        let mut slots = vec![None; weights.len()];
        for (slot, &at) in order.iter().enumerate() {
            slots[at] = Some(slot);
        }
        Self { slots }
    }

    /// The slot of the series at this place; `None` if it belongs to the rest.
    #[must_use]
    pub fn get(&self, at: usize) -> Option<usize> {
        self.slots.get(at).copied().flatten()
    }

    /// How many belong to the rest, whose slot is `SERIES_MAX - 1`.
    #[must_use]
    pub fn rest(&self) -> usize {
        self.slots.iter().filter(|slot| slot.is_none()).count()
    }
}

/// How a legend shows a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Line,
    Thin,
    /// A line of any series.
    AnyLine,
    /// A thin line of any series.
    AnyThin,
    Area,
    Bar,
    OpenBar,
}

/// A chart that is drawn.
#[derive(Clone, Debug)]
pub struct Figure {
    title: String,
    drawing: Markup,
    legend: Vec<(Key, usize, String)>,
    notes: Vec<String>,
}

impl Figure {
    /// Adds a sentence below the chart.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// The figure as HTML.
    #[must_use]
    pub fn markup(&self) -> Markup {
        html! {
            figure {
                figcaption { bdi { (cut(&self.title, TITLE_CHARS)) } }
                (self.drawing)
                @if !self.legend.is_empty() {
                    ul class="legend" {
                        @for (key, slot, name) in &self.legend {
                            li { (key_markup(*key, *slot)) bdi { (cut(name, LEGEND_CHARS)) } }
                        }
                    }
                }
                @for note in &self.notes {
                    p class="note" { (crate::text::plain(note)) }
                }
            }
        }
    }
}

fn key_markup(key: Key, slot: usize) -> Markup {
    let slot = slot % SERIES_MAX;
    html! {
        svg class="key" viewBox="0 0 30 12" aria-hidden="true" {
            @match key {
                Key::Line => path class={"line s" (slot)} d="M1 6L29 6" {},
                Key::Thin => path class={"thin s" (slot)} d="M1 6L29 6" {},
                Key::AnyLine => path class="line ink" d="M1 6L29 6" {},
                Key::AnyThin => path class="thin ink" d="M1 6L29 6" {},
                Key::Area => path class={"area s" (slot)} d="M1 1L29 1L29 11L1 11Z" {},
                Key::Bar => path class={"bar s" (slot)} d="M1 2L29 2L29 10L1 10Z" {},
                Key::OpenBar => path class={"bar open s" (slot)} d="M1 2L29 2L29 10L1 10Z" {},
            }
        }
    }
}
