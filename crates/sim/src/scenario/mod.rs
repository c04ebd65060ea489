//! Scenarios on the real arbiter: the scenario protocol's operations in, its events out.
//!
//! An [`ArbiterMachine`] puts the arbiter behind the protocol's [`Machine`](crate::protocol::Machine)
//! interface: request ids become tickets, the virtual clock is moved by `advance`, and what the
//! arbiter reports becomes the protocol's events. [`Runner`] feeds it a file or a stream.
//!
//! With [`ArbiterMachine::explaining`], each selection is followed by an `explain` event that says
//! what every class was worth, what the selection did with it, and what each waiting head waits for.
//!
//! A [`JournalPlayer`] plays the journal of an engine: the machine begins where the capture began, and
//! what it decides is compared with what the journal says.

mod explain;
mod journal;
mod machine;
mod names;
mod player;
mod runner;
mod select_trace;
mod submit;
#[cfg(test)]
mod tests;
mod translate;
mod wait_trace;

pub(crate) use journal::parse_ticket;
pub use machine::{ArbiterMachine, CLASSES_MAX, MachineOptions};
pub use player::{JOURNAL_LINE_BYTES_MAX, JournalPlayer, Outcome, Replayed};
pub use runner::{LINE_BYTES_MAX, RunError, Runner, Verdict};
pub(crate) use translate::{fail_reason, hint_of, limit_kind_of};
