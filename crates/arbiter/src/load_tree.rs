//! Winner trees over the known endpoints, by standing score (S10.3). Those that some reason keeps out of
//! all classes are *parked*: they come after all others.
//!
//! Each egress group has a tree of its own, and where there are several groups a small tree stands
//! over their winners, in which a shut group counts for nothing.
//!
//! The winner has the lowest score; ties go to the endpoint dispatched to longest ago, then, among
//! those never used, to the lowest (worker, rank). All of that and the endpoint's number is packed into
//! one key, so that keys are unique and a lower one wins. A change is carried up while it matters: a
//! key that falls needs one comparison for each level, and one that rises is looked at again only
//! where it was the winner.
//!
//! What does not fit a key is *coarse*: a score or an identity that is too large. A coarse key comes
//! after each other key that it must come after, and the full values tell coarse ones apart.

use crate::Endpoint;
use crate::endpoints::{Endpoints, Slot};
use crate::group::Groups;
use crate::quads::{Shape, above, children};

/// From the top: parked, score, precedence (64 bits), endpoint number. Lower wins.
type Key = u128;

/// An endpoint that is not in.
const ABSENT: Key = Key::MAX;
/// The bit of an endpoint that does not compete. It keeps its key, so that any number of endpoints can be
/// parked and brought back without a look at what is booked on them.
const PARKED: Key = 1 << 127;
/// Numbers are below twice `ENDPOINTS_MAX`: groups are rounded up to a power of two.
const NUMBER_BITS: u32 = 21;
const SCORE_SHIFT: u32 = 64 + NUMBER_BITS;
/// Scores from here on do not fit a key; the score of [`ABSENT`] is one more.
const SCORE_MAX: u64 = (1 << (127 - SCORE_SHIFT)) - 2;
/// The precedence of an endpoint that was never used and whose identity does not fit.
const COARSE: u64 = USED - 1;
/// Marks the precedence of an endpoint that was used.
const USED: u64 = 1 << 63;
/// What stands for this rank and all above it. A precedence that ends so is coarse.
const RANK_MAX: u16 = u16::MAX;

/// Where an endpoint's leaf and its parent stand, by place from the first tree's start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadPlace {
    leaf: u32,
    parent: u32,
}

impl LoadPlace {
    pub(crate) const UNSET: Self = Self { leaf: 0, parent: 0 };

    /// The places of all numbers, rising.
    pub(crate) fn all(groups: Groups) -> impl Iterator<Item = Self> {
        let shape = Shape::new(groups.per_group() as usize);
        (0..groups.numbers()).map(move |number| {
            let number = u32::try_from(number).expect("bounded by twice ENDPOINTS_MAX");
            let start = groups.of(number) * shape.quads * 4;
            let leaf = shape.leaf(groups.place(number) as usize);
            let from_start = |place| u32::try_from(start + place).expect("a few for each number");
            Self {
                leaf: from_start(leaf),
                parent: from_start(above(leaf)),
            }
        })
    }
}

#[derive(Debug)]
pub(crate) struct LoadTree {
    /// By group: a tree of keys over its endpoints.
    quads: Vec<[Key; 4]>,
    shape: Shape,
    /// A tree over the groups' winners. Without use where there is one group.
    winners: Vec<[Key; 4]>,
    winners_shape: Shape,
    /// By endpoint: the score, where it does not fit the key.
    scores: Vec<u128>,
    groups: Groups,
    /// Shut groups, a bit for each.
    shut: u64,
}

impl LoadTree {
    pub(crate) fn new(groups: Groups) -> Self {
        let shape = Shape::new(groups.per_group() as usize);
        let winners_shape = Shape::spanning(groups.stride());
        Self {
            quads: vec![[ABSENT; 4]; shape.quads * groups.stride()],
            shape,
            winners: vec![[ABSENT; 4]; winners_shape.quads],
            winners_shape,
            scores: vec![0; groups.numbers()],
            groups,
            shut: 0,
        }
    }

    /// The best endpoint that competes, of all groups that are not shut.
    #[inline]
    pub(crate) fn best(&self) -> Option<u32> {
        let best = if self.groups.are_many() {
            at(&self.winners, self.winners_shape.root)
        } else if self.shut == 0 {
            at(&self.quads, self.shape.root)
        } else {
            ABSENT
        };
        (best < PARKED).then_some(number_of(best))
    }

