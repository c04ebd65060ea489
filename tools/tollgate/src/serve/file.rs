//! A file of settings, read as far as it can be.
//!
//! The reader stops at what is wrong. So that all of it is told at once, the entry that is wrong is taken out and
//! the rest is read again, until nothing more is wrong. Entries are what begins at the left edge; of `workers`,
//! each worker is one. A file in another form is read up to its first error.

use std::path::Path;

use tollgate_policy::file::{FILE_BYTES_MAX, read_bounded};
use tollgate_report::text::cut;

use super::options::Options;

/// So many errors of a file are told; each takes a reading.
const ERRORS_MAX: usize = 50;
/// The most characters of a line that is shown.
const SHOWN: usize = 100;

/// What is in a file of settings.
#[derive(Debug, Default)]
pub(super) struct Read {
    /// The settings that are right.
    pub(super) options: Options,
    /// What is wrong with the others, with its line where one is at fault.
    pub(super) errors: Vec<String>,
    /// The keys of those.
    broken: Vec<String>,
}

impl Read {
    /// Reads the file at `path`.
    pub(super) fn file(path: &Path) -> Self {
        let name = path.display();
        let told = |error: String| format!("{name}: {error}");
        let bytes = read_bounded(path, FILE_BYTES_MAX).map_err(|error| error.to_string());
        let text = bytes.and_then(|bytes| {
            if bytes.len() > FILE_BYTES_MAX {
                return Err(format!("it is larger than {FILE_BYTES_MAX} bytes"));
            }
            String::from_utf8(bytes).map_err(|error| error.to_string())
        });
        let mut read = text.map_or_else(Self::failed, |text| Self::text(&text));
        read.errors = read.errors.into_iter().map(told).collect();
        read
    }

    fn failed(error: String) -> Self {
        Self {
            errors: vec![error],
            ..Self::default()
        }
    }

    fn text(whole: &str) -> Self {
        let mut read = Self::default();
        let mut text = whole.to_owned();
        while !text.trim().is_empty() {
            let error = match serde_saphyr::from_str(&text) {
                Ok(options) => {
                    read.options = options;
                    break;
                }
                Err(error) => error,
            };
            let line = error.location().map(|location| location.line());
            let line = line.and_then(|line| usize::try_from(line).ok());
            let shown = line.and_then(|line| whole.lines().nth(line.checked_sub(1)?));
            read.errors.push(told(&error, shown.unwrap_or_default()));
            let without = line.and_then(|line| without_entry(&text, line));
            let Some((rest, key)) = without.filter(|_| read.errors.len() < ERRORS_MAX) else {
                break;
            };
            read.broken.push(key);
            text = rest;
        }
        read
    }

    /// Whether it may be that a setting is out of range only since another one could not be read.
    pub(super) fn excuses(&self, setting: &str) -> bool {
        let hangs_on = |key: &str| match setting {
            "admin" => matches!(key, "listen" | "admin"),
            "buffered-bytes" => key == "body_bytes",
            "worker" => key == "endpoints",
            _ => setting.ends_with("-header") && key.ends_with("_header"),
        };
        self.broken.iter().any(|key| hangs_on(key))
    }
}

/// An error of the reader with its place, and the line that it is about. The reader's own picture of the place would
/// be one of what is left of the file.
fn told(error: &serde_saphyr::Error, line: &str) -> String {
    let message = error.without_snippet().to_string();
    let Some(location) = error.location() else {
        return message;
    };
    let place = format!("line {}, column {}", location.line(), location.column());
    let message = message
        .strip_suffix(&format!(" at {place}"))
        .unwrap_or(&message);
    // Its names of kinds mean nothing to whoever writes settings.
    let message = match message {
        "invalid u16" | "invalid u32" | "invalid u64" | "invalid usize" => {
            "it must be a whole number, within the range of the setting"
        }
        "expected string scalar" => "it must be one value, neither a list nor a mapping",
        "expected sequence start" => "it must be a list",
        "invalid boolean" => "it must be true or false",
        other => other,
    };
    format!("{place}: {message}\n    {}", cut(line.trim(), SHOWN))
}

