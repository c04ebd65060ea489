//! S12: fixed capacities. What exceeds one is told so, and nothing is lost.

mod common;

use common::{Ask, Stage, World, classes, classes_and};
use tollgate_arbiter::{
    Arbiter, BuildError, Capacities, ClassIndex, CostSnapshot, Event, Full, InvalidRequest, Nanos,
    Options, Refusal, Request, Resource, SlotIndex, SlotPool, TAINTS_MAX, Ticket, WorkerError,
    WorkerRecord,
};

fn sized(capacities: Capacities) -> World {
    World::sized(&classes(&["a quantum: 10"]), capacities)
}

fn full(what: Resource, required: u64, available: u64) -> Full {
    Full {
        what,
        required,
        available,
    }
}

/// Lends one capacity.
type Field = fn(&mut Capacities) -> &mut u32;

#[test]
fn s12_capacities_out_of_range_are_refused_by_name() {
    let cases: [(Resource, Field, &[u32]); 5] = [
        (Resource::Slots, |c| &mut c.slots, &[0, u32::MAX]),
        (Resource::Classes, |c| &mut c.classes, &[0, u32::MAX]),
        (Resource::Workers, |c| &mut c.workers, &[0, u32::MAX]),
        (Resource::Endpoints, |c| &mut c.endpoints, &[0, u32::MAX]),
        (
            Resource::ExtensionBlocks,
            |c| &mut c.extension_blocks,
            &[u32::MAX],
        ),
    ];
    for (resource, field, values) in cases {
        for &value in values {
            let mut capacities = Capacities::default();
            *field(&mut capacities) = value;
            refuses(capacities, resource);
        }
    }
    refuses(
        Capacities {
            attempts: 0,
            ..Capacities::default()
        },
        Resource::Attempts,
    );
}

/// Building with `capacities` is refused for `resource`.
fn refuses(capacities: Capacities, resource: Resource) {
    let built = Arbiter::<()>::build(&classes(&["a quantum: 10"]), capacities, Options::default());
    let Err(BuildError::OutOfRange {
        what,
        min,
        max,
        found,
    }) = built
    else {
        panic!("{resource}: {:?}", built.err());
    };
    assert_eq!(what, resource);
    assert!(!(min..=max).contains(&found));
}

#[test]
fn s12_the_smallest_capacities_work() {
    let capacities = Capacities {
        slots: 1,
        classes: 1,
        workers: 1,
        endpoints: 1,
        extension_blocks: 0,
        attempts: 1,
        egress_groups: 1,
    };
    let profile = classes_and(&["a quantum: 10"], "max_attempts: 1");
    let mut world = World::sized(&profile, capacities);
    world.worker(1);
    for at in 0..5 {
        let name = format!("x{at}");
        world.submit(Ask::new(&name, 5).pin(1, 0));
        assert_eq!(world.run().dispatched, 1);
        assert!(if at % 2 == 0 {
            world.complete(&name)
        } else {
            world.requeue(&name)
        });
        assert_eq!(world.stage(&name), Stage::Over);
    }
    assert_eq!(world.class("a").counters.failed[3], 2);
}

#[test]
fn s12_a_profile_that_asks_for_more_attempts_does_not_fit() {
    let profile = classes_and(&["a quantum: 10"], "max_attempts: 9");
    let built = Arbiter::<()>::build(&profile, Capacities::default(), Options::default());
    assert_eq!(
        built.expect_err("full"),
        BuildError::Full(full(Resource::Attempts, 9, 3))
    );
}

