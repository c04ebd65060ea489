//! `tollgate scenario`.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tollgate_policy::{Profile, SelectorKind};
use tollgate_sim::protocol::Session;
use tollgate_sim::scenario::{
    ArbiterMachine, JournalPlayer, MachineOptions, Outcome, Replayed, Runner, Verdict,
};

use crate::{bad_input, policy_file, tell};

/// Plays operations on the arbiter, on a virtual clock, and prints what happens.
///
/// One JSON object a line goes in, one a line comes out, always the same for the same input: for
/// bug reports, tests, and "what would happen if". A line that cannot be carried out prints
/// `invalid` and changes nothing; the run goes on.
///
/// Without --policy, the operations are a journal that an engine has captured, which brings its policy:
/// it is replayed, and what is decided is compared with what the engine decided.
#[derive(Debug, clap::Args)]
#[command(after_long_help = OPERATIONS)]
pub(crate) struct ScenarioArgs {
    /// The policy file: families, buckets, classes and their quanta; a journal has its own
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// The model whose profile is used; without one, or if the file has none for it, the root's
    #[arg(long, value_name = "NAME", requires = "policy")]
    model: Option<String>,
    /// How a worker is chosen, instead of what the policy says: cost, least_loaded, round_robin or
    /// power_of_two
    #[arg(long, value_name = "SELECTOR", requires = "policy")]
    selector: Option<SelectorKind>,
    /// Tokens that each active request counts for in the choice of a worker, instead of what the
    /// policy says
    #[arg(
        long,
        value_name = "TOKENS",
        requires = "policy",
        allow_negative_numbers = true
    )]
    decode_weight: Option<u64>,
    /// Seed of the selector power_of_two
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 0,
        requires = "policy",
        allow_negative_numbers = true
    )]
    seed: u64,
    /// After each selection, print an `explain` event: why it went as it did, and why the rest waits
    #[arg(long)]
    explain: bool,
    /// How many requests may be live at one time: waiting, or dispatched and not complete
    #[arg(long, value_name = "NUMBER", default_value_t = MachineOptions::default().slots, requires = "policy",
          allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(tollgate_arbiter::SLOTS_MAX)))]
    slots: u32,
    /// The operations, one a line; standard input if there is no file, or if it is `-`
    #[arg(value_name = "OPS")]
    operations: Option<PathBuf>,
}

const OPERATIONS: &str = r#"Example: these three lines
  {"op": "worker", "id": 1}
  {"op": "submit", "id": "x", "family": "premium", "isl": 512}
  {"op": "arbitrate"}
print that x is queued in its class, that it is dispatched to endpoint [1, 0], and that the turn
ended because nothing else can go.

Operations, with their fields and defaults (endpoints are [worker, rank]):
  worker         id, ranks (1), first_rank (0), max_batched_tokens, taints ([]),
                 overloaded (false), available (true)
  remove_worker  id
  load           worker, tokens: an external report of active prefill tokens
  shut, open     worker: its egress is full, has room again
  submit         id, family, isl, cached (0), hints ([[worker, rank, cached]..]),
                 strict_priority (0), priority_jump (0), pin, allow, require_taints ([]),
                 deadline_us (absolute), may_wait (true)
  prefill_done, complete, requeue   id, attempt (the latest)
  cancel         id
  advance        us
  arbitrate      max (unbounded)
  reload         policy (path)
  stop           drain_us (0)
  state          prints the whole state

A journal begins with `restore` and needs no --policy. Where its replay decides otherwise than the
engine did, `differs` says so and the replay ends.

Exit status: 0 fine, 1 the run failed or a journal's replay differs, 2 bad usage, a bad file, or an
invalid line."#;

/// Runs the scenario to the end of its input.
pub(crate) fn run(args: &ScenarioArgs) -> anyhow::Result<ExitCode> {
    let Some(policy) = &args.policy else {
        return play(args);
    };
    let profile = match args.profile(policy) {
        Ok(profile) => profile,
        Err(message) => return Ok(bad_input(message)),
    };
    let options = MachineOptions {
        seed: args.seed,
        slots: args.slots,
        ..MachineOptions::default()
    };
    let machine = ArbiterMachine::new(&profile, options)?;
    let machine = if args.explain {
        machine.explaining()
    } else {
        machine
    };
    let runner = Runner::new(Session::new(machine, |path: &str| {
        args.profile(Path::new(path))
    }));

    let output = BufWriter::new(io::stdout().lock());
    let verdict = match args.file() {
        None => {
            if io::stdin().is_terminal() {
                tell("reading operations from the terminal, one JSON object a line");
            }
            runner.flush_each_line().run(io::stdin().lock(), output)?
        }
        Some(path) => match open(path) {
            Ok(file) => {
                let mut runner = runner;
                runner.run(BufReader::with_capacity(1 << 16, file), output)?
            }
            Err(error) => return Ok(bad_input(format_args!("{}: {error}", path.display()))),
        },
    };
    Ok(exit_code(verdict))
}

/// Replays a journal.
fn play(args: &ScenarioArgs) -> anyhow::Result<ExitCode> {
    let mut player = JournalPlayer::default();
    if args.explain {
        player = player.explaining();
    }
    let output = BufWriter::new(io::stdout().lock());
    let replayed = match args.file() {
        None => player.run(io::stdin().lock(), output)?,
        Some(path) => match open(path) {
            Ok(file) => player.run(BufReader::with_capacity(1 << 16, file), output)?,
            Err(error) => return Ok(bad_input(format_args!("{}: {error}", path.display()))),
        },
    };
    Ok(tell_outcome(replayed))
}

fn tell_outcome(replayed: Replayed) -> ExitCode {
    let (decisions, lines) = (replayed.decisions, replayed.lines);
    match replayed.outcome {
        Outcome::Same => {
            let end = if replayed.full {
                "; the capture ended when it was full"
            } else {
                ""
            };
            tell(format_args!(
                "{decisions} decisions, all as the journal says{end}"
            ));
            ExitCode::SUCCESS
        }
        Outcome::Differs => {
            tell(format_args!(
                "line {lines}: the replay differs, after {decisions} decisions that did not"
            ));
            ExitCode::FAILURE
        }
        Outcome::Damaged => bad_input(format_args!(
            "the journal is damaged at line {lines}; {decisions} decisions before it were as it says"
        )),
        Outcome::NoJournal => bad_input(
            "error: the operations are no journal, which begins with `restore`: give their policy by \
             --policy FILE",
        ),
    }
}

impl ScenarioArgs {
    /// The file of operations; none for standard input.
    fn file(&self) -> Option<&Path> {
        let path = self.operations.as_deref();
        path.filter(|path| *path != Path::new("-"))
    }

    /// The profile in the file at `path`, with what the command line overrides.
    fn profile(&self, path: &Path) -> Result<Profile, String> {
        let mut profile = policy_file::read_profile(path, self.model.as_deref())?;
        if let Some(selector) = self.selector {
            profile = profile.with_selector(selector);
        }
        if let Some(decode_weight) = self.decode_weight {
            profile = profile.with_decode_weight(decode_weight);
        }
        Ok(profile)
    }
}

/// A directory opens, but cannot be read: that is bad input as much as a file that is missing.
fn open(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    Ok(file)
}

fn exit_code(verdict: Verdict) -> ExitCode {
    if verdict.lines == 0 {
        tell("there were no operations");
    }
    match verdict.invalid {
        0 => ExitCode::SUCCESS,
        invalid => bad_input(format_args!(
            "invalid lines: {invalid} of {}",
            verdict.lines
        )),
    }
}
