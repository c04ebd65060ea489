//! What a router takes while nobody asks for anything.

use std::time::Duration;

use crate::stage::{Process, Router, Worker, tool};

/// Ticks in a second of the times in `/proc`, on every Linux.
const TICKS: u64 = 100;

/// Processor time that a process has used, in ticks.
fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let (_, fields) = stat.rsplit_once(')').expect("the name is in brackets");
    // User and system time are the fields 14 and 15; the first after the name is 3.
    let fields = fields.split_whitespace().skip(11).take(2);
    fields
        .map(|field| field.parse::<u64>().expect("a number"))
        .sum()
}

/// Memory of a process that is resident, in KiB.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let size = line.and_then(|line| line.split_whitespace().next());
    size.and_then(|size| size.parse().ok()).expect("a number")
}

#[test]
fn an_idle_router_takes_next_to_nothing() {
    let (first, second) = (Worker::start("1"), Worker::start("1"));
    let command = tool(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
        "--worker",
        &first.url(),
        "--worker",
        &second.url(),
    ]);
    let mut router = Router::wait_for(Process::start(command));
    let pid = router.process.child().id();
    // What the start still does in the background.
    std::thread::sleep(Duration::from_millis(500));
    let size = resident(pid) / 1_024;
    eprintln!("resident after the start: {size} MiB");
    assert!(size < 300, "{size} MiB");
    let before = ticks(pid);
    std::thread::sleep(Duration::from_secs(3));
    let used = ticks(pid) - before;
    eprintln!("ticks of {} in 3 s: {used}", 3 * TICKS);
    // Under 1 % is meant; on a busy machine each of its few wakeups costs more.
    assert!(used * 100 <= 2 * 3 * TICKS, "{used} ticks in 3 s");
}
