//! The real arbiter in front of modelled workers, in virtual time.

use std::iter::Peekable;

use tollgate_arbiter::{
    Arbiter, BuildError, Capacities, ClassIndex, Dispatch, Endpoint, Event, HINTS_MAX, Hint, Nanos,
    Options, Outcome, Request, SLOTS_MAX, SlotPool, State, Ticket, WorkerError, WorkerId,
    WorkerRecord,
};
use tollgate_policy::Profile;

use super::stopwatch::Stopwatch;
use crate::worker::{Batch, Job, Pool, Step, WorkerModel};

/// A request that will arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival<'a> {
    /// When.
    pub at: Nanos,
    /// The family or class that it names.
    pub family: Option<&'a str>,
    /// Prompt tokens.
    pub prompt_tokens: u32,
    /// Prompt tokens that are cached wherever it runs; not used if it has `blocks`.
    pub cached_tokens: u32,
    /// The blocks of its prompt, to be looked up in the workers' caches; empty where not known.
    pub blocks: &'a [u64],
    /// Tokens to generate.
    pub output_tokens: u32,
    /// The only worker that may run it.
    pub pin: Option<u64>,
    /// Its strict tier.
    pub tier: u32,
    /// When it expires.
    pub deadline: Option<Nanos>,
}

/// A request that arrived and is not over.
#[derive(Clone, Copy, Debug)]
pub struct Live<'a> {
    /// How many arrived before it.
    pub number: u64,
    /// What arrived.
    pub arrival: Arrival<'a>,
    /// Its cached tokens as the arbiter was told; what it is charged by is the rest.
    pub told_cached: u32,
    /// Its class; the first before it is known.
    pub class: ClassIndex,
    /// It waited, be it for a moment.
    pub was_queued: bool,
    /// The worker that runs it, from 0; 0 before.
    pub worker: usize,
    /// Its handle and attempt, once it was dispatched.
    dispatched: Option<(Ticket, u8)>,
    /// Its fate was reported.
    is_settled: bool,
}

/// Sees what happens, in order.
pub trait Observer {
    /// A request arrives.
    fn arrived(&mut self, request: &Live<'_>) {
        let _ = request;
    }
    /// It waits in its class, be it for a moment.
    fn queued(&mut self, request: &Live<'_>) {
        let _ = request;
    }
    /// It goes to a worker.
    fn dispatched(&mut self, request: &Live<'_>, dispatch: &Dispatch<u32>) {
        let _ = (request, dispatch);
    }
    /// It will not run.
    fn ended(&mut self, request: &Live<'_>, outcome: Outcome, now: Nanos) {
        let _ = (request, outcome, now);
    }
    /// A worker begins to compute prompts; a job's number is its request's place in `live`.
    fn begun(&mut self, batch: &Batch<'_, &[u64]>, live: &[Live<'_>], now: Nanos) {
        let _ = (batch, live, now);
    }
    /// The first token is out.
    fn first_token(&mut self, request: &Live<'_>, now: Nanos) {
        let _ = (request, now);
    }
    /// The last token is out.
    fn completed(&mut self, request: &Live<'_>, now: Nanos) {
        let _ = (request, now);
    }
}

/// The pool of workers and everything else that a simulation needs.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// The policy.
    pub profile: &'a Profile,
    /// Seed of the selector `power_of_two`.
    pub seed: u64,
    /// What each worker is like.
    pub model: WorkerModel,
    /// How many workers there are, at least 1; their ids are 1, 2, 3 and so on.
    pub workers: u32,
    /// Nanoseconds on a clock that runs, to measure what the arbiter takes.
    pub clock: Option<fn() -> u64>,
}

