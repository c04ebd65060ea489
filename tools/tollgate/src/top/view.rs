//! What is seen of a router, as lines of text.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::time::Instant;

use tollgate_router::state::{
    ClassState, EndpointState, ModelState, PhaseState, RouterState, Standing, WorkerReport,
};

/// A router's state, and when it was seen.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) at: Instant,
    pub(super) state: RouterState,
}

/// A class in the looks that count.
struct Seen<'a> {
    now: &'a ClassState,
    /// In the look before this one.
    before: Option<&'a ClassState>,
    /// In the first look of the last minute.
    first: Option<&'a ClassState>,
}

/// Draws the last look; those before it give the rates.
pub(super) fn frame(looks: &VecDeque<Look>, width: usize) -> Vec<String> {
    let Some(now) = looks.back() else {
        return Vec::new();
    };
    let before = looks.len().checked_sub(2).map(|place| &looks[place]);
    let mut lines = vec![head(now, before)];
    for model in &now.state.models {
        lines.push(String::new());
        lines.push(model_line(model));
        lines.extend(table(&class_rows(model, looks, before), 1));
    }
    lines.push(String::new());
    lines.extend(table(&worker_rows(&now.state), 2));
    lines.iter().map(|line| cut(line, width)).collect()
}

fn head(now: &Look, before: Option<&Look>) -> String {
    let state = &now.state;
    let phase = match state.phase {
        PhaseState::Serving => "serving",
        PhaseState::Draining => "draining",
        PhaseState::Ending => "ending",
    };
    let spent = |look: &Look| {
        (
            look.state.arbiter.busy_seconds,
            look.state.arbiter.idle_seconds,
        )
    };
    let (busy, idle) = spent(now);
    let (busy_before, idle_before) = before.map_or((0.0, 0.0), spent);
    let (busy, idle) = (busy - busy_before, idle - idle_before);
    let busy = if busy + idle > 0.0 {
        format!("{:.0} %", (100.0 * busy / (busy + idle)).max(0.0))
    } else {
        "-".to_owned()
    };
    format!(
        "tollgate {}  {phase}  open {}  policy {}  arbiter busy {busy}  up {}",
        printable(&state.version),
        state.open_requests,
        state.policy_generation,
        duration(state.uptime_seconds * 1e3)
    )
}

fn model_line(model: &ModelState) -> String {
    let mut line = format!(
        "{}: {} waiting, {} running",
        printable(&model.name),
        model.waiting,
        model.outstanding
    );
    if model.waiting_for_room > 0 {
        let _ = write!(line, ", {} waiting for room", model.waiting_for_room);
    }
    line
}

fn class_rows(
    model: &ModelState,
    looks: &VecDeque<Look>,
    before: Option<&Look>,
) -> Vec<Vec<String>> {
    let head = [
        "CLASS",
        "WAITING",
        "RUNNING",
        "DISPATCHED/S",
        "TOKENS/S",
        "SERVED",
        "ENTITLED",
        "OLDEST",
        "CREDIT",
    ];
    let first = looks.front().filter(|_| looks.len() > 1);
    let seen: Vec<Seen<'_>> = model
        .classes
        .iter()
        .map(|class| Seen {
            now: class,
            before: before.and_then(|look| find(look, model, class)),
            first: first.and_then(|look| find(look, model, class)),
        })
        .collect();
    let all_served = seen.iter().map(Seen::served).sum();
    let all_entitled = seen.iter().map(Seen::entitled).sum();
    let seconds = looks.back().zip(before).map_or(0.0, |(now, before)| {
        now.at.duration_since(before.at).as_secs_f64()
    });
    let rows = seen.iter().map(|class| {
        let now = class.now;
        let name = printable(&now.name);
        vec![
            if now.draining {
                format!("{name} (draining)")
            } else {
                name
            },
            now.waiting.to_string(),
            now.outstanding.to_string(),
            class.rate(seconds, |class| class.counters.dispatched),
            class.rate(seconds, |class| class.counters.charged_tokens),
            percent(class.served(), all_served),
            percent(class.entitled(), all_entitled),
            if now.waiting > 0 {
                duration(now.oldest_wait_ms)
            } else {
                "-".to_owned()
            },
            now.deficit.to_string(),
        ]
    });
    let head = head.map(str::to_owned).to_vec();
    std::iter::once(head).chain(rows).collect()
}

/// A class in an earlier look; none: it was not there, or another one had its name.
fn find<'a>(look: &'a Look, model: &ModelState, class: &ClassState) -> Option<&'a ClassState> {
    let mut models = look.state.models.iter();
    let model = models.find(|other| other.name == model.name)?;
    let mut classes = model.classes.iter();
    let found = classes.find(|other| other.name == class.name)?;
    (found.served_tokens <= class.served_tokens).then_some(found)
}

