//! A modelled LLM worker in virtual time.
//!
//! The model is small on purpose: enough to make requests queue, finish and make room the way a
//! real inference server does, and simple enough to compute by hand.
//!
//! 1. A worker holds at most [`WorkerModel::sequences`] sequences, and, where
//!    [`WorkerModel::kv_tokens`] is given, sequences whose prompts and outputs are at most so many
//!    tokens together. What is handed to it beyond that waits inside it, first come, first served; a
//!    sequence that is larger than the whole runs alone.
//! 2. A worker that is not in a prefill takes what waits inside it, in order, as one batch: up to the
//!    limits of 1, and up to [`WorkerModel::max_batched_tokens`] new tokens, but one request at least.
//!    *New* are the prompt tokens that it does not find in its cache when the batch begins. The batch's
//!    prefill takes [`PrefillTime::of`] the sum of its new tokens.
//! 3. At the end of the prefill each request of the batch reports [`Step::PrefillDone`], in the
//!    order in which they were handed over. The prefill produced the first output token, and the
//!    blocks of its prompts are in the cache from then on.
//! 4. Each further output token takes one [`WorkerModel::decode_step`]. After the last one the
//!    request reports [`Step::Complete`] and its sequence is free. A request of zero or one output
//!    tokens completes with its prefill.
//! 5. Decoding goes on beside the next prefill; neither slows the other down.
//! 6. The cache remembers the [`WorkerModel::cache_blocks`] blocks of 512 prompt tokens that were used
//!    last. What is found there is the longest beginning of a prompt, less than all of it: the last
//!    token is always computed. A request whose trace names no blocks finds what the trace says.
//! 7. A request that is cancelled ([`Pool::cancel`]) leaves at once, and its room is free from then on.
//!
//! All times are whole nanoseconds computed with integers, so equal input gives equal output on
//! every machine. What is deliberately absent: preemption, blocks that are held while they are in use,
//! and a decode time that depends on the batch.

mod cache;
mod pool;

pub use pool::{Batch, Job, Pool, Running, Step};

use std::fmt;

use tollgate_arbiter::Nanos;

/// How long the prefill of a batch takes: a polynomial of second degree in its new tokens.
///
/// The coefficients are whole attoseconds (10⁻¹⁸ s), so that the result is exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefillTime {
    /// Attoseconds per squared token.
    pub per_token_squared_as: u64,
    /// Attoseconds per token.
    pub per_token_as: u64,
    /// Attoseconds per batch, however small.
    pub base_as: u64,
}

impl Default for PrefillTime {
    /// `4.209989e-7 T² + 1.518344e-2 T + 16.50142` milliseconds for `T` new tokens.
    fn default() -> Self {
        Self {
            per_token_squared_as: 420_998_900,
            per_token_as: 15_183_440_000_000,
            base_as: 16_501_420_000_000_000,
        }
    }
}

impl fmt::Display for PrefillTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |attoseconds: u64| Decimal(attoseconds);
        write!(
            f,
            "{} T^2 + {} T + {} ms",
            millis(self.per_token_squared_as),
            millis(self.per_token_as),
            millis(self.base_as)
        )
    }
}

/// Attoseconds as milliseconds, with all digits.
struct Decimal(u64);

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const PER_MILLI: u64 = 1_000_000_000_000_000;
        let digits = format!("{:015}", self.0 % PER_MILLI);
        write!(f, "{}", self.0 / PER_MILLI)?;
        match digits.trim_end_matches('0') {
            "" => Ok(()),
            digits => write!(f, ".{digits}"),
        }
    }
}

