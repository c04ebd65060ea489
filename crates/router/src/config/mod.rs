//! What a router is to be: plain values, checked all at once.

mod check;
mod url;
mod worker;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use http::HeaderName;
use tollgate::Idle;
use tollgate::policy::Fraction;

pub(crate) use self::check::DAY;
pub use self::check::{ConfigError, ConfigErrors};
pub use self::url::{UrlError, WorkerUrl};
pub use self::worker::WorkerConfig;
pub(crate) use self::worker::{Fault, name_fault, name_faults};

/// Everything that a router is told before it starts. [`Router::start`](crate::Router::start) checks it.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where clients come. Default `127.0.0.1:8080`; port 0 takes any free one.
    pub listen: SocketAddr,
    /// Where operators come: metrics, state, workers, reload, drain. Whoever reaches it may do all of it, so
    /// that the default is the loopback address `127.0.0.1:9090`.
    pub admin: SocketAddr,
    /// The policy file; without one, one class takes everything (S3.5).
    pub policy: Option<PathBuf>,
    /// The busy threshold of the one class that stands in where the policy file has no profile for a model, as
    /// a fraction of `max_batched_tokens` (S3.5).
    pub queue_threshold: Option<Fraction>,
    /// The workers that are known from the start; more may come by the admin address.
    pub workers: Vec<WorkerConfig>,
    /// What fractions of thresholds refer to for a worker that does not say it itself, in tokens.
    pub max_batched_tokens: Option<u64>,
    /// The status of a refusal by a queue limit or by overload: 429 (default), 503 or 529.
    pub overload_status: u16,
    /// Names of the headers that carry hints and facts.
    pub headers: HeaderNames,
    /// Whether a client may name its worker by [`HeaderNames::worker`]. Default false: it would pass by the
    /// choice of the router.
    pub allow_pins: bool,
    /// What clients may use.
    pub limits: Limits,
    /// How long things may take.
    pub timeouts: Timeouts,
    /// How workers are watched.
    pub health: Health,
    /// How sessions stay with their workers.
    pub affinity: Affinity,
    /// Blocks of 256 bytes of prompts that the approximate prefix index remembers of each endpoint; 0 switches
    /// it off. Default 65,536: some 16 MB of text, in 3 MB of memory.
    pub prefix_blocks: usize,
    /// The sizes of the engine inside.
    pub engine: EngineSizes,
    /// How long a drain may take before what is left is ended, at most a day. Default 30 s.
    pub drain: Duration,
    /// Certificates, in PEM, of those who sign for `https://` workers, beside the system's.
    pub worker_ca: Option<PathBuf>,
    /// Models whose prompts are counted by their own tokenizers, each once. Default: none, and prompts are
    /// estimated. With any, the crate needs its feature `tokenizer`.
    pub tokenizers: Vec<TokenizerConfig>,
    /// How each request is logged on standard output. Default: one line of text.
    pub access_log: AccessLog,
}

/// A model's own tokenizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenizerConfig {
    /// The model, as requests name it. No worker need serve it.
    pub model: String,
    /// A `tokenizer.json`, as it lies beside a model, of at most 256 MiB.
    pub file: PathBuf,
}

/// Names of headers. Those of the first group are read, those of the second are written; no name of the second
/// group: the fact is not told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderNames {
    /// The policy class or family. Default `x-dynamo-meta-policy-class`.
    pub class: HeaderName,
    /// The strict tier, a whole number from 0 to 2^32 - 1. Default `x-dynamo-request-strict-priority`.
    pub strict_priority: HeaderName,
    /// The soft priority: a head start in seconds. Default `x-dynamo-request-priority`.
    pub priority: HeaderName,
    /// How long the request may wait for a worker, in milliseconds. Default `x-tollgate-deadline-ms`.
    pub deadline: HeaderName,
    /// The session whose requests stay with one worker. Default `x-session-id`.
    pub session: HeaderName,
    /// The worker that must run the request, as `3` or `3:1` with its rank; read only with
    /// [`Config::allow_pins`]. Default `x-tollgate-worker`.
    pub worker: HeaderName,
    /// The taints that a worker must carry to run the request, with commas between them. Default
    /// `x-tollgate-require-taints`.
    pub taints: HeaderName,
    /// Where a worker with several ranks is told which one. Default `x-data-parallel-rank`.
    pub rank: HeaderName,
    /// The class that the request was queued in. Default `x-tollgate-class`.
    pub told_class: Option<HeaderName>,
    /// How long it waited, in milliseconds with three decimals. Default `x-tollgate-wait-ms`.
    pub told_wait: Option<HeaderName>,
    /// The worker that answered, as in `worker`. Default `x-tollgate-worker`.
    pub told_worker: Option<HeaderName>,
}

impl Default for HeaderNames {
    fn default() -> Self {
        Self {
            class: HeaderName::from_static("x-dynamo-meta-policy-class"),
            strict_priority: HeaderName::from_static("x-dynamo-request-strict-priority"),
            priority: HeaderName::from_static("x-dynamo-request-priority"),
            deadline: HeaderName::from_static("x-tollgate-deadline-ms"),
            session: HeaderName::from_static("x-session-id"),
            worker: HeaderName::from_static("x-tollgate-worker"),
            taints: HeaderName::from_static("x-tollgate-require-taints"),
            rank: HeaderName::from_static("x-data-parallel-rank"),
            told_class: Some(HeaderName::from_static("x-tollgate-class")),
            told_wait: Some(HeaderName::from_static("x-tollgate-wait-ms")),
            told_worker: Some(HeaderName::from_static("x-tollgate-worker")),
        }
    }
}

