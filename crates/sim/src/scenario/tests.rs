//! What a machine, its explanations and a run add to the arbiter.

mod explain;

use std::io::{self, BufReader, Read, Write};

use tollgate_policy::{PolicyFile, Profile};

use super::{ArbiterMachine, LINE_BYTES_MAX, MachineOptions, RunError, Runner, Verdict};
use crate::protocol::{Event, Machine, Op, Phase, Session};

const POLICY: &str = "
default_policy_family: b
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
- {name: a, policy_family: a, cache_bucket: all, quantum: 70, prefill_busy_threshold: 100}
- {name: b, policy_family: b, cache_bucket: all, quantum: 300, prefill_busy_threshold: 100,
   request_queue_limit_per_worker: 3}
- {name: c, quantum: 10, prefill_busy_threshold_frac: 0.5, busy_worker_ratio: 0.5,
   queue_policy: wspt}
";

fn profile(text: &str) -> Profile {
    let file = PolicyFile::parse("policy.yaml", text.as_bytes());
    file.expect("a valid policy").profile(None).clone()
}

fn machine() -> ArbiterMachine {
    ArbiterMachine::new(&profile(POLICY), MachineOptions::default()).expect("it fits")
}

fn apply(machine: &mut ArbiterMachine, lines: &[&str]) -> Vec<Event> {
    let mut events = Vec::new();
    for line in lines {
        let op = Op::parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        machine.apply(&op, &mut events);
        machine.check_invariants();
    }
    events
}

