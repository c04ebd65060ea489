//! S6: which class goes next. Worked values, turns, credit; `exact` unless a name says `page`.

mod common;

use common::{Ask, World, classes, classes_and};

/// A world whose only worker takes everything at once, so that nothing ever blocks.
fn unblocked(lines: &[&str]) -> World {
    World::with_worker(&classes(lines))
}

/// Selects `count` times; the names that went.
fn go(world: &mut World, count: u64) -> String {
    assert_eq!(world.arbitrate(count).dispatched, count);
    world.order().join(" ")
}

/// Serves `count` requests, each of which completes before the next selection.
fn one_at_a_time(world: &mut World, count: usize) -> Vec<String> {
    let mut classes = Vec::new();
    for _ in 0..count {
        assert_eq!(world.run().dispatched, 1, "the one slot takes one request");
        let sent = world.sent();
        assert!(world.complete(&sent[0].name));
        classes.push(sent[0].class.clone());
    }
    classes
}

fn count(classes: &[String], name: &str) -> usize {
    classes.iter().filter(|class| *class == name).count()
}

fn premium_and_regular(premium: u64, regular: u64, threshold: u64) -> World {
    let mut world = World::with_worker(&classes(&[
        &format!("premium quantum: {premium}, prefill_busy_threshold: {threshold}"),
        &format!("regular quantum: {regular}, prefill_busy_threshold: {threshold}"),
    ]));
    world.checks = false;
    world.submit_many(320, Ask::new("p", 512).of("premium"));
    world.submit_many(320, Ask::new("r", 512).of("regular"));
    world.take();
    world
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

// S6.4.

#[test]
fn s6_4_one_slot_at_a_time_2048_to_512_gives_256_to_64() {
    let served = one_at_a_time(&mut premium_and_regular(2_048, 512, 0), 320);
    assert_eq!(
        (count(&served, "premium"), count(&served, "regular")),
        (256, 64)
    );
}

#[test]
fn s6_4_one_slot_at_a_time_1024_to_256_gives_256_to_64() {
    let served = one_at_a_time(&mut premium_and_regular(1_024, 256, 0), 320);
    assert_eq!(
        (count(&served, "premium"), count(&served, "regular")),
        (256, 64)
    );
}

#[test]
fn s6_4_one_slot_at_a_time_5120_to_1280_gives_258_to_62() {
    let mut world = premium_and_regular(5_120, 1_280, 0);
    let served = one_at_a_time(&mut world, 320);
    assert_eq!(
        (count(&served, "premium"), count(&served, "regular")),
        (258, 62)
    );
    assert_eq!(world.deficits(&["premium", "regular"]), [1_024, 256]);
    assert_eq!(world.ring(), "premium* regular");
}

#[test]
fn s6_4_one_slot_at_a_time_512_to_512_gives_160_to_160() {
    let served = one_at_a_time(&mut premium_and_regular(512, 512, 0), 320);
    assert_eq!(
        (count(&served, "premium"), count(&served, "regular")),
        (160, 160)
    );
}

#[test]
fn s6_4_the_same_order_with_four_slots_as_with_one() {
    for (premium, regular) in [(2_048, 512), (1_024, 256), (5_120, 1_280), (512, 128)] {
        let one = one_at_a_time(&mut premium_and_regular(premium, regular, 0), 320);
        let mut world = premium_and_regular(premium, regular, 1_536);
        assert_eq!(world.run().dispatched, 4, "1536 is not above 1536");
        let mut four = world.sent();
        for at in 0..316 {
            let name = four[at].name.clone();
            assert!(world.complete(&name));
            assert_eq!(world.run().dispatched, 1);
            four.extend(world.sent());
        }
        let four: Vec<_> = four.into_iter().map(|sent| sent.class).collect();
        assert_eq!(one, four, "{premium}:{regular}");
    }
}

#[test]
fn s6_4_no_class_starves_beside_a_light_one_in_any_file_order() {
    let orders = ["jim", "jmi", "ijm", "imj", "mji", "mij"];
    for order in orders {
        let lines: Vec<String> = order
            .chars()
            .map(|class| match class {
                'i' => "i quantum: 400, prefill_busy_threshold: 0".to_owned(),
                other => format!("{other} quantum: 100, prefill_busy_threshold: 0"),
            })
            .collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let mut world = World::new(&classes(&lines));
        world.checks = false;
        world.worker(1);
        world.worker(2);
        world.submit_many(600, Ask::new("i", 100).of("i").allow(&[1]));
        world.submit_many(600, Ask::new("j", 100).of("j").allow(&[1]));
        let (mut i, mut j) = (0, 0);
        for at in 0..600 {
            // The light class is served between two slots of the others, on its idle worker.
            world.submit(Ask::new(&format!("m{at}"), 100).of("m").pin(2, 0));
            world.run();
            for sent in world.sent() {
                i += usize::from(sent.class == "i");
                j += usize::from(sent.class == "j");
                assert!(world.complete(&sent.name));
            }
        }
        assert_eq!((j, i), (120, 480), "file order {order}");
    }
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

// S6.6.

/// Class a with credit 15 left of a fast-forward; `big` was its candidate when its turn opened.
fn with_credit_for_big() -> World {
    let mut world = unblocked(&["a quantum: 10", "b quantum: 10"]);
    world.submit(Ask::new("big", 1_000).of("a"));
    world.submit(Ask::new("small", 5).of("a"));
    world.submit_many(60, Ask::new("b", 10).of("b"));
    world.arbitrate(50);
    world.take();
    assert_eq!(world.deficit("a"), 500);
    world
}

#[test]
fn s6_6_removal_of_the_remembered_entry_cuts_the_credit() {
    let mut world = with_credit_for_big();
    assert_eq!(world.class("a").remembered, Some(world.ticket("big")));
    assert!(world.cancel("big"));
    assert_eq!(
        world.deficit("a"),
        15,
        "quantum 10 and the candidate's cost of 5"
    );
    assert_eq!(world.class("a").remembered, None);
}

#[test]
fn s6_6_without_a_candidate_the_credit_is_cut_to_the_quantum() {
    let mut world = with_credit_for_big();
    world.shut(1, 0);
    assert!(world.cancel("big"));
    assert_eq!(world.deficit("a"), 10);
}

#[test]
fn s6_6_removal_of_another_entry_touches_no_credit() {
    let mut world = with_credit_for_big();
    assert!(world.cancel("small"));
    assert_eq!(world.deficit("a"), 500);
    assert_eq!(world.class("a").remembered, Some(world.ticket("big")));
    // Also where the other entry is the candidate by now.
    world.submit(Ask::new("urgent", 900).of("a").tier(1));
    assert!(world.cancel("urgent"));
    assert_eq!(world.deficit("a"), 500);
}

#[test]
fn s6_6_expiry_and_failure_of_the_remembered_entry_cut_as_well() {
    for expires in [true, false] {
        let mut world = World::new(&classes(&["a quantum: 10", "b quantum: 10"]));
        world.worker(1);
        world.worker(2);
        world.submit(Ask::new("big", 1_000).of("a").pin(2, 0).deadline_us(9));
        world.submit(
            Ask::new("small", 5)
                .of("a")
                .arrival(tollgate_arbiter::Nanos(1)),
        );
        world.submit_many(60, Ask::new("b", 10).of("b"));
        world.arbitrate(50);
        assert_eq!(world.deficit("a"), 500);
        if expires {
            world.advance_us(9);
        } else {
            world.remove(2);
            world.advance_us(0);
        }
        assert_eq!(world.deficit("a"), 15, "expires: {expires}");
    }
}

#[test]
fn s6_6_dispatching_the_remembered_entry_forgets_it() {
    let mut world = unblocked(&["a quantum: 10", "b quantum: 10"]);
    world.submit(Ask::new("a0", 4).of("a"));
    world.submit(Ask::new("a1", 4).of("a"));
    assert_eq!(go(&mut world, 1), "a0");
    assert_eq!(world.class("a").remembered, None);
    // a1 was not the candidate when the turn opened: cancelling it leaves the credit alone.
    world.submit(Ask::new("a2", 1).of("a"));
    assert!(world.cancel("a1"));
    assert_eq!(world.deficit("a"), 6);
}

#[test]
fn s6_6_a_turn_that_opened_for_another_entry_makes_the_old_one_a_stranger() {
    let mut world = with_credit_for_big();
    world.submit(Ask::new("urgent", 5).of("a").tier(1));
    world.submit_many(9, Ask::new("more", 10).of("b"));
    while world.stage("urgent") == common::Stage::Waiting {
        assert!(world.select());
    }
    assert_eq!(world.class("a").remembered, None);
    let credit = world.deficit("a");
    assert!(credit >= 500);
    assert!(world.cancel("big"));
    assert_eq!(world.deficit("a"), credit);
}

#[test]
fn s6_6_the_next_opening_replaces_the_memory() {
    let mut world = with_credit_for_big();
    world.submit(Ask::new("urgent", 2_000).of("a").tier(1));
    world.arbitrate(1);
    assert_eq!(world.class("a").remembered, Some(world.ticket("urgent")));
    // big is a stranger now.
    let credit = world.deficit("a");
    assert!(world.cancel("big"));
    assert_eq!(world.deficit("a"), credit);
    assert!(world.cancel("urgent"));
    assert_eq!(world.deficit("a"), 15);
}

#[test]
fn s6_6_one_sweep_is_one_event() {
    // big and the cheap candidate expire together: the cut is made once, when the candidate that
    // is left, of cost 300, is known.
    let mut world = unblocked(&["a quantum: 10", "b quantum: 10"]);
    world.submit(Ask::new("big", 1_000).of("a").deadline_us(7));
    world.submit(Ask::new("cheap", 5).of("a").deadline_us(8));
    world.submit(Ask::new("left", 300).of("a"));
    world.submit_many(60, Ask::new("b", 10).of("b"));
    world.arbitrate(50);
    assert_eq!(world.deficit("a"), 500);
    world.advance_us(8);
    assert_eq!(world.deficit("a"), 310);
}

#[test]
fn s6_6_a_removal_charges_nothing() {
    let mut world = unblocked(&["a quantum: 10"]);
    world.submit(Ask::new("a0", 4));
    world.submit(Ask::new("a1", 4));
    world.submit(Ask::new("a2", 4));
    world.select();
    assert!(world.cancel("a1"));
    let counters = world.class("a").counters;
    assert_eq!((counters.dispatched, counters.charged_tokens), (1, 4));
    assert_eq!(world.deficit("a"), 6);
}

#[test]
fn s6_6_nobody_banks_credit_by_cancelling() {
    // a asks for a dear entry, waits for the credit, cancels it, again and again; then it bursts.
    let mut world = unblocked(&["a quantum: 10", "b quantum: 10"]);
    world.checks = false;
    world.submit(Ask::new("keep", 10).of("a"));
    world.submit_many(400, Ask::new("b", 10).of("b"));
    for round in 0..10 {
        let dear = format!("dear{round}");
        world.submit(Ask::new(&dear, 10_000).of("a").tier(1));
        world.arbitrate(20);
        assert!(world.cancel(&dear));
    }
    assert!(world.deficit("a") <= 20);
    assert_eq!(world.class("a").counters.charged_tokens, 0);
    world.submit_many(50, Ask::new("a", 10).of("a"));
    world.take();
    world.arbitrate(20);
    let own = world.sent().iter().filter(|sent| sent.class == "a").count();
    assert!(own <= 12, "{own} of 20 after cancelling");
}

#[test]
fn s6_6_a_requeued_entry_is_not_remembered() {
    let mut world = unblocked(&["a quantum: 10", "b quantum: 10"]);
    world.submit(Ask::new("a0", 4).of("a"));
    world.submit(Ask::new("a1", 4).of("a"));
    assert_eq!(go(&mut world, 1), "a0");
    assert!(world.requeue("a0"));
    assert_eq!(world.class("a").remembered, None);
    assert_eq!(world.deficit("a"), 10, "6 and the refund of 4");
    assert!(world.cancel("a0"));
    assert_eq!(world.deficit("a"), 10);
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

// S6.9.

#[test]
fn s6_9_quantum_10_costs_3_leave_7_4_1_then_the_ring_moves_on() {
    let mut world = unblocked(&["a quantum: 10", "b quantum: 10"]);
    world.submit_many(4, Ask::new("a", 3).of("a"));
    world.submit_many(4, Ask::new("b", 3).of("b"));
    world.take();
    assert_eq!(world.arbitrate(4).dispatched, 4);
    let sent = world.sent();
    let got: Vec<_> = sent
        .iter()
        .map(|sent| (sent.name.as_str(), sent.deficit))
        .collect();
    assert_eq!(got, [("a0", 7), ("a1", 4), ("a2", 1), ("b0", 7)]);
}

#[test]
fn s6_9_the_page_example_1000_of_7000_and_2000_of_9000() {
    let mut world = unblocked(&["standard quantum: 1000", "latency quantum: 2000"]);
    world.submit_many(2, Ask::new("s", 7_000).of("standard"));
    world.submit_many(2, Ask::new("l", 9_000).of("latency"));
    assert_eq!(go(&mut world, 1), "l0");
    assert_eq!(world.deficits(&["standard", "latency"]), [5_000, 1_000]);
}

#[test]
fn s6_9_no_second_grant_1000_of_6000_and_2000_of_9000() {
    let mut world = unblocked(&["S quantum: 1000", "L quantum: 2000"]);
    world.submit_many(2, Ask::new("s", 6_000).of("S"));
    world.submit_many(2, Ask::new("l", 9_000).of("L"));
    assert_eq!(go(&mut world, 2), "l0 s0");
    assert_eq!(world.deficits(&["S", "L"]), [0, 1_000]);
    assert_eq!(world.ring(), "L S");
}

#[test]
fn s6_9_quanta_1_to_3_at_unit_costs_alternate_one_and_three() {
    let mut world = unblocked(&["one quantum: 1", "three quantum: 3"]);
    world.submit_many(20, Ask::new("a", 1).of("one"));
    world.submit_many(40, Ask::new("b", 1).of("three"));
    assert_eq!(go(&mut world, 8), "a0 b0 b1 b2 a1 b3 b4 b5");
}

#[test]
fn s6_9_320_and_320_of_512_share_by_quanta() {
    for (premium, regular, expected) in [(512, 128, 256), (512, 512, 160), (2_048, 512, 256)] {
        let mut world = premium_and_regular(premium, regular, u64::MAX >> 1);
        assert_eq!(world.arbitrate(320).dispatched, 320);
        let sent = world.sent();
        let got = sent.iter().filter(|sent| sent.class == "premium").count();
        assert_eq!(got, expected, "{premium}:{regular}");
    }
}

#[test]
fn s6_9_exact_gives_equal_tokens_at_3q_and_4q_page_does_not() {
    let lines = ["a quantum: 100", "b quantum: 100"];
    for (settings, a, b) in [("", 48, 36), ("arbitration: page", 42, 42)] {
        let mut world = World::with_worker(&classes_and(&lines, settings));
        world.checks = false;
        world.submit_many(84, Ask::new("a", 300).of("a"));
        world.submit_many(84, Ask::new("b", 400).of("b"));
        world.take();
        world.arbitrate(84);
        let served: Vec<_> = world.sent().into_iter().map(|sent| sent.class).collect();
        assert_eq!(
            (count(&served, "a"), count(&served, "b")),
            (a, b),
            "{settings}"
        );
    }
}
