//! The settings of `tollgate serve`, each of which may stand in three places.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use serde::Deserialize;
use tollgate_router::config::{Config, ConfigErrors};

use super::values::{
    self, Header, Log, Loss, Seconds, Threshold, Tokenizer, Told, Waiting, Worker,
};

/// Declares settings that may be absent, and how those of two places make one.
macro_rules! settings {
    ($(#[$meta:meta])* struct $name:ident { $($(#[$field_meta:meta])* $field:ident: $kind:ty,)* }) => {
        $(#[$meta])*
        pub(super) struct $name {
            $($(#[$field_meta])* pub(super) $field: Option<$kind>,)*
        }

        impl $name {
            /// These, and where they say nothing, the others.
            pub(super) fn or(self, others: Self) -> Self {
                Self { $($field: self.$field.or(others.$field),)* }
            }
        }
    };
}

settings! {
    /// What may be set; `None` is the default.
    #[derive(Args, Clone, Debug, Default, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Options {
        /// Where clients come [default: 127.0.0.1:8080]
        #[arg(long, value_name = "ADDR", env = "TOLLGATE_LISTEN")]
        listen: SocketAddr,

        /// Where operators come [default: 127.0.0.1:9090]
        #[arg(long, value_name = "ADDR", env = "TOLLGATE_ADMIN")]
        admin: SocketAddr,

        /// The policy file; without one, one class takes everything
        #[arg(long, value_name = "FILE", env = "TOLLGATE_POLICY")]
        policy: PathBuf,

        /// The address of a worker; may be given again. In a file: `workers`, a list of `url` with `models`,
        /// `ranks`, `max_batched_tokens` and `taints`
        #[arg(long = "worker", value_name = "URL", env = "TOLLGATE_WORKER", value_delimiter = ',')]
        workers: Vec<Worker>,

        /// Without a profile in the policy: waiting begins above this fraction of max-batched-tokens
        #[arg(long, value_name = "FRACTION", env = "TOLLGATE_QUEUE_THRESHOLD")]
        queue_threshold: Threshold,

        /// What fractions of thresholds refer to, for workers that do not say it themselves
        #[arg(long, value_name = "N", env = "TOLLGATE_MAX_BATCHED_TOKENS")]
        max_batched_tokens: u64,

        /// The status of a refusal by a limit or by overload: 429, 503 or 529 [default: 429]
        #[arg(long, value_name = "N", env = "TOLLGATE_OVERLOAD_STATUS")]
        overload_status: u16,

        /// How requests are logged on standard output: off, text or json [default: text]
        #[arg(long, value_name = "FORM", env = "TOLLGATE_ACCESS_LOG")]
        access_log: Log,

        /// How long a drain may take [default: 30]
        #[arg(long, value_name = "SECONDS", env = "TOLLGATE_DRAIN")]
        drain: Seconds,

        /// Certificates, in PEM, of those who sign for https workers, beside the system's
        #[arg(long, value_name = "FILE", env = "TOLLGATE_WORKER_CA")]
        worker_ca: PathBuf,

        /// Counts a model's prompts by its tokenizer.json, where the program is built for it; may be given again.
        /// In a file: `tokenizers`, a map of models to files
        #[arg(long = "tokenizer", value_name = "MODEL=FILE", env = "TOLLGATE_TOKENIZER", value_delimiter = ',')]
        #[serde(default, deserialize_with = "values::tokenizers")]
        tokenizers: Vec<Tokenizer>,

        /// The request header that names class or family [default: x-dynamo-meta-policy-class]
        #[arg(long, value_name = "NAME", env = "TOLLGATE_CLASS_HEADER", help_heading = "Headers")]
        class_header: Header,

        /// Of the strict tier [default: x-dynamo-request-strict-priority]
        #[arg(long, value_name = "NAME", env = "TOLLGATE_STRICT_PRIORITY_HEADER", help_heading = "Headers")]
        strict_priority_header: Header,

        /// Of the soft priority [default: x-dynamo-request-priority]
        #[arg(long, value_name = "NAME", env = "TOLLGATE_PRIORITY_HEADER", help_heading = "Headers")]
        priority_header: Header,

        /// Of the time that a request may wait, in milliseconds [default: x-tollgate-deadline-ms]
        #[arg(long, value_name = "NAME", env = "TOLLGATE_DEADLINE_HEADER", help_heading = "Headers")]
        deadline_header: Header,

        /// Of the session that stays with one worker [default: x-session-id]
        #[arg(long, value_name = "NAME", env = "TOLLGATE_SESSION_HEADER", help_heading = "Headers")]
        session_header: Header,

        /// Of the worker that must run a request, with allow-pins [default: x-tollgate-worker]
        #[arg(long, value_name = "NAME", env = "TOLLGATE_WORKER_HEADER", help_heading = "Headers")]
        worker_header: Header,

        /// Of the taints that a worker must carry [default: x-tollgate-require-taints]
        #[arg(long, value_name = "NAME", env = "TOLLGATE_TAINTS_HEADER", help_heading = "Headers")]
        taints_header: Header,

        /// Of the rank, to workers with several [default: x-data-parallel-rank]
        #[arg(long, value_name = "NAME", env = "TOLLGATE_RANK_HEADER", help_heading = "Headers")]
        rank_header: Header,

        /// The response header that tells the class, or off [default: x-tollgate-class]
        #[arg(long, value_name = "NAME", env = "TOLLGATE_TOLD_CLASS_HEADER", help_heading = "Headers")]
        told_class_header: Told,

        /// That tells the wait in milliseconds, or off [default: x-tollgate-wait-ms]
        #[arg(long, value_name = "NAME", env = "TOLLGATE_TOLD_WAIT_HEADER", help_heading = "Headers")]
        told_wait_header: Told,

        /// That tells the worker, or off [default: x-tollgate-worker]
        #[arg(long, value_name = "NAME", env = "TOLLGATE_TOLD_WORKER_HEADER", help_heading = "Headers")]
        told_worker_header: Told,

        /// Whether clients may name their worker [default: false]
        #[arg(long, value_name = "BOOL", env = "TOLLGATE_ALLOW_PINS", num_args = 0..=1, default_missing_value = "true", help_heading = "Headers")]
        allow_pins: bool,

        /// The largest body, in bytes [default: 33554432]
        #[arg(long, value_name = "BYTES", env = "TOLLGATE_BODY_BYTES", help_heading = "Limits")]
        body_bytes: usize,

        /// All bodies held at one time, in bytes [default: 1073741824]
        #[arg(long, value_name = "BYTES", env = "TOLLGATE_BUFFERED_BYTES", help_heading = "Limits")]
        buffered_bytes: usize,

        /// A request's line and headers, in bytes [default: 65536]
        #[arg(long, value_name = "BYTES", env = "TOLLGATE_HEADER_BYTES", help_heading = "Limits")]
        header_bytes: usize,

        /// Connections of clients [default: what file descriptors suffice for]
        #[arg(long, value_name = "N", env = "TOLLGATE_CONNECTIONS", help_heading = "Limits")]
        connections: usize,

        /// For a client's headers, and between two of its requests [default: 75]
        #[arg(long, value_name = "SECONDS", env = "TOLLGATE_CLIENT_HEADERS_TIMEOUT", help_heading = "Times")]
        client_headers_timeout: Seconds,

        /// For a client's body [default: 120]
        #[arg(long, value_name = "SECONDS", env = "TOLLGATE_CLIENT_BODY_TIMEOUT", help_heading = "Times")]
        client_body_timeout: Seconds,

        /// For a client to take what is ready for it [default: 60]
        #[arg(long, value_name = "SECONDS", env = "TOLLGATE_CLIENT_WRITE_TIMEOUT", help_heading = "Times")]
        client_write_timeout: Seconds,

        /// For connecting to a worker [default: 2]
        #[arg(long, value_name = "SECONDS", env = "TOLLGATE_CONNECT_TIMEOUT", help_heading = "Times")]
        connect_timeout: Seconds,

        /// A hand-over to a worker, from connecting to the first byte of the answer [default: 300]
        #[arg(long, value_name = "SECONDS", env = "TOLLGATE_FIRST_BYTE_TIMEOUT", help_heading = "Times")]
        first_byte_timeout: Seconds,

        /// Between two parts of an answer [default: 60]
        #[arg(long, value_name = "SECONDS", env = "TOLLGATE_IDLE_TIMEOUT", help_heading = "Times")]
        idle_timeout: Seconds,

        /// What a well worker answers with 2xx [default: /health]
        #[arg(long, value_name = "PATH", env = "TOLLGATE_HEALTH_PATH", help_heading = "Workers")]
        health_path: String,

        /// Between two looks at a worker [default: 5]
        #[arg(long, value_name = "SECONDS", env = "TOLLGATE_HEALTH_INTERVAL", help_heading = "Workers")]
        health_interval: Seconds,

        /// For a worker's answer to a look [default: 2]
        #[arg(long, value_name = "SECONDS", env = "TOLLGATE_HEALTH_TIMEOUT", help_heading = "Workers")]
        health_timeout: Seconds,

        /// Failures in a row that take a worker out [default: 2]
        #[arg(long, value_name = "N", env = "TOLLGATE_HEALTH_EJECT_AFTER", help_heading = "Workers")]
        health_eject_after: u32,

        /// Good looks in a row that take it back [default: 1]
        #[arg(long, value_name = "N", env = "TOLLGATE_HEALTH_READMIT_AFTER", help_heading = "Workers")]
        health_readmit_after: u32,

        /// A session that is not heard of for so long is forgotten [default: 600]
        #[arg(long, value_name = "SECONDS", env = "TOLLGATE_SESSION_TTL", help_heading = "Workers")]
        session_ttl: Seconds,

        /// Sessions of a model that are remembered [default: 65536]
        #[arg(long, value_name = "N", env = "TOLLGATE_SESSIONS", help_heading = "Workers")]
        sessions: usize,

        /// What becomes of a session's request whose worker is gone: fail or rehome [default: rehome]
        #[arg(long, value_name = "WHAT", env = "TOLLGATE_SESSION_ON_LOSS", help_heading = "Workers")]
        session_on_loss: Loss,

        /// Blocks of prompts that the prefix index remembers of each endpoint; 0: it is off [default: 65536]
        #[arg(long, value_name = "N", env = "TOLLGATE_PREFIX_BLOCKS", help_heading = "Workers")]
        prefix_blocks: usize,

        /// Models at one time [default: 8]
        #[arg(long, value_name = "N", env = "TOLLGATE_MODELS", help_heading = "Sizes")]
        models: usize,

        /// Requests of a model that wait or run at one time [default: 16384]
        #[arg(long, value_name = "N", env = "TOLLGATE_SLOTS", help_heading = "Sizes")]
        slots: usize,

        /// Classes of a model, those that drain included [default: 64]
        #[arg(long, value_name = "N", env = "TOLLGATE_CLASSES", help_heading = "Sizes")]
        classes: usize,

        /// Workers of a model [default: 256]
        #[arg(long, value_name = "N", env = "TOLLGATE_MODEL_WORKERS", help_heading = "Sizes")]
        model_workers: usize,

        /// Ranks of all workers of a model [default: 1024]
        #[arg(long, value_name = "N", env = "TOLLGATE_ENDPOINTS", help_heading = "Sizes")]
        endpoints: usize,

        /// What the arbiter's thread does when it has nothing to do: park, spin-then-park or spin [default: park]
        #[arg(long, value_name = "HOW", env = "TOLLGATE_IDLE", help_heading = "Sizes")]
        idle: Waiting,

        /// The core that the arbiter's thread is pinned to
        #[arg(long, value_name = "N", env = "TOLLGATE_CORE", help_heading = "Sizes")]
        core: u16,
    }
}

impl Options {
    /// The whole configuration.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub(super) fn into_config(self) -> Result<Config, ConfigErrors> {
        let mut config = Config::default();
        self.apply_basics(&mut config);
        self.apply_headers(&mut config);
        self.apply_limits(&mut config);
        self.apply_workers(&mut config);
        config.check()?;
        Ok(config)
    }

    fn apply_basics(&self, config: &mut Config) {
        set(&mut config.listen, self.listen);
        set(&mut config.admin, self.admin);
        config.policy.clone_from(&self.policy);
        let threshold = self.queue_threshold.as_ref();
        config.queue_threshold = threshold.map(|threshold| threshold.0);
        config.max_batched_tokens = self.max_batched_tokens;
        set(&mut config.overload_status, self.overload_status);
        set(&mut config.access_log, self.access_log.map(|log| log.0));
        set(&mut config.drain, self.drain.map(|time| time.0));
        config.worker_ca.clone_from(&self.worker_ca);
        set(&mut config.allow_pins, self.allow_pins);
    }

    fn apply_headers(&self, config: &mut Config) {
        let headers = &mut config.headers;
        let read = [
            (&mut headers.class, &self.class_header),
            (&mut headers.strict_priority, &self.strict_priority_header),
            (&mut headers.priority, &self.priority_header),
            (&mut headers.deadline, &self.deadline_header),
            (&mut headers.session, &self.session_header),
            (&mut headers.worker, &self.worker_header),
            (&mut headers.taints, &self.taints_header),
            (&mut headers.rank, &self.rank_header),
        ];
        for (setting, given) in read {
            set(setting, given.as_ref().map(|header| header.0.clone()));
        }
        let told = [
            (&mut headers.told_class, &self.told_class_header),
            (&mut headers.told_wait, &self.told_wait_header),
            (&mut headers.told_worker, &self.told_worker_header),
        ];
        for (setting, given) in told {
            set(setting, given.as_ref().map(|header| header.0.clone()));
        }
    }

    fn apply_limits(&self, config: &mut Config) {
        let limits = &mut config.limits;
        set(&mut limits.body_bytes, self.body_bytes);
        set(&mut limits.buffered_bytes, self.buffered_bytes);
        set(&mut limits.header_bytes, self.header_bytes);
        limits.connections = self.connections;
        let timeouts = &mut config.timeouts;
        let times = [
            (&mut timeouts.client_headers, self.client_headers_timeout),
            (&mut timeouts.client_body, self.client_body_timeout),
            (&mut timeouts.client_write, self.client_write_timeout),
            (&mut timeouts.connect, self.connect_timeout),
            (&mut timeouts.first_byte, self.first_byte_timeout),
            (&mut timeouts.idle, self.idle_timeout),
            (&mut config.health.interval, self.health_interval),
            (&mut config.health.timeout, self.health_timeout),
            (&mut config.affinity.ttl, self.session_ttl),
        ];
        for (setting, given) in times {
            set(setting, given.map(|time| time.0));
        }
    }

    fn apply_workers(self, config: &mut Config) {
        let tokenizers = self.tokenizers.unwrap_or_default().into_iter();
        config.tokenizers = tokenizers.map(|tokenizer| tokenizer.0).collect();
        let workers = self.workers.unwrap_or_default();
        config.workers = workers.into_iter().map(|worker| worker.0).collect();
        let health = &mut config.health;
        set(&mut health.path, self.health_path);
        set(&mut health.eject_after, self.health_eject_after);
        set(&mut health.readmit_after, self.health_readmit_after);
        set(&mut config.affinity.capacity, self.sessions);
        set(
            &mut config.affinity.on_loss,
            self.session_on_loss.map(|loss| loss.0),
        );
        set(&mut config.prefix_blocks, self.prefix_blocks);
        let engine = &mut config.engine;
        set(&mut engine.models, self.models);
        set(&mut engine.slots, self.slots);
        set(&mut engine.classes, self.classes);
        set(&mut engine.workers, self.model_workers);
        set(&mut engine.endpoints, self.endpoints);
        set(&mut engine.idle, self.idle.map(|idle| idle.0));
        engine.core = self.core;
    }
}

/// Sets what was given.
fn set<T>(setting: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *setting = given;
    }
}
