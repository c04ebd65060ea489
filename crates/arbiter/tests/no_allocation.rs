//! S12: nothing is allocated after build. This binary counts every allocation of the process, so
//! it holds one test alone.

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use tollgate_arbiter::{
    Arbiter, Capacities, Endpoint, Event, Hint, Nanos, Options, Request, SlotPool, Ticket,
    TurnBudget, WorkerId, WorkerRecord,
};
use tollgate_policy::PolicyFile;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const OPERATIONS: u64 = 1_000_000;
const LANE_LEN_MAX: u32 = 1 << 16;
const POLICY: &[u8] = b"
default_policy_family: f
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
- {name: f, policy_family: f, cache_bucket: all, quantum: 4096, prefill_busy_threshold: 3000}
- {name: w, policy_family: w, cache_bucket: all, quantum: 512, queue_policy: wspt, prefill_busy_threshold: 2000, request_queue_limit_per_worker: 40}
- {name: e, policy_family: e, cache_bucket: all, quantum: 100, queue_policy: edf, queue_timeout_ms: 1, busy_worker_ratio: 0.5, prefill_busy_threshold: 9}
- {name: l, quantum: 10, queue_policy: lcfs}
";

/// `SplitMix64`.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }

    fn small(&mut self, bound: u32) -> u32 {
        u32::try_from(self.below(u64::from(bound))).expect("below a u32")
    }

    fn endpoint(&mut self) -> Endpoint {
        Endpoint::new(self.below(9), self.small(2))
    }
}

struct Run {
    arbiter: Arbiter<u64>,
    slots: SlotPool,
    /// By slot: the ticket and the attempt while it is dispatched.
    running: Vec<Option<(Ticket, u8)>>,
    waiting: Vec<Option<Ticket>>,
    now: u64,
}

/// What an event does to the books; allocates nothing.
fn book(
    event: &Event<u64>,
    running: &mut [Option<(Ticket, u8)>],
    waiting: &mut [Option<Ticket>],
    slots: &mut SlotPool,
) {
    match event {
        Event::Queued { ticket, .. } | Event::Requeued { ticket, .. } => {
            running[ticket.slot.0 as usize] = None;
            waiting[ticket.slot.0 as usize] = Some(*ticket);
        }
        Event::Dispatched(dispatch) => {
            let slot = dispatch.ticket.slot.0 as usize;
            waiting[slot] = None;
            running[slot] = Some((dispatch.ticket, dispatch.attempt));
        }
        Event::Ended { ticket, .. } => {
            running[ticket.slot.0 as usize] = None;
            waiting[ticket.slot.0 as usize] = None;
            slots.put(*ticket);
        }
    }
}

impl Run {
    fn new() -> Self {
        let file = PolicyFile::parse("test.yaml", POLICY).expect("valid");
        let capacities = Capacities {
            slots: LANE_LEN_MAX + 16,
            classes: 8,
            workers: 16,
            endpoints: 64,
            extension_blocks: 4_096,
            attempts: 3,
            egress_groups: 3,
        };
        let arbiter = Arbiter::build(file.profile(None), capacities, Options::default());
        let slots = capacities.slots as usize;
        Self {
            arbiter: arbiter.expect("it fits"),
            slots: SlotPool::new(capacities.slots),
            running: vec![None; slots],
            waiting: vec![None; slots],
            now: 0,
        }
    }

    /// Calls the arbiter with a sink that keeps the books.
    fn call<R>(
        &mut self,
        call: impl FnOnce(&mut Arbiter<u64>, &mut dyn FnMut(Event<u64>)) -> R,
    ) -> R {
        let Self {
            arbiter,
            slots,
            running,
            waiting,
            ..
        } = self;
        call(arbiter, &mut |event| book(&event, running, waiting, slots))
    }

