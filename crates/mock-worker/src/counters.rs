//! What a worker counts.

use std::sync::{Arc, Mutex, PoisonError};

/// What became of the inference requests of a worker since it started.
///
/// At any moment `received` is the sum of `waiting`, `running`, `completed`, `cancelled` and `failed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counters {
    /// Inference requests that were read to their end, whatever came of them.
    pub received: u64,
    /// Those that wait for a sequence now.
    pub waiting: u64,
    /// Those that have a sequence now, in prefill or decode.
    pub running: u64,
    /// Those whose last token came out.
    pub completed: u64,
    /// Those whose client left before that.
    pub cancelled: u64,
    /// Those that were answered with an error, or broken off by a fault.
    pub failed: u64,
    /// Prompt tokens of the requests that began to run.
    pub prompt_tokens: u64,
    /// How many of them were found in the prefix cache.
    pub cached_tokens: u64,
    /// Output tokens of the requests that are over, cancelled ones up to their end.
    pub output_tokens: u64,
    /// The most that ran at one time.
    pub running_max: u64,
}

/// The counters as everybody sees them who writes or reads them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Board(Arc<Mutex<Counters>>);

impl Board {
    pub(crate) fn read(&self) -> Counters {
        let mut copy = Counters::default();
        self.update(|counters| copy = *counters);
        copy
    }

    /// Changes several counters at one moment.
    pub(crate) fn update(&self, change: impl FnOnce(&mut Counters)) {
        // Every change is whole before anything can panic.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// A request that gets no job: it is answered with an error.
    pub(crate) fn refuse(&self) {
        self.update(|counters| {
            counters.received += 1;
            counters.failed += 1;
        });
    }
}
