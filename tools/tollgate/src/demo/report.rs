//! The live demo as a run of a report.

use std::time::Duration;

use tollgate_report::replay::{
    ClassRun, ClassTrack, ReplayRun, Timeline, Totals, WorkerRun, WorkerTrack,
};
use tollgate_report::{Fact, Quantiles, Recording};
use tollgate_sim::demo::{PROMPT_TOKENS, REQUESTS_EACH, SEQUENCES, THRESHOLD};

use super::arm::{CLASSES, Outcome, SPEED};
use super::client::Answer;

/// The length of a step of the timeline.
const STEP: Duration = Duration::from_millis(100);
const TOKENS: u64 = PROMPT_TOKENS as u64;
const WORKER: &str = "worker 1";

/// A dispatch, as it is seen from the clients' side.
#[derive(Clone, Copy)]
struct Dispatched {
    at: Duration,
    class: usize,
    wait: Duration,
    /// Both classes waited when it was decided.
    is_contended: bool,
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// How long the requests of a class waited.
pub(super) fn waits(outcome: &Outcome, class: usize) -> Recording {
    recorded(outcome, class, "wait", |answer| answer.wait)
}

fn recorded(
    outcome: &Outcome,
    class: usize,
    name: &str,
    time: impl Fn(&Answer) -> Duration,
) -> Recording {
    let mut recording = Recording::new(CLASSES[class], name, CLASSES[class]);
    for answer in outcome
        .answers
        .iter()
        .filter(|answer| answer.class == class)
    {
        recording.record(nanos(time(answer)));
    }
    recording
}

/// What came of one arm.
pub(super) fn run(outcome: &Outcome) -> ReplayRun {
    let dispatches = dispatches(outcome);
    let fact = |name: &str, value: String| Fact {
        name: name.to_owned(),
        value,
    };
    let requests = outcome.answers.len() as u64;
    ReplayRun {
        policy: outcome.arm.to_string(),
        settings: vec![
            fact("sequences", SEQUENCES.to_string()),
            fact("prefill_busy_threshold", THRESHOLD.to_string()),
            fact("speed", SPEED.to_string()),
        ],
        totals: Totals {
            requests,
            completed: requests,
            prompt_tokens: requests * TOKENS,
            cached_tokens: 0,
            charged_tokens: requests * TOKENS,
            output_tokens: requests,
            last_arrival_ns: outcome
                .answers
                .iter()
                .map(|answer| nanos(answer.sent))
                .max()
                .unwrap_or(0),
            finish_ns: nanos(outcome.duration),
            contended_dispatches: dispatches.iter().filter(|one| one.is_contended).count() as u64,
        },
        classes: (0..2)
            .map(|class| class_run(outcome, &dispatches, class))
            .collect(),
        workers: vec![worker_run(outcome)],
        timeline: timeline(outcome, &dispatches),
        notes: vec![format!(
            "Live over loopback connections: times are of this machine, the worker is a model that runs {SPEED} times \
             as fast as a real one."
        )],
    }
}

/// The dispatches in their order.
fn dispatches(outcome: &Outcome) -> Vec<Dispatched> {
    let mut dispatches: Vec<_> = outcome
        .answers
        .iter()
        .map(|answer| Dispatched {
            at: answer.sent + answer.wait,
            class: answer.class,
            wait: answer.wait,
            is_contended: false,
        })
        .collect();
    dispatches.sort_by_key(|dispatch| dispatch.at);
    let mut left = [u64::from(REQUESTS_EACH); 2];
    for dispatch in &mut dispatches {
        dispatch.is_contended = left.iter().all(|left| *left > 0);
        left[dispatch.class] = left[dispatch.class].saturating_sub(1);
    }
    dispatches
}

/// Tokens that a class was served in contended dispatches, and those it was entitled to.
fn shares<'d>(
    outcome: &Outcome,
    class: usize,
    dispatches: impl Iterator<Item = &'d Dispatched>,
) -> (u64, f64) {
    let (mut served, mut all) = (0, 0);
    for dispatch in dispatches.filter(|dispatch| dispatch.is_contended) {
        all += TOKENS;
        served += if dispatch.class == class { TOKENS } else { 0 };
    }
    let quanta = outcome.arm.quanta;
    let part = to_float(quanta[class]) / to_float(quanta[0] + quanta[1]);
    (served, to_float(all) * part)
}

#[expect(clippy::cast_precision_loss, reason = "shares are told to some digits")]
const fn to_float(tokens: u64) -> f64 {
    tokens as f64
}

