//! What became of a replay's requests, class by class and worker by worker.

use tollgate_arbiter::{Dispatch, FailReason, LimitKind, Nanos, Outcome, State};
use tollgate_policy::{ClassPolicy, Profile};
use tollgate_report::Recording;
use tollgate_report::replay::{ClassRun, Count, WorkerRun};

use super::simulation::{Live, Observer};
use super::timeline::Timeline;
use crate::worker::Batch;

/// Counts outcomes, the service of backlogged classes, and what workers do.
///
/// A class is *backlogged* at a dispatch if it has a request waiting that arrived at an earlier moment.
/// A dispatch of such a request counts for the shares if at least two classes are; each of these is then
/// entitled to its quantum's part of the sum of their quanta.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) classes: Vec<ClassTally>,
    pub(super) workers: Vec<WorkerTally>,
    pub(super) timeline: Timeline,
    /// Dispatches that counted for the shares.
    pub(super) contended: u64,
    pub(super) arrived: u64,
    pub(super) last_arrival: Nanos,
}

/// One class's part of a replay.
#[derive(Debug)]
pub(super) struct ClassTally {
    pub(super) run: ClassRun,
    rejected: [u64; LimitKind::ALL.len()],
    failed: [u64; FailReason::ALL.len()],
    /// The costs of what was dispatched, by our own account.
    costs: u64,
    /// Requests that wait now.
    waiting: u64,
    /// How many of them arrived at the last moment at which any did, and when that was.
    fresh: u64,
    fresh_at: Nanos,
}

impl ClassTally {
    const fn is_backlogged(&self, now: Nanos) -> bool {
        let fresh = if self.fresh_at.0 == now.0 {
            self.fresh
        } else {
            0
        };
        self.waiting > fresh
    }
}

/// One worker's part.
#[derive(Debug)]
pub(super) struct WorkerTally {
    pub(super) run: WorkerRun,
    running: u32,
    busy_since: Nanos,
}

impl Tally {
    pub(super) fn new(profile: &Profile, workers: u32) -> Self {
        let classes: Vec<ClassTally> = profile.classes().iter().map(class).collect();
        let worker = |number: u32| WorkerTally {
            run: WorkerRun {
                name: (number + 1).to_string(),
                requests: 0,
                prefill_tokens: 0,
                cached_tokens: 0,
                output_tokens: 0,
                busy_ns: 0,
                prefill_ns: 0,
                peak_sequences: 0,
                evicted_blocks: 0,
            },
            running: 0,
            busy_since: Nanos(0),
        };
        Self {
            timeline: Timeline::new(classes.len(), workers as usize),
            classes,
            workers: (0..workers).map(worker).collect(),
            contended: 0,
            arrived: 0,
            last_arrival: Nanos(0),
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "shares are told to a hundredth of a per cent"
    )]
    fn share_out(&mut self, cost: u64, served: usize, now: Nanos) {
        let (mut count, mut quanta) = (0, 0.0);
        for class in self.classes.iter().filter(|class| class.is_backlogged(now)) {
            count += 1;
            quanta += class.run.quantum as f64;
        }
        if count < 2 || !self.classes[served].is_backlogged(now) {
            return;
        }
        for (at, class) in self.classes.iter_mut().enumerate() {
            if class.is_backlogged(now) {
                let tokens = cost as f64 * class.run.quantum as f64 / quanta;
                class.run.entitled_tokens += tokens;
                self.timeline.entitled(at, now, tokens);
            }
        }
        self.classes[served].run.served_tokens += cost;
        self.timeline.served(served, now, cost);
        self.contended += 1;
    }

    /// A request has its fate; its class.
    fn settle(&mut self, request: &Live<'_>, now: Nanos) -> &mut ClassTally {
        let at = usize::from(request.class.0);
        if request.was_queued {
            self.timeline.left(at, now);
        }
        let class = &mut self.classes[at];
        class.waiting -= u64::from(request.was_queued);
        if request.was_queued && request.arrival.at == class.fresh_at {
            class.fresh -= 1;
        }
        class.run.requests += 1;
        class.run.prompt_tokens += u64::from(request.arrival.prompt_tokens);
        class
    }

