//! S10: the choice of worker for a shared request.

mod common;

use std::sync::Arc;

use common::{Ask, World, classes_and};
use tollgate_arbiter::selector::{Pool, Selector};
use tollgate_arbiter::{
    Arbiter, Capacities, Endpoint, Event, Nanos, Options, Request, SlotPool, Ticket, WorkerRecord,
};
use tollgate_policy::Profile;

fn policy(settings: &str) -> Profile {
    classes_and(&["a quantum: 1000, prefill_busy_threshold: 1000"], settings)
}

/// Workers 1, 2, 3 under `settings`.
fn three(settings: &str) -> World {
    let mut world = World::new(&policy(settings));
    for id in 1..=3 {
        world.worker(id);
    }
    world
}

/// Where a request goes.
fn place(world: &mut World, ask: Ask) -> u64 {
    let name = ask.name.clone();
    world.submit(ask);
    world.run();
    let sent = world.sent();
    assert_eq!((sent.len(), sent[0].name.as_str()), (1, name.as_str()));
    sent[0].at.0
}

#[test]
fn s10_1_cost_adds_load_and_what_is_not_cached() {
    let mut world = three("selector: cost");
    world.load(1, 0, 100);
    world.load(2, 0, 50);
    world.load(3, 0, 70);
    assert_eq!(place(&mut world, Ask::new("a", 10)), 2);
    // 1: 100 + 90 - 80; 2: 60 + 90; 3: 70 + 90 - 10.
    assert_eq!(
        place(&mut world, Ask::new("b", 90).hint(1, 0, 80).hint(3, 0, 10)),
        1
    );
}

#[test]
fn s10_1_decode_weight_counts_active_requests() {
    let mut world = three("selector: cost\ndecode_weight: 40");
    world.submit(Ask::new("a", 10).pin(1, 0));
    world.run();
    world.prefill_done("a");
    world.load(2, 0, 39);
    world.load(3, 0, 41);
    world.take();
    assert_eq!(
        place(&mut world, Ask::new("b", 1)),
        2,
        "40 against 39 and 41"
    );
    assert_eq!(
        place(&mut world, Ask::new("c", 1)),
        1,
        "40 against 39 + 1 + 40 and 41"
    );
}

#[test]
fn s10_1_scores_are_exact_beyond_64_bits() {
    let weight = u64::MAX;
    let mut world = World::new(&classes_and(
        &["a quantum: 1000"],
        &format!("decode_weight: {weight}"),
    ));
    world.worker(1);
    world.worker(2);
    for (name, pin) in [("p", 1), ("q", 1), ("r", 2)] {
        world.submit(Ask::new(name, 1).pin(pin, 0));
    }
    world.run();
    world.load(2, 0, u64::MAX - 1);
    world.take();
    // 1: 2 + 1 + 2 x weight; 2: weight + 1 + 1 + weight: saturating scores would tie them.
    world.load(1, 0, u64::MAX);
    assert_eq!(place(&mut world, Ask::new("x", 1)), 2);
}

#[test]
fn s10_1_ties_go_to_the_endpoint_used_longest_ago_never_used_first() {
    let mut world = three("");
    for (at, expected) in [1, 2, 3, 1, 2, 3].into_iter().enumerate() {
        let name = format!("x{at}");
        assert_eq!(place(&mut world, Ask::new(&name, 5)), expected);
        world.complete(&name);
    }
    // Pinned dispatches count as use.
    world.submit(Ask::new("pin", 5).pin(1, 0));
    world.run();
    world.complete("pin");
    world.take();
    assert_eq!(place(&mut world, Ask::new("y", 5)), 2);
    world.complete("y");
    world.worker(4);
    assert_eq!(place(&mut world, Ask::new("z", 5)), 4);
    world.complete("z");
    // Use is forgotten with the worker.
    world.remove(1);
    world.worker(1);
    assert_eq!(place(&mut world, Ask::new("w", 5)), 1);
}

#[test]
fn s10_1_never_used_ones_go_by_worker_and_rank_not_by_arrival() {
    let mut world = World::new(&policy(""));
    for id in [9, 4, 7] {
        let record = WorkerRecord {
            ranks: 2,
            first_rank: 3,
            ..WorkerRecord::new(id)
        };
        world.upsert(&record).expect("room");
    }
    let mut at = Vec::new();
    for name in ["a", "b", "c", "d", "e", "f"] {
        world.submit(Ask::new(name, 5));
        world.run();
        at.extend(world.sent().into_iter().map(|sent| sent.at));
        world.complete(name);
    }
    assert_eq!(at, [(4, 3), (4, 4), (7, 3), (7, 4), (9, 3), (9, 4)]);
}

