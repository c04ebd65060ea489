//! Writing families of samples.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use hdrhistogram::Histogram;
use prometheus_client::encoding::{
    CounterValueEncoder, DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue,
    GaugeValueEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use tollgate::stats::Timing;

/// A sample's labels.
pub(super) type Labels = Vec<(&'static str, Arc<str>)>;

/// What a sample says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    /// Exactly.
    Whole(u64),
    Real(f64),
}

impl EncodeGaugeValue for Number {
    fn encode(&self, encoder: &mut GaugeValueEncoder<'_>) -> fmt::Result {
        match self {
            Self::Whole(value) => EncodeGaugeValue::encode(value, encoder),
            Self::Real(value) => EncodeGaugeValue::encode(value, encoder),
        }
    }
}

impl EncodeCounterValue for Number {
    fn encode(&self, encoder: &mut CounterValueEncoder<'_>) -> fmt::Result {
        match self {
            Self::Whole(value) => EncodeCounterValue::encode(value, encoder),
            Self::Real(value) => EncodeCounterValue::encode(value, encoder),
        }
    }
}

/// What a row says of a family; none: it has no such sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample(Option<Number>);

impl From<u64> for Sample {
    fn from(value: u64) -> Self {
        Self(Some(Number::Whole(value)))
    }
}

impl From<bool> for Sample {
    fn from(value: bool) -> Self {
        u64::from(value).into()
    }
}

impl From<f64> for Sample {
    fn from(value: f64) -> Self {
        Self(Some(Number::Real(value)))
    }
}

impl From<Option<u64>> for Sample {
    fn from(value: Option<u64>) -> Self {
        Self(value.map(Number::Whole))
    }
}

/// A family with at most one sample for each row of `T`.
#[derive(Debug)]
pub(super) struct Figure<T> {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) is_counter: bool,
    pub(super) read: fn(&T) -> Sample,
}

impl<T> Figure<T> {
    fn encode<'a>(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        rows: impl IntoIterator<Item = (&'a Labels, &'a T)>,
    ) -> fmt::Result
    where
        T: 'a,
    {
        let rows = rows.into_iter();
        let samples = rows.filter_map(|(labels, row)| Some((labels, (self.read)(row).0?)));
        encode(encoder, self.name, self.help, self.is_counter, samples)
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "beyond 100 days the microseconds are lost, which nobody reads off a metric"
)]
pub(super) const fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

/// Writes each family with its samples.
pub(super) fn encode_all<T>(
    encoder: &mut DescriptorEncoder<'_>,
    figures: &[Figure<T>],
    rows: &[(Labels, T)],
) -> fmt::Result {
    let all = || rows.iter().map(|(labels, row)| (labels, row));
    let mut figures = figures.iter();
    figures.try_for_each(|figure| figure.encode(encoder, all()))
}

/// Writes each family with its one sample, which has no labels.
pub(super) fn encode_one<T>(
    encoder: &mut DescriptorEncoder<'_>,
    figures: &[Figure<T>],
    row: &T,
) -> fmt::Result {
    let labels = Labels::new();
    let mut figures = figures.iter();
    figures.try_for_each(|figure| figure.encode(encoder, [(&labels, row)]))
}

/// Writes one family with its samples.
pub(super) fn encode<L: Borrow<Labels>>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    is_counter: bool,
    samples: impl IntoIterator<Item = (L, Number)>,
) -> fmt::Result {
    let kind = if is_counter {
        MetricType::Counter
    } else {
        MetricType::Gauge
    };
    let mut family = encoder.encode_descriptor(name, help, None, kind)?;
    for (labels, number) in samples {
        let mut sample = family.encode_family(labels.borrow())?;
        if is_counter {
            sample.encode_counter::<NoLabelSet, _, f64>(&number, None)?;
        } else {
            sample.encode_gauge(&number)?;
        }
    }
    Ok(())
}

/// Bounds of the histograms of nanoseconds: from 100 ns to 0.84 s, doubling.
const BOUNDS: usize = 24;

/// Writes a histogram of all samples of some measurements together.
pub(super) fn encode_timings(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    timings: &[&Timing],
) -> fmt::Result {
    let mut buckets = [(f64::INFINITY, 0_u64); BOUNDS + 1];
    let mut bound = 1e-7;
    for bucket in &mut buckets[..BOUNDS] {
        bucket.0 = bound;
        bound *= 2.0;
    }
    for timing in timings {
        add(&mut buckets, &timing.histogram);
    }
    let count = buckets.iter().map(|bucket| bucket.1).sum();
    let sum: u128 = timings.iter().map(|timing| timing.sum_ns).sum();
    #[expect(clippy::cast_precision_loss, reason = "a sum for an average")]
    let sum = sum as f64 / 1e9;
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    family.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
}

fn add(buckets: &mut [(f64, u64)], histogram: &Histogram<u64>) {
    for found in histogram.iter_recorded() {
        #[expect(clippy::cast_precision_loss, reason = "the values have two digits")]
        let seconds = found.value_iterated_to() as f64 / 1e9;
        let bucket = buckets.partition_point(|&(bound, _)| bound < seconds);
        buckets[bucket].1 += found.count_at_value();
    }
}
