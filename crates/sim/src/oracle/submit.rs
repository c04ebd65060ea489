//! S2, S3.4, S7.1, S8: what becomes of a submission.

use super::gate::Verdict;
use super::order::{Key, jump_ns};
use super::{Branch, ClassId, Ending, Oracle, Request, Usage};
use crate::protocol::{
    EffectiveLimits, Endpoint, Event, Lane, LimitKind, Machine, Phase, Submission,
};

impl Oracle {
    /// S8: the tests at submission, in their order.
    pub(super) fn submit(&mut self, submission: &Submission, out: &mut Vec<Event>) {
        assert!(
            self.requests
                .iter()
                .all(|request| request.id != submission.id),
            "an id is submitted once"
        );
        if self.phase != Phase::Open {
            out.push(Event::Closed {
                now_us: self.now_us(),
                id: submission.id.clone(),
            });
            return;
        }
        let request = self.snapshot_request(submission);
        let (class, id) = (request.class, request.id.clone());
        if request
            .deadline_ns
            .is_some_and(|deadline| self.now_ns >= deadline)
        {
            self.report(class, id, Ending::Expired, out);
            return;
        }
        if let Verdict::Fails(reason) = self.judge(&request) {
            self.coverage.note(Branch::FailedAtSubmission);
            self.report(class, id, Ending::Failed(reason), out);
            return;
        }
        if let Err(rejected) = self.make_room(class, out) {
            self.report(class, id, rejected, out);
            return;
        }
        let queued = Event::Queued {
            now_us: self.now_us(),
            id,
            class: self.class(class).policy.name.to_string(),
            cost: request.cost,
            lane: request.lane,
        };
        self.intakes += 1;
        self.requests.push(request);
        out.push(queued);
    }

    /// S2.1, S3.4, S4.2, S7.2: everything that is settled once and for all at submission.
    fn snapshot_request(&mut self, submission: &Submission) -> Request {
        let mut request = Request {
            id: submission.id.clone(),
            intake: self.intakes,
            class: 0,
            raw: u64::from(submission.isl),
            cached: 0,
            cost: 0,
            plain_cached: u64::from(submission.cached),
            hints: submission.hints.clone(),
            strict_priority: submission.strict_priority,
            epoch: 0,
            key: Key::Fcfs(0),
            lane: submission.pin.map_or(Lane::Shared, Lane::Exact),
            allow: submission.allow.clone(),
            require_taints: submission.require_taints.clone(),
            deadline_ns: None,
            arrival_ns: self.now_ns,
            impatient: None,
            attempt: 0,
            avoided: Vec::new(),
            flight: None,
        };
        request.cached = self.best_cached(&request).min(request.raw);
        let uncached = request.raw - request.cached;
        request.cost = uncached.max(1);

        let resolution = self.profile.resolve(submission.family.as_deref(), uncached);
        self.unknown_names += u64::from(resolution.unknown_name);
        let name = &self.profile.classes()[resolution.class].name;
        let class = self
            .classes
            .iter()
            .find(|class| !class.vanished && class.policy.name == *name);
        let class = class.expect("every class of the profile is in the table");

        let own = submission.deadline_us.map(|us| us.saturating_mul(1_000));
        let timeout = class
            .policy
            .queue_timeout_ms
            .map(|ms| ms.saturating_mul(1_000_000));
        let of_class = timeout.map(|timeout| self.now_ns.saturating_add(timeout));
        request.deadline_ns = own.into_iter().chain(of_class).min();

        let (order, jump) = (class.policy.order, jump_ns(submission.priority_jump));
        request.key = Key::new(order, self.now_ns, jump, request.cost, request.deadline_ns);
        request.epoch = class.epoch;
        request.class = class.id;
        let zero = self
            .limits(class.id)
            .into_iter()
            .find(|(_, limit)| *limit == Some(0));
        let unwilling = (!submission.may_wait).then_some(LimitKind::MayWait);
        request.impatient = zero.map(|(kind, _)| kind).or(unwilling);
        request
    }

    /// S2.3: the most that any endpoint has cached for this request.
    fn best_cached(&self, request: &Request) -> u64 {
        match request.lane {
            Lane::Exact(pin) if self.pin_fault(request, pin).is_some() => 0,
            Lane::Exact(pin) => request.cached_on(pin),
            Lane::Shared if request.hints.is_empty() => request.plain_cached,
            Lane::Shared => {
                let pool = self.pool(request);
                pool.into_iter()
                    .map(|endpoint| request.cached_on(endpoint))
                    .max()
                    .unwrap_or(0)
            }
        }
    }

