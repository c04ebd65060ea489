//! Bodies of operators: JSON objects with known members.
//!
//! They are read by hand, so that what is wrong is told in the words of an operator: which member, what was
//! found, what would be right.

use std::fmt;

use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use http::StatusCode;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use crate::refusal::{Refusal, Retry};

/// The largest body that is read, in bytes: a policy with room to spare.
pub(super) const BODY_BYTES_MAX: usize = 2 << 20;
/// The most characters of what was found that a message repeats.
const SHOWN: usize = 40;

/// A whole body.
#[derive(Debug)]
pub(super) struct Whole(pub(super) Bytes);

impl<S: Send + Sync> FromRequest<S> for Whole {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let read = Bytes::from_request(request, state).await;
        read.map(Self).map_err(|rejection| unread(&rejection))
    }
}

fn unread(rejection: &BytesRejection) -> Refusal {
    let status = rejection.status();
    if status != StatusCode::PAYLOAD_TOO_LARGE {
        return Refusal::invalid("invalid_body", "the body did not arrive as a whole");
    }
    let message =
        format!("the body is larger than {BODY_BYTES_MAX} bytes, the most that is read here");
    Refusal::new(status, "body_too_large", message, Retry::Never)
}

/// The members of a body that were not taken out yet.
#[derive(Debug)]
pub(super) struct Members(Vec<(String, Value)>);

