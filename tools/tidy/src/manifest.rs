//! Rules for manifests: versions in one place, lints and metadata inherited, one binary, and
//! dependencies that point one way.

use crate::Finding;
use crate::tree::{File, Tree};

/// The workspace's own manifest, the only one with versions.
const ROOT: &str = "Cargo.toml";
/// A manifest outside the workspace, so that its dependencies never enter an ordinary build.
const PEERS: &str = "benches/peers/Cargo.toml";
/// What every package takes from the workspace.
const INHERITED: [&str; 6] = [
    "version",
    "edition",
    "rust-version",
    "license",
    "authors",
    "repository",
];

/// Which packages of the project each package may depend on, tests and benches included. Those
/// that are not listed may depend on all.
const DIRECTION: [(&str, &[&str]); 8] = [
    ("tollgate-policy", &[]),
    ("tollgate-arbiter", &["tollgate-policy"]),
    ("tollgate", &["tollgate-policy", "tollgate-arbiter"]),
    (
        "tollgate-sim",
        &["tollgate-policy", "tollgate-arbiter", "tollgate-report"],
    ),
    ("tollgate-report", &[]),
    (
        "tollgate-harness",
        &[
            "tollgate-policy",
            "tollgate-arbiter",
            "tollgate",
            "tollgate-report",
        ],
    ),
    (
        "tollgate-mock-worker",
        &[
            "tollgate-policy",
            "tollgate-arbiter",
            "tollgate-report",
            "tollgate-sim",
        ],
    ),
    (
        "tollgate-router",
        &[
            "tollgate-policy",
            "tollgate-arbiter",
            "tollgate",
            "tollgate-report",
            "tollgate-sim",
            "tollgate-mock-worker",
        ],
    ),
];

/// One `key = value` of a manifest, with the section that it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Setting<'f> {
    line: usize,
    section: &'f str,
    key: &'f str,
    value: &'f str,
}

/// The settings of a manifest. A value that goes on over several lines is its first line.
fn settings(file: &File) -> Vec<Setting<'_>> {
    let mut section = "";
    let mut settings = Vec::new();
    for (line, text) in file.lines() {
        let text = text.trim();
        if let Some(header) = text.strip_prefix('[').filter(|rest| rest.ends_with(']')) {
            section = header.trim_matches(['[', ']']);
        } else if let Some((key, value)) = text
            .split_once('=')
            .filter(|_| !text.starts_with(['#', '"', '{']))
        {
            let (key, value) = (key.trim(), value.trim());
            settings.push(Setting {
                line,
                section,
                key,
                value,
            });
        }
    }
    settings
}

fn value_of<'f>(file: &'f File, section: &str, key: &str) -> Option<&'f str> {
    let mut settings = settings(file).into_iter();
    settings
        .find(|setting| setting.section == section && setting.key == key)
        .map(|setting| setting.value)
}

fn name_of(file: &File) -> Option<&str> {
    value_of(file, "package", "name").map(|name| name.trim_matches('"'))
}

/// The names of the packages of a tree, in the order of their manifests' paths.
pub fn package_names(tree: &Tree) -> impl Iterator<Item = &str> {
    manifests(tree).filter_map(name_of)
}

fn manifests(tree: &Tree) -> impl Iterator<Item = &File> {
    tree.files.iter().filter(|file| file.name() == "Cargo.toml")
}

/// Every rule for the manifests of a repository.
#[must_use]
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in manifests(tree) {
        match file.path.as_str() {
            ROOT => findings.extend(check_root(file)),
            PEERS => findings.extend(check_peers(file)),
            _ => findings.extend(check_member(file)),
        }
    }
    findings.extend(check_membership(tree));
    findings.extend(check_binaries(tree));
    findings
}

fn check_root(file: &File) -> Vec<Finding> {
    let wanted = [
        (
            "workspace.lints.rust",
            "unsafe_code",
            "\"forbid\"",
            "no package contains unsafe code",
        ),
        (
            "workspace.lints.rust",
            "missing_docs",
            "\"warn\"",
            "every public item is documented",
        ),
        (
            "workspace.package",
            "license",
            "\"Apache-2.0\"",
            "that is what LICENSE says",
        ),
        (
            "workspace.package",
            "edition",
            "\"2024\"",
            "the code is written for it",
        ),
    ];
    let missing = wanted
        .into_iter()
        .filter(|(section, key, value, _)| value_of(file, section, key) != Some(value));
    missing
        .map(|(section, key, value, why)| {
            let message = format!("[{section}] must say `{key} = {value}`: {why}");
            Finding::of_file(&file.path, message)
        })
        .collect()
}

