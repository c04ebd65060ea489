//! The validated policy of one arbiter: classes, buckets and settings.
//!
//! A [`Profile`] comes from a policy file ([`crate::PolicyFile`]), from a [`crate::ProfileSpec`]
//! that a program filled in, or is the [synthetic](Profile::synthetic) one that stands where there
//! is no file. All three obey the same rules, so a profile that exists is valid.

use std::num::NonZeroU8;

use crate::Fraction;
use crate::resolve::ClassIndex;

/// How many classes one profile may hold (S3.2).
pub const CLASSES_MAX: usize = 1_024;
/// The largest quantum, in uncached tokens (S2.4).
pub const QUANTUM_MAX: u64 = 1 << 63;
/// How often a request may at most be handed over, as a policy file may ask (S9.4).
pub const MAX_ATTEMPTS_MAX: u8 = 255;

/// How often a request is handed over where a policy says nothing.
const MAX_ATTEMPTS_DEFAULT: NonZeroU8 = NonZeroU8::MIN.saturating_add(2);
/// The name of the only class where there is no policy file.
const SYNTHETIC_CLASS: &str = "default";

/// How a class orders its lanes (S4.2); the best entry is a lane's head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OrderPolicy {
    /// First come, first served: earlier `arrival - jump`.
    #[default]
    Fcfs,
    /// Weighted shortest processing time: larger `(1 + jump) / cost`.
    Wspt,
    /// Last come, first served: later `arrival + jump`.
    Lcfs,
    /// Earliest deadline first; requests without one come last.
    Edf,
}

/// Which Deficit Round Robin chooses the class (S6.1, S6.8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Arbitration {
    /// Shares hold whatever blocks in between; the default.
    #[default]
    Exact,
    /// The literal text of NVIDIA Dynamo's page, for comparison with its released router.
    Page,
}

/// What happens to requests whose endpoints are all overloaded (S5.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OverloadAction {
    /// They fail where the gate would otherwise be open.
    #[default]
    Fail,
    /// They wait: an overloaded endpoint stays eligible and counts as busy.
    Hold,
}

/// How a shared request's worker is chosen (S10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SelectorKind {
    /// Lowest `prefill tokens + uncached tokens there + decode_weight x active`.
    #[default]
    Cost,
    /// Lowest `prefill tokens + decode_weight x active`.
    LeastLoaded,
    /// Dispatched to longest ago.
    RoundRobin,
    /// Two drawn at random, the cheaper of them.
    PowerOfTwo,
}

/// A range of uncached tokens and the bucket that it falls into (S3.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The smallest number of uncached tokens of this bucket; the first bucket's is 0.
    pub min_tokens: u64,
    /// The bucket's name, `[A-Za-z0-9_.-]+`.
    pub name: Box<str>,
}

impl Bucket {
    /// The bucket `name` for `min_tokens` uncached tokens and more.
    #[must_use]
    pub fn new(min_tokens: u64, name: &str) -> Self {
        Self {
            min_tokens,
            name: name.into(),
        }
    }
}

/// How requests reach a class (S3.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Matching {
    /// By its own name alone.
    Explicit,
    /// By a family's name and the bucket of the uncached tokens.
    Matrix {
        /// The family that clients name.
        family: Box<str>,
        /// Index into [`Profile::buckets`].
        bucket: usize,
    },
}

/// One physical policy class. `None` means unset, which differs from 0 (S7.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassPolicy {
    /// Unique name, `[A-Za-z0-9_.-]+`.
    pub name: Box<str>,
    /// How requests reach it.
    pub matching: Matching,
    /// Order inside its lanes.
    pub order: OrderPolicy,
    /// Uncached tokens granted per turn, 1 to [`QUANTUM_MAX`].
    pub quantum: u64,
    /// An endpoint with more active prefill tokens than this is busy; unset: never by this rule.
    pub prefill_busy_threshold: Option<u64>,
    /// The same as a fraction of the worker's `max_batched_tokens`; unset: never by this rule.
    pub prefill_busy_threshold_frac: Option<Fraction>,
    /// The share of busy eligible endpoints, in (0, 1], that shuts the shared lane; unset: all.
    pub busy_worker_ratio: Option<Fraction>,
    /// Waiting requests per worker; unset: unlimited, 0: may not wait.
    pub request_queue_limit_per_worker: Option<u64>,
    /// Waiting raw prompt tokens per worker; unset: unlimited, 0: may not wait.
    pub raw_isl_token_queue_limit_per_worker: Option<u64>,
    /// Waiting cached prompt tokens per worker; unset: unlimited, 0: may not wait.
    pub cached_token_queue_limit_per_worker: Option<u64>,
    /// Milliseconds from submission to the class's own deadline; unset: none.
    pub queue_timeout_ms: Option<u64>,
}

