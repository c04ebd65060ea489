//! Random policies: few classes, small numbers, now and then the largest ones.

use tollgate_policy::{
    Arbitration, Bucket, ClassPolicy, Fraction, Matching, OrderPolicy, OverloadAction, Profile,
    ProfileSpec, SelectorKind, Settings,
};

use super::random::Random;

/// The families that policies draw from; each has a class for each of two buckets.
pub(super) const FAMILIES: [&str; 4] = ["a", "b", "c", "d"];
/// The explicit classes that policies draw from.
pub(super) const EXPLICIT: [&str; 2] = ["x", "y"];
/// The floor of the second bucket, in uncached tokens.
const SECOND_FLOOR: u64 = 60;

/// A random policy. Two of them share some class names, so that a reload matches, adds and drops.
pub(super) fn profile(random: &mut Random, small_quanta: bool) -> Profile {
    let two_buckets = random.chance(30);
    let floors: &[u64] = if two_buckets {
        &[0, SECOND_FLOOR]
    } else {
        &[0]
    };
    let buckets = floors.iter().enumerate().map(|(at, &min_tokens)| Bucket {
        min_tokens,
        name: format!("bucket{at}").into(),
    });
    let mut families: Vec<&str> = FAMILIES.into_iter().filter(|_| random.chance(60)).collect();
    if families.is_empty() {
        families.push(random.pick(&FAMILIES));
    }
    if random.chance(30) {
        families.reverse();
    }
    let mut classes = Vec::new();
    for family in &families {
        for bucket in 0..floors.len() {
            let name = if bucket == 0 {
                (*family).to_owned()
            } else {
                format!("{family}{bucket}")
            };
            let matching = Matching::Matrix {
                family: (*family).into(),
                bucket,
            };
            classes.push(class(&name, matching, small_quanta, random));
        }
    }
    for name in EXPLICIT {
        if random.chance(25) {
            classes.push(class(name, Matching::Explicit, small_quanta, random));
        }
    }
    let spec = ProfileSpec {
        default_family: random.pick(&families).into(),
        buckets: buckets.collect(),
        classes,
        settings: settings(random),
    };
    Profile::build(spec).expect("every rule of a profile is kept")
}

fn settings(random: &mut Random) -> Settings {
    let attempts = [1, 2, 3, 3, 3, 5];
    Settings {
        arbitration: if random.chance(33) {
            Arbitration::Page
        } else {
            Arbitration::Exact
        },
        overload_action: if random.chance(25) {
            OverloadAction::Hold
        } else {
            OverloadAction::Fail
        },
        selector: random.pick(&[
            SelectorKind::Cost,
            SelectorKind::Cost,
            SelectorKind::LeastLoaded,
            SelectorKind::RoundRobin,
            SelectorKind::PowerOfTwo,
        ]),
        decode_weight: random.pick(&[0, 0, 0, 7, 100, u64::MAX]),
        max_attempts: random.pick(&attempts).try_into().expect("at least 1"),
    }
}

fn class(name: &str, matching: Matching, small_quanta: bool, random: &mut Random) -> ClassPolicy {
    let order = random.pick(&[
        OrderPolicy::Fcfs,
        OrderPolicy::Fcfs,
        OrderPolicy::Wspt,
        OrderPolicy::Lcfs,
        OrderPolicy::Edf,
    ]);
    let quanta: &[u64] = if small_quanta {
        &[1, 7, 10, 50]
    } else {
        &[1, 7, 10, 50, 50, 100, 100, 200, 1_000, 1 << 40, 1 << 63]
    };
    let quantum = random.pick(quanta);
    let threshold = random.maybe(60, |random| random.pick(&[0, 0, 50, 100, 150, 300]));
    let threshold_frac = random.maybe(20, |random| {
        random.pick(&[
            Fraction::new(1, 1),
            Fraction::new(29, 2),
            Fraction::new(0, 0),
        ])
    });
    let ratio = random.maybe(25, |random| {
        random.pick(&[
            Fraction::new(5, 1),
            Fraction::new(1, 0),
            Fraction::new(34, 2),
        ])
    });
    let limit = |random: &mut Random, percent, values: &[u64]| {
        let values = values.to_vec();
        random.maybe(percent, |random| random.pick(&values))
    };
    ClassPolicy {
        matching,
        order,
        prefill_busy_threshold: threshold,
        prefill_busy_threshold_frac: threshold_frac,
        busy_worker_ratio: ratio.filter(|_| threshold.is_some() || threshold_frac.is_some()),
        request_queue_limit_per_worker: limit(random, 25, &[0, 1, 2, 3, u64::MAX]),
        raw_isl_token_queue_limit_per_worker: limit(random, 15, &[0, 100, 300]),
        cached_token_queue_limit_per_worker: limit(random, 15, &[0, 40, 100]),
        queue_timeout_ms: limit(random, 15, &[0, 1, 2, 5]),
        ..ClassPolicy::explicit(name, quantum)
    }
}
