//! S6.6: what removal without service does to credit, in `exact`.

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
