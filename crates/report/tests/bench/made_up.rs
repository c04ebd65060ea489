//! A made-up benchmark: a suite of two arms on a quiet machine, and one on a machine that moved.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what is made up may be rounded"
)]

use tollgate_report::bench::{
    Arm, BenchReport, Better, Calibration, ClassShare, Course, Gaps, Metric, Population, SuiteRun,
    Unit,
};
use tollgate_report::{Fact, Quantiles, Recording};

/// How many repetitions each arm has.
pub(crate) const REPETITIONS: usize = 5;
/// How many durations each repetition has.
pub(crate) const DURATIONS: usize = 4_000;

/// Numbers that look random and are the same each time.
struct Draw(u64);

impl Draw {
    /// The next number, from 0 to below 1.
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

pub(crate) fn fact(name: &str, value: &str) -> Fact {
    Fact {
        name: name.to_owned(),
        value: value.to_owned(),
    }
}

/// A machine whose readings are `scale` times what they are at rest.
pub(crate) fn calibration(scale: f64) -> Calibration {
    Calibration {
        line_ns: Some(62.5 * scale),
        clock_ns: 21.4,
        gaps: Gaps {
            span_ns: 200_000_000,
            micros_per_second: 412.0,
            ten_micros_per_second: 18.5,
            hundred_micros_per_second: 1.25,
            longest_ns: 831_000,
            lost: 0.0023,
        },
        load_average: Some(0.41),
        steal: Some(0.0004),
    }
}

/// A report drawn by `seed`, on which everything takes `slower` times as long as with 1.
pub(crate) fn report(seed: u64, slower: f64) -> BenchReport {
    let mut draw = Draw(0x9e37_79b9_7f4a_7c15 ^ seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
    let mut arms = vec![
        arm("full_life/fcfs/spin", 550.0 * slower, &mut draw),
        arm("full_life/fcfs/park", 4_200.0 * slower, &mut draw),
    ];
    arms[1].classes = [("premium", 4_096, 801_000), ("regular", 1_024, 199_000)]
        .map(|(name, quantum, served)| ClassShare {
            name: name.to_owned(),
            quantum_tokens: quantum,
            served_tokens: served,
            entitled_tokens: quantum * 1_000_000 / 5_120,
        })
        .to_vec();
    let moved = vec![arm("hand_over/batch", 900.0 * slower, &mut draw)];
    BenchReport {
        title: "Benchmark of a made-up engine".to_owned(),
        command: format!("tollgate bench --seed {seed}"),
        machine: vec![
            fact("processor", "Made-up 9000 at 3.1 GHz"),
            fact("cores", "2, mask 0x3"),
            fact("clock source", "tsc"),
        ],
        suites: vec![
            suite(
                "engine",
                "How long is a whole life of a request?",
                arms,
                1.0,
            ),
            suite("courier", "What does handing over cost?", moved, 2.0),
        ],
    }
}

fn suite(name: &str, about: &str, arms: Vec<Arm>, moved: f64) -> SuiteRun {
    SuiteRun {
        name: name.to_owned(),
        about: about.to_owned(),
        before: calibration(1.0),
        after: calibration(moved),
        attempts: 1,
        notes: vec!["All requests are of one size.".to_owned()],
        arms,
    }
}

fn arm(name: &str, typical_ns: f64, draw: &mut Draw) -> Arm {
    let kinds = [("life", 1.0), ("hand_over", 0.3)];
    let mut populations: Vec<Population> = Vec::new();
    for (tag, part) in kinds {
        let repetitions = (0..REPETITIONS).map(|_| {
            let mut recording = Recording::new(tag, &tag.replace('_', " "), "all requests");
            let scale = typical_ns * part * (0.98 + 0.04 * draw.next());
            for _ in 0..DURATIONS {
                let tail = draw.next().powi(-1).min(1e4).powf(0.4);
                recording.record((scale * (0.9 + 0.2 * draw.next()) * tail) as u64);
            }
            recording
        });
        let repetitions = repetitions.collect();
        populations.push(Population { repetitions });
    }
    let samples = |middle: f64, draw: &mut Draw| -> Vec<f64> {
        (0..REPETITIONS)
            .map(|_| middle * (0.98 + 0.04 * draw.next()))
            .collect()
    };
    let metric = |name: &str, unit, better, samples| Metric {
        name: name.to_owned(),
        unit,
        better,
        samples,
    };
    Arm {
        name: name.to_owned(),
        settings: vec![fact("threads", "2"), fact("slots", "4096")],
        metrics: vec![
            metric(
                "lives a second",
                Unit::PerSecond,
                Better::Higher,
                samples(1e9 / typical_ns, draw),
            ),
            metric(
                "processor time a life",
                Unit::Nanos,
                Better::Lower,
                samples(typical_ns * 0.4, draw),
            ),
            metric("memory", Unit::Bytes, Better::Neither, samples(3e7, draw)),
        ],
        populations,
        course: Some(course(typical_ns, draw)),
        classes: Vec::new(),
        notes: Vec::new(),
    }
}

fn course(typical_ns: f64, draw: &mut Draw) -> Course {
    let mut course = Course {
        step_ns: 50_000_000,
        ..Course::default()
    };
    for _ in 0..40 {
        let count = (5e7 / typical_ns * (0.9 + 0.2 * draw.next())) as u64;
        let median = (typical_ns * (0.9 + 0.2 * draw.next())) as u64;
        course.handed_out.push(count);
        course.in_flight_max.push((8.0 + 24.0 * draw.next()) as u64);
        course.latency.push(Quantiles {
            count,
            p50_ns: median,
            p99_ns: 4 * median,
            max_ns: 30 * median,
        });
    }
    course
}
