//! Percentile distributions, parsed back.
#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a test may stop at the first surprise, and its ranks are small"
)]

use tollgate_report::Recording;
use tollgate_report::hgrm::{self, Unit};

/// Value, share and total count of each row, and the lines at the foot.
fn parse(text: &str) -> (Vec<(f64, f64, u64)>, Vec<&str>) {
    let mut lines = text.lines();
    let heads: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    assert_eq!(
        heads,
        ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"]
    );
    assert_eq!(lines.next(), Some(""));
    let (foot, rows): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.starts_with('#'));
    let last = rows.len() - 1;
    let row = |(at, line): (usize, &&str)| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(fields.len(), if at == last { 3 } else { 4 }, "{line}");
        let share: f64 = fields[1].parse().unwrap();
        if at < last {
            let distance: f64 = fields[3].parse().unwrap();
            assert!((distance * (1.0 - share) - 1.0).abs() < 0.01, "{line}");
        }
        (
            fields[0].parse().unwrap(),
            share,
            fields[2].parse().unwrap(),
        )
    };
    (rows.iter().enumerate().map(row).collect(), foot)
}

fn written(recording: &Recording, unit: Unit) -> String {
    let mut out = Vec::new();
    hgrm::write(&mut out, recording, unit).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn rows_rise_to_the_longest_and_agree_with_the_values() {
    let mut recording = Recording::new("wait", "wait", "all");
    let values: Vec<u64> = (1..=10_000u64).map(|at| at * at * 7).collect();
    values.iter().for_each(|&value| recording.record(value));
    for unit in [
        Unit::Nanoseconds,
        Unit::Microseconds,
        Unit::Milliseconds,
        Unit::Seconds,
    ] {
        let text = written(&recording, unit);
        let (rows, foot) = parse(&text);
        assert!(rows.len() > 50, "five rows to each half of the distance");
        assert!(rows.is_sorted_by(|a, b| a.0 <= b.0 && a.1 < b.1 && a.2 <= b.2));
        for &(value, share, count) in &rows {
            let rank = ((share * 10_000.0).ceil() as usize).clamp(1, 10_000);
            let exact = values[rank - 1] as f64 / unit.nanos();
            assert!(
                (value / exact - 1.0).abs() < 0.002,
                "{unit:?} {value} for {exact}"
            );
            assert!(count as f64 >= share * 10_000.0 - 1e-6);
        }
        let &(max, share, count) = rows.last().unwrap();
        assert_eq!((share, count), (1.0, 10_000));
        assert!((max - 7e8 / unit.nanos()).abs() < 1e-3);
        assert!(foot[0].starts_with("#[Mean    = ") && foot[0].contains(", StdDeviation   = "));
        assert!(
            foot[1].ends_with("Total count    =        10000]"),
            "{}",
            foot[1]
        );
        assert_eq!(
            foot[2],
            "#[Buckets =           37, SubBuckets     =         2048]"
        );
        assert_eq!(foot.len(), 3);
    }
}

#[test]
fn an_empty_recording_has_one_row_of_nothing() {
    let text = written(&Recording::new("wait", "wait", "none"), Unit::Milliseconds);
    let (rows, foot) = parse(&text);
    assert_eq!(rows, [(0.0, 1.0, 0)]);
    assert_eq!(foot.len(), 3);
    assert!(!text.contains("NaN"));
}