#[test]
fn s12_tickets_of_slots_in_use_or_beyond_are_invalid() {
    let profile = classes(&["a quantum: 10"]);
    let capacities = Capacities {
        slots: 2,
        ..Capacities::default()
    };
    let mut arbiter = Arbiter::build(&profile, capacities, Options::default()).expect("fits");
    arbiter.upsert_worker(&WorkerRecord::new(1)).expect("room");
    let mut slots = SlotPool::new(2);
    let ticket = slots.take().expect("a slot");
    let request = Request::new(5, Nanos(0));
    let submit = |arbiter: &mut Arbiter<&'static str>, ticket| {
        arbiter.submit(ticket, None, &request, "mine", &mut |_: Event<
            &'static str,
        >| {})
    };
    submit(&mut arbiter, ticket).expect("accepted");
    let again = Ticket {
        generation: 9,
        ..ticket
    };
    let refused = submit(&mut arbiter, again).expect_err("in use");
    assert_eq!(
        refused.reason,
        Refusal::Invalid(InvalidRequest::SlotInUse { found: 0 })
    );
    let beyond = Ticket {
        slot: SlotIndex(2),
        generation: 0,
    };
    let refused = submit(&mut arbiter, beyond).expect_err("no such slot");
    assert_eq!(
        refused.reason,
        Refusal::Invalid(InvalidRequest::SlotOutOfRange {
            found: 2,
            available: 2
        })
    );
    assert_eq!(refused.payload, "mine");
    assert!(slots.take().is_some() && slots.take().is_none());
    // A dispatched request holds its slot until it is complete.
    assert!(arbiter.select(&mut |_: Event<&'static str>| {}));
    assert!(submit(&mut arbiter, ticket).is_err());
    arbiter.complete(ticket, 1).expect("it runs");
    submit(&mut arbiter, again).expect("free again");
    arbiter.check_invariants();
}

#[test]
fn s12_classes_that_do_not_exist_are_invalid() {
    let mut world = sized(Capacities::default());
    world.worker(1);
    let snapshot = CostSnapshot { raw: 5, cached: 0 };
    let request = Request::new(5, Nanos(0));
    for index in [1, 63, 64, u16::MAX] {
        let ticket = Ticket {
            slot: SlotIndex(0),
            generation: 0,
        };
        let class = ClassIndex(index);
        let refused = world
            .arbiter
            .submit_at(ticket, class, snapshot, &request, 0, &mut |_: Event<
                u32,
            >| {})
            .expect_err("no such class");
        assert_eq!(
            refused.reason,
            Refusal::Invalid(InvalidRequest::UnknownClass { found: index })
        );
        assert_eq!(world.arbiter.class_name(class), "");
    }
    world.arbiter.check_invariants();
}

#[test]
fn s12_workers_and_endpoints_are_bounded() {
    let mut world = sized(Capacities {
        workers: 2,
        endpoints: 4,
        ..Capacities::default()
    });
    let ranks = |id, ranks| WorkerRecord {
        ranks,
        ..WorkerRecord::new(id)
    };
    world.upsert(&ranks(1, 3)).expect("room");
    assert_eq!(
        world.upsert(&ranks(2, 2)),
        Err(WorkerError::Full(full(Resource::Endpoints, 5, 4)))
    );
    world.upsert(&ranks(2, 1)).expect("room");
    assert_eq!(
        world.upsert(&ranks(3, 1)),
        Err(WorkerError::Full(full(Resource::Workers, 3, 2)))
    );
    // A record that replaces ranks needs room only for what it holds afterwards.
    let moved = WorkerRecord {
        first_rank: 7,
        ..ranks(1, 3)
    };
    world.upsert(&moved).expect("its own three are free");
    assert!(world.remove(2));
    world.upsert(&ranks(1, 4)).expect("room");
    assert_eq!(world.state().endpoints.len(), 4);
}

#[test]
fn s12_a_departed_endpoint_holds_its_number_while_a_request_refers_to_it() {
    let mut world = sized(Capacities {
        endpoints: 2,
        ..Capacities::default()
    });
    world.worker(1);
    world.worker(2);
    world.submit(Ask::new("x", 5).pin(1, 0));
    world.run();
    assert!(world.remove(1));
    assert_eq!(
        world.upsert(&WorkerRecord::new(3)),
        Err(WorkerError::Full(full(Resource::Endpoints, 3, 2)))
    );
    world.worker(1);
    assert!(world.remove(1));
    assert!(world.complete("x"));
    world.worker(3);
}

#[test]
fn s12_blocks_for_variable_parts_are_bounded_and_come_back() {
    let mut world = sized(Capacities {
        extension_blocks: 3,
        ..Capacities::default()
    });
    world.worker(1);
    world.shut(1, 0);
    // A header and a block for up to 8 workers; a header and two blocks for up to 8 hints.
    world.submit(Ask::new("x", 5).allow(&[1]));
    let refused = world.try_submit(Ask::new("y", 5).allow(&[1]));
    assert_eq!(
        refused,
        Err(Refusal::Full(full(Resource::ExtensionBlocks, 2, 1)))
    );
    world.submit(Ask::new("plain", 5));
    world.submit(Ask::new("pinned", 5).pin(1, 0).hint(1, 0, 3).allow(&[1]));
    assert!(world.cancel("x"));
    let hinted = (0..8).fold(Ask::new("z", 5), |ask, id| ask.hint(id, 0, 1));
    world.submit(hinted);
    world.open(1, 0);
    assert_eq!(world.run().dispatched, 3);
    assert!(
        world.try_submit(Ask::new("w", 5).allow(&[1])).is_err(),
        "held until it is complete"
    );
    assert!(world.complete("z"));
    world.submit(Ask::new("v", 5).allow(&[1]));
}

#[test]
fn s12_taints_are_bounded_and_come_back() {
    let mut world = sized(Capacities::default());
    let names: Vec<String> = (0..=TAINTS_MAX).map(|at| format!("t{at}")).collect();
    let taints: Vec<&str> = names.iter().map(String::as_str).collect();
    let most = &taints[..TAINTS_MAX as usize];
    world
        .upsert(&WorkerRecord {
            taints: most,
            ..WorkerRecord::new(1)
        })
        .expect("room");
    let before = world.state();
    let refused = world.upsert(&WorkerRecord {
        taints: &["one more"],
        ..WorkerRecord::new(2)
    });
    assert!(matches!(
        refused,
        Err(WorkerError::Full(Full {
            what: Resource::Taints,
            ..
        }))
    ));
    assert_eq!(world.state(), before);
    let refused = world
        .arbiter
        .set_taints(tollgate_arbiter::WorkerId(1), &taints);
    assert!(refused.is_err());
    world.submit(Ask::new("x", 5).taint("t127"));
    world.expect(&["queued x"]);
    assert!(world.cancel("x"));
    assert!(world.remove(1));
    world
        .upsert(&WorkerRecord {
            taints: &["one more"],
            ..WorkerRecord::new(2)
        })
        .expect("room");
    // Churn of names never fills the table.
    for round in 0..1_000 {
        let name = format!("churn{round}");
        world
            .upsert(&WorkerRecord {
                taints: &[&name],
                ..WorkerRecord::new(2)
            })
            .expect("room");
    }
}

#[test]
fn s12_a_full_slot_pool_says_so_and_recovers() {
    let mut pool = SlotPool::new(3);
    let tickets: Vec<Ticket> = std::iter::from_fn(|| pool.take()).collect();
    assert_eq!(tickets.len(), 3);
    pool.put(tickets[1]);
    let again = pool.take().expect("a slot");
    assert_eq!(again.slot, tickets[1].slot);
    assert_ne!(again.generation, tickets[1].generation);
}

#[test]
fn s12_a_lane_of_64_k_keeps_its_order_under_cancels() {
    let capacities = Capacities {
        slots: 1 << 16,
        ..Capacities::default()
    };
    for order in ["fcfs", "wspt"] {
        let profile = classes(&[&format!("a quantum: 1000, queue_policy: {order}")]);
        let mut arbiter = Arbiter::build(&profile, capacities, Options::default()).expect("fits");
        let mut slots = SlotPool::new(1 << 16);
        arbiter.upsert_worker(&WorkerRecord::new(1)).expect("room");
        let mut tickets = Vec::new();
        for at in 0..1_u32 << 16 {
            let ticket = slots.take().expect("a slot");
            let cost = 1 + at.wrapping_mul(0x9E37_79B1) % 5_000;
            let request = Request::new(cost, Nanos(0));
            arbiter
                .submit(ticket, None, &request, (cost, at), &mut |_| {})
                .expect("accepted");
            tickets.push(ticket);
        }
        for ticket in tickets.iter().rev().step_by(2) {
            arbiter.cancel(*ticket, &mut |_| {}).expect("it waits");
        }
        assert_eq!(arbiter.waiting(), 1 << 15);
        let mut sent = Vec::new();
        arbiter.arbitrate(None, &mut |event: Event<(u32, u32)>| {
            if let Event::Dispatched(dispatch) = event {
                sent.push(dispatch.payload);
            }
        });
        let mut expected: Vec<(u32, u32)> = (0..1_u32 << 16)
            .filter(|at| at % 2 == 0)
            .map(|at| (1 + at.wrapping_mul(0x9E37_79B1) % 5_000, at))
            .collect();
        if order == "wspt" {
            expected.sort_unstable();
        }
        assert_eq!(sent, expected, "{order}");
        arbiter.check_invariants();
    }
}
