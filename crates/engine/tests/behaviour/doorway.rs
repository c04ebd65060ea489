//! What the doorway settles: refusals, batches, prices under a changing worker table, names.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::common::draw::Draw;
use crate::common::{FIRST, Hand, classes, of, one_at_a_time, open, pinned};
use tollgate::policy::{Bucket, ClassPolicy, Profile, ProfileSpec};
use tollgate::{
    Builder, Command, Endpoint, Hint, InvalidRequest, ModelIndex, Nanos, Part, Refusal, Request,
    Room, Worker, WorkerId,
};

/// Why a request is refused; it comes back as it was.
fn refused(hand: &mut Hand<u64>, request: Request<'_, u64>) -> Refusal {
    let refused = hand.ingress[0]
        .try_submit(request)
        .expect_err("it is refused");
    assert_eq!(format!("{:?}", refused.request), format!("{request:?}"));
    refused.reason
}

fn full(what: Room) -> Refusal {
    Refusal::Full { what }
}

/// A request with every part that one can have.
fn rich<'a>(hints: &'a [Hint], allow: &'a [WorkerId], taints: &'a [&'a str]) -> Request<'a, u64> {
    Request {
        model: FIRST,
        family: Some("family"),
        cached_tokens: 3,
        hints,
        strict_priority: 4,
        priority_jump: -0.5,
        pin: Some(Endpoint::new(1, 2)),
        allow: Some(allow),
        require_taints: taints,
        deadline: Some(Nanos(77)),
        may_wait: false,
        ..Request::new(9, 42)
    }
}

#[test]
fn without_a_slot_a_request_comes_back_whole() {
    let mut hand = Hand::with_workers(open(), [1], |builder| builder.slots(2));
    hand.submit(Request::new(1, 0));
    hand.submit(Request::new(1, 1));
    let request = rich(&[], &[WorkerId(1)], &["t"]);
    assert_eq!(refused(&mut hand, request), full(Room::Slots));
    // A slot is taken until its request is complete.
    hand.turn();
    assert_eq!(refused(&mut hand, request), full(Room::Slots));
    let dispatches = hand.dispatches(0);
    hand.egress[0].complete(dispatches[0].receipt());
    hand.turn();
    hand.submit(Request::new(1, 2));
    assert_eq!(refused(&mut hand, request), full(Room::Slots));
    let read = hand.handles.stats().read().ingress[0].clone();
    assert_eq!((read.accepted, read.refused_full), (3, 3));
}

#[test]
fn without_room_in_the_ring_a_request_comes_back_whole() {
    let mut hand = Hand::with_workers(open(), [1], |builder| builder.ring(2));
    hand.submit(Request::new(1, 0));
    hand.submit(Request::new(1, 1));
    assert_eq!(refused(&mut hand, rich(&[], &[], &[])), full(Room::Ring));
    hand.turn();
    hand.submit(Request::new(1, 2));
    hand.turn();
    assert_eq!(hand.told(0), ["0 -> 1.0", "1 -> 1.0", "2 -> 1.0"]);
}

#[test]
fn without_room_for_variable_parts_a_request_comes_back_whole() {
    let workers: Vec<_> = (0..1_024).map(WorkerId).collect();
    let hint = Hint {
        endpoint: Endpoint::new(1, 0),
        cached: 1,
    };
    let sixteen = [hint; 16];
    let mut hand = Hand::with_workers(open(), [1], |builder| builder.extension_ring(133));
    let large = Request {
        allow: Some(&workers),
        ..Request::new(1, 0)
    };
    hand.submit(large);
    let request = rich(&sixteen, &workers, &["t"; 16]);
    assert_eq!(refused(&mut hand, request), full(Room::ExtensionRing));
    // Smaller ones still find room, and the large one does once the first was taken in.
    hand.submit(Request {
        hints: &[hint],
        ..Request::new(1, 1)
    });
    hand.turn();
    hand.submit(large);

    let mut hand = Hand::with_workers(one_at_a_time(), [1], |builder| builder.extension_blocks(4));
    hand.set_load(1, 9);
    hand.submit(Request {
        hints: &[hint; 5],
        ..Request::new(1, 0)
    });
    let request = rich(&sixteen[..4], &[], &[]);
    assert_eq!(refused(&mut hand, request), full(Room::ExtensionBlocks));
    hand.turn();
    assert_eq!(
        refused(&mut hand, request),
        full(Room::ExtensionBlocks),
        "it still waits"
    );
    hand.submit(Request {
        allow: Some(&[]),
        ..Request::new(1, 1)
    });
    hand.set_load(1, 0);
    hand.settle();
    let mut deliveries = hand.deliveries(0);
    assert_eq!(deliveries.len(), 2);
    let Some(tollgate::Delivery::Dispatch(dispatch)) = deliveries.pop() else {
        panic!("the first goes out when the worker is free")
    };
    hand.egress[0].complete(dispatch.receipt());
    hand.settle();
    hand.submit(Request {
        hints: &[hint; 9],
        ..Request::new(1, 2)
    });
}

/// Requests that are wrong in one thing each, and what that is.
fn wrong<'a>(
    good: Request<'a, u64>,
    hints: &'a [Hint],
    workers: &'a [WorkerId],
    taints: &'a [&'a str],
) -> [(Request<'a, u64>, InvalidRequest); 5] {
    let model = ModelIndex(1);
    let priority_jump = f64::INFINITY;
    let (found, available) = (1, 1);
    let too_many = |part, found, max| InvalidRequest::TooMany { part, found, max };
    let infinite = InvalidRequest::JumpNotFinite {
        found: priority_jump,
    };
    let allow = Some(workers);
    let require_taints = taints;
    let taints = too_many(Part::RequireTaints, 17, 16);
    [
        (
            Request { model, ..good },
            InvalidRequest::UnknownModel { found, available },
        ),
        (
            Request {
                priority_jump,
                ..good
            },
            infinite,
        ),
        (Request { hints, ..good }, too_many(Part::Hints, 17, 16)),
        (
            Request {
                require_taints,
                ..good
            },
            taints,
        ),
        (
            Request { allow, ..good },
            too_many(Part::Allow, 1_025, 1_024),
        ),
    ]
}

#[test]
fn an_invalid_request_comes_back_whole_whatever_else_there_is() {
    let hints = [Hint {
        endpoint: Endpoint::new(1, 0),
        cached: 1,
    }; 17];
    let workers = [WorkerId(1); 1_025];
    let taints = ["t"; 17];
    let good = rich(&hints[..16], &workers[..1_024], &taints[..16]);
    let wrong = wrong(good, &hints, &workers, &taints);
    let mut hand = Hand::with_workers(open(), [1], |builder| builder.ring(2));
    for stage in ["open", "full", "closed"] {
        for (request, reason) in wrong {
            assert_eq!(
                refused(&mut hand, request),
                Refusal::Invalid(reason),
                "{stage}"
            );
        }
        let nan = Request {
            priority_jump: f64::NAN,
            ..good
        };
        let Refusal::Invalid(InvalidRequest::JumpNotFinite { found }) = refused(&mut hand, nan)
        else {
            panic!("NaN is not finite")
        };
        assert!(found.is_nan());
        match stage {
            "open" => {
                hand.submit(good);
                hand.submit(Request::new(1, 1));
            }
            "full" => {
                assert_eq!(refused(&mut hand, good), full(Room::Ring));
                hand.stop(Nanos(0));
            }
            _ => {}
        }
    }
    assert_eq!(refused(&mut hand, good), Refusal::Closed);
    let read = hand.handles.stats().read().ingress[0].clone();
    assert_eq!((read.accepted, read.refused_invalid), (2, 18));
    assert_eq!((read.refused_full, read.refused_closed), (1, 1));
}

#[test]
fn refusals_and_their_reasons_are_short_sentences() {
    let reasons = [
        (Refusal::Closed, "closed: no new requests are taken"),
        (full(Room::Slots), "full: no room in slots"),
        (full(Room::Ring), "full: no room in ring"),
        (full(Room::ExtensionRing), "full: no room in extension_ring"),
        (
            full(Room::ExtensionBlocks),
            "full: no room in extension_blocks",
        ),
        (
            InvalidRequest::TooMany {
                part: Part::Allow,
                found: 1_025,
                max: 1_024,
            }
            .into(),
            "invalid: 1025 allowed workers, at most 1024 are allowed",
        ),
        (
            InvalidRequest::UnknownModel {
                found: 3,
                available: 2,
            }
            .into(),
            "invalid: model 3 does not exist, there are 2",
        ),
        (
            InvalidRequest::JumpNotFinite { found: f64::NAN }.into(),
            "invalid: priority_jump must be a finite number of seconds, not NaN",
        ),
    ];
    for (reason, text) in reasons {
        assert_eq!(reason.to_string(), text);
    }
    assert_eq!(Room::ALL.map(Room::name).len(), 4);
}

fn small_rooms(builder: Builder) -> Builder {
    builder
        .ring(16)
        .slots(32)
        .extension_ring(133)
        .extension_blocks(40)
}

/// A random request, now and then an invalid one.
fn random<'a>(
    draw: &mut Draw,
    number: u64,
    hints: &'a [Hint],
    allow: &'a [WorkerId],
) -> Request<'a, u64> {
    Request {
        hints: &hints[..draw.place(hints.len() + 1)],
        allow: draw.chance(30).then(|| &allow[..draw.place(allow.len())]),
        priority_jump: draw.pick(&[0.0, 0.0, 1.5, f64::NAN]),
        strict_priority: draw.small(3),
        ..Request::new(draw.small(5), number)
    }
}

