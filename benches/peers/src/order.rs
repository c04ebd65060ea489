//! Equal dispatch order: `arbitration: page` against the incumbent's real queue (S6.8).
//!
//! Random configurations, random streams of operations, both sides told the same; whatever one
//! dispatches the other must dispatch. Streams keep to where the page's text and the incumbent
//! agree: no selection is dry, nothing is removed without service. A plain model of the lanes
//! (full scans, no arbitration) tells the driver which selections would be dry.
//!
//! What varies: classes, quanta, orders (the two that the incumbent's policy files know), tiers, jumps, costs, arrivals; shared requests that only
//! one of several gate endpoints may run, which open and shut at any time; pinned requests, whose
//! endpoints may shut for good (the incumbent's public queue cannot free them again).

use std::process::ExitCode;

use crate::incumbent::{Incumbent, Live};
use crate::ours::Ours;
use crate::random::Random;
use crate::subject::{ClassPlan, Placement, Plan, Request, Subject, Ticks};

const OPERATIONS: u32 = 600;
/// Endpoints that serve shared requests; pinned requests go to those behind them.
const GATES_MAX: u32 = 4;

/// The lanes of both sides, without any arbitration.
struct Model {
    gates: u32,
    open: Vec<bool>,
    orders: Vec<&'static str>,
    waiting: Vec<Request>,
}

impl Model {
    /// Whether `left` goes before `right`, both of one class and lane (S4.2).
    fn precedes(&self, left: &Request, right: &Request) -> bool {
        let score = |request: &Request| {
            let (arrival, jump) = (request.arrival.seconds(), request.jump.seconds());
            match self.orders[request.class] {
                "wspt" => (1.0 + jump) / f64::from(request.tokens),
                _ => jump - arrival,
            }
        };
        left.strict_priority
            .cmp(&right.strict_priority)
            .then(score(left).total_cmp(&score(right)))
            // Ids rise with intake.
            .then(right.id.cmp(&left.id))
            .is_gt()
    }

    fn is_head(&self, request: &Request) -> bool {
        let lane = |request: &Request| match request.placement {
            Placement::Pinned(endpoint) => (request.class, Some(endpoint)),
            Placement::Any | Placement::Only(_) => (request.class, None),
        };
        !self
            .waiting
            .iter()
            .any(|other| lane(other) == lane(request) && self.precedes(other, request))
    }

    /// Whether a selection would find nothing.
    fn is_dry(&self) -> bool {
        !self.waiting.iter().any(|request| {
            self.open[request.placement.endpoint() as usize] && self.is_head(request)
        })
    }

    /// Endpoints that may change to the other state.
    fn can_toggle(&self, endpoint: u32) -> bool {
        endpoint < self.gates || self.open[endpoint as usize]
    }
}

/// One configuration and both sides of it.
struct Duel {
    random: Random,
    plan: Plan,
    model: Model,
    incumbent: Incumbent<Live>,
    ours: Ours,
    cost_max: u32,
    clock: u32,
    next_id: u32,
    compared: u64,
}

