//! Any JSON value as part of a prompt: tool definitions, and calls of tools.

use serde::de::{Error, MapAccess, SeqAccess};

use super::json::{Key, Read, Value};
use super::stream::Mark;
use super::{Draft, Lane};

/// Takes a value as the text that it is when it is written compactly and without escapes. A whole value is one
/// text; whoever hands it over ends it.
pub(super) struct Structure<'d> {
    pub(super) draft: &'d mut Draft,
    pub(super) lane: Lane,
    /// Whether a comma stands between the value before this one and this one.
    follows: bool,
}

impl<'d> Structure<'d> {
    /// A whole value.
    pub(super) const fn of(draft: &'d mut Draft, lane: Lane) -> Self {
        Self {
            draft,
            lane,
            follows: false,
        }
    }

    fn begin(&mut self, mark: Mark) {
        if self.follows {
            self.draft.punctuation(",");
        }
        self.draft.stream(self.lane).mark(mark);
    }

    fn scalar(mut self, spelling: &str) {
        self.begin(Mark::Scalar);
        self.draft.piece(self.lane, spelling);
    }
}

impl<'de> Value<'de> for Structure<'_> {
    type Output = ();

    fn draft(&mut self) -> &mut Draft {
        self.draft
    }

    fn expected(&self) -> &'static str {
        "a JSON value"
    }

    fn null<E: Error>(self) -> Result<(), E> {
        self.scalar("null");
        Ok(())
    }

    fn boolean<E: Error>(self, value: bool) -> Result<(), E> {
        self.scalar(if value { "true" } else { "false" });
        Ok(())
    }

    fn whole<E: Error>(self, number: u64) -> Result<(), E> {
        self.scalar(&number.to_string());
        Ok(())
    }

    fn number<E: Error>(self, number: f64) -> Result<(), E> {
        self.scalar(&number.to_string());
        Ok(())
    }

    fn text<E: Error>(mut self, text: &str) -> Result<(), E> {
        self.begin(Mark::Text);
        self.draft.enclosed(self.lane, "\"", text, "\"");
        Ok(())
    }

    fn array<A: SeqAccess<'de>>(mut self, mut array: A) -> Result<(), A::Error> {
        self.begin(Mark::Array);
        let Self { draft, lane, .. } = self;
        draft.punctuation("[");
        let mut follows = false;
        while array
            .next_element_seed(Read(Structure {
                draft,
                lane,
                follows,
            }))?
            .is_some()
        {
            follows = true;
        }
        draft.punctuation("]");
        draft.stream(lane).mark(Mark::End);
        Ok(())
    }

    fn object<A: MapAccess<'de>>(mut self, mut object: A) -> Result<(), A::Error> {
        self.begin(Mark::Object);
        let Self { draft, lane, .. } = self;
        draft.punctuation("{");
        let mut before = "\"";
        loop {
            let key = Key(|name: &str| {
                draft.stream(lane).mark(Mark::Text);
                draft.enclosed(lane, before, name, "\":");
            });
            if object.next_key_seed(key)?.is_none() {
                break;
            }
            object.next_value_seed(Read(Structure::of(draft, lane)))?;
            before = ",\"";
        }
        draft.punctuation("}");
        draft.stream(lane).mark(Mark::End);
        Ok(())
    }
}
