//! `tollgate report`: what it reads, merges, compares, and how it ends.

use std::fs;

use serde_json::Value;
use tollgate_report::Recording;
use tollgate_report::bench::{BenchReport, Population};

use crate::made_up_bench;
use crate::tool::{Files, Run, run};

/// A directory with `base.json`, its like `same.json`, and `slow.json` that is worse by half.
fn files() -> Files {
    let files = Files::new();
    for (name, seed, slower) in [
        ("base.json", 1, 1.0),
        ("same.json", 2, 1.0),
        ("slow.json", 3, 1.5),
    ] {
        files.write(name, json(&made_up_bench::report(seed, slower)));
    }
    files
}

fn json(report: &BenchReport) -> String {
    report.json().expect("it can be serialised")
}

fn report(files: &Files, arguments: &[&str]) -> Run {
    let all = [&["report"], arguments].concat();
    run(files.path(), &all, b"")
}

fn assert_refused(run: &Run, wanted: &str) {
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert_eq!(run.stdout, "");
    assert!(run.stderr.contains(wanted), "{wanted:?}: {}", run.stderr);
}

#[test]
fn a_report_is_rendered_as_text_and_json() {
    let files = files();
    let expected = made_up_bench::report(1, 1.0);
    let text = report(&files, &["base.json"]);
    assert_eq!((text.code, text.stderr.as_str()), (Some(0), ""));
    assert_eq!(text.stdout, expected.text());
    let as_json = report(&files, &["base.json", "--json"]);
    assert_eq!(as_json.stdout, json(&expected));
}

#[test]
fn several_files_are_merged() {
    let files = files();
    let merged = report(&files, &["base.json", "same.json", "--json"]);
    let merged = BenchReport::from_json(&merged.stdout).expect("a report");
    let arm = &merged.suites[0].arms[0];
    let twice = 2 * made_up_bench::REPETITIONS;
    assert_eq!(arm.metrics[0].samples.len(), twice);
    let whole = arm.populations[0].whole();
    assert_eq!(whole.count(), (twice * made_up_bench::DURATIONS) as u64);
    let mut other = made_up_bench::report(1, 1.0);
    other.suites[0].arms[0].settings[0].value = "4".to_owned();
    files.write("other.json", json(&other));
    let refused = report(&files, &["base.json", "other.json"]);
    let wanted = "other.json: cannot be merged with those before it: suite engine, arm \
                  full_life/fcfs/spin: threads is 2 in one report and 4 in another";
    assert_refused(&refused, wanted);
}

#[test]
fn all_forms_are_written_and_the_log_is_read_again() {
    let files = files();
    let written = report(&files, &["base.json", "--out", "out/deep"]);
    assert_eq!(written.code, Some(0), "{}", written.stderr);
    let out = files.path().join("out/deep");
    let read = |name: &str| fs::read_to_string(out.join(name)).expect(name);
    assert_eq!(read("report.txt"), written.stdout);
    BenchReport::from_json(&read("report.json")).expect("a report");
    assert!(read("report.html").starts_with("<!DOCTYPE html>"));
    assert!(read("engine.full_life_fcfs_spin.life.hgrm").contains("#[Max"));
    // The name does not say what it is.
    fs::rename(out.join("report.hlog"), files.path().join("log.json")).expect("a log");
    let log = report(&files, &["log.json"]);
    assert_eq!(log.code, Some(0), "{}", log.stderr);
    assert!(log.stdout.starts_with("Interval log log.json\n"));
    assert!(log.stdout.contains("engine.full_life_fcfs_spin.life"));
    let same = report(
        &files,
        &["log.json", "--against", "log.json", "--fail-above", "0%"],
    );
    assert_eq!(same.code, Some(0), "{}", same.stderr);
}

#[test]
fn outputs_do_not_write_over_inputs() {
    let files = files();
    fs::copy(
        files.path().join("base.json"),
        files.path().join("report.json"),
    )
    .expect("a copy");
    let refused = report(
        &files,
        &["base.json", "--against", "report.json", "--out", "."],
    );
    assert_refused(
        &refused,
        "--out .: report.json is an input, and would be written over",
    );
    let refused = report(&files, &["base.json", "--out", "base.json/x"]);
    assert_refused(&refused, "--out base.json/x: ");
}

#[test]
fn the_same_is_within_the_noise_and_passes_the_gate() {
    let files = files();
    let arguments = ["same.json", "--against", "base.json", "--fail-above", "10%"];
    let same = report(&files, &arguments);
    assert_eq!(same.code, Some(0), "{}", same.stderr);
    assert!(same.stdout.contains("within the noise"));
    let compared = report(&files, &["same.json", "--against", "base.json", "--json"]);
    let compared: Value = serde_json::from_str(&compared.stdout).expect("JSON");
    assert_eq!(compared["schema"], "tollgate.comparison/1");
    let written = report(
        &files,
        &["same.json", "--against", "base.json", "--out", "out"],
    );
    assert_eq!(written.code, Some(0), "{}", written.stderr);
    for name in ["comparison.txt", "comparison.json", "comparison.html"] {
        assert!(files.path().join("out").join(name).exists(), "{name}");
    }
}

