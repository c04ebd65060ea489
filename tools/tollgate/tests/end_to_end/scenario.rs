//! `tollgate scenario` on small scenarios.

use std::io::{BufRead, BufReader, Read, Write};

use serde_json::Value;

use crate::tool::{Files, assert_events, run, start, wait};

/// One request at a time per worker: with a threshold of 0, any load makes a worker busy.
const POLICY: &str = "\
default_policy_family: small
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
- {name: big, policy_family: big, cache_bucket: all, quantum: 20, prefill_busy_threshold: 0}
- {name: small, policy_family: small, cache_bucket: all, quantum: 10, prefill_busy_threshold: 0}
models:
  tiny:
    default_policy_family: only
    uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
    policy_classes:
    - {name: only, policy_family: only, cache_bucket: all, quantum: 7}
";

/// Plays `operations` under [`POLICY`] with further `arguments`.
fn play(arguments: &[&str], operations: &str) -> Vec<Value> {
    let files = Files::new();
    files.write("policy.yaml", POLICY);
    files.write("ops.jsonl", operations);
    let mut all = vec!["scenario", "--policy", "policy.yaml", "ops.jsonl"];
    all.extend(arguments);
    let from_file = run(files.path(), &all, b"");
    assert_eq!((from_file.code, from_file.stderr.as_str()), (Some(0), ""));
    all.retain(|argument| *argument != "ops.jsonl");
    let from_stdin = run(files.path(), &all, operations.as_bytes());
    assert_eq!(
        from_stdin.stdout, from_file.stdout,
        "a file and a stream are the same"
    );
    from_file.events()
}

fn expect(name: &str, operations: &str, expected: &str) {
    let want: Vec<Value> = expected
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_events(name, &want, &play(&[], operations));
}

#[test]
fn s6_2_a_burst_lasts_as_long_as_the_turn_pays() {
    expect(
        "bursts",
        r#"{"op": "worker", "id": 1}
{"op": "submit", "id": "b0", "family": "big", "isl": 10}
{"op": "submit", "id": "b1", "family": "big", "isl": 10}
{"op": "submit", "id": "b2", "family": "big", "isl": 10}
{"op": "submit", "id": "s0", "family": "small", "isl": 10}
{"op": "submit", "id": "s1", "isl": 14, "cached": 4}
{"op": "arbitrate"}
{"op": "complete", "id": "b0"}
{"op": "advance", "us": 30}
{"op": "arbitrate", "max": 1}
{"op": "complete", "id": "b1"}
{"op": "arbitrate", "max": 1}
{"op": "complete", "id": "s0"}
{"op": "arbitrate", "max": 1}
{"op": "complete", "id": "b2"}
{"op": "arbitrate"}
{"op": "state"}"#,
        r#"{"event": "queued", "id": "b0", "class": "big", "cost": 10, "lane": "shared"}
{"event": "queued", "id": "b1"}
{"event": "queued", "id": "b2"}
{"event": "queued", "id": "s0", "class": "small"}
{"event": "queued", "id": "s1", "class": "small", "cost": 10}
{"event": "dispatched", "now_us": 0, "id": "b0", "worker": [1, 0], "deficit": 10, "attempt": 1, "wait_us": 0}
{"event": "dry", "waiting": 4}
{"event": "dispatched", "now_us": 30, "id": "b1", "deficit": 0, "wait_us": 30}
{"event": "dispatched", "id": "s0", "deficit": 0}
{"event": "dispatched", "id": "b2", "deficit": 0}
{"event": "dispatched", "id": "s1", "cost": 10, "deficit": 0}
{"event": "dry", "waiting": 0}
{"event": "state", "waiting": 0, "classes": [{"name": "big", "dispatched": 3, "charged_tokens": 30}, {"name": "small", "dispatched": 2, "charged_tokens": 20}], "workers": [{"id": 1, "rank": 0, "prefill_tokens": 10, "active": 1}]}"#,
    );
}

#[test]
fn s8_each_way_out_is_told_once() {
    expect(
        "ways out",
        r#"{"op": "worker", "id": 1}
{"op": "worker", "id": 2}
{"op": "load", "worker": [2, 0], "tokens": 1}
{"op": "submit", "id": "pinned", "family": "big", "isl": 5, "pin": [2, 0]}
{"op": "submit", "id": "late", "family": "big", "isl": 5, "pin": [2, 0], "deadline_us": 50}
{"op": "submit", "id": "gone", "family": "big", "isl": 5, "pin": [2, 0]}
{"op": "submit", "id": "nowhere", "isl": 5, "require_taints": ["gpu"]}
{"op": "submit", "id": "tooLate", "isl": 5, "deadline_us": 0}
{"op": "submit", "id": "impatient", "isl": 5, "pin": [2, 0], "may_wait": false}
{"op": "cancel", "id": "gone"}
{"op": "cancel", "id": "gone"}
{"op": "arbitrate"}
{"op": "advance", "us": 50}
{"op": "remove_worker", "id": 2}
{"op": "arbitrate"}
{"op": "stop"}
{"op": "submit", "id": "after", "isl": 5}"#,
        r#"{"event": "queued", "id": "pinned", "lane": [2, 0]}
{"event": "queued", "id": "late"}
{"event": "queued", "id": "gone"}
{"event": "failed", "id": "nowhere", "class": "small", "reason": "no_eligible_worker"}
{"event": "expired", "id": "tooLate", "class": "small"}
{"event": "queued", "id": "impatient"}
{"event": "cancelled", "id": "gone", "class": "big"}
{"event": "stale", "op": "cancel", "id": "gone"}
{"event": "rejected", "id": "impatient", "limit_kind": "may_wait", "current": 0, "limit": 0, "workers": 2}
{"event": "dry", "waiting": 2}
{"event": "expired", "now_us": 50, "id": "late", "class": "big"}
{"event": "failed", "now_us": 50, "id": "pinned", "class": "big", "reason": "pinned_worker_unknown"}
{"event": "dry", "waiting": 0}
{"event": "closed", "id": "after"}"#,
    );
}

