//! Repetitions of one measurement in a few numbers.

/// What repetitions of one measurement gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The smallest.
    pub minimum: f64,
    /// A quarter is smaller.
    pub low: f64,
    /// Half are smaller.
    pub median: f64,
    /// A quarter is larger.
    pub high: f64,
    /// The largest.
    pub maximum: f64,
}

impl Summary {
    /// Sorts and summarises.
    ///
    /// # Panics
    /// Without a sample.
    #[must_use]
    pub fn of(mut samples: Vec<f64>) -> Self {
        assert!(!samples.is_empty(), "a measurement is made at least once");
        samples.sort_by(f64::total_cmp);
        let last = samples.len() - 1;
        Self {
            minimum: samples[0],
            low: samples[last / 4],
            median: samples[last / 2],
            high: samples[last * 3 / 4],
            maximum: samples[last],
        }
    }
}

impl std::fmt::Display for Summary {
    /// Median, quartiles and extremes, with the precision of the format: `4.1 [3.9..4.2] 3.5..4.4`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = f.precision().unwrap_or(2);
        let Self {
            minimum,
            low,
            median,
            high,
            maximum,
        } = self;
        f.pad_integral(
            true,
            "",
            &format!(
                "{median:.digits$} [{low:.digits$}..{high:.digits$}] \
                 {minimum:.digits$}..{maximum:.digits$}"
            ),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_holds_median_quartiles_and_extremes() {
        let summary = Summary::of(vec![5.0, 1.0, 4.0, 2.0, 3.0]);
        assert_eq!(format!("{summary:.0}"), "3 [2..4] 1..5");
        assert_eq!(format!("{summary:>15.0}"), "  3 [2..4] 1..5");
    }
}
