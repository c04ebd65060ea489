//! A random stream of operations.

use tollgate_policy::Profile;

use super::random::Random;
use super::{Observation, Step, policies};
use crate::protocol::{Endpoint, EndpointState, Event, Hint, Op, Submission, WorkerRecord};

/// Stops come only after so many steps, since little happens after them.
const STOP_AFTER: u64 = 950;
const TAINTS: [&str; 3] = ["gpu", "eu", "spot"];

/// How a kind of step is made.
type Make = fn(&mut Episode) -> Step;

/// A random policy and a random stream of steps.
///
/// The stream follows from the seed and from what the episode was told of the machines.
///
/// ```
/// use tollgate_sim::differential::Episode;
/// let steps = |seed| {
///     let mut episode = Episode::new(seed);
///     (0..20).map(|_| episode.step().to_string()).collect::<Vec<_>>()
/// };
/// assert_eq!(steps(1), steps(1), "the seed settles everything");
/// assert_ne!(steps(1), steps(2));
/// ```
#[derive(Clone, Debug)]
pub struct Episode {
    random: Random,
    /// The policy that both machines start with.
    pub profile: Profile,
    submitted: u64,
    now_us: u64,
    /// How many egress groups both machines have.
    pub egress_groups: u16,
    /// How full the queues are let grow: how often an arbitration comes.
    patience: u64,
    /// How many worker ids operations draw from.
    workers: u64,
    /// Quanta are small and costs large, so that credit adds up over many rounds.
    grinds: bool,
    steps: u64,
    in_flight: Vec<String>,
    waiting: Vec<String>,
    remembered: Vec<String>,
    endpoints: Vec<Endpoint>,
    /// A worker that has just left.
    gone: Option<u64>,
}

