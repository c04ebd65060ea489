//! What a profile comes to, in the keys of a policy file.

use serde::Serialize;
use tollgate_policy::{Bucket, ClassPolicy, Fraction, Matching, Profile};

/// A profile with everything that a file leaves out filled in.
#[derive(Debug, Serialize)]
pub(super) struct EffectiveProfile<'p> {
    /// The model that it is for; none for every model without a profile of its own.
    pub(super) model: Option<&'p str>,
    /// Where it comes from: `root`, `model`, or `synthetic`.
    pub(super) source: &'static str,
    pub(super) default_policy_family: Option<&'p str>,
    pub(super) uncached_isl_buckets: Vec<EffectiveBucket<'p>>,
    pub(super) arbitration: &'static str,
    pub(super) overload_action: &'static str,
    pub(super) selector: &'static str,
    pub(super) decode_weight: u64,
    pub(super) max_attempts: u8,
    pub(super) policy_classes: Vec<EffectiveClass<'p>>,
}

/// A range of uncached tokens, both ends inside it.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct EffectiveBucket<'p> {
    pub(super) bucket: &'p str,
    pub(super) min_tokens: u64,
    /// None for the last bucket.
    pub(super) max_tokens: Option<u64>,
}

/// A class; none means unset.
#[derive(Debug, Serialize)]
pub(super) struct EffectiveClass<'p> {
    pub(super) name: &'p str,
    /// None for a class that is chosen by its name alone, as is `cache_bucket`.
    pub(super) policy_family: Option<&'p str>,
    pub(super) cache_bucket: Option<EffectiveBucket<'p>>,
    pub(super) queue_policy: &'static str,
    pub(super) quantum: u64,
    /// The quantum's share of the sum of all quanta, in (0, 1].
    pub(super) share: f64,
    pub(super) prefill_busy_threshold: Option<u64>,
    #[serde(serialize_with = "as_number")]
    pub(super) prefill_busy_threshold_frac: Option<Fraction>,
    #[serde(serialize_with = "as_number")]
    pub(super) busy_worker_ratio: Option<Fraction>,
    pub(super) request_queue_limit_per_worker: Option<u64>,
    pub(super) raw_isl_token_queue_limit_per_worker: Option<u64>,
    pub(super) cached_token_queue_limit_per_worker: Option<u64>,
    pub(super) queue_timeout_ms: Option<u64>,
}

impl<'p> EffectiveProfile<'p> {
    /// What `profile` comes to.
    pub(super) fn new(model: Option<&'p str>, source: &'static str, profile: &'p Profile) -> Self {
        let buckets = effective_buckets(profile.buckets());
        let sum = profile
            .classes()
            .iter()
            .map(|class| u128::from(class.quantum))
            .sum();
        let policy_classes = profile
            .classes()
            .iter()
            .map(|class| EffectiveClass::new(class, &buckets, sum))
            .collect();
        Self {
            model,
            source,
            default_policy_family: profile.default_family(),
            uncached_isl_buckets: buckets,
            arbitration: profile.arbitration().name(),
            overload_action: profile.overload_action().name(),
            selector: profile.selector().name(),
            decode_weight: profile.decode_weight(),
            max_attempts: profile.max_attempts(),
            policy_classes,
        }
    }
}

impl<'p> EffectiveClass<'p> {
    fn new(class: &'p ClassPolicy, buckets: &[EffectiveBucket<'p>], sum_of_quanta: u128) -> Self {
        let (policy_family, cache_bucket) = match &class.matching {
            Matching::Explicit => (None, None),
            Matching::Matrix { family, bucket } => (Some(&**family), buckets.get(*bucket).copied()),
        };
        Self {
            name: &class.name,
            policy_family,
            cache_bucket,
            queue_policy: class.order.name(),
            quantum: class.quantum,
            share: class.quantum as f64 / sum_of_quanta as f64,
            prefill_busy_threshold: class.prefill_busy_threshold,
            prefill_busy_threshold_frac: class.prefill_busy_threshold_frac,
            busy_worker_ratio: class.busy_worker_ratio,
            request_queue_limit_per_worker: class.request_queue_limit_per_worker,
            raw_isl_token_queue_limit_per_worker: class.raw_isl_token_queue_limit_per_worker,
            cached_token_queue_limit_per_worker: class.cached_token_queue_limit_per_worker,
            queue_timeout_ms: class.queue_timeout_ms,
        }
    }
}

/// The buckets with their upper ends.
fn effective_buckets(buckets: &[Bucket]) -> Vec<EffectiveBucket<'_>> {
    let ends = buckets.iter().skip(1).map(|next| Some(next.min_tokens - 1));
    buckets
        .iter()
        .zip(ends.chain(std::iter::once(None)))
        .map(|(bucket, max_tokens)| EffectiveBucket {
            bucket: &bucket.name,
            min_tokens: bucket.min_tokens,
            max_tokens,
        })
        .collect()
}

/// A fraction as the nearest JSON number.
fn as_number<S: serde::Serializer>(
    fraction: &Option<Fraction>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let number = fraction.and_then(|fraction| fraction.to_string().parse::<f64>().ok());
    number.serialize(serializer)
}
