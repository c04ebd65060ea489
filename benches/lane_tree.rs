//! What does the choice among lanes cost as lanes grow in number?
//!
//! One class in arrival order, L exact lanes with one entry each. Arms:
//!
//! - `head_change`: select, complete, refill the lane that was served;
//! - `half_blocked`: the same while every second lane's endpoint is busy;
//! - `flip`: an endpoint becomes busy and free again, nothing is dispatched.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use tollgate_benches::sized;
use tollgate_harness::{Draw, Driver, Lane, Setup};

const LANES: [u32; 5] = [10, 64, 256, 1_024, 10_000];

/// One waiting request in each of `lanes` lanes; its payload is the lane.
fn filled(lanes: u32) -> Driver {
    let setup = Setup {
        workers: lanes,
        slots: lanes + 1,
        ..Setup::default()
    };
    let mut driver = Driver::new(&setup);
    for lane in 0..lanes {
        driver.submit(0, Draw::of(1), Lane::Exact(lane), u64::from(lane));
    }
    driver
}

fn step(driver: &mut Driver) {
    let served = driver.select().expect("some lane is open");
    driver.complete(served);
    let lane = u32::try_from(served.payload).expect("payloads are lanes");
    driver.submit(0, Draw::of(1), Lane::Exact(lane), served.payload);
}

fn lanes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("lane_tree");
    for full in LANES {
        let lanes = sized(full);
        let mut driver = filled(lanes);
        group.bench_function(BenchmarkId::new("head_change", full), |bencher| {
            bencher.iter(|| step(&mut driver));
        });

        let mut driver = filled(lanes);
        (0..lanes)
            .step_by(2)
            .for_each(|lane| driver.set_busy(lane, true));
        group.bench_function(BenchmarkId::new("half_blocked", full), |bencher| {
            bencher.iter(|| step(&mut driver));
        });

        let mut driver = filled(lanes);
        let mut lane = 0;
        group.bench_function(BenchmarkId::new("flip", full), |bencher| {
            bencher.iter(|| {
                driver.set_busy(lane, true);
                driver.set_busy(lane, false);
                // A stride that visits every lane, for any count used here.
                lane = (lane + 7) % lanes;
            });
        });
    }
    group.finish();
}

criterion_group!(benches, lanes);
criterion_main!(benches);
