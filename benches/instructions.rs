//! How many instructions does an operation take, whatever the machine is doing meanwhile?
//!
//! Counted by callgrind through `gungraun`: no clock, no noise. Only the operation that a function
//! is named for is counted (`counted_*` below); refilling between two of them is not. **Divide the
//! number of instructions printed by 1,000**, the operations of a run; `flip_all_lanes` is a single
//! pair of operations, so its number stands as it is.
//!
//! | function | counted | varies |
//! |---|---|---|
//! | `select_forwarding_alone` | a selection that fast-forwards | quantum and cost, 2 to 2^32, one class |
//! | `select_forwarding_among_eight` | a selection that fast-forwards | rounds, 2 to 2^22, eight classes |
//! | `select_among_lanes` | a selection | lanes of one entry, 10 to 10,000 |
//! | `select_from_waiting` | a selection | entries of one lane with random keys, 1 Ki to 1 Mi |
//! | `enqueue` | a submission | as above |
//! | `cancel` | a cancel | as above |
//! | `flip_one_endpoint` | an endpoint's change to busy or free | classes with a lane there, 1 to 64 |
//! | `engine_life` | the core's turns for a full life | journal off and on |
//! | `flip_all_lanes` | a worker event and the selection after it, shutting and opening | lanes, 10 and 10,000 |
//!
//! A line's ratio to the first of its function is what the bounds are about: at most 1.1 for costs
//! and quanta, 2 for lanes, 2.5 for waiting entries.
#![expect(
    missing_docs,
    unused_qualifications,
    reason = "the attribute macros of gungraun write undocumented modules and qualified paths"
)]

use std::hint::black_box;

use gungraun::prelude::*;
use gungraun::{Callgrind, EntryPoint};
use tollgate::{ByHand, Command, Core, ModelIndex, Nanos};
use tollgate_arbiter::{Ticket, WorkerId};
use tollgate_benches::{SMOKE_VARIABLE, sized};
use tollgate_harness::machine::Cores;
use tollgate_harness::pipeline::{Flow, Receiver, Rig, Submitter};
use tollgate_harness::{Draw, Driver, Lane, Served, Setup, Stream};
use tollgate_policy::OrderPolicy;

/// Operations of a run; not `sized`, so that the divisor is always the same.
const OPERATIONS: u32 = 1_000;
const TOKENS_MAX: u32 = 8_192;

// Callgrind counts inside these functions alone, so they must stay functions.

#[inline(never)]
fn counted_select(driver: &mut Driver) -> Option<Served> {
    driver.select()
}

#[inline(never)]
fn counted_submit(driver: &mut Driver, draw: Draw) -> Ticket {
    driver.submit(0, draw, Lane::Shared, 0)
}

#[inline(never)]
fn counted_turn(core: &mut Core<u64>, now: Nanos) {
    core.turn(now);
}

#[inline(never)]
fn counted_cancel(driver: &mut Driver, ticket: Ticket) {
    driver.cancel(ticket);
}

#[inline(never)]
fn counted_flip(driver: &mut Driver, busy: bool) {
    driver.set_busy(0, busy);
}

#[inline(never)]
fn counted_worker_event(driver: &mut Driver, overloaded: bool) -> Option<Served> {
    driver
        .arbiter()
        .set_overloaded(WorkerId(0), overloaded)
        .expect("the worker is known");
    driver.select()
}

/// Classes of one quantum and two requests each, of `cost` in the first and the dearest there is
/// in the others: only the first is ever served, and each time the arbiter has to forward.
fn forwarding(classes: u16, quantum: u64, cost: u32) -> (Driver, u32) {
    let setup = Setup {
        quanta: vec![quantum; usize::from(classes)],
        ..Setup::default()
    };
    let setup = Setup {
        slots: 2 * u32::from(classes) + 1,
        ..setup
    };
    let mut driver = Driver::new(&setup);
    for class in 0..classes {
        let cost = if class == 0 { cost } else { u32::MAX };
        for _ in 0..2 {
            driver.submit(class, Draw::of(cost), Lane::Shared, 0);
        }
    }
    (driver, cost)
}

