//! Everything at once: 64 tasks on a runtime that steals work ask for permits, and drop their futures,
//! time out, requeue, and drop permits elsewhere, while workers come and go, in an engine so small that
//! all of it overflows. Each request has one end, whatever was booked or taken is free again at the end,
//! and nobody is left waiting by a stop in the middle.
//!
//! `TOLLGATE_STRESS_OPS` is the number of requests (default 100,000), `TOLLGATE_STRESS_SEED` the start of
//! the draws.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tollgate::{
    Admission, AdmitError, BuiltAdmission, Endpoint, Engine, Hint, Idle, Nanos, Outcome, Permit,
    Refusal, Request, Worker, WorkerId,
};

use crate::common::{FIRST, classes};

const TASKS: u64 = 64;
const WORKERS: u64 = 6;
const SLOTS: usize = 32;
/// Requests of one engine.
const LIFE: u64 = 20_000;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is no number: {text}"))
    })
}

/// A stream of chance: xorshift.
struct Draws(u64);

impl Draws {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }
}

/// What became of requests, in number.
#[derive(Debug, Default)]
struct Tally {
    admitted: AtomicU64,
    requeued: AtomicU64,
    dropped_waiting: AtomicU64,
    timed_out: AtomicU64,
    full: AtomicU64,
    too_many: AtomicU64,
    closed: AtomicU64,
    rejected: AtomicU64,
    expired: AtomicU64,
    failed: AtomicU64,
    shut_down: AtomicU64,
}

fn count(of: &AtomicU64) {
    of.fetch_add(1, Ordering::Relaxed);
}

impl Tally {
    fn hear(&self, error: &AdmitError) {
        count(match error {
            AdmitError::Refused(Refusal::Full { .. }) => &self.full,
            AdmitError::Refused(Refusal::Closed) => &self.closed,
            AdmitError::TooMany { .. } => &self.too_many,
            AdmitError::Ended { outcome, .. } => match outcome {
                Outcome::Rejected(_) => &self.rejected,
                Outcome::Expired => &self.expired,
                Outcome::Failed(_) => &self.failed,
                Outcome::ShuttingDown => &self.shut_down,
                Outcome::Cancelled => panic!("only a dropped future cancels"),
            },
            error => panic!("{error}"),
        });
    }

    fn ends(&self) -> u64 {
        let all = [
            &self.admitted,
            &self.dropped_waiting,
            &self.timed_out,
            &self.full,
            &self.too_many,
            &self.closed,
            &self.rejected,
            &self.expired,
            &self.failed,
            &self.shut_down,
        ];
        all.iter().map(|of| of.load(Ordering::Relaxed)).sum()
    }
}

/// Polls a future so many times, with a turn for others between, and gives it up then.
struct Impatient<F> {
    future: F,
    polls: u64,
}

impl<F: Future + Unpin> Future for Impatient<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(output) = pin!(&mut self.future).poll(context) {
            return Poll::Ready(Some(output));
        }
        if self.polls == 0 {
            return Poll::Ready(None);
        }
        self.polls -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

struct Client {
    admission: Admission,
    clock: tollgate::Clock,
    draws: Draws,
    tally: Arc<Tally>,
    /// To a thread that never submits, and drops what it is given.
    elsewhere: std::sync::mpsc::Sender<Permit>,
}

impl Client {
    async fn run(mut self, requests: u64) {
        for _ in 0..requests {
            self.ask().await;
        }
    }

