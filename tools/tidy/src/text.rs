//! Rules for every text: white space, and words that have no place in a text about the product.

use crate::Finding;
use crate::tree::File;

/// Directories at the top of somebody's machine. A path that starts there works on that machine
/// alone.
const MACHINE_ROOTS: [&str; 7] = ["home", "root", "work", "tmp", "Users", "mnt", "opt"];

/// Words about how a text came to be, in lower case and split, so that this file passes its own
/// rule.
const MAKING_OF: [(&str, &str); 9] = [
    ("sub", "agent"),
    ("sub-", "agent"),
    ("sub-", "helper"),
    ("this ", "session"),
    ("previous ", "session"),
    ("last ", "session"),
    ("next ", "session"),
    ("another ", "session"),
    ("another ", "helper"),
];

/// Marks of unfinished work, split as well.
const NOTES_TO_SELF: [(&str, &str); 4] = [("TO", "DO"), ("FIX", "ME"), ("XX", "X:"), ("HA", "CK:")];

/// A text that is given, to the letter.
const GIVEN: &str = "LICENSE";

/// Every rule for a text of ours.
#[must_use]
pub fn check(file: &File) -> Vec<Finding> {
    if file.path == GIVEN {
        return Vec::new();
    }
    if file.text.is_none() {
        let message = "not UTF-8 text: the repository holds text only";
        return vec![Finding::of_file(&file.path, message)];
    }
    let mut findings = check_white_space(file);
    findings.extend(check_words(file));
    findings
}

/// No tabs, no carriage returns, nothing behind the last word of a line, one line end at the end.
#[must_use]
pub fn check_white_space(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(file.text().split('\n')) {
        let mut report = |message| findings.push(Finding::new(&file.path, number, message));
        if line.contains('\t') {
            report("a tab: use spaces");
        }
        if line.ends_with('\r') {
            report("a carriage return: end lines with a line feed alone");
        } else if line.ends_with([' ', '\t']) {
            report("white space at the end of the line: remove it");
        }
    }
    let lines = file.text().lines().count();
    if !file.text().is_empty() && !file.text().ends_with('\n') {
        let message = "no line end at the end of the file: add one";
        findings.push(Finding::new(&file.path, lines, message));
    }
    if file.text().ends_with("\n\n") {
        let message = "empty lines at the end of the file: remove them";
        findings.push(Finding::new(&file.path, lines, message));
    }
    findings
}

/// A text speaks of the product: it names no place of one machine, nothing outside the repository,
/// not how it was made, and leaves no notes to self.
#[must_use]
pub fn check_words(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in file.lines() {
        let mut report = |message: String| {
            findings.push(Finding::new(&file.path, number, message));
        };
        if let Some(path) = machine_path(line) {
            report(format!(
                "`{path}` is a place on one machine: name a path relative to the repository, or \
                 use a temporary directory"
            ));
        }
        if line.contains(&outside()) && !may_look_outside(file) {
            report(format!(
                "`{}` is outside the repository: only checks that skip where it is absent may look \
                 there",
                outside()
            ));
        }
        let lower = line.to_lowercase();
        for (head, tail) in MAKING_OF {
            let word = format!("{head}{tail}");
            if lower.contains(&word) {
                report(format!(
                    "\"{word}\" is about how the text was made: speak of the product"
                ));
            }
        }
        for (head, tail) in NOTES_TO_SELF {
            let word = format!("{head}{tail}");
            if has_word(line, &word) {
                report(format!(
                    "\"{word}\" is a note to self: do it, or write what is missing into the docs"
                ));
            }
        }
    }
    findings
}

/// What stands beside the repository where it was developed, split so that this file passes.
fn outside() -> String {
    ["..", "shared"].join("/")
}

/// The CI script, and tests, which skip with a message where the place is absent.
fn may_look_outside(file: &File) -> bool {
    let skips = file.text().contains("skip");
    file.path == ".ci/run" || skips && file.path.split('/').any(|part| part == "tests")
}

/// The first absolute path in a line that starts at a place of one machine.
fn machine_path(line: &str) -> Option<&str> {
    line.match_indices('/').find_map(|(at, _)| {
        let before = line[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || "./_-}>)*~".contains(c)) {
            return None;
        }
        let rest = &line[at + 1..];
        let end = rest
            .find(|c: char| !(c.is_alphanumeric() || "._-/".contains(c)))
            .unwrap_or(rest.len());
        let (root, inside) = rest[..end].split_once('/')?;
        let is_path = inside.starts_with(|c: char| c.is_alphanumeric() || c == '.');
        (MACHINE_ROOTS.contains(&root) && is_path).then(|| &line[at..=at + end])
    })
}

/// Whether `word` stands in `line` with no letter or digit right beside it.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let is_outside = |c: Option<char>| !c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        is_outside(before) && is_outside(after)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        let findings = check(&File::new(path, text));
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn clean_text_passes() {
        let good = "# Title\n\nA session of the tool; https://example.org/tmp/x; a/work/b; /tmp.\n";
        assert_eq!(messages("a.md", good), [""; 0]);
        assert_eq!(messages("empty", ""), [""; 0]);
        assert_eq!(messages(GIVEN, "\tas given \n"), [""; 0]);
        assert_eq!(messages("a.md", "methods, TODOs and XXXL\n"), [""; 0]);
    }

    #[test]
    fn white_space_is_found_in_its_line() {
        let bad = "one \ntwo\tx\nthree\r\nfour";
        let found = messages("a.md", bad);
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found[0].starts_with("a.md:1: white space"));
        assert!(found[1].starts_with("a.md:2: a tab"));
        assert!(found[2].starts_with("a.md:3: a carriage return"));
        assert!(found[3].starts_with("a.md:4: no line end"));
        assert!(messages("a.md", "x\n\n")[0].starts_with("a.md:2: empty lines"));
    }

    #[test]
    fn places_on_one_machine_are_found() {
        for root in MACHINE_ROOTS {
            let found = messages("a.rs", &format!("let x = \"/{root}/me/file\";\n"));
            assert!(
                found[0].contains(&format!("`/{root}/me/file` is a place")),
                "{found:?}"
            );
        }
        let found = messages("a.sh", &format!("cd {}/cases\n", outside()));
        assert!(found[0].contains("outside the repository"), "{found:?}");
    }

    #[test]
    fn a_test_that_skips_may_look_outside() {
        let text = format!("// {}\nprintln!(\"skipped\");\n", outside());
        assert_eq!(messages("crates/sim/tests/cases.rs", &text), [""; 0]);
        assert_eq!(messages("crates/sim/src/lib.rs", &text).len(), 1);
        assert_eq!(messages("crates/sim/tests/x.rs", &text[..15]).len(), 2);
    }

    #[test]
    fn words_about_the_making_are_found() {
        for (head, tail) in MAKING_OF {
            let found = messages("a.md", &format!("As {head}{tail} said.\n"));
            assert!(!found.is_empty(), "{head}{tail}");
        }
        for (head, tail) in NOTES_TO_SELF {
            let found = messages("a.rs", &format!("// {head}{tail} later\n"));
            assert_eq!(found.len(), 1, "{head}{tail}");
        }
    }

    #[test]
    fn what_is_not_text_is_found() {
        let file = File {
            path: "logo.png".to_owned(),
            text: None,
        };
        assert_eq!(check(&file)[0].line, 0);
    }
}
