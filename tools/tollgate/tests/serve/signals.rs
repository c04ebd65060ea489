//! SIGHUP reloads, SIGTERM and SIGINT drain.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::http::{COMPLETIONS, completion, get, post, send, streamed};
use crate::stage::{Files, POLICY, Router, Worker, text, tool, until};

#[test]
fn sighup_puts_the_policy_file_in_force_and_keeps_the_old_one_where_it_is_wrong() {
    let files = Files::new();
    let policy = files.write("policy.yaml", POLICY);
    let worker = Worker::start("50");
    let mut router = Router::start(&[&worker], &["--policy", text(&policy)]);
    files.write("policy.yaml", &POLICY.replace("512", "4096"));
    router.process.signal(Signal::HUP);
    router.process.err.line("tollgate: policy 2 is in force");
    let wrong = POLICY.replace("quantum: 512", "quantum: 0");
    files.write("policy.yaml", &wrong);
    router.process.signal(Signal::HUP);
    let told = router
        .process
        .err
        .line("tollgate: the policy stays as it was");
    assert!(!told.contains("in force"));
    // All that is wrong, with its place, as at the start.
    for line in [4, 5] {
        router
            .process
            .err
            .line(&format!("{}:{line}", text(&policy)));
    }
    let config = router.operator("/config");
    assert_eq!(config["generation"], 2);
    assert!(config["policies"].to_string().contains("4096"), "{config}");
    let answer = post(&router.address, COMPLETIONS, &[], &completion(1));
    assert_eq!(answer.status, 200, "{answer:?}");
    router.process.signal(Signal::TERM);
    assert_eq!(router.process.end(), Some(0));
}

#[test]
fn sighup_without_a_policy_file_says_that_there_is_none() {
    let router = Router::start(&[], &[]);
    router.process.signal(Signal::HUP);
    router.process.err.line("no policy file was given");
    assert_eq!(get(&router.address, "/health").status, 200);
}

#[test]
fn a_running_stream_ends_properly_after_the_signal_to_end() {
    for signal in [Signal::TERM, Signal::INT] {
        let worker = Worker::start("1");
        let mut router = Router::start(&[&worker], &[]);
        let body = streamed(80).to_string();
        let mut stream = send(&router.address, "POST", COMPLETIONS, &[], &body);
        let mut text = stream.first();
        router.process.signal(signal);
        router.process.err.line("tollgate: ending within 30 s");
        let late = send(
            &router.address,
            "POST",
            COMPLETIONS,
            &[],
            &completion(1).to_string(),
        );
        let late = late.answer();
        assert_eq!(late.status, 503, "{late:?}");
        assert_eq!(late.json()["error"]["code"], "shutting_down");
        text += &stream.rest();
        // Its last chunk, and the end of the chunks.
        let end = "data: [DONE]\n\n\r\n0\r\n\r\n";
        assert!(text.ends_with(end), "{text}");
        assert!(!text.contains("\"error\""), "{text}");
        assert_eq!(router.process.end(), Some(0), "{signal:?}");
        router.process.err.line("tollgate: ended");
        assert_eq!(worker.stat("completed"), 1);
    }
}

#[test]
fn a_second_signal_ends_at_once_and_tells_who_is_cut() {
    let worker = Worker::start("1");
    let mut router = Router::start(&[&worker], &[]);
    let body = streamed(100_000).to_string();
    let mut stream = send(&router.address, "POST", COMPLETIONS, &[], &body);
    let mut text = stream.first();
    router.process.signal(Signal::TERM);
    router.process.err.line("tollgate: ending within 30 s");
    let began = Instant::now();
    router.process.signal(Signal::TERM);
    assert_eq!(router.process.end(), Some(0));
    let took = began.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
    text += &stream.rest();
    assert!(text.contains("\"code\":\"shutting_down\""), "{text}");
    worker.until("running", 0);
}

#[test]
fn a_drain_ends_what_is_left_at_its_time() {
    let worker = Worker::start("1");
    let mut router = Router::start(&[&worker], &["--drain", "0.5"]);
    let held = router.hold(&worker);
    let began = Instant::now();
    router.process.signal(Signal::TERM);
    assert_eq!(router.process.end(), Some(0));
    let took = began.elapsed();
    let (least, most) = (Duration::from_millis(490), Duration::from_secs(5));
    assert!(took >= least && took < most, "{took:?}");
    let answer = held.answer();
    assert_eq!(answer.status, 503, "{answer:?}");
    until("the worker to be free", || {
        (worker.stat("running") == 0).then_some(())
    });
}

#[test]
fn a_drain_of_a_day_may_be_asked_for_and_ends_when_nothing_is_left() {
    let mut router = Router::start(&[], &[]);
    for seconds in [1.8e19, 86_401.0, -1.0] {
        let body = json!({ "seconds": seconds });
        let answer = post(&router.admin, "/drain", &[], &body);
        assert_eq!(answer.status, 400, "{answer:?}");
    }
    let body = json!({ "seconds": 86_400 });
    let answer = post(&router.admin, "/drain", &[], &body);
    assert_eq!(answer.status, 202, "{answer:?}");
    assert_eq!(router.process.end(), Some(0));
}

#[test]
fn a_standard_error_that_nobody_reads_keeps_nobody_from_ending_the_router() {
    let files = Files::new();
    let policy = files.write("policy.yaml", POLICY);
    let addresses = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    let mut command = tool(&["serve", "--policy", text(&policy)]);
    let child = command
        .args(addresses)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.expect("it starts");
    let mut unread = BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    while !line.contains("clients at") {
        line.clear();
        assert!(unread.read_line(&mut line).expect("text") > 0, "it ended");
    }
    let admin = line
        .rsplit("http://")
        .next()
        .and_then(|rest| rest.split('/').next());
    let admin = admin.expect("an address").to_owned();
    // More than a pipe holds.
    for _ in 0..2_500 {
        assert_eq!(post(&admin, "/config/reload", &[], &json!({})).status, 200);
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, Signal::TERM).expect("it was not waited for");
    let status = until("its end", || child.try_wait().expect("it was started"));
    assert_eq!(status.code(), Some(0));
}
