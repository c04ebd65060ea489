//! The `tollgate` tool: one file per subcommand.

mod bench;
mod check;
mod demo;
mod http;
mod mock_worker;
mod policy_file;
mod replay;
mod report;
mod scenario;
mod serve;
mod top;

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use clap::builder::Resettable;
use clap::{Arg, CommandFactory, FromArgMatches, Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Tollgate decides which waiting request an LLM router sends on next, and to which worker.
///
/// Classes of requests share the workers by quanta of prompt tokens. This tool routes real requests that way,
/// shows how, checks policy files, and plays requests through the real arbiter in virtual time. Without
/// a subcommand it runs the demo.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Exit status: 0 fine, 1 the run failed, 2 bad usage or input."
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::DemoArgs),
    Check(check::CheckArgs),
    Scenario(scenario::ScenarioArgs),
    Replay(replay::ReplayArgs),
    Bench(bench::BenchArgs),
    Report(report::ReportArgs),
    Serve(Box<serve::ServeArgs>),
    MockWorker(mock_worker::MockWorkerArgs),
    Top(top::TopArgs),
}

fn main() -> ExitCode {
    let command = parse().command;
    let done = match command.unwrap_or_else(|| Command::Demo(demo::DemoArgs::default())) {
        Command::Demo(args) => demo::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Scenario(args) => scenario::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Serve(args) => serve::run(*args),
        Command::MockWorker(args) => mock_worker::run(args),
        Command::Top(args) => top::run(&args),
    };
    done.unwrap_or_else(|error| {
        tell(format_args!("tollgate: {error:#}"));
        ExitCode::FAILURE
    })
}

/// What the command line and the environment say.
fn parse() -> Cli {
    let commands = Cli::command().mut_subcommands(|command| command.mut_args(without_empty));
    let parsed = Cli::from_arg_matches(&commands.get_matches());
    parsed.unwrap_or_else(|error| error.exit())
}

/// A variable that is set to nothing is as good as unset: that is how files of environments leave one out.
fn without_empty(arg: Arg) -> Arg {
    let value = arg.get_env().and_then(std::env::var_os);
    if value.is_some_and(|value| value.is_empty()) {
        arg.env(Resettable::Reset)
    } else {
        arg
    }
}

/// The exit status for bad usage and bad input, as clap's own.
const BAD_INPUT: u8 = 2;

/// Says what is wrong with what the user gave, and the exit status for it.
fn bad_input(message: impl Display) -> ExitCode {
    tell(message);
    ExitCode::from(BAD_INPUT)
}

/// Prints a line to standard error, as far as somebody reads it.
fn tell(message: impl Display) {
    // `eprintln!` would panic where the reader is gone.
    let _ = writeln!(io::stderr(), "{message}");
}

/// Prints `text` to standard output. A reader who went away is no failure.
fn print(text: &str) -> anyhow::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(anyhow::Error::new(error).context("cannot write to standard output"))
        }
        _ => Ok(()),
    }
}

/// A runtime with a thread for each core.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")
}

/// The command as it was given, to be given again; words that a shell would take apart are quoted.
fn command_line() -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,/:+@%".contains(c);
    let quoted = |word: String| {
        if !word.is_empty() && word.chars().all(is_plain) {
            word
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    let words = std::env::args_os().skip(1);
    let words = words.map(|word| quoted(word.to_string_lossy().into_owned()));
    let words: Vec<String> = words.collect();
    format!("tollgate {}", words.join(" "))
}
