//! Slots for one owner, who alone submits to an arbiter.

use crate::{SlotIndex, Ticket};

/// Hands out tickets and takes them back; for whoever drives an arbiter from one thread.
///
/// ```
/// use tollgate_arbiter::SlotPool;
/// let mut pool = SlotPool::new(1);
/// let first = pool.take().expect("one slot");
/// assert!(pool.take().is_none());
/// pool.put(first);
/// assert_ne!(pool.take(), Some(first), "the slot returns as another use");
/// ```
#[derive(Clone, Debug)]
pub struct SlotPool {
    generations: Vec<u32>,
    free: Vec<u32>,
    fresh: u32,
    slots: u32,
}

impl SlotPool {
    /// A pool of slots `0 .. slots`. Allocates once, here.
    #[must_use]
    pub fn new(slots: u32) -> Self {
        Self {
            generations: vec![0; slots as usize],
            free: Vec::with_capacity(slots as usize),
            fresh: 0,
            slots,
        }
    }

    /// A free slot, or `None` when all are in use. O(1).
    pub fn take(&mut self) -> Option<Ticket> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.fresh < self.slots => {
                self.fresh += 1;
                self.fresh - 1
            }
            None => return None,
        };
        Some(Ticket {
            slot: SlotIndex(slot),
            generation: self.generations[slot as usize],
        })
    }

    /// Takes a slot back whose request has ended. O(1).
    ///
    /// # Panics
    /// If the ticket is not the slot's current use: it was given back before.
    pub fn put(&mut self, ticket: Ticket) {
        let generation = &mut self.generations[ticket.slot.at()];
        assert_eq!(
            *generation, ticket.generation,
            "a ticket is given back once"
        );
        *generation = generation.wrapping_add(1);
        self.free.push(ticket.slot.0);
    }
}
