//! What a client sees of each fault.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use http::StatusCode;
use http_body_util::BodyExt;
use tokio::time::timeout;
use tollgate_mock_worker::{Counters, MockWorker};
use tollgate_sim::worker::WorkerModel;

use crate::client::{
    fast, faulty, frames, json, next_data, raw, send, try_send, until, within, worker,
};

/// Long enough that what has not come does not come.
const QUIET: Duration = Duration::from_millis(300);

/// The worker is idle again, and all that it received is accounted for.
async fn settled(worker: &MockWorker, failed: u64) -> Counters {
    let counters = until(worker, |counters| counters.waiting + counters.running == 0).await;
    assert_eq!(counters.failed, failed, "{counters:?}");
    let over = counters.completed + counters.cancelled + counters.failed;
    assert_eq!(counters.received, over, "{counters:?}");
    counters
}

#[tokio::test]
async fn slow_is_ten_times_as_late_and_holds_its_sequence_meanwhile() {
    // 16.7 ms of prefill, and 10 ms to each further token.
    let worker = worker(1.0, WorkerModel::default()).await;
    let begun = Instant::now();
    let stream = send(&worker, faulty("slow", 3, true)).await;
    let over = async {
        until(&worker, |counters| counters.completed == 1).await;
        begun.elapsed()
    };
    let (frames, over) = tokio::join!(frames(stream), over);
    assert!(frames[0].0 - begun >= Duration::from_millis(166));
    assert_eq!(frames.len(), 5);
    assert!(over >= Duration::from_millis(186), "{over:?}");
    assert_eq!(settled(&worker, 0).await.output_tokens, 3);
    let begun = Instant::now();
    let (status, answer) = json(send(&worker, faulty("slow", 3, false)).await).await;
    assert!(begun.elapsed() >= Duration::from_millis(186));
    assert_eq!(status, StatusCode::OK);
    assert_eq!(answer["usage"]["completion_tokens"], 3);
}

#[tokio::test]
async fn stall_sends_half_of_the_tokens_and_no_more() {
    let worker = fast().await;
    let mut stream = send(&worker, faulty("stall", 6, true)).await;
    let mut text = String::new();
    while let Ok(data) = timeout(QUIET, next_data(&mut stream)).await {
        let data = data.expect("the stream does not end");
        text.push_str(std::str::from_utf8(&data).expect("text"));
    }
    assert_eq!(text.matches("data: {").count(), 3, "{text}");
    assert!(text.ends_with("\n\n"), "whole frames");
    assert_eq!(worker.counters().running, 1);
    drop(stream);
    assert_eq!(settled(&worker, 0).await.cancelled, 1);
}

#[tokio::test]
async fn stall_without_a_stream_sends_half_of_the_body() {
    let worker = fast().await;
    let mut response = send(&worker, faulty("stall", 6, false)).await;
    let declared = response.headers()["content-length"].clone();
    let declared: usize = declared.to_str().expect("text").parse().expect("a length");
    let half = next_data(&mut response).await.expect("half of it");
    assert_eq!(half.len(), declared / 2);
    assert!(timeout(QUIET, next_data(&mut response)).await.is_err());
    drop(response);
    assert_eq!(settled(&worker, 0).await.cancelled, 1);
}

#[tokio::test]
async fn stall_before_never_answers_and_ends_with_its_client() {
    let worker = fast().await;
    for stream in [true, false] {
        let answer = try_send(&worker, faulty("stall-before", 6, stream));
        assert!(timeout(QUIET, answer).await.is_err(), "no answer comes");
    }
    assert_eq!(settled(&worker, 0).await.cancelled, 2);
}