/// Why a simulation cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// The arbiter cannot be built.
    #[error("the arbiter cannot be built")]
    Build(#[from] BuildError),
    /// The arbiter does not take a worker.
    #[error("the arbiter takes no further worker")]
    Worker(#[from] WorkerError),
    /// More requests are there at one time than an arbiter can hold.
    #[error("more than {most} requests wait or run at one time, as many as can be simulated")]
    TooManyAtOnce {
        /// How many there may be.
        most: u32,
    },
    /// What the arbiter reports does not fit what it was given, which is a fault of Tollgate.
    #[error("request {number}: {what}")]
    Unsound {
        /// Which request.
        number: u64,
        /// What does not fit.
        what: String,
    },
}

/// The state of the arbiter at the end, and when that was.
#[derive(Debug)]
pub struct Finish {
    /// The arbiter's own account.
    pub state: State,
    /// When the last token was out.
    pub at: Nanos,
    /// How many requests arrived.
    pub arrived: u64,
    /// By worker: how many blocks of its cache made room for others.
    pub evicted_blocks: Vec<u64>,
    /// About how long the arbiter's calls took by [`Setup::clock`], in nanoseconds: those of one moment
    /// in 64 are measured.
    pub arbiter_ns: u64,
}

/// Plays `arrivals`, which must be in order of time, to the end of the last one; `count` is how many
/// there are at most.
///
/// It moves the clock from one thing that happens to the next, and at each moment does the
/// following in this order, so that what happens at one moment is judged together:
///
/// 1. finished prefills and requests are reported to the arbiter;
/// 2. what arrives is submitted, in the order of the list, with hints of what the workers' caches hold
///    of its prompt;
/// 3. the arbiter runs one turn, that is, it dispatches until no class has a candidate;
/// 4. each worker that is in no prefill begins one with what was handed to it.
///
/// # Errors
/// Where the arbiter does not hold so many classes, workers or requests.
pub fn simulate<'a>(
    setup: &Setup<'a>,
    arrivals: impl Iterator<Item = Arrival<'a>>,
    count: u64,
    observer: &mut impl Observer,
) -> Result<Finish, SimulationError> {
    let mut run = Run::new(setup, arrivals, count, observer)?;
    while let Some(now) = run.next_at() {
        run.moment(now)?;
    }
    let workers = 0..setup.workers as usize;
    Ok(Finish {
        state: run.arbiter.state(),
        at: run.arbiter.now(),
        arrived: run.arrived,
        evicted_blocks: workers
            .map(|worker| run.pool.evicted_blocks(worker))
            .collect(),
        arbiter_ns: run.stopwatch.total(),
    })
}

struct Run<'a, 'o, I: Iterator<Item = Arrival<'a>>, O> {
    arrivals: Peekable<I>,
    arrived: u64,
    arbiter: Arbiter<u32>,
    slots: SlotPool,
    pool: Pool<&'a [u64]>,
    observer: &'o mut O,
    /// By slot, which is the payload and the number of its job.
    live: Vec<Live<'a>>,
    /// What the arbiter reported and nobody has looked at yet.
    reported: Vec<Event<u32>>,
    hints: Vec<Hint>,
    workers: u32,
    stopwatch: Stopwatch,
}

