//! What clients may ask for.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use serde_json::{Value, json};

use crate::cost::Api;
use crate::proxy;
use crate::refusal::{Refusal, Retry};
use crate::shared::Shared;

/// The routes of the address that clients come to.
pub(crate) fn routes(shared: Arc<Shared>) -> Router {
    let mut router = Router::new();
    for api in Api::ALL {
        let handler = move |State(shared): State<Arc<Shared>>, request: Request<Body>| {
            proxy::serve(shared, api, request)
        };
        router = router.route(api.path(), post(handler));
    }
    router
        .route("/v1/models", get(models))
        .route("/v1/models/{*model}", get(model))
        .route("/health", get(health))
        .route("/ready", get(ready))
        .method_not_allowed_fallback(wrong_method)
        .fallback(unknown_path)
        .with_state(shared)
}

/// An answer of the router's own.
pub(crate) fn json_response(status: StatusCode, body: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

fn entry(name: &str) -> Value {
    json!({ "id": name, "object": "model", "created": 0, "owned_by": "tollgate" })
}

/// The models that at least one known worker serves.
fn served(shared: &Shared) -> Vec<String> {
    let workers = shared.fleet.workers();
    let mut names: Vec<_> = workers
        .values()
        .flat_map(|worker| worker.models())
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

async fn models(State(shared): State<Arc<Shared>>) -> Response<Body> {
    let data: Vec<_> = served(&shared).iter().map(|name| entry(name)).collect();
    json_response(StatusCode::OK, &json!({ "object": "list", "data": data }))
}

async fn model(
    State(shared): State<Arc<Shared>>,
    name: Result<Path<String>, PathRejection>,
) -> Response<Body> {
    let Ok(Path(name)) = name else {
        let message = "the model's name is not UTF-8";
        return Refusal::invalid("invalid_request", message)
            .with_param("model")
            .response();
    };
    if served(&shared).contains(&name) {
        return json_response(StatusCode::OK, &entry(&name));
    }
    let name: String = name.chars().take(100).collect();
    let message = format!("there is no model {name:?}");
    Refusal::new(
        StatusCode::NOT_FOUND,
        "model_not_found",
        message,
        Retry::Never,
    )
    .with_param("model")
    .response()
}

/// The process lives, and so does its arbiter.
pub(crate) async fn health(State(shared): State<Arc<Shared>>) -> Response<Body> {
    let is_lost = shared.is_serving() && shared.fleet.handles.closed().is_some();
    if is_lost {
        let body = json!({ "status": "the arbiter is lost" });
        return json_response(StatusCode::INTERNAL_SERVER_ERROR, &body);
    }
    json_response(StatusCode::OK, &json!({ "status": "ok" }))
}

/// New requests are taken, and a worker is there for some.
pub(crate) async fn ready(State(shared): State<Arc<Shared>>) -> Response<Body> {
    let (status, text) = if !shared.is_serving() {
        (StatusCode::SERVICE_UNAVAILABLE, "draining")
    } else if !shared.fleet.is_ready() {
        (StatusCode::SERVICE_UNAVAILABLE, "no worker is well")
    } else {
        (StatusCode::OK, "ready")
    };
    json_response(status, &json!({ "status": text }))
}

/// There is such a path, for another method.
pub(crate) async fn wrong_method(request: Request<Body>) -> Response<Body> {
    let method = request.method();
    let message = format!("{} does not take {method}", request.uri().path());
    let status = StatusCode::METHOD_NOT_ALLOWED;
    Refusal::new(status, "method_not_allowed", message, Retry::Never).response()
}

/// There is no such path.
pub(crate) async fn unknown_path(request: Request<Body>) -> Response<Body> {
    let path: String = request.uri().path().chars().take(100).collect();
    let message = format!("there is no path {path} here");
    Refusal::new(StatusCode::NOT_FOUND, "not_found", message, Retry::Never).response()
}
