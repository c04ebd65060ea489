//! Source files that no target reaches: what is not compiled is not tested either.
//!
//! A file directly in `tests/` or `examples/` is a target of its own. Every other file is named by a `mod` line in
//! the file above it, or by a `path` in a manifest or an attribute.

use crate::Finding;
use crate::tree::{File, Tree};

/// Finds the Rust files that belong to no target.
#[must_use]
pub fn check(tree: &Tree) -> Vec<Finding> {
    let rust_files = tree.with_extension("rs");
    let orphans = rust_files.filter(|file| !is_target(tree, file) && !is_declared(tree, file));
    orphans
        .map(|file| {
            let message = format!(
                "no target reaches this file: declare `mod {};` in the file above it",
                module_name(file)
            );
            Finding::of_file(&file.path, message)
        })
        .collect()
}

/// Whether cargo finds a file by itself or is pointed to it by its manifest.
fn is_target(tree: &Tree, file: &File) -> bool {
    let Some(package) = package_of(tree, file) else {
        return false;
    };
    let inside = relative(&package.path, file);
    let by_itself = match inside.split_once('/') {
        Some(("src", rest)) => rest == "lib.rs" || rest == "main.rs",
        Some(("tests" | "examples", rest)) => !rest.contains('/') || rest.ends_with("/main.rs"),
        _ => inside == "build.rs",
    };
    by_itself || package.text().contains(&format!("path = \"{inside}\""))
}

/// The manifest of the package that a file is in.
fn package_of<'t>(tree: &'t Tree, file: &File) -> Option<&'t File> {
    let mut directory = file.directory();
    loop {
        if let Some(manifest) = tree.file(&join(directory, "Cargo.toml")) {
            return Some(manifest);
        }
        if directory.is_empty() {
            return None;
        }
        directory = directory.rsplit_once('/').map_or("", |(parent, _)| parent);
    }
}

fn relative<'f>(manifest: &str, file: &'f File) -> &'f str {
    let directory = manifest.strip_suffix("Cargo.toml").unwrap_or_default();
    file.path.strip_prefix(directory).unwrap_or(&file.path)
}

/// The name that a `mod` line gives to a file.
fn module_name(file: &File) -> &str {
    let name = file.name().strip_suffix(".rs").unwrap_or(file.name());
    if name == "mod" {
        let directory = file.directory();
        directory
            .rsplit_once('/')
            .map_or(directory, |(_, last)| last)
    } else {
        name
    }
}

/// Whether the file above, or for a module that test targets share any of them, declares a file.
fn is_declared(tree: &Tree, file: &File) -> bool {
    let directory = if file.name() == "mod.rs" {
        file.directory()
            .rsplit_once('/')
            .map_or("", |(parent, _)| parent)
    } else {
        file.directory()
    };
    let mut parents = vec![
        join(directory, "mod.rs"),
        join(directory, "lib.rs"),
        join(directory, "main.rs"),
        format!("{directory}.rs"),
    ];
    if directory.ends_with("/tests") {
        let siblings = tree
            .files
            .iter()
            .filter(|other| other.directory() == directory);
        parents.extend(siblings.map(|other| other.path.clone()));
    }
    let parents = parents.iter().filter(|path| **path != file.path);
    parents
        .filter_map(|path| tree.file(path))
        .any(|parent| declares(parent, module_name(file)))
}

fn declares(parent: &File, module: &str) -> bool {
    let ending = format!("mod {module};");
    parent.lines().any(|(_, line)| {
        line.trim()
            .strip_suffix(&ending)
            .is_some_and(|visibility| visibility.is_empty() || visibility.starts_with("pub"))
    })
}

fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() {
        name.to_owned()
    } else {
        format!("{directory}/{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orphans(files: &[(&str, &str)]) -> Vec<String> {
        let files = files.iter().map(|(path, text)| File::new(path, text));
        let findings = check(&Tree::of_files(files.collect()));
        findings.into_iter().map(|finding| finding.path).collect()
    }

    #[test]
    fn reached_files_pass() {
        let good = [
            (
                "a/Cargo.toml",
                "[[bench]]\nname = \"speed\"\npath = \"speed.rs\"\n",
            ),
            ("a/speed.rs", ""),
            (
                "a/src/lib.rs",
                "pub mod b;\nmod c;\n#[cfg(test)]\nmod tests;\n",
            ),
            ("a/src/b.rs", "pub(crate) mod inner;\n"),
            ("a/src/b/inner.rs", ""),
            ("a/src/c/mod.rs", "mod d;\n"),
            ("a/src/c/d.rs", ""),
            ("a/src/tests.rs", ""),
            ("a/tests/one.rs", "mod common;\n"),
            ("a/tests/common/mod.rs", "mod world;\n"),
            ("a/tests/common/world.rs", ""),
        ];
        assert_eq!(orphans(&good), [""; 0]);
    }

    #[test]
    fn files_that_nobody_declares_are_found() {
        let bad = [
            ("a/Cargo.toml", ""),
            ("a/src/lib.rs", "// mod b;\nmod bb;\n"),
            ("a/src/b.rs", ""),
            ("a/src/bb.rs", ""),
            ("a/src/c/mod.rs", ""),
            ("a/tests/one.rs", ""),
            ("a/tests/common/mod.rs", ""),
            ("lost.rs", ""),
        ];
        let expected = [
            "a/src/b.rs",
            "a/src/c/mod.rs",
            "a/tests/common/mod.rs",
            "lost.rs",
        ];
        assert_eq!(orphans(&bad), expected);
    }
}
