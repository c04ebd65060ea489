//! From a place in a profile back to the file that it was read from.

use crate::draft::Place;
use crate::keys;
use crate::path::Path;
use crate::report::Mark;
use crate::yaml::{Entry, Kind, Node};

/// A profile's lists and default family in the file, looked up once.
pub(crate) struct Source<'n> {
    path: Path<'n>,
    mark: Mark,
    matrix: [Option<&'n Entry<'n>>; 3],
}

impl<'n> Source<'n> {
    /// The profile that stands at a node.
    pub(crate) fn new(node: &'n Node<'n>, path: Path<'n>) -> Self {
        Self {
            path,
            mark: node.mark,
            matrix: keys::MATRIX.map(|key| entry(node, key)),
        }
    }

    fn entry(&self, key: &str) -> Option<&'n Entry<'n>> {
        let index = keys::MATRIX.iter().position(|known| *known == key)?;
        self.matrix[index]
    }

    /// Where in the file a place is: the value there, or the nearest thing around it.
    pub(crate) fn mark(&self, place: Place) -> Mark {
        match place {
            Place::Key(key) => self
                .entry(key)
                .map_or(self.mark, |entry| match entry.value.kind {
                    Kind::Scalar { .. } => entry.value.mark,
                    _ => entry.mark,
                }),
            Place::Item(list, index, key) => {
                let item = self.entry(list).and_then(|list| match &list.value.kind {
                    Kind::List(items) => items.get(index),
                    _ => None,
                });
                let value = item
                    .and_then(|item| entry(item, key))
                    .map(|entry| &entry.value);
                value.or(item).map_or(self.mark, |node| node.mark)
            }
        }
    }

    /// The path of a place from the root of the file.
    pub(crate) fn path(&self, place: Place) -> String {
        match place {
            Place::Key(key) => self.path.key(key).to_string(),
            Place::Item(list, index, key) => self.path.key(list).index(index).key(key).to_string(),
        }
    }
}

/// A key of a node that is a mapping.
fn entry<'n>(node: &'n Node<'n>, key: &str) -> Option<&'n Entry<'n>> {
    let Kind::Map(entries) = &node.kind else {
        return None;
    };
    entries.iter().find(|entry| entry.key == key)
}
