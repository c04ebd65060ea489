//! Commands that the documents tell a reader to type: what they name must exist.
//!
//! Looked at are the lines of `sh` and `console` blocks. A `$ ` in front and everything behind a
//! `#` are left out, and a line that ends with a backslash goes on in the next one.

use std::collections::BTreeSet;

use super::documents;
use crate::Finding;
use crate::manifest::package_names;
use crate::markdown::Block;
use crate::tree::Tree;

/// The file with the tool's subcommands, an enum called `Command`.
const TOOL: &str = "tools/tollgate/src/main.rs";
/// Where the benches are explained.
const BENCHES: &str = "benches/README.md";
/// Their manifest.
const BENCH_MANIFEST: &str = "benches/Cargo.toml";

/// What commands may name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commands {
    /// Subcommands of the tool.
    pub subcommands: BTreeSet<String>,
    /// Packages.
    pub packages: BTreeSet<String>,
    /// Benches.
    pub benches: BTreeSet<String>,
    /// Test targets.
    pub tests: BTreeSet<String>,
}

impl Commands {
    /// What the repository has.
    #[must_use]
    pub fn of(tree: &Tree) -> Self {
        let test_targets = tree.with_extension("rs").filter_map(|file| {
            let (above, name) = if file.name() == "main.rs" {
                file.directory().rsplit_once('/')?
            } else {
                (file.directory(), file.name().trim_end_matches(".rs"))
            };
            above.ends_with("/tests").then(|| name.to_owned())
        });
        let benches = tree.file(BENCH_MANIFEST).map(|file| file.text());
        Self {
            subcommands: subcommands(tree.file(TOOL).map_or("", |file| file.text())),
            packages: package_names(tree).map(str::to_owned).collect(),
            benches: bench_names(benches.unwrap_or_default()),
            tests: test_targets.collect(),
        }
    }

    /// What is wrong with one command.
    fn faults(&self, tree: &Tree, line: &str) -> Vec<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let program = words.iter().position(|word| !word.contains('='));
        let Some((program, words)) = program.and_then(|at| words[at..].split_first()) else {
            return Vec::new();
        };
        let mut faults = Vec::new();
        match program.rsplit('/').next().unwrap_or_default() {
            "tollgate" => faults.extend(self.tool_faults(tree, words)),
            "cargo" => faults.extend(self.cargo_faults(tree, words)),
            _ if program.contains('/') && !tree.has(program) => {
                faults.push(format!("`{program}` does not exist"));
            }
            _ => {}
        }
        let files = words.iter().filter(|word| is_file_of_ours(word));
        let missing = files.filter(|word| !tree.has(word));
        faults.extend(missing.map(|word| format!("`{word}` does not exist")));
        faults
    }

    fn tool_faults(&self, tree: &Tree, words: &[&str]) -> Vec<String> {
        let Some(subcommand) = words.first().filter(|word| !word.starts_with('-')) else {
            return Vec::new();
        };
        if !self.subcommands.contains(*subcommand) {
            return vec![format!("`tollgate` has no subcommand `{subcommand}`")];
        }
        // A subcommand is a file, a folder, or both.
        let module = format!("tools/tollgate/src/{}", subcommand.replace('-', "_"));
        let (file, folder) = (format!("{module}.rs"), format!("{module}/"));
        let is_its = |path: &str| path == file || path.starts_with(&folder);
        let files = tree.with_extension("rs").filter(|file| is_its(&file.path));
        let source: String = files.map(|file| file.text()).collect();
        let flags = words.iter().filter_map(|word| word.strip_prefix("--"));
        let flags = flags.map(|flag| flag.split('=').next().unwrap_or_default());
        flags
            .filter(|flag| *flag != "help" && !source.contains(&flag.replace('-', "_")))
            .map(|flag| format!("`tollgate {subcommand}` has no flag `--{flag}`"))
            .collect()
    }

    fn cargo_faults(&self, tree: &Tree, words: &[&str]) -> Vec<String> {
        let mut faults = Vec::new();
        let end = words
            .iter()
            .position(|word| *word == "--")
            .unwrap_or(words.len());
        let is_elsewhere = words[..end].contains(&"--manifest-path");
        for pair in words[..end].windows(2) {
            let (what, known) = match pair[0] {
                "-p" | "--package" => ("package", &self.packages),
                "--bench" => ("bench", &self.benches),
                "--test" => ("test target", &self.tests),
                "--manifest-path" => {
                    if !tree.has(pair[1]) {
                        faults.push(format!("`{}` does not exist", pair[1]));
                    }
                    continue;
                }
                _ => continue,
            };
            if !known.contains(pair[1]) {
                faults.push(format!("there is no {what} `{}`", pair[1]));
            }
        }
        let is_tool = !is_elsewhere && !words[..end].contains(&"--example");
        if words.first() == Some(&"run") && is_tool && end < words.len() {
            faults.extend(self.tool_faults(tree, &words[end + 1..]));
        }
        faults
    }
}

