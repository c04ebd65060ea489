//! Tasks of an async runtime that ask for a worker, hold it, and let it go: by permits of the engine, or
//! from an actor, a task that owns the very arbiter and is asked by messages.

mod actor;
mod permits;
mod raw;

use std::time::Duration;

pub use actor::by_actor;
pub use permits::by_permits;
pub use raw::by_shards;

use tollgate::Idle;
use tollgate::policy::OrderPolicy;
use tollgate_harness::pipeline::{Asks, Gate, Rig};

/// How many lives, by how many tasks, on how many threads of the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Requests in all.
    pub lives: u64,
    /// Tasks, each with one request at a time.
    pub tasks: usize,
    /// Threads of the runtime.
    pub threads: usize,
    /// Whether each request names its endpoint, or leaves the choice.
    pub is_pinned: bool,
}

impl Load {
    /// What each task does.
    #[must_use]
    pub const fn lives_each(&self) -> u64 {
        self.lives / self.tasks as u64
    }

    /// How many lives end in a second if all take `span`.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
    pub fn rate(&self, span: Duration) -> f64 {
        (self.lives_each() * self.tasks as u64) as f64 / span.as_secs_f64()
    }

    /// A runtime of so many threads.
    ///
    /// # Panics
    /// If a thread cannot be had.
    #[must_use]
    pub fn runtime(&self) -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(self.threads)
            .build()
            .expect("threads are there")
    }

    fn asks(&self) -> Asks {
        if self.is_pinned {
            Asks::default()
        } else {
            Asks::default().unpinned()
        }
    }
}

/// The engine, and the policy of both.
fn rig(ingress_shards: usize) -> Rig {
    Rig {
        order: OrderPolicy::Fcfs,
        gate: Gate::Open,
        ingress_shards,
        idle: Idle::default(),
    }
}
