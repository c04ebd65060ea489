//! Recordings: what is kept exactly, what is clamped, and that merging loses nothing.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "ranks are small"
)]

use proptest::prelude::*;
use tollgate_report::Recording;
use tollgate_report::recording::TOP_NS;

fn recording(values: &[u64]) -> Recording {
    let mut recording = Recording::new("x", "wait", "all requests");
    for &value in values {
        recording.record(value);
    }
    recording
}

/// Counts by bucket, and all that is kept beside the histogram.
#[derive(Debug, PartialEq)]
struct Content {
    buckets: Vec<(u64, u64)>,
    counts: (u64, u64),
    extremes: (Option<u64>, Option<u64>),
    mean: Option<f64>,
}

fn content(of: &Recording) -> Content {
    let buckets = of.histogram().iter_recorded();
    let buckets = buckets.map(|step| (step.value_iterated_to(), step.count_at_value()));
    Content {
        buckets: buckets.collect(),
        counts: (of.count(), of.clamped()),
        extremes: (of.min(), of.max()),
        mean: of.mean(),
    }
}

#[test]
fn the_ends_of_the_range_are_recorded_and_what_is_above_is_clamped() {
    let values = [0, 1, TOP_NS, TOP_NS + 1, u64::MAX];
    let of = recording(&values);
    assert_eq!((of.count(), of.clamped()), (5, 2));
    assert_eq!((of.min(), of.max()), (Some(0), Some(u64::MAX)));
    assert_eq!(of.quantile(0.0), Some(0));
    assert_eq!(of.quantile(0.4), Some(1));
    assert_eq!(of.quantile(0.8), Some(TOP_NS));
    assert_eq!(of.quantile(1.0), Some(u64::MAX));
    assert_eq!(of.histogram().count_at(0), 1, "0 is not made 1");
    let sum: u128 = values.iter().map(|&value| u128::from(value)).sum();
    assert_eq!(of.mean(), Some(sum as f64 / 5.0));
}

#[test]
fn an_empty_recording_has_no_quantiles() {
    let of = recording(&[]);
    assert_eq!((of.count(), of.clamped()), (0, 0));
    assert_eq!((of.min(), of.max(), of.mean()), (None, None, None));
    assert_eq!((of.quantile(0.5), of.quantile(f64::NAN)), (None, None));
}

#[test]
fn odd_shares_are_those_of_the_nearer_end() {
    let of = recording(&[5, 6, 7]);
    for (share, expected) in [(f64::NAN, 5), (-1.0, 5), (f64::INFINITY, 7), (2.0, 7)] {
        assert_eq!(of.quantile(share), Some(expected), "{share}");
    }
}

#[test]
fn tags_keep_plain_characters_only() {
    let tag = |text: &str| Recording::new(text, "", "").tag().to_owned();
    assert_eq!(tag("a.B-9_c"), "a.B-9_c");
    assert_eq!(tag("é,b c\n=\""), "__b_c___");
}

#[test]
fn all_and_queued_only_are_two_populations() {
    let mut all = Recording::new("all", "wait", "all requests");
    let mut queued = Recording::new("queued", "wait", "requests that had to wait");
    for at in 0..100 {
        let wait = if at < 90 { 0 } else { 1_000_000_000 };
        all.record(wait);
        if wait > 0 {
            queued.record(wait);
        }
    }
    assert_eq!(all.count(), 100);
    assert_eq!(all.quantile(0.5), Some(0));
    assert_eq!(all.quantile(0.95), Some(1_000_000_000));
    assert_eq!(queued.count(), 10);
    assert_eq!(queued.quantile(0.5), Some(1_000_000_000));
    assert_ne!(all.population(), queued.population());
}

/// Values of every size, the ends of the range among them.
fn nanos() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(TOP_NS),
        Just(TOP_NS + 1),
        Just(u64::MAX),
        0..5_000u64,
        0..TOP_NS,
        any::<u64>(),
    ]
}

proptest! {
    #[test]
    fn adding_is_as_exact_as_recording_into_one(
        parts in prop::collection::vec(prop::collection::vec(nanos(), 0..20), 0..6),
    ) {
        let mut merged = recording(&[]);
        for part in &parts {
            merged.add(&recording(part));
        }
        prop_assert_eq!(content(&merged), content(&recording(&parts.concat())));
    }

    #[test]
    fn quantiles_are_near_the_exact_ones(
        mut values in prop::collection::vec(0..TOP_NS, 1..50),
        share in 0.0..1.0f64,
    ) {
        let told = recording(&values).quantile(share).expect("not empty");
        values.sort_unstable();
        let rank = ((share * values.len() as f64).ceil() as usize).max(1);
        let exact = values[rank - 1];
        prop_assert!(told >= exact && told - exact <= exact / 1_000 + 1, "{told} for {exact}");
    }
}