    async fn ask(&mut self) {
        let draws = &mut self.draws;
        let worker = 1 + draws.below(WORKERS);
        let hints: Vec<Hint> = (1..=draws.below(4))
            .map(|worker| Hint {
                endpoint: Endpoint::new(worker, 0),
                cached: 10,
            })
            .collect();
        let allow = [WorkerId(1 + draws.below(WORKERS)), WorkerId(1)];
        let deadline = self.clock.now().saturating_add(Nanos(draws.below(200_000)));
        let family = ["a", "b", "c"][usize::try_from(draws.below(3)).expect("small")];
        let tokens = u32::try_from(10 + draws.below(500)).expect("small");
        let plain = Request {
            family: Some(family),
            ..Request::new(tokens, ())
        };
        let request = match draws.below(8) {
            0 => Request {
                pin: Some(Endpoint::new(worker, 0)),
                ..plain
            },
            1 => Request {
                hints: &hints,
                ..plain
            },
            2 => Request {
                allow: Some(&allow),
                ..plain
            },
            3 => Request {
                deadline: Some(deadline),
                ..plain
            },
            4 => Request {
                may_wait: false,
                ..plain
            },
            _ => plain,
        };
        let future = match draws.below(4) {
            0 => self.admission.try_admit(request),
            _ => self.admission.admit(request),
        };
        let end = match draws.below(8) {
            0 => {
                let polls = draws.below(4);
                let Some(end) = (Impatient { future, polls }).await else {
                    return count(&self.tally.dropped_waiting);
                };
                end
            }
            1 => {
                let span = Duration::from_micros(draws.below(2_000));
                let Ok(end) = tokio::time::timeout(span, future).await else {
                    return count(&self.tally.timed_out);
                };
                end
            }
            _ => future.await,
        };
        match end {
            Ok(permit) => self.serve(permit).await,
            Err(error) => self.tally.hear(&error),
        }
    }

    async fn serve(&mut self, mut permit: Permit) {
        if self.draws.below(2) == 0 {
            permit.prefill_done();
        }
        if self.draws.below(4) == 0 {
            count(&self.tally.requeued);
            permit = match permit.requeue().await {
                Ok(permit) => permit,
                Err(error) => return self.tally.hear(&error),
            };
        }
        count(&self.tally.admitted);
        match self.draws.below(8) {
            0 => tokio::task::yield_now().await,
            1 => tokio::time::sleep(Duration::from_micros(self.draws.below(300))).await,
            2 => {
                let _ = self.elsewhere.send(permit);
                return;
            }
            _ => {}
        }
        drop(permit);
    }
}

fn build(draws: &mut Draws) -> BuiltAdmission {
    let profile = classes(&[
        "a quantum: 500, prefill_busy_threshold: 800",
        "b quantum: 200, prefill_busy_threshold: 400, queue_policy: wspt",
        "c quantum: 100, prefill_busy_threshold: 400, request_queue_limit_per_worker: 2",
    ]);
    let pick = |draws: &mut Draws, of: &[usize]| {
        of[usize::try_from(draws.below(of.len() as u64)).expect("small")]
    };
    let idle = [
        Idle::default(),
        Idle::Park,
        Idle::SpinThenPark {
            spins: 20,
            yields: 2,
        },
    ];
    let idle = idle[usize::try_from(draws.below(3)).expect("small")];
    let builder = Engine::builder(profile)
        .ingress_shards(pick(draws, &[1, 2, 3]))
        .egress_shards(pick(draws, &[1, 2]))
        .slots(SLOTS)
        .ring(pick(draws, &[2, 16, 64]))
        .dispatch_ring(pick(draws, &[4, 8, 64]))
        .feedback_ring(pick(draws, &[2, 4, 64]))
        .extension_ring(133)
        .extension_blocks(pick(draws, &[8, 64]))
        .room_waiters(pick(draws, &[4, 64, 256]))
        .idle(idle)
        .seed(draws.below(1 << 40));
    let builder = (1..=WORKERS).fold(builder, |builder, id| builder.worker(Worker::new(id)));
    builder
        .build_admission()
        .unwrap_or_else(|errors| panic!("{errors}"))
}