    /// A group was shut or opened. O(log groups).
    pub(crate) fn set_group_shut(&mut self, group: usize, shut: bool, endpoints: &Endpoints) {
        self.shut = self.shut & !(1 << group) | u64::from(shut) << group;
        if self.groups.are_many() {
            self.settle_winner(group, endpoints);
        }
    }

    /// Brings a group's leaf among the winners up to date.
    fn settle_winner(&mut self, group: usize, endpoints: &Endpoints) {
        let winner = if self.shut >> group & 1 != 0 {
            ABSENT
        } else {
            at(&self.quads[group * self.shape.quads..], self.shape.root)
        };
        let leaf = self.winners_shape.leaf(group);
        let root = self.winners_shape.root;
        let winners = &mut self.winners[..];
        let old = std::mem::replace(at_mut(winners, leaf), winner);
        climb(winners, leaf, root, old, winner, &self.scores, endpoints);
    }

    /// Puts an endpoint in with a new score or last use, parked unless it competes.
    #[inline]
    pub(crate) fn update(
        &mut self,
        number: u32,
        score: u128,
        competes: bool,
        endpoints: &Endpoints,
    ) {
        let slot = endpoints.slot(number);
        let key = match u64::try_from(score) {
            Ok(packed) if packed < SCORE_MAX => key(packed, slot.precedence, number),
            _ => {
                self.scores[number as usize] = score;
                key(SCORE_MAX, COARSE, number)
            }
        };
        let parked = if competes { 0 } else { PARKED };
        self.put(number, slot.place, key | parked, endpoints);
    }

    /// The same for an endpoint that is in, a score that is small enough and a slot at hand; false if the
    /// score is not. It competes as before.
    #[inline(always)]
    pub(crate) fn update_packed(
        &mut self,
        number: u32,
        score: u64,
        slot: &Slot,
        endpoints: &Endpoints,
    ) -> bool {
        let fits = score < SCORE_MAX;
        if fits {
            let parked = at(&self.quads, slot.place.leaf as usize) & PARKED;
            let key = key(score, slot.precedence, number) | parked;
            self.put(number, slot.place, key, endpoints);
        }
        fits
    }

    /// Parks an endpoint that is in, or brings it back.
    pub(crate) fn turn(&mut self, number: u32, endpoints: &Endpoints) {
        let place = endpoints.slot(number).place;
        let key = at(&self.quads, place.leaf as usize) ^ PARKED;
        self.put(number, place, key, endpoints);
    }

    /// The same without what stands above, for [`rebuild`](Self::rebuild): for each bit that is set in
    /// `turned`, the endpoint at that place from `first` on among those of its group.
    pub(crate) fn turn_leaves(&mut self, group: usize, first: usize, turned: u64) {
        let start = group * self.shape.quads * 4 + self.shape.leaf(first);
        let leaves = &mut self.quads.as_flattened_mut()[start..];
        if turned == u64::MAX {
            leaves[..64].iter_mut().for_each(|leaf| *leaf ^= PARKED);
            return;
        }
        let used = 64 - turned.leading_zeros() as usize;
        for (at, leaf) in leaves[..used].iter_mut().enumerate() {
            *leaf ^= Key::from(turned >> at & 1) << 127;
        }
    }

    /// Brings a group's tree in line with its leaves, of which those from `used` on were never used.
    pub(crate) fn rebuild(&mut self, group: usize, mut used: usize, endpoints: &Endpoints) {
        let Shape { quads, root, .. } = self.shape;
        let tree = &mut self.quads[group * quads..][..quads];
        let mut first = self.shape.leaf(0);
        while first > root {
            used = used.div_ceil(4);
            let (upper, lower) = tree.split_at_mut(first / 4);
            let nodes = &mut upper.as_flattened_mut()[above(first)..][..used];
            for (node, quad) in nodes.iter_mut().zip(&*lower) {
                *node = winner(quad, &self.scores, endpoints);
            }
            first = above(first);
        }
        if self.groups.are_many() {
            self.settle_winner(group, endpoints);
        }
    }

