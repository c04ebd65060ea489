//! A modelled LLM worker that speaks the OpenAI API: for tests, demonstrations and benchmarks of a router.
//!
//! It answers over real sockets and on the real clock, with the times of the worker model of
//! [`tollgate_sim::worker`]: requests wait for a sequence, prompts are computed in batches, prefixes are
//! found in a cache, and output tokens come one by one. Nothing is computed, and the text is always the
//! same.
//!
//! | path | what it does |
//! |---|---|
//! | `POST /v1/chat/completions`, `/v1/completions`, `/v1/responses` | generate, streamed or not |
//! | `POST /v1/embeddings` | a prefill without output |
//! | `GET /v1/models` | the one model |
//! | `GET /health` | 200 while it listens |
//! | `GET /stats` | [`Counters`] as JSON |
//!
//! # Tokens
//!
//! A prompt of token ids has as many tokens. Of a text every four bytes are a token, and what is left over
//! is one; a message takes four more. The output has as many tokens as the request allows, 16 if it does
//! not say. A request with several prompts is one job with all of their tokens, and a completion has one
//! choice.
//!
//! # Faults
//!
//! The header `x-mock-fault` of a request for inference makes it go wrong:
//!
//! | fault | what the client sees |
//! |---|---|
//! | `slow` | the first token ten times as late, and the others after it |
//! | `stall` | the head and half of the tokens or of the body, then nothing for ever |
//! | `stall-before` | nothing at all, for ever |
//! | `500`, `503` | an error with this status |
//! | `cut` | the connection closed within a frame, or within the declared length |
//! | `reset` | the connection reset before any answer |
//! | `reset-after` | the connection reset after half of the tokens or of the body |
//! | `garbage` | bytes that are not HTTP |
//! | `garbage-body` | status 200, and a body or frames that are not JSON |
//!
//! A request that is slow, stalls or breaks off keeps its sequence until it is sent, broken off, or its
//! client leaves. Where the model limits [`kv_tokens`](WorkerModel::kv_tokens), it counts as larger than
//! the whole, and runs alone.
//!
//! # How it is built
//!
//! One task owns the model and moves it along the clock; it is told of requests and of clients that
//! leave, and tells when a prefill or a whole request is done. The frames between are sent by the
//! connections on their own timers. A request takes no more than its socket and a few hundred bytes:
//! frames are built when they are sent.

mod body;
mod clock;
mod counters;
mod desk;
mod driver;
mod fault;
mod frames;
mod input;
mod job;
mod prompt;
mod refusal;
mod reply;
mod request;
mod server;
mod service;
mod text;
mod wire;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tollgate_sim::worker::WorkerModel;

use crate::clock::Clock;
use crate::counters::Board;
pub use crate::counters::Counters;
use crate::service::Service;

/// What a worker is like.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The name of the model that it serves; not empty. Default `mock`.
    pub model: String,
    /// Its times and limits. Default: the model's own defaults; 0
    /// [`cache_blocks`](WorkerModel::cache_blocks) are no prefix cache.
    pub worker: WorkerModel,
    /// How much faster than the model it is: times are divided by it. Finite and above 0. Default 1.
    pub speed: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            model: "mock".to_owned(),
            worker: WorkerModel::default(),
            speed: 1.0,
        }
    }
}

/// Why a worker cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The model has no name.
    #[error("the model's name is empty")]
    NoModel,
    /// The speed is none.
    #[error("the speed is {speed}; it must be finite and above 0")]
    Speed {
        /// What was given.
        speed: f64,
    },
    /// The address cannot be listened at.
    #[error("cannot listen at {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
}

/// A running worker. Dropping it stops it, a moment later.
#[derive(Debug)]
pub struct MockWorker {
    address: SocketAddr,
    board: Board,
    /// Dropped to stop the server.
    stop: oneshot::Sender<Infallible>,
    server: JoinHandle<()>,
}

impl MockWorker {
    /// Starts a worker on the Tokio runtime that this is called on, which needs its timers and I/O. It
    /// listens when this returns. With port 0 the system chooses one: see [`MockWorker::address`].
    ///
    /// ```
    /// use tollgate_mock_worker::{Counters, MockWorker, Settings};
    ///
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// # runtime.block_on(async {
    /// let worker = MockWorker::start(Settings::default(), ([127, 0, 0, 1], 0).into()).await?;
    /// assert_ne!(worker.address().port(), 0);
    /// assert_eq!(worker.counters(), Counters::default());
    /// worker.stop().await;
    /// # Ok::<(), tollgate_mock_worker::StartError>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Where a setting is out of range, or the address cannot be listened at.
    pub async fn start(settings: Settings, listen: SocketAddr) -> Result<Self, StartError> {
        let Settings {
            model,
            worker,
            speed,
        } = settings;
        if model.is_empty() {
            return Err(StartError::NoModel);
        }
        if !(speed.is_finite() && speed > 0.0) {
            return Err(StartError::Speed { speed });
        }
        let refused = |source| StartError::Listen {
            address: listen,
            source,
        };
        let listener = server::listen(listen).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let board = Board::default();
        let clock = Clock::new(speed);
        let driver = driver::start(worker, clock, board.clone());
        let service = Service::new(model, worker.decode_step, clock, driver, board.clone());
        let (stop, stopped) = oneshot::channel();
        let server = tokio::spawn(server::run(listener, Arc::new(service), stopped));
        Ok(Self {
            address,
            board,
            stop,
            server,
        })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it has counted so far, as `GET /stats` tells it. The numbers are of one moment.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.board.read()
    }

    /// Stops listening and closes every connection at once, as if the process were killed. Nothing listens
    /// any more when this returns.
    pub async fn stop(self) {
        drop(self.stop);
        // It ends with an error only where its runtime is shutting down, and then it is stopped as well.
        let _ = self.server.await;
    }
}