    fn submit(&mut self, family: &str, request: &Request<'_>) {
        let Some(ticket) = self.slots.take() else {
            return;
        };
        let refused = self.call(|arbiter, mut sink| {
            arbiter
                .submit(ticket, Some(family), request, 7, &mut sink)
                .is_err()
        });
        if refused {
            self.slots.put(ticket);
        }
    }

    fn submit_random(&mut self, draw: &mut Draw) {
        let hints: [Hint; 16] = std::array::from_fn(|_| Hint {
            endpoint: draw.endpoint(),
            cached: draw.small(300),
        });
        let allow: [WorkerId; 9] = std::array::from_fn(|_| WorkerId(draw.below(10)));
        let hint_count = usize::try_from(draw.below(17)).expect("small");
        let allow_count = usize::try_from(draw.below(10)).expect("small");
        let request = Request {
            cached_tokens: draw.small(200),
            hints: if draw.below(3) == 0 {
                &hints[..hint_count]
            } else {
                &[]
            },
            strict_priority: draw.small(2),
            priority_jump: if draw.below(4) == 0 { 0.5 } else { 0.0 },
            pin: (draw.below(3) == 0).then(|| draw.endpoint()),
            allow: (draw.below(4) == 0).then_some(&allow[..allow_count]),
            require_taints: if draw.below(4) == 0 { &["gpu"] } else { &[] },
            deadline: (draw.below(3) == 0).then(|| Nanos(self.now + draw.below(9_000))),
            may_wait: draw.below(5) != 0,
            ..Request::new(draw.small(900), Nanos(self.now))
        };
        let family =
            ["f", "w", "e", "l", "unknown"][usize::try_from(draw.below(5)).expect("small")];
        self.submit(family, &request);
    }

    fn feedback(&mut self, draw: &mut Draw) {
        let slot = usize::try_from(draw.below(400)).expect("small");
        if let Some((ticket, attempt)) = self.running[slot] {
            match draw.below(4) {
                0 => _ = self.arbiter.prefill_done(ticket, attempt),
                1 => {
                    self.call(|arbiter, mut sink| arbiter.requeue(ticket, attempt, 7, &mut sink))
                        .expect("it runs");
                }
                _ => {
                    self.arbiter.complete(ticket, attempt).expect("it runs");
                    self.running[slot] = None;
                    self.slots.put(ticket);
                }
            }
        } else if let Some(ticket) = self.waiting[slot] {
            self.call(|arbiter, mut sink| arbiter.cancel(ticket, &mut sink))
                .expect("it waits");
        }
    }

    fn worker(&mut self, draw: &mut Draw) {
        let endpoint = draw.endpoint();
        match draw.below(11) {
            0..=2 => {
                let record = WorkerRecord {
                    id: endpoint.worker,
                    ranks: 1 + draw.small(3),
                    max_batched_tokens: Some(draw.below(9_000)),
                    overloaded: draw.below(5) == 0,
                    available: draw.below(6) != 0,
                    ..WorkerRecord::new(0)
                };
                let _ = self.arbiter.upsert_worker(&record);
            }
            3 => _ = self.arbiter.remove_worker(endpoint.worker),
            4 => {
                _ = self
                    .arbiter
                    .set_overloaded(endpoint.worker, draw.below(2) == 0);
            }
            5 => _ = self.arbiter.shut(endpoint),
            6 => _ = self.arbiter.open(endpoint),
            7 => {
                let group = self.arbiter.capacities().egress_group(endpoint.worker);
                self.arbiter.set_egress_room(group, draw.small(60));
            }
            _ => _ = self.arbiter.load(endpoint, draw.below(4_000)),
        }
    }

    fn step(&mut self, draw: &mut Draw) {
        match draw.below(20) {
            0..=7 => self.submit_random(draw),
            8..=13 => self.feedback(draw),
            14..=15 => self.worker(draw),
            16 => {
                self.now += draw.below(3_000);
                let now = Nanos(self.now);
                self.call(|arbiter, mut sink| arbiter.advance(now, &mut sink));
            }
            17 => {
                let budget = TurnBudget {
                    dispatches: draw.below(9),
                    removals: draw.below(9),
                };
                self.call(|arbiter, mut sink| arbiter.turn(budget, &mut sink));
            }
            _ => {
                let max = Some(draw.below(9));
                self.call(|arbiter, mut sink| arbiter.arbitrate(max, &mut sink));
            }
        }
    }

