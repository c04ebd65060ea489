//! `tollgate replay` on traces and options that are wrong.

use crate::tool::{Files, run};

const GOOD: &str = "2023-11-16 18:17:03.9799600,4808,10\n";
const HEADER: &str = "TIMESTAMP,ContextTokens,GeneratedTokens\n";

fn assert_refused(contents: &[u8], wanted: &str) {
    let shown = String::from_utf8_lossy(&contents[..contents.len().min(200)]).into_owned();
    let files = Files::new();
    files.write("t.csv", contents);
    let refused = run(files.path(), &["replay", "t.csv"], b"");
    assert_eq!(
        (refused.code, refused.stdout.as_str()),
        (Some(2), ""),
        "{shown}"
    );
    assert!(
        refused.stderr.starts_with(wanted),
        "{shown}: {}",
        refused.stderr
    );
    assert_eq!(
        refused.stderr.lines().count(),
        1,
        "{shown}: {}",
        refused.stderr
    );
}

#[test]
fn a_wrong_row_is_named_by_file_and_line() {
    for (row, wanted) in [
        ("2023-11-16 18:17:04", "3 fields expected, 1 found"),
        ("2023-11-16 18:17:04,1", "3 fields expected, 2 found"),
        ("2023-11-16 18:17:04,1,2,3", "3 fields expected, 4 found"),
        ("2023-11-16 18:17:04,-1,2", "ContextTokens must be"),
        ("2023-11-16 18:17:04,NaN,2", "ContextTokens must be"),
        ("2023-11-16 18:17:04,4294967296,2", "ContextTokens must be"),
        (
            "2023-11-16 18:17:04,99999999999999999999999,2",
            "ContextTokens must be",
        ),
        ("2023-11-16 18:17:04,1,inf", "GeneratedTokens must be"),
        ("2023-11-16 25:17:04,1,2", "TIMESTAMP: "),
        ("NaN,1,2", "TIMESTAMP: "),
        ("2023-11-16 18:17:0", "3 fields expected, 1 found"),
    ] {
        let text = format!("{HEADER}{GOOD}{row}\n");
        assert_refused(text.as_bytes(), &format!("t.csv:3: {wanted}"));
        let text = format!("{GOOD}{row}\n");
        assert_refused(text.as_bytes(), &format!("t.csv:2: {wanted}"));
    }
    let mut binary = GOOD.as_bytes().to_vec();
    binary.extend_from_slice(b"\xff\xfe\x00,1,2\n");
    assert_refused(&binary, "t.csv:2: not UTF-8");
}

#[test]
fn a_file_that_is_no_trace_is_refused() {
    assert_refused(b"", "t.csv: no requests");
    assert_refused(b"\n\n", "t.csv: no requests");
    assert_refused(HEADER.as_bytes(), "t.csv: no requests");
    assert_refused(
        b"TIMESTAMP,ContextTokens\n",
        "t.csv:1: the header names no column Generated",
    );
    assert_refused(
        b"{\"timestamp\": 0, \"input_length\": 5}\n",
        "t.csv:1: missing field `output_length`",
    );
    assert_refused(
        b"\x7fELF\x02\x01\x01\x00",
        "t.csv:1: the header names no column",
    );
    assert_refused(
        &b"[".repeat(100 << 20),
        "t.csv:1: the line is longer than 1048576 bytes",
    );
}

#[test]
fn what_cannot_be_read_is_bad_input() {
    let files = Files::new();
    for trace in [".", "missing.csv"] {
        let refused = run(files.path(), &["replay", trace], b"");
        assert_eq!(
            (refused.code, refused.stdout.as_str()),
            (Some(2), ""),
            "{trace}"
        );
        assert!(
            refused.stderr.starts_with(&format!("{trace}: ")),
            "{}",
            refused.stderr
        );
    }
}