fn text(events: &[Event]) -> Vec<String> {
    events.iter().map(Event::to_json).collect()
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_line() {
    let mut output = Vec::new();
    let input = "\u{feff}{\"op\": \"arbitrate\"}\n\u{feff}{\"op\": \"arbitrate\"}\n";
    let verdict = runner()
        .run(input.as_bytes(), &mut output)
        .expect("memory can be read");
    let expected = Verdict {
        lines: 2,
        invalid: 1,
    };
    assert_eq!(verdict, expected);
    assert!(output.starts_with(br#"{"event":"dry""#));
}

#[test]
fn a_run_has_as_many_live_requests_as_slots() {
    let options = MachineOptions {
        slots: 1,
        ..MachineOptions::default()
    };
    let mut machine = ArbiterMachine::new(&profile(POLICY), options).expect("it fits");
    let events = apply(
        &mut machine,
        &[
            r#"{"op": "worker", "id": 1}"#,
            r#"{"op": "submit", "id": "x", "isl": 1}"#,
            r#"{"op": "submit", "id": "y", "isl": 1}"#,
            r#"{"op": "cancel", "id": "y"}"#,
            r#"{"op": "cancel", "id": "x"}"#,
            r#"{"op": "submit", "id": "z", "isl": 1}"#,
        ],
    );
    let text = text(&events);
    assert!(
        text[1].contains(r#""invalid""#)
            && text[1].contains("as many requests are live as may be, 1"),
        "{text:?}"
    );
    assert!(
        text[2].contains(r#""stale""#),
        "y was never taken in: {}",
        text[2]
    );
    assert!(text[3].contains(r#""cancelled""#), "{}", text[3]);
    assert!(text[4].contains(r#""queued""#), "{}", text[4]);
}

#[test]
fn s9_3_what_finds_nothing_is_stale_and_counted() {
    let mut machine = machine();
    let events = apply(
        &mut machine,
        &[
            r#"{"op": "worker", "id": 1}"#,
            r#"{"op": "submit", "id": "x", "isl": 1}"#,
            r#"{"op": "complete", "id": "x"}"#,
            r#"{"op": "arbitrate", "max": 1}"#,
            r#"{"op": "prefill_done", "id": "x", "attempt": 300}"#,
            r#"{"op": "complete", "id": "x", "attempt": 2}"#,
            r#"{"op": "complete", "id": "x"}"#,
            r#"{"op": "complete", "id": "x"}"#,
            r#"{"op": "cancel", "id": "nobody"}"#,
            r#"{"op": "load", "worker": [1, 9], "tokens": 5}"#,
            r#"{"op": "remove_worker", "id": 9}"#,
        ],
    );
    let stale = events
        .iter()
        .filter(|event| matches!(event, Event::Stale { .. }))
        .count();
    assert_eq!((events.len(), stale), (9, 7));
    assert_eq!(machine.state().stale, 7);
}

#[test]
fn s11_3_the_phases_of_a_stop() {
    let mut machine = machine();
    let mut phases = Vec::new();
    for line in [
        r#"{"op": "advance", "us": 5}"#,
        r#"{"op": "stop", "drain_us": 100}"#,
        r#"{"op": "stop", "drain_us": 500}"#,
        r#"{"op": "advance", "us": 99}"#,
        r#"{"op": "advance", "us": 1}"#,
    ] {
        apply(&mut machine, &[line]);
        let state = machine.state();
        phases.push((state.phase, state.drain_until_us));
    }
    let draining = (Phase::Draining, Some(105));
    let expected = [
        (Phase::Open, None),
        draining,
        draining,
        draining,
        (Phase::Closed, None),
    ];
    assert_eq!(phases, expected);
}

#[test]
fn s3_7_a_policy_beyond_the_capacities_changes_nothing() {
    let mut machine = machine();
    let before = machine.state();
    let mut events = Vec::new();
    machine.reload(
        &profile(&format!("{POLICY}max_attempts: 200\n")),
        &mut events,
    );
    assert!(
        text(&events)[0].contains("attempts: 200 required, 16 available"),
        "{events:?}"
    );
    assert_eq!(machine.state(), before);
    machine.reload(
        &profile(&format!("{POLICY}max_attempts: 16\n")),
        &mut events,
    );
    assert!(
        matches!(events[1], Event::Reloaded { generation: 1, .. }),
        "{events:?}"
    );
}

fn runner() -> Runner<ArbiterMachine, impl FnMut(&str) -> Result<Profile, String>> {
    Runner::new(Session::new(machine(), |path: &str| {
        Err(format!("{path}: not there"))
    }))
}

#[test]
fn a_run_goes_on_after_lines_that_are_no_operations() {
    let mut input = b"{\"op\": \"advance\", \"us\": 3}\n\xff\xfe\n\n".to_vec();
    input.resize(input.len() + LINE_BYTES_MAX + 1, b'[');
    input.extend_from_slice(b"\n{\"op\": \"reload\", \"policy\": \"p\"}\n{\"op\": \"arbitrate\"}");
    let mut output = Vec::new();
    let verdict = runner()
        .run(&*input, &mut output)
        .expect("memory can be read");
    assert_eq!(
        verdict,
        Verdict {
            lines: 6,
            invalid: 3
        }
    );
    let output = String::from_utf8(output).expect("JSON");
    let expected = [
        r#"{"event":"invalid","now_us":3,"line":2,"error":"not UTF-8 text: byte 1 of the line is wrong"}"#,
        r#"{"event":"invalid","now_us":3,"line":4,"error":"the line is longer than 1048576 bytes"}"#,
        r#"{"event":"invalid","now_us":3,"line":5,"error":"p: not there"}"#,
        r#"{"event":"dry","now_us":3,"waiting":0}"#,
    ];
    assert_eq!(output.lines().collect::<Vec<_>>(), expected);
}

/// Fails at once, with the kind of error that it holds.
struct Broken(io::ErrorKind);

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(self.0.into())
    }
}

impl Write for Broken {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(self.0.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Err(self.0.into())
    }
}

#[test]
fn a_reader_who_goes_away_ends_a_run_and_other_failures_are_errors() {
    let line = &b"{\"op\": \"arbitrate\"}\n"[..];
    let verdict = runner()
        .run(line, Broken(io::ErrorKind::BrokenPipe))
        .expect("a quiet end");
    assert_eq!(
        verdict,
        Verdict {
            lines: 1,
            invalid: 0
        }
    );
    let full = runner().run(line, Broken(io::ErrorKind::StorageFull));
    assert!(matches!(full, Err(RunError::Write(_))), "{full:?}");
    let unreadable = BufReader::new(Broken(io::ErrorKind::TimedOut));
    let unreadable = runner().run(unreadable, io::sink());
    assert!(
        matches!(unreadable, Err(RunError::Read(_))),
        "{unreadable:?}"
    );
}
