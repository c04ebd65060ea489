//! Prompts that are conversations: chat messages, and the items of a response's input.

use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess};
use serde_json::value::RawValue;
use twox_hash::XxHash3_64;

use super::json::{Key, Read, Value};
use super::scalar::{OptionalText, PromptText};
use super::stream::Mark;
use super::structure::Structure;
use super::{Api, BodyError, Draft, Found, Lane};

/// What `messages` must be, in words.
pub(super) const MESSAGES: &str = "an array of messages";
/// What the `input` of a response must be, in words.
pub(super) const ITEMS: &str = "a string or an array of items";

/// `messages`, or the `input` of a response.
pub(super) struct Messages<'d>(pub(super) &'d mut Draft);

impl<'de> Value<'de> for Messages<'_> {
    type Output = ();

    fn draft(&mut self) -> &mut Draft {
        self.0
    }

    fn expected(&self) -> &'static str {
        match self.0.api {
            Api::Responses => ITEMS,
            _ => MESSAGES,
        }
    }

    /// A string is a single message of the user's.
    fn text<E: Error>(self, text: &str) -> Result<(), E> {
        if self.0.api != Api::Responses {
            return self.wrong(Found::Text);
        }
        self.0.text(Lane::Body, text);
        self.0.end_of_message(Some("user"), None);
        Ok(())
    }

    fn array<A: SeqAccess<'de>>(self, mut array: A) -> Result<(), A::Error> {
        let draft = self.0;
        for index in 0.. {
            let read = array.next_element_seed(Read(Message(draft)));
            match draft.at(index, read)? {
                Some(()) => {}
                None if index == 0 => return Err(draft.fail(BodyError::empty())),
                None => break,
            }
        }
        Ok(())
    }
}

struct Message<'d>(&'d mut Draft);

/// The members of a message that are part of the prompt.
#[derive(Clone, Copy)]
enum Member {
    Role,
    Name,
    Content,
    /// Of an item that calls a tool, its arguments; of one that thinks, a summary; and so on.
    Item(&'static str),
    ToolCalls,
    Other,
}

impl Member {
    fn of(api: Api, name: &str) -> Self {
        match (name, api) {
            ("role", _) => Self::Role,
            ("name", _) => Self::Name,
            ("content", _) => Self::Content,
            ("tool_calls", Api::Chat) => Self::ToolCalls,
            ("arguments", Api::Responses) => Self::Item("arguments"),
            ("output", Api::Responses) => Self::Item("output"),
            ("summary", Api::Responses) => Self::Item("summary"),
            _ => Self::Other,
        }
    }
}

impl<'de> Value<'de> for Message<'_> {
    type Output = ();

    fn draft(&mut self) -> &mut Draft {
        self.0
    }

    fn expected(&self) -> &'static str {
        "an object"
    }

    fn object<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        let draft = self.0;
        let (mut role, mut name) = (None, None);
        let mut tool_calls: Option<&RawValue> = None;
        let api = draft.api;
        while let Some(member) = object.next_key_seed(Key(|name: &str| Member::of(api, name)))? {
            match member {
                Member::Role => {
                    let read = object.next_value_seed(Read(OptionalText(draft)));
                    role = draft.within("role", read)?;
                }
                Member::Name => {
                    let read = object.next_value_seed(Read(OptionalText(draft)));
                    name = draft.within("name", read)?;
                }
                Member::Content => {
                    let read = object.next_value_seed(Read(Content::of_message(draft)));
                    draft.within("content", read)?;
                }
                Member::Item(name) => {
                    let read = object.next_value_seed(Read(Content::of_item(draft)));
                    draft.within(name, read)?;
                }
                // They come after the content in the prompt, wherever they stand here.
                Member::ToolCalls => tool_calls = Some(object.next_value()?),
                Member::Other => {
                    object.next_value::<IgnoredAny>()?;
                }
            }
        }
        if let Some(calls) = tool_calls.filter(|calls| calls.get() != "null") {
            let lane = Lane::Body;
            let mut parser = serde_json::Deserializer::from_str(calls.get());
            Read(Structure::of(draft, lane))
                .deserialize(&mut parser)
                .map_err(A::Error::custom)?;
            draft.end_of_text();
        }
        draft.end_of_message(role.as_deref(), name.as_deref());
        Ok(())
    }
}

