//! A histogram of durations that one thread writes and any thread reads at any time.
//!
//! The buckets are those of `hdrhistogram` with [`SIGNIFICANT_DIGITS`] decimal digits, so that a
//! read puts every sample where that crate would have put it: the counts are exact, and a value is
//! reported at most 1/128 (under 1 %) above what was recorded. Durations of 0 and from 1 ns to
//! [`TOP_NANOS`] have a bucket; longer ones are recorded as [`TOP_NANOS`] and counted as clamped.
//!
//! # Who owns what
//! [`Recorder`] is the one writer: it is not `Clone` and records by `&mut self`. So a count is
//! raised by a load and a store, without a locked instruction. [`HistogramReader`] only loads.
//!
//! # What a reader sees
//! Counts that only grow, each sample once, and all samples of a recorder that is idle, or gone. A
//! sample that is being recorded may be in the buckets and not yet in the extremes; the reader
//! widens the extremes to the buckets it saw.
//!
//! # What is deliberately absent
//! `hdrhistogram`'s own `SyncHistogram`: its refresh waits until each recorder has recorded once
//! more, or is gone, so one idle shard would hold up the report of all the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crossbeam::utils::CachePadded;
use hdrhistogram::Histogram;

/// The longest duration that is told from longer ones, in nanoseconds: about 18 minutes.
pub(crate) const TOP_NANOS: u64 = (1 << 40) - 1;

/// Decimal digits of a value that are kept.
pub(crate) const SIGNIFICANT_DIGITS: u8 = 2;

/// Values below this have a bucket each; from there on, a bucket holds 2, 4, 8 .. values.
const LINEAR: usize = 256;

/// Buckets for each doubling of the value.
const HALF: usize = LINEAR / 2;

/// Buckets in all: the linear ones, and half as many for each doubling up to [`TOP_NANOS`].
const BUCKETS: usize = LINEAR + HALF * (40 - 8);

/// Sums are published in units of 2^10 ns, which no run fills a word with.
const SUM_SHIFT: u32 = 10;

/// A new histogram's writing end and a reading end.
pub(crate) fn histogram() -> (Recorder, HistogramReader) {
    let shared = Arc::new(CachePadded::new(Shared {
        counts: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
        sum: AtomicU64::new(0),
        min: AtomicU64::new(u64::MAX),
        max: AtomicU64::new(0),
        clamped: AtomicU64::new(0),
    }));
    let recorder = Recorder {
        shared: Arc::clone(&shared),
        unpublished: 0,
        min: u64::MAX,
        max: 0,
    };
    (recorder, HistogramReader { shared })
}

/// All words have one writer and no word says anything about another, so every access is relaxed. On
/// cache lines of its own: the words are written at each sample, and the next histogram by another
/// thread.
#[derive(Debug)]
struct Shared {
    /// Samples by bucket.
    counts: Box<[AtomicU64]>,
    /// All samples together, in units of 2^[`SUM_SHIFT`] ns.
    sum: AtomicU64,
    /// The shortest sample in nanoseconds; `u64::MAX` before the first.
    min: AtomicU64,
    /// The longest sample in nanoseconds.
    max: AtomicU64,
    /// Samples above [`TOP_NANOS`].
    clamped: AtomicU64,
}

/// The writing end of a histogram; there is one.
#[derive(Debug)]
pub(crate) struct Recorder {
    shared: Arc<CachePadded<Shared>>,
    /// Nanoseconds that are not in the published sum yet; less than one of its units.
    unpublished: u64,
    min: u64,
    max: u64,
}

impl Recorder {
    /// Counts one duration of `nanos`.
    ///
    /// # Complexity
    /// O(1): two stores, and one more for a new extreme or a clamped value.
    pub(crate) fn record(&mut self, nanos: u64) {
        let shared = &**self.shared;
        let value = nanos.min(TOP_NANOS);
        if nanos > TOP_NANOS {
            raise(&shared.clamped, 1);
        }
        if value < self.min {
            self.min = value;
            shared.min.store(value, Relaxed);
        }
        if value > self.max {
            self.max = value;
            shared.max.store(value, Relaxed);
        }
        self.unpublished += value;
        raise(&shared.sum, self.unpublished >> SUM_SHIFT);
        self.unpublished &= (1 << SUM_SHIFT) - 1;
        raise(&shared.counts[bucket_of(value)], 1);
    }
}

