//! Instruction counts beside a baseline that is kept with the code.
//!
//! A baseline is text: a head of lines `# key: value` that says what counted, then `name instructions`,
//! an arm a line. Counts of one compiler are the same on every machine and any load, so a limit can be
//! tight; those of another compiler show nothing, so they are printed and judged by nobody.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde_json::Value;

/// An arm may take so many per cent more instructions than its baseline.
pub const GROWTH_MAX_PERCENT: u64 = 3;

/// Instructions of each arm, by `function::id`.
pub type Counts = BTreeMap<String, u64>;

/// What counted. All of it decides how many instructions there are, or whether they can be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// What `rustc --version` prints.
    pub rustc: String,
    /// The target triple for which it compiles unless told otherwise.
    pub host: String,
    /// The version of gungraun and its runner.
    pub gungraun: String,
    /// The cargo profile of the code that was counted.
    pub profile: String,
}

impl Origin {
    fn fields(&self) -> [(&'static str, &str); 4] {
        [
            ("rustc", &self.rustc),
            ("host", &self.host),
            ("gungraun", &self.gungraun),
            ("profile", &self.profile),
        ]
    }

    /// Whether counts of the two may be held against each other: one compiler for one target, one profile.
    fn is_comparable(&self, other: &Self) -> bool {
        (&self.rustc, &self.host, &self.profile) == (&other.rustc, &other.host, &other.profile)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rustc,
            host,
            gungraun,
            profile,
        } = self;
        write!(f, "{rustc}, {host}, gungraun {gungraun}, profile {profile}")
    }
}

/// Counts, and what counted them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Baseline {
    /// What counted.
    pub origin: Origin,
    /// What came out.
    pub counts: Counts,
}

impl Baseline {
    /// Reads what [`Display`](fmt::Display) writes.
    ///
    /// # Errors
    /// If a line is neither, an arm comes twice, or the head says too little.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mut head, mut counts) = (BTreeMap::new(), Counts::new());
        for (index, line) in text.lines().enumerate() {
            if let Some(comment) = line.strip_prefix('#') {
                head.extend(comment.trim().split_once(": "));
                continue;
            }
            let arm = line.rsplit_once(' ');
            let arm = arm.and_then(|(name, count)| Some((name, count.parse().ok()?)));
            let Some((name, count)) = arm else {
                return Err(format!("line {}: no `name instructions`", index + 1));
            };
            if counts.insert(name.to_owned(), count).is_some() {
                return Err(format!("line {}: {name} a second time", index + 1));
            }
        }
        let field = |key: &str| {
            let value = head.get(key).map(|value| (*value).to_owned());
            value.ok_or_else(|| format!("the head does not say `# {key}: ..`"))
        };
        let origin = Origin {
            rustc: field("rustc")?,
            host: field("host")?,
            gungraun: field("gungraun")?,
            profile: field("profile")?,
        };
        Ok(Self { origin, counts })
    }

    /// Every arm of this baseline and of what is counted now.
    #[must_use]
    pub fn compare<'a>(&'a self, now: &'a Self) -> Comparison<'a> {
        let mut rows: BTreeMap<&str, Row> = BTreeMap::new();
        for (name, &count) in &self.counts {
            rows.entry(name).or_default().baseline = Some(count);
        }
        for (name, &count) in &now.counts {
            rows.entry(name).or_default().now = Some(count);
        }
        Comparison {
            baseline: &self.origin,
            now: &now.origin,
            rows,
        }
    }
}

impl fmt::Display for Baseline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "# Instructions of each arm of benches/instructions.rs, with which `.ci/run instructions` compares.\n\
             # Made by `.ci/run renew_instructions`; not to be written by hand."
        )?;
        for (key, value) in self.origin.fields() {
            writeln!(f, "# {key}: {value}")?;
        }
        for (name, count) in &self.counts {
            writeln!(f, "{name} {count}")?;
        }
        Ok(())
    }
}

/// One arm. Either side may be without it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Row {
    baseline: Option<u64>,
    now: Option<u64>,
}

impl Row {
    /// What is wrong with the arm, in a few words.
    fn fault(self) -> Option<&'static str> {
        match (self.baseline, self.now) {
            (Some(baseline), Some(now)) => {
                let limit = u128::from(baseline) * u128::from(100 + GROWTH_MAX_PERCENT);
                (u128::from(now) * 100 > limit).then_some("TOO MANY")
            }
            (None, _) => Some("NOT IN THE BASELINE"),
            (_, None) => Some("NOT COUNTED"),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
    fn percent(self) -> Option<f64> {
        let (baseline, now) = (self.baseline? as f64, self.now? as f64);
        Some((now / baseline - 1.0) * 100.0)
    }
}

/// A baseline beside what is counted now: a table, when printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison<'a> {
    baseline: &'a Origin,
    now: &'a Origin,
    rows: BTreeMap<&'a str, Row>,
}