fn check_peers(file: &File) -> Vec<Finding> {
    let is_own_workspace = file.lines().any(|(_, line)| line.trim() == "[workspace]");
    let mut findings = Vec::new();
    if !is_own_workspace {
        let message = "must have a [workspace] table of its own, so that what it depends on stays \
                       out of ordinary builds";
        findings.push(Finding::of_file(&file.path, message));
    }
    if value_of(file, "package", "publish") != Some("false") {
        findings.push(Finding::of_file(
            &file.path,
            "must say `publish = false` in [package]",
        ));
    }
    if value_of(file, "lints.rust", "unsafe_code") != Some("\"forbid\"") {
        let message = "must say `unsafe_code = \"forbid\"` in [lints.rust], since it cannot \
                       inherit it";
        findings.push(Finding::of_file(&file.path, message));
    }
    findings
}

fn check_member(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut of_file = |message: String| findings.push(Finding::of_file(&file.path, message));
    if value_of(file, "lints", "workspace") != Some("true") {
        of_file("must say `workspace = true` in [lints]".to_owned());
    }
    for key in INHERITED {
        if value_of(file, "package", &format!("{key}.workspace")) != Some("true") {
            of_file(format!("must say `{key}.workspace = true` in [package]"));
        }
    }
    let is_named = name_of(file).is_some_and(|name| name.starts_with("tollgate"));
    if !is_named {
        of_file("the package's name must begin with `tollgate`".to_owned());
    }
    if value_of(file, "package", "description").is_none() {
        of_file("must say in [package] what the package is: `description = \"..\"`".to_owned());
    }
    let is_published = value_of(file, "package", "publish") != Some("false");
    if is_published && !file.path.starts_with("crates/") {
        of_file("only packages under crates/ are published: say `publish = false`".to_owned());
    }
    findings.extend(check_dependencies(file));
    findings
}

/// Versions stand in the workspace's table alone, and dependencies point one way.
fn check_dependencies(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let allowed = name_of(file).and_then(|package| {
        let mut known = DIRECTION.iter();
        known
            .find(|(name, _)| *name == package)
            .map(|(_, allowed)| *allowed)
    });
    for setting in settings(file) {
        let is_list = setting.section.ends_with("dependencies");
        let is_table = setting.section.contains("dependencies.");
        if !is_list && !is_table {
            continue;
        }
        let has_version = match setting.key {
            "version" | "path" | "git" if is_table => true,
            _ if is_table => false,
            key => !key.ends_with(".workspace") && !setting.value.contains("workspace = true"),
        };
        if has_version {
            let message = format!(
                "`{} = {}`: put it into [workspace.dependencies] of the root manifest and inherit \
                 it with `workspace = true`",
                setting.key, setting.value
            );
            findings.push(Finding::new(&file.path, setting.line, message));
        }
        let dependency = if is_table {
            setting.section.rsplit('.').next().unwrap_or_default()
        } else {
            setting.key.trim_end_matches(".workspace")
        };
        let is_ours = dependency.starts_with("tollgate");
        // The naive model judges whatever stands on the arbiter: a test may use it anywhere.
        let is_judge = dependency == "tollgate-sim" && setting.section == "dev-dependencies";
        let is_known = allowed.is_none_or(|allowed| allowed.contains(&dependency));
        if is_ours && !is_known && !is_judge {
            let message = format!("must not depend on `{dependency}`: arrows point the other way");
            findings.push(Finding::new(&file.path, setting.line, message));
        }
    }
    findings
}

/// Every package stands in the workspace's list of members.
fn check_membership(tree: &Tree) -> Vec<Finding> {
    let Some(root) = tree.file(ROOT) else {
        return vec![Finding::of_file(ROOT, "is missing")];
    };
    let members = value_of(root, "workspace", "members").unwrap_or_default();
    let packages = manifests(tree).filter(|file| file.path != ROOT && file.path != PEERS);
    packages
        .filter(|file| !members.contains(&format!("\"{}\"", file.directory())))
        .map(|file| {
            let message = format!(
                "not a member of the workspace: add \"{}\" to the root manifest",
                file.directory()
            );
            Finding::of_file(&file.path, message)
        })
        .collect()
}

