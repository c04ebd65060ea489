//! Tests of all ends together.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use tollgate_arbiter::{Endpoint, EndpointIndex};

use super::board::ClassRow;
use super::*;

fn shape() -> Shape {
    Shape {
        models: vec!["first".into(), "second".into()],
        classes: 2,
        endpoints: 3,
        ingress_shards: 2,
        egress_shards: 2,
        ring: 64,
        dispatch_ring: 256,
    }
}

/// All ends, and a hand to move the clock with.
#[expect(
    clippy::type_complexity,
    reason = "what `create` answers, and the hand"
)]
fn created() -> (
    (CoreStats, Vec<IngressStats>, Vec<EgressStats>, Stats),
    Arc<AtomicU64>,
) {
    let hand = Arc::new(AtomicU64::new(0));
    let time = Arc::clone(&hand);
    (create(&shape(), move || Nanos(time.load(Relaxed))), hand)
}

fn row(waiting: u64, oldest: Nanos) -> ClassRow {
    ClassRow {
        gauges: ClassGauges {
            waiting,
            quantum: 7,
            ..ClassGauges::default()
        },
        oldest_submitted_at: oldest,
        share: Share {
            served_tokens: 30,
            entitled_tokens: 29,
        },
    }
}

#[test]
fn the_reading_end_goes_anywhere() {
    fn anywhere<T: Clone + Send + Sync + 'static>(_: &T) {}
    let ((_core, _ingress, _egress, stats), _hand) = created();
    anywhere(&stats);
    assert_eq!(
        format!("{stats:?}"),
        "Stats { models: 2, ingress: 2, egress: 2, .. }"
    );
}

#[test]
fn a_new_engine_has_counted_nothing() {
    let ((_core, _ingress, _egress, stats), _hand) = created();
    let read = stats.read();
    let names = read.models.iter().map(|model| &*model.name);
    assert!(names.eq(["first", "second"]));
    assert!(read.models.iter().all(|model| model.classes.is_empty()));
    assert!(read.models.iter().all(|model| model.endpoints.is_empty()));
    assert_eq!(
        (read.core.turns, read.core.selection.histogram.len()),
        (0, 0)
    );
    assert_eq!((read.ingress.len(), read.egress.len()), (2, 2));
    assert_eq!(read.ingress[1].ring_capacity, 64);
    assert_eq!(read.egress[1].ring_capacity, 256);
    assert_eq!((read.ingress[1].accepted, read.egress[1].delivered), (0, 0));
    assert_eq!(
        (read.egress[0].wait.min_ns, read.egress[0].wait.max_ns),
        (0, 0)
    );
}

#[test]
fn core_counters_are_read_where_they_belong() {
    let ((mut core, _ingress, _egress, stats), _hand) = created();
    let counters = core.counters();
    counters.turns.add(1);
    counters.busy_ns.add(2);
    counters.idle_ns.add(3);
    counters.parks.add(4);
    counters.dispatches.add(5);
    counters.intake.add(6);
    counters.stale.set(7);
    counters.ingress_ring_len[1].set(9);
    counters.egress[0].put.set(10);
    counters.egress[0].outbox_len.set(11);
    counters.egress[1].lost.bump();
    core.selection.record(300);
    let read = stats.read();
    let said = &read.core;
    assert_eq!(
        [said.turns, said.busy_ns, said.idle_ns, said.parks],
        [1, 2, 3, 4]
    );
    assert_eq!([said.dispatches, said.intake, said.stale], [5, 6, 7]);
    assert_eq!((said.selection.min_ns, said.selection.max_ns), (300, 300));
    assert_eq!([0, 1].map(|shard| read.ingress[shard].ring_len), [0, 9]);
    assert_eq!([0, 1].map(|shard| read.egress[shard].ring_len), [10, 0]);
    assert_eq!([0, 1].map(|shard| read.egress[shard].outbox_len), [11, 0]);
    assert_eq!([0, 1].map(|shard| read.egress[shard].lost), [0, 1]);
}

#[test]
fn the_length_of_an_egress_ring_is_that_of_the_moment_of_reading() {
    let ((mut core, _ingress, mut egress, stats), _hand) = created();
    core.counters().egress[0].put.set(4);
    let length = || stats.read().egress[0].ring_len;
    assert_eq!(length(), 4);
    // The core sleeps meanwhile and publishes nothing.
    egress[0].dispatched(Nanos(1), Nanos(2), Nanos(3));
    egress[0].ended();
    egress[0].returned();
    assert_eq!(length(), 1);
    egress[0].ended();
    assert_eq!(length(), 0);
    // What the core left beside the ring when it closed was never in it.
    egress[0].ended();
    assert_eq!(length(), 0);
}

