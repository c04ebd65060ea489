//! `tollgate check` from outside: what it prints, where, and its exit status.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

const SAMPLE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../crates/policy/sample-policy.yaml"
);

fn check(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .arg("check")
        .args(arguments)
        .output()
        .expect("the tool starts")
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("the output is UTF-8")
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("the output is UTF-8")
}

fn json_of(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("the output is JSON")
}

/// Checks a file with this text.
fn check_text(text: &[u8], arguments: &[&str]) -> (String, Output) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("p.yaml");
    std::fs::write(&path, text).expect("a file");
    let path = path.to_str().expect("a plain path").to_owned();
    let mut all = vec![path.as_str()];
    all.extend(arguments);
    let output = check(&all);
    (path, output)
}

#[test]
fn a_good_file_is_shown_with_what_it_comes_to() {
    let output = check(&[SAMPLE]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert_eq!(err(&output), "");
    let text = out(&output);
    let start = format!("{SAMPLE}: good\n\nprofile of the root\n");
    assert!(text.starts_with(&start), "{text}");
    let line = |start: &str, nth: usize| {
        let mut found = text
            .lines()
            .filter(|line| line.trim_start().starts_with(start));
        let found = found.nth(nth).unwrap_or_default();
        found.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for (class, shown) in [
        (
            "chat_warm",
            "chat_warm chat warm 0 to 3071 fcfs 8192 50.00 %",
        ),
        (
            "batch_cold",
            "batch_cold batch cold 3072 and more edf 2032 12.40 %",
        ),
        ("probe", "probe (by name) any fcfs 16 0.10 %"),
    ] {
        assert_eq!(line(class, 0), shown);
    }
    // Unset and 0 are told apart.
    assert_eq!(
        line("chat_warm", 1),
        "chat_warm 16384 2 unset 64 unset unset unset"
    );
    assert_eq!(line("probe", 1), "probe 16384 2 unset 0 unset unset unset");
    assert!(
        text.contains("profile of the model `example/small-model`"),
        "{text}"
    );
}

#[test]
fn json_holds_the_same_and_null_for_unset() {
    let output = check(&[SAMPLE, "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let value = json_of(&output);
    assert_eq!(value["valid"], json!(true));
    assert_eq!(value["warnings"], json!([]));
    assert_eq!(value["profiles"].as_array().map(Vec::len), Some(2));
    let root = &value["profiles"][0];
    assert_eq!(root["model"], json!(null));
    assert_eq!(root["source"], json!("root"));
    assert_eq!(root["max_attempts"], json!(3));
    assert_eq!(
        root["uncached_isl_buckets"],
        json!([
            {"bucket": "warm", "min_tokens": 0, "max_tokens": 3_071},
            {"bucket": "cold", "min_tokens": 3_072, "max_tokens": null},
        ])
    );
    let batch_cold = &root["policy_classes"][3];
    assert_eq!(batch_cold["cache_bucket"]["max_tokens"], json!(null));
    assert_eq!(batch_cold["busy_worker_ratio"], json!(0.5));
    assert_eq!(batch_cold["request_queue_limit_per_worker"], json!(null));
    let probe = &root["policy_classes"][4];
    assert_eq!(probe["request_queue_limit_per_worker"], json!(0));
    assert_eq!(probe["policy_family"], json!(null));
    assert_eq!(value["profiles"][1]["selector"], json!("least_loaded"));
}

#[test]
fn a_model_selects_the_profile_that_applies_to_it() {
    for (model, source) in [("example/small-model", "model"), ("other", "root")] {
        let value = json_of(&check(&[SAMPLE, "--json", "--model", model]));
        assert_eq!(value["profiles"].as_array().map(Vec::len), Some(1));
        assert_eq!(value["profiles"][0]["model"], json!(model));
        assert_eq!(value["profiles"][0]["source"], json!(source));
    }
    let (_, output) = check_text(b"router: {}\n", &["--model", "a\nb"]);
    let text = out(&output);
    assert!(text.contains("no profile for the model `a\\nb`"), "{text}");
    assert!(
        text.contains("no threshold, so load makes no request wait: default"),
        "{text}"
    );
}

#[test]
fn warnings_go_to_standard_error_and_into_the_json() {
    let (path, output) = check_text(b"router: {}\n", &[]);
    assert_eq!(output.status.code(), Some(0));
    let text = err(&output);
    assert!(
        text.starts_with(&format!("warning: {path}:1:1: router: ")),
        "{text}"
    );
    assert!(out(&output).starts_with(&format!("{path}: good, with 1 warning\n")));
    let (_, output) = check_text(b"router: {}\n", &["--json"]);
    assert_eq!(json_of(&output)["warnings"][0]["line"], json!(1));
    assert_eq!(err(&output), "");
}

#[test]
fn every_error_of_a_bad_file_is_printed_with_its_line() {
    let bad = b"selector: best\nmodels: 5\nqueue: 1\n";
    let (path, output) = check_text(bad, &[]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(out(&output), "");
    let text = err(&output);
    for place in ["1:11: selector", "2:9: models", "3:1: queue"] {
        assert!(text.contains(&format!("{path}:{place}: ")), "{text}");
    }
    let lines = "  1 | selector: best\n    |           ^\n  help: write one of cost";
    assert!(text.contains(lines), "{text}");

    let (_, output) = check_text(bad, &["--json"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(err(&output), "");
    let value = json_of(&output);
    assert_eq!(value["valid"], json!(false));
    assert_eq!(value["errors_omitted"], json!(0));
    let first = &value["errors"][0];
    assert_eq!(first["line"], json!(1));
    assert_eq!(first["column"], json!(11));
    assert_eq!(first["path"], json!("selector"));
    assert_eq!(first["source"], json!("selector: best"));
}

#[test]
fn what_is_no_policy_file_is_refused_with_one_message() {
    let brackets = vec![b'['; 100 << 20];
    for (text, message) in [
        (&b""[..], ": the file is empty\n"),
        (
            &b"\x7fELF\x02\x01\xff"[..],
            "not text: the byte 0xff is not UTF-8",
        ),
        (&brackets[..], ": the file is larger than 1048576 bytes\n"),
        (&brackets[..1 << 20], "recursion limit exceeded"),
    ] {
        let (_, output) = check_text(text, &[]);
        assert_eq!(output.status.code(), Some(2));
        assert!(err(&output).contains(message), "{}", err(&output));
        let (_, output) = check_text(text, &["--json"]);
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(json_of(&output)["errors"].as_array().map(Vec::len), Some(1));
    }
}

#[test]
fn a_name_of_any_length_is_cut_in_tables_and_whole_in_json() {
    for length in [61, 65_535, 65_536, 200_000] {
        let name = "x".repeat(length);
        let text = format!(
            "default_policy_family: a\n\
             uncached_isl_buckets: [{{min_tokens: 0, bucket: all}}]\n\
             policy_classes: [{{name: {name}, policy_family: a, cache_bucket: all, quantum: 7}}]\n"
        );
        let (_, output) = check_text(text.as_bytes(), &[]);
        assert_eq!(output.status.code(), Some(0), "{length}: {}", err(&output));
        let text_out = out(&output);
        let cut = format!("\n  {}…  a ", "x".repeat(59));
        assert!(text_out.contains(&cut), "{length}: {text_out:.2000}");
        let (_, output) = check_text(text.as_bytes(), &["--json"]);
        let json = json_of(&output);
        assert_eq!(json["profiles"][0]["policy_classes"][0]["name"], name);
    }
}

#[test]
fn what_cannot_be_read_is_refused() {
    let directory = env!("CARGO_MANIFEST_DIR");
    let missing = format!("{directory}/no-such-file.yaml");
    assert!(!Path::new(&missing).exists());
    for path in [directory, &missing] {
        let output = check(&[path]);
        assert_eq!(output.status.code(), Some(2));
        assert!(
            err(&output).starts_with(&format!("{path}: ")),
            "{}",
            err(&output)
        );
        let output = check(&[path, "--json"]);
        assert_eq!(output.status.code(), Some(2));
        let error = &json_of(&output)["errors"][0];
        assert_eq!(error["line"], json!(null));
        assert!(
            error["message"]
                .as_str()
                .is_some_and(|message| !message.is_empty())
        );
    }
    assert_eq!(check(&[]).status.code(), Some(2));
}
