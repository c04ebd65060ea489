//! A random run of an engine by hand: requests of every form, cancels, feedback of every kind, churn of
//! workers, reloads, rings that fill up, and a stop.

use tollgate::policy::{
    Arbitration, Bucket, ClassPolicy, OrderPolicy, Profile, ProfileSpec, SelectorKind,
};
use tollgate::{
    ByHand, Clock, Command, Delivery, EgressShard, Endpoint, Engine, Hint, ManualClock, ModelIndex,
    Nanos, Outcome, Receipt, Request, RequeueRefused, Ticket, Worker, WorkerId,
};

pub(super) const MODELS: u8 = 2;
const WORKERS: u64 = 7;
const FAMILIES: [&str; 4] = ["a", "b", "c", "d"];
const TAINTS: [&str; 3] = ["gpu", "eu \"1\"", "spot"];

/// A stream of chance: xorshift.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    fn small(&mut self, sides: u32) -> u32 {
        u32::try_from(self.roll(sides.into())).expect("small")
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        let at = self.roll(choices.len() as u64);
        choices[usize::try_from(at).expect("small")]
    }
}

fn profile(dice: &mut Dice) -> Profile {
    use OrderPolicy::{Edf, Fcfs, Lcfs, Wspt};
    let mut classes = Vec::new();
    for family in FAMILIES {
        if family == "a" || dice.roll(4) > 0 {
            let quantum = dice.pick(&[100, 700, 2_000]);
            classes.push(ClassPolicy {
                order: dice.pick(&[Fcfs, Wspt, Lcfs, Edf]),
                prefill_busy_threshold: dice.pick(&[None, Some(500), Some(1_000)]),
                request_queue_limit_per_worker: dice.pick(&[None, None, Some(0), Some(6)]),
                queue_timeout_ms: dice.pick(&[None, None, Some(1)]),
                ..ClassPolicy::matrix(family, family, 0, quantum)
            });
        }
    }
    let spec = ProfileSpec::new("a", vec![Bucket::new(0, "all")], classes);
    let profile = Profile::build(spec).expect("it is valid");
    profile
        .with_arbitration(dice.pick(&[Arbitration::Exact, Arbitration::Exact, Arbitration::Page]))
        .with_selector(dice.pick(&[
            SelectorKind::Cost,
            SelectorKind::LeastLoaded,
            SelectorKind::RoundRobin,
            SelectorKind::PowerOfTwo,
        ]))
        .with_decode_weight(dice.pick(&[0, 50]))
}

/// An engine by hand, what it has delivered, and what is on its way.
pub(super) struct Run {
    pub(super) hands: ByHand<u64>,
    hand: ManualClock,
    dice: Dice,
    now: u64,
    tickets: Vec<Ticket>,
    running: Vec<(usize, Receipt)>,
    /// By egress shard: what came out, in words.
    pub(super) delivered: Vec<Vec<String>>,
    pub(super) is_closed: bool,
}

