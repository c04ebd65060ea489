//! `tollgate scenario` on journals: their replay, and what is wrong with them.

use crate::tool::{Files, Run, run};

const JOURNAL: &str = include_str!("../../../../docs/examples/captured.jsonl");

fn play(journal: &str, flags: &[&str]) -> Run {
    let files = Files::new();
    files.write("journal.jsonl", journal);
    let arguments: Vec<&str> = ["scenario"]
        .into_iter()
        .chain(flags.iter().copied())
        .chain(["journal.jsonl"])
        .collect();
    run(files.path(), &arguments, b"")
}

#[test]
fn a_journal_is_replayed_and_explained_without_a_policy() {
    let plain = play(JOURNAL, &[]);
    assert_eq!(plain.code, Some(0), "{}", plain.stderr);
    assert!(
        plain
            .stderr
            .ends_with("decisions, all as the journal says\n")
    );
    let explained = play(JOURNAL, &["--explain"]);
    assert_eq!(explained.code, Some(0), "{}", explained.stderr);
    let is_event = |line: &&str| !line.starts_with(r#"{"event":"explain""#);
    let events: Vec<&str> = explained.stdout.lines().filter(is_event).collect();
    assert_eq!(events, plain.stdout.lines().collect::<Vec<_>>());
    assert!(explained.stdout.contains("premium sent"));
    let files = Files::new();
    let piped = run(files.path(), &["scenario"], JOURNAL.as_bytes());
    assert_eq!((piped.code, piped.stdout), (Some(0), plain.stdout));
}

#[test]
fn a_decision_that_differs_is_told_and_ends_the_replay() {
    let line = JOURNAL
        .lines()
        .position(|line| line.contains(r#""event":"dispatched""#))
        .expect("it has a dispatch");
    let lines = |change: &dyn Fn(&str) -> String| {
        let lines = JOURNAL.lines().enumerate();
        let changed = lines.map(|(at, text)| {
            if at == line {
                change(text)
            } else {
                text.to_owned()
            }
        });
        changed.map(|text| text + "\n").collect::<String>()
    };
    let elsewhere = lines(&|text| text.replace(r#""worker":[1,0]"#, r#""worker":[9,0]"#));
    let unknown = lines(&|_| r#"{"op":"turn","dispatches":1,"removals":1}"#.to_owned());
    for journal in [elsewhere, unknown] {
        let played = play(&journal, &[]);
        assert_eq!(played.code, Some(1), "{}", played.stderr);
        let events = played.events();
        let last = events.last().expect("there are events");
        assert_eq!(last["event"], "differs");
        assert_eq!(last["line"], line + 1);
        assert_eq!(last["replayed"]["event"], "dispatched");
        assert_ne!(last["recorded"]["worker"], last["replayed"]["worker"]);
        let told = format!("line {}: the replay differs", line + 1);
        assert!(played.stderr.starts_with(&told), "{}", played.stderr);
    }
}

#[test]
fn a_journal_that_is_damaged_or_cut_is_told_with_its_line() {
    let lines = JOURNAL.lines().count();
    let whole = JOURNAL.trim_end();
    let last = whole.rfind('\n').expect("it has lines");
    let version = JOURNAL.replace(r#""version":1"#, r#""version":2"#);
    let spaced = version.replacen(r#"{"op":"restore""#, r#"{ "op" : "restore""#, 1);
    let slots = JOURNAL.replacen(r#""slots":16"#, r#""slots":4294967295"#, 1);
    let request = JOURNAL.replace(r#""request_count":"#, r#""request_count":9"#);
    let cases = [
        (
            &whole[..whole.len() - 9],
            lines,
            "ends before its JSON object",
        ),
        (&JOURNAL[..=last], lines - 1, "the journal is cut"),
        (version.as_str(), 1, "field `version` is 2; it must be 1"),
        (spaced.as_str(), 1, "field `version` is 2; it must be 1"),
        (slots.as_str(), 0, "slots must be between"),
        (request.as_str(), 0, "the checkpoint is not whole"),
    ];
    for (journal, line, wanted) in cases {
        let played = play(journal, &[]);
        assert_eq!(played.code, Some(2), "{wanted}: {}", played.stderr);
        let events = played.events();
        let last = events.last().expect("there are events");
        assert_eq!(last["event"], "invalid");
        let error = last["error"].as_str().unwrap_or_default();
        assert!(error.contains(wanted), "{error}");
        assert!(line == 0 || last["line"] == line, "{last}");
        assert!(played.stderr.starts_with("the journal is damaged at line"));
    }
    let both = format!("{JOURNAL}{{\"op\":\"state\"}}\n");
    let played = play(&both, &[]);
    assert!(
        played.stdout.contains("nothing may follow `end`"),
        "{}",
        played.stdout
    );
}

#[test]
fn a_policy_belongs_to_a_scenario_and_none_to_a_journal() {
    let files = Files::new();
    files.write("journal.jsonl", JOURNAL);
    files.write("scenario.jsonl", "{\"op\": \"state\"}\n");
    files.write(
        "policy.yaml",
        include_str!("../../../../docs/examples/premium.yaml"),
    );
    let said = |arguments: &[&str]| {
        let run = run(files.path(), arguments, b"");
        assert_eq!(run.code, Some(2), "{}", run.stderr);
        (run.stdout, run.stderr)
    };
    let (stdout, _) = said(&["scenario", "--policy", "policy.yaml", "journal.jsonl"]);
    let first = stdout.lines().next().unwrap_or_default();
    assert!(first.contains("belongs to a journal"), "{first}");
    let (stdout, stderr) = said(&["scenario", "scenario.jsonl"]);
    assert_eq!(stdout, "");
    assert!(
        stderr.contains("give their policy by --policy FILE"),
        "{stderr}"
    );
    for flag in [
        "--seed=1",
        "--model=m",
        "--slots=9",
        "--selector=cost",
        "--decode-weight=1",
    ] {
        let (_, stderr) = said(&["scenario", flag, "journal.jsonl"]);
        assert!(stderr.contains("--policy <FILE>"), "{flag}: {stderr}");
    }
}
