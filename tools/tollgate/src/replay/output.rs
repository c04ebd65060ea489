//! Where a replay's report goes.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use tollgate_report::replay::ReplayReport;
use tollgate_report::{Recording, hgrm, hlog};
use tollgate_sim::trace::native::Record;

/// Writes every form of the report into a directory, which is made if it is not there.
pub(super) fn write_all(report: &ReplayReport, directory: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("{}", directory.display()))?;
    write(&directory.join("report.txt"), report.text().as_bytes())?;
    write(&directory.join("report.json"), report.json()?.as_bytes())?;
    write(&directory.join("report.html"), report.html().as_bytes())?;
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
        for recording in recordings {
            let name = format!("policy-{at}.{}.hgrm", recording.tag());
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

fn write(path: &Path, contents: &[u8]) -> anyhow::Result<()> {
    into_file(path, |file| file.write_all(contents).map_err(Into::into))
}

fn into_file(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<File>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let written = File::create(path).map_err(Into::into).and_then(|file| {
        let mut file = BufWriter::new(file);
        fill(&mut file)?;
        file.flush().map_err(anyhow::Error::from)
    });
    written.with_context(|| format!("cannot write {}", path.display()))
}