    /// Every request has one fate, nothing is left over, and the arbiter's account is ours.
    pub(super) fn balance(&self, state: &State) -> Result<(), String> {
        let sum = |of: fn(&ClassTally) -> u64| self.classes.iter().map(of).sum::<u64>();
        let fates = sum(|class| class.run.requests);
        same("requests and requests with a fate", self.arrived, fates)?;
        let left = state.waiting + state.outstanding;
        same("requests that wait or run at the end", left, 0)?;
        let dispatched = sum(|class| class.run.dispatched);
        let completed = sum(|class| class.run.completed);
        same("dispatched and completed", dispatched, completed)?;
        let ran = self.workers.iter().map(|worker| worker.run.requests).sum();
        same("dispatched and run by a worker", dispatched, ran)?;
        for (ours, theirs) in self.classes.iter().zip(&state.classes) {
            let counters = &theirs.counters;
            let of_class = |what: &str| format!("{what} of class {}", ours.run.name);
            for (what, ours, theirs) in [
                ("dispatched", ours.run.dispatched, counters.dispatched),
                (
                    "tokens charged",
                    ours.run.charged_tokens,
                    counters.charged_tokens,
                ),
                (
                    "tokens charged and costs",
                    ours.run.charged_tokens,
                    ours.costs,
                ),
                ("expired", ours.run.expired, counters.expired),
                (
                    "rejected",
                    ours.rejected.iter().sum(),
                    counters.rejected.iter().sum(),
                ),
                (
                    "failed",
                    ours.failed.iter().sum(),
                    counters.failed.iter().sum(),
                ),
            ] {
                same(&of_class(what), ours, theirs)?;
            }
        }
        Ok(())
    }

    /// No worker did more than time allows.
    pub(super) fn capacity(&self, finish: Nanos) -> Result<(), String> {
        for WorkerTally { run, .. } in &self.workers {
            if run.prefill_ns > run.busy_ns || run.busy_ns > finish.0 {
                return Err(format!(
                    "worker {}: {} ns of prefill in {} ns busy in {} ns",
                    run.name, run.prefill_ns, run.busy_ns, finish.0
                ));
            }
        }
        Ok(())
    }
}

fn same(what: &str, ours: u64, theirs: u64) -> Result<(), String> {
    if ours == theirs {
        Ok(())
    } else {
        Err(format!("{what}: {ours} against {theirs}"))
    }
}

fn class(policy: &ClassPolicy) -> ClassTally {
    let name = &policy.name;
    let recording = |what: &str, whose: &str| {
        let tag = format!("{name}.{}", what.replace(' ', "_"));
        Recording::new(&tag, what, &format!("{whose} class {name}"))
    };
    ClassTally {
        run: ClassRun {
            name: name.to_string(),
            quantum: policy.quantum,
            requests: 0,
            dispatched: 0,
            completed: 0,
            prompt_tokens: 0,
            cached_tokens: 0,
            charged_tokens: 0,
            output_tokens: 0,
            expired: 0,
            rejected: Vec::new(),
            failed: Vec::new(),
            served_tokens: 0,
            entitled_tokens: 0.0,
            wait: recording("wait", "all dispatched requests of"),
            wait_queued: recording("wait queued", "dispatched requests that had to wait, of"),
            first_token: recording("first token", "all dispatched requests of"),
        },
        rejected: [0; _],
        failed: [0; _],
        costs: 0,
        waiting: 0,
        fresh: 0,
        fresh_at: Nanos(0),
    }
}

impl ClassTally {
    /// What is told of it.
    pub(super) fn finish(mut self) -> ClassRun {
        let counts = |codes: &[&str], counts: &[u64]| {
            let nonzero = codes.iter().zip(counts).filter(|(_, count)| **count > 0);
            let count = |(code, &count): (&&str, &u64)| Count {
                code: (*code).to_owned(),
                count,
            };
            nonzero.map(count).collect()
        };
        self.run.rejected = counts(&LimitKind::ALL.map(LimitKind::code), &self.rejected);
        self.run.failed = counts(&FailReason::ALL.map(FailReason::code), &self.failed);
        self.run
    }
}

