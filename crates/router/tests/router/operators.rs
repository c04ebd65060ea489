//! What operators see, over HTTP.

use http::Method;
use serde_json::json;

use crate::support::{COMPLETIONS, Stage, TWO_CLASSES, ask, completion, worker_of};

#[tokio::test]
async fn metrics_come_in_the_form_that_is_asked_for() {
    let stage = Stage::with_policy(1, TWO_CLASSES).await;
    let body = json!({ "model": "m", "prompt": "one two three", "max_tokens": 1 });
    assert_eq!(stage.post(COMPLETIONS, &[], &body).await.status, 200);
    stage.until_free().await;
    let open = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    for (accept, content_type, family, is_ended) in [
        (
            "text/plain",
            "text/plain; version=0.0.4; charset=utf-8",
            "tollgate_requests_total",
            false,
        ),
        (
            "application/openmetrics-text",
            open,
            "tollgate_requests",
            true,
        ),
    ] {
        let headers = [("accept", accept)];
        let admin = stage.router.admin_address();
        let answer = ask(admin, Method::GET, "/metrics", &headers, "").await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.headers["content-type"], content_type);
        let text = String::from_utf8(answer.body.to_vec()).expect("it is text");
        assert!(
            text.contains(&format!("# TYPE {family} counter\n")),
            "{text}"
        );
        assert_eq!(text.ends_with("\n# EOF\n"), is_ended);
        let ended = "tollgate_requests_total{model=\"m\",class=\"regular\",code=\"ok\"} 1\n";
        assert!(text.contains(ended), "{text}");
    }
}

#[tokio::test]
async fn a_state_is_of_the_model_that_is_asked_for() {
    let stage = Stage::with_policy(1, TWO_CLASSES).await;
    let state = stage
        .operator(Method::GET, "/state?model=m&entries=0", "")
        .await;
    assert_eq!(state.status, 200);
    assert_eq!(state.json()["models"][0]["name"], "m");
    for (query, status, code) in [
        ("model=none", 404, "model_not_found"),
        ("entries=1001", 400, "invalid_query"),
        ("entry=1", 400, "invalid_query"),
    ] {
        let answer = stage
            .operator(Method::GET, &format!("/state?{query}"), "")
            .await;
        assert_eq!(answer.status, status, "{query}");
        assert_eq!(answer.json()["error"]["code"], code, "{query}");
    }
}