impl<'a, 'o, I: Iterator<Item = Arrival<'a>>, O: Observer> Run<'a, 'o, I, O> {
    fn new(
        setup: &Setup<'a>,
        arrivals: I,
        count: u64,
        observer: &'o mut O,
    ) -> Result<Self, SimulationError> {
        let slots = u32::try_from(count).map_or(SLOTS_MAX, |count| count.clamp(1, SLOTS_MAX));
        let hints = u32::try_from(HINTS_MAX).map_or(setup.workers, |most| setup.workers.min(most));
        let capacities = Capacities {
            slots,
            classes: u32::try_from(setup.profile.classes().len()).unwrap_or(u32::MAX),
            workers: setup.workers,
            endpoints: setup.workers,
            extension_blocks: slots * (1 + hints.div_ceil(4)),
            attempts: setup.profile.max_attempts(),
            egress_groups: 1,
        };
        let mut arbiter = Arbiter::build(setup.profile, capacities, Options { seed: setup.seed })?;
        for id in 1..=u64::from(setup.workers) {
            arbiter.upsert_worker(&WorkerRecord {
                max_batched_tokens: Some(setup.model.max_batched_tokens),
                ..WorkerRecord::new(id)
            })?;
        }
        Ok(Self {
            arrivals: arrivals.peekable(),
            arrived: 0,
            arbiter,
            slots: SlotPool::new(slots),
            pool: Pool::new(setup.model, setup.workers as usize),
            observer,
            live: Vec::new(),
            reported: Vec::new(),
            hints: Vec::with_capacity(HINTS_MAX),
            workers: setup.workers,
            stopwatch: Stopwatch::new(setup.clock),
        })
    }

    fn next_at(&mut self) -> Option<Nanos> {
        let arrival = self.arrivals.peek().map(|arrival| arrival.at);
        [arrival, self.pool.next_at()].into_iter().flatten().min()
    }

    fn moment(&mut self, now: Nanos) -> Result<(), SimulationError> {
        self.stopwatch.next_moment();
        let (arbiter, reported) = (&mut self.arbiter, &mut self.reported);
        self.stopwatch
            .time(|| arbiter.advance(now, &mut |event| reported.push(event)));
        self.take_reports(now, None)?;
        while let Some(step) = self.pool.step(now) {
            self.feed_back(step, now);
        }
        while let Some(arrival) = self.arrivals.next_if(|next| next.at <= now) {
            self.submit(arrival, now)?;
        }
        let (arbiter, reported) = (&mut self.arbiter, &mut self.reported);
        self.stopwatch
            .time(|| arbiter.arbitrate(None, &mut |event| reported.push(event)));
        self.take_reports(now, None)?;
        let (observer, live) = (&mut *self.observer, &self.live);
        self.pool.start(now, &mut |batch| {
            observer.begun(&batch, live, now);
        });
        Ok(())
    }

    fn feed_back(&mut self, step: Step, now: Nanos) {
        let (Step::PrefillDone { request } | Step::Complete { request }) = step;
        let live = &self.live[request as usize];
        let (ticket, attempt) = live.dispatched.expect("a worker runs what was dispatched");
        let arbiter = &mut self.arbiter;
        let done = match step {
            Step::PrefillDone { .. } => {
                self.observer.first_token(live, now);
                self.stopwatch
                    .time(|| arbiter.prefill_done(ticket, attempt))
            }
            Step::Complete { .. } => {
                self.observer.completed(live, now);
                self.slots.put(ticket);
                self.stopwatch.time(|| arbiter.complete(ticket, attempt))
            }
        };
        done.expect("the booking of a request on a worker is live");
    }

    fn submit(&mut self, arrival: Arrival<'a>, now: Nanos) -> Result<(), SimulationError> {
        let too_many = SimulationError::TooManyAtOnce { most: SLOTS_MAX };
        let ticket = self.slots.take().ok_or(too_many)?;
        let told_cached = self.look_up(&arrival);
        let live = Live {
            number: self.arrived,
            arrival,
            told_cached,
            class: ClassIndex(0),
            was_queued: false,
            worker: 0,
            dispatched: None,
            is_settled: false,
        };
        self.arrived += 1;
        let slot = ticket.slot.0;
        match self.live.get_mut(slot as usize) {
            Some(place) => *place = live,
            // Slots that were never used come in order.
            None => self.live.push(live),
        }
        self.observer.arrived(&live);
        let asked = Request {
            cached_tokens: arrival.cached_tokens,
            hints: &self.hints,
            strict_priority: arrival.tier,
            pin: arrival.pin.map(|worker| Endpoint::new(worker, 0)),
            deadline: arrival.deadline,
            ..Request::new(arrival.prompt_tokens, arrival.at)
        };
        let (arbiter, reported) = (&mut self.arbiter, &mut self.reported);
        let taken = self.stopwatch.time(|| {
            let sink = &mut |event| reported.push(event);
            arbiter.submit(ticket, arrival.family, &asked, slot, sink)
        });
        taken.expect("an open arbiter takes a request that it has room for");
        self.take_reports(now, Some(slot))
    }

    /// Fills the hints; how many tokens are cached where the request may run.
    fn look_up(&mut self, arrival: &Arrival<'_>) -> u32 {
        self.hints.clear();
        if arrival.blocks.is_empty() {
            return arrival.cached_tokens.min(arrival.prompt_tokens);
        }
        for worker in 0..self.workers {
            let tokens = arrival.prompt_tokens;
            let cached = (self.pool).cached_tokens(worker as usize, tokens, arrival.blocks);
            if cached > 0 {
                self.hints.push(Hint {
                    endpoint: Endpoint::new(u64::from(worker) + 1, 0),
                    cached,
                });
            }
        }
        if self.hints.len() > HINTS_MAX {
            // The best ones; of equal ones the first.
            self.hints
                .sort_by_key(|hint| std::cmp::Reverse(hint.cached));
            self.hints.truncate(HINTS_MAX);
        }
        let may_run = |hint: &&Hint| {
            let worker = hint.endpoint.worker;
            arrival.pin.is_none_or(|pin| worker == WorkerId(pin))
        };
        let cached = self.hints.iter().filter(may_run).map(|hint| hint.cached);
        cached.max().unwrap_or(0)
    }

    /// Shows what was reported to the observer, and hands dispatches to their workers. What is
    /// queued is the request that is being `submitted`.
    fn take_reports(&mut self, now: Nanos, submitted: Option<u32>) -> Result<(), SimulationError> {
        let mut reported = std::mem::take(&mut self.reported);
        for event in reported.drain(..) {
            match event {
                Event::Queued { class, .. } => {
                    let slot = submitted.expect("only a submission is queued");
                    let live = &mut self.live[slot as usize];
                    (live.class, live.was_queued) = (class, true);
                    self.observer.queued(live);
                }
                Event::Dispatched(dispatch) => self.dispatch(&dispatch)?,
                Event::Ended {
                    ticket,
                    class,
                    outcome,
                    payload,
                } => {
                    self.settle(payload, class)?;
                    self.slots.put(ticket);
                    let live = &self.live[payload as usize];
                    self.observer.ended(live, outcome, now);
                }
                Event::Requeued { .. } => unreachable!("no modelled hand-over fails"),
            }
        }
        self.reported = reported;
        Ok(())
    }

    fn dispatch(&mut self, dispatch: &Dispatch<u32>) -> Result<(), SimulationError> {
        self.settle(dispatch.payload, dispatch.class)?;
        let live = &mut self.live[dispatch.payload as usize];
        let worker = dispatch.endpoint.worker.0 - 1;
        live.worker = usize::try_from(worker).expect("ids are 1 to the number of workers");
        live.dispatched = Some((dispatch.ticket, dispatch.attempt));
        let live = *live;
        let price = (dispatch.snapshot.raw, dispatch.snapshot.cached);
        let expected = (live.arrival.prompt_tokens, live.told_cached);
        if price != expected {
            return Err(unsound(
                live.number,
                format!("charged by (prompt, cached) = {price:?}, not {expected:?}"),
            ));
        }
        self.observer.dispatched(&live, dispatch);
        let job = Job {
            request: dispatch.payload,
            prompt_tokens: live.arrival.prompt_tokens,
            cached_tokens: live.arrival.cached_tokens,
            blocks: live.arrival.blocks,
            output_tokens: live.arrival.output_tokens,
        };
        self.pool.hand_over(live.worker, job);
        Ok(())
    }

    /// A request has one fate.
    fn settle(&mut self, slot: u32, class: ClassIndex) -> Result<(), SimulationError> {
        let live = &mut self.live[slot as usize];
        live.class = class;
        if std::mem::replace(&mut live.is_settled, true) {
            return Err(unsound(live.number, "it has a second fate".to_owned()));
        }
        Ok(())
    }
}

const fn unsound(number: u64, what: String) -> SimulationError {
    SimulationError::Unsound { number, what }
}
