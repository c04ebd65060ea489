//! The charts of a suite. A kind of chart is there only if an arm has something for it to show.

use super::number::Spread;
use super::{Arm, Better, Course, Metric, SuiteRun, Unit, as_f64, wholes};
use crate::chart::{
    Axis, Bands, BarSeries, Bars, Curve, Figure, Layout, Lines, Percentiles, SERIES_MAX, Series,
    Slots, Unit as AxisUnit, nines,
};
use crate::page::Part;
use crate::text::{counted, cut};
use crate::{Quantiles, Recording};

/// The most characters of a name in the title of a chart.
const NAME_CHARS: usize = 40;

/// All charts of a suite, each kind under a heading.
pub(super) fn parts(suite: &SuiteRun) -> Vec<Part> {
    let mut parts = Vec::new();
    let [latencies, rates, depths] = courses(suite);
    let kinds: [(&str, &str, Vec<Figure>); 6] = [
        ("Metrics by arm", METRICS, metrics(suite)),
        ("Share served and share due", "", shares(suite)),
        ("Durations by percentile", PERCENTILES, percentiles(suite)),
        ("Latency over time", LATENCY, latencies),
        ("Throughput over time", LAST, rates),
        ("Queue depth over time", DEPTH, depths),
    ];
    for (head, explanation, figures) in kinds {
        if figures.is_empty() {
            continue;
        }
        parts.push(Part::Heading(head.to_owned()));
        if !explanation.is_empty() {
            parts.push(Part::Text(explanation.to_owned()));
        }
        parts.push(Part::Figures(figures));
    }
    parts
}

const METRICS: &str = "A bar is the median over the repetitions, its whisker goes from the least to the \
    greatest.";

/// What the curves show.
pub(super) const PERCENTILES: &str = "Each further nine has the same room. A curve is faint where fewer than \
    a hundred durations lie above it: there it shows single events.";

const LATENCY: &str = "The last repetition, step by step. The line is the median (of 200 durations or more), \
    the area goes up to the 99th percentile (of 10,000 or more), the thin line is the longest.";

const LAST: &str = "The last repetition: requests handed out a second, step by step.";

const DEPTH: &str =
    "The last repetition: the most requests that were under way at a time, by step.";

/// A chart for each metric that two arms or more have.
fn metrics(suite: &SuiteRun) -> Vec<Figure> {
    let mut names: Vec<&str> = Vec::new();
    for metric in suite.arms.iter().flat_map(|arm| &arm.metrics) {
        if !names.contains(&metric.name.as_str()) {
            names.push(&metric.name);
        }
    }
    names
        .into_iter()
        .filter_map(|name| metric_bars(suite, name))
        .collect()
}

fn metric_bars(suite: &SuiteRun, name: &str) -> Option<Figure> {
    let of_name = |arm: &'_ Arm| -> Option<(String, Metric, Spread)> {
        let metric = arm.metrics.iter().find(|metric| metric.name == name)?;
        let spread = Spread::of(&metric.samples)?;
        Some((arm.name.clone(), metric.clone(), spread))
    };
    let found: Vec<_> = suite.arms.iter().filter_map(of_name).collect();
    let unit = found.first()?.1.unit;
    let found: Vec<_> = found
        .into_iter()
        .filter(|(_, metric, _)| metric.unit == unit)
        .collect();
    if found.len() < 2 {
        return None;
    }
    let better = match found[0].1.better {
        Better::Higher => " (more is better)",
        Better::Lower => " (less is better)",
        Better::Neither => "",
    };
    let spreads = || found.iter().map(|(.., spread)| spread);
    Some(
        Bars {
            title: format!("{}{better}", cut(name, NAME_CHARS)),
            description: format!(
                "{name} of each arm: the median, and a whisker from least to greatest."
            ),
            axis: Axis::linear(axis_unit(unit), spreads().map(|spread| spread.max)),
            categories: found.iter().map(|(arm, ..)| arm.clone()).collect(),
            series: vec![BarSeries {
                name: "median".to_owned(),
                values: spreads().map(|spread| spread.median).collect(),
                spans: spreads().map(|spread| (spread.min, spread.max)).collect(),
                labels: spreads().map(|spread| unit.tell(spread.median)).collect(),
            }],
            layout: Layout::Grouped,
        }
        .figure(),
    )
}

