//! Starts and stops without end: no file, thread or memory is left behind. A program of its own, since it
//! looks at the whole process.

use tollgate::policy::Profile;
use tollgate::{Builder, Engine, Request, Worker};

fn builder() -> Builder {
    Engine::builder(Profile::synthetic(None))
        .slots(256)
        .ring(16)
        .dispatch_ring(16)
        .workers(8)
        .endpoints(8)
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
        let built = builder().worker(Worker::new(1)).build::<u64>();
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
    assert!(status("Threads:").is_none_or(|threads| threads < 5));
}
