//! The frames of a stream, in order, and when each may go.
//!
//! A stream is what goes before the tokens, a frame a token, and what comes after them. A frame is built
//! when it is its turn, so a stream takes the same memory however long it is.

use std::fmt::Write;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::reply::{Reply, output_text};
use crate::request::Api;
use crate::text;

/// A frame of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    Created,
    ItemAdded,
    PartAdded,
    Role,
    /// An output token, from 0.
    Token(u32),
    TextDone,
    PartDone,
    ItemDone,
    Completed,
    Finish,
    Usage,
    Done,
}

/// What a frame waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cue {
    Nothing,
    /// An output token, from 0.
    Token(u32),
    /// The last of them.
    End,
}

impl Frame {
    pub(crate) const fn cue(self) -> Cue {
        match self {
            Self::Created => Cue::Nothing,
            Self::ItemAdded | Self::PartAdded | Self::Role => Cue::Token(0),
            Self::Token(index) => Cue::Token(index),
            Self::TextDone
            | Self::PartDone
            | Self::ItemDone
            | Self::Completed
            | Self::Finish
            | Self::Usage
            | Self::Done => Cue::End,
        }
    }
}

/// Goes through the frames of one stream.
#[derive(Debug)]
pub(crate) struct Frames {
    reply: Reply,
    include_usage: bool,
    /// How every chunk begins.
    opening: String,
    next: u32,
}

impl Frames {
    pub(crate) fn new(reply: Reply, include_usage: bool) -> Self {
        let object = match reply.api {
            Api::Chat => "chat.completion.chunk",
            _ => "text_completion",
        };
        let mut opening = json!({
            "id": reply.id(),
            "object": object,
            "created": reply.created,
            "model": reply.model,
        })
        .to_string();
        opening.pop();
        Self {
            reply,
            include_usage,
            opening,
            next: 0,
        }
    }

    /// The frame whose turn it is; `None` after the last one.
    pub(crate) fn current(&self) -> Option<Frame> {
        let at = self.next as usize;
        let (before, after) = self.around();
        if let Some(frame) = before.get(at) {
            return Some(*frame);
        }
        let tokens = self.reply.output_tokens as usize;
        let at = at - before.len();
        match at.checked_sub(tokens) {
            None => u32::try_from(at).ok().map(Frame::Token),
            Some(at) => after.get(at).copied(),
        }
    }

    /// Goes on to the next frame.
    pub(crate) fn advance(&mut self) {
        self.next += 1;
    }

    /// What goes before and after the tokens.
    const fn around(&self) -> (&'static [Frame], &'static [Frame]) {
        use Frame::{
            Completed, Created, Done, Finish, ItemAdded, ItemDone, PartAdded, PartDone, Role,
            TextDone, Usage,
        };
        let after: &[Frame] = if self.include_usage {
            &[Finish, Usage, Done]
        } else {
            &[Finish, Done]
        };
        match self.reply.api {
            Api::Chat => (&[Role], after),
            Api::Completions | Api::Embeddings => (&[], after),
            Api::Responses => (
                &[Created, ItemAdded, PartAdded],
                &[TextDone, PartDone, ItemDone, Completed],
            ),
        }
    }

    /// Writes a frame out.
    pub(crate) fn build(&self, frame: Frame, cached_tokens: u32) -> Bytes {
        let text = match (self.reply.api, frame) {
            (_, Frame::Done) => "data: [DONE]\n\n".to_owned(),
            (Api::Responses, frame) => self.event(frame, cached_tokens),
            (_, frame) => self.chunk(frame, cached_tokens),
        };
        text.into()
    }

    /// A frame of a chat or a completion.
    fn chunk(&self, frame: Frame, cached_tokens: u32) -> String {
        let is_chat = self.reply.api == Api::Chat;
        let mut chunk = format!("data: {},\"choices\":[", self.opening);
        let written = match frame {
            Frame::Usage => {
                let usage = self.reply.usage(cached_tokens);
                write!(chunk, "],\"usage\":{usage}}}\n\n")
            }
            frame => {
                let what = if is_chat { "delta" } else { "text" };
                let said = match (frame, is_chat) {
                    (Frame::Role, _) => r#"{"role":"assistant","content":""}"#.to_owned(),
                    (Frame::Token(at), true) => format!("{{\"content\":\"{}\"}}", text::token(at)),
                    (Frame::Token(at), false) => format!("\"{}\"", text::token(at)),
                    (_, true) => "{}".to_owned(),
                    (_, false) => "\"\"".to_owned(),
                };
                let reason = match frame {
                    Frame::Finish => format!("\"{}\"", self.reply.finish_reason()),
                    _ => "null".to_owned(),
                };
                let usage = if self.include_usage {
                    ",\"usage\":null"
                } else {
                    ""
                };
                write!(
                    chunk,
                    "{{\"index\":0,\"{what}\":{said},\"logprobs\":null,\"finish_reason\":{reason}}}]{usage}}}\n\n"
                )
            }
        };
        written.expect("a string takes everything");
        chunk
    }

