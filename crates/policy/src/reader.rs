//! Reading typed values out of a tree, reporting whatever is not what it should be.

use std::ops::RangeInclusive;

use crate::Fraction;
use crate::keys::{self, Schema};
use crate::names::Choice;
use crate::path::Path;
use crate::report::{Finding, Mark, Report, quoted};
use crate::suggest::closest;
use crate::yaml::{Entry, Kind, Node};

/// What stands at a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Field<T> {
    /// Nothing: no such key, or a key without a value.
    Absent,
    /// Something that could not be read, and is reported.
    Bad,
    /// The value.
    Value(T),
}

impl<T> Field<T> {
    /// The value, if there is a readable one.
    pub(crate) fn value(self) -> Option<T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Absent | Self::Bad => None,
        }
    }

    /// The value, with `stand_in` for one that could not be read, so that no rule takes it for
    /// unset.
    pub(crate) fn or_stand_in(self, stand_in: T) -> Option<T> {
        match self {
            Self::Absent => None,
            Self::Bad => Some(stand_in),
            Self::Value(value) => Some(value),
        }
    }

    /// Whether there is nothing.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

/// The keys of one mapping.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'n> {
    entries: &'n [Entry<'n>],
    /// Where the mapping begins.
    pub(crate) mark: Mark,
    /// The way to the mapping.
    pub(crate) path: Path<'n>,
}

impl<'n> Fields<'n> {
    /// The entry of a key, if it has a value.
    pub(crate) fn entry(&self, key: &str) -> Option<&'n Entry<'n>> {
        self.entries
            .iter()
            .find(|entry| entry.key == key && !entry.value.is_null())
    }

    /// Where a key stands, with or without a value; else where the mapping begins.
    pub(crate) fn key_mark(&self, key: &str) -> Mark {
        self.entries
            .iter()
            .find(|entry| entry.key == key)
            .map_or(self.mark, |entry| entry.mark)
    }
}

/// What a number may be.
pub(crate) struct Whole {
    /// What the reader itself accepts.
    pub(crate) range: RangeInclusive<u64>,
    /// What would be right.
    pub(crate) remedy: String,
}

impl Whole {
    /// A number of that range.
    pub(crate) fn of(range: RangeInclusive<u64>) -> Self {
        let remedy = format!(
            "write a whole number from {} to {}",
            range.start(),
            range.end()
        );
        Self { range, remedy }
    }

    /// Any number; a rule elsewhere narrows it to `narrowed`.
    pub(crate) fn narrowed_later(narrowed: RangeInclusive<u64>) -> Self {
        Self {
            range: 0..=u64::MAX,
            ..Self::of(narrowed)
        }
    }
}

/// Reads values and reports what it cannot read.
pub(crate) struct Reader<'r> {
    pub(crate) report: &'r mut Report,
}

