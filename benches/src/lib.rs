//! What the benchmarks of Tollgate share: an arbiter with its slots, a stream of requests, an engine
//! with a thread's worth of submitting and receiving, and what there is to know of the machine.
//!
//! The benchmarks use the public API alone. A question about one structure (a lane's order, the
//! tree over lanes, the class pick) is asked through the whole arbiter, with a configuration in
//! which nothing else varies: one lane of n entries, L lanes of one entry, C classes.

mod driver;
pub mod machine;
pub mod pipeline;
mod stream;
mod summary;
pub mod tasks;

pub use driver::{Driver, Lane, Served, Setup};
pub use stream::{Draw, Stream};
pub use summary::Summary;

/// Set to anything, it makes benchmarks run once on tiny inputs, as continuous integration does.
///
/// Criterion's `--test` argument does the same where criterion is the harness.
pub const SMOKE_VARIABLE: &str = "TOLLGATE_BENCH_SMOKE";

/// No input is larger than this in a smoke run.
pub const SMOKE_SIZE_MAX: u32 = 64;

/// Whether this is a smoke run: see [`SMOKE_VARIABLE`].
#[must_use]
pub fn is_smoke() -> bool {
    std::env::var_os(SMOKE_VARIABLE).is_some()
        || std::env::args().any(|argument| argument == "--test")
}

/// `full`, or at most [`SMOKE_SIZE_MAX`] in a smoke run.
#[must_use]
pub fn sized(full: u32) -> u32 {
    if is_smoke() {
        full.min(SMOKE_SIZE_MAX)
    } else {
        full
    }
}

/// `full`, or a thousandth of it, at least 1, in a smoke run: for counts of requests and repetitions.
#[must_use]
pub fn scaled(full: u64) -> u64 {
    if is_smoke() {
        (full / 1_000).max(1)
    } else {
        full
    }
}
