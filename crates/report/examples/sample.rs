//! Writes a made-up report: `sample PATH [CLASSES]`. A path that ends in `.json` or `.txt` gets that
//! form of it, one that ends in `.hlog` the recordings, any other the page.

use std::{env, error, fs, io};

use tollgate_report::hlog;

#[path = "../tests/made_up/mod.rs"]
mod made_up;

fn main() -> Result<(), Box<dyn error::Error>> {
    let mut arguments = env::args().skip(1);
    let path = arguments
        .next()
        .ok_or_else(|| io::Error::other("usage: sample PATH [CLASSES]"))?;
    let classes = arguments.next().map_or(Ok(4), |classes| classes.parse())?;
    let report = made_up::report(classes, 240);
    match path.rsplit_once('.') {
        Some((_, "json")) => fs::write(&path, report.json()?)?,
        Some((_, "txt")) => fs::write(&path, report.text())?,
        Some((_, "hlog")) => {
            let interval = |(_, recording)| hlog::Interval {
                start_ns: 0,
                length_ns: 450_000_000_000,
                recording,
            };
            let intervals: Vec<hlog::Interval<'_>> = report.recordings().map(interval).collect();
            hlog::write(&mut fs::File::create(&path)?, &report.title, &intervals)?;
        }
        _ => fs::write(&path, report.html())?,
    }
    Ok(())
}