impl Reader<'_> {
    /// The entries of a mapping with any keys; `what` it is in the plural, for a message.
    pub(crate) fn entries<'n>(
        &mut self,
        node: &'n Node<'n>,
        path: &Path<'_>,
        what: &str,
    ) -> Option<&'n [Entry<'n>]> {
        if !self.is_untagged(node, path) {
            return None;
        }
        let Kind::Map(entries) = &node.kind else {
            self.wrong(node, path, "not a mapping", || {
                format!("write {what} as `key: value`")
            });
            return None;
        };
        Some(entries)
    }

    /// The keys of a mapping of that kind; every key that the kind does not know is reported.
    pub(crate) fn fields<'n>(
        &mut self,
        node: &'n Node<'n>,
        path: Path<'n>,
        schema: &'static Schema,
    ) -> Option<Fields<'n>> {
        let entries = self.entries(node, &path, schema.what)?;
        for entry in entries {
            let is_known = schema.keys.contains(&entry.key.as_str());
            if !is_known && !matches!(entry.value.kind, Kind::Unusable) {
                self.report.add(Some(entry.mark), || {
                    let message = format!("{} has no key {}", schema.what, quoted(&entry.key));
                    Finding::new(
                        path.key(&entry.key),
                        message,
                        unknown_key_remedy(entry, schema),
                    )
                });
            }
        }
        Some(Fields {
            entries,
            mark: node.mark,
            path,
        })
    }

    /// The items of a list.
    pub(crate) fn list<'n>(&mut self, fields: &Fields<'n>, key: &str) -> Field<&'n [Node<'n>]> {
        let Some(Entry { value, .. }) = fields.entry(key) else {
            return Field::Absent;
        };
        let path = fields.path.key(key);
        if !self.is_untagged(value, &path) {
            return Field::Bad;
        }
        let Kind::List(items) = &value.kind else {
            self.wrong(value, &path, "not a list", || {
                "write a list, one `- ` an item".to_owned()
            });
            return Field::Bad;
        };
        Field::Value(items)
    }

    /// A text. Numbers and the like are texts too, as they are written.
    pub(crate) fn text(&mut self, fields: &Fields<'_>, key: &str) -> Field<Box<str>> {
        let Some(Entry { value, .. }) = fields.entry(key) else {
            return Field::Absent;
        };
        match self.scalar(value, &fields.path.key(key), "not a text", || {
            "write a name".to_owned()
        }) {
            Some((text, _)) => Field::Value(text.into()),
            None => Field::Bad,
        }
    }

    /// A text that has to be there.
    pub(crate) fn required_text(&mut self, fields: &Fields<'_>, key: &str) -> Option<Box<str>> {
        let field = self.text(fields, key);
        if field.is_absent() {
            self.missing(fields, key, "a name");
        }
        field.value()
    }

    /// One of several names.
    pub(crate) fn choice<C: Choice>(&mut self, fields: &Fields<'_>, key: &str) -> Field<C> {
        let Some(Entry { value, .. }) = fields.entry(key) else {
            return Field::Absent;
        };
        let path = fields.path.key(key);
        let names = || format!("write one of {}", C::NAMES.join(", "));
        let Some((text, _)) = self.scalar(value, &path, "not one of the known names", names) else {
            return Field::Bad;
        };
        if let Some(choice) = C::named(text) {
            return Field::Value(choice);
        }
        self.wrong(
            value,
            &path,
            "not one of the known names",
            || match closest(text, C::NAMES.iter().copied()) {
                Some(meant) => format!("did you mean `{meant}`? {}", names()),
                None => names(),
            },
        );
        Field::Bad
    }

    /// A whole number.
    pub(crate) fn whole(&mut self, fields: &Fields<'_>, key: &str, whole: &Whole) -> Field<u64> {
        let Some(Entry { value, .. }) = fields.entry(key) else {
            return Field::Absent;
        };
        let path = fields.path.key(key);
        let remedy = || whole.remedy.clone();
        let Some((text, plain)) = self.scalar(value, &path, "not a whole number", remedy) else {
            return Field::Bad;
        };
        let problem = match parse_whole(text) {
            _ if !plain => {
                self.wrong(value, &path, "not a number", || {
                    "remove the quotes".to_owned()
                });
                return Field::Bad;
            }
            Ok(number) if whole.range.contains(&number) => return Field::Value(number),
            Ok(number) if number < *whole.range.start() => "too small",
            Ok(_) => "too large",
            Err(problem) => problem,
        };
        self.wrong(value, &path, problem, remedy);
        Field::Bad
    }

    /// A whole number that has to be there.
    pub(crate) fn required_whole(
        &mut self,
        fields: &Fields<'_>,
        key: &str,
        whole: &Whole,
    ) -> Option<u64> {
        let field = self.whole(fields, key, whole);
        if field.is_absent() {
            self.missing(fields, key, "a whole number");
        }
        field.value()
    }

    /// A decimal number, kept exactly.
    pub(crate) fn fraction(&mut self, fields: &Fields<'_>, key: &str) -> Field<Fraction> {
        let Some(Entry { value, .. }) = fields.entry(key) else {
            return Field::Absent;
        };
        let path = fields.path.key(key);
        let remedy = || "write a decimal number that is not negative, such as 0.5".to_owned();
        let Some((text, plain)) = self.scalar(value, &path, "not a decimal number", remedy) else {
            return Field::Bad;
        };
        if !plain {
            self.wrong(value, &path, "not a number", || {
                "remove the quotes".to_owned()
            });
            return Field::Bad;
        }
        match text.parse::<Fraction>() {
            Ok(fraction) => Field::Value(fraction),
            Err(error) => {
                self.wrong(value, &path, &error.to_string(), remedy);
                Field::Bad
            }
        }
    }

    /// Reports that a key has to be there and is not.
    pub(crate) fn missing(&mut self, fields: &Fields<'_>, key: &str, what: &str) {
        self.report.add(Some(fields.key_mark(key)), || {
            Finding::new(
                fields.path.key(key),
                format!("`{key}` is missing"),
                format!("add `{key}:` and {what}"),
            )
        });
    }

    /// The text of a scalar and whether it is plain.
    fn scalar<'n>(
        &mut self,
        node: &'n Node<'_>,
        path: &Path<'_>,
        problem: &str,
        remedy: impl FnOnce() -> String,
    ) -> Option<(&'n str, bool)> {
        if !self.is_untagged(node, path) {
            return None;
        }
        let Kind::Scalar { text, plain } = &node.kind else {
            self.wrong(node, path, problem, remedy);
            return None;
        };
        Some((text, *plain))
    }

    /// Reports a value that is not what it should be; an unusable one is reported already.
    fn wrong(
        &mut self,
        node: &Node<'_>,
        path: &Path<'_>,
        problem: &str,
        remedy: impl FnOnce() -> String,
    ) {
        if !matches!(node.kind, Kind::Unusable) {
            self.report.add(Some(node.mark), || {
                Finding::new(path, format!("{} is {problem}", node.describe()), remedy())
            });
        }
    }

    /// Whether a node has no tag; reports one that has.
    fn is_untagged(&mut self, node: &Node<'_>, path: &Path<'_>) -> bool {
        let Some((tag, mark)) = &node.tag else {
            return true;
        };
        self.report.add(Some(*mark), || {
            let message = format!("the tag {} changes what the value is", quoted(tag));
            Finding::new(path, message, "remove the tag")
        });
        false
    }
}

