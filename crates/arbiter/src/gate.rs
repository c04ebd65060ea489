//! Which endpoints are busy, and which heads may therefore go (S5.1 to S5.3).
//!
//! A class's thresholds fold into one number for each endpoint. The load of an endpoint moves
//! inside a band, between two thresholds of any class, most of the time: then nothing else is
//! looked at. When it leaves the band, the classes whose threshold it crossed are told.
//!
//! What makes an endpoint busy for one class and for all of them are kept apart: a bit by class tells
//! whether the load is above the class's threshold, one for all classes whether the endpoint is
//! *forced*, and a word that stands beside every word of bits, whether its egress group is shut. So
//! whatever concerns all classes is written once, 64 endpoints a word.
//!
//! Invariants:
//! - G1. The bit of (class, endpoint) is `load > threshold(class, endpoint)` for every class in use
//!   and every known endpoint. The endpoint is busy for the class if the bit is set, it is forced, or
//!   its group is shut.
//! - G2. While the load stays in the endpoint's band, no bit of the endpoint changes.
//! - G3. The counts of a class are those of its busy endpoints: over the available endpoints and
//!   over the eligible ones.
//! - G4. The counts of a class and a group are the same as if the group were not shut.
//! - G5. An endpoint *competes* if it is eligible and not forced.

mod bulk;

pub(crate) use self::bulk::Members;
use crate::bits::BitRows;
use crate::group::Groups;

/// How many endpoints may run a head, and how many of them are busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Available ones, overload left aside.
    pub(crate) available: u32,
    pub(crate) busy_available: u32,
    /// Available and, where overload makes ineligible, not overloaded ones.
    pub(crate) eligible: u32,
    pub(crate) busy_eligible: u32,
}

impl Counts {
    /// Books that endpoints become busy or free, by how many they are in either count.
    #[inline]
    pub(crate) fn flip(&mut self, available: u32, eligible: u32, busy: bool) {
        if busy {
            self.busy_available += available;
            self.busy_eligible += eligible;
        } else {
            self.busy_available -= available;
            self.busy_eligible -= eligible;
        }
    }

    /// How many are not busy, in either count.
    pub(crate) const fn free(self) -> (u32, u32) {
        (
            self.available - self.busy_available,
            self.eligible - self.busy_eligible,
        )
    }

    /// Books the arrival of one endpoint.
    pub(crate) fn add(&mut self, available: u32, eligible: u32, busy: bool) {
        self.available += available;
        self.eligible += eligible;
        if busy {
            self.flip(available, eligible, true);
        }
    }

    /// Books the departure of one endpoint.
    pub(crate) fn subtract(&mut self, available: u32, eligible: u32, busy: bool) {
        self.available -= available;
        self.eligible -= eligible;
        if busy {
            self.flip(available, eligible, false);
        }
    }
}

/// Loads of an endpoint that are above the thresholds of the same classes: `floor ..= ceiling`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Band {
    floor: u64,
    ceiling: u64,
}

impl Band {
    /// No load is in it.
    pub(crate) const NOTHING: Self = Self {
        floor: 1,
        ceiling: 0,
    };

    /// Every load is in it.
    pub(crate) const ALL: Self = Self {
        floor: 0,
        ceiling: u64::MAX,
    };

    /// Leaves out what `load` is on the other side of `threshold` from.
    #[inline]
    fn narrow(&mut self, load: u64, threshold: u64) {
        if threshold < load {
            self.floor = self.floor.max(threshold + 1);
        } else {
            self.ceiling = self.ceiling.min(threshold);
        }
    }

    #[inline]
    pub(crate) const fn contains(self, load: u64) -> bool {
        self.floor <= load && load <= self.ceiling
    }

    /// No load in it is above any class's threshold.
    #[inline]
    pub(crate) const fn is_lowest(self) -> bool {
        self.floor == 0
    }
}

/// One endpoint's bits, thresholds and counts by class, while its load crosses thresholds.
pub(crate) struct Crossing<'a> {
    load: u64,
    forced: bool,
    thresholds: &'a [u64],
    /// The words of the endpoint's bit, `words_per_row` from class to class.
    over: &'a mut [u64],
    words_per_row: usize,
    bit: u32,
    /// Of the endpoint's group, `1 << shift` from class to class.
    by_group: &'a mut [Counts],
    shift: u32,
}