impl Duel {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let gates = random.between(1, GATES_MAX);
        let endpoints = gates + random.below(9);
        let cost_max = random.pick(&[1, 3, 10, 100, 8_192, u32::MAX]);
        let quantum_max = random.pick(&[1, 4, 100, 8_192, u32::MAX]);
        let classes: Vec<ClassPlan> = (0..random.between(1, 6))
            .map(|_| ClassPlan {
                quantum: u64::from(random.between(1, quantum_max)),
                order: random.pick(&["fcfs", "wspt"]),
            })
            .collect();
        let plan = Plan {
            classes,
            endpoints,
            capacity: OPERATIONS,
            narrowed: true,
            page: true,
        };
        let model = Model {
            gates,
            open: vec![true; endpoints as usize],
            orders: plan.classes.iter().map(|class| class.order).collect(),
            waiting: Vec::new(),
        };
        let (incumbent, ours) = (Incumbent::of(&plan), Ours::of(&plan));
        Self {
            random,
            plan,
            model,
            incumbent,
            ours,
            cost_max,
            clock: 0,
            next_id: 0,
            compared: 0,
        }
    }

    fn enqueue(&mut self) {
        let random = &mut self.random;
        let (gates, endpoints) = (self.model.gates, self.plan.endpoints);
        let placement = if endpoints == gates || random.percent(40) {
            Placement::Only(random.below(gates))
        } else {
            Placement::Pinned(random.between(gates, endpoints - 1))
        };
        // Some arrive together, so that ties are met as well.
        self.clock += random.below(3);
        let class = random.pick(&[0, 1, 2, 3, 4, 5]) % self.plan.classes.len();
        let request = Request {
            id: self.next_id,
            class,
            tokens: random.between(1, self.cost_max),
            arrival: Ticks(self.clock),
            jump: Ticks(if random.percent(20) {
                random.below(64)
            } else {
                0
            }),
            strict_priority: if random.percent(20) {
                random.below(3)
            } else {
                0
            },
            placement,
        };
        self.next_id += 1;
        self.model.waiting.push(request);
        self.incumbent.enqueue(&request);
        self.ours.enqueue(&request);
    }

    fn set_open(&mut self, endpoint: u32, open: bool) {
        self.model.open[endpoint as usize] = open;
        self.incumbent.set_open(endpoint, open);
        self.ours.set_open(endpoint, open);
    }

    fn toggle(&mut self) {
        let endpoint = self.random.below(self.plan.endpoints);
        // Pinned endpoints shut for good, so they do it rarely.
        let is_gate = endpoint < self.model.gates;
        if self.model.can_toggle(endpoint) && (is_gate || self.random.percent(5)) {
            self.set_open(endpoint, !self.model.open[endpoint as usize]);
        }
    }

    /// One selection on both sides, unless it would be dry.
    fn pop(&mut self) -> Result<(), String> {
        if self.model.is_dry() {
            return Ok(());
        }
        let (theirs, ours) = (self.incumbent.pop(), self.ours.pop());
        if theirs != ours || theirs.is_none() {
            return Err(format!(
                "after {} equal dispatches: {} dispatched {theirs:?}, {} {ours:?}",
                self.compared,
                Incumbent::<Live>::NAME,
                Ours::NAME
            ));
        }
        self.compared += 1;
        self.model
            .waiting
            .retain(|request| Some(request.id) != theirs);
        Ok(())
    }

    /// The whole stream: how many dispatches were compared, or where they differ.
    fn run(mut self) -> Result<u64, String> {
        for _ in 0..OPERATIONS {
            match self.random.below(100) {
                0..45 => self.enqueue(),
                45..60 => self.toggle(),
                _ => self.pop()?,
            }
        }
        (0..self.model.gates).for_each(|gate| self.set_open(gate, true));
        while !self.model.is_dry() {
            self.pop()?;
        }
        Ok(self.compared)
    }
}

/// Compares many random configurations; fails at the first difference, with its seed.
pub(crate) fn run(quick: bool) -> ExitCode {
    let configurations = if quick { 200 } else { 5_000 };
    println!(
        "\nDispatch order, `arbitration: page` against {}",
        Incumbent::<Live>::NAME
    );
    let mut compared = 0;
    for seed in 0..configurations {
        let duel = Duel::new(seed);
        let plan = duel.plan.clone();
        match duel.run() {
            Ok(dispatches) => compared += dispatches,
            Err(difference) => {
                println!("DIFFERENT, seed {seed}: {difference}\n{plan:?}");
                return ExitCode::FAILURE;
            }
        }
    }
    println!("equal: {configurations} random configurations, {compared} dispatches");
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s6_8_page_dispatches_in_the_incumbents_order() {
        for seed in 0..100 {
            let outcome = Duel::new(seed).run();
            assert!(outcome.is_ok(), "seed {seed}: {outcome:?}");
        }
    }
}