#[tokio::test]
async fn a_status_is_an_error_in_the_envelope() {
    let worker = fast().await;
    for (fault, expected) in [
        ("500", StatusCode::INTERNAL_SERVER_ERROR),
        ("503", StatusCode::SERVICE_UNAVAILABLE),
    ] {
        let (status, answer) = json(send(&worker, faulty(fault, 6, true)).await).await;
        assert_eq!(status, expected);
        assert_eq!(answer["error"]["type"], "server_error");
        assert_eq!(
            answer["error"]["message"],
            "failed on request, by x-mock-fault"
        );
    }
    settled(&worker, 2).await;
}

#[tokio::test]
async fn cut_closes_the_connection_within_a_frame() {
    let worker = fast().await;
    let (text, end) = raw(&worker, "cut", true).await;
    assert!(end.is_ok(), "closed, not reset: {end:?}");
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    assert_eq!(
        text.matches("data: {").count(),
        4,
        "three whole ones: {text}"
    );
    assert_eq!(text.matches("\n\n").count(), 3, "{text}");
    assert!(!text.ends_with("0\r\n\r\n"), "the body has no end: {text}");
    settled(&worker, 1).await;
}

#[tokio::test]
async fn cut_without_a_stream_closes_within_the_declared_length() {
    let worker = fast().await;
    let (text, end) = raw(&worker, "cut", false).await;
    assert!(end.is_ok(), "closed, not reset: {end:?}");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let declared = head.split("content-length: ").nth(1).expect("a length");
    let declared: usize = declared
        .lines()
        .next()
        .unwrap_or_default()
        .parse()
        .expect("a number");
    assert_eq!(body.len(), declared / 2);
    settled(&worker, 1).await;
}

#[tokio::test]
async fn reset_comes_before_any_answer() {
    let worker = fast().await;
    for stream in [true, false] {
        let (text, end) = raw(&worker, "reset", stream).await;
        assert_eq!(text, "");
        let error = end.expect_err("the connection is reset");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
    settled(&worker, 2).await;
}

#[tokio::test]
async fn reset_after_comes_after_half() {
    let worker = fast().await;
    let (text, end) = raw(&worker, "reset-after", true).await;
    assert_eq!(text.matches("data: {").count(), 3, "{text}");
    assert_eq!(text.matches("\n\n").count(), 3, "{text}");
    let error = end.expect_err("the connection is reset");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let (text, end) = raw(&worker, "reset-after", false).await;
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    assert!(end.is_err(), "{end:?}");
    settled(&worker, 2).await;
}

#[tokio::test]
async fn garbage_is_no_http() {
    let worker = fast().await;
    let (text, end) = raw(&worker, "garbage", true).await;
    assert!(
        end.is_ok() && text.contains("this is not an answer"),
        "{text}"
    );
    let answer = within(try_send(&worker, faulty("garbage", 6, false))).await;
    assert!(answer.expect_err("it is no answer").is_parse());
    settled(&worker, 2).await;
}

#[tokio::test]
async fn a_garbage_body_has_a_good_head_and_no_json() {
    let worker = fast().await;
    let frames = frames(send(&worker, faulty("garbage-body", 6, true)).await).await;
    assert_eq!(frames.len(), 8);
    for (_, frame) in &frames {
        let data = frame.strip_prefix("data: ").expect("a frame");
        assert!(serde_json::from_str::<serde_json::Value>(data).is_err());
    }
    let response = send(&worker, faulty("garbage-body", 6, false)).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], "application/json");
    let body = response.into_body().collect().await.expect("a body");
    assert!(serde_json::from_slice::<serde_json::Value>(&body.to_bytes()).is_err());
    assert_eq!(settled(&worker, 0).await.completed, 2);
}

#[tokio::test]
async fn an_unknown_fault_is_refused_with_those_that_there_are() {
    let worker = fast().await;
    let (status, answer) = json(send(&worker, faulty("explode", 6, true)).await).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let message = answer["error"]["message"].as_str().expect("a message");
    for part in ["\"explode\"", "stall-before", "garbage-body"] {
        assert!(message.contains(part), "{message}");
    }
    settled(&worker, 1).await;
}
