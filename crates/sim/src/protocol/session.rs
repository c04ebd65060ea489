//! A run: lines in, events out.

use std::collections::BTreeSet;

use tollgate_policy::Profile;

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
                    id: submission.id.clone(),
                }
                .to_string());
            }
            Op::Reload { path } => self.machine.reload(&(self.load)(path)?, out),
            op => self.machine.apply(op, out),
        }
        Ok(())
    }
}
