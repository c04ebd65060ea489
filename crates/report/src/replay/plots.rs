//! The charts of a replay's report.
//!
//! A class has the same colour in every chart and run; where there are more classes than colours,
//! those that were charged the most have one, and the others share the last or are left out, which
//! the chart says.

use std::collections::BTreeMap;

use super::html::section;
use super::tables::{as_f64, class_names, shares, worker_names};
use super::{ClassTrack, ReplayReport, ReplayRun};
use crate::chart::{
    Axis, Bands, BarSeries, Bars, Curve, Figure, Layout, Lines, Percentiles, SERIES_MAX, Series,
    Slots, Unit, nines,
};
use crate::page::{Part, Section};
use crate::text::{counted, cut};
use crate::{Quantiles, Recording};

/// The most characters of a name in the title of a chart.
const NAME_CHARS: usize = 28;

/// The values of a strong line and of a thin one, which may be empty.
type Strands = (Vec<f64>, Vec<f64>);

/// What all charts of a report have in common.
struct Plots<'a> {
    report: &'a ReplayReport,
    classes: Vec<&'a str>,
    class_slots: Slots,
    /// By name: its place among all.
    workers: BTreeMap<&'a str, usize>,
    worker_slots: Slots,
    time: Axis,
}

/// A section for each kind of chart.
pub(super) fn sections(report: &ReplayReport) -> Vec<Section> {
    let plots = Plots::of(report);
    let of_each =
        |draw: &dyn Fn(&ReplayRun) -> Figure| Part::Figures(report.runs.iter().map(draw).collect());
    let queue = plots.queue_axis();
    let mut sections = vec![
        section(
            "Share served and share due",
            vec![of_each(&|run| plots.share_bars(run))],
        ),
        section(
            "Queue depth over time",
            vec![
                Part::Text(
                    "The most requests of each class that waited at a time, by step.".into(),
                ),
                of_each(&|run| plots.queue(run, queue)),
            ],
        ),
        section(
            "Share over time",
            vec![
                Part::Text(
                    "Each class's part of the tokens served in a step while it and another class \
                     were backlogged; a gap where no two classes were."
                        .into(),
                ),
                of_each(&|run| plots.share(run)),
            ],
        ),
        section("Wait over time", plots.waits()),
        section(
            "Load of the workers over time",
            vec![
                Part::Text(
                    "The part of each step in which a worker had a sequence or more.".into(),
                ),
                of_each(&|run| plots.load(run)),
            ],
        ),
    ];
    for (title, of) in [
        ("Wait by percentile", 0),
        ("Time to the first token by percentile", 1),
    ] {
        sections.push(section(title, vec![plots.percentiles(of)]));
    }
    sections
}

impl<'a> Plots<'a> {
    fn of(report: &'a ReplayReport) -> Self {
        let classes = class_names(report);
        let workers = worker_names(report);
        let all_classes = || report.runs.iter().flat_map(|run| &run.classes);
        let charged = |name: &&str| {
            let of_name = all_classes().filter(|class| class.name == *name);
            of_name.fold(0u64, |sum, class| sum.saturating_add(class.charged_tokens))
        };
        let mut busy_ns = BTreeMap::<&str, u64>::new();
        for worker in report.runs.iter().flat_map(|run| &run.workers) {
            let busy = busy_ns.entry(&worker.name).or_default();
            *busy = busy.saturating_add(worker.busy_ns);
        }
        let busy = |name: &&str| busy_ns.get(name).copied().unwrap_or_default();
        let class_slots = Slots::of(&classes.iter().map(charged).collect::<Vec<u64>>());
        let worker_slots = Slots::of(&workers.iter().map(busy).collect::<Vec<u64>>());
        let length = |run: &ReplayRun| as_f64(run.timeline.step_ns) * as_f64(steps(run) as u64);
        Self {
            report,
            classes,
            class_slots,
            workers: workers.into_iter().zip(0..).collect(),
            worker_slots,
            time: Axis::exact(Unit::Time, report.runs.iter().map(length)),
        }
    }

    fn class_slot(&self, name: &str) -> Option<usize> {
        let at = self.classes.iter().position(|class| *class == name)?;
        self.class_slots.get(at)
    }

    fn worker_slot(&self, name: &str) -> Option<usize> {
        self.worker_slots.get(*self.workers.get(name)?)
    }