impl Comparison<'_> {
    /// Whether no arm is missing on either side or has grown by more than [`GROWTH_MAX_PERCENT`]; true
    /// of any counts if the compilers, targets or profiles differ.
    #[must_use]
    pub fn holds(&self) -> bool {
        !self.baseline.is_comparable(self.now)
            || self.rows.values().all(|row| row.fault().is_none())
    }
}

impl fmt::Display for Comparison<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "baseline: {}\nnow:      {}", self.baseline, self.now)?;
        let shown =
            |count: Option<u64>| count.map_or_else(|| "-".to_owned(), |count| count.to_string());
        writeln!(
            f,
            "{:<52} {:>12} {:>12} {:>9}",
            "arm", "baseline", "now", "per cent"
        )?;
        for (name, row) in &self.rows {
            let (baseline, now) = (shown(row.baseline), shown(row.now));
            let percent = row.percent();
            let percent =
                percent.map_or_else(|| "-".to_owned(), |percent| format!("{percent:+.2}"));
            let line = format!(
                "{name:<52} {baseline:>12} {now:>12} {percent:>9}  {}",
                row.fault().unwrap_or("")
            );
            writeln!(f, "{}", line.trim_end())?;
        }
        if !self.baseline.is_comparable(self.now) {
            writeln!(
                f,
                "NOTHING IS JUDGED: the baseline was counted by another compiler, for another target or with another profile."
            )?;
        } else if self.holds() {
            writeln!(f, "no arm grew by more than {GROWTH_MAX_PERCENT} %")?;
        } else {
            writeln!(
                f,
                "arms grew by more than {GROWTH_MAX_PERCENT} % or are missing on one side; if that is meant: .ci/run renew_instructions"
            )?;
        }
        Ok(())
    }
}

/// The counts in what gungraun prints with `--output-format=json`, a summary a line, and the cargo profile
/// of what was counted.
///
/// # Errors
/// If a line is no summary of a count, an arm comes twice, there is none, or profiles are mixed.
pub fn read_summaries(text: &str) -> Result<(Counts, String), String> {
    let (mut counts, mut profile) = (Counts::new(), None);
    for (index, line) in text.lines().enumerate() {
        let at = |what: &str| format!("line {}: {what}", index + 1);
        let summary: Value = serde_json::from_str(line).map_err(|error| at(&error.to_string()))?;
        let text = |key: &str| summary[key].as_str();
        let function = text("function_name").ok_or_else(|| at("no `function_name`"))?;
        let name = match text("id") {
            Some(id) => format!("{function}::{id}"),
            None => function.to_owned(),
        };
        let instructions =
            &summary["profiles"][0]["data"]["total"]["metrics"]["Ir"]["values"]["new"];
        let count = instructions.as_u64();
        let count = count.ok_or_else(|| at("no number of instructions"))?;
        let built_as = text("benchmark_exe").and_then(profile_of);
        let built_as = built_as.ok_or_else(|| at("`benchmark_exe` is not where cargo puts it"))?;
        if profile.get_or_insert_with(|| built_as.clone()) != &built_as {
            return Err(at("another profile than in the lines before"));
        }
        if counts.insert(name, count).is_some() {
            return Err(at("an arm a second time"));
        }
    }
    let profile = profile.ok_or("no arm was counted")?;
    Ok((counts, profile))
}