#[tokio::test]
async fn the_page_is_at_the_operators_address_alone() {
    let stage = Stage::with_policy(1, TWO_CLASSES).await;
    let page = stage.operator(Method::GET, "/ui", "").await;
    assert_eq!(page.status, 200);
    assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
    for path in ["/ui", "/state", "/metrics"] {
        assert_eq!(stage.get(path).await.status, 404, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_92_names_that_clients_make_up_add_no_series() {
    let stage = Stage::with_policy(1, TWO_CLASSES).await;
    let body = completion(1, 8);
    assert_eq!(stage.post(COMPLETIONS, &[], &body).await.status, 200);
    stage.until_free().await;
    let metrics = async || stage.operator(Method::GET, "/metrics", "").await.text();
    let before = metrics().await.lines().count();
    for number in 0..500 {
        let (class, session) = (format!("class-{number}"), format!("session-{number}"));
        let headers = [
            ("x-dynamo-meta-policy-class", &*class),
            ("x-session-id", &session),
            ("x-request-id", &session),
        ];
        let answer = stage.post(COMPLETIONS, &headers, &body).await;
        assert_eq!(
            (answer.status, answer.header("x-tollgate-class")),
            (200, "regular")
        );
    }
    stage.until_free().await;
    let after = metrics().await;
    assert_eq!(after.lines().count(), before, "{after}");
    let names = after
        .lines()
        .filter(|line| line.starts_with("tollgate_ingress_unknown_names_total"));
    let names: u64 = names
        .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
        .sum();
    assert_eq!(names, 500);
    let body = json!({ "model": "no such", "prompt": "x" });
    assert_eq!(stage.post(COMPLETIONS, &[], &body).await.status, 404);
    let after = metrics().await;
    assert!(!after.contains("no such"), "{after}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn config_96_a_threshold_of_0_and_none_are_told_apart() {
    let unset = TWO_CLASSES.replacen(", prefill_busy_threshold: 0", "", 1);
    let stage = Stage::with_policy(1, &unset).await;
    let premium = [("x-dynamo-meta-policy-class", "premium")];
    let held = stage.hold().await;
    let waits = stage.send(1, &[]);
    stage.until_waiting(1).await;
    let answer = stage.post(COMPLETIONS, &premium, &completion(2, 512)).await;
    assert_eq!(answer.status, 200, "without a threshold nothing waits");
    let state = stage.state().await;
    let threshold =
        |class: usize| state["classes"][class]["policy"]["prefill_busy_threshold"].clone();
    assert_eq!((threshold(0), threshold(1)), (json!(null), json!(0)));
    held.abort();
    assert_eq!(waits.await.expect("an answer").status, 200);
    stage.until_free().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn config_97_fifteen_invalid_policies_are_refused_each_with_its_place() {
    let stage = Stage::with_policy(1, TWO_CLASSES).await;
    let changes = [
        ("quantum: 512", "quantum: 0"),
        ("quantum: 512", "quantum: -1"),
        (", quantum: 512", ""),
        ("quantum: 512", "quantum: many"),
        ("name: regular", "name: premium"),
        ("policy_classes:", "class_queueing: round\npolicy_classes:"),
        ("policy_classes:", "policy_clases:"),
        ("min_tokens: 0", "min_tokens: 1"),
        (
            "bucket: any}]",
            "bucket: any}, {min_tokens: 0, bucket: more}]",
        ),
        (
            "bucket: any}]",
            "bucket: any}, {min_tokens: 9, bucket: more}]",
        ),
        ("family: regular, cache_bucket: any,", "family: regular,"),
        (
            "default_policy_family: regular",
            "default_policy_family: nobody",
        ),
        (
            "uncached_isl_buckets: [{min_tokens: 0, bucket: any}]",
            "uncached_isl_buckets: []",
        ),
        (
            "threshold: 0}",
            "threshold: 0, request_queue_limit_per_worker: -3}",
        ),
        ("name: regular", "name: 're\\ngular'"),
    ];
    for (old, new) in changes {
        let policy = TWO_CLASSES.replace(old, new);
        assert_ne!(policy, TWO_CLASSES);
        let refused = stage.operator(Method::PUT, "/config", policy.clone()).await;
        assert_eq!(
            refused.refusal(),
            (400, "invalid_policy".to_owned()),
            "{policy}"
        );
        let details = &refused.json()["error"]["details"];
        let errors = details["errors"].as_array().expect("a list");
        assert!(!errors.is_empty(), "{policy}");
        for error in errors {
            assert!(
                error["line"].is_u64() && error["remedy"].is_string() && error["path"].is_string(),
                "{error}: {policy}"
            );
        }
    }
    let shown = stage.operator(Method::GET, "/config", "").await.json();
    assert_eq!(shown["generation"], 1);
}

#[tokio::test]
async fn a_worker_that_is_described_wrongly_is_refused_by_the_member() {
    let stage = Stage::with_policy(1, TWO_CLASSES).await;
    for (members, param, part) in [
        ("\"models\": [\"\"]", "models", "is empty"),
        ("\"models\": [\"m\", \"m\"]", "models", "name each once"),
        ("\"models\": [\" m\"]", "models", "blanks"),
        ("\"models\": [\"a\\nb\"]", "models", "control character"),
        (
            "\"models\": \"m\"",
            "models",
            "\\\"m\\\"; it must be a list of texts",
        ),
        ("\"taints\": [\"a,b\"]", "taints", "holds a comma"),
        (
            "\"taints\": [1]",
            "taints",
            "taints[0]: 1; it must be a text",
        ),
        ("\"ranks\": 65537", "ranks", "between 1 and 65536"),
        (
            "\"ranks\": \"2\"",
            "ranks",
            "a whole number from 1 to 65536",
        ),
        (
            "\"ranks\": 1e3",
            "ranks",
            "1000.0; it must be a whole number",
        ),
        (
            "\"max_batched_tokens\": -1",
            "max_batched_tokens",
            "at least 1",
        ),
    ] {
        let body = format!("{{\"url\": \"http://127.0.0.1:1\", {members}}}");
        let refused = stage.operator(Method::POST, "/workers", body).await;
        assert_eq!(refused.refusal(), (400, "invalid_body".to_owned()));
        assert_eq!(refused.json()["error"]["param"], param, "{members}");
        assert!(refused.text().contains(part), "{part}: {}", refused.text());
    }
    for url in [
        "3",
        "\"http://-\"",
        "\"http://h:0\"",
        "\"http://h/#x\"",
        "null",
    ] {
        let body = format!("{{\"url\": {url}}}");
        let refused = stage.operator(Method::POST, "/workers", body).await;
        assert_eq!(refused.refusal(), (400, "invalid_body".to_owned()));
        assert_eq!(refused.json()["error"]["param"], "url", "{url}");
    }
    let taints = "{\"taints\": [\"a\", \"a\"]}";
    let refused = stage
        .operator(Method::PUT, "/workers/1/taints", taints)
        .await;
    assert_eq!(refused.refusal(), (400, "invalid_body".to_owned()));
    let listed = stage.operator(Method::GET, "/workers", "").await.json();
    assert_eq!(
        listed["workers"].as_array().map(Vec::len),
        Some(1),
        "{listed}"
    );
}

#[tokio::test]
async fn a_worker_that_there_is_no_room_for_is_refused_and_not_known() {
    let workers = vec![worker_of("m", 50.0).await];
    let stage = Stage::before(workers, "", |config| {
        config.engine.endpoints = 8;
        config.workers[0].ranks = 5;
    })
    .await;
    let other = worker_of("m", 50.0).await;
    let url = format!("http://{}", other.address());
    for (ranks, models, code, part) in [
        (
            9,
            json!([]),
            "too_many_ranks",
            "a model has room for 8 more of 8",
        ),
        (
            4,
            json!(["m"]),
            "too_many_ranks",
            "model m has room for 3 more of 8",
        ),
        // Which models it serves is known once it was asked.
        (4, json!([]), "engine_refused", "endpoints"),
        (
            1,
            json!(["m", "b", "c", "d"]),
            "too_many_models",
            "d would be one more",
        ),
    ] {
        let body = json!({ "url": url, "ranks": ranks, "models": models }).to_string();
        let refused = stage.operator(Method::POST, "/workers", body).await;
        assert_eq!(
            refused.refusal(),
            (409, code.to_owned()),
            "{}",
            refused.text()
        );
        assert!(refused.text().contains(part), "{part}: {}", refused.text());
        let listed = stage.operator(Method::GET, "/workers", "").await.json();
        assert_eq!(
            listed["workers"].as_array().map(Vec::len),
            Some(1),
            "{listed}"
        );
    }
    let body = json!({ "url": url, "ranks": 3 }).to_string();
    let added = stage.operator(Method::POST, "/workers", body).await;
    assert_eq!(added.status, 201, "{}", added.text());
    assert_eq!(added.json()["standing"], "well");
}

#[tokio::test]
async fn bodies_and_numbers_that_are_wrong_are_refused_in_the_routers_words() {
    let stage = Stage::with_policy(1, TWO_CLASSES).await;
    for (method, path, body, part) in [
        (
            Method::POST,
            "/drain",
            "{\"seconds\": -1}",
            "seconds: -1; it must be a number",
        ),
        (
            Method::POST,
            "/drain",
            "{\"seconds\": \"9\"}",
            "seconds: \\\"9\\\"; it must be a number",
        ),
        (
            Method::POST,
            "/drain",
            "5",
            "the body is a number; it must be an object with seconds",
        ),
        (
            Method::PUT,
            "/workers/1/overloaded",
            "{}",
            "overloaded: it is missing; it must be true or false",
        ),
        (
            Method::PUT,
            "/workers/1/overloaded",
            "{\"overloaded\": 1}",
            "overloaded: 1; it must be true or false",
        ),
        (
            Method::PUT,
            "/workers/1/taints",
            "{\"taints\": {}}",
            "taints: an object; it must be a list of texts",
        ),
        (
            Method::PUT,
            "/workers/1/taints",
            "{",
            "not JSON: it breaks off at line 1, column 1",
        ),
        (
            Method::DELETE,
            "/workers/one",
            "",
            "\\\"one\\\" is no worker's number",
        ),
        (Method::DELETE, "/workers/%ff", "", "is no worker's number"),
    ] {
        let refused = stage.operator(method, path, body).await;
        let (status, _) = refused.refusal();
        assert_eq!(status, 400, "{path} {body}: {}", refused.text());
        assert!(refused.text().contains(part), "{part}: {}", refused.text());
    }
    assert_eq!(stage.get("/ready").await.status, 200, "it does not drain");
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_with_the_envelope() {
    let stage = Stage::with_policy(1, TWO_CLASSES).await;
    let body = " ".repeat((2 << 20) + 1);
    for (method, path) in [
        (Method::POST, "/workers"),
        (Method::PUT, "/config"),
        (Method::POST, "/drain"),
    ] {
        let refused = stage.operator(method, path, body.clone()).await;
        assert_eq!(
            refused.refusal(),
            (413, "body_too_large".to_owned()),
            "{path}"
        );
        assert!(
            refused.text().contains("larger than 2097152 bytes"),
            "{}",
            refused.text()
        );
    }
}
