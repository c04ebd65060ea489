//! What a core took in, as its journal has it, and the oracle's opinion of it: with real threads around
//! the core, the same operations in the same order must give the same dispatches.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tollgate_policy::{Bucket, ClassPolicy, OrderPolicy, Profile, ProfileSpec};
use tollgate_sim::oracle::Oracle;
use tollgate_sim::protocol::{Event, Intake, JournalOp, Machine, Op, Submission};

use super::Core;
use crate::{
    Clock, Command, Control, Delivery, Done, EgressShard, Endpoint, IngressShard, ManualClock,
    ModelIndex, Nanos, Worker, WorkerId,
};

const FAMILIES: [&str; 3] = ["gold", "silver", "bronze"];
const SHARDS: usize = 3;
const WORKERS: u64 = 4;

fn profile() -> Profile {
    let orders = [OrderPolicy::Fcfs, OrderPolicy::Wspt, OrderPolicy::Edf];
    let classes = FAMILIES.iter().zip(orders).zip([900, 500, 100]);
    let classes = classes.map(|((family, order), quantum)| ClassPolicy {
        order,
        prefill_busy_threshold: Some(2_000),
        ..ClassPolicy::matrix(family, family, 0, quantum)
    });
    let buckets = vec![Bucket::new(0, "all")];
    Profile::build(ProfileSpec::new("silver", buckets, classes.collect())).expect("it is valid")
}

/// A stream of chance: xorshift.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// One shard's burst of random requests, and cancels of some.
fn submit_some(shard: &mut IngressShard<()>, dice: &mut Dice, now: Nanos) {
    let mut tickets = Vec::new();
    for _ in 0..dice.roll(40) {
        let pin = Endpoint::new(dice.roll(WORKERS), 0);
        let allow = [WorkerId(dice.roll(WORKERS)), WorkerId(dice.roll(WORKERS))];
        let deadline = now.saturating_add(Nanos::from_micros(1 + dice.roll(30)));
        let request = crate::Request {
            family: Some(FAMILIES[usize::try_from(dice.roll(3)).expect("small")]),
            pin: (dice.roll(3) > 0).then_some(pin),
            allow: (dice.roll(6) == 0).then_some(&allow),
            deadline: (dice.roll(4) == 0).then_some(deadline),
            strict_priority: u32::try_from(dice.roll(2)).expect("small"),
            may_wait: dice.roll(20) > 0,
            ..crate::Request::new(u32::try_from(dice.roll(1_500)).expect("small"), ())
        };
        tickets.extend(shard.try_submit(request).ok());
        if dice.roll(5) == 0 && !tickets.is_empty() {
            let at = usize::try_from(dice.roll(tickets.len() as u64)).expect("small");
            shard.cancel(tickets[at]);
        }
    }
}

/// Receives and gives feedback until told to stop; the dispatches, in order.
fn receive(shard: &mut EgressShard<()>, seed: u64, work: &Work) -> Vec<(String, u64, u8)> {
    let mut dice = Dice(seed);
    let (mut seen, mut running) = (Vec::new(), Vec::new());
    let (mut is_last, mut told) = (false, 0);
    loop {
        while let Ok(Some(delivery)) = shard.try_recv() {
            let Delivery::Dispatch(dispatch) = delivery else {
                continue;
            };
            let worker = dispatch.endpoint.worker.0;
            seen.push((dispatch.ticket.to_string(), worker, dispatch.attempt));
            if dice.roll(8) == 0 {
                shard.requeue(dispatch).expect("there is room");
            } else {
                running.push(dispatch.receipt());
            }
        }
        while running.len() > 1 || is_last && !running.is_empty() {
            let at = usize::try_from(dice.roll(running.len() as u64)).expect("small");
            let receipt = running.swap_remove(at);
            if dice.roll(2) == 0 {
                shard.prefill_done(receipt);
            }
            shard.complete(receipt);
        }
        let handled = seen.len() as u64;
        work.handled.fetch_add(handled - told, Ordering::AcqRel);
        told = handled;
        if is_last {
            return seen;
        }
        is_last = work.stop.load(Ordering::Acquire);
        std::thread::yield_now();
    }
}

