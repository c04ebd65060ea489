//! Whether the machine kept still enough for the figures of a suite to be trusted.

use super::{Calibration, SuiteRun, Unit};

/// By which factor a reading may move from before to after, exclusively.
const MOVED: f64 = 1.5;
/// The part of the time that may be lost, or taken by the hypervisor.
const LOST_MAX: f64 = 0.01;
/// The longest gap that may be, in nanoseconds.
const GAP_MAX_NS: u64 = 10_000_000;

impl SuiteRun {
    /// Why the figures of the suite cannot be trusted, a sentence each; none if they can.
    ///
    /// The line transfer or the reading of the clock moved by half or more from before to after; the lost
    /// time moved so and is above 1 % in either; the hypervisor took more than 1 % of the processors' time
    /// since the reading before; or a gap was longer than 10 ms.
    #[must_use]
    pub fn distrust(&self) -> Vec<String> {
        let (before, after) = (&self.before, &self.after);
        let mut reasons = Vec::new();
        let lines = before.line_ns.zip(after.line_ns);
        if let Some((old, new)) = lines.filter(|&(old, new)| has_moved(old, new)) {
            reasons.push(moved("The transfer of a cache line", Unit::Nanos, old, new));
        }
        if has_moved(before.clock_ns, after.clock_ns) {
            let (old, new) = (before.clock_ns, after.clock_ns);
            reasons.push(moved("A reading of the clock", Unit::Nanos, old, new));
        }
        if has_lost_more(before.gaps.lost, after.gaps.lost) {
            let (old, new) = (before.gaps.lost, after.gaps.lost);
            reasons.push(moved("The time lost in gaps", Unit::Share, old, new));
        }
        // What was taken before the first reading was taken from nobody here.
        if let Some(steal) = after.steal.filter(|&steal| steal > LOST_MAX) {
            reasons.push(format!(
                "The hypervisor took {} of the processors' time while the suite ran, where {} is allowed.",
                Unit::Share.tell(steal),
                Unit::Share.tell(LOST_MAX),
            ));
        }
        for (when, calibration) in [("before", before), ("after", after)] {
            if calibration.gaps.longest_ns > GAP_MAX_NS {
                reasons.push(format!(
                    "A thread was kept from running for {} {when} it, where {} is allowed.",
                    crate::text::duration(calibration.gaps.longest_ns),
                    crate::text::duration(GAP_MAX_NS),
                ));
            }
        }
        reasons
    }
}

impl Calibration {
    /// Whether nothing was looked at: that of a report made from a log, which knows of no machine.
    pub(super) fn is_unknown(&self) -> bool {
        self.line_ns.is_none() && self.clock_ns == 0.0 && self.gaps.span_ns == 0
    }
}

fn moved(what: &str, unit: Unit, old: f64, new: f64) -> String {
    format!(
        "{what} moved from {} before it to {} after it.",
        unit.tell(old),
        unit.tell(new)
    )
}

/// The factor between the two, at least 1; infinite if one of them alone is 0.
pub(super) fn factor(old: f64, new: f64) -> f64 {
    let (low, high) = (old.min(new), old.max(new));
    if high <= 0.0 {
        1.0
    } else if low <= 0.0 {
        f64::INFINITY
    } else {
        high / low
    }
}

pub(super) fn has_moved(old: f64, new: f64) -> bool {
    factor(old, new) >= MOVED
}

pub(super) fn has_lost_more(old: f64, new: f64) -> bool {
    has_moved(old, new) && old.max(new) > LOST_MAX
}