    /// A series for each class with a slot, and one for the sum of the rest, named as such.
    fn by_class(&self, run: &ReplayRun, values: &dyn Fn(&ClassTrack) -> Strands) -> Vec<Series> {
        let mut series = Vec::new();
        let mut rest: Option<Series> = None;
        for track in &run.timeline.classes {
            let (values, second) = values(track);
            if let Some(slot) = self.class_slot(&track.name) {
                series.push(Series {
                    name: track.name.clone(),
                    slot,
                    values,
                    second,
                });
                continue;
            }
            let sum = rest.get_or_insert_with(|| Series {
                name: format!("{} others, summed", self.class_slots.rest()),
                slot: SERIES_MAX - 1,
                values: Vec::new(),
                second: Vec::new(),
            });
            add(&mut sum.values, &values);
            add(&mut sum.second, &second);
        }
        series.extend(rest);
        series
    }

    fn lines<'b>(&self, run: &ReplayRun, title: &str, y: Axis, series: Vec<Series>) -> Lines<'b> {
        Lines {
            title: format!("{}: {title}", cut(&run.policy, NAME_CHARS)),
            description: format!(
                "{title}, {} in {} of time.",
                counted(series.len() as u64, "line"),
                counted(steps(run) as u64, "step"),
            ),
            step_ns: as_f64(run.timeline.step_ns),
            x: self.time,
            y,
            series,
            styles: None,
        }
    }

    fn share_bars(&self, run: &ReplayRun) -> Figure {
        let shares = shares(run);
        let all = self.report.runs.iter().flat_map(super::tables::shares);
        Bars {
            title: format!("{}: share by class", cut(&run.policy, NAME_CHARS)),
            description:
                "For each class, the share of the tokens that it was served, and below it \
                          the share that its quantum entitled it to."
                    .to_owned(),
            axis: Axis::linear(Unit::Share, all.flat_map(|(served, due)| [served, due])),
            categories: run.classes.iter().map(|class| class.name.clone()).collect(),
            series: vec![
                BarSeries {
                    name: "served".to_owned(),
                    values: shares.iter().map(|share| share.0).collect(),
                    spans: Vec::new(),
                    labels: Vec::new(),
                },
                BarSeries {
                    name: "entitled".to_owned(),
                    values: shares.iter().map(|share| share.1).collect(),
                    spans: Vec::new(),
                    labels: Vec::new(),
                },
            ],
            layout: Layout::Grouped,
        }
        .figure()
    }

    fn queue_series(&self, run: &ReplayRun) -> Vec<Series> {
        let waiting = |track: &ClassTrack| {
            let values = track.waiting_max.iter().map(|&count| as_f64(count));
            (values.collect(), Vec::new())
        };
        self.by_class(run, &waiting)
    }

    fn queue_axis(&self) -> Axis {
        let runs = self.report.runs.iter();
        let series = runs.flat_map(|run| self.queue_series(run));
        Axis::linear(Unit::Count, series.flat_map(|series| series.values))
    }

    fn queue(&self, run: &ReplayRun, y: Axis) -> Figure {
        self.lines(run, "requests waiting", y, self.queue_series(run))
            .figure()
    }

    fn share(&self, run: &ReplayRun) -> Figure {
        let tracks = &run.timeline.classes;
        let mut served = Vec::new();
        let mut due = Vec::new();
        for track in tracks {
            add(&mut served, &floats(&track.served_tokens));
            let finite = track.entitled_tokens.iter();
            let finite: Vec<f64> = finite
                .map(|&x| if x.is_finite() { x } else { 0.0 })
                .collect();
            add(&mut due, &finite);
        }
        let parts = |track: &ClassTrack| {
            (
                parts_of(&floats(&track.served_tokens), &served),
                parts_of(&track.entitled_tokens, &due),
            )
        };
        let series = self.by_class(run, &parts);
        let mut lines = self.lines(run, "share of the tokens", Axis::whole(), series);
        lines.styles = Some(("served", "entitled"));
        lines.figure()
    }

    /// For each class with a slot the bands of all runs.
    fn waits(&self) -> Vec<Part> {
        let tracks = || {
            let runs = self.report.runs.iter();
            runs.flat_map(|run| &run.timeline.classes)
                .filter(|track| self.class_slot(&track.name).is_some())
        };
        let durations = tracks()
            .flat_map(|track| &track.wait)
            .flat_map(|wait| [wait.p50_ns, wait.p99_ns, wait.max_ns])
            .map(as_f64);
        let y = Axis::log(Unit::Time, durations);
        let mut parts = vec![Part::Text(
            "Waits of the requests dispatched in each step: the line is the median, the area goes \
             up to the 99th percentile, the thin line is the longest. A gap where none was \
             dispatched."
                .to_owned(),
        )];
        if self.class_slots.rest() > 0 {
            parts.push(Part::Note(format!(
                "The {} that were charged the fewest tokens are left out here and in the \
                 percentile curves.",
                counted_classes(self.class_slots.rest()),
            )));
        }
        for name in &self.classes {
            let Some(slot) = self.class_slot(name) else {
                continue;
            };
            let figures = self.report.runs.iter().filter_map(|run| {
                let track = run
                    .timeline
                    .classes
                    .iter()
                    .find(|track| track.name == *name)?;
                Some(self.bands(run, track, slot, y))
            });
            parts.push(Part::Figures(figures.collect()));
        }
        parts
    }

