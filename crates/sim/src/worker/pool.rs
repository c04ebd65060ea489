//! Several modelled workers and the order of what happens on them.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::num::NonZeroUsize;

use tollgate_arbiter::Nanos;

use super::WorkerModel;
use super::cache::PrefixCache;
use crate::trace::BLOCK_TOKENS;

/// A request on a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job<'a> {
    /// The caller's number for it; comes back in every [`Step`].
    pub request: u32,
    /// Prompt tokens.
    pub prompt_tokens: u32,
    /// Prompt tokens that it finds cached, if it has no `blocks`.
    pub cached_tokens: u32,
    /// The names of its prompt's blocks; empty where they are not known.
    pub blocks: &'a [u64],
    /// Tokens to generate; the first comes with the prefill.
    pub output_tokens: u32,
}

impl Job<'_> {
    fn kv_tokens(&self) -> u64 {
        u64::from(self.prompt_tokens) + u64::from(self.output_tokens)
    }
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

/// A request in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running<'a> {
    /// The request.
    pub job: Job<'a>,
    /// How many of its prompt tokens were found in the cache.
    pub found_tokens: u32,
}

impl Running<'_> {
    /// How many of its prompt tokens are computed.
    #[must_use]
    pub const fn new_tokens(&self) -> u32 {
        self.job.prompt_tokens.saturating_sub(self.found_tokens)
    }
}

/// A prefill that begins.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a, 'b> {
    /// The worker's number.
    pub worker: usize,
    /// When it ends.
    pub ends: Nanos,
    /// Its requests.
    pub requests: &'b [Running<'a>],
}

/// A fixed number of equal workers, numbered from 0.
///
/// The pool has no clock: [`Pool::next_at`] says when something happens next, and whoever drives it
/// moves the time there, takes every [`Pool::step`], hands over new jobs, and lets idle workers
/// begin with [`Pool::start`].
#[derive(Debug)]
pub struct Pool<'a> {
    model: WorkerModel,
    workers: Vec<Worker<'a>>,
    /// What is to come. Of one moment in the order in which it was scheduled.
    due: BinaryHeap<Reverse<Due>>,
    scheduled: u64,
    /// What has happened and was not taken yet.
    steps: VecDeque<Step>,
    /// Workers that may be able to begin a batch; may hold a worker twice.
    touched: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: Nanos,
    order: u64,
    worker: usize,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    PrefillDone,
    Complete { request: u32, kv_tokens: u64 },
}

#[derive(Debug)]
struct Worker<'a> {
    waiting: VecDeque<Job<'a>>,
    running: usize,
    kv_tokens: u64,
    prefill_ends: Nanos,
    /// The requests of the prefill under way.
    batch: Vec<Running<'a>>,
    cache: Option<PrefixCache>,
}

impl<'a> Pool<'a> {
    /// `workers` idle workers.
    #[must_use]
    pub fn new(model: WorkerModel, workers: usize) -> Self {
        let blocks = NonZeroUsize::new(usize::try_from(model.cache_blocks).unwrap_or(usize::MAX));
        let worker = || Worker {
            waiting: VecDeque::new(),
            running: 0,
            kv_tokens: 0,
            prefill_ends: Nanos(0),
            batch: Vec::new(),
            cache: blocks.map(PrefixCache::new),
        };
        Self {
            model,
            workers: std::iter::repeat_with(worker).take(workers).collect(),
            due: BinaryHeap::new(),
            scheduled: 0,
            steps: VecDeque::new(),
            touched: Vec::new(),
        }
    }

    /// When the next step happens; `None` while all workers are idle.
    #[must_use]
    pub fn next_at(&self) -> Option<Nanos> {
        self.due.peek().map(|Reverse(due)| due.at)
    }

    /// Takes the next step that has happened by `now`.
    pub fn step(&mut self, now: Nanos) -> Option<Step> {
        loop {
            if let Some(step) = self.steps.pop_front() {
                return Some(step);
            }
            if self.next_at()? > now {
                return None;
            }
            let Reverse(due) = self.due.pop()?;
            self.touched.push(due.worker);
            match due.what {
                What::PrefillDone => self.end_prefill(due.worker, due.at),
                What::Complete { request, kv_tokens } => {
                    let worker = &mut self.workers[due.worker];
                    worker.running -= 1;
                    worker.kv_tokens -= kv_tokens;
                    return Some(Step::Complete { request });
                }
            }
        }
    }

