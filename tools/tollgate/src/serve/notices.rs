//! What a router tells its operators on standard error.

use std::io;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::tell;

/// Lines that may wait for a reader who is slow; further ones are lost.
const LINES: usize = 1_024;
/// How long the last ones may take.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Lines for standard error, written by a thread of its own: a reader who has stopped reading must not keep the
/// process from its signals.
#[derive(Debug)]
pub(super) struct Notices {
    lines: Sender<String>,
    /// Closed when all is written.
    written: Receiver<()>,
}

impl Notices {
    /// # Errors
    /// If there can be no thread.
    pub(super) fn start() -> io::Result<Self> {
        let (lines, to_write) = bounded::<String>(LINES);
        let (done, written) = bounded(0);
        let writer = move || {
            to_write.iter().for_each(tell);
            drop::<Sender<()>>(done);
        };
        thread::Builder::new()
            .name("tollgate-notice".to_owned())
            .spawn(writer)?;
        Ok(Self { lines, written })
    }

    /// Writes a line as soon as somebody reads.
    pub(super) fn tell(&self, line: String) {
        let _ = self.lines.try_send(line);
    }

    /// Waits until everything is written, for a while.
    pub(super) fn end(self) {
        drop(self.lines);
        // Either way there is nothing more to do.
        let _ = self.written.recv_timeout(LAST_WORDS);
    }
}
