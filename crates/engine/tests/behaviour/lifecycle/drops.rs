//! Handles that are dropped in any order, and starts and stops without end.

use std::sync::Arc;

use tollgate::{Request, Worker};

use super::{Counted, Ledger, one_at_a_time, small};

/// All orders of `count` things.
fn permutations(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let shorter = permutations(count - 1);
    let longer = shorter.into_iter().flat_map(|order| {
        (0..count).map(move |at| {
            let mut order = order.clone();
            order.insert(at, count - 1);
            order
        })
    });
    longer.collect()
}

#[test]
fn handles_may_be_dropped_in_any_order() {
    for order in permutations(6) {
        let ledger = Arc::new(Ledger::default());
        let built = small(one_at_a_time()).worker(Worker::new(1));
        let built = built.build::<Counted>().expect("it is valid");
        let (engine, mut ingress, mut egress) = (built.engine, built.ingress, built.egress);
        let handles = engine.handles().clone();
        for _ in 0..4 {
            let request = Request::new(10, Counted::new(&ledger));
            ingress[0].try_submit(request).expect("there is room");
        }
        // One is received and runs, the others wait, or are on their way.
        let received = egress[0].recv().expect("the engine runs");
        let (mut engine, mut ingress, mut egress) = (Some(engine), Some(ingress), Some(egress));
        let (mut control, mut stats) = (Some(handles.control()), Some(handles.stats()));
        let mut releases = Some(handles.releases());
        drop(handles);
        for &which in &order {
            match which {
                0 => drop(engine.take()),
                1 => drop(ingress.take()),
                2 => drop(egress.take()),
                3 => drop(control.take()),
                4 => drop(stats.take()),
                _ => drop(releases.take()),
            }
        }
        drop(received);
        ledger.check(&format!("{order:?}"));
    }
}