#[test]
fn time_that_goes_backwards_is_sorted_with_a_warning() {
    let files = Files::new();
    files.write("t.csv", format!("{GOOD}2023-11-16 18:17:01,5,1\n"));
    let sorted = run(files.path(), &["replay", "t.csv"], b"");
    assert_eq!(sorted.code, Some(0), "{}", sorted.stderr);
    assert!(
        sorted
            .stderr
            .starts_with("t.csv:2: warning: earlier than the row above it"),
        "{}",
        sorted.stderr
    );
    files.write("t.csv", format!("2023-11-16 18:17:01,5,1\n{GOOD}"));
    let straight = run(files.path(), &["replay", "t.csv"], b"");
    assert_eq!(sorted.stdout, straight.stdout);
}

#[test]
fn families_that_the_policy_does_not_know_are_refused() {
    let files = Files::new();
    files.write("t.csv", GOOD);
    for (arguments, wanted) in [
        (
            &["--family", "premuim=1"][..],
            "--family premuim: the policy knows only premium, regular",
        ),
        (
            &["--family", "premium=1", "--family", "premium=2"],
            "--family premium: given twice",
        ),
        (&["--policy", "missing.yaml"], "missing.yaml: "),
    ] {
        let refused = run(
            files.path(),
            &[&["replay", "t.csv"], arguments].concat(),
            b"",
        );
        assert_eq!(
            (refused.code, refused.stdout.as_str()),
            (Some(2), ""),
            "{arguments:?}"
        );
        assert!(refused.stderr.starts_with(wanted), "{}", refused.stderr);
    }
}

#[test]
fn numbers_that_are_none_are_refused_by_name() {
    let files = Files::new();
    files.write("t.csv", GOOD);
    for option in ["--seed", "--workers", "--limit", "--speed"] {
        let refused = run(files.path(), &["replay", "t.csv", option, "-1"], b"");
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""));
        let wanted = format!("error: invalid value '-1' for '{option} ");
        assert!(refused.stderr.starts_with(&wanted), "{}", refused.stderr);
    }
    let huge = [
        "replay",
        "t.csv",
        "--family",
        "premium=1e308",
        "--family",
        "regular=1e308",
    ];
    let refused = run(files.path(), &huge, b"");
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""));
    let wanted = "--family: the shares add up to more than 1.8e308";
    assert!(refused.stderr.starts_with(wanted), "{}", refused.stderr);
    let one = run(files.path(), &huge[..4], b"");
    assert_eq!(one.code, Some(0), "{}", one.stderr);
    assert!(one.stdout.contains("families: premium=1"), "{}", one.stdout);
}

#[test]
fn a_clock_that_runs_out_is_a_failure() {
    let files = Files::new();
    files.write("t.csv", format!("{GOOD}2023-11-16 18:17:05,5,1\n"));
    let failed = run(files.path(), &["replay", "t.csv", "--speed", "1e-300"], b"");
    assert_eq!((failed.code, failed.stdout.as_str()), (Some(1), ""));
    let wanted = "\ntollgate: virtual time ran out at 18446744073.710 s";
    assert!(failed.stderr.contains(wanted), "{}", failed.stderr);
}

#[test]
fn wrong_lines_are_left_out_where_that_is_asked() {
    let files = Files::new();
    files.write("t.csv", format!("{GOOD}nonsense\n{GOOD}"));
    let skipped = run(files.path(), &["replay", "t.csv", "--skip-bad"], b"");
    assert_eq!(skipped.code, Some(0), "{}", skipped.stderr);
    let wanted =
        "t.csv:2: warning: 3 fields expected, 1 found; left out, with 1 wrong line in all\n";
    assert!(skipped.stderr.starts_with(wanted), "{}", skipped.stderr);
    assert!(
        skipped.stdout.contains("wrong lines left out: 1"),
        "{}",
        skipped.stdout
    );
    files.write("t.csv", "nonsense\n");
    let nothing = run(
        files.path(),
        &["replay", "t.csv", "--skip-bad", "--format", "tollgate"],
        b"",
    );
    assert_eq!(nothing.code, Some(2));
    let wanted = "t.csv: no requests: all 1 lines are wrong; line 1: ";
    assert!(nothing.stderr.starts_with(wanted), "{}", nothing.stderr);
}

