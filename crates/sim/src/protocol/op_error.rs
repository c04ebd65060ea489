//! Why a line is not an operation.

use super::OpName;

/// Why a line is not an operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpError {
    /// The line ends inside its JSON object.
    #[error("the line ends before its JSON object does (after column {column})")]
    Cut {
        /// How far it goes, from 1.
        column: usize,
    },
    /// The line is not JSON.
    #[error("not JSON: {problem} at column {column}; a line is one JSON object")]
    Syntax {
        /// What the reader says.
        problem: String,
        /// Where, from 1.
        column: usize,
    },
    /// The line is JSON, but not an object.
    #[error("a line is one JSON object such as {{\"op\": \"state\"}}")]
    NotAnObject,
    /// A field stands twice.
    #[error("field `{field}` stands twice; each field may stand once")]
    Repeated {
        /// The field, shortened.
        field: String,
    },
    /// There is no such operation.
    #[error("unknown op {found}; known are {}", names(OpName::ALL.iter().map(|op| op.as_str())))]
    UnknownOp {
        /// What stands in the field `op`, shortened.
        found: String,
    },
    /// The operation is one of journals, and this is none.
    #[error(
        "op `{}` belongs to a journal, which begins with `restore` and brings its policy",
        op.as_str()
    )]
    OfJournal {
        /// The operation.
        op: OpName,
    },
    /// The operation has no such field.
    #[error("op `{}` has no field `{field}`; it has {}", op.as_str(), names(known.iter().copied()))]
    UnknownField {
        /// The operation.
        op: OpName,
        /// The field, shortened.
        field: String,
        /// The operation's fields.
        known: Vec<&'static str>,
    },
    /// A field without a default is absent.
    #[error("field `{field}` is missing; it is {wanted}")]
    Missing {
        /// The field.
        field: &'static str,
        /// What would be right.
        wanted: String,
    },
    /// A field's value is of the wrong type or out of range.
    #[error("field `{field}` is {found}; it must be {wanted}")]
    Wrong {
        /// The field.
        field: &'static str,
        /// What was found, shortened.
        found: String,
        /// What would be right.
        wanted: String,
    },
    /// A request id was submitted before in the same run.
    #[error("id {id:?} was used before; each submission needs an id of its own")]
    IdUsed {
        /// The id, shortened.
        id: String,
    },
}

fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ")
}
