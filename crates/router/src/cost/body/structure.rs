//! Any JSON value as part of a prompt: tool definitions, and calls of tools.

use serde::de::{Error, MapAccess, SeqAccess};

use super::json::{Key, Read, Value};
use super::stream::Mark;
use super::{Draft, Lane};

/// Takes a value as the text that it is when it is written compactly and without escapes.
pub(super) struct Structure<'d> {
    pub(super) draft: &'d mut Draft,
    pub(super) lane: Lane,
}

impl Structure<'_> {
    fn begin(&mut self, mark: Mark) {
        self.draft.stream(self.lane).mark(mark);
    }

    fn scalar(mut self, spelling: &str) {
        self.begin(Mark::Scalar);
        self.draft.text(self.lane, spelling);
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
        self.draft.text(self.lane, text);
        self.draft.punctuation("\"\"");
        Ok(())
    }

    fn array<A: SeqAccess<'de>>(mut self, mut array: A) -> Result<(), A::Error> {
        self.begin(Mark::Array);
        let Self { draft, lane } = self;
        draft.punctuation("[]");
        let mut comma = "";
        while array
            .next_element_seed(Read(Structure { draft, lane }))?
            .is_some()
        {
            draft.punctuation(comma);
            comma = ",";
        }
        draft.stream(lane).mark(Mark::End);
        Ok(())
    }

    fn object<A: MapAccess<'de>>(mut self, mut object: A) -> Result<(), A::Error> {
        self.begin(Mark::Object);
        let Self { draft, lane } = self;
        draft.punctuation("{}");
        let mut comma = "";
        loop {
            let key = Key(|name: &str| {
                draft.stream(lane).mark(Mark::Text);
                draft.text(lane, name);
                draft.punctuation("\"\":");
            });
            if object.next_key_seed(key)?.is_none() {
                break;
            }
            object.next_value_seed(Read(Structure { draft, lane }))?;
            draft.punctuation(comma);
            comma = ",";
        }
        draft.stream(lane).mark(Mark::End);
        Ok(())
    }
}
