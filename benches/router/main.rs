//! What the router adds: to the time of a request, and to what a process may hold.
//!
//! Router, workers and clients are processes of their own: this program starts itself again for each part.
//!
//! - *Added latency*: a worker that answers at once is called directly, through a proxy that decides nothing, and
//!   through the router, by turns, by one client and by 32 at a time; each keeps its connection.
//! - *Streams*: thousands of clients, each on a connection of its own, are released at once; two classes at
//!   quanta of 4 : 1 before modelled workers. Counted are errors, the shares of the dispatches while both
//!   classes waited, and the router's memory.

#![expect(
    clippy::print_stdout,
    reason = "what it measures is told on standard output"
)]

mod client;
mod latency;
mod parts;
mod streams;

use std::process::ExitCode;

use tollgate_benches::{is_smoke, scaled};

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let mut arguments = std::env::args().skip(1);
    if let Some(part) = arguments
        .next()
        .filter(|argument| argument.starts_with("part:"))
    {
        runtime.block_on(parts::run(&part, arguments.collect()));
        return ExitCode::SUCCESS;
    }
    runtime.block_on(async {
        latency::measure(scaled(20_000)).await;
        let clients = if is_smoke() { 40 } else { 8_000 };
        streams::measure(clients).await;
    });
    ExitCode::SUCCESS
}