#[test]
fn s10_1_a_tie_between_a_hinted_and_a_plain_endpoint_goes_by_use() {
    let mut world = three("");
    world.load(1, 0, 60);
    world.load(3, 0, 500);
    // 1 with a hint of 60 scores 60 + 40 = 100; 2 scores 100.
    assert_eq!(place(&mut world, Ask::new("a", 100).hint(1, 0, 60)), 1);
    world.complete("a");
    assert_eq!(place(&mut world, Ask::new("b", 100).hint(1, 0, 60)), 2);
}

#[test]
fn s10_1_busy_ineligible_and_overloaded_endpoints_are_never_chosen() {
    let mut world = three("");
    world.worker(4);
    world.load(1, 0, 1_001);
    world.overload(2, true);
    world.available(3, false);
    world.load(4, 0, 1_000);
    assert_eq!(place(&mut world, Ask::new("a", 5)), 4);
    world.prefill_done("a");
    world.shut(4, 0);
    world.submit(Ask::new("b", 5));
    assert!(!world.select());
}

#[test]
fn s10_1_constraints_narrow_the_choice() {
    let mut world = three("");
    world
        .upsert(&WorkerRecord {
            taints: &["gpu"],
            ..WorkerRecord::new(3)
        })
        .expect("room");
    world.load(3, 0, 500);
    assert_eq!(place(&mut world, Ask::new("a", 5).taint("gpu")), 3);
    assert_eq!(place(&mut world, Ask::new("b", 5).allow(&[3, 2])), 2);
    assert_eq!(place(&mut world, Ask::new("c", 5).allow(&[3])), 3);
    assert_eq!(place(&mut world, Ask::new("d", 5)), 1);
}

#[test]
fn s10_2_least_loaded_ignores_caches() {
    let mut world = three("selector: least_loaded\ndecode_weight: 10");
    world.load(1, 0, 100);
    world.load(2, 0, 90);
    world.load(3, 0, 95);
    assert_eq!(place(&mut world, Ask::new("a", 100).hint(1, 0, 100)), 2);
    world.prefill_done("a");
    assert_eq!(
        place(&mut world, Ask::new("b", 1).hint(1, 0, 1)),
        3,
        "95 against 90 + 10"
    );
}

#[test]
fn s10_2_round_robin_ignores_load() {
    let mut world = three("selector: round_robin");
    world.load(1, 0, 1_000);
    for (at, expected) in [1, 2, 3, 1].into_iter().enumerate() {
        assert_eq!(place(&mut world, Ask::new(&format!("x{at}"), 1)), expected);
        world.prefill_done(&format!("x{at}"));
    }
    world.load(2, 0, 1_001);
    assert_eq!(place(&mut world, Ask::new("y", 1)), 3, "2 is busy");
}

// S10.2, power of two: draws as documented.

fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn below(state: &mut u64, bound: usize) -> usize {
    usize::try_from((u128::from(next(state)) * bound as u128) >> 64).expect("below a usize")
}

#[test]
fn s10_2_power_of_two_takes_the_cheaper_of_two_draws() {
    for seed in [0, 1, 42, u64::MAX] {
        let profile = policy("selector: power_of_two");
        let options = Options { seed };
        let mut arbiter = Arbiter::build(&profile, Capacities::default(), options).expect("fits");
        let mut slots = SlotPool::new(1_000);
        for id in 0..7 {
            arbiter.upsert_worker(&WorkerRecord::new(id)).expect("room");
            // Distinct loads below the threshold: no ties.
            arbiter
                .load(Endpoint::new(id, 0), (id * 37) % 7 * 100)
                .expect("known");
        }
        let mut state = seed;
        for _ in 0..200 {
            let (i, mut j) = (below(&mut state, 7), below(&mut state, 6));
            j += usize::from(j >= i);
            let load = |at: usize| (at as u64 * 37) % 7 * 100;
            let expected = if load(j) < load(i) { j } else { i };
            let sent = place_one(&mut arbiter, &mut slots);
            assert_eq!(sent.worker.0, expected as u64);
        }
    }
}

fn place_one(arbiter: &mut Arbiter<()>, slots: &mut SlotPool) -> Endpoint {
    let ticket = slots.take().expect("a slot");
    let mut at = None;
    let request = Request::new(0, Nanos(0));
    arbiter
        .submit(ticket, None, &request, (), &mut |_| {})
        .expect("accepted");
    arbiter.select(&mut |event| {
        if let Event::Dispatched(dispatch) = event {
            at = Some(dispatch.endpoint);
        }
    });
    arbiter.complete(ticket, 1).expect("dispatched");
    slots.put(ticket);
    at.expect("dispatched")
}

