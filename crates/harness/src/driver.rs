//! An arbiter with its slots.

use tollgate_arbiter::{
    Arbiter, Capacities, ClassIndex, CostSnapshot, Endpoint, Event, Nanos, Options, Request,
    SlotPool, Ticket, WorkerRecord,
};
use tollgate_policy::{Bucket, ClassPolicy, OrderPolicy, OverloadAction, Profile, ProfileSpec};

use crate::Draw;

/// The load in tokens above which an endpoint is busy: more than a benchmark's bookings add up to,
/// so that only [`Driver::set_busy`] and worker events shut lanes.
const BUSY_THRESHOLD: u64 = 1 << 36;

/// Nanoseconds between two submissions.
const ARRIVAL_STEP: u64 = 1_000;

/// What a [`Driver`] is built for. Endpoints are the ranks of workers `0 .. workers`.
#[derive(Clone, Debug)]
pub struct Setup {
    /// A class for each, with this quantum in uncached tokens.
    pub quanta: Vec<u64>,
    /// How all classes order their lanes.
    pub order: OrderPolicy,
    /// Workers known from the start.
    pub workers: u32,
    /// Ranks of each worker.
    pub ranks: u32,
    /// Live requests at one time.
    pub slots: u32,
    /// Blocks for hints and allow-lists.
    pub extension_blocks: u32,
    /// Tokens that an active request adds to an endpoint's score (S10.1).
    pub decode_weight: u64,
    /// Whether an overloaded worker counts as busy, or its requests fail (S5.6).
    pub hold: bool,
}

impl Default for Setup {
    /// One class of quantum 1,024 in arrival order, one endpoint, 64 slots.
    fn default() -> Self {
        Self {
            quanta: vec![1_024],
            order: OrderPolicy::Fcfs,
            workers: 1,
            ranks: 1,
            slots: 64,
            extension_blocks: 0,
            decode_weight: 0,
            hold: false,
        }
    }
}

impl Setup {
    /// The validated policy: class `i` is the one class of family `class<i>`.
    ///
    /// # Panics
    /// If a quantum is 0 or there is no class.
    #[must_use]
    pub fn profile(&self, busy_threshold: u64) -> Profile {
        let classes = self
            .quanta
            .iter()
            .enumerate()
            .map(|(index, &quantum)| {
                let name = format!("class{index}");
                let mut class = ClassPolicy::matrix(&name, &name, 0, quantum);
                class.order = self.order;
                class.prefill_busy_threshold = Some(busy_threshold);
                class
            })
            .collect();
        let action = if self.hold {
            OverloadAction::Hold
        } else {
            OverloadAction::Fail
        };
        Profile::build(ProfileSpec::new(
            "class0",
            vec![Bucket::new(0, "all")],
            classes,
        ))
        .expect("a setup describes a valid policy")
        .with_decode_weight(self.decode_weight)
        .with_overload_action(action)
    }

    /// What the arbiter needs room for.
    ///
    /// # Panics
    /// If there are 2^32 classes or more.
    #[must_use]
    pub fn capacities(&self) -> Capacities {
        Capacities {
            slots: self.slots,
            classes: u32::try_from(self.quanta.len()).expect("a setup has few classes"),
            workers: self.workers,
            endpoints: self.workers * self.ranks,
            extension_blocks: self.extension_blocks,
            ..Capacities::default()
        }
    }
}

/// Which lane a request joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// The shared lane.
    Shared,
    /// The exact lane of this endpoint, counted over workers, then ranks.
    Exact(u32),
}

/// A request that was dispatched and is not complete.
#[derive(Clone, Copy, Debug)]
pub struct Served {
    /// Its handle.
    pub ticket: Ticket,
    /// Which attempt was dispatched.
    pub attempt: u8,
    /// Index of its class.
    pub class: u16,
    /// What was handed in with it.
    pub payload: u64,
}

/// An arbiter with the slots of its requests. Each submission arrives a microsecond after the
/// last; the arbiter's own time stands still.
pub struct Driver {
    arbiter: Arbiter<u64>,
    slots: SlotPool,
    ranks: u32,
    now: u64,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver")
            .field("waiting", &self.arbiter.waiting())
            .finish_non_exhaustive()
    }
}