#[test]
fn rows_of_families_that_the_policy_does_not_know_are_refused() {
    let files = Files::new();
    files.write(
        "t.jsonl",
        "{\"arrival_ns\":0,\"isl\":1,\"output\":1,\"family\":\"gold\"}\n",
    );
    let refused = run(files.path(), &["replay", "t.jsonl"], b"");
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""));
    let wanted =
        "t.jsonl: family \"gold\": policy built-in knows only premium, regular; give rules";
    assert!(refused.stderr.starts_with(wanted), "{}", refused.stderr);
    let ruled = run(
        files.path(),
        &["replay", "t.jsonl", "--family", "premium=1"],
        b"",
    );
    assert_eq!(ruled.code, Some(0), "{}", ruled.stderr);
}

#[test]
fn rules_and_models_that_make_no_sense_are_refused_by_name() {
    let files = Files::new();
    files.write("t.csv", GOOD);
    for (option, value, wanted) in [
        (
            "--family",
            "premium",
            "write NAME=SHARE or NAME=isl:FROM..TO",
        ),
        (
            "--family",
            "premium=isl:5..5",
            "\"5..5\" is no range of tokens that holds any",
        ),
        ("--family", "premium=isl:-1..5", "\"-1..5\" is no range"),
        ("--family", "premium=NaN", "\"NaN\" is not a number above 0"),
        ("--format", "csv", "there are azure, mooncake, tollgate"),
        ("--prefill", "1,2", "2 numbers, where A,B,C are three"),
        (
            "--prefill",
            "-1,2,3",
            "\"-1\" is not a number of milliseconds from 0",
        ),
        (
            "--decode",
            "inf",
            "\"inf\" is not a number of milliseconds from 0",
        ),
        ("--sequences", "0", "0 is not in 1.."),
        ("--kv-tokens", "0", "0 is not in 1.."),
        ("--batched-tokens", "0", "0 is not in 1.."),
        ("--repeat", "0", "0 is not in 1.."),
    ] {
        let refused = run(files.path(), &["replay", "t.csv", option, value], b"");
        assert_eq!(
            (refused.code, refused.stdout.as_str()),
            (Some(2), ""),
            "{option} {value}"
        );
        assert!(
            refused.stderr.contains(wanted),
            "{option} {value}: {}",
            refused.stderr
        );
    }
    let column = run(
        files.path(),
        &["replay", "t.csv", "--family-by", "user"],
        b"",
    );
    assert_eq!(column.code, Some(2));
    assert!(
        column
            .stderr
            .starts_with("t.csv:1: there is no column \"user\""),
        "{}",
        column.stderr
    );
}

#[test]
fn outputs_that_cannot_be_are_refused_before_anything_is_played() {
    let files = Files::new();
    files.write("t.csv", GOOD);
    let common = ["replay", "t.csv", "--out", "o", "--emit", "o/report.json"];
    let refused = run(files.path(), &common, b"");
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""));
    assert!(
        refused.stderr.contains("a file that --out writes"),
        "{}",
        refused.stderr
    );
    for (option, path, wanted) in [
        ("--out", "t.csv/below", "--out t.csv/below: "),
        ("--out", "t.csv", "--out t.csv: "),
        ("--emit", "missing/own.jsonl", "--emit missing/own.jsonl: "),
        ("--emit", "./t.csv", "--emit ./t.csv: an input of this run"),
    ] {
        let refused = run(files.path(), &["replay", "t.csv", option, path], b"");
        assert_eq!(
            (refused.code, refused.stdout.as_str()),
            (Some(2), ""),
            "{option}"
        );
        assert!(
            refused.stderr.starts_with(wanted),
            "{option}: {}",
            refused.stderr
        );
    }
    let trace = std::fs::read_to_string(files.path().join("t.csv")).expect("it is there");
    assert_eq!(trace, GOOD, "it was left alone");
}
