//! `tollgate serve`.

mod file;
mod notices;
mod options;
mod values;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::broadcast::error::RecvError;
use tollgate_router::Router;
use tollgate_router::config::Config;

use self::file::Read;
use self::notices::Notices;
use self::options::Options;
use crate::bad_input;

/// Routes OpenAI requests to workers, by the policy's classes.
///
/// Clients come to one address, operators to another, which is the loopback one by default: metrics, state,
/// workers, reload and drain are there, and a page that shows them live (/ui). SIGHUP reads the policy file
/// again, SIGTERM and ctrl-c answer what is there and end; a second one ends at once.
///
/// Each setting is a flag, an environment variable, or a key in the file of `--config`, where dashes are
/// underscores. A flag wins over the environment, that over the file; an empty variable is as good as none. Times
/// are in seconds.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// A YAML file with settings
    #[arg(long, value_name = "FILE", env = "TOLLGATE_CONFIG")]
    config: Option<PathBuf>,

    #[command(flatten)]
    options: Options,
}

/// Serves until it is told to end.
pub(crate) fn run(args: ServeArgs) -> anyhow::Result<ExitCode> {
    // A router lives for months, with small pieces of memory that come and go: in huge pages, which the allocator
    // would ask for, they take three times as much. Where the system does not allow it, they do.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    let config = match config(args) {
        Ok(config) => config,
        Err(errors) => return Ok(bad_input(errors.join("\n"))),
    };
    let runtime = crate::runtime()?;
    let status = runtime.block_on(serve(config));
    // Whatever is left holds nothing that matters.
    runtime.shutdown_timeout(Duration::from_millis(100));
    status
}

/// The whole configuration, or everything that is wrong with it.
fn config(args: ServeArgs) -> Result<Config, Vec<String>> {
    let read = args.config.as_deref().map(Read::file).unwrap_or_default();
    let checked = args.options.or(read.options.clone()).into_config();
    let mut errors = read.errors.clone();
    match checked {
        Ok(config) if errors.is_empty() => return Ok(config),
        Ok(_) => {}
        Err(wrong) => {
            let wrong = wrong.errors().iter();
            let wrong = wrong.filter(|error| !read.excuses(error.what));
            errors.extend(wrong.map(ToString::to_string));
        }
    }
    Err(errors)
}

async fn serve(config: Config) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::new().context("cannot listen for signals")?;
    let drain = config.drain;
    let router = match Router::start(config).await {
        Ok(router) => router,
        Err(error) if error.is_bad_input() => return Ok(bad_input(error)),
        Err(error) => return Err(error.into()),
    };
    let notices = Notices::start().context("cannot start the thread that writes notices")?;
    for warning in router.warnings() {
        notices.tell(format!("warning: {warning}"));
    }
    notices.tell(router.describe().trim_end().to_owned());
    notices.tell(format!(
        "tollgate: clients at http://{}, operators at http://{}/ui",
        router.address(),
        router.admin_address()
    ));
    let mut events = router.events();
    let mut within = drain;
    let mut reloading = None;
    loop {
        tokio::select! {
            () = router.until_drained() => break,
            event = events.recv() => {
                told(&notices, event);
                continue;
            }
            () = finish(&mut reloading) => continue,
            _ = signals.reload.recv() => {
                reloading.get_or_insert_with(|| Box::pin(router.reload()));
                continue;
            }
            _ = signals.terminate.recv() => {}
            _ = signals.interrupt.recv() => {}
        }
        router.drain(within).await;
        within = Duration::ZERO;
    }
    while let Ok(event) = events.try_recv() {
        told(&notices, Ok(event));
    }
    drop(reloading);
    let ended = router.end().await;
    if ended.is_ok() {
        notices.tell("tollgate: ended".to_owned());
    }
    notices.end();
    ended?;
    Ok(ExitCode::SUCCESS)
}

/// Waits for the end of what is under way, for ever if nothing is. What came of a reload is an event.
async fn finish<F: Future + Unpin>(under_way: &mut Option<F>) {
    match under_way {
        Some(work) => {
            work.await;
            *under_way = None;
        }
        None => std::future::pending().await,
    }
}

/// Tells an event, unless standard error was so slow that it is lost.
fn told(notices: &Notices, event: Result<String, RecvError>) {
    if let Ok(event) = event {
        notices.tell(format!("tollgate: {event}"));
    }
}

/// What the process is told from outside.
struct Signals {
    reload: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            reload: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }
}