#[test]
fn s9_4_a_failed_hand_over_goes_elsewhere() {
    expect(
        "hand over",
        r#"{"op": "worker", "id": 1}
{"op": "worker", "id": 2}
{"op": "submit", "id": "x", "isl": 5}
{"op": "arbitrate", "max": 1}
{"op": "requeue", "id": "x"}
{"op": "arbitrate", "max": 1}
{"op": "complete", "id": "x", "attempt": 1}
{"op": "complete", "id": "x", "attempt": 2}"#,
        r#"{"event": "queued", "id": "x"}
{"event": "dispatched", "id": "x", "worker": [1, 0], "attempt": 1}
{"event": "requeued", "id": "x", "class": "small"}
{"event": "dispatched", "id": "x", "worker": [2, 0], "attempt": 2}
{"event": "stale", "op": "complete", "id": "x"}"#,
    );
}

#[test]
fn s3_7_a_reload_takes_a_path_and_keeps_the_command_lines_choices() {
    let files = Files::new();
    files.write("policy.yaml", POLICY);
    files.write("second.yaml", POLICY.replace("quantum: 20", "quantum: 900"));
    files.write("broken.yaml", "policy_classes: [{name: a}]\n");
    let operations = br#"{"op": "worker", "id": 1}
{"op": "worker", "id": 2}
{"op": "load", "worker": [1, 0], "tokens": 0}
{"op": "reload", "policy": "second.yaml"}
{"op": "reload", "policy": "broken.yaml"}
{"op": "reload", "policy": "missing.yaml"}
{"op": "submit", "id": "x", "isl": 5}
{"op": "arbitrate", "max": 1}
{"op": "prefill_done", "id": "x"}
{"op": "submit", "id": "y", "isl": 5}
{"op": "arbitrate", "max": 1}
{"op": "state"}
"#;
    let arguments = [
        "scenario",
        "--policy",
        "policy.yaml",
        "--selector",
        "round_robin",
    ];
    let played = run(files.path(), &arguments, operations);
    assert_eq!(
        played.code,
        Some(2),
        "a policy that cannot be loaded is an invalid line"
    );
    let events = played.events();
    let names: Vec<&str> = events
        .iter()
        .filter_map(|event| event["event"].as_str())
        .collect();
    let expected = [
        "reloaded",
        "invalid",
        "invalid",
        "queued",
        "dispatched",
        "queued",
        "dispatched",
        "state",
    ];
    assert_eq!(names, expected);
    assert_eq!(events[0]["generation"], 1);
    assert_eq!(
        (&events[1]["line"], &events[2]["line"]),
        (&5.into(), &6.into())
    );
    assert!(
        events[1]["error"]
            .as_str()
            .is_some_and(|error| error.contains("broken.yaml:1:"))
    );
    assert!(
        events[2]["error"]
            .as_str()
            .is_some_and(|error| error.contains("missing.yaml: "))
    );
    let workers = [&events[4]["worker"], &events[6]["worker"]];
    assert_eq!(
        workers,
        [&serde_json::json!([1, 0]), &serde_json::json!([2, 0])]
    );
    assert_eq!(events[7]["classes"][0]["quantum"], 900);
}

