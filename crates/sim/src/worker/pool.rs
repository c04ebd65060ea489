//! Several modelled workers and the order of what happens on them.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use tollgate_arbiter::Nanos;

use super::WorkerModel;

/// A request on a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// The caller's number for it; comes back in every [`Step`].
    pub request: u32,
    /// Prompt tokens that this worker must compute.
    pub new_tokens: u64,
    /// Tokens to generate; the first comes with the prefill.
    pub output_tokens: u32,
}

/// Something that happened on a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// The prompt is computed and the first token is out.
    PrefillDone {
        /// The job's number.
        request: u32,
    },
    /// The last token is out, the sequence is free.
    Complete {
        /// The job's number.
        request: u32,
    },
}

/// A fixed number of equal workers, numbered from 0.
///
/// The pool has no clock: [`Pool::next_at`] says when something happens next, and whoever drives it
/// moves the time there, takes every [`Pool::step`], hands over new jobs, and lets idle workers
/// begin with [`Pool::start`].
#[derive(Debug)]
pub struct Pool {
    model: WorkerModel,
    workers: Vec<Worker>,
    /// Steps to come. Those of one moment come out in the order in which they were scheduled.
    due: BinaryHeap<Reverse<(Nanos, u64, usize, Step)>>,
    scheduled: u64,
    /// Workers that may be able to begin a batch; may hold a worker twice.
    touched: Vec<usize>,
}

#[derive(Debug, Default)]
struct Worker {
    waiting: VecDeque<Job>,
    running: usize,
    prefill_ends: Nanos,
}

impl Pool {
    /// `workers` idle workers.
    #[must_use]
    pub fn new(model: WorkerModel, workers: usize) -> Self {
        Self {
            model,
            workers: std::iter::repeat_with(Worker::default)
                .take(workers)
                .collect(),
            due: BinaryHeap::new(),
            scheduled: 0,
            touched: Vec::new(),
        }
    }

    /// When the next step happens; `None` while all workers are idle.
    #[must_use]
    pub fn next_at(&self) -> Option<Nanos> {
        self.due.peek().map(|Reverse((at, ..))| *at)
    }

    /// Takes the next step that has happened by `now`.
    pub fn step(&mut self, now: Nanos) -> Option<Step> {
        if self.next_at()? > now {
            return None;
        }
        let Reverse((_, _, worker, step)) = self.due.pop()?;
        if matches!(step, Step::Complete { .. }) {
            self.workers[worker].running -= 1;
        }
        self.touched.push(worker);
        Some(step)
    }

    /// Hands `job` to `worker`; it waits there until [`Pool::start`].
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn hand_over(&mut self, worker: usize, job: Job) {
        self.workers[worker].waiting.push_back(job);
        self.touched.push(worker);
    }

    /// Lets every worker that is in no prefill and has work and a free sequence begin a batch.
    pub fn start(&mut self, now: Nanos) {
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.dedup();
        for &worker in &touched {
            self.start_batch(worker, now);
        }
        touched.clear();
        self.touched = touched;
    }

    fn start_batch(&mut self, index: usize, now: Nanos) {
        let worker = &mut self.workers[index];
        let sequences = usize::try_from(self.model.sequences.max(1)).unwrap_or(usize::MAX);
        let room = sequences.saturating_sub(worker.running);
        let size = room.min(worker.waiting.len());
        if worker.prefill_ends > now || size == 0 {
            return;
        }
        let batch: Vec<Job> = worker.waiting.drain(..size).collect();
        let tokens = batch
            .iter()
            .fold(0_u64, |sum, job| sum.saturating_add(job.new_tokens));
        let ends = now.saturating_add(self.model.prefill.of(tokens));
        worker.running += size;
        worker.prefill_ends = ends;
        for job in &batch {
            self.schedule(
                ends,
                index,
                Step::PrefillDone {
                    request: job.request,
                },
            );
        }
        for job in &batch {
            let last_token = ends.saturating_add(self.model.decode_time(job.output_tokens));
            self.schedule(
                last_token,
                index,
                Step::Complete {
                    request: job.request,
                },
            );
        }
    }