impl Run {
    pub(super) fn new(seed: u64, egress_shards: usize, journal: Option<usize>) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let (clock, hand) = Clock::manual();
        let worker = |id| Worker::new(id).with_taints(["gpu"]);
        let mut builder = Engine::builder(profile(&mut dice));
        for id in 0..WORKERS {
            builder = builder.worker(worker(id));
        }
        builder = builder
            .model("other", profile(&mut dice))
            .ingress_shards(2)
            .egress_shards(egress_shards)
            .slots(200)
            .ring(32)
            .dispatch_ring(8)
            .feedback_ring(8)
            .extension_ring(256)
            .seed(seed)
            .clock(clock);
        if let Some(bytes) = journal {
            builder = builder.journal(bytes);
        }
        for id in 0..WORKERS {
            builder = builder.worker(worker(id));
        }
        Self {
            hands: builder.build_by_hand().expect("it is valid"),
            hand,
            dice,
            now: 0,
            tickets: Vec::new(),
            running: Vec::new(),
            delivered: vec![Vec::new(); egress_shards],
            is_closed: false,
        }
    }

    pub(super) fn execute(
        &mut self,
        command: Command,
    ) -> Result<tollgate::Done, tollgate::ControlError> {
        let control = self.hands.handles.control();
        self.hands.core.execute(&control, command)
    }

    /// A little of everything.
    pub(super) fn step(&mut self) {
        self.now += self.dice.roll(200_001);
        self.hand.set(Nanos(self.now));
        for _ in 0..self.dice.roll(12) {
            self.submit();
        }
        if self.dice.roll(3) == 0 {
            self.cancel();
        }
        if self.dice.roll(12) == 0 {
            self.disturb();
        }
        for _ in 0..=self.dice.roll(3) {
            self.turn();
        }
        // A shard that is not looked at for a while fills its ring.
        for shard in 0..self.hands.egress.len() {
            if self.dice.roll(3) > 0 {
                self.receive(shard);
            }
        }
        self.feed_back();
    }

    fn turn(&mut self) {
        self.is_closed |= self.hands.core.turn(Nanos(self.now)).closed;
    }

    fn submit(&mut self) {
        let dice = &mut self.dice;
        let endpoint = Endpoint::new(dice.roll(WORKERS), dice.small(2));
        let hints = [endpoint, Endpoint::new(dice.roll(WORKERS), 0)].map(|endpoint| Hint {
            endpoint,
            cached: 40,
        });
        let allow = [endpoint.worker, WorkerId(dice.roll(WORKERS))];
        let taints = [dice.pick(&TAINTS), "nobody's"];
        let taints = &taints[..if dice.roll(10) == 0 { 2 } else { 1 }];
        let deadline = Nanos(self.now + dice.roll(2_000_000));
        let model = ModelIndex(u8::try_from(dice.roll(MODELS.into())).expect("small"));
        let plain = Request {
            model,
            family: Some(dice.pick(&FAMILIES)),
            cached_tokens: dice.small(50),
            strict_priority: dice.small(2),
            priority_jump: dice.pick(&[0.0, 0.0, 0.1, 1e-7, -1.0]),
            may_wait: dice.roll(15) > 0,
            ..Request::new(100 + dice.small(400), 0)
        };
        let request = match dice.roll(6) {
            0 => Request {
                hints: &hints,
                ..plain
            },
            1 => Request {
                allow: Some(&allow),
                require_taints: taints,
                ..plain
            },
            2 => Request {
                pin: Some(endpoint),
                deadline: Some(deadline),
                ..plain
            },
            3 => Request {
                deadline: Some(deadline),
                ..plain
            },
            4 => Request {
                pin: Some(endpoint),
                ..plain
            },
            _ => plain,
        };
        let shard = usize::try_from(dice.roll(2)).expect("small");
        self.tickets
            .extend(self.hands.ingress[shard].try_submit(request).ok());
    }

    fn cancel(&mut self) {
        if self.tickets.is_empty() {
            return;
        }
        let recent = self.tickets.len().saturating_sub(30);
        let at = recent + usize::try_from(self.dice.roll(30)).expect("small");
        let ticket = self.tickets[at.min(self.tickets.len() - 1)];
        if self.dice.roll(2) == 0 {
            self.hands.ingress[0].cancel(ticket);
        } else {
            self.hands.handles.releases().cancel(ticket);
        }
    }

    /// Something happens to a worker, or to the policy.
    fn disturb(&mut self) {
        let dice = &mut self.dice;
        let model = ModelIndex(u8::try_from(dice.roll(MODELS.into())).expect("small"));
        let id = WorkerId(dice.roll(WORKERS));
        let (flag, other) = (dice.roll(3) == 0, dice.roll(2) == 0);
        let taint = dice.pick(&TAINTS);
        let worker = Worker {
            ranks: 1 + dice.small(2),
            overloaded: flag,
            max_batched_tokens: other.then_some(5_000),
            ..Worker::new(id.0).with_taints([taint])
        };
        let endpoint = Endpoint {
            worker: id,
            rank: dice.small(2),
        };
        let command = match dice.roll(12) {
            0 | 1 => Command::RemoveWorker { model, id },
            2 => Command::SetLoad {
                model,
                endpoint,
                tokens: dice.roll(3) * 600,
            },
            3 => Command::SetOverloaded {
                model,
                id,
                overloaded: flag,
            },
            4 => Command::SetAvailable {
                model,
                id,
                available: other,
            },
            5 => Command::SetTaints {
                model,
                id,
                taints: vec![taint.into()],
            },
            6 => Command::Reload {
                model,
                profile: profile(dice).into(),
            },
            _ => Command::UpsertWorker { model, worker },
        };
        // It may be refused, or the worker may be unknown.
        let _ = self.execute(command);
    }

    pub(super) fn receive(&mut self, shard: usize) {
        let egress = &mut self.hands.egress[shard];
        while let Ok(Some(delivery)) = egress.try_recv() {
            self.delivered[shard].push(in_words(&delivery));
            let Delivery::Dispatch(dispatch) = delivery else {
                continue;
            };
            if self.dice.roll(8) == 0 {
                match egress.requeue(dispatch) {
                    Ok(()) => {}
                    Err(RequeueRefused::Full(dispatch) | RequeueRefused::Closed(dispatch)) => {
                        egress.complete(dispatch.receipt());
                    }
                }
            } else {
                self.running.push((shard, dispatch.receipt()));
            }
        }
    }

    /// The last egress shard is dropped, with what it had in hand.
    pub(super) fn lose_a_shard(&mut self) {
        self.hands.egress.pop();
        let left = self.hands.egress.len();
        self.running.retain(|&(shard, _)| shard < left);
    }

    fn feed_back(&mut self) {
        let releases = self.hands.handles.releases();
        while self.running.len() > 20 || !self.running.is_empty() && self.dice.roll(4) > 0 {
            let at = self.dice.roll(self.running.len() as u64);
            let at = usize::try_from(at).expect("small");
            let (shard, receipt) = self.running[at];
            let egress: &mut EgressShard<u64> = &mut self.hands.egress[shard];
            match self.dice.roll(6) {
                0 => egress.prefill_done(receipt),
                1 => releases.prefill_done(receipt),
                2 => {
                    releases.complete(receipt);
                    self.running.swap_remove(at);
                }
                _ => {
                    egress.complete(receipt);
                    self.running.swap_remove(at);
                }
            }
        }
    }

    /// Stops, and turns until the engine is closed.
    pub(super) fn finish(&mut self) {
        let drain = Nanos(3_000_000);
        self.execute(Command::Stop { drain }).expect("it runs");
        while !self.is_closed {
            self.now += 100_000;
            self.hand.set(Nanos(self.now));
            self.turn();
            for shard in 0..self.hands.egress.len() {
                if self.dice.roll(3) > 0 {
                    self.receive(shard);
                }
            }
            self.feed_back();
        }
        for shard in 0..self.hands.egress.len() {
            self.receive(shard);
        }
    }
}

