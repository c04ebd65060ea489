//! S6: turns and credit, with every worked value.

use super::{Run, class, count_of, page, profile, single};

/// `(id, deficit)` pairs.
fn pairs(pairs: &[(&str, u64)]) -> Vec<(String, u64)> {
    pairs
        .iter()
        .map(|(id, deficit)| ((*id).to_owned(), *deficit))
        .collect()
}

#[test]
fn s6_9_quantum_ten_pays_three_times_three() {
    let mut run = Run::new(&profile(vec![class("a", 10), class("b", 10)]));
    run.op(r#"{"op":"worker","id":1}"#);
    run.submit_many("a", 4, 3);
    run.submit_many("b", 1, 3);
    assert_eq!(run.turn(3), pairs(&[("a0", 7), ("a1", 4), ("a2", 1)]));
    assert_eq!(run.turn(2), pairs(&[("b0", 0), ("a3", 0)]));
}

#[test]
fn s6_9_the_page_example_needs_four_rounds() {
    let mut run = Run::new(&profile(vec![
        class("standard", 1_000),
        class("latency", 2_000),
    ]));
    run.op(r#"{"op":"worker","id":1}"#);
    run.submit_many("standard", 2, 7_000);
    run.submit_many("latency", 2, 9_000);
    assert_eq!(run.turn(1), pairs(&[("latency0", 1_000)]));
    assert_eq!(run.class("standard").deficit, 5_000);
    assert_eq!(run.class("latency").deficit, 1_000);
}

#[test]
fn s6_9_no_second_grant_in_the_round_that_pays() {
    let mut run = Run::new(&profile(vec![class("s", 1_000), class("l", 2_000)]));
    run.op(r#"{"op":"worker","id":1}"#);
    run.submit_many("s", 2, 6_000);
    run.submit_many("l", 2, 9_000);
    assert_eq!(run.turn(2), pairs(&[("l0", 1_000), ("s0", 0)]));
}

#[test]
fn s6_9_one_to_three() {
    for profile in [
        profile(vec![class("one", 1), class("three", 3)]),
        page(vec![class("one", 1), class("three", 3)]),
    ] {
        let mut run = Run::new(&profile);
        run.op(r#"{"op":"worker","id":1}"#);
        run.submit_many("one", 5, 1);
        run.submit_many("three", 13, 1);
        let ids = run.turn_ids(16);
        for burst in ids.chunks(4) {
            assert_eq!(
                (count_of(burst, "one"), count_of(burst, "three")),
                (1, 3),
                "{ids:?}"
            );
            assert!(burst[0].starts_with("one"));
        }
    }
}

#[test]
fn s6_9_the_first_320_of_640() {
    for (quanta, shares) in [((512, 128), (256, 64)), ((512, 512), (160, 160))] {
        let mut run = Run::new(&profile(vec![class("p", quanta.0), class("r", quanta.1)]));
        run.op(r#"{"op":"worker","id":1}"#);
        run.submit_many("p", 320, 512);
        run.submit_many("r", 320, 512);
        let ids = run.turn_ids(320);
        assert_eq!((count_of(&ids, "p"), count_of(&ids, "r")), shares);
    }
}

#[test]
fn s6_9_equal_quanta_mean_equal_tokens_in_exact_only() {
    // Quantum 10; costs a multiple of it; served tokens of the two after `dispatches`.
    let served = |page_mode: bool, costs: (u32, u32), dispatches| {
        let classes = vec![class("a", 10), class("b", 10)];
        let profile = if page_mode {
            page(classes)
        } else {
            profile(classes)
        };
        let mut run = Run::new(&profile);
        run.op(r#"{"op":"worker","id":1}"#);
        run.submit_many("a", 100, costs.0);
        run.submit_many("b", 100, costs.1);
        run.turn(dispatches);
        (run.class("a").charged_tokens, run.class("b").charged_tokens)
    };
    // 0.857 : 1.143 is 6 : 8; 0.8 : 1.2 is 2 : 3.
    assert_eq!(served(false, (30, 40), 84), (1_440, 1_440));
    assert_eq!(served(true, (30, 40), 84), (1_260, 1_680));
    assert_eq!(served(false, (20, 30), 100), (1_200, 1_200));
    assert_eq!(served(true, (20, 30), 100), (1_000, 1_500));
}

/// One worker that takes one request at a time; served among the first `slots`.
fn one_slot_at_a_time(quanta: (u64, u64), slots: usize) -> (usize, usize) {
    let mut run = Run::new(&profile(vec![single("p", quanta.0), single("r", quanta.1)]));
    run.op(r#"{"op":"worker","id":1}"#);
    run.submit_many("p", 320, 512);
    run.submit_many("r", 320, 512);
    let mut served = Vec::new();
    while served.len() < slots {
        let ids = run.turn_ids(9);
        assert_eq!(ids.len(), 1, "the worker takes one at a time");
        run.op(&format!(r#"{{"op":"complete","id":"{}"}}"#, ids[0]));
        served.extend(ids);
    }
    (count_of(&served, "p"), count_of(&served, "r"))
}

#[test]
fn s6_4_shares_hold_with_one_slot_at_a_time() {
    assert_eq!(one_slot_at_a_time((2_048, 512), 320), (256, 64));
    assert_eq!(one_slot_at_a_time((1_024, 256), 320), (256, 64));
    assert_eq!(one_slot_at_a_time((5_120, 1_280), 320), (258, 62));
}

#[test]
fn s6_4_nobody_starves_between_the_slots_in_any_file_order() {
    let classes = [("j", 100), ("i", 400), ("m", 100)];
    for order in [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ] {
        let in_order = order.map(|index| single(classes[index].0, classes[index].1));
        let mut run = Run::new(&profile(in_order.to_vec()));
        run.ops(&[r#"{"op":"worker","id":1}"#, r#"{"op":"worker","id":2}"#]);
        // Enough of each that neither ever runs out within 600 slots.
        for (class, count) in [("j", 125), ("i", 485)] {
            for index in 0..count {
                run.op(&format!(
                    r#"{{"op":"submit","id":"{class}{index}","family":"{class}","isl":100,"allow":[1]}}"#
                ));
            }
        }
        let (mut j, mut i) = (0, 0);
        for slot in 0..600 {
            let ids = run.turn_ids(9);
            assert_eq!(ids.len(), 1);
            j += count_of(&ids, "j");
            i += count_of(&ids, "i");
            run.op(&format!(
                r#"{{"op":"submit","id":"m{slot}","family":"m","isl":1,"pin":[2,0]}}"#
            ));
            assert_eq!(run.turn_ids(9), [format!("m{slot}")]);
            run.op(&format!(r#"{{"op":"complete","id":"m{slot}"}}"#));
            run.op(&format!(r#"{{"op":"complete","id":"{}"}}"#, ids[0]));
        }
        assert_eq!((j, i), (120, 480), "order {order:?}");
    }
}

#[test]
fn s6_1_a_dry_selection_changes_nothing() {
    for profile in [
        profile(vec![single("a", 10), single("b", 20)]),
        page(vec![single("a", 10), single("b", 20)]),
    ] {
        let mut run = Run::new(&profile);
        run.ops(&[
            r#"{"op":"worker","id":1}"#,
            r#"{"op":"shut","worker":[1,0]}"#,
        ]);
        run.submit_many("a", 2, 5);
        run.submit_many("b", 2, 5);
        let before = run.state();
        for _ in 0..5 {
            run.op(r#"{"op":"arbitrate"}"#);
            assert_eq!(run.said(1), ["dry 4"]);
        }
        assert_eq!(run.state(), before);
    }
}

#[test]
fn s6_2_a_class_that_spends_all_its_credit_goes_to_the_end() {
    let mut run = Run::new(&profile(vec![class("a", 10), class("b", 10)]));
    run.op(r#"{"op":"worker","id":1}"#);
    run.submit_many("a", 2, 10);
    run.submit_many("b", 2, 4);
    assert_eq!(run.turn(1), pairs(&[("a0", 0)]));
    assert_eq!(run.state().ring.unwrap(), ["b", "a"]);
    assert!(run.state().open_turns.unwrap().is_empty());
    assert_eq!(run.turn(1), pairs(&[("b0", 6)]));
    assert_eq!(run.state().open_turns.unwrap(), ["b"]);
}

#[test]
fn s6_3_a_class_that_becomes_empty_keeps_nothing() {
    let mut run = Run::new(&profile(vec![single("a", 100), single("b", 100)]));
    run.ops(&[
        r#"{"op":"worker","id":1}"#,
        r#"{"op":"submit","id":"a0","family":"a","isl":5}"#,
        r#"{"op":"submit","id":"a1","family":"a","isl":5}"#,
        r#"{"op":"arbitrate"}"#,
    ]);
    assert_eq!(run.class("a").deficit, 95);
    run.op(r#"{"op":"cancel","id":"a1"}"#);
    assert_eq!(run.class("a").deficit, 0);
    assert_eq!(run.state().ring.unwrap(), ["b", "a"]);
    assert!(run.state().open_turns.unwrap().is_empty());
}

/// Class `a` has earned credit for `big`, which it could not pay, while `b` was served.
fn credit_for_big() -> Run {
    let mut run = Run::new(&profile(vec![class("a", 100), class("b", 100)]));
    run.ops(&[
        r#"{"op":"worker","id":1}"#,
        r#"{"op":"worker","id":2}"#,
        r#"{"op":"shut","worker":[2,0]}"#,
        r#"{"op":"submit","id":"big","family":"a","isl":5000}"#,
        r#"{"op":"submit","id":"n","family":"a","isl":50}"#,
        r#"{"op":"submit","id":"pinned","family":"a","isl":9000,"pin":[2,0]}"#,
    ]);
    run.submit_many("b", 30, 100);
    run.turn(20);
    assert_eq!(run.class("a").remembered.as_deref(), Some("big"));
    assert_eq!(run.class("a").deficit, 2_000);
    run
}

#[test]
fn s6_6_only_the_removal_of_the_remembered_entry_cuts() {
    let mut run = credit_for_big();
    run.op(r#"{"op":"cancel","id":"n"}"#);
    run.op(r#"{"op":"cancel","id":"pinned"}"#);
    assert_eq!(run.class("a").deficit, 2_000);
    run.op(r#"{"op":"cancel","id":"big"}"#);
    assert_eq!(run.class("a").deficit, 0, "nothing is left in it");

    let mut run = credit_for_big();
    run.op(r#"{"op":"cancel","id":"big"}"#);
    assert_eq!(
        run.class("a").deficit,
        150,
        "quantum and `n`, the candidate that is left"
    );

    let mut run = credit_for_big();
    run.ops(&[
        r#"{"op":"cancel","id":"n"}"#,
        r#"{"op":"cancel","id":"big"}"#,
    ]);
    assert_eq!(
        run.class("a").deficit,
        100,
        "quantum alone: `pinned` is blocked"
    );
    assert_eq!(run.class("a").remembered, None);
}

#[test]
fn s6_6_one_sweep_is_one_event() {
    let mut run = Run::new(&profile(vec![class("a", 100), class("b", 100)]));
    run.ops(&[
        r#"{"op":"worker","id":1}"#,
        r#"{"op":"submit","id":"big","family":"a","isl":5000,"deadline_us":10}"#,
        r#"{"op":"submit","id":"next","family":"a","isl":4000,"deadline_us":10}"#,
        r#"{"op":"submit","id":"last","family":"a","isl":7}"#,
    ]);
    run.submit_many("b", 30, 100);
    run.turn(20);
    assert_eq!(run.class("a").deficit, 2_000);
    run.op(r#"{"op":"advance","us":10}"#);
    assert_eq!(
        run.class("a").deficit,
        107,
        "cut once, on what is left after the whole sweep"
    );
}

#[test]
fn s6_8_a_class_in_page_mode_keeps_its_credit() {
    let mut run = Run::new(&page(vec![class("a", 100), class("b", 100)]));
    run.ops(&[
        r#"{"op":"worker","id":1}"#,
        r#"{"op":"submit","id":"big","family":"a","isl":5000}"#,
        r#"{"op":"submit","id":"n","family":"a","isl":50}"#,
    ]);
    run.submit_many("b", 30, 100);
    run.turn(20);
    assert_eq!(run.class("a").remembered, None);
    let before = run.class("a").deficit;
    assert!(before > 1_000);
    run.op(r#"{"op":"cancel","id":"big"}"#);
    assert_eq!(run.class("a").deficit, before);
}

#[test]
fn s6_8_holder_and_cursor() {
    let mut run = Run::new(&page(vec![class("a", 10), class("b", 10)]));
    run.op(r#"{"op":"worker","id":1}"#);
    run.submit_many("a", 3, 5);
    run.submit_many("b", 3, 8);
    assert_eq!(run.turn(1), pairs(&[("a0", 5)]));
    let state = run.state();
    assert_eq!(
        (state.cursor.as_deref(), state.holder.as_deref()),
        (Some("b"), Some("a"))
    );
    assert_eq!((state.ring, state.open_turns), (None, None));
    assert_eq!(
        run.turn(1),
        pairs(&[("a1", 0)]),
        "the holder goes on, and holds no longer"
    );
    assert_eq!(run.state().holder, None);
    assert_eq!(run.turn(1), pairs(&[("b0", 2)]));
    run.op(r#"{"op":"requeue","id":"b0"}"#);
    assert_eq!(run.state().holder, None, "requeued to");
    assert_eq!(run.class("b").deficit, 10);
}

#[test]
fn s6_7_the_largest_cost_at_the_smallest_quantum() {
    let mut run = Run::new(&profile(vec![class("a", 1), class("b", 1 << 63)]));
    run.ops(&[
        r#"{"op":"worker","id":1}"#,
        r#"{"op":"submit","id":"a0","family":"a","isl":4294967295}"#,
        r#"{"op":"submit","id":"b0","family":"b","isl":4294967295}"#,
        r#"{"op":"submit","id":"b1","family":"b","isl":4294967295}"#,
    ]);
    let left = (1 << 63) - 4_294_967_295;
    assert_eq!(run.turn(1), pairs(&[("b0", left)]));
    assert_eq!(run.turn(2), pairs(&[("b1", 0), ("a0", 0)]));
}
