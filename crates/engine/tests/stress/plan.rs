//! What the stress submits: requests of many kinds, under policies in which all of them meet limits.

use tollgate::policy::{PolicyFile, Profile};
use tollgate::{Endpoint, FailReason, Hint, ModelIndex, Nanos, Request, WorkerId};

use crate::draws::Draws;
use crate::ledger::Slip;

/// Workers 1 to 8 serve the first model, worker 9 the second.
pub(crate) const WORKERS: u64 = 8;
/// Always there, available and not overloaded: what may run on them waits, but does not fail.
pub(crate) const STEADY: [u64; 2] = [1, 2];
/// Has two ranks, and the taint, most of the time.
pub(crate) const TAINTED: u64 = 3;
/// Is overloaded most of the time.
pub(crate) const OVERLOADED: u64 = 5;
/// Is unavailable most of the time.
pub(crate) const UNAVAILABLE: u64 = 6;
/// Come and go.
pub(crate) const CHURNED: [u64; 2] = [7, 8];
/// The second model's only one, comes and goes.
pub(crate) const LONELY: u64 = 9;
/// Never known.
const UNKNOWN: u64 = 20;
pub(crate) const TAINT: &str = "gpu";
pub(crate) const SECOND_MODEL: ModelIndex = ModelIndex(1);

/// All of the first model's.
const ANY: u32 = 0b1_1111_1110;

/// The classes that both policies have; between them one leaves and another comes.
const POLICY: &str = "
default_policy_family: plain
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
- {name: plain, policy_family: plain, cache_bucket: all, quantum: 2000}
- {name: short, policy_family: short, cache_bucket: all, quantum: 1000, queue_policy: wspt,
   prefill_busy_threshold: 4000}
- {name: last, policy_family: last, cache_bucket: all, quantum: 1000, queue_policy: lcfs,
   prefill_busy_threshold: 3000, busy_worker_ratio: 0.75}
- {name: urgent, policy_family: urgent, cache_bucket: all, quantum: 500, queue_policy: edf,
   prefill_busy_threshold: 4000, queue_timeout_ms: 1}
- {name: few, policy_family: few, cache_bucket: all, quantum: 500,
   prefill_busy_threshold: 0, request_queue_limit_per_worker: 1}
- {name: raw, policy_family: raw, cache_bucket: all, quantum: 500,
   prefill_busy_threshold: 0, raw_isl_token_queue_limit_per_worker: 100}
- {name: cached, policy_family: cached, cache_bucket: all, quantum: 500,
   prefill_busy_threshold: 0, cached_token_queue_limit_per_worker: 50}
- {name: now, policy_family: now, cache_bucket: all, quantum: 500,
   prefill_busy_threshold: 2000, request_queue_limit_per_worker: 0}
";
const FAMILIES: [&str; 10] = [
    "plain", "plain", "short", "last", "few", "raw", "cached", "now", "summer", "winter",
];

/// The policy of a season: they differ by a class, an order and a selector.
pub(crate) fn policy(season: usize) -> Profile {
    let own = if season.is_multiple_of(2) {
        "- {name: summer, quantum: 300}\n"
    } else {
        "- {name: winter, quantum: 700, prefill_busy_threshold: 5000}\n"
    };
    let text = match season % 4 {
        0 => format!("{POLICY}{own}"),
        1 => format!("{POLICY}{own}selector: round_robin\n"),
        2 => format!("{POLICY}{own}decode_weight: 3\n").replace("wspt", "fcfs"),
        _ => format!("{POLICY}{own}selector: power_of_two\n"),
    };
    let file = PolicyFile::parse("stress.yaml", text.as_bytes());
    file.unwrap_or_else(|errors| panic!("{errors}"))
        .profile(None)
        .clone()
}

/// What a request is, and with that how it may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Plain,
    Hinted,
    Impatient,
    Timed,
    Overdue,
    Allowed,
    ManyAllowed,
    Nobody,
    Tainted,
    UnknownTaint,
    Pinned,
    PinNotAllowed,
    PinUnknown,
    PinRank,
    PinTainted,
    SecondModel,
    Invalid,
}