#[test]
fn a_batch_is_answered_and_served_like_single_submissions() {
    let hints = [Hint {
        endpoint: Endpoint::new(1, 0),
        cached: 1,
    }; 8];
    let allow: Vec<_> = (1..60).map(WorkerId).collect();
    for seed in 0..30 {
        let mut draw = Draw(seed);
        let mut one = Hand::with_workers(open(), [1, 2], small_rooms);
        let mut many = Hand::with_workers(open(), [1, 2], small_rooms);
        for round in 0..20 {
            let count = draw.below(60);
            let batch: Vec<_> = (0..count)
                .map(|at| random(&mut draw, round * 100 + at, &hints, &allow))
                .collect();
            let mut single = Vec::new();
            for &request in &batch {
                let answer = one.ingress[0].try_submit(request);
                single.push(format!("{:?}", answer.map(|_| ())));
            }
            let mut answers = Vec::new();
            many.ingress[0].submit_batch(batch.iter().copied(), |answer| {
                answers.push(format!("{:?}", answer.map(|_| ())));
            });
            assert_eq!(answers, single, "seed {seed}, round {round}");
            let mut told = Vec::new();
            for hand in [&mut one, &mut many] {
                hand.settle();
                let deliveries = hand.deliveries(0);
                told.push(
                    deliveries
                        .iter()
                        .map(crate::common::text)
                        .collect::<Vec<_>>(),
                );
                for delivery in deliveries {
                    if let tollgate::Delivery::Dispatch(dispatch) = delivery {
                        hand.egress[0].complete(dispatch.receipt());
                    }
                }
                hand.settle();
            }
            assert_eq!(told[0], told[1], "seed {seed}, round {round}");
        }
        let counted = [&one, &many].map(|hand| hand.handles.stats().read().ingress[0].clone());
        assert_eq!(counted[0], counted[1]);
        assert!(counted[0].refused_full > 0 && counted[0].refused_invalid > 0);
    }
}

