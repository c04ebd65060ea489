//! The rows of a trace as requests that arrive.

use tollgate_arbiter::Nanos;

use super::families::Assignment;
use super::simulation::Arrival;
use super::{ReplayError, ReplayOptions};
use crate::trace::{Trace, TraceRow};

/// Progress is told after so many requests.
const TOLD_AFTER: u64 = 4_096;

/// Requests in order of time: the trace's rows at a speed, once or again and again.
pub(super) struct Arrivals<'a> {
    trace: &'a Trace,
    progress: &'a mut dyn FnMut(u64),
    arrived: u64,
    families: Assignment<'a>,
    speed: f64,
    /// From one beginning of the trace to the next, in recorded time.
    period: u64,
    repeat: u64,
    round: u64,
    row: usize,
}

impl<'a> Arrivals<'a> {
    pub(super) fn new(
        trace: &'a Trace,
        options: &'a ReplayOptions,
        progress: &'a mut dyn FnMut(u64),
    ) -> Self {
        let rules = &options.families;
        let keeps = options.keeps_families;
        Self {
            trace,
            progress,
            arrived: 0,
            families: Assignment::new(rules, keeps, options.is_by_key, options.seed),
            speed: options.speed,
            period: period(&trace.rows),
            repeat: options.repeat,
            round: 0,
            row: 0,
        }
    }

    /// How many will come.
    pub(super) fn count(trace: &Trace, options: &ReplayOptions) -> Result<u64, ReplayError> {
        let rows = trace.rows.len() as u64;
        rows.checked_mul(options.repeat)
            .ok_or(ReplayError::TooOften {
                rows,
                repeat: options.repeat,
            })
    }

    /// When a row of this round arrives, in virtual time; saturates.
    fn at(&self, row: &TraceRow) -> Nanos {
        let recorded = self.period.saturating_mul(self.round);
        at_speed(row.at.saturating_add(Nanos(recorded)), self.speed)
    }
}

impl<'a> Iterator for Arrivals<'a> {
    type Item = Arrival<'a>;

    fn next(&mut self) -> Option<Arrival<'a>> {
        if self.row == self.trace.rows.len() {
            self.row = 0;
            self.round += 1;
        }
        if self.round >= self.repeat {
            return None;
        }
        let row = self.trace.rows.get(self.row)?;
        let at = self.at(row);
        self.row += 1;
        self.arrived += 1;
        if self.arrived.is_multiple_of(TOLD_AFTER) {
            (self.progress)(self.arrived);
        }
        Some(Arrival {
            at,
            family: self.families.next_family(row, self.trace),
            prompt_tokens: row.prompt_tokens,
            cached_tokens: row.cached_tokens,
            blocks: self.trace.blocks_of(row.blocks),
            output_tokens: row.output_tokens,
            pin: row.pin,
            tier: row.tier,
            deadline: row.patience.map(|patience| at.saturating_add(patience)),
        })
    }
}

/// The time of all rows, and a usual gap before the first of the next round.
fn period(rows: &[TraceRow]) -> u64 {
    let span = rows.last().map_or(0, |last| last.at.0);
    let gaps = (rows.len() as u64).saturating_sub(1).max(1);
    span.saturating_add((span / gaps).max(1))
}

/// Recorded time to virtual time; saturates.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    clippy::float_cmp,
    reason = "a time of up to 104 days is exact, and the cast of a float saturates"
)]
fn at_speed(at: Nanos, speed: f64) -> Nanos {
    if speed == 1.0 {
        return at;
    }
    Nanos((at.0 as f64 / speed).round() as u64)
}
