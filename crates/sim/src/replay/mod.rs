//! A recorded trace through the real arbiter onto modelled workers.
//!
//! Each row of the trace becomes one request: it arrives at the row's time divided by the speed,
//! names a family drawn by the families' shares, brings the row's prompt tokens (none of them
//! cached) and generates the row's output tokens. [`simulate`] plays them in virtual time, and a
//! [`ReplayReport`] says what became of each class's requests and whether the classes that had to
//! share got what their quanta promise.
//!
//! The report adds up or there is none: every row has exactly one fate, and the tokens that the
//! arbiter charged are the costs of the requests that ran.

mod families;
mod render;
mod simulation;
mod tally;
#[cfg(test)]
mod tests;

pub use families::{FamilyShare, equal_shares, known_names};
pub use simulation::{Arrival, Finish, Observer, Setup, SimulationError, simulate};
pub use tally::ClassTally;

use tollgate_arbiter::{Nanos, State};
use tollgate_policy::{Bucket, ClassPolicy, Profile, ProfileSpec};

use crate::report::seconds;
use crate::trace::{Trace, TraceRow};
use crate::worker::WorkerModel;
use families::Draws;
use tally::Tally;

/// What a replay is told beside its trace.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// How many modelled workers there are, at least 1.
    pub workers: u32,
    /// What each of them is like.
    pub model: WorkerModel,
    /// How much faster than recorded the requests arrive: finite, above 0.
    pub speed: f64,
    /// Seed of the families' draws and of the selector `power_of_two`.
    pub seed: u64,
    /// The families that requests name; at least one.
    pub families: Vec<FamilyShare>,
}

/// What became of a trace.
#[derive(Debug)]
pub struct ReplayReport {
    /// The policy's classes, in its order.
    pub classes: Vec<ClassTally>,
    /// Requests in the trace.
    pub requests: usize,
    /// Their prompt tokens.
    pub prompt_tokens: u64,
    /// Their output tokens.
    pub output_tokens: u64,
    /// When the last request arrived.
    pub last_arrival: Nanos,
    /// When the last token was out.
    pub finish: Nanos,
    /// Dispatches at which two or more classes were backlogged.
    pub contended: u64,
    options: ReplayOptions,
}

/// Why there is no report.
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
        seconds(Nanos::MAX)
    )]
    OutOfTime,
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

/// Plays `trace` under `profile`.
///
/// # Errors
/// Where the arbiter cannot hold it, the clock cannot, or the totals do not add up.
pub fn run(
    profile: &Profile,
    trace: &Trace,
    options: ReplayOptions,
) -> Result<ReplayReport, ReplayError> {
    let mut draws = Draws::new(&options.families, options.seed);
    let arrival = |row: &TraceRow| Arrival {
        at: at_speed(row.at, options.speed),
        family: draws.next_family(),
        prompt_tokens: row.prompt_tokens,
        output_tokens: row.output_tokens,
    };
    let arrivals: Vec<Arrival<'_>> = trace.rows.iter().map(arrival).collect();
    let setup = Setup {
        profile,
        seed: options.seed,
        model: options.model,
        workers: options.workers,
    };
    let mut tally = Tally::new(profile, arrivals.len());
    let finish = simulate(&setup, &arrivals, &mut tally)?;
    if finish.at == Nanos::MAX {
        return Err(ReplayError::OutOfTime);
    }
    balance(&tally, &arrivals, &finish.state).map_err(ReplayError::Unbalanced)?;
    Ok(ReplayReport {
        requests: arrivals.len(),
        prompt_tokens: arrivals
            .iter()
            .map(|row| u64::from(row.prompt_tokens))
            .sum(),
        output_tokens: arrivals
            .iter()
            .map(|row| u64::from(row.output_tokens))
            .sum(),
        last_arrival: arrivals.last().map_or(Nanos(0), |last| last.at),
        finish: finish.at,
        contended: tally.contended,
        classes: tally.classes,
        options,
    })
}

/// Recorded time to virtual time; saturates.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a time of up to 104 days is exact, and the cast of a float saturates"
)]
fn at_speed(at: Nanos, speed: f64) -> Nanos {
    Nanos((at.0 as f64 / speed).round() as u64)
}

/// Every request has one fate, nothing is left over, and the arbiter's account is ours.
fn balance(tally: &Tally, arrivals: &[Arrival<'_>], state: &State) -> Result<(), String> {
    let same = |what: &str, ours: u64, theirs: u64| {
        if ours == theirs {
            Ok(())
        } else {
            Err(format!("{what}: {ours} against {theirs}"))
        }
    };
    let sum = |of: fn(&ClassTally) -> u64| tally.classes.iter().map(of).sum::<u64>();
    same(
        "requests without exactly one fate",
        tally.unsettled() as u64,
        0,
    )?;
    same(
        "rows and requests with a fate",
        arrivals.len() as u64,
        sum(|class| class.requests),
    )?;
    same(
        "requests that wait or run at the end",
        state.waiting + state.outstanding,
        0,
    )?;
    same(
        "dispatched and completed",
        sum(|class| class.dispatched),
        sum(|class| class.completed),
    )?;
    let mut costs = vec![0; tally.classes.len()];
    for (request, class) in tally.ran() {
        costs[class] += u64::from(arrivals[request].prompt_tokens.max(1));
    }
    for ((ours, theirs), costs) in tally.classes.iter().zip(&state.classes).zip(costs) {
        let name = &ours.name;
        let counters = &theirs.counters;
        let of_class = |what: &str| format!("{what} of class {name}");
        same(
            &of_class("dispatched"),
            ours.dispatched,
            counters.dispatched,
        )?;
        same(
            &of_class("tokens charged"),
            ours.charged_tokens,
            counters.charged_tokens,
        )?;
        same(
            &of_class("tokens charged and costs"),
            ours.charged_tokens,
            costs,
        )?;
        same(
            &of_class("rejected"),
            ours.rejected,
            counters.rejected.iter().sum(),
        )?;
        same(&of_class("expired"), ours.expired, counters.expired)?;
        same(
            &of_class("failed"),
            ours.failed,
            counters.failed.iter().sum(),
        )?;
    }
    Ok(())
}
