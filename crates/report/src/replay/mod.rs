//! The report of a replay: one trace, replayed under one policy or several.
//!
//! The caller fills in a [`ReplayReport`]; it is told as text, as JSON, and as one HTML page. Within a
//! run, the tracks of the timeline belong to the classes and workers of the same name. Vectors of
//! unequal length are shown as far as they go.
//!
//! # JSON
//! [`ReplayReport::json`] gives one object. Times are whole nanoseconds of the replay's own clock and
//! end in `_ns`; numbers of tokens end in `_tokens`; a number that is not finite is `null`. Fields are
//! added without notice; whatever else changes changes the number in `schema`.
//!
//! | Field | Unit | Meaning |
//! |---|---|---|
//! | `schema` | text | `tollgate.replay/1`, always first |
//! | `title`, `command` | text | what was replayed, and the command that did it |
//! | `trace[]` | `name`, `value` | facts about the trace |
//! | `runs[]` | object | one for each policy |
//!
//! A run:
//!
//! | Field | Unit | Meaning |
//! |---|---|---|
//! | `policy` | text | the policy's name |
//! | `settings[]` | `name`, `value` | what else the run was made with |
//! | `totals.requests`, `.completed` | requests | that arrived; that ran to their end |
//! | `totals.prompt_tokens`, `.output_tokens` | tokens | of all requests |
//! | `totals.cached_tokens`, `.charged_tokens` | tokens | found in caches; charged to the classes |
//! | `totals.last_arrival_ns`, `.finish_ns` | ns | when the last request arrived; when the last token came out |
//! | `totals.contended_dispatches` | dispatches | before which two classes or more waited |
//! | `classes[]`, `workers[]`, `timeline` | object | below |
//! | `notes[]` | text | what a reader has to know |
//!
//! A class of a run:
//!
//! | Field | Unit | Meaning |
//! |---|---|---|
//! | `name` | text | the class |
//! | `quantum_tokens` | tokens | granted each time its turn opens |
//! | `requests`, `dispatched`, `completed` | requests | that arrived; that went to a worker; that ran to their end |
//! | `prompt_tokens`, `cached_tokens`, `charged_tokens`, `output_tokens` | tokens | as in `totals` |
//! | `expired` | requests | whose time in the queue ran out |
//! | `rejected[]`, `failed[]` | `code`, `count` | requests refused and failed, by code |
//! | `served_tokens`, `entitled_tokens` | tokens | served, and due by its quantum, while it and another class were backlogged |
//! | `wait` | recording | arrival to dispatch, of all that were dispatched |
//! | `wait_queued` | recording | the same, of those that had to wait |
//! | `first_token` | recording | arrival to the first token put out |
//!
//! A recording: `tag`, `name`, `population` (text), `count`, `clamped` (durations; those above 2^46 ns,
//! which count at that top in the quantiles), `min_ns`, `mean_ns`, `p50_ns`, `p90_ns`, `p99_ns`,
//! `p999_ns`, `max_ns` (`null` where nothing was recorded).
//!
//! A worker of a run:
//!
//! | Field | Unit | Meaning |
//! |---|---|---|
//! | `name` | text | the worker |
//! | `requests` | requests | that ran on it |
//! | `prefill_tokens`, `cached_tokens`, `output_tokens` | tokens | computed for prompts; found in its cache; put out |
//! | `busy_ns`, `prefill_ns` | ns | with a sequence or more on it; in which it computed prompts |
//! | `peak_sequences` | sequences | the most at a time |
//! | `evicted_blocks` | blocks | driven out of its cache |
//!
//! The timeline, cut into steps of equal length, with an entry for each step in every list:
//!
//! | Field | Unit | Meaning |
//! |---|---|---|
//! | `step_ns` | ns | how long a step is |
//! | `classes[].name`, `workers[].name` | text | whose track it is |
//! | `classes[].waiting_max[]` | requests | the most that waited at a time |
//! | `classes[].served_tokens[]`, `.entitled_tokens[]` | tokens | as above, of the step |
//! | `classes[].wait[]` | `count`, `p50_ns`, `p99_ns`, `max_ns` | waits of those dispatched in the step; all 0 if none was |
//! | `workers[].busy[]` | 0 to 1 | the part of the step in which it was busy |
//! | `workers[].prefill_tokens[]` | tokens | computed for prompts in the step |

mod html;
mod json;
mod plots;
mod summary;
mod tables;

use serde::Serialize;

use crate::recording::{self, Recording};
use crate::{Fact, Quantiles};

/// A trace, and what became of it under each policy.
#[derive(Clone, Debug, Serialize)]
pub struct ReplayReport {
    /// What the page is headed with.
    pub title: String,
    /// The command that made the report.
    pub command: String,
    /// What the trace is.
    pub trace: Vec<Fact>,
    /// One run for each policy, all of the same trace.
    pub runs: Vec<ReplayRun>,
}

impl ReplayReport {
    /// Every recording with the policy of its run, in the order of runs and classes.
    pub fn recordings(&self) -> impl Iterator<Item = (&str, &Recording)> {
        self.runs.iter().flat_map(|run| {
            run.classes.iter().flat_map(|class| {
                [&class.wait, &class.wait_queued, &class.first_token]
                    .map(|recording| (run.policy.as_str(), recording))
            })
        })
    }
}

