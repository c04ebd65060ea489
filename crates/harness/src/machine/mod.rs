//! The machine that is measured on: which cores there are, and how much it disturbs.
//!
//! A number that was taken across cores says little without these: the time a cache line takes from one
//! core to the other, which on virtual machines changes within minutes, and the gaps in which the
//! hypervisor or the kernel runs something else. [`calibrate`] reads all of it at one moment.

mod calibration;
mod cores;
mod facts;
mod gaps;
mod line;

pub use calibration::{CpuTime, Thoroughness, calibrate};
pub use cores::{Cores, on_core, pin};
pub use facts::{facts, resident_bytes};
pub use gaps::measure_gaps;
pub use line::line_transfer_ns;

use std::time::Duration;

/// Whole nanoseconds of a span.
#[must_use]
pub fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// How busy the machine is, as Linux tells it.
#[must_use]
pub fn load_average() -> String {
    let told = std::fs::read_to_string("/proc/loadavg");
    told.map_or_else(
        |error| format!("unknown ({error})"),
        |line| line.trim().to_owned(),
    )
}
