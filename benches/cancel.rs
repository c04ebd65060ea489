//! What does it cost to take a waiting request back?
//!
//! One class, 1,024 exact lanes, 1 Ki to 1 Mi requests waiting with random WSPT keys, victims all
//! over the lanes. Each batch cancels a sixteenth of them; what was cancelled is submitted again
//! outside the measured time.

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use tollgate_arbiter::Ticket;
use tollgate_benches::{Driver, Lane, Setup, Stream, sized};
use tollgate_policy::OrderPolicy;

const LANES: u32 = 1_024;
const TOKENS_MAX: u32 = 8_192;

struct Backlog {
    driver: Driver,
    stream: Stream,
    lanes: u32,
    waiting: Vec<Ticket>,
    victims: Vec<usize>,
}

impl Backlog {
    fn new(waiting: u32) -> Self {
        let lanes = sized(LANES).min(waiting);
        let setup = Setup {
            order: OrderPolicy::Wspt,
            workers: lanes,
            slots: waiting,
            ..Setup::default()
        };
        let mut backlog = Self {
            driver: Driver::new(&setup),
            stream: Stream::new(TOKENS_MAX, 0, 0),
            lanes,
            waiting: Vec::new(),
            victims: Vec::new(),
        };
        for _ in 0..waiting {
            let ticket = backlog.submit();
            backlog.waiting.push(ticket);
        }
        backlog
    }

    fn submit(&mut self) -> Ticket {
        let draw = self.stream.draw();
        self.driver
            .submit(0, draw, Lane::Exact(draw.number % self.lanes), 0)
    }

    /// Cancels a batch: how many, and how long it took.
    fn cancel_batch(&mut self) -> (u64, Duration) {
        let len = self.waiting.len();
        self.victims.clear();
        // A stride near the golden section spreads the victims; it shares no factor with the
        // powers of two used here, so that none is met twice.
        let start = self.stream.draw().number as usize;
        let stride = (len * 5 / 8) | 1;
        self.victims
            .extend((0..len.div_ceil(16)).map(|index| (start + index * stride) % len));

        let begin = Instant::now();
        for &victim in &self.victims {
            self.driver.cancel(self.waiting[victim]);
        }
        let elapsed = begin.elapsed();

        for index in 0..self.victims.len() {
            let ticket = self.submit();
            self.waiting[self.victims[index]] = ticket;
        }
        (self.victims.len() as u64, elapsed)
    }
}

fn cancels(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cancel");
    for full in [1 << 10, 1 << 16, 1 << 20] {
        let mut backlog = Backlog::new(sized(full));
        group.bench_function(BenchmarkId::new("waiting", full), |bencher| {
            bencher.iter_custom(|iterations| {
                let (mut cancelled, mut elapsed) = (0, Duration::ZERO);
                while cancelled < iterations {
                    let (count, took) = backlog.cancel_batch();
                    cancelled += count;
                    elapsed += took;
                }
                // Whole batches are measured; the time of those asked for is their share.
                elapsed.mul_f64(share(iterations, cancelled))
            });
        });
    }
    group.finish();
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a share loses nothing that matters by rounding"
)]
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

criterion_group!(benches, cancels);
criterion_main!(benches);