/// Cargo builds benchmarks as `<target>/<profile>/deps/<name>`.
fn profile_of(executable: &str) -> Option<String> {
    let profile = Path::new(executable).parent()?.parent()?.file_name()?;
    Some(profile.to_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn baseline<const ARMS: usize>(rustc: &str, counts: [(&str, u64); ARMS]) -> Baseline {
        Baseline {
            origin: Origin {
                rustc: rustc.to_owned(),
                host: "x86_64-unknown-linux-gnu".to_owned(),
                gungraun: "0.20.0".to_owned(),
                profile: "production-test".to_owned(),
            },
            counts: counts.map(|(name, count)| (name.to_owned(), count)).into(),
        }
    }

    const RUSTC: &str = "rustc 1.95.0 (59807616e 2026-04-14)";

    #[test]
    fn three_point_one_per_cent_more_fail_and_are_named() {
        let then = baseline(
            RUSTC,
            [("cancel::waiting_0", 1_000), ("enqueue::waiting_0", 1_000)],
        );
        let now = baseline(
            RUSTC,
            [("cancel::waiting_0", 1_031), ("enqueue::waiting_0", 1_000)],
        );
        let comparison = then.compare(&now);
        assert!(!comparison.holds());
        let printed = comparison.to_string();
        let line = printed.lines().find(|line| line.contains("TOO MANY"));
        let words: Vec<&str> = line.expect("one arm grew").split_whitespace().collect();
        assert_eq!(words[..4], ["cancel::waiting_0", "1000", "1031", "+3.10"]);
        assert_eq!(printed.matches("TOO MANY").count(), 1);
    }

    #[test]
    fn two_point_nine_per_cent_more_and_any_less_pass() {
        let then = baseline(
            RUSTC,
            [("cancel::waiting_0", 1_000), ("enqueue::waiting_0", 1_000)],
        );
        let now = baseline(
            RUSTC,
            [("cancel::waiting_0", 1_029), ("enqueue::waiting_0", 10)],
        );
        assert!(then.compare(&now).holds());
    }

    #[test]
    fn an_arm_that_is_missing_on_either_side_fails() {
        let both = baseline(
            RUSTC,
            [("cancel::waiting_0", 1_000), ("enqueue::waiting_0", 1_000)],
        );
        let one = baseline(RUSTC, [("cancel::waiting_0", 1_000)]);
        let gone = both.compare(&one);
        assert!(!gone.holds() && gone.to_string().contains("NOT COUNTED"));
        let added = one.compare(&both);
        assert!(!added.holds() && added.to_string().contains("NOT IN THE BASELINE"));
    }

    #[test]
    fn counts_of_another_compiler_are_printed_and_not_judged() {
        let then = baseline(RUSTC, [("cancel::waiting_0", 1_000)]);
        let now = baseline(
            "rustc 1.96.0 (0123456789 2026-05-28)",
            [("cancel::waiting_0", 2_000)],
        );
        let comparison = then.compare(&now);
        assert!(comparison.holds());
        let printed = comparison.to_string();
        assert!(printed.contains("+100.00") && printed.contains("NOTHING IS JUDGED"));
    }

    #[test]
    fn a_baseline_reads_back_and_says_which_line_is_damaged() {
        let written = baseline(RUSTC, [("cancel::waiting_0", 1_000), ("flip", 7)]);
        let text = written.to_string();
        assert_eq!(Baseline::parse(&text), Ok(written));
        let twice = Baseline::parse(&format!("{text}flip 8\n"));
        assert_eq!(twice, Err("line 9: flip a second time".to_owned()));
        let damaged = Baseline::parse(&format!("{text}flip\n"));
        assert_eq!(damaged, Err("line 9: no `name instructions`".to_owned()));
        let headless = Baseline::parse("flip 7\n");
        assert_eq!(
            headless,
            Err("the head does not say `# rustc: ..`".to_owned())
        );
    }

    /// A summary, as far as it is read.
    fn summary(id: &str, profile: &str, count: &str) -> String {
        let metrics = format!(r#"{{"Ir": {{"values": {{"new": {count}}}}}}}"#);
        let profiles = format!(r#"[{{"data": {{"total": {{"metrics": {metrics}}}}}}}]"#);
        let executable = format!("target/{profile}/deps/instructions-1f");
        format!(
            "{{\"function_name\": \"cancel\", \"id\": \"{id}\", \
             \"benchmark_exe\": \"{executable}\", \"profiles\": {profiles}}}\n"
        )
    }

    #[test]
    fn summaries_are_read_and_damaged_ones_refused() {
        let (first, second) = (summary("a", "release", "5"), summary("b", "release", "6"));
        let (counts, profile) = read_summaries(&(first.clone() + &second)).expect("they are fine");
        assert_eq!((counts["cancel::a"], counts["cancel::b"]), (5, 6));
        assert_eq!(profile, "release");
        let mixed = first.clone() + &summary("b", "dev", "6");
        let counted_nothing = summary("a", "release", "null");
        for damaged in [
            first.clone() + &first,
            mixed,
            counted_nothing,
            first + "{}",
            String::new(),
        ] {
            assert!(read_summaries(&damaged).is_err(), "{damaged}");
        }
    }
}
