//! Routers and workers as processes, which end with their test.

use std::fmt::Debug;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::http::{self, COMPLETIONS, Sent};

/// How long something may take before it counts as hung.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Two classes, of which a worker takes one prefill at a time; in `small` one request a worker may wait.
pub(crate) const POLICY: &str = "\
default_policy_family: regular
uncached_isl_buckets: [{min_tokens: 0, bucket: any}]
policy_classes:
- {name: regular, policy_family: regular, cache_bucket: any, quantum: 512, prefill_busy_threshold: 0}
- {name: small, policy_family: small, cache_bucket: any, quantum: 512, prefill_busy_threshold: 0, request_queue_limit_per_worker: 1}
";

/// Waits until `found` finds something; `what` says what it was to be.
pub(crate) fn until<T>(what: impl Debug, mut found: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "not within time: {what:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The lines that a process wrote so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    /// Reads `from` to its end, beside the test.
    fn of(from: impl Read + Send + 'static) -> Self {
        let lines = Self::default();
        let written = lines.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(from).lines() {
                let line = line.expect("what the tool writes is text");
                written.with(|lines| lines.push(line));
            }
        });
        lines
    }

    fn with<T>(&self, look: impl FnOnce(&mut Vec<String>) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.with(|lines| lines.clone())
    }

    /// Waits for a line with this in it; the first.
    pub(crate) fn line(&self, part: &str) -> String {
        let found = || self.with(|lines| lines.iter().find(|line| line.contains(part)).cloned());
        until((part, self), found)
    }

    /// Waits until so many lines are there.
    pub(crate) fn count(&self, count: usize) -> Vec<String> {
        until((count, self), || {
            Some(self.all()).filter(|lines| lines.len() >= count)
        })
    }
}

/// A process of the tool, which is killed with this.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    pub(crate) out: Lines,
    pub(crate) err: Lines,
}

/// The tool, without what this process's environment says about it.
pub(crate) fn tool(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TOLLGATE_") {
            command.env_remove(name);
        }
    }
    command.args(arguments).stdin(Stdio::null());
    command
}

impl Process {
    /// Starts the command and reads what it writes.
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdout(Stdio::piped());
        let mut process = Self::start_unread(command);
        let out = process.child.stdout.take().expect("piped");
        process.out = Lines::of(out);
        process
    }

    /// The same; nobody reads its standard output, which is wherever the command says.
    pub(crate) fn start_unread(mut command: Command) -> Self {
        let child = command.stderr(Stdio::piped()).spawn();
        let mut child = child.expect("it starts");
        let err = Lines::of(child.stderr.take().expect("piped"));
        let out = Lines::default();
        Self { child, out, err }
    }

    pub(crate) const fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it was not waited for");
    }

    /// Waits for its end; the exit status.
    pub(crate) fn end(&mut self) -> Option<i32> {
        let status = until(("its end", &self.err.clone()), || {
            self.child.try_wait().expect("it was started")
        });
        status.code()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be over.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a run to its end left behind.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stderr: String,
}

/// Runs `tollgate serve` until it ends by itself.
pub(crate) fn serve_to_end(environment: &[(&str, &str)], arguments: &[&str]) -> Run {
    let mut command = tool(&["serve"]);
    command.args(arguments).envs(environment.iter().copied());
    let mut process = Process::start(command);
    let code = process.end();
    // Its pipe closes with it.
    let stderr = until("the rest of standard error", || {
        let lines = process.err.all();
        (Arc::strong_count(&process.err.0) == 1).then_some(lines)
    });
    let stderr = stderr.join("\n");
    assert!(!stderr.contains("panicked"), "{stderr}");
    Run { code, stderr }
}

/// A mock worker of the model `m`.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) process: Process,
    pub(crate) address: String,
}

impl Worker {
    /// So many times as fast as the model.
    pub(crate) fn start(speed: &str) -> Self {
        Self::start_at("127.0.0.1:0", speed)
    }

    pub(crate) fn start_at(address: &str, speed: &str) -> Self {
        Self::with(&["--listen", address, "--model", "m", "--speed", speed])
    }

    pub(crate) fn with(arguments: &[&str]) -> Self {
        let mut command = tool(&["mock-worker"]);
        command.args(arguments);
        let process = Process::start(command);
        let line = process.err.line("mock worker of");
        let address = line.rsplit("http://").next().unwrap_or_default().to_owned();
        Self { process, address }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A number of its `/stats`.
    pub(crate) fn stat(&self, name: &str) -> u64 {
        let stats = http::get(&self.address, "/stats").json();
        stats[name].as_u64().expect("a number")
    }

    /// Waits until a number of its `/stats` is this.
    pub(crate) fn until(&self, name: &str, number: u64) {
        until((name, number), || (self.stat(name) == number).then_some(()));
    }
}

/// A router.
#[derive(Debug)]
pub(crate) struct Router {
    pub(crate) process: Process,
    /// Where clients come.
    pub(crate) address: String,
    /// Where operators come.
    pub(crate) admin: String,
}

impl Router {
    /// Before these workers, at any ports, with quick looks.
    pub(crate) fn start(workers: &[&Worker], arguments: &[&str]) -> Self {
        Self::wait_for(Process::start(Self::command(workers, arguments)))
    }

    pub(crate) fn command(workers: &[&Worker], arguments: &[&str]) -> Command {
        let any = "127.0.0.1:0";
        let mut command = tool(&["serve", "--listen", any, "--admin", any]);
        for worker in workers {
            command.args(["--worker", &worker.url()]);
        }
        command.args(["--health-interval", "0.2"]).args(arguments);
        command
    }

    /// Waits until it listens.
    pub(crate) fn wait_for(process: Process) -> Self {
        let line = process.err.line("tollgate: clients at ");
        let mut urls = line.split("http://").skip(1);
        let mut next = || {
            let url = urls.next().unwrap_or_else(|| panic!("{line}"));
            let end = url.find([',', '/']).unwrap_or(url.len());
            url[..end].to_owned()
        };
        let (address, admin) = (next(), next());
        Self {
            process,
            address,
            admin,
        }
    }

    /// The lines of its effective configuration, as `key value`.
    pub(crate) fn effective(&self) -> Vec<(String, String)> {
        let lines = self.process.err.all();
        let lines = lines.iter().map_while(|line| line.split_once(' '));
        let lines = lines.filter(|(key, _)| *key != "warning:");
        lines
            .map(|(key, value)| (key.to_owned(), value.trim().to_owned()))
            .take_while(|(key, _)| key != "tollgate:")
            .collect()
    }

    /// What operators see at a path.
    pub(crate) fn operator(&self, path: &str) -> Value {
        http::get(&self.admin, path).json()
    }

    /// Waits until so many requests wait for a worker.
    pub(crate) fn until_waiting(&self, requests: u64) {
        until(("waiting", requests), || {
            let waiting = &self.operator("/state")["models"][0]["waiting"];
            (*waiting == requests).then_some(())
        });
    }

    /// A request that keeps its worker in a prefill until it is dropped.
    pub(crate) fn hold(&self, worker: &Worker) -> Sent {
        let body = http::completion(1).to_string();
        let headers = [("x-mock-fault", "stall-before")];
        let held = http::send(&self.address, "POST", COMPLETIONS, &headers, &body);
        worker.until("running", 1);
        held
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
    pub(crate) fn write(&self, name: &str, contents: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, contents).expect("a file");
        path
    }
}

/// A path as an argument.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}
