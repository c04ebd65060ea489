//! Arguments at the edge of their range: an answer, never a panic.
#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod common;

use common::{Ask, World, classes};
use tollgate_arbiter::{
    Arbiter, Capacities, CostSnapshot, Endpoint, Event, FailReason, Nanos, Options, Outcome,
    Request, SlotPool, WorkerRecord,
};

/// As many different taints as can be in use.
fn all_taints() -> Vec<String> {
    (0..tollgate_arbiter::TAINTS_MAX)
        .map(|at| format!("t{at}"))
        .collect()
}

#[test]
fn the_last_rank_of_all_may_be_upserted_and_removed_again() {
    let mut world = World::new(&classes(&["a quantum: 1"]));
    let record = WorkerRecord {
        first_rank: u32::MAX,
        ..WorkerRecord::new(1)
    };
    world.upsert(&record).unwrap();
    world.upsert(&record).unwrap();
    world.submit(Ask::new("x", 1).pin(1, u32::MAX));
    world.run();
    assert_eq!(world.sent()[0].at, (1, u32::MAX));
    let moved = WorkerRecord {
        first_rank: 0,
        ..record
    };
    world.upsert(&moved).unwrap();
    assert_eq!(world.state().endpoints.len(), 1, "the last rank is gone");
    assert!(world.complete("x"));
    assert!(world.remove(1));
}

#[test]
fn a_pin_that_requires_an_unknown_taint_fails_also_where_every_taint_is_in_use() {
    let mut world = World::new(&classes(&["a quantum: 1"]));
    let names = all_taints();
    let taints: Vec<&str> = names.iter().map(String::as_str).collect();
    world
        .upsert(&WorkerRecord {
            taints: &taints,
            ..WorkerRecord::new(1)
        })
        .unwrap();
    world.submit(Ask::new("shared", 1).taint("nobody has it"));
    world.submit(Ask::new("pinned", 1).taint("nobody has it").pin(1, 0));
    world.expect(&[
        "failed shared no_eligible_worker",
        "failed pinned pinned_taint_missing",
    ]);
}

#[test]
fn a_snapshot_with_more_cached_than_raw_tokens_does_not_break_the_books() {
    let profile = classes(&["a quantum: 1"]);
    let mut arbiter = Arbiter::build(&profile, Capacities::default(), Options::default()).unwrap();
    let mut slots = SlotPool::new(4);
    arbiter.upsert_worker(&WorkerRecord::new(1)).unwrap();
    let request = Request::new(5, Nanos(0));
    let snapshot = CostSnapshot { raw: 5, cached: 9 };
    let class = arbiter.resolve(None, 0).0;
    let mut events: Vec<Event<()>> = Vec::new();
    let ticket = slots.take().unwrap();
    let result = arbiter.submit_at(ticket, class, snapshot, &request, (), &mut |e| {
        events.push(e);
    });
    // Refused as invalid, or taken with `cached` cut to `raw`: either is an answer.
    if result.is_ok() {
        assert!(arbiter.select(&mut |e| events.push(e)));
        arbiter.complete(ticket, 1).unwrap();
    }
    arbiter.check_invariants();
    let state = arbiter.state();
    assert_eq!(state.classes[0].cached_tokens, 0);
    assert_eq!(state.endpoints[0].prefill_tokens, 0);
}

#[test]
fn ranks_that_are_no_range_are_refused() {
    let mut world = World::new(&classes(&["a quantum: 1"]));
    for (first_rank, ranks) in [(0, 0), (7, 0), (u32::MAX, 2), (2, u32::MAX), (0, u32::MAX)] {
        let record = WorkerRecord {
            first_rank,
            ranks,
            ..WorkerRecord::new(1)
        };
        assert!(world.upsert(&record).is_err(), "{first_rank} + {ranks}");
        assert_eq!(world.state().worker_count, 0);
    }
}

#[test]
fn times_and_deadlines_at_their_maximum() {
    let mut world = World::with_worker(&classes(&[
        "a quantum: 1, prefill_busy_threshold: 0",
        "t quantum: 1, prefill_busy_threshold: 0, queue_timeout_ms: 18446744073709551615",
    ]));
    world.load(1, 0, u64::MAX);
    world.submit(Ask::new("x", 1).deadline_us(u64::MAX));
    world.submit(Ask::new("t", 1).of("t"));
    world.submit(Ask::new("future", 1).arrival(Nanos::MAX).jump(1e9));
    world.submit(Ask::new("past", 1).arrival(Nanos(0)).jump(f64::MAX));
    world.take();
    world.advance_us(u64::MAX / 2_000);
    world.expect(&[]);
    assert_eq!(world.lane("a", None), ["past", "x", "future"]);
    world.arbiter.advance(Nanos::MAX, &mut |event| {
        let Event::Ended { outcome, .. } = event else {
            panic!("{event:?}")
        };
        assert_eq!(outcome, Outcome::Expired);
    });
    assert_eq!(world.arbiter.now(), Nanos::MAX);
    assert_eq!(world.arbiter.waiting(), 2);
}

#[test]
fn every_reason_has_its_own_code() {
    let mut codes: Vec<_> = FailReason::ALL.iter().map(|reason| reason.code()).collect();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), FailReason::ALL.len());
    let endpoint = Endpoint::new(7, 3);
    assert_eq!(endpoint.to_string(), "[7, 3]");
}
