//! Reading a request's body.
//!
//! A body is gone through with visitors: no tree is built of it, and beyond the body itself it takes the memory
//! of its longest escaped string, of the hashes of its blocks, and of the short strings that are kept. Whoever
//! wants the prompt's texts as well goes through it a second time, once the model is known: [`texts`]. The members may come in any order. What the router does not need is not looked at, beyond that it
//! is JSON: the worker decides whether it is right.
//!
//! # The canonical stream
//! Two bodies that mean the same prompt have the same blocks, however their JSON is spelled: white space,
//! escapes, the order of members of the request and of its messages, and whether a text is a string or a
//! single part make no difference. The order of members inside a tool's definition does, as it does to the
//! prompt. The stream is, in this order: the definitions of tools, the instructions, and the messages (each
//! its text, its calls of tools, its role and its name), or the texts of a batch with a mark between them;
//! or token ids, four bytes each. Marks are bytes that UTF-8 never contains. A batch is one prompt here:
//! of its later members little is ever found again.

mod batch;
mod chat;
mod draft;
mod error;
mod json;
mod scalar;
mod stream;
mod structure;
#[cfg(test)]
mod tests;
mod texts;

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess};

pub use self::error::{BodyError, Found};
pub use self::stream::{BLOCK_BYTES, BLOCKS_MAX};
pub use self::texts::Texts;

use self::batch::Batch;
use self::chat::Messages;
use self::draft::{Draft, Lane};
use self::json::{Key, Read, Value};
use self::scalar::{Extension, Flag, OptionalText, PromptText};
use self::structure::Structure;

/// Whose form a body has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Api {
    /// `/v1/chat/completions`.
    Chat,
    /// `/v1/completions`.
    Completions,
    /// `/v1/embeddings`.
    Embeddings,
    /// `/v1/responses`.
    Responses,
}

impl Api {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Chat,
        Self::Completions,
        Self::Embeddings,
        Self::Responses,
    ];

    /// Where it is.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Completions => "/v1/completions",
            Self::Embeddings => "/v1/embeddings",
            Self::Responses => "/v1/responses",
        }
    }

    /// The member that has the prompt.
    #[must_use]
    pub const fn prompt(self) -> &'static str {
        match self {
            Self::Chat => "messages",
            Self::Completions => "prompt",
            Self::Embeddings | Self::Responses => "input",
        }
    }
}

/// What a body says.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestBody {
    /// `model`, if it is given.
    pub model: Option<Box<str>>,
    /// `stream`. Default false.
    pub stream: bool,
    /// `nvext.agent_hints`.
    pub hints: AgentHints,
    /// The prompt, as numbers.
    pub prompt: Prompt,
}

/// What an agent wants for its request: `nvext.agent_hints`. Members that are not listed here are ignored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentHints {
    /// `priority`; finite.
    pub priority: Option<f64>,
    /// `strict_priority`.
    pub strict_priority: Option<u32>,
    /// `policy_class`.
    pub policy_class: Option<Box<str>>,
}

/// A prompt, as numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt {
    /// Tokens that are given as ids; of a batch, the sum.
    pub token_ids: u64,
    /// Bytes of text, without escapes: the contents of all messages and their calls of tools, the
    /// definitions of tools written compactly, and the instructions; of a batch, the sum.
    pub text_bytes: u64,
    /// Chat messages, or items of a response's input.
    pub messages: u32,
    /// Images, sounds, files: parts of messages that have no text.
    pub media_parts: u32,
    /// Bytes of the canonical stream: somewhat more than those of the text, or four for each id.
    pub stream_bytes: u64,
    /// One hash for each whole block of [`BLOCK_BYTES`] of the canonical stream, at most [`BLOCKS_MAX`]. Each
    /// stands for its block and everything before it. The model is not in it.
    pub blocks: Vec<u64>,
}

/// Reads a body.
///
/// # Errors
/// [`BodyError`], the first that is come across: that it is not UTF-8 before anything else, and that the
/// prompt is missing after everything else.
///
/// # Complexity
/// Linear in the bytes of the body. The depth of what is looked at is 128 at most.
///
/// # Examples
/// ```
/// use tollgate_router::cost::body::{Api, read};
///
/// let body = br#"{"messages": [{"role": "user", "content": "caf\u00e9"}], "model": "m"}"#;
/// let request = read(Api::Chat, body)?;
/// assert_eq!(request.model.as_deref(), Some("m"));
/// assert_eq!((request.prompt.messages, request.prompt.text_bytes), (1, 5));
///
/// let error = read(Api::Chat, br#"{"messages": [{"content": 5}]}"#).unwrap_err();
/// assert_eq!(error.param(), Some("messages[0].content"));
/// # Ok::<(), tollgate_router::cost::body::BodyError>(())
/// ```
pub fn read(api: Api, body: &[u8]) -> Result<RequestBody, BodyError> {
    let mut draft = Draft::new(api);
    through(&mut draft, body)?;
    draft.finish()
}

