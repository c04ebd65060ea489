//! Running the built tool, within bounds.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long a run may take before it counts as hung.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a run left behind.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// Standard output as JSON lines.
    pub(crate) fn events(&self) -> Vec<Value> {
        let parse = |line: &str| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))
        };
        self.stdout.lines().map(parse).collect()
    }
}

/// A directory with files for the tool, gone at the end of the test.
pub(crate) struct Files(tempfile::TempDir);

impl Files {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file; its path.
    pub(crate) fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, contents).expect("a file");
        path
    }
}

/// Starts the tool with everything piped.
pub(crate) fn start(directory: &Path, arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the tool starts")
}

/// Runs the tool in `directory`; `input` comes from its standard input.
pub(crate) fn run(directory: &Path, arguments: &[&str], input: &[u8]) -> Run {
    let mut child = start(directory, arguments);
    let mut stdin = child.stdin.take().expect("piped");
    let stdout = reader(child.stdout.take().expect("piped"));
    let stderr = reader(child.stderr.take().expect("piped"));
    let input = input.to_vec();
    // The tool may end before it has read everything.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let code = wait(&mut child);
    writer.join().expect("the writer ends with the tool");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the output is UTF-8");
    let run = Run {
        code,
        stdout: text(stdout.join().expect("the reader ends with the tool")),
        stderr: text(stderr.join().expect("the reader ends with the tool")),
    };
    assert!(
        !run.stderr.contains("panicked"),
        "{arguments:?}: {}",
        run.stderr
    );
    run
}

/// Waits for the end, but not for ever; the exit status.
pub(crate) fn wait(child: &mut Child) -> Option<i32> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("the tool was started") {
            return status.code();
        }
        if begun.elapsed() > PATIENCE {
            child.kill().expect("the tool still runs");
            panic!("no end within {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn reader(mut from: impl Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).expect("a pipe can be read");
        bytes
    })
}

/// A place beside the workspace; `None`, and a word about it, where it does not exist.
pub(crate) fn beside_workspace(path: &str) -> Option<PathBuf> {
    let place = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../..")
        .join(path);
    let found = place.canonicalize().ok();
    if found.is_none() {
        eprintln!("skipped: there is no {}", place.display());
    }
    found
}

/// Whether `got` has everything that `want` names, and the same in lists.
pub(crate) fn covers(want: &Value, got: &Value) -> bool {
    match (want, got) {
        (Value::Object(want), Value::Object(got)) => want
            .iter()
            .all(|(key, want)| got.get(key).is_some_and(|got| covers(want, got))),
        (Value::Array(want), Value::Array(got)) => {
            want.len() == got.len() && want.iter().zip(got).all(|(want, got)| covers(want, got))
        }
        _ => want == got,
    }
}

/// Compares events in order; fields that `want` does not name are free, and so is the order inside
/// a run of `failed` and `expired` events.
pub(crate) fn assert_events(name: &str, want: &[Value], got: &[Value]) {
    let (want, got) = (settle(want), settle(got));
    for (at, (want, got)) in want.iter().zip(&got).enumerate() {
        assert!(
            covers(want, got),
            "{name}: event {}\n  want {want}\n  got  {got}",
            at + 1
        );
    }
    let (wanted, came) = (want.len(), got.len());
    assert_eq!(
        came,
        wanted,
        "{name}: {:?}",
        got.get(wanted).or(want.get(came))
    );
}

fn settle(events: &[Value]) -> Vec<Value> {
    let is_free = |event: &Value| matches!(event["event"].as_str(), Some("failed" | "expired"));
    let key = |event: &Value| (event["event"].to_string(), event["id"].to_string());
    let mut events = events.to_vec();
    for run in events.chunk_by_mut(|a, b| is_free(a) && is_free(b)) {
        run.sort_by_key(key);
    }
    events
}
