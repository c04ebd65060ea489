//! The `openai` client for Python. Each script in `clients` does one thing and prints what it saw, as JSON.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::http::{COMPLETIONS, completion, post, send};
use crate::stage::{Files, POLICY, Process, Router, Worker, text, until};
use crate::venv::python;

/// Starts a script against a router; `None` where there is no client.
fn script(name: &str, router: &Router, arguments: &[&str]) -> Option<Process> {
    let place = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/serve/clients");
    let mut command = Command::new(python()?);
    // Nothing is written beside the scripts, and no proxy is asked.
    command.args(["-B", &format!("{place}/{name}.py")]);
    command.arg(format!("http://{}/v1", router.address));
    command.args(arguments).stdin(Stdio::null());
    command.env("NO_PROXY", "*").env_remove("OPENAI_BASE_URL");
    Some(Process::start(command))
}

/// What a script saw.
fn seen(script: &mut Process) -> Value {
    let code = script.end();
    assert_eq!(code, Some(0), "{:#?}", script.err.all());
    let line = script.out.count(1).remove(0);
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// A worker, and a router before it with two classes.
fn one_worker(speed: &str, arguments: &[&str]) -> (Worker, Router) {
    let files = Files::new();
    let policy = files.write("policy.yaml", POLICY);
    let worker = Worker::start(speed);
    let arguments = [&["--policy", text(&policy)], arguments].concat();
    let router = Router::start(&[&worker], &arguments);
    (worker, router)
}

#[test]
fn every_interface_answers() {
    let (_worker, router) = one_worker("20", &[]);
    let Some(mut script) = script("answers", &router, &[]) else {
        return;
    };
    let seen = seen(&mut script);
    assert_eq!(seen["models"], json!(["m"]));
    for (name, tokens) in [("chat", 5), ("completion", 6), ("response", 7)] {
        let answer = &seen[name];
        assert_eq!(answer["model"], "m", "{seen}");
        assert_eq!(answer["output_tokens"], tokens, "{seen}");
        assert!(answer["prompt_tokens"].as_u64() > Some(0), "{seen}");
        assert!(answer["text"].as_str().is_some_and(|text| !text.is_empty()));
    }
    assert_eq!(seen["embeddings"]["count"], 2, "{seen}");
    assert!(seen["embeddings"]["length"].as_u64() > Some(0), "{seen}");
    assert_eq!(seen["embeddings"]["as_floats"], true, "{seen}");
}

#[test]
fn every_interface_streams() {
    let (_worker, router) = one_worker("20", &[]);
    let Some(mut script) = script("streams", &router, &[]) else {
        return;
    };
    let seen = seen(&mut script);
    assert_eq!(seen["chat"]["parts"], 8, "{seen}");
    assert_eq!(seen["chat"]["finish_reason"], "length", "{seen}");
    assert_eq!(seen["chat"]["usage"], Value::Null, "it was not asked for");
    let counted = &seen["chat_with_usage"];
    assert_eq!(counted["parts"], 8, "{seen}");
    assert_eq!(counted["usage"], 8, "{seen}");
    assert_eq!(counted["choices_of_usage"], 0, "{seen}");
    assert_eq!(seen["completion"]["parts"], 9, "{seen}");
    assert_eq!(seen["response"]["parts"], 10, "{seen}");
    assert_eq!(seen["response"]["last"], "response.completed", "{seen}");
}

#[test]
fn a_class_is_asked_for_by_a_header() {
    let (_worker, router) = one_worker("20", &[]);
    let Some(mut script) = script("classes", &router, &["small", "regular"]) else {
        return;
    };
    let seen = seen(&mut script);
    assert_eq!(seen["classes"], json!(["small", "regular"]));
    assert_eq!(seen["workers"], json!(["1", "1"]));
}

#[test]
fn a_stream_that_is_closed_in_the_middle_frees_its_worker() {
    let (worker, router) = one_worker("1", &[]);
    let Some(mut script) = script("cancelled", &router, &[]) else {
        return;
    };
    // The script lives on, so that it is not its end that closes the connection.
    let line = script.out.line("parts");
    assert_eq!(line, "{\"parts\": 3}");
    worker.until("running", 0);
    assert_eq!(worker.stat("cancelled"), 1);
    router.process.out.line(" 499 client_closed ");
    assert!(script.child().try_wait().expect("it was started").is_none());
}

#[test]
fn a_refusal_by_a_limit_raises_with_code_and_facts() {
    let (worker, router) = one_worker("20", &[]);
    let _held = router.hold(&worker);
    let _waiting = wait_in_small(&router);
    let Some(mut script) = script("refused", &router, &["limit"]) else {
        return;
    };
    let seen = seen(&mut script);
    assert_eq!(seen["error"], "RateLimitError", "{seen}");
    assert_eq!(seen["status"], 429);
    assert_eq!(seen["code"], "queue_limit_requests");
    assert_eq!(seen["type"], "rate_limit_error");
    let facts = json!({ "class": "small", "limit_kind": "requests", "current": 1, "limit": 1, "workers": 1 });
    assert_eq!(seen["details"], facts);
    let millis: u64 = seen["retry_after_ms"]
        .as_str()
        .and_then(|text| text.parse().ok())
        .expect("milliseconds");
    assert!((1_000..=60_000).contains(&millis), "{seen}");
    assert_eq!(refusals(&router, " 429 "), 1, "it was told not to retry");
}

/// A request that waits in the class `small`, which then is full.
fn wait_in_small(router: &Router) -> crate::http::Sent {
    let headers = [("x-dynamo-meta-policy-class", "small")];
    let body = completion(1).to_string();
    let waiting = send(&router.address, "POST", COMPLETIONS, &headers, &body);
    router.until_waiting(1);
    waiting
}

/// Lines of the log with this in them.
fn refusals(router: &Router, part: &str) -> usize {
    router.process.out.line(part);
    let lines = router.process.out.all();
    lines.iter().filter(|line| line.contains(part)).count()
}

#[test]
fn a_refused_request_succeeds_after_the_time_that_it_was_told() {
    let (worker, router) = one_worker("20", &[]);
    if python().is_none() {
        return;
    }
    // What moves in the class tells how soon there may be room.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(1_500) {
        let headers = [("x-dynamo-meta-policy-class", "small")];
        let answer = post(&router.address, COMPLETIONS, &headers, &completion(1));
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let held = router.hold(&worker);
    let waiting = wait_in_small(&router);
    let mut script = script("retried", &router, &[]).expect("there is a client");
    router.process.out.line(" 429 queue_limit_requests ");
    drop(held);
    assert_eq!(waiting.answer().status, 200);
    let seen = seen(&mut script);
    assert_eq!(seen["statuses"], json!([429, 200]), "{seen}");
    let told = seen["retry_after_ms"].as_f64().expect("a number") / 1e3;
    let waited = seen["pause_seconds"].as_f64().expect("a number");
    assert!((1.0..=10.0).contains(&told), "{seen}");
    assert!(waited >= told * 0.98, "{seen}");
}

#[test]
fn a_deadline_that_passes_raises_and_is_not_retried() {
    let (worker, router) = one_worker("20", &[]);
    let _held = router.hold(&worker);
    let Some(mut script) = script("refused", &router, &["deadline"]) else {
        return;
    };
    let seen = seen(&mut script);
    assert_eq!(seen["error"], "InternalServerError", "{seen}");
    assert_eq!(seen["status"], 504);
    assert_eq!(seen["code"], "deadline_exceeded");
    assert_eq!(seen["details"], json!({ "class": "regular" }));
    assert_eq!(refusals(&router, " 504 deadline_exceeded "), 1);
}

#[test]
fn an_unknown_model_raises_and_is_not_retried() {
    let (worker, router) = one_worker("20", &[]);
    let Some(mut script) = script("refused", &router, &["model"]) else {
        return;
    };
    let seen = seen(&mut script);
    assert_eq!(seen["error"], "NotFoundError", "{seen}");
    assert_eq!(seen["status"], 404);
    assert_eq!(seen["code"], "model_not_found");
    assert_eq!(seen["param"], "model");
    assert_eq!(refusals(&router, " 404 model_not_found "), 1);
    assert_eq!(worker.stat("received"), 0);
}

#[test]
fn an_error_after_the_first_byte_of_a_stream_raises_with_its_code() {
    let (_worker, router) = one_worker("20", &["--idle-timeout", "1"]);
    let faults = ["cut", "reset-after", "stall", "garbage-body"];
    let Some(mut script) = script("broken", &router, &faults) else {
        return;
    };
    let seen = seen(&mut script);
    for api in ["chat", "completion", "response"] {
        for (fault, code) in [
            ("cut", "upstream_failed"),
            ("reset-after", "upstream_failed"),
            ("stall", "upstream_timeout"),
            ("garbage-body", "upstream_invalid"),
        ] {
            let error = &seen[api][fault];
            assert_eq!(error["code"], code, "{api} {fault}: {seen}");
            let is_begun = error["parts"].as_u64() > Some(0);
            assert_eq!(is_begun, fault != "garbage-body", "{api} {fault}: {seen}");
        }
    }
    for api in ["chat", "completion"] {
        assert_eq!(seen[api]["cut"]["error"], "APIError", "{seen}");
    }
}

#[test]
fn a_worker_that_is_killed_under_load_costs_no_request() {
    let first = Worker::start("5");
    let second = Worker::start("5");
    let router = Router::start(&[&first, &second], &[]);
    let Some(mut script) = script("load", &router, &["50"]) else {
        return;
    };
    until("some requests at the first worker", || {
        (first.stat("completed") > 0 && first.stat("running") > 0).then_some(())
    });
    first.process.signal(Signal::KILL);
    let seen = seen(&mut script);
    assert_eq!(seen["errors"], json!([]), "{seen}");
    assert_eq!(seen["succeeded"], 50, "{seen}");
    assert!(second.stat("completed") > 0);
}
