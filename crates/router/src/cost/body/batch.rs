//! Prompts of plain text or token ids: one, or a batch of them.

use serde::de::{Error, SeqAccess};

use super::json::{Read, Value};
use super::stream::Mark;
use super::{BodyError, Draft, Found, Lane};

/// What a batch may be, in words.
pub(super) const BATCH: &str =
    "a string, an array of strings, an array of token ids, or an array of arrays of token ids";

/// A prompt in any of its four forms.
pub(super) struct Batch<'d>(pub(super) &'d mut Draft);

impl<'de> Value<'de> for Batch<'_> {
    type Output = ();

    fn draft(&mut self) -> &mut Draft {
        self.0
    }

    fn expected(&self) -> &'static str {
        BATCH
    }

    fn text<E: Error>(self, text: &str) -> Result<(), E> {
        self.0.text(Lane::Body, text);
        Ok(())
    }

    fn array<A: SeqAccess<'de>>(self, mut array: A) -> Result<(), A::Error> {
        let draft = self.0;
        let mut kind = None;
        for index in 0.. {
            let read = array.next_element_seed(Read(Element { draft, kind }));
            match draft.at(index, read)? {
                Some(found) => kind = Some(found),
                None if index == 0 => return Err(draft.fail(BodyError::empty())),
                None => break,
            }
        }
        Ok(())
    }
}

/// What the elements of a batch are: all what the first one is.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Id,
    Ids,
}

struct Element<'d> {
    draft: &'d mut Draft,
    /// What the first one was; unset: this is it.
    kind: Option<Kind>,
}

impl<'de> Value<'de> for Element<'_> {
    type Output = Kind;

    fn draft(&mut self) -> &mut Draft {
        self.draft
    }

    fn expected(&self) -> &'static str {
        match self.kind {
            None => "a string, a token id (a whole number of 0 to 4294967295), or an array of them",
            Some(Kind::Text) => "a string, as those before it",
            Some(Kind::Id) => "a token id (a whole number of 0 to 4294967295), as those before it",
            Some(Kind::Ids) => "an array of token ids, as those before it",
        }
    }

    fn text<E: Error>(self, text: &str) -> Result<Kind, E> {
        match self.kind {
            None => {}
            Some(Kind::Text) => self.draft.stream(Lane::Body).mark(Mark::Part),
            Some(_) => return self.wrong(Found::Text),
        }
        self.draft.text(Lane::Body, text);
        Ok(Kind::Text)
    }

    fn whole<E: Error>(self, number: u64) -> Result<Kind, E> {
        match (self.kind, u32::try_from(number)) {
            (None | Some(Kind::Id), Ok(id)) => self.draft.id(id),
            _ => return self.wrong(Found::Whole(number)),
        }
        Ok(Kind::Id)
    }

    fn array<A: SeqAccess<'de>>(self, mut array: A) -> Result<Kind, A::Error> {
        if let Some(Kind::Text | Kind::Id) = self.kind {
            return self.wrong(Found::Array);
        }
        let draft = self.draft;
        // A block is of one prompt, so that it is 64 ids.
        draft.stream(Lane::Body).seal();
        for index in 0.. {
            let read = array.next_element_seed(Read(Id(draft)));
            match draft.at(index, read)? {
                Some(()) => {}
                None if index == 0 => return Err(draft.fail(BodyError::empty())),
                None => break,
            }
        }
        Ok(Kind::Ids)
    }
}

struct Id<'d>(&'d mut Draft);

impl<'de> Value<'de> for Id<'_> {
    type Output = ();

    fn draft(&mut self) -> &mut Draft {
        self.0
    }

    fn expected(&self) -> &'static str {
        "a token id (a whole number of 0 to 4294967295)"
    }

    fn whole<E: Error>(self, number: u64) -> Result<(), E> {
        let Ok(id) = u32::try_from(number) else {
            return self.wrong(Found::Whole(number));
        };
        self.0.id(id);
        Ok(())
    }
}