    /// Hands `job` to `worker`; it waits there until [`Pool::start`].
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn hand_over(&mut self, worker: usize, job: Job<'a>) {
        self.workers[worker].waiting.push_back(job);
        self.touched.push(worker);
    }

    /// How many prompt tokens a worker would find in its cache now.
    ///
    /// # Panics
    /// If there is no such worker.
    #[must_use]
    pub fn cached_tokens(&self, worker: usize, prompt_tokens: u32, blocks: &[u64]) -> u32 {
        let cache = &self.workers[worker].cache;
        found(
            prompt_tokens,
            cache.as_ref().map_or(0, |cache| cache.hits(blocks)),
        )
    }

    /// How many blocks of a worker's cache made room for others.
    ///
    /// # Panics
    /// If there is no such worker.
    #[must_use]
    pub fn evicted_blocks(&self, worker: usize) -> u64 {
        let cache = &self.workers[worker].cache;
        cache.as_ref().map_or(0, PrefixCache::evicted)
    }

    /// Lets every worker that is in no prefill and has work and room for it begin a batch.
    pub fn start(&mut self, now: Nanos, begun: &mut impl FnMut(Batch<'a, '_>)) {
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.dedup();
        for &worker in &touched {
            self.start_batch(worker, now, begun);
        }
        touched.clear();
        self.touched = touched;
    }

    fn start_batch(&mut self, index: usize, now: Nanos, begun: &mut impl FnMut(Batch<'a, '_>)) {
        let worker = &mut self.workers[index];
        if worker.prefill_ends > now {
            return;
        }
        let new_tokens = worker.take_batch(&self.model);
        if worker.batch.is_empty() {
            return;
        }
        let ends = now.saturating_add(self.model.prefill.of(new_tokens));
        worker.prefill_ends = ends;
        begun(Batch {
            worker: index,
            ends,
            requests: &worker.batch,
        });
        self.schedule(ends, index, What::PrefillDone);
    }

    /// The batch's requests have their first token; their prompts are cached, their ends to come.
    fn end_prefill(&mut self, index: usize, at: Nanos) {
        let worker = &mut self.workers[index];
        let mut batch = std::mem::take(&mut worker.batch);
        if let Some(cache) = &mut worker.cache {
            batch
                .iter()
                .for_each(|running| cache.insert(running.job.blocks));
        }
        for Running { job, .. } in batch.drain(..) {
            self.steps.push_back(Step::PrefillDone {
                request: job.request,
            });
            let last_token = at.saturating_add(self.model.decode_time(job.output_tokens));
            let complete = What::Complete {
                request: job.request,
                kv_tokens: job.kv_tokens(),
            };
            self.schedule(last_token, index, complete);
        }
        self.workers[index].batch = batch;
    }

    fn schedule(&mut self, at: Nanos, worker: usize, what: What) {
        self.due.push(Reverse(Due {
            at,
            order: self.scheduled,
            worker,
            what,
        }));
        self.scheduled += 1;
    }
}

impl Worker<'_> {
    /// Moves what there is room for into the batch; its new tokens.
    fn take_batch(&mut self, model: &WorkerModel) -> u64 {
        let sequences = usize::try_from(model.sequences.max(1)).unwrap_or(usize::MAX);
        let mut new_tokens: u64 = 0;
        while let Some(&job) = self.waiting.front() {
            let kv_tokens = self.kv_tokens.saturating_add(job.kv_tokens());
            let has_room = model.kv_tokens.is_none_or(|room| kv_tokens <= room);
            if self.running == sequences || !has_room && self.running > 0 {
                break;
            }
            let found_tokens = match &mut self.cache {
                _ if job.blocks.is_empty() => job.cached_tokens.min(job.prompt_tokens),
                Some(cache) => found(job.prompt_tokens, cache.use_hits(job.blocks)),
                None => 0,
            };
            let running = Running { job, found_tokens };
            let sum = new_tokens.saturating_add(running.new_tokens().into());
            if sum > model.max_batched_tokens && !self.batch.is_empty() {
                break;
            }
            new_tokens = sum;
            self.running += 1;
            self.kv_tokens = kv_tokens;
            self.batch.push(running);
            self.waiting.pop_front();
        }
        new_tokens
    }
}

