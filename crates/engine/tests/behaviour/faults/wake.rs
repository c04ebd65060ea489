//! Work that waits while there is room for it.

use std::collections::VecDeque;
use std::sync::Arc;

use tollgate::policy::Profile;
use tollgate::{
    ByHand, Command, Delivery, Engine, Idle, ModelIndex, Nanos, Outcome, Receipt, Request, Worker,
};

use super::{by_hand, dispatch, must_recv, small, turn};
use crate::common::classes;

/// Room that comes between the core's last turn and its sleep. The receiver empties its ring at once,
/// gives no feedback and then waits, so that nothing else wakes the core.
#[test]
fn room_that_comes_just_before_the_core_sleeps_wakes_it() {
    const ROUNDS: u64 = 100;
    const REQUESTS: usize = 1_024;
    let built = small()
        .dispatch_ring(4)
        .slots(1_024)
        .idle(Idle::Park)
        .worker(Worker::new(1))
        .build();
    let mut built = built.unwrap_or_else(|errors| panic!("{errors}"));
    let (ingress, egress) = (&mut built.ingress[0], &mut built.egress[0]);
    for _ in 0..ROUNDS {
        for payload in 0..REQUESTS {
            while ingress.try_submit(Request::new(1, payload)).is_err() {
                std::thread::yield_now();
            }
        }
        let mut batch = Vec::new();
        while batch.len() < REQUESTS {
            batch.push(must_recv(egress));
            let _ = egress.try_recv_batch(4, &mut batch);
        }
        for (payload, delivery) in (0..).zip(batch) {
            let dispatch = dispatch(Some(delivery));
            assert_eq!(dispatch.payload, payload);
            egress.complete(dispatch.receipt());
        }
    }
}

/// A shard that serves the workers of many lost ones gets each group's part of its room only; that
/// must not keep a full ring from opening again.
#[test]
fn a_shard_that_serves_many_groups_opens_them_again() {
    const SHARDS: u64 = 8;
    let builder = (0..SHARDS).fold(small(), |builder, id| builder.worker(Worker::new(id)));
    let builder = builder.egress_shards(8).dispatch_ring(16);
    let (mut built, hand) = by_hand::<u64>(builder);
    built.egress.truncate(1);
    for _ in 0..8 {
        turn(&mut built, &hand);
    }
    let mut received = 0;
    for round in 0..400 {
        for payload in 0..4 {
            let _ = built.ingress[0].try_submit(Request::new(1, round * 4 + payload));
        }
        turn(&mut built, &hand);
        // Late, so that the ring is full now and then.
        if round % 8 == 7 {
            while let Ok(Some(delivery)) = built.egress[0].try_recv() {
                let dispatch = dispatch(Some(delivery));
                built.egress[0].complete(dispatch.receipt());
                received += 1;
            }
        }
    }
    // The ring, each time.
    assert_eq!(received, 50 * 16);
}

/// What was decided while the receiver was away is handed out when it is back: in order, each once.
#[test]
fn what_was_decided_during_a_pause_comes_out_in_order() {
    let (mut built, hand) = by_hand::<u64>(small().dispatch_ring(4).worker(Worker::new(1)));
    let mut next = 0;
    for round in 0..50 {
        for payload in 0..11 {
            built.ingress[0]
                .try_submit(Request::new(1, 11 * round + payload))
                .expect("there is room");
        }
        // No more is decided than can be handed out.
        let decided: u64 = (0..100).map(|_| turn(&mut built, &hand).dispatched).sum();
        assert_eq!(decided, 4);
        while next < 11 * (round + 1) {
            while let Ok(Some(delivery)) = built.egress[0].try_recv() {
                let dispatch = dispatch(Some(delivery));
                assert_eq!(dispatch.payload, next);
                built.egress[0].complete(dispatch.receipt());
                next += 1;
            }
            turn(&mut built, &hand);
        }
    }
}