fn forwarding_alone(quantum: u64, cost: u32) -> (Driver, u32) {
    forwarding(1, quantum, cost)
}

fn forwarding_among_eight(cost: u32) -> (Driver, u32) {
    forwarding(8, 1, cost)
}

fn select_and_refill((mut driver, cost): (Driver, u32)) -> Driver {
    for _ in 0..OPERATIONS {
        let served = counted_select(&mut driver).expect("nothing blocks");
        assert_eq!(served.class, 0, "the others cannot pay");
        driver.complete(served);
        driver.submit(0, Draw::of(cost), Lane::Shared, 0);
    }
    driver
}

#[library_benchmark(setup = forwarding_alone)]
#[benches::quantum_and_cost(
    (1, 2),
    (1, 1 << 8),
    (1, 1 << 16),
    (1, u32::MAX),
    (1 << 8, 1 << 9),
    (1 << 16, 1 << 17),
    (1 << 31, u32::MAX)
)]
fn select_forwarding_alone(fixture: (Driver, u32)) -> Driver {
    select_and_refill(fixture)
}

#[library_benchmark(setup = forwarding_among_eight)]
#[benches::rounds(2, 1 << 11, 1 << 22)]
fn select_forwarding_among_eight(fixture: (Driver, u32)) -> Driver {
    select_and_refill(fixture)
}

/// One waiting request in each lane; its payload is the lane.
fn one_per_lane(lanes: u32) -> Driver {
    let lanes = sized(lanes);
    let setup = Setup {
        ranks: lanes,
        slots: lanes + 1,
        hold: true,
        ..Setup::default()
    };
    let mut driver = Driver::new(&setup);
    for lane in 0..lanes {
        driver.submit(0, Draw::of(1), Lane::Exact(lane), u64::from(lane));
    }
    driver
}

#[library_benchmark(setup = one_per_lane)]
#[benches::lanes(10, 100, 1_000, 10_000)]
fn select_among_lanes(mut driver: Driver) -> Driver {
    for _ in 0..OPERATIONS {
        let served = counted_select(&mut driver).expect("nothing blocks");
        driver.complete(served);
        let lane = u32::try_from(served.payload).expect("payloads are lanes");
        driver.submit(0, Draw::of(1), Lane::Exact(lane), served.payload);
    }
    driver
}

/// A lane of random keys, the requests that follow, and the tickets that wait.
struct Backlog {
    driver: Driver,
    stream: Stream,
    waiting: Vec<Ticket>,
}

fn backlog(waiting: u32) -> Backlog {
    let waiting = sized(waiting);
    let setup = Setup {
        order: OrderPolicy::Wspt,
        slots: waiting + OPERATIONS,
        ..Setup::default()
    };
    let mut driver = Driver::new(&setup);
    let mut stream = Stream::new(TOKENS_MAX, 0, 0);
    let waiting = (0..waiting)
        .map(|_| driver.submit(0, stream.draw(), Lane::Shared, 0))
        .collect();
    Backlog {
        driver,
        stream,
        waiting,
    }
}

#[library_benchmark(setup = backlog)]
#[benches::waiting(1 << 10, 1 << 14, 1 << 16, 1 << 20)]
fn select_from_waiting(mut backlog: Backlog) -> Backlog {
    for _ in 0..OPERATIONS {
        let served = counted_select(&mut backlog.driver).expect("nothing blocks");
        backlog.driver.complete(served);
        backlog
            .driver
            .submit(0, backlog.stream.draw(), Lane::Shared, 0);
    }
    backlog
}

#[library_benchmark(setup = backlog)]
#[benches::waiting(1 << 10, 1 << 14, 1 << 16, 1 << 20)]
fn enqueue(mut backlog: Backlog) -> Backlog {
    for _ in 0..OPERATIONS {
        let draw = backlog.stream.draw();
        black_box(counted_submit(&mut backlog.driver, draw));
    }
    backlog
}

