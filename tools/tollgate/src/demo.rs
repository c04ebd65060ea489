//! `tollgate demo`.

use std::process::ExitCode;

use tollgate_sim::demo::Demo;

/// Runs the experiment and prints what it shows.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    crate::print(&Demo::run()?.to_string())?;
    Ok(ExitCode::SUCCESS)
}
