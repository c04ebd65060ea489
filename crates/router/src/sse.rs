//! Streamed answers: where their events end, and what those say.
//!
//! [`SseFrames`] passes a stream on unchanged, whole events at a time, and looks at them as they pass. How the
//! stream was cut on its way makes no difference to the bytes and to what is seen, only to when.
//!
//! 1. An event ends with a blank line; lines end with `\n`, `\r\n` or `\r`.
//! 2. What was not whole at the end of a push is held back until it is.
//! 3. An event of more than [`FRAME_MAX`] bytes is not held back any longer, and not looked at: it passes as it
//!    comes, and is reported.
//! 4. At the end of a stream, [`SseFrames::rest`] has what was never made whole.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use serde::de::IgnoredAny;
use serde_json::json;

use crate::cost::body::Api;
use crate::cost::usage::{self, Usage};
use crate::cost::values;

/// Bytes of the largest event that is held back and looked at: 1 MiB.
pub const FRAME_MAX: usize = 1 << 20;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What one push gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// What may be passed on, as it came.
    pub bytes: Bytes,
    /// What was seen in the events that became whole.
    pub seen: Seen,
}

/// What was seen in some events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The last report of tokens.
    pub usage: Option<Usage>,
    /// The end of a stream of chat or completions, `[DONE]`.
    pub done: bool,
    /// The end of a response: `response.completed`, or `response.incomplete` or `response.failed` instead.
    pub response_ended: bool,
    /// A choice that is finished, and why.
    pub finish_reason: bool,
    /// An error in place of the rest of the answer.
    pub error: bool,
    /// Events with data.
    pub data_events: u64,
    /// Data that is neither `[DONE]` nor an object, or not UTF-8.
    pub garbage: bool,
    /// An event that is larger than [`FRAME_MAX`], and was not looked at.
    pub oversized: bool,
}

impl Seen {
    /// Takes in what was seen later.
    pub fn merge(&mut self, later: Self) {
        self.usage = later.usage.or(self.usage);
        self.done |= later.done;
        self.response_ended |= later.response_ended;
        self.finish_reason |= later.finish_reason;
        self.error |= later.error;
        self.data_events += later.data_events;
        self.garbage |= later.garbage;
        self.oversized |= later.oversized;
    }

    /// Looks at a whole event.
    fn read(&mut self, event: &[u8]) {
        let fields = Fields::of(event);
        let Some(data) = fields.data else { return };
        self.data_events += 1;
        let data = data.trim_ascii();
        if data == b"[DONE]" {
            self.done = true;
            return;
        }
        if !data.starts_with(b"{") || !is_json(data) {
            self.garbage = true;
            return;
        }
        self.usage = usage::read(data).or(self.usage);
        self.finish_reason |= values(data, b"\"finish_reason\"").next().is_some();
        self.error |= fields.name == Some(b"error") || values(data, b"\"error\"").next().is_some();
        self.response_ended |= fields.name.is_some_and(is_end_of_response)
            || values(data, b"\"type\"").any(|value| is_end_of_response(word(value)));
    }
}

/// Whether something is JSON, texts included: those that are skipped are not looked at by the reader.
pub(crate) fn is_json(data: &[u8]) -> bool {
    str::from_utf8(data).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

/// Whether an event of this type is the last of a response.
fn is_end_of_response(name: &[u8]) -> bool {
    matches!(
        name,
        b"response.completed" | b"response.incomplete" | b"response.failed"
    )
}

/// The string at the beginning of a JSON text, if it has no escapes.
fn word(json: &[u8]) -> &[u8] {
    let Some(string) = json.strip_prefix(b"\"") else {
        return b"";
    };
    let end = memchr::memchr(b'"', string).unwrap_or(0);
    &string[..end]
}

/// The fields of an event that matter.
#[derive(Default)]
struct Fields<'a> {
    /// The last `event`.
    name: Option<&'a [u8]>,
    /// All `data`, with a line feed between two of them.
    data: Option<Cow<'a, [u8]>>,
}

impl<'a> Fields<'a> {
    fn of(event: &'a [u8]) -> Self {
        let mut fields = Self::default();
        let event = event.strip_prefix(BYTE_ORDER_MARK).unwrap_or(event);
        // A blank line between `\r` and `\n` has no field.
        for line in event.split(|&byte| matches!(byte, b'\n' | b'\r')) {
            let (field, value) = match memchr::memchr(b':', line) {
                Some(colon) => (&line[..colon], &line[colon + 1..]),
                None => (line, &line[line.len()..]),
            };
            let value = value.strip_prefix(b" ").unwrap_or(value);
            match field {
                b"event" => fields.name = Some(value),
                b"data" => match &mut fields.data {
                    None => fields.data = Some(Cow::Borrowed(value)),
                    Some(data) => {
                        let data = data.to_mut();
                        data.push(b'\n');
                        data.extend_from_slice(value);
                    }
                },
                _ => {}
            }
        }
        fields
    }
}

