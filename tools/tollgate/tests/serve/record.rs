//! The access log on standard output.

use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;

use crate::http::{COMPLETIONS, completion, post, send, streamed};
use crate::stage::{Process, Router, Worker};

/// Makes one request of each fate; their ids, statuses and outcomes.
fn make_some(router: &Router, worker: &Worker) -> Vec<(&'static str, u16, &'static str)> {
    let ask = |id, headers: &[(&str, &str)], body: &Value| {
        let headers = [headers, &[("x-request-id", id)]].concat();
        post(&router.address, COMPLETIONS, &headers, body).status
    };
    assert_eq!(ask("whole", &[], &completion(2)), 200);
    assert_eq!(ask("stream", &[], &streamed(2)), 200);
    let mut other = completion(1);
    other["model"] = "none".into();
    assert_eq!(ask("unknown", &[], &other), 404);
    assert_eq!(ask("broken", &[("x-mock-fault", "cut")], &streamed(4)), 200);
    let body = streamed(100_000).to_string();
    let headers = [("x-request-id", "gone")];
    let mut gone = send(&router.address, "POST", COMPLETIONS, &headers, &body);
    gone.first();
    drop(gone);
    worker.until("running", 0);
    vec![
        ("whole", 200, "ok"),
        ("stream", 200, "ok"),
        ("unknown", 404, "model_not_found"),
        ("broken", 200, "upstream_failed"),
        ("gone", 499, "client_closed"),
    ]
}

/// The router's log after its end.
fn log_of(form: &str) -> (Vec<String>, Vec<(&'static str, u16, &'static str)>) {
    let worker = Worker::start("20");
    let mut router = Router::start(&[&worker], &["--access-log", form]);
    let made = make_some(&router, &worker);
    router.process.signal(Signal::TERM);
    assert_eq!(router.process.end(), Some(0));
    let lines = match form {
        "off" => router.process.out.all(),
        _ => router.process.out.count(made.len()),
    };
    (lines, made)
}

#[test]
fn each_request_is_one_object_where_the_log_is_json() {
    let (lines, made) = log_of("json");
    assert_eq!(lines.len(), made.len(), "{lines:?}");
    let parse = |line: &String| -> Value {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
    };
    let objects: Vec<Value> = lines.iter().map(parse).collect();
    for (id, status, outcome) in made {
        let object = objects.iter().find(|object| object["request_id"] == id);
        let object = object.unwrap_or_else(|| panic!("{id} is not in {lines:?}"));
        assert_eq!(object["status"], status, "{object}");
        assert_eq!(object["outcome"], outcome, "{object}");
        assert_eq!(object["api"], COMPLETIONS, "{object}");
        assert!(object["duration_ms"].as_f64().is_some(), "{object}");
        let is_served = status != 404;
        assert_eq!(object["worker"] == 1, is_served, "{object}");
        assert_eq!(object["wait_ms"].is_number(), is_served, "{object}");
    }
}

#[test]
fn each_request_is_one_line_of_words_where_the_log_is_text() {
    let (lines, made) = log_of("text");
    assert_eq!(lines.len(), made.len(), "{lines:?}");
    for (id, status, outcome) in made {
        let end = format!(" id={id}");
        let line = lines.iter().find(|line| line.ends_with(&end));
        let line = line.unwrap_or_else(|| panic!("{id} is not in {lines:?}"));
        let words: Vec<&str> = line.split(' ').collect();
        let status = status.to_string();
        assert!(words[0].ends_with('Z'), "{line}");
        assert_eq!(words[1..4], [&*status, outcome, COMPLETIONS], "{line}");
        for key in ["model=", "class=", "worker=", "duration_ms=", "prompt="] {
            let told = words.iter().any(|word| word.starts_with(key));
            assert!(told, "{key}: {line}");
        }
    }
}

#[test]
fn nothing_is_written_where_the_log_is_off() {
    let (lines, _) = log_of("off");
    assert!(lines.is_empty(), "{lines:?}");
}

#[test]
fn requests_are_answered_where_nobody_reads_the_log() {
    let worker = Worker::start("1000");
    for is_closed in [true, false] {
        let mut command = Router::command(&[&worker], &["--access-log", "json"]);
        command.stdout(Stdio::piped());
        let mut process = Process::start_unread(command);
        if is_closed {
            drop(process.child().stdout.take());
        }
        let mut router = Router::wait_for(process);
        // With ids as long as may be, the lines are more than any pipe takes by default.
        let id = "i".repeat(128);
        for _ in 0..250 {
            let headers = [("x-request-id", &*id)];
            let answer = post(&router.address, COMPLETIONS, &headers, &completion(1));
            assert_eq!(answer.status, 200, "{answer:?}");
        }
        router.process.signal(Signal::TERM);
        assert_eq!(router.process.end(), Some(0), "closed: {is_closed}");
        router.process.err.line("tollgate: ended");
    }
}
