//! A run over time, in a bounded number of steps.

use hdrhistogram::Histogram;
use tollgate_arbiter::Nanos;
use tollgate_report::Quantiles;
use tollgate_report::replay::{ClassTrack, Timeline as Tracks, WorkerTrack};

/// There are at most so many steps; a run that is longer has longer ones.
const STEPS_MAX: usize = 400;
/// The first steps.
const SHORTEST_STEP: u64 = 1_000_000;

/// What happened in each step so far. All times that it is told of go forward.
#[derive(Debug)]
pub(super) struct Timeline {
    step: u64,
    steps: usize,
    classes: Vec<ClassSteps>,
    workers: Vec<WorkerSteps>,
}

/// One class. Every list has one element a step.
#[derive(Debug, Default)]
struct ClassSteps {
    /// Requests that wait now.
    waiting: u64,
    waiting_max: Vec<u64>,
    served: Vec<u64>,
    entitled: Vec<f64>,
    waits: Vec<Waits>,
}

/// The waits of one step, to two or three digits.
#[derive(Debug, Default)]
struct Waits {
    nanos: Option<Histogram<u32>>,
    longest: u64,
}

#[derive(Debug, Default)]
struct WorkerSteps {
    busy_ns: Vec<u64>,
    prefill: Vec<u64>,
}

impl Timeline {
    pub(super) fn new(classes: usize, workers: usize) -> Self {
        Self {
            step: SHORTEST_STEP,
            steps: 0,
            classes: std::iter::repeat_with(ClassSteps::default)
                .take(classes)
                .collect(),
            workers: std::iter::repeat_with(WorkerSteps::default)
                .take(workers)
                .collect(),
        }
    }

    /// The step of `now`, which is the last one.
    fn reach(&mut self, now: Nanos) -> usize {
        let mut at = now.0 / self.step;
        while at >= STEPS_MAX as u64 {
            self.merge_pairs();
            at = now.0 / self.step;
        }
        let at = usize::try_from(at).unwrap_or(STEPS_MAX - 1);
        if at >= self.steps {
            self.steps = at + 1;
            for class in &mut self.classes {
                class.waiting_max.resize(self.steps, class.waiting);
                class.served.resize(self.steps, 0);
                class.entitled.resize(self.steps, 0.0);
                class.waits.resize_with(self.steps, Waits::default);
            }
            for worker in &mut self.workers {
                worker.busy_ns.resize(self.steps, 0);
                worker.prefill.resize(self.steps, 0);
            }
        }
        at
    }

    /// Steps are twice as long from now on.
    fn merge_pairs(&mut self) {
        self.step = self.step.saturating_mul(2);
        self.steps = self.steps.div_ceil(2);
        for class in &mut self.classes {
            pairs(&mut class.waiting_max, |into, from| {
                *into = (*into).max(from);
            });
            pairs(&mut class.served, |into, from| *into += from);
            pairs(&mut class.entitled, |into, from| *into += from);
            pairs(&mut class.waits, Waits::add);
        }
        for worker in &mut self.workers {
            pairs(&mut worker.busy_ns, |into, from| *into += from);
            pairs(&mut worker.prefill, |into, from| *into += from);
        }
    }

    pub(super) fn queued(&mut self, class: usize, now: Nanos) {
        let at = self.reach(now);
        let class = &mut self.classes[class];
        class.waiting += 1;
        class.waiting_max[at] = class.waiting_max[at].max(class.waiting);
    }

    /// A request of the class waits no longer.
    pub(super) fn left(&mut self, class: usize, now: Nanos) {
        self.reach(now);
        self.classes[class].waiting -= 1;
    }

    pub(super) fn waited(&mut self, class: usize, now: Nanos, wait: Nanos) {
        let at = self.reach(now);
        self.classes[class].waits[at].record(wait.0);
    }

    pub(super) fn served(&mut self, class: usize, now: Nanos, tokens: u64) {
        let at = self.reach(now);
        self.classes[class].served[at] += tokens;
    }

    pub(super) fn entitled(&mut self, class: usize, now: Nanos, tokens: f64) {
        let at = self.reach(now);
        self.classes[class].entitled[at] += tokens;
    }

    pub(super) fn computed(&mut self, worker: usize, now: Nanos, tokens: u64) {
        let at = self.reach(now);
        self.workers[worker].prefill[at] += tokens;
    }

    /// A worker had something on it from `since` to `now`.
    pub(super) fn busy(&mut self, worker: usize, since: Nanos, now: Nanos) {
        self.reach(now);
        let mut from = since.0;
        while from < now.0 {
            let step = from / self.step;
            let end = (step + 1).saturating_mul(self.step).min(now.0);
            let step = usize::try_from(step).unwrap_or(usize::MAX);
            self.workers[worker].busy_ns[step] += end - from;
            from = end;
        }
    }

