//! Workers: listed, added, removed, marked.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequestParts, Path, State};
use http::request::Parts;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::body::{Members, Whole, required};
use crate::config::{Fault, WorkerConfig, name_faults};
use crate::fleet::{ChangeError, Fleet, watch};
use crate::refusal::{Refusal, Retry};
use crate::routes::json_response;
use crate::shared::Shared;

pub(super) async fn list(State(shared): State<Arc<Shared>>) -> Response<Body> {
    let workers = shared.fleet.workers();
    let workers: Vec<_> = workers.values().map(|worker| worker.report()).collect();
    json_response(StatusCode::OK, &json!({ "workers": workers }))
}

pub(super) async fn add(
    State(shared): State<Arc<Shared>>,
    body: Whole,
) -> Result<Response<Body>, Refusal> {
    let config = config(&body.0)?;
    let added = shared
        .fleet
        .change(move |fleet| fleet.add_worker(config))
        .await;
    let worker = added.map_err(|error| refuse(&error))?;
    let first = watch(&shared.fleet, &shared.upstream, &worker);
    // So that the answer says how it stands.
    let first = tokio::time::timeout(shared.config.health.timeout, first).await;
    if let Ok(Ok(Err(error))) = first {
        let id = worker.id;
        // Somebody else may have been quicker.
        let _ = shared
            .fleet
            .change(move |fleet| fleet.remove_worker(id))
            .await;
        return Err(refuse(&error));
    }
    let report = serde_json::to_value(worker.report()).unwrap_or_default();
    Ok(json_response(StatusCode::CREATED, &report))
}

/// A worker as an operator writes it.
fn config(body: &[u8]) -> Result<WorkerConfig, Refusal> {
    const URL: &str = "an address such as http://host:port";
    const RANKS: &str = "a whole number from 1 to 65536";
    const TOKENS: &str = "a whole number, at least 1";
    let known = ["url", "models", "ranks", "max_batched_tokens", "taints"];
    let mut members = Members::read(body, &known)?;
    let url = members.take("url", URL, |value| value.as_str().map(str::to_owned))?;
    let url = required("url", URL, url)?.parse().map_err(|error| {
        Refusal::invalid("invalid_body", format!("url: {error}")).with_param("url")
    })?;
    let ranks = members.take("ranks", RANKS, |value| value.as_u64()?.try_into().ok())?;
    let config = WorkerConfig {
        models: members.take_texts("models")?.unwrap_or_default(),
        ranks: ranks.unwrap_or(1),
        max_batched_tokens: members.take("max_batched_tokens", TOKENS, Value::as_u64)?,
        taints: members.take_texts("taints")?.unwrap_or_default(),
        ..WorkerConfig::new(url)
    };
    without_faults(&config.faults())?;
    Ok(config)
}

/// Refuses a body for the first of its faults, and tells all of them.
fn without_faults(faults: &[Fault]) -> Result<(), Refusal> {
    let Some(first) = faults.first() else {
        return Ok(());
    };
    let all: Vec<String> = faults.iter().map(ToString::to_string).collect();
    let refusal = Refusal::invalid("invalid_body", first.to_string()).with_param(first.member);
    Err(refusal.with_details(json!({ "errors": all })))
}

pub(super) async fn remove(
    State(shared): State<Arc<Shared>>,
    id: Number,
) -> Result<Response<Body>, Refusal> {
    let removed = shared
        .fleet
        .change(move |fleet| fleet.remove_worker(id.0))
        .await;
    done(removed)
}

pub(super) async fn set_overloaded(
    State(shared): State<Arc<Shared>>,
    id: Number,
    body: Whole,
) -> Result<Response<Body>, Refusal> {
    const RIGHT: &str = "true or false";
    let mut members = Members::read(&body.0, &["overloaded"])?;
    let overloaded = members.take("overloaded", RIGHT, Value::as_bool)?;
    let overloaded = required("overloaded", RIGHT, overloaded)?;
    let set = move |fleet: &Fleet| fleet.set_overloaded(id.0, overloaded);
    done(shared.fleet.change(set).await)
}

pub(super) async fn set_taints(
    State(shared): State<Arc<Shared>>,
    id: Number,
    body: Whole,
) -> Result<Response<Body>, Refusal> {
    let mut members = Members::read(&body.0, &["taints"])?;
    let taints = members.take_texts("taints")?;
    let taints = required("taints", "a list of texts", taints)?;
    without_faults(&name_faults("taints", &taints))?;
    let set = move |fleet: &Fleet| fleet.set_taints(id.0, taints);
    done(shared.fleet.change(set).await)
}

/// The number of a worker, in the path.
pub(super) struct Number(u64);

impl<S: Send + Sync> FromRequestParts<S> for Number {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let id = Path::<String>::from_request_parts(parts, state).await;
        // What is not UTF-8 is no number either.
        let id = id.map_or_else(|_| parts.uri.path().to_owned(), |Path(id)| id);
        id.parse().map(Self).map_err(|_| {
            let id: String = id.chars().take(40).collect();
            let message = format!("{id:?} is no worker's number; GET /workers lists them");
            Refusal::invalid("invalid_worker", message)
        })
    }
}

fn done(result: Result<(), ChangeError>) -> Result<Response<Body>, Refusal> {
    result.map_err(|error| refuse(&error))?;
    Ok(json_response(StatusCode::OK, &json!({ "done": true })))
}

fn refuse(error: &ChangeError) -> Refusal {
    let (status, code, param) = match error {
        ChangeError::UnknownWorker(_) => (StatusCode::NOT_FOUND, "unknown_worker", None),
        ChangeError::Known(..) => (StatusCode::CONFLICT, "known_worker", Some("url")),
        ChangeError::TooManyModels { .. } => {
            (StatusCode::CONFLICT, "too_many_models", Some("models"))
        }
        ChangeError::TooManyRanks { .. } => (StatusCode::CONFLICT, "too_many_ranks", Some("ranks")),
        ChangeError::Engine(_) => (StatusCode::CONFLICT, "engine_refused", None),
    };
    let refusal = Refusal::new(status, code, error.to_string(), Retry::Never);
    match param {
        Some(param) => refusal.with_param(param),
        None => refusal,
    }
}
