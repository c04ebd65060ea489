//! Tollgate's two sides: the arbiter alone, and the engine turned by hand.

use std::collections::VecDeque;

use tollgate::{Delivery, EgressShard, IngressShard, Receipt};
use tollgate_arbiter::{
    Arbiter, Capacities, ClassIndex, CostSnapshot, Endpoint, Event, Hint, Nanos, Options, SlotPool,
    Ticket, WorkerRecord,
};
use tollgate_policy::{PolicyFile, Profile};

use super::{Ask, BLOCK_TOKENS, BOOKED, HINTS, Plan, Scheduler};

/// Live requests, with some to spare.
const SLOTS: u32 = 2 * BOOKED;
/// Blocks that a request's hints take: a header, and one for each four.
const HINT_BLOCKS: u32 = 1 + HINTS / 4;

fn profile(plan: Plan) -> Profile {
    PolicyFile::parse("plan.yaml", plan.yaml().as_bytes())
        .expect("the plan writes a valid policy file")
        .profile(None)
        .clone()
        .with_decode_weight(u64::from(plan.active_blocks() * BLOCK_TOKENS))
}

/// A request with its hints; both sides borrow it.
#[derive(Clone, Debug)]
pub(super) struct Owned {
    id: u64,
    tokens: u32,
    hints: Vec<Hint>,
}

impl Owned {
    fn new(ask: &Ask) -> Self {
        let hint = |&(id, cached): &(u32, u32)| Hint {
            endpoint: Endpoint::new(u64::from(id), 0),
            cached,
        };
        Self {
            id: ask.id,
            tokens: ask.tokens,
            hints: ask.hints.iter().map(hint).collect(),
        }
    }
}

/// The arbiter, called directly.
pub(super) struct Direct {
    arbiter: Arbiter<u64>,
    slots: SlotPool,
    now: u64,
}

impl Direct {
    fn submit(&mut self, owned: &Owned) -> (Ticket, u8) {
        self.now += 1_000;
        let ticket = self.slots.take().expect("there are slots enough");
        let request = tollgate_arbiter::Request {
            hints: &owned.hints,
            ..tollgate_arbiter::Request::new(owned.tokens, Nanos(self.now))
        };
        // Every endpoint is eligible, so the best hint is the largest (S2.3).
        let cached = owned.hints.iter().map(|hint| hint.cached).max();
        let snapshot = CostSnapshot {
            raw: owned.tokens,
            cached: cached.unwrap_or(0),
        };
        let submitted = self.arbiter.submit_at(
            ticket,
            ClassIndex(0),
            snapshot,
            &request,
            owned.id,
            &mut |_: Event<u64>| (),
        );
        assert!(submitted.is_ok(), "nothing is refused");
        let mut dispatched = None;
        self.arbiter.select(&mut |event: Event<u64>| {
            if let Event::Dispatched(dispatch) = event {
                dispatched = Some((dispatch.ticket, dispatch.attempt));
            }
        });
        dispatched.expect("every endpoint takes any request")
    }
}

impl Scheduler for Direct {
    type Request = Owned;
    type Booking = (Ticket, u8);

    fn new(plan: Plan) -> Self {
        let capacities = Capacities {
            slots: SLOTS,
            workers: plan.endpoints,
            endpoints: plan.endpoints,
            extension_blocks: SLOTS * HINT_BLOCKS,
            ..Capacities::default()
        };
        let mut arbiter = Arbiter::build(&profile(plan), capacities, Options::default())
            .expect("the plan stays within what an arbiter can hold");
        for id in 0..u64::from(plan.endpoints) {
            arbiter
                .upsert_worker(&WorkerRecord::new(id))
                .expect("the arbiter was built for this many workers");
        }
        Self {
            arbiter,
            slots: SlotPool::new(SLOTS),
            now: 0,
        }
    }

    fn request(ask: &Ask) -> Owned {
        Owned::new(ask)
    }

    fn steps(&mut self, requests: Vec<Owned>, booked: &mut VecDeque<(Ticket, u8)>) -> Vec<Owned> {
        for owned in &requests {
            booked.push_back(self.submit(owned));
            let (ticket, attempt) = booked.pop_front().expect("one was just booked");
            let completed = self.arbiter.complete(ticket, attempt);
            completed.expect("completed once");
            self.slots.put(ticket);
        }
        requests
    }

    fn book(&mut self, requests: Vec<Owned>, booked: &mut VecDeque<(Ticket, u8)>) {
        booked.extend(requests.iter().map(|owned| self.submit(owned)));
    }
}

/// The engine, one turn a request.
pub(super) struct Turned {
    core: tollgate::Core<u64>,
    clock: tollgate::Clock,
    ingress: IngressShard<u64>,
    egress: EgressShard<u64>,
}

impl Turned {
    fn submit(&mut self, owned: &Owned) -> Receipt {
        let request = tollgate::Request {
            hints: &owned.hints,
            ..tollgate::Request::new(owned.tokens, owned.id)
        };
        let submitted = self.ingress.try_submit(request);
        assert!(submitted.is_ok(), "there is room");
        self.core.turn(self.clock.now());
        match self.egress.try_recv() {
            Ok(Some(Delivery::Dispatch(dispatch))) => dispatch.receipt(),
            other => panic!("every endpoint takes any request, yet {other:?} came out"),
        }
    }
}

impl Scheduler for Turned {
    type Request = Owned;
    type Booking = Receipt;

    fn new(plan: Plan) -> Self {
        let endpoints = plan.endpoints as usize;
        let builder = tollgate::Engine::builder(profile(plan))
            .slots(SLOTS as usize)
            .workers(endpoints)
            .endpoints(endpoints);
        let builder = (0..u64::from(plan.endpoints)).fold(builder, |builder, id| {
            builder.worker(tollgate::Worker::new(id))
        });
        let tollgate::ByHand {
            core,
            handles,
            mut ingress,
            mut egress,
        } = builder.build_by_hand().expect("the plan is valid");
        Self {
            core,
            clock: handles.clock(),
            ingress: ingress.remove(0),
            egress: egress.remove(0),
        }
    }

    fn request(ask: &Ask) -> Owned {
        Owned::new(ask)
    }

    fn steps(&mut self, requests: Vec<Owned>, booked: &mut VecDeque<Receipt>) -> Vec<Owned> {
        for owned in &requests {
            booked.push_back(self.submit(owned));
            let oldest = booked.pop_front().expect("one was just booked");
            self.egress.complete(oldest);
        }
        requests
    }

    fn book(&mut self, requests: Vec<Owned>, booked: &mut VecDeque<Receipt>) {
        booked.extend(requests.iter().map(|owned| self.submit(owned)));
    }
}
