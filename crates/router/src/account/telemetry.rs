//! What the router itself counts, beside the engine's own statistics.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use super::Facts;

/// Counters and histograms over requests. Their labels are models and classes that the router has, and codes of
/// a fixed set, so that no client adds a series.
#[derive(Clone, Debug)]
pub(crate) struct Telemetry {
    requests: Family<Ended, Counter>,
    wait: Family<Queued, Histogram, fn() -> Histogram>,
    first_byte: Family<Queued, Histogram, fn() -> Histogram>,
    duration: Family<Queued, Histogram, fn() -> Histogram>,
    completion_tokens: Family<Queued, Counter>,
    /// Hand-overs to workers that failed.
    pub(crate) hand_over_failures: Counter,
    /// Connections that were refused, since there were as many as there may be.
    pub(crate) refused_connections: Counter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Ended {
    model: Arc<str>,
    class: Arc<str>,
    code: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Queued {
    model: Arc<str>,
    class: Arc<str>,
}

/// From 0.25 ms to 524 s, doubling.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.000_25, 2.0, 22))
}

impl Default for Telemetry {
    fn default() -> Self {
        Self {
            requests: Family::default(),
            wait: Family::new_with_constructor(seconds),
            first_byte: Family::new_with_constructor(seconds),
            duration: Family::new_with_constructor(seconds),
            completion_tokens: Family::default(),
            hand_over_failures: Counter::default(),
            refused_connections: Counter::default(),
        }
    }
}

impl Telemetry {
    /// A request has ended.
    pub(super) fn ended(&self, facts: &Facts) {
        let (model, class) = (Arc::clone(&facts.model), Arc::clone(&facts.class));
        let ended = Ended {
            model: Arc::clone(&model),
            class: Arc::clone(&class),
            code: facts.code,
        };
        self.requests.get_or_create(&ended).inc();
        if class.is_empty() {
            return;
        }
        let queued = Queued { model, class };
        let time = |histogram: &Family<Queued, Histogram, fn() -> Histogram>, seconds: f64| {
            histogram.get_or_create(&queued).observe(seconds);
        };
        if let Some(wait) = facts.wait {
            time(&self.wait, wait.as_secs_f64());
        }
        if let Some(first_byte) = facts.first_byte {
            time(&self.first_byte, first_byte.as_secs_f64());
            time(&self.duration, facts.duration.as_secs_f64());
        }
        if let Some(usage) = facts.usage {
            let tokens = self.completion_tokens.get_or_create(&queued);
            tokens.inc_by(usage.completion_tokens);
        }
    }

    /// Names everything for a scrape.
    pub(crate) fn register(&self, registry: &mut Registry) {
        let requests = self.requests.clone();
        registry.register(
            "requests",
            "Requests that ended, by what became of them",
            requests,
        );
        let times = [
            ("wait", "From submission to dispatch", &self.wait),
            (
                "first_byte",
                "From a request's head to the answer's first byte",
                &self.first_byte,
            ),
            (
                "duration",
                "From a request's head to the answer's end",
                &self.duration,
            ),
        ];
        for (name, help, histogram) in times {
            registry.register_with_unit(name, help, Unit::Seconds, histogram.clone());
        }
        let tokens = self.completion_tokens.clone();
        registry.register(
            "completion_tokens",
            "Tokens that workers said they generated",
            tokens,
        );
        let failures = self.hand_over_failures.clone();
        registry.register(
            "hand_over_failures",
            "Hand-overs to workers that failed",
            failures,
        );
        let refused = self.refused_connections.clone();
        registry.register(
            "refused_connections",
            "Connections beyond the limit",
            refused,
        );
    }
}