impl Episode {
    /// The episode of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let grinds = random.chance(40);
        let profile = policies::profile(&mut random, grinds);
        let patience = random.pick(&[6, 12, 25]);
        let workers = random.pick(&[1, 2, 3, 6]);
        let egress_groups = random.pick(&[1, 1, 2, 3, 4]);
        Self {
            random,
            profile,
            submitted: 0,
            now_us: 0,
            patience,
            workers,
            egress_groups,
            grinds,
            steps: 0,
            in_flight: Vec::new(),
            waiting: Vec::new(),
            remembered: Vec::new(),
            endpoints: Vec::new(),
            gone: None,
        }
    }

    /// The seed of the selectors' own draws, the same for both machines.
    #[must_use]
    pub const fn selector_seed(&self) -> u64 {
        42
    }

    /// Takes notice of what the last step has done.
    pub fn observe(&mut self, seen: &Observation) {
        for event in &seen.events {
            match event {
                Event::Dispatched { id, .. } => self.in_flight.push(id.clone()),
                Event::Requeued { id, .. }
                | Event::Failed { id, .. }
                | Event::ShuttingDown { id, .. } => self.in_flight.retain(|other| other != id),
                _ => {}
            }
        }
        let classes = &seen.state.classes;
        self.remembered = classes
            .iter()
            .filter_map(|class| class.remembered.clone())
            .collect();
        let lanes = classes.iter().flat_map(|class| &class.lanes);
        self.waiting = lanes.flat_map(|lane| lane.waiting.clone()).collect();
        self.endpoints = seen
            .state
            .workers
            .iter()
            .map(EndpointState::endpoint)
            .collect();
    }

    /// The next step; there is always one.
    pub fn step(&mut self) -> Step {
        self.steps += 1;
        if self.steps <= 3 {
            return Step::Op(self.worker());
        }
        if let Some(id) = self.gone.take().filter(|_| self.random.chance(70)) {
            return Step::Op(Op::Worker(WorkerRecord::new(id)));
        }
        if self.steps > STOP_AFTER && self.random.chance(8) {
            let drain_us = self.random.pick(&[0, 1, 500, 3_000, u64::MAX]);
            return Step::Op(Op::Stop { drain_us });
        }
        let weights: [(u64, Make); 14] = [
            (40, Self::submit),
            (self.patience, Self::arbitrate),
            (8, |e| {
                Step::Op(Op::Complete {
                    id: e.flying(),
                    attempt: e.attempt(),
                })
            }),
            (5, |e| {
                Step::Op(Op::PrefillDone {
                    id: e.flying(),
                    attempt: e.attempt(),
                })
            }),
            (8, |e| {
                Step::Op(Op::Requeue {
                    id: e.flying(),
                    attempt: e.attempt(),
                })
            }),
            (10, |e| Step::Op(Op::Cancel { id: e.standing() })),
            (6, Self::advance),
            (3, |e| Step::Op(e.worker())),
            (3, Self::remove_worker),
            (8, Self::load),
            (4, Self::egress),
            (5, Self::room),
            (1, |e| Step::Hold(e.random.chance(40))),
            (3, |e| {
                Step::Reload(policies::profile(&mut e.random, e.grinds))
            }),
        ];
        let mut at = self
            .random
            .below(weights.iter().map(|(weight, _)| weight).sum());
        for (weight, make) in weights {
            if at < weight {
                return make(self);
            }
            at -= weight;
        }
        unreachable!("a draw is below the sum of the weights")
    }

    fn submit(&mut self) -> Step {
        self.submitted += 1;
        let id = format!("r{}", self.submitted);
        let tokens: &[u32] = if self.grinds && self.random.chance(70) {
            &[299, 700, 1_000]
        } else {
            &[0, 1, 3, 10, 50, 50, 100, 100, 120, 299, 1_000, u32::MAX]
        };
        let mut request = Submission::new(&id, self.random.pick(tokens));
        request.family = self.family();
        if self.random.chance(40) {
            request.cached = self.random.pick(&[0, 5, 40, 50, 99, u32::MAX]);
        }
        if self.random.chance(20) {
            let count = 1 + self.random.below(5);
            request.hints = (0..count)
                .map(|_| Hint {
                    endpoint: self.endpoint(),
                    cached: self.random.pick(&[0, 1, 5, 40, 90, 200]),
                })
                .collect();
        }
        request.strict_priority = self.random.pick(&[0, 0, 0, 0, 1, 2, u32::MAX]);
        request.priority_jump =
            self.random
                .pick(&[0.0, 0.0, 0.0, 0.001, 0.5, 2.000_000_000_5, -3.0, 1e300]);
        request.pin = self.random.maybe(45, |_| ()).map(|()| self.endpoint());
        if self.random.chance(15) {
            let count = self.random.below(4);
            request.allow = Some((0..count).map(|_| self.worker_id()).collect());
        }
        if self.random.chance(10) {
            let count = 1 + self.random.below(2);
            request.require_taints = self.taints(count);
        }
        if self.random.chance(20) {
            let ahead = self.random.pick(&[0, 1, 200, 1_000, 4_000, u64::MAX]);
            request.deadline_us = Some(self.now_us.saturating_add(ahead));
        }
        request.may_wait = !self.random.chance(6);
        Step::Op(Op::Submit(request))
    }

    fn family(&mut self) -> Option<String> {
        let named: Vec<&str> = policies::FAMILIES
            .into_iter()
            .chain(policies::EXPLICIT)
            .collect();
        match self.random.below(20) {
            0 => None,
            1 => Some(String::new()),
            2 => Some("nobody".to_owned()),
            3 => Some("a1".to_owned()),
            _ => Some(self.random.pick(&named).to_owned()),
        }
    }

    fn arbitrate(&mut self) -> Step {
        let max = self
            .random
            .pick(&[None, Some(0), Some(1), Some(1), Some(1), Some(2), Some(5)]);
        Step::Op(Op::Arbitrate { max })
    }

    fn advance(&mut self) -> Step {
        let us = self.random.pick(&[0, 1, 100, 500, 1_000, 2_500]);
        self.now_us += us;
        Step::Op(Op::Advance { us })
    }

    fn load(&mut self) -> Step {
        let tokens = self
            .random
            .pick(&[0, 0, 0, 50, 51, 101, 151, 5_000, u64::MAX]);
        Step::Op(Op::Load {
            worker: self.endpoint(),
            tokens,
        })
    }

    fn egress(&mut self) -> Step {
        let worker = self.endpoint();
        Step::Op(if self.random.chance(40) {
            Op::Shut { worker }
        } else {
            Op::Open { worker }
        })
    }

    fn room(&mut self) -> Step {
        let group = self.random.below(u64::from(self.egress_groups));
        let room = self.random.pick(&[0, 1, 1, 2, 4, u32::MAX, u32::MAX]);
        Step::Room(group.try_into().expect("few groups"), room)
    }

    fn worker(&mut self) -> Op {
        let mut record = WorkerRecord::new(self.worker_id());
        record.ranks = self.random.pick(&[1, 1, 1, 2, 3]);
        record.first_rank = self.random.pick(&[0, 0, 0, 1]);
        record.max_batched_tokens = self.random.pick(&[None, Some(1), Some(100), Some(1_000)]);
        let count = self.random.pick(&[0, 0, 1, 2]);
        record.taints = self.taints(count);
        record.overloaded = self.random.chance(15);
        record.available = !self.random.chance(10);
        Op::Worker(record)
    }

    fn worker_id(&mut self) -> u64 {
        1 + self.random.below(self.workers)
    }

    /// A known endpoint most of the time.
    fn endpoint(&mut self) -> Endpoint {
        if !self.endpoints.is_empty() && self.random.chance(85) {
            return self.random.pick(&self.endpoints);
        }
        let rank = self.random.pick(&[0, 0, 0, 0, 1, 1, 2, 9]);
        Endpoint::new(self.worker_id(), rank)
    }

    fn taints(&mut self, count: u64) -> Vec<String> {
        (0..count)
            .map(|_| self.random.pick(&TAINTS).to_owned())
            .collect()
    }

    fn remove_worker(&mut self) -> Step {
        let id = self.endpoint().worker;
        self.gone = Some(id);
        Step::Op(Op::RemoveWorker { id })
    }

    /// A request in flight most of the time.
    fn flying(&mut self) -> String {
        if self.in_flight.is_empty() || self.random.chance(20) {
            return self.any_request();
        }
        let recent = self.in_flight.len().saturating_sub(12);
        self.random.pick(&self.in_flight[recent..])
    }

    /// A waiting request most of the time, often one that credit was granted for.
    fn standing(&mut self) -> String {
        if !self.remembered.is_empty() && self.random.chance(90) {
            return self.random.pick(&self.remembered);
        }
        if self.waiting.is_empty() || self.random.chance(20) {
            return self.any_request();
        }
        self.random.pick(&self.waiting)
    }

    /// A request, now and then one that never was.
    fn any_request(&mut self) -> String {
        let back = self.random.below(40).min(self.submitted);
        format!("r{}", self.submitted - back)
    }

    fn attempt(&mut self) -> Option<u32> {
        self.random
            .maybe(10, |random| random.pick(&[0, 1, 1, 2, 3, u32::MAX]))
    }
}