/// Turns the core while the shards work; what it took in, in order.
fn turn(core: &mut Core<()>, control: &Control, hand: &ManualClock, work: &Work) -> Vec<JournalOp> {
    let mut dice = Dice(77);
    let mut dispatched = 0;
    for phase in 0..PHASES {
        // Everybody stands still here, so that a stamp is the arbiter's time.
        work.begin.wait();
        let now = Nanos::from_micros(phase);
        // Until all is submitted, and what feedback lets go has gone and has been answered. What was
        // seen as handled before an idle turn left nothing in a ring.
        loop {
            let submitting = work.submitting.load(Ordering::Acquire);
            let handled = work.handled.load(Ordering::Acquire);
            let turn = core.turn(now);
            dispatched += turn.dispatched;
            if submitting == 0 && handled == dispatched && turn.is_idle() {
                break;
            }
            std::thread::yield_now();
        }
        if phase % 4 == 0 {
            heal(core, control);
        } else {
            let command = disturbance(&mut dice);
            // The worker may be unknown: then the oracle says so as well.
            let _ = core.execute(control, command);
        }
        hand.set(Nanos::from_micros(phase + 1));
        work.submitting.store(SHARDS as u64, Ordering::Release);
        work.end.wait();
    }
    operations(core, control)
}

/// The core's journal, written and read.
fn operations(core: &mut Core<()>, control: &Control) -> Vec<JournalOp> {
    let model = ModelIndex(0);
    let taken = core.execute(control, Command::TakeJournal { model });
    let Ok(Done::Journal(Some(journal))) = taken else {
        panic!("it was captured, not {taken:?}");
    };
    assert!(!journal.is_full(), "{journal:?}");
    let mut file = Vec::new();
    journal.write(&mut file).expect("memory takes everything");
    let file = String::from_utf8(file).expect("it is text");
    let op = |line| JournalOp::parse(line).expect("it was written to be read");
    file.lines().map(op).collect()
}

/// Everything is as at the start, but for what runs.
fn heal(core: &mut Core<()>, control: &Control) {
    let model = ModelIndex(0);
    for id in 0..WORKERS {
        let worker = Worker::new(id);
        let endpoint = Endpoint::new(id, 0);
        let commands = [
            Command::UpsertWorker { model, worker },
            Command::SetLoad {
                model,
                endpoint,
                tokens: 0,
            },
        ];
        for command in commands {
            core.execute(control, command).expect("there is room");
        }
    }
}

/// Something happens to a worker.
fn disturbance(dice: &mut Dice) -> Command {
    let model = ModelIndex(0);
    let worker = Worker {
        overloaded: dice.roll(2) == 0,
        ..Worker::new(dice.roll(WORKERS))
    };
    match dice.roll(4) {
        0 => Command::RemoveWorker {
            model,
            id: worker.id,
        },
        1 => Command::SetLoad {
            model,
            endpoint: Endpoint::new(worker.id.0, 0),
            tokens: dice.roll(4_000),
        },
        _ => Command::UpsertWorker { model, worker },
    }
}

const PHASES: u64 = 60;

/// Where the threads meet.
struct Work {
    begin: Barrier,
    end: Barrier,
    submitting: AtomicU64,
    /// Dispatches that the receivers took and gave feedback for.
    handled: AtomicU64,
    stop: AtomicBool,
}

