//! Handles: which submission, which dispatch of it, which model.

use std::fmt;

use tollgate_arbiter::{SlotIndex, Ticket as ArbiterTicket};

/// Which model of an engine: 0 is the one that the builder began with, the others follow in the order
/// in which they were added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelIndex(pub u8);

impl ModelIndex {
    pub(crate) const fn at(self) -> usize {
        self.0 as usize
    }
}

/// The handle of one accepted submission; stale once its slot was given to another.
///
/// Unique within an engine until a slot was reused 2^32 times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    pub(crate) place: Place,
    pub(crate) generation: u32,
}

/// As journals call it: place and generation, `place.generation`.
impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.place.0, self.generation)
    }
}

/// One dispatch of one submission: what feedback refers to (S9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Receipt {
    /// The submission.
    pub ticket: Ticket,
    /// Which of its dispatches, from 1.
    pub attempt: u8,
}

/// A slot of a model, as one number over all models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place(pub(crate) u32);

/// How places are numbered: model, then ingress shard, then the shard's own slots; each of the three
/// takes whole bits, so that shifts tell them apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlaceMap {
    /// Bits of a slot within its shard.
    pub(crate) local_bits: u32,
    /// Bits of a slot within its model's arbiter.
    pub(crate) slot_bits: u32,
}

impl PlaceMap {
    pub(crate) const fn place(self, model: usize, slot: u32) -> Place {
        #[expect(clippy::cast_possible_truncation, reason = "at most 256 models")]
        let model = model as u32;
        Place(model << self.slot_bits | slot)
    }

    /// How many places `models` models reach over.
    pub(crate) fn reach(self, models: usize) -> u32 {
        let models = u32::try_from(models).expect("at most 256");
        models << self.slot_bits
    }

    pub(crate) const fn model(self, place: Place) -> usize {
        (place.0 >> self.slot_bits) as usize
    }

    pub(crate) const fn slot(self, place: Place) -> u32 {
        place.0 & ((1 << self.slot_bits) - 1)
    }

    /// The ingress shard that owns a slot.
    pub(crate) const fn shard(self, slot: u32) -> usize {
        (slot >> self.local_bits) as usize
    }

    /// The slot's number within its shard, over all models.
    pub(crate) const fn local(self, place: Place) -> usize {
        let local = place.0 & ((1 << self.local_bits) - 1);
        (self.model(place) << self.local_bits) + local as usize
    }

    /// A ticket in the words of a model's arbiter.
    pub(crate) const fn to_arbiter(self, ticket: Ticket) -> ArbiterTicket {
        ArbiterTicket {
            slot: SlotIndex(self.slot(ticket.place)),
            generation: ticket.generation,
        }
    }

    pub(crate) const fn to_engine(self, model: usize, ticket: ArbiterTicket) -> Ticket {
        Ticket {
            place: self.place(model, ticket.slot.0),
            generation: ticket.generation,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_names_model_shard_and_slot() {
        let map = PlaceMap {
            local_bits: 4,
            slot_bits: 6,
        };
        let place = map.place(3, 2 * 16 + 5);
        assert_eq!((map.model(place), map.slot(place)), (3, 37));
        assert_eq!(map.shard(map.slot(place)), 2);
        assert_eq!(map.local(place), 3 * 16 + 5);
        let ticket = Ticket {
            place,
            generation: 9,
        };
        assert_eq!(map.to_engine(3, map.to_arbiter(ticket)), ticket);
    }
}
