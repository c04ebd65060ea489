//! Every shared case, as a user would run it.

use std::path::Path;

use crate::tool::{assert_events, beside_workspace, run};

#[test]
fn every_case_gives_its_expected_events() {
    let Some(cases) = beside_workspace("shared/cases/scenarios") else {
        return;
    };
    let mut names: Vec<_> = std::fs::read_dir(&cases)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    names.sort();
    assert!(!names.is_empty(), "no case in {}", cases.display());
    for case in names {
        let name = case.display().to_string();
        let text = |file: &str| case.join(file).display().to_string();
        let (policy, operations) = (text("policy.yaml"), text("ops.jsonl"));
        let played = run(
            Path::new("."),
            &["scenario", "--policy", &policy, &operations],
            b"",
        );
        let expected = std::fs::read_to_string(case.join("expected.jsonl")).expect("a file");
        let parse = |line: &str| serde_json::from_str(line).expect("expectations are JSON");
        let expected: Vec<_> = expected.lines().map(parse).collect();
        assert_events(&name, &expected, &played.events());
        assert_eq!(played.code, Some(0), "{name}: {}", played.stderr);
    }
}
