//! The variable parts of a request on their way to the arbiter: 64-byte blocks in a ring of their own,
//! published before the record that they belong to.
//!
//! The first block is the header: word 0 counts hints, allowed workers and taints and says whether
//! there is an allow-list and a deadline; word 1 is the deadline, word 2 the head start; words 3 to 6
//! hold the taints, 4 in a word. Behind it come the hints, 4 in a block, then the allowed workers, 8
//! in a block.

use arrayvec::ArrayVec;
use tollgate_arbiter::{Endpoint, Hint, Nanos, WorkerId};

use crate::request::{ALLOWED_WORKERS_MAX, REQUIRED_TAINTS_MAX, Request};

pub(crate) type Block = [u64; 8];

const HINTS_PER_BLOCK: usize = 4;
const WORKERS_PER_BLOCK: usize = 8;
const TAINTS_PER_WORD: usize = 4;
const FIRST_TAINT_WORD: usize = 3;
const HAS_ALLOW: u64 = 1 << 48;
const HAS_DEADLINE: u64 = 1 << 49;
/// The most blocks that a request can need.
pub(crate) const BLOCKS_PER_REQUEST_MAX: usize =
    1 + 16 / HINTS_PER_BLOCK + ALLOWED_WORKERS_MAX / WORKERS_PER_BLOCK;

/// A taint's number in the engine's own table of names.
pub(crate) type TaintId = u16;
/// The number of a name that no worker ever carried.
pub(crate) const UNKNOWN_TAINT: TaintId = TaintId::MAX;

/// How many blocks a request sends ahead of its record.
#[inline]
pub(crate) fn blocks_for<P>(request: &Request<'_, P>) -> usize {
    if request.is_plain() && (request.pin.is_none() || !is_timed(request)) {
        return 0;
    }
    1 + request.hints.len().div_ceil(HINTS_PER_BLOCK)
        + request
            .allow
            .map_or(0, |allow| allow.len().div_ceil(WORKERS_PER_BLOCK))
}

/// Whether a pinned request needs a block for what its pin displaces from the record.
fn is_timed<P>(request: &Request<'_, P>) -> bool {
    request.deadline.is_some() || request.priority_jump != 0.0
}

/// The blocks of a request whose required taints have these numbers.
pub(crate) fn encode<'a, P>(
    request: &'a Request<'_, P>,
    taints: &ArrayVec<TaintId, REQUIRED_TAINTS_MAX>,
) -> impl Iterator<Item = Block> + 'a {
    let allow = request.allow.unwrap_or_default();
    let mut header = [0; 8];
    header[0] = request.hints.len() as u64
        | (allow.len() as u64) << 16
        | (taints.len() as u64) << 32
        | if request.allow.is_some() {
            HAS_ALLOW
        } else {
            0
        }
        | if request.deadline.is_some() {
            HAS_DEADLINE
        } else {
            0
        };
    header[1] = request.deadline.map_or(0, |deadline| deadline.0);
    header[2] = request.priority_jump.to_bits();
    for (at, &taint) in taints.iter().enumerate() {
        header[FIRST_TAINT_WORD + at / TAINTS_PER_WORD] |=
            u64::from(taint) << (16 * (at % TAINTS_PER_WORD));
    }
    let hints = request.hints.chunks(HINTS_PER_BLOCK).map(|hints| {
        let mut block = [0; 8];
        for (words, hint) in block.chunks_exact_mut(2).zip(hints) {
            words[0] = hint.endpoint.worker.0;
            words[1] = u64::from(hint.cached) << 32 | u64::from(hint.endpoint.rank);
        }
        block
    });
    let workers = allow.chunks(WORKERS_PER_BLOCK).map(|workers| {
        let mut block = [0; 8];
        for (word, worker) in block.iter_mut().zip(workers) {
            *word = worker.0;
        }
        block
    });
    std::iter::once(header).chain(hints).chain(workers)
}

/// The variable parts of one request, taken apart; kept from request to request for its room.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) hints: ArrayVec<Hint, 16>,
    pub(crate) allow: Vec<WorkerId>,
    pub(crate) has_allow: bool,
    pub(crate) taints: ArrayVec<TaintId, REQUIRED_TAINTS_MAX>,
    pub(crate) deadline: Option<Nanos>,
    pub(crate) priority_jump: f64,
}

