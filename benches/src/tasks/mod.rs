//! Tasks of an async runtime that ask for a worker, hold it, and let it go: by permits of the engine, or
//! from an actor, a task that owns the very arbiter and is asked by messages.

mod actor;
mod permits;
mod raw;

use std::time::Duration;

pub use actor::by_actor;
pub use permits::by_permits;
pub use raw::by_shards;

use crate::pipeline::{Gate, Rig};
use tollgate::Idle;
use tollgate::policy::OrderPolicy;

/// How many lives, by how many tasks, on how many threads of the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Requests in all.
    pub lives: u64,
    /// Tasks, each with one request at a time.
    pub tasks: usize,
    /// Threads of the runtime.
    pub threads: usize,
}

impl Load {
    /// What each task does.
    fn lives_each(&self) -> u64 {
        self.lives / self.tasks as u64
    }

    /// How many lives end in a second if all take `span`.
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
    fn rate(&self, span: Duration) -> f64 {
        (self.lives_each() * self.tasks as u64) as f64 / span.as_secs_f64()
    }

    fn runtime(&self) -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(self.threads)
            .build()
            .expect("threads are there")
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
