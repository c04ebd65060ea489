//! `tollgate scenario` on input that is wrong.

use crate::tool::{Files, Run, run};

const POLICY: &str = "\
default_policy_family: a
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes: [{name: a, policy_family: a, cache_bucket: all, quantum: 10}]
";

fn play(operations: &[u8]) -> Run {
    let files = Files::new();
    files.write("policy.yaml", POLICY);
    files.write("ops.jsonl", operations);
    run(
        files.path(),
        &["scenario", "--policy", "policy.yaml", "ops.jsonl"],
        b"",
    )
}

/// The bad line is reported with its number and `wanted`, changes nothing, and the run goes on.
fn assert_invalid(line: &[u8], wanted: &str) {
    let shown = String::from_utf8_lossy(line).into_owned();
    let mut operations = b"{\"op\": \"worker\", \"id\": 1}\n".to_vec();
    operations.extend_from_slice(b"{\"op\": \"submit\", \"id\": \"x\", \"isl\": 5}\n");
    operations.extend_from_slice(line);
    operations.extend_from_slice(b"\n{\"op\": \"arbitrate\"}\n");
    let played = play(&operations);
    assert_eq!(played.code, Some(2), "{shown}: {}", played.stderr);
    assert_eq!(played.stderr, "invalid lines: 1 of 4\n");
    let events = played.events();
    let names: Vec<&str> = events
        .iter()
        .filter_map(|event| event["event"].as_str())
        .collect();
    assert_eq!(names, ["queued", "invalid", "dispatched", "dry"], "{shown}");
    assert_eq!(events[1]["line"], 3, "{shown}");
    let error = events[1]["error"].as_str().unwrap_or_default();
    assert!(error.contains(wanted), "{shown}: {error}");
    assert!(
        !error.contains('\n') && error.len() < 300,
        "{shown}: {error}"
    );
}

#[test]
fn a_line_that_is_no_operation_is_told_and_passed_over() {
    for (line, wanted) in [
        (r#"{"op": "submit", "id": "y", "is"#, "ends before"),
        (r#"{"op": "fly"}"#, "fly"),
        (r#"{"id": "y"}"#, "op"),
        (r#"{"op": "submit", "id": "y"}"#, "isl"),
        (r#"{"op": "submit", "id": "y", "isl": "many"}"#, "isl"),
        (r#"{"op": "submit", "id": 7, "isl": 1}"#, "id"),
        (
            r#"{"op": "submit", "id": "y", "isl": 1, "colour": 2}"#,
            "colour",
        ),
        (r#"{"op": "submit", "id": "y", "isl": 1, "isl": 2}"#, "isl"),
        (r#"{"op": "submit", "id": "x", "isl": 1}"#, "used before"),
        (r#"{"op": "submit", "id": "y", "isl": 4294967296}"#, "isl"),
        (r#"{"op": "submit", "id": "y", "isl": -1}"#, "isl"),
        (r#"{"op": "submit", "id": "y", "isl": 1.5}"#, "isl"),
        (
            r#"{"op": "submit", "id": "y", "isl": 1, "priority_jump": 1e999}"#,
            "number",
        ),
        (
            r#"{"op": "submit", "id": "y", "isl": 1, "priority_jump": NaN}"#,
            "JSON",
        ),
        (
            r#"{"op": "submit", "id": "y", "isl": 1, "pin": [1]}"#,
            "pin",
        ),
        (r#"{"op": "worker", "id": 18446744073709551616}"#, "id"),
        (r#"{"op": "worker", "id": 2, "ranks": 0}"#, "ranks"),
        (
            r#"{"op": "worker", "id": 2, "first_rank": 4294967295, "ranks": 2}"#,
            "rank",
        ),
        (r#"{"op": "advance", "us": 1} {"op": "state"}"#, "JSON"),
        (r#"["op", "state"]"#, "object"),
        ("null", "object"),
        ("\u{0}\u{1}\u{2}", "JSON"),
        ("state", "JSON"),
    ] {
        assert_invalid(line.as_bytes(), wanted);
    }
    assert_invalid(b"\xff\xfe{\"op\"", "not UTF-8");
    assert_invalid(&b"[".repeat(100_000), "");
}

#[test]
fn a_hundred_megabytes_of_brackets_are_one_invalid_line() {
    let played = play(&b"[".repeat(100 << 20));
    assert_eq!(played.code, Some(2));
    let events = played.events();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["line"], 1);
    assert_eq!(events[0]["error"], "the line is longer than 1048576 bytes");
}

#[test]
fn an_empty_file_is_an_empty_run() {
    let played = play(b"");
    assert_eq!((played.code, played.stdout.as_str()), (Some(0), ""));
    assert_eq!(played.stderr, "there were no operations\n");
}

#[test]
fn what_cannot_be_read_is_bad_input() {
    let files = Files::new();
    files.write("policy.yaml", POLICY);
    for (operations, wanted) in [(".", ".: "), ("missing.jsonl", "missing.jsonl: ")] {
        let played = run(
            files.path(),
            &["scenario", "--policy", "policy.yaml", operations],
            b"",
        );
        assert_eq!(
            (played.code, played.stdout.as_str()),
            (Some(2), ""),
            "{operations}"
        );
        assert!(played.stderr.starts_with(wanted), "{}", played.stderr);
        assert_eq!(played.stderr.lines().count(), 1, "{}", played.stderr);
    }
}

#[test]
fn a_policy_that_is_none_is_bad_input() {
    let files = Files::new();
    files.write("empty.yaml", "");
    files.write(
        "broken.yaml",
        "policy_classes: [{name: a, quantum: 0, colour: red}]\n",
    );
    files.write("binary.yaml", b"\x00\xff\xfe");
    files.write("brackets.yaml", b"[".repeat(100 << 20));
    for (policy, wanted) in [
        ("missing.yaml", "missing.yaml: "),
        (".", ".: "),
        ("empty.yaml", "empty.yaml"),
        ("broken.yaml", "broken.yaml:1:"),
        ("binary.yaml", "binary.yaml:1:"),
        ("brackets.yaml", "larger than 1048576 bytes"),
    ] {
        let played = run(files.path(), &["scenario", "--policy", policy], b"");
        assert_eq!(
            (played.code, played.stdout.as_str()),
            (Some(2), ""),
            "{policy}"
        );
        assert!(
            played.stderr.contains(wanted),
            "{policy}: {}",
            played.stderr
        );
    }
    let broken = run(files.path(), &["scenario", "--policy", "broken.yaml"], b"");
    for every in ["quantum", "colour"] {
        assert!(broken.stderr.contains(every), "{every}: {}", broken.stderr);
    }
}

#[test]
fn numbers_below_zero_are_refused_by_name() {
    let files = Files::new();
    files.write("policy.yaml", POLICY);
    for option in ["--seed", "--slots", "--decode-weight"] {
        let arguments = ["scenario", "--policy", "policy.yaml", option, "-1"];
        let refused = run(files.path(), &arguments, b"");
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""));
        let wanted = format!("error: invalid value '-1' for '{option} ");
        assert!(refused.stderr.starts_with(&wanted), "{}", refused.stderr);
    }
}