/// A reading end of a histogram.
#[derive(Clone, Debug)]
pub(crate) struct HistogramReader {
    shared: Arc<CachePadded<Shared>>,
}

impl HistogramReader {
    /// Every sample recorded so far, each at the lowest value of its bucket.
    ///
    /// # Complexity
    /// A pass over the 4,352 buckets, and one allocation of their size.
    pub(crate) fn read(&self) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(1, TOP_NANOS, SIGNIFICANT_DIGITS)
            .expect("the bounds and the digits are constants that the crate takes");
        for (bucket, count) in self.shared.counts.iter().enumerate() {
            let count = count.load(Relaxed);
            if count > 0 {
                histogram
                    .record_n(lowest_of(bucket), count)
                    .expect("no bucket lies above the top");
            }
        }
        histogram
    }

    /// How many samples were longer than [`TOP_NANOS`].
    pub(crate) fn clamped(&self) -> u64 {
        self.shared.clamped.load(Relaxed)
    }

    /// All samples together in nanoseconds, with clamped ones as [`TOP_NANOS`]; at most 1,023 ns
    /// short.
    pub(crate) fn sum_nanos(&self) -> u128 {
        u128::from(self.shared.sum.load(Relaxed)) << SUM_SHIFT
    }

    /// The shortest and the longest sample to the nanosecond, at least as far apart as those of
    /// `read`, an earlier answer of [`read`](Self::read); (0, 0) if it is empty.
    pub(crate) fn extremes_of(&self, read: &Histogram<u64>) -> (u64, u64) {
        if read.is_empty() {
            return (0, 0);
        }
        let shortest = self.shared.min.load(Relaxed);
        let longest = self.shared.max.load(Relaxed);
        let lowest = read.highest_equivalent(read.min());
        let highest = read.lowest_equivalent(read.max());
        (shortest.min(lowest), longest.max(highest))
    }
}

/// One writer: a load and a store are enough.
fn raise(word: &AtomicU64, by: u64) {
    word.store(word.load(Relaxed) + by, Relaxed);
}

/// The bucket of a value up to [`TOP_NANOS`].
#[expect(
    clippy::cast_possible_truncation,
    reason = "what is left of the value is below LINEAR"
)]
fn bucket_of(value: u64) -> usize {
    let linear = LINEAR as u64 - 1;
    // How many low bits the bucket drops: none while the value is below LINEAR.
    let dropped = linear.leading_zeros() - (value | linear).leading_zeros();
    dropped as usize * HALF + (value >> dropped) as usize
}

