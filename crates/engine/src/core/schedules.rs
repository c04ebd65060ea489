//! Start, work, stop, drop and crash in thousands of random orders, checked for exactly one end of each
//! payload and for anybody who would wait for ever.
//!
//! What takes turns are the handles of an engine and its core, the product's own code over its own
//! rings: submitters, receivers, a control plane and the core, each on a coroutine that gives way
//! between its steps. A random scheduler picks whose step is next. Steps are calls, and inside the calls
//! that meet a closing core also the places between *settled*, *published* and *rung* of a submission,
//! before a requeue is sent, and between the parts of the close itself ([`close`](super::close)).
//!
//! What this does not show: the order in which one processor sees another's stores, which the models of
//! doorbell, mail and record are for; and sleep, since nobody parks here.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};

use crossbeam_channel::TryRecvError;
use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::RandomScheduler;
use shuttle::thread::{JoinHandle, spawn, yield_now};
use shuttle::{Config, MaxSteps, Runner};
use tollgate_policy::{Bucket, ClassPolicy, Profile, ProfileSpec};

use super::Core;
use crate::control::ControlError;
use crate::ingress::Seam;
use crate::{
    ByHand, Clock, Closed, Command, Control, Delivery, Dispatch, EgressShard, Engine, Handles,
    IngressShard, ManualClock, ModelIndex, Nanos, Refusal, Refused, Releases, Request,
    RequeueRefused, Ticket, Worker, WorkerId,
};

/// Payloads of one schedule at most.
const PAYLOADS: usize = 64;

// Who has a payload.
const NOBODY: u8 = 0;
const ENGINE: u8 = 1;
const EMBEDDER: u8 = 2;
const DONE: u8 = 3;

/// What all of one schedule's coroutines know.
#[derive(Debug)]
struct World {
    holders: [AtomicU8; PAYLOADS],
    made: AtomicU64,
    /// A shard was dropped: what it had, or was to get, may be dropped with it.
    is_abandoned: AtomicBool,
    /// The core has said its last word.
    is_over: AtomicBool,
    /// It went by a panic.
    is_lost: AtomicBool,
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            holders: std::array::from_fn(|_| AtomicU8::new(NOBODY)),
            made: AtomicU64::new(0),
            is_abandoned: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            is_lost: AtomicBool::new(false),
        })
    }

    /// A payload changes hands.
    fn pass(&self, id: usize, from: u8, to: u8) {
        let before = self.holders[id].swap(to, Relaxed);
        assert_eq!(before, from, "payload {id} goes to {to}");
    }
}

#[derive(Debug)]
struct Payload {
    id: usize,
    world: Arc<World>,
}

impl Payload {
    fn make(world: &Arc<World>) -> Self {
        let id = usize::try_from(world.made.fetch_add(1, Relaxed)).expect("a few");
        world.pass(id, NOBODY, ENGINE);
        Self {
            id,
            world: Arc::clone(world),
        }
    }

    fn pass(&self, from: u8, to: u8) {
        self.world.pass(self.id, from, to);
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        let holder = self.world.holders[self.id].swap(DONE, Relaxed);
        let may_be = self.world.is_abandoned.load(Relaxed);
        if !std::thread::panicking() {
            assert!(
                holder == DONE || may_be,
                "payload {} is dropped inside",
                self.id
            );
        }
    }
}

fn draw(bound: u32) -> u32 {
    thread_rng().gen_range(0..bound)
}

/// Two shards on each side, rings of a few records, and work that has to wait.
fn build() -> (ByHand<Payload>, ManualClock) {
    let mut class = ClassPolicy::matrix("only", "only", 0, 10);
    class.prefill_busy_threshold = Some(2);
    let buckets = vec![Bucket::new(0, "all")];
    let spec = ProfileSpec::new("only", buckets, vec![class]);
    let profile = Profile::build(spec).expect("a valid profile");
    let (clock, hand) = Clock::manual();
    let builder = Engine::builder(profile)
        .clock(clock)
        .ingress_shards(2)
        .egress_shards(2)
        .slots(16)
        .ring(4)
        .dispatch_ring(4)
        .feedback_ring(2)
        .extension_blocks(0)
        .classes(1)
        .workers(4)
        .endpoints(4)
        .worker(Worker::new(1))
        .worker(Worker::new(2));
    let built = builder.build_by_hand();
    (built.unwrap_or_else(|errors| panic!("{errors}")), hand)
}

