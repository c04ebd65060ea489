//! The keys of a policy file.

/// The family for requests without a known name.
pub(crate) const DEFAULT_FAMILY: &str = "default_policy_family";
/// The list of buckets.
pub(crate) const BUCKETS: &str = "uncached_isl_buckets";
/// The list of classes.
pub(crate) const CLASSES: &str = "policy_classes";
/// The profiles of single models.
pub(crate) const MODELS: &str = "models";

pub(crate) const ARBITRATION: &str = "arbitration";
pub(crate) const OVERLOAD_ACTION: &str = "overload_action";
pub(crate) const SELECTOR: &str = "selector";
pub(crate) const DECODE_WEIGHT: &str = "decode_weight";
pub(crate) const MAX_ATTEMPTS: &str = "max_attempts";

pub(crate) const MIN_TOKENS: &str = "min_tokens";
pub(crate) const BUCKET: &str = "bucket";

pub(crate) const NAME: &str = "name";
pub(crate) const FAMILY: &str = "policy_family";
pub(crate) const CACHE_BUCKET: &str = "cache_bucket";
pub(crate) const QUEUE_POLICY: &str = "queue_policy";
pub(crate) const QUANTUM: &str = "quantum";
pub(crate) const THRESHOLD: &str = "prefill_busy_threshold";
pub(crate) const THRESHOLD_FRAC: &str = "prefill_busy_threshold_frac";
pub(crate) const RATIO: &str = "busy_worker_ratio";
pub(crate) const REQUEST_LIMIT: &str = "request_queue_limit_per_worker";
pub(crate) const RAW_ISL_LIMIT: &str = "raw_isl_token_queue_limit_per_worker";
pub(crate) const CACHED_LIMIT: &str = "cached_token_queue_limit_per_worker";
pub(crate) const TIMEOUT: &str = "queue_timeout_ms";

/// What makes a profile; all three or none.
pub(crate) const MATRIX: [&str; 3] = [DEFAULT_FAMILY, BUCKETS, CLASSES];
/// What a profile may set besides.
pub(crate) const SETTINGS: [&str; 5] = [
    ARBITRATION,
    OVERLOAD_ACTION,
    SELECTOR,
    DECODE_WEIGHT,
    MAX_ATTEMPTS,
];
/// What other parts of a router keep in the same file.
pub(crate) const FOREIGN: [&str; 3] = ["router", "worker_selection", "request_classifier"];

/// A kind of mapping and the keys that it may have.
#[derive(Debug)]
pub(crate) struct Schema {
    /// What the mapping is, for a message.
    pub(crate) what: &'static str,
    pub(crate) keys: &'static [&'static str],
}

/// The whole file.
pub(crate) static FILE: Schema = Schema {
    what: "the root of the file",
    keys: &[
        DEFAULT_FAMILY,
        BUCKETS,
        CLASSES,
        ARBITRATION,
        OVERLOAD_ACTION,
        SELECTOR,
        DECODE_WEIGHT,
        MAX_ATTEMPTS,
        MODELS,
        FOREIGN[0],
        FOREIGN[1],
        FOREIGN[2],
    ],
};

/// The profile of one model.
pub(crate) static MODEL: Schema = Schema {
    what: "a model's profile",
    keys: &[
        DEFAULT_FAMILY,
        BUCKETS,
        CLASSES,
        ARBITRATION,
        OVERLOAD_ACTION,
        SELECTOR,
        DECODE_WEIGHT,
        MAX_ATTEMPTS,
    ],
};

/// One bucket.
pub(crate) static A_BUCKET: Schema = Schema {
    what: "a bucket",
    keys: &[MIN_TOKENS, BUCKET],
};

/// One class.
pub(crate) static A_CLASS: Schema = Schema {
    what: "a class",
    keys: &[
        NAME,
        FAMILY,
        CACHE_BUCKET,
        QUEUE_POLICY,
        QUANTUM,
        THRESHOLD,
        THRESHOLD_FRAC,
        RATIO,
        REQUEST_LIMIT,
        RAW_ISL_LIMIT,
        CACHED_LIMIT,
        TIMEOUT,
    ],
};

/// Every kind of mapping.
pub(crate) static ALL: [&Schema; 4] = [&FILE, &MODEL, &A_BUCKET, &A_CLASS];