#[test]
fn a_panic_of_a_batchs_iterator_loses_nothing_that_was_accepted() {
    let mut hand = Hand::with_workers(open(), [1], |builder| builder);
    let requests = (0..100).map(|number| {
        assert!(number < 40, "the iterator gives up");
        Request::new(1, number)
    });
    let mut accepted = 0;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        hand.ingress[0].submit_batch(requests, |answer| accepted += u64::from(answer.is_ok()));
    }));
    assert!(panicked.is_err());
    assert_eq!(accepted, 40);
    hand.settle();
    let numbers: Vec<_> = hand.dispatches(0).iter().map(|d| d.payload).collect();
    assert_eq!(numbers, (0..40).collect::<Vec<_>>());
}

#[test]
fn a_panic_of_a_batchs_listener_loses_nothing_that_was_accepted() {
    let mut hand = Hand::with_workers(open(), [1], |builder| builder);
    let mut heard = 0;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        hand.ingress[0].submit_batch((0..100).map(|n| Request::new(1, n)), |answer| {
            assert!(answer.is_ok());
            heard += 1;
            assert!(heard < 40, "the listener gives up");
        });
    }));
    assert!(panicked.is_err());
    hand.submit(Request::new(1, 1_000));
    hand.settle();
    let numbers: Vec<_> = hand.dispatches(0).iter().map(|d| d.payload).collect();
    let expected: Vec<_> = (0..40).chain([1_000]).collect();
    assert_eq!(numbers, expected);
}

