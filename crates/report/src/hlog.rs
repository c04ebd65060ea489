//! Recordings as an interval log of HdrHistogram, version 2 of the encoding.
//!
//! Each interval is one line: the tag of its recording, start and length in seconds, the longest
//! duration in milliseconds, and the histogram, encoded (V2), deflated, and in base64. Times count
//! from the start of the measurement, so the log says that it began at second 0.
//!
//! A log knows neither [`crate::Recording::clamped`] nor exact extremes: those are told in the report.
//!
//! Logs are read as well, also those of other tools: tags may be missing, and histograms of other bounds are
//! recorded again into ours, each value as the highest that its bucket holds.

use std::io;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{
    IntervalLogWriterBuilder, IntervalLogWriterError, Tag,
};

use crate::encoding;
use crate::{Error, ReadError, Recording};

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

/// What the recording of an interval without a tag is called.
const UNTAGGED: &str = "untagged";

/// Reads a log: a recording for each of its intervals, in their order, with the tag for its name. At most
/// `most` intervals are read, since each takes some 300 KB.
///
/// Times, and what the log says of the longest duration, are passed over. Values are taken as nanoseconds,
/// which is what the format means; those above [`TOP_NS`](crate::recording::TOP_NS) are clamped.
///
/// ```
/// use tollgate_report::{Recording, hlog};
///
/// let mut wait = Recording::new("wait", "wait", "all requests");
/// wait.record(1_000);
/// let interval = hlog::Interval { start_ns: 0, length_ns: 1_000_000_000, recording: &wait };
/// let mut log = Vec::new();
/// hlog::write(&mut log, "one", &[interval])?;
/// let read = hlog::read(&String::from_utf8_lossy(&log), 10)?;
/// assert_eq!((read[0].tag(), read[0].max()), ("wait", Some(1_000)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ReadError::Line`] with the first line that is wrong, or if there is no interval;
/// [`ReadError::TooMany`] above `most`.
pub fn read(text: &str, most: usize) -> Result<Vec<Recording>, ReadError> {
    let mut recordings = Vec::new();
    let mut last = 1;
    for (line, content) in (1..).zip(text.lines()) {
        last = line;
        let content = content.trim();
        let is_legend = content.starts_with('"');
        if content.is_empty() || content.starts_with('#') || is_legend {
            continue;
        }
        if recordings.len() == most {
            return Err(ReadError::TooMany { most });
        }
        recordings.push(interval(content).map_err(|why| ReadError::Line { line, why })?);
    }
    if recordings.is_empty() {
        let why = "the log ends without an interval".to_owned();
        return Err(ReadError::Line { line: last, why });
    }
    Ok(recordings)
}

/// The recording of a line: an optional tag, start, length, longest, histogram.
fn interval(line: &str) -> Result<Recording, String> {
    let (tag, rest) = match line.strip_prefix("Tag=") {
        Some(rest) => rest.split_once(',').ok_or("nothing behind the tag")?,
        None => (UNTAGGED, line),
    };
    let fields: Vec<&str> = rest.split(',').collect();
    let [start, length, longest, histogram] = fields[..] else {
        return Err(format!(
            "{} fields, where start, length, longest and histogram are 4",
            fields.len()
        ));
    };
    for (what, number) in [("start", start), ("length", length), ("longest", longest)] {
        if number.trim().parse::<f64>().is_err() {
            return Err(format!(
                "the {what} is {:?}, no number",
                crate::text::cell(number)
            ));
        }
    }
    let bytes = STANDARD
        .decode(histogram.trim())
        .map_err(|error| format!("the histogram is not base64: {error}"))?;
    let counts = encoding::decode(&bytes).map_err(|why| format!("the histogram {why}"))?;
    let mut recording = Recording::new(tag, tag, "durations of a log");
    for bucket in counts.buckets() {
        recording
            .record_bucket(bucket.lowest, bucket.highest, bucket.count)
            .ok_or("the histogram counts more than 2^48")?;
    }
    Ok(recording)
}
