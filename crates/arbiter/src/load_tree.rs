//! A winner tree over the endpoints that no class-wide reason keeps out, by standing score (S10.3).
//!
//! Each egress group has a tree of its own, and where there are several groups a small tree over
//! their winners, in which a shut group stands for nobody.
//!
//! The winner has the lowest score; ties go to the endpoint dispatched to longest ago, then, among
//! those never used, to the lowest (worker, rank). A change is carried up while it matters.
//!
//! Score and precedence stand packed in one key. Where keys are equal, because scores or identities
//! do not fit, the full values decide.

use crate::Endpoint;
use crate::endpoints::{Endpoints, Slot};
use crate::group::Groups;

/// The key of an endpoint that is not in.
const ABSENT: u128 = u128::MAX;
/// Scores from here on do not fit a key: their endpoints' keys are all equal.
const UNPACKED: u64 = u64::MAX - 1;
const UNPACKED_KEY: u128 = (UNPACKED as u128) << 64;

#[derive(Debug)]
pub(crate) struct LoadTree {
    /// By group: a binary tree of endpoint numbers whose leaves start at `leaves`, each leaf its own
    /// number.
    nodes: Vec<u32>,
    /// A binary tree over the groups' winners, whose leaves are its upper half; a shut group's leaf is
    /// `nobody`. Without use where there is one group.
    winners: Vec<u32>,
    /// By endpoint: score above precedence, or [`ABSENT`]; the last is `nobody`'s.
    keys: Vec<u128>,
    /// By endpoint: the score, where it does not fit the key.
    scores: Vec<u128>,
    /// Leaves of a group.
    leaves: usize,
    /// The lowest node that spans all endpoints of a group that were ever in.
    root: usize,
    /// How many leaves it spans.
    span: usize,
    groups: Groups,
    /// A number that is no endpoint's.
    nobody: u32,
}

impl LoadTree {
    pub(crate) fn new(groups: Groups) -> Self {
        let leaves = (groups.per_group() as usize).next_power_of_two();
        let numbers = leaves << groups.shift();
        let nobody = u32::try_from(numbers).expect("bounded by ENDPOINTS_MAX");
        let mut nodes = Vec::with_capacity(2 * numbers);
        for group in 0..groups.stride() {
            nodes.extend(vacant(leaves, |place| place << groups.shift() | group));
        }
        Self {
            nodes,
            winners: vacant(groups.stride(), |group| group),
            keys: vec![ABSENT; numbers + 1],
            scores: vec![0; numbers + 1],
            leaves,
            root: leaves,
            span: 1,
            groups,
            nobody,
        }
    }

    /// The best endpoint of all groups whose bit in `shut` is not set.
    #[inline]
    pub(crate) fn best(&self, shut: u64) -> Option<u32> {
        let best = if self.groups.are_many() {
            self.winners[1]
        } else if shut == 0 {
            self.nodes[self.root]
        } else {
            self.nobody
        };
        (self.keys[best as usize] != ABSENT).then_some(best)
    }

    /// A group was shut or opened. O(log groups).
    pub(crate) fn set_group_shut(&mut self, group: usize, shut: bool, endpoints: &Endpoints) {
        let winner = if shut {
            self.nobody
        } else {
            self.nodes[group * 2 * self.leaves + self.root]
        };
        self.place_winner(group, winner, endpoints);
    }

    /// Writes a group's winner, or `nobody`, and carries it up.
    fn place_winner(&mut self, group: usize, winner: u32, endpoints: &Endpoints) {
        let Self {
            winners,
            keys,
            scores,
            ..
        } = self;
        let at = winners.len() / 2 + group;
        winners[at] = winner;
        climb(winners, at, 1, winner, keys, scores, endpoints);
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
        let place = self.groups.place(number);
        if place as usize >= self.span {
            self.widen(place);
        }
        if self.groups.are_many() {
            self.carry_in_group(number, endpoints);
        } else {
            let (nodes, at) = (&mut self.nodes, self.leaves + number as usize);
            climb(
                nodes,
                at,
                self.root,
                number,
                &self.keys,
                &self.scores,
                endpoints,
            );
        }
    }

