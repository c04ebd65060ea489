//! Starts and stops, workers that come and go, backlogs that grow and drain, requests without end: no
//! file, thread or memory is left behind. A program of its own, since it looks at the whole process.
#![expect(
    clippy::disallowed_types,
    reason = "tests that look at one process take turns"
)]

use std::sync::Mutex;

use tollgate::policy::{Bucket, ClassPolicy, Profile, ProfileSpec};
use tollgate::{
    Builder, ByHand, Clock, Command, Delivery, Endpoint, Engine, ManualClock, ModelIndex, Nanos,
    Request, Worker, WorkerId,
};

/// What one test leaves resident is not another's.
static ALONE: Mutex<()> = Mutex::new(());

const MODEL: ModelIndex = ModelIndex(0);

/// One class whose workers take one request at a time.
fn one_at_a_time() -> Profile {
    let class = ClassPolicy {
        prefill_busy_threshold: Some(0),
        ..ClassPolicy::matrix("all", "all", 0, 1_000)
    };
    let spec = ProfileSpec::new("all", vec![Bucket::new(0, "any")], vec![class]);
    Profile::build(spec).expect("it is valid")
}

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
    let _alone = ALONE.lock();
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

/// By hand, on a clock that the test moves.
fn by_hand(builder: Builder) -> (ByHand<u64>, ManualClock) {
    let (clock, hand) = Clock::manual();
    let built = builder.worker(Worker::new(1)).clock(clock).build_by_hand();
    (built.expect("it is valid"), hand)
}

/// One turn, a microsecond later; completes whatever comes out, and says how much that was.
fn turn(built: &mut ByHand<u64>, hand: &ManualClock) -> usize {
    hand.advance(Nanos::from_micros(1));
    built.core.turn(built.handles.clock().now());
    let mut ends = 0;
    while let Ok(Some(delivery)) = built.egress[0].try_recv() {
        ends += 1;
        if let Delivery::Dispatch(dispatch) = delivery {
            built.egress[0].complete(dispatch.receipt());
        }
    }
    ends
}

fn execute(built: &mut ByHand<u64>, command: Command) {
    let done = built.core.execute(&built.handles.control(), command);
    done.expect("there is room");
}

/// Memory does not grow by more than a part of what it was, where the system tells.
fn assert_flat(before: Option<u64>, after: Option<u64>, percent: u64) {
    let grown = before.zip(after);
    assert!(
        grown.is_none_or(|(before, after)| after <= before + before * percent / 100),
        "resident memory grew: {grown:?} KiB"
    );
}

fn set_load(built: &mut ByHand<u64>, tokens: u64) {
    let (model, endpoint) = (MODEL, Endpoint::new(1, 0));
    let command = Command::SetLoad {
        model,
        endpoint,
        tokens,
    };
    execute(built, command);
}

/// A backlog of a million that drains, five times. The first time touches most of what was allocated in
/// the build, the second the way back of the slots; nothing is added after that.
#[test]
fn a_backlog_that_drains_leaves_no_higher_mark() {
    const BACKLOG: u64 = 1 << 20;
    let _alone = ALONE.lock();
    let (mut built, hand) = by_hand(Engine::builder(one_at_a_time()).slots(1 << 20));
    let mut marks = Vec::new();
    for _ in 0..5 {
        set_load(&mut built, 1);
        let mut waiting = 0;
        while waiting < BACKLOG {
            while waiting < BACKLOG
                && built.ingress[0]
                    .try_submit(Request::new(5, waiting))
                    .is_ok()
            {
                waiting += 1;
            }
            assert_eq!(turn(&mut built, &hand), 0, "the worker is busy");
        }
        set_load(&mut built, 0);
        while waiting > 0 {
            waiting -= turn(&mut built, &hand) as u64;
        }
        marks.push(status("VmRSS:"));
    }
    assert_flat(marks[0], marks[1], 10);
    assert_flat(marks[1], marks[4], 1);
}

/// Workers of ever new names that come, are used, and go.
#[test]
fn workers_that_come_and_go_leave_nothing() {
    const CYCLES: u64 = 10_000;
    let _alone = ALONE.lock();
    let (mut built, hand) = by_hand(builder());
    let mut early = None;
    for cycle in 0..CYCLES {
        let worker = Worker::new(1_000 + cycle);
        let pin = Some(Endpoint::new(worker.id.0, 0));
        let id = worker.id;
        execute(
            &mut built,
            Command::UpsertWorker {
                model: MODEL,
                worker,
            },
        );
        for payload in 0..4 {
            let request = Request {
                pin,
                ..Request::new(3, payload)
            };
            built.ingress[0].try_submit(request).expect("there is room");
        }
        let mut ends = 0;
        while ends < 4 {
            ends += turn(&mut built, &hand);
        }
        execute(&mut built, Command::RemoveWorker { model: MODEL, id });
        turn(&mut built, &hand);
        if cycle == CYCLES / 10 {
            early = status("VmRSS:");
        }
    }
    assert_flat(early, status("VmRSS:"), 5);
    // Long enough for all figures to be published.
    for _ in 0..4 {
        hand.advance(Nanos::from_millis(2));
        turn(&mut built, &hand);
    }
    assert_eq!(built.handles.stats().read().models[0].endpoints.len(), 1);
}

/// Requests that all name a family that nobody ever named, each with another worker in its allow-list.
#[test]
fn names_of_requests_are_not_kept() {
    const REQUESTS: u64 = 1_000_000;
    let _alone = ALONE.lock();
    let (mut built, hand) = by_hand(builder());
    let (mut sent, mut ended, mut early) = (0, 0, None);
    while ended < REQUESTS {
        while sent < REQUESTS {
            let (family, allow) = (format!("session-{sent}"), [WorkerId(1), WorkerId(sent)]);
            let request = Request {
                family: Some(&family),
                allow: Some(&allow),
                ..Request::new(3, sent)
            };
            if built.ingress[0].try_submit(request).is_err() {
                break;
            }
            sent += 1;
        }
        ended += turn(&mut built, &hand) as u64;
        if early.is_none() && ended >= REQUESTS / 10 {
            early = status("VmRSS:");
        }
    }
    assert_flat(early, status("VmRSS:"), 5);
    assert_eq!(
        built.handles.stats().read().ingress[0].unknown_names,
        REQUESTS
    );
}
