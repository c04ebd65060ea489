//! YAML text to a tree in which every node knows its place.
//!
//! The parser below is an event parser; here its events become nodes, and what no policy file may
//! contain is reported: aliases, duplicate keys, keys that are no plain text, a second document,
//! nesting beyond [`DEPTH_MAX`]. A syntax error ends the reading. An alias leaves a
//! [`Kind::Unusable`] node behind, about which nobody says more.

use std::borrow::Cow;
use std::collections::BTreeMap;

use granit_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span};

use crate::error::Position;
use crate::path::Path;
use crate::report::{Finding, Mark, Report, quoted};

/// How deeply lists and mappings may be nested. A policy needs five levels; what other parts of a
/// router keep in the same file may need some more.
pub(crate) const DEPTH_MAX: usize = 64;

/// A value and its place.
#[derive(Debug)]
pub(crate) struct Node<'t> {
    pub(crate) mark: Mark,
    pub(crate) kind: Kind<'t>,
    /// A tag, such as `!!int`, as it is written, and its place.
    pub(crate) tag: Option<(String, Mark)>,
}

/// What a value is.
#[derive(Debug)]
pub(crate) enum Kind<'t> {
    /// A text; `plain` if it is written without quotes and without a block sign.
    Scalar { text: Cow<'t, str>, plain: bool },
    /// A list.
    List(Vec<Node<'t>>),
    /// A mapping, in the order of the file, without repeated keys.
    Map(Vec<Entry<'t>>),
    /// Reported already.
    Unusable,
}

/// A key and its value.
#[derive(Debug)]
pub(crate) struct Entry<'t> {
    pub(crate) key: String,
    pub(crate) mark: Mark,
    pub(crate) value: Node<'t>,
}

impl Node<'_> {
    /// Whether this stands for nothing: `~`, `null`, or no value at all.
    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.kind, Kind::Scalar { text, plain: true }
            if matches!(&**text, "" | "~" | "null" | "Null" | "NULL"))
    }

    /// What this is, for a message.
    pub(crate) fn describe(&self) -> String {
        match &self.kind {
            _ if self.is_null() => "nothing".to_owned(),
            Kind::Scalar { text, plain: true } => quoted(text),
            Kind::Scalar { text, plain: false } => format!("the quoted text {}", quoted(text)),
            Kind::List(_) => "a list".to_owned(),
            Kind::Map(_) => "a mapping".to_owned(),
            Kind::Unusable => "an alias".to_owned(),
        }
    }
}

/// The tree of a text, or none if there is nothing in it or its syntax is broken.
pub(crate) fn parse<'t>(text: &'t str, report: &mut Report) -> Option<Node<'t>> {
    let options = granit_parser::options! {
        emit_unresolved_aliases: true,
        flow_nesting_limit: DEPTH_MAX,
        block_nesting_limit: DEPTH_MAX,
    };
    let mut builder = Builder {
        report,
        open: Vec::new(),
        root: None,
        documents: 0,
    };
    for next in Parser::new_from_str_with_options(text, options) {
        match next {
            Ok((event, span)) => {
                if !builder.take(event, &span) {
                    break;
                }
            }
            Err(error) => {
                builder.report_syntax(&error);
                return None;
            }
        }
    }
    builder.root
}

/// A list or mapping whose end has not been seen.
struct Open<'t> {
    mark: Mark,
    tag: Option<(String, Mark)>,
    items: Items<'t>,
}

enum Items<'t> {
    List(Vec<Node<'t>>),
    Map {
        entries: Vec<Entry<'t>>,
        /// The keys so far, and where each first stood.
        seen: BTreeMap<String, Position>,
        /// The key that waits for its value; `None` inside for a key that was refused.
        pending: Option<Option<(String, Mark)>>,
    },
}

struct Builder<'t, 'r> {
    report: &'r mut Report,
    open: Vec<Open<'t>>,
    root: Option<Node<'t>>,
    documents: usize,
}

