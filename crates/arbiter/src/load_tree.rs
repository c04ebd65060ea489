//! A winner tree over the endpoints that no class-wide reason keeps out, by standing score (S10.3).
//!
//! The winner has the lowest score; ties go to the endpoint dispatched to longest ago, then, among
//! those never used, to the lowest (worker, rank). A change is carried up while it matters.
//!
//! Score and precedence stand packed in one key. Where keys are equal, because scores or identities
//! do not fit, the full values decide.

use crate::Endpoint;
use crate::endpoints::{Endpoints, Slot};

/// The key of an endpoint that is not in.
const ABSENT: u128 = u128::MAX;
/// Scores from here on do not fit a key: their endpoints' keys are all equal.
const UNPACKED: u64 = u64::MAX - 1;
const UNPACKED_KEY: u128 = (UNPACKED as u128) << 64;

#[derive(Debug)]
pub(crate) struct LoadTree {
    /// A binary tree of endpoint numbers whose leaves start at `leaves`, each leaf its own number.
    nodes: Vec<u32>,
    /// By endpoint: score above precedence, or [`ABSENT`].
    keys: Vec<u128>,
    /// By endpoint: the score, where it does not fit the key.
    scores: Vec<u128>,
    leaves: usize,
    /// The lowest node that spans all endpoints that were ever in.
    root: usize,
    /// How many leaves it spans.
    span: usize,
}

impl LoadTree {
    pub(crate) fn new(endpoints: usize) -> Self {
        let leaves = endpoints.next_power_of_two();
        let mut nodes = vec![0; 2 * leaves];
        for (number, leaf) in (0..).zip(&mut nodes[leaves..]) {
            *leaf = number;
        }
        for at in (1..leaves).rev() {
            nodes[at] = nodes[2 * at];
        }
        Self {
            nodes,
            keys: vec![ABSENT; leaves],
            scores: vec![0; endpoints],
            leaves,
            root: leaves,
            span: 1,
        }
    }

    /// The best endpoint of all.
    #[inline]
    pub(crate) fn best(&self) -> Option<u32> {
        let best = self.nodes[self.root];
        (self.keys[best as usize] != ABSENT).then_some(best)
    }

    /// Puts an endpoint in with a new score or last use, or takes it out.
    #[inline]
    pub(crate) fn update(&mut self, number: u32, score: Option<u128>, endpoints: &Endpoints) {
        let key = match score {
            None => ABSENT,
            Some(score) => match u64::try_from(score) {
                Ok(packed) if packed < UNPACKED => {
                    u128::from(packed) << 64 | u128::from(precedence(endpoints.slot(number)))
                }
                _ => {
                    self.scores[number as usize] = score;
                    UNPACKED_KEY
                }
            },
        };
        if self.keys[number as usize] == key && key != UNPACKED_KEY {
            return;
        }
        self.keys[number as usize] = key;
        if number as usize >= self.span {
            self.widen(number, endpoints);
        }
        self.carry(number, endpoints);
    }

    fn carry(&mut self, number: u32, endpoints: &Endpoints) {
        let Self { nodes, keys, .. } = self;
        let (mut best, mut key) = (number, keys[number as usize]);
        let mut at = self.leaves + number as usize;
        while at > self.root {
            let other = nodes[at ^ 1];
            let other_key = keys[other as usize];
            let other_wins = if other_key == key {
                key != ABSENT && precedes(&self.scores, key, other, best, endpoints)
            } else {
                other_key < key
            };
            if other_wins {
                (best, key) = (other, other_key);
            }
            at /= 2;
            let node = &mut nodes[at];
            if *node == best && best != number {
                return;
            }
            *node = best;
        }
    }

    /// Makes the tree span `number`.
    #[cold]
    fn widen(&mut self, number: u32, endpoints: &Endpoints) {
        while number as usize >= self.span {
            let old = self.nodes[self.root];
            self.root /= 2;
            self.span *= 2;
            self.nodes[self.root] = old;
        }
        let best = self.nodes[self.root];
        self.carry(best, endpoints);
    }

    /// Asserts that every inner node is the winner of its children.
    pub(crate) fn check(&self, endpoints: &Endpoints) {
        for (number, _) in endpoints.iter() {
            let mut at = (self.leaves + number as usize) / 2;
            while at >= self.root && at > 0 {
                let (a, b) = (self.nodes[2 * at], self.nodes[2 * at + 1]);
                let (key_a, key_b) = (self.keys[a as usize], self.keys[b as usize]);
                if (key_a, key_b) != (ABSENT, ABSENT) {
                    let a_wins = key_a < key_b
                        || key_a == key_b && precedes(&self.scores, key_a, a, b, endpoints);
                    let winner = if a_wins { a } else { b };
                    assert_eq!(self.nodes[at], winner, "an inner node is the winner");
                }
                at /= 2;
            }
        }
    }
}

#[cold]
fn precedes(scores: &[u128], key: u128, a: u32, b: u32, endpoints: &Endpoints) -> bool {
    if key == UNPACKED_KEY && scores[a as usize] != scores[b as usize] {
        return scores[a as usize] < scores[b as usize];
    }
    used_before(a, b, endpoints)
}

/// Who goes first where scores are equal, as far as 64 bits tell: lower goes first. The never-used,
/// by (worker, rank), before the used, by last use.
fn precedence(slot: &Slot) -> u64 {
    const USED: u64 = 1 << 63;
    const WORKER_MAX: u64 = (1 << 47) - 1;
    const RANK_MAX: u64 = (1 << 16) - 1;
    let Endpoint { worker, rank } = slot.endpoint;
    if slot.last_use > 0 {
        USED | slot.last_use
    } else if worker.0 >= WORKER_MAX {
        WORKER_MAX << 16 | RANK_MAX
    } else {
        worker.0 << 16 | u64::from(rank).min(RANK_MAX)
    }
}

/// The tie-break of S10.1: dispatched to longest ago, never-used first, then lowest (worker, rank).
pub(crate) fn used_before(a: u32, b: u32, endpoints: &Endpoints) -> bool {
    let (slot_a, slot_b) = (endpoints.slot(a), endpoints.slot(b));
    (slot_a.last_use, slot_a.endpoint) < (slot_b.last_use, slot_b.endpoint)
}
