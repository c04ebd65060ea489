//! The scenarios that the documents show print what the documents say.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tollgate_policy::{PolicyFile, Profile};
use tollgate_sim::protocol::Session;
use tollgate_sim::scenario::{ArbiterMachine, MachineOptions, Runner};
use tollgate_tidy::docs::documents;
use tollgate_tidy::markdown::Block;
use tollgate_tidy::tree::Tree;

/// How a command that plays a scenario begins.
const COMMAND: &str = "$ tollgate scenario --policy ";

fn root() -> PathBuf {
    let tree = Tree::of_this_repository().expect("the repository can be read");
    tree.root
}

fn blocks(language: &str) -> Vec<(String, Block)> {
    let tree = Tree::of_this_repository().expect("the repository can be read");
    let mut found = Vec::new();
    for (path, document) in documents(&tree) {
        let blocks = document.blocks.into_iter();
        let wanted = blocks.filter(|block| block.language == language);
        found.extend(wanted.map(|block| (path.to_owned(), block)));
    }
    found
}

fn profile(path: &Path) -> Profile {
    let bytes = std::fs::read(path).expect("the policy file can be read");
    let file = PolicyFile::parse(&path.display().to_string(), &bytes);
    file.expect("the policy file is valid")
        .profile(None)
        .clone()
}

/// The lines that a scenario prints.
fn play(policy: &str, operations: &str, explain: bool) -> Vec<String> {
    let root = root();
    let profile = profile(&root.join(policy));
    let machine = ArbiterMachine::new(&profile, MachineOptions::default());
    let machine = machine.expect("the policy fits");
    let machine = if explain {
        machine.explaining()
    } else {
        machine
    };
    let session = Session::new(machine, |path: &str| {
        Err(format!("no reload of {path} here"))
    });
    let operations = std::fs::read(root.join(operations)).expect("the operations can be read");
    let mut output = Vec::new();
    let run = Runner::new(session).run(operations.as_slice(), &mut output);
    run.expect("memory can be read and written");
    let output = String::from_utf8(output).expect("events are text");
    output.lines().map(str::to_owned).collect()
}

#[test]
fn scenarios_print_what_the_documents_show() {
    let mut played = 0;
    for (path, block) in blocks("console") {
        let Some((command, shown)) = block.lines.split_first() else {
            continue;
        };
        let Some(arguments) = command.strip_prefix(COMMAND) else {
            continue;
        };
        let (policy, operations) = arguments.split_once(' ').expect("a policy and operations");
        let printed = play(policy, operations, false);
        assert_eq!(
            printed, shown,
            "{path}:{}: prints something else",
            block.line
        );
        played += 1;
    }
    assert!(played >= 3, "only {played} scenarios were found");
}

#[test]
fn the_explanation_in_the_document_is_a_real_one() {
    let printed = play(
        "docs/examples/premium.yaml",
        "docs/examples/turns.jsonl",
        true,
    );
    let printed: Vec<Value> = printed
        .iter()
        .map(|line| serde_json::from_str(line).expect("events are JSON"))
        .collect();
    let mut shown = 0;
    for (path, block) in blocks("json") {
        let text = block.lines.join("\n");
        if text.contains("\"explain\"") {
            let value: Value = serde_json::from_str(&text).expect("the block is JSON");
            assert!(
                printed.contains(&value),
                "{path}:{}: is not printed",
                block.line
            );
            shown += 1;
        }
    }
    assert_eq!(shown, 1);
}

#[test]
fn the_operations_in_the_document_are_those_of_the_file() {
    let path = root().join("docs/examples/first.jsonl");
    let file = std::fs::read_to_string(path).expect("the operations can be read");
    let lines: Vec<&str> = file.lines().collect();
    let is_shown = blocks("json").iter().any(|(_, block)| block.lines == lines);
    assert!(
        is_shown,
        "no document shows docs/examples/first.jsonl as it is"
    );
}
