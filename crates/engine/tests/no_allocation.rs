//! After the engine is built, requests allocate nothing: a million of them with cancels, expiries,
//! requeues, hints, allow-lists and taints, through rings that overflow into the mail; then others while
//! a journal is captured, until its buffer is full and beyond. A program of its own, since it counts the allocations of the whole process.

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tollgate::policy::{Bucket, ClassPolicy, OrderPolicy, Profile, ProfileSpec};
use tollgate::{
    Clock, Command, Control, Core, Delivery, Done, EgressShard, Endpoint, Engine, Hint,
    IngressShard, ManualClock, ModelIndex, Nanos, Releases, Request, Ticket, Worker, WorkerId,
};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const REQUESTS: u64 = 1_000_000;
/// More requests than a journal of so many bytes has room for.
const CAPTURED: u64 = 200_000;
const JOURNAL_BYTES: usize = 1 << 23;
const WORKERS: u64 = 16;
const FAMILIES: [&str; 4] = ["a", "b", "c", "d"];

fn profile() -> Profile {
    use OrderPolicy::{Edf, Fcfs, Lcfs, Wspt};
    let classes = FAMILIES.iter().zip([Fcfs, Wspt, Lcfs, Edf]);
    let classes = classes.map(|(family, order)| ClassPolicy {
        order,
        prefill_busy_threshold: Some(1_000),
        request_queue_limit_per_worker: Some(200),
        ..ClassPolicy::matrix(family, family, 0, 700)
    });
    let buckets = vec![Bucket::new(0, "all")];
    Profile::build(ProfileSpec::new("a", buckets, classes.collect())).expect("it is valid")
}

/// An engine by hand, and what is on its way.
struct Run {
    core: Core<u64>,
    ingress: IngressShard<u64>,
    egress: EgressShard<u64>,
    releases: Releases,
    hand: ManualClock,
    now: Nanos,
    chance: u64,
    tickets: Vec<Ticket>,
    deliveries: Vec<Delivery<u64>>,
    ended: u64,
    requeued: u64,
}

impl Run {
    fn roll(&mut self, sides: u64) -> u64 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        self.chance % sides
    }

    /// Submits some requests of every form; how many were accepted.
    fn submit(&mut self) -> u64 {
        let mut accepted = 0;
        for id in 0..24 {
            let endpoint = Endpoint::new(self.roll(WORKERS), 0);
            let hints = [Hint {
                endpoint,
                cached: 40,
            }];
            let allow = [endpoint.worker, WorkerId(self.roll(WORKERS))];
            let family = FAMILIES[usize::try_from(self.roll(4)).expect("small")];
            let plain = Request {
                family: Some(family),
                ..Request::new(100 + u32::try_from(self.roll(400)).expect("small"), id)
            };
            let deadline = self.now.saturating_add(Nanos(self.roll(20_000)));
            let request = match self.roll(6) {
                0 => Request {
                    hints: &hints,
                    ..plain
                },
                1 => Request {
                    allow: Some(&allow),
                    require_taints: &["gpu"],
                    ..plain
                },
                2 => Request {
                    pin: Some(endpoint),
                    deadline: Some(deadline),
                    ..plain
                },
                3 => Request {
                    deadline: Some(deadline),
                    may_wait: false,
                    ..plain
                },
                4 => Request {
                    pin: Some(endpoint),
                    ..plain
                },
                _ => plain,
            };
            if let Ok(ticket) = self.ingress.try_submit(request) {
                accepted += 1;
                let keeps = self.tickets.len() < self.tickets.capacity();
                if keeps && id % 4 == 0 {
                    self.tickets.push(ticket);
                }
            }
        }
        accepted
    }

    /// Receives what there is and gives feedback of every kind.
    fn receive(&mut self) {
        let most = self.deliveries.capacity();
        self.egress
            .try_recv_batch(most, &mut self.deliveries)
            .expect("it runs");
        while let Some(delivery) = self.deliveries.pop() {
            let Delivery::Dispatch(dispatch) = delivery else {
                self.ended += 1;
                continue;
            };
            let receipt = dispatch.receipt();
            match self.roll(8) {
                0 if self.egress.requeue(dispatch).is_ok() => self.requeued += 1,
                0 | 1 => self.end(|run| run.releases.complete(receipt)),
                2 => self.end(|run| {
                    run.egress.prefill_done(receipt);
                    run.releases.prefill_done(receipt);
                    run.egress.complete(receipt);
                }),
                _ => self.end(|run| run.egress.complete(receipt)),
            }
        }
    }

    fn end(&mut self, release: impl FnOnce(&mut Self)) {
        release(self);
        self.ended += 1;
    }

    /// Goes on until so many requests were accepted, then until all have ended.
    fn work(&mut self, requests: u64) -> u64 {
        let mut accepted = 0;
        let before = self.ended;
        while accepted < requests || self.ended - before < accepted {
            if accepted < requests {
                accepted += self.submit();
            }
            self.now = self.now.saturating_add(Nanos(1_000));
            self.hand.set(self.now);
            while let Some(ticket) = self.tickets.pop() {
                if self.roll(2) == 0 {
                    self.ingress.cancel(ticket);
                } else {
                    self.releases.cancel(ticket);
                }
            }
            for _ in 0..3 {
                self.core.turn(self.now);
            }
            self.receive();
        }
        accepted
    }
}

