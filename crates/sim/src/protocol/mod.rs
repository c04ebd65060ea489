//! The scenario protocol (S13): one operation a line in, one event a line out, on a virtual clock.
//!
//! An [`Op`] is read by [`Op::parse`], which is strict: whatever is not exactly an operation is an
//! [`OpError`] that names the field, what was found and what would be right. A [`Machine`] is
//! anything that follows the rules; it turns operations into [`Event`]s and shows its whole
//! [`State`]. A [`Session`] joins the two for a run: it numbers the lines, refuses repeated request
//! ids, loads the files that `reload` names, and reports what it could not read as
//! [`Event::Invalid`].
//!
//! Two machines that follow the same rules give equal events and equal states, field by field, for
//! the same operations; only the order inside a run of consecutive `failed`, or of consecutive
//! `expired`, events is free ([`settle_order`]).
//!
//! # Examples
//!
//! ```
//! use tollgate_sim::protocol::{Event, Op};
//!
//! let op = Op::parse(r#"{"op": "load", "worker": [7, 0], "tokens": 1536}"#)?;
//! assert_eq!(op.to_json(), r#"{"op":"load","worker":[7,0],"tokens":1536}"#);
//!
//! let dry = Event::Dry { now_us: 12, waiting: 3 };
//! assert_eq!(dry.to_json(), r#"{"event":"dry","now_us":12,"waiting":3}"#);
//! # Ok::<(), tollgate_sim::protocol::OpError>(())
//! ```

mod event;
mod explanation;
mod journal;
mod op;
mod op_error;
mod parse;
mod parse_journal;
mod session;
mod state;

pub use event::{Event, FailReason, Lane, LimitKind, Subject, settle_order};
pub use explanation::{ClassTrace, Explanation, HeadTrace, WaitsFor};
pub use journal::{Amendment, Decided, Intake, JOURNAL_VERSION, JournalOp, PolicyText, Restore};
pub use op::{Endpoint, HINTS_MAX, Hint, Op, OpName, RANKS_MAX, Submission, WorkerRecord};
pub use op_error::OpError;
pub use session::Session;
pub use state::{
    ClassState, EffectiveLimits, EndpointState, LaneState, OutcomeCounts, Phase, RejectedCounts,
    State,
};

use tollgate_policy::Profile;

/// Something that follows the rules on a virtual clock.
///
/// Time starts at 0 and passes only with [`Op::Advance`]. Inside, it is counted in nanoseconds,
/// saturating (S11.1); events print whole microseconds.
pub trait Machine {
    /// Carries out one operation and appends the events that it causes, in order. [`Op::State`]
    /// appends [`Event::State`]. An operation that is beyond a capacity of the machine changes
    /// nothing and appends [`Event::Invalid`] with line 0; the [`Session`] puts the number in.
    ///
    /// # Panics
    ///
    /// On an [`Op::Reload`], which names a file: the caller loads it and calls
    /// [`reload`](Self::reload). A machine may also panic on a [`Submission`] whose id was submitted
    /// before or that [`Op::parse`] would not let through.
    fn apply(&mut self, op: &Op, out: &mut Vec<Event>);

    /// Takes over a new profile between two selections (S3.7) and appends [`Event::Reloaded`].
    fn reload(&mut self, profile: &Profile, out: &mut Vec<Event>);

    /// Sets how many more dispatches may go to the workers of an egress group; `u32::MAX` is without
    /// bound. At 0 they are busy for every class (S5.1). How many groups there are, and so which
    /// workers are meant, is settled when a machine is built; no operation of a scenario sets a room.
    ///
    /// # Panics
    ///
    /// If there is no such group.
    fn set_egress_room(&mut self, group: u16, room: u32);

    /// Whether classes that vanished keep their places when they are empty, for requests that are still
    /// under way to them (S3.7).
    fn hold_drained(&mut self, hold: bool);

    /// The present time in microseconds, rounded down.
    fn now_us(&self) -> u64;

    /// Everything that can be seen from outside.
    fn state(&self) -> State;
}
