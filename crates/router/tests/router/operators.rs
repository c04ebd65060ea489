//! What operators see, over HTTP.

use http::Method;
use serde_json::json;

use crate::support::{COMPLETIONS, Stage, TWO_CLASSES, ask, completion};

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
