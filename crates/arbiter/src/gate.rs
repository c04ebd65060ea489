//! Which endpoints are busy, and which heads may therefore go (S5.1 to S5.3).
//!
//! A class's thresholds fold into one number for each endpoint. The load of an endpoint moves
//! inside a band, between two thresholds of any class, most of the time: then nothing else is
//! looked at. When it leaves the band, the classes whose threshold it crossed are told.
//!
//! An endpoint's busy bits know nothing of its egress group. Shutting a group writes one word,
//! which stands beside every word of bits, and moves counts; the endpoints are not visited.
//!
//! Invariants:
//! - G1. The busy bit of (class, endpoint) is `forced(endpoint) || load > threshold(class,
//!   endpoint)` for every class in use and every known endpoint. The endpoint is busy for the class
//!   if the bit is set or its group is shut.
//! - G2. While the load stays in the endpoint's band, no busy bit of the endpoint changes.
//! - G3. The counts of a class are those of its busy endpoints: over the available endpoints and
//!   over the eligible ones.
//! - G4. The counts of a class and a group are those of its busy bits, whether or not the group is
//!   shut.

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

/// Loads of an endpoint that change no busy bit: `floor ..= ceiling`.
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

/// One endpoint's busy bits, thresholds and counts by class, while its load crosses thresholds.
pub(crate) struct Crossing<'a> {
    load: u64,
    forced: bool,
    thresholds: &'a [u64],
    /// The words of the endpoint's bit, `words_per_row` from class to class.
    busy: &'a mut [u64],
    words_per_row: usize,
    bit: u32,
    /// Of the endpoint's group, `1 << shift` from class to class.
    by_group: &'a mut [Counts],
    shift: u32,
}

impl Crossing<'_> {
    /// Narrows the band by a class's threshold, and brings the class's busy bit up to date (G1); the
    /// bit if it changed.
    #[inline(always)]
    pub(crate) fn cross(&mut self, class: usize, band: &mut Band) -> Option<bool> {
        let threshold = self.thresholds[class];
        band.narrow(self.load, threshold);
        let busy = self.forced || self.load > threshold;
        let word = &mut self.busy[class * self.words_per_row];
        let changed = (*word >> self.bit ^ u64::from(busy)) & 1;
        *word ^= changed << self.bit;
        (changed != 0).then_some(busy)
    }

    /// The counts of a class and the endpoint's group (G4).
    #[inline(always)]
    pub(crate) fn by_group(&mut self, class: usize) -> &mut Counts {
        &mut self.by_group[class << self.shift]
    }
}

#[derive(Debug)]
pub(crate) struct Gates {
    /// By class.
    busy: BitRows,
    /// By endpoint, then class.
    thresholds: Vec<u64>,
    classes: usize,
    /// Row 0: available endpoints; row 1: eligible ones; row 2: busy whatever their load.
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

const AVAILABLE: usize = 0;
const ELIGIBLE: usize = 1;
const FORCED: usize = 2;

impl Gates {
    pub(crate) fn new(classes: usize, groups: Groups) -> Self {
        let endpoints = groups.numbers();
        Self {
            busy: BitRows::new(classes, endpoints),
            thresholds: vec![0; classes * endpoints],
            classes,
            standing: BitRows::new(3, endpoints),
            masks: BitRows::new(classes + 1, endpoints),
            groups,
            shut: 0,
            by_group: vec![Counts::default(); classes * groups.stride()],
        }
    }

    /// Whether an endpoint is busy for a class, its egress group included.
    #[inline]
    pub(crate) fn is_busy(&self, class: usize, endpoint: u32) -> bool {
        (self.busy.word(class, endpoint) | self.shut) >> (endpoint % 64) & 1 != 0
    }

    /// Whether an endpoint is busy for a class, its egress group aside (G1).
    #[inline]
    pub(crate) fn busy_bit(&self, class: usize, endpoint: u32) -> bool {
        self.busy.get(class, endpoint)
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

    pub(crate) fn set_standing(&mut self, endpoint: u32, available: bool, eligible: bool) {
        self.standing.set(AVAILABLE, endpoint, available);
        self.standing.set(ELIGIBLE, endpoint, eligible);
    }

    pub(crate) fn set_forced(&mut self, endpoint: u32, forced: bool) {
        self.standing.set(FORCED, endpoint, forced);
    }

    pub(crate) fn set_threshold(&mut self, class: usize, endpoint: u32, threshold: u64) {
        self.thresholds[endpoint as usize * self.classes + class] = threshold;
    }

    /// What the busy bit should be (G1).
    #[inline]
    pub(crate) fn should_be_busy(&self, class: usize, endpoint: u32, load: u64) -> bool {
        self.is_forced(endpoint) || load > self.thresholds[endpoint as usize * self.classes + class]
    }

    /// All that bringing the busy bits of an endpoint up to date needs, and the masks of the classes.
    #[inline]
    pub(crate) fn crossing(&mut self, endpoint: u32, load: u64) -> (Crossing<'_>, &BitRows) {
        let forced = self.is_forced(endpoint);
        let crossing = Crossing {
            load,
            forced,
            thresholds: &self.thresholds[endpoint as usize * self.classes..][..self.classes],
            words_per_row: self.busy.words_per_row(),
            busy: self.busy.column_mut(endpoint),
            bit: endpoint % 64,
            by_group: &mut self.by_group[self.groups.of(endpoint)..],
            shift: self.groups.shift(),
        };
        (crossing, &self.masks)
    }

    pub(crate) fn set_busy(&mut self, class: usize, endpoint: u32, busy: bool) {
        self.busy.set(class, endpoint, busy);
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

    /// How a busy bit of `endpoint` weighs in counts over all endpoints.
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
        let rows = self
            .standing
            .row(AVAILABLE)
            .iter()
            .zip(self.standing.row(ELIGIBLE));
        for (word, ((available, eligible), busy)) in rows.zip(self.busy.row(class)).enumerate() {
            let busy = busy | shut;
            let (available, eligible) = (available & set(word), eligible & set(word));
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
        let busy = self.busy.row(class)[word] | self.shut;
        let free = self.standing.row(ELIGIBLE)[word] & !busy;
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
