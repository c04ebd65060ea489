//! What does the choice of the class cost as classes grow in number?
//!
//! C classes, one entry each; a step selects, completes, and refills the class that was served.
//! Arms differ in what Deficit Round Robin has to do (S6.1):
//!
//! - `burst`: four entries a class, the quantum pays them all: a turn stays open;
//! - `rotate`: a quantum pays exactly one: each dispatch ends a turn;
//! - `fast_forward`: the first class needs 4,096 rounds each time, the others even more, so that
//!   each selection makes both passes and forwards;
//! - `others_blocked`: only the last class has a candidate.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use tollgate_benches::sized;
use tollgate_harness::{Draw, Driver, Lane, Setup};

const CLASSES: [u32; 4] = [1, 2, 8, 64];
/// What the class that fast-forwarding serves costs, at quantum 1.
const FORWARD_COST: u32 = 1 << 12;

/// The endpoint that is always free, and the one that an arm may make busy.
const FREE: Lane = Lane::Exact(0);
const BUSY: u32 = 1;

struct Arm {
    name: &'static str,
    quantum: u64,
    entries: u32,
    cost: fn(u16) -> u32,
    lane: fn(u16, u16) -> Lane,
}

const ARMS: [Arm; 4] = [
    Arm {
        name: "burst",
        quantum: 1 << 10,
        entries: 4,
        cost: |_| 256,
        lane: |_, _| FREE,
    },
    Arm {
        name: "rotate",
        quantum: 1 << 10,
        entries: 2,
        cost: |_| 1 << 10,
        lane: |_, _| FREE,
    },
    Arm {
        name: "fast_forward",
        quantum: 1,
        entries: 2,
        cost: |class| if class == 0 { FORWARD_COST } else { u32::MAX },
        lane: |_, _| FREE,
    },
    Arm {
        name: "others_blocked",
        quantum: 1 << 10,
        entries: 2,
        cost: |_| 1 << 10,
        lane: |class, last| {
            if class == last {
                FREE
            } else {
                Lane::Exact(BUSY)
            }
        },
    },
];

fn filled(arm: &Arm, classes: u16) -> Driver {
    let setup = Setup {
        quanta: vec![arm.quantum; usize::from(classes)],
        workers: 2,
        slots: u32::from(classes) * arm.entries + 1,
        ..Setup::default()
    };
    let mut driver = Driver::new(&setup);
    driver.set_busy(BUSY, true);
    for class in 0..classes {
        for _ in 0..arm.entries {
            submit(&mut driver, arm, class, classes - 1);
        }
    }
    driver
}

fn submit(driver: &mut Driver, arm: &Arm, class: u16, last: u16) {
    driver.submit(
        class,
        Draw::of((arm.cost)(class)),
        (arm.lane)(class, last),
        0,
    );
}

fn picks(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("drr_pick");
    for classes in CLASSES {
        let classes = u16::try_from(sized(classes)).expect("few classes");
        for arm in &ARMS {
            let mut driver = filled(arm, classes);
            group.bench_function(BenchmarkId::new(arm.name, classes), |bencher| {
                bencher.iter(|| {
                    let served = driver.select().expect("a class has a candidate");
                    driver.complete(served);
                    submit(&mut driver, arm, served.class, classes - 1);
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, picks);
criterion_main!(benches);
