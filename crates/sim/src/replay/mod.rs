//! A recorded trace through the real arbiter onto modelled workers.
//!
//! Each row of the trace becomes one request: it arrives at the row's time divided by the speed,
//! names a family that rules or the row itself give it, brings the row's prompt tokens and generates
//! its output tokens. What of its prompt is cached follows from the blocks that the row names and the
//! modelled caches of the workers, or is the row's own number. [`run`] plays them in virtual time and
//! says what became of each class's requests, what the workers did, and whether the classes that had
//! to share got what their quanta promise.
//!
//! The account adds up or there is none: every row has exactly one fate, the tokens that the arbiter
//! charged are the costs of the requests that ran, and no worker did more than time allows.

mod arrivals;
mod families;
mod recorder;
mod simulation;
mod stopwatch;
mod tally;
#[cfg(test)]
mod tests;
mod timeline;

pub use families::{FamilyRule, Rule, equal_shares, known_names};
pub use simulation::{Arrival, Finish, Live, Observer, Setup, SimulationError, simulate};

use tollgate_arbiter::Nanos;
use tollgate_policy::{Bucket, ClassPolicy, Profile, ProfileSpec};
use tollgate_report::Fact;
use tollgate_report::replay::{ReplayRun, Totals};
use tollgate_report::text::seconds;

use self::arrivals::Arrivals;
use self::recorder::Recorder;
use self::tally::Tally;
use crate::trace::Trace;
use crate::trace::native::Record;
use crate::worker::WorkerModel;

/// What a replay is told beside its trace and policy.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// How many modelled workers there are, at least 1.
    pub workers: u32,
    /// What each of them is like.
    pub model: WorkerModel,
    /// How much faster than recorded the requests arrive: finite, above 0.
    pub speed: f64,
    /// How often the trace is played, one round after the other.
    pub repeat: u64,
    /// Seed of the families' draws and of the selector `power_of_two`.
    pub seed: u64,
    /// Which families requests name; without any the policy's default.
    pub families: Vec<FamilyRule>,
    /// Rows that name a family themselves keep it.
    pub keeps_families: bool,
    /// Shares go by [`TraceRow::key`](crate::trace::TraceRow::key) instead of by chance.
    pub is_by_key: bool,
    /// Nanoseconds on a clock that runs, to measure what the arbiter takes.
    pub clock: Option<fn() -> u64>,
}

/// What became of a trace.
#[derive(Debug)]
pub struct Replay {
    /// The account, to be told.
    pub run: ReplayRun,
    /// How many requests arrived.
    pub requests: u64,
    /// About how long the arbiter's calls took by [`ReplayOptions::clock`], in nanoseconds.
    pub arbiter_ns: u64,
}

/// Why there is no account.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The simulation cannot run.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    /// The clock reached its end, and what came after it cannot be told apart.
    #[error(
        "virtual time ran out at {}, the latest that 64 bits of nanoseconds hold: too long or slow a \
         trace, or prompts too large",
        seconds(u64::MAX)
    )]
    OutOfTime,
    /// More rows than can be counted.
    #[error("{rows} rows {repeat} times are more than 64 bits count")]
    TooOften {
        /// Rows of the trace.
        rows: u64,
        /// How often it was to be played.
        repeat: u64,
    },
    /// The totals do not add up, which is a fault of Tollgate.
    #[error("the totals do not add up: {0}")]
    Unbalanced(String),
}

/// The policy of a replay that is given none: `premium` and `regular` at 4 to 1, with a threshold
/// above which a worker is left alone.
///
/// # Panics
/// Never: the policy is valid.
#[must_use]
pub fn default_policy() -> Profile {
    let class = |name: &str, quantum: u64| ClassPolicy {
        prefill_busy_threshold: Some(4_096),
        ..ClassPolicy::matrix(name, name, 0, quantum)
    };
    let classes = vec![class("premium", 4_096), class("regular", 1_024)];
    Profile::build(ProfileSpec::new(
        "regular",
        vec![Bucket::new(0, "all")],
        classes,
    ))
    .expect("the built-in policy is valid")
}

/// Plays `trace` under `profile`, which the account calls `policy`. Now and then `progress` hears how many
/// requests have arrived.
///
/// # Errors
/// Where the arbiter cannot hold it, the clock cannot, or the totals do not add up.
pub fn run(
    policy: &str,
    profile: &Profile,
    trace: &Trace,
    options: &ReplayOptions,
    progress: &mut dyn FnMut(u64),
) -> Result<Replay, ReplayError> {
    let mut tally = Tally::new(profile, options.workers);
    let finish = play(profile, trace, options, progress, &mut tally)?;
    let account = tally.balance(&finish.state);
    account.map_err(ReplayError::Unbalanced)?;
    tally.capacity(finish.at).map_err(ReplayError::Unbalanced)?;
    Ok(Replay {
        requests: finish.arrived,
        arbiter_ns: finish.arbiter_ns,
        run: told(policy, tally, &finish, options),
    })
}