/// Takes workers away and brings them back, until told to end with all of them there.
fn churn(control: &tollgate::Control, mut draws: Draws, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let id = 3 + draws.below(WORKERS - 2);
        let done = match draws.below(4) {
            0 => control.remove_worker(FIRST, WorkerId(id)),
            1 => control.set_overloaded(FIRST, WorkerId(id), draws.below(2) == 0),
            _ => control.upsert_worker(FIRST, Worker::new(id)),
        };
        if matches!(done, Err(tollgate::ControlError::Closed(_))) {
            return;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    for id in 1..=WORKERS {
        let _ = control.upsert_worker(FIRST, Worker::new(id));
    }
}

fn is_free(control: &tollgate::Control) -> bool {
    let state = control.snapshot(FIRST, 1).expect("it runs");
    let endpoints = state.endpoints.iter();
    let booked: u64 = endpoints
        .map(|endpoint| endpoint.booked_tokens + endpoint.active)
        .sum();
    state.waiting == 0 && state.outstanding == 0 && booked == 0
}

fn wait_until(what: &str, mut is_done: impl FnMut() -> bool) {
    for _ in 0..60_000 {
        if is_done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("{what}: it never comes");
}

fn live(draws: &mut Draws, requests: u64, stops_early: bool, tally: &Arc<Tally>) {
    let before = tally.ends();
    let built = build(draws);
    let (elsewhere, given) = std::sync::mpsc::channel::<Permit>();
    let dropper = std::thread::spawn(move || given.into_iter().for_each(drop));
    let is_over = Arc::new(AtomicBool::new(false));
    let churner = std::thread::spawn({
        let (control, draws) = (built.engine.control(), Draws(draws.below(u64::MAX) | 1));
        let is_over = Arc::clone(&is_over);
        move || churn(&control, draws, &is_over)
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .expect("threads are there");
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let client = Client {
                admission: built.admission.clone(),
                clock: built.engine.handles().clock(),
                draws: Draws(draws.below(u64::MAX) | 1),
                tally: Arc::clone(tally),
                elsewhere: elsewhere.clone(),
            };
            runtime.spawn(client.run(requests / TASKS))
        })
        .collect();
    drop(elsewhere);
    let made = requests / TASKS * TASKS;
    if stops_early {
        wait_until("half of it", || tally.ends() - before >= made / 2);
        let drain = Duration::from_micros(draws.below(3) * 500);
        built.engine.control().stop(drain).expect("it runs");
    }
    runtime.block_on(async {
        for task in tasks {
            let ended = tokio::time::timeout(Duration::from_secs(60), task).await;
            ended
                .expect("no future is left pending")
                .expect("no task panics");
        }
    });
    dropper.join().expect("a drop does not panic");
    is_over.store(true, Ordering::Relaxed);
    churner.join().expect("it does not panic");
    assert_eq!(tally.ends() - before, made, "one end each");
    if !stops_early {
        let control = built.engine.control();
        wait_until("nothing is booked", || is_free(&control));
        assert_eq!(built.admission.waiting_for_room(FIRST), 0);
        take_every_slot(&built, &runtime);
        wait_until("nothing is booked", || is_free(&control));
        control.stop(Duration::ZERO).expect("it runs");
    }
    drop(runtime);
    built.engine.join().expect("nothing panicked");
}

/// Every slot is free again: as many permits are out at one time.
fn take_every_slot(built: &BuiltAdmission, runtime: &tokio::runtime::Runtime) {
    let slots = built.engine.handles().settings().slots_per_model;
    runtime.block_on(async {
        let tokens = Request {
            family: Some("a"),
            ..Request::new(1, ())
        };
        let mut permits = Vec::new();
        for _ in 0..slots {
            let mut permit = built.admission.admit(tokens).await.expect("there is room");
            permit.prefill_done();
            permits.push(permit);
        }
        let more = built.admission.try_admit(tokens).await;
        assert!(more.is_err(), "no slot is left");
    });
}

#[test]
fn every_admission_has_one_end_and_nothing_is_left_behind() {
    let requests = number("TOLLGATE_STRESS_OPS", 100_000);
    let seed = number("TOLLGATE_STRESS_SEED", 1);
    let mut draws = Draws(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let tally = Arc::new(Tally::default());
    for life in 0..requests.div_ceil(LIFE) {
        live(&mut draws, LIFE.min(requests), life % 3 == 2, &tally);
    }
    eprintln!("seed {seed}\n{tally:#?}");
}
