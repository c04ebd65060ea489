//! A profile that is written as a file is read back as it was.

use std::num::NonZeroU8;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use tollgate_policy::{
    Arbitration, Bucket, ClassPolicy, Fraction, OrderPolicy, OverloadAction, PolicyFile, Profile,
    ProfileSpec, SelectorKind, Settings,
};

const SAMPLE: &[u8] = include_bytes!("../sample-policy.yaml");

fn read_back(profile: &Profile) -> Profile {
    let text = profile.to_file();
    let mut file = PolicyFile::parse("written", text.as_bytes()).expect("it was written");
    if let Some(threshold) = profile.queue_threshold() {
        file = file.with_queue_threshold(threshold);
    }
    file.profile(None).clone()
}

#[test]
fn every_profile_of_the_sample_is_read_back() {
    let file = PolicyFile::parse("sample", SAMPLE).expect("the sample is valid");
    let profiles = file.models().map(|(_, profile)| profile);
    for profile in profiles.chain([file.profile(None)]) {
        assert_eq!(read_back(profile), *profile);
    }
}

/// Names that YAML would take for something else if they were not quoted.
const NAMES: [&str; 8] = ["a", "null", "true", "1", "1.5", "-", ".", "0x1F"];

fn fraction() -> impl Strategy<Value = Fraction> {
    // As many digits as a file may have.
    (1..10_u64.pow(19), 0_u32..400).prop_map(|(mantissa, scale)| Fraction::new(mantissa, scale))
}

fn number() -> impl Strategy<Value = Option<u64>> {
    option::of(prop_oneof![any::<u64>(), select(vec![0, 1, u64::MAX])])
}

fn settings() -> impl Strategy<Value = Settings> {
    let kinds = (
        select(vec![Arbitration::Exact, Arbitration::Page]),
        select(vec![OverloadAction::Fail, OverloadAction::Hold]),
        select(vec![
            SelectorKind::Cost,
            SelectorKind::LeastLoaded,
            SelectorKind::RoundRobin,
            SelectorKind::PowerOfTwo,
        ]),
    );
    (kinds, any::<u64>(), 1..=u8::MAX).prop_map(|(kinds, decode_weight, attempts)| Settings {
        arbitration: kinds.0,
        overload_action: kinds.1,
        selector: kinds.2,
        decode_weight,
        max_attempts: NonZeroU8::new(attempts).expect("from 1"),
    })
}

/// A class's settings; name and matching come later.
fn class() -> impl Strategy<Value = ClassPolicy> {
    let orders = select(vec![
        OrderPolicy::Fcfs,
        OrderPolicy::Wspt,
        OrderPolicy::Lcfs,
        OrderPolicy::Edf,
    ]);
    let fractions = (option::of(fraction()), option::of(1_u64..=100));
    let numbers = (number(), number(), number(), number(), number());
    (orders, 1..=1_u64 << 63, fractions, numbers).prop_map(
        |(order, quantum, (frac, ratio), numbers)| {
            let ratio = ratio.map(|percent| Fraction::new(percent, 2));
            let has_threshold = frac.is_some() || numbers.0.is_some();
            ClassPolicy {
                order,
                prefill_busy_threshold: numbers.0,
                prefill_busy_threshold_frac: frac,
                busy_worker_ratio: ratio.filter(|_| has_threshold),
                request_queue_limit_per_worker: numbers.1,
                raw_isl_token_queue_limit_per_worker: numbers.2,
                cached_token_queue_limit_per_worker: numbers.3,
                queue_timeout_ms: numbers.4.map(|ms| ms.max(1)),
                ..ClassPolicy::explicit("", quantum)
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_random_profile_is_read_back(
        settings in settings(),
        classes in vec(class(), 1..NAMES.len()),
        floor in 1..=u64::MAX,
    ) {
        let buckets = vec![Bucket::new(0, "false"), Bucket::new(floor, "1e3")];
        let named = |(at, class): (usize, ClassPolicy)| {
            // The first two are a family with both buckets, the others explicit.
            let base = match at {
                0 | 1 => ClassPolicy::matrix(NAMES[at], "no", at, class.quantum),
                _ => ClassPolicy::explicit(NAMES[at], class.quantum),
            };
            ClassPolicy { name: base.name, matching: base.matching, ..class }
        };
        let classes: Vec<_> = classes.into_iter().enumerate().map(named).collect();
        let buckets = if classes.len() == 1 { buckets[..1].to_vec() } else { buckets };
        let spec = ProfileSpec { settings, ..ProfileSpec::new("no", buckets, classes) };
        let profile = Profile::build(spec).expect("it is valid");
        prop_assert_eq!(read_back(&profile), profile);
    }

    #[test]
    fn a_synthetic_profile_is_read_back(
        settings in settings(),
        threshold in option::of(fraction()),
    ) {
        let profile = Profile::synthetic(threshold).with_settings(settings);
        prop_assert_eq!(read_back(&profile), profile);
    }
}
