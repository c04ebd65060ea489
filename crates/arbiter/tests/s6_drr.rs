//! S6.1 to S6.5 and S6.7: selections, turns, grants, in `exact`.

mod common;

use common::{Ask, World, classes};

/// A world whose only worker takes everything at once, so that nothing ever blocks.
fn unblocked(lines: &[&str]) -> World {
    World::with_worker(&classes(lines))
}

/// Selects `count` times; the names that went.
fn go(world: &mut World, count: u64) -> String {
    assert_eq!(world.arbitrate(count).dispatched, count);
    world.order().join(" ")
}

// S6.1.

#[test]
fn s6_1_a_dry_selection_changes_nothing() {
    let mut world = unblocked(&["a quantum: 10", "b quantum: 10"]);
    world.submit(Ask::new("a0", 15).of("a"));
    world.submit(Ask::new("a1", 15).of("a"));
    world.submit(Ask::new("b0", 25).of("b"));
    assert_eq!(go(&mut world, 1), "a0");
    world.shut(1, 0);
    let before = world.state();
    for _ in 0..1_000 {
        assert!(!world.select(), "dry");
    }
    assert_eq!(world.state(), before);
}

#[test]
fn s6_1_step_1_ends_turns_that_cannot_be_paid_in_ring_order() {
    // a and b are left with open turns and too little credit, c with a closed one.
    let mut world = World::new(&classes(&[
        "a quantum: 10, prefill_busy_threshold: 0",
        "b quantum: 10, prefill_busy_threshold: 0",
        "c quantum: 10, prefill_busy_threshold: 0",
    ]));
    for id in 1..=3 {
        world.worker(id);
    }
    for (class, worker) in [("a", 1), ("b", 2), ("c", 3)] {
        for at in 0..3 {
            world.submit(
                Ask::new(&format!("{class}{at}"), 8)
                    .of(class)
                    .pin(worker, 0),
            );
        }
    }
    assert_eq!(world.run().dispatched, 3);
    assert_eq!(world.order(), ["a0", "b0", "c0"]);
    assert_eq!(
        world.ring(),
        "a* b* c*",
        "turns stay open while a class is blocked"
    );
    assert_eq!(world.deficits(&["a", "b", "c"]), [2, 2, 2]);
    // Only a and c are candidates again: their turns end, b's does not.
    assert!(world.complete("a0") && world.complete("c0"));
    assert!(world.select());
    assert_eq!(world.order(), ["a1"]);
    assert_eq!(world.ring(), "b* a* c");
    assert_eq!(world.deficits(&["a", "b", "c"]), [4, 2, 2]);
}

#[test]
fn s6_1_step_2_a_passed_over_class_keeps_place_turn_and_credit() {
    let mut world = World::new(&classes(&[
        "a quantum: 10, prefill_busy_threshold: 0",
        "b quantum: 10, prefill_busy_threshold: 0",
        "empty quantum: 10",
    ]));
    world.worker(1);
    world.worker(2);
    world.submit(Ask::new("a0", 6).of("a").pin(1, 0));
    world.submit(Ask::new("a1", 4).of("a").pin(1, 0));
    world.submit(Ask::new("b0", 6).of("b").pin(2, 0));
    world.submit(Ask::new("b1", 6).of("b").pin(2, 0));
    assert!(world.select());
    assert_eq!(world.ring(), "a* b empty");
    // a is blocked now; b goes, in the middle of the ring, and nothing else moves.
    assert!(world.select());
    assert_eq!(world.order(), ["a0", "b0"]);
    assert_eq!(world.ring(), "a* b* empty");
    assert_eq!(world.deficits(&["a", "b", "empty"]), [4, 4, 0]);
    // The turn goes on where it was: no second grant.
    assert!(world.complete("a0"));
    assert!(world.select());
    assert_eq!(world.sent()[0].deficit, 0);
}

#[test]
fn s6_1_step_3_gives_only_classes_with_a_candidate_and_one_round_less() {
    // s: 1000 of 6000, l: 2000 of 9000; idle has work, but none that may go.
    let mut world = World::new(&classes(&[
        "s quantum: 1000",
        "idle quantum: 500, prefill_busy_threshold: 0",
        "l quantum: 2000",
    ]));
    world.worker(1);
    world.worker(2);
    world.load(2, 0, 1);
    world.submit(Ask::new("i0", 100).of("idle").pin(2, 0));
    world.submit(Ask::new("s0", 6_000).of("s"));
    world.submit(Ask::new("s1", 6_000).of("s"));
    world.submit(Ask::new("l0", 9_000).of("l"));
    world.submit(Ask::new("l1", 9_000).of("l"));
    assert_eq!(go(&mut world, 1), "l0");
    // 4 further rounds for l: 3 fast-forwarded, 1 by its turn in the second pass.
    assert_eq!(world.deficits(&["s", "idle", "l"]), [5_000, 0, 1_000]);
    assert_eq!(world.ring(), "idle l* s");
}