/// Splits a stream after its events.
#[derive(Debug, Default)]
pub struct SseFrames {
    /// The beginning of an event that is not whole; empty where it is too large to be held back.
    held: BytesMut,
    scan: Scan,
}

impl SseFrames {
    /// At the beginning of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes of the stream; gives those up to the end of its last whole event.
    ///
    /// They are those that came, without a copy, unless an event began in an earlier push.
    ///
    /// # Complexity
    /// Linear in the bytes, however small the pieces are in which an event comes.
    pub fn push(&mut self, mut bytes: Bytes) -> Chunk {
        let mut seen = Seen::default();
        // Up to `end`, events are whole; up to `joined`, the bytes are behind those that were held.
        let (mut end, mut joined) = (0, 0);
        while let Some(length) = self.scan.next_end(&bytes[end..]) {
            let event_length = std::mem::take(&mut self.scan.event_length);
            let piece = &bytes[end..end + length];
            end += length;
            if event_length > FRAME_MAX {
                seen.oversized = true;
            } else if event_length == length {
                seen.read(piece);
            } else {
                self.held.extend_from_slice(piece);
                joined = end;
                seen.read(&self.held);
            }
        }
        if self.scan.event_length > FRAME_MAX {
            seen.oversized = true;
            end = bytes.len();
        }
        let rest = bytes.split_off(end);
        if !self.held.is_empty() && !bytes.is_empty() {
            self.held.extend_from_slice(&bytes[joined..]);
            bytes = self.held.split().freeze();
        }
        self.held.extend_from_slice(&rest);
        Chunk { bytes, seen }
    }

    /// At the end of the stream: what is held back, an event that was never whole.
    #[must_use]
    pub fn rest(self) -> Bytes {
        self.held.freeze()
    }
}

/// Where events end, whatever was pushed before.
#[derive(Debug)]
struct Scan {
    /// Nothing of the present line was there yet.
    line_is_empty: bool,
    /// The last byte was `\r`: a `\n` that follows belongs to it.
    is_after_return: bool,
    /// Bytes of the present event so far.
    event_length: usize,
}

impl Default for Scan {
    fn default() -> Self {
        Self {
            line_is_empty: true,
            is_after_return: false,
            event_length: 0,
        }
    }
}

impl Scan {
    /// The length of what ends the present event; `None` if it goes on after these bytes.
    fn next_end(&mut self, bytes: &[u8]) -> Option<usize> {
        let end = self.blank_line(bytes);
        self.event_length = self.event_length.saturating_add(end.unwrap_or(bytes.len()));
        end
    }

    fn blank_line(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        if self.is_after_return && !bytes.is_empty() {
            self.is_after_return = false;
            if bytes[0] == b'\n' {
                at = 1;
                // It belongs to the event before, which was passed on already.
                if self.event_length == 0 {
                    return Some(at);
                }
            }
        }
        while let Some(found) = memchr::memchr2(b'\n', b'\r', &bytes[at..]) {
            let is_blank = self.line_is_empty && found == 0;
            at += found + 1;
            self.line_is_empty = true;
            if bytes[at - 1] == b'\r' {
                match bytes.get(at) {
                    Some(b'\n') => at += 1,
                    Some(_) => {}
                    None => self.is_after_return = true,
                }
            }
            if is_blank {
                return Some(at);
            }
        }
        self.line_is_empty &= at == bytes.len();
        None
    }
}

/// The event that makes OpenAI's clients raise an error in the middle of a stream. The `code` is a word for
/// programs.
///
/// # Examples
/// ```
/// use tollgate_router::cost::body::Api;
/// use tollgate_router::sse::error_event;
///
/// let event = error_event(Api::Chat, "the worker went away", "worker_lost");
/// assert!(event.starts_with(br#"data: {"error":{"message":"the worker went away","type":"#));
/// assert!(event.ends_with(b"}\n\n"));
/// ```
#[must_use]
pub fn error_event(api: Api, message: &str, code: &str) -> Bytes {
    let error = json!({
        "message": message,
        "type": "server_error",
        "param": null,
        "code": code,
    });
    let event = match api {
        Api::Chat | Api::Completions | Api::Embeddings => {
            format!("data: {}\n\n", json!({ "error": error }))
        }
        Api::Responses => {
            let data = json!({
                "type": "error",
                "code": code,
                "message": message,
                "param": null,
                "error": error,
            });
            format!("event: error\ndata: {data}\n\n")
        }
    };
    event.into()
}

#[cfg(test)]
mod tests;