/// The text without the entry that the line, counted from 1, belongs to, and the entry's key. The other lines
/// keep their numbers.
fn without_entry(text: &str, line: usize) -> Option<(String, String)> {
    let lines: Vec<&str> = text.split('\n').collect();
    let at = line.checked_sub(1).filter(|at| *at < lines.len())?;
    let first = (0..=at).rev().find(|at| key(lines[*at]).is_some())?;
    let name = key(lines[first])?.to_owned();
    let after = |at: usize, is_begin: &dyn Fn(&str) -> bool| {
        let next = (at + 1..lines.len()).find(|at| is_begin(lines[*at]));
        next.unwrap_or(lines.len())
    };
    let end = after(first, &|line| key(line).is_some());
    let item = (first + 1..=at).rev().find_map(|at| {
        let indent = dash(lines[at])?;
        (lowest_dash(&lines[first + 1..=at]) == Some(indent)).then_some((at, indent))
    });
    let taken = match item {
        Some((begin, indent)) => begin..end.min(after(begin, &|line| dash(line) == Some(indent))),
        None => first..end,
    };
    let kept = lines.iter().enumerate();
    let kept = kept.map(|(at, line)| if taken.contains(&at) { "" } else { *line });
    Some((kept.collect::<Vec<_>>().join("\n"), name))
}

/// The key of a line at the left edge.
fn key(line: &str) -> Option<&str> {
    let key = line.split_once(':')?.0;
    let is_key = |c: char| c.is_ascii_alphanumeric() || "_-\"'".contains(c);
    let is_item = line.starts_with("- ");
    (!key.is_empty() && !is_item && key.chars().all(is_key)).then_some(key)
}

/// How far a line that begins an item of a list is indented.
fn dash(line: &str) -> Option<usize> {
    let item = line.trim_start_matches(' ');
    (item == "-" || item.starts_with("- ")).then_some(line.len() - item.len())
}

fn lowest_dash(lines: &[&str]) -> Option<usize> {
    lines.iter().filter_map(|line| dash(line)).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_taken_out_and_the_lines_keep_their_numbers() {
        let text = "a: 1\nb:\n  - 1\n  - 2\n# c\nc: 3\n";
        for (line, rest, key) in [
            (1, "\nb:\n  - 1\n  - 2\n# c\nc: 3\n", "a"),
            (2, "a: 1\n\n\n\n\nc: 3\n", "b"),
            (3, "a: 1\nb:\n\n  - 2\n# c\nc: 3\n", "b"),
            (4, "a: 1\nb:\n  - 1\n\n\nc: 3\n", "b"),
            (6, "a: 1\nb:\n  - 1\n  - 2\n# c\n\n", "c"),
        ] {
            let found = without_entry(text, line);
            assert_eq!(found, Some((rest.to_owned(), key.to_owned())), "{line}");
        }
        assert_eq!(without_entry(text, 0), None);
        assert_eq!(without_entry(text, 100), None);
        assert_eq!(without_entry("{a: 1,\n b: 2}", 2), None);
    }

    #[test]
    fn what_is_right_is_read_beside_what_is_wrong() {
        let text = "sessions: many\nmodels: 3\nworkers:\n- url: nowhere\n- url: http://h:1\n  rank: 2\n\
                    - url: http://h:2\n  ranks: 2\nlissten: 1\n";
        let read = Read::text(text);
        assert_eq!(read.errors.len(), 4, "{:?}", read.errors);
        assert_eq!(read.broken, ["sessions", "workers", "workers", "lissten"]);
        let last = &read.errors[3];
        assert!(
            last.contains("line 9") && last.ends_with("\n    lissten: 1"),
            "{last}"
        );
        assert_eq!(read.options.models, Some(3));
        let workers = read.options.workers.expect("one is left");
        assert_eq!((workers.len(), workers[0].0.ranks), (1, 2));
    }

    #[test]
    fn nothing_is_read_for_ever() {
        let text: String = (0..1_000).map(|at| format!("wrong{at}: 1\n")).collect();
        assert_eq!(Read::text(&text).errors.len(), ERRORS_MAX);
        for text in [
            "{listen: here, sessions: many}",
            "[1, 2]",
            "a: [",
            "\u{feff}x",
        ] {
            assert_eq!(Read::text(text).errors.len(), 1, "{text}");
        }
    }

    #[test]
    fn a_setting_is_not_held_against_one_that_could_not_be_read() {
        let read = Read::text("body_bytes: x\nclass_header: a b\n");
        assert!(read.excuses("buffered-bytes") && read.excuses("session-header"));
        assert!(!read.excuses("admin") && !read.excuses("header-bytes"));
    }
}
