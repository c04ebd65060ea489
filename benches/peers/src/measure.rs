//! Interleaved timing, its summary, and how both are printed.

use std::time::Instant;

/// Nanoseconds per operation over the repetitions of one cell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Summary {
    /// Half of the repetitions took less.
    pub(crate) median: f64,
    /// A quarter took less.
    pub(crate) low: f64,
    /// A quarter took more.
    pub(crate) high: f64,
    /// The fastest.
    pub(crate) minimum: f64,
}

impl Summary {
    /// Sorts and summarises; at least one sample is needed.
    pub(crate) fn of(mut samples: Vec<f64>) -> Self {
        assert!(!samples.is_empty(), "a cell runs at least once");
        samples.sort_by(f64::total_cmp);
        let at = |numerator: usize| samples[(samples.len() - 1) * numerator / 4];
        Self {
            median: at(2),
            low: at(1),
            high: at(3),
            minimum: samples[0],
        }
    }
}

/// Runs `work` and returns its result and how many nanoseconds it took for each of `operations`.
pub(crate) fn time<R>(operations: u64, work: impl FnOnce() -> R) -> (R, f64) {
    let start = Instant::now();
    let result = work();
    let elapsed = start.elapsed();
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts and spans stay far below 2^53"
    )]
    let nanos = elapsed.as_nanos() as f64 / operations.max(1) as f64;
    (result, nanos)
}

/// Runs the sides alternately, one repetition of each at a time, after one of each as warm-up: what
/// disturbs the machine disturbs both. Every side returns its nanoseconds per operation.
pub(crate) fn interleave(
    repetitions: usize,
    sides: &mut [&mut dyn FnMut() -> f64],
) -> Vec<Summary> {
    let mut samples = vec![Vec::with_capacity(repetitions); sides.len()];
    for side in sides.iter_mut() {
        side();
    }
    for _ in 0..repetitions {
        for (side, samples) in sides.iter_mut().zip(&mut samples) {
            samples.push(side());
        }
    }
    samples.into_iter().map(Summary::of).collect()
}

/// The geometric mean of ratios, each cut to at most `cap`; `None` without any.
pub(crate) fn geometric_mean(ratios: &[f64], cap: f64) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "there are a few dozen cells")]
    let count = ratios.len() as f64;
    let logarithms: f64 = ratios.iter().map(|ratio| ratio.min(cap).ln()).sum();
    (!ratios.is_empty()).then(|| (logarithms / count).exp())
}

/// Prints how busy the machine is; the numbers of a busy machine are not for the record.
pub(crate) fn print_load_average(moment: &str) {
    match std::fs::read_to_string("/proc/loadavg") {
        Ok(line) => println!("load average {moment}: {}", line.trim()),
        Err(error) => println!("load average {moment}: unknown ({error})"),
    }
}

/// Prints the head of a comparison's table; [`print_row`] prints its rows.
pub(crate) fn print_head(cell: &str, incumbent: &str, ours: &str) {
    println!(
        "{cell:<26} {incumbent:>32} {ours:>32} {:>9} {:>10}",
        "ratio of", "ratio of"
    );
    let what = "ns/op: median [quartiles] min";
    println!(
        "{:<26} {what:>32} {what:>32} {:>9} {:>10}",
        "", "medians", "minima"
    );
}

/// Prints one row and returns the ratio of the medians, incumbent to ours.
pub(crate) fn print_row(cell: &str, incumbent: &Summary, ours: &Summary) -> f64 {
    let ratio = incumbent.median / ours.median;
    println!(
        "{cell:<26} {:>32} {:>32} {ratio:>8.2}x {:>9.2}x",
        spread(incumbent),
        spread(ours),
        incumbent.minimum / ours.minimum
    );
    ratio
}

fn spread(summary: &Summary) -> String {
    let Summary {
        median,
        low,
        high,
        minimum,
    } = *summary;
    let precision = if median < 1_000.0 { 1 } else { 0 };
    format!("{median:.precision$} [{low:.precision$}..{high:.precision$}] {minimum:.precision$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_holds_median_quartiles_and_minimum() {
        let summary = Summary::of(vec![5.0, 1.0, 4.0, 2.0, 3.0]);
        assert_eq!(
            (summary.minimum, summary.low, summary.median, summary.high),
            (1.0, 2.0, 3.0, 4.0)
        );
    }

    #[test]
    fn the_geometric_mean_caps_each_ratio() {
        let mean = geometric_mean(&[2.0, 1_000.0], 50.0).expect("two ratios");
        assert!((mean - 10.0).abs() < 1e-9);
        assert!(geometric_mean(&[], 50.0).is_none());
    }
}