impl Crossing<'_> {
    /// Narrows the band by a class's threshold, and brings the class's bit up to date (G1); the bit if
    /// the endpoint became busy or free by that.
    #[inline(always)]
    pub(crate) fn cross(&mut self, class: usize, band: &mut Band) -> Option<bool> {
        let threshold = self.thresholds[class];
        band.narrow(self.load, threshold);
        let over = self.load > threshold;
        let word = &mut self.over[class * self.words_per_row];
        let changed = (*word >> self.bit ^ u64::from(over)) & 1;
        *word ^= changed << self.bit;
        (changed != 0 && !self.forced).then_some(over)
    }

    /// The counts of a class and the endpoint's group (G4).
    #[inline(always)]
    pub(crate) fn by_group(&mut self, class: usize) -> &mut Counts {
        &mut self.by_group[class << self.shift]
    }
}

/// What an endpoint is to all classes alike, by its worker.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Standing {
    pub(crate) is_available: bool,
    pub(crate) is_eligible: bool,
    pub(crate) is_forced: bool,
}

/// Up to `1 << WORD_QUADS_SHIFT` groups, four neighbours in a group's tree share a word of bits.
const WORD_QUADS_SHIFT: u32 = 4;

#[derive(Debug)]
pub(crate) struct Gates {
    /// By class: the endpoints whose load is above its threshold.
    over: BitRows,
    /// By endpoint, then class.
    thresholds: Vec<u64>,
    classes: usize,
    /// What endpoints are to all classes alike; see the rows below.
    standing: BitRows,
    /// By class: the endpoints that may run its constrained shared head, availability aside; and
    /// one row more.
    masks: BitRows,
    groups: Groups,
    /// The endpoints of shut groups, the same in each word of 64.
    shut: u64,
    /// By class, then group (G4).
    by_group: Vec<Counts>,
}

// Rows of `standing`.
const AVAILABLE: usize = 0;
const ELIGIBLE: usize = 1;
/// Those whose egress is full by themselves.
const SHUT: usize = 2;
/// Those that are busy whatever their load.
const FORCED: usize = 3;
/// Eligible ones that are not forced (G5).
const COMPETES: usize = 4;

impl Gates {
    pub(crate) fn new(classes: usize, groups: Groups) -> Self {
        let endpoints = groups.numbers();
        Self {
            over: BitRows::new(classes, endpoints),
            thresholds: vec![0; classes * endpoints],
            classes,
            standing: BitRows::new(5, endpoints),
            masks: BitRows::new(classes + 1, endpoints),
            groups,
            shut: 0,
            by_group: vec![Counts::default(); classes * groups.stride()],
        }
    }

    /// Whether an endpoint is busy for a class, its egress group included.
    #[inline]
    pub(crate) fn is_busy(&self, class: usize, endpoint: u32) -> bool {
        let forced = self.standing.word(FORCED, endpoint);
        (self.over.word(class, endpoint) | forced | self.shut) >> (endpoint % 64) & 1 != 0
    }

    /// Whether an endpoint is busy for a class, its egress group aside (G1).
    #[inline]
    pub(crate) fn busy_bit(&self, class: usize, endpoint: u32) -> bool {
        let forced = self.standing.word(FORCED, endpoint);
        (self.over.word(class, endpoint) | forced) >> (endpoint % 64) & 1 != 0
    }

    /// Whether an endpoint's load is above a class's threshold.
    #[inline]
    pub(crate) fn is_over(&self, class: usize, endpoint: u32) -> bool {
        self.over.get(class, endpoint)
    }

    /// Whether an endpoint competes and its load keeps a class's requests off it no more than its
    /// group does: whether a head that is pinned there and asks for nothing else may go, the group
    /// aside.
    #[inline]
    pub(crate) fn is_open(&self, class: usize, endpoint: u32) -> bool {
        self.open_word(class, endpoint as usize / 64) >> (endpoint % 64) & 1 != 0
    }

    /// The same for 64 endpoints.
    #[inline]
    fn open_word(&self, class: usize, word: usize) -> u64 {
        self.standing.at(COMPETES, word) & !self.over.at(class, word)
    }

