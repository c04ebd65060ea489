//! Releases that came by mail: applied only after everything that was in the rings when they came, so
//! that a letter never overtakes what its sender put into a ring before.

use arrayvec::ArrayVec;

use super::Core;
use crate::sync::mail::Letter;
use crate::ticket::{Place, Receipt, Ticket};

/// How many letters are opened at once.
const LETTERS: usize = 64;

/// Letters that wait until the rings have come so far.
#[derive(Debug)]
pub(super) struct Letters {
    waiting: ArrayVec<Letter, LETTERS>,
    fence: Fence,
}

/// How far every ring had been filled at one moment.
#[derive(Debug)]
pub(super) struct Fence {
    intake: Box<[u64]>,
    feedback: Box<[u64]>,
}

impl Letters {
    pub(super) fn new(inlets: usize, outlets: usize) -> Self {
        Self {
            waiting: ArrayVec::new(),
            fence: Fence::new(inlets, outlets),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

impl Fence {
    pub(super) fn new(inlets: usize, outlets: usize) -> Self {
        Self {
            intake: vec![0; inlets].into(),
            feedback: vec![0; outlets].into(),
        }
    }

    /// Stands behind everything that is in the rings now.
    pub(super) fn raise<P>(&mut self, core: &Core<P>) {
        for (mark, inlet) in self.intake.iter_mut().zip(&core.inlets) {
            *mark = inlet.taken + inlet.ring.slots() as u64;
        }
        for (mark, outlet) in self.feedback.iter_mut().zip(&core.hall.outlets) {
            *mark = outlet.taken + outlet.feedback.slots() as u64;
        }
    }

    /// Whether everything in front of it was taken.
    pub(super) fn is_reached<P>(&self, core: &Core<P>) -> bool {
        let mut feedback = self.feedback.iter().zip(&core.hall.outlets);
        self.is_reached_by_intake(core) && feedback.all(|(&mark, outlet)| outlet.taken >= mark)
    }

    /// Whether everything in front of it that was submitted was taken.
    pub(super) fn is_reached_by_intake<P>(&self, core: &Core<P>) -> bool {
        let mut intake = self.intake.iter().zip(&core.inlets);
        intake.all(|(&mark, inlet)| inlet.taken >= mark)
    }
}

impl<P> Core<P> {
    /// Collects letters, if there are any and none wait.
    pub(super) fn collect_letters(&mut self) {
        if self.letters.is_empty() && !self.letterbox.is_empty() {
            self.letterbox.collect(&mut self.letters.waiting);
            let mut fence = std::mem::replace(&mut self.letters.fence, Fence::new(0, 0));
            fence.raise(self);
            self.letters.fence = fence;
        }
    }

    /// A completion or a requeue came by a ring: a `prefill_done` of the same dispatch that its sender
    /// posted before, when the ring was full, takes effect first.
    #[inline]
    pub(super) fn catch_up(&mut self, receipt: Receipt) {
        if !self.letters.is_empty() || !self.letterbox.is_empty() {
            self.catch_up_by_mail(receipt);
        }
    }

    #[cold]
    fn catch_up_by_mail(&mut self, receipt: Receipt) {
        let Receipt { ticket, attempt } = receipt;
        let (slot, generation) = (ticket.place.0, ticket.generation);
        let mut waiting = self.letters.waiting.iter_mut();
        let opened = waiting.find(|letter| {
            (letter.slot, letter.generation, letter.attempt) == (slot, generation, attempt)
                && letter.prefill_done
        });
        let is_posted = match opened {
            Some(letter) => std::mem::take(&mut letter.prefill_done),
            None => self
                .letterbox
                .recall_prefill_done(slot, generation, attempt),
        };
        if is_posted {
            self.prefill_done(receipt);
        }
    }

    /// Applies the letters that waited, once the rings have come so far; how many.
    pub(super) fn apply_letters(&mut self) -> u64 {
        if self.letters.is_empty() || !self.letters.fence.is_reached(self) {
            return 0;
        }
        let letters = std::mem::take(&mut self.letters.waiting);
        for letter in &letters {
            let ticket = Ticket {
                place: Place(letter.slot),
                generation: letter.generation,
            };
            let receipt = Receipt {
                ticket,
                attempt: letter.attempt,
            };
            if letter.cancel {
                self.cancel(ticket);
            }
            if letter.prefill_done {
                self.prefill_done(receipt);
            }
            if letter.complete {
                self.complete(receipt);
            }
        }
        letters.len() as u64
    }
}
