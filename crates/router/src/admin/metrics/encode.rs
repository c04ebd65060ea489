//! Writing families of samples.

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

impl From<u64> for Number {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<bool> for Number {
    fn from(value: bool) -> Self {
        Self::Whole(value.into())
    }
}

impl From<f64> for Number {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
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

/// A family with one sample for each row of `T`.
#[derive(Debug)]
pub(super) struct Figure<T> {
    name: &'static str,
    help: &'static str,
    is_counter: bool,
    /// None: this row has no such sample.
    read: fn(&T) -> Option<Number>,
}

pub(super) const fn gauge<T>(
    name: &'static str,
    help: &'static str,
    read: fn(&T) -> Option<Number>,
) -> Figure<T> {
    Figure {
        name,
        help,
        is_counter: false,
        read,
    }
}

pub(super) const fn counter<T>(
    name: &'static str,
    help: &'static str,
    read: fn(&T) -> Option<Number>,
) -> Figure<T> {
    Figure {
        name,
        help,
        is_counter: true,
        read,
    }
}

/// A whole number that is always there.
pub(super) fn some(value: impl Into<Number>) -> Option<Number> {
    Some(value.into())
}

#[expect(
    clippy::cast_precision_loss,
    reason = "beyond 100 days the microseconds are lost, which nobody reads off a metric"
)]
pub(super) fn seconds(nanos: u64) -> Option<Number> {
    Some(Number::Real(nanos as f64 / 1e9))
}

/// Writes each family with its samples.
pub(super) fn encode_all<T>(
    encoder: &mut DescriptorEncoder<'_>,
    figures: &[Figure<T>],
    rows: &[(Labels, T)],
) -> fmt::Result {
    for figure in figures {
        let samples = rows
            .iter()
            .filter_map(|(labels, row)| Some((labels, (figure.read)(row)?)));
        encode(
            encoder,
            figure.name,
            figure.help,
            figure.is_counter,
            samples,
        )?;
    }
    Ok(())
}

/// Writes each family with its one sample, which has no labels.
pub(super) fn encode_one<T>(
    encoder: &mut DescriptorEncoder<'_>,
    figures: &[Figure<T>],
    row: &T,
) -> fmt::Result {
    let labels = Labels::new();
    for figure in figures {
        let sample = (figure.read)(row).map(|number| (&labels, number));
        encode(encoder, figure.name, figure.help, figure.is_counter, sample)?;
    }
    Ok(())
}

/// Writes one family with its samples.
pub(super) fn encode<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    is_counter: bool,
    samples: impl IntoIterator<Item = (&'a Labels, Number)>,
) -> fmt::Result {
    let kind = if is_counter {
        MetricType::Counter
    } else {
        MetricType::Gauge
    };
    let mut family = encoder.encode_descriptor(name, help, None, kind)?;
    for (labels, number) in samples {
        let mut sample = family.encode_family(labels)?;
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
