//! Journals: a bounded capture of what one model's arbiter takes in and decides, to be replayed.
//!
//! A capture begins between two turns, with a checkpoint of everything that later decisions depend on,
//! or with the engine itself. From then on the core writes down each operation before it is carried
//! out, the time when it changed, and each decision, as a few words in a buffer that was allocated
//! before. It ends when it is taken, or when a record finds no room in the buffer. What it holds is
//! written as JSON lines in the language of `tollgate scenario`, which replays it to the same decisions.
//!
//! | module | what it holds |
//! |---|---|
//! | [`control`] | the calls that begin and end it |
//! | [`recorder`] | the buffer, and how a record is written and read |
//! | [`write`] | records as lines |
//!
//! Invariants:
//! - J1. Nothing is recorded in part, and nothing after the first record that found no room.
//! - J2. What was recorded of operations is all that changed the arbiter since the checkpoint: every
//!   call of `tollgate_arbiter` that takes `&mut self` is recorded, in order, with its arguments.
//! - J3. Recording allocates nothing, frees nothing and reads no clock. The checkpoint does allocate, and
//!   holds the core while it is made.
//! - J4. No payload is recorded.

mod control;
pub(crate) mod recorder;
mod write;

use std::fmt;
use std::io;
use std::time::Duration;

pub(crate) use self::control::buffer;
pub(crate) use self::recorder::{Recorder, Start};
use crate::ModelIndex;

/// The smallest buffer of a journal, in bytes.
pub const JOURNAL_BYTES_MIN: usize = 1 << 12;
/// The largest buffer of a journal, in bytes.
pub const JOURNAL_BYTES_MAX: usize = 1 << 36;

/// What a model's arbiter took in and decided, from one moment on.
///
/// Taken by [`Control::take_journal`](crate::Control::take_journal). A request's life takes about 120
/// bytes of a journal; one with hints, an allow-list or required taints takes more.
///
/// ```
/// use tollgate::policy::Profile;
/// use tollgate::{Command, Done, Engine, ModelIndex, Nanos, Request, Worker};
///
/// let builder = Engine::builder(Profile::synthetic(None)).worker(Worker::new(7)).journal(1 << 16);
/// let mut by_hand = builder.build_by_hand::<()>()?;
/// by_hand.ingress[0].try_submit(Request::new(512, ())).expect("there is room");
/// by_hand.core.turn(Nanos(1));
///
/// let control = by_hand.handles.control();
/// let model = ModelIndex(0);
/// let taken = by_hand.core.execute(&control, Command::TakeJournal { model })?;
/// let Done::Journal(Some(journal)) = taken else { panic!("it was captured from the start") };
/// let mut file = Vec::new();
/// journal.write(&mut file)?;
/// assert!(file.starts_with(br#"{"op":"restore","version":1,"#));
/// assert!(!journal.is_full() && journal.records() > 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Journal(Box<Recorder>);

impl Journal {
    pub(crate) const fn new(recorder: Box<Recorder>) -> Self {
        Self(recorder)
    }

    /// Whose it is.
    #[must_use]
    pub fn model(&self) -> ModelIndex {
        self.0.model()
    }

    /// The capture ended because there was no room for another record; what came later is not in it.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.0.is_full()
    }

    /// How many records were captured: operations, times and decisions.
    #[must_use]
    pub const fn records(&self) -> u64 {
        self.0.records()
    }

    /// How many bytes of the buffer they take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(self.0.words())
    }

    /// How long the checkpoint at the beginning held the core, by the engine's clock.
    #[must_use]
    pub fn pause(&self) -> Duration {
        Duration::from_nanos(self.0.start().pause.0)
    }

    /// Writes the journal as JSON lines, which `tollgate scenario` replays: the policy, the capacities
    /// and the checkpoint, then what was captured. Payloads are not in it; names of taints, families
    /// and classes are. About 100 bytes a record; `output` should be buffered.
    ///
    /// # Errors
    /// As `output` fails.
    pub fn write(&self, output: impl io::Write) -> io::Result<()> {
        write::write(&self.0, output)
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal")
            .field("model", &self.model())
            .field("records", &self.records())
            .field("bytes", &self.bytes())
            .field("is_full", &self.is_full())
            .field("pause", &self.pause())
            .finish_non_exhaustive()
    }
}
