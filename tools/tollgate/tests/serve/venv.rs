//! The `openai` package for Python, in an environment of its own under the target directory.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

/// The version that the scripts are written for.
const VERSION: &str = "3.57.0";

/// Made once a version, by whoever comes first; the others wait.
static PYTHON: LazyLock<Result<PathBuf, String>> = LazyLock::new(prepare);

/// A Python that has the package; none, and a word about it, where it cannot be had.
pub(crate) fn python() -> Option<&'static Path> {
    match &*PYTHON {
        Ok(python) => Some(python),
        Err(why) => {
            eprintln!("skipped: there is no openai {VERSION} for Python: {why}");
            None
        }
    }
}

fn prepare() -> Result<PathBuf, String> {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("openai-{VERSION}"));
    let python = place.join("bin/python");
    // Written last: without it, a place is half made.
    let made = place.join("made");
    if made.exists() {
        return Ok(python);
    }
    // It may not be there.
    let _ = std::fs::remove_dir_all(&place);
    let mut create = Command::new("python3");
    run(create.args(["-m", "venv"]).arg(&place))?;
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet"]);
    install.args(["--disable-pip-version-check", "--no-input"]);
    install.args(["--timeout", "15", "--retries", "1"]);
    run(install.arg(format!("openai=={VERSION}")))?;
    std::fs::write(&made, "").map_err(|error| format!("{}: {error}", made.display()))?;
    Ok(python)
}

fn run(command: &mut Command) -> Result<Output, String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().last().unwrap_or_default();
    Err(format!("{command:?}: {last}"))
}
