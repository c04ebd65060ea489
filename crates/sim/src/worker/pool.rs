//! Several modelled workers and the order of what happens on them.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::num::NonZeroUsize;

use tollgate_arbiter::Nanos;

use super::WorkerModel;
use super::cache::PrefixCache;
use crate::trace::BLOCK_TOKENS;

/// A request on a worker. `B` holds the names of its prompt's blocks: a slice of a trace, or blocks of
/// its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job<B> {
    /// The caller's number for it; comes back in every [`Step`]. No two jobs that are in a pool at one
    /// time have the same.
    pub request: u32,
    /// Prompt tokens.
    pub prompt_tokens: u32,
    /// Prompt tokens that it finds cached, if it has no `blocks`.
    pub cached_tokens: u32,
    /// The names of its prompt's blocks; empty where they are not known.
    pub blocks: B,
    /// Tokens to generate; the first comes with the prefill.
    pub output_tokens: u32,
}

impl<B> Job<B> {
    fn kv_tokens(&self) -> u64 {
        u64::from(self.prompt_tokens) + u64::from(self.output_tokens)
    }

    const fn new_tokens(&self, found_tokens: u32) -> u32 {
        self.prompt_tokens.saturating_sub(found_tokens)
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
pub struct Running<B> {
    /// The request.
    pub job: Job<B>,
    /// How many of its prompt tokens were found in the cache.
    pub found_tokens: u32,
}

impl<B> Running<B> {
    /// How many of its prompt tokens are computed.
    #[must_use]
    pub const fn new_tokens(&self) -> u32 {
        self.job.new_tokens(self.found_tokens)
    }
}

/// A prefill that begins.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'b, B> {
    /// The worker's number.
    pub worker: usize,
    /// When it ends.
    pub ends: Nanos,
    /// Its requests.
    pub requests: &'b [Running<B>],
}

/// A fixed number of equal workers, numbered from 0.
///
/// The pool has no clock: [`Pool::next_at`] says when something happens next, and whoever drives it
/// moves the time there, takes every [`Pool::step`], hands over new jobs, and lets idle workers
/// begin with [`Pool::start`].
#[derive(Debug)]
pub struct Pool<B> {
    model: WorkerModel,
    workers: Vec<Worker<B>>,
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
struct Worker<B> {
    waiting: VecDeque<Job<B>>,
    running: usize,
    kv_tokens: u64,
    prefill_ends: Nanos,
    /// The requests of the prefill under way.
    batch: Vec<Running<B>>,
    cache: Option<PrefixCache>,
}

impl<B: AsRef<[u64]>> Pool<B> {
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
                    self.workers[due.worker].free(kv_tokens);
                    return Some(Step::Complete { request });
                }
            }
        }
    }

    /// Hands `job` to `worker`; it waits there until [`Pool::start`].
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn hand_over(&mut self, worker: usize, job: Job<B>) {
        self.workers[worker].waiting.push_back(job);
        self.touched.push(worker);
    }

    /// Takes a job out of the pool, wherever it is; whether it was there.
    ///
    /// One that waits is gone. One that runs frees its sequence and its tokens at once, for whoever
    /// [`Pool::start`] lets in next. If it is in a prefill, that takes as long as it would have taken, and
    /// the job's blocks are not cached. No step of the job is reported any more.
    ///
    /// # Complexity
    /// Linear in the jobs of the pool.
    pub fn cancel(&mut self, request: u32) -> bool {
        let mut workers = self.workers.iter_mut();
        if let Some(worker) = workers.position(|worker| worker.withdraw(request)) {
            self.touched.push(worker);
            return true;
        }
        let mut decoding = None;
        self.due.retain(|Reverse(due)| match due.what {
            What::Complete {
                request: other,
                kv_tokens,
            } if other == request => {
                decoding = Some((due.worker, kv_tokens));
                false
            }
            _ => true,
        });
        let Some((worker, kv_tokens)) = decoding else {
            return false;
        };
        self.workers[worker].free(kv_tokens);
        self.touched.push(worker);
        self.steps
            .retain(|step| *step != Step::PrefillDone { request });
        true
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
    pub fn start(&mut self, now: Nanos, begun: &mut impl FnMut(Batch<'_, B>)) {
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.dedup();
        for &worker in &touched {
            self.start_batch(worker, now, begun);
        }
        touched.clear();
        self.touched = touched;
    }

    fn start_batch(&mut self, index: usize, now: Nanos, begun: &mut impl FnMut(Batch<'_, B>)) {
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
                .for_each(|running| cache.insert(running.job.blocks.as_ref()));
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

impl<B: AsRef<[u64]>> Worker<B> {
    /// Moves what there is room for into the batch; its new tokens.
    fn take_batch(&mut self, model: &WorkerModel) -> u64 {
        let sequences = usize::try_from(model.sequences.max(1)).unwrap_or(usize::MAX);
        let mut new_tokens: u64 = 0;
        while let Some(job) = self.waiting.front() {
            let kv_tokens = self.kv_tokens.saturating_add(job.kv_tokens());
            let has_room = model.kv_tokens.is_none_or(|room| kv_tokens <= room);
            if self.running == sequences || !has_room && self.running > 0 {
                break;
            }
            let blocks = job.blocks.as_ref();
            let found_tokens = match &mut self.cache {
                _ if blocks.is_empty() => job.cached_tokens.min(job.prompt_tokens),
                Some(cache) => found(job.prompt_tokens, cache.use_hits(blocks)),
                None => 0,
            };
            let sum = new_tokens.saturating_add(job.new_tokens(found_tokens).into());
            if sum > model.max_batched_tokens && !self.batch.is_empty() {
                break;
            }
            let job = self.waiting.pop_front().expect("it was looked at");
            new_tokens = sum;
            self.running += 1;
            self.kv_tokens = kv_tokens;
            self.batch.push(Running { job, found_tokens });
        }
        new_tokens
    }
}

impl<B> Worker<B> {
    /// Takes a job out that waits or is in the prefill under way; whether there was one.
    fn withdraw(&mut self, request: u32) -> bool {
        let waits = |job: &Job<B>| job.request == request;
        if let Some(place) = self.waiting.iter().position(waits) {
            self.waiting.remove(place);
            return true;
        }
        let runs = |running: &Running<B>| running.job.request == request;
        let Some(place) = self.batch.iter().position(runs) else {
            return false;
        };
        let Running { job, .. } = self.batch.remove(place);
        self.free(job.kv_tokens());
        true
    }

    /// A sequence of so many tokens is over.
    fn free(&mut self, kv_tokens: u64) {
        self.running -= 1;
        self.kv_tokens -= kv_tokens;
    }
}

/// Tokens of so many blocks from the beginning of a prompt whose last token is not cached.
fn found(prompt_tokens: u32, blocks: usize) -> u32 {
    let tokens = u64::from(BLOCK_TOKENS).saturating_mul(blocks as u64);
    let most = prompt_tokens.saturating_sub(1);
    u32::try_from(tokens).map_or(most, |tokens| tokens.min(most))
}

#[cfg(test)]
mod tests;