/// The cost of a request of 100 tokens, 10 of which worker 1 holds, and 60 of which rank 1 of worker 2
/// holds; none if it is not dispatched.
fn price(hand: &mut Hand<u64>, require_taints: &[&str], pin: Option<Endpoint>) -> Option<u32> {
    let hint = |worker, rank, cached| Hint {
        endpoint: Endpoint::new(worker, rank),
        cached,
    };
    hand.submit(Request {
        hints: &[hint(1, 0, 10), hint(2, 1, 60), hint(2, 1, 40)],
        require_taints,
        pin,
        ..Request::new(100, 0)
    });
    hand.settle();
    let mut deliveries = hand.deliveries(0);
    assert_eq!(deliveries.len(), 1);
    let price = match deliveries.remove(0) {
        tollgate::Delivery::Dispatch(dispatch) => {
            hand.egress[0].complete(dispatch.receipt());
            Some(dispatch.snapshot.cost())
        }
        _ => None,
    };
    hand.settle();
    price
}

/// Worker 2 with ranks 0 and 1.
fn two_ranks() -> Worker {
    Worker {
        ranks: 2,
        ..Worker::new(2)
    }
}

#[test]
fn s2_3_prices_follow_the_workers_as_the_last_control_call_left_them() {
    let mut hand = Hand::with_workers(open(), [1, 2], |builder| builder);
    assert_eq!(
        price(&mut hand, &[], None),
        Some(90),
        "worker 2 has no rank 1"
    );
    hand.upsert(two_ranks());
    assert_eq!(price(&mut hand, &[], None), Some(40));
    assert_eq!(price(&mut hand, &[], Some(Endpoint::new(1, 0))), Some(90));
    let available = |available| Command::SetAvailable {
        model: FIRST,
        id: WorkerId(2),
        available,
    };
    hand.execute(available(false)).expect("known");
    assert_eq!(price(&mut hand, &[], None), Some(90));
    hand.execute(available(true)).expect("known");
    assert_eq!(price(&mut hand, &[], None), Some(40));
    // Overload is ignored in a price.
    hand.upsert(Worker {
        overloaded: true,
        ..two_ranks()
    });
    assert_eq!(price(&mut hand, &[], None), Some(40));
    hand.remove(2);
    assert_eq!(price(&mut hand, &[], None), Some(90));
    hand.remove(1);
    assert_eq!(price(&mut hand, &[], None), None);
}

