//! `tollgate bench`.

mod args;
mod parts;

use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tollgate_harness::{Plan, Progress, Suite, empty_report, measure};
use tollgate_report::bench::SuiteRun;

pub(crate) use self::args::BenchArgs;
use self::parts::Parts;
use crate::report::output::{PAGE, write_page, write_report};
use crate::{bad_input, command_line, tell};

/// Measures, prints the report, and says where its page is.
pub(crate) fn run(args: &BenchArgs) -> anyhow::Result<ExitCode> {
    if cfg!(debug_assertions) && !args.force {
        return Ok(bad_input(
            "tollgate: this build is not optimised, so that its figures would mean nothing: build with \
             --release, or give --force to see that it works",
        ));
    }
    let (plan, parts) = match prepare(args) {
        Ok(prepared) => prepared,
        Err(message) => return Ok(bad_input(format_args!("tollgate: {message}"))),
    };
    let mut report = empty_report(&plan, &command_line());
    for suite in args.suites() {
        if let Some(done) = parts.find(&suite, &report.machine)? {
            tell(format_args!(
                "suite {}: kept from the run that was interrupted; --fresh measures it again",
                suite.name
            ));
            report.suites.push(done);
            continue;
        }
        if let Some(run) = measure_with_bar(&suite, &plan) {
            parts.keep(&report, &run)?;
            report.suites.push(run);
        }
    }
    if report.suites.is_empty() {
        parts.forget()?;
        let filter = plan.filter.unwrap_or_default();
        return Ok(bad_input(format_args!(
            "tollgate: no arm of these suites contains {filter:?}"
        )));
    }
    crate::print(&if args.json {
        report.json()?
    } else {
        report.text()
    })?;
    let page = if let Some(directory) = &args.out {
        write_report(&report, directory)?;
        parts.forget()?;
        directory.join(PAGE)
    } else {
        // A name of its own, so that no run writes over another one's page, nor through a link.
        let name = format!("tollgate-bench-{}.html", std::process::id());
        let page = std::env::temp_dir().join(name);
        write_page(&report, &page)?;
        page
    };
    let told = format!("\nThe same as a page for a browser: {}\n", page.display());
    if args.json {
        tell(told.trim());
    } else {
        crate::print(&told)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The plan, and what a run before has left.
fn prepare(args: &BenchArgs) -> Result<(Plan, Parts), String> {
    let plan = args.plan()?;
    let parts = match &args.out {
        None => Parts::nowhere(),
        Some(directory) => Parts::in_directory(directory, args.fresh)
            .map_err(|error| format!("--out {}: {error}", directory.display()))?,
    };
    Ok((plan, parts))
}

fn measure_with_bar(suite: &Suite, plan: &Plan) -> Option<SuiteRun> {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{prefix:9} {bar:30} {pos}/{len}  {msg}");
    bar.set_style(style.expect("the template is valid"));
    bar.set_prefix(suite.name);
    let run = measure(suite, plan, &mut |progress: Progress<'_>| {
        if progress.of > 0 {
            bar.set_length(progress.of);
        }
        bar.set_position(progress.done);
        bar.set_message(if progress.arm.is_empty() {
            "looking at the machine".to_owned()
        } else {
            progress.arm.to_owned()
        });
    });
    bar.finish_and_clear();
    for reason in run.iter().flat_map(SuiteRun::distrust) {
        tell(format_args!(
            "suite {}: not to be trusted: {reason}",
            suite.name
        ));
    }
    run
}
