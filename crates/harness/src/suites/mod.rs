//! The questions, and how each is asked.

mod adversity;
mod arbiter;
mod latency;
mod pipeline;
mod ring;
mod running;
mod soak;

use std::time::{Duration, Instant};

use crate::Suite;

/// Every suite, in the order in which they run.
pub const ALL: [Suite; 6] = [
    arbiter::SUITE,
    ring::SUITE,
    pipeline::SUITE,
    latency::SUITE,
    adversity::SUITE,
    soak::SUITE,
];

/// Runs `work` again and again until `span` has passed; how often, and nanoseconds of one.
fn again_and_again(span: Duration, mut work: impl FnMut()) -> (u64, f64) {
    let begun = Instant::now();
    let mut times = 0_u64;
    loop {
        work();
        times += 1;
        let elapsed = begun.elapsed();
        if elapsed >= span {
            #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
            let each = elapsed.as_secs_f64() * 1e9 / times as f64;
            return (times, each);
        }
    }
}

/// A part of one as a name has it: `50%`.
fn percent(part: f64) -> String {
    format!("{}%", (part * 1e4).round() / 1e2)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::machine::Cores;
    use crate::{Plan, Scale, measure};

    /// Every suite at its smallest: every arm gives numbers or recordings, and no two have one name.
    #[test]
    fn every_suite_measures_something_in_every_arm() {
        for suite in ALL {
            let plan = Plan::new(Scale::Smoke, Cores::choose());
            let run = measure(&suite, &plan, &mut |_| ()).expect("nothing is filtered");
            let names: BTreeSet<&str> = run.arms.iter().map(|arm| arm.name.as_str()).collect();
            assert_eq!(names.len(), run.arms.len(), "{}: a name twice", suite.name);
            for arm in &run.arms {
                assert!(
                    !arm.metrics.is_empty() || !arm.populations.is_empty(),
                    "{}/{} measures nothing",
                    suite.name,
                    arm.name
                );
                for metric in &arm.metrics {
                    assert!(
                        metric.samples.iter().all(|sample| sample.is_finite()),
                        "{}/{}: {metric:?}",
                        suite.name,
                        arm.name
                    );
                }
            }
        }
    }

    #[test]
    fn parts_are_named_in_per_cent() {
        assert_eq!(percent(0.5), "50%");
        assert_eq!(percent(0.999), "99.9%");
    }
}
