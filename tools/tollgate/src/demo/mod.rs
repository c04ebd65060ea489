//! `tollgate demo`.

mod arm;
mod client;
mod report;
mod table;

use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use tollgate_report::Fact;
use tollgate_report::page::Section;
use tollgate_report::replay::ReplayReport;
use tollgate_sim::demo::{Demo, Traffic};

use self::arm::{Arm, Outcome};
use crate::{command_line, tell};

const NEXT: &str = "\
Next: `tollgate serve --help` to put the router before workers of your own, `tollgate replay --help` to run a
recorded trace, `tollgate demo --virtual` for more policies in no time, `tollgate check FILE` to read a policy.
";

/// Shows what quanta do: a modelled worker, the router before it, and 640 requests released at once
///
/// Three times, each with other quanta: 320 premium and 320 regular requests of 512 prompt tokens go over
/// loopback sockets to the router, which lets four of them run at a time. It takes some ten seconds.
#[derive(Debug, Default, Args)]
pub(crate) struct DemoArgs {
    /// The same in virtual time, without sockets, with more policies, and two minutes of generated traffic
    #[arg(long = "virtual")]
    is_virtual: bool,
}

/// Runs the experiment, prints what it shows, and writes its page.
pub(crate) fn run(args: &DemoArgs) -> anyhow::Result<ExitCode> {
    if args.is_virtual {
        run_virtual()
    } else {
        run_live()
    }
}

fn run_virtual() -> anyhow::Result<ExitCode> {
    let (demo, traffic) = (Demo::run()?, Traffic::run()?);
    // Every run writes the same.
    let page = write_page("tollgate-demo-virtual.html", None, &traffic.report)?;
    crate::print(&format!(
        "{demo}\n{traffic}\nQueues, shares and waits over time, as a page for a browser: {page}\n\n{NEXT}"
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn run_live() -> anyhow::Result<ExitCode> {
    let runtime = crate::runtime()?;
    let mut outcomes = Vec::new();
    for arm in Arm::ALL {
        tell(format_args!("quanta {arm}: 640 requests on their way"));
        outcomes.push(runtime.block_on(arm.run())?);
    }
    let report = ReplayReport {
        title: "Premium and regular, live".to_owned(),
        command: command_line(),
        trace: vec![Fact {
            name: "requests".to_owned(),
            value: "320 premium and 320 regular ones of 512 prompt tokens, released at once"
                .to_owned(),
        }],
        runs: outcomes.iter().map(report::run).collect(),
    };
    // No other run writes this one.
    let name = format!("tollgate-demo-{}.html", std::process::id());
    let page = write_page(&name, Some(table::section(&outcomes)), &report)?;
    let text = table::text(&outcomes);
    crate::print(&format!(
        "{text}\nQueues, shares and waits over time, as a page for a browser: {page}\n\n{NEXT}"
    ))?;
    if outcomes.iter().all(Outcome::is_complete) {
        Ok(ExitCode::SUCCESS)
    } else {
        tell("tollgate: not every request was answered with status 200");
        Ok(ExitCode::FAILURE)
    }
}

/// Writes a page among the temporary files; its path. What came of it stands before what it was made with.
fn write_page(
    name: &str,
    results: Option<Section>,
    report: &ReplayReport,
) -> anyhow::Result<String> {
    let mut page = report.page();
    page.sections.rotate_left(report.runs.len());
    page.sections.splice(0..0, results);
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, page.render())
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path.display().to_string())
}