    /// Told to a reader, under the names of classes and workers.
    #[expect(
        clippy::cast_precision_loss,
        reason = "parts of a step are told to some digits"
    )]
    pub(super) fn tracks<'n>(
        self,
        classes: impl Iterator<Item = &'n str>,
        workers: impl Iterator<Item = String>,
    ) -> Tracks {
        let part = |nanos: u64| (nanos as f64 / self.step as f64).min(1.0);
        let class = |(steps, name): (ClassSteps, &str)| ClassTrack {
            name: name.to_owned(),
            waiting_max: steps.waiting_max,
            served_tokens: steps.served,
            entitled_tokens: steps.entitled,
            wait: steps.waits.iter().map(Waits::quantiles).collect(),
        };
        let worker = |(steps, name): (WorkerSteps, String)| WorkerTrack {
            name,
            busy: steps.busy_ns.into_iter().map(part).collect(),
            prefill_tokens: steps.prefill,
        };
        Tracks {
            step_ns: self.step,
            classes: self.classes.into_iter().zip(classes).map(class).collect(),
            workers: self.workers.into_iter().zip(workers).map(worker).collect(),
        }
    }
}

/// Puts the second of each pair into the first.
fn pairs<T>(steps: &mut Vec<T>, mut merge: impl FnMut(&mut T, T)) {
    let before = std::mem::take(steps);
    for (at, step) in before.into_iter().enumerate() {
        match steps.last_mut().filter(|_| at % 2 == 1) {
            Some(first) => merge(first, step),
            None => steps.push(step),
        }
    }
}

impl Waits {
    fn record(&mut self, nanos: u64) {
        self.longest = self.longest.max(nanos);
        let histogram = self
            .nanos
            .get_or_insert_with(|| Histogram::new(2).expect("two digits are allowed"));
        histogram
            .record(nanos)
            .expect("a growing histogram takes every value");
    }

    fn add(&mut self, other: Self) {
        self.longest = self.longest.max(other.longest);
        match (&mut self.nanos, other.nanos) {
            (Some(into), Some(from)) => into
                .add(&from)
                .expect("a growing histogram takes every value"),
            (into, from) => *into = into.take().or(from),
        }
    }

    fn quantiles(&self) -> Quantiles {
        let Some(nanos) = &self.nanos else {
            return Quantiles::default();
        };
        let quantile = |share| nanos.value_at_quantile(share).min(self.longest);
        Quantiles {
            count: nanos.len(),
            p50_ns: quantile(0.5),
            p99_ns: quantile(0.99),
            max_ns: self.longest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tracks(timeline: Timeline) -> Tracks {
        timeline.tracks(["a"].into_iter(), ["w".to_owned()].into_iter())
    }

    #[test]
    fn steps_grow_with_the_run_and_lose_nothing() {
        let mut timeline = Timeline::new(1, 1);
        for milli in 0..1_000 {
            let now = Nanos::from_millis(milli);
            timeline.queued(0, now);
            timeline.served(0, now, 3);
            timeline.entitled(0, now, 0.5);
            timeline.waited(0, now, Nanos(milli));
            timeline.computed(0, now, 2);
            if milli % 2 == 1 {
                timeline.left(0, now);
            }
        }
        timeline.busy(0, Nanos::from_millis(100), Nanos::from_millis(302));
        let told = tracks(timeline);
        assert_eq!(told.step_ns, 4_000_000);
        let (class, worker) = (&told.classes[0], &told.workers[0]);
        assert_eq!(class.waiting_max.len(), 250);
        assert_eq!((class.waiting_max[0], class.waiting_max[249]), (3, 501));
        assert_eq!(class.served_tokens, [12; 250]);
        assert_eq!(class.entitled_tokens, [2.0; 250]);
        let waits: Vec<_> = class
            .wait
            .iter()
            .map(|wait| (wait.count, wait.max_ns))
            .collect();
        assert_eq!((waits[0], waits[249]), ((4, 3), (4, 999)));
        assert_eq!(worker.prefill_tokens, [8; 250]);
        let busy: Vec<usize> = (0..250).filter(|&at| worker.busy[at] == 1.0).collect();
        assert_eq!(busy, (25..75).collect::<Vec<_>>());
        assert_eq!(worker.busy[75], 0.5);
    }

    #[test]
    fn what_waits_is_told_of_steps_in_which_nothing_happens() {
        let mut timeline = Timeline::new(1, 1);
        timeline.queued(0, Nanos(0));
        timeline.queued(0, Nanos(0));
        timeline.left(0, Nanos::from_millis(3));
        timeline.left(0, Nanos::from_millis(5));
        timeline.busy(0, Nanos(0), Nanos::from_millis(6));
        assert_eq!(
            tracks(timeline).classes[0].waiting_max,
            [2, 2, 2, 2, 1, 1, 0]
        );
    }

    #[test]
    fn the_end_of_time_is_in_the_last_step() {
        let mut timeline = Timeline::new(1, 1);
        timeline.queued(0, Nanos::MAX);
        timeline.busy(0, Nanos(0), Nanos::MAX);
        let told = tracks(timeline);
        let (last, others) = told.workers[0].busy.split_last().expect("steps");
        assert!(others.iter().all(|&part| part == 1.0) && *last > 0.0);
        assert_eq!(told.classes[0].waiting_max.last(), Some(&1));
    }
}