#[library_benchmark(setup = backlog)]
#[benches::waiting(1 << 10, 1 << 14, 1 << 16, 1 << 20)]
fn cancel(mut backlog: Backlog) -> Backlog {
    let len = backlog.waiting.len();
    for index in 0..OPERATIONS as usize {
        // Lengths are powers of two, so an odd stride visits all before it repeats.
        let victim = index * ((len * 5 / 8) | 1) % len;
        counted_cancel(&mut backlog.driver, backlog.waiting[victim]);
        let draw = backlog.stream.draw();
        backlog.waiting[victim] = backlog.driver.submit(0, draw, Lane::Shared, 0);
    }
    backlog
}

/// Every class has a request pinned to endpoint 0, and one to endpoint 1.
fn lanes_at_one_endpoint(classes: u16) -> Driver {
    let setup = Setup {
        quanta: vec![1_024; usize::from(classes)],
        workers: 2,
        slots: 2 * u32::from(classes),
        ..Setup::default()
    };
    let mut driver = Driver::new(&setup);
    for class in 0..classes {
        driver.submit(class, Draw::of(1), Lane::Exact(0), 0);
        driver.submit(class, Draw::of(1), Lane::Exact(1), 0);
    }
    driver
}

#[library_benchmark(setup = lanes_at_one_endpoint)]
#[benches::classes(1, 8, 64)]
fn flip_one_endpoint(mut driver: Driver) -> Driver {
    for index in 0..OPERATIONS {
        counted_flip(&mut driver, index % 2 == 0);
    }
    driver
}

/// An engine by hand, warm, and whether it captures a journal.
fn engine(captures: bool) -> (Core<u64>, Flow) {
    let built = Rig::USUAL.builder(Cores::NOBODY).build_by_hand::<u64>();
    let ByHand {
        mut core,
        handles,
        ingress,
        mut egress,
    } = built.expect("the rig is valid");
    let receiver = Receiver::new(egress.remove(0), true);
    let mut flow = Flow::new(Submitter::new(ingress), receiver);
    live(&mut core, &mut flow, |core, now| {
        core.turn(now);
    });
    if captures {
        let command = Command::StartJournal {
            model: ModelIndex(0),
            capacity_bytes: 1 << 20,
        };
        let started = core.execute(&handles.control(), command);
        started.expect("nothing is captured yet");
    }
    (core, flow)
}

/// So many full lives, 50 in a turn.
fn live(core: &mut Core<u64>, flow: &mut Flow, mut turn: impl FnMut(&mut Core<u64>, Nanos)) {
    const IN_A_TURN: u32 = 50;
    for now in 1..=OPERATIONS / IN_A_TURN {
        flow.submit(IN_A_TURN as usize);
        turn(core, Nanos(u64::from(now)));
        let received = flow.receive();
        assert_eq!(received, IN_A_TURN as usize, "no worker is busy");
    }
}

#[library_benchmark(setup = engine)]
#[benches::journal(false, true)]
fn engine_life((mut core, mut flow): (Core<u64>, Flow)) -> (Core<u64>, Flow) {
    live(&mut core, &mut flow, counted_turn);
    (core, flow)
}

#[library_benchmark(setup = one_per_lane)]
#[benches::lanes(10, 10_000)]
fn flip_all_lanes(mut driver: Driver) -> Driver {
    assert!(
        counted_worker_event(&mut driver, true).is_none(),
        "every lane is shut"
    );
    assert!(
        counted_worker_event(&mut driver, false).is_some(),
        "every lane is open"
    );
    driver
}

library_benchmark_group!(
    name = selections,
    benchmarks = [
        select_forwarding_alone,
        select_forwarding_among_eight,
        select_among_lanes,
        select_from_waiting
    ]
);
library_benchmark_group!(
    name = other_operations,
    benchmarks = [
        enqueue,
        cancel,
        flip_one_endpoint,
        flip_all_lanes,
        engine_life
    ]
);

main!(
    config = LibraryBenchmarkConfig::default()
        .pass_through_env(SMOKE_VARIABLE)
        .tool(
            Callgrind::with_args(["--cache-sim=no"])
                .entry_point(EntryPoint::Custom("*counted_*".to_owned()))
        ),
    library_benchmark_groups = [selections, other_operations]
);
