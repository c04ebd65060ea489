//! Requests that are wrong.

use http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tollgate_sim::worker::WorkerModel;

use crate::client::{fast, get, json, post, send, within, worker};

/// The message and status of a refusal, whose envelope is whole.
fn refusal((status, answer): (StatusCode, Value)) -> (StatusCode, String) {
    let error = &answer["error"];
    assert_eq!(error["type"], "invalid_request_error", "{answer}");
    assert!(error.get("param").is_some() && error.get("code").is_some());
    let message = error["message"].as_str().expect("a message");
    (status, message.to_owned())
}

#[tokio::test]
async fn bodies_that_are_wrong_are_refused_with_the_place() {
    let worker = fast().await;
    let cases = [
        (
            "/v1/chat/completions",
            "{\"model\": \"mock\",\n oops}",
            400,
            "line 2 column 2",
        ),
        (
            "/v1/completions",
            "",
            400,
            "not valid JSON: EOF while parsing a value at line 1 column 0",
        ),
        (
            "/v1/completions",
            "{\"model\": \"mock\"}",
            400,
            "the field `prompt` is missing",
        ),
        (
            "/v1/embeddings",
            "{\"model\": \"mock\"}",
            400,
            "the field `input` is missing",
        ),
        (
            "/v1/responses",
            "{\"model\": \"gpt\"}",
            404,
            "this worker serves \"mock\"",
        ),
    ];
    let count = cases.len() as u64;
    for (path, body, expected, part) in cases {
        let (status, message) = refusal(json(send(&worker, post(path, body)).await).await);
        assert_eq!(status.as_u16(), expected, "{message}");
        assert!(message.contains(part), "{message}");
    }
    let counters = worker.counters();
    assert_eq!((counters.received, counters.failed), (count, count));
}

#[tokio::test]
async fn other_paths_and_methods_are_refused_with_those_that_there_are() {
    let worker = fast().await;
    let (status, message) = refusal(json(send(&worker, get("/v2/chat")).await).await);
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(
        message.contains("/v2/chat") && message.contains("/v1/responses"),
        "{message}"
    );
    let response = send(&worker, get("/v1/completions")).await;
    assert_eq!(response.headers()["allow"], "POST");
    let (status, message) = refusal(json(response).await);
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(message, "/v1/completions takes POST, not GET");
    let mut deletion = get("/stats");
    *deletion.method_mut() = Method::DELETE;
    let (status, _) = refusal(json(send(&worker, deletion).await).await);
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
}

/// Sends a head and as much of the body as goes; what comes back.
async fn too_large(head: &str, body: &[u8]) -> String {
    let worker = fast().await;
    let socket = TcpStream::connect(worker.address())
        .await
        .expect("it listens");
    let (mut read, mut write) = socket.into_split();
    let request = [head.as_bytes(), body].concat();
    let sending = tokio::spawn(async move {
        // The worker may have heard enough before the end.
        let _ = write.write_all(&request).await;
        write
    });
    let mut answer = String::new();
    let read = within(read.read_to_string(&mut answer)).await;
    read.unwrap_or_else(|error| panic!("{error} after {answer:?}"));
    sending.abort();
    answer
}

#[tokio::test]
async fn a_body_that_is_declared_too_large_is_refused_unread() {
    let head = format!(
        "POST /v1/completions HTTP/1.1\r\nhost: mock\r\ncontent-length: {}\r\n\r\n",
        (32 << 20) + 1
    );
    let answer = too_large(&head, &[b' '; 1_000]).await;
    assert!(
        answer.starts_with("HTTP/1.1 413 Payload Too Large\r\n"),
        "{answer}"
    );
    assert!(
        answer.contains("the body is larger than 32 MiB"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_body_that_grows_too_large_is_refused_as_well() {
    let head = "POST /v1/completions HTTP/1.1\r\nhost: mock\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunk = [b"100000\r\n", &[b' '; 1 << 20][..], b"\r\n"].concat();
    let answer = too_large(head, &chunk.repeat(33)).await;
    assert!(
        answer.starts_with("HTTP/1.1 413 Payload Too Large\r\n"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_large_body_is_taken() {
    let worker = worker(1e6, WorkerModel::default()).await;
    let body = json!({"model": "mock", "input": "x".repeat(31 << 20)});
    let (status, answer) = json(send(&worker, post("/v1/embeddings", body)).await).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(answer["usage"]["prompt_tokens"], (31 << 20) / 4);
}