/// The texts of a body's prompt: those whose bytes are [`Prompt::text_bytes`], in the order in which they stand in
/// the body. The text of a message, of a part of it, of an instruction, or of one prompt of a batch is one text; so
/// are the definitions of all tools, and all calls of a message, written compactly and without escapes.
///
/// # Errors
/// What [`read`] would say, but that the prompt may be missing.
///
/// # Complexity
/// That of [`read`], and memory for the texts.
///
/// # Examples
/// ```
/// use tollgate_router::cost::body::{Api, texts};
///
/// let body = br#"{"messages": [{"content": ["caf\u00e9", {"type": "text", "text": "?"}]}], "tools": [ 1 ]}"#;
/// let texts = texts(Api::Chat, body)?;
/// assert_eq!(texts.iter().collect::<Vec<_>>(), ["café", "?", "[1]"]);
/// # Ok::<(), tollgate_router::cost::body::BodyError>(())
/// ```
pub fn texts(api: Api, body: &[u8]) -> Result<Texts, BodyError> {
    let mut draft = Draft::with_texts(api);
    through(&mut draft, body)?;
    Ok(draft.into_texts())
}

/// Goes through a body.
fn through(draft: &mut Draft, body: &[u8]) -> Result<(), BodyError> {
    let text = match str::from_utf8(body) {
        Ok(text) => text,
        Err(error) => return Err(BodyError::not_utf8(body, error.valid_up_to())),
    };
    let mut parser = serde_json::Deserializer::from_str(text);
    let read = Read(Body(draft)).deserialize(&mut parser);
    read.and_then(|()| parser.end())
        .map_err(|error| draft.take_error(&error))
}

/// The members of a request that are looked at.
#[derive(Clone, Copy)]
enum Member {
    Model,
    Stream,
    Extension,
    Prompt,
    Instructions,
    Tools,
    Other,
}

impl Member {
    fn of(api: Api, name: &str) -> Self {
        match name {
            "model" => Self::Model,
            "stream" => Self::Stream,
            "nvext" => Self::Extension,
            "instructions" if api == Api::Responses => Self::Instructions,
            "tools" if matches!(api, Api::Chat | Api::Responses) => Self::Tools,
            name if name == api.prompt() => Self::Prompt,
            _ => Self::Other,
        }
    }
}

/// The whole body.
struct Body<'d>(&'d mut Draft);

impl<'de> Value<'de> for Body<'_> {
    type Output = ();

    fn draft(&mut self) -> &mut Draft {
        self.0
    }

    fn expected(&self) -> &'static str {
        "a JSON object"
    }

    fn wrong<E: serde::de::Error>(self, found: Found) -> Result<(), E> {
        Err(self.0.fail(BodyError::NotAnObject { found }))
    }

    fn object<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        let draft = self.0;
        let api = draft.api;
        while let Some(member) = object.next_key_seed(Key(|name: &str| Member::of(api, name)))? {
            match member {
                Member::Model => {
                    draft.claim("model")?;
                    let read = object.next_value_seed(Read(OptionalText(draft)));
                    draft.model = draft.within("model", read)?;
                }
                Member::Stream => {
                    draft.claim("stream")?;
                    let read = object.next_value_seed(Read(Flag(draft)));
                    draft.stream = draft.within("stream", read)?;
                }
                Member::Extension => {
                    draft.claim("nvext")?;
                    let read = object.next_value_seed(Read(Extension(draft)));
                    draft.hints = draft.within("nvext", read)?;
                }
                Member::Prompt => {
                    draft.claim(api.prompt())?;
                    let read = match api {
                        Api::Chat | Api::Responses => object.next_value_seed(Read(Messages(draft))),
                        Api::Completions | Api::Embeddings => {
                            object.next_value_seed(Read(Batch(draft)))
                        }
                    };
                    draft.within(api.prompt(), read)?;
                }
                Member::Instructions => {
                    let lane = Lane::Instructions;
                    let read = object.next_value_seed(Read(PromptText { draft, lane }));
                    draft.within("instructions", read)?;
                }
                Member::Tools => {
                    let lane = Lane::Tools;
                    object.next_value_seed(Read(Structure::of(draft, lane)))?;
                    draft.end_of_text();
                }
                Member::Other => {
                    object.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}
