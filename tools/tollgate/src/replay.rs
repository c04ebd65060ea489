//! `tollgate replay`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use tollgate_policy::Profile;
use tollgate_sim::replay::{self, FamilyShare, ReplayOptions};
use tollgate_sim::trace::{Trace, azure};
use tollgate_sim::worker::WorkerModel;

use crate::{bad_input, policy_file, tell};

/// Plays a recorded trace through the arbiter onto modelled workers, in virtual time.
///
/// FILE is CSV as in the Azure LLM inference traces: TIMESTAMP,ContextTokens,GeneratedTokens, with
/// or without that header. Each row becomes a request of a family drawn by the shares. The report
/// tells, class by class, what became of the requests, how long they waited, and whether classes
/// that had to share got what their quanta promise. The same input and seed give the same report.
///
/// A worker takes what was handed to it as one prefill batch, up to 16 sequences: T prompt tokens
/// take 4.209989e-7 T^2 + 1.518344e-2 T + 16.50142 ms, each output token after the first 10 ms.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ReplayArgs {
    /// The trace
    #[arg(value_name = "FILE")]
    trace: PathBuf,
    /// Modelled workers
    #[arg(long, value_name = "NUMBER", default_value_t = 4,
          allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    workers: u32,
    /// The policy file; without one: premium and regular at quanta of 4096 and 1024, both with a
    /// busy threshold of 4096 tokens
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// A family or class and its share of the requests, for each that is wanted; without any, all
    /// families of the policy equally
    #[arg(long = "family", value_name = "NAME=SHARE", value_parser = parse_family)]
    families: Vec<FamilyShare>,
    /// How much faster than recorded the requests arrive; raise it until they queue
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0,
          allow_negative_numbers = true, value_parser = parse_positive)]
    speed: f64,
    /// Seed for the draw of families and the selector power_of_two
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 0,
        allow_negative_numbers = true
    )]
    seed: u64,
    /// Read only so many requests
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true,
          value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
}

const AFTER_HELP: &str = "\
Shares settle where the classes queue throughout: the Azure code trace of 2023 does so on 4 workers
from about --speed 60, and at --speed 100 premium and regular get 80 % and 20 % of the tokens.

Exit status: 0 fine, 1 the run failed, 2 bad usage or input.";

/// Replays the trace and prints the report.
pub(crate) fn run(args: &ReplayArgs) -> anyhow::Result<ExitCode> {
    let input = args
        .profile()
        .and_then(|profile| Ok((args.families(&profile)?, profile)));
    let (families, profile) = match input {
        Ok(input) => input,
        Err(message) => return Ok(bad_input(message)),
    };
    let trace = match azure::read_file(&args.trace, args.limit) {
        Ok(trace) => trace,
        Err(error) => return Ok(bad_input(error)),
    };
    warn_if_unsorted(&trace, args);

    let begun = Instant::now();
    let options = ReplayOptions {
        workers: args.workers,
        model: WorkerModel::default(),
        speed: args.speed,
        seed: args.seed,
        families,
    };
    let report = replay::run(&profile, &trace, options)?;
    crate::print(&report.to_string())?;
    tell(format_args!(
        "replayed in {:.3} s",
        begun.elapsed().as_secs_f64()
    ));
    Ok(ExitCode::SUCCESS)
}

impl ReplayArgs {
    fn profile(&self) -> Result<Profile, String> {
        match &self.policy {
            Some(path) => policy_file::read_profile(path, None),
            None => Ok(replay::default_policy()),
        }
    }

    /// The families asked for, all of which the policy must know.
    fn families(&self, profile: &Profile) -> Result<Vec<FamilyShare>, String> {
        if self.families.is_empty() {
            return Ok(replay::equal_shares(profile));
        }
        let known = replay::known_names(profile);
        for (at, family) in self.families.iter().enumerate() {
            let name = &family.name;
            if !known.contains(&name.as_str()) {
                let known = known.join(", ");
                return Err(format!("--family {name}: the policy knows only {known}"));
            }
            if self.families[..at]
                .iter()
                .any(|earlier| earlier.name == *name)
            {
                return Err(format!("--family {name}: given twice"));
            }
        }
        let total: f64 = self.families.iter().map(|family| family.share).sum();
        if !total.is_finite() {
            return Err(
                "--family: the shares add up to more than 1.8e308; only their ratios count, \
                 so give smaller ones"
                    .to_owned(),
            );
        }
        Ok(self.families.clone())
    }
}

fn warn_if_unsorted(trace: &Trace, args: &ReplayArgs) {
    if let Some(unsorted) = trace.unsorted {
        tell(format_args!(
            "{}:{}: warning: earlier than the row above it, as are {} rows in all; sorted by time",
            args.trace.display(),
            unsorted.first_line,
            unsorted.rows,
        ));
    }
}

fn parse_family(text: &str) -> Result<FamilyShare, String> {
    let (name, share) = text
        .split_once('=')
        .ok_or("write NAME=SHARE, as in premium=0.25")?;
    if name.is_empty() {
        return Err("the name is empty; write NAME=SHARE, as in premium=0.25".to_owned());
    }
    Ok(FamilyShare {
        name: name.to_owned(),
        share: parse_positive(share)?,
    })
}

fn parse_positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        _ => Err(format!("{text:?} is not a number above 0")),
    }
}