    fn bands(&self, run: &ReplayRun, track: &ClassTrack, slot: usize, y: Axis) -> Figure {
        let of = |pick: &dyn Fn(&Quantiles) -> u64| -> Vec<f64> {
            let value = |wait: &Quantiles| match wait.count {
                0 => f64::NAN,
                _ => as_f64(pick(wait)),
            };
            track.wait.iter().map(value).collect()
        };
        Bands {
            title: format!(
                "{}: wait of {}",
                cut(&run.policy, NAME_CHARS),
                cut(&track.name, NAME_CHARS)
            ),
            description: "Median, 99th percentile and longest wait, step by step.".to_owned(),
            step_ns: as_f64(run.timeline.step_ns),
            x: self.time,
            y,
            slot,
            p50: of(&|wait| wait.p50_ns),
            p99: of(&|wait| wait.p99_ns),
            max: of(&|wait| wait.max_ns),
        }
        .figure()
    }

    fn load(&self, run: &ReplayRun) -> Figure {
        let series = run.timeline.workers.iter().filter_map(|track| {
            Some(Series {
                name: track.name.clone(),
                slot: self.worker_slot(&track.name)?,
                values: track.busy.clone(),
                second: Vec::new(),
            })
        });
        let lines = self.lines(run, "load by worker", Axis::whole(), series.collect());
        let mut figure = lines.figure();
        let left_out = self.worker_slots.rest();
        if left_out > 0 {
            figure.note(format!(
                "The {} that were busy the shortest are left out.",
                counted(left_out as u64, "worker")
            ));
        }
        figure
    }

    /// Curves of the waits (0) or of the times to the first token (1).
    fn percentiles(&self, of: usize) -> Part {
        let pick = |class: &'a super::ClassRun| -> &'a Recording {
            if of == 0 {
                &class.wait
            } else {
                &class.first_token
            }
        };
        let shown = || {
            let classes = self.report.runs.iter().flat_map(|run| &run.classes);
            classes
                .filter(|class| self.class_slot(&class.name).is_some())
                .map(pick)
        };
        let durations = shown().flat_map(|recording| {
            let lowest = recording.histogram().iter_recorded();
            let lowest = lowest
                .map(|step| step.value_iterated_to())
                .find(|&nanos| nanos > 0);
            [lowest, recording.max()]
        });
        let y = Axis::log(Unit::Time, durations.flatten().map(as_f64));
        let nines = nines(shown().map(Recording::count));
        let figure = |run: &'a ReplayRun| {
            let curves = run.classes.iter().filter_map(|class| {
                Some(Curve {
                    name: &class.name,
                    slot: self.class_slot(&class.name)?,
                    recording: pick(class),
                    is_thin: false,
                })
            });
            let what = if of == 0 {
                "wait"
            } else {
                "time to the first token"
            };
            Percentiles {
                title: format!("{}: {what}", cut(&run.policy, NAME_CHARS)),
                description: format!("The {what} that each share of a class did not exceed."),
                nines,
                y,
                fades: false,
                curves: curves.collect(),
            }
            .figure()
        };
        Part::Figures(self.report.runs.iter().map(figure).collect())
    }
}

fn counted_classes(count: usize) -> String {
    let plural = if count == 1 { "" } else { "es" };
    format!("{count} class{plural}")
}

/// How many steps a run has.
fn steps(run: &ReplayRun) -> usize {
    let classes = run
        .timeline
        .classes
        .iter()
        .map(|track| track.waiting_max.len());
    let workers = run.timeline.workers.iter().map(|track| track.busy.len());
    classes.chain(workers).max().unwrap_or(0)
}

fn floats(counts: &[u64]) -> Vec<f64> {
    counts.iter().map(|&count| as_f64(count)).collect()
}

/// Adds step by step; the sum is as long as the longer of the two.
fn add(sums: &mut Vec<f64>, values: &[f64]) {
    if sums.len() < values.len() {
        sums.resize(values.len(), 0.0);
    }
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum += value;
    }
}

/// The part of each step's whole; not a number where the whole is nothing.
fn parts_of(values: &[f64], wholes: &[f64]) -> Vec<f64> {
    let part = |(value, whole): (&f64, &f64)| {
        if *whole > 0.0 {
            value / whole
        } else {
            f64::NAN
        }
    };
    values.iter().zip(wholes).map(part).collect()
}