impl PrefillTime {
    /// The time for a batch of `new_tokens`, rounded to the nearest nanosecond; saturates.
    ///
    /// ```
    /// # use tollgate_sim::worker::PrefillTime;
    /// // 0.11036 ms + 7.77392 ms + 16.50142 ms
    /// assert_eq!(PrefillTime::default().of(512).0, 24_385_704);
    /// ```
    #[must_use]
    pub fn of(&self, new_tokens: u64) -> Nanos {
        const AS_PER_NS: u128 = 1_000_000_000;
        let tokens = u128::from(new_tokens);
        let squared = (tokens * tokens).saturating_mul(u128::from(self.per_token_squared_as));
        let linear = tokens * u128::from(self.per_token_as);
        let total = squared
            .saturating_add(linear)
            .saturating_add(u128::from(self.base_as));
        let nanos = total.saturating_add(AS_PER_NS / 2) / AS_PER_NS;
        Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// What every worker of a [`Pool`] is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerModel {
    /// Sequences at one time, prefill and decode together; 0 counts as 1. Default 16.
    pub sequences: u32,
    /// How long a prefill takes.
    pub prefill: PrefillTime,
    /// The time of one decode step, whatever the batch. Default 10 ms, a round figure for a
    /// mid-sized model.
    pub decode_step: Nanos,
    /// New tokens of one prefill batch; the arbiter is told it as well, as the base of thresholds that
    /// are given as a fraction. Default 8,192.
    pub max_batched_tokens: u64,
    /// Prompt and output tokens of all sequences together. Default: unlimited.
    pub kv_tokens: Option<u64>,
    /// Blocks of 512 prompt tokens that the prefix cache holds; 0: there is none. Default 2,048, a
    /// million tokens.
    pub cache_blocks: u32,
}

impl Default for WorkerModel {
    fn default() -> Self {
        Self {
            sequences: 16,
            prefill: PrefillTime::default(),
            decode_step: Nanos::from_millis(10),
            max_batched_tokens: 8_192,
            kv_tokens: None,
            cache_blocks: 2_048,
        }
    }
}

impl WorkerModel {
    /// From the end of the prefill to the last output token.
    fn decode_time(&self, output_tokens: u32) -> Nanos {
        let steps = u64::from(output_tokens.saturating_sub(1));
        Nanos(self.decode_step.0.saturating_mul(steps))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefill_time_is_the_polynomial_rounded_to_nanoseconds() {
        let prefill = PrefillTime::default();
        // 16.50142 ms alone.
        assert_eq!(prefill.of(0), Nanos(16_501_420));
        // 0.0000004209989 + 0.01518344 + 16.50142 ms = 16.5166038609989 ms.
        assert_eq!(prefill.of(1), Nanos(16_516_604));
        // 2048 tokens: 1.7658 + 31.0957 + 16.5014 ms.
        assert_eq!(prefill.of(2_048), Nanos(49_362_902));
    }

    #[test]
    fn prefill_time_is_written_as_its_polynomial() {
        assert_eq!(
            PrefillTime::default().to_string(),
            "0.0000004209989 T^2 + 0.01518344 T + 16.50142 ms"
        );
        let flat = PrefillTime {
            per_token_squared_as: 0,
            per_token_as: 0,
            base_as: 80_000_000_000_000_000,
        };
        assert_eq!(flat.to_string(), "0 T^2 + 0 T + 80 ms");
    }

    #[test]
    fn prefill_time_saturates() {
        assert_eq!(PrefillTime::default().of(u64::MAX), Nanos::MAX);
        let dear = PrefillTime {
            per_token_squared_as: u64::MAX,
            per_token_as: u64::MAX,
            base_as: u64::MAX,
        };
        assert_eq!(dear.of(u64::MAX), Nanos::MAX);
    }

    #[test]
    fn the_first_output_token_comes_with_the_prefill() {
        let model = WorkerModel::default();
        assert_eq!(model.decode_time(0), Nanos(0));
        assert_eq!(model.decode_time(1), Nanos(0));
        assert_eq!(model.decode_time(3), Nanos::from_millis(20));
        let slow = WorkerModel {
            decode_step: Nanos(u64::MAX / 2),
            ..model
        };
        assert_eq!(slow.decode_time(u32::MAX), Nanos::MAX);
    }
}
