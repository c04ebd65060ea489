//! Which waiting request goes next, and to which worker: the engine that a router process embeds.
//!
//! An [`Engine`] is one arbiter thread with lock-free rings around it. Threads of the embedder submit
//! requests through [`IngressShard`]s and receive dispatches and outcomes through [`EgressShard`]s;
//! what is dispatched is charged and booked, and stays so until the embedder says that its prefill is
//! done and that it is complete.
//!
//! ```
//! use tollgate::{Delivery, Engine, Request, Worker};
//! use tollgate::policy::Profile;
//!
//! let built = Engine::builder(Profile::synthetic(None)).worker(Worker::new(7)).build::<u64>()?;
//! let (mut ingress, mut egress) = (built.ingress, built.egress);
//! for id in 0..3 {
//!     ingress[0].try_submit(Request::new(512, id)).expect("there is room");
//! }
//! for id in 0..3 {
//!     let Delivery::Dispatch(dispatch) = egress[0].recv()? else { panic!("the worker is free") };
//!     assert_eq!(dispatch.payload, id);
//!     egress[0].prefill_done(dispatch.receipt());
//!     egress[0].complete(dispatch.receipt());
//! }
//! built.engine.stop()?;
//! built.engine.join()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Who owns what
//! | value | is | used by |
//! |---|---|---|
//! | [`Engine`] | the owner of the arbiter's thread; dropping it stops | one owner |
//! | [`IngressShard`] | `Send` | one thread at a time |
//! | [`EgressShard`] | `Send` | one thread at a time |
//! | [`Control`], [`Releases`], [`Stats`](stats::Stats), [`Handles`] | `Clone + Send + Sync` | any thread |
//! | [`Core`] | the arbiters as a value | whoever turns it by hand |
//!
//! Handles may be dropped in any order. A payload moves from the submission to its dispatch or
//! outcome; it is handed out or dropped exactly once, and never dropped on the arbiter's thread.
//!
//! # Promises
//! - Every accepted submission has exactly one outcome (S8), or its payload comes back through
//!   [`IngressShard::take_back`] when the engine closed before it was taken in.
//! - Nothing that releases may fail. No call of a shard waits for the arbiter, but `recv` and its
//!   relatives, and, in the moment in which the engine closes, a submission or
//!   [`take_back`](IngressShard::take_back).
//! - Everything is allocated when the engine is built. Control calls allocate; requests do not.
//! - Numbers in the rules (S6.4) are those of the document `docs/SEMANTICS.md` in the project's
//!   repository.
//!
//! # From a policy file to an engine
//! [`policy::PolicyFile`] reads the YAML of a policy and gives the [`policy::Profile`] that
//! [`Engine::builder`] wants; [`policy::Profile::synthetic`], as above, is one class without limits. The
//! name of a dispatch's class is that of the class with the same index in [`Stats::read`](stats::Stats::read).
//!
//! # Why it went that way
//! [`Control::start_journal`] captures what a model's arbiter takes in and decides, in a bounded buffer; the
//! [`Journal`] that comes of it is replayed and explained by `tollgate scenario`.
//!
//! # Room and sizes
//! A submission that finds no room comes back as [`Refusal::Full`], and nothing tells when there is room
//! again: try again when something was received, or refuse the caller. A payload of up to 16 bytes costs
//! nothing extra; one above [`PAYLOAD_MAX`] does not compile: box it. What is in effect after rounding, and
//! what a record takes, is in [`Handles::settings`], to be printed.

mod admission;
mod builder;
mod clock;
mod control;
mod core;
mod delivery;
mod directory;
mod egress;
mod engine;
mod idle;
mod ingress;
mod journal;
pub mod placement;
mod releases;
mod request;
mod settings;
mod shared;
pub mod stats;
mod sync;
mod ticket;
#[cfg(feature = "tower")]
pub mod tower;
mod wire;
mod worker;

pub use tollgate_arbiter::{
    ClassIndex, ClassState, CostSnapshot, Endpoint, EndpointIndex, EndpointState, EntryState,
    FailReason, Full, HINTS_MAX, HeadState, Hint, LaneState, LimitKind, Nanos, Outcome,
    OwnSelector, Rejection, Resource, State, WorkerError, WorkerId, selector,
};
/// Policies: reading, checking and building them.
pub use tollgate_policy as policy;

pub use self::core::{Core, TurnReport};
pub use admission::{Admission, Admit, AdmitError, Courier, Permit, Requeue, Waiter};
pub use builder::{BuildError, BuildErrors, Builder, PAYLOAD_MAX, StartError};
pub use clock::{Clock, ManualClock};
pub use control::{Command, Control, ControlError, Done};
pub use delivery::{Delivery, Dispatch, Ended};
pub use egress::{Closed, EgressShard, FeedbackBatch, RequeueRefused};
pub use engine::{AdmissionByHand, Built, BuiltAdmission, ByHand, Engine, Handles, Lost};
pub use idle::Idle;
pub use ingress::IngressShard;
pub use journal::{JOURNAL_BYTES_MAX, JOURNAL_BYTES_MIN, Journal};
pub use releases::Releases;
pub use request::{
    ALLOWED_WORKERS_MAX, InvalidRequest, Part, REQUIRED_TAINTS_MAX, Refusal, Refused, Request, Room,
};
pub use settings::Settings;
pub use ticket::{ModelIndex, Receipt, Ticket};
pub use worker::Worker;
