//! A request's whole way through the scheduler: submit, select, choose, book, complete.
//!
//! One class, no lane but the shared one, and E endpoints that each take any request, so every step
//! asks which endpoint is the cheapest. 256 requests are booked at any time: a step submits one, waits
//! for its endpoint, and completes the oldest. Requests are made before the clock starts.
//!
//! The incumbent's side is `LocalScheduler::schedule_request`, its call for one tracked request, and
//! `LocalScheduler::free`, awaited one after the other on a runtime of one thread, with the selection
//! policy that the crate calls its native reference. Tollgate's sides are the arbiter alone, called
//! directly, and the engine turned by hand: submission to an ingress shard, a turn, reception from an
//! egress shard, completion by its feedback ring.
//!
//! - *open*: no busy threshold; the incumbent then looks at no load before it selects.
//! - *gated*: a busy threshold, out of reach, as a policy file would set one.
//! - *hints*: the same, 16 endpoints with parts of each prompt in their caches, and a weight for each
//!   active request.

mod incumbent;
mod ours;

pub(crate) use incumbent::Local;

use std::collections::VecDeque;

use crate::measure::{Summary, interleave, print_head, print_row, time};
use crate::random::Random;

/// Requests booked at one time.
const BOOKED: u32 = 256;
/// Hints of a request in the arms that have them.
const HINTS: u32 = 16;
/// Tokens of a cache block at the incumbent.
const BLOCK_TOKENS: u32 = 16;
/// What an active request adds to an endpoint's cost in the arms with hints, in blocks.
const ACTIVE_BLOCKS: u32 = 4;
/// Endpoints, and the incumbent's steps in one repetition; Tollgate does [`OUR_STEPS`].
const SIZES: [(u32, usize); 3] = [(64, 512), (512, 128), (4_096, 32)];
const OUR_STEPS: usize = 8_192;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arm {
    Open,
    Gated,
    Hints,
}

/// What a scheduler is built for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) arm: Arm,
    pub(crate) endpoints: u32,
    /// Classes of quanta 4,096, each the one of its family.
    pub(crate) classes: u32,
}

impl Plan {
    /// The policy file from which both sides are built.
    fn yaml(&self) -> String {
        let threshold = match self.arm {
            Arm::Open => "",
            Arm::Gated | Arm::Hints => "\n    prefill_busy_threshold: 4611686018427387904",
        };
        let head = "default_policy_family: family0\n\
             uncached_isl_buckets:\n  - min_tokens: 0\n    bucket: all\n\
             policy_classes:\n";
        let class = |index: u32| {
            format!(
                "  - name: class{index}\n    policy_family: family{index}\n    cache_bucket: all\n    \
                 queue_policy: fcfs\n    quantum: 4096{threshold}\n"
            )
        };
        (0..self.classes).fold(head.to_owned(), |text, index| text + &class(index))
    }

    /// Blocks that an active request adds to an endpoint's cost.
    const fn active_blocks(&self) -> u32 {
        match self.arm {
            Arm::Open | Arm::Gated => 0,
            Arm::Hints => ACTIVE_BLOCKS,
        }
    }
}

/// One request, as both sides are told of it.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) id: u64,
    /// The class; `None` for the default one.
    pub(crate) class: Option<u32>,
    pub(crate) tokens: u32,
    /// Endpoints and the tokens that they hold, in whole blocks.
    pub(crate) hints: Vec<(u32, u32)>,
}

#[derive(Clone, Debug)]
struct Asks {
    random: Random,
    plan: Plan,
    next_id: u64,
}

impl Asks {
    fn new(plan: Plan) -> Self {
        Self {
            random: Random::new(11),
            plan,
            next_id: 0,
        }
    }

    fn next(&mut self) -> Ask {
        let Self { random, plan, .. } = self;
        let id = self.next_id;
        self.next_id += 1;
        let blocks = random.between(8, 256);
        let hints = match plan.arm {
            Arm::Open | Arm::Gated => 0,
            Arm::Hints => HINTS,
        };
        // Neighbours from a random one on, so that no endpoint comes twice.
        let first = random.below(plan.endpoints);
        let hint = |index: u32| {
            let endpoint = (first + index) % plan.endpoints;
            (endpoint, random.below(blocks) * BLOCK_TOKENS)
        };
        Ask {
            id,
            class: None,
            tokens: blocks * BLOCK_TOKENS,
            hints: (0..hints).map(hint).collect(),
        }
    }

