//! A few words that one thread publishes together and any thread copies out together.
//!
//! # Protocol
//! 1. There are two copies of the words and a version. Version v is in copy v mod 2; version 0 was
//!    never published.
//! 2. The writer fills the copy that is not published, then raises the version.
//! 3. A reader loads the version, copies the words of that copy, and loads the version again. If it
//!    is still the same, nobody wrote to that copy in between.
//!
//! # Invariants
//! - I1. What [`Record::read`] returns was published by one call, but in the last resort of I3.
//! - I2. A writer that stops anywhere, also in the middle of a publication, holds no reader up:
//!   the copy that it was filling is the other one.
//! - I3. A read ends: after [`TRIES`] publications that each hit the reader in its copy, it returns
//!   what it read last. Each word is then one that was published, but perhaps not all by one call.
//!   Publications are apart by a turn of the core at least, and a copy takes a fraction of a turn,
//!   so this takes a reader that is interrupted [`TRIES`] times in a row.
//!
//! I1 is modelled over this code, with a model for each fence that fails without it.
//!
//! # What is deliberately absent
//! The single copy of an ordinary sequence lock: a writer that is interrupted while it writes would
//! make every reader wait for it. And a lock.

use crate::sync::shim::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};

/// How often a reader starts again before it takes what it has.
const TRIES: usize = 64;

/// Words that are published together; see the [module](self).
#[derive(Debug)]
pub(crate) struct Record<const WORDS: usize> {
    version: AtomicU64,
    copies: [[AtomicU64; WORDS]; 2],
}

impl<const WORDS: usize> Record<WORDS> {
    /// A record that nothing was published to.
    pub(crate) fn new() -> Self {
        Self {
            version: AtomicU64::new(0),
            copies: [(); 2].map(|()| [(); WORDS].map(|()| AtomicU64::new(0))),
        }
    }

    /// Publishes `words`. Only one thread may do so.
    pub(crate) fn publish(&self, words: &[u64; WORDS]) {
        let version = self.version.load(Relaxed) + 1;
        // ORDERING: pairs with the fence in `read`. Who saw a word that is stored below sees, past
        // its own fence, the version that was stored before this one, and knows that its copy was
        // given up.
        fence(Release);
        for (word, &value) in self.copy_of(version).iter().zip(words) {
            word.store(value, Relaxed);
        }
        // ORDERING: pairs with the first load in `read`: who sees this version sees its words.
        self.version.store(version, Release);
    }

    /// The words that were published last; `None` before the first publication.
    pub(crate) fn read(&self) -> Option<[u64; WORDS]> {
        let mut words = [0; WORDS];
        for _ in 0..TRIES {
            // ORDERING: pairs with the store of the version in `publish`.
            let version = self.version.load(Acquire);
            if version == 0 {
                return None;
            }
            for (value, word) in words.iter_mut().zip(self.copy_of(version)) {
                *value = word.load(Relaxed);
            }
            // ORDERING: pairs with the fence in `publish`.
            fence(Acquire);
            if self.version.load(Relaxed) == version {
                break;
            }
        }
        Some(words)
    }

    fn copy_of(&self, version: u64) -> &[AtomicU64; WORDS] {
        &self.copies[usize::from(version % 2 == 1)]
    }
}

#[cfg(all(test, loom))]
mod model;

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    #[test]
    fn a_record_is_what_was_published_last() {
        let record = Record::<3>::new();
        assert_eq!(record.read(), None);
        for round in 1..=5 {
            record.publish(&[round, 2 * round, 3 * round]);
            assert_eq!(record.read(), Some([round, 2 * round, 3 * round]));
            assert_eq!(record.read(), Some([round, 2 * round, 3 * round]));
        }
    }

    /// I2: the state of a writer that was interrupted in the middle of its third publication.
    #[test]
    fn a_writer_that_stops_in_the_middle_holds_nobody_up() {
        let record = Record::<2>::new();
        record.publish(&[1, 1]);
        record.publish(&[2, 2]);
        record.copy_of(3)[0].store(3, Relaxed);
        assert_eq!(record.read(), Some([2, 2]));
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "the readers are other threads than the writer"
    )]
    fn readers_beside_a_writer_see_whole_records_in_order() {
        const ROUNDS: u64 = 100_000;
        let record = Arc::new(Record::<33>::new());
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let record = Arc::clone(&record);
                thread::spawn(move || {
                    let mut last = 0;
                    while last < ROUNDS {
                        let Some(words) = record.read() else { continue };
                        assert_eq!(words, [words[0]; 33], "torn");
                        assert!(words[0] >= last, "back from {last} to {}", words[0]);
                        last = words[0];
                    }
                })
            })
            .collect();
        for round in 1..=ROUNDS {
            record.publish(&[round; 33]);
            // A core does other things between two publications; without that, a reader may be hit
            // by every one of its tries (I3).
            for _ in 0..64 {
                std::hint::spin_loop();
            }
        }
        for reader in readers {
            reader.join().expect("whole records, in order");
        }
    }
}
