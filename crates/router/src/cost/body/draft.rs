//! What was found in a body so far.

use arrayvec::ArrayVec;
use serde::de::Error;

use super::stream::{Mark, Stream, chain};
use super::{AgentHints, Api, BodyError, Prompt, RequestBody, Texts, batch, chat};

/// The streams of a prompt, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    Tools,
    Instructions,
    Body,
}

/// A request that is being read.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) api: Api,
    pub(super) model: Option<Box<str>>,
    pub(super) stream: bool,
    pub(super) hints: AgentHints,
    streams: [Stream; 3],
    /// Members that may stand there once, and did.
    claimed: ArrayVec<&'static str, 4>,
    token_ids: u64,
    text_bytes: u64,
    messages: u32,
    media_parts: u32,
    /// What the prompt says, where somebody wants to know.
    texts: Option<Texts>,
    /// The first error, if it is not the parser's.
    problem: Option<BodyError>,
}

impl Draft {
    pub(super) const fn new(api: Api) -> Self {
        Self {
            api,
            model: None,
            stream: false,
            hints: AgentHints {
                priority: None,
                strict_priority: None,
                policy_class: None,
            },
            streams: [const { Stream::new() }; 3],
            claimed: ArrayVec::new_const(),
            token_ids: 0,
            text_bytes: 0,
            messages: 0,
            media_parts: 0,
            texts: None,
            problem: None,
        }
    }

    /// One that keeps the prompt's texts.
    pub(super) fn with_texts(api: Api) -> Self {
        Self {
            texts: Some(Texts::default()),
            ..Self::new(api)
        }
    }

    /// Notes an error; what the parser is told only makes it stop.
    pub(super) fn fail<E: Error>(&mut self, problem: BodyError) -> E {
        self.problem = Some(problem);
        E::custom("the error is in the draft")
    }

    /// What a member's reading gave; its error is seen from outside the member.
    pub(super) fn within<T, E>(&mut self, name: &str, read: Result<T, E>) -> Result<T, E> {
        if read.is_err()
            && let Some(problem) = &mut self.problem
        {
            problem.within(name);
        }
        read
    }

    /// What an element's reading gave; its error is seen from outside the element.
    pub(super) fn at<T, E>(&mut self, index: usize, read: Result<T, E>) -> Result<T, E> {
        match read {
            Err(error) => self.within(&format!("[{index}]"), Err(error)),
            ok => ok,
        }
    }

    /// A member comes now that may stand there once: of two, a worker might read the other one. There are four.
    pub(super) fn claim<E: Error>(&mut self, parameter: &'static str) -> Result<(), E> {
        if self.claimed.contains(&parameter) {
            return Err(self.fail(BodyError::Duplicate { parameter }));
        }
        self.claimed.push(parameter);
        Ok(())
    }

    pub(super) const fn stream(&mut self, lane: Lane) -> &mut Stream {
        &mut self.streams[lane as usize]
    }

    /// A whole text.
    pub(super) fn text(&mut self, lane: Lane, text: &str) {
        self.piece(lane, text);
        self.end_of_text();
    }

    /// The next piece of a text.
    pub(super) fn piece(&mut self, lane: Lane, text: &str) {
        self.stream(lane).text(text.as_bytes());
        self.punctuation(text);
    }

    /// The next piece of a text, with punctuation around it.
    pub(super) fn enclosed(&mut self, lane: Lane, before: &str, text: &str, after: &str) {
        self.stream(lane).text(text.as_bytes());
        self.text_bytes += (before.len() + text.len() + after.len()) as u64;
        if self.texts.is_some() {
            for piece in [before, text, after] {
                self.keep(piece);
            }
        }
    }

    /// A piece that the text has, but the stream has not: it has marks instead.
    pub(super) fn punctuation(&mut self, text: &str) {
        self.text_bytes += text.len() as u64;
        if self.texts.is_some() {
            self.keep(text);
        }
    }

    /// Out of the way of bodies that are only counted.
    #[cold]
    fn keep(&mut self, text: &str) {
        if let Some(texts) = &mut self.texts {
            texts.piece(text);
        }
    }

    /// The pieces so far are a text.
    pub(super) fn end_of_text(&mut self) {
        if let Some(texts) = &mut self.texts {
            texts.end();
        }
    }

    /// The prompt's texts, if they were kept.
    pub(super) fn into_texts(self) -> Texts {
        self.texts.unwrap_or_default()
    }

    pub(super) fn id(&mut self, id: u32) {
        self.stream(Lane::Body).id(id);
        self.token_ids += 1;
    }

    pub(super) fn media(&mut self, digest: u64) {
        let stream = self.stream(Lane::Body);
        stream.mark(Mark::Media);
        stream.text(&digest.to_le_bytes());
        self.media_parts = self.media_parts.saturating_add(1);
    }

    /// The role comes after what is said, because it may come after it in the body.
    pub(super) fn end_of_message(&mut self, role: Option<&str>, name: Option<&str>) {
        let stream = self.stream(Lane::Body);
        for (mark, word) in [(Mark::Role, role), (Mark::Name, name)] {
            if let Some(word) = word {
                stream.mark(mark);
                stream.text(word.as_bytes());
            }
        }
        stream.mark(Mark::Message);
        self.messages = self.messages.saturating_add(1);
    }

    /// The error that stopped the parser.
    pub(super) fn take_error(&mut self, error: &serde_json::Error) -> BodyError {
        let problem = self.problem.take();
        problem.unwrap_or_else(|| BodyError::not_json(error))
    }

    pub(super) fn finish(self) -> Result<RequestBody, BodyError> {
        if !self.claimed.contains(&self.api.prompt()) {
            return Err(BodyError::Missing {
                parameter: self.api.prompt(),
                expected: match self.api {
                    Api::Chat => chat::MESSAGES,
                    Api::Responses => chat::ITEMS,
                    Api::Completions | Api::Embeddings => batch::BATCH,
                },
            });
        }
        let stream_bytes = self.streams.iter().map(Stream::bytes).sum();
        // Equal bytes that mean something else must not look alike.
        let seed = self.api as u64 * 2 + u64::from(self.token_ids > 0);
        Ok(RequestBody {
            model: self.model,
            stream: self.stream,
            hints: self.hints,
            prompt: Prompt {
                token_ids: self.token_ids,
                text_bytes: self.text_bytes,
                messages: self.messages,
                media_parts: self.media_parts,
                stream_bytes,
                blocks: chain(seed, self.streams),
            },
        })
    }
}
