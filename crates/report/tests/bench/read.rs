//! Benchmark reports read back: whole, or with an error that says where it is wrong.
use proptest::prelude::*;
use serde_json::{Value, json};
use tollgate_report::bench::{BenchReport, RECORDINGS_MAX};
use tollgate_report::recording::TOP_NS;
use tollgate_report::{ReadError, Recording};

use crate::made_up;

fn value() -> Value {
    serde_json::from_str(&made_up::report(1, 1.0).json().unwrap()).unwrap()
}

fn refusal(value: &Value) -> String {
    BenchReport::from_json(&value.to_string())
        .unwrap_err()
        .to_string()
}

/// The error after a change of the report's JSON at a place.
fn after(place: &str, new: Value) -> String {
    let mut report = value();
    *report
        .pointer_mut(place)
        .unwrap_or_else(|| panic!("{place}")) = new;
    refusal(&report)
}

#[test]
fn what_was_written_is_read_back_to_the_byte() {
    let report = made_up::report(1, 1.0);
    let text = report.json().unwrap();
    let read = BenchReport::from_json(&text).unwrap();
    assert_eq!(read.json().unwrap(), text);
    assert_eq!(read.text(), report.text());
    assert_eq!(read.html(), report.html());
    assert!(text.starts_with(r#"{"schema":"tollgate.bench/1","title":"#));
    assert!(text.ends_with("}\n") && text.lines().count() == 1);
}

#[test]
fn other_documents_are_refused_by_name() {
    let refused = |text: &str| BenchReport::from_json(text).unwrap_err().to_string();
    assert_eq!(
        refused(r#"{"schema":"tollgate.replay/1","runs":[]}"#),
        r#"its schema is "tollgate.replay/1", where "tollgate.bench/1" is needed"#
    );
    assert_eq!(
        refused("{}"),
        r#"it has no schema, where "tollgate.bench/1" is needed"#
    );
    for text in [
        "",
        "[",
        "7",
        "\u{0}",
        r#"{"schema":7}"#,
        r#"{"schema":"tollgate.bench/1"}"#,
    ] {
        assert!(
            refused(text).starts_with("not a benchmark report: "),
            "{text}"
        );
    }
    let text = made_up::report(1, 1.0).json().unwrap();
    assert!(refused(&text[..text.len() / 2]).contains("EOF"));
}

#[test]
fn a_broken_rule_is_told_with_its_place() {
    for (place, new, wanted) in [
        (
            "/suites/1/name",
            json!("engine"),
            r#"suites[1]: the name "engine" is there twice"#,
        ),
        (
            "/suites/0/arms/1/name",
            json!("full_life/fcfs/spin"),
            r#"suites[0].arms[1]: the name "full_life/fcfs/spin" is there twice"#,
        ),
        (
            "/suites/1/arms/0/metrics/1/name",
            json!("lives a second"),
            r#"suites[1].arms[0].metrics[1]: the name "lives a second" is there twice"#,
        ),
        (
            "/suites/0/arms/0/populations/1/repetitions",
            json!([]),
            "suites[0].arms[0].populations[1].repetitions: is empty",
        ),
        (
            "/suites/0/arms/0/populations/1/repetitions/2/tag",
            json!("other"),
            r#"suites[0].arms[0].populations[1].repetitions[2]: its tag is "other", that of the first "hand_over""#,
        ),
        (
            "/suites/0/arms/0/populations/1/repetitions/2/population",
            json!("some"),
            r#"suites[0].arms[0].populations[1].repetitions[2]: its population is "some""#,
        ),
        (
            "/suites/0/arms/0/course/latency",
            json!([]),
            "suites[0].arms[0].course.latency: it has 0 steps, handed_out has 40",
        ),
        (
            "/suites/0/before/clock_ns",
            json!(-1.0),
            "suites[0].before.clock_ns: -1 is not a number from 0 on",
        ),
    ] {
        assert!(after(place, new).starts_with(wanted), "{place}");
    }
    let mut report = made_up::report(1, 1.0);
    report.suites[0].arms[0].metrics[0].samples[3] = f64::NAN;
    assert!(refusal(&serde_json::from_str(&report.json().unwrap()).unwrap()).contains("null"));
}

#[test]
fn a_recording_that_lies_is_named_by_its_tag() {
    let at = |field: &str| format!("/suites/0/arms/0/populations/0/repetitions/0/{field}");
    let good = value()
        .pointer(&at("hdr"))
        .unwrap()
        .as_str()
        .unwrap()
        .to_owned();
    let other = value()
        .pointer("/suites/0/arms/0/populations/1/repetitions/0/hdr")
        .unwrap()
        .clone();
    for (field, new, wanted) in [
        ("hdr", json!("*"), "hdr: not base64"),
        ("hdr", json!(""), "hdr: cut off"),
        ("hdr", json!(good[..40]), "hdr: cut off"),
        ("hdr", json!("AAAAAAAAAAA="), "hdr: begins with 0x00000000"),
        ("hdr", other, "min_ns, max_ns: not those of hdr"),
        ("count", json!(3_999), "count: 3999, but hdr holds 4000"),
        ("clamped", json!(1), "clamped: 1"),
        ("min_ns", json!(0), "min_ns, max_ns: not those of hdr"),
        (
            "max_ns",
            json!(u64::MAX),
            "min_ns, max_ns: not those of hdr",
        ),
        ("max_ns", Value::Null, "min_ns, max_ns: needed"),
        ("sum_ns", json!("1"), "sum_ns: not between"),
        ("sum_ns", json!("-1"), "sum_ns: not a whole number"),
        (
            "sum_ns",
            json!("9".repeat(60)),
            "sum_ns: not a whole number",
        ),
    ] {
        let told = after(&at(field), new);
        assert!(
            told.contains(&format!("recording life: {wanted}")),
            "{field}: {told}"
        );
    }
    let told = after(&at("tag"), json!("a b"));
    assert!(told.contains("recording a_b: tag: only"), "{told}");
}

#[test]
fn hostile_sizes_are_refused_before_they_take_memory() {
    let mut report = value();
    let one = report["suites"][0]["arms"][0]["populations"][0]["repetitions"][0].clone();
    let many = vec![one; RECORDINGS_MAX + 1];
    report["suites"][0]["arms"][0]["populations"][0]["repetitions"] = json!(many);
    assert_eq!(refusal(&report), "more than 4096 recordings");
    let deep = format!(
        r#"{{"schema":"tollgate.bench/1","x":{}"#,
        "[".repeat(1_000_000)
    );
    assert!(matches!(
        BenchReport::from_json(&deep),
        Err(ReadError::Json(_))
    ));
}

fn values() -> impl Strategy<Value = Vec<u64>> {
    let one = prop_oneof![
        Just(0),
        Just(TOP_NS),
        Just(TOP_NS + 1),
        Just(u64::MAX),
        0..5_000u64,
        0..TOP_NS,
        any::<u64>(),
    ];
    prop::collection::vec(one, 0..40)
}

proptest! {
    #[test]
    fn any_recording_is_read_back_exactly(values in values()) {
        let mut recording = Recording::new("x", "wait", "all");
        for value in values {
            recording.record(value);
        }
        let text = serde_json::to_string(&recording).unwrap();
        let read: Recording = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(read.histogram(), recording.histogram());
        prop_assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }

    #[test]
    fn no_bytes_make_reading_panic(at in 0..400usize, to in any::<u8>(), cut in any::<bool>()) {
        let mut recording = Recording::new("x", "wait", "all");
        (0..50u64).for_each(|at| recording.record(at * at * at));
        let mut text = serde_json::to_string(&recording).unwrap().into_bytes();
        if cut {
            text.truncate(at);
        } else if let Some(byte) = text.get_mut(at) {
            *byte = to;
        }
        let _ = serde_json::from_slice::<Recording>(&text);
    }
}