/// Tokens of so many blocks from the beginning of a prompt whose last token is not cached.
fn found(prompt_tokens: u32, blocks: usize) -> u32 {
    let tokens = u64::from(BLOCK_TOKENS).saturating_mul(blocks as u64);
    let most = prompt_tokens.saturating_sub(1);
    u32::try_from(tokens).map_or(most, |tokens| tokens.min(most))
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

    fn job(request: u32, output_tokens: u32) -> Job<'static> {
        Job {
            request,
            prompt_tokens: 100,
            cached_tokens: 0,
            blocks: &[],
            output_tokens,
        }
    }

    /// Runs until nothing happens any more: (milliseconds, step).
    fn run(pool: &mut Pool<'_>) -> Vec<(u64, Step)> {
        let mut seen = Vec::new();
        pool.start(Nanos(0), &mut |_| {});
        while let Some(now) = pool.next_at() {
            while let Some(step) = pool.step(now) {
                seen.push((now.0 / 1_000_000, step));
            }
            pool.start(now, &mut |_| {});
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
        pool.start(Nanos(0), &mut |_| {});
        assert_eq!(pool.next_at(), Some(Nanos::from_millis(80)));
        assert_eq!(pool.step(Nanos::from_millis(79)), None);
        assert!(pool.step(Nanos::from_millis(80)).is_some());
    }

    /// A token a millisecond, and nothing else.
    fn by_token(max_batched_tokens: u64) -> WorkerModel {
        let prefill = PrefillTime {
            per_token_squared_as: 0,
            per_token_as: 1_000_000_000_000_000,
            base_as: 0,
        };
        WorkerModel {
            prefill,
            max_batched_tokens,
            ..model(16)
        }
    }

    fn ends(pool: &mut Pool<'_>) -> Vec<(u64, u32)> {
        let complete = |(at, step)| match step {
            Step::Complete { request } => Some((at, request)),
            Step::PrefillDone { .. } => None,
        };
        run(pool).into_iter().filter_map(complete).collect()
    }

    #[test]
    fn a_batch_ends_before_it_has_too_many_tokens() {
        let mut pool = Pool::new(by_token(250), 1);
        for request in 0..3 {
            pool.hand_over(0, job(request, 1));
        }
        let huge = Job {
            prompt_tokens: 1_000,
            ..job(3, 1)
        };
        pool.hand_over(0, huge);
        // Two of 100 together, the third alone, since the fourth is too much beside it.
        assert_eq!(ends(&mut pool), [(200, 0), (200, 1), (300, 2), (1_300, 3)]);
    }

    #[test]
    fn sequences_wait_for_room_for_their_tokens() {
        let limited = WorkerModel {
            kv_tokens: Some(250),
            ..model(16)
        };
        let mut pool = Pool::new(limited, 1);
        pool.hand_over(0, job(0, 11)); // 111 tokens, to 280 ms.
        pool.hand_over(0, job(1, 2)); // 102 tokens, to 100 ms.
        pool.hand_over(0, job(2, 1)); // 101 tokens: fits when the second is gone.
        let huge = Job {
            prompt_tokens: 1_000,
            ..job(3, 1)
        };
        pool.hand_over(0, huge); // Alone.
        assert_eq!(ends(&mut pool), [(100, 1), (180, 2), (280, 0), (360, 3)]);
    }

    #[test]
    fn what_a_prompt_begins_with_is_computed_once() {
        let mut pool = Pool::new(by_token(1 << 20), 2);
        let prompt = |request, blocks: &'static [u64]| Job {
            prompt_tokens: 1_536,
            blocks,
            ..job(request, 1)
        };
        assert_eq!(pool.cached_tokens(0, 1_536, &[1, 2, 3]), 0);
        pool.hand_over(0, prompt(0, &[1, 2, 3]));
        pool.hand_over(0, prompt(1, &[1, 2, 3])); // In one batch: neither finds the other.
        assert_eq!(ends(&mut pool), [(3_072, 0), (3_072, 1)]);
        assert_eq!(pool.cached_tokens(0, 1_536, &[1, 2, 9]), 1_024);
        assert_eq!(
            pool.cached_tokens(0, 1_536, &[1, 2, 3]),
            1_535,
            "not the last token"
        );
        assert_eq!(
            pool.cached_tokens(1, 1_536, &[1, 2, 3]),
            0,
            "of another worker"
        );
        pool.hand_over(0, prompt(2, &[1, 2, 9]));
        let mut began = None;
        pool.start(Nanos(0), &mut |batch| {
            began = Some(batch.requests[0].new_tokens())
        });
        assert_eq!(began, None, "the clock of the last batch is ahead");
        pool.touched.push(0);
        pool.start(Nanos::from_millis(4_000), &mut |batch| {
            began = Some(batch.requests[0].new_tokens())
        });
        assert_eq!(began, Some(512));
    }
}