fn axis_unit(unit: Unit) -> AxisUnit {
    match unit {
        Unit::Nanos => AxisUnit::Time,
        Unit::Share => AxisUnit::Share,
        Unit::Count | Unit::PerSecond | Unit::Bytes => AxisUnit::Count,
    }
}

fn shares(suite: &SuiteRun) -> Vec<Figure> {
    let competing = || suite.arms.iter().filter(|arm| !arm.classes.is_empty());
    let parts = |arm: &Arm| {
        let (served, entitled) = wholes(&arm.classes);
        let part = |tokens: u64, whole: f64| {
            if whole > 0.0 {
                as_f64(tokens) / whole
            } else {
                f64::NAN
            }
        };
        let of = arm.classes.iter();
        let pair = |class: &super::ClassShare| {
            (
                part(class.served_tokens, served),
                part(class.entitled_tokens, entitled),
            )
        };
        of.map(pair).collect::<Vec<_>>()
    };
    let all = competing()
        .flat_map(parts)
        .flat_map(|(served, due)| [served, due]);
    let axis = Axis::linear(AxisUnit::Share, all);
    let series = |name: &str, values: Vec<f64>| BarSeries {
        name: name.to_owned(),
        values,
        spans: Vec::new(),
        labels: Vec::new(),
    };
    let figure = |arm: &Arm| {
        let shares = parts(arm);
        Bars {
            title: format!("{}: share by class", cut(&arm.name, NAME_CHARS)),
            description:
                "For each class, the share of the tokens that it was served, and below it the \
                          share that its quantum entitled it to."
                    .to_owned(),
            axis,
            categories: arm.classes.iter().map(|class| class.name.clone()).collect(),
            series: vec![
                series("served", shares.iter().map(|share| share.0).collect()),
                series("entitled", shares.iter().map(|share| share.1).collect()),
            ],
            layout: Layout::Grouped,
        }
        .figure()
    };
    competing().map(figure).collect()
}

/// The lowest and the highest duration of a recording that a logarithmic axis has to show.
pub(super) fn ends(recording: &Recording) -> impl Iterator<Item = f64> + use<> {
    let recorded = recording.histogram().iter_recorded();
    let lowest = recorded
        .map(|step| step.value_iterated_to())
        .find(|&nanos| nanos > 0);
    [lowest, recording.max()].into_iter().flatten().map(as_f64)
}

/// The populations of an arm, each as one, that have durations.
fn recorded(arm: &Arm) -> Vec<Recording> {
    let wholes = arm.populations.iter().map(super::Population::whole);
    wholes.filter(|whole| whole.count() > 0).collect()
}

/// A chart for each arm with durations. Arms with the same populations have the same axes.
fn percentiles(suite: &SuiteRun) -> Vec<Figure> {
    let arms: Vec<(&Arm, Vec<Recording>)> = (suite.arms.iter())
        .map(|arm| (arm, recorded(arm)))
        .filter(|(_, recordings)| !recordings.is_empty())
        .collect();
    let names = |recordings: &[Recording]| -> Vec<String> {
        recordings.iter().map(|one| one.name().to_owned()).collect()
    };
    let figure = |(arm, recordings): &(&Arm, Vec<Recording>)| {
        let mine = names(recordings);
        let alike = || {
            let alike = arms.iter().filter(|(_, others)| names(others) == mine);
            alike.flat_map(|(_, others)| others)
        };
        let y = Axis::log(AxisUnit::Time, alike().flat_map(ends));
        let nines = nines(alike().map(Recording::count));
        curves(&arm.name, recordings, nines, y)
    };
    arms.iter().map(figure).collect()
}

fn curves(arm: &str, recordings: &[Recording], nines: u32, y: Axis) -> Figure {
    // The first ones are shown: parts of a population stand behind it. So each keeps its colour in every arm.
    let ranks: Vec<u64> = (0..recordings.len() as u64).rev().collect();
    let slots = Slots::of(&ranks);
    let curves = recordings.iter().enumerate().filter_map(|(at, recording)| {
        Some(Curve {
            name: recording.name(),
            slot: slots.get(at)?,
            recording,
            is_thin: false,
        })
    });
    let mut figure = Percentiles {
        title: format!("{}: by percentile", cut(arm, NAME_CHARS)),
        description: "The durations that each share of a population did not exceed.".to_owned(),
        nines,
        y,
        fades: true,
        curves: curves.collect(),
    }
    .figure();
    if slots.rest() > 0 {
        figure.note(format!(
            "The last {} of the table are left out; {SERIES_MAX} colours are told apart.",
            counted(slots.rest() as u64, "population"),
        ));
    }
    figure
}

