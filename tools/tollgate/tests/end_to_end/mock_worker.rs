//! `tollgate mock-worker`: it listens, answers, and ends.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::tool::{run, wait};

/// Starts a worker at any port; its address, and the line that told it.
fn start(arguments: &[&str], environment: &[(&str, &str)]) -> (Child, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .args(["mock-worker", "--listen", "127.0.0.1:0"])
        .args(arguments)
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the tool starts");
    let stderr = child.stderr.as_mut().expect("piped");
    let mut line = String::new();
    BufReader::new(stderr).read_line(&mut line).expect("a line");
    let address = line.trim_end().split("http://").nth(1);
    let address = address.unwrap_or_else(|| panic!("no address in {line:?}"));
    (child, address.to_owned(), line)
}

/// Ends a worker by a signal; its exit status.
fn end(mut child: Child, signal: &str) -> Option<i32> {
    let kill = format!("kill -{signal} {}", child.id());
    let killed = Command::new("sh").args(["-c", &kill]).status();
    assert!(killed.expect("a shell").success());
    wait(&mut child)
}

/// The body of an answer.
fn ask(address: &str, request: &str) -> String {
    let mut socket = TcpStream::connect(address).expect("it listens");
    socket.write_all(request.as_bytes()).expect("it takes it");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("text");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a head");
    body.to_owned()
}

fn get(address: &str, path: &str) -> Value {
    let request = format!("GET {path} HTTP/1.1\r\nhost: mock\r\nconnection: close\r\n\r\n");
    serde_json::from_str(&ask(address, &request)).expect("JSON")
}

#[test]
fn it_serves_its_model_until_a_signal_ends_it() {
    for signal in ["TERM", "INT"] {
        let (child, address, line) = start(&["--model", "some"], &[]);
        assert_eq!(
            line,
            format!("mock worker of \"some\" at http://{address}\n")
        );
        assert_eq!(get(&address, "/v1/models")["data"][0]["id"], "some");
        assert_eq!(end(child, signal), Some(0), "{signal}");
    }
}

#[test]
fn flags_come_from_the_environment_as_well() {
    let environment = [
        ("TOLLGATE_MOCK_MODEL", "other"),
        ("TOLLGATE_MOCK_MAX_NUM_SEQS", "2"),
        ("TOLLGATE_MOCK_MAX_NUM_BATCHED_TOKENS", "64"),
        ("TOLLGATE_MOCK_NO_PREFIX_CACHE", "1"),
        ("TOLLGATE_MOCK_SPEED", "100"),
    ];
    let (child, address, line) = start(&[], &environment);
    assert!(line.contains("\"other\""), "{line}");
    let body = format!(
        r#"{{"model": "other", "prompt": "{}", "max_tokens": 1}}"#,
        "word".repeat(600)
    );
    for _ in 0..2 {
        let request = format!(
            "POST /v1/completions HTTP/1.1\r\nhost: mock\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer: Value = serde_json::from_str(&ask(&address, &request)).expect("JSON");
        let details = &answer["usage"]["prompt_tokens_details"];
        assert_eq!(details["cached_tokens"], 0, "there is no cache");
    }
    assert_eq!(get(&address, "/stats")["completed"], 2);
    assert_eq!(end(child, "TERM"), Some(0));
}

#[test]
fn an_address_in_use_is_told_with_status_1() {
    let (child, address, _) = start(&[], &[]);
    let second = run(Path::new("."), &["mock-worker", "--listen", &address], b"");
    assert_eq!(second.code, Some(1));
    let expected = format!("tollgate: cannot listen at {address}: Address already in use");
    assert!(second.stderr.starts_with(&expected), "{}", second.stderr);
    assert_eq!(end(child, "TERM"), Some(0));
}

#[test]
fn bad_flags_are_told_with_status_2() {
    for (flag, value, part) in [
        ("--listen", "here", "invalid socket address"),
        ("--model", "", "a value is required"),
        ("--max-num-seqs", "0", "0 is not in 1.."),
        ("--max-num-batched-tokens", "0", "0 is not in 1.."),
        ("--speed", "0", "\"0\" is not a number above 0"),
        ("--speed", "inf", "\"inf\" is not a number above 0"),
    ] {
        let refused = run(Path::new("."), &["mock-worker", flag, value], b"");
        assert_eq!(refused.code, Some(2), "{flag} {value}");
        let stderr = &refused.stderr;
        assert!(stderr.contains(flag) && stderr.contains(part), "{stderr}");
    }
}
