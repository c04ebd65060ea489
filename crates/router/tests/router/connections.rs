//! Connections that are slow, broken, or too many.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{CHAT, Stage, chat};

/// Sends bytes and reads until the other side closes, or for so long.
async fn raw(address: SocketAddr, bytes: &[u8], within: Duration) -> (String, Duration) {
    let began = Instant::now();
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    // A server that closes early resets what was sent after.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(within, stream.read_to_end(&mut answer)).await;
    (
        String::from_utf8_lossy(&answer).into_owned(),
        began.elapsed(),
    )
}

fn head(length: usize) -> String {
    format!("POST {CHAT} HTTP/1.1\r\nhost: h\r\ncontent-length: {length}\r\n\r\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_drips_its_headers_is_cut_off() {
    let stage = Stage::start(1, "", |config| {
        config.timeouts.client_headers = Duration::from_millis(300);
    })
    .await;
    let (_, took) = raw(
        stage.router.address(),
        b"POST /v1/chat",
        Duration::from_secs(5),
    )
    .await;
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert_eq!(stage.post(CHAT, &[], &chat("x")).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_does_not_come_is_answered_in_time() {
    let stage = Stage::start(1, "", |config| {
        config.timeouts.client_body = Duration::from_millis(300);
    })
    .await;
    let request = format!("{}{{\"model\"", head(1_000));
    let (answer, took) = raw(
        stage.router.address(),
        request.as_bytes(),
        Duration::from_secs(5),
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(answer.contains("body_timeout"), "{answer}");
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert_eq!(stage.received(), 0);
    stage.until_free().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lengths_that_lie_are_refused_or_cut() {
    let stage = Stage::with_policy(1, "").await;
    let address = stage.router.address();
    let within = Duration::from_secs(3);
    let huge = head(99_999_999_999);
    let (answer, _) = raw(address, huge.as_bytes(), Duration::from_millis(500)).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    for wrong in [
        format!("POST {CHAT} HTTP/1.1\r\nhost: h\r\ncontent-length: -1\r\n\r\n"),
        format!(
            "POST {CHAT} HTTP/1.1\r\nhost: h\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello!"
        ),
        format!("POST {CHAT} HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"),
    ] {
        let (answer, _) = raw(address, wrong.as_bytes(), within).await;
        assert!(
            answer.starts_with("HTTP/1.1 400") || answer.is_empty(),
            "{wrong}: {answer}"
        );
    }
    // Shorter than it says, and then gone.
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream
        .write_all(format!("{}{{}}", head(100)).as_bytes())
        .await
        .expect("it is sent");
    drop(stream);
    assert_eq!(stage.post(CHAT, &[], &chat("x")).await.status, 200);
    assert_eq!(stage.received(), 1);
    stage.until_free().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_megabyte_of_headers_is_refused() {
    let stage = Stage::with_policy(1, "").await;
    let mut request = format!("POST {CHAT} HTTP/1.1\r\nhost: h\r\n");
    while request.len() < 1 << 20 {
        request.push_str(
            "x-more: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n",
        );
    }
    let (answer, _) = raw(
        stage.router.address(),
        request.as_bytes(),
        Duration::from_secs(3),
    )
    .await;
    assert!(
        answer.starts_with("HTTP/1.1 431") || answer.is_empty(),
        "{answer}"
    );
    assert_eq!(stage.post(CHAT, &[], &chat("x")).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_beyond_the_limit_are_told_so() {
    let stage = Stage::with_policy(1, "").await;
    let long = "x".repeat(70_000);
    let answer = stage.post(CHAT, &[("x-long", &long)], &chat("x")).await;
    assert_eq!(answer.refusal(), (431, "headers_too_large".to_owned()));
    assert_eq!(stage.received(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_http_is_refused() {
    let stage = Stage::with_policy(1, "").await;
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01"[..],
        b"GET / HTTP/9.9\r\n\r\n",
        &[0; 100],
    ] {
        let (answer, took) = raw(stage.router.address(), bytes, Duration::from_secs(12)).await;
        assert!(
            answer.starts_with("HTTP/1.1 400") || answer.is_empty(),
            "{answer}"
        );
        assert!(took < Duration::from_secs(11), "{took:?}");
    }
    assert_eq!(stage.post(CHAT, &[], &chat("x")).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_connection_too_many_is_told_so() {
    let stage = Stage::start(1, "", |config| config.limits.connections = Some(2)).await;
    let address = stage.router.address();
    let held = [
        TcpStream::connect(address).await,
        TcpStream::connect(address).await,
    ];
    tokio::time::sleep(Duration::from_millis(100)).await;
    let answer = stage.post(CHAT, &[], &chat("x")).await;
    assert_eq!(answer.refusal(), (429, "too_many_connections".to_owned()));
    assert_eq!(answer.json()["error"]["details"]["limit"], 2);
    drop(held);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(stage.post(CHAT, &[], &chat("x")).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_other_sites_do_not_reach_the_operators_address() {
    let stage = Stage::with_policy(1, "").await;
    let address = stage.router.admin_address();
    let evil = [("origin", "http://evil.example")];
    let answer = crate::support::ask(address, http::Method::POST, "/drain", &evil, "").await;
    assert_eq!(answer.refusal(), (403, "foreign_origin".to_owned()));
    assert_eq!(stage.get("/ready").await.status, 200);
}
