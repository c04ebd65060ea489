//! Reports and logs as the user names them.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use tollgate_report::bench::BenchReport;

/// The most bytes of a file: several times what the largest report has.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// One report of all files.
///
/// # Errors
/// What is wrong, with the name of the file, ready to be printed.
pub(super) fn read_all(files: &[PathBuf]) -> Result<BenchReport, String> {
    let mut known: Vec<PathBuf> = Vec::new();
    let mut merged: Option<BenchReport> = None;
    for file in files {
        let named = |why: String| format!("{}: {why}", file.display());
        // A pipe has no real name, and cannot be given twice.
        let real = fs::canonicalize(file).unwrap_or_else(|_| file.clone());
        if known.contains(&real) {
            return Err(named(
                "given twice; its repetitions would count twice".to_owned(),
            ));
        }
        known.push(real);
        let report = read(file).map_err(named)?;
        merged = Some(match merged {
            None => report,
            Some(merged) => BenchReport::merge(vec![merged, report]).map_err(|error| {
                named(format!("cannot be merged with those before it: {error}"))
            })?,
        });
    }
    merged.ok_or_else(|| "no file is given".to_owned())
}

/// A report of a file, whichever of the two it is.
fn read(file: &Path) -> Result<BenchReport, String> {
    let too_large = || format!("larger than {} MiB", FILE_BYTES_MAX >> 20);
    let opened = File::open(file).map_err(|error| error.to_string())?;
    let length = opened.metadata().map_err(|error| error.to_string())?.len();
    if length > FILE_BYTES_MAX {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    opened
        .take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(too_large());
    }
    let neither = |why: &str| format!("{why}: neither a benchmark report nor an interval log");
    let text = String::from_utf8(bytes).map_err(|_| neither("not UTF-8"))?;
    let text = text.trim_start_matches('\u{feff}').trim_start();
    match text.chars().next() {
        None => Err(neither("empty")),
        Some('{') => BenchReport::from_json(text).map_err(|error| error.to_string()),
        _ if is_log(text) => {
            let name = file.file_name().unwrap_or(file.as_os_str());
            let title = format!("Interval log {}", name.to_string_lossy());
            BenchReport::from_hlog(&title, text).map_err(|error| error.to_string())
        }
        Some(_) => Err(neither("its first line is of another kind")),
    }
}

/// Whether the first line that is no comment may be one of an interval log.
fn is_log(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let first = lines.find(|line| !line.starts_with('#'));
    first.is_none_or(|line| {
        let is_interval =
            line.split(',').count() >= 4 && line.starts_with(|c: char| c.is_ascii_digit());
        is_interval || line.starts_with("Tag=") || line.starts_with("\"StartTimestamp\"")
    })
}