/// What a message says: a string, parts, or nothing.
struct Content<'d> {
    draft: &'d mut Draft,
    /// Whether an object is a single part. So is what some tools give back.
    may_be_part: bool,
}

impl<'d> Content<'d> {
    const fn of_message(draft: &'d mut Draft) -> Self {
        Self {
            draft,
            may_be_part: false,
        }
    }

    const fn of_item(draft: &'d mut Draft) -> Self {
        Self {
            draft,
            may_be_part: true,
        }
    }
}

impl<'de> Value<'de> for Content<'_> {
    type Output = ();

    fn draft(&mut self) -> &mut Draft {
        self.draft
    }

    fn expected(&self) -> &'static str {
        if self.may_be_part {
            "a string, null, a part or an array of parts"
        } else {
            "a string, null or an array of parts"
        }
    }

    fn null<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn text<E: Error>(self, text: &str) -> Result<(), E> {
        self.draft.text(Lane::Body, text);
        Ok(())
    }

    fn array<A: SeqAccess<'de>>(self, mut array: A) -> Result<(), A::Error> {
        let draft = self.draft;
        for index in 0.. {
            let is_first = index == 0;
            let read = array.next_element_seed(Read(Part { draft, is_first }));
            if draft.at(index, read)?.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn object<A: MapAccess<'de>>(self, object: A) -> Result<(), A::Error> {
        if !self.may_be_part {
            return self.wrong(Found::Object);
        }
        let part = Part {
            draft: self.draft,
            is_first: true,
        };
        part.object(object)
    }
}

/// One part of what a message says.
struct Part<'d> {
    draft: &'d mut Draft,
    is_first: bool,
}

impl Part<'_> {
    /// A text is the same as a string and as a single part.
    fn begin(&mut self) {
        if !self.is_first {
            self.draft.stream(Lane::Body).mark(Mark::Part);
        }
    }
}

impl<'de> Value<'de> for Part<'_> {
    type Output = ();

    fn draft(&mut self) -> &mut Draft {
        self.draft
    }

    fn expected(&self) -> &'static str {
        "an object with a `type`, or a string"
    }

    fn text<E: Error>(mut self, text: &str) -> Result<(), E> {
        self.begin();
        self.draft.text(Lane::Body, text);
        Ok(())
    }

    /// Whatever has no text of its own is an image, a sound, a file or the like: it is told from others by a
    /// hash, and counted.
    fn object<A: MapAccess<'de>>(mut self, mut object: A) -> Result<(), A::Error> {
        self.begin();
        let draft = self.draft;
        let lane = Lane::Body;
        let mut has_text = false;
        let mut digest = 0_u64;
        loop {
            let key = Key(|name: &str| match name {
                "text" => (Some("text"), 0),
                "refusal" => (Some("refusal"), 0),
                _ => (None, XxHash3_64::oneshot(name.as_bytes())),
            });
            match object.next_key_seed(key)? {
                Some((Some(name), _)) => {
                    let read = object.next_value_seed(Read(PromptText { draft, lane }));
                    has_text |= draft.within(name, read)?;
                }
                Some((None, name_hash)) => {
                    let value: &RawValue = object.next_value()?;
                    let hash = XxHash3_64::oneshot_with_seed(name_hash, value.get().as_bytes());
                    // A sum, so that the order of the members does not matter.
                    digest = digest.wrapping_add(hash);
                }
                None => break,
            }
        }
        if !has_text {
            draft.media(digest);
        }
        Ok(())
    }
}
