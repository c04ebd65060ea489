//! What an interrupted run leaves behind: a report for each whole suite, below the directory of `--out`.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use tollgate_harness::Suite;
use tollgate_report::Fact;
use tollgate_report::bench::{BenchReport, SuiteRun};

use crate::{command_line, tell};

/// Where parts are, in the directory of the report.
const DIRECTORY: &str = "unfinished";
/// Who writes there has this file.
const LOCK: &str = "lock";

/// The parts of a run that is not over.
#[derive(Debug)]
pub(super) struct Parts {
    kept: Option<Kept>,
}

#[derive(Debug)]
struct Kept {
    directory: PathBuf,
    /// Held until the run is over, however that comes about.
    _lock: File,
}

impl Parts {
    /// Nothing is kept.
    pub(super) const fn nowhere() -> Self {
        Self { kept: None }
    }

    /// Parts are kept in this directory, which is made. If `fresh`, what is there is forgotten.
    ///
    /// # Errors
    /// If the directory cannot be had, or another run writes there.
    pub(super) fn in_directory(report: &Path, fresh: bool) -> Result<Self, String> {
        let directory = report.join(DIRECTORY);
        let told = |error: io::Error| error.to_string();
        fs::create_dir_all(&directory).map_err(told)?;
        let lock = File::create(directory.join(LOCK)).map_err(told)?;
        match lock.try_lock() {
            Ok(()) => (),
            Err(TryLockError::WouldBlock) => return Err("another run writes there".to_owned()),
            Err(TryLockError::Error(error)) => return Err(told(error)),
        }
        let parts = Self {
            kept: Some(Kept {
                directory,
                _lock: lock,
            }),
        };
        if fresh {
            for suite in tollgate_harness::suites::ALL {
                parts.discard(suite.name).map_err(told)?;
            }
        }
        Ok(parts)
    }

    /// A suite that this very program has measured here by the same command before it was interrupted. What is
    /// left of anything else is no part of this run, which is said.
    pub(super) fn find(&self, suite: &Suite, machine: &[Fact]) -> anyhow::Result<Option<SuiteRun>> {
        let Some(path) = self.path(suite.name) else {
            return Ok(None);
        };
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        let is_same = |part: &BenchReport| {
            is_same_run(&part.command, &command_line())
                && is_same_machine(&part.machine, machine)
                && is_newer_than_program(&path)
        };
        let part = BenchReport::from_json(&text).ok().filter(is_same);
        if part.is_none() {
            tell(format_args!(
                "suite {}: measured again: what an interrupted run has left is of another command, program or \
                 machine",
                suite.name
            ));
        }
        Ok(part.and_then(|mut part| part.suites.pop()))
    }

    /// Keeps a suite, whole or not at all.
    pub(super) fn keep(&self, report: &BenchReport, run: &SuiteRun) -> anyhow::Result<()> {
        let Some(path) = self.path(&run.name) else {
            return Ok(());
        };
        let part = BenchReport {
            suites: vec![run.clone()],
            ..report.clone()
        };
        crate::replay::output::write(&path, part.json()?.as_bytes())
    }

    /// The run is over: nothing is left behind.
    pub(super) fn forget(self) -> anyhow::Result<()> {
        match self.kept {
            None => Ok(()),
            Some(kept) => fs::remove_dir_all(&kept.directory)
                .with_context(|| format!("cannot remove {}", kept.directory.display())),
        }
    }

    fn discard(&self, suite: &str) -> io::Result<()> {
        match self.path(suite).map(fs::remove_file) {
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn path(&self, suite: &str) -> Option<PathBuf> {
        let kept = self.kept.as_ref()?;
        Some(kept.directory.join(format!("{suite}.json")))
    }
}

/// Whether two commands measure the same; `--fresh` says only what is kept.
fn is_same_run(one: &str, other: &str) -> bool {
    let words = |command: &str| -> Vec<String> {
        let words = command.split(' ').filter(|&word| word != "--fresh");
        words.map(str::to_owned).collect()
    };
    words(one) == words(other)
}

fn is_same_machine(one: &[Fact], other: &[Fact]) -> bool {
    let pair = |(one, other): (&Fact, &Fact)| one.name == other.name && one.value == other.value;
    one.len() == other.len() && one.iter().zip(other).all(pair)
}

/// Whether a file was written by this build of the program, as far as the system tells.
fn is_newer_than_program(path: &Path) -> bool {
    let written = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified());
    let program = std::env::current_exe().and_then(|program| written(&program));
    match (written(path), program) {
        (Ok(file), Ok(program)) => file > program,
        _ => false,
    }
}