/// The workspace has exactly one binary, so that `cargo run` needs no name.
fn check_binaries(tree: &Tree) -> Vec<Finding> {
    let mut binaries = Vec::new();
    for file in manifests(tree).filter(|file| file.path != PEERS) {
        let declared = file.lines().filter(|(_, line)| line.trim() == "[[bin]]");
        binaries.extend(declared.map(|(line, _)| (file.path.as_str(), line)));
        let directory = file.path.trim_end_matches("Cargo.toml");
        let implied = format!("{directory}src/main.rs");
        let is_declared = file.text().contains("path = \"src/main.rs\"");
        if let Some(main) = tree.file(&implied).filter(|_| !is_declared) {
            binaries.push((main.path.as_str(), 1));
        }
        let others = format!("{directory}src/bin/");
        let others = tree
            .files
            .iter()
            .filter(|file| file.path.starts_with(&others));
        binaries.extend(others.map(|file| (file.path.as_str(), 1)));
    }
    let surplus = binaries.iter().skip(1);
    let mut findings: Vec<Finding> = surplus
        .map(|(path, line)| {
            let message = "a second binary: the workspace has one, so that `cargo run` needs no \
                           name";
            Finding::new(path, *line, message)
        })
        .collect();
    if binaries.is_empty() {
        findings.push(Finding::of_file(ROOT, "the workspace has no binary"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD_ROOT: &str = "[workspace]\nmembers = [\"crates/policy\", \"tools/t\"]\n\
        [workspace.package]\nlicense = \"Apache-2.0\"\nedition = \"2024\"\n\
        [workspace.dependencies]\nserde = \"1.0\"\n\
        [workspace.lints.rust]\nunsafe_code = \"forbid\"\nmissing_docs = \"warn\"\n";
    const GOOD_MEMBER: &str = "[package]\nname = \"tollgate-policy\"\ndescription = \"Policy\"\n\
        version.workspace = true\nedition.workspace = true\nrust-version.workspace = true\n\
        license.workspace = true\nauthors.workspace = true\nrepository.workspace = true\n\
        [dependencies]\nserde.workspace = true\nclap = { workspace = true }\n\
        [dev-dependencies.proptest]\nworkspace = true\n[lints]\nworkspace = true\n";
    const GOOD_PEERS: &str = "[workspace]\n[package]\npublish = false\n[dependencies]\nx = \"=1\"\n\
        [lints.rust]\nunsafe_code = \"forbid\"\n";

    fn good_tree() -> Vec<File> {
        let tool = GOOD_MEMBER
            .replace("tollgate-policy", "tollgate-cli")
            .replace("[dependencies]", "publish = false\n[[bin]]\n[dependencies]");
        vec![
            File::new(ROOT, GOOD_ROOT),
            File::new("crates/policy/Cargo.toml", GOOD_MEMBER),
            File::new("tools/t/Cargo.toml", &tool),
            File::new(PEERS, GOOD_PEERS),
        ]
    }

    /// The findings after `from` became `to` in one file of the good tree.
    fn after_change(path: &str, from: &str, to: &str) -> Vec<String> {
        let mut files = good_tree();
        let file = files.iter_mut().find(|file| file.path == path);
        let file = file.expect("a file of the good tree");
        let text = file.text().replace(from, to);
        assert_ne!(text, file.text(), "{from}");
        file.text = Some(text);
        let findings = check(&Tree::of_files(files));
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_good_workspace_passes() {
        assert_eq!(check(&Tree::of_files(good_tree())), []);
    }

    #[test]
    fn a_change_for_the_worse_is_found() {
        let policy = "crates/policy/Cargo.toml";
        let tool = "tools/t/Cargo.toml";
        let changes = [
            (ROOT, "\"forbid\"", "\"warn\"", "unsafe_code"),
            (ROOT, "\"tools/t\"", "\"tools/u\"", "not a member"),
            (ROOT, "Apache-2.0", "MIT", "LICENSE"),
            (policy, "[lints]\nworkspace = true", "[lints]", "[lints]"),
            (
                policy,
                "license.workspace = true\n",
                "",
                "license.workspace",
            ),
            (
                policy,
                "\nversion.workspace = true",
                "\nversion = \"1.0.0\"",
                "version.workspace",
            ),
            (policy, "description", "summary", "description"),
            (
                policy,
                "serde.workspace = true",
                "serde = \"1.0\"",
                "workspace.dependencies",
            ),
            (
                policy,
                "{ workspace = true }",
                "{ version = \"4\" }",
                "workspace.dependencies",
            ),
            (
                policy,
                "proptest]\nworkspace = true",
                "proptest]\nversion = \"1\"",
                "inherit",
            ),
            (
                policy,
                "serde.workspace",
                "tollgate-arbiter.workspace",
                "other way",
            ),
            (policy, "[lints]", "[[bin]]\n[lints]", "second binary"),
            (tool, "[[bin]]", "", "no binary"),
            (tool, "publish = false\n", "", "publish = false"),
            (tool, "tollgate-cli", "cli", "begin with"),
            (PEERS, "[workspace]", "", "[workspace] table"),
            (PEERS, "publish = false", "", "publish"),
            (PEERS, "forbid", "deny", "cannot inherit"),
        ];
        for (path, from, to, expected) in changes {
            let found = after_change(path, from, to);
            assert_eq!(found.len(), 1, "{from}: {found:?}");
            assert!(found[0].contains(expected), "{from}: {found:?}");
        }
    }

    #[test]
    fn a_binary_that_cargo_finds_by_itself_counts() {
        for path in ["crates/policy/src/main.rs", "crates/policy/src/bin/x.rs"] {
            let mut files = good_tree();
            files.push(File::new(path, ""));
            let findings = check(&Tree::of_files(files));
            assert_eq!(findings.len(), 1, "{path}");
        }
    }

    #[test]
    fn versions_are_named_with_their_line() {
        let found = after_change(
            "crates/policy/Cargo.toml",
            "serde.workspace = true",
            "serde = \"1\"",
        );
        assert!(
            found[0].starts_with("crates/policy/Cargo.toml:11: `serde"),
            "{found:?}"
        );
    }
}
