//! By permits.

use std::hint::black_box;
use std::time::Instant;

use tollgate::Admission;

use super::{Load, rig};
use tollgate_harness::machine::Cores;
use tollgate_harness::pipeline::Asks;

async fn live(admission: Admission, mut asks: Asks, lives: u64) {
    for _ in 0..lives {
        let permit = admission.admit(asks.ask(())).await;
        black_box(permit.expect("the engine runs").endpoint());
    }
}

/// Lives a second: `admit`, and drop the permit.
///
/// # Panics
/// If the engine cannot be built.
#[must_use]
pub fn by_permits(load: &Load, cores: Cores) -> f64 {
    let built = rig(load.threads.max(2)).builder(cores).build_admission();
    let built = built.expect("the rig is valid");
    let (runtime, asks) = (load.runtime(), load.asks());
    let span = runtime.block_on(async {
        let begun = Instant::now();
        let task = |number| {
            let admission = built.admission.clone();
            tokio::spawn(live(admission, asks.from(number), load.lives_each()))
        };
        let tasks: Vec<_> = (0..load.tasks).map(task).collect();
        for task in tasks {
            task.await.expect("it does not panic");
        }
        begun.elapsed()
    });
    load.rate(span)
}
