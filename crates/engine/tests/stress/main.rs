//! Everything at once, on real threads: four that submit, two that receive, one that changes workers
//! and policies, one that releases from elsewhere, over rings and slots so small that all of them
//! overflow.
//!
//! The run is a sequence of *lives*. In each an engine is built, works off its requests, and goes: by
//! a stop when everything is done, by a stop in the middle with a drain or without, or by being
//! dropped. Then each payload that was made must have come to exactly one end, and nothing may be
//! booked or taken any more. Every other promise is checked where it is kept: who may run where, what
//! may end how, what comes back whole.
//!
//! `TOLLGATE_STRESS_OPS` is the number of requests (default 300,000), `TOLLGATE_STRESS_SEED` the start
//! of the draws. A run of 10 million or more fails unless it met every outcome, every reason and every
//! overflow a thousand times. The threads' order is the machine's: a seed does not repeat a run.

mod churn;
mod draws;
mod egress;
mod ingress;
mod ledger;
mod life;
mod plan;
mod tally;

use crate::tally::Tally;

/// From here on a run has to have met everything.
const LONG: usize = 10_000_000;
const LEAST: u64 = 1_000;
/// Requests of one life.
const LIFE: usize = 10_000;

fn number(name: &str, default: usize) -> usize {
    let Ok(text) = std::env::var(name) else {
        return default;
    };
    text.parse()
        .unwrap_or_else(|_| panic!("{name} is no number: {text}"))
}

#[test]
fn every_request_has_exactly_one_end() {
    let requests = number("TOLLGATE_STRESS_OPS", 300_000);
    let seed = number("TOLLGATE_STRESS_SEED", 1);
    let mut tally = Tally::default();
    for life in 0..requests.div_ceil(LIFE) {
        let requests = LIFE.min(requests - life * LIFE);
        tally.merge(&life::live(seed as u64, life, requests));
    }
    eprintln!("seed {seed}\n{tally}");
    let mut rare = tally.rows().filter(|(_, count)| *count < LEAST).peekable();
    if requests >= LONG && rare.peek().is_some() {
        panic!("too seldom: {:?}", rare.collect::<Vec<_>>());
    }
}
