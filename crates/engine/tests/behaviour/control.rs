//! The control plane: what a call brings about for every later submission, or why it does not.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tollgate::policy::{Bucket, ClassPolicy, Profile, ProfileSpec};
use tollgate::{
    ByHand, Clock, Closed, Command, Control, ControlError, Core, Delivery, Done, Endpoint, Engine,
    FailReason, Hint, ModelIndex, Nanos, Outcome, Request, Worker, WorkerError, WorkerId,
};

const MODEL: ModelIndex = ModelIndex(0);

fn profile(families: &[&str]) -> Profile {
    let class = |family: &&str| ClassPolicy::matrix(family, family, 0, 100);
    let classes = families.iter().map(class).collect();
    let spec = ProfileSpec::new(families[0], vec![Bucket::new(0, "all")], classes);
    Profile::build(spec).expect("it is valid")
}

fn by_hand(families: &[&str], shards: usize) -> ByHand<u32> {
    let (clock, _) = Clock::manual();
    let builder = Engine::builder(profile(families))
        .classes(2)
        .ingress_shards(shards);
    builder.clock(clock).build_by_hand().expect("it is valid")
}

fn upsert(core: &mut Core<u32>, control: &Control, worker: Worker) {
    let command = Command::UpsertWorker {
        model: MODEL,
        worker,
    };
    core.execute(control, command).expect("there is room");
}

fn reload(core: &mut Core<u32>, control: &Control, families: &[&str]) -> Result<u64, ControlError> {
    let command = Command::Reload {
        model: MODEL,
        profile: profile(families).into(),
    };
    match core.execute(control, command)? {
        Done::Reloaded { generation } => Ok(generation),
        done => panic!("{done:?}"),
    }
}

/// Names of the classes that the arbiter knows.
fn classes(core: &mut Core<u32>, control: &Control) -> Vec<String> {
    let command = Command::Snapshot {
        model: MODEL,
        entries_per_lane: 0,
    };
    match core.execute(control, command).expect("it runs") {
        Done::State(state) => state.classes.iter().map(|c| c.name.to_string()).collect(),
        done => panic!("{done:?}"),
    }
}

#[test]
fn a_pinned_submission_from_any_thread_works_once_the_upsert_returned() {
    let built = Engine::builder(profile(&["a"]))
        .ingress_shards(2)
        .build::<u64>();
    let mut built = built.expect("it is valid");
    let control = built.engine.control();
    for id in 0..200 {
        control
            .upsert_worker(MODEL, Worker::new(id))
            .expect("there is room");
        thread::scope(|scope| {
            for shard in &mut built.ingress {
                scope.spawn(move || {
                    let request = Request {
                        pin: Some(Endpoint::new(id, 0)),
                        ..Request::new(10, id)
                    };
                    shard.try_submit(request).expect("there is room");
                });
            }
        });
        for _ in 0..2 {
            let Delivery::Dispatch(dispatch) = built.egress[0].recv().expect("it runs") else {
                panic!("the worker is known");
            };
            assert_eq!(dispatch.endpoint, Endpoint::new(id, 0));
            built.egress[0].complete(dispatch.receipt());
        }
        control
            .remove_worker(MODEL, WorkerId(id))
            .expect("it is known");
    }
}

#[test]
fn s2_3_a_submission_is_priced_by_what_the_last_call_published() {
    let ByHand {
        mut core,
        handles,
        mut ingress,
        mut egress,
    } = by_hand(&["a"], 1);
    let control = handles.control();
    let hints = [Hint {
        endpoint: Endpoint::new(1, 0),
        cached: 60,
    }];
    let mut price = |core: &mut Core<u32>| {
        let request = Request {
            hints: &hints,
            ..Request::new(100, 0)
        };
        ingress[0].try_submit(request).expect("there is room");
        core.turn(Nanos(0));
        match egress[0].try_recv().expect("it runs").expect("it is there") {
            Delivery::Dispatch(dispatch) => dispatch.snapshot.cached,
            other => panic!("{other:?}"),
        }
    };
    upsert(&mut core, &control, Worker::new(2));
    assert_eq!(price(&mut core), 0, "worker 1 is not known");
    upsert(&mut core, &control, Worker::new(1));
    assert_eq!(price(&mut core), 60);
    let unavailable = Command::SetAvailable {
        model: MODEL,
        id: WorkerId(1),
        available: false,
    };
    core.execute(&control, unavailable).expect("it is known");
    assert_eq!(price(&mut core), 0, "worker 1 is not available");
}

