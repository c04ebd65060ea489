//! What the view shows of a state.

use std::time::Duration;

use serde_json::{Value, json};

use super::*;

fn class(name: &str, waiting: u64, served: u64, entitled: u64, dispatched: u64) -> Value {
    json!({
        "name": name, "draining": false, "quantum": 512, "deficit": 100, "turn_open": false,
        "waiting": waiting, "raw_tokens": 0, "cached_tokens": 0, "outstanding": 2,
        "limits": { "requests": null, "raw_tokens": null, "cached_tokens": null },
        "policy": null, "oldest_wait_ms": 1_500.0,
        "served_tokens": served, "entitled_tokens": entitled,
        "counters": {
            "dispatched": dispatched, "charged_tokens": dispatched * 100, "requeued": 0, "expired": 0,
            "cancelled": 0, "shutting_down": 0, "rejected": {}, "failed": {},
        },
        "lanes": [],
    })
}

fn state(classes: &[Value], busy_seconds: f64) -> RouterState {
    let state = json!({
        "version": "0.1.0", "phase": "serving", "uptime_seconds": 100.0, "open_requests": 7,
        "policy_generation": 3,
        "arbiter": {
            "turns": 1, "busy_seconds": busy_seconds, "idle_seconds": 10.0 - busy_seconds, "parks": 0,
            "dispatches": 0,
        },
        "models": [{
            "name": "m\u{1b}[2J", "generation": 1, "arbitration": "exact", "ring": [], "waiting": 5,
            "waiting_for_room": 4, "outstanding": 2, "closed": false, "classes": classes,
            "endpoints": [{
                "worker": 1, "url": null, "rank": 0, "load_tokens": 900, "booked_tokens": 900,
                "reported_tokens": 0, "active": 2, "available": true, "overloaded": false, "shut": false,
                "busy_for": ["regular"],
            }],
        }],
        "workers": [{
            "id": 1, "url": "http://w:1", "standing": "well", "models": ["m"], "ranks": 1,
            "max_batched_tokens": null, "overloaded": true, "taints": [], "requests": 9, "failures": 0,
            "last_failure": null,
        }],
    });
    serde_json::from_value(state).expect("a state")
}

fn two_looks() -> VecDeque<Look> {
    let at = Instant::now();
    let first = state(
        &[
            class("regular", 3, 100, 200, 10),
            class("premium", 0, 300, 200, 40),
        ],
        0.0,
    );
    let last = state(
        &[
            class("regular", 5, 200, 450, 15),
            class("premium", 0, 600, 450, 60),
        ],
        2.5,
    );
    VecDeque::from([
        Look { at, state: first },
        Look {
            at: at + Duration::from_secs(2),
            state: last,
        },
    ])
}

fn row<'a>(lines: &'a [String], name: &str) -> Vec<&'a str> {
    let line = lines.iter().find(|line| line.starts_with(name));
    line.expect(name)
        .split("  ")
        .map(str::trim)
        .filter(|cell| !cell.is_empty())
        .collect()
}

#[test]
fn a_class_has_rates_of_the_interval_and_shares_of_the_looks() {
    let lines = frame(&two_looks(), 200);
    let regular = [
        "regular", "5", "2", "2.5", "250.0", "25 %", "50 %", "1.5 s", "100",
    ];
    assert_eq!(row(&lines, "regular"), regular);
    let premium = [
        "premium", "0", "2", "10.0", "1000.0", "75 %", "50 %", "-", "100",
    ];
    assert_eq!(row(&lines, "premium"), premium);
}

#[test]
fn the_head_tells_what_the_arbiter_did_since_the_last_look() {
    let mut looks = two_looks();
    looks[0].state.arbiter.idle_seconds = 0.0;
    let lines = frame(&looks, 200);
    assert_eq!(
        lines[0],
        "tollgate 0.1.0  serving  open 7  policy 3  arbiter busy 25 %  up 1 min 40 s"
    );
}

#[test]
fn a_worker_is_shown_with_its_load_and_for_whom_it_is_busy() {
    let lines = frame(&two_looks(), 200);
    assert_eq!(
        row(&lines, "1 "),
        ["1", "http://w:1", "900", "2", "overloaded", "regular"]
    );
}

#[test]
fn the_first_look_has_no_rates() {
    let mut looks = two_looks();
    looks.truncate(1);
    let lines = frame(&looks, 200);
    assert_eq!(row(&lines, "regular")[3..5], ["-", "-"]);
}

#[test]
fn a_class_that_is_another_one_by_now_has_no_rates() {
    let mut looks = two_looks();
    looks[1].state.models[0].classes[0].served_tokens = 50;
    let lines = frame(&looks, 200);
    assert_eq!(row(&lines, "regular")[3..5], ["-", "-"]);
}

#[test]
fn no_name_steers_the_terminal_and_no_line_is_wider_than_it() {
    for width in [0, 1, 20, 80] {
        let lines = frame(&two_looks(), width);
        assert!(lines.iter().all(|line| line.chars().count() <= width));
        assert!(lines.iter().all(|line| !line.contains(char::is_control)));
    }
    let model = "m\\u{1b}[2J: 5 waiting, 2 running, 4 waiting for room";
    assert!(frame(&two_looks(), 200).iter().any(|line| line == model));
}

#[test]
fn times_are_told_in_the_unit_that_suits_them() {
    let cases = [
        (0.0, "0 ms"),
        (999.0, "999 ms"),
        (1_500.0, "1.5 s"),
        (61_000.0, "1 min 01 s"),
        (7_260_000.0, "2 h 01 min"),
    ];
    for (millis, expected) in cases {
        assert_eq!(duration(millis), expected);
    }
}