/// What became of the trace under one policy.
#[derive(Clone, Debug, Serialize)]
pub struct ReplayRun {
    /// The policy's name, unique in the report.
    pub policy: String,
    /// What else the run was made with.
    pub settings: Vec<Fact>,
    /// Sums over all classes.
    pub totals: Totals,
    /// The classes, in the policy's order.
    pub classes: Vec<ClassRun>,
    /// The workers.
    pub workers: Vec<WorkerRun>,
    /// How the run went over time.
    pub timeline: Timeline,
    /// What a reader has to know, a sentence or more each.
    pub notes: Vec<String>,
}

/// Sums over the classes of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Totals {
    /// Requests that arrived.
    pub requests: u64,
    /// Requests that ran to their end.
    pub completed: u64,
    /// Tokens of all prompts.
    pub prompt_tokens: u64,
    /// Prompt tokens that were found in caches.
    pub cached_tokens: u64,
    /// Tokens that the classes were charged for.
    pub charged_tokens: u64,
    /// Tokens put out.
    pub output_tokens: u64,
    /// When the last request arrived, in nanoseconds from the start.
    pub last_arrival_ns: u64,
    /// When the last token came out, in nanoseconds from the start.
    pub finish_ns: u64,
    /// Dispatches before which two classes or more waited.
    pub contended_dispatches: u64,
}

/// What became of one class in one run.
#[derive(Clone, Debug, Serialize)]
pub struct ClassRun {
    /// The class, unique in the run.
    pub name: String,
    /// Tokens that it is granted each time its turn opens.
    #[serde(rename = "quantum_tokens")]
    pub quantum: u64,
    /// Requests that arrived.
    pub requests: u64,
    /// Requests that went to a worker.
    pub dispatched: u64,
    /// Requests that ran to their end.
    pub completed: u64,
    /// Tokens of all prompts.
    pub prompt_tokens: u64,
    /// Prompt tokens that were found in caches.
    pub cached_tokens: u64,
    /// Tokens that it was charged for.
    pub charged_tokens: u64,
    /// Tokens put out.
    pub output_tokens: u64,
    /// Requests whose time in the queue ran out.
    pub expired: u64,
    /// Requests that were refused, by code; codes with 0 are left out.
    pub rejected: Vec<Count>,
    /// Requests that failed, by code; codes with 0 are left out.
    pub failed: Vec<Count>,
    /// Tokens served while it and another class were backlogged.
    pub served_tokens: u64,
    /// Tokens that its quantum entitled it to in that time.
    pub entitled_tokens: f64,
    /// Arrival to dispatch, of all that were dispatched.
    #[serde(serialize_with = "recording::summary")]
    pub wait: Recording,
    /// The same, of those alone that had to wait.
    #[serde(serialize_with = "recording::summary")]
    pub wait_queued: Recording,
    /// Arrival to the first token put out.
    #[serde(serialize_with = "recording::summary")]
    pub first_token: Recording,
}

/// How many there were with one code.
#[derive(Clone, Debug, Serialize)]
pub struct Count {
    /// The code of an outcome.
    pub code: String,
    /// How many requests had it.
    pub count: u64,
}

/// What one worker did in one run.
#[derive(Clone, Debug, Serialize)]
pub struct WorkerRun {
    /// The worker, unique in the run.
    pub name: String,
    /// Requests that ran on it.
    pub requests: u64,
    /// Prompt tokens that it computed.
    pub prefill_tokens: u64,
    /// Prompt tokens that it found in its cache.
    pub cached_tokens: u64,
    /// Tokens that it put out.
    pub output_tokens: u64,
    /// How long it had a sequence or more, in nanoseconds.
    pub busy_ns: u64,
    /// How long it computed prompts, in nanoseconds.
    pub prefill_ns: u64,
    /// The most sequences that it had at a time.
    pub peak_sequences: u32,
    /// Blocks that were driven out of its cache.
    pub evicted_blocks: u64,
}

/// A run over time, cut into steps. All vectors in it have an entry for each step.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Timeline {
    /// How long a step is, in nanoseconds.
    pub step_ns: u64,
    /// A track for each class, in the order of the run's classes.
    pub classes: Vec<ClassTrack>,
    /// A track for each worker, in the order of the run's workers.
    pub workers: Vec<WorkerTrack>,
}

/// One class over time.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ClassTrack {
    /// The class.
    pub name: String,
    /// The most requests that waited at a time.
    pub waiting_max: Vec<u64>,
    /// Tokens served while it and another class were backlogged.
    pub served_tokens: Vec<u64>,
    /// Tokens that its quantum entitled it to in that time.
    pub entitled_tokens: Vec<f64>,
    /// Waits of the requests that were dispatched.
    pub wait: Vec<Quantiles>,
}

/// One worker over time.
#[derive(Clone, Debug, Default, Serialize)]
pub struct WorkerTrack {
    /// The worker.
    pub name: String,
    /// The part of the step in which it was busy, 0 to 1.
    pub busy: Vec<f64>,
    /// Prompt tokens that it computed.
    pub prefill_tokens: Vec<u64>,
}
