//! A benchmark's recordings as an interval log, and a report made of such a log.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::{Arm, BenchReport, Calibration, Gaps, Population, SuiteRun};
use crate::hlog::{self, Interval};
use crate::{Error, ReadError, Recording};

/// How long the interval of each repetition is: how long it took is not known here.
const INTERVAL_NS: u64 = 1_000_000_000;
/// The most characters of a tag without its number, so that a file may be called after it.
const TAG_CHARS: usize = 100;
/// What the suite and the arm of a report that was a log are called.
const LOG: &str = "log";

impl BenchReport {
    /// Every population with its tag in logs: suite, arm and its own tag, made plain, at most 120
    /// characters, and numbered where two would be the same.
    ///
    /// In order of suites, arms and populations.
    #[must_use]
    pub fn recordings(&self) -> Vec<(String, &Population)> {
        let mut known = BTreeSet::new();
        let mut tagged = Vec::new();
        for suite in &self.suites {
            for arm in &suite.arms {
                for population in &arm.populations {
                    let whole = format!("{}.{}.{}", suite.name, arm.name, population.tag());
                    let plain = Recording::new(&whole, "", "");
                    let plain: String = plain.tag().chars().take(TAG_CHARS).collect();
                    let numbered = (2u64..).map(|at| format!("{plain}-{at}"));
                    let mut tags = std::iter::once(plain.clone()).chain(numbered);
                    // File systems may not tell A from a.
                    let free = tags.find(|tag| known.insert(tag.to_ascii_lowercase()));
                    tagged.push((free.unwrap_or_default(), population));
                }
            }
        }
        tagged
    }

    /// Writes an interval log with a line for each repetition of each of [`BenchReport::recordings`].
    ///
    /// Repetition N of a population stands at second N, counted from 0, one second long, whatever it took.
    ///
    /// # Errors
    /// As [`hlog::write`].
    pub fn write_hlog(&self, out: &mut impl io::Write) -> Result<(), Error> {
        let mut owned: Vec<(u64, Recording)> = Vec::new();
        for (tag, population) in self.recordings() {
            let tagged = population.repetitions.iter().zip(0u64..);
            owned.extend(tagged.map(|(recording, at)| (at, recording.clone().tagged(&tag))));
        }
        // Readers of the format expect intervals in the order of their time.
        owned.sort_by_key(|(at, _)| *at);
        let intervals: Vec<Interval<'_>> = owned
            .iter()
            .map(|(at, recording)| Interval {
                start_ns: at * INTERVAL_NS,
                length_ns: INTERVAL_NS,
                recording,
            })
            .collect();
        hlog::write(
            out,
            &format!("{}\n{}", self.title, self.command),
            &intervals,
        )
    }

    /// A report of an interval log, also of another tool: one suite with one arm, in which each tag is a
    /// population and each of its intervals a repetition. Of the machine it knows nothing.
    ///
    /// # Errors
    /// As [`hlog::read`]; [`ReadError::TooMany`] above [`RECORDINGS_MAX`](super::RECORDINGS_MAX).
    pub fn from_hlog(title: &str, text: &str) -> Result<Self, ReadError> {
        let mut places = BTreeMap::new();
        let mut populations: Vec<Population> = Vec::new();
        for recording in hlog::read(text, super::RECORDINGS_MAX)? {
            let end = populations.len();
            let place = *places.entry(recording.tag().to_owned()).or_insert(end);
            match populations.get_mut(place) {
                Some(population) => population.repetitions.push(recording),
                None => populations.push(Population {
                    repetitions: vec![recording],
                }),
            }
        }
        let unknown = Calibration {
            line_ns: None,
            clock_ns: 0.0,
            gaps: Gaps::default(),
            load_average: None,
            steal: None,
        };
        Ok(Self {
            title: title.to_owned(),
            command: String::new(),
            machine: Vec::new(),
            suites: vec![SuiteRun {
                name: LOG.to_owned(),
                about: "The intervals of a log, a repetition each.".to_owned(),
                before: unknown.clone(),
                after: unknown,
                attempts: 1,
                notes: vec![
                    "A log tells durations to three digits at best, the longest too, and \
                             nothing of the machine."
                        .to_owned(),
                ],
                arms: vec![Arm {
                    name: LOG.to_owned(),
                    populations,
                    ..Arm::default()
                }],
            }],
        })
    }
}
