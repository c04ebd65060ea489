//! The oracle on every case of the conformance suite beside the workspace, if it is there.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tollgate_policy::{PolicyFile, Profile};
use tollgate_sim::oracle::Oracle;
use tollgate_sim::protocol::Session;

fn load(path: &Path) -> Result<Profile, String> {
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    let file = PolicyFile::parse(&path.display().to_string(), &bytes);
    file.map(|file| file.profile(None).clone())
        .map_err(|errors| errors.to_string())
}

/// What the oracle says to a case's operations.
fn run(case: &Path) -> Vec<Value> {
    let profile = load(&case.join("policy.yaml")).unwrap();
    let mut session = Session::new(Oracle::new(&profile, 0), |path| load(&case.join(path)));
    let mut events = Vec::new();
    for line in fs::read_to_string(case.join("ops.jsonl")).unwrap().lines() {
        session.line(line, &mut events);
    }
    events
        .iter()
        .map(|event| serde_json::to_value(event).unwrap())
        .collect()
}

fn expected(case: &Path) -> Vec<Value> {
    let text = fs::read_to_string(case.join("expected.jsonl")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Sorts each run of `failed` or `expired` events, whose order is free.
fn settle(events: &mut [Value]) {
    let name = |event: &Value| event["event"].as_str().unwrap_or_default().to_owned();
    let is_free = |event: &Value| matches!(name(event).as_str(), "failed" | "expired");
    for run in events.chunk_by_mut(|a, b| is_free(a) && is_free(b)) {
        if run.len() > 1 {
            run.sort_by_key(|event| (name(event), event["id"].to_string()));
        }
    }
}

/// Whether `got` has everything that `want` names.
fn covers(want: &Value, got: &Value) -> bool {
    match (want, got) {
        (Value::Object(want), Value::Object(got)) => want
            .iter()
            .all(|(field, want)| got.get(field).is_some_and(|got| covers(want, got))),
        (Value::Array(want), Value::Array(got)) => {
            want.len() == got.len() && want.iter().zip(got).all(|(want, got)| covers(want, got))
        }
        _ => want == got,
    }
}

/// The first difference, if there is one.
fn difference(mut want: Vec<Value>, mut got: Vec<Value>) -> Option<String> {
    settle(&mut want);
    settle(&mut got);
    for (index, (want, got)) in want.iter().zip(&got).enumerate() {
        if !covers(want, got) {
            return Some(format!("event {}\n  want {want}\n  got  {got}", index + 1));
        }
    }
    (want.len() != got.len()).then(|| format!("{} events wanted, {} came", want.len(), got.len()))
}

#[test]
fn s13_the_oracle_passes_every_case() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cases/scenarios");
    let Ok(entries) = fs::read_dir(&cases) else {
        eprintln!("skipped: there are no cases at {}", cases.display());
        return;
    };
    let mut cases: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    let failures: Vec<String> = cases
        .iter()
        .filter_map(|case| Some((case, difference(expected(case), run(case))?)))
        .map(|(case, difference)| format!("{}: {difference}", case.display()))
        .collect();
    eprintln!(
        "{} passed, {} failed",
        cases.len() - failures.len(),
        failures.len()
    );
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(!cases.is_empty(), "the folder of the cases is empty");
}

#[test]
fn the_comparison_sees_a_missing_a_wrong_and_an_extra_event() {
    let line = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let a = line(r#"{"event":"failed","id":"a","worker":[1,0]}"#);
    let b = line(r#"{"event":"failed","id":"b","extra":1}"#);
    let wants_b = line(r#"{"event":"failed","id":"b"}"#);
    assert_eq!(
        difference(vec![wants_b.clone(), a.clone()], vec![a.clone(), b.clone()]),
        None
    );
    assert!(difference(vec![a.clone()], vec![b.clone()]).is_some());
    assert!(difference(vec![a.clone()], vec![a.clone(), b.clone()]).is_some());
    assert!(difference(vec![a.clone(), wants_b], vec![a]).is_some());
    assert!(
        difference(
            vec![b.clone()],
            vec![line(r#"{"event":"failed","id":"b"}"#)]
        )
        .is_some()
    );
}