impl Seen<'_> {
    fn served(&self) -> u64 {
        let before = self
            .first
            .map_or(self.now.served_tokens, |first| first.served_tokens);
        self.now.served_tokens - before
    }

    fn entitled(&self) -> u64 {
        let before = self
            .first
            .map_or(self.now.entitled_tokens, |first| first.entitled_tokens);
        self.now.entitled_tokens.saturating_sub(before)
    }

    /// How much a counter rises in a second; it falls where a dispatch was taken back.
    #[expect(clippy::cast_precision_loss, reason = "a rate to look at")]
    fn rate(&self, seconds: f64, counter: fn(&ClassState) -> u64) -> String {
        match self.before {
            Some(before) if seconds > 0.0 => {
                let risen = counter(self.now).saturating_sub(counter(before));
                format!("{:.1}", risen as f64 / seconds)
            }
            _ => "-".to_owned(),
        }
    }
}

fn worker_rows(state: &RouterState) -> Vec<Vec<String>> {
    let head = ["WORKER", "URL", "LOAD", "ACTIVE", "STANDING", "BUSY FOR"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for worker in &state.workers {
        let endpoints = state.models.iter().flat_map(|model| &model.endpoints);
        let mine: Vec<_> = endpoints
            .filter(|endpoint| endpoint.worker == worker.id)
            .collect();
        rows.push(worker_row(worker, &mine));
    }
    rows
}

fn worker_row(worker: &WorkerReport, endpoints: &[&EndpointState]) -> Vec<String> {
    let load: u64 = endpoints.iter().map(|endpoint| endpoint.load_tokens).sum();
    let active: u64 = endpoints.iter().map(|endpoint| endpoint.active).sum();
    let mut busy: Vec<_> = endpoints
        .iter()
        .flat_map(|endpoint| &endpoint.busy_for)
        .collect();
    busy.sort_unstable();
    busy.dedup();
    let busy: Vec<_> = busy.into_iter().map(|name| printable(name)).collect();
    let standing = match worker.standing {
        Standing::Unseen => "unseen",
        Standing::Well if worker.overloaded => "overloaded",
        Standing::Well => "well",
        Standing::Ejected => "ejected",
    };
    vec![
        worker.id.to_string(),
        printable(&worker.url),
        load.to_string(),
        active.to_string(),
        standing.to_owned(),
        if busy.is_empty() {
            "-".to_owned()
        } else {
            busy.join(", ")
        },
    ]
}

/// Lines with columns under each other. Numbers stand to the right, all else to the left, and so do the first
/// `texts` columns in any case.
fn table(rows: &[Vec<String>], texts: usize) -> Vec<String> {
    let columns = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            rows.iter()
                .map(|row| row[column].chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect();
    let is_number = |cell: &str| cell.starts_with(|c: char| c.is_ascii_digit()) || cell == "-";
    let numbers: Vec<bool> = (0..columns)
        .map(|column| column >= texts && rows.iter().skip(1).all(|row| is_number(&row[column])))
        .collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let width = widths[column];
            if numbers[column] {
                format!("{cell:>width$}")
            } else {
                format!("{cell:<width$}")
            }
        });
        let cells: Vec<String> = cells.collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[expect(clippy::cast_precision_loss, reason = "a part in whole per cents")]
fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    format!("{:.0} %", 100.0 * part as f64 / whole as f64)
}

/// A time in milliseconds, in the unit that suits it.
fn duration(millis: f64) -> String {
    let seconds = millis / 1e3;
    if seconds < 1.0 {
        format!("{millis:.0} ms")
    } else if seconds < 60.0 {
        format!("{seconds:.1} s")
    } else if seconds < 3_600.0 {
        format!(
            "{:.0} min {:02.0} s",
            (seconds / 60.0).floor(),
            (seconds % 60.0).floor()
        )
    } else {
        let minutes = (seconds % 3_600.0 / 60.0).floor();
        format!("{:.0} h {minutes:02.0} min", (seconds / 3_600.0).floor())
    }
}

/// A name as it may be shown: what would steer the terminal is written out.
pub(super) fn printable(name: &str) -> String {
    let mut shown = String::with_capacity(name.len());
    for character in name.chars() {
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// As much of a line as fits.
pub(super) fn cut(line: &str, width: usize) -> String {
    line.chars().take(width).collect()
}

#[cfg(test)]
mod tests;
