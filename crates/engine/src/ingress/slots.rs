//! The slots of one ingress shard: taken here, given back by the arbiter.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rtrb::Consumer;

use crate::ticket::{Place, PlaceMap, Ticket};

/// The free slots of one shard, by model, and the blocks that its live requests may still take.
///
/// A slot is taken before a record is written and comes back through a ring with room for all of
/// them, so neither side ever waits for the other. Slots that were never used are handed out last, in
/// order, so that memory is touched only as far as the load goes.
#[derive(Debug)]
pub(crate) struct Slots {
    places: PlaceMap,
    shard: u32,
    freed: Consumer<Place>,
    models: Box<[Free]>,
    /// Extension blocks of each model.
    blocks_in_all: u32,
    /// By place, for all shards; of its own places only this one writes.
    generations: Arc<[AtomicU32]>,
    /// By local number: the extension blocks that the live request holds.
    blocks: Box<[u8]>,
}

#[derive(Debug)]
struct Free {
    stack: Vec<Place>,
    fresh: u32,
    /// Extension blocks that are not taken.
    blocks: u32,
}

impl Slots {
    pub(crate) fn new(
        places: PlaceMap,
        shard: usize,
        models: usize,
        blocks: u32,
        freed: Consumer<Place>,
        generations: Arc<[AtomicU32]>,
    ) -> Self {
        let per_model = 1 << places.local_bits;
        let free = || Free {
            stack: Vec::with_capacity(per_model),
            fresh: 0,
            blocks,
        };
        Self {
            places,
            shard: u32::try_from(shard).expect("few shards"),
            freed,
            models: (0..models).map(|_| free()).collect(),
            blocks_in_all: blocks,
            generations,
            blocks: vec![0; per_model * models].into(),
        }
    }

    /// Whether a slot is free; takes back what the arbiter gave back if there seems to be none.
    #[inline]
    pub(crate) fn is_any_free(&mut self, model: usize) -> bool {
        if !self.models[model].stack.is_empty() {
            return true;
        }
        self.take_back();
        let free = &self.models[model];
        !free.stack.is_empty() || free.fresh < 1 << self.places.local_bits
    }

    /// How many slots and extension blocks of a model are free.
    pub(crate) fn free(&mut self, model: usize) -> (usize, usize) {
        self.take_back();
        let free = &self.models[model];
        let fresh = (1 << self.places.local_bits) - free.fresh;
        (free.stack.len() + fresh as usize, free.blocks as usize)
    }

    /// As many extension blocks as all requests of a model may hold.
    pub(crate) const fn blocks_in_all(&self) -> usize {
        self.blocks_in_all as usize
    }

    /// Whether `blocks` extension blocks are free.
    pub(crate) fn has_blocks(&mut self, model: usize, blocks: usize) -> bool {
        if self.models[model].blocks as usize >= blocks {
            return true;
        }
        self.take_back();
        self.models[model].blocks as usize >= blocks
    }

    /// Takes a slot, and `blocks` extension blocks for as long as it is taken. Both were free.
    #[inline]
    pub(crate) fn take(&mut self, model: usize, blocks: u8) -> Ticket {
        let free = &mut self.models[model];
        let place = free.stack.pop().unwrap_or_else(|| {
            let slot = self.shard << self.places.local_bits | free.fresh;
            free.fresh += 1;
            self.places.place(model, slot)
        });
        let local = self.places.local(place);
        if blocks > 0 {
            free.blocks -= u32::from(blocks);
            self.blocks[local] = blocks;
        }
        Ticket {
            place,
            generation: self.generations[place.0 as usize].load(Ordering::Relaxed),
        }
    }

    /// Gives back a slot whose record was never sent.
    pub(crate) fn give_back(&mut self, place: Place) {
        let local = self.places.local(place);
        // No other thread writes it: a load and a store, without a locked instruction.
        let generation = &self.generations[place.0 as usize];
        let next = generation.load(Ordering::Relaxed).wrapping_add(1);
        generation.store(next, Ordering::Relaxed);
        let free = &mut self.models[self.places.model(place)];
        free.blocks += u32::from(std::mem::take(&mut self.blocks[local]));
        free.stack.push(place);
    }

    /// Takes back all that the arbiter gave back.
    fn take_back(&mut self) {
        while let Ok(place) = self.freed.pop() {
            self.give_back(place);
        }
    }
}
