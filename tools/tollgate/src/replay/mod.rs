//! `tollgate replay`.

mod args;
pub(crate) mod output;

use std::path::Path;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tollgate_policy::Profile;
use tollgate_report::Fact;
use tollgate_report::replay::{ReplayReport, ReplayRun};
use tollgate_report::text::{counted, seconds};
use tollgate_sim::replay::{self, FamilyRule, ReplayOptions, Rule};
use tollgate_sim::trace::{self, Trace};

pub(crate) use self::args::ReplayArgs;
use crate::{bad_input, command_line, policy_file, tell};

/// A policy with the name that the report gives it.
struct Policy {
    name: String,
    profile: Profile,
}

/// Replays the trace and prints the report.
pub(crate) fn run(args: &ReplayArgs) -> anyhow::Result<ExitCode> {
    let input = policies(args).and_then(|policies| {
        for policy in &policies {
            check_families(&args.families, policy)?;
        }
        Ok(policies)
    });
    let policies = match input {
        Ok(policies) => policies,
        Err(message) => return Ok(bad_input(message)),
    };
    let begun = Instant::now();
    let trace = match trace::read_file(&args.trace, &args.read_options()) {
        Ok(trace) => trace,
        Err(error) => return Ok(bad_input(error)),
    };
    if let Some(message) = unknown_family(&trace, args, &policies) {
        return Ok(bad_input(message));
    }
    if let Err(message) = output::prepare(args) {
        return Ok(bad_input(message));
    }
    warn(&trace, args);
    tell(format_args!(
        "read {} in {:.3} s",
        counted(trace.rows.len() as u64, "row"),
        begun.elapsed().as_secs_f64()
    ));
    let mut runs = Vec::new();
    for policy in &policies {
        runs.push(play(policy, &trace, args)?);
    }
    let report = ReplayReport {
        title: format!("Replay of {}", file_name(&args.trace)),
        command: command_line(),
        trace: facts(&trace, args),
        runs,
    };
    crate::print(&if args.json {
        report.json()?
    } else {
        report.text()
    })?;
    if let Some(directory) = &args.out {
        output::write_all(&report, directory)?;
    }
    if let Some(path) = &args.emit {
        let first = &policies[0].profile;
        let records = replay::record(first, &trace, &options(args, first))?;
        output::write_trace(&records, path)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Plays the trace under one policy; says on standard error how long that took.
fn play(policy: &Policy, trace: &Trace, args: &ReplayArgs) -> anyhow::Result<ReplayRun> {
    let Policy { name, profile } = policy;
    let options = options(args, profile);
    let bar = progress_bar(trace, args);
    let begun = Instant::now();
    let played = replay::run(name, profile, trace, &options, &mut |requests| {
        bar.set_position(requests);
    });
    let took = begun.elapsed().as_secs_f64();
    bar.finish_and_clear();
    let played = played?;
    #[expect(clippy::cast_precision_loss, reason = "a rate is told to some digits")]
    let (requests, arbiter) = (played.requests as f64, played.arbiter_ns as f64 / 1e9);
    let all = counted(played.requests, "request");
    let rate = requests / took;
    let of_that = if played.requests < 1_000 {
        // An estimate of few moments may say anything.
        String::new()
    } else if arbiter < took {
        let others = requests / (took - arbiter);
        format!("; of that the arbiter about {arbiter:.3} s, without it {others:.0} a second")
    } else {
        "; of that the arbiter: unknown, the machine was busy with something else".to_owned()
    };
    tell(format_args!(
        "{name}: {all} in {took:.3} s, {rate:.0} a second{of_that}"
    ));
    Ok(played.run)
}

fn options(args: &ReplayArgs, profile: &Profile) -> ReplayOptions {
    let is_by_rule = !args.families.is_empty();
    ReplayOptions {
        workers: args.workers,
        model: args.model(),
        speed: args.speed,
        repeat: args.repeat,
        seed: args.seed,
        families: if is_by_rule {
            args.families.clone()
        } else {
            replay::equal_shares(profile)
        },
        keeps_families: !is_by_rule,
        is_by_key: args.family_by.is_some(),
        clock: Some(wall_nanos),
    }
}

/// Nanoseconds since it was called first.
fn wall_nanos() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let since = START.get_or_init(Instant::now).elapsed();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// A bar on standard error where that is a terminal.
fn progress_bar(trace: &Trace, args: &ReplayArgs) -> ProgressBar {
    let requests = (trace.rows.len() as u64).saturating_mul(args.repeat);
    let bar = ProgressBar::with_draw_target(Some(requests), ProgressDrawTarget::stderr());
    let style =
        ProgressStyle::with_template("{bar:40} {percent:>3} %  {human_pos} requests, {eta} left");
    bar.with_style(style.expect("the template is valid"))
}

fn policies(args: &ReplayArgs) -> Result<Vec<Policy>, String> {
    if args.policies.is_empty() {
        return Ok(vec![Policy {
            name: "built-in".to_owned(),
            profile: replay::default_policy(),
        }]);
    }
    let mut policies: Vec<Policy> = Vec::new();
    for (at, path) in args.policies.iter().enumerate() {
        if args.policies[..at].contains(path) {
            return Err(format!("--policy {}: given twice", path.display()));
        }
        let profile = policy_file::read_profile(path, None)?;
        let is_known = |name: &str| policies.iter().any(|policy| policy.name == name);
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let name = if is_known(&stem) {
            path.display().to_string()
        } else {
            stem.into_owned()
        };
        policies.push(Policy { name, profile });
    }
    Ok(policies)
}

/// Families that are asked for must be known to the policy, once each by share.
fn check_families(families: &[FamilyRule], policy: &Policy) -> Result<(), String> {
    let known = replay::known_names(&policy.profile);
    let is_share = |family: &&FamilyRule| matches!(family.rule, Rule::Share(_));
    for (at, family) in families.iter().enumerate() {
        let name = &family.name;
        if !known.contains(&name.as_str()) {
            let known = known.join(", ");
            return Err(format!("--family {name}: the policy knows only {known}"));
        }
        let mut earlier = families[..at].iter().filter(is_share);
        if is_share(&family) && earlier.any(|earlier| earlier.name == *name) {
            return Err(format!("--family {name}: given twice"));
        }
    }
    let share = |family: &FamilyRule| match family.rule {
        Rule::Share(share) => share,
        Rule::Length { .. } => 0.0,
    };
    if !families.iter().map(share).sum::<f64>().is_finite() {
        return Err(
            "--family: the shares add up to more than 1.8e308; only their ratios count, so give \
             smaller ones"
                .to_owned(),
        );
    }
    Ok(())
}

/// What is wrong if rows keep their families, and a policy does not know one.
fn unknown_family(trace: &Trace, args: &ReplayArgs, policies: &[Policy]) -> Option<String> {
    if !args.families.is_empty() {
        return None;
    }
    policies.iter().find_map(|policy| {
        let known = replay::known_names(&policy.profile);
        let mut families = trace.families.iter();
        let unknown = families.find(|family| !known.contains(&family.as_str()))?;
        Some(format!(
            "{}: family {unknown:?}: policy {} knows only {}; give rules with --family",
            args.trace.display(),
            policy.name,
            known.join(", ")
        ))
    })
}

fn warn(trace: &Trace, args: &ReplayArgs) {
    let file = args.trace.display();
    if let Some(skipped) = &trace.skipped {
        tell(format_args!(
            "{file}:{}: warning: {}; left out, with {} in all",
            skipped.first_line,
            skipped.message,
            counted(skipped.lines, "wrong line"),
        ));
    }
    if let Some(unsorted) = trace.unsorted {
        tell(format_args!(
            "{file}:{}: warning: earlier than the row above it, with {} so in all; sorted by time",
            unsorted.first_line,
            counted(unsorted.rows, "row"),
        ));
    }
}

fn facts(trace: &Trace, args: &ReplayArgs) -> Vec<Fact> {
    let sum = |of: fn(&trace::TraceRow) -> u32| {
        let tokens = trace.rows.iter().map(|row| u64::from(of(row)));
        tokens.sum::<u64>().to_string()
    };
    let last = trace.rows.last().map_or(0, |row| row.at.0);
    let mut facts = vec![
        ("file", file_name(&args.trace)),
        ("rows", trace.rows.len().to_string()),
        ("recorded time", seconds(last)),
        ("prompt tokens", sum(|row| row.prompt_tokens)),
        ("output tokens", sum(|row| row.output_tokens)),
    ];
    if !trace.blocks.is_empty() {
        facts.push(("blocks of prompts", trace.blocks.len().to_string()));
    }
    if let Some(skipped) = &trace.skipped {
        facts.push(("wrong lines left out", skipped.lines.to_string()));
    }
    let fact = |(name, value): (&str, String)| Fact {
        name: name.to_owned(),
        value,
    };
    facts.into_iter().map(fact).collect()
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}
