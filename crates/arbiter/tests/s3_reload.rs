//! S3.4 to S3.7: class resolution as the arbiter applies it, and reload between selections.

mod common;

use std::sync::Arc;

use common::{Ask, Stage, World, classes, classes_and};
use tollgate_arbiter::{Arbiter, Capacities, HeadState, Options, Resource};
use tollgate_policy::{PolicyFile, Profile};

fn names(world: &World) -> Vec<String> {
    world
        .state()
        .classes
        .iter()
        .map(|class| class.name.to_string())
        .collect()
}

fn two() -> World {
    World::with_worker(&classes(&["a quantum: 10", "b quantum: 10"]))
}

fn bucketed() -> Profile {
    let text = b"
default_policy_family: chat
uncached_isl_buckets:
- {min_tokens: 0, bucket: hot}
- {min_tokens: 3072, bucket: cold}
policy_classes:
- {name: chat_hot, policy_family: chat, cache_bucket: hot, quantum: 1}
- {name: chat_cold, policy_family: chat, cache_bucket: cold, quantum: 1}
- {name: probe, quantum: 1}
";
    PolicyFile::parse("test.yaml", text)
        .expect("valid")
        .profile(None)
        .clone()
}

#[test]
fn s3_4_the_uncached_tokens_pick_the_bucket() {
    let mut world = World::with_worker(&bucketed());
    for (name, raw, cached, family, class) in [
        ("a", 3_071, 0, Some("chat"), "chat_hot"),
        ("b", 3_072, 0, Some("chat"), "chat_cold"),
        ("c", 9_999, 6_928, None, "chat_hot"),
        ("d", 9_999, 6_927, Some(""), "chat_cold"),
        ("e", 9_999, 9_999, Some("probe"), "probe"),
        ("f", 1, 1, Some("Chat"), "chat_hot"),
        ("g", 5_000, 0, Some("chat_hot"), "chat_cold"),
    ] {
        let ask = Ask::new(name, raw).cached(cached);
        world.submit(match family {
            Some(family) => ask.of(family),
            None => ask,
        });
        world.run();
        assert_eq!(world.sent()[0].class, class, "{name}");
    }
    assert_eq!(
        world.state().unknown_names,
        2,
        "Chat, and the name of a matrix class"
    );
}

#[test]
fn s3_4_any_number_of_unknown_names_makes_no_class() {
    let mut world = two();
    world.checks = false;
    for at in 0..1_000 {
        let name = format!("x{at}");
        world.submit(Ask::new(&name, 1).of(&format!("unknown {at}")));
        world.run();
        assert!(world.complete(&name));
    }
    let state = world.state();
    assert_eq!((state.unknown_names, state.classes.len()), (1_000, 2));
    assert_eq!(state.classes[0].counters.dispatched, 1_000);
}

#[test]
fn s3_5_without_a_file_one_class_with_exact_lanes_takes_all() {
    let mut world = World::with_worker(&Profile::synthetic(None));
    world.submit(Ask::new("x", 1).of("anything").pin(1, 0));
    world.submit(Ask::new("y", 4_000_000_000));
    assert_eq!(world.run().dispatched, 2);
    assert_eq!(names(&world), ["default"]);
    let threshold = "0.5".parse().expect("a fraction");
    let mut world = World::with_worker(&Profile::synthetic(Some(threshold)));
    world.load(1, 0, 5_000_001);
    world.submit(("x", 1));
    assert!(!world.select());
}

// S3.7.

#[test]
fn s3_7_a_matched_class_keeps_queue_turn_place_and_counters() {
    let mut world = two();
    world.submit_many(4, Ask::new("a", 3).of("a"));
    world.submit_many(2, Ask::new("b", 3).of("b"));
    assert!(world.select());
    assert_eq!(world.ring(), "a* b");
    world.reload(&classes(&["b quantum: 20", "a quantum: 20"]));
    assert_eq!(world.state().generation, 2);
    assert_eq!(world.ring(), "a* b", "file order does not move the ring");
    assert_eq!(names(&world), ["a", "b"], "nor the table");
    let class = world.class("a");
    assert_eq!((class.waiting, class.deficit, class.quantum), (3, 7, 20));
    assert_eq!(class.counters.charged_tokens, 3);
    world.take();
    world.run();
    let order: Vec<_> = world
        .sent()
        .into_iter()
        .map(|sent| (sent.name, sent.deficit))
        .collect();
    assert_eq!(
        order[..3].to_vec(),
        [("a1".into(), 4), ("a2".into(), 1), ("b0".into(), 17)]
    );
}

