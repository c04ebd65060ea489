//! A reader that gives up on endless lines.

use std::io::{self, Read};

/// The longest line of a trace, in bytes, its end left aside.
pub(crate) const LINE_BYTES_MAX: usize = 4_096;

/// Passes bytes on until a line is longer than [`LINE_BYTES_MAX`], which is an error: so a file
/// without line ends costs no memory. The lines before that one still come out.
#[derive(Debug)]
pub(crate) struct BoundedLines<R> {
    inner: R,
    line_bytes: usize,
    exceeded: bool,
}

impl<R> BoundedLines<R> {
    pub(crate) const fn new(inner: R) -> Self {
        Self {
            inner,
            line_bytes: 0,
            exceeded: false,
        }
    }

    /// How many of these bytes belong to lines within the limit.
    fn within_limit(&mut self, bytes: &[u8]) -> usize {
        let mut passed = 0;
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            let ends = line.last() == Some(&b'\n');
            self.line_bytes += line.len() - usize::from(ends);
            if self.line_bytes > LINE_BYTES_MAX {
                self.exceeded = true;
                break;
            }
            if ends {
                self.line_bytes = 0;
            }
            passed += line.len();
        }
        passed
    }
}

impl<R: Read> Read for BoundedLines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = if self.exceeded {
            0
        } else {
            self.inner.read(buffer)?
        };
        let passed = self.within_limit(&buffer[..read]);
        // An empty read would say that the file ends here.
        if passed == 0 && self.exceeded {
            Err(io::ErrorKind::FileTooLarge.into())
        } else {
            Ok(passed)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> io::Result<usize> {
        let mut all = Vec::new();
        BoundedLines::new(text).read_to_end(&mut all)
    }

    #[test]
    fn a_line_may_be_as_long_as_the_limit_and_no_longer() {
        let mut text = vec![b'x'; LINE_BYTES_MAX];
        text.push(b'\n');
        text.extend_from_slice(&text.clone());
        assert_eq!(
            read(&text).expect("two lines at the limit"),
            2 * LINE_BYTES_MAX + 2
        );
        text.extend(std::iter::repeat_n(b'x', LINE_BYTES_MAX + 1));
        assert_eq!(
            read(&text).expect_err("too long").kind(),
            io::ErrorKind::FileTooLarge
        );
    }
}