fn s12_requests_allocate_nothing_after_the_build() {
    let (clock, hand) = Clock::manual();
    let mut builder = Engine::builder(profile())
        .slots(4_096)
        .ring(32)
        .dispatch_ring(32)
        .feedback_ring(8)
        .extension_ring(256)
        .clock(clock);
    for id in 0..WORKERS {
        builder = builder.worker(Worker::new(id).with_taints(["gpu"]));
    }
    let built = builder.build_by_hand::<u64>().expect("it is valid");
    let mut ingress = built.ingress;
    let mut egress = built.egress;
    let mut run = Run {
        core: built.core,
        ingress: ingress.pop().expect("one"),
        egress: egress.pop().expect("one"),
        releases: built.handles.releases(),
        hand,
        now: Nanos(0),
        chance: 88_172_645_463_325_252,
        tickets: Vec::with_capacity(16),
        deliveries: Vec::with_capacity(64),
        ended: 0,
        requeued: 0,
    };
    let region = Region::new(ALLOCATOR);
    let accepted = run.work(REQUESTS);
    let change = region.change();
    assert_eq!(
        (change.allocations, change.reallocations),
        (0, 0),
        "{change:?}"
    );
    assert!(accepted >= REQUESTS && run.requeued > 1_000);
    let stats = built.handles.stats().read();
    let counters = |of: fn(&tollgate::stats::ClassGauges) -> u64| {
        let classes = stats.models[0].classes.iter();
        classes.map(|class| of(&class.gauges)).sum::<u64>()
    };
    assert!(counters(|class| class.counters.cancelled) > 1_000);
    assert!(counters(|class| class.counters.expired) > 1_000);
    assert!(stats.core.letters > 1_000);
    captured_requests_allocate_nothing(&mut run, &built.handles.control());
}

fn captured_requests_allocate_nothing(run: &mut Run, control: &Control) {
    let model = ModelIndex(0);
    let start = Command::StartJournal {
        model,
        capacity_bytes: JOURNAL_BYTES,
    };
    run.core.execute(control, start).expect("it can begin");
    let region = Region::new(ALLOCATOR);
    run.work(CAPTURED);
    let change = region.change();
    assert_eq!(
        (
            change.allocations,
            change.reallocations,
            change.deallocations
        ),
        (0, 0, 0),
        "{change:?}"
    );
    let taken = run.core.execute(control, Command::TakeJournal { model });
    let Ok(Done::Journal(Some(journal))) = taken else {
        panic!("it was captured, not {taken:?}");
    };
    assert!(
        journal.is_full() && journal.bytes() > JOURNAL_BYTES / 2,
        "{journal:?}"
    );
}

fn main() {
    s12_requests_allocate_nothing_after_the_build();
}
