//! Collecting what is wrong, bounded, and showing the lines it concerns.

use std::collections::BTreeMap;
use std::fmt;

use crate::error::{ERRORS_MAX, PolicyError, PolicyErrors, Position, Snippet};

/// How many characters of a line are shown, at most.
const SNIPPET_CHARS: usize = 120;
/// How many characters of somebody's text a message repeats, at most.
const QUOTED_CHARS: usize = 60;

/// A place in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    pub(crate) position: Position,
    /// Offset in the text, in bytes.
    pub(crate) byte: usize,
}

/// An error without its place.
pub(crate) struct Finding {
    /// The key it concerns.
    pub(crate) path: String,
    /// What is wrong.
    pub(crate) message: String,
    /// What would be right.
    pub(crate) remedy: String,
}

impl Finding {
    pub(crate) fn new(
        path: impl fmt::Display,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            path: path.to_string(),
            message: message.into(),
            remedy: remedy.into(),
        }
    }
}

/// The errors found so far, by place; of more than [`ERRORS_MAX`] the first ones are kept.
#[derive(Default)]
pub(crate) struct Report {
    /// By place and order of discovery.
    kept: BTreeMap<(Option<Mark>, usize), Finding>,
    count: usize,
}

impl Report {
    /// Adds an error. Its words are only made if it is among the errors that are kept, so that a
    /// file with a hundred thousand errors costs little.
    pub(crate) fn add(&mut self, mark: Option<Mark>, finding: impl FnOnce() -> Finding) {
        let key = (mark, self.count);
        self.count += 1;
        if self.kept.len() < ERRORS_MAX {
            self.kept.insert(key, finding());
        } else if self
            .kept
            .last_key_value()
            .is_some_and(|(last, _)| key < *last)
        {
            self.kept.pop_last();
            self.kept.insert(key, finding());
        }
    }

    /// Whether nothing was found.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The errors, each with its line of `text`.
    pub(crate) fn into_errors(self, source: &str, text: &str) -> PolicyErrors {
        let omitted = self.count - self.kept.len();
        let errors = self
            .kept
            .into_iter()
            .map(
                |(
                    (mark, _),
                    Finding {
                        path,
                        message,
                        remedy,
                    },
                )| PolicyError {
                    position: mark.map(|mark| mark.position),
                    snippet: mark.map(|mark| snippet(text, mark.byte)),
                    path,
                    message,
                    remedy,
                },
            )
            .collect();
        PolicyErrors {
            source: source.to_owned(),
            errors,
            omitted,
        }
    }
}

/// Somebody's text inside a message: quoted, escaped, and cut if it is long.
pub(crate) fn quoted(text: &str) -> String {
    let mut shown = String::new();
    for character in text.chars().take(QUOTED_CHARS) {
        if is_printable(character) {
            shown.push(character);
        } else {
            shown.extend(character.escape_debug());
        }
    }
    if text.chars().nth(QUOTED_CHARS).is_some() {
        shown.push_str("..");
    }
    format!("`{shown}`")
}

/// `a, b and 3 more`: the first few of many things.
pub(crate) fn listed<'a>(things: impl IntoIterator<Item = &'a str>, count: usize) -> String {
    let shown: Vec<String> = things.into_iter().take(LISTED_MAX).map(quoted).collect();
    match count.saturating_sub(shown.len()) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// How many things a message lists.
pub(crate) const LISTED_MAX: usize = 5;

/// The line around an offset, fit for a terminal.
fn snippet(text: &str, byte: usize) -> Snippet {
    let bytes = text.as_bytes();
    let byte = text.floor_char_boundary(byte);
    let is_break = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let start = bytes[..byte]
        .iter()
        .rposition(is_break)
        .map_or(0, |at| at + 1);
    let end = bytes[byte..]
        .iter()
        .position(is_break)
        .map_or(bytes.len(), |at| byte + at);
    let before = &text[start..byte];
    let shown_before = before.chars().count().min(SNIPPET_CHARS / 2);
    let kept_before = before
        .chars()
        .rev()
        .take(shown_before)
        .collect::<Vec<char>>();
    let shown = kept_before
        .into_iter()
        .rev()
        .chain(text[byte..end].chars().take(SNIPPET_CHARS - shown_before))
        .map(|shown| if is_printable(shown) { shown } else { ' ' })
        .collect::<String>();
    Snippet {
        text: shown.trim_end().to_owned(),
        caret: shown_before,
    }
}

/// Whether a character may reach a terminal: no control characters, nothing that turns the
/// direction of writing.
fn is_printable(character: char) -> bool {
    let invisible = matches!(
        character,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
    );
    !character.is_control() && !invisible
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(line: u32, column: u32, byte: usize) -> Mark {
        Mark {
            position: Position { line, column },
            byte,
        }
    }

    #[test]
    fn an_error_shows_file_place_line_and_remedy() {
        let mut report = Report::default();
        let text = "a: 1\nquantum:\t0\r\n";
        report.add(Some(mark(2, 10, 14)), || {
            Finding::new("quantum", "0 is too small", "write 1")
        });
        assert_eq!(
            report.into_errors("p.yaml", text).to_string(),
            "p.yaml:2:10: quantum: 0 is too small\n  2 | quantum: 0\n    |          ^\n  help: write 1"
        );
    }

    #[test]
    fn errors_come_in_the_order_of_the_file_and_the_rest_is_counted() {
        let mut report = Report::default();
        for line in (1..=250).rev() {
            report.add(Some(mark(line, 1, 0)), || {
                Finding::new("", line.to_string(), "")
            });
        }
        let errors = report.into_errors("p", "");
        let lines: Vec<_> = errors
            .errors()
            .iter()
            .filter_map(PolicyError::line)
            .collect();
        assert_eq!(lines, (1..=100).collect::<Vec<u32>>());
        assert_eq!(errors.omitted(), 150);
        assert!(
            errors
                .to_string()
                .ends_with("p: 150 more errors are not listed")
        );
    }

    #[test]
    fn a_long_line_is_cut_around_its_place() {
        let text = format!("{}\u{e9}!{}", "a".repeat(5_000), "b".repeat(5_000));
        let snippet = snippet(&text, 5_002);
        assert_eq!(snippet.text.chars().count(), SNIPPET_CHARS);
        assert_eq!(snippet.text.chars().nth(snippet.caret), Some('!'));
    }

    #[test]
    fn a_quoted_text_is_harmless_and_short() {
        assert_eq!(
            quoted("it's \u{1b}[31m\n\u{202e}"),
            "`it's \\u{1b}[31m\\n\\u{202e}`"
        );
        assert_eq!(quoted(&"x".repeat(1_000_000)).len(), QUOTED_CHARS + 4);
        assert_eq!(listed(["a", "b"], 2), "`a`, `b`");
        assert_eq!(listed(["a", "b"], 9), "`a`, `b` and 7 more");
    }
}
