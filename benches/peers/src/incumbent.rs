//! The incumbent's side: `PolicyQueue` of `dynamo-kv-router` 1.6.1.
//!
//! `dynamo_kv_router::scheduling::PolicyQueue` is public without any feature: `new`, `enqueue` and
//! `pop_next` are what its own benchmark uses, and all that is used here. Two limits of that
//! public surface shape the comparisons:
//!
//! - A lane of a pinned endpoint that `pop_next` once found blocked stays blocked for good: the
//!   calls that look again (`recheck_worker`, `recheck_all_workers`) are private to its crate. So
//!   no comparison frees an endpoint while a pinned request waits for it.
//! - Endpoint state is the caller's: `pop_next` asks a closure about each head.

use dynamo_kv_router::RouterQueuePolicy;
use dynamo_kv_router::protocols::WorkerWithDpRank;
use dynamo_kv_router::scheduling::{
    PolicyProfile, PolicyQueue, QueueSnapshot, RouterPolicyConfig, WorkerPlacement,
};

use crate::subject::{Placement, Plan, Request, Subject};

/// How the closure handed to `pop_next` knows whether a head is dispatchable.
pub(crate) trait Gate {
    /// What a queued request carries for it.
    type Tag: Copy;

    /// A gate with every endpoint open.
    fn new(endpoints: u32) -> Self;

    /// Opens or shuts an endpoint.
    fn set(&mut self, endpoint: u32, open: bool);

    /// The tag of a request that needs `endpoint`.
    fn tag(&self, endpoint: u32) -> Self::Tag;

    /// Whether a request with this tag is dispatchable.
    fn admits(&self, tag: Self::Tag) -> bool;
}

/// The answer is stamped on the request at enqueue and never changes: what the incumbent's own
/// benchmark does, and the cheapest question it can be asked. For timing.
#[derive(Debug)]
pub(crate) struct Stamped(Vec<bool>);

/// The answer is the endpoint's state at the time of the question. For behaviour.
#[derive(Debug)]
pub(crate) struct Live(Vec<bool>);

fn all_open(endpoints: u32) -> Vec<bool> {
    vec![true; endpoints as usize]
}

impl Gate for Stamped {
    type Tag = bool;

    fn new(endpoints: u32) -> Self {
        Self(all_open(endpoints))
    }

    fn set(&mut self, endpoint: u32, open: bool) {
        self.0[endpoint as usize] = open;
    }

    fn tag(&self, endpoint: u32) -> bool {
        self.0[endpoint as usize]
    }

    fn admits(&self, tag: bool) -> bool {
        tag
    }
}

impl Gate for Live {
    type Tag = u32;

    fn new(endpoints: u32) -> Self {
        Self(all_open(endpoints))
    }

    fn set(&mut self, endpoint: u32, open: bool) {
        self.0[endpoint as usize] = open;
    }

    fn tag(&self, endpoint: u32) -> u32 {
        endpoint
    }

    fn admits(&self, tag: u32) -> bool {
        self.0[tag as usize]
    }
}

#[derive(Clone, Copy, Debug)]
struct Payload<T> {
    id: u32,
    tag: T,
}

/// `PolicyQueue`, with the gate that answers for its endpoints.
pub(crate) struct Incumbent<G: Gate> {
    queue: PolicyQueue<Payload<G::Tag>>,
    gate: G,
    endpoints: usize,
}

impl<G: Gate> Subject for Incumbent<G> {
    const NAME: &'static str = "dynamo-kv-router 1.6.1";

    type Profile = PolicyProfile;

    fn profile(plan: &Plan) -> PolicyProfile {
        RouterPolicyConfig::from_yaml(&plan.yaml())
            .expect("the plan writes a valid policy file")
            .resolve_profile(None, None, RouterQueuePolicy::Fcfs)
    }

    fn build(plan: &Plan, profile: &PolicyProfile) -> Self {
        Self {
            queue: PolicyQueue::new(profile.clone()),
            gate: G::new(plan.endpoints),
            endpoints: plan.endpoints as usize,
        }
    }

    fn set_open(&mut self, endpoint: u32, open: bool) {
        self.gate.set(endpoint, open);
    }

    fn enqueue(&mut self, request: &Request) {
        let placement = match request.placement {
            Placement::Any | Placement::Only(_) => WorkerPlacement::Any,
            Placement::Pinned(endpoint) => {
                WorkerPlacement::Exact(WorkerWithDpRank::new(u64::from(endpoint), 0))
            }
        };
        let payload = Payload {
            id: request.id,
            tag: self.gate.tag(request.placement.endpoint()),
        };
        let outcome = self.queue.enqueue(
            request.class,
            self.endpoints,
            QueueSnapshot::new(request.tokens as usize, 0),
            request.arrival.seconds(),
            request.jump.seconds(),
            request.strict_priority,
            placement,
            payload,
        );
        assert!(outcome.is_ok(), "the plans set no limit");
    }

    fn pop(&mut self) -> Option<u32> {
        let Self { queue, gate, .. } = self;
        queue
            .pop_next(|_, _, payload| gate.admits(payload.tag))
            .map(|entry| entry.payload().id)
    }

    fn settle(&mut self) {}
}