#[test]
fn s3_7_a_record_of_before_a_reload_enters_its_class() {
    let ByHand {
        mut core,
        handles,
        mut ingress,
        mut egress,
    } = by_hand(&["old"], 2);
    let control = handles.control();
    upsert(&mut core, &control, Worker::new(1));
    ingress[0]
        .try_submit(Request::new(10, 7))
        .expect("there is room");
    assert_eq!(reload(&mut core, &control, &["new"]), Ok(2));
    core.turn(Nanos(0));
    let delivery = egress[0].try_recv().expect("it runs").expect("it is there");
    let Delivery::Dispatch(dispatch) = delivery else {
        panic!("it is dispatched");
    };
    let stats = handles.stats().read();
    let class = stats.models[0]
        .classes
        .iter()
        .find(|c| c.index == dispatch.class);
    assert_eq!(class.map(|class| &*class.name), Some("old"));
    egress[0].complete(dispatch.receipt());
    // It is empty, but a shard may still send what it resolved before.
    core.turn(Nanos(0));
    assert_eq!(classes(&mut core, &control), ["old", "new"]);
    // One shard submits, the other says that it has noticed.
    ingress[0]
        .try_submit(Request::new(10, 8))
        .expect("there is room");
    core.turn(Nanos(0));
    assert_eq!(classes(&mut core, &control), ["old", "new"]);
    ingress[1].refresh();
    core.turn(Nanos(0));
    assert_eq!(classes(&mut core, &control), ["new"]);
}

#[test]
fn a_dropped_shard_holds_no_class_and_a_held_class_counts_for_the_capacity() {
    let ByHand {
        mut core,
        handles,
        ingress,
        egress: _kept,
    } = by_hand(&["a"], 1);
    let control = handles.control();
    assert_eq!(reload(&mut core, &control, &["b"]), Ok(2));
    let full = reload(&mut core, &control, &["c"]).expect_err("`a` is held, and `b` would be");
    assert_eq!(
        full.to_string(),
        "not enough classes: 3 required, 2 available"
    );
    assert_eq!(
        classes(&mut core, &control),
        ["a", "b"],
        "nothing was changed"
    );
    drop(ingress);
    core.turn(Nanos(0));
    assert_eq!(classes(&mut core, &control), ["b"]);
    assert_eq!(reload(&mut core, &control, &["c"]), Ok(3));
}

#[test]
fn what_is_wrong_with_a_call_is_said() {
    let built = Engine::builder(profile(&["a"]))
        .workers(1)
        .build::<u32>()
        .expect("it is valid");
    let control = built.engine.control();
    let (id, endpoint) = (WorkerId(9), Endpoint::new(9, 0));
    assert_eq!(control.remove_worker(MODEL, id), Err(ControlError::Unknown));
    assert_eq!(
        control.set_load(MODEL, endpoint, 1),
        Err(ControlError::Unknown)
    );
    assert_eq!(
        control.set_overloaded(MODEL, id, true),
        Err(ControlError::Unknown)
    );
    assert_eq!(
        control.set_available(MODEL, id, true),
        Err(ControlError::Unknown)
    );
    assert_eq!(
        control.set_taints(MODEL, id, ["x"]),
        Err(ControlError::Unknown)
    );
    let no_ranks = Worker {
        ranks: 0,
        ..Worker::new(1)
    };
    let refused = control
        .upsert_worker(MODEL, no_ranks)
        .expect_err("it has no rank");
    assert!(matches!(
        refused,
        ControlError::Worker(WorkerError::RankRange { .. })
    ));
    let nameless = Worker::new(1).with_taints([""]);
    assert_eq!(
        control.upsert_worker(MODEL, nameless),
        Err(ControlError::TaintNames)
    );
    control
        .upsert_worker(MODEL, Worker::new(1))
        .expect("there is room");
    let full = control
        .upsert_worker(MODEL, Worker::new(2))
        .expect_err("there is none");
    assert_eq!(
        full.to_string(),
        "not enough workers: 2 required, 1 available"
    );
    let other = ModelIndex(3);
    let unknown = control
        .upsert_worker(other, Worker::new(1))
        .expect_err("one model");
    assert_eq!(unknown.to_string(), "model 3 does not exist, there are 1");
}