#[test]
fn the_command_line_overrides_the_policy() {
    let workers = "{\"op\": \"worker\", \"id\": 1}\n{\"op\": \"worker\", \"id\": 2}\n";
    let chosen = |arguments: &[&str], operations: &str| {
        let events = play(arguments, &format!("{workers}{operations}"));
        let last = events.last().expect("events").clone();
        assert_eq!(last["event"], "dispatched", "{last}");
        last["worker"][0].as_u64().expect("a worker")
    };
    let two = "{\"op\": \"submit\", \"id\": \"x\", \"isl\": 5, \"pin\": [1, 0]}
{\"op\": \"arbitrate\", \"max\": 1}
{\"op\": \"prefill_done\", \"id\": \"x\"}
{\"op\": \"load\", \"worker\": [2, 0], \"tokens\": 3}
{\"op\": \"submit\", \"id\": \"y\", \"family\": \"only\", \"isl\": 5}
{\"op\": \"arbitrate\", \"max\": 1}\n";
    let model = ["--model", "tiny"];
    assert_eq!(chosen(&model, two), 1, "worker 1 has the lower load");
    assert_eq!(
        chosen(&[&model[..], &["--decode-weight", "100"]].concat(), two),
        2
    );
    assert_eq!(
        chosen(&[&model[..], &["--selector", "round_robin"]].concat(), two),
        2
    );

    let state = play(&model, "{\"op\": \"state\"}\n");
    assert_eq!(state[0]["classes"][0]["name"], "only");
    let root = play(&["--model", "another"], "{\"op\": \"state\"}\n");
    assert_eq!(root[0]["classes"][0]["name"], "big");
}

#[test]
fn s10_2_a_seed_decides_the_draws() {
    let mut operations: String = (1..=8)
        .map(|id| format!("{{\"op\": \"worker\", \"id\": {id}}}\n"))
        .collect();
    for n in 0..6 {
        operations.push_str(&format!(
            "{{\"op\": \"submit\", \"id\": \"r{n}\", \"isl\": 5}}\n"
        ));
    }
    operations.push_str("{\"op\": \"arbitrate\"}\n");
    let drawn = |seed: &str| play(&["--selector", "power_of_two", "--seed", seed], &operations);
    assert_eq!(drawn("1"), drawn("1"));
    let first = drawn("1");
    assert!(["2", "3", "4", "5"].iter().any(|seed| drawn(seed) != first));
}

#[test]
fn explain_adds_lines_and_changes_none() {
    let operations = "{\"op\": \"worker\", \"id\": 1}
{\"op\": \"submit\", \"id\": \"x\", \"isl\": 5}
{\"op\": \"submit\", \"id\": \"y\", \"isl\": 5}
{\"op\": \"arbitrate\"}\n";
    let plain = play(&[], operations);
    let mut explained = play(&["--explain"], operations);
    let names: Vec<String> = explained
        .iter()
        .map(|event| event["event"].as_str().unwrap_or("").to_owned())
        .collect();
    let expected = [
        "queued",
        "queued",
        "dispatched",
        "explain",
        "dry",
        "explain",
    ];
    assert_eq!(names, expected);
    assert_eq!(explained[3]["selection"][1]["class"], "small");
    let steps = &explained[3]["selection"][1]["steps"];
    let expected = serde_json::json!([
        "turn opened: 10 granted, deficit 10",
        "dispatched: paid 5, 5 left"
    ]);
    assert_eq!(*steps, expected);
    assert_eq!(explained[3]["waiting"][0]["waits_for"], "gate");
    explained.retain(|event| event["event"] != "explain");
    assert_eq!(explained, plain);
}

#[test]
fn an_answer_comes_before_the_next_question() {
    let files = Files::new();
    files.write("policy.yaml", POLICY);
    let mut child = start(files.path(), &["scenario", "--policy", "policy.yaml"]);
    let mut stdin = child.stdin.take().expect("piped");
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    for us in [10, 30] {
        writeln!(stdin, "{{\"op\": \"advance\", \"us\": {us}}}").expect("the tool reads");
        writeln!(stdin, "{{\"op\": \"arbitrate\"}}").expect("the tool reads");
        let mut answer = String::new();
        stdout.read_line(&mut answer).expect("the tool answers");
        assert!(answer.contains("\"dry\""), "{answer}");
    }
    drop(stdin);
    assert_eq!(wait(&mut child), Some(0));
}

#[test]
fn a_reader_who_goes_away_ends_the_run_quietly() {
    let files = Files::new();
    files.write("policy.yaml", POLICY);
    files.write("ops.jsonl", "{\"op\": \"state\"}\n".repeat(10_000));
    let arguments = ["scenario", "--policy", "policy.yaml", "ops.jsonl"];
    let mut child = start(files.path(), &arguments);
    let mut first = [0; 16];
    child
        .stdout
        .take()
        .expect("piped")
        .read_exact(&mut first)
        .expect("some output");
    assert_eq!(wait(&mut child), Some(0));
    let mut stderr = String::new();
    child
        .stderr
        .take()
        .expect("piped")
        .read_to_string(&mut stderr)
        .expect("text");
    assert_eq!(stderr, "");
}

#[cfg(target_os = "linux")]
#[test]
fn an_output_that_fails_fails_the_run() {
    let files = Files::new();
    files.write("policy.yaml", POLICY);
    files.write("ops.jsonl", "{\"op\": \"state\"}\n");
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .expect("Linux has it");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .args(["scenario", "--policy", "policy.yaml", "ops.jsonl"])
        .current_dir(files.path())
        .stdout(full)
        .output()
        .expect("the tool starts");
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).expect("text");
    assert!(
        stderr.starts_with("tollgate: cannot write the events: No space"),
        "{stderr}"
    );
    assert_eq!(stderr.matches("No space").count(), 1, "{stderr}");
}
