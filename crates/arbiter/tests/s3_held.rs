//! S3.7 for a loop with threads around it: classes that are held, and the profile of before.

mod common;

use std::sync::Arc;

use common::{World, classes};
use tollgate_arbiter::{Capacities, Nanos, Request, Resource, SlotPool};

#[test]
fn s3_7_a_held_class_stays_when_it_is_empty_and_takes_what_was_resolved_before() {
    let mut world = World::with_worker(&classes(&["a quantum: 1", "b quantum: 1"]));
    let b = world.class("b").index;
    world.arbiter.hold_drained(true);
    world.reload(&classes(&["a quantum: 1"]));
    assert!(world.class("b").draining, "empty, and yet there");
    let mut slots = SlotPool::new(1_000);
    let ticket = std::iter::from_fn(|| slots.take())
        .last()
        .expect("a slot that the world does not use");
    let request = Request::new(5, Nanos(0));
    let snapshot = world.arbiter.cost_snapshot(&request);
    let mut seen = Vec::new();
    world
        .arbiter
        .submit_at(ticket, b, snapshot, &request, 7, &mut |event| {
            seen.push(event);
        })
        .expect("accepted");
    assert!(world.arbiter.select(&mut |event| seen.push(event)));
    world.arbiter.complete(ticket, 1).expect("it runs");
    world.arbiter.check_invariants();
    assert_eq!(world.class("b").counters.dispatched, 1);
    world.arbiter.hold_drained(false);
    assert_eq!(world.state().classes.len(), 1);
    let refused = world
        .arbiter
        .submit_at(ticket, b, snapshot, &request, 7, &mut |_| ());
    let refused = refused.expect_err("the class is gone");
    assert_eq!(refused.payload, 7);
}

#[test]
fn s3_7_held_classes_count_against_the_capacity() {
    let capacities = Capacities {
        classes: 2,
        ..Capacities::default()
    };
    let profile = classes(&["a quantum: 1"]);
    let mut world = World::sized(&profile, capacities);
    world.arbiter.hold_drained(true);
    world.reload(&classes(&["b quantum: 1"]));
    let reload = |world: &mut World| {
        let profile = Arc::new(classes(&["c quantum: 1"]));
        world.arbiter.reload(profile).map(|done| done.generation)
    };
    let full = reload(&mut world).expect_err("a is held");
    assert_eq!((full.what, full.required), (Resource::Classes, 3));
    world.arbiter.hold_drained(false);
    assert_eq!(reload(&mut world), Ok(3));
}

#[test]
fn s3_7_a_reload_gives_the_profile_of_before_back() {
    let first = classes(&["a quantum: 1"]);
    let mut world = World::sized(&first, Capacities::default());
    let held = Arc::clone(world.arbiter.profile());
    let second = Arc::new(classes(&["a quantum: 2"]));
    let reloaded = world.arbiter.reload(Arc::clone(&second)).expect("fits");
    assert!(Arc::ptr_eq(&reloaded.before, &held));
    assert!(Arc::ptr_eq(world.arbiter.profile(), &second));
}
