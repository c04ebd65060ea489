//! A made-up report: a number of classes under two policies, with a burst in the middle.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what is made up may be rounded"
)]

use std::f64::consts::PI;

use tollgate_report::replay::{
    ClassRun, ClassTrack, Count, ReplayReport, ReplayRun, Timeline, Totals, WorkerRun, WorkerTrack,
};
use tollgate_report::{Fact, Quantiles, Recording};

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

/// A report of `classes` classes under two policies in `steps` steps.
pub(crate) fn report(classes: usize, steps: usize) -> ReplayReport {
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
    let mut run = empty_class(policy, &name, class);
    let mut track = ClassTrack {
        name,
        ..ClassTrack::default()
    };
    for at in 0..steps {
        let load = load(at, steps);
        track.wait.push(dispatch(&mut run, load, longest, draw));
        let queue = load * load * longest / 1e8 * (0.7 + 0.6 * draw.next());
        track.waiting_max.push(queue as u64);
        let both = if load > 0.3 { 40_000.0 * load } else { 0.0 };
        let served = both * share * (0.8 + 0.4 * draw.next());
        track.served_tokens.push(served as u64);
        track.entitled_tokens.push(both * due);
    }
    let dispatched = run.wait.count();
    let count = |code: &str, count: u64| Count {
        code: code.to_owned(),
        count,
    };
    let refused = if class % 4 == 2 { dispatched / 40 } else { 0 };
    if refused > 0 {
        run.rejected.push(count("queue_full", refused));
    }
    if dispatched >= 3 {
        run.failed.push(count("worker_lost", 3));
    }
    run.requests = dispatched + refused + run.expired;
    run.dispatched = dispatched;
    run.completed = dispatched.saturating_sub(3);
    run.prompt_tokens = dispatched * 900;
    run.cached_tokens = dispatched * 210;
    run.charged_tokens = dispatched * 1_020;
    run.output_tokens = dispatched * 140;
    run.served_tokens = track.served_tokens.iter().sum();
    run.entitled_tokens = track.entitled_tokens.iter().sum();
    (run, track)
}

/// Records the waits of one step.
fn dispatch(run: &mut ClassRun, load: f64, longest: f64, draw: &mut Draw) -> Quantiles {
    let mut waits: Vec<u64> = Vec::new();
    for _ in 0..(load * 16.0 * (0.5 + draw.next())) as usize {
        let is_queued = draw.next() < load;
        let queued = longest * load * load * draw.next().powi(3);
        let nanos = if is_queued { queued } else { 0.0 };
        waits.push(nanos as u64);
        run.wait.record(nanos as u64);
        if is_queued {
            run.wait_queued.record(nanos as u64);
        }
        let first = nanos + 4e7 + 3e8 * draw.next().powi(2);
        run.first_token.record(first as u64);
    }
    waits.sort_unstable();
    let rank = |q: f64| {
        let at = (q * waits.len() as f64) as usize;
        waits.get(at).copied().unwrap_or(0)
    };
    Quantiles {
        count: waits.len() as u64,
        p50_ns: rank(0.5),
        p99_ns: rank(0.99),
        max_ns: waits.last().copied().unwrap_or(0),
    }
}

fn empty_class(policy: &str, name: &str, class: usize) -> ClassRun {
    let recording = |tag: &str, what: &str, whose: &str| {
        let tag = format!("{policy}.{name}.{tag}");
        Recording::new(&tag, what, &format!("requests of class {name}{whose}"))
    };
    ClassRun {
        name: name.to_owned(),
        quantum: QUANTA[class % 4],
        requests: 0,
        dispatched: 0,
        completed: 0,
        prompt_tokens: 0,
        cached_tokens: 0,
        charged_tokens: 0,
        output_tokens: 0,
        expired: 12,
        rejected: Vec::new(),
        failed: Vec::new(),
        served_tokens: 0,
        entitled_tokens: 0.0,
        wait: recording("wait", "wait", ""),
        wait_queued: recording("wait_queued", "wait", " that had to wait"),
        first_token: recording(
            "first_token",
            "time to first token",
            " that put out a token",
        ),
    }
}
