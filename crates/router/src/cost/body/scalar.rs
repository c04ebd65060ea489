//! Members that are one optional value each.

use serde::de::{Error, IgnoredAny, MapAccess};

use super::json::{Key, Read, Value};
use super::{AgentHints, Draft, Lane};

/// A string; `null` is as if it were not there.
pub(super) struct OptionalText<'d>(pub(super) &'d mut Draft);

impl<'de> Value<'de> for OptionalText<'_> {
    type Output = Option<Box<str>>;

    fn draft(&mut self) -> &mut Draft {
        self.0
    }

    fn expected(&self) -> &'static str {
        "a string"
    }

    fn null<E: Error>(self) -> Result<Self::Output, E> {
        Ok(None)
    }

    fn text<E: Error>(self, text: &str) -> Result<Self::Output, E> {
        Ok(Some(text.into()))
    }
}

/// A string that is part of the prompt, and is not kept; says whether there is one.
pub(super) struct PromptText<'d> {
    pub(super) draft: &'d mut Draft,
    pub(super) lane: Lane,
}

impl<'de> Value<'de> for PromptText<'_> {
    type Output = bool;

    fn draft(&mut self) -> &mut Draft {
        self.draft
    }

    fn expected(&self) -> &'static str {
        "a string"
    }

    fn null<E: Error>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn text<E: Error>(self, text: &str) -> Result<bool, E> {
        self.draft.text(self.lane, text);
        Ok(true)
    }
}

/// A boolean; `null` is false.
pub(super) struct Flag<'d>(pub(super) &'d mut Draft);

impl<'de> Value<'de> for Flag<'_> {
    type Output = bool;

    fn draft(&mut self) -> &mut Draft {
        self.0
    }

    fn expected(&self) -> &'static str {
        "true or false"
    }

    fn null<E: Error>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn boolean<E: Error>(self, value: bool) -> Result<bool, E> {
        Ok(value)
    }
}

struct OptionalNumber<'d>(&'d mut Draft);

impl<'de> Value<'de> for OptionalNumber<'_> {
    type Output = Option<f64>;

    fn draft(&mut self) -> &mut Draft {
        self.0
    }

    fn expected(&self) -> &'static str {
        "a number"
    }

    fn null<E: Error>(self) -> Result<Self::Output, E> {
        Ok(None)
    }

    fn whole<E: Error>(self, number: u64) -> Result<Self::Output, E> {
        Ok(Some(number as f64))
    }

    fn number<E: Error>(self, number: f64) -> Result<Self::Output, E> {
        Ok(Some(number))
    }
}

struct OptionalCount<'d>(&'d mut Draft);

impl<'de> Value<'de> for OptionalCount<'_> {
    type Output = Option<u32>;

    fn draft(&mut self) -> &mut Draft {
        self.0
    }

    fn expected(&self) -> &'static str {
        "a whole number of 0 to 4294967295"
    }

    fn null<E: Error>(self) -> Result<Self::Output, E> {
        Ok(None)
    }

    fn whole<E: Error>(self, number: u64) -> Result<Self::Output, E> {
        match u32::try_from(number) {
            Ok(count) => Ok(Some(count)),
            Err(_) => self.wrong(super::Found::Whole(number)),
        }
    }
}

/// The member `nvext`: of all that may be in it, the agent's hints.
pub(super) struct Extension<'d>(pub(super) &'d mut Draft);

impl<'de> Value<'de> for Extension<'_> {
    type Output = AgentHints;

    fn draft(&mut self) -> &mut Draft {
        self.0
    }

    fn expected(&self) -> &'static str {
        "an object"
    }

    fn null<E: Error>(self) -> Result<AgentHints, E> {
        Ok(AgentHints::default())
    }

    fn object<A: MapAccess<'de>>(self, mut object: A) -> Result<AgentHints, A::Error> {
        let draft = self.0;
        let mut hints = AgentHints::default();
        while let Some(is_hints) = object.next_key_seed(Key(|name: &str| name == "agent_hints"))? {
            if is_hints {
                let read = object.next_value_seed(Read(Hints(draft)));
                hints = draft.within("agent_hints", read)?;
            } else {
                object.next_value::<IgnoredAny>()?;
            }
        }
        Ok(hints)
    }
}

struct Hints<'d>(&'d mut Draft);

/// The hints that are read.
#[derive(Clone, Copy)]
enum Hint {
    Priority,
    StrictPriority,
    PolicyClass,
    Other,
}

impl Hint {
    fn of(name: &str) -> Self {
        match name {
            "priority" => Self::Priority,
            "strict_priority" => Self::StrictPriority,
            "policy_class" => Self::PolicyClass,
            _ => Self::Other,
        }
    }
}

impl<'de> Value<'de> for Hints<'_> {
    type Output = AgentHints;

    fn draft(&mut self) -> &mut Draft {
        self.0
    }

    fn expected(&self) -> &'static str {
        "an object"
    }

    fn null<E: Error>(self) -> Result<AgentHints, E> {
        Ok(AgentHints::default())
    }

    fn object<A: MapAccess<'de>>(self, mut object: A) -> Result<AgentHints, A::Error> {
        let draft = self.0;
        let mut hints = AgentHints::default();
        while let Some(hint) = object.next_key_seed(Key(Hint::of))? {
            match hint {
                Hint::Priority => {
                    let read = object.next_value_seed(Read(OptionalNumber(draft)));
                    hints.priority = draft.within("priority", read)?;
                }
                Hint::StrictPriority => {
                    let read = object.next_value_seed(Read(OptionalCount(draft)));
                    hints.strict_priority = draft.within("strict_priority", read)?;
                }
                Hint::PolicyClass => {
                    let read = object.next_value_seed(Read(OptionalText(draft)));
                    hints.policy_class = draft.within("policy_class", read)?;
                }
                Hint::Other => {
                    object.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(hints)
    }
}
