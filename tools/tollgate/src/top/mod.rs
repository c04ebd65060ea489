//! `tollgate top`.

mod screen;
mod view;

use std::collections::VecDeque;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tollgate_router::state::RouterState;

use self::screen::Screen;
use self::view::{Look, frame};
use crate::http::{self, Address};
use crate::{bad_input, print};

/// How long the router may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Shares are told over so long.
const MINUTE: Duration = Duration::from_secs(60);
/// The width of a text that no terminal bounds.
const WIDTH: usize = 120;

/// Shows live who waits at a router, and how its workers are loaded.
///
/// Rates are of the last interval, shares of the last minute. On a terminal it is drawn anew until ctrl-c;
/// otherwise, or with --once, it is written once, after one interval.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// The router's address for operators, as host:port or http://host:port
    #[arg(
        long,
        value_name = "ADDR",
        env = "TOLLGATE_ADMIN",
        default_value = "127.0.0.1:9090"
    )]
    admin: String,

    /// Seconds between two looks, from 0.1 to 3600
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    interval: f64,

    /// Write plain text once
    #[arg(long)]
    once: bool,
}

/// Looks until it is interrupted, or once.
pub(crate) fn run(args: &TopArgs) -> anyhow::Result<ExitCode> {
    let address: Address = match args.admin.parse() {
        Ok(address) => address,
        Err(message) => return Ok(bad_input(format_args!("--admin: {message}"))),
    };
    if !(0.1..=3_600.0).contains(&args.interval) {
        let message = format!(
            "--interval is {}; it must be from 0.1 to 3600 seconds",
            args.interval
        );
        return Ok(bad_input(message));
    }
    let interval = Duration::from_secs_f64(args.interval);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(async {
        if args.once || !io::stdout().is_terminal() {
            once(&address, interval).await
        } else {
            watch(&address, interval).await
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

async fn once(address: &Address, interval: Duration) -> anyhow::Result<()> {
    let mut looks = VecDeque::from([look(address).await?]);
    tokio::time::sleep(interval).await;
    looks.push_back(look(address).await?);
    let mut text = frame(&looks, WIDTH).join("\n");
    text.push('\n');
    print(&text)
}

async fn watch(address: &Address, interval: Duration) -> anyhow::Result<()> {
    let mut interrupted = signal(SignalKind::interrupt()).context("cannot listen for ctrl-c")?;
    let mut terminated = signal(SignalKind::terminate()).context("cannot listen for signals")?;
    // Who is not there at all is told on the plain screen.
    let mut looks = VecDeque::from([look(address).await?]);
    let mut screen = Screen::open()?;
    let mut trouble = None;
    loop {
        let (width, height) = screen.size();
        let mut lines = frame(&looks, width);
        if let Some(trouble) = &trouble {
            lines.insert(
                0,
                view::cut(
                    &format!("connection lost, trying again: {trouble:#}"),
                    width,
                ),
            );
        }
        screen.draw(&lines, height)?;
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            _ = interrupted.recv() => return Ok(()),
            _ = terminated.recv() => return Ok(()),
        }
        let looked = tokio::select! {
            looked = look(address) => looked,
            _ = interrupted.recv() => return Ok(()),
            _ = terminated.recv() => return Ok(()),
        };
        trouble = match looked {
            Ok(look) => {
                remember(&mut looks, look);
                None
            }
            Err(error) => Some(error),
        };
    }
}

/// Keeps what is needed to tell a minute's shares, and at least one look before the last.
fn remember(looks: &mut VecDeque<Look>, look: Look) {
    let now = look.at;
    // It was started anew.
    if looks
        .back()
        .is_some_and(|last| last.state.uptime_seconds > look.state.uptime_seconds)
    {
        looks.clear();
    }
    looks.push_back(look);
    while looks.len() > 2 && now.duration_since(looks[0].at) > MINUTE {
        looks.pop_front();
    }
}

async fn look(address: &Address) -> anyhow::Result<Look> {
    let answer = http::get(address, "/state?entries=0", PATIENCE).await?;
    if !answer.status.is_success() {
        bail!(
            "{address} answers with status {}: {}",
            answer.status,
            reason(&answer.body)
        );
    }
    let state: RouterState = serde_json::from_slice(&answer.body).with_context(|| {
        format!("{address} is no router's address for operators: its state is not readable")
    })?;
    Ok(Look {
        at: Instant::now(),
        state,
    })
}

/// What an error's body says, in one short line.
fn reason(body: &[u8]) -> String {
    let value: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let message = value
        .as_ref()
        .and_then(|value| value["error"]["message"].as_str());
    let message = message.unwrap_or("no reason is given");
    view::cut(&view::printable(message), 200)
}
