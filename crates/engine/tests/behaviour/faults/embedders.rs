//! Code of the embedder's that does what it should not: panics where it is called, hands over what is not
//! its own, asks for what cannot be.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tollgate::{
    Clock, Delivery, Idle, InvalidRequest, Nanos, Receipt, Refusal, Request, Worker, WorkerId,
};

use super::{by_hand, must_recv, now, small, turn};
use crate::common::ledger::Ledger;

/// Takes so many deliveries, then panics or leaves the rest.
struct Limited {
    room: usize,
    panics: bool,
    taken: Vec<u64>,
}

impl Extend<Delivery<u64>> for Limited {
    fn extend<I: IntoIterator<Item = Delivery<u64>>>(&mut self, deliveries: I) {
        for delivery in deliveries.into_iter().take(self.room) {
            self.taken.push(delivery.into_payload());
        }
        assert!(!self.panics, "no more");
    }
}

#[test]
fn a_receiver_that_panics_in_a_batch_is_served_on() {
    for panics in [true, false] {
        let built = small()
            .dispatch_ring(4)
            .slots(1_024)
            .ring(1_024)
            .idle(Idle::Park)
            .worker(Worker::new(1))
            .build::<u64>();
        let mut built = built.unwrap_or_else(|errors| panic!("{errors}"));
        for payload in 0..100 {
            let submitted = built.ingress[0].try_submit(Request::new(1, payload));
            submitted.expect("there is room");
        }
        let egress = &mut built.egress[0];
        let mut into = Limited {
            room: 3,
            panics,
            taken: Vec::new(),
        };
        while into.taken.len() < 3 {
            let before = into.taken.len();
            let batch = catch_unwind(AssertUnwindSafe(|| egress.recv_batch(100, &mut into)));
            match batch {
                Ok(count) => assert_eq!(count, Ok(into.taken.len() - before)),
                Err(_) => assert!(panics),
            }
        }
        for payload in into.taken.len() as u64..100 {
            assert_eq!(must_recv(egress).into_payload(), payload, "in order");
        }
    }
}

/// Handles of one engine in another, and of uses that are over: they change nothing, and are counted.
#[test]
fn releases_of_another_engine_displace_no_right_one() {
    let slots = |builder: tollgate::Builder| builder.slots(1).worker(Worker::new(1));
    let (mut built, hand) = by_hand::<u64>(slots(small()));
    let (mut other, other_hand) = by_hand::<u64>(slots(small()));
    let dispatch = |built: &mut tollgate::ByHand<u64>, hand| {
        built.ingress[0]
            .try_submit(Request::new(1, 0))
            .expect("there is room");
        turn(built, hand);
        super::dispatch(built.egress[0].try_recv().expect("open"))
    };
    let mut strangers = Vec::new();
    for _ in 0..5 {
        let stranger = dispatch(&mut other, &other_hand);
        other.egress[0].complete(stranger.receipt());
        turn(&mut other, &other_hand);
        strangers.push(stranger);
    }
    let releases = built.handles.releases();
    let mut over = None::<Receipt>;
    for round in 0..50 {
        let right = dispatch(&mut built, &hand).receipt();
        let wrong = |at: usize| {
            let stranger = strangers[at].receipt();
            releases.cancel(stranger.ticket);
            releases.prefill_done(stranger);
            releases.complete(stranger);
            over.iter().for_each(|&over| releases.complete(over));
        };
        wrong(round % 5);
        releases.complete(right);
        wrong((round + 1) % 5);
        turn(&mut built, &hand);
        over = Some(right);
    }
    hand.advance(Nanos::from_millis(2));
    turn(&mut built, &hand);
    let read = built.handles.stats().read();
    assert_eq!(read.models[0].classes[0].gauges.outstanding, 0);
    assert_eq!(read.core.stale, 50 * 6 + 49 * 2);
}

#[test]
fn a_timeout_is_of_real_time_whatever_the_engines_clock() {
    let (clock, _hand) = Clock::manual();
    let built = small().clock(clock).build::<u64>();
    let mut built = built.unwrap_or_else(|errors| panic!("{errors}"));
    let begun = now();
    let nothing = built.egress[0].recv_timeout(Duration::from_millis(50));
    assert!(matches!(nothing, Ok(None)));
    let took = begun.elapsed();
    assert!(
        took >= Duration::from_millis(50) && took < super::FOR_EVER,
        "{took:?}"
    );
}

#[test]
fn a_request_that_can_never_have_room_is_invalid() {
    let all: Vec<WorkerId> = (0..1_024).map(WorkerId).collect();
    let request = Request {
        allow: Some(&all),
        ..Request::new(1, 0_u64)
    };
    let mut answers = Vec::new();
    // Rounded up for each of the shards: 1, 50 and 200 blocks, where 129 are needed.
    for blocks in [3, 150, 600] {
        let builder = small().ingress_shards(3).extension_blocks(blocks);
        let (mut built, _hand) = by_hand(builder.worker(Worker::new(1)));
        answers.push(
            built.ingress[0]
                .try_submit(request)
                .map_err(|refused| refused.reason),
        );
    }
    let never = |available| {
        let found = 129;
        Refusal::Invalid(InvalidRequest::MoreBlocksThanThereAre { found, available })
    };
    assert_eq!(answers[0], Err(never(1)));
    assert_eq!(answers[1], Err(never(50)));
    assert!(answers[2].is_ok());
    let text = never(50).to_string();
    assert!(text.contains("need 129 blocks, more than the 50"), "{text}");
}

/// A payload whose destructor panics, among others that were not received.
#[derive(Debug)]
struct Touchy(crate::common::ledger::Entry);

impl Drop for Touchy {
    fn drop(&mut self) {
        assert!(self.0.id != 2, "do not touch");
    }
}

#[test]
fn a_destructor_that_panics_keeps_no_other_payload() {
    let ledger = Ledger::new(8);
    let (mut built, hand) = by_hand::<Touchy>(small().worker(Worker::new(1)));
    for id in 0..8 {
        let request = Request::new(1, Touchy(ledger.entry(id)));
        built.ingress[0].try_submit(request).expect("there is room");
    }
    turn(&mut built, &hand);
    let shard = built.egress.remove(0);
    let panic = catch_unwind(AssertUnwindSafe(|| drop(shard)));
    assert!(panic.is_err(), "it is told");
    ledger.assert_settled(8);
    assert!(
        (0..10).any(|_| turn(&mut built, &hand).closed),
        "no shard is left"
    );
}