impl<'t> Builder<'t, '_> {
    /// Takes one event; false when nothing more is to be read.
    fn take(&mut self, event: Event<'t>, span: &Span) -> bool {
        let mark = mark_of(&span.start);
        let tag_mark = span.tag_start().map_or(mark, |start| mark_of(&start));
        let tag = event.tag().map(|tag| (tag.original(), tag_mark));
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    self.report.add(Some(mark), || {
                        let remedy =
                            "keep one document per file: remove the `---` line and the rest";
                        Finding::new("", "a second document begins here", remedy)
                    });
                    return false;
                }
            }
            Event::Scalar(text, style, ..) => {
                let plain = style == ScalarStyle::Plain;
                self.node(Node {
                    mark,
                    kind: Kind::Scalar { text, plain },
                    tag,
                });
            }
            Event::SequenceStart(..) => {
                self.open.push(Open {
                    mark,
                    tag,
                    items: Items::List(Vec::new()),
                });
            }
            Event::MappingStart(..) => {
                let items = Items::Map {
                    entries: Vec::new(),
                    seen: BTreeMap::new(),
                    pending: None,
                };
                self.open.push(Open { mark, tag, items });
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(_) | Event::UnresolvedAlias(_) => {
                let open = &self.open;
                self.report.add(Some(mark), || {
                    let message = "an alias for a value that is written elsewhere";
                    Finding::new(path_of(open), message, "write the value out here")
                });
                self.node(Node {
                    mark,
                    kind: Kind::Unusable,
                    tag: None,
                });
            }
            _ => {}
        }
        true
    }

    /// Ends the innermost list or mapping.
    fn close(&mut self) {
        let Some(Open { mark, tag, items }) = self.open.pop() else {
            return;
        };
        let kind = match items {
            Items::List(items) => Kind::List(items),
            Items::Map { entries, .. } => Kind::Map(entries),
        };
        self.node(Node { mark, kind, tag });
    }

    /// Puts a finished node where it belongs: as an item, a key, a value, or the root.
    fn node(&mut self, node: Node<'t>) {
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return;
        };
        match &mut open.items {
            Items::List(items) => items.push(node),
            Items::Map {
                entries, pending, ..
            } => match pending.take() {
                Some(Some((key, mark))) => entries.push(Entry {
                    key,
                    mark,
                    value: node,
                }),
                Some(None) => {}
                None => self.key(node),
            },
        }
    }

    /// Takes a node as the next key of the innermost mapping.
    fn key(&mut self, node: Node<'t>) {
        let mark = node.mark;
        let refusal = match node.kind {
            Kind::Unusable => None,
            Kind::Scalar { text, .. } => match self.first_place(&text, mark.position) {
                None => {
                    self.pend(Some((text.into_owned(), mark)));
                    return;
                }
                Some(first) => Some((
                    format!("the key {} stands here a second time", quoted(&text)),
                    format!("keep one of the two; the first is in line {}", first.line),
                )),
            },
            Kind::List(_) | Kind::Map(_) => Some((
                "a list or a mapping as a key".to_owned(),
                "use a plain text as the key".to_owned(),
            )),
        };
        if let Some((message, remedy)) = refusal {
            let open = &self.open;
            self.report
                .add(Some(mark), || Finding::new(path_of(open), message, remedy));
        }
        self.pend(None);
    }

    /// Where a key of the innermost mapping stood before; notes it if it did not.
    fn first_place(&mut self, key: &str, position: Position) -> Option<Position> {
        let Some(Open {
            items: Items::Map { seen, .. },
            ..
        }) = self.open.last_mut()
        else {
            return None;
        };
        if let Some(first) = seen.get(key) {
            return Some(*first);
        }
        seen.insert(key.to_owned(), position);
        None
    }

    fn pend(&mut self, key: Option<(String, Mark)>) {
        if let Some(Open {
            items: Items::Map { pending, .. },
            ..
        }) = self.open.last_mut()
        {
            *pending = Some(key);
        }
    }

    fn report_syntax(&mut self, error: &ScanError) {
        use granit_parser::ErrorKind as E;
        let remedy = match error.kind() {
            E::RecursionLimitExceeded => {
                format!("nest lists and mappings at most {DEPTH_MAX} levels deep")
            }
            E::TabNotAllowed
            | E::TabInBlockIndentation
            | E::TabInIndentation
            | E::TabAtBlockScalarStart
            | E::TabInPlainScalar => "indent with spaces".to_owned(),
            _ => "check indentation, quotes and brackets here and in the lines before".to_owned(),
        };
        let message = format!("not valid YAML: {}", error.info());
        self.report.add(Some(mark_of(error.marker())), || {
            Finding::new("", message, remedy)
        });
    }
}

/// The path of the node that comes next.
fn path_of(open: &[Open<'_>]) -> String {
    fn descend(path: &Path<'_>, open: &[Open<'_>]) -> String {
        let Some((first, rest)) = open.split_first() else {
            return path.to_string();
        };
        match &first.items {
            Items::List(items) => descend(&path.index(items.len()), rest),
            Items::Map {
                pending: Some(Some((key, _))),
                ..
            } => descend(&path.key(key), rest),
            Items::Map { .. } => descend(path, rest),
        }
    }
    descend(&Path::Root, open)
}

/// The place of a parser's marker, counted from 1.
fn mark_of(marker: &Marker) -> Mark {
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    Mark {
        position: Position {
            line: count(marker.line()),
            column: count(marker.col() + 1),
        },
        byte: marker.byte_offset().unwrap_or_default(),
    }
}
