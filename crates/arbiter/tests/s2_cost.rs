//! S2: the cost snapshot.

mod common;

use common::{Ask, World, classes};
use tollgate_arbiter::{
    CostSnapshot, Endpoint, HINTS_MAX, Hint, InvalidRequest, Nanos, Refusal, Request, WorkerRecord,
};

fn world() -> World {
    let mut world = World::new(&classes(&["a quantum: 1"]));
    world
        .upsert(&WorkerRecord {
            ranks: 2,
            ..WorkerRecord::new(1)
        })
        .expect("room");
    world
        .upsert(&WorkerRecord {
            taints: &["gpu"],
            ..WorkerRecord::new(2)
        })
        .expect("room");
    world
}

fn snapshot(world: &World, ask: &Ask) -> (u32, u32) {
    let snapshot = ask.with_request(Nanos(0), |_, request| world.arbiter.cost_snapshot(request));
    (snapshot.cached, snapshot.cost())
}

fn hint(worker: u64, rank: u32, cached: u32) -> Hint {
    Hint {
        endpoint: Endpoint::new(worker, rank),
        cached,
    }
}

#[test]
fn s2_1_cached_is_at_most_raw_and_cost_at_least_1() {
    let world = world();
    assert_eq!(snapshot(&world, &Ask::new("x", 100)), (0, 100));
    assert_eq!(snapshot(&world, &Ask::new("x", 100).cached(99)), (99, 1));
    assert_eq!(snapshot(&world, &Ask::new("x", 100).cached(100)), (100, 1));
    assert_eq!(
        snapshot(&world, &Ask::new("x", 100).cached(u32::MAX)),
        (100, 1)
    );
    assert_eq!(snapshot(&world, &Ask::new("x", 0)), (0, 1));
    assert_eq!(snapshot(&world, &Ask::new("x", u32::MAX)), (0, u32::MAX));
}

#[test]
fn s2_1_the_snapshot_is_immutable_while_it_waits() {
    let mut world = world();
    world.shut(1, 0);
    world.shut(1, 1);
    world.shut(2, 0);
    world.submit(Ask::new("x", 100).hint(2, 0, 60));
    world.remove(2);
    world.open(1, 0);
    world.run();
    let sent = world.sent();
    assert_eq!((sent[0].cost, sent[0].at), (40, (1, 0)));
    assert_eq!(
        world.endpoint(1, 0).prefill_tokens,
        100,
        "nothing is cached there"
    );
}

#[test]
fn s2_2_uncached_may_be_0_where_cost_is_1() {
    let snapshot = CostSnapshot { raw: 7, cached: 7 };
    assert_eq!((snapshot.uncached(), snapshot.cost()), (0, 1));
}

#[test]
fn s2_3_a_pin_takes_its_own_hint_or_0() {
    let world = world();
    let pin = |ask: Ask| snapshot(&world, &ask.pin(1, 1)).0;
    assert_eq!(pin(Ask::new("x", 100).hint(1, 1, 30).hint(2, 0, 80)), 30);
    assert_eq!(pin(Ask::new("x", 100).hint(1, 0, 30)), 0, "another rank's");
    assert_eq!(
        pin(Ask::new("x", 100).cached(55).hint(2, 0, 80)),
        0,
        "hints displace `cached`"
    );
    assert_eq!(pin(Ask::new("x", 100).cached(55)), 55);
    assert_eq!(
        pin(Ask::new("x", 100)
            .hint(1, 1, 20)
            .hint(1, 1, 70)
            .hint(1, 1, 3)),
        70
    );
}

