//! A comparison as a page: the tables, and the percentile curves of both sides over each other.

use super::{Comparison, Pair, text};
use crate::bench::plots::{PERCENTILES, ends};
use crate::bench::text::DISTRUSTED;
use crate::chart::{Axis, Curve, Figure, Percentiles, SERIES_MAX, Unit, nines};
use crate::page::{Page, Part, Section};
use crate::text::cut;

/// The most characters of a name.
const NAME_CHARS: usize = 40;

/// Which line is which side.
const SIDES: &str = "The old report is thin, the new one strong.";

impl Comparison {
    /// The comparison as one HTML page.
    #[must_use]
    pub fn html(&self) -> String {
        let mut summary = vec![Part::Text(self.summary())];
        summary.push(Part::Text(text::COLUMNS.to_owned()));
        summary.extend(self.notes.iter().cloned().map(Part::Note));
        let distrust = self.distrust.iter();
        summary.extend(distrust.map(|why| Part::Note(format!("{DISTRUSTED}: {why}"))));
        let mut sections = vec![Section {
            title: "What it comes to".to_owned(),
            parts: summary,
        }];
        sections.extend(self.suites());
        Page {
            title: "Comparison of two benchmark reports".to_owned(),
            command: String::new(),
            facts: vec![
                ("old".to_owned(), self.old.clone()),
                ("new".to_owned(), self.new.clone()),
            ],
            sections,
        }
        .render()
    }

    fn suites(&self) -> impl Iterator<Item = Section> {
        self.tables()
            .into_iter()
            .map(|(suite, is_distrusted, table)| {
                let name = cut(&suite, NAME_CHARS);
                let title = if is_distrusted {
                    format!("{name} ({DISTRUSTED})")
                } else {
                    name
                };
                let mut parts = vec![Part::Table(format!("Old and new: {title}"), table)];
                let figures = self.curves(&suite);
                if !figures.is_empty() {
                    parts.push(Part::Heading("Durations by percentile".to_owned()));
                    parts.push(Part::Text(format!("{SIDES} {PERCENTILES}")));
                    parts.push(Part::Figures(figures));
                }
                Section { title, parts }
            })
    }

    /// A chart for each arm of a suite that has populations on both sides.
    fn curves(&self, suite: &str) -> Vec<Figure> {
        let pairs: Vec<&Pair> = self
            .pairs
            .iter()
            .filter(|pair| pair.suite == suite)
            .collect();
        let by_arm = pairs.chunk_by(|a, b| a.arm == b.arm);
        by_arm.map(figure).collect()
    }
}

fn figure(pairs: &[&Pair]) -> Figure {
    let shown = &pairs[..pairs.len().min(SERIES_MAX)];
    let recordings = || shown.iter().flat_map(|pair| [&pair.old, &pair.new]);
    let names: Vec<[String; 2]> = (shown.iter())
        .map(|pair| ["old", "new"].map(|side| format!("{}, {side}", cut(pair.new.name(), 24))))
        .collect();
    let curves = shown.iter().zip(&names).enumerate();
    let curves = curves.flat_map(|(slot, (pair, [old, new]))| {
        [(old, &pair.old, true), (new, &pair.new, false)].map(|(name, recording, is_thin)| Curve {
            name,
            slot,
            recording,
            is_thin,
        })
    });
    let arm = pairs.first().map_or("", |pair| &pair.arm);
    let mut figure = Percentiles {
        title: format!("{}: by percentile", cut(arm, NAME_CHARS)),
        description: "The durations that each share did not exceed, old and new.".to_owned(),
        nines: nines(recordings().map(|recording| recording.count())),
        y: Axis::log(Unit::Time, recordings().flat_map(ends)),
        fades: true,
        curves: curves.collect(),
    }
    .figure();
    if shown.len() < pairs.len() {
        figure.note(format!(
            "{} of {} populations are shown.",
            shown.len(),
            pairs.len()
        ));
    }
    figure
}