#[test]
fn what_the_core_took_in_gives_the_oracle_the_same_dispatches() {
    let (clock, hand) = Clock::manual();
    let mut builder = crate::Engine::builder(profile())
        .ingress_shards(SHARDS)
        .egress_shards(2)
        .dispatch_ring(1 << 16)
        .feedback_ring(1 << 16)
        .ring(64)
        .journal(1 << 24)
        .clock(clock);
    for id in 0..WORKERS {
        builder = builder.worker(Worker::new(id));
    }
    let by_hand = builder.build_by_hand::<()>().expect("it is valid");
    let (mut core, control) = (by_hand.core, by_hand.handles.control());
    let work = Work {
        begin: Barrier::new(SHARDS + 1),
        end: Barrier::new(SHARDS + 1),
        submitting: AtomicU64::new(SHARDS as u64),
        handled: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    };
    let (tape, dispatches) = std::thread::scope(|scope| {
        for (seed, mut shard) in (1..).zip(by_hand.ingress) {
            let work = &work;
            scope.spawn(move || {
                let mut dice = Dice(seed * 7_919);
                for phase in 0..PHASES {
                    work.begin.wait();
                    submit_some(&mut shard, &mut dice, Nanos::from_micros(phase));
                    work.submitting.fetch_sub(1, Ordering::AcqRel);
                    work.end.wait();
                }
            });
        }
        let shared = &work;
        let receivers: Vec<_> = (by_hand.egress.into_iter().zip(5..))
            .map(|(mut shard, seed)| scope.spawn(move || receive(&mut shard, seed, shared)))
            .collect();
        let tape = turn(&mut core, &control, &hand, &work);
        work.stop.store(true, Ordering::Release);
        let seen: Vec<_> = receivers
            .into_iter()
            .map(|receiver| receiver.join().expect("no receiver panics"))
            .collect();
        (tape, seen)
    });
    let expected = ask_oracle(&core, tape);
    assert!(dispatches.iter().all(|shard| shard.len() > 100));
    for (shard, seen) in dispatches.iter().enumerate() {
        let of_shard = expected
            .iter()
            .filter(|(_, worker, _)| worker % 2 == shard as u64);
        let of_shard: Vec<_> = of_shard.cloned().collect();
        assert_eq!(*seen, of_shard);
    }
}

/// The dispatches that the oracle makes of a tape.
fn ask_oracle(core: &Core<()>, tape: Vec<JournalOp>) -> Vec<(String, u64, u8)> {
    let mut oracle = Oracle::new(&profile(), 0);
    let mut events = Vec::new();
    let mut now = 0;
    let mut kinds = BTreeMap::<&str, u32>::new();
    for taken in tape {
        let op = match taken {
            JournalOp::Op(op) => op,
            JournalOp::At { ns } => {
                pass(&mut oracle, &mut now, ns, &mut events);
                continue;
            }
            JournalOp::Intake(intake) => {
                pass(&mut oracle, &mut now, intake.at_ns, &mut events);
                let class = tollgate_arbiter::ClassIndex(intake.class);
                Op::Submit(submission(
                    *intake,
                    core.models[0].arbiter.class_name(class),
                ))
            }
            JournalOp::Turn { dispatches, .. } => Op::Arbitrate {
                max: Some(dispatches),
            },
            // The checkpoint is of a core without workers, and nothing is shut in this test.
            _ => continue,
        };
        *kinds.entry(op.name().as_str()).or_default() += 1;
        oracle.apply(&op, &mut events);
    }
    for kind in [
        "submit",
        "cancel",
        "prefill_done",
        "complete",
        "requeue",
        "worker",
        "load",
    ] {
        assert!(kinds[kind] > 5, "{kinds:?}");
    }
    let dispatched = |event| match event {
        Event::Dispatched {
            id,
            worker,
            attempt,
            ..
        } => Some((
            id,
            worker.worker,
            u8::try_from(attempt).expect("few attempts"),
        )),
        _ => None,
    };
    events.into_iter().filter_map(dispatched).collect()
}

fn pass(oracle: &mut Oracle, now: &mut u64, ns: u64, events: &mut Vec<Event>) {
    let us = (ns / 1_000).saturating_sub(*now);
    *now += us;
    oracle.apply(&Op::Advance { us }, events);
}

fn submission(intake: Intake, family: &str) -> Submission {
    Submission {
        family: Some(family.to_owned()),
        cached: intake.cached,
        strict_priority: intake.strict_priority,
        priority_jump: intake.priority_jump,
        pin: intake.pin,
        allow: intake.allow,
        deadline_us: intake.deadline_ns.map(|ns| Nanos(ns).as_micros()),
        may_wait: intake.may_wait,
        ..Submission::new(&intake.id, intake.isl)
    }
}
