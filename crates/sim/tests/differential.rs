//! The arbiter against the oracle: random operations, every event and the whole state compared after
//! every one.
//!
//! `TOLLGATE_DIFFERENTIAL_OPS` sets how many operations, 200,000 unless set;
//! `TOLLGATE_DIFFERENTIAL_SEED` where to start.

use tollgate_sim::differential::{Episode, Pair, Step, compare, shrink};
use tollgate_sim::oracle::{Mutation, Oracle};
use tollgate_sim::scenario::{ArbiterMachine, MachineOptions};

const OPS: usize = 200_000;
const OPS_PER_EPISODE: usize = 1_000;

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
        ..MachineOptions::default()
    };
    ArbiterMachine::new(&episode.profile, options).expect("the capacities suffice")
}

fn pair(episode: &Episode) -> Pair<ArbiterMachine, Oracle> {
    let reference = Oracle::new(&episode.profile, episode.selector_seed());
    Pair {
        subject: arbiter(episode),
        reference,
    }
}

#[test]
fn arbiter_and_oracle_agree_on_random_operations() {
    let ops = setting("TOLLGATE_DIFFERENTIAL_OPS", OPS);
    let first = setting("TOLLGATE_DIFFERENTIAL_SEED", 1) as u64;
    for seed in first..first + ops.div_ceil(OPS_PER_EPISODE) as u64 {
        let episode = Episode::new(seed);
        let mut pair = pair(&episode);
        for (at, step) in episode.clone().take(OPS_PER_EPISODE).enumerate() {
            if pair.step(&step).is_err() {
                report(seed, &episode, at + 1);
            }
            if at % 16 == 0 {
                pair.subject.check_invariants();
            }
        }
    }
}

fn report(seed: u64, episode: &Episode, steps: usize) -> ! {
    let steps: Vec<Step> = episode.clone().take(steps).collect();
    let (steps, difference) = shrink(steps, || pair(episode));
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
            let episode = Episode::new(seed);
            let reference = Oracle::mutated(&episode.profile, episode.selector_seed(), mutation);
            let mut pair = Pair {
                subject: arbiter(&episode),
                reference,
            };
            let steps: Vec<Step> = episode.take(OPS_PER_EPISODE).collect();
            compare(&mut pair, &steps).is_err()
        });
        assert!(caught, "{mutation:?} went unnoticed");
    }
}