    /// One lane grows from one entry to the maximum, in an order of keys that is hardest on it, and
    /// drains again.
    fn grow_and_drain(&mut self, family: &str, pin: Option<Endpoint>) {
        for at in 0..LANE_LEN_MAX {
            let request = Request {
                strict_priority: at.wrapping_mul(0x9E37_79B1) >> 20,
                pin,
                ..Request::new(1 + at % 700, Nanos(self.now))
            };
            self.submit(family, &request);
        }
        assert_eq!(self.arbiter.waiting(), u64::from(LANE_LEN_MAX));
        for slot in (0..self.waiting.len()).step_by(3) {
            if let Some(ticket) = self.waiting[slot] {
                self.call(|arbiter, mut sink| arbiter.cancel(ticket, &mut sink))
                    .expect("it waits");
            }
        }
        self.arbiter.open(Endpoint::new(0, 0)).expect("known");
        self.call(|arbiter, mut sink| arbiter.arbitrate(None, &mut sink));
        self.complete_all();
    }

    fn complete_all(&mut self) {
        for slot in 0..self.running.len() {
            if let Some((ticket, attempt)) = self.running[slot].take() {
                self.arbiter.complete(ticket, attempt).expect("it runs");
                self.slots.put(ticket);
            }
        }
    }
}

fn s12_nothing_is_allocated_after_build() {
    let mut run = Run::new();
    let mut draw = Draw(11);
    // The name of a taint is allocated when a worker brings it; so it comes before the count.
    let tainted = WorkerRecord {
        taints: &["gpu"],
        ..WorkerRecord::new(8)
    };
    run.arbiter.upsert_worker(&tainted).expect("room");
    let region = Region::new(ALLOCATOR);

    for _ in 0..OPERATIONS {
        run.step(&mut draw);
    }
    let mixed = region.change();

    for group in 0..3 {
        run.arbiter.set_egress_room(group, u32::MAX);
    }
    run.call(|arbiter, mut sink| arbiter.arbitrate(None, &mut sink));
    for id in 0..16 {
        let _ = run.arbiter.remove_worker(WorkerId(id));
    }
    let now = Nanos(run.now);
    run.call(|arbiter, mut sink| arbiter.advance(now, &mut sink));
    run.complete_all();
    assert_eq!((run.arbiter.waiting(), run.arbiter.outstanding()), (0, 0));

    for (family, pin) in [("l", None), ("l", Some(Endpoint::new(0, 0))), ("f", None)] {
        run.arbiter
            .upsert_worker(&WorkerRecord::new(0))
            .expect("room");
        run.arbiter.shut(Endpoint::new(0, 0)).expect("known");
        run.grow_and_drain(family, pin);
        while run.arbiter.waiting() > 0 {
            run.call(|arbiter, mut sink| arbiter.arbitrate(None, &mut sink));
            run.complete_all();
        }
    }
    run.call(|arbiter, mut sink| arbiter.stop(Nanos(0), &mut sink));
    let grown = region.change();

    assert_eq!(
        (mixed.allocations, mixed.reallocations),
        (0, 0),
        "over a million operations"
    );
    assert_eq!(
        (grown.allocations, grown.reallocations),
        (0, 0),
        "over growing lanes"
    );
    assert_eq!(grown.deallocations, 0);
    run.arbiter.check_invariants();
    let dispatched: u64 = run
        .arbiter
        .state()
        .classes
        .iter()
        .map(|c| c.counters.dispatched)
        .sum();
    assert!(dispatched > 200_000, "{dispatched} dispatches");
}

fn main() {
    s12_nothing_is_allocated_after_build();
}
