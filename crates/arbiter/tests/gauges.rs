//! Figures for a metrics board, looks at long queues, and egresses that are lost.

mod common;

use common::{Ask, Stage, World, classes};
use tollgate_arbiter::{
    Capacities, ClassIndex, EndpointIndex, FailReason, LimitKind, Nanos, SlotIndex,
};

/// A world in which each kind of figure is something else than 0.
fn busy_world() -> World {
    let mut world = World::new(&classes(&[
        "a quantum: 10, request_queue_limit_per_worker: 2",
        "b quantum: 1000",
    ]));
    for id in 1..=3 {
        world.worker(id);
    }
    world.submit_many(4, Ask::new("x", 30).cached(7));
    world.submit_many(3, Ask::new("p", 5).of("b").pin(2, 0));
    world.arbitrate(3);
    world.load(2, 0, 100);
    world.shut(3, 0);
    world.shut(1, 0);
    world.shut(2, 0);
    world.submit_many(5, Ask::new("y", 30).cached(7));
    world.submit(Ask::new("gone", 1).pin(9, 0));
    world.submit(Ask::new("late", 1).deadline_us(0));
    world.overload(3, true);
    world
}

#[test]
fn class_gauges_are_those_of_the_state() {
    let world = busy_world();
    let state = world.state();
    assert!(state.classes[0].counters.rejected[LimitKind::Requests as usize] > 0);
    assert!(state.classes[0].counters.failed[FailReason::PinnedWorkerUnknown as usize] > 0);
    for (at, class) in state.classes.iter().enumerate() {
        let index = world
            .arbiter
            .class_index(at)
            .expect("a class of the profile");
        assert_eq!(index, class.index);
        let gauges = world.arbiter.class_gauges(index).expect("in use");
        assert_eq!(
            (
                gauges.waiting,
                gauges.raw_isl_tokens,
                gauges.cached_tokens,
                gauges.outstanding
            ),
            (
                class.waiting,
                class.raw_isl_tokens,
                class.cached_tokens,
                class.outstanding
            )
        );
        assert_eq!(
            (gauges.deficit, gauges.quantum, gauges.turn_open),
            (class.deficit, class.quantum, class.turn_open)
        );
        assert_eq!(
            (gauges.limits, gauges.counters),
            (class.limits, class.counters)
        );
        assert!(!gauges.draining);
    }
    assert!(world.arbiter.class_gauges(ClassIndex(2)).is_none());
    assert!(world.arbiter.class_gauges(ClassIndex(u16::MAX)).is_none());
    assert_eq!(world.arbiter.class_index(2), None);
    assert_eq!(world.arbiter.stale_events(), state.stale_events);
}

#[test]
fn s3_7_the_gauges_of_a_class_that_drains_say_so_until_it_is_gone() {
    let mut world = World::with_worker(&classes(&["a quantum: 1", "b quantum: 1"]));
    world.submit(Ask::new("x", 1).of("b"));
    let index = world.class("b").index;
    world.reload(&classes(&["a quantum: 1"]));
    let gauges = world.arbiter.class_gauges(index).expect("it drains");
    assert!(gauges.draining && gauges.waiting == 1);
    world.run();
    world.complete("x");
    assert!(world.arbiter.class_gauges(index).is_none());
    assert_eq!(world.arbiter.class_name(index), "");
}

#[test]
fn endpoint_gauges_are_those_of_the_state_and_count_dispatches() {
    let world = busy_world();
    let state = world.state();
    for endpoint in &state.endpoints {
        assert!(endpoint.index.0 < world.arbiter.endpoint_reach());
        let gauges = world
            .arbiter
            .endpoint_gauges(endpoint.index)
            .expect("known");
        assert_eq!(gauges.endpoint, endpoint.endpoint);
        assert_eq!(
            (gauges.prefill_tokens, gauges.active),
            (endpoint.prefill_tokens, endpoint.active)
        );
        assert_eq!(
            (gauges.available, gauges.overloaded, gauges.shut),
            (endpoint.available, endpoint.overloaded, endpoint.shut)
        );
    }
    let total = |of: fn(&tollgate_arbiter::EndpointGauges) -> u64| -> u64 {
        (0..world.arbiter.endpoint_reach())
            .filter_map(|number| world.arbiter.endpoint_gauges(EndpointIndex(number)))
            .map(|gauges| of(&gauges))
            .sum()
    };
    let by_class = state.classes.iter().map(|class| class.counters);
    let (dispatched, charged) = by_class.fold((0, 0), |(dispatched, charged), counters| {
        (
            dispatched + counters.dispatched,
            charged + counters.charged_tokens,
        )
    });
    assert!(dispatched > 0);
    assert_eq!(total(|gauges| gauges.dispatched), dispatched);
    assert_eq!(total(|gauges| gauges.charged_tokens), charged);
    for unknown in [world.arbiter.endpoint_reach(), u32::MAX] {
        assert!(
            world
                .arbiter
                .endpoint_gauges(EndpointIndex(unknown))
                .is_none()
        );
    }
}