    fn take(&mut self, count: usize) -> Vec<Ask> {
        (0..count).map(|_| self.next()).collect()
    }
}

/// One side of the comparison.
pub(crate) trait Scheduler: Sized {
    /// A request in the words of this side.
    type Request;
    /// A request that is booked.
    type Booking;

    fn new(plan: Plan) -> Self;

    /// Puts a request in the words of this side; never timed.
    fn request(ask: &Ask) -> Self::Request;

    /// Submits each request, waits for its endpoint, and completes the oldest booked one. Gives back
    /// the requests if it only borrows them, so that they are not dropped on the clock.
    fn steps(
        &mut self,
        requests: Vec<Self::Request>,
        booked: &mut VecDeque<Self::Booking>,
    ) -> Vec<Self::Request>;

    /// Submits requests and waits for their endpoints.
    fn book(&mut self, requests: Vec<Self::Request>, booked: &mut VecDeque<Self::Booking>);
}

/// A scheduler with its bookings, and the stream that goes on from there.
struct Standing<S: Scheduler> {
    scheduler: S,
    asks: Asks,
    booked: VecDeque<S::Booking>,
    steps: usize,
}

impl<S: Scheduler> Standing<S> {
    fn new(plan: Plan, steps: usize) -> Self {
        let mut standing = Self {
            scheduler: S::new(plan),
            asks: Asks::new(plan),
            booked: VecDeque::with_capacity(BOOKED as usize + 1),
            steps,
        };
        let requests = standing.requests(BOOKED as usize);
        standing.scheduler.book(requests, &mut standing.booked);
        standing
    }

    fn requests(&mut self, count: usize) -> Vec<S::Request> {
        self.asks.take(count).iter().map(S::request).collect()
    }

    /// One repetition: nanoseconds a step.
    fn repeat(&mut self) -> f64 {
        let requests = self.requests(self.steps);
        let Self {
            scheduler, booked, ..
        } = self;
        let (_borrowed, nanos) = time(self.steps as u64, || scheduler.steps(requests, booked));
        assert_eq!(
            booked.len(),
            BOOKED as usize,
            "each step books one and completes one"
        );
        nanos
    }
}

/// Runs and prints all arms and sizes.
pub(crate) fn run(quick: bool) {
    let repetitions = if quick { 2 } else { 31 };
    let sizes = if quick { &SIZES[..1] } else { &SIZES[..] };
    println!(
        "\nSubmit, select, choose, book and complete with {BOOKED} requests booked: {repetitions} \
         repetitions, sides alternating"
    );
    print_head(
        "arm, endpoints",
        incumbent::NAME,
        "tollgate, arbiter or engine",
    );
    for arm in [Arm::Open, Arm::Gated, Arm::Hints] {
        for &(endpoints, steps) in sizes {
            let plan = Plan {
                arm,
                endpoints,
                classes: 1,
            };
            let summaries = compare(plan, repetitions, steps);
            let name = format!("{arm:?}, {endpoints}").to_lowercase();
            print_row(&format!("{name}, arbiter"), &summaries[0], &summaries[1]);
            print_row(&format!("{name}, engine"), &summaries[0], &summaries[2]);
        }
    }
}

/// The incumbent, the arbiter, and the engine.
fn compare(plan: Plan, repetitions: usize, steps: usize) -> Vec<Summary> {
    let mut incumbent = Standing::<Local>::new(plan, steps);
    let mut arbiter = Standing::<ours::Direct>::new(plan, OUR_STEPS);
    let mut engine = Standing::<ours::Turned>::new(plan, OUR_STEPS);
    interleave(
        repetitions,
        &mut [
            &mut || incumbent.repeat(),
            &mut || arbiter.repeat(),
            &mut || engine.repeat(),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_arm_runs_on_both_sides() {
        for arm in [Arm::Open, Arm::Gated, Arm::Hints] {
            let plan = Plan {
                arm,
                endpoints: 64,
                classes: 1,
            };
            let summaries = compare(plan, 1, 8);
            assert!(summaries.iter().all(|summary| summary.minimum > 0.0));
        }
    }
}
