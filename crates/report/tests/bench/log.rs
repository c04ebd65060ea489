//! Interval logs: written with a line for each repetition, and read, also from other tools.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer, V2Serializer};
use tollgate_report::bench::BenchReport;
use tollgate_report::hlog;
use tollgate_report::recording::TOP_NS;

use crate::made_up;

const LEGEND: &str = "#[Histogram log format version 1.3]\n\"StartTimestamp\",\"Interval_Length\",\
                      \"Interval_Max\",\"Interval_Compressed_Histogram\"\n";

fn encoded(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new()
        .serialize(histogram, &mut bytes)
        .unwrap();
    STANDARD.encode(bytes)
}

#[test]
fn every_repetition_is_an_interval_of_its_tag_and_is_read_back() {
    let report = made_up::report(1, 1.0);
    let mut log = Vec::new();
    report.write_hlog(&mut log).unwrap();
    let read = BenchReport::from_hlog("a log", &String::from_utf8(log).unwrap()).unwrap();
    let arm = &read.suites[0].arms[0];
    let tagged = report.recordings();
    assert_eq!(arm.populations.len(), tagged.len());
    for (tag, population) in &tagged {
        let found = arm
            .populations
            .iter()
            .find(|other| other.tag() == tag)
            .unwrap();
        assert_eq!(found.repetitions.len(), made_up::REPETITIONS);
        for (old, new) in population.repetitions.iter().zip(&found.repetitions) {
            assert_eq!(old.histogram(), new.histogram());
        }
    }
    assert!(read.suites[0].distrust().is_empty());
    assert!(
        !read.text().contains("clock"),
        "of the machine nothing is known"
    );
    BenchReport::from_json(&read.json().unwrap()).unwrap();
}

#[test]
fn logs_of_other_tools_are_recorded_again_into_our_bounds() {
    let mut of_millis = Histogram::<u64>::new_with_bounds(1_000_000, 3_600_000_000_000, 2).unwrap();
    let mut beyond = Histogram::<u64>::new_with_bounds(1, u64::MAX / 2, 1).unwrap();
    for value in [1_000_000, 5_000_000, 2_000_000_000] {
        of_millis.record(value).unwrap();
    }
    of_millis.record_n(7_000_000_000, 96).unwrap();
    beyond.record(u64::MAX / 2).unwrap();
    beyond.record(TOP_NS / 2).unwrap();
    let mut plain = Vec::new();
    V2Serializer::new()
        .serialize(&of_millis, &mut plain)
        .unwrap();
    let log = format!(
        "# a comment\r\n{LEGEND}0.127,1.007,7000.0,{}\r\n\r\nTag=B,1.1,1.0,2.0,{}\n2.0,1.0,7000,{}\n",
        encoded(&of_millis),
        encoded(&beyond),
        STANDARD.encode(plain),
    );
    let read = hlog::read(&log, 3).unwrap();
    let tags: Vec<&str> = read.iter().map(|recording| recording.tag()).collect();
    assert_eq!(tags, ["untagged", "B", "untagged"]);
    assert_eq!((read[0].count(), read[0].clamped()), (99, 0));
    for q in [0.02, 0.03, 0.5, 1.0] {
        let (ours, theirs) = (read[0].quantile(q).unwrap(), of_millis.value_at_quantile(q));
        assert!(
            ours.abs_diff(theirs) <= theirs / 500,
            "{q}: {ours} for {theirs}"
        );
    }
    assert_eq!(
        read[0].histogram(),
        read[2].histogram(),
        "plain as well as deflated"
    );
    assert_eq!((read[1].count(), read[1].clamped()), (2, 1));
    let report = BenchReport::from_hlog("", &log).unwrap();
    assert_eq!(report.suites[0].arms[0].populations[0].repetitions.len(), 2);
}

