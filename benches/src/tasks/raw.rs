//! By shards, without tasks.

use std::time::Instant;

use tollgate::{Built, Delivery};

use super::{Load, rig};
use tollgate_harness::machine::{Cores, on_core};

/// Lives a second: `try_submit`, `try_recv`, `complete`, one by one, as many in flight as there are tasks,
/// by one thread.
///
/// # Panics
/// If the engine cannot be built.
#[must_use]
pub fn by_shards(load: &Load, cores: Cores) -> f64 {
    let built = rig(1).builder(cores).build::<()>();
    let Built {
        engine,
        mut ingress,
        mut egress,
        ..
    } = built.expect("the rig is valid");
    let (mut ingress, mut egress, mut asks) = (ingress.remove(0), egress.remove(0), load.asks());
    let lives = load.lives_each() * load.tasks as u64;
    let span = on_core(cores.shards, move || {
        let begun = Instant::now();
        let (mut submitted, mut received) = (0, 0);
        while received < lives {
            if submitted < lives && submitted - received < load.tasks as u64 {
                let ticket = ingress.try_submit(asks.ask(()));
                ticket.expect("there is room for those in flight");
                submitted += 1;
            }
            if let Some(delivery) = egress.try_recv().expect("the engine runs") {
                let Delivery::Dispatch(dispatch) = delivery else {
                    panic!("nothing but dispatches is expected, not {delivery:?}");
                };
                egress.complete(dispatch.receipt());
                received += 1;
            }
        }
        begun.elapsed()
    });
    drop(engine);
    load.rate(span)
}