    /// A frame of a response.
    fn event(&self, frame: Frame, cached_tokens: u32) -> String {
        let reply = &self.reply;
        let (kind, fields) = match frame {
            Frame::Created => (
                "response.created",
                json!({"response": reply.response(None)}),
            ),
            Frame::ItemAdded => (
                "response.output_item.added",
                json!({"output_index": 0, "item": reply.message("in_progress", &[])}),
            ),
            Frame::PartAdded => (
                "response.content_part.added",
                self.within_message(json!({"part": output_text("")})),
            ),
            Frame::Token(index) => (
                "response.output_text.delta",
                self.within_message(json!({"delta": text::token(index), "logprobs": []})),
            ),
            Frame::TextDone => {
                let text = text::of(reply.output_tokens);
                let fields = self.within_message(json!({"text": text, "logprobs": []}));
                ("response.output_text.done", fields)
            }
            Frame::PartDone => (
                "response.content_part.done",
                self.within_message(json!({"part": reply.output_text()})),
            ),
            Frame::ItemDone => {
                let item = reply.message("completed", &[reply.output_text()]);
                let fields = json!({"output_index": 0, "item": item});
                ("response.output_item.done", fields)
            }
            _ => (
                "response.completed",
                json!({"response": reply.response(Some(cached_tokens))}),
            ),
        };
        let mut event = json!({"type": kind, "sequence_number": self.next});
        extend(&mut event, fields);
        format!("event: {kind}\ndata: {event}\n\n")
    }

    /// Fields of an event about the text of the message.
    fn within_message(&self, fields: Value) -> Value {
        let mut all = json!({
            "item_id": self.reply.message_id(),
            "output_index": 0,
            "content_index": 0,
        });
        extend(&mut all, fields);
        all
    }
}

/// Adds the fields of one object to another.
fn extend(object: &mut Value, fields: Value) {
    if let (Value::Object(object), Value::Object(fields)) = (object, fields) {
        object.extend(fields);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Ask;

    /// All frames of a stream, as text.
    fn stream(api: Api, fields: &str) -> Vec<String> {
        let body = format!(r#"{{"model": "mock", "stream": true, {fields}}}"#);
        let ask = Ask::parse(api, body.as_bytes(), "mock").expect("a request");
        let reply = Reply {
            created: 7,
            ..Reply::new(&ask, "mock", 1)
        };
        let mut frames = Frames::new(reply, ask.include_usage);
        let mut all = Vec::new();
        while let Some(frame) = frames.current() {
            let built = frames.build(frame, 512);
            all.push(String::from_utf8(built.to_vec()).expect("text"));
            frames.advance();
        }
        all
    }

    /// The JSON of a frame without an event's name.
    fn data(frame: &str) -> Value {
        let json = frame.strip_prefix("data: ").expect("a data frame");
        serde_json::from_str(json.trim_end()).expect("JSON")
    }

    #[test]
    fn a_chat_stream_is_role_tokens_finish_and_done() {
        let fields = r#""messages": [{"content": "a"}], "max_tokens": 2"#;
        let all = stream(Api::Chat, fields);
        assert_eq!(all.len(), 5);
        let opening = r#"data: {"id":"chatcmpl-0000000000000001","object":"chat.completion.chunk","created":7,"model":"mock","choices":[{"index":0,"#;
        let chunk = |rest: &str| format!("{opening}{rest}}}]}}\n\n");
        let expected = [
            r#""delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null"#,
            r#""delta":{"content":"the"},"logprobs":null,"finish_reason":null"#,
            r#""delta":{"content":" gate"},"logprobs":null,"finish_reason":null"#,
            r#""delta":{},"logprobs":null,"finish_reason":"length""#,
        ];
        assert_eq!(all[..4], expected.map(chunk));
        assert_eq!(all[4], "data: [DONE]\n\n");
        for frame in &all[..4] {
            assert_eq!(data(frame)["model"], "mock");
        }
    }

    #[test]
    fn a_completion_stream_ends_with_its_usage_where_it_is_asked_for() {
        let fields = r#""prompt": [1], "max_tokens": 2, "stream_options": {"include_usage": true}"#;
        let all = stream(Api::Completions, fields);
        assert_eq!(all.len(), 5);
        assert_eq!(data(&all[1])["choices"][0]["text"], " gate");
        assert_eq!(data(&all[1])["usage"], Value::Null);
        assert_eq!(data(&all[2])["choices"][0]["finish_reason"], "length");
        let usage = data(&all[3]);
        assert_eq!(usage["choices"], json!([]));
        assert_eq!(usage["usage"]["completion_tokens"], 2);
        assert_eq!(
            usage["usage"]["prompt_tokens_details"]["cached_tokens"],
            512
        );
        assert_eq!(all[4], "data: [DONE]\n\n");
    }

    #[test]
    fn a_response_stream_is_the_events_of_one_message() {
        let all = stream(Api::Responses, r#""input": "a", "max_output_tokens": 2"#);
        let kinds = [
            "response.created",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ];
        assert_eq!(all.len(), kinds.len());
        for (number, (frame, kind)) in all.iter().zip(kinds).enumerate() {
            let (event, rest) = frame.split_once('\n').expect("two lines");
            assert_eq!(event, format!("event: {kind}"));
            let data = data(rest);
            assert_eq!(
                (&data["type"], &data["sequence_number"]),
                (&json!(kind), &json!(number))
            );
        }
        let last = data(all[8].split_once('\n').expect("two lines").1);
        assert_eq!(
            last["response"]["usage"]["input_tokens_details"]["cached_tokens"],
            512
        );
        assert_eq!(
            last["response"]["output"][0]["content"][0]["text"],
            "the gate"
        );
    }

    #[test]
    fn frames_wait_for_their_tokens() {
        assert_eq!(Frame::Created.cue(), Cue::Nothing);
        assert_eq!(Frame::Role.cue(), Cue::Token(0));
        assert_eq!(Frame::Token(3).cue(), Cue::Token(3));
        assert_eq!(Frame::Finish.cue(), Cue::End);
    }
}
