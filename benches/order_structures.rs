//! What does the order inside a lane cost as the lane grows?
//!
//! One class, one endpoint, the shared lane with n entries waiting. A step submits one request,
//! selects one, and completes it, so that n stay waiting. Arms differ in how keys arrive:
//!
//! - `fcfs`: in order, the usual case;
//! - `fcfs_jumps`: jumps spread new keys over the whole lane;
//! - `wspt`: random costs;
//! - `lcfs`: always a new head;
//! - `edf`: random deadlines (which also keeps the deadline structure busy).

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use tollgate_benches::sized;
use tollgate_harness::{Driver, Lane, Setup, Stream};
use tollgate_policy::OrderPolicy;

const SIZES: [u32; 5] = [1 << 6, 1 << 10, 1 << 14, 1 << 16, 1 << 20];
const TOKENS_MAX: u32 = 8_192;

/// A lane of `waiting` entries, and the requests that follow.
fn standing(order: OrderPolicy, waiting: u32, stream: Stream) -> (Driver, Stream) {
    let mut stream = stream;
    let setup = Setup {
        order,
        slots: waiting + 1,
        ..Setup::default()
    };
    let mut driver = Driver::new(&setup);
    for _ in 0..waiting {
        driver.submit(0, stream.draw(), Lane::Shared, 0);
    }
    (driver, stream)
}

fn step(driver: &mut Driver, stream: &mut Stream) {
    driver.submit(0, stream.draw(), Lane::Shared, 0);
    let served = driver.select().expect("nothing blocks");
    driver.complete(served);
}

fn orders(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("order_structures");
    for full in SIZES {
        let waiting = sized(full);
        // A microsecond passes between arrivals, so this spreads new keys over the whole lane.
        let span = u64::from(waiting) * 1_000;
        let arms = [
            ("fcfs", OrderPolicy::Fcfs, Stream::new(TOKENS_MAX, 0, 0)),
            (
                "fcfs_jumps",
                OrderPolicy::Fcfs,
                Stream::new(TOKENS_MAX, span, 0),
            ),
            ("wspt", OrderPolicy::Wspt, Stream::new(TOKENS_MAX, 0, 0)),
            ("lcfs", OrderPolicy::Lcfs, Stream::new(TOKENS_MAX, 0, 0)),
            ("edf", OrderPolicy::Edf, Stream::new(TOKENS_MAX, 0, span)),
        ];
        for (name, order, stream) in arms {
            let (mut driver, mut stream) = standing(order, waiting, stream);
            group.bench_function(BenchmarkId::new(name, full), |bencher| {
                bencher.iter(|| step(&mut driver, &mut stream));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, orders);
criterion_main!(benches);
