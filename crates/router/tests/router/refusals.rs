//! What is refused, and how.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde_json::json;

use crate::support::{CHAT, COMPLETIONS, Stage, ask, chat, post};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_is_wrong_is_told_where_and_never_retried() {
    let stage = Stage::with_policy(1, "").await;
    let cases: [(&str, &[u8], &str, &str); 8] = [
        (CHAT, b"{\"model\": \"m\",", "invalid_json", "line 1"),
        (CHAT, b"", "invalid_json", ""),
        (
            CHAT,
            b"{\"model\": \"m\", \"messages\": \"\xff\"}",
            "invalid_utf8",
            "",
        ),
        (CHAT, b"[1, 2]", "invalid_type", "object"),
        (CHAT, b"{\"model\": \"m\"}", "missing_parameter", "messages"),
        (
            COMPLETIONS,
            b"{\"model\": \"m\", \"prompt\": [1, -2]}",
            "invalid_type",
            "prompt[1]",
        ),
        (
            COMPLETIONS,
            b"{\"model\": \"m\", \"prompt\": [1.5]}",
            "invalid_type",
            "prompt[0]",
        ),
        (
            CHAT,
            b"{\"model\": 5, \"messages\": []}",
            "invalid_type",
            "model",
        ),
    ];
    for (path, body, code, part) in cases {
        let answer = post(
            stage.router.address(),
            path,
            &[],
            Bytes::copy_from_slice(body),
        )
        .await;
        let (status, found) = answer.refusal();
        assert_eq!(status, 400, "{}", answer.text());
        // What is not UTF-8 is not JSON either.
        assert!(
            found == code || found == "invalid_json",
            "{code}: {}",
            answer.text()
        );
        assert!(answer.text().contains(part), "{part}: {}", answer.text());
        assert_eq!(answer.header("x-should-retry"), "false");
    }
    assert_eq!(stage.received(), 0);
    stage.until_free().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_models_paths_and_methods_are_named() {
    let stage = Stage::with_policy(1, "").await;
    let mut body = chat("x");
    body["model"] = json!("gpt-5");
    let answer = stage.post(CHAT, &[], &body).await;
    assert_eq!(answer.refusal(), (404, "model_not_found".to_owned()));
    assert!(
        answer.text().contains("gpt-5") && answer.text().contains("there are: m"),
        "{}",
        answer.text()
    );
    assert_eq!(
        stage.post("/v1/images", &[], &body).await.refusal(),
        (404, "not_found".to_owned())
    );
    assert_eq!(
        stage.get(CHAT).await.refusal(),
        (405, "method_not_allowed".to_owned())
    );
    let address = stage.router.admin_address();
    let unknown = ask(address, Method::GET, "/secrets", &[], "").await;
    assert_eq!(unknown.refusal(), (404, "not_found".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_header_that_is_wrong_is_named() {
    let stage = Stage::with_policy(1, "").await;
    for (name, value) in [
        ("x-dynamo-request-strict-priority", "-1"),
        ("x-dynamo-request-priority", "NaN"),
        ("x-tollgate-deadline-ms", "soon"),
    ] {
        let answer = stage.post(CHAT, &[(name, value)], &chat("x")).await;
        assert_eq!(answer.refusal(), (400, "invalid_header".to_owned()));
        assert_eq!(answer.json()["error"]["param"], name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_beyond_the_limit_is_refused_before_it_is_taken_in() {
    let stage = Stage::start(1, "", |config| config.limits.body_bytes = 10_000).await;
    let long = chat(&"x".repeat(10_000)).to_string();
    let answer = post(stage.router.address(), CHAT, &[], long).await;
    assert_eq!(answer.refusal(), (413, "body_too_large".to_owned()));
    assert_eq!(answer.json()["error"]["details"]["limit_bytes"], 10_000);
    let stage = Stage::start(1, "", |config| {
        config.limits.body_bytes = 100_000;
        config.limits.buffered_bytes = 100_000;
    })
    .await;
    let body = chat(&"x".repeat(90_000)).to_string();
    let address = stage.router.address();
    let held = tokio::spawn(async move {
        post(address, CHAT, &[("x-mock-fault", "stall-before")], body).await
    });
    while stage.received() == 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let body = chat(&"x".repeat(50_000)).to_string();
    let answer = post(address, CHAT, &[], body).await;
    assert_eq!(answer.refusal(), (429, "router_full".to_owned()));
    assert_eq!(stage.post(CHAT, &[], &chat("short")).await.status, 200);
    held.abort();
    stage.until_free().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_88_no_worker_and_no_well_worker_are_told_apart_from_overload() {
    let stage = Stage::with_policy(0, "").await;
    let answer = stage.post(CHAT, &[], &chat("x")).await;
    assert_eq!(answer.refusal(), (503, "no_workers".to_owned()));
    assert!(!answer.header("retry-after").is_empty());
    let stage = Stage::with_policy(1, "").await;
    let overloaded = json!({ "overloaded": true }).to_string();
    let done = stage
        .operator(Method::PUT, "/workers/1/overloaded", overloaded)
        .await;
    assert_eq!(done.status, 200, "{}", done.text());
    let answer = stage.post(CHAT, &[], &chat("x")).await;
    assert_eq!(
        answer.refusal(),
        (429, "all_eligible_overloaded".to_owned())
    );
    let done = stage.operator(Method::DELETE, "/workers/1", "").await;
    assert_eq!(done.status, 200);
    let answer = stage.post(CHAT, &[], &chat("x")).await;
    assert_eq!(answer.refusal(), (503, "no_workers".to_owned()));
}
