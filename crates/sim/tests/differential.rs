//! The arbiter against the oracle: random operations, every event and the whole state compared after
//! every one.
//!
//! `TOLLGATE_DIFFERENTIAL_OPS` sets how many operations, 750,000 unless set;
//! `TOLLGATE_DIFFERENTIAL_SEED` where to start.

#![expect(
    clippy::print_stdout,
    reason = "the table of branches is the test's report"
)]

use tollgate_sim::differential::{Episode, Pair, Step, shrink};
use tollgate_sim::oracle::{Branch, Coverage, Mutation, Oracle};
use tollgate_sim::scenario::{ArbiterMachine, MachineOptions};

const OPS: usize = 750_000;
const OPS_PER_EPISODE: usize = 1_000;
/// How often each branch of the rules must at least be taken in a run of [`OPS`].
const HITS_MIN: u64 = 1_000;

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name} must be a whole number, not {text:?}"))
    })
}

fn arbiter(episode: &Episode) -> ArbiterMachine {
    let options = MachineOptions {
        seed: episode.selector_seed(),
        slots: 2_048,
        endpoints: 64,
        egress_groups: episode.egress_groups,
        ..MachineOptions::default()
    };
    ArbiterMachine::new(&episode.profile, options).expect("the capacities suffice")
}

fn pair(episode: &Episode) -> Pair<ArbiterMachine, Oracle> {
    let reference = Oracle::new(&episode.profile, episode.selector_seed())
        .with_egress_groups(episode.egress_groups);
    Pair {
        subject: arbiter(episode),
        reference,
    }
}

#[test]
fn arbiter_and_oracle_agree_on_random_operations() {
    let ops = setting("TOLLGATE_DIFFERENTIAL_OPS", OPS);
    let first = setting("TOLLGATE_DIFFERENTIAL_SEED", 1) as u64;
    let coverage = Coverage::default();
    for seed in first..first + ops.div_ceil(OPS_PER_EPISODE) as u64 {
        let mut episode = Episode::new(seed);
        let mut pair = pair(&episode);
        let mut steps = Vec::with_capacity(OPS_PER_EPISODE);
        for at in 0..OPS_PER_EPISODE {
            steps.push(episode.step());
            match pair.step(&steps[at]) {
                Ok(seen) => episode.observe(&seen),
                Err(_) => report(seed, steps),
            }
            if at % 16 == 0 {
                pair.subject.check_invariants();
            }
        }
        coverage.add(pair.reference.coverage());
    }
    println!("{ops} operations, branches of the rules taken:\n{coverage}");
    if ops >= OPS {
        let rare: Vec<_> = Branch::ALL
            .iter()
            .filter(|b| coverage.hits(**b) < HITS_MIN)
            .collect();
        assert!(
            rare.is_empty(),
            "taken less than {HITS_MIN} times: {rare:?}"
        );
    }
}

fn report(seed: u64, steps: Vec<Step>) -> ! {
    let episode = Episode::new(seed);
    let (steps, difference) = shrink(steps, || pair(&episode));
    let steps: String = steps.iter().map(|step| format!("{step}\n")).collect();
    panic!(
        "seed {seed}: {}\npolicy {:?}\nsteps\n{steps}",
        difference.what, episode.profile
    );
}

#[test]
fn every_mutation_of_the_oracle_is_caught() {
    for mutation in Mutation::ALL {
        let caught = (1..200).any(|seed| {
            let mut episode = Episode::new(seed);
            let reference = Oracle::mutated(&episode.profile, episode.selector_seed(), mutation)
                .with_egress_groups(episode.egress_groups);
            let mut pair = Pair {
                subject: arbiter(&episode),
                reference,
            };
            (0..OPS_PER_EPISODE).any(|_| {
                let step = episode.step();
                pair.step(&step).map(|seen| episode.observe(&seen)).is_err()
            })
        });
        assert!(caught, "{mutation:?} went unnoticed");
    }
}
