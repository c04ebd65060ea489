//! The access log: a line for each request, on standard output.

use std::fmt::Write as _;
use std::io::{BufWriter, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use crossbeam_channel::{Sender, TrySendError};
use serde_json::json;

use super::Facts;
use crate::config::AccessLog;

/// Lines that may wait for a slow reader; one more is counted instead.
const LINES: usize = 4_096;

/// What the writing thread is told.
#[derive(Debug)]
enum Message {
    Line(String),
    /// Everything before it is to be written; then this is dropped.
    Flush(Sender<()>),
}

/// Writes the access log. A slow reader of standard output holds up no request: the lines go through a
/// bounded channel to a thread of their own.
#[derive(Debug)]
pub(crate) struct Journalist {
    form: AccessLog,
    lines: Option<Sender<Message>>,
    lost: AtomicU64,
}

impl Journalist {
    pub(crate) fn new(form: AccessLog) -> Self {
        let lines = (form != AccessLog::Off).then(writer).flatten();
        Self {
            form,
            lines,
            lost: AtomicU64::new(0),
        }
    }

    pub(crate) fn write(&self, facts: &Facts) {
        let Some(lines) = &self.lines else { return };
        let now = SystemTime::now();
        let line = match self.form {
            AccessLog::Off => return,
            AccessLog::Text => text(facts, now),
            AccessLog::Json => object(facts, now),
        };
        if let Err(TrySendError::Full(_)) = lines.try_send(Message::Line(line)) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until what was logged so far is written, or its reader is too slow.
    pub(crate) fn flush(&self) {
        const PATIENCE: Duration = Duration::from_secs(1);
        let Some(lines) = &self.lines else { return };
        let (written, wait) = crossbeam_channel::bounded(0);
        if lines
            .send_timeout(Message::Flush(written), PATIENCE)
            .is_ok()
        {
            // It hangs up, or time is up.
            let _ = wait.recv_timeout(PATIENCE);
        }
    }

    /// Lines that found no room.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// Starts the thread that writes; it ends with its last sender, or when nobody reads any more.
fn writer() -> Option<Sender<Message>> {
    let (sender, messages) = crossbeam_channel::bounded::<Message>(LINES);
    let thread = std::thread::Builder::new().name("tollgate-log".to_owned());
    let started = thread.spawn(move || {
        let mut out = BufWriter::new(std::io::stdout());
        while let Ok(message) = messages.recv() {
            // One flush for what has gathered.
            let gathered = std::iter::once(message).chain(messages.try_iter().take(LINES));
            let flushes: Result<Vec<_>, _> = gathered
                .map(|message| write(&mut out, message))
                .filter_map(Result::transpose)
                .collect();
            if flushes.is_err() || out.flush().is_err() {
                return;
            }
        }
    });
    started.is_ok().then_some(sender)
}

/// Writes a line, or gives back whoever waits for all before it.
fn write(out: &mut impl Write, message: Message) -> std::io::Result<Option<Sender<()>>> {
    match message {
        Message::Line(line) => out.write_all(line.as_bytes()).map(|()| None),
        Message::Flush(waiting) => Ok(Some(waiting)),
    }
}

fn text(facts: &Facts, now: SystemTime) -> String {
    let mut line = timestamp(now);
    let _ = write!(
        line,
        " {} {} {}",
        facts.status,
        facts.code,
        facts.api.path()
    );
    let or_dash = |text: &str| {
        if text.is_empty() {
            "-".to_owned()
        } else {
            text.to_owned()
        }
    };
    let _ = write!(
        line,
        " model={} class={}",
        or_dash(&facts.model),
        or_dash(&facts.class)
    );
    match facts.endpoint {
        Some(endpoint) => {
            let _ = write!(line, " worker={}:{}", endpoint.worker.0, endpoint.rank);
        }
        None => line.push_str(" worker=-"),
    }
    if let Some(wait) = facts.wait {
        let _ = write!(line, " wait_ms={:.1}", millis(wait));
    }
    if let Some(first_byte) = facts.first_byte {
        let _ = write!(line, " first_byte_ms={:.1}", millis(first_byte));
    }
    let _ = write!(line, " duration_ms={:.1}", millis(facts.duration));
    let _ = write!(
        line,
        " prompt={} cached={}",
        facts.prompt_tokens, facts.cached_tokens
    );
    if facts.attempts > 1 {
        let _ = write!(line, " attempts={}", facts.attempts);
    }
    let _ = writeln!(line, " id={}", facts.request_id);
    line
}

fn object(facts: &Facts, now: SystemTime) -> String {
    let object = json!({
        "time": timestamp(now),
        "request_id": facts.request_id,
        "api": facts.api.path(),
        "model": &*facts.model,
        "class": &*facts.class,
        "worker": facts.endpoint.map(|endpoint| endpoint.worker.0),
        "rank": facts.endpoint.map(|endpoint| endpoint.rank),
        "attempts": facts.attempts,
        "status": facts.status,
        "outcome": facts.code,
        "streamed": facts.is_streamed,
        "wait_ms": facts.wait.map(millis),
        "first_byte_ms": facts.first_byte.map(millis),
        "duration_ms": millis(facts.duration),
        "prompt_tokens_estimated": facts.prompt_tokens,
        "cached_tokens_estimated": facts.cached_tokens,
        "prompt_tokens": facts.usage.map(|usage| usage.prompt_tokens),
        "cached_tokens": facts.usage.and_then(|usage| usage.cached_tokens),
        "completion_tokens": facts.usage.map(|usage| usage.completion_tokens),
        "bytes_in": facts.bytes_in,
        "bytes_out": facts.bytes_out,
    });
    format!("{object}\n")
}

/// With three decimals at most, as nobody can measure more.
#[expect(clippy::cast_precision_loss, reason = "no request takes 285 years")]
fn millis(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e3
}

/// RFC 3339 in UTC, with milliseconds.
fn timestamp(now: SystemTime) -> String {
    let since = now
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let (seconds, millis) = (since.as_secs(), since.subsec_millis());
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Year, month and day of a day since 1970-01-01: the proleptic Gregorian calendar, with years that begin in
/// March, so that the leap day is the last.
const fn date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use tollgate::{Endpoint, WorkerId};

    use super::*;
    use crate::cost::Api;

    fn facts() -> Facts {
        Facts {
            request_id: "r1".to_owned(),
            api: Api::Chat,
            model: "m".into(),
            class: "premium".into(),
            endpoint: Some(Endpoint {
                worker: WorkerId(3),
                rank: 1,
            }),
            attempts: 2,
            wait: Some(Duration::from_micros(1_500)),
            first_byte: Some(Duration::from_millis(20)),
            duration: Duration::from_millis(40),
            status: 200,
            code: "ok",
            is_streamed: true,
            prompt_tokens: 512,
            cached_tokens: 0,
            usage: None,
            bytes_in: 10,
            bytes_out: 20,
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        let at = |seconds| timestamp(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00.000Z");
        assert_eq!(at(4_107_542_399), "2100-02-28T23:59:59.000Z");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00.000Z");
    }

    #[test]
    fn a_line_tells_class_wait_worker_and_outcome() {
        let line = text(&facts(), SystemTime::UNIX_EPOCH);
        let expected = "1970-01-01T00:00:00.000Z 200 ok /v1/chat/completions model=m class=premium \
            worker=3:1 wait_ms=1.5 first_byte_ms=20.0 duration_ms=40.0 prompt=512 cached=0 attempts=2 id=r1\n";
        assert_eq!(line, expected);
    }

    #[test]
    fn an_object_is_one_line_of_json() {
        let line = object(&facts(), SystemTime::UNIX_EPOCH);
        assert_eq!(line.matches('\n').count(), 1);
        let value: serde_json::Value = serde_json::from_str(&line).expect("it is JSON");
        assert_eq!(value["worker"], 3);
        assert_eq!(value["outcome"], "ok");
        assert_eq!(value["wait_ms"].to_string(), "1.5");
        assert_eq!(value["prompt_tokens"], serde_json::Value::Null);
    }
}