    /// The same for the four endpoints of a group that stand together in its tree with `endpoint`, a
    /// bit each.
    #[inline(always)]
    pub(crate) fn open_quad(&self, class: usize, endpoint: u32) -> u64 {
        let shift = self.groups.shift();
        let first = endpoint & !(3 << shift);
        if shift > WORD_QUADS_SHIFT {
            return self.open_quad_of_words(class, first);
        }
        let word = self.open_word(class, first as usize / 64) >> (first % 64);
        let stride = 1 << shift;
        let bit = |index: u32| (word >> (index * stride) & 1) << index;
        // Numbers of one group alone are neighbours.
        if shift == 0 {
            word & 15
        } else {
            bit(0) | bit(1) | bit(2) | bit(3)
        }
    }

    /// The same where the four stand in several words.
    #[cold]
    fn open_quad_of_words(&self, class: usize, first: u32) -> u64 {
        let numbers = (0..4).map(|index| (index, first + (index << self.groups.shift())));
        numbers
            .filter(|&(_, number)| self.exists(number) && self.is_open(class, number))
            .fold(0, |open, (index, _)| open | 1 << index)
    }

    /// Whether the egress group of an endpoint is shut.
    #[inline]
    pub(crate) fn is_group_shut(&self, endpoint: u32) -> bool {
        self.shut >> (endpoint % 64) & 1 != 0
    }

    /// The endpoints of shut groups in any word of 64 endpoints; bit g tells whether group g is
    /// shut.
    #[inline]
    pub(crate) const fn shut_word(&self) -> u64 {
        self.shut
    }

    pub(crate) fn set_group_shut(&mut self, group: usize, shut: bool) {
        let word = self.groups.word(group);
        self.shut = if shut {
            self.shut | word
        } else {
            self.shut & !word
        };
    }

    /// The counts of a class and a group (G4).
    #[inline]
    pub(crate) fn of_group(&mut self, class: usize, group: usize) -> &mut Counts {
        &mut self.by_group[class << self.groups.shift() | group]
    }

    #[inline]
    pub(crate) fn is_available(&self, endpoint: u32) -> bool {
        self.standing.get(AVAILABLE, endpoint)
    }

    #[inline]
    pub(crate) fn exists(&self, endpoint: u32) -> bool {
        (endpoint as usize) < self.standing.words_per_row() * 64
    }

    #[inline]
    pub(crate) fn is_eligible(&self, endpoint: u32) -> bool {
        self.standing.get(ELIGIBLE, endpoint)
    }

    #[inline]
    pub(crate) fn is_forced(&self, endpoint: u32) -> bool {
        self.standing.get(FORCED, endpoint)
    }

    #[inline]
    pub(crate) fn competes(&self, endpoint: u32) -> bool {
        self.standing.get(COMPETES, endpoint)
    }

    #[inline]
    pub(crate) fn is_shut(&self, endpoint: u32) -> bool {
        self.standing.get(SHUT, endpoint)
    }

    pub(crate) fn set_shut(&mut self, endpoint: u32, shut: bool) {
        self.standing.set(SHUT, endpoint, shut);
    }

    pub(crate) fn set_standing(&mut self, endpoint: u32, standing: Standing) {
        let forced = standing.is_forced || self.is_shut(endpoint);
        let eligible = standing.is_eligible;
        self.standing
            .set(AVAILABLE, endpoint, standing.is_available);
        self.standing.set(ELIGIBLE, endpoint, eligible);
        self.standing.set(FORCED, endpoint, forced);
        self.standing.set(COMPETES, endpoint, eligible && !forced);
    }

    pub(crate) fn set_threshold(&mut self, class: usize, endpoint: u32, threshold: u64) {
        self.thresholds[endpoint as usize * self.classes + class] = threshold;
    }

    /// What the bit of a class and an endpoint should be (G1).
    #[inline]
    pub(crate) fn should_be_over(&self, class: usize, endpoint: u32, load: u64) -> bool {
        load > self.thresholds[endpoint as usize * self.classes + class]
    }

