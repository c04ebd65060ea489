//! Repository rules of Tollgate: what a program can see of the project's style, as ordinary tests.
//!
//! Each rule is a function from text to [`Finding`]s; the tests of this package run every rule over
//! the repository. A finding says where, what is wrong, and what would be right. Rules that
//! compiler, clippy and rustfmt check already are not repeated here.
//!
//! | module | what it looks at |
//! |---|---|
//! | [`tree`] | the files of the repository |
//! | [`text`] | white space, and words that have no place in a text about the product |
//! | [`rust`] | length of files, module docs, calls that may fail, `allow` |
//! | [`modules`] | source files that no target reaches |
//! | [`manifest`] | versions, lints, metadata, targets, direction of dependencies |
//! | [`layout`] | what stands at the top of the repository |
//! | [`markdown`] | headings, links and code blocks of a document |
//! | [`docs`] | links, reachability, cited rules and commands |

pub mod docs;
pub mod layout;
pub mod manifest;
pub mod markdown;
pub mod modules;
pub mod rust;
pub mod text;
pub mod tree;

use std::fmt;

/// Something in the repository that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file, relative to the root of the repository, with `/` between its parts.
    pub path: String,
    /// The line, from 1; 0 where the file as a whole is meant.
    pub line: usize,
    /// What is wrong and what would be right.
    pub message: String,
}

impl Finding {
    /// A finding in one line of a file.
    #[must_use]
    pub fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            message: message.into(),
        }
    }

    /// A finding about a file as a whole.
    #[must_use]
    pub fn of_file(path: &str, message: impl Into<String>) -> Self {
        Self::new(path, 0, message)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}

/// Fails with every finding, one a line.
///
/// # Panics
/// If there is a finding.
pub fn assert_none(mut findings: Vec<Finding>) {
    findings.sort();
    let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
    assert!(lines.is_empty(), "\n{}\n", lines.join("\n"));
}

/// The README's examples, compiled and run as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct ReadmeExamples;

/// Those for embedders.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/EMBEDDING.md")]
pub struct EmbeddingExamples;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_reads_like_a_compiler_message() {
        let finding = Finding::new("docs/TUNING.md", 7, "a tab: use spaces");
        assert_eq!(finding.to_string(), "docs/TUNING.md:7: a tab: use spaces");
        let finding = Finding::of_file("Cargo.toml", "is missing");
        assert_eq!(finding.to_string(), "Cargo.toml: is missing");
    }

    #[test]
    #[should_panic(expected = "a.md:2: second")]
    fn findings_fail_a_test() {
        assert_none(vec![Finding::new("a.md", 2, "second")]);
    }
}
