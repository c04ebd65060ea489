//! The files of the repository.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Directories that hold what builds and tools leave behind.
const SKIPPED: [&str; 3] = ["target", ".git", "proptest-regressions"];
/// Directories with a dot in front that belong to the repository; editors keep theirs beside them.
const DOT_DIRECTORIES: [&str; 3] = [".ci", ".github", ".cargo"];

/// One file of the repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Relative to the root, with `/` between its parts.
    pub path: String,
    /// Its text; `None` if it is not UTF-8.
    pub text: Option<String>,
}

impl File {
    /// A file with a text.
    #[must_use]
    pub fn new(path: &str, text: &str) -> Self {
        Self {
            path: path.to_owned(),
            text: Some(text.to_owned()),
        }
    }

    /// Its text, empty if it is not UTF-8.
    #[must_use]
    pub fn text(&self) -> &str {
        self.text.as_deref().unwrap_or_default()
    }

    /// Its lines with their numbers, from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text().lines())
    }

    /// The directory that it is in; empty for the root.
    #[must_use]
    pub fn directory(&self) -> &str {
        self.path
            .rsplit_once('/')
            .map_or("", |(directory, _)| directory)
    }

    /// Its name without the directory.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path
            .rsplit_once('/')
            .map_or(self.path.as_str(), |(_, name)| name)
    }

    /// Whether its name ends with a dot and `extension`.
    #[must_use]
    pub fn has_extension(&self, extension: &str) -> bool {
        self.name()
            .rsplit_once('.')
            .is_some_and(|(_, found)| found == extension)
    }
}

/// The files of a repository, by path.
#[derive(Clone, Debug)]
pub struct Tree {
    /// Where it stands on this machine.
    pub root: PathBuf,
    /// Its files, sorted by path.
    pub files: Vec<File>,
}

impl Tree {
    /// The repository that this package is part of.
    ///
    /// # Errors
    /// If a file or directory cannot be read.
    pub fn of_this_repository() -> io::Result<Self> {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = package.ancestors().nth(2).unwrap_or(package);
        Self::read(root)
    }

    /// The files under `root`, without what builds leave behind.
    ///
    /// # Errors
    /// If a file or directory cannot be read.
    pub fn read(root: &Path) -> io::Result<Self> {
        let mut files = Vec::new();
        walk(root, "", &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self {
            root: root.to_owned(),
            files,
        })
    }

    /// A tree that stands nowhere, to try rules on.
    #[must_use]
    pub fn of_files(mut files: Vec<File>) -> Self {
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Self {
            root: PathBuf::new(),
            files,
        }
    }

    /// The file at a path.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<&File> {
        let found = self.files.binary_search_by(|file| (*file.path).cmp(path));
        found.ok().map(|at| &self.files[at])
    }

    /// Whether a file or a directory of that path exists.
    #[must_use]
    pub fn has(&self, path: &str) -> bool {
        let inside = format!("{path}/");
        self.file(path).is_some() || self.files.iter().any(|file| file.path.starts_with(&inside))
    }

    /// The files whose names end with a dot and `extension`.
    pub fn with_extension<'t>(&'t self, extension: &'t str) -> impl Iterator<Item = &'t File> {
        self.files
            .iter()
            .filter(move |file| file.has_extension(extension))
    }
}

fn walk(root: &Path, directory: &str, files: &mut Vec<File>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(directory))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if directory.is_empty() {
            name.clone()
        } else {
            format!("{directory}/{name}")
        };
        let kind = entry.file_type()?;
        if kind.is_dir() {
            let is_foreign = name.starts_with('.') && !DOT_DIRECTORIES.contains(&&*name);
            if !SKIPPED.contains(&&*name) && !is_foreign {
                walk(root, &path, files)?;
            }
        } else if kind.is_file() && name != ".git" {
            let text = String::from_utf8(fs::read(entry.path())?).ok();
            files.push(File { path, text });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_repository_is_found_without_what_builds_leave() {
        let tree = Tree::of_this_repository().expect("the repository can be read");
        assert!(tree.file("tools/tidy/src/tree.rs").is_some());
        assert!(tree.has("crates/arbiter/src") && !tree.has("target") && !tree.has(".git"));
    }

    #[test]
    fn a_path_is_taken_apart() {
        let file = File::new("docs/TUNING.md", "one\ntwo");
        assert_eq!((file.directory(), file.name()), ("docs", "TUNING.md"));
        assert!(file.has_extension("md") && !file.has_extension("d"));
        assert_eq!(file.lines().last(), Some((2, "two")));
        let file = File::new("LICENSE", "");
        assert_eq!((file.directory(), file.name()), ("", "LICENSE"));
    }
}
