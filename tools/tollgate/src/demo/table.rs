//! What came of the live demo, for a newcomer.

use std::time::Duration;

use tollgate_report::page::{Part, Section};
use tollgate_report::text::{Side, Table, duration_or_dash};
use tollgate_sim::demo::{PROMPT_TOKENS, REQUESTS_EACH, SEQUENCES, THRESHOLD};

use super::arm::{Outcome, SPEED};
use super::report::waits;

/// How the columns are to be read.
const KEY: &str = "\
    first 320: premium : regular among the first 320 completions. by quanta: what the quanta promise.\n\
    published: what NVIDIA Dynamo's documentation reports of this experiment. regular left: not complete when the\n\
    last premium request was. wait: from submission to dispatch. answered: with status 200, of 640.\n";

/// What happened, and how to read it.
pub(super) fn text(outcomes: &[Outcome]) -> String {
    format!("{}\n{}\n{KEY}", setting(), table(outcomes))
}

/// The same as the first section of a page.
pub(super) fn section(outcomes: &[Outcome]) -> Section {
    Section {
        title: "Beside the published figures".to_owned(),
        parts: vec![
            paragraph(&setting()),
            Part::Table("Each pair of quanta".to_owned(), table(outcomes)),
            paragraph(KEY),
        ],
    }
}

/// Without the line breaks of a terminal.
fn paragraph(text: &str) -> Part {
    let words: Vec<&str> = text.split_whitespace().collect();
    Part::Text(words.join(" "))
}

fn setting() -> String {
    format!(
        "A modelled worker, the router before it, and {REQUESTS_EACH} premium and {REQUESTS_EACH} regular requests \
         of {PROMPT_TOKENS} tokens, released at once\nover loopback connections. The worker runs {SEQUENCES} at a time, \
         {SPEED} times as fast as a real one (a busy threshold of {THRESHOLD}\ntokens lets {SEQUENCES} through). Each \
         turn gives a class its quantum of tokens to spend. Who is served first?\n"
    )
}

fn table(outcomes: &[Outcome]) -> Table {
    let mut table = Table::new(&[
        ("quanta", Side::Left),
        ("first 320", Side::Right),
        ("by quanta", Side::Right),
        ("published", Side::Right),
        ("regular left", Side::Right),
        ("published", Side::Right),
        ("premium wait p50", Side::Right),
        ("p99", Side::Right),
        ("regular wait p50", Side::Right),
        ("p99", Side::Right),
        ("answered", Side::Right),
        ("took", Side::Right),
    ]);
    for outcome in outcomes {
        table.row(&cells(outcome));
    }
    table
}

fn cells(outcome: &Outcome) -> Vec<String> {
    let pair = |[premium, regular]: [u64; 2]| format!("{premium} : {regular}");
    let [premium, regular] = [0, 1].map(|class| waits(outcome, class));
    let answered = outcome.answers.iter().filter(|answer| answer.status == 200);
    vec![
        outcome.arm.to_string(),
        pair(outcome.first()),
        pair(outcome.arm.promised()),
        outcome.arm.published_first.to_owned(),
        outcome.regular_left().to_string(),
        outcome.arm.published_left.to_owned(),
        duration_or_dash(premium.quantile(0.5)),
        duration_or_dash(premium.quantile(0.99)),
        duration_or_dash(regular.quantile(0.5)),
        duration_or_dash(regular.quantile(0.99)),
        answered.count().to_string(),
        seconds(outcome.duration),
    ]
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