impl Kind {
    const ALL: [Self; 17] = [
        Self::Plain,
        Self::Hinted,
        Self::Impatient,
        Self::Timed,
        Self::Overdue,
        Self::Allowed,
        Self::ManyAllowed,
        Self::Nobody,
        Self::Tainted,
        Self::UnknownTaint,
        Self::Pinned,
        Self::PinNotAllowed,
        Self::PinUnknown,
        Self::PinRank,
        Self::PinTainted,
        Self::SecondModel,
        Self::Invalid,
    ];

    pub(crate) fn of(number: u8) -> Self {
        Self::ALL[usize::from(number)]
    }

    pub(crate) const fn may_expire(self) -> bool {
        matches!(self, Self::Timed | Self::Overdue)
    }

    pub(crate) const fn may_fail(self, reason: FailReason) -> bool {
        match reason {
            FailReason::NoWorkers => matches!(self, Self::SecondModel),
            FailReason::NoEligibleWorker => matches!(
                self,
                Self::Allowed
                    | Self::ManyAllowed
                    | Self::Nobody
                    | Self::Tainted
                    | Self::UnknownTaint
            ),
            FailReason::AllEligibleOverloaded => {
                matches!(self, Self::Allowed | Self::ManyAllowed)
            }
            FailReason::PinnedWorkerNotAllowed => matches!(self, Self::PinNotAllowed),
            FailReason::PinnedWorkerUnknown => matches!(self, Self::Pinned | Self::PinUnknown),
            FailReason::PinnedWorkerUnavailable | FailReason::PinnedWorkerOverloaded => {
                matches!(self, Self::Pinned)
            }
            FailReason::PinnedRankOutOfRange => matches!(self, Self::PinRank),
            FailReason::PinnedTaintMissing => matches!(self, Self::PinTainted),
            FailReason::HandOff => true,
        }
    }
}

/// A request with everything that it borrows.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) kind: Kind,
    pub(crate) raw_tokens: u32,
    /// The workers that may run it, as bits.
    pub(crate) may_run_on: u32,
    model: ModelIndex,
    family: Option<&'static str>,
    cached_tokens: u32,
    hints: Vec<Hint>,
    allow: Option<Vec<WorkerId>>,
    taints: &'static [&'static str],
    pin: Option<Endpoint>,
    deadline: Option<Nanos>,
    strict_priority: u32,
    priority_jump: f64,
}

impl Plan {
    /// Draws a request; `now` is the engine's time.
    pub(crate) fn draw(draws: &mut Draws, now: Nanos) -> Self {
        let kind = match draws.below(32) {
            0..8 => Kind::Plain,
            8..10 => Kind::Hinted,
            number => Kind::ALL[(number as usize - 10) % 15 + 2],
        };
        let mut plan = Self::plain(draws);
        plan.kind = kind;
        plan.specialise(draws, now);
        plan
    }

    /// One that waits for nothing but room.
    pub(crate) fn plain(draws: &mut Draws) -> Self {
        let raw_tokens = draws.below(400);
        Self {
            kind: Kind::Plain,
            raw_tokens,
            may_run_on: ANY,
            model: ModelIndex(0),
            family: Some(draws.pick(&FAMILIES)),
            cached_tokens: draws.below(raw_tokens + 1),
            hints: Vec::new(),
            allow: None,
            taints: &[],
            pin: None,
            deadline: None,
            strict_priority: draws.below(3),
            priority_jump: f64::from(draws.below(2)),
        }
    }

    /// One that waits while the first worker is busy.
    pub(crate) fn pinned_to_the_first() -> Self {
        let mut plan = Self::plain(&mut Draws::new(0, 0));
        plan.kind = Kind::Pinned;
        plan.family = Some("short");
        plan.pin_to(STEADY[0]);
        plan
    }