impl ClassPolicy {
    /// A class that is chosen by its name alone, with everything but the quantum unset.
    #[must_use]
    pub fn explicit(name: &str, quantum: u64) -> Self {
        Self {
            name: name.into(),
            matching: Matching::Explicit,
            order: OrderPolicy::Fcfs,
            quantum,
            prefill_busy_threshold: None,
            prefill_busy_threshold_frac: None,
            busy_worker_ratio: None,
            request_queue_limit_per_worker: None,
            raw_isl_token_queue_limit_per_worker: None,
            cached_token_queue_limit_per_worker: None,
            queue_timeout_ms: None,
        }
    }

    /// A class that is reached by `family` and the bucket at index `bucket`, with everything but
    /// the quantum unset.
    #[must_use]
    pub fn matrix(name: &str, family: &str, bucket: usize, quantum: u64) -> Self {
        let matching = Matching::Matrix {
            family: family.into(),
            bucket,
        };
        Self {
            matching,
            ..Self::explicit(name, quantum)
        }
    }

    /// The family that reaches this class; none for an explicit class.
    #[must_use]
    pub fn family(&self) -> Option<&str> {
        match &self.matching {
            Matching::Explicit => None,
            Matching::Matrix { family, .. } => Some(family),
        }
    }

    /// Whether anything makes an endpoint busy for this class. Without a threshold its requests
    /// wait only for endpoints whose egress is full (S5.1).
    #[must_use]
    pub fn has_threshold(&self) -> bool {
        self.prefill_busy_threshold.is_some() || self.prefill_busy_threshold_frac.is_some()
    }
}

/// Where a request goes (S3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// Index into [`Profile::classes`].
    pub class: usize,
    /// The requested name was neither a family nor an explicit class, so the default family was
    /// taken: to be counted, never to be used as a label. False for a missing or empty name.
    pub unknown_name: bool,
}

/// The settings of a profile that belong to no single class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Which Deficit Round Robin chooses the class; default [`Arbitration::Exact`].
    pub arbitration: Arbitration,
    /// What overload does to waiting requests; default [`OverloadAction::Fail`].
    pub overload_action: OverloadAction,
    /// How a shared request's worker is chosen; default [`SelectorKind::Cost`].
    pub selector: SelectorKind,
    /// What one active request weighs in a worker's score, in prefill tokens; default 0.
    pub decode_weight: u64,
    /// How often a request is handed over before a failed hand-off is its end, 1 to
    /// [`MAX_ATTEMPTS_MAX`]; default 3, so that one bad worker does not fail a request and a bad
    /// request does not visit the whole fleet.
    pub max_attempts: NonZeroU8,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            arbitration: Arbitration::default(),
            overload_action: OverloadAction::default(),
            selector: SelectorKind::default(),
            decode_weight: 0,
            max_attempts: MAX_ATTEMPTS_DEFAULT,
        }
    }
}

/// The policy of one arbiter: all that a policy file says for one model, validated.
///
/// # Examples
/// ```
/// use tollgate_policy::{Profile, SelectorKind};
///
/// let profile = Profile::synthetic(None).with_selector(SelectorKind::RoundRobin);
/// assert_eq!(&*profile.classes()[0].name, "default");
/// assert_eq!(profile.resolve(Some("anything"), 4_096).class, 0);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    pub(crate) default_family: Option<Box<str>>,
    pub(crate) buckets: Vec<Bucket>,
    pub(crate) classes: Vec<ClassPolicy>,
    pub(crate) settings: Settings,
    pub(crate) index: ClassIndex,
}

impl Profile {
    /// The profile where no file says anything (S3.5): one class `default` with quantum 1, for
    /// every request whatever name it brings.
    ///
    /// `queue_threshold` is the fraction of a worker's `max_batched_tokens` above which the worker
    /// is busy; without it no worker ever is.
    #[must_use]
    pub fn synthetic(queue_threshold: Option<Fraction>) -> Self {
        let class = ClassPolicy {
            prefill_busy_threshold_frac: queue_threshold,
            ..ClassPolicy::explicit(SYNTHETIC_CLASS, 1)
        };
        let classes = vec![class];
        let index = ClassIndex::new(None, &[], &classes);
        Self {
            default_family: None,
            buckets: Vec::new(),
            classes,
            settings: Settings::default(),
            index,
        }
    }

