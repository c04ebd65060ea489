//! Interval logs, read back by the library that wrote them and by a reader that knows only the format.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeMap;
use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use tollgate_report::Recording;
use tollgate_report::hlog::{self, Interval};
use tollgate_report::recording::TOP_NS;

/// Marks the deflated and the plain V2 encoding.
const DEFLATED: u32 = 0x1c84_9314;
const PLAIN: u32 = 0x1c84_9313;

fn recordings() -> Vec<Recording> {
    let mut few = Recording::new("few", "wait", "few");
    for value in [0, 0, 1, 2_047, 2_048, 1_000_000_007, TOP_NS, u64::MAX] {
        few.record(value);
    }
    let mut many = Recording::new("many, of all", "wait", "many");
    for value in 0..20_000u64 {
        many.record(value * value * 31);
    }
    vec![few, many, Recording::new("none", "wait", "none")]
}

fn log(comment: &str, recordings: &[Recording]) -> String {
    let interval = |(recording, at)| Interval {
        start_ns: at * 1_500_000_000,
        length_ns: 1_500_000_000,
        recording,
    };
    let intervals: Vec<Interval<'_>> = recordings.iter().zip(0u64..).map(interval).collect();
    let mut out = Vec::new();
    hlog::write(&mut out, comment, &intervals).unwrap();
    String::from_utf8(out).unwrap()
}

/// Counts by the lowest value of their bucket.
type Counts = BTreeMap<u64, u64>;

fn counts(histogram: &Histogram<u64>) -> Counts {
    let recorded = histogram.iter_recorded();
    recorded
        .map(|step| {
            (
                histogram.lowest_equivalent(step.value_iterated_to()),
                step.count_at_value(),
            )
        })
        .collect()
}

/// Takes bytes of fixed length off the front.
fn take<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
    let (head, rest) = bytes.split_first_chunk().unwrap();
    *bytes = rest;
    *head
}

/// A ZigZag LEB128 number: seven bits a byte, the ninth byte whole.
fn number(bytes: &mut &[u8]) -> i64 {
    let mut bits = 0u64;
    for at in 0..9 {
        let [byte] = take(bytes);
        if at == 8 {
            bits |= u64::from(byte) << 56;
            break;
        }
        bits |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            break;
        }
    }
    (bits >> 1).cast_signed() ^ -(bits & 1).cast_signed()
}

/// Reads the histogram at the end of a line: base64, zlib, header, counts.
fn decode(line: &str) -> Counts {
    let bytes = STANDARD.decode(line).unwrap();
    let mut bytes = bytes.as_slice();
    assert_eq!(u32::from_be_bytes(take(&mut bytes)), DEFLATED);
    assert_eq!(u32::from_be_bytes(take(&mut bytes)) as usize, bytes.len());
    let mut plain = Vec::new();
    ZlibDecoder::new(bytes).read_to_end(&mut plain).unwrap();
    let mut plain = plain.as_slice();
    assert_eq!(u32::from_be_bytes(take(&mut plain)), PLAIN);
    let length = u32::from_be_bytes(take(&mut plain)) as usize;
    assert_eq!(
        u32::from_be_bytes(take(&mut plain)),
        0,
        "normalising offset"
    );
    assert_eq!(u32::from_be_bytes(take(&mut plain)), 3, "digits");
    assert_eq!(u64::from_be_bytes(take(&mut plain)), 1, "lowest");
    assert_eq!(u64::from_be_bytes(take(&mut plain)), TOP_NS, "highest");
    assert_eq!(f64::from_be_bytes(take(&mut plain)), 1.0, "conversion");
    assert_eq!(plain.len(), length);
    let mut counts = Counts::new();
    let mut index = 0u64;
    while !plain.is_empty() {
        match number(&mut plain) {
            zeros @ ..0 => index += zeros.unsigned_abs(),
            count => {
                counts.insert(lowest_of(index), count.unsigned_abs());
                index += 1;
            }
        }
    }
    counts.retain(|_, count| *count > 0);
    counts
}

/// The lowest value of a bucket: 2,048 steps of 1, then 1,024 of 2, of 4, and so on.
fn lowest_of(index: u64) -> u64 {
    if index < 2_048 {
        return index;
    }
    let bucket = index / 1_024 - 1;
    (index % 1_024 + 1_024) << bucket
}

#[test]
fn the_library_reads_its_log_back() {
    let recordings = recordings();
    let text = log("a replay", &recordings);
    let mut read = Vec::new();
    for entry in IntervalLogIterator::new(text.as_bytes()) {
        match entry.unwrap() {
            LogEntry::StartTime(time) => assert_eq!(time.as_nanos(), 0),
            LogEntry::BaseTime(time) => panic!("base time {time:?}"),
            LogEntry::Interval(interval) => read.push(interval),
        }
    }
    assert_eq!(read.len(), recordings.len());
    for (at, (interval, recording)) in read.iter().zip(&recordings).enumerate() {
        assert_eq!(interval.tag().unwrap().as_str(), recording.tag());
        assert_eq!(interval.start_timestamp().as_millis(), at as u128 * 1_500);
        assert_eq!(interval.duration().as_millis(), 1_500);
        let bytes = STANDARD.decode(interval.encoded_histogram()).unwrap();
        let histogram: Histogram<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .unwrap();
        assert_eq!(counts(&histogram), counts(recording.histogram()));
    }
}

#[test]
fn another_reader_finds_the_same_counts() {
    let recordings = recordings();
    let text = log("a replay", &recordings);
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("Tag="))
        .collect();
    assert_eq!(lines.len(), recordings.len());
    for (line, recording) in lines.iter().zip(&recordings) {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!(fields.len(), 5, "{line}");
        assert_eq!(fields[0], format!("Tag={}", recording.tag()));
        let decoded = decode(fields[4]);
        assert_eq!(decoded, counts(recording.histogram()));
        assert_eq!(decoded.values().sum::<u64>(), recording.count());
    }
}

#[test]
fn a_comment_cannot_pass_for_a_line_of_the_log() {
    let comment = "[StartTime: 99.000 (seconds since epoch)]\nTag=x,0.000,1.000,1.000,AAAA\r\n\"StartTimestamp\"";
    let text = log(comment, &recordings());
    let entries = IntervalLogIterator::new(text.as_bytes()).map(Result::unwrap);
    let starts: Vec<u64> = entries
        .filter_map(|entry| match entry {
            LogEntry::StartTime(time) => Some(time.as_secs()),
            _ => None,
        })
        .collect();
    assert_eq!(starts, [0]);
    assert_eq!(
        text.lines().filter(|line| line.starts_with("Tag=")).count(),
        3
    );
}