    fn specialise(&mut self, draws: &mut Draws, now: Nanos) {
        match self.kind {
            Kind::Plain if draws.one_in(4) => self.family = None,
            Kind::Plain if draws.one_in(8) => self.family = Some("nobody's"),
            Kind::Plain | Kind::Impatient => {}
            Kind::Hinted => {
                let hint = |worker| Hint {
                    endpoint: Endpoint::new(worker, 0),
                    cached: self.raw_tokens / 2,
                };
                self.hints = (1..=1 + u64::from(draws.below(8))).map(hint).collect();
            }
            Kind::Timed => {
                let span = u64::from(draws.below(300_000));
                self.deadline = Some(now.saturating_add(Nanos(span)));
                self.family = Some(draws.pick(&["urgent", "short", "plain"]));
            }
            Kind::Overdue => self.deadline = Some(now),
            Kind::Allowed => self.allow_only(&[draws.pick(&[OVERLOADED, CHURNED[0], CHURNED[1]])]),
            Kind::ManyAllowed => {
                self.allow_only(&[OVERLOADED]);
                let many = (0..100 + 800 * u64::from(draws.one_in(2))).map(|n| WorkerId(100 + n));
                self.allow.get_or_insert_default().extend(many);
            }
            Kind::Nobody => self.allow_only(&[]),
            Kind::Tainted => {
                self.taints = &[TAINT];
                self.may_run_on = 1 << TAINTED;
            }
            Kind::UnknownTaint => {
                self.taints = &["none"];
                self.may_run_on = 0;
            }
            Kind::Pinned => {
                let number = u64::from(draws.below(11));
                self.pin_to(if number < WORKERS {
                    number + 1
                } else {
                    OVERLOADED
                });
            }
            Kind::PinNotAllowed => {
                self.allow_only(&[STEADY[1]]);
                self.pin_to(STEADY[0]);
                self.may_run_on = 0;
            }
            Kind::PinUnknown => {
                self.pin_to(UNKNOWN);
                self.may_run_on = 0;
            }
            Kind::PinRank => {
                self.pin = Some(Endpoint::new(STEADY[0], 7));
                self.may_run_on = 0;
            }
            Kind::PinTainted => {
                self.taints = &[TAINT];
                let worker = draws.pick(&[STEADY[0], TAINTED]);
                self.pin_to(worker);
                self.may_run_on &= 1 << TAINTED;
            }
            Kind::SecondModel => {
                self.model = SECOND_MODEL;
                self.may_run_on = 1 << LONELY;
            }
            Kind::Invalid => self.spoil(draws),
        }
    }

    fn allow_only(&mut self, workers: &[u64]) {
        self.allow = Some(workers.iter().copied().map(WorkerId).collect());
        self.may_run_on = workers.iter().map(|&id| 1 << id).sum();
    }

    fn pin_to(&mut self, worker: u64) {
        self.pin = Some(Endpoint::new(worker, 0));
        self.may_run_on = 1 << worker;
    }

    fn spoil(&mut self, draws: &mut Draws) {
        self.may_run_on = 0;
        match draws.below(3) {
            0 => self.priority_jump = f64::NAN,
            1 => self.model = ModelIndex(7),
            _ => {
                let hint = Hint {
                    endpoint: Endpoint::new(1, 0),
                    cached: 1,
                };
                self.hints = vec![hint; 17];
            }
        }
    }

    pub(crate) fn request(&self, payload: Slip) -> Request<'_, Slip> {
        Request {
            model: self.model,
            family: self.family,
            cached_tokens: self.cached_tokens,
            hints: &self.hints,
            strict_priority: self.strict_priority,
            priority_jump: self.priority_jump,
            pin: self.pin,
            allow: self.allow.as_deref(),
            require_taints: self.taints,
            deadline: self.deadline,
            may_wait: self.kind != Kind::Impatient,
            ..Request::new(self.raw_tokens, payload)
        }
    }
}
