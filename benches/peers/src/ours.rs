//! Tollgate's side: the whole arbiter step, with gate, booking and outcome.

use tollgate_arbiter::{
    Arbiter, Capacities, ClassIndex, CostSnapshot, Endpoint, Event, Nanos, Options, SlotPool,
    Ticket, WorkerId, WorkerRecord,
};
use tollgate_policy::{Arbitration, PolicyFile, Profile};

use crate::subject::{BUSY_THRESHOLD, Placement, Plan, Request, Subject};

/// Blocks an endpoint when reported as its prefill load; bookings cannot make it overflow.
const BUSY_LOAD: u64 = BUSY_THRESHOLD + 1;

/// An arbiter with the slots that it needs, and what it dispatched since the last settling.
pub(crate) struct Ours {
    arbiter: Arbiter<u32>,
    slots: SlotPool,
    dispatched: Vec<(Ticket, u8)>,
}

fn endpoint(index: u32) -> Endpoint {
    Endpoint::new(u64::from(index), 0)
}

impl Subject for Ours {
    const NAME: &'static str = "tollgate";

    type Profile = Profile;

    fn profile(plan: &Plan) -> Profile {
        let arbitration = if plan.page {
            Arbitration::Page
        } else {
            Arbitration::Exact
        };
        PolicyFile::parse("plan.yaml", plan.yaml().as_bytes())
            .expect("the plan writes a valid policy file")
            .profile(None)
            .clone()
            .with_arbitration(arbitration)
    }

    fn build(plan: &Plan, profile: &Profile) -> Self {
        let capacities = Capacities {
            slots: plan.capacity,
            classes: u32::try_from(plan.classes.len()).expect("a plan has few classes"),
            workers: plan.endpoints,
            endpoints: plan.endpoints,
            // An allow-list of one worker takes a header and a block.
            extension_blocks: if plan.narrowed { 2 * plan.capacity } else { 0 },
            ..Capacities::default()
        };
        let mut arbiter = Arbiter::build(profile, capacities, Options::default())
            .expect("the plan stays within what an arbiter can hold");
        for index in 0..plan.endpoints {
            arbiter
                .upsert_worker(&WorkerRecord::new(u64::from(index)))
                .expect("the arbiter was built for this many workers");
        }
        Self {
            arbiter,
            slots: SlotPool::new(plan.capacity),
            dispatched: Vec::with_capacity(plan.capacity as usize),
        }
    }

    fn set_open(&mut self, index: u32, open: bool) {
        let tokens = if open { 0 } else { BUSY_LOAD };
        self.arbiter
            .load(endpoint(index), tokens)
            .expect("every endpoint of the plan is known");
    }

    fn enqueue(&mut self, request: &Request) {
        let ticket = self.slots.take().expect("the plan's capacity suffices");
        let mut allow = [WorkerId(0)];
        let mut ask = tollgate_arbiter::Request {
            strict_priority: request.strict_priority,
            priority_jump: request.jump.seconds(),
            ..tollgate_arbiter::Request::new(request.tokens, Nanos(request.arrival.nanos()))
        };
        match request.placement {
            Placement::Any => {}
            Placement::Only(index) => {
                allow[0] = WorkerId(u64::from(index));
                ask.allow = Some(&allow);
            }
            Placement::Pinned(index) => ask.pin = Some(endpoint(index)),
        }
        let class = ClassIndex(u16::try_from(request.class).expect("a plan has few classes"));
        let snapshot = CostSnapshot {
            raw: request.tokens,
            cached: 0,
        };
        let mut waits = false;
        let outcome =
            self.arbiter
                .submit_at(ticket, class, snapshot, &ask, request.id, &mut |event| {
                    waits = matches!(event, Event::Queued { .. });
                });
        assert!(
            outcome.is_ok() && waits,
            "the plans set no limit and every endpoint is known"
        );
    }

    fn pop(&mut self) -> Option<u32> {
        let Self {
            arbiter,
            dispatched,
            ..
        } = self;
        let mut id = None;
        arbiter.select(&mut |event| {
            if let Event::Dispatched(dispatch) = event {
                dispatched.push((dispatch.ticket, dispatch.attempt));
                id = Some(dispatch.payload);
            }
        });
        id
    }

    fn settle(&mut self) {
        for (ticket, attempt) in self.dispatched.drain(..) {
            self.arbiter
                .complete(ticket, attempt)
                .expect("a dispatch is completed once");
            self.slots.put(ticket);
        }
    }
}
