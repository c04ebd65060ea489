//! A run: operations from a file or a stream, events to a stream, as they happen.

use std::io::{self, BufRead, ErrorKind, Read, Write};

use tollgate_policy::Profile;

use crate::protocol::{Event, Machine, Session};

/// The longest line of a scenario, in bytes, its end left aside.
pub const LINE_BYTES_MAX: usize = 1 << 20;

/// UTF-8's, which editors put at the start of a file; it is no part of the first line.
pub(super) const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Reads operations line by line, and prints the events of each before it reads the next.
#[derive(Debug)]
pub struct Runner<M, L> {
    session: Session<M, L>,
    flush_each_line: bool,
}

/// How a run went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Lines read, blank ones included.
    pub lines: u64,
    /// Those that were invalid; the run went on after each.
    pub invalid: u64,
}

/// Why a run could not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The operations cannot be read.
    #[error("cannot read the operations")]
    Read(#[source] io::Error),
    /// The events cannot be written.
    #[error("cannot write the events")]
    Write(#[source] io::Error),
}

impl<M, L> Runner<M, L>
where
    M: Machine,
    L: FnMut(&str) -> Result<Profile, String>,
{
    /// A run that has read nothing yet.
    pub const fn new(session: Session<M, L>) -> Self {
        Self {
            session,
            flush_each_line: false,
        }
    }

    /// The same run, flushing its output after each line of input: for a person or a program that
    /// waits for the answer.
    #[must_use]
    pub const fn flush_each_line(mut self) -> Self {
        self.flush_each_line = true;
        self
    }

    /// Reads to the end of `input`. Whoever reads the output may close it: the run ends there,
    /// without an error.
    ///
    /// # Errors
    /// If `input` or `output` fails otherwise.
    pub fn run(&mut self, input: impl BufRead, output: impl Write) -> Result<Verdict, RunError> {
        let mut verdict = Verdict::default();
        match self.run_lines(input, output, &mut verdict) {
            Err(RunError::Write(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(verdict),
            done => done.map(|()| verdict),
        }
    }

    fn run_lines(
        &mut self,
        mut input: impl BufRead,
        mut output: impl Write,
        verdict: &mut Verdict,
    ) -> Result<(), RunError> {
        let mut line = Vec::new();
        let mut events = Vec::new();
        while let Some(length) =
            next_line(&mut input, &mut line, LINE_BYTES_MAX).map_err(RunError::Read)?
        {
            verdict.lines += 1;
            let line = match line.strip_prefix(BYTE_ORDER_MARK) {
                Some(rest) if verdict.lines == 1 => rest,
                _ => &line,
            };
            if !self.take(line, length, &mut events) {
                verdict.invalid += 1;
            }
            for event in events.drain(..) {
                writeln!(output, "{}", event.to_json()).map_err(RunError::Write)?;
            }
            if self.flush_each_line {
                output.flush().map_err(RunError::Write)?;
            }
        }
        output.flush().map_err(RunError::Write)
    }

    /// Carries out one line; false: it was invalid.
    fn take(&mut self, line: &[u8], length: Length, events: &mut Vec<Event>) -> bool {
        let error = match (length, std::str::from_utf8(line)) {
            (Length::Within, Ok(text)) => return self.session.line(text, events),
            (Length::Within, Err(error)) => {
                format!(
                    "not UTF-8 text: byte {} of the line is wrong",
                    error.valid_up_to() + 1
                )
            }
            (Length::Beyond, _) => format!("the line is longer than {LINE_BYTES_MAX} bytes"),
        };
        self.session.unreadable_line(error, events);
        false
    }
}

/// Whether a line is within its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    Within,
    /// The rest of the line was read and dropped.
    Beyond,
}

/// Reads a line of at most `bound` bytes, without its end; `None` at the end of the input.
pub(super) fn next_line(
    input: &mut impl BufRead,
    line: &mut Vec<u8>,
    bound: usize,
) -> io::Result<Option<Length>> {
    line.clear();
    let most = bound as u64 + 1;
    if input.by_ref().take(most).read_until(b'\n', line)? == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() > bound {
        input.skip_until(b'\n')?;
        return Ok(Some(Length::Beyond));
    }
    Ok(Some(Length::Within))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(text: &[u8]) -> Vec<(usize, Length)> {
        let mut input = io::BufReader::with_capacity(64, text);
        let mut line = Vec::new();
        std::iter::from_fn(|| {
            let length =
                next_line(&mut input, &mut line, LINE_BYTES_MAX).expect("memory can be read")?;
            Some((line.len().min(LINE_BYTES_MAX + 1), length))
        })
        .collect()
    }

    #[test]
    fn lines_end_with_or_without_a_line_end() {
        assert_eq!(lengths(b""), []);
        assert_eq!(lengths(b"\n"), [(0, Length::Within)]);
        assert_eq!(
            lengths(b"ab\n\nc"),
            [2, 0, 1].map(|length| (length, Length::Within))
        );
    }

    #[test]
    fn a_line_that_is_too_long_costs_no_memory_and_hides_nothing_behind_it() {
        let mut text = vec![b'['; LINE_BYTES_MAX];
        text.push(b'\n');
        assert_eq!(lengths(&text), [(LINE_BYTES_MAX, Length::Within)]);
        text.insert(0, b'[');
        text.extend_from_slice(b"next");
        assert_eq!(
            lengths(&text),
            [(LINE_BYTES_MAX + 1, Length::Beyond), (4, Length::Within)]
        );
    }
}
