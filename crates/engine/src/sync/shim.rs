//! What the protocols of this module stand on: `std` and crossbeam in the product, loom's
//! stand-ins under `--cfg loom`. The protocols name nothing else, so that the models run the
//! product's own code.

#[cfg(loom)]
pub(crate) use modelled::*;
#[cfg(not(loom))]
pub(crate) use product::*;

#[cfg(not(loom))]
mod product {
    pub(crate) use crossbeam::sync::{Parker, Unparker};
    pub(crate) use std::sync::Arc;
    pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
    use std::task::Waker;

    /// How many bits of a bitmap word are used.
    pub(crate) const WORD_BITS: usize = 64;

    /// Where a task leaves its waker, and where whoever has news for it takes it.
    #[derive(Debug, Default)]
    pub(crate) struct WakerCell(atomic_waker::AtomicWaker);

    impl WakerCell {
        pub(crate) fn new() -> Self {
            Self::default()
        }

        /// By one task at a time.
        pub(crate) fn register(&self, waker: &Waker) {
            self.0.register(waker);
        }

        pub(crate) fn take(&self) -> Option<Waker> {
            self.0.take()
        }
    }
}

#[cfg(loom)]
mod modelled {
    use loom::sync::{Condvar, Mutex};
    use std::cell::Cell;
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    pub(crate) use loom::sync::Arc;
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
    use std::task::Waker;

    /// Two, so that a model of a few slots has every level of a large bitmap.
    pub(crate) const WORD_BITS: usize = 2;

    loom::thread_local! {
        static FENCES_LEFT_OUT: Cell<bool> = Cell::new(false);
    }

    /// The fence, unless the calling model thread leaves its fences out.
    pub(crate) fn fence(order: Ordering) {
        if !FENCES_LEFT_OUT.with(Cell::get) {
            loom::sync::atomic::fence(order);
        }
    }

    /// From here on the calling model thread runs without fences: a fault that a model must find.
    #[cfg(test)]
    pub(crate) fn leave_fences_out() {
        FENCES_LEFT_OUT.with(|left_out| left_out.set(true));
    }

    /// A cell of one waker by its contract, as loom models it.
    pub(crate) struct WakerCell(loom::future::AtomicWaker);

    impl std::fmt::Debug for WakerCell {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.debug_struct("WakerCell").finish_non_exhaustive()
        }
    }

    impl WakerCell {
        pub(crate) fn new() -> Self {
            Self(loom::future::AtomicWaker::new())
        }

        pub(crate) fn register(&self, waker: &Waker) {
            self.0.register_by_ref(waker);
        }

        pub(crate) fn take(&self) -> Option<Waker> {
            self.0.take_waker()
        }
    }

    /// crossbeam's parker by its contract: one token, given by `unpark`, taken by `park`.
    #[derive(Debug)]
    pub(crate) struct Parker {
        unparker: Unparker,
    }

    /// The end that gives the token.
    #[derive(Clone, Debug)]
    pub(crate) struct Unparker {
        token: Arc<Token>,
    }

    #[derive(Debug)]
    struct Token {
        given: Mutex<bool>,
        signal: Condvar,
        /// Calls of `unpark`; outside the model, so that counting hides no interleaving.
        unparks: AtomicUsize,
    }

    impl Parker {
        pub(crate) fn new() -> Self {
            let token = Token {
                given: Mutex::new(false),
                signal: Condvar::new(),
                unparks: AtomicUsize::new(0),
            };
            Self {
                unparker: Unparker {
                    token: Arc::new(token),
                },
            }
        }

        pub(crate) fn unparker(&self) -> &Unparker {
            &self.unparker
        }

        pub(crate) fn park(&self) {
            let token = &self.unparker.token;
            let mut given = token.given.lock().expect("nobody panics with the lock");
            while !*given {
                given = token
                    .signal
                    .wait(given)
                    .expect("nobody panics with the lock");
            }
            *given = false;
        }

        /// Time does not pass in a model: the timeout elapses at once, which is every longer
        /// one in some interleaving of the others.
        pub(crate) fn park_timeout(&self, _timeout: Duration) {
            *self
                .unparker
                .token
                .given
                .lock()
                .expect("nobody panics with the lock") = false;
        }

        /// How often anybody has called `unpark`.
        #[cfg(test)]
        pub(crate) fn unparks(&self) -> usize {
            self.unparker.token.unparks.load(Ordering::Relaxed)
        }
    }

    impl Unparker {
        pub(crate) fn unpark(&self) {
            self.token.unparks.fetch_add(1, Ordering::Relaxed);
            *self
                .token
                .given
                .lock()
                .expect("nobody panics with the lock") = true;
            self.token.signal.notify_one();
        }
    }
}
