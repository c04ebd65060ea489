//! Permits: what a task sees of the engine. By hand first, one poll and one turn at a time; then on
//! runtimes; then everything at once.
#![expect(
    clippy::disallowed_methods,
    reason = "tests have threads of their own, and wait"
)]

mod close;
mod common;
mod permit;
mod requeue;
mod room;
mod runtimes;
mod stress;