impl WorkerTally {
    /// What is told of it; so many blocks of its cache made room for others.
    pub(super) fn finish(self, evicted_blocks: u64) -> WorkerRun {
        WorkerRun {
            evicted_blocks,
            ..self.run
        }
    }
}

/// Where `wanted` stands in the list of all.
fn place<T: PartialEq>(all: &[T], wanted: &T) -> usize {
    let place = all.iter().position(|known| known == wanted);
    place.expect("the list has every variant")
}

impl Observer for Tally {
    fn arrived(&mut self, request: &Live<'_>) {
        self.arrived += 1;
        self.last_arrival = request.arrival.at;
    }

    fn queued(&mut self, request: &Live<'_>) {
        let at = usize::from(request.class.0);
        let (class, now) = (&mut self.classes[at], request.arrival.at);
        if class.fresh_at != now {
            (class.fresh_at, class.fresh) = (now, 0);
        }
        class.fresh += 1;
        class.waiting += 1;
        self.timeline.queued(at, now);
    }

    fn dispatched(&mut self, request: &Live<'_>, dispatch: &Dispatch<u32>) {
        let now = dispatch.dispatched_at;
        let cost = u64::from(dispatch.snapshot.cost());
        let at = usize::from(request.class.0);
        self.share_out(cost, at, now);
        let wait = now.saturating_sub(dispatch.submitted_at);
        self.timeline.waited(at, now, wait);
        let class = self.settle(request, now);
        class.run.dispatched += 1;
        class.run.charged_tokens += cost;
        let uncached = request.arrival.prompt_tokens - request.told_cached;
        class.costs += u64::from(uncached.max(1));
        class.run.wait.record(wait.0);
        if wait.0 > 0 {
            class.run.wait_queued.record(wait.0);
        }
    }

    fn ended(&mut self, request: &Live<'_>, outcome: Outcome, now: Nanos) {
        let class = self.settle(request, now);
        match outcome {
            Outcome::Rejected(rejection) => {
                class.rejected[place(&LimitKind::ALL, &rejection.kind)] += 1;
            }
            Outcome::Expired => class.run.expired += 1,
            Outcome::Failed(reason) => class.failed[place(&FailReason::ALL, &reason)] += 1,
            Outcome::Cancelled | Outcome::ShuttingDown => {
                unreachable!("a replay cancels nothing and does not stop")
            }
        }
    }

    fn begun(&mut self, batch: &Batch<'_, &[u64]>, live: &[Live<'_>], now: Nanos) {
        let worker = &mut self.workers[batch.worker];
        if worker.running == 0 {
            worker.busy_since = now;
        }
        let mut computed = 0;
        for running in batch.requests {
            let found = u64::from(running.found_tokens);
            let class = live[running.job.request as usize].class;
            self.classes[usize::from(class.0)].run.cached_tokens += found;
            worker.running += 1;
            worker.run.requests += 1;
            worker.run.cached_tokens += found;
            computed += u64::from(running.new_tokens());
        }
        worker.run.prefill_tokens += computed;
        worker.run.prefill_ns += batch.ends.saturating_sub(now).0;
        worker.run.peak_sequences = worker.run.peak_sequences.max(worker.running);
        self.timeline.computed(batch.worker, now, computed);
    }

    fn first_token(&mut self, request: &Live<'_>, now: Nanos) {
        let class = &mut self.classes[usize::from(request.class.0)];
        let since = now.saturating_sub(request.arrival.at);
        class.run.first_token.record(since.0);
    }

    fn completed(&mut self, request: &Live<'_>, now: Nanos) {
        let output = u64::from(request.arrival.output_tokens);
        let class = &mut self.classes[usize::from(request.class.0)];
        class.run.completed += 1;
        class.run.output_tokens += output;
        let worker = &mut self.workers[request.worker];
        worker.run.output_tokens += output;
        worker.running -= 1;
        if worker.running == 0 {
            worker.run.busy_ns += now.saturating_sub(worker.busy_since).0;
            self.timeline.busy(request.worker, worker.busy_since, now);
        }
    }
}
