//! What is wrong with a body.

use std::fmt;

use thiserror::Error;

/// What stands where something else should.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Found {
    /// `null`.
    Null,
    /// `true` or `false`.
    Boolean,
    /// A whole number of 0 or more.
    Whole(u64),
    /// Another number.
    Number(f64),
    /// A string.
    Text,
    /// An array.
    Array,
    /// An object.
    Object,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Boolean => f.write_str("a boolean"),
            Self::Whole(number) => write!(f, "the number {number}"),
            Self::Number(number) => write!(f, "the number {number}"),
            Self::Text => f.write_str("a string"),
            Self::Array => f.write_str("an array"),
            Self::Object => f.write_str("an object"),
        }
    }
}

/// Why a body is no request.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The bytes are not UTF-8.
    #[error("the body is not UTF-8: the byte at line {line}, column {column} begins no character")]
    NotUtf8 {
        /// From 1.
        line: usize,
        /// In bytes, from 1.
        column: usize,
    },
    /// The text is not JSON.
    #[error("the body is not JSON: {problem} at line {line}, column {column}")]
    NotJson {
        /// What is wrong there.
        problem: String,
        /// From 1.
        line: usize,
        /// In bytes; 0 before a line's first.
        column: usize,
    },
    /// The JSON is something else than an object.
    #[error("the body must be a JSON object, but is {found}")]
    NotAnObject {
        /// What it is.
        found: Found,
    },
    /// The member with the prompt is not there.
    #[error("`{parameter}` is missing: it must be {expected}")]
    Missing {
        /// The member.
        parameter: &'static str,
        /// What it must be.
        expected: &'static str,
    },
    /// A value is of the wrong type, or a number out of its range.
    #[error("`{path}` must be {expected}, but is {found}")]
    WrongType {
        /// Where, such as `messages[3].content`.
        path: String,
        /// What stands there.
        found: Found,
        /// What should.
        expected: &'static str,
    },
    /// An array that must have an element has none.
    #[error("`{path}` must not be empty")]
    Empty {
        /// Which.
        path: String,
    },
    /// A member is there twice, so that the worker might take the other one.
    #[error("`{parameter}` must be given once, but is given twice")]
    Duplicate {
        /// The member.
        parameter: &'static str,
    },
}

impl BodyError {
    /// What the error is about, as `param` of an error object in OpenAI's form.
    #[must_use]
    pub fn param(&self) -> Option<&str> {
        match self {
            Self::NotUtf8 { .. } | Self::NotJson { .. } | Self::NotAnObject { .. } => None,
            Self::Missing { parameter, .. } | Self::Duplicate { parameter } => Some(parameter),
            Self::WrongType { path, .. } | Self::Empty { path } => Some(path),
        }
    }

    /// A word for programs, as `code` of an error object; it does not change between versions.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotUtf8 { .. } | Self::NotJson { .. } => "invalid_json",
            Self::NotAnObject { .. } | Self::WrongType { .. } => "invalid_type",
            Self::Missing { .. } => "missing_parameter",
            Self::Empty { .. } => "empty_array",
            Self::Duplicate { .. } => "duplicate_parameter",
        }
    }

    /// The error of a body whose first bytes, up to `valid_bytes`, are UTF-8.
    pub(super) fn not_utf8(body: &[u8], valid_bytes: usize) -> Self {
        let before = &body[..valid_bytes];
        let line_start = memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1);
        Self::NotUtf8 {
            line: memchr::memchr_iter(b'\n', before).count() + 1,
            column: valid_bytes - line_start + 1,
        }
    }

    /// The error of a text in which the parser stumbled.
    pub(super) fn not_json(error: &serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        let text = error.to_string();
        let place = format!(" at line {line} column {column}");
        let problem = text.strip_suffix(place.as_str()).unwrap_or(&text);
        Self::NotJson {
            problem: problem.to_owned(),
            line,
            column,
        }
    }

    /// The error of an array without elements.
    pub(super) const fn empty() -> Self {
        Self::Empty {
            path: String::new(),
        }
    }

    /// The same error, seen from one level further out: `step` is a member's name or `[index]`.
    pub(super) fn within(&mut self, step: &str) {
        let (Self::WrongType { path, .. } | Self::Empty { path }) = self else {
            return;
        };
        let joint = if path.is_empty() || path.starts_with('[') {
            ""
        } else {
            "."
        };
        *path = format!("{step}{joint}{path}");
    }
}