    fn schedule(&mut self, at: Nanos, worker: usize, step: Step) {
        self.due.push(Reverse((at, self.scheduled, worker, step)));
        self.scheduled += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::PrefillTime;

    /// A prefill of 80 ms whatever its size, a decode step of 20 ms.
    fn model(sequences: u32) -> WorkerModel {
        let prefill = PrefillTime {
            per_token_squared_as: 0,
            per_token_as: 0,
            base_as: 80 * 1_000_000_000_000_000,
        };
        let decode_step = Nanos::from_millis(20);
        WorkerModel {
            sequences,
            prefill,
            decode_step,
            ..WorkerModel::default()
        }
    }

    fn job(request: u32, output_tokens: u32) -> Job {
        Job {
            request,
            new_tokens: 100,
            output_tokens,
        }
    }

    /// Runs until nothing happens any more: (milliseconds, step).
    fn run(pool: &mut Pool) -> Vec<(u64, Step)> {
        let mut seen = Vec::new();
        pool.start(Nanos(0));
        while let Some(now) = pool.next_at() {
            while let Some(step) = pool.step(now) {
                seen.push((now.0 / 1_000_000, step));
            }
            pool.start(now);
        }
        seen
    }

    #[test]
    fn one_request_prefills_then_decodes() {
        let mut pool = Pool::new(model(4), 1);
        pool.hand_over(0, job(7, 2));
        let expected = [
            (80, Step::PrefillDone { request: 7 }),
            (100, Step::Complete { request: 7 }),
        ];
        assert_eq!(run(&mut pool), expected);
    }

    #[test]
    fn what_waits_goes_as_one_batch_up_to_the_sequence_limit() {
        let mut pool = Pool::new(model(2), 1);
        for request in 0..3 {
            pool.hand_over(0, job(request, 1));
        }
        let expected = [
            (80, Step::PrefillDone { request: 0 }),
            (80, Step::PrefillDone { request: 1 }),
            (80, Step::Complete { request: 0 }),
            (80, Step::Complete { request: 1 }),
            (160, Step::PrefillDone { request: 2 }),
            (160, Step::Complete { request: 2 }),
        ];
        assert_eq!(run(&mut pool), expected);
    }

    #[test]
    fn a_decoding_sequence_keeps_its_place_beside_the_next_prefill() {
        let mut pool = Pool::new(model(2), 1);
        pool.hand_over(0, job(0, 3)); // Decodes until 120 ms.
        pool.hand_over(0, job(1, 1)); // Complete at 80 ms; makes room for one.
        pool.hand_over(0, job(2, 1)); // 80 ms to 160 ms.
        pool.hand_over(0, job(3, 1)); // Room at 120 ms, but the prefill lasts to 160 ms.
        let complete: Vec<_> = run(&mut pool)
            .into_iter()
            .filter_map(|(at, step)| match step {
                Step::Complete { request } => Some((at, request)),
                Step::PrefillDone { .. } => None,
            })
            .collect();
        assert_eq!(complete, [(80, 1), (120, 0), (160, 2), (240, 3)]);
    }

    #[test]
    fn workers_do_not_wait_for_each_other() {
        let mut pool = Pool::new(model(1), 2);
        pool.hand_over(0, job(0, 1));
        pool.hand_over(1, job(1, 4));
        pool.hand_over(0, job(2, 1));
        let last = run(&mut pool).pop();
        assert_eq!(last, Some((160, Step::Complete { request: 2 })));
    }

    #[test]
    fn nothing_happens_before_its_time() {
        let mut pool = Pool::new(model(1), 1);
        pool.hand_over(0, job(0, 1));
        assert_eq!(pool.next_at(), None, "not started yet");
        pool.start(Nanos(0));
        assert_eq!(pool.next_at(), Some(Nanos::from_millis(80)));
        assert_eq!(pool.step(Nanos::from_millis(79)), None);
        assert!(pool.step(Nanos::from_millis(80)).is_some());
    }
}