#[test]
fn s3_7_the_deficit_is_cut_to_new_quantum_and_dearest_head() {
    let mut world = two();
    world.worker(2);
    world.shut(2, 0);
    world.submit(Ask::new("big", 1_000).of("a"));
    world.submit(Ask::new("dear", 40).of("a").pin(2, 0));
    world.submit(Ask::new("hidden", 5_000).of("a").pin(2, 0));
    world.submit_many(60, Ask::new("b", 10).of("b"));
    world.arbitrate(50);
    assert_eq!(world.deficit("a"), 500);
    world.reload(&classes(&["a quantum: 3", "b quantum: 10"]));
    assert_eq!(world.deficit("a"), 500, "3 + 1000 is more");
    assert!(world.cancel("big"));
    assert_eq!(
        world.deficit("a"),
        3,
        "cut by S6.6: quantum, and no candidate"
    );
    // Again, with credit for an entry that is no head any more at the reload.
    let mut world = two();
    world.worker(2);
    world.shut(2, 0);
    world.submit(Ask::new("big", 1_000).of("a"));
    world.submit(Ask::new("dear", 40).of("a").pin(2, 0));
    world.submit_many(60, Ask::new("b", 10).of("b"));
    world.arbitrate(50);
    world.submit(Ask::new("cheap", 7).of("a").tier(1));
    world.reload(&classes(&["a quantum: 3", "b quantum: 10"]));
    assert_eq!(
        world.deficit("a"),
        43,
        "the blocked head of 40 counts, big is no head"
    );
}

#[test]
fn s3_7_new_classes_join_the_rings_end_in_file_order() {
    let mut world = two();
    world.submit_many(2, Ask::new("a", 10).of("a"));
    world.submit_many(2, Ask::new("b", 10).of("b"));
    assert!(world.select());
    world.reload(&classes(&[
        "d quantum: 1",
        "a quantum: 10",
        "c quantum: 1",
        "b quantum: 10",
    ]));
    assert_eq!(world.ring(), "b a d c");
    assert_eq!(names(&world), ["a", "b", "d", "c"]);
    world.submit(Ask::new("d0", 5).of("d"));
    world.run();
    assert_eq!(world.stage("d0"), Stage::Running);
}

#[test]
fn s3_7_a_vanished_class_takes_nothing_new_and_drains_with_its_last_settings() {
    let mut world = World::with_worker(&classes(&[
        "a quantum: 10",
        "b quantum: 30, prefill_busy_threshold: 0",
    ]));
    world.load(1, 0, 1);
    world.submit_many(2, Ask::new("b", 5).of("b"));
    world.reload(&classes(&["a quantum: 10"]));
    let class = world.class("b");
    assert!(class.draining);
    assert_eq!((class.quantum, class.waiting), (30, 2));
    world.take();
    world.submit(Ask::new("x", 5).of("b"));
    assert_eq!(world.class("a").waiting, 1, "an unknown name now");
    assert_eq!(world.state().unknown_names, 1);
    assert!(
        world.select() && !world.select(),
        "b's threshold is still 0"
    );
    world.load(1, 0, 0);
    world.take();
    assert!(world.complete("x"));
    assert!(world.select());
    assert_eq!(world.order(), ["b0"]);
    assert!(world.complete("b0"));
    assert!(world.select());
    assert_eq!(
        names(&world),
        ["a", "b"],
        "it stays while a dispatched request is not complete"
    );
    assert!(world.complete("b1"));
    assert_eq!(names(&world), ["a"]);
    assert_eq!(world.ring(), "a");
}

#[test]
fn s3_7_an_idle_vanished_class_is_gone_at_once() {
    let mut world = two();
    world.reload(&classes(&["b quantum: 10"]));
    assert_eq!(
        (names(&world), world.ring()),
        (vec!["b".to_owned()], "b".to_owned())
    );
    world.reload(&classes(&["a quantum: 10", "b quantum: 10"]));
    assert_eq!(names(&world), ["b", "a"]);
    assert_eq!(world.class("a").counters.dispatched, 0);
}

