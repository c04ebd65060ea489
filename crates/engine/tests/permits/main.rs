//! Permits: what a task sees of the engine. By hand first, one poll and one turn at a time; then on
//! runtimes; then everything at once.

mod close;
mod common;
mod permit;
mod requeue;
mod room;
mod runtimes;
mod stress;