struct Submitter {
    shard: IngressShard<Payload>,
    world: Arc<World>,
    releases: Releases,
    tickets: Vec<Ticket>,
}

impl Submitter {
    fn run(mut self) {
        for _ in 0..1 + draw(5) {
            match draw(6) {
                0..3 => self.submit(),
                3 => self.submit_batch(),
                4 => self.cancel(),
                _ => self.shard.refresh(),
            }
            yield_now();
        }
        if draw(4) == 0 {
            self.world.is_abandoned.store(true, Relaxed);
            return;
        }
        while !self.world.is_over.load(Relaxed) {
            yield_now();
        }
        while let Some((_, payload)) = self.shard.take_back() {
            payload.pass(ENGINE, DONE);
            yield_now();
        }
        let late = self.shard.try_submit(request(&self.world));
        let late = late.expect_err("the engine is closed");
        assert_eq!(late.reason, Refusal::Closed);
        late.request.payload.pass(ENGINE, DONE);
    }

    fn submit(&mut self) {
        let world = Arc::clone(&self.world);
        let request = request(&self.world);
        let id = request.payload.id;
        let result = self.shard.submit_with(request, |seam| {
            yield_now();
            // Only a closing core is waited for, and only by who found it gone.
            while seam == Seam::Gone && !world.is_over.load(Relaxed) {
                yield_now();
            }
        });
        hear(&mut self.tickets, id, result.map(|(ticket, _)| ticket));
    }

    fn submit_batch(&mut self) {
        let count = 1 + draw(3);
        let (world, tickets) = (&self.world, &mut self.tickets);
        let ids = RefCell::new(VecDeque::new());
        let requests = (0..count).map(|_| {
            yield_now();
            let request = request(world);
            ids.borrow_mut().push_back(request.payload.id);
            request
        });
        self.shard.submit_batch(requests, |result| {
            yield_now();
            let id = ids.borrow_mut().pop_front();
            hear(tickets, id.expect("an answer to a request"), result);
        });
    }

    fn cancel(&mut self) {
        if let Some(ticket) = self.tickets.pop() {
            if draw(2) == 0 {
                self.shard.cancel(ticket);
            } else {
                self.releases.cancel(ticket);
            }
        }
    }
}

fn request(world: &Arc<World>) -> Request<'static, Payload> {
    Request::new(draw(4), Payload::make(world))
}

/// The answer to the request whose payload has this id.
fn hear(
    tickets: &mut Vec<Ticket>,
    id: usize,
    result: Result<Ticket, Refused<Request<'_, Payload>>>,
) {
    match result {
        Ok(ticket) => tickets.push(ticket),
        Err(refused) => {
            assert_eq!(refused.request.payload.id, id, "another one comes back");
            refused.request.payload.pass(ENGINE, DONE);
        }
    }
}

struct Receiver {
    shard: EgressShard<Payload>,
    world: Arc<World>,
    running: Vec<Dispatch<Payload>>,
}

impl Receiver {
    fn run(mut self) {
        let gives_up = draw(5) == 0;
        let closed = loop {
            match self.shard.try_recv() {
                Ok(Some(delivery)) => self.take(delivery),
                Ok(None) => self.go_on(),
                Err(closed) => break closed,
            }
            yield_now();
            if gives_up && draw(8) == 0 {
                self.world.is_abandoned.store(true, Relaxed);
                self.running
                    .drain(..)
                    .for_each(|dispatch| finish(&dispatch));
                return;
            }
        };
        let is_lost = self.world.is_lost.load(Relaxed);
        assert_eq!(
            closed,
            if is_lost {
                Closed::Lost
            } else {
                Closed::Stopped
            }
        );
        for dispatch in self.running {
            match self.shard.requeue(dispatch) {
                Err(RequeueRefused::Closed(dispatch)) => finish(&dispatch),
                other => panic!("the engine is closed, not {other:?}"),
            }
        }
    }

    fn take(&mut self, delivery: Delivery<Payload>) {
        match delivery {
            Delivery::Dispatch(dispatch) => {
                dispatch.payload.pass(ENGINE, EMBEDDER);
                self.running.push(dispatch);
            }
            Delivery::Ended(ended) => ended.payload.pass(ENGINE, DONE),
            Delivery::Returned { payload, .. } => payload.pass(ENGINE, DONE),
        }
    }

