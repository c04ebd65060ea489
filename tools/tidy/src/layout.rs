//! What stands at the top of the repository, so that a newcomer finds the way.

use std::collections::BTreeSet;

use crate::Finding;
use crate::tree::Tree;

/// What may stand at the top, beside files that begin with a dot.
const TOP: [&str; 8] = [
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "benches",
    "crates",
    "docs",
    "tools",
];
/// Settings of tools, which look for them there.
const TOP_SETTINGS: [&str; 2] = ["rustfmt.toml", "rust-toolchain.toml"];
/// What must stand there.
const NEEDED: [&str; 5] = [
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    ".ci/run",
];

/// Only known entries stand at the top, and the needed ones do.
#[must_use]
pub fn check(tree: &Tree) -> Vec<Finding> {
    let entries: BTreeSet<&str> = tree
        .files
        .iter()
        .filter_map(|file| file.path.split('/').next())
        .collect();
    let mut findings = Vec::new();
    for entry in entries {
        let is_known = TOP.contains(&entry) || TOP_SETTINGS.contains(&entry);
        if !is_known && !entry.starts_with('.') {
            let message = format!(
                "does not belong at the top, where only {} stand: move it into one of them",
                TOP.join(", ")
            );
            findings.push(Finding::of_file(entry, message));
        }
    }
    for path in NEEDED {
        if tree.file(path).is_none() {
            findings.push(Finding::of_file(path, "is missing"));
        }
    }
    let license = tree.file("LICENSE");
    if license.is_some_and(|file| !file.text().contains("Apache License")) {
        let message = "must hold the Apache License, which the manifests name";
        findings.push(Finding::of_file("LICENSE", message));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::File;

    fn tree(extra: &[&str]) -> Tree {
        let paths = NEEDED.iter().chain(extra);
        Tree::of_files(
            paths
                .map(|path| File::new(path, "Apache License\n"))
                .collect(),
        )
    }

    #[test]
    fn the_known_layout_passes() {
        let good = [
            "crates/a/src/lib.rs",
            "docs/A.md",
            ".gitignore",
            "rustfmt.toml",
        ];
        assert_eq!(check(&tree(&good)), []);
    }

    #[test]
    fn strangers_and_gaps_are_found() {
        let findings = check(&tree(&["notes.txt", "src/main.rs", "src/lib.rs"]));
        let paths: Vec<&str> = findings.iter().map(|found| found.path.as_str()).collect();
        assert_eq!(paths, ["notes.txt", "src"]);

        let files = vec![File::new("LICENSE", "all mine\n")];
        assert_eq!(check(&Tree::of_files(files)).len(), NEEDED.len());
    }
}
