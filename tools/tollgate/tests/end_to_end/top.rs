//! `tollgate top`, against a router that is made up.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;

use crate::tool::run;

/// Answers every request with the same, for as long as the test lasts; its address.
fn serve(status: &'static str, body: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut lines = BufReader::new(stream.try_clone().expect("a copy")).lines();
            while lines
                .next()
                .is_some_and(|line| line.is_ok_and(|line| !line.is_empty()))
            {}
            let length = body.len();
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}");
            // The tool may be gone.
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}

fn top(arguments: &[&str]) -> crate::tool::Run {
    let arguments: Vec<&str> = ["top"].iter().chain(arguments).copied().collect();
    run(Path::new("."), &arguments, b"")
}

#[test]
fn a_state_is_written_once_as_plain_text() {
    let state = r#"{
        "version": "0.1.0", "phase": "draining", "uptime_seconds": 5.0, "open_requests": 3,
        "policy_generation": 2,
        "arbiter": {"turns": 0, "busy_seconds": 0.0, "idle_seconds": 0.0, "parks": 0, "dispatches": 0},
        "models": [], "workers": [], "something_newer": 1
    }"#;
    let address = serve("200 OK", state);
    let run = top(&[
        "--admin",
        &format!("http://{address}/"),
        "--interval",
        "0.1",
    ]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(
        run.stdout
            .starts_with("tollgate 0.1.0  draining  open 3  policy 2"),
        "{}",
        run.stdout
    );
    assert!(!run.stdout.contains('\u{1b}'), "{}", run.stdout);
}

#[test]
fn nobody_there_fails_with_the_address() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    drop(listener);
    let run = top(&["--admin", &address, "--once"]);
    assert_eq!(run.code, Some(1));
    assert!(
        run.stderr.contains(&format!("cannot reach {address}")),
        "{}",
        run.stderr
    );
    assert_eq!(run.stdout, "");
}

#[test]
fn a_server_that_is_no_router_is_told_as_such() {
    let run = top(&["--admin", &serve("200 OK", "<html>"), "--once"]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("no router's address"), "{}", run.stderr);
    let refusal = r#"{"error": {"message": "there is no state to show\u001b"}}"#;
    let run = top(&[
        "--admin",
        &serve("503 Service Unavailable", refusal),
        "--once",
    ]);
    assert_eq!(run.code, Some(1));
    assert!(
        run.stderr.contains("503") && run.stderr.contains("no state to show\\u{1b}"),
        "{}",
        run.stderr
    );
}

#[test]
fn bad_usage_is_told_what_would_be_right() {
    for (arguments, expected) in [
        (["--admin", "127.0.0.1"], "host:port"),
        (["--admin", "https://h:1"], "host:port"),
        (["--interval", "0"], "from 0.1 to 3600"),
        (["--interval", "nan"], "from 0.1 to 3600"),
    ] {
        let run = top(&arguments);
        assert_eq!(run.code, Some(2), "{arguments:?}");
        assert!(
            run.stderr.contains(expected),
            "{arguments:?}: {}",
            run.stderr
        );
    }
}