impl Parts {
    pub(crate) fn new() -> Self {
        Self {
            hints: ArrayVec::new(),
            allow: Vec::with_capacity(ALLOWED_WORKERS_MAX),
            has_allow: false,
            taints: ArrayVec::new(),
            deadline: None,
            priority_jump: 0.0,
        }
    }

    /// Takes apart the blocks of one request, in the order in which [`encode`] gave them.
    pub(crate) fn decode(&mut self, mut blocks: impl Iterator<Item = Block>) {
        let Some(header) = blocks.next() else { return };
        let count = |shift: u32| (header[0] >> shift & 0xffff) as usize;
        let (hints, allowed, taints) = (count(0), count(16), count(32));
        self.has_allow = header[0] & HAS_ALLOW != 0;
        self.deadline = (header[0] & HAS_DEADLINE != 0).then_some(Nanos(header[1]));
        self.priority_jump = f64::from_bits(header[2]);
        self.taints.clear();
        self.taints.extend((0..taints).map(|at| {
            let word = header[FIRST_TAINT_WORD + at / TAINTS_PER_WORD];
            low16(word >> (16 * (at % TAINTS_PER_WORD)))
        }));
        self.hints.clear();
        for block in blocks.by_ref().take(hints.div_ceil(HINTS_PER_BLOCK)) {
            let rest = hints - self.hints.len();
            let hints = block.chunks_exact(2).take(rest).map(|words| Hint {
                endpoint: Endpoint::new(words[0], low32(words[1])),
                cached: low32(words[1] >> 32),
            });
            self.hints.extend(hints);
        }
        self.allow.clear();
        for block in blocks.take(allowed.div_ceil(WORKERS_PER_BLOCK)) {
            let rest = allowed - self.allow.len();
            self.allow
                .extend(block.into_iter().take(rest).map(WorkerId));
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "takes the low half")]
const fn low32(word: u64) -> u32 {
    word as u32
}

#[expect(clippy::cast_possible_truncation, reason = "takes the low quarter")]
const fn low16(word: u64) -> u16 {
    word as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_parts_arrive_as_they_were_sent() {
        let mut parts = Parts::new();
        for (hints, allowed, taints) in
            [(0, 0, 0), (1, 0, 1), (4, 8, 4), (5, 9, 16), (16, 1_024, 0)]
        {
            let hints: Vec<Hint> = (0..hints)
                .map(|n| Hint {
                    endpoint: Endpoint::new(u64::MAX - n, u32::MAX),
                    cached: u32::MAX,
                })
                .collect();
            let allow: Vec<WorkerId> = (0..allowed).map(WorkerId).collect();
            let taints: ArrayVec<TaintId, REQUIRED_TAINTS_MAX> = (0..taints).collect();
            let request = Request {
                hints: &hints,
                allow: (allowed > 0).then_some(&allow[..]),
                pin: Some(Endpoint::new(1, 1)),
                deadline: Some(Nanos(u64::MAX)),
                priority_jump: -0.5,
                ..Request::new(1, ())
            };
            let blocks: Vec<Block> = encode(&request, &taints).collect();
            assert_eq!(blocks.len(), blocks_for(&request));
            parts.decode(blocks.into_iter());
            assert_eq!(parts.hints[..], hints[..]);
            assert_eq!(parts.allow, allow);
            assert_eq!(parts.has_allow, allowed > 0);
            assert_eq!(parts.taints, taints);
            assert_eq!(parts.deadline, Some(Nanos(u64::MAX)));
            assert_eq!(parts.priority_jump.to_bits(), (-0.5_f64).to_bits());
        }
    }

    #[test]
    fn a_plain_request_sends_no_block() {
        assert_eq!(blocks_for(&Request::new(1, ())), 0);
        let pinned = Request {
            pin: Some(Endpoint::new(1, 0)),
            ..Request::new(1, ())
        };
        assert_eq!(blocks_for(&pinned), 0);
        let timed = Request {
            deadline: Some(Nanos(1)),
            ..pinned
        };
        assert_eq!(blocks_for(&timed), 1);
        assert_eq!(
            blocks_for(&Request {
                allow: Some(&[]),
                ..Request::new(1, ())
            }),
            1
        );
    }

    #[test]
    fn the_most_blocks_fit_the_record() {
        assert!(u8::try_from(BLOCKS_PER_REQUEST_MAX).is_ok());
    }
}
