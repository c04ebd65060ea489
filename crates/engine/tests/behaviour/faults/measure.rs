//! What the statistics say of a whole engine, and the one rule that oracle and engine share.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tollgate::policy::Profile;
use tollgate::stats::{EgressSnapshot, Snapshot};
use tollgate::{Clock, Delivery, Endpoint, Engine, ModelIndex, Nanos, Request, Worker, WorkerId};
use tollgate_sim::oracle::Oracle;
use tollgate_sim::protocol::{self, Event, Machine, Op, Submission, WorkerRecord};

use super::{by_hand, dispatch, must_recv, small, turn};
use crate::common::draw::Draw;
use crate::common::{classes, classes_and, wait_until};

/// Every level back at zero, and as many ends as beginnings.
fn assert_settled(read: &Snapshot) {
    for class in &read.models[0].classes {
        let gauges = class.gauges;
        let levels = [
            gauges.waiting,
            gauges.raw_isl_tokens,
            gauges.cached_tokens,
            gauges.outstanding,
        ];
        assert_eq!(levels, [0; 4], "{}", class.name);
        assert_eq!(class.oldest_wait_ns, 0, "{}", class.name);
    }
    for endpoint in &read.models[0].endpoints {
        let gauges = endpoint.gauges;
        assert_eq!((gauges.prefill_tokens, gauges.active), (0, 0));
    }
    let accepted: u64 = read.ingress.iter().map(|shard| shard.accepted).sum();
    let ends = |shard: &EgressSnapshot| shard.delivered + shard.outcomes + shard.returned;
    assert_eq!(accepted, read.egress.iter().map(ends).sum::<u64>());
    let waits: u64 = read
        .egress
        .iter()
        .map(|shard| shard.wait.histogram.len())
        .sum();
    assert_eq!(
        waits,
        read.egress.iter().map(|shard| shard.delivered).sum::<u64>()
    );
    assert_eq!(waits, read.core.dispatches);
    let depths = read.ingress.iter().map(|shard| shard.ring_len);
    let depths = depths.chain(
        read.egress
            .iter()
            .map(|shard| shard.ring_len + shard.outbox_len),
    );
    assert_eq!(depths.sum::<u64>(), 0);
}

/// Dispatches, cancels, expiries and requests that nobody may run: in the end nothing is counted as
/// there any more.
#[test]
fn levels_return_to_zero_and_ends_are_as_many_as_beginnings() {
    let profile = classes(&[
        "a quantum: 100, prefill_busy_threshold: 50",
        "b quantum: 50, queue_policy: edf, prefill_busy_threshold: 50",
    ]);
    let builder = Engine::builder(profile)
        .ingress_shards(2)
        .egress_shards(2)
        .slots(1_024);
    let builder = (0..3).fold(builder, |builder, id| builder.worker(Worker::new(id)));
    let (mut built, hand) = by_hand::<u64>(builder);
    let mut draw = Draw(11);
    let mut running = [Vec::new(), Vec::new()];
    for round in 0..3_000_u64 {
        if round < 2_000 {
            let now = built.handles.clock().now();
            let request = Request {
                family: Some(draw.pick(&["a", "b"])),
                deadline: draw
                    .chance(20)
                    .then(|| now.saturating_add(Nanos::from_micros(5))),
                pin: draw.chance(30).then(|| Endpoint::new(draw.below(4), 0)),
                ..Request::new(draw.small(60), round)
            };
            let shard = draw.place(2);
            let ticket = built.ingress[shard].try_submit(request);
            if draw.chance(10) {
                built.ingress[shard].cancel(ticket.expect("there is room"));
            }
        }
        turn(&mut built, &hand);
        for (egress, running) in built.egress.iter_mut().zip(&mut running) {
            while let Ok(Some(delivery)) = egress.try_recv() {
                if let Delivery::Dispatch(dispatch) = delivery {
                    running.push(dispatch.receipt());
                }
            }
            if let Some(receipt) = running.pop() {
                egress.complete(receipt);
            }
        }
    }
    // Idle turns, long enough after each other to publish all slices.
    for _ in 0..10 {
        hand.advance(Nanos::from_millis(2));
        turn(&mut built, &hand);
    }
    let read = built.handles.stats().read();
    assert_settled(&read);
    let of = |part: fn(&EgressSnapshot) -> u64| read.egress.iter().map(part).sum::<u64>();
    assert!(of(|shard| shard.delivered) > 500 && of(|shard| shard.outcomes) > 200);
}

