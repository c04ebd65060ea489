//! Which endpoints are busy, and which heads may therefore go (S5.1 to S5.3).
//!
//! A class's thresholds fold into one number for each endpoint. The load of an endpoint moves
//! inside a band, between two thresholds of any class, most of the time: then nothing else is
//! looked at. When it leaves the band, the classes whose threshold it crossed are told.
//!
//! Invariants:
//! - G1. `busy(class, endpoint)` is `forced(endpoint) || load > threshold(class, endpoint)` for
//!   every class in use and every known endpoint.
//! - G2. While the load stays in the endpoint's band, no busy bit of the endpoint changes.
//! - G3. The counts of a class are those of its bits: over the available endpoints and over the
//!   eligible ones.

use crate::bits::BitRows;

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
    /// Books the flip of one endpoint's busy bit, by its weight in either count.
    pub(crate) fn flip(&mut self, available: u32, eligible: u32, busy: bool) {
        if busy {
            self.busy_available += available;
            self.busy_eligible += eligible;
        } else {
            self.busy_available -= available;
            self.busy_eligible -= eligible;
        }
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

    #[inline]
    pub(crate) fn contains(self, load: u64) -> bool {
        (self.floor..=self.ceiling).contains(&load)
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
}

const AVAILABLE: usize = 0;
const ELIGIBLE: usize = 1;
const FORCED: usize = 2;

impl Gates {
    pub(crate) fn new(classes: usize, endpoints: usize) -> Self {
        Self {
            busy: BitRows::new(classes, endpoints),
            thresholds: vec![0; classes * endpoints],
            classes,
            standing: BitRows::new(3, endpoints),
            masks: BitRows::new(classes + 1, endpoints),
        }
    }

    #[inline]
    pub(crate) fn is_busy(&self, class: usize, endpoint: u32) -> bool {
        self.busy.get(class, endpoint)
    }

    #[inline]
    pub(crate) fn is_available(&self, endpoint: u32) -> bool {
        self.standing.get(AVAILABLE, endpoint)
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
        let mut band = Band {
            floor: 0,
            ceiling: u64::MAX,
        };
        for class in classes {
            let threshold = self.thresholds[endpoint as usize * self.classes + class];
            if threshold < load {
                band.floor = band.floor.max(threshold + 1);
            } else {
                band.ceiling = band.ceiling.min(threshold);
            }
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

    /// Counts over all endpoints, for one class (G3).
    pub(crate) fn count_all(&self, class: usize) -> Counts {
        self.count(class, |_| u64::MAX)
    }

    /// Counts over a mask, for one class.
    pub(crate) fn count_masked(&self, class: usize, row: usize) -> Counts {
        let mask = self.masks.row(row);
        self.count(class, |word| mask[word])
    }

    /// The row of masks that no class owns: for requests that are not in a lane yet.
    pub(crate) const fn scratch_row(&self) -> usize {
        self.classes
    }

    fn count(&self, class: usize, set: impl Fn(usize) -> u64) -> Counts {
        let mut counts = Counts::default();
        let rows = self
            .standing
            .row(AVAILABLE)
            .iter()
            .zip(self.standing.row(ELIGIBLE));
        for (word, ((available, eligible), busy)) in rows.zip(self.busy.row(class)).enumerate() {
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
        let free = self.standing.row(ELIGIBLE)[word] & !self.busy.row(class)[word];
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
