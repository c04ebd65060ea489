//! What becomes of each request, for the log and the metrics.
//!
//! An [`Account`] is opened when a request's head is there, and goes with it: into the handler, then into the
//! body of the answer. Whatever drops it closes it, so that a client that went away is accounted for as well.

mod log;
mod telemetry;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate::Endpoint;

pub(crate) use self::log::Journalist;
pub(crate) use self::telemetry::Telemetry;
use crate::cost::{Api, Usage};
use crate::shared::Shared;

/// The status of a request whose client went away, as proxies log it; nobody receives it.
pub(crate) const CLIENT_CLOSED: u16 = 499;

/// What is known of a request.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) request_id: String,
    pub(crate) api: Api,
    /// Empty: none that there is.
    pub(crate) model: Arc<str>,
    /// Empty: it was not queued.
    pub(crate) class: Arc<str>,
    /// Where it went last.
    pub(crate) endpoint: Option<Endpoint>,
    pub(crate) attempts: u8,
    /// From the submission to the last dispatch.
    pub(crate) wait: Option<Duration>,
    /// From the request's head to the first byte of the answer's body.
    pub(crate) first_byte: Option<Duration>,
    /// From the request's head to its end.
    pub(crate) duration: Duration,
    pub(crate) status: u16,
    /// What became of it, in a word of a fixed set.
    pub(crate) code: &'static str,
    pub(crate) is_streamed: bool,
    /// Prompt tokens, as they were estimated; those of them that were expected in a cache.
    pub(crate) prompt_tokens: u32,
    pub(crate) cached_tokens: u32,
    /// What the worker said.
    pub(crate) usage: Option<Usage>,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
}

/// A request whose end is to come.
#[derive(Debug)]
pub(crate) struct Account {
    shared: Arc<Shared>,
    pub(crate) began: Instant,
    pub(crate) facts: Facts,
}

impl Account {
    pub(crate) fn open(shared: Arc<Shared>, api: Api, request_id: String) -> Self {
        shared.opened();
        let facts = Facts {
            request_id,
            api,
            model: "".into(),
            class: "".into(),
            endpoint: None,
            attempts: 0,
            wait: None,
            first_byte: None,
            duration: Duration::ZERO,
            status: CLIENT_CLOSED,
            code: "client_closed",
            is_streamed: false,
            prompt_tokens: 0,
            cached_tokens: 0,
            usage: None,
            bytes_in: 0,
            bytes_out: 0,
        };
        Self {
            shared,
            began: Instant::now(),
            facts,
        }
    }

    /// How it ended; it may be said again.
    pub(crate) fn ends(&mut self, status: u16, code: &'static str) {
        self.facts.status = status;
        self.facts.code = code;
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.facts.duration = self.began.elapsed();
        self.shared.telemetry.ended(&self.facts);
        self.shared.journalist.write(&self.facts);
        self.shared.closed();
    }
}
