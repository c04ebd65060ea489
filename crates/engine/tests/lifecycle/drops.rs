//! Handles that are dropped in any order, and starts and stops without end.

use std::sync::Arc;

use tollgate::{Request, Worker};

use crate::{Counted, Ledger, one_at_a_time, small};

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

/// A line of `/proc/self/status`, as a number.
fn status(key: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with(key))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[test]
fn a_thousand_starts_and_stops_leak_nothing() {
    let cycle = || {
        let built = small(one_at_a_time()).worker(Worker::new(1)).build::<u64>();
        let mut built = built.expect("it is valid");
        for id in 0..3 {
            built.ingress[0]
                .try_submit(Request::new(10, id))
                .expect("there is room");
        }
        built.egress[0].recv().expect("it runs");
        built.engine.stop().expect("it runs");
    };
    let files = || std::fs::read_dir("/proc/self/fd").map(Iterator::count).ok();
    for _ in 0..100 {
        cycle();
    }
    let (files_before, memory_before) = (files(), status("VmRSS:"));
    for _ in 0..900 {
        cycle();
    }
    // Other tests of this program run beside this one: a thread each, and what they hold.
    assert!(
        files()
            .zip(files_before)
            .is_none_or(|(now, before)| now <= before + 20)
    );
    let grown = status("VmRSS:").zip(memory_before);
    assert!(
        grown.is_none_or(|(now, before)| now <= before + 20_000),
        "resident memory grew: {grown:?} KiB"
    );
    assert!(status("Threads:").is_none_or(|threads| threads < 60));
}