    /// S7.1: the limits per worker as they stand in the policy, in the order of the tests.
    fn limits(&self, class: ClassId) -> [(LimitKind, Option<u64>); 3] {
        let policy = &self.class(class).policy;
        [
            (LimitKind::Requests, policy.request_queue_limit_per_worker),
            (
                LimitKind::RawIslTokens,
                policy.raw_isl_token_queue_limit_per_worker,
            ),
            (
                LimitKind::CachedTokens,
                policy.cached_token_queue_limit_per_worker,
            ),
        ]
    }

    /// S7.1: limit x known workers.
    pub(super) fn effective_limits(&self, class: ClassId) -> EffectiveLimits {
        let effective = self
            .limits(class)
            .map(|(_, limit)| limit.map(|limit| limit.saturating_mul(self.workers_count())));
        let [requests, raw_isl_tokens, cached_tokens] = effective;
        EffectiveLimits {
            requests,
            raw_isl_tokens,
            cached_tokens,
        }
    }

    /// S7.1: selections run until the class is below each of its limits, or one is dry.
    fn make_room(&mut self, class: ClassId, out: &mut Vec<Event>) -> Result<(), Ending> {
        for (kind, per_worker) in self.limits(class) {
            let Some(per_worker) = per_worker.filter(|per_worker| *per_worker > 0) else {
                continue;
            };
            let limit = per_worker.saturating_mul(self.workers_count());
            let mut dry = false;
            loop {
                let current = self.usage(class).of(kind);
                if current < limit {
                    break;
                }
                if dry {
                    self.coverage.note(Branch::LimitRefuses);
                    return Err(Ending::Rejected {
                        kind,
                        current,
                        limit,
                    });
                }
                self.sweep(out);
                self.coverage.note(Branch::LimitSelects);
                dry = !self.select(out);
            }
        }
        Ok(())
    }

    /// Counts and reports an outcome.
    pub(super) fn report(
        &mut self,
        class: ClassId,
        id: String,
        ending: Ending,
        out: &mut Vec<Event>,
    ) {
        let (now_us, workers) = (self.now_us(), self.workers_count());
        let entry = self.class_mut(class);
        let outcomes = &mut entry.outcomes;
        let class = entry.policy.name.to_string();
        out.push(match ending {
            Ending::Rejected {
                kind,
                current,
                limit,
            } => {
                *match kind {
                    LimitKind::Requests => &mut outcomes.rejected.requests,
                    LimitKind::RawIslTokens => &mut outcomes.rejected.raw_isl_tokens,
                    LimitKind::CachedTokens => &mut outcomes.rejected.cached_tokens,
                    LimitKind::MayWait => &mut outcomes.rejected.may_wait,
                } += 1;
                Event::Rejected {
                    now_us,
                    id,
                    class,
                    limit_kind: kind,
                    current,
                    limit,
                    workers,
                }
            }
            Ending::Failed(reason) => {
                outcomes.failed += 1;
                Event::Failed {
                    now_us,
                    id,
                    class,
                    reason,
                }
            }
            Ending::Expired => {
                outcomes.expired += 1;
                Event::Expired { now_us, id, class }
            }
            Ending::Cancelled => {
                outcomes.cancelled += 1;
                Event::Cancelled { now_us, id, class }
            }
            Ending::ShuttingDown => {
                outcomes.shutting_down += 1;
                Event::ShuttingDown { now_us, id, class }
            }
        });
    }
}

impl Request {
    /// S2.3: what is cached of this request on one endpoint.
    pub(super) fn cached_on(&self, endpoint: Endpoint) -> u64 {
        if self.hints.is_empty() {
            return self.plain_cached.min(self.raw);
        }
        let hints = self.hints.iter().filter(|hint| hint.endpoint == endpoint);
        hints
            .map(|hint| u64::from(hint.cached))
            .max()
            .unwrap_or(0)
            .min(self.raw)
    }

    /// S9.1: what a dispatch to one endpoint has to compute.
    pub(super) fn uncached_on(&self, endpoint: Endpoint) -> u64 {
        self.raw - self.cached_on(endpoint)
    }
}

impl Usage {
    fn of(self, kind: LimitKind) -> u64 {
        match kind {
            LimitKind::Requests => self.requests,
            LimitKind::RawIslTokens => self.raw_isl_tokens,
            LimitKind::CachedTokens => self.cached_tokens,
            LimitKind::MayWait => 0,
        }
    }
}
