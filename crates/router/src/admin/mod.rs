//! What operators may ask for, at an address of their own.
//!
//! | path | method | what |
//! |---|---|---|
//! | `/metrics` | GET | counters and gauges, for Prometheus or OpenMetrics |
//! | `/state` | GET | who waits, why, behind which gate |
//! | `/workers` | GET, POST | the workers; one more |
//! | `/workers/{id}` | DELETE | one less |
//! | `/workers/{id}/overloaded` | PUT | whether it takes requests for now |
//! | `/workers/{id}/taints` | PUT | what it carries |
//! | `/config` | GET, PUT | what is in force; another policy |
//! | `/config/reload` | POST | the policy file, read again |
//! | `/drain` | POST | the way out |
//! | `/ui` | GET | a page that shows the state live |
//! | `/health`, `/ready` | GET | as on the other address |
//!
//! Whoever reaches the address may do all of it. Pages of other sites may not, though their scripts run beside a
//! browser's loopback address: see [`guard`].

mod config;
#[cfg(test)]
mod fixture;
mod guard;
mod metrics;
pub mod state;
mod ui;
mod workers;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::routing::{delete, get, post, put};
use http::{HeaderMap, Response, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

pub(crate) use self::config::describe;
use crate::refusal::Refusal;
use crate::routes::{json_response, unknown_path, wrong_method};
use crate::shared::Shared;

/// The routes of the address that operators come to.
pub(crate) fn routes(shared: Arc<Shared>) -> Router {
    let exporter = Arc::new(metrics::Exporter::new());
    let scrape = move |State(shared): State<Arc<Shared>>, headers: HeaderMap| {
        let exporter = Arc::clone(&exporter);
        async move {
            exporter
                .scrape(shared, metrics::Form::asked_by(&headers))
                .await
        }
    };
    Router::new()
        .route("/metrics", get(scrape))
        .route("/state", get(state::show))
        .route("/ui", get(ui::show))
        .route("/workers", get(workers::list).post(workers::add))
        .route("/workers/{id}", delete(workers::remove))
        .route("/workers/{id}/overloaded", put(workers::set_overloaded))
        .route("/workers/{id}/taints", put(workers::set_taints))
        .route("/config", get(config::show).put(config::replace))
        .route("/config/reload", post(config::reload))
        .route("/drain", post(drain))
        .route("/health", get(crate::routes::health))
        .route("/ready", get(crate::routes::ready))
        .method_not_allowed_fallback(wrong_method)
        .fallback(unknown_path)
        .layer(axum::middleware::from_fn_with_state(
            Arc::clone(&shared),
            guard::guard,
        ))
        .with_state(shared)
}

/// Reads a body of an operator; an empty one is `{}`.
fn read<T: DeserializeOwned>(body: &Bytes) -> Result<T, Refusal> {
    let text: &[u8] = if body.is_empty() { b"{}" } else { body };
    serde_json::from_slice(text)
        .map_err(|error| Refusal::invalid("invalid_body", error.to_string()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Drain {
    /// How long it may take; the setting's where it is not given.
    seconds: Option<f64>,
}

async fn drain(State(shared): State<Arc<Shared>>, body: Bytes) -> Response<Body> {
    let drain: Drain = match read(&body) {
        Ok(drain) => drain,
        Err(refusal) => return refusal.response(),
    };
    let within = match drain.seconds.map(Duration::try_from_secs_f64) {
        None => shared.config.drain,
        Some(Ok(within)) => within,
        Some(Err(_)) => {
            let message = "seconds must be a number from 0 to some billions";
            return Refusal::invalid("invalid_body", message)
                .with_param("seconds")
                .response();
        }
    };
    shared.drain(within).await;
    let body =
        json!({ "draining": true, "within_seconds": within.as_secs_f64(), "open": shared.open() });
    json_response(StatusCode::ACCEPTED, &body)
}
