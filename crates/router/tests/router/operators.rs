//! What operators see, over HTTP.

use http::Method;
use serde_json::json;

use crate::support::{COMPLETIONS, Stage, TWO_CLASSES, ask};

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
