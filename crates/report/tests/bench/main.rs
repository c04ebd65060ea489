//! Benchmark reports: told, read back, merged, compared, as logs and as pages.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod compare;
mod log;
mod made_up;
mod merge;
mod page;
mod read;
mod told;
