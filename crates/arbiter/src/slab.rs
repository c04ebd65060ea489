//! The slots: one record for each live request.

use crate::order::{NO_KEY, NONE, Rank, Structure};
use crate::{ClassIndex, CostSnapshot, LimitKind, Nanos, SlotIndex, Ticket};

/// Where a slot's request is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Vacant,
    Waiting,
    Dispatched,
}

const STAGE: u8 = 0b0000_0011;
const PREFILL_DONE: u8 = 0b0000_0100;
const IN_HEAP: u8 = 0b0000_1000;
const HAS_DEADLINE: u8 = 0b0001_0000;
const IMPATIENCE: u8 = 0b1110_0000;
const IMPATIENCE_SHIFT: u32 = 5;

/// One slot's record: 48 bytes, all that a dispatch reads of its request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Order key with the slot in it; kept through dispatch for a requeue (S9.4).
    pub(crate) rank: Rank,
    pub(crate) submitted_at: u64,
    pub(crate) raw: u32,
    pub(crate) cached: u32,
    generation: u32,
    /// The pinned endpoint's number, or [`NONE`].
    pub(crate) pin: u32,
    /// The header block of its variable parts, or [`NONE`].
    pub(crate) extension: u32,
    class: u16,
    /// Dispatches so far.
    pub(crate) attempt: u8,
    flags: u8,
}

impl Entry {
    const VACANT: Self = Self {
        rank: NO_KEY,
        submitted_at: 0,
        raw: 0,
        cached: 0,
        generation: 0,
        pin: NONE,
        extension: NONE,
        class: 0,
        attempt: 0,
        flags: 0,
    };

    /// A request that starts to wait.
    pub(crate) fn waiting(
        rank: Rank,
        ticket: Ticket,
        class: ClassIndex,
        snapshot: CostSnapshot,
        submitted_at: Nanos,
    ) -> Self {
        let mut entry = Self {
            rank,
            submitted_at: submitted_at.0,
            raw: snapshot.raw,
            cached: snapshot.cached,
            generation: ticket.generation,
            class: class.0,
            ..Self::VACANT
        };
        entry.set_stage(Stage::Waiting);
        entry
    }

    pub(crate) const fn snapshot(&self) -> CostSnapshot {
        CostSnapshot {
            raw: self.raw,
            cached: self.cached,
        }
    }

    pub(crate) const fn class(&self) -> usize {
        self.class as usize
    }

    pub(crate) const fn stage(&self) -> Stage {
        match self.flags & STAGE {
            0 => Stage::Vacant,
            1 => Stage::Waiting,
            _ => Stage::Dispatched,
        }
    }

    pub(crate) const fn set_stage(&mut self, stage: Stage) {
        self.flags = self.flags & !STAGE
            | match stage {
                Stage::Vacant => 0,
                Stage::Waiting => 1,
                Stage::Dispatched => 2,
            };
    }

    pub(crate) const fn structure(&self) -> Structure {
        if self.flags & IN_HEAP == 0 {
            Structure::Run
        } else {
            Structure::Heap
        }
    }

    pub(crate) const fn set_structure(&mut self, structure: Structure) {
        match structure {
            Structure::Run => self.flags &= !IN_HEAP,
            Structure::Heap => self.flags |= IN_HEAP,
        }
    }

    pub(crate) const fn is_prefilled(&self) -> bool {
        self.flags & PREFILL_DONE != 0
    }

    pub(crate) const fn set_prefilled(&mut self, done: bool) {
        if done {
            self.flags |= PREFILL_DONE;
        } else {
            self.flags &= !PREFILL_DONE;
        }
    }

    pub(crate) const fn has_deadline(&self) -> bool {
        self.flags & HAS_DEADLINE != 0
    }

    pub(crate) const fn set_has_deadline(&mut self) {
        self.flags |= HAS_DEADLINE;
    }

    /// It has a deadline, or may not wait.
    #[inline]
    pub(crate) const fn is_watched(&self) -> bool {
        self.flags & (HAS_DEADLINE | IMPATIENCE) != 0
    }

    /// The kind it is refused with if it would have to wait; `None` for a patient request (S7.2).
    pub(crate) const fn impatience(&self) -> Option<LimitKind> {
        match (self.flags & IMPATIENCE) >> IMPATIENCE_SHIFT {
            0 => None,
            code => Some(LimitKind::ALL[code as usize - 1]),
        }
    }

    pub(crate) const fn set_impatience(&mut self, kind: LimitKind) {
        let code = match kind {
            LimitKind::Requests => 1,
            LimitKind::RawIslTokens => 2,
            LimitKind::CachedTokens => 3,
            LimitKind::MayWait => 4,
        };
        self.flags = self.flags & !IMPATIENCE | code << IMPATIENCE_SHIFT;
    }

    pub(crate) const fn ticket(&self, slot: u32) -> Ticket {
        Ticket {
            slot: SlotIndex(slot),
            generation: self.generation,
        }
    }
}

/// All slots, with the payloads of those that wait.
#[derive(Debug)]
pub(crate) struct Slab<P> {
    entries: Vec<Entry>,
    payloads: Vec<Option<P>>,
}

impl<P> Slab<P> {
    pub(crate) fn new(slots: usize) -> Self {
        Self {
            entries: vec![Entry::VACANT; slots],
            payloads: std::iter::repeat_with(|| None).take(slots).collect(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    pub(crate) fn rank(&self, slot: u32) -> Rank {
        self.entries[slot as usize].rank
    }

    /// The live entry that `ticket` means, or `None` if the ticket is stale.
    pub(crate) fn find(&self, ticket: Ticket) -> Option<&Entry> {
        self.entries
            .get(ticket.slot.at())
            .filter(|entry| entry.stage() != Stage::Vacant && entry.generation == ticket.generation)
    }

    pub(crate) fn put_payload(&mut self, slot: u32, payload: P) {
        self.payloads[slot as usize] = Some(payload);
    }

    pub(crate) fn take_payload(&mut self, slot: u32) -> P {
        self.payloads[slot as usize]
            .take()
            .expect("a waiting slot holds its payload")
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Entry)> {
        (0..).zip(&self.entries)
    }
}

impl<P> std::ops::Index<u32> for Slab<P> {
    type Output = Entry;

    #[inline]
    fn index(&self, slot: u32) -> &Entry {
        &self.entries[slot as usize]
    }
}

impl<P> std::ops::IndexMut<u32> for Slab<P> {
    #[inline]
    fn index_mut(&mut self, slot: u32) -> &mut Entry {
        &mut self.entries[slot as usize]
    }
}
