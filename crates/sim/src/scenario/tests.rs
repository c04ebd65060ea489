//! What a machine, its explanations and a run add to the arbiter.

use std::io::{self, BufReader, Read, Write};

use tollgate_policy::{PolicyFile, Profile};

use super::{ArbiterMachine, LINE_BYTES_MAX, MachineOptions, RunError, Runner, Verdict};
use crate::protocol::{Event, Explanation, Machine, Op, Phase, Session, WaitsFor};

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

/// A random stream of operations on a few workers.
struct Stream(u64);

impl Stream {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let bits = (self.0 ^ (self.0 >> 31)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (bits ^ (bits >> 29)) % bound
    }

    fn line(&mut self, submitted: &mut u64) -> String {
        let worker = 1 + self.below(3);
        let rank = self.below(2);
        let request = self.below(*submitted + 1);
        match self.below(17) {
            0 => format!(
                r#"{{"op":"worker","id":{worker},"ranks":2,"max_batched_tokens":400,"overloaded":{}}}"#,
                self.below(4) == 0
            ),
            1 if self.below(8) == 0 => format!(r#"{{"op":"remove_worker","id":{worker}}}"#),
            1 => format!(
                r#"{{"op":"load","worker":[{worker},{rank}],"tokens":{}}}"#,
                self.below(300)
            ),
            2 => format!(r#"{{"op":"prefill_done","id":"r{request}"}}"#),
            3..=5 => format!(r#"{{"op":"complete","id":"r{request}"}}"#),
            6 => format!(r#"{{"op":"requeue","id":"r{request}"}}"#),
            7 => format!(r#"{{"op":"cancel","id":"r{request}"}}"#),
            8 => format!(r#"{{"op":"advance","us":{}}}"#, self.below(50)),
            9 => r#"{"op":"arbitrate"}"#.to_owned(),
            10 => format!(r#"{{"op":"arbitrate","max":{}}}"#, self.below(4)),
            11 if self.below(100) == 0 => r#"{"op":"stop","drain_us":300}"#.to_owned(),
            11 => {
                let op = ["shut", "open", "open"][usize::try_from(self.below(3)).expect("small")];
                format!(r#"{{"op":"{op}","worker":[{worker},{rank}]}}"#)
            }
            _ => {
                *submitted += 1;
                let family = ["a", "b", "c"][usize::try_from(self.below(3)).expect("small")];
                let pin = match self.below(4) {
                    0 => format!(r#","pin":[{worker},{rank}]"#),
                    1 => format!(r#","deadline_us":{}"#, self.below(2_000)),
                    2 => r#","may_wait":false"#.to_owned(),
                    _ => String::new(),
                };
                let isl = 1 + self.below(400);
                format!(
                    r#"{{"op":"submit","id":"r{submitted}","family":"{family}","isl":{isl}{pin}}}"#
                )
            }
        }
    }
}

fn explanations(events: &[Event]) -> impl Iterator<Item = &Explanation> {
    events.iter().filter_map(|event| match event {
        Event::Explain(explanation) => Some(&**explanation),
        _ => None,
    })
}

/// The one class that the played selection let dispatch, and the deficit that it was left with.
fn played_winner(explanation: &Explanation) -> Option<(&str, &str)> {
    let mut winners = explanation.selection.iter().filter_map(|class| {
        let paid = class.steps.last()?.strip_prefix("dispatched: paid ")?;
        let (_, left) = paid.split_once(", ")?;
        Some((class.class.as_str(), left.strip_suffix(" left")?))
    });
    let winner = winners.next();
    assert!(winners.next().is_none(), "two winners: {explanation:?}");
    winner
}

/// S6.1, S6.8: the explanation plays the rules on its own, and must come to the arbiter's result.
#[test]
fn explanations_change_no_event_and_come_to_the_arbiters_result() {
    let mut explained_dispatches = 0;
    for seed in 0..100 {
        let mode = if seed % 2 == 0 { "exact" } else { "page" };
        let profile = profile(&format!("{POLICY}arbitration: {mode}\n"));
        let options = MachineOptions {
            slots: 512,
            endpoints: 8,
            ..MachineOptions::default()
        };
        let build = || ArbiterMachine::new(&profile, options).expect("it fits");
        let (mut plain, mut explaining) = (build(), build().explaining());
        let (mut stream, mut submitted) = (Stream(seed), 0);
        for worker in 1..=3 {
            let line = format!(r#"{{"op":"worker","id":{worker},"ranks":2}}"#);
            apply(&mut plain, &[&line]);
            apply(&mut explaining, &[&line]);
        }
        for _ in 0..400 {
            let line = stream.line(&mut submitted);
            let expected = apply(&mut plain, &[&line]);
            let events = apply(&mut explaining, &[&line]);
            explained_dispatches += check_explanations(&plain, &events);
            let without: Vec<Event> = events
                .into_iter()
                .filter(|event| !matches!(event, Event::Explain(_)))
                .collect();
            assert_eq!(text(&without), text(&expected), "seed {seed}: {line}");
            assert_eq!(explaining.state(), plain.state(), "seed {seed}: {line}");
        }
    }
    assert!(
        explained_dispatches > 1_500,
        "{explained_dispatches} are too few"
    );
}

/// How many dispatches were explained.
fn check_explanations(machine: &ArbiterMachine, events: &[Event]) -> usize {
    let mut dispatches = 0;
    for (at, event) in events.iter().enumerate() {
        let Event::Explain(explanation) = event else {
            continue;
        };
        if explanation.selection.is_empty() && explanation.dispatched.is_some() {
            continue; // It ran inside a submission, unwatched.
        }
        let winner = played_winner(explanation);
        let Some(id) = &explanation.dispatched else {
            assert_eq!(
                winner, None,
                "a dry selection dispatches nothing: {explanation:?}"
            );
            continue;
        };
        let Event::Dispatched {
            id: dispatched,
            class,
            deficit,
            ..
        } = &events[at - 1]
        else {
            panic!("an explanation stands behind its dispatch: {explanation:?}");
        };
        let (won, left) = winner.unwrap_or_else(|| panic!("nobody won: {explanation:?}"));
        assert_eq!((id, won), (dispatched, class.as_str()), "{explanation:?}");
        // An empty class keeps nothing (S6.2).
        assert!(
            left == deficit.to_string() || *deficit == 0,
            "{left} or 0, not {deficit}"
        );
        assert!(machine.now_us() >= explanation.now_us);
        dispatches += 1;
    }
    dispatches
}

#[test]
fn every_head_is_told_what_it_waits_for() {
    let mut machine = machine().explaining();
    let events = apply(
        &mut machine,
        &[
            r#"{"op": "worker", "id": 1, "max_batched_tokens": 400}"#,
            r#"{"op": "worker", "id": 2}"#,
            r#"{"op": "load", "worker": [2, 0], "tokens": 150}"#,
            r#"{"op": "submit", "id": "pinned", "family": "a", "isl": 60, "pin": [2, 0]}"#,
            r#"{"op": "submit", "id": "a1", "family": "a", "isl": 60}"#,
            r#"{"op": "submit", "id": "a2", "family": "a", "isl": 60, "pin": [1, 0]}"#,
            r#"{"op": "submit", "id": "b1", "family": "b", "isl": 60}"#,
            r#"{"op": "submit", "id": "a3", "family": "a", "isl": 60}"#,
            r#"{"op": "submit", "id": "c1", "family": "c", "isl": 60}"#,
            r#"{"op": "arbitrate", "max": 1}"#,
            r#"{"op": "arbitrate"}"#,
        ],
    );
    let told: Vec<_> = explanations(&events)
        .map(|explanation| {
            let head = |head: &crate::protocol::HeadTrace| (head.id.clone(), head.waits_for);
            let heads: Vec<_> = explanation.waiting.iter().map(head).collect();
            (explanation.dispatched.clone(), heads)
        })
        .collect();
    let heads = |list: &[(&str, WaitsFor)]| {
        list.iter()
            .map(|&(id, reason)| (id.to_owned(), reason))
            .collect::<Vec<_>>()
    };
    let expected = [
        (
            Some("a1".to_owned()),
            heads(&[
                ("a3", WaitsFor::BetterHead),
                ("a2", WaitsFor::Turn),
                ("pinned", WaitsFor::Gate),
                ("b1", WaitsFor::Selection),
                ("c1", WaitsFor::Turn),
            ]),
        ),
        (
            Some("b1".to_owned()),
            heads(&[
                ("a3", WaitsFor::Gate),
                ("a2", WaitsFor::Gate),
                ("pinned", WaitsFor::Gate),
                ("c1", WaitsFor::Selection),
            ]),
        ),
        (
            Some("c1".to_owned()),
            heads(&[
                ("a3", WaitsFor::Gate),
                ("a2", WaitsFor::Gate),
                ("pinned", WaitsFor::Gate),
            ]),
        ),
        (
            None,
            heads(&[
                ("a3", WaitsFor::Gate),
                ("a2", WaitsFor::Gate),
                ("pinned", WaitsFor::Gate),
            ]),
        ),
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_shut_gate_names_the_thresholds_and_the_loads() {
    let mut machine = machine().explaining();
    let events = apply(
        &mut machine,
        &[
            r#"{"op": "worker", "id": 1, "max_batched_tokens": 400}"#,
            r#"{"op": "worker", "id": 2, "max_batched_tokens": 400}"#,
            r#"{"op": "load", "worker": [2, 0], "tokens": 250}"#,
            r#"{"op": "shut", "worker": [1, 0]}"#,
            r#"{"op": "submit", "id": "a1", "family": "a", "isl": 60}"#,
            r#"{"op": "submit", "id": "a2", "family": "a", "isl": 60, "pin": [2, 0]}"#,
            r#"{"op": "submit", "id": "c1", "family": "c", "isl": 60}"#,
            r#"{"op": "arbitrate"}"#,
        ],
    );
    let explanation = explanations(&events)
        .next()
        .expect("the dry selection is explained");
    let why: Vec<&str> = explanation
        .waiting
        .iter()
        .map(|head| head.why.as_str())
        .collect();
    let a = "[2, 0] 250 prefill tokens > prefill_busy_threshold 100";
    let c = "[2, 0] 250 prefill tokens > prefill_busy_threshold_frac 0.5 of 400, 200";
    let expected = [
        format!("2 of 2 eligible endpoints are busy: [1, 0] its egress is full; {a}"),
        format!("its endpoint is busy: {a}"),
        format!(
            "2 of 2 eligible endpoints are busy, busy_worker_ratio is 0.5: \
             [1, 0] its egress is full; {c}"
        ),
    ];
    assert_eq!(why, expected);
}

/// S7.1: selections that a full class caused are pointed out, and belong to the submission.
#[test]
fn selections_inside_a_submission_are_pointed_out() {
    let mut machine = machine().explaining();
    let submit = |n: u32| format!(r#"{{"op": "submit", "id": "b{n}", "family": "b", "isl": 1}}"#);
    let lines: Vec<String> = (0..4).map(submit).collect();
    let mut all = vec![r#"{"op": "worker", "id": 1}"#];
    all.extend(lines.iter().map(String::as_str));
    let events = apply(&mut machine, &all);
    let told: Vec<&Explanation> = explanations(&events).collect();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].dispatched.as_deref(), Some("b0"));
    assert!(
        told[0].why.contains("b3") && told[0].why.contains("S7.1"),
        "{}",
        told[0].why
    );
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
        text[1].contains(r#""invalid""#) && text[1].contains("1 requests are live"),
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