/// Latency, throughput and queue depth of each arm that was watched, each with the same axes for all.
fn courses(suite: &SuiteRun) -> [Vec<Figure>; 3] {
    let watched: Vec<(&str, &Course)> = (suite.arms.iter())
        .filter_map(|arm| Some((arm.name.as_str(), arm.course.as_ref()?)))
        .filter(|(_, course)| course.step_ns > 0 && !course.handed_out.is_empty())
        .collect();
    let length = |course: &Course| as_f64(course.step_ns) * as_f64(course.handed_out.len() as u64);
    let x = Axis::exact(
        AxisUnit::Time,
        watched.iter().map(|(_, course)| length(course)),
    );
    let all = || watched.iter().map(|(_, course)| *course);
    let durations = all().flat_map(|course| &course.latency);
    let durations = durations.flat_map(|of| [of.p50_ns, of.p99_ns, of.max_ns].map(as_f64));
    let latency_y = Axis::log(AxisUnit::Time, durations);
    let rate_y = Axis::linear(AxisUnit::Count, all().flat_map(rates));
    let depth = |course: &Course| -> Vec<f64> {
        course
            .in_flight_max
            .iter()
            .map(|&count| as_f64(count))
            .collect()
    };
    let depth_y = Axis::linear(AxisUnit::Count, all().flat_map(depth));
    let [mut latencies, mut throughputs, mut depths] = [const { Vec::new() }; 3];
    for (arm, course) in &watched {
        let lines = |title: &str, y: Axis, values: Vec<f64>| {
            line(
                &format!("{}: {title}", cut(arm, NAME_CHARS)),
                course,
                (x, y),
                values,
            )
        };
        if course.latency.iter().any(|step| step.count > 0) {
            latencies.push(latency(arm, course, x, latency_y));
        }
        throughputs.push(lines("handed out a second", rate_y, rates(course)));
        depths.push(lines("most under way", depth_y, depth(course)));
    }
    [latencies, throughputs, depths]
}

/// Requests handed out a second, step by step.
fn rates(course: &Course) -> Vec<f64> {
    let seconds = as_f64(course.step_ns) / 1e9;
    course
        .handed_out
        .iter()
        .map(|&count| as_f64(count) / seconds)
        .collect()
}

fn line(title: &str, course: &Course, (x, y): (Axis, Axis), values: Vec<f64>) -> Figure {
    let name = title
        .rsplit_once(": ")
        .map_or(title, |(_, name)| name)
        .to_owned();
    Lines {
        title: title.to_owned(),
        description: format!(
            "{name}, in {} of time.",
            counted(course.handed_out.len() as u64, "step")
        ),
        step_ns: as_f64(course.step_ns),
        x,
        y,
        series: vec![Series {
            name,
            slot: 0,
            values,
            second: Vec::new(),
        }],
        styles: None,
    }
    .figure()
}

fn latency(arm: &str, course: &Course, x: Axis, y: Axis) -> Figure {
    let told = |q: f64, pick: fn(&Quantiles) -> u64| -> Vec<f64> {
        let value = |step: &Quantiles| {
            let is_told = crate::recording::enough_for(q, step.count);
            if is_told {
                as_f64(pick(step))
            } else {
                f64::NAN
            }
        };
        course.latency.iter().map(value).collect()
    };
    let longest = |step: &Quantiles| {
        if step.count > 0 {
            as_f64(step.max_ns)
        } else {
            f64::NAN
        }
    };
    Bands {
        title: format!("{}: latency", cut(arm, NAME_CHARS)),
        description: "Median, 99th percentile and longest latency, step by step.".to_owned(),
        step_ns: as_f64(course.step_ns),
        x,
        y,
        slot: 0,
        p50: told(0.5, |step| step.p50_ns),
        p99: told(0.99, |step| step.p99_ns),
        max: course.latency.iter().map(longest).collect(),
    }
    .figure()
}
