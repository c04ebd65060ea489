//! The requests in the model: what is told about them, and what is counted.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::oneshot;
use tollgate_arbiter::Nanos;
use tollgate_sim::worker::Batch;

use crate::counters::Board;

/// What the prefill of a request came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefill {
    /// The model's time at its end.
    pub(crate) done: Nanos,
    /// Prompt tokens that were in the cache.
    pub(crate) cached_tokens: u32,
}

/// How a request ended that the model did not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Its last token was sent.
    Completed,
    /// Its client left.
    Cancelled,
    /// A fault broke it off.
    Failed,
}

/// Knows every request that is in the model.
#[derive(Debug)]
pub(crate) struct Desk {
    requests: HashMap<u32, Entry>,
    board: Board,
}

#[derive(Debug)]
struct Entry {
    output_tokens: u32,
    cached_tokens: u32,
    progress: Progress,
    /// Told once.
    prefill: Option<oneshot::Sender<Prefill>>,
    last_token: oneshot::Sender<()>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Waiting,
    Prefill,
    /// Since the first token.
    Decode(Nanos),
}

impl Desk {
    pub(crate) fn new(board: Board) -> Self {
        Self {
            requests: HashMap::new(),
            board,
        }
    }

    /// A request that waits; it was counted when it was handed over.
    pub(crate) fn enter(
        &mut self,
        request: u32,
        output_tokens: u32,
        prefill: oneshot::Sender<Prefill>,
        last_token: oneshot::Sender<()>,
    ) {
        let entry = Entry {
            output_tokens,
            cached_tokens: 0,
            progress: Progress::Waiting,
            prefill: Some(prefill),
            last_token,
        };
        self.requests.insert(request, entry);
    }

    /// A prefill begins.
    pub(crate) fn begin(&mut self, batch: &Batch<'_, Arc<[u64]>>) {
        let (mut prompt_tokens, mut cached_tokens) = (0, 0);
        for running in batch.requests {
            prompt_tokens += u64::from(running.job.prompt_tokens);
            cached_tokens += u64::from(running.found_tokens);
            let entry = self.requests.get_mut(&running.job.request);
            let entry = entry.expect("what the model runs was entered");
            entry.cached_tokens = running.found_tokens;
            entry.progress = Progress::Prefill;
        }
        let begun = batch.requests.len() as u64;
        self.board.update(|counters| {
            counters.waiting -= begun;
            counters.running += begun;
            counters.running_max = counters.running_max.max(counters.running);
            counters.prompt_tokens += prompt_tokens;
            counters.cached_tokens += cached_tokens;
        });
    }

    /// A request's first token is out.
    pub(crate) fn prefill_done(&mut self, request: u32, done: Nanos) {
        let entry = self.requests.get_mut(&request);
        let entry = entry.expect("what the model runs was entered");
        entry.progress = Progress::Decode(done);
        let prefill = Prefill {
            done,
            cached_tokens: entry.cached_tokens,
        };
        if let Some(told) = entry.prefill.take() {
            // A handler that is gone says so by a command of its own.
            let _ = told.send(prefill);
        }
    }

    /// A request's last token is out.
    pub(crate) fn complete(&mut self, request: u32) {
        let entry = self.requests.remove(&request);
        let entry = entry.expect("what the model runs was entered");
        self.board.update(|counters| {
            counters.running -= 1;
            counters.completed += 1;
            counters.output_tokens += u64::from(entry.output_tokens);
        });
        let _ = entry.last_token.send(());
    }

    /// A request was taken out of the model.
    pub(crate) fn end(&mut self, request: u32, fate: Fate, now: Nanos, decode_step: Nanos) {
        let entry = self.requests.remove(&request);
        let entry = entry.expect("what was in the model was entered");
        let output_tokens = match (fate, entry.progress) {
            (Fate::Completed, _) => u64::from(entry.output_tokens),
            (_, Progress::Waiting | Progress::Prefill) => 0,
            (_, Progress::Decode(since)) => {
                let steps = now.saturating_sub(since).0.checked_div(decode_step.0);
                let tokens = steps.map_or(u64::MAX, |steps| steps.saturating_add(1));
                tokens.min(entry.output_tokens.into())
            }
        };
        self.board.update(|counters| {
            match entry.progress {
                Progress::Waiting => counters.waiting -= 1,
                Progress::Prefill | Progress::Decode(_) => counters.running -= 1,
            }
            counters.output_tokens += output_tokens;
            match fate {
                Fate::Completed => counters.completed += 1,
                Fate::Cancelled => counters.cancelled += 1,
                Fate::Failed => counters.failed += 1,
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use tollgate_sim::worker::{Job, Running};

    use super::*;

    const STEP: Nanos = Nanos::from_millis(10);

    fn desk_with(request: u32) -> (Desk, Board, oneshot::Receiver<Prefill>) {
        let board = Board::default();
        board.update(|counters| {
            counters.received += 1;
            counters.waiting += 1;
        });
        let mut desk = Desk::new(board.clone());
        let (prefill, told) = oneshot::channel();
        desk.enter(request, 8, prefill, oneshot::channel().0);
        (desk, board, told)
    }

    fn begin(desk: &mut Desk, request: u32) {
        let job = Job {
            request,
            prompt_tokens: 600,
            cached_tokens: 0,
            blocks: Arc::from([7]),
            output_tokens: 8,
        };
        desk.begin(&Batch {
            worker: 0,
            ends: Nanos(0),
            requests: &[Running {
                job,
                found_tokens: 512,
            }],
        });
    }

    #[test]
    fn a_request_is_counted_at_one_place_at_a_time() {
        let (mut desk, board, mut told) = desk_with(3);
        begin(&mut desk, 3);
        let running = board.read();
        assert_eq!((running.waiting, running.running), (0, 1));
        assert_eq!((running.prompt_tokens, running.cached_tokens), (600, 512));
        desk.prefill_done(3, Nanos(5));
        let expected = Prefill {
            done: Nanos(5),
            cached_tokens: 512,
        };
        assert_eq!(told.try_recv(), Ok(expected));
        desk.complete(3);
        let over = board.read();
        assert_eq!((over.running, over.completed, over.running_max), (0, 1, 1));
        assert_eq!(over.output_tokens, 8);
    }

    #[test]
    fn a_request_that_ends_early_counts_the_tokens_that_were_out() {
        // Milliseconds after the first token, and tokens.
        for (after, tokens) in [(0, 1), (9, 1), (10, 2), (25, 3), (1_000, 8)] {
            let (mut desk, board, _told) = desk_with(0);
            begin(&mut desk, 0);
            desk.prefill_done(0, Nanos(5));
            let now = Nanos::from_millis(after).saturating_add(Nanos(5));
            desk.end(0, Fate::Cancelled, now, STEP);
            let counters = board.read();
            assert_eq!(counters.output_tokens, tokens, "{after} ms");
            assert_eq!((counters.running, counters.cancelled), (0, 1));
        }
    }

    #[test]
    fn a_request_that_ends_before_its_first_token_has_none() {
        let (mut desk, board, _told) = desk_with(0);
        desk.end(0, Fate::Failed, Nanos::from_millis(500), STEP);
        let counters = board.read();
        assert_eq!((counters.waiting, counters.failed), (0, 1));
        assert_eq!(counters.output_tokens, 0);
    }
}
