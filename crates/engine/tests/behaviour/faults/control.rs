//! Control calls that meet the end of the engine, its sleep, or the end of a table.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{Command, ControlError, Idle, ModelIndex, Nanos, Request, Worker, WorkerId};

use super::{FOR_EVER, by_hand, dispatch, now, small, turn};
use crate::common::classes;

const MODEL: ModelIndex = ModelIndex(0);

/// A stop is told that it took effect, however fast the engine closes after it.
#[test]
fn a_stop_that_closes_the_engine_at_once_succeeds() {
    for round in 0..400 {
        let built = small().slots(8).idle(Idle::Spin).build::<u64>();
        let built = built.unwrap_or_else(|errors| panic!("{errors}"));
        let control = built.engine.control();
        assert_eq!(control.stop(Duration::ZERO), Ok(()), "round {round}");
        assert_eq!(built.engine.join(), Ok(()));
    }
}

/// A class that left the policy goes when the last shard has noticed, also if the core was about to
/// sleep then.
#[test]
fn a_shard_that_notices_a_reload_is_not_slept_through() {
    let profiles = [
        classes(&["a quantum: 1", "b quantum: 1"]),
        classes(&["a quantum: 1", "c quantum: 1"]),
    ];
    let built = tollgate::Engine::builder(profiles[0].clone())
        .slots(8)
        .classes(3)
        .idle(Idle::Park)
        .build::<u64>();
    let mut built = built.unwrap_or_else(|errors| panic!("{errors}"));
    let (control, stats) = (built.engine.control(), built.engine.handles().stats());
    for round in 1..2_000 {
        let profile = profiles[round % 2].clone();
        control
            .reload(MODEL, profile)
            .expect("there is room for it");
        built.ingress[0].refresh();
        let begun = now();
        while stats.read().models[0].classes.len() > 2 {
            assert!(begun.elapsed() < FOR_EVER, "round {round}: slept through");
            std::thread::yield_now();
        }
    }
}

/// A call that fails because there are too many names leaves those it brought in force.
#[test]
fn names_of_a_call_that_failed_are_known_to_the_core() {
    const NAMES: usize = 65_535;
    let (mut built, hand) = by_hand::<u64>(small().worker(Worker::new(1)));
    let control = built.handles.control();
    let names = |range: std::ops::Range<usize>| -> Vec<Box<str>> {
        range.map(|name| format!("{name:06}").into()).collect()
    };
    let mut set = |taints| {
        let id = WorkerId(1);
        let model = MODEL;
        built
            .core
            .execute(&control, Command::SetTaints { model, id, taints })
    };
    assert!(matches!(
        set(names(0..NAMES - 1)),
        Err(ControlError::Full(_))
    ));
    let too_many = set(names(NAMES - 1..NAMES + 1));
    assert!(matches!(too_many, Err(ControlError::TaintNames)));
    set(names(NAMES - 1..NAMES)).expect("a known name");

    let name = format!("{:06}", NAMES - 1);
    let request = Request {
        require_taints: &[&name],
        ..Request::new(1, 5)
    };
    built.ingress[0].try_submit(request).expect("there is room");
    turn(&mut built, &hand);
    let dispatch = dispatch(built.egress[0].try_recv().expect("open"));
    assert_eq!(dispatch.payload, 5);
}

/// A batch that began under a policy whose class a reload takes away: what it holds back still enters
/// that class (S3.7), also when a later request of the batch knows of the reload.
#[test]
fn a_batch_over_a_reload_enters_the_class_that_left() {
    let before = classes(&["a quantum: 1", "b quantum: 1"]);
    let after = classes(&["a quantum: 1"]);
    let builder = tollgate::Engine::builder(before)
        .slots(8)
        .worker(Worker::new(1));
    let (mut built, hand) = by_hand::<u64>(builder);
    let control = built.handles.control();
    let (core, clock) = (&mut built.core, built.handles.clock());
    let requests = (0..3).map_while(|step| {
        hand.advance(Nanos(1));
        if step == 1 {
            let profile = Arc::new(after.clone());
            let reload = Command::Reload {
                model: MODEL,
                profile,
            };
            core.execute(&control, reload)
                .expect("there is room for it");
        }
        core.turn(clock.now());
        (step < 2).then(|| Request {
            family: Some("b"),
            ..Request::new(1, step)
        })
    });
    built.ingress[0].submit_batch(requests, |result| {
        result.expect("there is room");
    });
    turn(&mut built, &hand);
    let mut dispatches = [(); 2].map(|()| dispatch(built.egress[0].try_recv().expect("open")));
    dispatches.sort_by_key(|dispatch| dispatch.payload);
    assert_eq!(
        dispatches.each_ref().map(|dispatch| dispatch.payload),
        [0, 1]
    );
    assert_ne!(
        dispatches[0].class, dispatches[1].class,
        "one is the default"
    );
}
