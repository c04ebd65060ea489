//! `tollgate demo`, and the tool without a subcommand.

use std::path::Path;

use crate::tool::run;

#[test]
fn without_a_subcommand_the_demo_runs() {
    let plain = run(Path::new("."), &[], b"");
    let demo = run(Path::new("."), &["demo"], b"");
    assert_eq!((plain.code, plain.stderr.as_str()), (Some(0), ""));
    assert_eq!(plain.stdout, demo.stdout);
}

#[test]
fn s6_9_the_demo_shows_the_shares_that_the_quanta_promise() {
    let demo = run(Path::new("."), &["demo"], b"");
    let line = |quanta: &str, mode: &str| {
        let starts = |line: &&str| {
            let mut words = line.split_whitespace();
            (words.next(), words.next()) == (Some(quanta), Some(mode))
        };
        demo.stdout
            .lines()
            .find(starts)
            .unwrap_or_else(|| panic!("{quanta} {mode}: {}", demo.stdout))
    };
    for (quanta, shares) in [
        ("512:512", "160 : 160"),
        ("512:128", "256 : 64"),
        ("2048:512", "256 : 64"),
        ("5120:1280", "258 : 62"),
    ] {
        assert!(
            line(quanta, "exact").contains(shares),
            "{}",
            line(quanta, "exact")
        );
        assert!(
            line(quanta, "page").contains(" : "),
            "{}",
            line(quanta, "page")
        );
    }
}

#[test]
fn help_and_bad_usage() {
    for arguments in [
        &["--help"][..],
        &["--version"],
        &["scenario", "--help"],
        &["replay", "--help"],
        &["check", "--help"],
    ] {
        let help = run(Path::new("."), arguments, b"");
        assert_eq!(
            (help.code, help.stderr.as_str()),
            (Some(0), ""),
            "{arguments:?}"
        );
        assert!(help.stdout.len() > 10, "{arguments:?}");
    }
    for arguments in [
        &["serve-nothing"][..],
        &["demo", "extra"],
        &["scenario"],
        &["scenario", "--policy"],
        &["replay"],
        &["replay", "x.csv", "--workers", "0"],
        &["replay", "x.csv", "--workers", "-1"],
        &["replay", "x.csv", "--limit", "0"],
        &["replay", "x.csv", "--speed", "0"],
        &["replay", "x.csv", "--speed", "NaN"],
        &["replay", "x.csv", "--speed", "inf"],
        &["replay", "x.csv", "--family", "premium"],
        &["replay", "x.csv", "--family", "=1"],
        &["replay", "x.csv", "--family", "premium=-1"],
        &["replay", "x.csv", "--seed", "x"],
        &["scenario", "--policy", "p", "--selector", "fastest"],
        &["scenario", "--policy", "p", "--decode-weight", "1.5"],
        &["scenario", "--policy", "p", "--slots", "0"],
    ] {
        let wrong = run(Path::new("."), arguments, b"");
        assert_eq!(
            (wrong.code, wrong.stdout.as_str()),
            (Some(2), ""),
            "{arguments:?}"
        );
        assert!(
            wrong.stderr.contains("error:"),
            "{arguments:?}: {}",
            wrong.stderr
        );
    }
}