#[test]
fn s2_3_a_pin_that_fails_its_checks_has_nothing_cached() {
    let mut world = world();
    let cached = |world: &World, ask: Ask| snapshot(world, &ask.cached(55)).0;
    assert_eq!(cached(&world, Ask::new("x", 100).pin(9, 0)), 0, "unknown");
    assert_eq!(
        cached(&world, Ask::new("x", 100).pin(1, 2)),
        0,
        "no such rank"
    );
    assert_eq!(
        cached(&world, Ask::new("x", 100).pin(1, 0).allow(&[2])),
        0,
        "not allowed"
    );
    assert_eq!(
        cached(&world, Ask::new("x", 100).pin(1, 0).taint("gpu")),
        0,
        "taint missing"
    );
    assert_eq!(
        cached(&world, Ask::new("x", 100).pin(2, 0).taint("gpu")),
        55
    );
    world.available(1, false);
    assert_eq!(
        cached(&world, Ask::new("x", 100).pin(1, 0)),
        0,
        "unavailable"
    );
    world.available(1, true);
    world.overload(1, true);
    assert_eq!(
        cached(&world, Ask::new("x", 100).pin(1, 0)),
        55,
        "overload is ignored"
    );
}

#[test]
fn s2_3_unpinned_takes_the_largest_hint_of_an_eligible_endpoint() {
    let mut world = world();
    let cached = |world: &World, ask: Ask| snapshot(world, &ask).0;
    let hinted = || {
        Ask::new("x", 100)
            .cached(99)
            .hint(1, 0, 10)
            .hint(1, 1, 40)
            .hint(2, 0, 70)
            .hint(9, 0, 95)
            .hint(1, 7, 90)
    };
    assert_eq!(
        cached(&world, hinted()),
        70,
        "9 is unknown, rank 7 does not exist"
    );
    assert_eq!(cached(&world, hinted().allow(&[1])), 40);
    assert_eq!(cached(&world, hinted().allow(&[])), 0);
    assert_eq!(cached(&world, hinted().taint("gpu")), 70);
    assert_eq!(cached(&world, hinted().taint("tpu")), 0);
    world.overload(2, true);
    assert_eq!(cached(&world, hinted()), 70, "overload is ignored");
    world.available(2, false);
    assert_eq!(cached(&world, hinted()), 40);
    world.remove(1);
    assert_eq!(cached(&world, hinted()), 0);
}

#[test]
fn s2_3_without_hints_the_plain_number_holds_everywhere() {
    let mut world = world();
    assert_eq!(snapshot(&world, &Ask::new("x", 100).cached(55)).0, 55);
    world.submit(Ask::new("x", 100).cached(55));
    world.run();
    assert_eq!(world.endpoint(1, 0).prefill_tokens, 45);
}

#[test]
fn s2_3_sixteen_hints_are_taken_seventeen_are_invalid() {
    let mut world = world();
    let asked =
        |name: &str, count: usize| (0..count).fold(Ask::new(name, 50), |ask, _| ask.hint(2, 0, 20));
    world.submit(asked("x", HINTS_MAX));
    let refused = world.try_submit(asked("y", HINTS_MAX + 1));
    assert_eq!(
        refused,
        Err(Refusal::Invalid(InvalidRequest::TooManyHints { found: 17 }))
    );
    world.run();
    assert_eq!(world.endpoint(2, 0).prefill_tokens, 30);
}

#[test]
fn s2_3_of_two_hints_for_one_endpoint_the_larger_counts_at_the_booking_too() {
    let mut world = world();
    world.submit(
        Ask::new("x", 100)
            .hint(2, 0, 20)
            .hint(2, 0, 90)
            .hint(2, 0, 30)
            .allow(&[2]),
    );
    world.run();
    assert_eq!(world.endpoint(2, 0).prefill_tokens, 10);
}

#[test]
fn s2_4_counts_up_to_2_32_less_1_and_quanta_up_to_2_63() {
    let mut world = World::with_worker(&classes(&["a quantum: 9223372036854775808"]));
    world.submit(("x", u32::MAX));
    world.submit(("y", 1));
    world.run();
    let sent = world.sent();
    assert_eq!(sent[0].deficit, (1 << 63) - u64::from(u32::MAX));
    let hints = [hint(1, 0, u32::MAX)];
    let request = Request {
        hints: &hints,
        ..Request::new(u32::MAX, Nanos(0))
    };
    assert_eq!(world.arbiter.cost_snapshot(&request).cost(), 1);
}
