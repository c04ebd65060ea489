//! A made-up report: a number of classes under two policies, with a burst in the middle.

use std::f64::consts::PI;

use tollgate_report::Recording;
use tollgate_report::replay::{
    ClassRun, ClassTrack, Count, Fact, Quantiles, ReplayReport, ReplayRun, Timeline, Totals,
    WorkerRun, WorkerTrack,
};

const NAMES: [&str; 4] = ["premium", "standard", "batch", "evaluation"];
const QUANTA: [u64; 4] = [8_000, 4_000, 2_000, 1_000];
const WORKERS: usize = 4;

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

/// How a policy treats a class: what part it gets, and how long it waits, in nanoseconds at full load.
fn treatment(fair: bool, class: usize, classes: usize) -> (f64, f64) {
    let weight = |class: usize| QUANTA[class % 4] as f64;
    let all: f64 = (0..classes).map(weight).sum();
    if fair {
        (weight(class) / all, 4e9 * 1_500.0 / weight(class))
    } else {
        (1.0 / classes as f64, 3e9)
    }
}

fn fact(name: &str, value: &str) -> Fact {
    Fact {
        name: name.to_owned(),
        value: value.to_owned(),
    }
}

fn recording(tag: &str, name: &str, population: String) -> Recording {
    Recording::new(tag, name, &population)
}

/// A report of `classes` classes under two policies in `steps` steps.
pub fn report(classes: usize, steps: usize) -> ReplayReport {
    ReplayReport {
        title: "Replay of a made-up hour".to_owned(),
        command: "tollgate replay made-up.csv --policy fair.yaml --policy arrival.yaml --speed 8 \
                  --workers 4 --html report.html"
            .to_owned(),
        trace: vec![
            fact("file", "made-up.csv"),
            fact("rows", "12,000"),
            fact("speed", "8"),
            fact("seed", "7"),
        ],
        runs: vec![
            run("fair", true, classes, steps),
            run("arrival order", false, classes, steps),
        ],
    }
}

fn run(policy: &str, fair: bool, classes: usize, steps: usize) -> ReplayRun {
    let step_ns = 450_000_000_000 / steps.max(1) as u64;
    let mut draw = Draw(0x9e37_79b9_7f4a_7c15);
    let mut totals = Totals {
        last_arrival_ns: 440_000_000_000,
        finish_ns: 450_000_000_000,
        contended_dispatches: 7_031,
        ..Totals::default()
    };
    let mut timeline = Timeline {
        step_ns,
        ..Timeline::default()
    };
    let mut runs = Vec::new();
    for class in 0..classes {
        let (run, track) = class_run(policy, fair, class, classes, steps, &mut draw);
        totals.requests += run.requests;
        totals.completed += run.completed;
        totals.prompt_tokens += run.prompt_tokens;
        totals.cached_tokens += run.cached_tokens;
        totals.charged_tokens += run.charged_tokens;
        totals.output_tokens += run.output_tokens;
        runs.push(run);
        timeline.classes.push(track);
    }
    let mut workers = Vec::new();
    for worker in 0..WORKERS {
        let name = format!("worker-{worker}");
        let busy: Vec<f64> = (0..steps)
            .map(|at| (load(at, steps) * (0.8 + 0.4 * draw.next())).min(1.0))
            .collect();
        let part = busy.iter().sum::<f64>() / steps.max(1) as f64;
        workers.push(WorkerRun {
            name: name.clone(),
            requests: totals.requests / WORKERS as u64,
            prefill_tokens: 4_200_000,
            cached_tokens: 1_100_000 + 70_000 * worker as u64,
            output_tokens: 800_000,
            busy_ns: (part * 450e9) as u64,
            prefill_ns: (part * 200e9) as u64,
            peak_sequences: 64,
            evicted_blocks: 12_345,
        });
        timeline.workers.push(WorkerTrack {
            name,
            prefill_tokens: busy.iter().map(|busy| (busy * 1e4) as u64).collect(),
            busy,
        });
    }
    ReplayRun {
        policy: policy.to_owned(),
        settings: vec![
            fact("workers", "4 of 64 sequences"),
            fact("decode step", "25 ms"),
        ],
        totals,
        classes: runs,
        workers,
        timeline,
        notes: vec!["Prompts longer than 32,768 tokens were cut.".to_owned()],
    }
}