/// Plays `trace` under `profile` and says what arrived, as a trace that can be replayed: with the
/// families that were given, and what was found cached.
///
/// # Errors
/// As [`run`].
pub fn record(
    profile: &Profile,
    trace: &Trace,
    options: &ReplayOptions,
) -> Result<Vec<Record>, ReplayError> {
    let mut recorder = Recorder::default();
    play(profile, trace, options, &mut |_| {}, &mut recorder)?;
    Ok(recorder.records)
}

fn play(
    profile: &Profile,
    trace: &Trace,
    options: &ReplayOptions,
    progress: &mut dyn FnMut(u64),
    observer: &mut impl Observer,
) -> Result<Finish, ReplayError> {
    let setup = Setup {
        profile,
        seed: options.seed,
        model: options.model,
        workers: options.workers,
        clock: options.clock,
    };
    let count = Arrivals::count(trace, options)?;
    let arrivals = Arrivals::new(trace, options, progress);
    let finish = simulate(&setup, arrivals, count, observer)?;
    if finish.at == Nanos::MAX {
        return Err(ReplayError::OutOfTime);
    }
    Ok(finish)
}

/// What a tally comes to.
fn told(policy: &str, tally: Tally, finish: &Finish, options: &ReplayOptions) -> ReplayRun {
    let Tally {
        classes,
        workers,
        timeline,
        contended,
        arrived,
        last_arrival,
    } = tally;
    let classes: Vec<_> = classes.into_iter().map(tally::ClassTally::finish).collect();
    let workers: Vec<_> = (workers.into_iter().zip(&finish.evicted_blocks))
        .map(|(worker, &evicted)| worker.finish(evicted))
        .collect();
    let names = classes.iter().map(|class| class.name.as_str());
    let timeline = timeline.tracks(names, workers.iter().map(|worker| worker.name.clone()));
    let sum = |of: fn(&tollgate_report::replay::ClassRun) -> u64| classes.iter().map(of).sum();
    let totals = Totals {
        requests: arrived,
        completed: sum(|class| class.completed),
        prompt_tokens: sum(|class| class.prompt_tokens),
        cached_tokens: sum(|class| class.cached_tokens),
        charged_tokens: sum(|class| class.charged_tokens),
        output_tokens: sum(|class| class.output_tokens),
        last_arrival_ns: last_arrival.0,
        finish_ns: finish.at.0,
        contended_dispatches: contended,
    };
    let fates: u64 = classes.iter().map(|class| class.requests).sum();
    let notes = vec![
        format!(
            "Balance: {arrived} rows, {fates} outcomes; {} tokens charged, the costs of the requests \
             that ran.",
            totals.charged_tokens
        ),
        format!(
            "Shares are measured over the {contended} dispatches of requests that had waited while \
             others of two or more classes had as well; a class is entitled to its quantum's part of \
             the quanta of the classes that waited. Credit ends when a class runs empty, so shares settle where they queue \
             throughout: raise the speed to see it."
        ),
    ];
    ReplayRun {
        policy: policy.to_owned(),
        settings: settings(options),
        totals,
        classes,
        workers,
        timeline,
        notes,
    }
}

fn settings(options: &ReplayOptions) -> Vec<Fact> {
    let model = &options.model;
    let number = |number: Option<u64>| number.map_or("unlimited".to_owned(), |n| n.to_string());
    let families = options.families.iter();
    let families = families.map(|family| format!("{}={}", family.name, family.rule));
    let families: Vec<String> = families.collect();
    let facts = [
        ("speed", options.speed.to_string()),
        ("rounds", options.repeat.to_string()),
        ("seed", options.seed.to_string()),
        ("families", families.join(", ")),
        ("workers", options.workers.to_string()),
        ("sequences a worker", model.sequences.to_string()),
        ("batched tokens", model.max_batched_tokens.to_string()),
        ("KV tokens", number(model.kv_tokens)),
        ("cache blocks of 512", model.cache_blocks.to_string()),
        ("prefill of T new tokens", model.prefill.to_string()),
        ("decode step", seconds(model.decode_step.0)),
    ];
    let fact = |(name, value): (&str, String)| Fact {
        name: name.to_owned(),
        value,
    };
    facts.map(fact).into()
}