    fn carry_in_group(&mut self, number: u32, endpoints: &Endpoints) {
        let group = self.groups.of(number);
        let nodes = &mut self.nodes[group * 2 * self.leaves..][..2 * self.leaves];
        let at = self.leaves + self.groups.place(number) as usize;
        let reached_root = climb(
            nodes,
            at,
            self.root,
            number,
            &self.keys,
            &self.scores,
            endpoints,
        );
        if reached_root {
            let winner = nodes[self.root];
            if self.winners[self.winners.len() / 2 + group] != self.nobody {
                self.place_winner(group, winner, endpoints);
            }
        }
    }

    /// Makes the trees span `place`.
    #[cold]
    fn widen(&mut self, place: u32) {
        while place as usize >= self.span {
            for nodes in self.nodes.chunks_mut(2 * self.leaves) {
                nodes[self.root / 2] = nodes[self.root];
            }
            self.root /= 2;
            self.span *= 2;
        }
    }

    /// Asserts that every inner node is the winner of its children, and that a group's leaf among the
    /// winners is its winner, or `nobody` if its bit in `shut` is set.
    pub(crate) fn check(&self, shut: u64, endpoints: &Endpoints) {
        for (group, nodes) in self.nodes.chunks(2 * self.leaves).enumerate() {
            self.check_nodes(nodes, self.root, endpoints);
            let leaf = self.winners[self.winners.len() / 2 + group];
            let is_shut = shut >> group & 1 != 0;
            let expected = if is_shut {
                self.nobody
            } else {
                nodes[self.root]
            };
            assert!(
                leaf == expected || !self.groups.are_many(),
                "a group's leaf is its winner"
            );
        }
        self.check_nodes(&self.winners, 1, endpoints);
    }

    fn check_nodes(&self, nodes: &[u32], root: usize, endpoints: &Endpoints) {
        for at in root..nodes.len() / 2 {
            let (a, b) = (nodes[2 * at], nodes[2 * at + 1]);
            let (key_a, key_b) = (self.keys[a as usize], self.keys[b as usize]);
            if (key_a, key_b) != (ABSENT, ABSENT) {
                let a_wins = key_a < key_b
                    || key_a == key_b && precedes(&self.scores, key_a, a, b, endpoints);
                let winner = if a_wins { a } else { b };
                assert_eq!(nodes[at], winner, "an inner node is the winner");
            }
        }
    }
}

/// A tree with so many leaves in which nobody is in: each node is the number of its first leaf.
fn vacant(leaves: usize, number_of: impl Fn(usize) -> usize) -> Vec<u32> {
    let mut nodes = vec![0; 2 * leaves];
    for (place, leaf) in nodes[leaves..].iter_mut().enumerate() {
        *leaf = u32::try_from(number_of(place)).expect("bounded by ENDPOINTS_MAX");
    }
    for at in (1..leaves).rev() {
        nodes[at] = nodes[2 * at];
    }
    nodes
}

/// Carries a change of `number`, which stands at leaf `at`, up to `root`; false if it stopped at a
/// node that keeps another number.
#[inline]
fn climb(
    nodes: &mut [u32],
    mut at: usize,
    root: usize,
    number: u32,
    keys: &[u128],
    scores: &[u128],
    endpoints: &Endpoints,
) -> bool {
    let (mut best, mut key) = (number, keys[number as usize]);
    while at > root {
        let other = nodes[at ^ 1];
        let other_key = keys[other as usize];
        let other_wins = if other_key == key {
            key != ABSENT && precedes(scores, key, other, best, endpoints)
        } else {
            other_key < key
        };
        if other_wins {
            (best, key) = (other, other_key);
        }
        at /= 2;
        let node = &mut nodes[at];
        if *node == best && best != number {
            return false;
        }
        *node = best;
    }
    true
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
