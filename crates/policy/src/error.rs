//! What can be wrong with a policy, and where.

use std::fmt;

/// How many errors of one file are kept; the others are counted.
pub const ERRORS_MAX: usize = 100;

/// A place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The line, from 1.
    pub line: u32,
    /// The character inside the line, from 1.
    pub column: u32,
}

/// A line of a file as it may be shown on a terminal, and the place that is meant.
///
/// Control characters are replaced, and of a long line only the surroundings of the place are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snippet {
    pub(crate) text: String,
    /// How many characters of `text` stand before the place.
    pub(crate) caret: usize,
}

/// One thing that is wrong with a policy.
///
/// As text it is `line:column: key: what is wrong`, the line itself with a mark under the place,
/// and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    pub(crate) position: Option<Position>,
    pub(crate) path: String,
    pub(crate) message: String,
    pub(crate) remedy: String,
    pub(crate) snippet: Option<Snippet>,
}

impl PolicyError {
    /// Where it is; none if the error has no place in a text, as with a file that is too large.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        self.position
    }

    /// The line, from 1.
    #[must_use]
    pub fn line(&self) -> Option<u32> {
        self.position.map(|position| position.line)
    }

    /// The character inside the line, from 1.
    #[must_use]
    pub fn column(&self) -> Option<u32> {
        self.position.map(|position| position.column)
    }

    /// The key, from the root of the file: `policy_classes[2].quantum`. Empty for the whole file.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What is wrong, in one line.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What would be right, in one line.
    #[must_use]
    pub fn remedy(&self) -> &str {
        &self.remedy
    }

    /// The line of the file, shortened around the place if it is long.
    #[must_use]
    pub fn snippet(&self) -> Option<&str> {
        self.snippet.as_ref().map(|snippet| snippet.text.as_str())
    }

    /// Writes the error with the name of its source in front.
    fn write(&self, source: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_place(source, self.position, &self.path, f)?;
        write!(f, "{}", self.message)?;
        if let (Some(position), Some(snippet)) = (self.position, &self.snippet) {
            let line = position.line.to_string();
            let (margin, indent) = (line.len(), snippet.caret);
            write!(f, "\n  {line} | {}", snippet.text)?;
            write!(f, "\n  {:margin$} | {:indent$}^", "", "")?;
        }
        write!(f, "\n  help: {}", self.remedy)
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write("", f)
    }
}

impl std::error::Error for PolicyError {}

/// Everything that is wrong with a policy, in the order of the file; never empty.
///
/// At most [`ERRORS_MAX`] errors are kept; [`PolicyErrors::omitted`] counts the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyErrors {
    pub(crate) source: String,
    pub(crate) errors: Vec<PolicyError>,
    pub(crate) omitted: usize,
}

impl PolicyErrors {
    /// The name of the file, or of whatever the policy came from.
    #[must_use]
    pub fn source_name(&self) -> &str {
        &self.source
    }

    /// The errors, in the order of the file.
    #[must_use]
    pub fn errors(&self) -> &[PolicyError] {
        &self.errors
    }

    /// How many more errors there are than [`Self::errors`] lists.
    #[must_use]
    pub fn omitted(&self) -> usize {
        self.omitted
    }
}

impl fmt::Display for PolicyErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            error.write(&self.source, f)?;
        }
        match self.omitted {
            0 => Ok(()),
            1 => write!(f, "\n{}: 1 more error is not listed", self.source),
            omitted => write!(f, "\n{}: {omitted} more errors are not listed", self.source),
        }
    }
}

impl std::error::Error for PolicyErrors {}

/// Something in a valid policy file that its author should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyWarning {
    pub(crate) source: String,
    pub(crate) position: Position,
    pub(crate) path: String,
    pub(crate) message: String,
}

impl PolicyWarning {
    /// Where it is.
    #[must_use]
    pub fn position(&self) -> Position {
        self.position
    }

    /// The key, from the root of the file.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What to know, in one line.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for PolicyWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_place(&self.source, Some(self.position), &self.path, f)?;
        write!(f, "{}", self.message)
    }
}

/// Writes `source:line:column: path: `, leaving out what is not there.
fn write_place(
    source: &str,
    position: Option<Position>,
    path: &str,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    f.write_str(source)?;
    if let Some(Position { line, column }) = position {
        let colon = if source.is_empty() { "" } else { ":" };
        write!(f, "{colon}{line}:{column}")?;
    }
    if position.is_some() || !source.is_empty() {
        f.write_str(": ")?;
    }
    if !path.is_empty() {
        write!(f, "{path}: ")?;
    }
    Ok(())
}
