//! Compares instruction counts with `benches/instructions.baseline`, or writes that file anew.
//!
//! `instructions_baseline check|renew < SUMMARIES`, where the summaries are what
//! `cargo bench .. --bench instructions -- --output-format=json` prints. `.ci/run instructions` and
//! `.ci/run renew_instructions` do both.
//!
//! Exit status: 0 fine, 1 an arm grew by more than 3 % or is missing on one side, 2 bad usage or input.
#![expect(clippy::print_stdout, reason = "what it prints is its result")]

use std::io::Read as _;
use std::process::{Command, ExitCode};

use tollgate_benches::baseline::{Baseline, Origin, read_summaries};

const USAGE: &str = "usage: instructions_baseline check|renew < SUMMARIES";
/// Cargo runs benchmarks in the directory of their package; by hand they may run anywhere.
const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/instructions.baseline");

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

/// Whether the counts are fine.
fn run() -> Result<bool, String> {
    // Cargo adds an argument that says that this is a benchmark.
    let arguments = std::env::args().skip(1);
    let arguments: Vec<String> = arguments.filter(|argument| argument != "--bench").collect();
    let [action] = arguments.as_slice() else {
        return Err(USAGE.to_owned());
    };
    match action.as_str() {
        "check" => {
            let text = std::fs::read_to_string(PATH).map_err(|error| format!("{PATH}: {error}"))?;
            let baseline = Baseline::parse(&text).map_err(|error| format!("{PATH}: {error}"))?;
            let now = counted()?;
            let comparison = baseline.compare(&now);
            print!("{comparison}");
            Ok(comparison.holds())
        }
        "renew" => {
            let now = counted()?;
            std::fs::write(PATH, now.to_string()).map_err(|error| format!("{PATH}: {error}"))?;
            println!("{PATH}: {} arms", now.counts.len());
            Ok(true)
        }
        _ => Err(USAGE.to_owned()),
    }
}

/// What stands on the standard input, and who must have counted it.
fn counted() -> Result<Baseline, String> {
    let mut text = String::new();
    let read = std::io::stdin().read_to_string(&mut text);
    read.map_err(|error| format!("standard input: {error}"))?;
    let (counts, profile) =
        read_summaries(&text).map_err(|error| format!("standard input: {error}"))?;
    let rustc = printed_by("rustc", "-vV")?;
    let host = rustc.lines().find_map(|line| line.strip_prefix("host: "));
    let gungraun = printed_by("gungraun-runner", "--version")?;
    let origin = Origin {
        rustc: rustc.lines().next().unwrap_or_default().to_owned(),
        host: host.ok_or("rustc -vV: names no host")?.to_owned(),
        gungraun: gungraun.trim().replace("gungraun-runner ", ""),
        profile,
    };
    Ok(Baseline { origin, counts })
}

fn printed_by(program: &str, argument: &str) -> Result<String, String> {
    let output = Command::new(program).arg(argument).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    String::from_utf8(output.stdout).map_err(|error| format!("{program}: {error}"))
}
