//! Where a value stands, as a person would say it: `models.small.policy_classes[2].quantum`.

use std::fmt;

/// The way from the root of a file to a value; each step borrows the one before.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Path<'p> {
    /// The whole file.
    Root,
    /// A key of a mapping.
    Key(&'p Self, &'p str),
    /// An item of a list, from 0.
    Index(&'p Self, usize),
}

/// How many characters of one key are shown.
const KEY_CHARS: usize = 60;

impl<'p> Path<'p> {
    /// The path of a key below this one.
    pub(crate) fn key(&'p self, key: &'p str) -> Self {
        Self::Key(self, key)
    }

    /// The path of a list's item below this one.
    pub(crate) fn index(&'p self, index: usize) -> Self {
        Self::Index(self, index)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
            Self::Key(parent, key) => {
                let bare = |character: char| character.is_ascii_alphanumeric() || character == '_';
                let dot = if matches!(parent, Self::Root) {
                    ""
                } else {
                    "."
                };
                if !key.is_empty() && key.len() <= KEY_CHARS && key.chars().all(bare) {
                    write!(f, "{parent}{dot}{key}")
                } else {
                    let shown: String = key.chars().take(KEY_CHARS).collect();
                    write!(f, "{parent}[{shown:?}]")
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_like_the_file() {
        let models = Path::Root.key("models");
        let model = models.key("example/large-model");
        let classes = model.key("policy_classes");
        let class = classes.index(2);
        assert_eq!(
            class.key("quantum").to_string(),
            "models[\"example/large-model\"].policy_classes[2].quantum"
        );
        assert_eq!(models.key("small").to_string(), "models.small");
        assert_eq!(Path::Root.to_string(), "");
    }
}
