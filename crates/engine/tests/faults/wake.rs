//! Work that waits while there is room for it.

use tollgate::{Idle, Request, Worker};

use super::{by_hand, dispatch, must_recv, small, turn};

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