#[test]
fn what_is_worse_by_more_fails_the_gate_and_is_named() {
    let files = files();
    let arguments = [
        "slow.json",
        "--against",
        "base.json",
        "--against",
        "same.json",
    ];
    let slow = report(&files, &arguments);
    assert_eq!(
        slow.code,
        Some(0),
        "without a gate nothing fails: {}",
        slow.stderr
    );
    let gated = |limit: &str| report(&files, &[&arguments[..], &["--fail-above", limit]].concat());
    let failed = gated("10%");
    assert_eq!(failed.code, Some(1));
    assert!(failed.stdout.contains("WORSE"));
    let wanted = "rows worse by more than 10.00 %:\n  engine/full_life/fcfs/spin, lives a second: ";
    assert!(failed.stderr.contains(wanted), "{}", failed.stderr);
    assert!(failed.stderr.contains("not counted: "), "{}", failed.stderr);
    assert!(
        !failed.stderr.contains("courier/"),
        "that suite is not trusted"
    );
    assert_eq!(gated("0%").code, Some(1));
    assert_eq!(gated("90%").code, Some(0));
}

#[test]
fn a_gate_that_nothing_can_pass_through_fails() {
    let files = files();
    let mut other = made_up_bench::report(1, 1.0);
    for suite in &mut other.suites {
        suite.name.push_str("_renamed");
    }
    files.write("other.json", json(&other));
    let nothing = report(&files, &["other.json", "--against", "base.json"]);
    assert_eq!(nothing.code, Some(1));
    assert!(nothing.stderr.contains("nothing could be compared"));
    assert!(nothing.stdout.contains("only in the old"));
    let mut moved = made_up_bench::report(1, 1.0);
    moved.suites.remove(0);
    files.write("moved.json", json(&moved));
    let arguments = [
        "moved.json",
        "--against",
        "base.json",
        "--fail-above",
        "10%",
    ];
    let moved = report(&files, &arguments);
    assert_eq!(moved.code, Some(1));
    assert!(
        moved
            .stderr
            .contains("nothing that could be compared is trusted")
    );
}

#[test]
fn files_that_are_neither_are_refused_by_name() {
    let files = files();
    fs::create_dir(files.path().join("directory")).expect("a directory");
    let good = json(&made_up_bench::report(1, 1.0));
    let mut lying = made_up_bench::report(1, 1.0);
    let mut wait = Recording::new("life", "other", "all requests");
    wait.record(1);
    lying.suites[0].arms[0].populations[1] = Population {
        repetitions: vec![wait],
    };
    for (name, contents, wanted) in [
        (
            "empty",
            "",
            "empty: neither a benchmark report nor an interval log",
        ),
        (
            "cut",
            &good[..good.len() / 2],
            "not a benchmark report: EOF",
        ),
        (
            "replay",
            r#"{"schema":"tollgate.replay/1"}"#,
            "its schema is \"tollgate.replay/1\"",
        ),
        ("list", "[1]", "its first line is of another kind"),
        ("page", "<html></html>", "its first line is of another kind"),
        (
            "log",
            "\"StartTimestamp\"\n0,1,1,*",
            "line 2: the histogram is not base64",
        ),
        (
            "comments",
            "# nothing\n",
            "line 1: the log ends without an interval",
        ),
        (
            "lying",
            &json(&lying),
            "suites[0].arms[0].populations[1]: the tag \"life\" is there twice",
        ),
    ] {
        files.write(name, contents);
        assert_refused(&report(&files, &[name]), &format!("{name}: {wanted}"));
        let against = report(&files, &["base.json", "--against", name]);
        assert_refused(&against, &format!("{name}: {wanted}"));
    }
    files.write("binary", [0xff, 0xfe, 0x00, 0x9f]);
    assert_refused(&report(&files, &["binary"]), "binary: not UTF-8: neither");
    assert_refused(&report(&files, &["directory"]), "directory: ");
    assert_refused(&report(&files, &["missing"]), "missing: No such file");
    assert_refused(
        &report(&files, &["base.json", "./base.json"]),
        "./base.json: given twice",
    );
    let huge = fs::File::create(files.path().join("huge")).expect("a file");
    huge.set_len(1 << 40).expect("a file with a hole");
    assert_refused(&report(&files, &["huge"]), "huge: larger than 256 MiB");
}

#[test]
fn bad_usage_is_told_with_what_is_right() {
    let files = files();
    for bad in ["10", "0.1", "-5%", "%", "NaN%", "inf%", "ten%"] {
        let arguments = ["same.json", "--against", "base.json", "--fail-above", bad];
        let refused = report(&files, &arguments);
        assert_refused(
            &refused,
            "write a number from 0 on with its sign, as in 10%",
        );
    }
    let refused = report(&files, &["same.json", "--fail-above", "10%"]);
    assert_refused(&refused, "--against <OLD>");
    assert_refused(&report(&files, &[]), "<FILE>...");
}
