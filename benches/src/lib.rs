//! What the benchmarks of Tollgate share: sizes, the tasks of an async runtime, and the baseline of
//! instruction counts. All else is `tollgate-harness`.

pub mod baseline;
pub mod tasks;

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
