//! What is submitted, and how a submission is refused.

use tollgate_arbiter::{Endpoint, HINTS_MAX, Hint, Nanos, WorkerId};

use crate::ModelIndex;

/// How many required taints a request may name.
pub const REQUIRED_TAINTS_MAX: usize = 16;
/// How many workers an allow-list may name.
pub const ALLOWED_WORKERS_MAX: usize = 1_024;

/// A request at the doorway. It borrows its variable parts; `P` is the embedder's own and comes back
/// with the dispatch or outcome.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a, P> {
    /// Which model's workers it asks for. Default 0.
    pub model: ModelIndex,
    /// The class or family that the client named; `None`, empty and unknown names mean the default
    /// family (S3.4).
    pub family: Option<&'a str>,
    /// Prompt tokens, cached or not.
    pub raw_tokens: u32,
    /// Cached prompt tokens, holding on every endpoint; ignored when there are hints (S2.3).
    pub cached_tokens: u32,
    /// Cached prompt tokens by endpoint, at most 16 (S2.3).
    pub hints: &'a [Hint],
    /// Tier inside the class; a higher one goes first (S4.2).
    pub strict_priority: u32,
    /// Head start in seconds; clamped to 0 ..= 10^9 (S4.3).
    pub priority_jump: f64,
    /// The only endpoint that may run it (S4.1).
    pub pin: Option<Endpoint>,
    /// The only workers that may run it, at most 1,024; `None` allows all, an empty list nobody
    /// (S5.2).
    pub allow: Option<&'a [WorkerId]>,
    /// Taints that a worker must carry to run it, at most 16.
    pub require_taints: &'a [&'a str],
    /// Absolute time on the engine's [`Clock`](crate::Clock) at which it expires (S11.1).
    pub deadline: Option<Nanos>,
    /// False: dispatched in the turn that takes it in, or refused at that turn's end (S7.2).
    pub may_wait: bool,
    /// The embedder's own.
    pub payload: P,
}

impl<P> Request<'static, P> {
    /// A request of `raw_tokens` for model 0 with nothing cached and everything else left at its
    /// default.
    #[must_use]
    pub const fn new(raw_tokens: u32, payload: P) -> Self {
        Self {
            model: ModelIndex(0),
            family: None,
            raw_tokens,
            cached_tokens: 0,
            hints: &[],
            strict_priority: 0,
            priority_jump: 0.0,
            pin: None,
            allow: None,
            require_taints: &[],
            deadline: None,
            may_wait: true,
            payload,
        }
    }
}

impl<'a, P> Request<'a, P> {
    /// Whether it is wrong in itself (S2, S4.3).
    pub(crate) fn check(&self, models: usize) -> Result<(), InvalidRequest> {
        if self.model.at() >= models {
            return Err(InvalidRequest::UnknownModel {
                found: self.model.0,
                available: models,
            });
        }
        if !self.priority_jump.is_finite() {
            return Err(InvalidRequest::JumpNotFinite {
                found: self.priority_jump,
            });
        }
        let counts = [
            (Part::Hints, self.hints.len(), HINTS_MAX),
            (
                Part::RequireTaints,
                self.require_taints.len(),
                REQUIRED_TAINTS_MAX,
            ),
            (
                Part::Allow,
                self.allow.map_or(0, <[WorkerId]>::len),
                ALLOWED_WORKERS_MAX,
            ),
        ];
        match counts.into_iter().find(|(_, found, max)| found > max) {
            Some((part, found, max)) => Err(InvalidRequest::TooMany { part, found, max }),
            None => Ok(()),
        }
    }

    /// It has no hints, no allow-list and no required taints.
    #[inline]
    pub(crate) const fn is_plain(&self) -> bool {
        self.hints.is_empty() && self.allow.is_none() && self.require_taints.is_empty()
    }

    /// The same request around another payload.
    #[inline]
    pub(crate) fn replace_payload<Q>(self, payload: Q) -> (P, Request<'a, Q>) {
        let request = Request {
            model: self.model,
            family: self.family,
            raw_tokens: self.raw_tokens,
            cached_tokens: self.cached_tokens,
            hints: self.hints,
            strict_priority: self.strict_priority,
            priority_jump: self.priority_jump,
            pin: self.pin,
            allow: self.allow,
            require_taints: self.require_taints,
            deadline: self.deadline,
            may_wait: self.may_wait,
            payload,
        };
        (self.payload, request)
    }
}

/// A part of a request that has a bounded length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// [`Request::hints`].
    Hints,
    /// [`Request::require_taints`].
    RequireTaints,
    /// [`Request::allow`].
    Allow,
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Hints => "hints",
            Self::RequireTaints => "required taints",
            Self::Allow => "allowed workers",
        })
    }
}

/// What is wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidRequest {
    /// The engine has no such model.
    #[error("model {found} does not exist, there are {available}")]
    UnknownModel {
        /// The index given.
        found: u8,
        /// How many models there are.
        available: usize,
    },
    /// `priority_jump` is NaN or infinite.
    #[error("priority_jump must be a finite number of seconds, not {found}")]
    JumpNotFinite {
        /// What it was.
        found: f64,
    },
    /// Its hints, allow-list and taints need more blocks than the shard has for all its requests.
    #[error(
        "its hints, allowed workers and taints need {found} blocks, more than the {available} that \
         extension_blocks leaves each shard"
    )]
    MoreBlocksThanThereAre {
        /// How many blocks it needs.
        found: usize,
        /// How many blocks a shard has.
        available: usize,
    },
    /// A list is too long.
    #[error("{found} {part}, at most {max} are allowed")]
    TooMany {
        /// Which list.
        part: Part,
        /// How long it is.
        found: usize,
        /// How long it may be.
        max: usize,
    },
}

/// What a submission found no room in. Each is the shard's own, so trying again helps as soon as the
/// arbiter has taken something in, or an earlier request of this shard and model has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Room {
    /// Slots: as many requests of this shard and model as may be live are live.
    Slots,
    /// The ring to the arbiter.
    Ring,
    /// The ring for hints, allow-lists and taints.
    ExtensionRing,
    /// Blocks that hold hints, allow-lists and taints while requests live.
    ExtensionBlocks,
}

impl Room {
    /// Every kind, in the order of their numbers.
    pub const ALL: [Self; 4] = [
        Self::Slots,
        Self::Ring,
        Self::ExtensionRing,
        Self::ExtensionBlocks,
    ];

    /// The name used in messages, as in `extension_ring`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Slots => "slots",
            Self::Ring => "ring",
            Self::ExtensionRing => "extension_ring",
            Self::ExtensionBlocks => "extension_blocks",
        }
    }
}

impl std::fmt::Display for Room {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a submission was not accepted (S8).
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The request itself is wrong; it never will be accepted.
    #[error("invalid: {0}")]
    Invalid(#[from] InvalidRequest),
    /// The engine stops, stopped, or lost its arbiter (S11.3).
    #[error("closed: no new requests are taken")]
    Closed,
    /// There is no room now.
    #[error("full: no room in {what}")]
    Full {
        /// Where there is no room.
        what: Room,
    },
}

/// A submission that was not accepted; it comes back whole.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("{reason}")]
pub struct Refused<R> {
    /// Why.
    pub reason: Refusal,
    /// The request, as it was handed in.
    pub request: R,
}