/// What clients may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A request's body, in bytes. Default 32 MiB.
    pub body_bytes: usize,
    /// All bodies that are held at one time, in bytes; one more is refused as overload. Default 1 GiB.
    pub buffered_bytes: usize,
    /// A request's line and headers, in bytes, at least 8,192. Default 65,536.
    pub header_bytes: usize,
    /// Connections of clients at one time; one more is told so and closed. Default: what the process's limit on
    /// file descriptors leaves, at two for each connection.
    pub connections: Option<usize>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 32 << 20,
            buffered_bytes: 1 << 30,
            header_bytes: 1 << 16,
            connections: None,
        }
    }
}

/// How long things may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// A client may take so long for a request's line and headers, from the end of the one before. Default 75 s.
    pub client_headers: Duration,
    /// And so long for its body. Default 120 s.
    pub client_body: Duration,
    /// And so long to take any of an answer that is ready for it. Default 60 s.
    pub client_write: Duration,
    /// Connecting to a worker. Default 2 s.
    pub connect: Duration,
    /// From there to the first byte of the answer's body. Default 300 s.
    pub first_byte: Duration,
    /// Between two parts of an answer. Default 60 s.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            client_headers: Duration::from_secs(75),
            client_body: Duration::from_secs(120),
            client_write: Duration::from_secs(60),
            connect: Duration::from_secs(2),
            first_byte: Duration::from_secs(300),
            idle: Duration::from_secs(60),
        }
    }
}

/// How workers are watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The path that answers 2xx while a worker is well. Default `/health`.
    pub path: String,
    /// The time between two looks. Default 5 s.
    pub interval: Duration,
    /// How long a worker may take to answer. Default 2 s.
    pub timeout: Duration,
    /// So many failures in a row, of looks and of requests that could not be handed over, take a worker out.
    /// Default 2.
    pub eject_after: u32,
    /// So many good looks in a row take it back. Default 1.
    pub readmit_after: u32,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            path: "/health".to_owned(),
            interval: Duration::from_secs(5),
            timeout: Duration::from_secs(2),
            eject_after: 2,
            readmit_after: 1,
        }
    }
}

/// How sessions stay with their workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Affinity {
    /// A session that is not heard of for so long is forgotten. Default 10 minutes.
    pub ttl: Duration,
    /// Sessions that are remembered of each model; the one that was used longest ago makes room. Default 65,536.
    pub capacity: usize,
    /// What becomes of a session's request whose worker is gone. Default [`OnLoss::Rehome`].
    pub on_loss: OnLoss,
}

impl Default for Affinity {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(600),
            capacity: 65_536,
            on_loss: OnLoss::Rehome,
        }
    }
}

/// What becomes of a session's waiting requests whose worker is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLoss {
    /// They fail with the exact reason; the session finds another worker with its next request.
    Fail,
    /// They are submitted anew, for any worker; the session stays where they go.
    Rehome,
}

/// The sizes of the engine inside; see `Builder` of the crate `tollgate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineSizes {
    /// Models that there may be at one time, 1 to 256. Default 8.
    pub models: usize,
    /// Requests of a model that wait or run at one time. Default 16,384.
    pub slots: usize,
    /// Classes of a model, those that drain included. Default 64.
    pub classes: usize,
    /// Workers of a model. Default 256.
    pub workers: usize,
    /// Endpoints of a model: the ranks of all its workers. Default 1,024.
    pub endpoints: usize,
    /// What the arbiter's thread does when it has nothing to do. Default: it sleeps, since the runtime needs
    /// the cores.
    pub idle: Idle,
    /// The core that the arbiter's thread is pinned to. Default: none.
    pub core: Option<u16>,
}

impl Default for EngineSizes {
    fn default() -> Self {
        Self {
            models: 8,
            slots: 16_384,
            classes: 64,
            workers: 256,
            endpoints: 1_024,
            idle: Idle::Park,
            core: None,
        }
    }
}

/// How requests are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessLog {
    /// Not at all.
    Off,
    /// A line for people.
    Text,
    /// A JSON object in a line.
    Json,
}

impl Config {
    /// The status of a refusal by a queue limit or by overload. What is no status, which
    /// [`check`](Self::check) does not let pass, is 429.
    pub(crate) fn overload_status(&self) -> http::StatusCode {
        http::StatusCode::from_u16(self.overload_status)
            .unwrap_or(http::StatusCode::TOO_MANY_REQUESTS)
    }
}

impl Default for Config {
    fn default() -> Self {
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        Self {
            listen: SocketAddr::new(loopback, 8_080),
            admin: SocketAddr::new(loopback, 9_090),
            policy: None,
            queue_threshold: None,
            workers: Vec::new(),
            max_batched_tokens: None,
            overload_status: 429,
            headers: HeaderNames::default(),
            allow_pins: false,
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            health: Health::default(),
            affinity: Affinity::default(),
            prefix_blocks: 65_536,
            engine: EngineSizes::default(),
            drain: Duration::from_secs(30),
            worker_ca: None,
            tokenizers: Vec::new(),
            access_log: AccessLog::Text,
        }
    }
}
