//! What does a request cost from the doorway to its end?
//!
//! Eight classes. Three groups:
//!
//! - `pinned`: (classes, lanes, waiting) of (8, 256, 16 Ki), (8, 1,024, 64 Ki), (8, 1,024, 1 Mi),
//!   in arrival order and with random WSPT keys: submit, select, book, report, complete;
//! - `shared`: 64, 512 and 4,096 endpoints, 16 Ki waiting: doorway (S2, S3.4), submit, select,
//!   choose, book, prefill done, complete; two requests are outstanding on each endpoint;
//! - `shared_hinted`: the same with three hints a request and `decode_weight` 1, which rules the
//!   choice by the load tree alone out (S10.3).

use std::collections::VecDeque;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use tollgate_arbiter::{Hint, Request, Ticket};
use tollgate_benches::sized;
use tollgate_harness::{Driver, Lane, Served, Setup, Stream};
use tollgate_policy::OrderPolicy;

const CLASSES: u16 = 8;
const TOKENS_MAX: u32 = 8_192;
const HINTS: usize = 3;

fn quanta() -> Vec<u64> {
    (1..=u64::from(CLASSES))
        .map(|share| share * 1_024)
        .collect()
}

fn class_of(number: u32) -> u16 {
    u16::try_from(number % u32::from(CLASSES)).expect("below the number of classes")
}

fn pinned(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("arbiter_end_to_end/pinned");
    for (full_lanes, full_waiting) in [(256, 1 << 14), (1_024, 1 << 16), (1_024, 1 << 20)] {
        let (lanes, waiting) = (sized(full_lanes), sized(full_waiting));
        for (name, order) in [("fcfs", OrderPolicy::Fcfs), ("wspt", OrderPolicy::Wspt)] {
            let setup = Setup {
                quanta: quanta(),
                order,
                workers: lanes,
                slots: waiting + 1,
                ..Setup::default()
            };
            let mut driver = Driver::new(&setup);
            let mut stream = Stream::new(TOKENS_MAX, 0, 0);
            let mut submit = |driver: &mut Driver| {
                let draw = stream.draw();
                let lane = Lane::Exact(draw.number / u32::from(CLASSES) % lanes);
                driver.submit(class_of(draw.number), draw, lane, 0);
            };
            (0..waiting).for_each(|_| submit(&mut driver));
            let id = BenchmarkId::new(name, format!("{CLASSES}x{full_lanes}x{full_waiting}"));
            group.bench_function(id, |bencher| {
                bencher.iter(|| {
                    submit(&mut driver);
                    let served = driver.select().expect("nothing blocks");
                    driver.complete(served);
                });
            });
        }
    }
    group.finish();
}

/// A router's steady state: a standing backlog, and every endpoint with work in hand.
struct Router {
    driver: Driver,
    stream: Stream,
    families: Vec<String>,
    endpoints: u32,
    hinted: bool,
    outstanding: VecDeque<Served>,
}

impl Router {
    fn new(endpoints: u32, waiting: u32, hinted: bool) -> Self {
        let outstanding = 2 * endpoints;
        let setup = Setup {
            quanta: quanta(),
            workers: endpoints,
            slots: waiting + outstanding + 1,
            // A header, and a block for up to four hints.
            extension_blocks: if hinted {
                2 * (waiting + outstanding + 1)
            } else {
                0
            },
            decode_weight: u64::from(hinted),
            ..Setup::default()
        };
        let mut router = Self {
            driver: Driver::new(&setup),
            stream: Stream::new(TOKENS_MAX, 0, 0),
            families: (0..CLASSES).map(|class| format!("class{class}")).collect(),
            endpoints,
            hinted,
            outstanding: VecDeque::with_capacity(outstanding as usize + 1),
        };
        for _ in 0..waiting + outstanding {
            router.submit();
        }
        for _ in 0..outstanding {
            router.dispatch();
        }
        router
    }

    fn submit(&mut self) -> Ticket {
        let draw = self.stream.draw();
        let first = draw.number % self.endpoints;
        let hints: [Hint; HINTS] = [0, 1, 2].map(|place| Hint {
            endpoint: self.driver.endpoint((first + place * 17) % self.endpoints),
            cached: draw.tokens / (place + 2),
        });
        let request = Request {
            hints: if self.hinted { &hints } else { &[] },
            ..Request::new(draw.tokens, self.driver.arrive())
        };
        let family = &self.families[usize::from(class_of(draw.number))];
        let snapshot = self.driver.arbiter().cost_snapshot(&request);
        let (class, _) = self
            .driver
            .arbiter()
            .resolve(Some(family), snapshot.uncached());
        self.driver.submit_request(class.0, snapshot, &request, 0)
    }

    fn dispatch(&mut self) {
        let served = self.driver.select().expect("nothing blocks");
        self.outstanding.push_back(served);
    }

    fn step(&mut self) {
        self.submit();
        self.dispatch();
        let oldest = self.outstanding.pop_front().expect("two for each endpoint");
        self.driver
            .arbiter()
            .prefill_done(oldest.ticket, oldest.attempt)
            .expect("its prefill was not done before");
        self.driver.complete(oldest);
    }
}

fn shared(criterion: &mut Criterion) {
    for (name, hinted) in [("shared", false), ("shared_hinted", true)] {
        let mut group = criterion.benchmark_group(format!("arbiter_end_to_end/{name}"));
        for full in [64, 512, 4_096] {
            let mut router = Router::new(sized(full), sized(1 << 14), hinted);
            group.bench_function(BenchmarkId::new("endpoints", full), |bencher| {
                bencher.iter(|| router.step());
            });
        }
        group.finish();
    }
}

criterion_group!(benches, pinned, shared);
criterion_main!(benches);
