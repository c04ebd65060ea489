//! An OpenAI-compatible reverse proxy around the Tollgate engine.
//!
//! [`Router::start`] takes a [`Config`](config::Config), opens two addresses, and routes: clients ask for chat
//! and text completions, embeddings and responses; each request is quoted in uncached prompt tokens, waits in
//! its policy class for the engine's decision, goes to the worker that the engine chose, and is answered as
//! the worker answers. Operators have an address of their own, for metrics, state, workers, reload and drain.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`config`] | what a router is told before it starts |
//! | `server` | connections, their limits and times |
//! | `routes` | what clients may ask for |
//! | `proxy` | a request's way, from its body to the last byte of its answer |
//! | `cost` | what a request costs: reading bodies, estimating or counting tokens, the prefix index |
//! | `sse` | events of a streamed answer |
//! | `refusal` | the one table from a request's fate to status and code |
//! | `fleet` | models, workers, their health, the policy in force |
//! | `affinity` | sessions and the workers they stay with |
//! | `account` | what becomes of each request: access log and counters |
//! | `admin` | what operators may ask for |
//!
//! The router runs on the tokio runtime that it is started on; the engine's threads are its own.

mod account;
mod admin;
mod affinity;
pub mod config;
pub mod cost;
mod fleet;
mod proxy;
mod refusal;
mod router;
mod routes;
mod server;
mod shared;
pub mod sse;
mod upstream;

pub use self::admin::state;
pub use self::fleet::{CounterError, CounterErrors};
pub use self::router::{Router, StartError};
pub use self::upstream::CertificateError;
