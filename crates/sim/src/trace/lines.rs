//! A file's lines, one at a time, however long they are.

use std::io::{self, BufRead, BufReader, Read};

/// The longest line of a trace, in bytes, its end left aside: a Mooncake row of 50 million prompt
/// tokens.
pub(super) const LINE_BYTES_MAX: usize = 1 << 20;

/// Reads lines, numbered from 1. A line that is too long costs no memory.
#[derive(Debug)]
pub(super) struct Lines<R> {
    reader: BufReader<R>,
    buffer: Vec<u8>,
    /// The number of the line that was read last.
    pub(super) number: u64,
    /// The rest of the last line is still to be passed over.
    is_open: bool,
}

/// One line.
#[derive(Debug)]
pub(super) enum Line<'a> {
    /// Its bytes, without its end.
    Whole(&'a [u8]),
    /// It is longer than [`LINE_BYTES_MAX`].
    TooLong,
}

impl<R: Read> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            reader: BufReader::with_capacity(1 << 16, input),
            buffer: Vec::new(),
            number: 0,
            is_open: false,
        }
    }

    /// The next line; blank lines are counted and left out.
    pub(super) fn next_line(&mut self) -> io::Result<Option<Line<'_>>> {
        loop {
            if self.is_open {
                self.reader.skip_until(b'\n')?;
                self.is_open = false;
            }
            self.buffer.clear();
            let most = LINE_BYTES_MAX as u64 + 1;
            let mut bounded = (&mut self.reader).take(most);
            if bounded.read_until(b'\n', &mut self.buffer)? == 0 {
                return Ok(None);
            }
            self.number += 1;
            if self.buffer.len() > LINE_BYTES_MAX && !self.buffer.ends_with(b"\n") {
                self.is_open = true;
                return Ok(Some(Line::TooLong));
            }
            if !self.buffer.trim_ascii().is_empty() {
                break;
            }
        }
        let line = self.buffer.trim_ascii();
        Ok(Some(Line::Whole(if self.number == 1 {
            line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
        } else {
            line
        })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Vec<(u64, Option<Vec<u8>>)> {
        let (mut lines, mut read) = (Lines::new(bytes), Vec::new());
        while let Some(line) = lines.next_line().expect("bytes are readable") {
            let line = match line {
                Line::Whole(bytes) => Some(bytes.to_vec()),
                Line::TooLong => None,
            };
            read.push((lines.number, line));
        }
        read
    }

    #[test]
    fn lines_are_numbered_and_blank_ones_left_out() {
        let text = b"\xef\xbb\xbfa\r\n\n  \n b \nc";
        let whole = |number, text: &[u8]| (number, Some(text.to_vec()));
        assert_eq!(read(text), [whole(1, b"a"), whole(4, b"b"), whole(5, b"c")]);
        assert_eq!(read(b""), []);
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over() {
        let mut text = vec![b'x'; LINE_BYTES_MAX];
        text.extend(b"\nshort\n");
        text.extend(vec![b'y'; 3 * LINE_BYTES_MAX]);
        text.extend(b"\nend");
        let read = read(&text);
        assert_eq!(read[0].1.as_ref().map(Vec::len), Some(LINE_BYTES_MAX));
        assert_eq!(read[1], (2, Some(b"short".to_vec())));
        assert_eq!(read[2], (3, None));
        assert_eq!(read[3], (4, Some(b"end".to_vec())));
    }
}
