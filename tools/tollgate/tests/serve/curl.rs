//! `curl`, as people try things out with it.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::http;
use crate::stage::{Router, Worker};

/// A `curl` for a chat of so many output tokens; none, and a word about it, where there is no curl.
fn curl(router: &Router, arguments: &[&str], output_tokens: u32) -> Option<Command> {
    let known = Command::new("curl").arg("--version").output();
    if known.is_err() {
        eprintln!("skipped: there is no curl");
        return None;
    }
    let body = json!({
        "model": "m", "stream": true, "max_tokens": output_tokens,
        "messages": [{ "role": "user", "content": "Is there room for me?" }],
    });
    let mut command = Command::new("curl");
    command
        .args(["--silent", "--show-error", "--noproxy", "*"])
        .args(arguments)
        .args(["-H", "content-type: application/json"])
        .args(["-d", &body.to_string()])
        .arg(format!("http://{}/v1/chat/completions", router.address))
        .stdin(Stdio::null());
    Some(command)
}

#[test]
fn frames_arrive_one_by_one() {
    const TOKENS: u32 = 101;
    // 10 ms between two tokens.
    const DECODE: Duration = Duration::from_secs(1);
    let worker = Worker::start("1");
    let router = Router::start(&[&worker], &[]);
    let Some(mut command) = curl(&router, &["-N", "-i"], TOKENS) else {
        return;
    };
    let mut curl = command.stdout(Stdio::piped()).spawn().expect("curl starts");
    let mut out = curl.stdout.take().expect("piped");
    let (mut text, mut arrivals) = (Vec::new(), Vec::new());
    let mut bytes = [0; 65_536];
    loop {
        let read = out.read(&mut bytes).expect("a pipe can be read");
        if read == 0 {
            break;
        }
        arrivals.push(Instant::now());
        text.extend_from_slice(&bytes[..read]);
    }
    assert!(curl.wait().expect("it was started").success());
    let text = String::from_utf8(text).expect("text");
    let (head, frames) = text.split_once("\r\n\r\n").expect("-i shows the head");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    for name in [
        "content-type: text/event-stream",
        "x-tollgate-worker: 1",
        "x-tollgate-wait-ms: ",
        "x-tollgate-class: ",
        "x-request-id: ",
    ] {
        assert!(head.contains(&format!("\r\n{name}")), "{name}: {head}");
    }
    let frames: Vec<&str> = frames.split_terminator("\n\n").collect();
    assert!(frames.len() > TOKENS as usize, "{frames:?}");
    assert!(frames.iter().all(|frame| frame.starts_with("data: ")));
    assert_eq!(frames.last(), Some(&"data: [DONE]"));
    let took = arrivals[arrivals.len() - 1] - arrivals[0];
    assert!(took > DECODE / 2, "{took:?}");
    assert!(arrivals.len() > 20, "{} reads", arrivals.len());
}

#[test]
fn a_client_that_gives_up_in_the_middle_frees_its_worker() {
    let worker = Worker::start("1");
    let router = Router::start(&[&worker], &[]);
    let Some(mut command) = curl(&router, &["-N", "--max-time", "1"], 100_000) else {
        return;
    };
    let output = command.output().expect("curl runs");
    assert_eq!(output.status.code(), Some(28), "its time is up: {output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("data: {"), "it began: {text}");
    worker.until("running", 0);
    assert_eq!(worker.stat("cancelled"), 1);
    let line = router.process.out.line(" 499 client_closed ");
    assert!(line.contains("worker=1:0"), "{line}");
    let after = http::post(
        &router.address,
        http::COMPLETIONS,
        &[],
        &http::completion(1),
    );
    assert_eq!(after.status, 200, "{after:?}");
}