#[test]
fn an_endpoints_counters_keep_what_a_requeue_withdraws_and_go_with_it() {
    let mut world = World::with_worker(&classes(&["a quantum: 1"]));
    world.submit(("x", 9));
    world.run();
    world.requeue("x");
    world.run();
    let index = world.endpoint(1, 0).index;
    let gauges = world.arbiter.endpoint_gauges(index).expect("known");
    assert_eq!((gauges.dispatched, gauges.charged_tokens), (2, 18));
    assert_eq!(world.class("a").counters.dispatched, 1);
    world.remove(1);
    assert!(world.arbiter.endpoint_gauges(index).is_none());
    world.worker(1);
    let gauges = world
        .arbiter
        .endpoint_gauges(index)
        .expect("the old number");
    assert_eq!(gauges.dispatched, 0);
}

#[test]
fn the_oldest_waiting_request_of_each_class_is_found_in_slices() {
    let mut world = World::new(&classes(&["a quantum: 1", "b quantum: 1", "c quantum: 1"]));
    world.worker(1);
    world.shut(1, 0);
    for (name, family, at) in [
        ("x", "a", 70),
        ("y", "b", 40),
        ("z", "a", 50),
        ("w", "b", 90),
    ] {
        world.submit(Ask::new(name, 1).of(family).arrival(Nanos(at)));
    }
    let pass = |world: &World, budget| {
        let mut oldest = [Nanos::MAX; 3];
        let mut from = SlotIndex(0);
        let mut slices = 0;
        loop {
            from = world.arbiter.oldest_waiting(from, budget, &mut oldest);
            slices += 1;
            if from == SlotIndex(0) {
                return (oldest, slices);
            }
        }
    };
    let expected = [Nanos(50), Nanos(40), Nanos::MAX];
    assert_eq!(pass(&world, 1), (expected, 2_048));
    assert_eq!(pass(&world, 100), (expected, 21));
    assert_eq!(pass(&world, u32::MAX), (expected, 1));
    world.open(1, 0);
    world.arbitrate(1);
    assert_eq!(pass(&world, 500).0, [Nanos(70), Nanos(40), Nanos::MAX]);
}

#[test]
fn a_limited_state_shows_the_best_of_each_lane() {
    let mut world = World::new(&classes(&["a quantum: 1, queue_policy: wspt"]));
    world.worker(1);
    world.shut(1, 0);
    for at in 0..300_u32 {
        let name = format!("x{at}");
        let ask = Ask::new(&name, 1 + at * 7_919 % 301).tier(at % 3);
        world.submit(if at % 2 == 0 { ask } else { ask.pin(1, 0) });
    }
    let whole = world.state();
    for limit in [0, 1, 7, 149, 150, 151] {
        let limited = world.arbiter.state_limited(limit);
        let mut expected = whole.clone();
        for lane in &mut expected.classes[0].lanes {
            assert_eq!(lane.entries.len(), 150);
            lane.entries.truncate(limit);
        }
        assert_eq!(limited, expected);
    }
}

#[test]
fn s9_1_what_ran_behind_a_lost_egress_is_complete() {
    let mut world = World::sized(
        &classes(&["a quantum: 1"]),
        Capacities {
            slots: 64,
            egress_groups: 3,
            ..Capacities::default()
        },
    );
    for worker in 1..=6 {
        world.worker(worker);
        world.submit_many(4, Ask::new(&format!("w{worker}x"), 10).pin(worker, 0));
    }
    assert_eq!(world.arbitrate(20).dispatched, 20);
    world.arbiter.set_egress_room(1, 0);
    world.remove(4);
    let mut freed = Vec::new();
    let mut from = Some(SlotIndex(0));
    let mut slices = 0;
    while let Some(next) = from {
        from = world
            .arbiter
            .abandon_egress(1, next, 10, |ticket| freed.push(ticket));
        world.arbiter.check_invariants();
        slices += 1;
    }
    assert_eq!(slices, 7);
    let expected: Vec<_> = [1, 4]
        .iter()
        .flat_map(|worker| (0..4).map(move |at| format!("w{worker}x{at}")))
        .filter(|name| world.stage(name) == Stage::Running)
        .map(|name| world.ticket(&name))
        .collect();
    assert!(expected.len() > 4, "also those whose worker has left");
    assert_eq!(freed, expected);
    assert_eq!(world.endpoint(1, 0).active, 0);
    assert_eq!(
        world.arbiter.outstanding(),
        20 - u64::try_from(expected.len()).expect("few")
    );
    for ticket in freed {
        assert!(world.arbiter.complete(ticket, 1).is_err(), "stale");
    }
}