/// Whether a word names a file inside the repository, by its directory and its ending.
fn is_file_of_ours(word: &str) -> bool {
    let ending = word.rsplit_once('.').map_or("", |(_, ending)| ending);
    let is_ours = ["crates/", "docs/", "benches/", "tools/"]
        .iter()
        .any(|directory| word.starts_with(directory));
    is_ours && ["yaml", "jsonl", "csv", "toml", "rs", "md"].contains(&ending)
}

/// The variants of the enum `Command`, as they are typed.
fn subcommands(source: &str) -> BTreeSet<String> {
    let body = source.split("enum Command {").nth(1).unwrap_or_default();
    let lines = body.lines().take_while(|line| *line != "}");
    let variants = lines.filter_map(|line| {
        let line = line.trim();
        let end = line.find(|c: char| !c.is_alphanumeric())?;
        (end > 0 && line.starts_with(char::is_uppercase)).then(|| &line[..end])
    });
    variants.map(typed).collect()
}

/// `MockWorker` is typed `mock-worker`.
fn typed(variant: &str) -> String {
    let mut typed = String::new();
    for c in variant.chars() {
        if c.is_uppercase() && !typed.is_empty() {
            typed.push('-');
        }
        typed.extend(c.to_lowercase());
    }
    typed
}

/// The names in the `[[bench]]` tables of a manifest.
fn bench_names(manifest: &str) -> BTreeSet<String> {
    let tables = manifest.split("[[bench]]").skip(1);
    let names = tables.filter_map(|table| {
        let line = table.lines().find(|line| line.starts_with("name"))?;
        line.split('"').nth(1)
    });
    names.map(str::to_owned).collect()
}

/// Every command in a document names what exists; every subcommand stands in a document, and every
/// bench in the benches' own.
#[must_use]
pub fn check_commands(tree: &Tree) -> Vec<Finding> {
    let commands = Commands::of(tree);
    let mut findings = Vec::new();
    let mut shown = BTreeSet::new();
    for (path, document) in documents(tree) {
        for (line, command) in document.blocks.iter().flat_map(typed_lines) {
            let faults = commands.faults(tree, &command);
            findings.extend(
                faults
                    .into_iter()
                    .map(|fault| Finding::new(path, line, fault)),
            );
            shown.extend(command.split_whitespace().map(str::to_owned));
        }
    }
    for subcommand in commands.subcommands.difference(&shown) {
        let message = format!("no document shows `tollgate {subcommand}`");
        findings.push(Finding::of_file("docs", message));
    }
    let explained = tree.file(BENCHES).map_or("", |file| file.text());
    for bench in commands
        .benches
        .iter()
        .filter(|bench| !explained.contains(*bench))
    {
        findings.push(Finding::of_file(
            BENCHES,
            format!("does not explain the bench `{bench}`"),
        ));
    }
    findings
}