    /// The classes in file order.
    #[must_use]
    pub fn classes(&self) -> &[ClassPolicy] {
        &self.classes
    }

    /// The buckets by rising floor; empty for a synthetic profile.
    #[must_use]
    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// The family for requests without a known name; none for a synthetic profile.
    #[must_use]
    pub fn default_family(&self) -> Option<&str> {
        self.default_family.as_deref()
    }

    /// Which Deficit Round Robin chooses the class.
    #[must_use]
    pub fn arbitration(&self) -> Arbitration {
        self.settings.arbitration
    }

    /// What overload does to waiting requests.
    #[must_use]
    pub fn overload_action(&self) -> OverloadAction {
        self.settings.overload_action
    }

    /// How a shared request's worker is chosen.
    #[must_use]
    pub fn selector(&self) -> SelectorKind {
        self.settings.selector
    }

    /// What one active request weighs in a worker's score, in prefill tokens.
    #[must_use]
    pub fn decode_weight(&self) -> u64 {
        self.settings.decode_weight
    }

    /// How often a request is handed over before a failed hand-off is its end; at least 1.
    #[must_use]
    pub fn max_attempts(&self) -> u8 {
        self.settings.max_attempts.get()
    }

    /// All settings that belong to no single class.
    #[must_use]
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// The same profile with other settings.
    #[must_use]
    pub fn with_settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// The same profile with another arbitration mode.
    #[must_use]
    pub fn with_arbitration(mut self, arbitration: Arbitration) -> Self {
        self.settings.arbitration = arbitration;
        self
    }

    /// The same profile with another overload action.
    #[must_use]
    pub fn with_overload_action(mut self, overload_action: OverloadAction) -> Self {
        self.settings.overload_action = overload_action;
        self
    }

    /// The same profile with another selector.
    #[must_use]
    pub fn with_selector(mut self, selector: SelectorKind) -> Self {
        self.settings.selector = selector;
        self
    }

    /// The same profile with another decode weight, in prefill tokens per active request.
    #[must_use]
    pub fn with_decode_weight(mut self, decode_weight: u64) -> Self {
        self.settings.decode_weight = decode_weight;
        self
    }

    /// The same profile with another number of attempts.
    #[must_use]
    pub fn with_max_attempts(mut self, max_attempts: NonZeroU8) -> Self {
        self.settings.max_attempts = max_attempts;
        self
    }

    /// The class of a request that names `requested` and has `uncached` tokens to compute (S3.4).
    ///
    /// An explicit class of that name comes first, then a family of that name, then the default
    /// family; the last bucket whose floor is not above `uncached` decides inside a family. Names
    /// are compared exactly. A missing and an empty name mean the default family; every other name
    /// that is neither an explicit class nor a family does too, and is reported as unknown. A
    /// synthetic profile has one class for all.
    ///
    /// # Complexity
    /// O(log names + log buckets) comparisons; allocates nothing.
    ///
    /// # Examples
    /// ```
    /// use tollgate_policy::{Bucket, ClassPolicy, Profile, ProfileSpec};
    ///
    /// let profile = Profile::build(ProfileSpec::new(
    ///     "chat",
    ///     vec![Bucket::new(0, "cached"), Bucket::new(3_072, "uncached")],
    ///     vec![
    ///         ClassPolicy::matrix("hot", "chat", 0, 1_000),
    ///         ClassPolicy::matrix("cold", "chat", 1, 1_000),
    ///         ClassPolicy::explicit("probe", 5),
    ///     ],
    /// ))?;
    /// assert_eq!(profile.resolve(Some("chat"), 3_071).class, 0);
    /// assert_eq!(profile.resolve(None, 3_072).class, 1);
    /// assert_eq!(profile.resolve(Some("probe"), 3_072).class, 2);
    /// assert!(profile.resolve(Some("hot"), 0).unknown_name);
    /// # Ok::<(), tollgate_policy::PolicyErrors>(())
    /// ```
    #[must_use]
    pub fn resolve(&self, requested: Option<&str>, uncached: u64) -> Resolution {
        self.index.resolve(&self.buckets, requested, uncached)
    }
}