#[test]
fn a_line_that_is_wrong_is_told_by_its_number() {
    let good = encoded(&Histogram::new_with_bounds(1, TOP_NS, 3).unwrap());
    let told = |line: &str| {
        hlog::read(&format!("{LEGEND}{line}\n"), 9)
            .unwrap_err()
            .to_string()
    };
    for (line, wanted) in [
        ("Tag=x", "line 3: nothing behind the tag"),
        ("1,2,3", "line 3: 3 fields"),
        ("<html>", "line 3: 1 fields"),
        (
            &format!("x,1.0,1.0,{good}"),
            "line 3: the start is \"x\", no number",
        ),
        ("0,1,1,*", "line 3: the histogram is not base64"),
        ("0,1,1,AAAA", "line 3: the histogram cut off"),
        (
            &format!("0,1,1,{}", STANDARD.encode(0x1c84_9301_u32.to_be_bytes())),
            "line 3: the histogram begins with 0x1c849301, which is not version 2",
        ),
    ] {
        assert!(told(line).starts_with(wanted), "{line}: {}", told(line));
    }
    assert_eq!(told(""), "line 3: the log ends without an interval");
    let two = format!("0,1,1,{good}\n0,1,1,{good}\n");
    assert_eq!(
        hlog::read(&two, 1).unwrap_err().to_string(),
        "more than 1 recordings"
    );
}

/// A plain encoding with any header and counts.
fn plain(digits: u32, lowest: u64, highest: u64, ratio: f64, counts: &[u8]) -> String {
    let mut bytes = 0x1c84_9313_u32.to_be_bytes().to_vec();
    bytes.extend(u32::try_from(counts.len()).unwrap().to_be_bytes());
    bytes.extend(0u32.to_be_bytes());
    bytes.extend(digits.to_be_bytes());
    bytes.extend(lowest.to_be_bytes());
    bytes.extend(highest.to_be_bytes());
    bytes.extend(ratio.to_be_bytes());
    bytes.extend(counts);
    format!("0,1,1,{}", STANDARD.encode(bytes))
}

#[test]
fn hostile_histograms_are_refused_without_panic_or_bomb() {
    let told = |line: &str| hlog::read(line, 9).unwrap_err().to_string();
    // The least number there is: as many empty buckets as 64 bits hold.
    let least = [0xff; 9];
    let most = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    let odd = |digits, lowest, highest| plain(digits, lowest, highest, 1.0, &[2]);
    for line in [
        odd(6, 1, 100),
        odd(u32::MAX, 1, 100),
        odd(3, 0, 100),
        odd(3, 51, 100),
        odd(5, 1 << 62, u64::MAX),
    ] {
        assert!(told(&line).contains("has bounds that"), "{}", told(&line));
    }
    assert!(told(&plain(3, 1, TOP_NS, 0.5, &[2])).contains("has the ratio 0.5"));
    assert!(told(&plain(3, 1, TOP_NS, f64::NAN, &[2])).contains("has the ratio NaN"));
    let far = [&least[..], &[2][..]].concat();
    assert!(told(&plain(3, 1, TOP_NS, 1.0, &far)).contains("counts above 64 bits"));
    let twice = [&most[..], &most[..]].concat();
    let fits = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
    assert_eq!(
        hlog::read(&plain(3, 1, TOP_NS, 1.0, &fits), 9).unwrap()[0].count(),
        (1 << 48) - 1
    );
    assert!(told(&plain(3, 1, TOP_NS, 1.0, &twice)).contains("counts more than 2^48"));
    assert!(told(&plain(3, 1, TOP_NS, 1.0, &[0x80])).contains("cut off"));
    let mut bomb = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    let zeros = vec![0u8; 1 << 20];
    for _ in 0..65 {
        std::io::Write::write_all(&mut bomb, &zeros).unwrap();
    }
    let bomb = bomb.finish().unwrap();
    let mut bytes = 0x1c84_9314_u32.to_be_bytes().to_vec();
    bytes.extend(u32::try_from(bomb.len()).unwrap().to_be_bytes());
    bytes.extend(bomb);
    let line = format!("0,1,1,{}", STANDARD.encode(bytes));
    assert!(told(&line).contains("inflates to more than any histogram has"));
}
