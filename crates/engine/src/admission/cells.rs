//! Values that many threads use in turn, without a lock: each stands in a cell, is taken out, used, and
//! put back.

use std::cell::Cell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam::atomic::AtomicCell;
use crossbeam::utils::CachePadded;

/// A value, unless it is in use.
type Slot<T> = AtomicCell<Option<Box<T>>>;

/// What of `T` is not in use.
pub(super) struct Cells<T> {
    cells: Box<[CachePadded<Slot<T>>]>,
}

/// By number alone: to look into a cell is to take its value out.
impl<T> fmt::Debug for Cells<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cells")
            .field("cells", &self.cells.len())
            .finish_non_exhaustive()
    }
}

/// One that is in use; it goes back into its cell when this is dropped, also in a panic.
pub(super) struct Held<'a, T> {
    cell: &'a Slot<T>,
    value: Option<Box<T>>,
}

impl<T> Cells<T> {
    pub(super) fn new(values: impl IntoIterator<Item = T>) -> Self {
        const {
            assert!(Slot::<T>::is_lock_free());
        };
        let cell = |value| CachePadded::new(AtomicCell::new(Some(Box::new(value))));
        Self {
            cells: values.into_iter().map(cell).collect(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.cells.len()
    }

    /// The value in cell `at`, unless somebody uses it now. One exchange.
    pub(super) fn take(&self, at: usize) -> Option<Held<'_, T>> {
        let cell = &self.cells[at];
        let value = Some(cell.take()?);
        Some(Held { cell, value })
    }

    /// Takes the value in cell `at` for good, unless somebody uses it now.
    pub(super) fn remove(&self, at: usize) -> Option<Box<T>> {
        self.cells[at].take()
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("held until it is dropped")
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("held until it is dropped")
    }
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        self.cell.store(self.value.take());
    }
}

/// The calling thread's number: threads that come one after the other have numbers one after the other,
/// so that each of a few has a cell of its own.
pub(super) fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    OWN.with(|own| {
        if own.get() == usize::MAX {
            own.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        own.get()
    })
}

/// Runs something, but not inside itself on the same thread.
pub(super) fn unless_inside(run: impl FnOnce()) {
    thread_local! {
        static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
    }
    if IS_INSIDE.replace(true) {
        return;
    }
    run();
    IS_INSIDE.set(false);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_not_there_and_comes_back() {
        let cells = Cells::new([1, 2]);
        {
            let mut held = cells.take(0).expect("nobody holds it");
            *held += 10;
            assert!(cells.take(0).is_none());
            assert_eq!(*cells.take(1).expect("another"), 2);
        }
        assert_eq!(*cells.take(0).expect("it came back"), 11);
    }

    #[test]
    fn what_a_panic_held_comes_back() {
        let cells = Cells::new([1]);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _held = cells.take(0);
            panic!("with the value in hand");
        }));
        assert!(panicked.is_err());
        assert!(cells.take(0).is_some());
    }

    #[test]
    fn threads_have_numbers_of_their_own() {
        let own = thread_number();
        assert_eq!(own, thread_number());
        let other = std::thread::scope(|scope| scope.spawn(thread_number).join());
        assert_ne!(own, other.expect("it does not panic"));
    }
}
