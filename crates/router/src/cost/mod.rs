//! What a request costs: what its body says, how many tokens that is, how many of them a worker has
//! already, and what the worker said afterwards.
//!
//! 1. [`body::read`] goes through a body and keeps numbers and hashes, no text.
//! 2. [`estimate::TokenEstimate`] turns those into tokens, and learns from what workers report.
//! 3. [`prefix::PrefixIndex`] knows which prompts went where, and so which beginnings are cached where.
//! 4. [`tokenizer::TokenCounter`] counts instead of estimating, for models whose tokenizer is known.
//! 5. [`usage::read`] finds a worker's report in an answer.
//!
//! Nothing here does I/O, waits for a task or reads a clock.

pub mod body;
pub mod estimate;
pub mod prefix;
mod scan;
pub mod tokenizer;
pub mod usage;

/// Going through a body of so many bytes takes long enough for a thread of its own, so that it holds up nobody
/// else.
pub(crate) const LONG_BYTES: usize = 1 << 18;

pub(crate) use self::body::{AgentHints, Api, BodyError, Prompt, RequestBody, read, texts};
pub(crate) use self::estimate::{EstimateErrors, Facts, TokenEstimate};
pub(crate) use self::prefix::{PrefixIndex, cached_tokens};
pub(crate) use self::tokenizer::TokenCounter;
pub(crate) use self::usage::{Usage, read as read_usage};
pub(crate) use scan::values;
