//! What stands in a request for a prompt: texts, token ids, messages.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::prompt::Counter;

/// A prompt, or several: a text, an array of token ids, or an array of these and of messages.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Input(pub(crate) Vec<Part>);

/// One prompt of several.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Text(String),
    Ids(Vec<u32>),
    Message(Message),
}

/// A message of a conversation. What it has besides, such as pictures, is no part of the model.
#[derive(Debug, PartialEq, Eq, serde::Deserialize)]
pub(crate) struct Message {
    #[serde(default)]
    role: Option<String>,
    #[serde(default)]
    content: Option<Content>,
}

/// The texts of a message.
#[derive(Debug, PartialEq, Eq)]
struct Content(Vec<String>);

impl Input {
    /// All parts, one after the other.
    pub(crate) fn count(&self, counter: &mut Counter) {
        for part in &self.0 {
            match part {
                Part::Text(text) => counter.put_text(text),
                Part::Ids(ids) => counter.put_ids(ids),
                Part::Message(message) => message.count(counter),
            }
        }
    }

    pub(crate) fn has_messages(&self) -> bool {
        let is_message = |part: &Part| matches!(part, Part::Message(_));
        self.0.iter().any(is_message)
    }
}

impl Message {
    pub(crate) fn count(&self, counter: &mut Counter) {
        counter.put_message_head(self.role.as_deref().unwrap_or_default());
        let texts = self.content.iter().flat_map(|content| &content.0);
        texts.for_each(|text| counter.put_text(text));
    }
}

impl<'de> Deserialize<'de> for Input {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let parts = match deserializer.deserialize_any(ElementVisitor)? {
            Element::Text(text) => vec![Part::Text(text)],
            Element::Parts(parts) => parts,
            Element::Id(_) | Element::Message(_) => {
                let message = "a number or an object alone, where a text or an array is expected";
                return Err(D::Error::custom(message));
            }
        };
        Ok(Self(parts))
    }
}

/// What may stand in a prompt or in an array of it.
enum Element {
    Text(String),
    Id(u32),
    Message(Message),
    /// An array; token ids are one part.
    Parts(Vec<Part>),
}

impl<'de> Deserialize<'de> for Element {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ElementVisitor)
    }
}

struct ElementVisitor;

impl<'de> Visitor<'de> for ElementVisitor {
    type Value = Element;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, an array of token ids, or an array of texts, arrays or messages")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Element, E> {
        Ok(Element::Text(text.to_owned()))
    }

    fn visit_u64<E: Error>(self, id: u64) -> Result<Element, E> {
        let id = u32::try_from(id).map_err(|_| E::custom("a token id is at most 4294967295"))?;
        Ok(Element::Id(id))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Element, A::Error> {
        Message::deserialize(MapAccessDeserializer::new(map)).map(Element::Message)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Element, A::Error> {
        let mut ids = Vec::new();
        let mut parts = Vec::new();
        while let Some(element) = array.next_element()? {
            match element {
                Element::Id(id) => ids.push(id),
                Element::Text(text) => parts.push(Part::Text(text)),
                Element::Message(message) => parts.push(Part::Message(message)),
                Element::Parts(inner) => match <[Part; 1]>::try_from(inner) {
                    Ok([Part::Ids(ids)]) => parts.push(Part::Ids(ids)),
                    _ => return Err(A::Error::custom("an array in an array holds token ids")),
                },
            }
            if !ids.is_empty() && !parts.is_empty() {
                let message = "an array that begins with token ids holds nothing else";
                return Err(A::Error::custom(message));
            }
        }
        if !ids.is_empty() {
            parts.push(Part::Ids(ids));
        }
        Ok(Element::Parts(parts))
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or an array of parts")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Content, E> {
        Ok(Content(vec![text.to_owned()]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Content, A::Error> {
        #[derive(serde::Deserialize)]
        struct ContentPart {
            #[serde(default)]
            text: Option<String>,
        }
        let mut texts = Vec::new();
        while let Some(part) = array.next_element::<ContentPart>()? {
            texts.extend(part.text);
        }
        Ok(Content(texts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(json: &str) -> u32 {
        let input: Input = serde_json::from_str(json).expect("a prompt");
        let mut counter = Counter::default();
        input.count(&mut counter);
        counter.finish().tokens
    }

    #[test]
    fn token_ids_count_as_they_are_and_batches_as_their_sum() {
        assert_eq!(tokens("[1, 2, 4294967295]"), 3);
        assert_eq!(tokens("[[1, 2], [3]]"), 3);
        assert_eq!(tokens("[]"), 0);
    }

    #[test]
    fn texts_count_each_for_themselves() {
        assert_eq!(tokens(r#""fives""#), 2);
        assert_eq!(tokens(r#"["a", "fives"]"#), 3);
        assert_eq!(tokens(r#"["a", [1, 2]]"#), 3);
    }

    #[test]
    fn a_message_adds_four_tokens_to_its_text() {
        assert_eq!(tokens(r#"[{"role": "user", "content": "fives"}]"#), 6);
        assert_eq!(tokens(r#"[{"role": "user", "content": null}, {}]"#), 8);
        let parts = r#"[{"content": [{"type": "text", "text": "fives"}, {"type": "image_url"}]}]"#;
        assert_eq!(tokens(parts), 6);
    }

    #[test]
    fn what_is_no_prompt_is_refused_with_its_place() {
        for (json, part) in [
            ("[1, \"a\"]", "holds nothing else at line 1 column"),
            ("[[\"a\"]]", "an array in an array holds token ids"),
            ("[1.5]", "expected a text, an array of token ids"),
            ("[-1]", "expected a text, an array of token ids"),
            ("[4294967296]", "at most 4294967295 at line 1 column"),
            ("7", "a number or an object alone"),
            ("null", "expected a text, an array of token ids"),
            ("[{\"content\": 7}]", "expected a text or an array of parts"),
        ] {
            let refusal = serde_json::from_str::<Input>(json).expect_err(json);
            assert!(refusal.to_string().contains(part), "{json}: {refusal}");
        }
    }
}
