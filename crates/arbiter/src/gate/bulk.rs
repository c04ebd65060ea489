//! What an event does to many endpoints alike, 64 of them a word.

use std::ops::Range;

use super::{AVAILABLE, Band, COMPETES, Counts, ELIGIBLE, FORCED, Gates, SHUT, Standing};
use crate::bits::ones;

/// The endpoints that an event is about, by number.
#[derive(Debug, Default)]
pub(crate) struct Members {
    words: Vec<u64>,
    /// Those that competed before and do not now, or the other way round.
    turned: Vec<u64>,
    /// Outside of these words all bits are 0.
    span: Range<usize>,
}

impl Members {
    /// An empty set of numbers below `endpoints`.
    pub(crate) fn new(endpoints: usize) -> Self {
        let words = endpoints.div_ceil(64);
        Self {
            words: vec![0; words],
            turned: vec![0; words],
            span: 0..0,
        }
    }

    pub(crate) fn clear(&mut self) {
        self.words[self.span.clone()].fill(0);
        self.turned[self.span.clone()].fill(0);
        self.span = 0..0;
    }

    /// Adds numbers, which mostly are near each other.
    pub(crate) fn extend(&mut self, numbers: impl Iterator<Item = u32>) {
        let (mut word, mut bits) = (0, 0);
        for number in numbers {
            let place = number as usize / 64;
            if place != word {
                self.put(word, bits);
                (word, bits) = (place, 0);
            }
            bits |= 1 << (number % 64);
        }
        self.put(word, bits);
    }

    /// Adds what `pattern` has in each word, of numbers from `first` to `last`, to an empty set.
    pub(crate) fn put_run(&mut self, first: u32, last: u32, pattern: u64) {
        self.span = first as usize / 64..last as usize / 64 + 1;
        let words = &mut self.words[self.span.clone()];
        words.fill(pattern);
        words[0] &= u64::MAX << (first % 64);
        if let Some(end) = words.last_mut() {
            *end &= u64::MAX >> (63 - last % 64);
        }
    }

    fn put(&mut self, word: usize, bits: u64) {
        if bits != 0 {
            self.words[word] |= bits;
            self.span = if self.span.is_empty() {
                word..word + 1
            } else {
                self.span.start.min(word)..self.span.end.max(word + 1)
            };
        }
    }

    /// The numbers, rising.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        from_words(&self.words, self.span.clone())
    }

    /// Those that turned, rising.
    pub(crate) fn turned(&self) -> impl Iterator<Item = u32> {
        from_words(&self.turned, self.span.clone())
    }

    /// The words of those that turned, each with its first number.
    pub(crate) fn turned_words(&self) -> impl Iterator<Item = (usize, u64)> {
        self.span.clone().map(|word| (word * 64, self.turned[word]))
    }
}

fn from_words(words: &[u64], span: Range<usize>) -> impl Iterator<Item = u32> {
    let first = u32::try_from(span.start * 64).expect("bounded by twice ENDPOINTS_MAX");
    ones(words[span].iter().copied()).map(move |bit| first + bit)
}

impl Counts {
    /// Books the arrival of many.
    pub(crate) fn join(&mut self, others: Self) {
        self.available += others.available;
        self.busy_available += others.busy_available;
        self.eligible += others.eligible;
        self.busy_eligible += others.busy_eligible;
    }

    /// Books the departure of many.
    pub(crate) fn leave(&mut self, others: Self) {
        self.available -= others.available;
        self.busy_available -= others.busy_available;
        self.eligible -= others.eligible;
        self.busy_eligible -= others.busy_eligible;
    }

    /// The same endpoints in a group that is shut, if it is.
    pub(crate) const fn shut_if(self, is_group_shut: bool) -> Self {
        if is_group_shut {
            Self {
                busy_available: self.available,
                busy_eligible: self.eligible,
                ..self
            }
        } else {
            self
        }
    }
}

impl Gates {
    /// Counts over some endpoints, their egress group aside.
    pub(crate) fn count_members(&self, class: usize, members: &Members) -> Counts {
        let over = self.over.row(class);
        let [available, eligible, forced] =
            [AVAILABLE, ELIGIBLE, FORCED].map(|row| self.standing.row(row));
        let mut counts = Counts::default();
        for word in members.span.clone() {
            let busy = over[word] | forced[word];
            let available = available[word] & members.words[word];
            let eligible = eligible[word] & members.words[word];
            counts.available += available.count_ones();
            counts.busy_available += (available & busy).count_ones();
            counts.eligible += eligible.count_ones();
            counts.busy_eligible += (eligible & busy).count_ones();
        }
        counts
    }

    /// Sets what some endpoints are to all classes, and tells the set which of them turned; how many
    /// those are. Counts are left as they are.
    pub(crate) fn restand(&mut self, members: &mut Members, standing: Standing) -> u32 {
        let mut turned = 0;
        for word in members.span.clone() {
            let of_all = members.words[word];
            let shut = self.standing.row(SHUT)[word] & of_all;
            let forced = if standing.is_forced { of_all } else { shut };
            let eligible = if standing.is_eligible { of_all } else { 0 };
            let available = if standing.is_available { of_all } else { 0 };
            let mut put = |row: usize, bits: u64| {
                let place = &mut self.standing.row_mut(row)[word];
                let before = std::mem::replace(place, *place & !of_all | bits);
                before ^ *place
            };
            put(AVAILABLE, available);
            put(ELIGIBLE, eligible);
            put(FORCED, forced);
            members.turned[word] = put(COMPETES, eligible & !forced);
            turned += members.turned[word].count_ones();
        }
        turned
    }

    /// Sets a class's thresholds for the first `count` endpoints of a word, and their bits by their loads
    /// (G1), and narrows their bands; the endpoints whose bit changed. Counts are left as they are.
    pub(crate) fn set_thresholds(
        &mut self,
        class: usize,
        word: usize,
        count: usize,
        loads: &[u64; 64],
        thresholds: &[u64; 64],
        bands: &mut [Band; 64],
    ) -> u64 {
        let stride = self.classes;
        let places = &mut self.thresholds[word * 64 * stride..][..count * stride];
        let mut over = 0;
        for (at, places) in places.chunks_exact_mut(stride).take(64).enumerate() {
            let (load, threshold) = (loads[at], thresholds[at]);
            places[class] = threshold;
            bands[at].narrow(load, threshold);
            over |= u64::from(load > threshold) << at;
        }
        let before = std::mem::replace(&mut self.over.row_mut(class)[word], over);
        before ^ over
    }

    /// Which of a group's 64 endpoints from a place on are [open](Self::is_open) to a class.
    pub(crate) fn open_places(&self, class: usize, group: usize, place: usize) -> u64 {
        let shift = self.groups.shift();
        if shift == 0 {
            return self.open_word(class, place / 64);
        }
        let first = place >> (6 - shift);
        let words = (first..self.words()).take(1 << shift);
        let mut open = 0;
        for (at, word) in words.enumerate() {
            let mut rest = self.open_word(class, word) & self.groups.word(group);
            while rest != 0 {
                open |= 1 << ((at << (6 - shift)) + (rest.trailing_zeros() as usize >> shift));
                rest &= rest - 1;
            }
        }
        open
    }

    /// Of the endpoints of a word, those that are not eligible.
    pub(crate) fn not_eligible(&self, word: usize) -> u64 {
        !self.standing.row(ELIGIBLE)[word]
    }
}
