//! S6.8: the arbitration `page`.

mod common;

use common::{Ask, World, classes_and};

/// Selects `count` times; the names that went.
fn go(world: &mut World, count: u64) -> String {
    assert_eq!(world.arbitrate(count).dispatched, count);
    world.order().join(" ")
}

// S6.8.

#[test]
fn s6_8_page_holder_goes_on_without_a_grant() {
    let mut world = World::with_worker(&classes_and(
        &["a quantum: 10", "b quantum: 10"],
        "arbitration: page",
    ));
    world.submit_many(4, Ask::new("a", 3).of("a"));
    world.submit_many(4, Ask::new("b", 3).of("b"));
    world.take();
    for (name, deficit) in [
        ("a0", 7),
        ("a1", 4),
        ("a2", 1),
        ("b0", 7),
        ("b1", 4),
        ("b2", 1),
    ] {
        assert!(world.select());
        let sent = world.sent();
        assert_eq!((sent[0].name.as_str(), sent[0].deficit), (name, deficit));
    }
    // a pays with 1 + 10, and is empty.
    assert!(world.select());
    assert_eq!(world.sent()[0].deficit, 0);
    assert_eq!(world.state().holder, None);
}

#[test]
fn s6_8_page_a_class_that_can_pay_skips_its_grant() {
    let mut world = World::with_worker(&classes_and(
        &["a quantum: 10", "b quantum: 10"],
        "arbitration: page",
    ));
    world.submit(Ask::new("a0", 2).of("a"));
    world.submit(Ask::new("a1", 9).of("a"));
    world.submit(Ask::new("a2", 1).of("a"));
    world.submit_many(3, Ask::new("b", 10).of("b"));
    assert_eq!(go(&mut world, 2), "a0 b0");
    world.submit(Ask::new("cheap", 3).of("a").tier(1));
    assert!(world.select());
    assert_eq!(world.sent()[0].deficit, 5, "8 - 3, without a grant");
}

#[test]
fn s6_8_page_a_holder_without_candidate_stays_one_that_cannot_pay_does_not() {
    let mut world = World::new(&classes_and(
        &["a quantum: 10", "b quantum: 10"],
        "arbitration: page",
    ));
    world.worker(1);
    world.worker(2);
    world.submit_many(3, Ask::new("a", 3).of("a").pin(1, 0));
    world.submit_many(3, Ask::new("b", 3).of("b").pin(2, 0));
    let a = world.class("a").index;
    assert_eq!(go(&mut world, 1), "a0");
    assert_eq!(world.state().holder, Some(a));
    world.shut(1, 0);
    world.shut(2, 0);
    assert!(!world.select(), "dry");
    assert_eq!(world.state().holder, Some(a));
    world.open(1, 0);
    assert_eq!(go(&mut world, 1), "a1");
    world.submit(Ask::new("dear", 9).of("a").pin(1, 0).tier(1));
    world.open(2, 0);
    assert_eq!(go(&mut world, 1), "b0");
    assert_eq!(world.deficits(&["a", "b"]), [4, 7]);
}

#[test]
fn s6_8_page_rounds_are_granted_in_full_to_every_candidate() {
    let mut world = World::with_worker(&classes_and(
        &["s quantum: 1000", "l quantum: 2000"],
        "arbitration: page",
    ));
    for (class, cost) in [("s", 7_000), ("l", 9_000)] {
        world.submit_many(2, Ask::new(class, cost).of(class));
    }
    assert_eq!(go(&mut world, 1), "l0");
    assert_eq!(world.deficits(&["s", "l"]), [5_000, 1_000]);
}

#[test]
fn s6_8_page_cursor_stands_behind_the_class_that_went() {
    let mut world = World::with_worker(&classes_and(
        &["a quantum: 10", "b quantum: 10", "c quantum: 10"],
        "arbitration: page",
    ));
    for class in ["a", "b", "c"] {
        world.submit_many(2, Ask::new(class, 10).of(class));
    }
    let c = world.class("c").index;
    let a = world.class("a").index;
    assert_eq!(world.state().cursor, Some(a));
    assert_eq!(go(&mut world, 2), "a0 b0");
    assert_eq!(world.state().cursor, Some(c));
    assert_eq!(go(&mut world, 1), "c0");
    assert_eq!(world.state().cursor, Some(a));
    assert_eq!(world.ring(), "a b c", "the ring does not move");
}

#[test]
fn s6_8_page_requeue_and_emptying_end_the_hold() {
    let mut world = World::with_worker(&classes_and(
        &["a quantum: 10", "b quantum: 10"],
        "arbitration: page",
    ));
    world.submit_many(3, Ask::new("a", 3).of("a"));
    world.submit_many(3, Ask::new("b", 3).of("b"));
    assert_eq!(go(&mut world, 1), "a0");
    assert!(world.requeue("a0"));
    assert_eq!(world.state().holder, None);
    assert_eq!(world.deficit("a"), 10);
    assert_eq!(go(&mut world, 1), "b0");
    assert!(world.cancel("b1") && world.cancel("b2"));
    assert_eq!(world.state().holder, None);
    assert_eq!(world.deficit("b"), 0);
}

#[test]
fn s6_8_page_does_not_remember_or_cut() {
    let mut world = World::with_worker(&classes_and(
        &["a quantum: 10", "b quantum: 10"],
        "arbitration: page",
    ));
    world.submit(Ask::new("big", 1_000).of("a"));
    world.submit(Ask::new("small", 5).of("a"));
    world.submit_many(60, Ask::new("b", 10).of("b"));
    world.arbitrate(50);
    let credit = world.deficit("a");
    assert!(credit > 15);
    assert!(world.cancel("big"));
    assert_eq!(world.deficit("a"), credit);
}

#[test]
fn s6_8_page_dry_selections_change_nothing() {
    let mut world = World::with_worker(&classes_and(
        &["a quantum: 10", "b quantum: 10"],
        "arbitration: page",
    ));
    world.submit_many(3, Ask::new("a", 3).of("a"));
    world.submit_many(3, Ask::new("b", 30).of("b"));
    world.select();
    world.shut(1, 0);
    let before = world.state();
    for _ in 0..100 {
        assert!(!world.select());
    }
    assert_eq!(world.state(), before);
}
