//! Everything that is thought about a request before the arbiter hears of it.

use std::sync::Arc;

use arc_swap::{ArcSwap, Cache};
use rtrb::Producer;
use rtrb::chunks::ChunkError;
use tollgate_arbiter::Nanos;

use super::slots::Slots;
use crate::directory::{Taints, View};
use crate::request::{InvalidRequest, Refusal, Request, Room};
use crate::shared::Shared;
use crate::stats::IngressStats;
use crate::ticket::Ticket;
use crate::wire::Settled;
use crate::wire::extension::{Block, blocks_for, encode};

/// One shard's doorway: what it knows, its slots, and the ring for variable parts.
#[derive(Debug)]
pub(super) struct Doorway {
    pub(super) shared: Arc<Shared>,
    pub(super) shard: usize,
    models: Box<[KnownModel]>,
    pub(super) slots: Slots,
    pub(super) blocks: Producer<Block>,
    pub(super) stats: IngressStats,
    /// The core was not told yet of a view that is in use.
    has_news: bool,
}

struct KnownModel {
    view: Cache<Arc<ArcSwap<View>>, Arc<View>>,
    seen: u64,
}

impl std::fmt::Debug for KnownModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KnownModel")
            .field("seen", &self.seen)
            .finish_non_exhaustive()
    }
}

impl KnownModel {
    /// The newest view; notes where it is another than the last one.
    #[inline]
    fn view(&mut self, has_news: &mut bool) -> &View {
        let view = self.view.load();
        if view.version != self.seen {
            self.seen = view.version;
            *has_news = true;
        }
        view
    }
}

impl Doorway {
    pub(super) fn new(
        shared: Arc<Shared>,
        shard: usize,
        slots: Slots,
        blocks: Producer<Block>,
        stats: IngressStats,
    ) -> Self {
        let known = |model| KnownModel {
            view: Cache::new(Arc::clone(shared.directory.model(model))),
            seen: 0,
        };
        let models = (0..shared.directory.len()).map(known).collect();
        let mut doorway = Self {
            shared,
            shard,
            models,
            slots,
            blocks,
            stats,
            has_news: false,
        };
        doorway.refresh();
        doorway
    }

    /// Works under the newest views from now on; nothing that was settled is held back.
    pub(super) fn refresh(&mut self) {
        for known in &mut self.models {
            known.view(&mut self.has_news);
        }
        self.announce();
    }

    /// Tells the core which views the shard works under. Only where nothing is held back that was
    /// settled under an older one: the core gives up classes when every shard has moved on (S3.7).
    #[inline]
    pub(super) fn announce(&mut self) {
        if std::mem::take(&mut self.has_news) {
            for (model, known) in self.models.iter().enumerate() {
                self.shared.see(self.shard, model, known.seen);
            }
        }
    }

    /// Settles everything about a request, takes its slot, and sends its variable parts ahead. The
    /// caller has room in the ring for its record. On refusal nothing has happened.
    #[inline]
    pub(super) fn settle<P>(
        &mut self,
        request: &Request<'_, P>,
        submitted_at: Nanos,
    ) -> Result<Settled, Refusal> {
        let blocks = self.check(request)?;
        if self.shared.is_closed() {
            return Err(Refusal::Closed);
        }
        let model = request.model.at();
        if !self.slots.is_any_free(model) {
            return Err(Refusal::Full { what: Room::Slots });
        }
        let view = self.models[model].view(&mut self.has_news);
        let taints = if request.require_taints.is_empty() {
            Taints::new()
        } else {
            view.required(request)
        };
        let snapshot = view.snapshot(request, &taints);
        let (class, unknown_name) = view.resolve(request.family, snapshot.uncached());
        if blocks > 0 {
            self.send_ahead(request, &taints, blocks)?;
        }
        if unknown_name {
            self.stats.unknown_name();
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a request's lists are bounded"
        )]
        let blocks = blocks as u8;
        Ok(Settled {
            ticket: self.slots.take(model, blocks),
            class: class.0,
            snapshot,
            submitted_at,
            blocks,
        })
    }

    /// What is wrong with a request, whatever room there is; the blocks that it needs.
    pub(super) fn check<P>(&self, request: &Request<'_, P>) -> Result<usize, InvalidRequest> {
        request.check(self.models.len())?;
        let (found, available) = (blocks_for(request), self.slots.blocks_in_all());
        if found > available {
            return Err(InvalidRequest::MoreBlocksThanThereAre { found, available });
        }
        Ok(found)
    }

    fn send_ahead<P>(
        &mut self,
        request: &Request<'_, P>,
        taints: &Taints,
        blocks: usize,
    ) -> Result<(), Refusal> {
        if !self.slots.has_blocks(request.model.at(), blocks) {
            let what = Room::ExtensionBlocks;
            return Err(Refusal::Full { what });
        }
        match self.blocks.write_chunk_uninit(blocks) {
            Ok(chunk) => {
                chunk.fill_from_iter(encode(request, taints));
                Ok(())
            }
            Err(ChunkError::TooFewSlots(_)) => Err(Refusal::Full {
                what: Room::ExtensionRing,
            }),
        }
    }

    /// The reason of a refusal when the ring is full: an invalid request, or a closed engine, is told
    /// so first (S8).
    #[cold]
    pub(super) fn without_room<P>(&self, request: &Request<'_, P>) -> Refusal {
        if let Err(invalid) = self.check(request) {
            Refusal::Invalid(invalid)
        } else if self.shared.is_closed() {
            Refusal::Closed
        } else {
            Refusal::Full { what: Room::Ring }
        }
    }

    /// Counts a refusal.
    pub(super) fn count(&mut self, reason: Refusal) {
        match reason {
            Refusal::Invalid(_) => self.stats.refused_invalid(),
            Refusal::Closed => self.stats.refused_closed(),
            Refusal::Full { .. } => self.stats.refused_full(),
        }
    }

    /// A request that was settled is not sent after all: its record came back.
    pub(super) fn withdraw(&mut self, ticket: Ticket) {
        self.slots.give_back(ticket.place);
    }
}

impl Drop for Doorway {
    fn drop(&mut self) {
        self.shared.see_no_more(self.shard);
        let _ = self.shared.bell.ring();
    }
}