#[test]
fn s10_2_power_of_two_with_one_endpoint_takes_no_draw() {
    let draws = |extra: usize| {
        let profile = policy("selector: power_of_two");
        let mut arbiter: Arbiter<()> =
            Arbiter::build(&profile, Capacities::default(), Options { seed: 9 }).expect("fits");
        let mut slots = SlotPool::new(10);
        arbiter.upsert_worker(&WorkerRecord::new(0)).expect("room");
        for _ in 0..extra {
            assert_eq!(place_one(&mut arbiter, &mut slots).worker.0, 0);
        }
        for id in 1..9 {
            arbiter.upsert_worker(&WorkerRecord::new(id)).expect("room");
        }
        for id in 0..9 {
            arbiter.load(Endpoint::new(id, 0), id).expect("known");
        }
        (0..50)
            .map(|_| place_one(&mut arbiter, &mut slots))
            .collect::<Vec<_>>()
    };
    assert_eq!(draws(0), draws(25));
}

#[test]
fn s10_2_the_same_seed_gives_the_same_choices_another_one_others() {
    let run = |seed| {
        let profile = policy("selector: power_of_two");
        let mut arbiter: Arbiter<()> =
            Arbiter::build(&profile, Capacities::default(), Options { seed }).expect("fits");
        let mut slots = SlotPool::new(10);
        for id in 0..16 {
            arbiter.upsert_worker(&WorkerRecord::new(id)).expect("room");
        }
        (0..50)
            .map(|_| place_one(&mut arbiter, &mut slots))
            .collect::<Vec<_>>()
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

#[test]
fn s10_3_the_index_agrees_with_a_scan_under_random_loads() {
    let mut world = World::new(&classes_and(
        &[
            "a quantum: 100000",
            "b quantum: 100000, prefill_busy_threshold: 500",
        ],
        "decode_weight: 3",
    ));
    for id in 0..70 {
        world.worker(id);
    }
    world.checks = false;
    let mut state = 7;
    for round in 0..600 {
        let worker = below(&mut state, 70) as u64;
        let load = below(&mut state, 1_000) as u64;
        world.load(worker, 0, load);
        if round % 7 == 0 {
            world.overload(below(&mut state, 70) as u64, round % 2 == 0);
        }
        let class = if round % 3 == 0 { "b" } else { "a" };
        let index = world.class(class).index;
        let expected = world
            .state()
            .endpoints
            .into_iter()
            .filter(|e| !e.overloaded && !e.busy_for.contains(&index))
            .min_by_key(|e| (e.prefill_tokens + 3 * e.active, e.last_use, e.endpoint));
        let Some(expected) = expected else { continue };
        let name = format!("x{round}");
        world.submit(Ask::new(&name, 9).of(class));
        assert!(world.select());
        assert_eq!(
            world.sent()[0].at.0,
            expected.endpoint.worker.0,
            "round {round}"
        );
        if round % 2 == 0 {
            world.complete(&name);
        }
    }
}

/// Always the last endpoint of the pool.
#[derive(Debug)]
struct Last;

impl Selector for Last {
    fn standing(&self, _: tollgate_arbiter::selector::Activity) -> u128 {
        0
    }

    fn choose(
        &mut self,
        pool: &Pool<'_>,
        _: &mut tollgate_arbiter::selector::Draws,
    ) -> tollgate_arbiter::EndpointIndex {
        pool.iter().last().expect("never empty")
    }
}

#[test]
fn s10_2_an_own_selector_stays_in_force_over_reloads() {
    let mut arbiter: Arbiter<()> =
        Arbiter::build_with_selector(&policy(""), Capacities::default(), Box::new(Last))
            .expect("fits");
    let mut slots = SlotPool::new(10);
    for id in 1..=3 {
        arbiter.upsert_worker(&WorkerRecord::new(id)).expect("room");
    }
    assert_eq!(place_one(&mut arbiter, &mut slots), Endpoint::new(3, 0));
    arbiter
        .reload(Arc::new(policy("selector: round_robin")))
        .expect("fits");
    assert_eq!(place_one(&mut arbiter, &mut slots), Endpoint::new(3, 0));
    let unused: Option<Ticket> = slots.take();
    assert!(unused.is_some());
}

#[test]
fn s10_2_a_reload_brings_another_selector() {
    let mut world = three("");
    world.load(1, 0, 100);
    assert_eq!(place(&mut world, Ask::new("a", 1)), 2);
    world.reload(&policy("selector: round_robin"));
    assert_eq!(place(&mut world, Ask::new("b", 1)), 1);
    world.reload(&policy("selector: cost\ndecode_weight: 1000"));
    world.load(1, 0, 0);
    world.load(3, 0, 900);
    assert_eq!(
        place(&mut world, Ask::new("c", 1)),
        3,
        "900 against 1000 and more"
    );
}