    /// Takes an endpoint out if it is in.
    pub(crate) fn take_out(&mut self, number: u32, endpoints: &Endpoints) {
        let place = endpoints.slot(number).place;
        self.put(number, place, ABSENT, endpoints);
    }

    /// Writes a leaf. Most changes concern an endpoint that neither was nor becomes its quad's winner;
    /// they end here.
    #[inline(always)]
    fn put(&mut self, number: u32, place: LoadPlace, key: Key, endpoints: &Endpoints) {
        let old = std::mem::replace(at_mut(&mut self.quads, place.leaf as usize), key);
        let winner = at(&self.quads, place.parent as usize);
        if is_coarse(key) || key < winner || winner == old {
            self.carry(number, old, key, endpoints);
        }
    }

    /// Carries a leaf's change up.
    #[inline(never)]
    fn carry(&mut self, number: u32, old: Key, key: Key, endpoints: &Endpoints) {
        let place = self.groups.place(number) as usize;
        if place >= self.shape.span {
            self.widen(place);
        }
        let Shape { quads, root, .. } = self.shape;
        let leaf = self.shape.leaf(place);
        let group = self.groups.of(number);
        let tree = &mut self.quads[group * quads..][..quads];
        let is_changed = climb(tree, leaf, root, old, key, &self.scores, endpoints);
        if is_changed && self.groups.are_many() {
            self.settle_winner(group, endpoints);
        }
    }

    /// Makes the trees span `place`.
    #[cold]
    fn widen(&mut self, place: usize) {
        while place >= self.shape.span {
            let below = self.shape.root;
            self.shape.widen();
            for tree in self.quads.chunks_mut(self.shape.quads) {
                let winner = at(tree, below);
                *at_mut(tree, self.shape.root) = winner;
            }
        }
    }

    /// Asserts that every inner node is the winner of its children, and that a group's leaf among the
    /// winners is its winner, or nobody if its bit in `shut` is set.
    pub(crate) fn check(&self, shut: u64, endpoints: &Endpoints) {
        let groups = u64::MAX >> (64 - self.groups.stride());
        assert_eq!(self.shut, shut & groups, "the shut groups are known");
        for (group, tree) in self.quads.chunks(self.shape.quads).enumerate() {
            self.check_tree(tree, self.shape, endpoints);
            let leaf = at(&self.winners, self.winners_shape.leaf(group));
            let is_shut = shut >> group & 1 != 0;
            let winner = at(tree, self.shape.root);
            assert!(
                leaf == if is_shut { ABSENT } else { winner } || !self.groups.are_many(),
                "a group's leaf is its winner"
            );
        }
        self.check_tree(&self.winners, self.winners_shape, endpoints);
    }

    fn check_tree(&self, tree: &[[Key; 4]], shape: Shape, endpoints: &Endpoints) {
        for place in shape.inner() {
            let winner = full_winner(&tree[children(place) / 4], &self.scores, endpoints);
            assert_eq!(at(tree, place), winner, "an inner node is the winner");
        }
    }
}

#[inline]
fn at(tree: &[[Key; 4]], place: usize) -> Key {
    tree.as_flattened()[place]
}

#[inline]
fn at_mut(tree: &mut [[Key; 4]], place: usize) -> &mut Key {
    &mut tree.as_flattened_mut()[place]
}

/// Carries a leaf's change up; whether the root's winner may have changed.
#[inline(always)]
fn climb(
    tree: &mut [[Key; 4]],
    leaf: usize,
    root: usize,
    old: Key,
    key: Key,
    scores: &[u128],
    endpoints: &Endpoints,
) -> bool {
    // An endpoint that is taken out comes after all others, whatever their full values.
    let is_taken_out = key == ABSENT && old != ABSENT;
    if is_coarse(key) && !is_taken_out {
        return climb_coarse(
            tree,
            leaf,
            root,
            key != old || key != ABSENT,
            scores,
            endpoints,
        );
    }
    let mut place = leaf;
    if key < old {
        while place > root {
            place = above(place);
            let winner = at_mut(tree, place);
            if *winner < key {
                return false;
            }
            *winner = key;
        }
        return true;
    }
    while place > root {
        let parent = above(place);
        if at(tree, parent) != old {
            return false;
        }
        let lowest = winner(&tree[place / 4], scores, endpoints);
        *at_mut(tree, parent) = lowest;
        place = parent;
    }
    true
}

