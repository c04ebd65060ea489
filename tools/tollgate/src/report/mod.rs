//! `tollgate report`.

mod input;
pub(crate) mod output;

use std::path::PathBuf;
use std::process::ExitCode;

use tollgate_report::bench::{Comparison, REPETITIONS_MIN, Row};
use tollgate_report::text::{counted, percent};

use crate::{bad_input, print, tell};

/// Shows, merges and compares reports of benchmarks.
///
/// FILE is the JSON of a benchmark's report, or an interval log of HdrHistogram (.hlog), which is told by its
/// content. Of several files one report is made, with the repetitions of all. With --against it is compared:
/// each metric and each quantile, with what the spread over the repetitions lets one say of it.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ReportArgs {
    /// Reports or logs
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The report to compare with; of several one is made
    #[arg(long, value_name = "OLD")]
    against: Vec<PathBuf>,
    /// Exit with 1 if something is worse than in OLD by more than this, as in 10%
    #[arg(long, value_name = "P%", requires = "against", allow_hyphen_values = true,
          value_parser = parse_percent)]
    fail_above: Option<f64>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
    /// Write text, JSON and page, and of a report that is not compared an interval log (.hlog) and
    /// percentiles (.hgrm)
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
Exit status: 0 fine, 1 something is worse by more than --fail-above, or nothing could be compared, \
2 bad usage or input.";

/// Reads the reports and prints one, or what changed.
///
/// # Errors
/// If the result cannot be written.
pub(crate) fn run(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let inputs = [args.files.as_slice(), &args.against];
    let report = match input::read_all(&args.files) {
        Ok(report) => report,
        Err(message) => return Ok(bad_input(message)),
    };
    let old = match args.against.as_slice() {
        [] => None,
        files => match input::read_all(files) {
            Ok(old) => Some(old),
            Err(message) => return Ok(bad_input(message)),
        },
    };
    if let Some(directory) = &args.out
        && let Err(message) = output::prepare(directory, &inputs.concat())
    {
        return Ok(bad_input(message));
    }
    let Some(old) = old else {
        print(&if args.json {
            report.json()?
        } else {
            report.text()
        })?;
        if let Some(directory) = &args.out {
            output::write_report(&report, directory)?;
        }
        return Ok(ExitCode::SUCCESS);
    };
    let comparison = Comparison::of(&old, &report);
    print(&if args.json {
        comparison.json()?
    } else {
        comparison.text()
    })?;
    if let Some(directory) = &args.out {
        output::write_comparison(&comparison, directory)?;
    }
    Ok(gate(&comparison, args.fail_above))
}

/// The exit status, with the reason on standard error where it is not 0.
fn gate(comparison: &Comparison, limit: Option<f64>) -> ExitCode {
    if comparison.judged().next().is_none() {
        tell("tollgate: nothing could be compared: no metric and no quantile is in both");
        return ExitCode::FAILURE;
    }
    let Some(limit) = limit else {
        return ExitCode::SUCCESS;
    };
    if comparison.judged().all(|row| row.is_distrusted) {
        tell(
            "tollgate: nothing that could be compared is trusted: the machine moved; measure again",
        );
        return ExitCode::FAILURE;
    }
    let rows = |rows: &[&Row]| counted(rows.len() as u64, "row");
    let unknown: Vec<&Row> = comparison.unknown().collect();
    if unknown.len() == comparison.judged().count() {
        tell(format_args!(
            "tollgate: nothing could be judged: that takes {REPETITIONS_MIN} repetitions on each side"
        ));
        return ExitCode::FAILURE;
    }
    let one_sided: Vec<&Row> = comparison.one_sided().collect();
    for (why, left_out) in [
        ("too few repetitions", unknown),
        ("only on one side", one_sided),
    ] {
        if !left_out.is_empty() {
            tell(format_args!(
                "tollgate: not judged: {}, {why}",
                rows(&left_out)
            ));
        }
    }
    let bound = percent(limit, 1.0);
    let apart = comparison.distrusted_worse_by(limit);
    if !apart.is_empty() {
        tell(format_args!(
            "tollgate: not counted: {} of suites that are not trusted, worse by more than {bound}",
            rows(&apart)
        ));
    }
    let worse = comparison.worse_by(limit);
    if worse.is_empty() {
        return ExitCode::SUCCESS;
    }
    tell(format_args!(
        "tollgate: {} worse by more than {bound}:",
        rows(&worse)
    ));
    for row in worse {
        tell(format_args!("  {}", row.told()));
    }
    ExitCode::FAILURE
}

fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').map(str::parse::<f64>);
    match number {
        Some(Ok(number)) if number.is_finite() && number >= 0.0 => Ok(number / 100.0),
        _ => Err("write a number from 0 on with its sign, as in 10%".to_owned()),
    }
}
