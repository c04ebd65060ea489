//! What is in force, and putting another policy in force.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use http::{HeaderName, Response, StatusCode};
use serde_json::{Map, Value, json};
use tollgate::Idle;

use super::body::Whole;
use crate::config::{
    AccessLog, Config, EngineSizes, HeaderNames, Limits, OnLoss, Timeouts, TokenizerConfig,
};
use crate::fleet::{Fleet, PolicyFailure, Reloaded};
use crate::routes::json_response;
use crate::shared::Shared;

/// The settings in effect, by the names of their flags.
fn settings(config: &Config) -> Map<String, Value> {
    let parts = [
        basics(config),
        header_names(&config.headers),
        limits_and_times(&config.limits, &config.timeouts),
        watching(config),
        sizes(&config.engine),
    ];
    let settings = parts.into_iter().flatten();
    settings
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

type Part = Vec<(&'static str, Value)>;

fn seconds(time: Duration) -> Value {
    json!(time.as_secs_f64())
}

fn path(path: Option<&PathBuf>) -> Value {
    json!(path.map(|path| path.display().to_string()))
}

/// Files by models.
fn tokenizers(tokenizers: &[TokenizerConfig]) -> Value {
    let files = tokenizers.iter().map(|tokenizer| {
        let file = tokenizer.file.display().to_string();
        (tokenizer.model.clone(), json!(file))
    });
    Value::Object(files.collect())
}

fn basics(config: &Config) -> Part {
    let threshold = config.queue_threshold.as_ref();
    let log = match config.access_log {
        AccessLog::Off => "off",
        AccessLog::Text => "text",
        AccessLog::Json => "json",
    };
    vec![
        ("policy", path(config.policy.as_ref())),
        ("queue_threshold", json!(threshold.map(ToString::to_string))),
        ("max_batched_tokens", json!(config.max_batched_tokens)),
        ("overload_status", json!(config.overload_status)),
        ("access_log", json!(log)),
        ("drain", seconds(config.drain)),
        ("worker_ca", path(config.worker_ca.as_ref())),
        ("tokenizers", tokenizers(&config.tokenizers)),
        ("allow_pins", json!(config.allow_pins)),
    ]
}

fn header_names(names: &HeaderNames) -> Part {
    let told = |name: &Option<HeaderName>| json!(name.as_ref().map_or("off", HeaderName::as_str));
    vec![
        ("class_header", json!(names.class.as_str())),
        (
            "strict_priority_header",
            json!(names.strict_priority.as_str()),
        ),
        ("priority_header", json!(names.priority.as_str())),
        ("deadline_header", json!(names.deadline.as_str())),
        ("session_header", json!(names.session.as_str())),
        ("worker_header", json!(names.worker.as_str())),
        ("taints_header", json!(names.taints.as_str())),
        ("rank_header", json!(names.rank.as_str())),
        ("told_class_header", told(&names.told_class)),
        ("told_wait_header", told(&names.told_wait)),
        ("told_worker_header", told(&names.told_worker)),
    ]
}

fn limits_and_times(limits: &Limits, timeouts: &Timeouts) -> Part {
    vec![
        ("body_bytes", json!(limits.body_bytes)),
        ("buffered_bytes", json!(limits.buffered_bytes)),
        ("header_bytes", json!(limits.header_bytes)),
        ("client_headers_timeout", seconds(timeouts.client_headers)),
        ("client_body_timeout", seconds(timeouts.client_body)),
        ("client_write_timeout", seconds(timeouts.client_write)),
        ("connect_timeout", seconds(timeouts.connect)),
        ("first_byte_timeout", seconds(timeouts.first_byte)),
        ("idle_timeout", seconds(timeouts.idle)),
    ]
}

fn watching(config: &Config) -> Part {
    let (health, affinity) = (&config.health, &config.affinity);
    let on_loss = match affinity.on_loss {
        OnLoss::Fail => "fail",
        OnLoss::Rehome => "rehome",
    };
    vec![
        ("health_path", json!(health.path)),
        ("health_interval", seconds(health.interval)),
        ("health_timeout", seconds(health.timeout)),
        ("health_eject_after", json!(health.eject_after)),
        ("health_readmit_after", json!(health.readmit_after)),
        ("session_ttl", seconds(affinity.ttl)),
        ("sessions", json!(affinity.capacity)),
        ("session_on_loss", json!(on_loss)),
        ("prefix_blocks", json!(config.prefix_blocks)),
    ]
}

fn sizes(engine: &EngineSizes) -> Part {
    // As it is set, where it can be.
    let idle = if engine.idle == Idle::default() {
        "spin-then-park".to_owned()
    } else {
        engine.idle.to_string()
    };
    vec![
        ("models", json!(engine.models)),
        ("slots", json!(engine.slots)),
        ("classes", json!(engine.classes)),
        ("model_workers", json!(engine.workers)),
        ("endpoints", json!(engine.endpoints)),
        ("idle", json!(idle)),
        ("core", json!(engine.core)),
    ]
}

/// All that is in effect: what the router listens at, and its settings.
fn effective(shared: &Shared) -> Map<String, Value> {
    let mut effective = Map::new();
    if let Some(bound) = shared.bound.get() {
        effective.insert("listen".to_owned(), json!(bound.listen.to_string()));
        effective.insert("admin".to_owned(), json!(bound.admin.to_string()));
        effective.insert("connections".to_owned(), json!(bound.connections));
    }
    effective.extend(settings(&shared.config));
    effective
}

/// The effective configuration, a line for each setting; what is unset says so.
pub(crate) fn describe(shared: &Shared) -> String {
    let mut text = String::new();
    let mut line = |key: &str, value: String| {
        let _ = writeln!(text, "{key:24} {value}");
    };
    for (key, value) in effective(shared) {
        line(&key, plain(&value));
    }
    for worker in shared.fleet.workers().values() {
        line("worker", worker.describe());
    }
    text
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => "unset".to_owned(),
        Value::Object(members) if members.is_empty() => "unset".to_owned(),
        // As the environment writes it.
        Value::Object(members) => {
            let pairs = members.iter();
            let pairs = pairs.map(|(key, value)| format!("{key}={}", plain(value)));
            pairs.collect::<Vec<_>>().join(",")
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

pub(super) async fn show(State(shared): State<Arc<Shared>>) -> Response<Body> {
    let policy = shared.fleet.policy();
    let models = shared.fleet.models();
    let profiles: Map<String, Value> = models
        .iter()
        .map(|model| {
            let profile = policy.profile(Some(&model.name));
            (model.name.to_string(), json!(profile.to_file()))
        })
        .collect();
    let body = json!({
        "generation": shared.fleet.generation(),
        "settings": effective(&shared),
        "policies": profiles,
    });
    json_response(StatusCode::OK, &body)
}

/// Puts the policy of the body in force. It lasts until the next reload: the file is not written.
pub(super) async fn replace(
    State(shared): State<Arc<Shared>>,
    Whole(body): Whole,
) -> Response<Body> {
    let done = shared
        .fleet
        .change(move |fleet| fleet.reload_text("body", &body));
    answer(&shared, done.await)
}

pub(super) async fn reload(State(shared): State<Arc<Shared>>) -> Response<Body> {
    let done = shared.fleet.change(Fleet::reload_file).await;
    answer(&shared, done)
}

fn answer(shared: &Shared, done: Result<Reloaded, PolicyFailure>) -> Response<Body> {
    match done {
        Ok(reloaded) => {
            let body = json!({ "generation": reloaded.generation, "warnings": reloaded.warnings });
            json_response(StatusCode::OK, &body)
        }
        Err(failure) => {
            let mut response = invalid(&failure);
            if !shared.is_serving() {
                *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            }
            response
        }
    }
}

fn invalid(failure: &PolicyFailure) -> Response<Body> {
    let body = json!({
        "error": {
            "message": "the policy is not in force, and nothing has changed",
            "type": "invalid_request_error",
            "param": null,
            "code": "invalid_policy",
            "details": { "errors": failure.errors() },
        }
    });
    json_response(StatusCode::BAD_REQUEST, &body)
}
