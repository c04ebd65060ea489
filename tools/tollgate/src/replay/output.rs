//! Where a replay's report goes, and how the files of any report are written.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use tollgate_report::replay::ReplayReport;
use tollgate_report::{Recording, hgrm, hlog};
use tollgate_sim::trace::native::Record;

use super::ReplayArgs;

/// The report as text, JSON and page.
pub(crate) const REPORTS: [&str; 3] = ["report.txt", "report.json", "report.html"];

/// Looks, before anything is played, whether the outputs can be written, and are no inputs; makes the
/// directory.
pub(super) fn prepare(args: &ReplayArgs) -> Result<(), String> {
    if let Some(directory) = &args.out {
        fs::create_dir_all(directory)
            .map_err(|error| format!("--out {}: {error}", directory.display()))?;
    }
    let Some(path) = &args.emit else {
        return Ok(());
    };
    let refuse = |why: &dyn Display| Err(format!("--emit {}: {why}", path.display()));
    let is_same = |other: &Path| {
        let real = |path: &Path| fs::canonicalize(path).ok();
        real(path).is_some_and(|path| Some(path) == real(other))
    };
    if is_same(&args.trace) || args.policies.iter().any(|policy| is_same(policy)) {
        return refuse(&"an input of this run; name another file");
    }
    if let Some(directory) = &args.out
        && REPORTS.iter().any(|name| path.ends_with(name))
        && path.parent().is_some_and(|parent| parent == directory)
    {
        return refuse(&"a file that --out writes; name another file");
    }
    // Creates it, and leaves alone what is in it until there is something to write.
    match File::options().create(true).append(true).open(path) {
        Ok(_) => Ok(()),
        Err(error) => refuse(&error),
    }
}

/// A file's name has 255 bytes: of a longer tag, so many are in it, and its recording's number.
const TAG_MAX: usize = 200;

/// Writes every form of the report into a directory.
pub(super) fn write_all(report: &ReplayReport, directory: &Path) -> anyhow::Result<()> {
    let [text, json, page] = REPORTS.map(|name| directory.join(name));
    write(&text, report.text().as_bytes())?;
    write(&json, report.json()?.as_bytes())?;
    write(&page, report.html().as_bytes())?;
    for (at, run) in (1..).zip(&report.runs) {
        // A policy's name may be anything; its number is a file's name everywhere.
        let length_ns = run.totals.finish_ns;
        let recordings: Vec<&Recording> = run
            .classes
            .iter()
            .flat_map(|class| [&class.wait, &class.wait_queued, &class.first_token])
            .collect();
        let intervals: Vec<_> = (recordings.iter())
            .map(|recording| hlog::Interval {
                start_ns: 0,
                length_ns,
                recording,
            })
            .collect();
        let comment = format!("{}, policy {}", report.title, run.policy);
        into_file(&directory.join(format!("policy-{at}.hlog")), |file| {
            hlog::write(file, &comment, &intervals).map_err(Into::into)
        })?;
        for (number, recording) in recordings.into_iter().enumerate() {
            let name = match recording.tag() {
                tag if tag.len() <= TAG_MAX => format!("policy-{at}.{tag}.hgrm"),
                tag => format!("policy-{at}.{}-{number}.hgrm", &tag[..TAG_MAX]),
            };
            into_file(&directory.join(name), |file| {
                hgrm::write(file, recording, hgrm::Unit::Milliseconds).map_err(Into::into)
            })?;
        }
    }
    Ok(())
}

/// Writes a trace.
pub(super) fn write_trace(records: &[Record], path: &Path) -> anyhow::Result<()> {
    into_file(path, |file| {
        for record in records {
            file.write_all(record.line().as_bytes())?;
        }
        Ok(())
    })
}

/// Writes a file.
pub(crate) fn write(path: &Path, contents: &[u8]) -> anyhow::Result<()> {
    into_file(path, |file| file.write_all(contents).map_err(Into::into))
}

/// Fills a file and puts it in place, whole or not at all: what was there before stays until then.
pub(crate) fn into_file(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<File>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let written = File::create(&partial).map_err(Into::into).and_then(|file| {
        let mut file = BufWriter::new(file);
        fill(&mut file)?;
        file.flush()?;
        fs::rename(&partial, path).map_err(anyhow::Error::from)
    });
    if written.is_err() {
        // What is wrong is told below; a file in part helps nobody.
        let _ = fs::remove_file(&partial);
    }
    written.with_context(|| format!("cannot write {}", path.display()))
}