#[test]
fn s3_7_every_way_out_retires_a_drained_class() {
    for way in 0..5 {
        let mut world = two();
        world.shut(1, 0);
        world.submit(Ask::new("x", 5).of("b").deadline_us(50));
        if way == 3 {
            world.open(1, 0);
            world.run();
        }
        world.reload(&classes(&["a quantum: 10"]));
        assert_eq!(names(&world).len(), 2);
        match way {
            0 => assert!(world.cancel("x")),
            1 => world.advance_us(50),
            2 => world.stop_us(0),
            3 => assert!(world.complete("x")),
            _ => {
                world.remove(1);
                world.run();
            }
        }
        assert_eq!(names(&world), ["a"], "way {way}");
    }
}

#[test]
fn s3_7_a_class_that_returns_while_it_drains_is_matched_again() {
    let mut world = two();
    world.shut(1, 0);
    world.submit(Ask::new("x", 5).of("b"));
    world.reload(&classes(&["a quantum: 10"]));
    world.reload(&classes(&["a quantum: 10", "b quantum: 7"]));
    let class = world.class("b");
    assert_eq!(
        (class.draining, class.waiting, class.quantum),
        (false, 1, 7)
    );
    world.submit(Ask::new("y", 5).of("b"));
    assert_eq!(world.class("b").waiting, 2);
    assert_eq!(names(&world), ["a", "b"]);
}

#[test]
fn s3_7_a_requeue_returns_to_a_draining_class() {
    let mut world = two();
    world.submit(Ask::new("x", 5).of("b"));
    world.run();
    world.reload(&classes(&["a quantum: 10"]));
    assert!(world.requeue("x"));
    assert_eq!(world.class("b").waiting, 1);
    world.run();
    assert!(world.complete("x"));
    assert_eq!(names(&world), ["a"]);
}

#[test]
fn s3_7_order_keys_are_not_recomputed_older_entries_go_first() {
    let mut world = World::with_worker(&classes(&["a quantum: 1"]));
    world.shut(1, 0);
    let at = |name: &str, us| Ask::new(name, 1).arrival(tollgate_arbiter::Nanos::from_micros(us));
    world.submit(at("f30", 30));
    world.submit(at("f10", 10));
    world.reload(&classes(&["a quantum: 1, queue_policy: lcfs"]));
    world.submit(at("l20", 20));
    world.submit(at("l40", 40));
    world.submit(at("tier", 1).tier(1));
    world.reload(&classes(&["a quantum: 1, queue_policy: wspt"]));
    world.submit(Ask::new("w9", 9));
    world.submit(Ask::new("w5", 5));
    assert_eq!(
        world.lane("a", None),
        ["tier", "f10", "f30", "l40", "l20", "w5", "w9"]
    );
    // Back to an order of before: still a change.
    world.reload(&classes(&["a quantum: 1"]));
    world.submit(at("f0", 0));
    assert_eq!(world.lane("a", None).last().map(String::as_str), Some("f0"));
}

#[test]
fn s3_7_a_reload_that_keeps_the_order_separates_nothing() {
    let mut world = World::with_worker(&classes(&["a quantum: 1"]));
    world.shut(1, 0);
    let at = |name: &str, us| Ask::new(name, 1).arrival(tollgate_arbiter::Nanos::from_micros(us));
    world.submit(at("t20", 20));
    world.reload(&classes(&[
        "a quantum: 5, request_queue_limit_per_worker: 9",
    ]));
    world.submit(at("t10", 10));
    assert_eq!(world.lane("a", None), ["t10", "t20"]);
}

#[test]
fn s3_7_a_requeued_entry_keeps_its_own_key() {
    let mut world = World::with_worker(&classes(&["a quantum: 1"]));
    world.submit(("old", 1));
    world.run();
    world.shut(1, 0);
    world.reload(&classes(&["a quantum: 1, queue_policy: lcfs"]));
    world.submit(("new", 1));
    assert!(world.requeue("old"));
    assert_eq!(world.lane("a", None), ["old", "new"]);
}