fn class_run(outcome: &Outcome, dispatches: &[Dispatched], class: usize) -> ClassRun {
    let requests = u64::from(REQUESTS_EACH);
    let (served_tokens, entitled_tokens) = shares(outcome, class, dispatches.iter());
    let wait = waits(outcome, class);
    ClassRun {
        name: CLASSES[class].to_owned(),
        quantum: outcome.arm.quanta[class],
        requests,
        dispatched: requests,
        completed: requests,
        prompt_tokens: requests * TOKENS,
        cached_tokens: 0,
        charged_tokens: requests * TOKENS,
        output_tokens: requests,
        expired: 0,
        rejected: Vec::new(),
        failed: Vec::new(),
        served_tokens,
        entitled_tokens,
        wait_queued: wait.clone(),
        wait,
        first_token: recorded(outcome, class, "first token", |answer| {
            answer.ended - answer.sent
        }),
    }
}

fn quantiles(recording: &Recording) -> Quantiles {
    Quantiles {
        count: recording.count(),
        p50_ns: recording.quantile(0.5).unwrap_or(0),
        p99_ns: recording.quantile(0.99).unwrap_or(0),
        max_ns: recording.max().unwrap_or(0),
    }
}

/// How much of a time some request was on the worker, as it is seen from the clients' side.
fn busy(outcome: &Outcome, from: Duration, to: Duration) -> Duration {
    let mut spans: Vec<_> = outcome
        .answers
        .iter()
        .map(|answer| ((answer.sent + answer.wait).max(from), answer.ended.min(to)))
        .filter(|(begin, end)| begin < end)
        .collect();
    spans.sort_unstable();
    let (mut busy, mut until) = (Duration::ZERO, from);
    for (begin, end) in spans {
        busy += end.saturating_sub(begin.max(until));
        until = until.max(end);
    }
    busy
}

fn worker_run(outcome: &Outcome) -> WorkerRun {
    let busy = nanos(busy(outcome, Duration::ZERO, outcome.duration));
    WorkerRun {
        name: WORKER.to_owned(),
        requests: outcome.answers.len() as u64,
        prefill_tokens: outcome.worker_tokens,
        cached_tokens: 0,
        output_tokens: outcome.answers.len() as u64,
        busy_ns: busy,
        // An answer is one token, which comes with the prefill.
        prefill_ns: busy,
        peak_sequences: outcome.worker_peak,
        evicted_blocks: 0,
    }
}

fn timeline(outcome: &Outcome, dispatches: &[Dispatched]) -> Timeline {
    let steps = outcome.duration.as_nanos().div_ceil(STEP.as_nanos()).max(1);
    let steps = u32::try_from(steps).unwrap_or(u32::MAX);
    let within = |at: Duration, step: u32| at >= STEP * step && at < STEP * (step + 1);
    let class_track = |class: usize| {
        let mut track = ClassTrack {
            name: CLASSES[class].to_owned(),
            ..ClassTrack::default()
        };
        for step in 0..steps {
            let begin = STEP * step;
            let waited = |answer: &&Answer| {
                answer.class == class && answer.sent <= begin && answer.sent + answer.wait > begin
            };
            track
                .waiting_max
                .push(outcome.answers.iter().filter(waited).count() as u64);
            let in_step = || dispatches.iter().filter(|one| within(one.at, step));
            let (served, entitled) = shares(outcome, class, in_step());
            track.served_tokens.push(served);
            track.entitled_tokens.push(entitled);
            let mut recording = Recording::new(CLASSES[class], "wait", "step");
            for dispatch in in_step().filter(|one| one.class == class) {
                recording.record(nanos(dispatch.wait));
            }
            track.wait.push(quantiles(&recording));
        }
        track
    };
    let worker_track = WorkerTrack {
        name: WORKER.to_owned(),
        busy: (0..steps)
            .map(|step| {
                let begin = STEP * step;
                let end = (begin + STEP).min(outcome.duration);
                let length = end.saturating_sub(begin).as_secs_f64();
                busy(outcome, begin, end).as_secs_f64() / length.max(f64::MIN_POSITIVE)
            })
            .collect(),
        prefill_tokens: (0..steps)
            .map(|step| {
                dispatches.iter().filter(|one| within(one.at, step)).count() as u64 * TOKENS
            })
            .collect(),
    };
    Timeline {
        step_ns: nanos(STEP),
        classes: vec![class_track(0), class_track(1)],
        workers: vec![worker_track],
    }
}
