//! Rules for one Rust source file.

use crate::Finding;
use crate::tree::File;

/// The most lines of a file that does not say in its head why it is one thing.
pub const LINES_MAX: usize = 600;
/// How the head of a longer file says it.
pub const ONE_THING: &str = "One thing: ";
/// How many lines the head has.
const HEAD_LINES: usize = 30;

/// Calls that have no place in a program that others rely on, and what to write instead.
const BANNED: [(&str, &str); 5] = [
    (
        ".unwrap()",
        "return an error, or use `expect` to say why it cannot fail",
    ),
    ("todo!", "write it"),
    ("unimplemented!", "write it"),
    ("dbg!", "remove it"),
    ("#[allow(", "use `#[expect(.., reason = \"..\")]`"),
];

/// Every rule for a Rust file.
#[must_use]
pub fn check(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = file.text().lines().count();
    let head = || file.text().lines().take(HEAD_LINES);
    if lines > LINES_MAX && !head().any(|line| line.contains(ONE_THING)) {
        let message = format!(
            "{lines} lines, more than {LINES_MAX}: split it by noun, or say in its head why it is \
             \"{ONE_THING}..\""
        );
        findings.push(Finding::of_file(&file.path, message));
    }
    if !file.text().starts_with("//!") {
        let message = "no module docs: begin with `//!` and what the file is for";
        findings.push(Finding::new(&file.path, 1, message));
    }
    findings.extend(check_calls(file));
    findings
}

/// No call of the banned list outside tests.
fn check_calls(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_test = is_test_path(&file.path);
    for (number, line) in lines_before_tests(file) {
        let code = code_of(line);
        for (call, remedy) in BANNED {
            let is_meant = !is_test || call.starts_with('#');
            if is_meant && code.contains(call) {
                let message = format!("`{call}` in code: {remedy}");
                findings.push(Finding::new(&file.path, number, message));
            }
        }
    }
    findings
}

/// Whether a file holds tests only.
#[must_use]
pub fn is_test_path(path: &str) -> bool {
    path.split('/')
        .any(|part| part == "tests" || part == "tests.rs")
}

/// The lines up to the `mod tests` at the end of a file, where its tests begin.
fn lines_before_tests(file: &File) -> impl Iterator<Item = (usize, &str)> {
    let lines: Vec<(usize, &str)> = file.lines().collect();
    let begins = |pair: &[(usize, &str)]| {
        pair[0].1 == "#[cfg(test)]"
            && (pair[1].1.starts_with("mod ") && pair[1].1.ends_with('{')
                || pair[1].1.starts_with("#!["))
    };
    let end = lines.windows(2).position(begins).unwrap_or(lines.len());
    lines.into_iter().take(end)
}

/// A line without its comment and without what stands in string literals.
///
/// A line is looked at by itself, so the inside of a literal over several lines counts as code.
#[must_use]
pub fn code_of(line: &str) -> String {
    let mut code = String::new();
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '/' if rest.peek() == Some(&'/') => break,
            '"' => {
                code.push_str("\"\"");
                while let Some(c) = rest.next() {
                    match c {
                        '\\' => drop(rest.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            '\'' => {
                // A character literal or a lifetime; only '"' and '\\' need care.
                code.push(c);
                if rest.peek() == Some(&'\\') {
                    rest.next();
                    rest.next();
                } else if rest.peek() == Some(&'"') {
                    rest.next();
                }
            }
            c => code.push(c),
        }
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        let findings = check(&File::new(path, text));
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_good_file_passes() {
        let good = "//! Docs.\n\n// never .unwrap() here\nfn f() -> char { g(\"todo!()\"); '\"' }\n\
                    #[cfg(test)]\nmod tests {\n    fn g() { x.unwrap(); }\n}\n";
        assert_eq!(messages("crates/a/src/lib.rs", good), [""; 0]);
    }

    #[test]
    fn banned_calls_are_found() {
        for (call, _) in BANNED {
            let bad = format!("//! Docs.\nfn f() {{ g(\"\\\"\"); {call} }}\n");
            let found = messages("crates/a/src/lib.rs", &bad);
            assert_eq!(found.len(), 1, "{call}");
            assert!(
                found[0].starts_with("crates/a/src/lib.rs:2: `"),
                "{found:?}"
            );
        }
    }

    #[test]
    fn tests_may_unwrap_but_not_allow() {
        let text = "//! Docs.\nfn f() { x.unwrap(); }\n#[allow(dead_code)]\nfn g() {}\n";
        let found = messages("crates/a/tests/b.rs", text);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("expect"), "{found:?}");
    }

    #[test]
    fn code_behind_a_test_only_import_is_still_code() {
        let text = "//! Docs.\n#[cfg(test)]\nuse a::b;\nfn f() { x.unwrap(); }\n";
        assert_eq!(messages("crates/a/src/lib.rs", text).len(), 1);
    }

    #[test]
    fn long_files_say_why() {
        let body = "fn f() {}\n".repeat(LINES_MAX);
        let found = messages("a.rs", &format!("//! Docs.\n{body}"));
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("a.rs: 601 lines"), "{found:?}");
        let said = format!("//! Docs. {ONE_THING}a table.\n{body}");
        assert_eq!(messages("a.rs", &said), [""; 0]);
    }

    #[test]
    fn module_docs_come_first() {
        assert!(messages("a.rs", "fn f() {}\n")[0].contains("no module docs"));
    }

    #[test]
    fn code_ends_where_comments_and_literals_begin() {
        assert_eq!(code_of("let a = \"x // y\"; // z"), "let a = \"\"; ");
        assert_eq!(code_of("let b = '\"'; c(\"d\")"), "let b = ''; c(\"\")");
        assert_eq!(code_of("let b = '\\''; c"), "let b = ''; c");
    }
}
