//! The shapes of answers, and their usage.

use http::StatusCode;
use serde_json::{Value, json};

use crate::client::{completion, fast, frames, get, json, post, send};

/// The JSON of a stream's frames; the last one is `[DONE]`.
fn chunks(frames: &[(std::time::Instant, String)]) -> Vec<Value> {
    let (last, chunks) = frames.split_last().expect("a stream has frames");
    assert_eq!(last.1, "data: [DONE]");
    let parse = |(_, frame): &(_, String)| {
        let data = frame.strip_prefix("data: ").expect("a data frame");
        serde_json::from_str(data).expect("JSON")
    };
    chunks.iter().map(parse).collect()
}

#[tokio::test]
async fn a_chat_tells_its_usage() {
    let worker = fast().await;
    let body = json!({
        "model": "mock",
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": "hello"}]},
        ],
        "max_completion_tokens": 5,
    });
    let response = send(&worker, post("/v1/chat/completions", body)).await;
    assert_eq!(response.headers()["content-type"], "application/json");
    let (status, answer) = json(response).await;
    assert_eq!(status, StatusCode::OK);
    let message = &answer["choices"][0]["message"];
    assert_eq!(message["content"], "the gate is open and");
    // Two messages: 4 + 2 and 4 + 2.
    let usage = json!({
        "prompt_tokens": 12,
        "completion_tokens": 5,
        "total_tokens": 17,
        "prompt_tokens_details": {"cached_tokens": 0},
    });
    assert_eq!(answer["usage"], usage);
}

#[tokio::test]
async fn a_streamed_chat_has_the_same_text_and_usage() {
    let worker = fast().await;
    let body = json!({
        "model": "mock",
        "messages": [{"role": "user", "content": "hello"}],
        "max_tokens": 5,
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    let response = send(&worker, post("/v1/chat/completions", body)).await;
    let content_type = &response.headers()["content-type"];
    assert_eq!(content_type, "text/event-stream; charset=utf-8");
    let chunks = chunks(&frames(response).await);
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    let said = |chunk: &Value| {
        chunk["choices"][0]["delta"]["content"]
            .as_str()
            .map(str::to_owned)
    };
    let text: String = chunks.iter().filter_map(said).collect();
    assert_eq!(text, "the gate is open and");
    assert_eq!(chunks[6]["choices"][0]["finish_reason"], "length");
    assert_eq!(chunks[7]["choices"], json!([]));
    assert_eq!(chunks[7]["usage"]["total_tokens"], 6 + 5);
    assert!(chunks.iter().all(|chunk| chunk["id"] == chunks[0]["id"]));
    assert_eq!(chunks.len(), 8);
}

#[tokio::test]
async fn a_completion_of_token_ids_counts_them_exactly() {
    let worker = fast().await;
    let asked = post("/v1/completions", completion(1_000, 2, false));
    let (_, answer) = json(send(&worker, asked).await).await;
    assert_eq!(answer["usage"]["prompt_tokens"], 1_000);
    assert_eq!(answer["choices"][0]["text"], "the gate");
    let batch = json!({"model": "mock", "prompt": [[1, 2, 3], [4, 5]], "max_tokens": 1});
    let (_, answer) = json(send(&worker, post("/v1/completions", batch)).await).await;
    assert_eq!(answer["usage"]["prompt_tokens"], 5);
    let counters = worker.counters();
    assert_eq!((counters.prompt_tokens, counters.output_tokens), (1_005, 3));
}

#[tokio::test]
async fn embeddings_take_a_prefill_and_no_output() {
    let worker = fast().await;
    let body = json!({"model": "mock", "input": ["hello", "four"], "stream": true});
    let (status, answer) = json(send(&worker, post("/v1/embeddings", body)).await).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(answer["data"].as_array().map(Vec::len), Some(2));
    assert_eq!(
        answer["usage"],
        json!({"prompt_tokens": 3, "total_tokens": 3})
    );
    let counters = worker.counters();
    assert_eq!((counters.completed, counters.output_tokens), (1, 0));
}

#[tokio::test]
async fn a_response_comes_whole_and_as_events() {
    let worker = fast().await;
    let mut body = json!({
        "model": "mock",
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "hello"}]}],
        "max_output_tokens": 3,
    });
    let (_, answer) = json(send(&worker, post("/v1/responses", &body)).await).await;
    assert_eq!(answer["status"], "completed");
    assert_eq!(answer["output"][0]["content"][0]["text"], "the gate is");
    assert_eq!(answer["usage"]["input_tokens"], 6);
    assert_eq!(answer["usage"]["output_tokens"], 3);
    body["stream"] = json!(true);
    let frames = frames(send(&worker, post("/v1/responses", &body)).await).await;
    assert!(frames[0].1.starts_with("event: response.created\n"));
    let (event, data) = frames[9].1.split_once("\ndata: ").expect("two lines");
    assert_eq!((event, frames.len()), ("event: response.completed", 10));
    let data: Value = serde_json::from_str(data).expect("JSON");
    assert_eq!(data["response"]["usage"], answer["usage"]);
    assert_eq!(
        data["response"]["output"][0]["content"],
        answer["output"][0]["content"]
    );
}

#[tokio::test]
async fn models_health_and_stats_are_told() {
    let worker = fast().await;
    let (_, models) = json(send(&worker, get("/v1/models")).await).await;
    assert_eq!(models["object"], "list");
    assert_eq!(models["data"][0]["id"], "mock");
    let health = send(&worker, get("/health")).await;
    assert_eq!(health.status(), StatusCode::OK);
    assert_eq!(health.headers()["content-length"], "0");
    json(send(&worker, post("/v1/completions", completion(7, 2, false))).await).await;
    let (_, stats) = json(send(&worker, get("/stats")).await).await;
    let expected = json!({
        "received": 1,
        "waiting": 0,
        "running": 0,
        "completed": 1,
        "cancelled": 0,
        "failed": 0,
        "prompt_tokens": 7,
        "cached_tokens": 0,
        "output_tokens": 2,
        "running_max": 1,
    });
    assert_eq!(stats, expected);
    assert_eq!(
        serde_json::to_value(worker.counters()).expect("numbers"),
        expected
    );
}