/// A closed loop of clients: as much gets through as without any queueing, because each completion
/// lets a waiting request go in the same turn. Prefills take 40 of 100 ms.
#[test]
fn thresholds_cost_no_throughput_where_prefills_leave_room() {
    const CLIENTS: u64 = 64;
    let served = |profile: &Profile| {
        let builder = Engine::builder(profile.clone()).slots(128);
        let builder = (0..8).fold(builder, |builder, id| builder.worker(Worker::new(id)));
        let (mut built, hand) = by_hand::<u64>(builder);
        let (mut prefills, mut decodes) = (VecDeque::new(), VecDeque::new());
        let (mut idle, mut served) = (CLIENTS, 0);
        for at in 0..10_000_u64 {
            // Steps of a millisecond.
            while prefills.front().is_some_and(|&(end, _)| end <= at) {
                let Some((end, receipt)) = prefills.pop_front() else {
                    break;
                };
                built.egress[0].prefill_done(receipt);
                decodes.push_back((end + 60, receipt));
            }
            while decodes.front().is_some_and(|&(end, _)| end <= at) {
                let Some((_, receipt)) = decodes.pop_front() else {
                    break;
                };
                built.egress[0].complete(receipt);
                (idle, served) = (idle + 1, served + 1);
            }
            for _ in 0..std::mem::take(&mut idle) {
                let request = Request::new(8_500, at);
                built.ingress[0].try_submit(request).expect("there is room");
            }
            hand.set(Nanos::from_millis(at));
            built.core.turn(Nanos::from_millis(at));
            while let Ok(Some(delivery)) = built.egress[0].try_recv() {
                prefills.push_back((at + 40, dispatch(Some(delivery)).receipt()));
            }
        }
        served
    };
    let without = served(&classes(&["a quantum: 1000"]));
    let with = served(&classes(&[
        "a quantum: 1000, prefill_busy_threshold: 32768",
    ]));
    assert!(with * 100 >= without * 95, "{with} of {without}");
}

/// Ten times more than can be served, for a while; then everything drains or expires, and a probe goes
/// out in the turn that takes it in.
#[test]
fn an_overload_leaves_nothing_behind() {
    let profile = classes(&["a quantum: 100, prefill_busy_threshold: 0, queue_timeout_ms: 100"]);
    let builder = Engine::builder(profile).slots(4_096).worker(Worker::new(1));
    let (mut built, hand) = by_hand::<u64>(builder);
    let mut ends = [0; 2];
    let mut running = VecDeque::new();
    let mut step = |built: &mut ByHand<u64>, running: &mut VecDeque<Receipt>, offered: u64| {
        if let Some(receipt) = running.pop_front() {
            built.egress[0].complete(receipt);
        }
        for payload in 0..offered {
            let _ = built.ingress[0].try_submit(Request::new(10, payload));
        }
        hand.advance(Nanos::from_millis(1));
        let now = built.handles.clock().now();
        built.core.turn(now);
        while let Ok(Some(delivery)) = built.egress[0].try_recv() {
            match delivery {
                Delivery::Dispatch(dispatch) => {
                    ends[0] += 1;
                    running.push_back(dispatch.receipt());
                }
                Delivery::Ended(ended) => {
                    ends[1] += 1;
                    assert_eq!(ended.outcome, Outcome::Expired);
                }
                other @ Delivery::Returned { .. } => panic!("{other:?}"),
            }
        }
        ends
    };
    (0..5_000).for_each(|_| _ = step(&mut built, &mut running, 10));
    let ends = (0..200).fold([0; 2], |_, _| step(&mut built, &mut running, 0));
    assert!(ends[0] >= 4_900 && ends[1] >= 40_000, "{ends:?}");
    assert_eq!(
        step(&mut built, &mut running, 1)[0],
        ends[0] + 1,
        "the probe"
    );
    step(&mut built, &mut running, 0);
    let gauges = built.handles.stats().read().models[0].classes[0].gauges;
    assert_eq!((gauges.waiting, gauges.outstanding), (0, 0));
}

/// Classes that leave and return while they hold the turn, between any two turns of the core.
#[test]
fn a_class_that_leaves_with_its_turn_open_stops_nobody() {
    let profiles = [
        classes(&["a quantum: 30", "b quantum: 30", "c quantum: 30"]),
        classes(&["b quantum: 30", "c quantum: 30"]),
        classes(&["c quantum: 30", "a quantum: 30"]),
    ];
    let builder = Engine::builder(profiles[0].clone())
        .slots(1_024)
        .ring(1_024);
    let builder = builder.dispatch_ring(4).worker(Worker::new(1));
    let (mut built, hand) = by_hand::<u64>(builder);
    for payload in 0..900 {
        let request = Request {
            family: Some(["a", "b", "c"][payload % 3]),
            ..Request::new(10, payload as u64)
        };
        built.ingress[0].try_submit(request).expect("there is room");
    }
    let control = built.handles.control();
    let mut received = 0;
    for round in 0..900 {
        let reload = Command::Reload {
            model: ModelIndex(0),
            profile: Arc::new(profiles[round % 3].clone()),
        };
        built.core.execute(&control, reload).expect("there is room");
        turn(&mut built, &hand);
        while let Ok(Some(delivery)) = built.egress[0].try_recv() {
            let dispatch = dispatch(Some(delivery));
            built.egress[0].complete(dispatch.receipt());
            received += 1;
        }
    }
    assert_eq!(received, 900);
}
