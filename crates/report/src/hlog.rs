//! Recordings as an interval log of HdrHistogram, version 2 of the encoding.
//!
//! Each interval is one line: the tag of its recording, start and length in seconds, the longest
//! duration in milliseconds, and the histogram, encoded (V2), deflated, and in base64. Times count
//! from the start of the measurement, so the log says that it began at second 0.
//!
//! A log knows neither [`crate::Recording::clamped`] nor exact extremes: those are told in the report.

use std::io;
use std::time::Duration;

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{
    IntervalLogWriterBuilder, IntervalLogWriterError, Tag,
};

use crate::{Error, Recording};

/// The line that names the columns, as readers of the format expect it.
const LEGEND: &str =
    r#""StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram""#;

/// The longest duration of an interval is written in milliseconds.
const NANOS_PER_MILLI: f64 = 1e6;

/// A recording and the time in which it was made.
#[derive(Clone, Copy, Debug)]
pub struct Interval<'a> {
    /// When the interval begins, in nanoseconds from the start. Written to the millisecond.
    pub start_ns: u64,
    /// How long it is, in nanoseconds. Written to the millisecond.
    pub length_ns: u64,
    /// What was recorded in it.
    pub recording: &'a Recording,
}

/// Writes a log with a line for each interval. Each line of `comment` stands at its head.
///
/// ```
/// use tollgate_report::{Recording, hlog};
///
/// let mut wait = Recording::new("wait", "wait", "all requests");
/// wait.record(1_000_000);
/// let interval = hlog::Interval { start_ns: 0, length_ns: 2_000_000_000, recording: &wait };
/// let mut log = Vec::new();
/// hlog::write(&mut log, "two seconds", &[interval])?;
/// assert!(String::from_utf8_lossy(&log).contains("\nTag=wait,0.000,2.000,1.000,HIST"));
/// # Ok::<(), tollgate_report::Error>(())
/// ```
///
/// # Errors
/// [`Error::Io`] if `out` refuses, [`Error::Encode`] if a recording cannot be encoded.
pub fn write(
    out: &mut impl io::Write,
    comment: &str,
    intervals: &[Interval<'_>],
) -> Result<(), Error> {
    // The blank keeps a comment from being read as one of the format's own lines.
    for line in comment.split(['\n', '\r']) {
        writeln!(out, "# {line}")?;
    }
    writeln!(out, "#[Histogram log format version 1.3]")?;
    writeln!(out, "#[StartTime: 0.000 (seconds since epoch)]\n{LEGEND}")?;
    let mut serialiser = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .with_max_value_divisor(NANOS_PER_MILLI)
        .begin_log_with(out, &mut serialiser)?;
    for interval in intervals {
        let recording = interval.recording;
        log.write_histogram(
            recording.histogram(),
            Duration::from_nanos(interval.start_ns),
            Duration::from_nanos(interval.length_ns),
            Tag::new(recording.tag()),
        )
        .map_err(|error| match error {
            IntervalLogWriterError::IoError(error) => Error::Io(error),
            IntervalLogWriterError::SerializeError(error) => Error::Encode {
                tag: recording.tag().to_owned(),
                reason: error.to_string(),
            },
        })?;
    }
    Ok(())
}
