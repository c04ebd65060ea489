//! Churn and scale: workers and classes that come and go, many lanes.

use std::time::{Duration, Instant};

use tollgate_arbiter::{
    Arbiter, Capacities, Endpoint, Nanos, Options, Request, SlotPool, WorkerRecord,
};

use crate::common::{Ask, World, classes};

// Workers and classes that come, go and return.

/// Work bound to a removed worker waits for ever.
#[test]
fn churn_a_removed_workers_waiting_work_is_answered_in_one_turn() {
    let mut world = World::with_worker(&classes(&["a quantum: 100", "b quantum: 100"]));
    world.worker(2);
    world.shut(1, 0);
    world.submit(Ask::new("first", 30).of("a"));
    world.open(1, 0);
    world.submit_many(2, Ask::new("s", 30).of("a"));
    assert!(world.select());
    world.shut(1, 0);
    world.submit_many(20, Ask::new("x", 30).of("a").pin(1, 0));
    let credit = world.deficit("a");
    world.take();
    world.remove(1);
    world.shut(2, 0);
    world.run();
    let told = world.take();
    assert_eq!(told.len(), 20);
    assert!(
        told.iter()
            .all(|event| event.ends_with("pinned_worker_unknown")),
        "{told:?}"
    );
    assert_eq!((world.class("a").waiting, world.deficit("a")), (2, credit));
}

/// Requests dispatched to a lost worker are answered twice, or leave their bookings behind.
#[test]
fn churn_dispatched_work_of_a_lost_worker_stays_the_callers() {
    let mut world = World::with_worker(&classes(&["a quantum: 1000"]));
    world.submit_many(10, ("x", 10));
    world.run();
    world.take();
    world.remove(1);
    world.run();
    world.expect(&[]);
    assert_eq!(world.state().outstanding, 10);
    world.worker(1);
    assert_eq!(world.endpoint(1, 0).prefill_tokens, 0);
    for at in 0..10 {
        let name = format!("x{at}");
        // Half are handed over again, half are given up.
        assert!(if at % 2 == 0 {
            world.requeue(&name)
        } else {
            world.complete(&name)
        });
    }
    world.run();
    assert_eq!(world.endpoint(1, 0).active, 5);
    world.complete_all();
    assert_eq!(world.state().outstanding, 0);
}

/// Whether a class is active is inferred: after a reload one is in the ring twice, or not at all.
#[test]
fn churn_a_reload_keeps_each_class_in_the_ring_once() {
    let lines = [
        "a quantum: 10",
        "b quantum: 10, prefill_busy_threshold: 0",
        "c quantum: 10",
    ];
    let mut world = World::with_worker(&classes(&lines));
    world.worker(2);
    world.load(2, 0, 1);
    world.submit_many(3, Ask::new("b", 5).of("b").pin(2, 0));
    world.submit_many(3, Ask::new("c", 5).of("c"));
    world.select();
    for _ in 0..5 {
        world.reload(&classes(&lines));
        let mut ring: Vec<_> = world.state().ring;
        ring.sort_unstable();
        ring.dedup();
        assert_eq!(ring.len(), 3);
        assert_eq!(world.class("b").waiting, 3);
    }
    world.load(2, 0, 0);
    world.run();
    assert_eq!(world.order(), ["c0", "b0", "c1", "c2"]);
}

/// Start-up waits for workers that were announced and are dead.
#[test]
fn churn_workers_that_left_before_the_first_request_delay_nobody() {
    let mut world = World::new(&classes(&["a quantum: 100, prefill_busy_threshold: 0"]));
    for id in 0..10 {
        world.worker(id);
    }
    for id in 0..3 {
        world.remove(id);
    }
    world.submit_many(7, ("x", 5));
    world.run();
    let mut at: Vec<_> = world.sent().iter().map(|sent| sent.at.0).collect();
    at.sort_unstable();
    assert_eq!(at, [3, 4, 5, 6, 7, 8, 9]);
}