#[test]
fn s6_1_step_4_the_first_that_can_pay_goes_and_later_ones_get_nothing() {
    // Both need exactly three rounds; a is first.
    let mut world = unblocked(&["a quantum: 10", "b quantum: 20"]);
    for (class, cost) in [("a", 30), ("b", 60)] {
        world.submit_many(2, Ask::new(class, cost).of(class));
    }
    assert_eq!(go(&mut world, 1), "a0");
    assert_eq!(world.deficits(&["a", "b"]), [0, 40]);
    assert_eq!(world.ring(), "b a");
    assert_eq!(go(&mut world, 1), "b0");
    assert_eq!(world.deficits(&["a", "b"]), [0, 0]);
}

// S6.2.

#[test]
fn s6_2_a_burst_goes_on_while_the_candidate_is_affordable() {
    let mut world = unblocked(&["a quantum: 10", "b quantum: 10"]);
    for (name, cost) in [("a0", 4), ("a1", 4), ("a2", 2), ("a3", 1)] {
        world.submit(Ask::new(name, cost).of("a"));
    }
    world.submit_many(2, Ask::new("b", 10).of("b"));
    assert_eq!(go(&mut world, 1), "a0");
    assert_eq!(world.ring(), "a* b");
    assert_eq!(go(&mut world, 4), "a1 a2 b0 a3");
}

#[test]
fn s6_2_a_deficit_of_0_ends_the_turn() {
    let mut world = unblocked(&["a quantum: 10", "b quantum: 10"]);
    world.submit_many(3, Ask::new("a", 10).of("a"));
    world.submit(Ask::new("b0", 10).of("b"));
    assert_eq!(go(&mut world, 1), "a0");
    assert_eq!(world.ring(), "b a");
    assert_eq!(world.deficit("a"), 0);
}

#[test]
fn s6_2_an_emptied_class_has_deficit_0_and_goes_to_the_end() {
    let mut world = unblocked(&["a quantum: 10", "b quantum: 10"]);
    world.submit(Ask::new("a0", 3).of("a"));
    world.submit(Ask::new("b0", 3).of("b"));
    assert!(world.select());
    let sent = world.sent();
    assert_eq!((sent[0].name.as_str(), sent[0].deficit), ("a0", 0));
    assert_eq!(world.ring(), "b a");
    assert_eq!(world.deficit("a"), 0);
}

// S6.3.

#[test]
fn s6_3_affordability_is_decided_on_the_candidate_as_it_is_then() {
    let mut world = unblocked(&["a quantum: 10", "b quantum: 10"]);
    world.submit(Ask::new("a0", 5).of("a"));
    world.submit(Ask::new("a1", 5).of("a"));
    world.submit_many(3, Ask::new("b", 10).of("b"));
    assert_eq!(go(&mut world, 1), "a0");
    // Credit 5 would pay a1, but a dearer entry of a higher tier is the candidate now.
    world.submit(Ask::new("dear", 6).of("a").tier(1));
    assert_eq!(go(&mut world, 1), "b0");
    assert_eq!(world.deficit("a"), 5);
    assert_eq!(go(&mut world, 1), "dear");
    assert_eq!(world.deficit("a"), 9);
}

#[test]
fn s6_3_a_class_emptied_by_cancel_loses_credit_turn_and_place_at_once() {
    let mut world = unblocked(&["a quantum: 10", "b quantum: 10"]);
    world.submit(Ask::new("a0", 4).of("a"));
    world.submit(Ask::new("a1", 4).of("a"));
    world.submit(Ask::new("b0", 4).of("b"));
    assert_eq!(go(&mut world, 1), "a0");
    assert_eq!(world.ring(), "a* b");
    assert!(world.cancel("a1"));
    assert_eq!(world.ring(), "b a");
    assert_eq!(world.deficit("a"), 0);
}

#[test]
fn s6_3_a_class_emptied_by_expiry_loses_credit_turn_and_place_at_once() {
    let mut world = unblocked(&["a quantum: 10", "b quantum: 10"]);
    world.submit(Ask::new("a0", 4).of("a"));
    world.submit(Ask::new("a1", 4).of("a").deadline_us(5));
    world.submit(Ask::new("b0", 4).of("b"));
    assert_eq!(go(&mut world, 1), "a0");
    world.advance_us(5);
    assert_eq!(world.ring(), "b a");
    assert_eq!(world.deficit("a"), 0);
}