#[test]
fn s3_7_gates_are_recomputed() {
    let mut world = World::with_worker(&classes(&["a quantum: 1, prefill_busy_threshold: 10"]));
    world.load(1, 0, 50);
    world.submit(("x", 1));
    world.submit(Ask::new("y", 1).pin(1, 0));
    assert!(!world.select());
    world.reload(&classes(&["a quantum: 1, prefill_busy_threshold: 50"]));
    assert_eq!(world.head("a", None), HeadState::Open);
    assert_eq!(world.head("a", Some((1, 0))), HeadState::Open);
    world.reload(&classes(&["a quantum: 1, prefill_busy_threshold: 49"]));
    assert!(!world.select());
    world.reload(&classes(&["a quantum: 1"]));
    assert_eq!(world.run().dispatched, 2);
}

#[test]
fn s3_7_a_busy_worker_ratio_takes_effect() {
    let line = "a quantum: 1, prefill_busy_threshold: 10";
    let mut world = World::new(&classes(&[line]));
    world.worker(1);
    world.worker(2);
    world.load(1, 0, 50);
    world.submit(Ask::new("x", 1).allow(&[1, 2]));
    assert_eq!(world.head("a", None), HeadState::Open);
    world.reload(&classes(&[&format!("{line}, busy_worker_ratio: 0.5")]));
    assert!(matches!(
        world.head("a", None),
        HeadState::Shut {
            busy: 1,
            eligible: 2
        }
    ));
    world.reload(&classes(&[line]));
    assert_eq!(world.head("a", None), HeadState::Open);
}

#[test]
fn s3_7_limits_evict_nobody() {
    let mut world = two();
    world.shut(1, 0);
    world.submit_many(5, ("x", 1));
    world.reload(&classes(&[
        "a quantum: 1, request_queue_limit_per_worker: 2",
    ]));
    world.run();
    assert_eq!(world.class("a").waiting, 5);
    world.take();
    world.submit(("y", 1));
    world.expect(&["rejected y requests 5/2"]);
    world.reload(&classes(&[
        "a quantum: 1, request_queue_limit_per_worker: 50",
    ]));
    world.submit(("z", 1));
    world.expect(&["queued z"]);
}

#[test]
fn s3_7_overload_action_takes_effect() {
    let mut world = two();
    world.shut(1, 0);
    world.submit(("x", 1));
    world.overload(1, true);
    world.open(1, 0);
    world.reload(&classes_and(&["a quantum: 1"], "overload_action: hold"));
    world.take();
    assert!(!world.select());
    world.expect(&[]);
    world.reload(&classes(&["a quantum: 1"]));
    assert!(!world.select());
    world.expect(&["failed x all_eligible_overloaded"]);
}

#[test]
fn s3_7_max_attempts_takes_effect() {
    let mut world = two();
    world.submit(("x", 1));
    world.run();
    world.reload(&classes_and(&["a quantum: 1"], "max_attempts: 1"));
    world.take();
    assert!(world.requeue("x"));
    world.expect(&["failed x hand_off"]);
}

#[test]
fn s3_7_a_change_of_arbitration_restarts_the_ring() {
    let lines = ["a quantum: 10", "b quantum: 10", "c quantum: 10"];
    let mut world = World::with_worker(&classes(&lines));
    for class in ["a", "b", "c"] {
        world.submit_many(4, Ask::new(class, 7).of(class));
    }
    world.arbitrate(2);
    assert_eq!(world.ring(), "b* c a");
    let deficits = world.deficits(&["a", "b", "c"]);
    world.reload(&classes_and(&lines, "arbitration: page"));
    let state = world.state();
    assert_eq!(world.ring(), "a b c");
    assert_eq!(
        (state.cursor, state.holder),
        (Some(state.classes[0].index), None)
    );
    assert_eq!(world.deficits(&["a", "b", "c"]), deficits);
    world.arbitrate(2);
    assert!(world.state().holder.is_some() || world.state().cursor.is_some());
    world.reload(&classes(&lines));
    assert_eq!(world.ring(), "a b c");
    let state = world.state();
    assert_eq!((state.cursor, state.holder), (None, None));
    assert!(
        state
            .classes
            .iter()
            .all(|class| class.remembered.is_none() && !class.turn_open)
    );
    world.run();
    assert_eq!(world.state().waiting, 0);
}

