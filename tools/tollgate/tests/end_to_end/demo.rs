//! `tollgate demo`, and the tool without a subcommand.

use std::path::Path;

use crate::tool::run;

/// The line of a table that begins with these words.
fn line<'t>(text: &'t str, words: &[&str]) -> &'t str {
    let begins = |line: &&str| {
        line.split_whitespace()
            .take(words.len())
            .eq(words.iter().copied())
    };
    text.lines()
        .find(begins)
        .unwrap_or_else(|| panic!("{words:?}: {text}"))
}

/// The page that a demo says it wrote, and what is in it.
fn page(stdout: &str) -> (String, String) {
    let path = stdout
        .lines()
        .find_map(|line| line.split_once("as a page for a browser: "));
    let (_, path) = path.unwrap_or_else(|| panic!("no page: {stdout}"));
    let page = std::fs::read_to_string(path).expect("it is there");
    (path.to_owned(), page)
}

/// The numbers of a line.
fn numbers(line: &str) -> Vec<u64> {
    line.split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect()
}

#[test]
fn without_a_subcommand_the_live_demo_shows_the_published_shares() {
    let demo = run(Path::new("."), &[], b"");
    assert_eq!(demo.code, Some(0), "{}", demo.stderr);
    for (quanta, premium, regular) in [
        ("512:512", 155..=165, 155..=165),
        ("512:128", 250..=260, 60..=70),
        ("2048:512", 250..=260, 60..=70),
    ] {
        let line = line(&demo.stdout, &[quanta]);
        let numbers = numbers(line);
        assert!(premium.contains(&numbers[0]), "{line}");
        assert!(regular.contains(&numbers[1]), "{line}");
        assert!(line.contains(" 640 "), "all are answered: {line}");
    }
    let (path, page) = page(&demo.stdout);
    assert!(path.contains("tollgate-demo-"), "{path}");
    let place = |what: &str| {
        page.find(what)
            .unwrap_or_else(|| panic!("no {what} on the page"))
    };
    assert!(!page.contains('\u{fffd}'), "a page shows no line breaks");
    // What came of it, beside the published figures, before what it was made with.
    assert!(place("159-161 : 159-161") < place("Each class, all requests"));
    assert!(place("Each class, all requests") < place("prefill_busy_threshold"));
}

#[test]
fn s6_9_the_virtual_demo_shows_the_shares_that_the_quanta_promise() {
    let demo = run(Path::new("."), &["demo", "--virtual"], b"");
    assert_eq!((demo.code, demo.stderr.as_str()), (Some(0), ""));
    for (quanta, shares) in [
        ("512:512", "160 : 160"),
        ("512:128", "256 : 64"),
        ("2048:512", "256 : 64"),
        ("5120:1280", "258 : 62"),
    ] {
        let exact = line(&demo.stdout, &[quanta, "exact"]);
        assert!(exact.contains(shares), "{exact}");
        let page = line(&demo.stdout, &[quanta, "page"]);
        assert!(page.contains(" : "), "{page}");
    }
    let (path, page) = page(&demo.stdout);
    assert!(
        path.ends_with("tollgate-demo-virtual.html"),
        "not that of the live one: {path}"
    );
    assert!(page.contains("Each class, all requests"));
    let again = run(Path::new("."), &["demo", "--virtual"], b"");
    assert_eq!(again.stdout, demo.stdout, "it is the same each time");
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