impl Driver {
    /// An arbiter with all workers of the setup and nothing waiting.
    ///
    /// # Panics
    /// If the setup asks for more than an arbiter can hold.
    #[must_use]
    pub fn new(setup: &Setup) -> Self {
        let profile = setup.profile(BUSY_THRESHOLD);
        let mut arbiter = Arbiter::build(&profile, setup.capacities(), Options::default())
            .expect("a setup stays within what an arbiter can hold");
        for id in 0..setup.workers {
            let record = WorkerRecord {
                ranks: setup.ranks,
                ..WorkerRecord::new(u64::from(id))
            };
            arbiter
                .upsert_worker(&record)
                .expect("there is room for the setup's workers");
        }
        Self {
            arbiter,
            slots: SlotPool::new(setup.slots),
            ranks: setup.ranks,
            now: 0,
        }
    }

    /// The arbiter, for calls that the driver does not wrap.
    pub fn arbiter(&mut self) -> &mut Arbiter<u64> {
        &mut self.arbiter
    }

    /// The endpoint with this number, counted over workers, then ranks.
    #[must_use]
    pub fn endpoint(&self, index: u32) -> Endpoint {
        Endpoint::new(u64::from(index / self.ranks), index % self.ranks)
    }

    /// The arrival of the next request.
    pub fn arrive(&mut self) -> Nanos {
        self.now += ARRIVAL_STEP;
        Nanos(self.now)
    }

    /// Submits a request that nothing but its cost, jump and lane distinguishes.
    pub fn submit(&mut self, class: u16, draw: Draw, lane: Lane, payload: u64) -> Ticket {
        let arrival = self.arrive();
        let request = Request {
            priority_jump: draw.jump_seconds,
            pin: match lane {
                Lane::Shared => None,
                Lane::Exact(index) => Some(self.endpoint(index)),
            },
            deadline: draw
                .patience
                .map(|patience| Nanos(arrival.0 + patience.get())),
            ..Request::new(draw.tokens, arrival)
        };
        let snapshot = CostSnapshot {
            raw: draw.tokens,
            cached: 0,
        };
        self.submit_request(class, snapshot, &request, payload)
    }

    /// Submits a request whose doorway work (S2, S3.4) is done.
    ///
    /// # Panics
    /// If there is no slot, or the request is not queued: benchmarks set no limit and know their
    /// workers.
    pub fn submit_request(
        &mut self,
        class: u16,
        snapshot: CostSnapshot,
        request: &Request<'_>,
        payload: u64,
    ) -> Ticket {
        let ticket = self.slots.take().expect("the setup has slots enough");
        let mut queued = false;
        let outcome = self.arbiter.submit_at(
            ticket,
            ClassIndex(class),
            snapshot,
            request,
            payload,
            &mut |event: Event<u64>| queued = matches!(event, Event::Queued { .. }),
        );
        assert!(
            outcome.is_ok() && queued,
            "nothing refuses a benchmark's request"
        );
        ticket
    }

    /// One selection: what it dispatched, or `None` when it was dry.
    pub fn select(&mut self) -> Option<Served> {
        let mut served = None;
        self.arbiter.select(&mut |event: Event<u64>| {
            if let Event::Dispatched(dispatch) = event {
                served = Some(Served {
                    ticket: dispatch.ticket,
                    attempt: dispatch.attempt,
                    class: dispatch.class.0,
                    payload: dispatch.payload,
                });
            }
        });
        served
    }

    /// Ends a dispatched request; its slot is free again.
    ///
    /// # Panics
    /// If it was ended before.
    pub fn complete(&mut self, served: Served) {
        self.arbiter
            .complete(served.ticket, served.attempt)
            .expect("completed once");
        self.slots.put(served.ticket);
    }

    /// Cancels a waiting request; its slot is free again.
    ///
    /// # Panics
    /// If it does not wait.
    pub fn cancel(&mut self, ticket: Ticket) {
        self.arbiter
            .cancel(ticket, &mut |_: Event<u64>| ())
            .expect("it waits");
        self.slots.put(ticket);
    }

    /// Makes an endpoint busy for every class, or free again.
    ///
    /// # Panics
    /// If there is no such endpoint.
    pub fn set_busy(&mut self, index: u32, busy: bool) {
        let tokens = if busy { BUSY_THRESHOLD + 1 } else { 0 };
        self.arbiter
            .load(self.endpoint(index), tokens)
            .expect("every endpoint is known");
    }
}
