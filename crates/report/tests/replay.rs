//! The report of a replay as text and JSON.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use serde_json::Value;
use tollgate_report::replay::ReplayReport;

mod made_up;

fn keys(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

fn json(report: &ReplayReport) -> Value {
    serde_json::from_str(&report.json().unwrap()).unwrap()
}

#[test]
fn the_schema_is_pinned() {
    let text = made_up::report(2, 10).json().unwrap();
    assert!(text.starts_with(r#"{"schema":"tollgate.replay/1","title":"#));
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        keys(&report),
        ["schema", "title", "command", "trace", "runs"]
    );
    assert_eq!(keys(&report["trace"][0]), ["name", "value"]);
    let run = &report["runs"][0];
    let expected = [
        "policy", "settings", "totals", "classes", "workers", "timeline", "notes",
    ];
    assert_eq!(keys(run), expected);
    assert_eq!(
        keys(&run["totals"]).join(" "),
        "requests completed prompt_tokens cached_tokens charged_tokens output_tokens \
         last_arrival_ns finish_ns contended_dispatches"
    );
    assert_eq!(
        keys(&run["classes"][0]).join(" "),
        "name quantum_tokens requests dispatched completed prompt_tokens cached_tokens \
         charged_tokens output_tokens expired rejected failed served_tokens entitled_tokens wait \
         wait_queued first_token"
    );
    assert_eq!(keys(&run["classes"][0]["failed"][0]), ["code", "count"]);
    for recording in ["wait", "wait_queued", "first_token"] {
        assert_eq!(
            keys(&run["classes"][0][recording]).join(" "),
            "tag name population count clamped min_ns mean_ns p50_ns p90_ns p99_ns p999_ns max_ns"
        );
    }
    assert_eq!(
        keys(&run["workers"][0]).join(" "),
        "name requests prefill_tokens cached_tokens output_tokens busy_ns prefill_ns \
         peak_sequences evicted_blocks"
    );
    let timeline = &run["timeline"];
    assert_eq!(keys(timeline), ["step_ns", "classes", "workers"]);
    assert_eq!(
        keys(&timeline["classes"][0]).join(" "),
        "name waiting_max served_tokens entitled_tokens wait"
    );
    assert_eq!(
        keys(&timeline["classes"][0]["wait"][0]).join(" "),
        "count p50_ns p99_ns max_ns"
    );
    assert_eq!(
        keys(&timeline["workers"][0]).join(" "),
        "name busy prefill_tokens"
    );
}

/// The fields of the schema's tables, so that what is written stands in the documentation.
#[test]
fn every_field_is_documented() {
    fn walk(value: &Value, docs: &str) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    let ways = [
                        format!("`{name}`"),
                        format!("{name}[]`"),
                        format!(".{name}`"),
                    ];
                    assert!(ways.iter().any(|way| docs.contains(way)), "{name}");
                    walk(value, docs);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| walk(item, docs)),
            _ => {}
        }
    }
    let docs: String = include_str!("../src/replay/mod.rs")
        .lines()
        .filter(|line| line.starts_with("//!"))
        .collect();
    walk(&json(&made_up::report(3, 4)), &docs);
}

#[test]
fn times_are_whole_nanoseconds_and_nothing_is_null_but_what_is_empty() {
    let mut report = made_up::report(1, 50);
    report.runs[0].classes[0].wait.record(7);
    report.runs[0].classes[0].wait_queued =
        tollgate_report::Recording::new("none", "wait", "nobody");
    report.runs[0].classes[0].entitled_tokens = f64::NAN;
    let report = json(&report);
    let class = &report["runs"][0]["classes"][0];
    for (name, value) in class["wait"].as_object().unwrap() {
        assert_eq!(
            name.ends_with("_ns"),
            value.is_u64() && !name.starts_with('c'),
            "{name}"
        );
    }
    assert_eq!(class["wait_queued"]["count"], 0);
    assert!(class["wait_queued"]["p50_ns"].is_null() && class["wait_queued"]["mean_ns"].is_null());
    assert!(class["entitled_tokens"].is_null());
}

#[test]
fn a_class_stands_in_adjacent_rows_with_the_policy_named() {
    let text = made_up::report(3, 60).text();
    let table: Vec<&str> = text.lines().skip_while(|line| *line != "Classes").collect();
    let starts: Vec<Vec<&str>> = table[2..8]
        .iter()
        .map(|line| line.split_whitespace().take(2).collect())
        .collect();
    let expected = [
        ["premium", "fair"],
        ["premium", "arrival"],
        ["standard", "fair"],
        ["standard", "arrival"],
        ["batch", "fair"],
        ["batch", "arrival"],
    ];
    assert_eq!(starts, expected);
    assert!(text.contains("queue_full"), "the limits that were hit");
    let mut one = made_up::report(3, 60);
    one.runs.truncate(1);
    assert!(
        one.text()
            .lines()
            .all(|line| !line.starts_with("class  policy"))
    );
}

#[test]
fn clamped_durations_are_told_everywhere() {
    let mut report = made_up::report(1, 5);
    assert!(!report.text().contains("Clamped") && !report.html().contains("Clamped"));
    report.runs[0].classes[0].wait.record(u64::MAX);
    let count = report.runs[0].classes[0].wait.count();
    let sentence = format!("Clamped: 1 of {count} durations in wait");
    assert!(report.text().contains(&sentence));
    assert!(report.html().contains(&sentence));
    assert_eq!(json(&report)["runs"][0]["classes"][0]["wait"]["clamped"], 1);
}

#[test]
fn all_and_queued_only_are_labelled() {
    let text = made_up::report(1, 5).text();
    assert!(text.contains("Waits are those of all requests that were dispatched"));
    assert!(text.contains("Waits of those requests alone that had to wait."));
}

#[test]
fn recordings_come_with_their_policy_and_unique_tags() {
    let report = made_up::report(3, 5);
    let recordings: Vec<_> = report.recordings().collect();
    assert_eq!(recordings.len(), 2 * 3 * 3);
    assert_eq!(recordings[0].0, "fair");
    assert_eq!(recordings[9].0, "arrival order");
    let mut tags: Vec<&str> = recordings
        .iter()
        .map(|(_, recording)| recording.tag())
        .collect();
    tags.sort_unstable();
    tags.dedup();
    assert_eq!(tags.len(), 18);
}
