//! Requests that come at their own pace, and where each of them spends its time.
//!
//! A [`Feeder`] is a thread's worth of submitting and receiving: it looks what is due, submits it, takes
//! what comes out, and releases it. It does not care who turns the core: the engine's own thread, a
//! [`Turner`] of this crate that sees every turn, or a test with a clock that stands still.
//!
//! The rooms of a request's way, by time stamps on one clock:
//!
//! | Room | From | To |
//! |---|---|---|
//! | `late` | the scheduled arrival | the first attempt to submit it |
//! | `doorway` | that attempt | the doorway's stamp: batches before it, and further attempts where there was no room |
//! | `intake` | the doorway's stamp | the turn that took it in (seen by a [`Turner`] only) |
//! | `wait` | the turn that took it in | the turn that dispatched it |
//! | `doorway_to_dispatch` | both of these where nobody sees the turns | |
//! | `ring` | the turn that dispatched it | the moment when the egress shard handed it out |
//! | `end_to_end` | the scheduled arrival | that moment |
//!
//! A request's rooms add up to its `end_to_end`.

mod arrivals;
mod feeder;
mod recorder;
mod turner;

pub use arrivals::{Arrivals, AtOnce, Closed, Random};
pub use feeder::{FOREIGN, Feed, Feeder, Outside, Quiet};
pub use recorder::{Rooms, Watch};
pub use turner::{Intakes, Turner};
