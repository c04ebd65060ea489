//! What both sides of a comparison can do, and the words in which they are asked.

use std::fmt::Write as _;

/// One physical class of a [`Plan`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClassPlan {
    /// Uncached tokens per turn.
    pub(crate) quantum: u64,
    /// `queue_policy` as a policy file spells it.
    pub(crate) order: &'static str,
}

/// What a subject is built for.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The classes, in file order.
    pub(crate) classes: Vec<ClassPlan>,
    /// Endpoints `(worker 0, rank 0)` up to `(worker endpoints - 1, rank 0)`.
    pub(crate) endpoints: u32,
    /// How many requests may be waiting, or dispatched and not yet settled, at one time.
    pub(crate) capacity: u32,
    /// Whether requests are placed by [`Placement::Only`], for which Tollgate reserves room.
    pub(crate) narrowed: bool,
    /// Whether Tollgate arbitrates by the page's literal text instead of its own default.
    pub(crate) page: bool,
}

/// The prefill load in tokens above which an endpoint is busy: more than all bookings of a run can
/// add up to, so that only [`Subject::set_open`] opens and shuts.
pub(crate) const BUSY_THRESHOLD: u64 = 1 << 62;

impl Plan {
    /// The policy file from which both sides are built.
    pub(crate) fn yaml(&self) -> String {
        let mut text = String::from(
            "default_policy_family: family0\n\
             uncached_isl_buckets:\n  - min_tokens: 0\n    bucket: all\n\
             policy_classes:\n",
        );
        for (index, class) in self.classes.iter().enumerate() {
            let ClassPlan { quantum, order } = class;
            write!(
                text,
                "  - name: class{index}\n    policy_family: family{index}\n    cache_bucket: all\n    \
                 queue_policy: {order}\n    quantum: {quantum}\n    \
                 prefill_busy_threshold: {BUSY_THRESHOLD}\n",
            )
            .expect("writing to a string cannot fail");
        }
        text
    }
}

/// Which lane a request joins, and what may serve it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// The shared lane; any endpoint.
    Any,
    /// The shared lane; this endpoint alone.
    Only(u32),
    /// The exact lane of this endpoint.
    Pinned(u32),
}

impl Placement {
    /// The endpoint whose state decides whether the request is dispatchable. For [`Self::Any`]
    /// that is endpoint 0: plans that use it have no other.
    pub(crate) fn endpoint(self) -> u32 {
        match self {
            Self::Any => 0,
            Self::Only(endpoint) | Self::Pinned(endpoint) => endpoint,
        }
    }
}

/// A moment or a span that both sides represent exactly: Tollgate in whole nanoseconds, the
/// incumbent in binary floating-point seconds.
///
/// 1/512 s is 1,953,125 ns and a dyadic fraction, so neither side rounds and no difference in
/// dispatch order can come from the representation of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticks(pub(crate) u32);

impl Ticks {
    /// Ticks in a second.
    pub(crate) const PER_SECOND: u32 = 512;
    const NANOS: u64 = 1_953_125;

    /// Whole nanoseconds.
    pub(crate) fn nanos(self) -> u64 {
        u64::from(self.0) * Self::NANOS
    }

    /// Seconds, exact.
    pub(crate) fn seconds(self) -> f64 {
        f64::from(self.0) / f64::from(Self::PER_SECOND)
    }
}

/// One request, as both sides are told of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// What [`Subject::pop`] gives back.
    pub(crate) id: u32,
    /// Index into [`Plan::classes`].
    pub(crate) class: usize,
    /// Raw prompt tokens, none of them cached: the request's cost.
    pub(crate) tokens: u32,
    /// When it arrived.
    pub(crate) arrival: Ticks,
    /// Its `priority_jump`.
    pub(crate) jump: Ticks,
    /// Its `strict_priority`.
    pub(crate) strict_priority: u32,
    /// Its lane.
    pub(crate) placement: Placement,
}

/// One side of a comparison.
pub(crate) trait Subject: Sized {
    /// The name printed above its column.
    const NAME: &'static str;

    /// A policy file, read and validated.
    type Profile;

    /// Reads the plan's policy file; never timed.
    fn profile(plan: &Plan) -> Self::Profile;

    /// A subject with nothing waiting and every endpoint open.
    fn build(plan: &Plan, profile: &Self::Profile) -> Self;

    /// [`Self::profile`] and [`Self::build`] in one.
    fn of(plan: &Plan) -> Self {
        Self::build(plan, &Self::profile(plan))
    }

    /// Frees or blocks an endpoint.
    fn set_open(&mut self, endpoint: u32, open: bool);

    /// Takes a request in; the plans set no limit, so it always waits.
    fn enqueue(&mut self, request: &Request);

    /// One selection: the id of the request that it dispatched, or `None` when it was dry.
    fn pop(&mut self) -> Option<u32>;

    /// Ends everything dispatched since the last call, where the subject keeps books of it.
    fn settle(&mut self);
}
