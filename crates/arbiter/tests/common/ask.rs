//! A request to submit, by name.

use tollgate_arbiter::{Endpoint, Hint, Nanos, Request, WorkerId};

/// What a test asks for; everything but the name and the prompt tokens has a default.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) name: String,
    family: Option<String>,
    raw: u32,
    cached: u32,
    hints: Vec<Hint>,
    strict_priority: u32,
    jump: f64,
    pin: Option<Endpoint>,
    allow: Option<Vec<WorkerId>>,
    taints: Vec<&'static str>,
    deadline: Option<Nanos>,
    may_wait: bool,
    arrival: Option<Nanos>,
}

impl From<(&str, u32)> for Ask {
    fn from((name, raw): (&str, u32)) -> Self {
        Self::new(name, raw)
    }
}

impl Ask {
    pub(crate) fn new(name: &str, raw: u32) -> Self {
        Self {
            name: name.to_owned(),
            family: None,
            raw,
            cached: 0,
            hints: Vec::new(),
            strict_priority: 0,
            jump: 0.0,
            pin: None,
            allow: None,
            taints: Vec::new(),
            deadline: None,
            may_wait: true,
            arrival: None,
        }
    }

    pub(crate) fn of(mut self, family: &str) -> Self {
        self.family = Some(family.to_owned());
        self
    }

    pub(crate) fn cached(mut self, cached: u32) -> Self {
        self.cached = cached;
        self
    }

    pub(crate) fn hint(mut self, worker: u64, rank: u32, cached: u32) -> Self {
        self.hints.push(Hint {
            endpoint: Endpoint::new(worker, rank),
            cached,
        });
        self
    }

    pub(crate) fn tier(mut self, strict_priority: u32) -> Self {
        self.strict_priority = strict_priority;
        self
    }

    pub(crate) fn jump(mut self, seconds: f64) -> Self {
        self.jump = seconds;
        self
    }

    pub(crate) fn pin(mut self, worker: u64, rank: u32) -> Self {
        self.pin = Some(Endpoint::new(worker, rank));
        self
    }

    pub(crate) fn allow(mut self, workers: &[u64]) -> Self {
        self.allow = Some(workers.iter().map(|&id| WorkerId(id)).collect());
        self
    }

    pub(crate) fn taint(mut self, taint: &'static str) -> Self {
        self.taints.push(taint);
        self
    }

    pub(crate) fn deadline_us(mut self, us: u64) -> Self {
        self.deadline = Some(Nanos::from_micros(us));
        self
    }

    pub(crate) fn impatient(mut self) -> Self {
        self.may_wait = false;
        self
    }

    /// Submitted at another time than the arbiter's.
    pub(crate) fn arrival(mut self, at: Nanos) -> Self {
        self.arrival = Some(at);
        self
    }

    /// Lends the request, submitted at `now` unless it says otherwise, to `use_it`.
    pub(crate) fn with_request<R>(
        &self,
        now: Nanos,
        use_it: impl FnOnce(Option<&str>, &Request<'_>) -> R,
    ) -> R {
        let request = Request {
            raw_tokens: self.raw,
            cached_tokens: self.cached,
            hints: &self.hints,
            strict_priority: self.strict_priority,
            priority_jump: self.jump,
            pin: self.pin,
            allow: self.allow.as_deref(),
            require_taints: &self.taints,
            deadline: self.deadline,
            may_wait: self.may_wait,
            submitted_at: self.arrival.unwrap_or(now),
        };
        use_it(self.family.as_deref(), &request)
    }
}
