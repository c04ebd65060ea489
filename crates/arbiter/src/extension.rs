//! The variable parts of live requests: hints, allowed workers, required taints.
//!
//! A request without any of them has no block. The others have a header block, and behind it one
//! block for each 4 hints and for each 8 allowed workers. Blocks are 64 bytes and come from one
//! fixed pool. A pinned request needs only its taints: its pin settles the rest at submission.

use crate::order::NONE;
use crate::{Endpoint, Full, Hint, Request, Resource, WorkerId};

const HINTS_PER_BLOCK: usize = 4;
const WORKERS_PER_BLOCK: usize = 8;

type Block = [u64; 8];

/// What a request's header block says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    /// Required taints, as bits.
    pub(crate) taints: u128,
    /// Whether there is an allow-list; an empty one allows nobody.
    pub(crate) limited: bool,
    hint_count: u32,
    allow_count: u32,
    first_hints: u32,
    first_allow: u32,
}

impl Header {
    /// Whether not every worker may run it.
    pub(crate) const fn is_constrained(&self) -> bool {
        self.limited || self.taints != 0
    }

    pub(crate) const fn has_hints(&self) -> bool {
        self.hint_count > 0
    }

    #[expect(clippy::cast_possible_truncation, reason = "unpacks 32-bit halves")]
    const fn unpack(block: &Block) -> Self {
        Self {
            taints: (block[1] as u128) << 64 | block[0] as u128,
            hint_count: block[2] as u32,
            allow_count: (block[2] >> 32) as u32,
            first_hints: block[3] as u32,
            first_allow: (block[3] >> 32) as u32,
            limited: block[4] != 0,
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "packs the halves of a u128"
    )]
    fn pack(&self) -> Block {
        let pair = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
        [
            self.taints as u64,
            (self.taints >> 64) as u64,
            pair(self.hint_count, self.allow_count),
            pair(self.first_hints, self.first_allow),
            u64::from(self.limited),
            0,
            0,
            0,
        ]
    }
}

/// The pool of blocks.
#[derive(Debug)]
pub(crate) struct Extensions {
    blocks: Vec<Block>,
    /// The next block of a chain, or of the free list.
    next: Vec<u32>,
    free: u32,
    free_count: u32,
}

impl Extensions {
    pub(crate) fn new(blocks: u32) -> Self {
        let next = (0..blocks)
            .map(|b| if b + 1 == blocks { NONE } else { b + 1 })
            .collect();
        Self {
            blocks: vec![[0; 8]; blocks as usize],
            next,
            free: if blocks == 0 { NONE } else { 0 },
            free_count: blocks,
        }
    }

    /// How many blocks are in use.
    pub(crate) fn in_use(&self) -> u64 {
        self.blocks.len() as u64 - u64::from(self.free_count)
    }

    /// Whether there is room for a request's variable parts.
    pub(crate) fn reserve(&self, request: &Request<'_>) -> Result<(), Full> {
        let required = Self::blocks_for(request);
        let available = u64::from(self.free_count);
        if required > available {
            return Err(Full {
                what: Resource::ExtensionBlocks,
                required,
                available,
            });
        }
        Ok(())
    }

    fn blocks_for(request: &Request<'_>) -> u64 {
        let (hints, allow) = Self::stored_parts(request);
        let parts = hints.len().div_ceil(HINTS_PER_BLOCK)
            + allow.map_or(0, |workers| workers.len().div_ceil(WORKERS_PER_BLOCK));
        let header = parts > 0 || allow.is_some() || !request.require_taints.is_empty();
        parts as u64 + u64::from(header)
    }

    fn stored_parts<'a>(request: &Request<'a>) -> (&'a [Hint], Option<&'a [WorkerId]>) {
        if request.pin.is_some() {
            (&[], None)
        } else {
            (request.hints, request.allow)
        }
    }

    /// Stores a request's variable parts; [`NONE`] if it has none. Room was reserved.
    pub(crate) fn store(&mut self, request: &Request<'_>, taints: u128) -> u32 {
        if Self::blocks_for(request) == 0 {
            return NONE;
        }
        let (hints, allow) = Self::stored_parts(request);
        let limited = allow.is_some();
        let allow = allow.unwrap_or_default();
        let head = self.take();
        let first_hints = self.store_chain(hints.chunks(HINTS_PER_BLOCK), |block, hint, at| {
            let Hint { endpoint, cached } = *hint;
            block[2 * at] = endpoint.worker.0;
            block[2 * at + 1] = u64::from(cached) << 32 | u64::from(endpoint.rank);
        });
        let first_allow = self.store_chain(allow.chunks(WORKERS_PER_BLOCK), |block, worker, at| {
            block[at] = worker.0;
        });
        let count = |n: usize| u32::try_from(n).expect("bounded by the blocks reserved");
        self.blocks[head as usize] = Header {
            taints,
            limited,
            hint_count: count(hints.len()),
            allow_count: count(allow.len()),
            first_hints,
            first_allow,
        }
        .pack();
        head
    }

    fn store_chain<'a, T: 'a>(
        &mut self,
        chunks: impl DoubleEndedIterator<Item = &'a [T]>,
        write: impl Fn(&mut Block, &T, usize),
    ) -> u32 {
        let mut first = NONE;
        for chunk in chunks.rev() {
            let block = self.take();
            for (at, item) in chunk.iter().enumerate() {
                write(&mut self.blocks[block as usize], item, at);
            }
            self.next[block as usize] = first;
            first = block;
        }
        first
    }

    fn take(&mut self) -> u32 {
        let block = self.free;
        assert_ne!(block, NONE, "blocks are reserved before they are taken");
        self.free = self.next[block as usize];
        self.free_count -= 1;
        block
    }

    /// Gives a request's blocks back.
    pub(crate) fn release(&mut self, head: u32) {
        if head == NONE {
            return;
        }
        let header = self.header(head);
        self.next[head as usize] = NONE;
        for first in [head, header.first_hints, header.first_allow] {
            let mut block = first;
            while block != NONE {
                let next = self.next[block as usize];
                self.next[block as usize] = self.free;
                self.free = block;
                self.free_count += 1;
                block = next;
            }
        }
    }

    pub(crate) fn header(&self, head: u32) -> Header {
        Header::unpack(&self.blocks[head as usize])
    }

    /// Every hint of a request.
    pub(crate) fn hints(&self, header: &Header) -> impl Iterator<Item = Hint> {
        self.chain(header.first_hints, header.hint_count, HINTS_PER_BLOCK)
            .map(|(block, at)| {
                #[expect(clippy::cast_possible_truncation, reason = "unpacks 32-bit halves")]
                let (rank, cached) = (block[2 * at + 1] as u32, (block[2 * at + 1] >> 32) as u32);
                Hint {
                    endpoint: Endpoint {
                        worker: WorkerId(block[2 * at]),
                        rank,
                    },
                    cached,
                }
            })
    }

    /// Every allowed worker of a request.
    pub(crate) fn allowed(&self, header: &Header) -> impl Iterator<Item = WorkerId> {
        self.chain(header.first_allow, header.allow_count, WORKERS_PER_BLOCK)
            .map(|(block, at)| WorkerId(block[at]))
    }

    fn chain(
        &self,
        first: u32,
        count: u32,
        per_block: usize,
    ) -> impl Iterator<Item = (&Block, usize)> {
        let mut block = first;
        (0..count as usize).map(move |item| {
            let at = item % per_block;
            if at == 0 && item > 0 {
                block = self.next[block as usize];
            }
            (&self.blocks[block as usize], at)
        })
    }
}
