//! What a request costs: what its body says, how many tokens that is, how many of them a worker has
//! already, and what the worker said afterwards.
//!
//! 1. [`body::read`] goes through a body once and keeps numbers and hashes, no text.
//! 2. [`estimate::TokenEstimate`] turns those into tokens, and learns from what workers report.
//! 3. [`prefix::PrefixIndex`] knows which prompts went where, and so which beginnings are cached where.
//! 4. [`usage::read`] finds a worker's report in an answer.
//!
//! Nothing here does I/O, waits for a task or reads a clock.

pub mod body;
pub mod estimate;
pub mod prefix;
mod scan;
#[cfg(feature = "tokenizer")]
pub mod tokenizer;
pub mod usage;

pub(crate) use self::body::{AgentHints, Api, BodyError, RequestBody, read};
pub(crate) use self::estimate::{EstimateErrors, Facts, TokenEstimate};
pub(crate) use self::prefix::{PrefixIndex, cached_tokens};
pub(crate) use self::usage::{Usage, read as read_usage};
pub(crate) use scan::values;
