//! What it takes to move a cache line between two cores.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::{Cores, pin};
use crate::Summary;

/// Nanoseconds that one cache line takes from one core to the other and is seen there: half a round
/// trip, the median of 32 runs of `trips` each.
///
/// # Panics
/// If a core cannot be had.
#[must_use]
pub fn line_transfer_ns(cores: Cores, trips: u64) -> f64 {
    const RUNS: usize = 32;
    let (there, back) = (AtomicU64::new(0), AtomicU64::new(0));
    let total = trips * RUNS as u64;
    let mut samples = Vec::with_capacity(RUNS);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(cores.arbiter);
            for trip in 1..=total {
                await_value(&there, trip);
                // ORDERING: pairs with the other thread's `await_value`.
                back.store(trip, Ordering::Release);
            }
        });
        scope.spawn(|| {
            pin(cores.shards);
            let mut trip = 0;
            for _ in 0..RUNS {
                let start = Instant::now();
                for _ in 0..trips {
                    trip += 1;
                    // ORDERING: pairs with the other thread's `await_value`.
                    there.store(trip, Ordering::Release);
                    await_value(&back, trip);
                }
                #[expect(clippy::cast_precision_loss, reason = "there are few trips")]
                let ways = (2 * trips) as f64;
                samples.push(start.elapsed().as_secs_f64() * 1e9 / ways);
            }
        });
    });
    Summary::of(samples).median
}

fn await_value(word: &AtomicU64, value: u64) {
    let mut looks = 0_u32;
    // ORDERING: pairs with the stores of the thread that is waited for.
    while word.load(Ordering::Acquire) != value {
        looks += 1;
        if looks.is_multiple_of(1 << 16) {
            // Both threads may be on one core.
            std::thread::yield_now();
        }
        std::hint::spin_loop();
    }
}