#[test]
fn shard_counters_are_read_where_they_belong() {
    let ((_core, mut ingress, mut egress, stats), _hand) = created();
    let shard = &mut ingress[1];
    shard.accepted(32);
    shard.accepted(1);
    shard.refused_full();
    (0..2).for_each(|_| shard.refused_closed());
    (0..3).for_each(|_| shard.refused_invalid());
    (0..4).for_each(|_| shard.cancelled_by_mail());
    (0..5).for_each(|_| shard.unknown_name());
    let shard = &mut egress[0];
    shard.dispatched(Nanos(1_000), Nanos(1_100), Nanos(1_130));
    (0..2).for_each(|_| shard.ended());
    (0..3).for_each(|_| shard.returned());
    (0..4).for_each(|_| shard.released_by_mail());
    let read = stats.read();
    assert_eq!(
        read.ingress[1],
        IngressSnapshot {
            accepted: 33,
            refused_full: 1,
            refused_closed: 2,
            refused_invalid: 3,
            cancels_by_mail: 4,
            unknown_names: 5,
            ring_len: 0,
            ring_capacity: 64,
        }
    );
    let said = &read.egress[0];
    assert_eq!((said.delivered, said.outcomes), (1, 2));
    assert_eq!((said.returned, said.releases_by_mail), (3, 4));
    assert_eq!((said.wait.min_ns, said.wait.max_ns), (100, 100));
    assert_eq!((said.ring.min_ns, said.ring.max_ns), (30, 30));
    assert_eq!((read.ingress[0].accepted, read.egress[1].delivered), (0, 0));
}

#[test]
fn clocks_that_disagree_measure_nothing_below_zero() {
    let ((_core, _ingress, mut egress, stats), _hand) = created();
    egress[0].dispatched(Nanos(50), Nanos(40), Nanos(30));
    let read = stats.read();
    assert_eq!(read.egress[0].wait.histogram.max(), 0);
    assert_eq!(read.egress[0].ring.histogram.max(), 0);
}

#[test]
fn classes_and_endpoints_are_shown_under_their_model() {
    let ((mut core, _ingress, _egress, stats), hand) = created();
    let gauges = EndpointGauges {
        endpoint: Endpoint::new(12, 3),
        prefill_tokens: 4,
        active: 1,
        dispatched: 2,
        charged_tokens: 9,
        available: true,
        overloaded: false,
        shut: false,
    };
    core.publish_class(0, ClassIndex(1), Some(&row(2, Nanos(400))));
    core.publish_endpoint(1, EndpointIndex(2), Some(&gauges));
    stats.set_names(0, [(ClassIndex(1), "gold")]);
    hand.store(1_000, Relaxed);
    let read = stats.read();
    let class = &read.models[0].classes[0];
    assert_eq!((class.index, &*class.name), (ClassIndex(1), "gold"));
    assert_eq!((class.gauges.waiting, class.gauges.quantum), (2, 7));
    assert_eq!(class.oldest_wait_ns, 600);
    assert_eq!(class.share.entitled_tokens, 29);
    assert!(read.models[0].endpoints.is_empty() && read.models[1].classes.is_empty());
    let shown = EndpointSnapshot {
        index: EndpointIndex(2),
        gauges,
    };
    assert_eq!(read.models[1].endpoints, [shown]);
}

/// The wait of a request grows while the core sleeps and publishes nothing.
#[test]
fn the_oldest_wait_is_that_of_the_reading() {
    let ((mut core, _ingress, _egress, stats), hand) = created();
    let waits = || stats.read().models[0].classes[0].oldest_wait_ns;
    core.publish_class(0, ClassIndex(0), Some(&row(1, Nanos(100))));
    hand.store(350, Relaxed);
    assert_eq!(waits(), 250);
    hand.store(30_000_000_000, Relaxed);
    assert_eq!(waits(), 29_999_999_900);
    // None was found yet; and none waits.
    core.publish_class(0, ClassIndex(0), Some(&row(1, Nanos::MAX)));
    assert_eq!(waits(), 0);
    core.publish_class(0, ClassIndex(0), Some(&row(0, Nanos(100))));
    assert_eq!(waits(), 0);
}

/// Seven of eight shards are idle or gone: what they counted is in every report.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the writers are other threads than the reader"
)]
fn a_report_waits_for_nobody_and_has_every_sample() {
    const EACH: u64 = 100_000;
    let shape = Shape {
        egress_shards: 8,
        ..shape()
    };
    let (_core, _ingress, mut shards, stats) = create(&shape, || Nanos(0));
    let mut busy = shards.pop().expect("eight shards");
    for (shard, count) in shards.iter_mut().zip(1..) {
        (0..count).for_each(|_| shard.dispatched(Nanos(0), Nanos(500), Nanos(700)));
    }
    // Half of them are gone, with what they had counted.
    shards.truncate(3);
    let writer = thread::spawn(move || {
        for time in 0..EACH {
            busy.dispatched(Nanos(0), Nanos(time), Nanos(2 * time));
        }
    });
    let mut last = 0;
    while !writer.is_finished() {
        let read = stats.read();
        for (shard, count) in read.egress[..7].iter().zip(1..) {
            assert_eq!(shard.wait.histogram.len(), count);
            assert_eq!(shard.wait.sum_ns >> 10, u128::from(500 * count) >> 10);
        }
        let count = read.egress[7].wait.histogram.len();
        assert!((last..=EACH).contains(&count), "{count} after {last}");
        last = count;
    }
    writer.join().expect("the writer only counts");
    for _ in 0..2 {
        let read = stats.read();
        assert_eq!(read.egress[7].delivered, EACH);
        assert_eq!(read.egress[7].wait.histogram.len(), EACH);
        assert_eq!(read.egress[7].ring.histogram.len(), EACH);
        assert_eq!(read.egress[7].ring.max_ns, EACH - 1);
    }
}