/// Carries a leaf's change up to the root where full values may decide; `changed` tells whether there
/// may be one.
#[cold]
fn climb_coarse(
    tree: &mut [[Key; 4]],
    leaf: usize,
    root: usize,
    changed: bool,
    scores: &[u128],
    endpoints: &Endpoints,
) -> bool {
    let mut place = leaf;
    while changed && place > root {
        let winner = full_winner(&tree[place / 4], scores, endpoints);
        place = above(place);
        *at_mut(tree, place) = winner;
    }
    changed
}

/// The winner of four.
#[inline]
fn winner(quad: &[Key; 4], scores: &[u128], endpoints: &Endpoints) -> Key {
    let [a, b, c, d] = *quad;
    let lowest = a.min(b).min(c.min(d));
    if is_coarse(lowest) {
        full_winner(quad, scores, endpoints)
    } else {
        lowest
    }
}

/// The winner of four, by full values where keys are coarse.
#[cold]
fn full_winner(quad: &[Key; 4], scores: &[u128], endpoints: &Endpoints) -> Key {
    let full = |&key: &Key| {
        if key == ABSENT || !is_coarse(key) {
            return (key >> NUMBER_BITS, 0, (0, Endpoint::new(0, 0)));
        }
        let number = number_of(key);
        let slot = endpoints.slot(number);
        let score = if (key & !PARKED) >> SCORE_SHIFT == u128::from(SCORE_MAX) {
            scores[number as usize]
        } else {
            0
        };
        (key >> NUMBER_BITS, score, (slot.last_use(), slot.endpoint))
    };
    quad.iter().copied().min_by_key(full).unwrap_or(ABSENT)
}

#[inline]
fn key(score: u64, precedence: u64, number: u32) -> Key {
    // The low word takes the lower part of the precedence; shifts of words are cheaper than of keys.
    let high = score << NUMBER_BITS | precedence >> (64 - NUMBER_BITS);
    let low = precedence << NUMBER_BITS | u64::from(number);
    u128::from(high) << 64 | u128::from(low)
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the number's bits")]
const fn number_of(key: Key) -> u32 {
    key as u32 & ((1 << NUMBER_BITS) - 1)
}

/// Whether a key is absent, or full values may be needed to tell it from others: true for all of
/// those, and hardly ever for another.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the precedence's last bits"
)]
const fn is_coarse(key: Key) -> bool {
    (key as u64 >> NUMBER_BITS) as u16 == RANK_MAX
}

/// Who goes first where scores are equal, as far as 64 bits tell: lower goes first. The never-used,
/// by (worker, rank), before the used, by last use.
pub(crate) const fn precedence_unused(endpoint: Endpoint) -> u64 {
    const WORKER_MAX: u64 = (1 << 47) - 1;
    let Endpoint { worker, rank } = endpoint;
    if worker.0 >= WORKER_MAX {
        COARSE
    } else if rank >= RANK_MAX as u32 {
        worker.0 << 16 | RANK_MAX as u64
    } else {
        worker.0 << 16 | rank as u64
    }
}

/// The same for an endpoint whose last dispatch was number `last_use`, from 1.
#[inline]
pub(crate) const fn precedence_used(last_use: u64) -> u64 {
    USED | last_use
}

/// The number of the last dispatch; 0 is never.
#[inline]
pub(crate) const fn last_use(precedence: u64) -> u64 {
    if precedence & USED == 0 {
        0
    } else {
        precedence & !USED
    }
}

/// The tie-break of S10.1: dispatched to longest ago, never-used first, then lowest (worker, rank).
pub(crate) fn used_before(a: u32, b: u32, endpoints: &Endpoints) -> bool {
    let (slot_a, slot_b) = (endpoints.slot(a), endpoints.slot(b));
    (slot_a.last_use(), slot_a.endpoint) < (slot_b.last_use(), slot_b.endpoint)
}
