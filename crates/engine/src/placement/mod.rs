//! Which core a thread runs on: which cores exist, which may be used, and pinning that is verified.
//!
//! [`Machine::read`] looks at the machine, [`Placement`] says where the engine's threads shall run,
//! [`Placement::check`] and [`Placement::warnings`] compare the two before a thread starts, and
//! [`pin_current_thread`] carries it out on the thread itself.
//!
//! Invariants:
//! - I1. A pin only narrows: a thread is never moved to a core that its mask excludes, although the
//!   kernel would often permit it. Whoever started the process with a mask meant it. The one
//!   exception are isolated cores where nobody set a mask; see [`Machine::pinnable`].
//! - I2. A pin that is reported as done was read back from the kernel: the mask is that core alone,
//!   and the thread runs there. A pin that failed leaves the thread on its former mask.
//! - I3. What the system does not tell is unknown, and never an error by itself.
//!
//! A thread inherits the mask of the thread that started it. By I1 a pinned thread is therefore no
//! place to start an engine from: start it first, then pin the thread that did.
//!
//! Absent on purpose: choosing cores. Which cores are free of other work is known to the operator
//! alone, so that nothing is pinned that was not asked for.

mod cores;
mod finding;
mod machine;
mod pin;
mod plan;
mod system;

pub use cores::{CoreId, CoreListError, CoreSet};
pub use finding::{PlacementError, PlacementWarning};
pub use machine::Machine;
pub use pin::{PinError, Pinning, current_core, pin_current_thread};
pub use plan::{IfUnpinnable, Placement, Role, Roles};
