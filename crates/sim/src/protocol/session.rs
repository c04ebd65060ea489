//! A run: lines in, events out.

use std::collections::BTreeSet;

use tollgate_policy::Profile;

use super::parse::shortened;
use super::{Event, Machine, Op, OpError};

/// Feeds the lines of a scenario to a [`Machine`].
///
/// `load` turns the path of a `reload` into a profile, or says what is wrong with the file.
#[derive(Debug)]
pub struct Session<M, L> {
    machine: M,
    load: L,
    ids: BTreeSet<String>,
    lines: u64,
}

impl<M, L> Session<M, L>
where
    M: Machine,
    L: FnMut(&str) -> Result<Profile, String>,
{
    /// A run that has read nothing yet.
    pub const fn new(machine: M, load: L) -> Self {
        Self {
            machine,
            load,
            ids: BTreeSet::new(),
            lines: 0,
        }
    }

    /// The machine.
    pub const fn machine(&self) -> &M {
        &self.machine
    }

    /// Takes the next line and appends the events that it causes. A blank line causes none. A line
    /// that is not an operation, that submits an id again, or that names a file which cannot be
    /// loaded changes nothing and causes [`Event::Invalid`]; the answer is then false. The same goes
    /// for an operation that the machine itself finds invalid.
    pub fn line(&mut self, text: &str, out: &mut Vec<Event>) -> bool {
        self.lines += 1;
        if text.trim().is_empty() {
            return true;
        }
        let before = out.len();
        if let Err(error) = self.carry_out(text, out) {
            self.invalid(error, out);
        }
        let mut valid = true;
        for event in &mut out[before..] {
            if let Event::Invalid { line, .. } = event {
                *line = self.lines;
                valid = false;
            }
        }
        valid
    }

    /// Counts a line that is no text and appends its [`Event::Invalid`].
    pub fn unreadable_line(&mut self, error: String, out: &mut Vec<Event>) {
        self.lines += 1;
        self.invalid(error, out);
    }

    fn invalid(&self, error: String, out: &mut Vec<Event>) {
        let now_us = self.machine.now_us();
        out.push(Event::Invalid {
            now_us,
            line: self.lines,
            error,
        });
    }

    fn carry_out(&mut self, text: &str, out: &mut Vec<Event>) -> Result<(), String> {
        let op = Op::parse(text).map_err(|error| error.to_string())?;
        match &op {
            Op::Submit(submission) if !self.ids.insert(submission.id.clone()) => {
                return Err(OpError::IdUsed {
                    id: shortened(&submission.id),
                }
                .to_string());
            }
            Op::Reload { path } => self.machine.reload(&(self.load)(path)?, out),
            op => self.machine.apply(op, out),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::Oracle;

    fn say(lines: &[&str]) -> (Vec<bool>, Vec<String>) {
        let load = |path: &str| match path {
            "good.yaml" => Ok(Profile::synthetic(None)),
            _ => Err(format!("{path}: no such file")),
        };
        let mut session = Session::new(Oracle::new(&Profile::synthetic(None), 0), load);
        let mut events = Vec::new();
        let valid = lines
            .iter()
            .map(|line| session.line(line, &mut events))
            .collect();
        (valid, events.iter().map(Event::to_json).collect())
    }

    #[test]
    fn s13_an_invalid_line_is_reported_and_the_run_goes_on() {
        let (valid, events) = say(&[
            "",
            r#"{"op": "advance", "us": 7}"#,
            "{",
            r#"{"op":"state"}"#,
        ]);
        assert_eq!(valid, [true, true, false, true]);
        assert_eq!(
            events[0],
            r#"{"event":"invalid","now_us":7,"line":3,"error":"the line ends before its JSON object does (after column 1)"}"#
        );
        assert!(events[1].starts_with(r#"{"event":"state","now_us":7,"waiting":0,"classes":[{"name":"default","waiting":0,"raw_isl_tokens":0,"cached_tokens":0,"deficit":0,"dispatched":0,"charged_tokens":0,"#));
    }

    #[test]
    fn s13_an_id_is_submitted_once() {
        let submit = r#"{"op":"submit","id":"x","isl":1}"#;
        let (valid, events) = say(&[r#"{"op":"stop"}"#, submit, submit, submit]);
        assert_eq!(valid, [true, true, false, false]);
        assert_eq!(events[0], r#"{"event":"closed","now_us":0,"id":"x"}"#);
        assert!(events[1].contains(r#""line":3,"error":"id \"x\" was used before"#));
        let long = format!(
            r#"{{"op":"submit","id":"{}","isl":1}}"#,
            "x".repeat(1 << 16)
        );
        let (_, events) = say(&[&long, &long]);
        assert!(events[1].len() < 250, "{}", events[1]);
    }

    #[test]
    fn s3_7_a_file_that_cannot_be_loaded_changes_nothing() {
        let (valid, events) = say(&[
            r#"{"op":"reload","policy":"bad.yaml"}"#,
            r#"{"op":"reload","policy":"good.yaml"}"#,
        ]);
        assert_eq!(valid, [false, true]);
        assert!(events[0].contains(r#""line":1,"error":"bad.yaml: no such file""#));
        assert_eq!(
            events[1],
            r#"{"event":"reloaded","now_us":0,"generation":1}"#
        );
    }

    #[test]
    fn s13_a_line_that_is_no_text_counts() {
        let load = |_: &str| Err(String::new());
        let mut session = Session::new(Oracle::new(&Profile::synthetic(None), 0), load);
        let mut events = Vec::new();
        session.unreadable_line("not UTF-8".to_owned(), &mut events);
        session.line("x", &mut events);
        let lines = events.iter().map(|event| match event {
            Event::Invalid { line, .. } => *line,
            _ => 0,
        });
        assert_eq!(lines.collect::<Vec<_>>(), [1, 2]);
    }
}
