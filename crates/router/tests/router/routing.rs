//! Where requests go, and what passes on the way.

use serde_json::{Value, json};

use crate::support::{
    CHAT, COMPLETIONS, Stage, TWO_CLASSES, chat, completion, config_of, echoing, post, streamed,
    worker, worker_of,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn config_99_every_api_is_answered_and_told_its_class_wait_and_worker() {
    let stage = Stage::with_policy(1, TWO_CLASSES).await;
    let requests = [
        (CHAT, chat("hello")),
        (COMPLETIONS, completion(1, 16)),
        ("/v1/embeddings", json!({ "model": "m", "input": "hello" })),
        (
            "/v1/responses",
            json!({ "model": "m", "input": "hello", "max_output_tokens": 2 }),
        ),
    ];
    for (path, body) in &requests {
        // The class is not lost at any of them.
        let premium = [("x-dynamo-meta-policy-class", "premium")];
        let answer = stage.post(path, &premium, body).await;
        assert_eq!(answer.header("x-tollgate-class"), "premium", "{path}");
    }
    for (path, body) in requests {
        let answer = stage.post(path, &[], &body).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        assert_eq!(answer.header("x-tollgate-class"), "regular", "{path}");
        assert_eq!(answer.header("x-tollgate-worker"), "1", "{path}");
        answer
            .header("x-tollgate-wait-ms")
            .parse::<f64>()
            .expect("a number");
        assert!(!answer.header("x-request-id").is_empty(), "{path}");
        assert!(answer.json()["usage"]["prompt_tokens"].is_u64() || path == "/v1/responses");
    }
    stage.until_free().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_pass_event_by_event_to_their_end() {
    let stage = Stage::with_policy(1, TWO_CLASSES).await;
    let answer = stage.post(CHAT, &[], &streamed(chat("hello"))).await;
    assert_eq!(answer.status, 200);
    assert!(
        answer
            .header("content-type")
            .starts_with("text/event-stream")
    );
    let events = answer.events();
    assert_eq!(events.last().map(String::as_str), Some("[DONE]"));
    let text = answer.text();
    assert!(
        text.ends_with("}\n\ndata: [DONE]\n\n"),
        "nothing is added: {text:?}"
    );
    let first: Value = serde_json::from_str(&events[0]).expect("a chunk");
    assert_eq!(first["object"], "chat.completion.chunk");
    assert!(events.len() >= 5, "{events:?}");
    let body = json!({ "model": "m", "input": "hello", "max_output_tokens": 2, "stream": true });
    let answer = stage.post("/v1/responses", &[], &body).await;
    assert!(
        answer.text().contains("event: response.completed"),
        "{}",
        answer.text()
    );
    stage.until_free().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_model_has_its_own_workers_and_all_are_listed() {
    let workers = vec![worker_of("a", 50.0).await, worker_of("b", 50.0).await];
    let stage = Stage::before(workers, "", |_| {}).await;
    let listed = stage.get("/v1/models").await.json();
    let names: Vec<_> = listed["data"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|model| model["id"].clone())
        .collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(stage.get("/v1/models/b").await.json()["id"], "b");
    assert_eq!(
        stage.get("/v1/models/c").await.refusal(),
        (404, "model_not_found".to_owned())
    );
    for (model, number) in [("a", "1"), ("b", "2"), ("a", "1")] {
        let mut body = chat("hello");
        body["model"] = json!(model);
        let answer = stage.post(CHAT, &[], &body).await;
        assert_eq!(
            (answer.status, answer.header("x-tollgate-worker")),
            (200, number)
        );
    }
    let body = json!({ "messages": [{ "role": "user", "content": "x" }] });
    let refused = stage.post(CHAT, &[], &body).await;
    assert_eq!(refused.refusal(), (400, "missing_parameter".to_owned()));
    assert!(refused.text().contains("a, b"), "{}", refused.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn config_102_a_class_is_named_by_a_header_and_an_unknown_one_is_the_default() {
    let stage = Stage::with_policy(1, TWO_CLASSES).await;
    for (name, class) in [
        ("premium", "premium"),
        (" premium ", "premium"),
        ("Premuim", "regular"),
        ("", "regular"),
        ("PREMIUM", "regular"),
    ] {
        let headers = [("x-dynamo-meta-policy-class", name)];
        let answer = stage.post(CHAT, &headers, &chat("hello")).await;
        assert_eq!(answer.header("x-tollgate-class"), class, "{name:?}");
    }
    let mut body = chat("hello");
    body["nvext"] = json!({ "agent_hints": { "policy_class": "premium", "priority": 3 } });
    let answer = stage.post(CHAT, &[], &body).await;
    assert_eq!(answer.header("x-tollgate-class"), "premium");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_prompt_of_token_ids_picks_the_bucket_exactly() {
    let policy = "\
default_policy_family: d
uncached_isl_buckets: [{min_tokens: 0, bucket: short}, {min_tokens: 3072, bucket: long}]
policy_classes:
- {name: d_short, policy_family: d, cache_bucket: short, quantum: 1}
- {name: d_long, policy_family: d, cache_bucket: long, quantum: 1}
";
    let stage = Stage::with_policy(1, policy).await;
    for (number, (tokens, class)) in [(3_071, "d_short"), (3_072, "d_long")]
        .into_iter()
        .enumerate()
    {
        let number = u32::try_from(number).expect("small");
        let answer = stage
            .post(COMPLETIONS, &[], &completion(number, tokens))
            .await;
        assert_eq!(answer.header("x-tollgate-class"), class, "{tokens}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_goes_where_its_beginning_is_cached() {
    let stage = Stage::with_policy(4, "").await;
    let first = stage.post(COMPLETIONS, &[], &completion(7, 2_048)).await;
    let there = first.header("x-tollgate-worker").to_owned();
    for _ in 0..6 {
        let again = stage.post(COMPLETIONS, &[], &completion(7, 2_048)).await;
        assert_eq!(again.header("x-tollgate-worker"), there);
        let usage = &again.json()["usage"];
        assert!(
            usage["prompt_tokens_details"]["cached_tokens"].as_u64() > Some(1_000),
            "{usage}"
        );
    }
    let off = Stage::start(4, "", |config| config.prefix_blocks = 0).await;
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..4 {
        let answer = off.post(COMPLETIONS, &[], &completion(7, 2_048)).await;
        seen.insert(answer.header("x-tollgate-worker").to_owned());
    }
    assert_eq!(seen.len(), 4, "without the index the workers take turns");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_pass_as_they_should_in_both_directions() {
    let echo = echoing().await;
    let stage = Stage::start(0, "", |config| {
        config.workers = vec![config_of(echo)];
    })
    .await;
    let headers = [
        ("authorization", "Bearer sk-1"),
        (
            "traceparent",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ),
        ("x-request-id", "my-id"),
        ("connection", "x-private"),
        ("x-private", "1"),
        ("te", "trailers"),
        ("accept-encoding", "gzip"),
        ("content-type", "application/json"),
    ];
    let answer = stage
        .post(&format!("{CHAT}?beta=true"), &headers, &chat("hello"))
        .await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("x-request-id"), "my-id");
    assert_eq!(answer.header("x-worker-own"), "yes");
    assert_eq!(answer.header("keep-alive"), "");
    let told = answer.json();
    assert_eq!(told["uri"], format!("{CHAT}?beta=true"));
    assert_eq!(told["body"], chat("hello").to_string());
    let sent = told["headers"].as_array().expect("a list");
    let value = |name: &str| {
        sent.iter()
            .find(|pair| pair[0] == name)
            .map(|pair| pair[1].clone())
    };
    assert_eq!(value("authorization"), Some(json!("Bearer sk-1")));
    assert_eq!(value("x-request-id"), Some(json!("my-id")));
    assert!(value("traceparent").is_some());
    assert_eq!(value("host"), Some(json!(echo.to_string())));
    for absent in ["x-private", "te", "accept-encoding", "connection"] {
        assert_eq!(value(absent), None, "{absent}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn header_names_are_settable_and_facts_can_be_kept_back() {
    let stage = Stage::start(1, TWO_CLASSES, |config| {
        config.headers.class = "x-team".parse().expect("a name");
        config.headers.told_class = Some("x-lane".parse().expect("a name"));
        config.headers.told_worker = None;
    })
    .await;
    let answer = stage
        .post(CHAT, &[("x-team", "premium")], &chat("hello"))
        .await;
    assert_eq!(answer.header("x-lane"), "premium");
    assert_eq!(answer.header("x-tollgate-worker"), "");
    let ignored = [("x-dynamo-meta-policy-class", "premium")];
    assert_eq!(
        stage
            .post(CHAT, &ignored, &chat("hello"))
            .await
            .header("x-lane"),
        "regular"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pin_is_obeyed_only_where_pins_are_allowed() {
    let stage = Stage::with_policy(3, "").await;
    let mut seen = std::collections::BTreeSet::new();
    for number in 0..6 {
        let headers = [("x-tollgate-worker", "2")];
        let answer = stage
            .post(COMPLETIONS, &headers, &completion(number, 64))
            .await;
        seen.insert(answer.header("x-tollgate-worker").to_owned());
    }
    assert!(seen.len() > 1, "ignored: {seen:?}");
    let stage = Stage::start(3, "", |config| config.allow_pins = true).await;
    for number in 0..6 {
        let headers = [("x-tollgate-worker", "2")];
        let answer = stage
            .post(COMPLETIONS, &headers, &completion(number, 64))
            .await;
        assert_eq!(answer.header("x-tollgate-worker"), "2");
    }
    let refusal = |pin: &'static str| {
        let stage = &stage;
        async move {
            stage
                .post(CHAT, &[("x-tollgate-worker", pin)], &chat("x"))
                .await
                .refusal()
        }
    };
    assert_eq!(
        refusal("9").await,
        (503, "pinned_worker_unknown".to_owned())
    );
    assert_eq!(
        refusal("2:5").await,
        (400, "pinned_rank_out_of_range".to_owned())
    );
    assert_eq!(refusal("two").await, (400, "invalid_header".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn required_taints_choose_among_the_workers() {
    let stage = Stage::start(3, "", |config| {
        config.workers[1].taints = vec!["h100".to_owned()];
    })
    .await;
    for number in 0..5 {
        let headers = [("x-tollgate-require-taints", "h100")];
        let answer = stage
            .post(COMPLETIONS, &headers, &completion(number, 64))
            .await;
        assert_eq!(
            (answer.status, answer.header("x-tollgate-worker")),
            (200, "2")
        );
    }
    let headers = [("x-tollgate-require-taints", "h100, eu")];
    let answer = stage.post(COMPLETIONS, &headers, &completion(9, 64)).await;
    assert_eq!(answer.refusal(), (503, "no_eligible_worker".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_of_ten_megabytes_passes() {
    // A prefill of so many tokens takes a modelled worker most of an hour.
    let stage = Stage::before(vec![worker(1e6).await], "", |_| {}).await;
    let text = "word ".repeat(2 << 20);
    let answer = post(stage.router.address(), CHAT, &[], chat(&text).to_string()).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(
        answer.json()["usage"]["prompt_tokens"],
        (text.len() as u64).div_ceil(4) + 4
    );
    stage.until_free().await;
}
