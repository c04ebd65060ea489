//! The scheduling core of Tollgate: which waiting request goes next, and to which worker.
//!
//! An [`Arbiter`] is a value without thread, clock or I/O. It owns the waiting requests in lanes (a
//! shared lane and an exact lane per pinned endpoint, for each policy class), keeps the gates in
//! front of them current by events, shares service between the classes by Deficit Round Robin over
//! uncached prompt tokens, and books what it dispatches. Rule numbers (S6.4) are those of the
//! project's `SEMANTICS` document.
//!
//! # Complexity
//! With C classes, L lanes in a class, n entries in a lane, E endpoints, in the worst case:
//!
//! | call | cost |
//! |---|---|
//! | submit | O(log n + log L); + E/64 if constrained |
//! | select | O(C + log L + log n); + E/64 when a constrained head changes or is placed |
//! | load, prefill done, complete | O(1) inside a band, else O(C) + O(log L) per lane that flips |
//! | cancel, an expiry | O(log n + log L) |
//! | worker events, reload | what they affect |
//!
//! # Allocation
//! Everything is allocated by [`Arbiter::build`]. Calls that allocate later say so.

mod arbiter;
mod bits;
mod capacity;
mod checkpoint;
mod class;
mod deadline;
mod drr;
mod endpoints;
mod event;
mod extension;
mod forest;
mod gate;
mod group;
mod ids;
mod lane_runs;
mod load_tree;
mod order;
mod quads;
mod refusal;
mod request;
pub mod selector;
mod slab;
mod slot_pool;
mod state;
mod taints;
mod trees;
mod worker;

pub use arbiter::{Arbiter, Options, Reloaded, TurnBudget, TurnReport};
pub use capacity::*;
pub use checkpoint::*;
pub use event::*;
pub use ids::*;
pub use refusal::*;
pub use request::*;
pub use slot_pool::SlotPool;
pub use state::*;
pub use worker::WorkerRecord;
