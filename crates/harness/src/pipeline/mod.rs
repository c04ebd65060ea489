//! What the benchmarks of the whole engine share: an engine of 8 classes and 256 endpoints, the
//! requests that it is given, and a thread's worth of submitting and receiving.
//!
//! A *life* of a request is submission, dispatch with charge and booking, hand-out by the egress shard,
//! `prefill_done`, `complete`, and its slot's way back. A *one-shot* life leaves `prefill_done` out:
//! `complete` releases everything.

mod by_hand;
mod flow;
mod rig;

pub use by_hand::Parts;
pub use flow::{BATCH, Flow, Receiver, Submitter};
pub use rig::{Asks, CoreLoad, ENDPOINTS, Gate, Rig, SLOTS, workers};