/// Depths of rings that fill and empty while somebody looks.
#[test]
fn ring_depths_are_never_out_of_range() {
    const ITEMS: u64 = 20_000;
    let built = small()
        .ring(16)
        .dispatch_ring(8)
        .worker(Worker::new(1))
        .build::<u64>();
    let mut built = built.unwrap_or_else(|errors| panic!("{errors}"));
    let stats = built.engine.handles().stats();
    let (ingress, egress) = (&mut built.ingress[0], &mut built.egress[0]);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut looks = 0;
            while !over.load(Ordering::Acquire) {
                let read = stats.read();
                let depths = [&read.ingress[0]].map(|shard| (shard.ring_len, shard.ring_capacity));
                let egress = (read.egress[0].ring_len, read.egress[0].ring_capacity);
                for (depth, capacity) in depths.into_iter().chain([egress]) {
                    assert!(depth <= capacity, "{depth} of {capacity}");
                }
                looks += 1;
            }
            looks
        });
        scope.spawn(move || {
            for item in 0..ITEMS {
                let mut request = Request::new(1, item);
                while let Err(refused) = ingress.try_submit(request) {
                    request = refused.request;
                    thread::yield_now();
                }
            }
        });
        for _ in 0..ITEMS {
            let dispatch = dispatch(Some(must_recv(egress)));
            egress.complete(dispatch.receipt());
        }
        over.store(true, Ordering::Release);
        assert!(reader.join().expect("every depth is in range") > 10);
    });
}

/// Two classes that always wait, at three to one: what they are served is what they are entitled to.
#[test]
fn the_share_served_is_the_share_entitled() {
    let profile = classes(&[
        "gold quantum: 300, prefill_busy_threshold: 0",
        "silver quantum: 100, prefill_busy_threshold: 0",
    ]);
    let builder = Engine::builder(profile).slots(1_024).worker(Worker::new(1));
    let (mut built, hand) = by_hand::<u64>(builder);
    let submit = |built: &mut tollgate::ByHand<u64>, family| {
        let request = Request {
            family: Some(family),
            ..Request::new(20, 0)
        };
        built.ingress[0].try_submit(request).expect("there is room");
    };
    for _ in 0..100 {
        submit(&mut built, "gold");
        submit(&mut built, "silver");
    }
    for _ in 0..20_000 {
        hand.advance(Nanos::from_micros(100));
        turn(&mut built, &hand);
        let dispatch = dispatch(built.egress[0].try_recv().expect("open"));
        built.egress[0].complete(dispatch.receipt());
        let family = ["gold", "silver"][usize::from(dispatch.class.0 == 1)];
        submit(&mut built, family);
    }
    let read = built.handles.stats().read();
    let shares: Vec<_> = read.models[0]
        .classes
        .iter()
        .map(|class| class.share)
        .collect();
    for share in &shares {
        let (served, entitled) = (share.served_tokens, share.entitled_tokens);
        assert!(served.abs_diff(entitled) <= 600, "{served} of {entitled}");
    }
    assert!(
        shares[0].served_tokens.abs_diff(300_000) < 10_000,
        "{shares:?}"
    );
    assert!(
        shares[1].served_tokens.abs_diff(100_000) < 10_000,
        "{shares:?}"
    );
}

/// A report does not wait for shards that do nothing, and asking does not take samples away.
#[test]
fn a_report_beside_idle_shards_is_complete_and_repeats() {
    let builder = small()
        .slots(1_024)
        .ingress_shards(8)
        .egress_shards(8)
        .worker(Worker::new(0));
    let (mut built, hand) = by_hand::<u64>(builder);
    for payload in 0..50 {
        built.ingress[3]
            .try_submit(Request::new(1, payload))
            .expect("there is room");
    }
    turn(&mut built, &hand);
    for samples in 1..=50 {
        assert!(matches!(built.egress[0].try_recv(), Ok(Some(_))));
        for _ in 0..2 {
            let read = built.handles.stats().read();
            let counts = read.egress.iter().map(|shard| shard.wait.histogram.len());
            let expected = [samples, 0, 0, 0, 0, 0, 0, 0];
            assert!(counts.eq(expected), "after {samples}");
        }
    }
}

const FAMILIES: [&str; 4] = ["a", "b", "c", "d"];
const RANKS: u32 = 4;
const ROWS: u64 = 500;

/// One row of a trace.
struct Row {
    family: &'static str,
    raw: u32,
    cached: u32,
    tier: u32,
    rank: Option<u32>,
    deadline: Option<u64>,
}

