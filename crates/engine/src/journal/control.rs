//! Journals, as control calls begin and end them.

use super::{JOURNAL_BYTES_MAX, JOURNAL_BYTES_MIN, Journal, Recorder};
use crate::ModelIndex;
use crate::control::{Command, Control, ControlError, Done};

impl Control {
    /// Begins to capture what a model's arbiter takes in and decides, from this moment on, in a buffer of
    /// `capacity_bytes`, 4,096 to 2^36: a request's life takes about 120. The capture ends when it is
    /// [taken](Self::take_journal), or when the buffer is full.
    ///
    /// This thread allocates the buffer and touches its pages. The arbiter pauses for a checkpoint of all
    /// that it knows: O(slots + requests x log requests + endpoints + classes);
    /// [`Journal::pause`] says how long.
    ///
    /// # Errors
    /// The size is out of range, or more than there is memory, a journal of this model has been started and not been taken, the
    /// model's workers are chosen by a selector of the embedder's own, or the engine is closed.
    pub fn start_journal(
        &self,
        model: ModelIndex,
        capacity_bytes: usize,
    ) -> Result<(), ControlError> {
        self.apply(Command::StartJournal {
            model,
            capacity_bytes,
        })
    }

    /// Ends the capture of a model and hands it out; `None` if there is none. After the engine has closed,
    /// what it left can still be taken, once.
    ///
    /// # Errors
    /// There is no such model, or the engine is closed and has left no journal of it, or not yet.
    pub fn take_journal(&self, model: ModelIndex) -> Result<Option<Journal>, ControlError> {
        let command = || Command::TakeJournal { model };
        let taken = match self.call(command()) {
            // It closed in the meantime, and may have left one.
            Err(ControlError::Closed(_)) => self.call(command()),
            taken => taken,
        };
        match taken? {
            Done::Journal(journal) => Ok(journal),
            done => unreachable!("a journal is asked for, not {done:?}"),
        }
    }
}

/// The buffer that a command needs: allocated by who calls, not by the arbiter.
pub(crate) fn buffer(command: &Command) -> Result<Option<Box<Recorder>>, ControlError> {
    let Command::StartJournal { capacity_bytes, .. } = *command else {
        return Ok(None);
    };
    if !(JOURNAL_BYTES_MIN..=JOURNAL_BYTES_MAX).contains(&capacity_bytes) {
        return Err(ControlError::JournalBytes {
            found: capacity_bytes,
        });
    }
    let recorder = Recorder::new(capacity_bytes).ok_or(ControlError::JournalMemory {
        required: capacity_bytes,
    })?;
    Ok(Some(Box::new(recorder)))
}
