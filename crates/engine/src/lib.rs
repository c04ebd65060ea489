//! Which waiting request goes next, and to which worker: the engine that a router process embeds.

pub mod placement;
pub mod stats;
mod sync;
