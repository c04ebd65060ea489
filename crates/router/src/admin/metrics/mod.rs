//! Counters and gauges for Prometheus.
//!
//! A scrape reads the engine's statistics, the fleet and the router's own counters as they are then: nothing is
//! kept beside them but what makes a class's dispatches a counter ([`read`]). It waits neither for the arbiter
//! nor for a change of the fleet.
//!
//! Labels are classes and models of the policy, workers that an operator named, and words of fixed sets. So the
//! number of series is bounded by the engine's capacities, whatever clients send.
//!
//! | Module | What it holds |
//! |---|---|
//! | `encode` | writing families of samples |
//! | `figures` | the families: name, meaning, kind, and how each is read |
//! | `read` | what a scrape collects |

mod encode;
mod figures;
mod read;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use axum::body::Body;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use prometheus_client::encoding::{prometheus_text, text};
use prometheus_client::registry::Registry;

use self::read::{Peaks, Reading};
use crate::refusal::{RETRY_MIN, Refusal, Retry};
use crate::shared::Shared;

const OPENMETRICS: &str = "application/openmetrics-text";
const OPENMETRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How a scrape is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Prometheus's text format 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Form {
    /// What the client asks for; Prometheus's own text where it does not say.
    pub(super) fn asked_by(headers: &HeaderMap) -> Self {
        let accepted = headers.get_all(ACCEPT).iter();
        let mut accepted = accepted.filter_map(|value| value.to_str().ok());
        if accepted.any(|value| value.split(',').any(accepts_openmetrics)) {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }

    const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => prometheus_text::CONTENT_TYPE,
            Self::OpenMetrics => OPENMETRICS_TYPE,
        }
    }
}

/// Whether one range of an `Accept` header is OpenMetrics, and not refused by a weight of 0.
fn accepts_openmetrics(range: &str) -> bool {
    let mut parts = range.split(';').map(str::trim);
    let is_it = parts
        .next()
        .is_some_and(|name| name.eq_ignore_ascii_case(OPENMETRICS));
    let weight = |part: &str| part.strip_prefix("q=")?.parse::<f64>().ok();
    is_it && !parts.filter_map(weight).any(|weight| weight <= 0.0)
}

/// Answers scrapes.
#[derive(Debug)]
pub(super) struct Exporter {
    started: SystemTime,
    peaks: Arc<Peaks>,
}

impl Exporter {
    /// For a router that starts now.
    pub(super) fn new() -> Self {
        Self {
            started: SystemTime::now(),
            peaks: Arc::default(),
        }
    }

    /// The answer to one scrape.
    pub(super) async fn scrape(&self, shared: Arc<Shared>, form: Form) -> Response<Body> {
        let (started, peaks) = (self.started, Arc::clone(&self.peaks));
        // Many classes and workers take some milliseconds to write.
        let written = tokio::task::spawn_blocking(move || write(&shared, started, &peaks, form));
        let Ok(Ok(text)) = written.await else {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            let message = "the metrics cannot be written";
            return Refusal::new(status, "internal", message, Retry::After(RETRY_MIN)).response();
        };
        let mut response = Response::new(Body::from(text));
        let content_type = HeaderValue::from_static(form.content_type());
        response.headers_mut().insert(CONTENT_TYPE, content_type);
        response
    }
}

/// Everything, in the form that was asked for.
fn write(
    shared: &Shared,
    started: SystemTime,
    peaks: &Peaks,
    form: Form,
) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("tollgate");
    shared.telemetry.register(&mut registry);
    registry.register_collector(Box::new(Reading::take(shared, started, peaks)));
    let mut text = String::new();
    match form {
        Form::Prometheus => prometheus_text::encode(&mut text, &registry)?,
        Form::OpenMetrics => text::encode(&mut text, &registry)?,
    }
    Ok(text)
}