/// The lowest value of a bucket.
fn lowest_of(bucket: usize) -> u64 {
    let dropped = (bucket / HALF).saturating_sub(1);
    ((bucket - dropped * HALF) as u64) << dropped
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// A small generator of well-mixed words (splitmix64).
    struct Words(u64);

    impl Words {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut word = self.0;
            word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            word ^ (word >> 31)
        }

        /// A value up to the top, every magnitude equally often.
        fn value(&mut self) -> u64 {
            let bits = self.next() % 41;
            self.next() & ((1 << bits) - 1)
        }
    }

    fn plain() -> Histogram<u64> {
        Histogram::new_with_bounds(1, TOP_NANOS, SIGNIFICANT_DIGITS).expect("constants")
    }

    #[test]
    fn buckets_are_those_of_hdrhistogram() {
        let plain = plain();
        assert_eq!(plain.distinct_values(), BUCKETS);
        for bucket in 0..BUCKETS {
            let lowest = lowest_of(bucket);
            assert_eq!(bucket_of(lowest), bucket);
            assert_eq!(plain.lowest_equivalent(lowest), lowest);
            assert_eq!(bucket_of(plain.highest_equivalent(lowest)), bucket);
        }
        assert_eq!(bucket_of(TOP_NANOS), BUCKETS - 1);
    }

    #[test]
    fn a_million_samples_give_the_percentiles_of_a_plain_histogram() {
        let (mut recorder, reader) = histogram();
        let mut plain = plain();
        let mut exact = Vec::new();
        let mut words = Words(1);
        for _ in 0..1_000_000 {
            let value = words.value();
            recorder.record(value);
            plain.record(value).expect("in range");
            exact.push(value);
        }
        exact.sort_unstable();
        let read = reader.read();
        assert_eq!(read.len(), 1_000_000);
        assert_eq!(read, plain);
        for percentile in 1..=1_000_u32 {
            let quantile = f64::from(percentile) / 1_000.0;
            let said = read.value_at_quantile(quantile);
            let true_value = exact[percentile as usize * 1_000 - 1];
            assert!(
                said >= true_value && said - true_value <= true_value / 128,
                "{quantile}: {said} for {true_value}"
            );
        }
        let sum: u128 = exact.iter().map(|&value| u128::from(value)).sum();
        assert!(sum - reader.sum_nanos() < 1 << SUM_SHIFT);
        assert_eq!(
            reader.extremes_of(&read),
            (exact[0], exact[exact.len() - 1])
        );
        assert_eq!(reader.clamped(), 0);
    }

    #[test]
    fn values_at_and_beyond_the_borders_are_kept_or_clamped_and_counted() {
        let (mut recorder, reader) = histogram();
        for value in [0, 1, TOP_NANOS, TOP_NANOS + 1, u64::MAX] {
            recorder.record(value);
        }
        let read = reader.read();
        assert_eq!(read.len(), 5);
        assert_eq!(read.count_at(0), 1);
        assert_eq!(read.count_at(1), 1);
        assert_eq!(read.count_at(TOP_NANOS), 3);
        assert_eq!(read.max(), TOP_NANOS);
        assert_eq!(reader.clamped(), 2);
        assert_eq!(reader.extremes_of(&read), (0, TOP_NANOS));
        assert_eq!(
            reader.sum_nanos() >> SUM_SHIFT,
            (3 * u128::from(TOP_NANOS) + 1) >> SUM_SHIFT
        );
    }

    #[test]
    fn an_empty_histogram_reads_as_empty() {
        let (_recorder, reader) = histogram();
        let read = reader.read();
        assert!(read.is_empty());
        assert_eq!(reader.extremes_of(&read), (0, 0));
        assert_eq!(reader.sum_nanos(), 0);
    }

    #[test]
    fn a_sum_of_short_samples_is_not_lost_to_its_unit() {
        let (mut recorder, reader) = histogram();
        for _ in 0..1_024 {
            recorder.record(3);
        }
        assert_eq!(reader.sum_nanos(), 3_072);
    }

    #[test]
    fn reading_twice_loses_and_doubles_nothing_and_outlives_the_recorder() {
        let (mut recorder, reader) = histogram();
        recorder.record(700);
        assert_eq!(reader.read(), reader.read());
        recorder.record(700);
        drop(recorder);
        assert_eq!(reader.clone().read().len(), 2);
        assert_eq!(reader.read().len(), 2);
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "the reader is another thread than the recorder"
    )]
    fn counts_read_beside_a_recorder_only_grow_and_end_exact() {
        const SAMPLES: u64 = 2_000_000;
        let (mut recorder, reader) = histogram();
        let writer = thread::spawn(move || {
            let mut words = Words(2);
            for _ in 0..SAMPLES {
                recorder.record(words.value());
            }
        });
        let mut last = plain();
        while !writer.is_finished() {
            let read = reader.read();
            assert!(read.len() <= SAMPLES);
            let (shortest, longest) = reader.extremes_of(&read);
            if !read.is_empty() {
                assert!(shortest <= read.highest_equivalent(read.min()));
                assert!(longest >= read.lowest_equivalent(read.max()));
            }
            for step in last.iter_recorded() {
                let value = step.value_iterated_to();
                assert!(read.count_at(value) >= last.count_at(value));
            }
            last = read;
        }
        writer.join().expect("the writer only records");
        let mut plain = plain();
        let mut words = Words(2);
        for _ in 0..SAMPLES {
            plain.record(words.value()).expect("in range");
        }
        assert_eq!(reader.read(), plain);
    }
}