/// How loaded the workers are: a slow wave, with a burst in the third quarter.
fn load(at: usize, steps: usize) -> f64 {
    let time = at as f64 / steps.max(1) as f64;
    let burst = if (0.5..0.75).contains(&time) {
        0.5
    } else {
        0.0
    };
    (0.45 - 0.25 * (2.0 * PI * time).cos() + burst).min(1.0)
}

fn class_run(
    policy: &str,
    fair: bool,
    class: usize,
    classes: usize,
    steps: usize,
    draw: &mut Draw,
) -> (ClassRun, ClassTrack) {
    let name = match NAMES.get(class) {
        Some(name) => (*name).to_owned(),
        None => format!("tenant-{class}"),
    };
    let (share, longest) = treatment(fair, class, classes);
    let due = treatment(true, class, classes).0;
    let tag = |what: &str| format!("{policy}.{name}.{what}");
    let mut wait = recording(&tag("wait"), "wait", format!("requests of class {name}"));
    let mut wait_queued = recording(
        &tag("wait_queued"),
        "wait",
        format!("requests of class {name} that had to wait"),
    );
    let mut first_token = recording(
        &tag("first_token"),
        "time to first token",
        format!("requests of class {name} that put out a token"),
    );
    let mut track = ClassTrack {
        name: name.clone(),
        ..ClassTrack::default()
    };
    let mut dispatched = 0;
    for at in 0..steps {
        let load = load(at, steps);
        let mut waits: Vec<u64> = Vec::new();
        for _ in 0..(load * 16.0 * (0.5 + draw.next())) as usize {
            let is_queued = draw.next() < load;
            let nanos = if is_queued {
                longest * load * load * draw.next().powi(3)
            } else {
                0.0
            };
            waits.push(nanos as u64);
            wait.record(nanos as u64);
            if is_queued {
                wait_queued.record(nanos as u64);
            }
            first_token.record((nanos + 4e7 + 3e8 * draw.next().powi(2)) as u64);
        }
        dispatched += waits.len() as u64;
        waits.sort_unstable();
        let rank = |q: f64| {
            waits
                .get((q * waits.len() as f64) as usize)
                .copied()
                .unwrap_or(0)
        };
        track.wait.push(Quantiles {
            count: waits.len() as u64,
            p50_ns: rank(0.5),
            p99_ns: rank(0.99),
            max_ns: waits.last().copied().unwrap_or(0),
        });
        let queue = load * load * longest / 1e8 * (0.7 + 0.6 * draw.next());
        track.waiting_max.push(queue as u64);
        let both = if load > 0.3 { 40_000.0 * load } else { 0.0 };
        track
            .served_tokens
            .push((both * share * (0.8 + 0.4 * draw.next())) as u64);
        track.entitled_tokens.push(both * due);
    }
    let refused = if class % 4 == 2 { dispatched / 40 } else { 0 };
    let count = |code: &str, count: u64| Count {
        code: code.to_owned(),
        count,
    };
    let run = ClassRun {
        name,
        quantum: QUANTA[class % 4],
        requests: dispatched + refused + 12,
        dispatched,
        completed: dispatched.saturating_sub(3),
        prompt_tokens: dispatched * 900,
        cached_tokens: dispatched * 210,
        charged_tokens: dispatched * 1_020,
        output_tokens: dispatched * 140,
        expired: 12,
        rejected: if refused > 0 {
            vec![count("queue_full", refused)]
        } else {
            Vec::new()
        },
        failed: if dispatched >= 3 {
            vec![count("worker_lost", 3)]
        } else {
            Vec::new()
        },
        served_tokens: track.served_tokens.iter().sum(),
        entitled_tokens: track.entitled_tokens.iter().sum(),
        wait,
        wait_queued,
        first_token,
    };
    (run, track)
}