#[test]
fn s3_7_the_class_whose_turn_it_is_may_vanish() {
    for settings in ["", "arbitration: page"] {
        let lines = ["a quantum: 10", "b quantum: 10", "c quantum: 10"];
        let mut world = World::with_worker(&classes_and(&lines, settings));
        world.submit(Ask::new("a0", 3).of("a"));
        world.submit(Ask::new("a1", 3).of("a"));
        world.submit(Ask::new("c0", 3).of("c"));
        assert!(world.select());
        world.reload(&classes_and(&["b quantum: 10", "c quantum: 10"], settings));
        assert!(world.cancel("a1"));
        assert!(world.complete("a0"));
        assert_eq!(names(&world), ["b", "c"]);
        world.submit(Ask::new("b0", 3).of("b"));
        assert_eq!(world.run().dispatched, 2);
    }
}

#[test]
fn s3_7_a_reload_that_does_not_fit_changes_nothing() {
    let capacities = Capacities {
        classes: 2,
        ..Capacities::default()
    };
    let mut world = World::sized(&classes(&["a quantum: 10", "b quantum: 10"]), capacities);
    world.worker(1);
    world.shut(1, 0);
    world.submit(Ask::new("x", 1).of("b"));
    let before = world.state();
    for (profile, required) in [
        (classes(&["a quantum: 10", "c quantum: 10"]), 3),
        (
            classes(&["a quantum: 10", "c quantum: 10", "d quantum: 1"]),
            4,
        ),
    ] {
        let full = world
            .arbiter
            .reload(Arc::new(profile))
            .expect_err("b drains");
        assert_eq!(
            (full.what, full.required, full.available),
            (Resource::Classes, required, 2)
        );
    }
    let attempts = classes_and(&["a quantum: 10"], "max_attempts: 4");
    let full = world
        .arbiter
        .reload(Arc::new(attempts))
        .expect_err("room for 3");
    assert_eq!(
        (full.what, full.required, full.available),
        (Resource::Attempts, 4, 3)
    );
    assert_eq!(world.state(), before);
    assert!(world.cancel("x"));
    world.reload(&classes(&["a quantum: 10", "c quantum: 10"]));
    assert_eq!(names(&world), ["a", "c"]);
}

#[test]
fn s3_7_order_changes_are_bounded_only_while_entries_of_before_remain() {
    let mut world = World::with_worker(&classes(&["a quantum: 1"]));
    world.shut(1, 0);
    world.submit(("x", 1));
    let orders =
        ["lcfs", "fcfs"].map(|order| classes(&[&format!("a quantum: 1, queue_policy: {order}")]));
    let mut changes = 0;
    let full = loop {
        match world.arbiter.reload(Arc::new(orders[changes % 2].clone())) {
            Ok(_) => changes += 1,
            Err(full) => break full,
        }
        assert!(changes < 1_000, "a bound");
    };
    assert_eq!(
        (full.what, full.available),
        (Resource::OrderChanges, changes as u64)
    );
    assert!(changes >= 14);
    world.reload(&orders[(changes + 1) % 2]);
    assert!(world.cancel("x"));
    world.reload(&orders[changes % 2]);
    world.submit(("y", 1));
    assert_eq!(world.stage("y"), Stage::Waiting);
}

#[test]
fn s3_7_places_of_classes_are_reused() {
    let mut world = two();
    for round in 0..200 {
        let name = format!("c{round}");
        world.reload(&classes(&[
            &format!("{name} quantum: {}", round + 1),
            "a quantum: 10",
        ]));
        let request = format!("x{round}");
        world.submit(Ask::new(&request, 5).of(&name));
        world.run();
        assert_eq!(world.sent()[0].class, name);
        // The class of the round before drains until its last request is complete.
        if round > 0 {
            assert!(world.complete(&format!("x{}", round - 1)));
        }
        assert_eq!(names(&world).len(), 2);
    }
    world.complete_all();
    assert_eq!(names(&world).len(), 2);
}

#[test]
fn s3_7_building_needs_room_for_the_profile() {
    let capacities = Capacities {
        classes: 1,
        ..Capacities::default()
    };
    let profile = classes(&["a quantum: 10", "b quantum: 10"]);
    let error = Arbiter::<()>::build(&profile, capacities, Options::default()).expect_err("full");
    assert_eq!(
        error.to_string(),
        "not enough classes: 2 required, 1 available"
    );
}
