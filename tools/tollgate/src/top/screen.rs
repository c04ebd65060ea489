//! The whole terminal, given back at the end.

use std::fmt::Write as _;
use std::io::{self, Write};

use anyhow::Context;
use rustix::termios::tcgetwinsize;

/// The other screen, without cursor and without line wrap.
const OPEN: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const CLOSE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

/// The terminal's other screen. Dropping it brings back what was there before.
pub(super) struct Screen(());

impl Screen {
    pub(super) fn open() -> anyhow::Result<Self> {
        let screen = Self(());
        write(OPEN)?;
        Ok(screen)
    }

    /// Columns and lines, as they are now.
    pub(super) fn size(&self) -> (usize, usize) {
        let size = tcgetwinsize(io::stdout()).ok();
        let size = size.filter(|size| size.ws_col > 0 && size.ws_row > 0);
        size.map_or((80, 24), |size| (size.ws_col.into(), size.ws_row.into()))
    }

    /// Draws lines over those that are there, in one write, so that nothing flickers.
    pub(super) fn draw(&mut self, lines: &[String], height: usize) -> anyhow::Result<()> {
        let mut text = "\x1b[H".to_owned();
        let fitting = if lines.len() > height {
            height - 1
        } else {
            lines.len()
        };
        for (place, line) in lines[..fitting].iter().enumerate() {
            let end = if place == 0 { "" } else { "\r\n" };
            let _ = write!(text, "{end}{line}\x1b[K");
        }
        if fitting < lines.len() {
            let more = lines.len() - fitting;
            let _ = write!(text, "\r\n{more} lines more\x1b[K");
        }
        text.push_str("\x1b[J");
        write(&text)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing back.
        let _ = write(CLOSE);
    }
}

fn write(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .context("cannot write to the terminal")
}