/// Helpers of an item outlive it: ten thousand workers later the tables are full.
#[test]
fn churn_ten_thousand_workers_leave_nothing_behind() {
    let profile = classes(&["a quantum: 100, prefill_busy_threshold: 0"]);
    let capacities = Capacities {
        slots: 4,
        workers: 2,
        endpoints: 3,
        ..Capacities::default()
    };
    let mut arbiter = Arbiter::build(&profile, capacities, Options::default()).expect("fits");
    let mut slots = SlotPool::new(4);
    for id in 0..10_000_u64 {
        let taint = format!("taint {id}");
        let record = WorkerRecord {
            taints: &[&taint],
            ranks: 2,
            ..WorkerRecord::new(id)
        };
        arbiter.upsert_worker(&record).expect("room");
        let taints = [taint.as_str()];
        let request = Request {
            pin: (id % 2 == 0).then(|| Endpoint::new(id, 1)),
            require_taints: &taints,
            ..Request::new(5, Nanos(0))
        };
        let ticket = slots.take().expect("a slot");
        arbiter
            .submit(ticket, None, &request, (), &mut |_| {})
            .expect("accepted");
        assert!(arbiter.select(&mut |_| {}));
        if id % 3 == 0 {
            arbiter.remove_worker(record.id).expect("known");
            arbiter.complete(ticket, 1).expect("it runs");
        } else {
            arbiter.complete(ticket, 1).expect("it runs");
            arbiter.remove_worker(record.id).expect("known");
        }
        slots.put(ticket);
    }
    arbiter.check_invariants();
    let state = arbiter.state();
    assert!(state.endpoints.is_empty());
    assert_eq!((state.outstanding, state.stale_events), (0, 0));
}

// Cost that grows with what is not concerned.

/// The shortest time of one load update and dispatch on the free lane, beside `lanes` blocked ones.
#[expect(
    clippy::disallowed_methods,
    reason = "the clock measures the test, not the arbiter"
)]
fn free_lane_step(lanes: u64) -> Duration {
    let profile = classes(&["a quantum: 100, prefill_busy_threshold: 10"]);
    let capacities = Capacities {
        slots: 16_384,
        workers: 16_384,
        endpoints: 16_384,
        ..Capacities::default()
    };
    let mut arbiter = Arbiter::build(&profile, capacities, Options::default()).expect("fits");
    let mut slots = SlotPool::new(capacities.slots);
    let mut submit = |arbiter: &mut Arbiter<()>, worker| {
        let ticket = slots.take().expect("a slot");
        let pin = Some(Endpoint::new(worker, 0));
        let request = Request {
            pin,
            ..Request::new(1, Nanos(0))
        };
        arbiter
            .submit(ticket, None, &request, (), &mut |_| {})
            .expect("accepted");
        ticket
    };
    for worker in 0..=lanes {
        arbiter
            .upsert_worker(&WorkerRecord::new(worker))
            .expect("room");
        arbiter.load(Endpoint::new(worker, 0), 11).expect("known");
        if worker > 0 {
            submit(&mut arbiter, worker);
        }
    }
    let mut fastest = Duration::MAX;
    for _ in 0..200 {
        let ticket = submit(&mut arbiter, 0);
        let start = Instant::now();
        arbiter.load(Endpoint::new(0, 0), 0).expect("known");
        let went = arbiter.select(&mut |_| {});
        fastest = fastest.min(start.elapsed());
        assert!(went && !arbiter.select(&mut |_| {}));
        arbiter.complete(ticket, 1).expect("it runs");
        arbiter.load(Endpoint::new(0, 0), 11).expect("known");
    }
    fastest
}

/// Each event looks at every blocked lane.
#[test]
fn scale_ten_thousand_blocked_lanes_do_not_slow_the_free_one() {
    let few = free_lane_step(10);
    let many = free_lane_step(10_000);
    // The fastest of 200, plus a floor for the clock's own grain.
    assert!(
        many <= few * 5 + Duration::from_micros(2),
        "{many:?} against {few:?}"
    );
}
