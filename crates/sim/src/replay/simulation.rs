//! The real arbiter in front of modelled workers, in virtual time.

use tollgate_arbiter::{
    Arbiter, BuildError, Capacities, ClassIndex, Dispatch, Event, Nanos, Options, Outcome, Request,
    SLOTS_MAX, SlotPool, State, Ticket, WorkerError, WorkerRecord,
};
use tollgate_policy::Profile;

use crate::worker::{Job, Pool, Step, WorkerModel};

/// A request that will arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival<'a> {
    /// When.
    pub at: Nanos,
    /// The family or class that it names.
    pub family: &'a str,
    /// Prompt tokens, none of them cached.
    pub prompt_tokens: u32,
    /// Tokens to generate.
    pub output_tokens: u32,
}

/// Sees what happens, in order. Requests are numbered by their place in the list of arrivals.
pub trait Observer {
    /// A request waits in `class`.
    fn queued(&mut self, request: u32, class: ClassIndex) {
        let _ = (request, class);
    }
    /// A request goes to a worker; the payload is its number.
    fn dispatched(&mut self, dispatch: &Dispatch<u32>);
    /// A request will not run.
    fn ended(&mut self, request: u32, class: ClassIndex, outcome: Outcome) {
        let _ = (request, class, outcome);
    }
    /// A worker has finished a request.
    fn completed(&mut self, request: u32) {
        let _ = request;
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
    /// There are more requests than an arbiter can hold.
    #[error("{found} requests, at most {most} can be simulated")]
    TooManyRequests {
        /// How many there are.
        found: usize,
        /// How many there may be.
        most: u32,
    },
}

/// The state of the arbiter at the end, and when that was.
#[derive(Debug)]
pub struct Finish {
    /// The arbiter's own account.
    pub state: State,
    /// When the last token was out.
    pub at: Nanos,
}

/// Plays `arrivals`, which must be in order of time, to the end of the last one.
///
/// It moves the clock from one thing that happens to the next, and at each moment does the
/// following in this order, so that what happens at one moment is judged together:
///
/// 1. finished prefills and requests are reported to the arbiter;
/// 2. what arrives is submitted, in the order of the list;
/// 3. the arbiter runs one turn, that is, it dispatches until no class has a candidate;
/// 4. each worker that is in no prefill begins one with what was handed to it.
///
/// # Errors
/// Where the arbiter does not hold so many classes, workers or requests.
pub fn simulate(
    setup: &Setup<'_>,
    arrivals: &[Arrival<'_>],
    observer: &mut impl Observer,
) -> Result<Finish, SimulationError> {
    let mut run = Run::new(setup, arrivals, observer)?;
    while let Some(now) = run.next_at() {
        run.moment(now);
    }
    Ok(Finish {
        state: run.arbiter.state(),
        at: run.arbiter.now(),
    })
}

struct Run<'a, O> {
    arrivals: &'a [Arrival<'a>],
    arrived: usize,
    arbiter: Arbiter<u32>,
    slots: SlotPool,
    pool: Pool,
    observer: &'a mut O,
    /// By request: its handle and latest attempt.
    handles: Vec<Option<(Ticket, u8)>>,
    /// What the arbiter reported and nobody has looked at yet.
    reported: Vec<Event<u32>>,
}

impl<'a, O: Observer> Run<'a, O> {
    fn new(
        setup: &Setup<'_>,
        arrivals: &'a [Arrival<'a>],
        observer: &'a mut O,
    ) -> Result<Self, SimulationError> {
        let too_many = || SimulationError::TooManyRequests {
            found: arrivals.len(),
            most: SLOTS_MAX,
        };
        let slots = u32::try_from(arrivals.len().max(1)).map_err(|_| too_many())?;
        if slots > SLOTS_MAX {
            return Err(too_many());
        }
        let capacities = Capacities {
            slots,
            classes: u32::try_from(setup.profile.classes().len()).unwrap_or(u32::MAX),
            workers: setup.workers,
            endpoints: setup.workers,
            extension_blocks: 0,
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
            arrivals,
            arrived: 0,
            arbiter,
            slots: SlotPool::new(slots),
            pool: Pool::new(setup.model, setup.workers as usize),
            observer,
            handles: vec![None; arrivals.len()],
            reported: Vec::new(),
        })
    }

    fn next_at(&self) -> Option<Nanos> {
        let arrival = self.arrivals.get(self.arrived).map(|arrival| arrival.at);
        [arrival, self.pool.next_at()].into_iter().flatten().min()
    }

    fn moment(&mut self, now: Nanos) {
        let reported = &mut self.reported;
        self.arbiter.advance(now, &mut |event| reported.push(event));
        while let Some(step) = self.pool.step(now) {
            self.feed_back(step);
        }
        while let Some(arrival) = self
            .arrivals
            .get(self.arrived)
            .filter(|next| next.at <= now)
        {
            let number = u32::try_from(self.arrived).expect("arrivals are counted in u32");
            self.arrived += 1;
            self.submit(number, arrival);
        }
        let reported = &mut self.reported;
        self.arbiter
            .arbitrate(None, &mut |event| reported.push(event));
        self.take_reports(None);
        self.pool.start(now);
    }

    fn feed_back(&mut self, step: Step) {
        let (Step::PrefillDone { request } | Step::Complete { request }) = step;
        let (ticket, attempt) =
            self.handles[request as usize].expect("a worker runs what was dispatched");
        let done = match step {
            Step::PrefillDone { .. } => self.arbiter.prefill_done(ticket, attempt),
            Step::Complete { .. } => {
                self.observer.completed(request);
                let done = self.arbiter.complete(ticket, attempt);
                self.slots.put(ticket);
                done
            }
        };
        done.expect("the booking of a request on a worker is live");
    }

    fn submit(&mut self, number: u32, arrival: &Arrival<'_>) {
        let ticket = self
            .slots
            .take()
            .expect("there is a slot for every arrival");
        let asked = Request::new(arrival.prompt_tokens, arrival.at);
        let family = Some(arrival.family);
        let reported = &mut self.reported;
        self.arbiter
            .submit(ticket, family, &asked, number, &mut |event| {
                reported.push(event);
            })
            .expect("an open arbiter takes a plain request");
        self.take_reports(Some(number));
    }

    /// Shows what was reported to the observer, and hands dispatches to their workers. What is
    /// queued is the request that is being `submitted`.
    fn take_reports(&mut self, submitted: Option<u32>) {
        for event in self.reported.drain(..) {
            match event {
                Event::Queued { class, .. } => {
                    let request = submitted.expect("only a submission is queued");
                    self.observer.queued(request, class);
                }
                Event::Dispatched(dispatch) => {
                    self.observer.dispatched(&dispatch);
                    let request = dispatch.payload;
                    self.handles[request as usize] = Some((dispatch.ticket, dispatch.attempt));
                    let worker = usize::try_from(dispatch.endpoint.worker.0 - 1)
                        .expect("worker ids are 1 to the number of workers");
                    let job = Job {
                        request,
                        new_tokens: u64::from(dispatch.snapshot.uncached()),
                        output_tokens: self.arrivals[request as usize].output_tokens,
                    };
                    self.pool.hand_over(worker, job);
                }
                Event::Ended {
                    ticket,
                    class,
                    outcome,
                    payload,
                } => {
                    self.slots.put(ticket);
                    self.observer.ended(payload, class, outcome);
                }
                Event::Requeued { .. } => unreachable!("no modelled hand-over fails"),
            }
        }
    }
}
