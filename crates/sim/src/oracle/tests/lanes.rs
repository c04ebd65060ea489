//! S2 to S5, S7, S10: snapshot, order, gates, limits, choice.

use tollgate_policy::{
    Bucket, ClassPolicy, Fraction, OrderPolicy, OverloadAction, Profile, ProfileSpec, SelectorKind,
};

use super::super::gate::{ceil_of, floor_of};
use super::super::order::jump_ns;
use super::{Run, class, profile, single};
use crate::protocol::Endpoint;

#[test]
fn s2_3_best_cached() {
    let mut run = Run::new(&profile(vec![class("a", 10)]));
    run.ops(&[
        r#"{"op":"worker","id":1}"#,
        r#"{"op":"worker","id":2,"overloaded":true}"#,
        r#"{"op":"worker","id":3,"available":false}"#,
    ]);
    let hints = r#""hints":[[1,0,30],[1,0,40],[2,0,70],[3,0,90]]"#;
    for (fields, cost) in [
        (r#""cached":25"#.to_owned(), 75),
        (r#""cached":250"#.to_owned(), 1),
        (format!(r#""cached":99,{hints}"#), 30),
        (format!(r#"{hints},"allow":[1]"#), 60),
        (format!(r#"{hints},"pin":[1,0]"#), 60),
        (r#""cached":25,"pin":[1,0]"#.to_owned(), 75),
        (
            r#""cached":25,"hints":[[2,0,70]],"pin":[1,0]"#.to_owned(),
            100,
        ),
    ] {
        let id = format!("r{}", run.events.len());
        run.op(&format!(
            r#"{{"op":"submit","id":"{id}","isl":100,{fields}}}"#
        ));
        assert_eq!(run.said(1), [format!("queued {id} a {cost}")], "{fields}");
    }
}

#[test]
fn s2_3_a_pin_that_fails_has_nothing_cached() {
    let small = ClassPolicy::matrix("small", "f", 0, 10);
    let large = ClassPolicy::matrix("large", "f", 1, 10);
    let buckets = vec![Bucket::new(0, "s"), Bucket::new(50, "l")];
    let profile = Profile::build(ProfileSpec::new("f", buckets, vec![small, large])).unwrap();
    let mut run = Run::new(&profile);
    run.ops(&[
        r#"{"op":"worker","id":1}"#,
        r#"{"op":"submit","id":"x","isl":60,"cached":55,"pin":[1,5]}"#,
        r#"{"op":"submit","id":"y","isl":60,"cached":55}"#,
    ]);
    assert_eq!(run.class("large").outcomes.failed, 1);
    assert_eq!(run.class("small").waiting, 1);
}

#[test]
fn s4_3_jumps_are_clamped_and_rounded() {
    assert_eq!(jump_ns(-3.0), 0);
    assert_eq!(jump_ns(0.0), 0);
    assert_eq!(jump_ns(1.5e-9), 2);
    assert_eq!(jump_ns(2.5e-9), 3);
    assert_eq!(jump_ns(1e300), 1_000_000_000_000_000_000);
}

#[test]
fn s4_2_orders() {
    let submissions = |run: &mut Run| {
        run.ops(&[
            r#"{"op":"worker","id":1}"#,
            r#"{"op":"worker","id":2}"#,
            r#"{"op":"submit","id":"old","isl":9,"deadline_us":900}"#,
            r#"{"op":"advance","us":10}"#,
            r#"{"op":"submit","id":"pinned","isl":3,"pin":[2,0],"deadline_us":500}"#,
            r#"{"op":"submit","id":"same","isl":3,"deadline_us":500}"#,
            r#"{"op":"submit","id":"jumps","isl":9,"priority_jump":0.00002}"#,
            r#"{"op":"submit","id":"plain","isl":9}"#,
            r#"{"op":"submit","id":"tier","isl":99,"strict_priority":1}"#,
        ]);
    };
    for (order, ids) in [
        (
            OrderPolicy::Fcfs,
            ["tier", "jumps", "old", "pinned", "same", "plain"],
        ),
        (
            OrderPolicy::Lcfs,
            ["tier", "jumps", "pinned", "same", "plain", "old"],
        ),
        (
            OrderPolicy::Wspt,
            ["tier", "pinned", "same", "jumps", "old", "plain"],
        ),
        (
            OrderPolicy::Edf,
            ["tier", "pinned", "same", "old", "jumps", "plain"],
        ),
    ] {
        let mut run = Run::new(&profile(vec![ClassPolicy {
            order,
            ..class("a", 1_000)
        }]));
        submissions(&mut run);
        assert_eq!(run.turn_ids(9), ids, "{order:?}");
    }
}

#[test]
fn s5_1_fractions_are_exact() {
    assert_eq!(floor_of(Fraction::new(29, 2), 100), 29);
    assert_eq!(floor_of(Fraction::new(57, 2), 100), 57);
    assert_eq!(ceil_of(Fraction::new(7, 2), 100), 7);
    assert_eq!(ceil_of(Fraction::new(71, 3), 100), 8);
    assert_eq!(
        floor_of(Fraction::new(u64::MAX, 0), u64::MAX),
        u128::from(u64::MAX).pow(2)
    );
    assert_eq!(floor_of(Fraction::new(u64::MAX, 40), u64::MAX), 0);
    assert_eq!(ceil_of(Fraction::new(1, 400), 1), 1);
    assert_eq!(ceil_of(Fraction::new(0, 400), 1), 0);
}

#[test]
fn s5_1_either_threshold_makes_busy() {
    let both = ClassPolicy {
        prefill_busy_threshold: Some(60),
        prefill_busy_threshold_frac: Some(Fraction::new(5, 1)),
        ..class("a", 1_000)
    };
    let mut run = Run::new(&profile(vec![both]));
    run.ops(&[
        r#"{"op":"worker","id":1,"max_batched_tokens":100}"#,
        r#"{"op":"load","worker":[1,0],"tokens":50}"#,
        r#"{"op":"submit","id":"a","isl":1}"#,
        r#"{"op":"submit","id":"b","isl":1}"#,
    ]);
    assert_eq!(run.turn_ids(9), ["a"], "50 is not above half of 100, 51 is");
    run.op(r#"{"op":"worker","id":1}"#);
    assert_eq!(run.turn_ids(9), ["b"], "half of ten million");
    run.ops(&[
        r#"{"op":"submit","id":"c","isl":1}"#,
        r#"{"op":"load","worker":[1,0],"tokens":59}"#,
    ]);
    assert!(run.turn_ids(9).is_empty(), "61 is above 60");
}

#[test]
fn s5_3_the_ratio_rounds_up_and_needs_at_least_one() {
    let at = |ratio: Fraction, busy: u64| {
        let policy = ClassPolicy {
            busy_worker_ratio: Some(ratio),
            ..single("a", 10)
        };
        let mut run = Run::new(&profile(vec![policy]));
        run.op(r#"{"op":"worker","id":1,"ranks":10}"#);
        for rank in 0..busy {
            run.op(&format!(
                r#"{{"op":"load","worker":[1,{rank}],"tokens":1}}"#
            ));
        }
        run.op(r#"{"op":"submit","id":"a","isl":1}"#);
        run.turn_ids(1).len()
    };
    assert_eq!(
        (at(Fraction::new(31, 2), 3), at(Fraction::new(31, 2), 4)),
        (1, 0)
    );
    assert_eq!(
        (at(Fraction::new(3, 1), 2), at(Fraction::new(3, 1), 3)),
        (1, 0)
    );
    assert_eq!(
        (at(Fraction::new(1, 9), 0), at(Fraction::new(1, 9), 1)),
        (1, 0)
    );
    assert_eq!(
        (at(Fraction::new(1, 0), 9), at(Fraction::new(1, 0), 10)),
        (1, 0)
    );
}

#[test]
fn s5_4_overload_fails_only_where_the_gate_is_open() {
    let mut run = Run::new(&profile(vec![single("a", 10)]));
    run.ops(&[
        r#"{"op":"worker","id":1,"overloaded":true}"#,
        r#"{"op":"worker","id":2}"#,
        r#"{"op":"shut","worker":[1,0]}"#,
        r#"{"op":"submit","id":"waits","isl":1,"allow":[1]}"#,
        r#"{"op":"submit","id":"pin","isl":1,"pin":[1,0]}"#,
        r#"{"op":"arbitrate"}"#,
    ]);
    assert_eq!(run.said(3), ["queued waits a 1", "queued pin a 1", "dry 2"]);
    run.ops(&[
        r#"{"op":"open","worker":[1,0]}"#,
        r#"{"op":"advance","us":0}"#,
    ]);
    assert_eq!(
        run.said(2),
        [
            "failed waits AllEligibleOverloaded",
            "failed pin PinnedWorkerOverloaded"
        ]
    );
}

#[test]
fn s5_5_a_lane_fails_entry_by_entry_in_class_order() {
    let mut run = Run::new(&profile(vec![class("a", 10), class("b", 10)]));
    run.ops(&[
        r#"{"op":"worker","id":1}"#,
        r#"{"op":"worker","id":2}"#,
        r#"{"op":"submit","id":"b0","family":"b","isl":1,"pin":[2,0]}"#,
        r#"{"op":"submit","id":"a0","family":"a","isl":1,"pin":[2,0]}"#,
        r#"{"op":"submit","id":"a1","family":"a","isl":1,"pin":[2,0]}"#,
        r#"{"op":"remove_worker","id":2}"#,
    ]);
    assert_eq!(run.state().waiting, 3, "nothing happens before the sweep");
    run.op(r#"{"op":"advance","us":0}"#);
    assert_eq!(
        run.said(3),
        [
            "failed a0 PinnedWorkerUnknown",
            "failed b0 PinnedWorkerUnknown",
            "failed a1 PinnedWorkerUnknown"
        ]
    );
    assert_eq!(
        run.state().ring.unwrap(),
        ["b", "a"],
        "b became empty first"
    );
}

#[test]
fn s5_5_a_worker_that_is_back_before_the_sweep_keeps_its_lanes() {
    let mut run = Run::new(&profile(vec![single("a", 10)]));
    run.ops(&[
        r#"{"op":"worker","id":1}"#,
        r#"{"op":"worker","id":2}"#,
        r#"{"op":"load","worker":[2,0],"tokens":5}"#,
        r#"{"op":"submit","id":"p","isl":1,"pin":[2,0]}"#,
        r#"{"op":"remove_worker","id":2}"#,
        r#"{"op":"worker","id":2}"#,
    ]);
    assert_eq!(run.turn_ids(9), ["p"], "its load is forgotten");
}

#[test]
fn s7_1_the_limit_is_tested_again_after_each_selection() {
    let limited = ClassPolicy {
        request_queue_limit_per_worker: Some(2),
        ..single("a", 10)
    };
    let mut run = Run::new(&profile(vec![limited]));
    run.ops(&[
        r#"{"op":"worker","id":1}"#,
        r#"{"op":"load","worker":[1,0],"tokens":1}"#,
        r#"{"op":"submit","id":"a","isl":1}"#,
        r#"{"op":"submit","id":"b","isl":1}"#,
        r#"{"op":"submit","id":"c","isl":1}"#,
        r#"{"op":"load","worker":[1,0],"tokens":0}"#,
        r#"{"op":"submit","id":"d","isl":1}"#,
        r#"{"op":"submit","id":"e","isl":1}"#,
    ]);
    assert_eq!(
        run.said(4),
        [
            "rejected c Requests 2 2",
            "dispatched a 1/0 1",
            "queued d a 1",
            "rejected e Requests 2 2"
        ]
    );
}

#[test]
fn s7_2_all_that_may_not_wait_is_judged_at_once() {
    let mut run = Run::new(&profile(vec![single("a", 10)]));
    run.ops(&[
        r#"{"op":"worker","id":1}"#,
        r#"{"op":"submit","id":"x","isl":1,"may_wait":false}"#,
        r#"{"op":"submit","id":"y","isl":1,"may_wait":false}"#,
        r#"{"op":"submit","id":"z","isl":1}"#,
        r#"{"op":"arbitrate","max":0}"#,
    ]);
    assert_eq!(run.state().waiting, 3, "max 0 does nothing");
    run.op(r#"{"op":"arbitrate"}"#);
    assert_eq!(
        run.said(3),
        ["dispatched x 1/0 1", "rejected y MayWait 0 0", "dry 1"]
    );
    run.ops(&[
        r#"{"op":"complete","id":"x"}"#,
        r#"{"op":"submit","id":"t","isl":1,"strict_priority":9,"may_wait":false}"#,
        r#"{"op":"submit","id":"u","isl":1,"strict_priority":8,"may_wait":false}"#,
        r#"{"op":"submit","id":"v","isl":1,"pin":[1,0],"may_wait":false}"#,
        r#"{"op":"arbitrate","max":1}"#,
    ]);
    assert_eq!(
        run.said(3),
        [
            "dispatched t 1/0 1",
            "rejected u MayWait 0 0",
            "rejected v MayWait 0 0"
        ]
    );
}

#[test]
fn s10_selectors() {
    let scene = |selector, decode_weight| {
        let profile = profile(vec![class("a", 1_000)])
            .with_selector(selector)
            .with_decode_weight(decode_weight);
        let mut run = Run::new(&profile);
        // 1: loaded, but cached; 2: light; 3: two requests in decode.
        run.ops(&[
            r#"{"op":"worker","id":1}"#,
            r#"{"op":"worker","id":2}"#,
            r#"{"op":"worker","id":3}"#,
            r#"{"op":"submit","id":"p","isl":1,"pin":[3,0]}"#,
            r#"{"op":"submit","id":"q","isl":1,"pin":[3,0]}"#,
            r#"{"op":"submit","id":"r","isl":1,"pin":[1,0]}"#,
            r#"{"op":"arbitrate"}"#,
            r#"{"op":"prefill_done","id":"p"}"#,
            r#"{"op":"prefill_done","id":"q"}"#,
            r#"{"op":"load","worker":[1,0],"tokens":50}"#,
            r#"{"op":"load","worker":[2,0],"tokens":20}"#,
            r#"{"op":"submit","id":"x","isl":100,"hints":[[1,0,99],[2,0,10]]}"#,
            r#"{"op":"arbitrate"}"#,
        ]);
        run.last_worker().0
    };
    assert_eq!(scene(SelectorKind::Cost, 0), 1);
    assert_eq!(scene(SelectorKind::LeastLoaded, 0), 3);
    assert_eq!(scene(SelectorKind::LeastLoaded, 11), 2);
    assert_eq!(scene(SelectorKind::RoundRobin, 0), 2);
}

#[test]
fn s10_2_draws_are_splitmix64_over_endpoint_numbers() {
    let profile = profile(vec![class("a", 1_000)]).with_selector(SelectorKind::PowerOfTwo);
    let mut run = Run::new(&profile);
    for worker in [5, 3, 9, 1] {
        run.op(&format!(r#"{{"op":"worker","id":{worker}}}"#));
    }
    let numbers: Vec<_> = run
        .state()
        .workers
        .iter()
        .map(|it| (it.id, it.number))
        .collect();
    assert_eq!(numbers, [(1, 3), (3, 1), (5, 0), (9, 2)]);
    // Seed 0 draws 0xe220a839.. and 0x6e789e6a..: places 3 of 4 and 1 of 3, so workers 1 and 3.
    run.op(r#"{"op":"load","worker":[1,0],"tokens":9}"#);
    run.ops(&[
        r#"{"op":"submit","id":"a","isl":1}"#,
        r#"{"op":"arbitrate"}"#,
    ]);
    assert_eq!(run.last_worker(), (3, 0));
}

#[test]
fn s10_2_numbers_are_held_by_references() {
    let mut run = Run::new(&profile(vec![class("a", 1_000)]));
    let number = |run: &Run, worker| {
        let state = run.state();
        state
            .workers
            .iter()
            .find(|it| it.endpoint() == Endpoint::new(worker, 0))
            .unwrap()
            .number
    };
    run.ops(&[
        r#"{"op":"worker","id":1}"#,
        r#"{"op":"worker","id":2}"#,
        r#"{"op":"submit","id":"a","isl":1,"pin":[1,0]}"#,
        r#"{"op":"arbitrate"}"#,
        r#"{"op":"remove_worker","id":1}"#,
        r#"{"op":"worker","id":3}"#,
        r#"{"op":"worker","id":1}"#,
    ]);
    assert_eq!(
        (number(&run, 3), number(&run, 1)),
        (2, 0),
        "`a` still refers to its endpoint"
    );
    run.ops(&[
        r#"{"op":"complete","id":"a"}"#,
        r#"{"op":"remove_worker","id":1}"#,
        r#"{"op":"worker","id":4}"#,
        r#"{"op":"worker","id":1}"#,
    ]);
    assert_eq!((number(&run, 4), number(&run, 1)), (0, 3));
    run.ops(&[
        r#"{"op":"remove_worker","id":4}"#,
        r#"{"op":"remove_worker","id":1}"#,
        r#"{"op":"worker","id":1}"#,
    ]);
    assert_eq!(number(&run, 1), 0, "nothing held its old number");
}

#[test]
fn s5_6_hold_keeps_everybody() {
    let profile = profile(vec![class("a", 10)]).with_overload_action(OverloadAction::Hold);
    let mut run = Run::new(&profile);
    run.ops(&[
        r#"{"op":"worker","id":1,"overloaded":true}"#,
        r#"{"op":"worker","id":2}"#,
        r#"{"op":"submit","id":"a","isl":1,"allow":[1]}"#,
        r#"{"op":"submit","id":"p","isl":1,"pin":[1,0]}"#,
        r#"{"op":"arbitrate"}"#,
    ]);
    assert_eq!(run.said(1), ["dry 2"]);
    run.op(r#"{"op":"worker","id":1}"#);
    assert_eq!(run.turn_ids(9), ["a", "p"]);
}
