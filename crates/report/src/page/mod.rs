//! One HTML page: title, facts, and sections of text, tables and figures.
//!
//! Invariants:
//!
//! 1. The page is one file. It loads nothing, and says everything without its script, which only
//!    reads values off the charts under the pointer.
//! 2. It is well-formed XML as well as HTML.
//! 3. All text that comes from outside is escaped, and isolated from the direction of its neighbours.
//! 4. The page itself never scrolls sideways; a table that is too wide does so in its box.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::chart::Figure;
use crate::text::{Side, Table, cut, plain};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("hover.js");

/// The most characters of a title.
const TITLE_CHARS: usize = 200;
/// The most characters of a fact's value, a note or a paragraph.
const TEXT_CHARS: usize = 2_000;

/// The most commands that are shown.
const COMMANDS_MAX: usize = 50;

/// A page.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The title and main heading.
    pub title: String,
    /// The command that made the page, or several, a line each; empty if there is none.
    pub command: String,
    /// The key facts: names and values.
    pub facts: Vec<(String, String)>,
    /// The rest, in order.
    pub sections: Vec<Section>,
}

/// A part of a page under a heading.
#[derive(Clone, Debug)]
pub struct Section {
    /// The heading.
    pub title: String,
    /// What stands below it.
    pub parts: Vec<Part>,
}

/// A part of a section.
#[derive(Clone, Debug)]
pub enum Part {
    /// A heading within the section.
    Heading(String),
    /// A paragraph.
    Text(String),
    /// What a reader must not overlook.
    Note(String),
    /// Names and values.
    Facts(Vec<(String, String)>),
    /// A table, with what it is called for those who do not see it.
    Table(String, Table),
    /// Figures side by side as far as there is room.
    Figures(Vec<Figure>),
}

impl Page {
    /// The page as HTML.
    #[must_use]
    pub fn render(&self) -> String {
        let title = cut(&self.title, TITLE_CHARS);
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    (PreEscaped(r#"<meta charset="utf-8"/>"#))
                    (PreEscaped(r#"<meta name="viewport" content="width=device-width, initial-scale=1"/>"#))
                    (PreEscaped(r#"<meta name="color-scheme" content="light dark"/>"#))
                    title { (title) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    main {
                        h1 { bdi { (title) } }
                        @if !self.command.is_empty() {
                            pre class="command" { code { (command(&self.command)) } }
                        }
                        (facts(&self.facts))
                        @for section in &self.sections { (section.markup()) }
                    }
                    script { (PreEscaped(SCRIPT)) }
                }
            }
        };
        let mut page = page.into_string();
        page.push('\n');
        page
    }
}

impl Section {
    fn markup(&self) -> Markup {
        html! {
            section {
                h2 { bdi { (cut(&self.title, TITLE_CHARS)) } }
                @for part in &self.parts {
                    @match part {
                        Part::Heading(text) => h3 { bdi { (cut(text, TITLE_CHARS)) } },
                        Part::Text(text) => p { (cut(text, TEXT_CHARS)) },
                        Part::Note(text) => p class="warn" { (cut(text, TEXT_CHARS)) },
                        Part::Facts(of) => (facts(of)),
                        Part::Table(caption, of) => (table(caption, of)),
                        Part::Figures(figures) => div class="figures" {
                            @for figure in figures { (figure.markup()) }
                        },
                    }
                }
            }
        }
    }
}

/// A command, or several, each on a line of its own.
fn command(text: &str) -> String {
    let lines = text.lines().take(COMMANDS_MAX);
    let lines: Vec<String> = lines.map(|line| cut(line, TEXT_CHARS)).collect();
    lines.join("\n")
}

fn facts(facts: &[(String, String)]) -> Markup {
    html! {
        @if !facts.is_empty() {
            dl {
                @for (name, value) in facts {
                    div {
                        dt { bdi { (cut(name, TITLE_CHARS)) } }
                        dd { bdi { (cut(value, TEXT_CHARS)) } }
                    }
                }
            }
        }
    }
}

fn table(caption: &str, table: &Table) -> Markup {
    let side = |side: Side| match side {
        Side::Left => "left",
        Side::Right => "right",
    };
    html! {
        @if table.rows().is_empty() {
            p { "none" }
        } @else {
            div class="scroll" tabindex="0" role="region" aria-label=(plain(caption)) {
                table {
                    caption { (plain(caption)) }
                    thead {
                        tr {
                            @for (head, of) in table.heads() { th scope="col" class=(side(*of)) { (head) } }
                        }
                    }
                    tbody {
                        @for row in table.rows() {
                            tr {
                                @for (at, (cell, (_, of))) in row.iter().zip(table.heads()).enumerate() {
                                    @if at == 0 {
                                        th scope="row" class=(side(*of)) { bdi { (cell) } }
                                    } @else {
                                        td class=(side(*of)) { bdi { (cell) } }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
