//! Workers: listed, added, removed, marked.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use http::{Response, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::read;
use crate::config::WorkerConfig;
use crate::fleet::{ChangeError, watch};
use crate::refusal::{Refusal, Retry};
use crate::routes::json_response;
use crate::shared::Shared;

pub(super) async fn list(State(shared): State<Arc<Shared>>) -> Response<Body> {
    let workers = shared.fleet.workers();
    let workers: Vec<_> = workers.values().map(|worker| worker.report()).collect();
    json_response(StatusCode::OK, &json!({ "workers": workers }))
}

/// A worker as an operator writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewWorker {
    url: String,
    #[serde(default)]
    models: Vec<String>,
    ranks: Option<u32>,
    max_batched_tokens: Option<u64>,
    #[serde(default)]
    taints: Vec<String>,
}

pub(super) async fn add(State(shared): State<Arc<Shared>>, body: Bytes) -> Response<Body> {
    let config = match read::<NewWorker>(&body).and_then(config) {
        Ok(config) => config,
        Err(refusal) => return refusal.response(),
    };
    let added = shared
        .fleet
        .change(move |fleet| fleet.add_worker(config))
        .await;
    match added {
        Ok(worker) => {
            let first = watch(&shared.fleet, &shared.upstream, &worker);
            // So that the answer says how it stands.
            let _ = tokio::time::timeout(shared.config.health.timeout, first).await;
            let report = serde_json::to_value(worker.report()).unwrap_or_default();
            json_response(StatusCode::CREATED, &report)
        }
        Err(error) => refuse(&error).response(),
    }
}

fn config(new: NewWorker) -> Result<WorkerConfig, Refusal> {
    let invalid = |param: &str, message: String| {
        Err(Refusal::invalid("invalid_body", message).with_param(param))
    };
    let url = match new.url.parse() {
        Ok(url) => url,
        Err(error) => return invalid("url", format!("url: {error}")),
    };
    let ranks = new.ranks.unwrap_or(1);
    if !(1..=65_536).contains(&ranks) {
        return invalid(
            "ranks",
            format!("ranks: {ranks}; it must be between 1 and 65536"),
        );
    }
    if new.max_batched_tokens == Some(0) {
        let message = "max_batched_tokens: 0; it must be at least 1, or be left away";
        return invalid("max_batched_tokens", message.to_owned());
    }
    Ok(WorkerConfig {
        url,
        models: new.models,
        ranks,
        max_batched_tokens: new.max_batched_tokens,
        taints: new.taints,
    })
}

pub(super) async fn remove(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
) -> Response<Body> {
    let id = match number(&id) {
        Ok(id) => id,
        Err(refusal) => return refusal.response(),
    };
    let removed = shared
        .fleet
        .change(move |fleet| fleet.remove_worker(id))
        .await;
    done(&removed)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Overloaded {
    overloaded: bool,
}

pub(super) async fn set_overloaded(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    body: Bytes,
) -> Response<Body> {
    let asked = number(&id).and_then(|id| Ok((id, read::<Overloaded>(&body)?)));
    match asked {
        Ok((id, Overloaded { overloaded })) => {
            let set = move |fleet: &crate::fleet::Fleet| fleet.set_overloaded(id, overloaded);
            done(&shared.fleet.change(set).await)
        }
        Err(refusal) => refusal.response(),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Taints {
    taints: Vec<String>,
}

pub(super) async fn set_taints(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    body: Bytes,
) -> Response<Body> {
    let asked = number(&id).and_then(|id| Ok((id, read::<Taints>(&body)?)));
    match asked {
        Ok((id, Taints { taints })) => {
            let set = move |fleet: &crate::fleet::Fleet| fleet.set_taints(id, taints);
            done(&shared.fleet.change(set).await)
        }
        Err(refusal) => refusal.response(),
    }
}

fn number(id: &str) -> Result<u64, Refusal> {
    id.parse().map_err(|_| {
        let id: String = id.chars().take(40).collect();
        Refusal::invalid("invalid_worker", format!("{id:?} is no worker's number"))
    })
}

fn done(result: &Result<(), ChangeError>) -> Response<Body> {
    match result {
        Ok(()) => json_response(StatusCode::OK, &json!({ "done": true })),
        Err(error) => refuse(error).response(),
    }
}

fn refuse(error: &ChangeError) -> Refusal {
    let (status, code) = match error {
        ChangeError::UnknownWorker(_) => (StatusCode::NOT_FOUND, "unknown_worker"),
        ChangeError::Known(..) => (StatusCode::CONFLICT, "known_worker"),
        ChangeError::TooManyModels { .. } => (StatusCode::CONFLICT, "too_many_models"),
        ChangeError::Engine(_) => (StatusCode::CONFLICT, "engine_refused"),
    };
    Refusal::new(status, code, error.to_string(), Retry::Never)
}
