//! Where a report or a comparison goes.

use std::fs;
use std::path::{Path, PathBuf};

use tollgate_report::bench::{BenchReport, Comparison};
use tollgate_report::hgrm;

use crate::replay::output::{REPORTS, into_file, write};

/// A comparison as text, JSON and page.
const COMPARISONS: [&str; 3] = ["comparison.txt", "comparison.json", "comparison.html"];
/// All recordings of a report.
const LOG: &str = "report.hlog";

/// The page of a report.
pub(crate) const PAGE: &str = REPORTS[2];

/// Makes the directory, and looks whether what will be written there is one of the inputs.
///
/// # Errors
/// What is wrong, ready to be printed.
pub(super) fn prepare(directory: &Path, inputs: &[PathBuf]) -> Result<(), String> {
    let named = |why: String| format!("--out {}: {why}", directory.display());
    fs::create_dir_all(directory).map_err(|error| named(error.to_string()))?;
    let real = |path: &Path| fs::canonicalize(path).ok();
    for name in REPORTS.iter().chain(&COMPARISONS).chain([&LOG]) {
        let Some(written) = real(&directory.join(name)) else {
            continue;
        };
        let mut same = inputs
            .iter()
            .filter(|input| real(input).as_ref() == Some(&written));
        if let Some(input) = same.next() {
            let why = format!("{} is an input, and would be written over", input.display());
            return Err(named(why));
        }
    }
    Ok(())
}

/// Writes every form of a report into a directory.
///
/// # Errors
/// If a file cannot be written.
pub(crate) fn write_report(report: &BenchReport, directory: &Path) -> anyhow::Result<()> {
    let [text, json, page] = REPORTS.map(|name| directory.join(name));
    write(&text, report.text().as_bytes())?;
    write(&json, report.json()?.as_bytes())?;
    write_page(report, &page)?;
    into_file(&directory.join(LOG), |file| {
        report.write_hlog(file).map_err(Into::into)
    })?;
    for (tag, population) in report.recordings() {
        into_file(&directory.join(format!("{tag}.hgrm")), |file| {
            let whole = population.whole();
            hgrm::write(file, &whole, hgrm::Unit::Microseconds).map_err(Into::into)
        })?;
    }
    Ok(())
}

/// Writes a report as a page.
///
/// # Errors
/// If the file cannot be written.
pub(crate) fn write_page(report: &BenchReport, page: &Path) -> anyhow::Result<()> {
    write(page, report.html().as_bytes())
}

/// Writes every form of a comparison into a directory.
///
/// # Errors
/// If a file cannot be written.
pub(super) fn write_comparison(comparison: &Comparison, directory: &Path) -> anyhow::Result<()> {
    let [text, json, page] = COMPARISONS.map(|name| directory.join(name));
    write(&text, comparison.text().as_bytes())?;
    write(&json, comparison.json()?.as_bytes())?;
    write(&page, comparison.html().as_bytes())
}