/// What the engine delivered, as the events of a scenario would tell it.
fn in_words(delivery: &Delivery<u64>) -> String {
    match delivery {
        Delivery::Dispatch(dispatch) => {
            let Endpoint { worker, rank } = dispatch.endpoint;
            let (id, attempt) = (dispatch.ticket, dispatch.attempt);
            format!("{id} dispatched [{},{rank}] {attempt}", worker.0)
        }
        Delivery::Ended(ended) => {
            let id = ended.ticket;
            match ended.outcome {
                Outcome::Rejected(rejection) => format!(
                    "{id} rejected {:?} {} {} {}",
                    kind(rejection.kind),
                    rejection.current,
                    rejection.limit,
                    rejection.workers
                ),
                Outcome::Expired => format!("{id} expired"),
                Outcome::Cancelled => format!("{id} cancelled"),
                Outcome::Failed(reason) => format!("{id} failed {:?}", reason.code()),
                Outcome::ShuttingDown => format!("{id} shutting_down"),
            }
        }
        Delivery::Returned { ticket, .. } => format!("{ticket} returned"),
    }
}

const fn kind(kind: tollgate::LimitKind) -> &'static str {
    use tollgate::LimitKind;
    match kind {
        LimitKind::Requests => "requests",
        LimitKind::RawIslTokens => "raw_isl_tokens",
        LimitKind::CachedTokens => "cached_tokens",
        LimitKind::MayWait => "may_wait",
    }
}