impl Row {
    fn drawn(draw: &mut Draw, at_us: u64) -> Self {
        let raw = 1 + draw.small(3_000);
        Self {
            family: draw.pick(&FAMILIES),
            raw,
            cached: draw.small(raw),
            tier: draw.small(3),
            rank: draw.chance(40).then(|| draw.small(RANKS)),
            deadline: draw.chance(30).then(|| at_us + draw.below(2 * ROWS)),
        }
    }

    fn submission(&self, number: u64) -> Op {
        Op::Submit(Submission {
            family: Some(self.family.to_owned()),
            cached: self.cached,
            strict_priority: self.tier,
            pin: self.rank.map(|rank| protocol::Endpoint::new(1, rank)),
            deadline_us: self.deadline,
            ..Submission::new(&number.to_string(), self.raw)
        })
    }

    fn request(&self, number: u64) -> Request<'_, u64> {
        Request {
            family: Some(self.family),
            cached_tokens: self.cached,
            strict_priority: self.tier,
            pin: self.rank.map(|rank| Endpoint::new(1, rank)),
            deadline: self.deadline.map(Nanos::from_micros),
            ..Request::new(self.raw, number)
        }
    }
}

/// Who was dispatched to which rank, in order; and who expired, in any.
type Service = (Vec<(String, u32)>, BTreeSet<String>);

/// Traces of classes, tiers, pins and deadlines that wait for one held worker: when that is let go, the
/// engine on its threads and the oracle dispatch the same, in the same order, and end the rest alike.
#[test]
fn traces_through_the_threads_are_served_as_by_the_oracle() {
    let profile = classes_and(
        &[
            "a quantum: 900",
            "b quantum: 500, queue_policy: wspt",
            "c quantum: 200, queue_policy: edf",
            "d quantum: 100, queue_policy: lcfs",
        ],
        "overload_action: hold",
    );
    for seed in 0..20 {
        let mut draw = Draw(seed);
        let rows: Vec<Row> = (0..ROWS).map(|at| Row::drawn(&mut draw, at)).collect();
        let (dispatched, expired) = by_the_engine(&profile, &rows);
        assert!(expired.len() > 10 && dispatched.len() > 400);
        assert_eq!(
            (dispatched, expired),
            by_the_oracle(&profile, &rows),
            "seed {seed}"
        );
    }
}

fn by_the_oracle(profile: &Profile, rows: &[Row]) -> Service {
    let (mut oracle, mut events) = (Oracle::new(profile, 0), Vec::new());
    let worker = |overloaded| {
        Op::Worker(WorkerRecord {
            ranks: RANKS,
            overloaded,
            ..WorkerRecord::new(1)
        })
    };
    oracle.apply(&worker(true), &mut events);
    for (number, row) in (0..).zip(rows) {
        oracle.apply(&row.submission(number), &mut events);
        oracle.apply(&Op::Advance { us: 1 }, &mut events);
    }
    oracle.apply(&worker(false), &mut events);
    oracle.apply(&Op::Arbitrate { max: None }, &mut events);
    let mut service = Service::default();
    for event in events {
        match event {
            Event::Dispatched { id, worker, .. } => service.0.push((id, worker.rank)),
            Event::Expired { id, .. } => _ = service.1.insert(id),
            _ => {}
        }
    }
    service
}

fn by_the_engine(profile: &Profile, rows: &[Row]) -> Service {
    let (clock, hand) = Clock::manual();
    let builder = Engine::builder(profile.clone()).slots(1 << 10);
    let worker = Worker {
        ranks: RANKS,
        overloaded: true,
        ..Worker::new(1)
    };
    let builder = builder.dispatch_ring(1 << 10).worker(worker);
    let built = builder.clock(clock).build::<u64>();
    let mut built = built.unwrap_or_else(|errors| panic!("{errors}"));
    for (number, row) in (0..).zip(rows) {
        let mut request = row.request(number);
        while let Err(refused) = built.ingress[0].try_submit(request) {
            request = refused.request;
            thread::yield_now();
        }
        hand.advance(Nanos::from_micros(1));
    }
    let stats = built.engine.handles().stats();
    wait_until("the intake of all", || stats.read().core.intake == ROWS);
    let let_go = built
        .engine
        .control()
        .set_overloaded(ModelIndex(0), WorkerId(1), false);
    let_go.expect("it is known");
    let mut service = Service::default();
    for _ in rows {
        match must_recv(&mut built.egress[0]) {
            Delivery::Dispatch(dispatch) => {
                service
                    .0
                    .push((dispatch.payload.to_string(), dispatch.endpoint.rank));
            }
            other => _ = service.1.insert(other.into_payload().to_string()),
        }
    }
    service
}
