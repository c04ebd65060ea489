//! Explanations come to what the arbiter does, and tell why.

use super::{POLICY, apply, machine, profile, text};
use crate::protocol::{Event, Explanation, LimitKind, Machine, WaitsFor};
use crate::scenario::{ArbiterMachine, MachineOptions};

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
        let left = match paid.split_once(", ")?.1 {
            "0 left: turn ended" | "0 left: not the holder" => "0",
            _ if paid.contains("; class empty: ") => "0",
            left => left.strip_suffix(" left")?,
        };
        Some((class.class.as_str(), left))
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
    let (limits, may_wait): (Vec<_>, Vec<_>) = events
        .iter()
        .enumerate()
        .filter_map(|(at, event)| match event {
            Event::Rejected { id, limit_kind, .. } => Some((at, id, *limit_kind)),
            _ => None,
        })
        .partition(|(_, _, kind)| *kind != LimitKind::MayWait);
    for (at, id, _) in limits {
        assert!(
            matches!(&events[at - 1], Event::Explain(dry) if dry.waiting.is_some()),
            "the dry selection before {id} is refused is explained (S7.1)"
        );
    }
    let refused = explanations(events).flat_map(|explanation| &explanation.refused);
    assert!(
        refused
            .map(|head| &head.id)
            .eq(may_wait.iter().map(|(_, id, _)| *id))
    );
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
        assert_eq!(left, deficit.to_string(), "{explanation:?}");
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
            let heads: Vec<_> = explanation.waiting.iter().flatten().map(head).collect();
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
        .flatten()
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
    assert_eq!(played_winner(told[0]), Some(("b", "299")));
    assert_eq!(told[0].waiting, None, "nobody saw what waited then");
    assert!(
        told[0].why.contains("b3") && told[0].why.contains("S7.1"),
        "{}",
        told[0].why
    );
}

/// S7.1: the dry selection that lets a limit stand is explained before the refusal.
#[test]
fn a_refusal_by_a_limit_tells_what_the_queue_waits_for() {
    let mut machine = machine().explaining();
    let submit = |n: u32| format!(r#"{{"op": "submit", "id": "b{n}", "family": "b", "isl": 1}}"#);
    let lines: Vec<String> = (0..4).map(submit).collect();
    let mut all = vec![
        r#"{"op": "worker", "id": 1}"#,
        r#"{"op": "load", "worker": [1, 0], "tokens": 101}"#,
    ];
    all.extend(lines.iter().map(String::as_str));
    let events = apply(&mut machine, &all);
    let [.., Event::Explain(dry), Event::Rejected { id, .. }] = &events[..] else {
        panic!("the explanation comes before the refusal: {events:?}");
    };
    assert_eq!(id, "b3");
    assert_eq!(
        dry.why,
        "a limit stood in the way of b3, and no class had a candidate (S7.1)"
    );
    let heads: Vec<_> = dry.waiting.iter().flatten().collect();
    assert_eq!(heads.len(), 1);
    assert_eq!(
        (heads[0].id.as_str(), heads[0].waits_for),
        ("b0", WaitsFor::Gate)
    );
    assert_eq!(dry.selection[1].steps, ["passed over: no candidate"]);
}

/// S7.2: what may not wait is named with why it could not go, also when it was refused behind a
/// dispatch.
#[test]
fn a_refusal_of_what_may_not_wait_tells_why_it_could_not_go() {
    let submit = |id: &str, more: &str| {
        format!(r#"{{"op": "submit", "id": "{id}", "family": "a", "isl": 150{more}}}"#)
    };
    let played = |arbitrate: &str| {
        let lines = [
            r#"{"op": "worker", "id": 1}"#.to_owned(),
            submit("first", ""),
            submit("head", r#", "may_wait": false"#),
            submit("behind", r#", "may_wait": false"#),
            arbitrate.to_owned(),
        ];
        let mut machine = machine().explaining();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        apply(&mut machine, &lines)
    };
    let gate = "[1, 0] 150 prefill tokens > prefill_busy_threshold 100";
    for (arbitrate, why) in [
        (
            r#"{"op": "arbitrate"}"#,
            format!("1 of 1 eligible endpoints are busy: {gate}"),
        ),
        (
            r#"{"op": "arbitrate", "max": 1}"#,
            format!("its gate was shut: {gate}"),
        ),
    ] {
        let events = played(arbitrate);
        let last = explanations(&events).last().expect("an explanation");
        let refused: Vec<_> = last
            .refused
            .iter()
            .map(|head| (head.id.as_str(), head.waits_for, head.why.as_str()))
            .collect();
        let expected = [
            ("head", WaitsFor::Gate, why.as_str()),
            ("behind", WaitsFor::Lane, "head stands before it"),
        ];
        assert_eq!(refused, expected, "{arbitrate}");
    }
    let events = played(r#"{"op": "arbitrate"}"#);
    let dry = explanations(&events).last().expect("an explanation");
    assert_eq!(dry.dispatched, None);
    let head = dry.waiting.iter().flatten().next().expect("a head");
    assert_eq!(head.id, "head", "it waited when the selection ran");
}

/// S6.2: credit that an empty class loses is told, and so is the end of a turn.
#[test]
fn a_dispatch_tells_what_becomes_of_its_turn() {
    let steps = |mode: &str, costs: &[u32]| {
        let profile = profile(&format!("{POLICY}arbitration: {mode}\n"));
        let machine = ArbiterMachine::new(&profile, MachineOptions::default()).expect("it fits");
        let mut machine = machine.explaining();
        apply(&mut machine, &[r#"{"op": "worker", "id": 1}"#]);
        for (n, cost) in costs.iter().enumerate() {
            let line = format!(r#"{{"op": "submit", "id": "{n}", "family": "a", "isl": {cost}}}"#);
            apply(&mut machine, &[&line]);
        }
        let events = apply(&mut machine, &[r#"{"op": "arbitrate", "max": 1}"#]);
        let mut told = explanations(&events);
        let first = told.next().expect("an explanation");
        first.selection[0].steps.last().expect("a step").clone()
    };
    assert_eq!(steps("exact", &[30, 30]), "dispatched: paid 30, 40 left");
    let empty = "dispatched: paid 30; class empty: 40 dropped, turn ended";
    assert_eq!(steps("exact", &[30]), empty);
    let spent = "dispatched: paid 70, 0 left: turn ended";
    assert_eq!(steps("exact", &[70, 1]), spent);
    let empty = "dispatched: paid 30; class empty: 40 dropped, not the holder";
    assert_eq!(steps("page", &[30]), empty);
}
