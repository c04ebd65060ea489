//! As much of Markdown as the rules for documents need: headings, links, code blocks.

use std::collections::BTreeMap;

use crate::tree::File;

/// The parts of a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// The anchors of its headings, as GitHub makes them.
    pub anchors: Vec<String>,
    /// Its links, but those in code.
    pub links: Vec<Link>,
    /// Its fenced code blocks.
    pub blocks: Vec<Block>,
}

/// A link `[text](target)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its line, from 1.
    pub line: usize,
    /// Where it leads.
    pub target: String,
}

/// A fenced code block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The line of its opening fence, from 1.
    pub line: usize,
    /// What stands behind the opening fence.
    pub language: String,
    /// Its lines.
    pub lines: Vec<String>,
    /// Whether it has a closing fence.
    pub is_closed: bool,
}

impl Document {
    /// Reads a document.
    #[must_use]
    pub fn parse(file: &File) -> Self {
        let mut document = Self::default();
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        let mut open: Option<Block> = None;
        for (number, line) in file.lines() {
            if let Some(fence) = line.trim_start().strip_prefix("```") {
                match open.take() {
                    Some(mut block) => {
                        block.is_closed = true;
                        document.blocks.push(block);
                    }
                    None => {
                        open = Some(Block {
                            line: number,
                            language: fence.trim().to_owned(),
                            lines: Vec::new(),
                            is_closed: false,
                        });
                    }
                }
            } else if let Some(block) = &mut open {
                block.lines.push(line.to_owned());
            } else {
                if let Some(title) = heading(line) {
                    let anchor = anchor(title);
                    let times = seen.entry(anchor.clone()).or_default();
                    document.anchors.push(match *times {
                        0 => anchor,
                        times => format!("{anchor}-{times}"),
                    });
                    *times += 1;
                }
                let targets = targets(&without_code(line));
                document
                    .links
                    .extend(targets.into_iter().map(|target| Link {
                        line: number,
                        target,
                    }));
            }
        }
        document.blocks.extend(open);
        document
    }
}

/// The title of a line that is a heading.
fn heading(line: &str) -> Option<&str> {
    let title = line.trim_start_matches('#');
    let level = line.len() - title.len();
    ((1..=6).contains(&level) && title.starts_with(' ')).then(|| title.trim())
}

/// The anchor of a heading: small letters, digits, `-` and `_`; spaces become `-`.
#[must_use]
pub fn anchor(title: &str) -> String {
    let kept = title.chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        c if c.is_alphanumeric() => Some(c),
        _ => None,
    });
    kept.flat_map(char::to_lowercase).collect()
}

/// A line with its inline code blanked.
fn without_code(line: &str) -> String {
    let parts = line.split('`').enumerate();
    parts
        .map(|(at, part)| if at % 2 == 0 { part } else { "code" })
        .collect()
}

/// Where the links of a line lead.
fn targets(line: &str) -> Vec<String> {
    let ends = line.match_indices("](");
    ends.filter_map(|(at, _)| {
        let rest = &line[at + 2..];
        rest.find(')').map(|end| rest[..end].to_owned())
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_taken_apart() {
        let text = "# One title: *two* (S6.4)\n## Same\n## Same\n[a](B.md#x), `[no](code)`\n\
                    ```sh\n# not a heading\ncargo test\n```\n#no\n```\nopen\n";
        let document = Document::parse(&File::new("docs/A.md", text));
        assert_eq!(document.anchors, ["one-title-two-s64", "same", "same-1"]);
        let link = Link {
            line: 4,
            target: "B.md#x".to_owned(),
        };
        assert_eq!(document.links, [link]);
        let [shell, open] = &document.blocks[..] else {
            panic!("two blocks: {:?}", document.blocks)
        };
        assert_eq!(
            (shell.line, &*shell.language, shell.is_closed),
            (5, "sh", true)
        );
        assert_eq!(shell.lines, ["# not a heading", "cargo test"]);
        assert_eq!(
            (open.line, &*open.language, open.is_closed),
            (10, "", false)
        );
    }
}
