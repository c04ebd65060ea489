//! `tollgate demo`.

use std::process::ExitCode;

use anyhow::Context;
use tollgate_sim::demo::{Demo, Traffic};

const NEXT: &str = "\
Next: `tollgate replay --help` to run a recorded trace of your own, `tollgate scenario --help` to try a
policy by hand, `tollgate check FILE` to read a policy file.
";

/// Runs the experiment and the replay, prints what they show, and writes the replay's page.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let (demo, traffic) = (Demo::run()?, Traffic::run()?);
    let page = std::env::temp_dir().join("tollgate-demo.html");
    std::fs::write(&page, traffic.report.html())
        .with_context(|| format!("cannot write {}", page.display()))?;
    crate::print(&format!(
        "{demo}\n{traffic}\nQueues, shares and waits over time, as a page for a browser: {}\n\n{NEXT}",
        page.display()
    ))?;
    Ok(ExitCode::SUCCESS)
}