    fn go_on(&mut self) {
        let Some(dispatch) = self.running.pop() else {
            return;
        };
        if draw(2) == 0 {
            finish(&dispatch);
            self.shard.prefill_done(dispatch.receipt());
            yield_now();
            self.shard.complete(dispatch.receipt());
            return;
        }
        dispatch.payload.pass(EMBEDDER, ENGINE);
        match self.shard.requeue_with(dispatch, yield_now) {
            Ok(()) => {}
            Err(RequeueRefused::Full(dispatch) | RequeueRefused::Closed(dispatch)) => {
                dispatch.payload.pass(ENGINE, EMBEDDER);
                self.running.push(dispatch);
            }
        }
    }
}

fn finish(dispatch: &Dispatch<Payload>) {
    dispatch.payload.pass(EMBEDDER, DONE);
}

/// A few control calls; each returns.
fn control(control: &Control) {
    let (model, worker) = (ModelIndex(0), Worker::new(2));
    let id = WorkerId(2);
    for _ in 0..draw(4) {
        let command = match draw(6) {
            0 => Command::UpsertWorker {
                model,
                worker: worker.clone(),
            },
            1 => Command::RemoveWorker { model, id },
            2 => Command::Snapshot {
                model,
                entries_per_lane: 2,
            },
            3 => Command::Stop { drain: Nanos(0) },
            _ => Command::Stop {
                drain: Nanos::from_micros(20),
            },
        };
        match call(control, command) {
            Ok(_) | Err(ControlError::Closed(_) | ControlError::Unknown) => {}
            Err(error) => panic!("{error}"),
        }
        yield_now();
    }
}

/// [`Control::call`], which gives way instead of blocking.
fn call(control: &Control, command: Command) -> Result<crate::Done, ControlError> {
    control.desk.carry(command, |desk, replies, order| {
        yield_now();
        desk.send(order)?;
        loop {
            match replies.try_recv() {
                Ok(reply) => return Ok(reply),
                Err(TryRecvError::Empty) => yield_now(),
                Err(TryRecvError::Disconnected) => return Err(desk.closed()),
            }
        }
    })
}

/// Turns the core until it is closed, and closes it in one of all ways.
fn turn(mut core: Core<Payload>, hand: &ManualClock, world: &World) -> Option<Core<Payload>> {
    let clock = core.clock.clone();
    let turns = draw(60);
    for _ in 0..turns {
        hand.advance(Nanos::from_micros(1));
        if core.turn(clock.now()).closed {
            world.is_over.store(true, Relaxed);
            return Some(core);
        }
        yield_now();
    }
    let core = match draw(3) {
        0 => {
            core.close_with(yield_now);
            Some(core)
        }
        1 => {
            world.is_lost.store(true, Relaxed);
            core.close_lost_with(yield_now);
            Some(core)
        }
        _ => {
            drop(core);
            None
        }
    };
    world.is_over.store(true, Relaxed);
    core
}

fn schedule() {
    let (built, hand) = build();
    let world = World::new();
    let handles: &Handles = &built.handles;
    let (releases, plane) = (handles.releases(), handles.control());
    let submitters = built.ingress.into_iter().map(|shard| {
        let submitter = Submitter {
            shard,
            world: Arc::clone(&world),
            releases: releases.clone(),
            tickets: Vec::new(),
        };
        spawn(move || submitter.run())
    });
    let submitters: Vec<JoinHandle<()>> = submitters.collect();
    let receivers = built.egress.into_iter().map(|shard| {
        let receiver = Receiver {
            shard,
            world: Arc::clone(&world),
            running: Vec::new(),
        };
        spawn(move || receiver.run())
    });
    let receivers: Vec<JoinHandle<()>> = receivers.collect();
    let plane = spawn(move || control(&plane));
    let core = spawn({
        let world = Arc::clone(&world);
        move || turn(built.core, &hand, &world)
    });
    for handle in submitters.into_iter().chain(receivers).chain([plane]) {
        handle.join().expect("it went well");
    }
    drop(core.join().expect("it went well"));
    drop((built.handles, releases));
    for id in 0..usize::try_from(world.made.load(Relaxed)).expect("a few") {
        assert_eq!(
            world.holders[id].load(Relaxed),
            DONE,
            "payload {id} has no end"
        );
    }
}

/// Each schedule is one order of everybody's steps; a hang is one that takes too many.
#[test]
fn in_any_order_every_payload_has_one_end_and_nobody_hangs() {
    const SCHEDULES: usize = 3_000;
    let mut config = Config::new();
    config.stack_size = 1 << 18;
    config.max_steps = MaxSteps::FailAfter(100_000);
    Runner::new(RandomScheduler::new(SCHEDULES), config).run(schedule);
}