#[test]
fn s2_3_prices_follow_the_taints_as_the_last_control_call_left_them() {
    let mut hand = Hand::with_workers(open(), [1], |builder| builder);
    hand.upsert(two_ranks());
    assert_eq!(price(&mut hand, &["gpu"], None), None);
    let taints = |id, taints: &[&str]| Command::SetTaints {
        model: FIRST,
        id: WorkerId(id),
        taints: taints.iter().map(|&name| name.into()).collect(),
    };
    hand.execute(taints(1, &["gpu", "eu"])).expect("known");
    assert_eq!(price(&mut hand, &["gpu"], None), Some(90));
    hand.execute(taints(2, &["gpu"])).expect("known");
    assert_eq!(price(&mut hand, &["gpu"], None), Some(40));
    assert_eq!(price(&mut hand, &["eu", "gpu"], None), Some(90));
    hand.execute(taints(1, &[])).expect("known");
    assert_eq!(price(&mut hand, &["eu", "gpu"], None), None);
}

#[test]
fn s3_4_names_choose_classes_and_unknown_ones_are_counted() {
    let spec = ProfileSpec::new(
        "plain",
        vec![Bucket::new(0, "short"), Bucket::new(3_072, "long")],
        vec![
            ClassPolicy::matrix("plain-short", "plain", 0, 10),
            ClassPolicy::matrix("plain-long", "plain", 1, 10),
            ClassPolicy::matrix("gold-short", "gold", 0, 10),
            ClassPolicy::matrix("gold-long", "gold", 1, 10),
            ClassPolicy::explicit("batch", 10),
        ],
    );
    let profile = Profile::build(spec).expect("every rule is kept");
    let mut hand = Hand::with_workers(profile, [1], |builder| builder);
    let asked = [
        (Some("gold"), 3_071, "gold-short"),
        (Some("gold"), 3_072, "gold-long"),
        (Some("batch"), 5_000, "batch"),
        (None, 1, "plain-short"),
        (Some(""), 1, "plain-short"),
        (Some("Gold"), 1, "plain-short"),
        (Some("gold-long"), 1, "plain-short"),
        (Some("nobody"), 9_999, "plain-long"),
    ];
    for (number, (family, tokens, _)) in (0..).zip(asked) {
        hand.submit(Request {
            family,
            ..Request::new(tokens, number)
        });
    }
    hand.settle();
    let state = hand.state();
    let mut got = hand.dispatches(0);
    got.sort_by_key(|dispatch| dispatch.payload);
    let name = |index| state.classes.iter().find(|class| class.index == index);
    let got: Vec<_> = got
        .iter()
        .map(|d| &*name(d.class).expect("known").name)
        .collect();
    assert_eq!(got, asked.map(|(.., class)| class));
    assert_eq!(hand.handles.stats().read().ingress[0].unknown_names, 3);
}

#[test]
fn s3_4_a_hundred_thousand_unknown_names_change_one_counter() {
    let mut hand = Hand::with_workers(open(), [1], |builder| builder);
    let series = hand.handles.stats().read().models[0].classes.len();
    for number in 0..100_000_u64 {
        let name = format!("name-{number}");
        hand.submit(of(&name, number));
        hand.turn();
        let dispatch = hand.dispatch(0);
        hand.egress[0].complete(dispatch.receipt());
    }
    hand.advance(1_000);
    hand.settle();
    let read = hand.handles.stats().read();
    assert_eq!(read.ingress[0].unknown_names, 100_000);
    assert_eq!(read.models[0].classes.len(), series.max(1));
    assert_eq!(
        read.models[0].classes[0].gauges.counters.dispatched,
        100_000
    );
}

#[test]
fn a_refused_request_leaves_no_trace() {
    let mut hand = Hand::with_workers(classes(&["a quantum: 1"]), [1], |builder| builder.ring(2));
    hand.submit(pinned(1, 0));
    hand.submit(pinned(1, 1));
    for _ in 0..100 {
        refused(&mut hand, of("unknown", 9));
    }
    hand.settle();
    assert_eq!(hand.dispatches(0).len(), 2);
    let read = hand.handles.stats().read();
    assert_eq!(
        (read.ingress[0].unknown_names, read.ingress[0].accepted),
        (0, 2)
    );
}