impl Members {
    /// Reads a body that may have these members; an empty one has none.
    pub(super) fn read(body: &[u8], known: &[&'static str]) -> Result<Self, Refusal> {
        let text: &[u8] = if body.is_empty() { b"{}" } else { body };
        let read = match serde_json::from_slice(text) {
            Ok(Read::Object(members)) => members,
            Ok(Read::Other(what)) => {
                let known = known.join(", ");
                let message = format!("the body is {what}; it must be an object with {known}");
                return Err(invalid(message));
            }
            Err(error) => {
                let (line, column) = (error.line(), error.column());
                let message =
                    format!("the body is not JSON: it breaks off at line {line}, column {column}");
                return Err(invalid(message));
            }
        };
        for (at, (name, _)) in read.iter().enumerate() {
            let shown = shorten(name);
            if !known.contains(&name.as_str()) {
                let known = known.join(", ");
                let message = format!("{shown}: there is no such member; there may be {known}");
                return Err(invalid(message).with_param(shown));
            }
            if read[..at].iter().any(|(other, _)| other == name) {
                let message = format!("{shown}: it stands there twice; write it once");
                return Err(invalid(message).with_param(shown));
            }
        }
        Ok(Self(read))
    }

    /// Takes a member out; null is as good as none. `right` says what it must be.
    pub(super) fn take<T>(
        &mut self,
        name: &'static str,
        right: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<Option<T>, Refusal> {
        let Some(value) = self.remove(name) else {
            return Ok(None);
        };
        match read(&value) {
            Some(read) => Ok(Some(read)),
            None => Err(wrong(name, name, &value, right)),
        }
    }

    /// The same of a list of texts.
    pub(super) fn take_texts(
        &mut self,
        name: &'static str,
    ) -> Result<Option<Vec<String>>, Refusal> {
        let texts = match self.remove(name) {
            None => return Ok(None),
            Some(Value::Array(texts)) => texts,
            Some(other) => return Err(wrong(name, name, &other, "a list of texts")),
        };
        let texts = texts.into_iter().enumerate().map(|(at, text)| match text {
            Value::String(text) => Ok(text),
            other => Err(wrong(name, &format!("{name}[{at}]"), &other, "a text")),
        });
        texts.collect::<Result<_, _>>().map(Some)
    }

    fn remove(&mut self, name: &str) -> Option<Value> {
        let at = self.0.iter().position(|(found, _)| found == name)?;
        Some(self.0.swap_remove(at).1).filter(|value| !value.is_null())
    }
}

/// What a member must be that has to be there.
pub(super) fn required<T>(name: &'static str, right: &str, taken: Option<T>) -> Result<T, Refusal> {
    taken.ok_or_else(|| {
        let message = format!("{name}: it is missing; it must be {right}");
        invalid(message).with_param(name)
    })
}

fn invalid(message: String) -> Refusal {
    Refusal::invalid("invalid_body", message)
}

fn wrong(name: &'static str, place: &str, found: &Value, right: &str) -> Refusal {
    let message = format!("{place}: {}; it must be {right}", shown(found));
    invalid(message).with_param(name)
}

fn shorten(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

fn shown(found: &Value) -> String {
    match found {
        Value::String(text) => format!("{:?}", shorten(text)),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        other => other.to_string(),
    }
}

/// A body as it was found: an object's members in their order, those that stand there twice included.
enum Read {
    Object(Vec<(String, Value)>),
    Other(&'static str),
}

impl<'de> Deserialize<'de> for Read {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ReadVisitor)
    }
}

struct ReadVisitor;

impl<'de> Visitor<'de> for ReadVisitor {
    type Value = Read;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Read, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Read::Object(members))
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Read, A::Error> {
        while seq.next_element::<serde::de::IgnoredAny>()?.is_some() {}
        Ok(Read::Other("a list"))
    }

    fn visit_str<E>(self, _: &str) -> Result<Read, E> {
        Ok(Read::Other("a text"))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Read, E> {
        Ok(Read::Other("true or false"))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Read, E> {
        Ok(Read::Other("a number"))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Read, E> {
        Ok(Read::Other("a number"))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Read, E> {
        Ok(Read::Other("a number"))
    }

    fn visit_unit<E>(self) -> Result<Read, E> {
        Ok(Read::Other("null"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[&str] = &["url", "ranks", "models"];

    fn message(body: &str, read: impl FnOnce(&mut Members) -> Result<(), Refusal>) -> String {
        let read = Members::read(body.as_bytes(), KNOWN).and_then(|mut members| read(&mut members));
        read.expect_err(body).message
    }

    #[test]
    fn what_is_no_object_is_told_as_what_it_is() {
        for (body, found) in [
            ("[1, {}]", "the body is a list"),
            ("\"x\"", "the body is a text"),
            ("-3", "the body is a number"),
            ("0.5", "the body is a number"),
            ("null", "the body is null"),
            ("true", "the body is true or false"),
            (
                "{\n\"url\": x}",
                "the body is not JSON: it breaks off at line 2, column 8",
            ),
            ("{} {}", "the body is not JSON"),
        ] {
            let message = message(body, |_| Ok(()));
            assert!(message.starts_with(found), "{message}");
            assert!(!message.contains("expected"), "no other's words: {message}");
        }
        assert!(Members::read(b"", KNOWN).is_ok());
    }

    #[test]
    fn a_member_of_the_wrong_kind_is_told_with_what_was_found() {
        let url = |members: &mut Members| {
            let url = members.take("url", "a text", |value| value.as_str().map(str::to_owned))?;
            required("url", "a text", url).map(|_| ())
        };
        for (body, said) in [
            ("{\"url\": 3}", "url: 3; it must be a text"),
            ("{\"url\": [3]}", "url: a list; it must be a text"),
            ("{\"url\": {}}", "url: an object; it must be a text"),
            ("{\"url\": null}", "url: it is missing; it must be a text"),
            (
                "{\"url\": \"a\", \"url\": \"b\"}",
                "url: it stands there twice; write it once",
            ),
            (
                "{\"rank\": 1}",
                "rank: there is no such member; there may be url, ranks, models",
            ),
        ] {
            assert_eq!(message(body, url), said);
        }
        let ranks = |members: &mut Members| {
            let ranks = members.take("ranks", "a whole number", Value::as_u64);
            ranks.map(|_| ())
        };
        let said = message("{\"ranks\": -1}", ranks);
        assert_eq!(said, "ranks: -1; it must be a whole number");
        let long = format!("{{\"ranks\": \"{}\"}}", "9".repeat(1_000));
        assert!(message(&long, ranks).len() < 100);
        let models = |members: &mut Members| members.take_texts("models").map(|_| ());
        for (body, said) in [
            (
                "{\"models\": \"m\"}",
                "models: \"m\"; it must be a list of texts",
            ),
            (
                "{\"models\": [\"m\", 7]}",
                "models[1]: 7; it must be a text",
            ),
        ] {
            assert_eq!(message(body, models), said);
        }
    }
}
