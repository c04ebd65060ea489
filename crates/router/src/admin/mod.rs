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

mod body;
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
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, State};
use axum::routing::{delete, get, post, put};
use http::{HeaderMap, Response, StatusCode};
use serde_json::json;

use self::body::{BODY_BYTES_MAX, Members, Whole};
pub(crate) use self::config::describe;
use crate::config::DAY;
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
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(axum::middleware::from_fn_with_state(
            Arc::clone(&shared),
            guard::guard,
        ))
        .with_state(shared)
}

async fn drain(State(shared): State<Arc<Shared>>, body: Whole) -> Result<Response<Body>, Refusal> {
    const RIGHT: &str = "a number of seconds from 0 to 86400";
    let mut members = Members::read(&body.0, &["seconds"])?;
    let within = members.take("seconds", RIGHT, |value| {
        let within = Duration::try_from_secs_f64(value.as_f64()?).ok()?;
        (within <= DAY).then_some(within)
    })?;
    let within = within.unwrap_or(shared.config.drain);
    let within = shared.drain(within).await;
    let body =
        json!({ "draining": true, "within_seconds": within.as_secs_f64(), "open": shared.open() });
    Ok(json_response(StatusCode::ACCEPTED, &body))
}
