//! Rules for the documents: what they point to exists, and every one is found from the README.

mod commands;

pub use commands::{Commands, check_commands};

use std::collections::{BTreeMap, BTreeSet};

use crate::Finding;
use crate::markdown::Document;
use crate::tree::{File, Tree};

/// Where a reader begins.
const START: &str = "README.md";
/// Where the rules of behaviour stand, under headings that begin with their numbers.
const SEMANTICS: &str = "docs/SEMANTICS.md";
/// Where every package is on the map.
const ARCHITECTURE: &str = "docs/ARCHITECTURE.md";

/// The documents of a tree, by path.
pub fn documents(tree: &Tree) -> BTreeMap<&str, Document> {
    let files = tree.with_extension("md");
    files
        .map(|file| (file.path.as_str(), Document::parse(file)))
        .collect()
}

/// Every link inside the repository leads somewhere, and every other one is secure.
#[must_use]
pub fn check_links(tree: &Tree) -> Vec<Finding> {
    let documents = documents(tree);
    let mut findings = Vec::new();
    for (path, document) in &documents {
        for link in &document.links {
            if let Some(message) = broken(tree, &documents, path, &link.target) {
                findings.push(Finding::new(path, link.line, message));
            }
        }
    }
    findings
}

/// What is wrong with a link.
fn broken(
    tree: &Tree,
    documents: &BTreeMap<&str, Document>,
    from: &str,
    target: &str,
) -> Option<String> {
    if target.starts_with("https://") {
        return None;
    }
    if target.contains(':') {
        return Some(format!(
            "the link `{target}` must begin with https:// or be relative"
        ));
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let Some(path) = resolve(from, path) else {
        return Some(format!("the link `{target}` leads out of the repository"));
    };
    if !tree.has(&path) {
        return Some(format!(
            "the link `{target}` leads to `{path}`, which does not exist"
        ));
    }
    let document = documents.get(path.as_str())?;
    let is_known = anchor.is_empty() || document.anchors.iter().any(|known| known == anchor);
    (!is_known).then(|| format!("`{path}` has no heading with the anchor `#{anchor}`"))
}

/// The path that a relative link means; `None` if it is outside the repository.
fn resolve(from: &str, target: &str) -> Option<String> {
    if target.is_empty() {
        return Some(from.to_owned());
    }
    let directory = from.rsplit_once('/').map_or("", |(directory, _)| directory);
    let mut parts: Vec<&str> = directory
        .split('/')
        .filter(|part| !part.is_empty())
        .collect();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            "" => return None,
            "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Every document is reached from the README by links.
#[must_use]
pub fn check_reachable(tree: &Tree) -> Vec<Finding> {
    let documents = documents(tree);
    let mut reached = BTreeSet::new();
    let mut next = vec![START.to_owned()];
    while let Some(path) = next.pop() {
        let Some(document) = documents.get(path.as_str()) else {
            continue;
        };
        if reached.insert(path.clone()) {
            let targets = document.links.iter().map(|link| &link.target);
            let files = targets.map(|target| target.split('#').next().unwrap_or_default());
            next.extend(files.filter_map(|target| resolve(&path, target)));
        }
    }
    let lost = documents.keys().filter(|path| !reached.contains(**path));
    lost.map(|path| {
        let message = format!("no chain of links leads here from {START}: add one");
        Finding::of_file(path, message)
    })
    .collect()
}

/// Code blocks are closed and say their language: rustdoc takes one that does not for Rust.
#[must_use]
pub fn check_blocks(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, document) in documents(tree) {
        for block in &document.blocks {
            if block.language.is_empty() {
                let message = "a code block without a language: say `text` if it has none";
                findings.push(Finding::new(path, block.line, message));
            }
            if !block.is_closed {
                findings.push(Finding::new(
                    path,
                    block.line,
                    "a code block that is not closed",
                ));
            }
        }
    }
    findings
}

/// Every rule number that a text cites is a heading of SEMANTICS.
#[must_use]
pub fn check_rule_numbers(tree: &Tree) -> Vec<Finding> {
    let Some(semantics) = tree.file(SEMANTICS) else {
        return vec![Finding::of_file(SEMANTICS, "is missing")];
    };
    let known: BTreeSet<String> = semantics
        .lines()
        .filter(|(_, line)| line.starts_with('#'))
        .flat_map(|(_, line)| rule_numbers(line))
        .collect();
    let mut findings = Vec::new();
    for file in tree
        .files
        .iter()
        .filter(|file| !file.path.starts_with("tools/tidy/"))
    {
        for (number, line) in file.lines() {
            for rule in rule_numbers(line).filter(|rule| !known.contains(rule)) {
                let message = format!("`{rule}` is no rule of {SEMANTICS}");
                findings.push(Finding::new(&file.path, number, message));
            }
        }
    }
    findings
}

/// The rule numbers with a point in them, such as `S6.4`, that stand in a line.
fn rule_numbers(line: &str) -> impl Iterator<Item = String> {
    line.match_indices('S').filter_map(|(at, _)| {
        let before = line[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
            return None;
        }
        let rest = &line[at + 1..];
        let chapter = digits(rest);
        let section = digits(rest[chapter.len()..].strip_prefix('.')?);
        let is_rule = !chapter.is_empty() && !section.is_empty();
        is_rule.then(|| format!("S{chapter}.{section}"))
    })
}

fn digits(text: &str) -> &str {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    &text[..end]
}

/// Every package of the workspace is on the map in ARCHITECTURE.
#[must_use]
pub fn check_map(tree: &Tree) -> Vec<Finding> {
    let Some(map) = tree.file(ARCHITECTURE) else {
        return vec![Finding::of_file(ARCHITECTURE, "is missing")];
    };
    let manifests = tree.files.iter().filter(|file| file.name() == "Cargo.toml");
    let packages = manifests
        .map(File::directory)
        .filter(|path| !path.is_empty());
    packages
        .filter(|path| !map.text().contains(&format!("`{path}`")))
        .map(|path| {
            let message = format!("the package in `{path}` is missing on the map");
            Finding::of_file(ARCHITECTURE, message)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Tree {
        Tree::of_files(
            files
                .iter()
                .map(|(path, text)| File::new(path, text))
                .collect(),
        )
    }

    fn lines(findings: &[Finding]) -> Vec<String> {
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        let good = tree(&[
            (
                "README.md",
                "[a](docs/A.md) [b](docs) [c](https://example.org/x#y) [d](#top)\n# Top\n",
            ),
            (
                "docs/A.md",
                "# One `x`\n[back](../README.md#top) [self](#one-x) [dir](../crates/)\n",
            ),
            ("crates/x.rs", ""),
        ]);
        assert_eq!(check_links(&good), []);
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let bad = tree(&[(
            "docs/A.md",
            "[a](B.md)\n[b](#no)\n[c](../../x)\n[d](http://example.org)\n[e](/docs/A.md)\n",
        )]);
        let found = lines(&check_links(&bad));
        let expected = ["not exist", "no heading", "out of", "https", "out of"];
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
            assert!(
                found.starts_with(&format!("docs/A.md:{}: ", at + 1)),
                "{found}"
            );
            assert!(found.contains(expected), "{found}");
        }
    }

    #[test]
    fn documents_that_nobody_links_to_are_found() {
        let files = [
            ("README.md", "[a](docs/A.md#x)\n"),
            ("docs/A.md", "# x\n[b](B.md)\n"),
            ("docs/B.md", "[a](A.md)\n"),
            ("docs/C.md", "[d](D.md)\n"),
            ("docs/D.md", "[c](C.md)\n"),
        ];
        let findings = check_reachable(&tree(&files));
        let lost: Vec<&str> = findings.iter().map(|found| found.path.as_str()).collect();
        assert_eq!(lost, ["docs/C.md", "docs/D.md"]);
    }

    #[test]
    fn code_blocks_say_what_they_are() {
        let good = tree(&[("a.md", "```text\nx\n```\n")]);
        assert_eq!(check_blocks(&good), []);
        let bad = tree(&[("a.md", "```\nx\n```\n```sh\n")]);
        let found = lines(&check_blocks(&bad));
        assert!(
            found[0].starts_with("a.md:1: ") && found[1].starts_with("a.md:4: "),
            "{found:?}"
        );
    }

    #[test]
    fn rules_that_do_not_exist_are_found() {
        let files = [
            (
                SEMANTICS,
                "### S6.4 Shares\nS6.4 and S6.10, not XS9.9.\n### S6.10 Laws\n",
            ),
            ("a.rs", "// (S6.4)\n// (S6.10 b), S6.1\n"),
        ];
        let found = lines(&check_rule_numbers(&tree(&files)));
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("a.rs:2: `S6.1` is no rule"),
            "{found:?}"
        );
        assert_eq!(check_rule_numbers(&tree(&[])).len(), 1);
    }

    #[test]
    fn packages_that_are_not_on_the_map_are_found() {
        let files = [
            (ARCHITECTURE, "`crates/a` and crates/b\n"),
            ("Cargo.toml", ""),
            ("crates/a/Cargo.toml", ""),
            ("crates/b/Cargo.toml", ""),
        ];
        let found = lines(&check_map(&tree(&files)));
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("`crates/b`"), "{found:?}");
    }
}