/// The commands of a block, each with the line that it begins in.
fn typed_lines(block: &Block) -> Vec<(usize, String)> {
    if !["sh", "console"].contains(&block.language.as_str()) {
        return Vec::new();
    }
    let is_console = block.language == "console";
    let mut commands: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (number, line) in (block.line + 1..).zip(&block.lines) {
        let typed = line.trim_start().strip_prefix("$ ");
        let text = match typed {
            Some(text) => text,
            None if is_console && !goes_on => continue,
            None => line.trim_start(),
        };
        let text = text.split(" #").next().unwrap_or_default();
        if text.starts_with('#') {
            continue;
        }
        let (text, continues) = match text.strip_suffix('\\') {
            Some(text) => (text, true),
            None => (text, false),
        };
        // What a command reads or writes is another command's, or a place of the reader's.
        let parts = text
            .split(['|', '<', '>', ';'])
            .map(str::trim)
            .map(str::to_owned);
        match commands.last_mut().filter(|_| goes_on) {
            Some((_, command)) => {
                command.push(' ');
                command.push_str(&parts.collect::<Vec<_>>().join(" "));
            }
            None => commands.extend(parts.map(|part| (number, part))),
        }
        goes_on = continues;
    }
    commands.retain(|(_, command)| !command.is_empty());
    commands
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::File;

    const MAIN: &str = "enum Command {\n    /// Docs.\n    Demo,\n    MockWorker(Args),\n}\n";

    fn tree(document: &str) -> Tree {
        Tree::of_files(vec![
            File::new("README.md", document),
            File::new(
                "docs/SHOWN.md",
                "```sh\ntollgate demo\ntollgate mock-worker\n```\n",
            ),
            File::new("benches/README.md", "`speed`\n"),
            File::new(
                BENCH_MANIFEST,
                "[package]\nname = \"b\"\n[[bench]]\nname = \"speed\"\n",
            ),
            File::new("crates/a/Cargo.toml", "[package]\nname = \"tollgate-a\"\n"),
            File::new("crates/a/tests/s6.rs", ""),
            File::new("crates/a/sample.yaml", ""),
            File::new(".ci/run", ""),
            File::new(TOOL, MAIN),
            File::new(
                "tools/tollgate/src/mock_worker.rs",
                "    queue_limit: u64,\n",
            ),
            File::new("tools/tollgate/src/mock_worker/args.rs", "    seed: u64,\n"),
        ])
    }

    fn findings(document: &str) -> Vec<String> {
        let findings = check_commands(&tree(document));
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn commands_that_name_what_exists_pass() {
        let good = "```sh\n# a comment\ncargo test -p tollgate-a --test s6 -- --nocapture\n\
            cargo run --release -- mock-worker --queue-limit 3 --seed 1 crates/a/sample.yaml # so\n\
            cargo run --example look -- target/page.html\n\
            A=1 cargo bench --bench speed\n.ci/run\ntarget/release/tollgate --help\n\
            cat ops.jsonl | tollgate \\\n  mock-worker --help\n```\n\
            ```console\n$ tollgate demo\nno tollgate nonsense\n```\n\
            ```text\ntollgate nonsense\n```\n";
        assert_eq!(findings(good), [""; 0]);
    }

    #[test]
    fn commands_that_name_what_does_not_exist_are_found() {
        let bad = [
            ("tollgate serve", "no subcommand `serve`"),
            ("cargo run -- serve", "no subcommand `serve`"),
            ("tollgate mock-worker --speed 2", "no flag `--speed`"),
            ("cargo test -p tollgate-b", "no package `tollgate-b`"),
            ("cargo test --test s7", "no test target `s7`"),
            ("cargo bench --bench size", "no bench `size`"),
            (
                "cargo run --manifest-path x/Cargo.toml",
                "`x/Cargo.toml` does not exist",
            ),
            ("tools/build", "`tools/build` does not exist"),
            (
                "tollgate demo crates/a/other.yaml",
                "`crates/a/other.yaml` does not exist",
            ),
            ("cat x | tollgate serve", "no subcommand `serve`"),
        ];
        for (command, expected) in bad {
            let found = findings(&format!("# Title\n```sh\n{command}\n```\n"));
            assert_eq!(found.len(), 1, "{command}: {found:?}");
            assert!(found[0].starts_with("README.md:3: "), "{found:?}");
            assert!(found[0].contains(expected), "{command}: {found:?}");
        }
    }

    #[test]
    fn what_no_document_shows_is_found() {
        let mut files = tree("").files;
        files.retain(|file| file.path != "docs/SHOWN.md");
        files.retain(|file| file.path != BENCHES);
        let found = check_commands(&Tree::of_files(files));
        assert_eq!(found.len(), 3, "{found:?}");
    }
}
