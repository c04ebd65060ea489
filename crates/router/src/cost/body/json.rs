//! JSON values as they are come across, without a tree of them.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::{BodyError, Draft, Found};

/// What a place in the body takes. Whatever a kind of value has no method for, is of the wrong type.
pub(super) trait Value<'de>: Sized {
    type Output;

    /// Where an error is put, and whatever else is found.
    fn draft(&mut self) -> &mut Draft;
    /// What is right here, as in "must be ..".
    fn expected(&self) -> &'static str;

    fn wrong<E: Error>(mut self, found: Found) -> Result<Self::Output, E> {
        let expected = self.expected();
        Err(self.draft().fail(BodyError::WrongType {
            path: String::new(),
            found,
            expected,
        }))
    }

    fn null<E: Error>(self) -> Result<Self::Output, E> {
        self.wrong(Found::Null)
    }

    fn boolean<E: Error>(self, _: bool) -> Result<Self::Output, E> {
        self.wrong(Found::Boolean)
    }

    fn whole<E: Error>(self, number: u64) -> Result<Self::Output, E> {
        self.wrong(Found::Whole(number))
    }

    /// A number that is negative, or not whole, or larger than any `u64`.
    fn number<E: Error>(self, number: f64) -> Result<Self::Output, E> {
        self.wrong(Found::Number(number))
    }

    fn text<E: Error>(self, _: &str) -> Result<Self::Output, E> {
        self.wrong(Found::Text)
    }

    fn array<A: SeqAccess<'de>>(self, _: A) -> Result<Self::Output, A::Error> {
        self.wrong(Found::Array)
    }

    fn object<A: MapAccess<'de>>(self, _: A) -> Result<Self::Output, A::Error> {
        self.wrong(Found::Object)
    }
}

/// Makes a parser hand its next value to a [`Value`].
pub(super) struct Read<V>(pub(super) V);

impl<'de, V: Value<'de>> DeserializeSeed<'de> for Read<V> {
    type Value = V::Output;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<V::Output, D::Error> {
        parser.deserialize_any(self)
    }
}

impl<'de, V: Value<'de>> Visitor<'de> for Read<V> {
    type Value = V::Output;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.expected())
    }

    fn visit_unit<E: Error>(self) -> Result<V::Output, E> {
        self.0.null()
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<V::Output, E> {
        self.0.boolean(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<V::Output, E> {
        self.0.whole(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<V::Output, E> {
        self.0.number(value as f64)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<V::Output, E> {
        self.0.number(value)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<V::Output, E> {
        self.0.text(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, array: A) -> Result<V::Output, A::Error> {
        self.0.array(array)
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<V::Output, A::Error> {
        self.0.object(object)
    }
}

/// Hands a member's name to a function, without keeping it.
pub(super) struct Key<F>(pub(super) F);

impl<'de, T, F: FnOnce(&str) -> T> DeserializeSeed<'de> for Key<F> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<T, D::Error> {
        parser.deserialize_str(self)
    }
}

impl<T, F: FnOnce(&str) -> T> Visitor<'_> for Key<F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member's name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<T, E> {
        Ok((self.0)(name))
    }
}