    /// All that bringing the bits of an endpoint up to date needs, and the masks of the classes.
    #[inline]
    pub(crate) fn crossing(&mut self, endpoint: u32, load: u64) -> (Crossing<'_>, &BitRows) {
        let forced = self.is_forced(endpoint);
        let crossing = Crossing {
            load,
            forced,
            thresholds: &self.thresholds[endpoint as usize * self.classes..][..self.classes],
            words_per_row: self.over.words_per_row(),
            over: self.over.column_mut(endpoint),
            bit: endpoint % 64,
            by_group: &mut self.by_group[self.groups.of(endpoint)..],
            shift: self.groups.shift(),
        };
        (crossing, &self.masks)
    }

    pub(crate) fn set_over(&mut self, class: usize, endpoint: u32, over: bool) {
        self.over.set(class, endpoint, over);
    }

    /// The band around `load` between the thresholds of `classes`.
    pub(crate) fn band(
        &self,
        endpoint: u32,
        load: u64,
        classes: impl Iterator<Item = usize>,
    ) -> Band {
        let mut band = Band::ALL;
        let thresholds = &self.thresholds[endpoint as usize * self.classes..][..self.classes];
        for class in classes {
            band.narrow(load, thresholds[class]);
        }
        band
    }

    /// How `endpoint` weighs in counts over all endpoints.
    #[inline]
    pub(crate) fn weight(&self, endpoint: u32) -> (u32, u32) {
        (
            u32::from(self.is_available(endpoint)),
            u32::from(self.is_eligible(endpoint)),
        )
    }

    /// Counts over all endpoints, for one class (G3); those by group as well (G4).
    pub(crate) fn recount(&mut self, class: usize) -> Counts {
        for group in 0..self.groups.stride() {
            *self.of_group(class, group) = self.count_group(class, group);
        }
        self.count(class, self.shut, |_| u64::MAX)
    }

    fn count_group(&self, class: usize, group: usize) -> Counts {
        let members = self.groups.word(group);
        self.count(class, 0, |_| members)
    }

    /// Asserts that a class's counts are `counts` (G3), and those by group (G4).
    pub(crate) fn check_counts(&self, class: usize, counts: Counts) {
        assert_eq!(counts, self.count(class, self.shut, |_| u64::MAX), "G3");
        for group in 0..self.groups.stride() {
            let found = self.by_group[class << self.groups.shift() | group];
            assert_eq!(found, self.count_group(class, group), "G4");
        }
    }

    /// Counts over a mask, for one class.
    pub(crate) fn count_masked(&self, class: usize, row: usize) -> Counts {
        let mask = self.masks.row(row);
        self.count(class, self.shut, |word| mask[word])
    }

    /// The row of masks that no class owns: for requests that are not in a lane yet.
    pub(crate) const fn scratch_row(&self) -> usize {
        self.classes
    }

    /// Counts over a set of endpoints of which `shut`, in each word, are busy whatever their bit.
    fn count(&self, class: usize, shut: u64, set: impl Fn(usize) -> u64) -> Counts {
        let mut counts = Counts::default();
        for word in 0..self.words() {
            let busy = self.over.row(class)[word] | self.standing.row(FORCED)[word] | shut;
            let available = self.standing.row(AVAILABLE)[word] & set(word);
            let eligible = self.standing.row(ELIGIBLE)[word] & set(word);
            counts.available += available.count_ones();
            counts.busy_available += (available & busy).count_ones();
            counts.eligible += eligible.count_ones();
            counts.busy_eligible += (eligible & busy).count_ones();
        }
        counts
    }

    #[inline]
    pub(crate) fn is_masked(&self, class: usize, endpoint: u32) -> bool {
        self.masks.get(class, endpoint)
    }

    pub(crate) fn mask_mut(&mut self, class: usize) -> &mut [u64] {
        self.masks.row_mut(class)
    }

    /// One word of the endpoints that may take a shared request of `class` now.
    #[inline]
    pub(crate) fn free_word(&self, class: usize, masked: bool, word: usize) -> u64 {
        let free = self.open_word(class, word) & !self.shut;
        if masked {
            free & self.masks.row(class)[word]
        } else {
            free
        }
    }

    pub(crate) fn words(&self) -> usize {
        self.standing.words_per_row()
    }
}