#[test]
fn a_worker_that_could_not_be_added_is_unknown_to_the_doorways_too() {
    let mut built = Engine::builder(profile(&["a"]))
        .workers(1)
        .worker(Worker::new(1))
        .build::<u32>()
        .expect("it is valid");
    let control = built.engine.control();
    let full = control.upsert_worker(MODEL, Worker::new(2));
    assert!(matches!(full, Err(ControlError::Worker(_))), "{full:?}");
    let request = Request {
        pin: Some(Endpoint::new(2, 0)),
        ..Request::new(10, 1)
    };
    built.ingress[0].try_submit(request).expect("there is room");
    let Delivery::Ended(ended) = built.egress[0].recv().expect("it runs") else {
        panic!("it has no worker");
    };
    assert_eq!(
        ended.outcome,
        Outcome::Failed(FailReason::PinnedWorkerUnknown)
    );
    control.stop(Duration::ZERO).expect("it runs");
    built.engine.join().expect("nothing panicked");
    let closed = Err(ControlError::Closed(Closed::Stopped));
    let endpoint = Endpoint::new(1, 0);
    assert_eq!(control.set_load(MODEL, endpoint, 1), closed);
    assert_eq!(control.stop(Duration::ZERO), closed);
}

#[test]
fn calls_of_many_threads_return_while_the_data_path_is_saturated() {
    let mut built = Engine::builder(profile(&["a"]))
        .slots(1_024)
        .build::<u32>()
        .expect("it is valid");
    let control = built.engine.control();
    control
        .upsert_worker(MODEL, Worker::new(0))
        .expect("there is room");
    let done = AtomicBool::new(false);
    let ingress = &mut built.ingress[0];
    let egress = &mut built.egress[0];
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let _ = ingress.try_submit(Request::new(10, 1));
                while let Ok(Some(Delivery::Dispatch(dispatch))) = egress.try_recv() {
                    egress.complete(dispatch.receipt());
                }
            }
        });
        let callers: Vec<_> = (1..5)
            .map(|id| {
                let control = &control;
                scope.spawn(move || {
                    for round in 0..50 {
                        let worker = Worker::new(id);
                        control.upsert_worker(MODEL, worker).expect("there is room");
                        let endpoint = Endpoint::new(id, 0);
                        control
                            .set_load(MODEL, endpoint, round)
                            .expect("it is known");
                        let state = control.snapshot(MODEL, 1).expect("it runs");
                        let seen = state.endpoints.iter().find(|e| e.endpoint == endpoint);
                        assert_eq!(seen.map(|e| e.reported_tokens), Some(round));
                        control
                            .remove_worker(MODEL, WorkerId(id))
                            .expect("it is known");
                    }
                })
            })
            .collect();
        for caller in callers {
            caller.join().expect("every call returns");
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_snapshot_lists_no_more_than_it_was_asked_for() {
    let ByHand {
        mut core,
        handles,
        mut ingress,
        egress: _kept,
    } = by_hand(&["a"], 1);
    let control = handles.control();
    upsert(
        &mut core,
        &control,
        Worker {
            overloaded: false,
            ..Worker::new(1)
        },
    );
    let busy = Command::Reload {
        model: MODEL,
        profile: {
            let class = ClassPolicy {
                prefill_busy_threshold: Some(0),
                ..ClassPolicy::matrix("a", "a", 0, 100)
            };
            let spec = ProfileSpec::new("a", vec![Bucket::new(0, "all")], vec![class]);
            Profile::build(spec).expect("it is valid").into()
        },
    };
    core.execute(&control, busy).expect("it fits");
    for id in 0..11 {
        ingress[0]
            .try_submit(Request::new(10, id))
            .expect("there is room");
    }
    core.turn(Nanos(0));
    let snapshot = Command::Snapshot {
        model: MODEL,
        entries_per_lane: 3,
    };
    let Done::State(state) = core.execute(&control, snapshot).expect("it runs") else {
        panic!("a snapshot is a state");
    };
    assert_eq!((state.waiting, state.outstanding), (10, 1));
    assert_eq!(state.classes[0].lanes[0].entries.len(), 3);
}

#[test]
fn a_taint_that_is_named_many_times_counts_once() {
    let mut built = by_hand(&["a"], 1);
    let control = built.handles.control();
    let often = std::iter::repeat_n("gpu", 1_000).chain(["eu"]);
    upsert(&mut built.core, &control, Worker::new(1).with_taints(often));
    let request = Request {
        require_taints: &["gpu", "eu"],
        ..Request::new(1, 5)
    };
    built.ingress[0].try_submit(request).expect("there is room");
    built.core.turn(Nanos(0));
    let delivery = built.egress[0].try_recv().expect("open");
    assert!(matches!(delivery, Some(Delivery::Dispatch(dispatch)) if dispatch.payload == 5));
}