#[test]
fn s6_3_a_class_emptied_by_failure_loses_credit_turn_and_place_at_once() {
    let mut world = unblocked(&["a quantum: 10", "b quantum: 10"]);
    world.worker(2);
    world.submit(Ask::new("a0", 4).of("a"));
    world.submit(Ask::new("a1", 4).of("a").pin(2, 0));
    world.submit(Ask::new("b0", 4).of("b"));
    assert_eq!(go(&mut world, 1), "a0");
    world.remove(2);
    assert_eq!(world.ring(), "a* b", "failures take effect at the sweep");
    world.advance_us(0);
    assert_eq!(world.ring(), "b a");
    assert_eq!(world.deficit("a"), 0);
}

#[test]
fn s6_3_a_class_emptied_with_its_turn_closed_still_moves_to_the_end() {
    let mut world = unblocked(&["a quantum: 10", "b quantum: 10", "c quantum: 10"]);
    for class in ["a", "b", "c"] {
        world.submit(Ask::new(class, 4).of(class));
    }
    assert!(world.cancel("a"));
    assert_eq!(world.ring(), "b c a");
}

// S6.5.

#[test]
fn s6_5_quantum_is_granted_per_turn_not_per_visit() {
    let mut world = unblocked(&["a quantum: 10", "b quantum: 10"]);
    world.submit_many(4, Ask::new("a", 3).of("a"));
    world.submit(Ask::new("b0", 3).of("b"));
    world.take();
    for deficit in [7, 4, 1] {
        assert!(world.select());
        assert_eq!(world.sent()[0].deficit, deficit);
    }
}

#[test]
fn s6_5_an_opening_turn_gets_its_quantum_also_with_credit_left() {
    let mut world = unblocked(&["a quantum: 10", "b quantum: 10"]);
    world.submit(Ask::new("a0", 2).of("a"));
    world.submit(Ask::new("a1", 9).of("a"));
    world.submit(Ask::new("a2", 1).of("a"));
    world.submit_many(3, Ask::new("b", 10).of("b"));
    assert_eq!(go(&mut world, 2), "a0 b0");
    assert_eq!(
        world.deficit("a"),
        8,
        "the turn of a ended with 8, too little for 9"
    );
    // Now a cheap head shows up that 8 would pay: the turn opens and gets its 10 all the same.
    world.submit(Ask::new("cheap", 3).of("a").tier(1));
    assert!(world.select());
    let sent = world.sent();
    assert_eq!((sent[0].name.as_str(), sent[0].deficit), ("cheap", 15));
}

// S6.7, and the extremes of costs and quanta.

#[test]
fn s6_7_a_head_of_four_billion_goes_in_the_first_selection() {
    let mut world = unblocked(&["a quantum: 1"]);
    world.submit(Ask::new("huge", u32::MAX));
    world.submit(Ask::new("next", 1));
    assert!(world.select());
    let sent = world.sent();
    assert_eq!((sent[0].cost, sent[0].deficit), (u32::MAX, 0));
}

#[test]
fn s6_7_extreme_quanta_and_costs_side_by_side() {
    let mut world = unblocked(&[
        "tiny quantum: 1",
        "vast quantum: 9223372036854775808",
        "mid quantum: 4096",
    ]);
    for class in ["tiny", "vast", "mid"] {
        world.submit_many(3, Ask::new(class, u32::MAX).of(class));
    }
    assert_eq!(go(&mut world, 4), "vast0 vast1 vast2 mid0");
    let needed = u64::from(u32::MAX).div_ceil(4_096);
    // mid: one turn in the selection of vast0, which passed it or not; its credit is exact.
    assert_eq!(world.deficit("mid"), needed * 4_096 - u64::from(u32::MAX));
    assert!(world.deficit("tiny") <= needed);
    assert_eq!(go(&mut world, 5).split(' ').count(), 5);
    assert_eq!(world.state().waiting, 0);
}

#[test]
fn s6_7_deficits_saturate() {
    // 2^63 each turn; the class is never emptied and never broke.
    let mut world = unblocked(&["a quantum: 9223372036854775808", "b quantum: 1"]);
    world.submit(Ask::new("a0", 5).of("a"));
    world.submit_many(8, Ask::new("low", 5).of("a"));
    world.submit_many(8, Ask::new("b", 1).of("b"));
    let half = 1_u64 << 63;
    assert!(world.select());
    assert_eq!(world.deficit("a"), half - 5);
    // A requeue ends the turn, and the next one opens with credit left: it saturates on the way.
    assert!(world.requeue("a0"));
    assert_eq!(world.deficit("a"), half);
    world.take();
    assert_eq!(go(&mut world, 2), "b0 a0");
    assert_eq!(world.deficit("a"), u64::MAX - 5);
    assert!(world.requeue("a0"));
    assert_eq!(
        world.deficit("a"),
        u64::MAX - 5,
        "a refund never lowers, and lifts to 2^63 + 5 only"
    );
}