/// What to do about a key that nobody knows here.
fn unknown_key_remedy(entry: &Entry<'_>, schema: &Schema) -> String {
    let key = entry.key.as_str();
    if let Some(meant) = closest(key, schema.keys.iter().copied()) {
        return format!("did you mean `{meant}`?");
    }
    match keys::ALL.iter().find(|other| other.keys.contains(&key)) {
        Some(other) => format!("move it: this key belongs to {}", other.what),
        None => format!("remove it; the keys here are {}", schema.keys.join(", ")),
    }
}

/// A whole number as YAML writes it: digits, or digits after `0x`, `0o` or `0b`, perhaps after `+`.
fn parse_whole(text: &str) -> Result<u64, &'static str> {
    let unsigned = text.strip_prefix('+').unwrap_or(text);
    let (digits, radix) = match unsigned.get(..2) {
        Some("0x") => (&unsigned[2..], 16),
        Some("0o") => (&unsigned[2..], 8),
        Some("0b") => (&unsigned[2..], 2),
        _ => (unsigned, 10),
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        let is_negative = text
            .strip_prefix('-')
            .is_some_and(|rest| !rest.starts_with(['+', '-']) && parse_whole(rest).is_ok());
        return Err(if is_negative {
            "negative"
        } else {
            "not a whole number written in digits"
        });
    }
    if radix == 10 && digits.len() > 1 && digits.starts_with('0') {
        return Err("not clear, with a zero in front");
    }
    u64::from_str_radix(digits, radix).map_err(|_| "too large")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_read_as_yaml_writes_them() {
        for (text, number) in [
            ("0", 0),
            ("512", 512),
            ("+7", 7),
            ("0x1F", 31),
            ("0o17", 15),
            ("0b101", 5),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_whole(text), Ok(number), "{text}");
        }
    }

    #[test]
    fn what_is_no_whole_number_says_what_it_is_instead() {
        for (text, problem) in [
            ("-1", "negative"),
            ("-0x10", "negative"),
            ("18446744073709551616", "too large"),
            ("010", "not clear, with a zero in front"),
        ] {
            assert_eq!(parse_whole(text), Err(problem), "{text}");
        }
        for text in [
            "", "+", "-", "ten", "1e30", "1.0", "1_000", "1,000", "0x", "++1", "+-1", " 1",
            "\u{661}",
        ] {
            assert_eq!(
                parse_whole(text),
                Err("not a whole number written in digits"),
                "{text}"
            );
        }
    }
}
