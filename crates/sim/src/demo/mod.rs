//! The premium and regular experiment: what quanta do, on one small worker.
//!
//! One modelled worker with four sequences; 320 requests of each of two classes, all of 512 prompt
//! tokens and one output token, all waiting at time 0. A threshold of 1,536 tokens lets four of them
//! through to the worker at a time (S5.1). Each [`Arm`] runs it with other quanta or another
//! arbitration, and counts who was among the first 320 that completed.

mod render;
mod traffic;

pub use traffic::Traffic;

use tollgate_arbiter::{Dispatch, Nanos};
use tollgate_policy::{Arbitration, Bucket, ClassPolicy, Profile, ProfileSpec};
use tollgate_report::Recording;

use crate::replay::{Arrival, Live, Observer, Setup, SimulationError, simulate};
use crate::worker::WorkerModel;

/// Requests of each class.
pub const REQUESTS_EACH: u32 = 320;
/// Prompt tokens of each request.
pub const PROMPT_TOKENS: u32 = 512;
/// The busy threshold of both classes, in tokens.
pub const THRESHOLD: u64 = 1_536;
/// Sequences of the worker.
pub const SEQUENCES: u32 = 4;

const CLASSES: [&str; 2] = ["premium", "regular"];

/// One run of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arm {
    /// The quanta of premium and regular, in uncached tokens.
    pub quanta: [u64; 2],
    /// How the class is chosen.
    pub arbitration: Arbitration,
}

/// What came of an [`Arm`].
#[derive(Clone, Debug)]
pub struct ArmResult {
    /// Which it was.
    pub arm: Arm,
    /// Of the first 320 completions, how many are premium and how many regular.
    pub first: [u64; 2],
    /// Regular requests that were not complete when the last premium one was.
    pub regular_left: u64,
    /// How long the requests of each class waited for their dispatch.
    pub waits: [Recording; 2],
}

/// All arms, as the demo shows them; its `Display` is a text for a newcomer.
#[derive(Clone, Debug)]
pub struct Demo {
    /// In the order of [`arms`].
    pub results: Vec<ArmResult>,
}

/// The arms of the demo: four pairs of quanta, each in both arbitrations.
#[must_use]
pub fn arms() -> Vec<Arm> {
    let quanta = [[512, 512], [512, 128], [2_048, 512], [5_120, 1_280]];
    let modes = [Arbitration::Exact, Arbitration::Page];
    let arm = |arbitration| {
        quanta.map(|quanta| Arm {
            quanta,
            arbitration,
        })
    };
    modes.into_iter().flat_map(arm).collect()
}

impl Demo {
    /// Runs every arm; takes well under a second.
    ///
    /// # Errors
    /// None that a machine with a few megabytes of memory would see.
    pub fn run() -> Result<Self, SimulationError> {
        let results = arms().into_iter().map(run_arm).collect::<Result<_, _>>()?;
        Ok(Self { results })
    }
}

/// Runs one arm.
///
/// # Errors
/// As [`Demo::run`].
///
/// # Panics
/// If a quantum is outside 1 to 2^63.
///
/// # Examples
/// ```
/// use tollgate_policy::Arbitration;
/// use tollgate_sim::demo::{Arm, run_arm};
///
/// let arm = Arm { quanta: [2_048, 512], arbitration: Arbitration::Exact };
/// assert_eq!(run_arm(arm)?.first, [256, 64]);
/// # Ok::<(), tollgate_sim::replay::SimulationError>(())
/// ```
pub fn run_arm(arm: Arm) -> Result<ArmResult, SimulationError> {
    let profile = profile(arm);
    let families = CLASSES.into_iter();
    let families = families.flat_map(|family| (0..REQUESTS_EACH).map(move |_| family));
    let arrivals = families.map(|family| Arrival {
        family: Some(family),
        prompt_tokens: PROMPT_TOKENS,
        output_tokens: 1,
        ..Arrival::default()
    });
    let setup = Setup {
        profile: &profile,
        seed: 0,
        model: WorkerModel {
            sequences: SEQUENCES,
            ..WorkerModel::default()
        },
        workers: 1,
        clock: None,
    };
    let mut record = Record::new();
    simulate(&setup, arrivals, u64::from(2 * REQUESTS_EACH), &mut record)?;
    Ok(record.into_result(arm))
}

fn profile(arm: Arm) -> Profile {
    let [premium, regular] = arm.quanta;
    let class = |name: &str, quantum: u64| ClassPolicy {
        prefill_busy_threshold: Some(THRESHOLD),
        ..ClassPolicy::matrix(name, name, 0, quantum)
    };
    let classes = vec![class(CLASSES[0], premium), class(CLASSES[1], regular)];
    Profile::build(ProfileSpec::new(
        CLASSES[1],
        vec![Bucket::new(0, "all")],
        classes,
    ))
    .expect("two classes with a quantum each are a valid policy")
    .with_arbitration(arm.arbitration)
}

/// Who completed, in order, and who waited how long.
#[derive(Debug)]
struct Record {
    /// By request: 0 premium, 1 regular.
    completed: Vec<usize>,
    waits: [Recording; 2],
}

impl Record {
    fn new() -> Self {
        Self {
            completed: Vec::new(),
            waits: CLASSES.map(|class| Recording::new(class, "wait", class)),
        }
    }

    fn into_result(self, arm: Arm) -> ArmResult {
        let count = |completed: &[usize], class: usize| {
            completed.iter().filter(|&&of| of == class).count() as u64
        };
        let first = &self.completed[..REQUESTS_EACH as usize];
        let premium_ends = self.completed.iter().rposition(|&of| of == 0).unwrap_or(0);
        ArmResult {
            arm,
            first: [count(first, 0), count(first, 1)],
            regular_left: count(&self.completed[premium_ends..], 1),
            waits: self.waits,
        }
    }
}

impl Observer for Record {
    fn dispatched(&mut self, request: &Live<'_>, dispatch: &Dispatch<u32>) {
        let wait = dispatch.dispatched_at.saturating_sub(dispatch.submitted_at);
        self.waits[usize::from(request.class.0)].record(wait.0);
    }

    fn completed(&mut self, request: &Live<'_>, _: Nanos) {
        self.completed.push(usize::from(request.class.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(quanta: [u64; 2], arbitration: Arbitration) -> [u64; 2] {
        run_arm(Arm {
            quanta,
            arbitration,
        })
        .expect("it fits")
        .first
    }

    #[test]
    fn s6_9_the_first_320_are_shared_by_the_quanta() {
        for (quanta, shares) in [
            ([512, 512], [160, 160]),
            ([512, 128], [256, 64]),
            ([2_048, 512], [256, 64]),
            ([5_120, 1_280], [258, 62]),
        ] {
            assert_eq!(first(quanta, Arbitration::Exact), shares, "{quanta:?}");
        }
    }

    #[test]
    fn regular_ends_what_premium_leaves() {
        let arm = Arm {
            quanta: [2_048, 512],
            arbitration: Arbitration::Exact,
        };
        let result = run_arm(arm).expect("it fits");
        // P P P P R, repeating: 79 regular ones are through when the 320th premium one is.
        assert_eq!(result.regular_left, 320 - 79);
    }
}
