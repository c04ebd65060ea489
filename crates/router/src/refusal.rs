//! What a client is told when it gets no answer from a worker: one table from fate to status and code.
//!
//! | fate | status | code | again? |
//! |---|---|---|---|
//! | a queue limit | overload status | `queue_limit_requests`, `queue_limit_raw_isl_tokens`, `queue_limit_cached_tokens` | when the class has drained |
//! | it may not wait | overload status | `would_wait` | when the class has drained |
//! | all workers that may run it are overloaded | overload status | `all_eligible_overloaded`, `pinned_worker_overloaded` | soon |
//! | the router itself is full | overload status | `router_full` | soon |
//! | no worker | 503 | `no_workers`, `no_eligible_worker`, `pinned_worker_unknown`, `pinned_worker_unavailable` | soon |
//! | the router stops | 503 | `shutting_down` | soon, elsewhere |
//! | its deadline | 504 | `deadline_exceeded` | no: it was the client's own |
//! | every hand-over failed | 502 | `upstream_failed`, `upstream_invalid` | soon |
//! | no worker began to answer in time | 504 | `upstream_timeout` | soon |
//! | the pin cannot be | 400 | `pinned_worker_not_allowed`, `pinned_rank_out_of_range`, `pinned_taint_missing` | never |
//! | the request is wrong | 400, 404, 405, 408, 413, 431 | of what is wrong | never |
//!
//! The body is OpenAI's error envelope with the facts in `details`; `Retry-After` is in whole seconds, at least
//! 1, `retry-after-ms` in milliseconds. What no retry can cure carries `x-should-retry: false`.

use std::time::Duration;

use axum::body::Body;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use serde_json::{Value, json};
use tollgate::{AdmitError, FailReason, LimitKind, Outcome, Refusal as EngineRefusal, Rejection};

/// The shortest and the longest time after which a client is invited to come again.
pub(crate) const RETRY_MIN: Duration = Duration::from_secs(1);
pub(crate) const RETRY_MAX: Duration = Duration::from_secs(60);
/// Where a class was not seen to be served yet.
pub(crate) const RETRY_UNKNOWN: Duration = Duration::from_secs(2);

/// An answer of the router's own.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    /// Stable, for programs.
    pub(crate) code: &'static str,
    /// One short sentence, for people.
    pub(crate) message: String,
    /// The parameter that is wrong.
    pub(crate) param: Option<String>,
    /// The facts: an object.
    details: Option<Box<Value>>,
    pub(crate) retry: Retry,
}

/// Whether the same request may fare better later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    After(Duration),
    Never,
}

/// What the table needs to know beside the fate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Circumstances<'a> {
    pub(crate) overload_status: StatusCode,
    pub(crate) class: &'a str,
    /// How long the class's backlog takes to drain at its present rate.
    pub(crate) drain: Duration,
    /// How soon a worker may be back.
    pub(crate) next_look: Duration,
}

impl Refusal {
    /// A request that is wrong in itself.
    pub(crate) fn invalid(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message, Retry::Never)
    }

    pub(crate) fn new(
        status: StatusCode,
        code: &'static str,
        message: impl Into<String>,
        retry: Retry,
    ) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            param: None,
            details: None,
            retry,
        }
    }

    pub(crate) fn with_param(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }

    pub(crate) fn with_details(mut self, details: Value) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// Adds a fact.
    pub(crate) fn add_detail(&mut self, name: &str, fact: Value) {
        let details = self.details.get_or_insert_with(|| Box::new(json!({})));
        details[name] = fact;
    }

    pub(crate) fn shutting_down() -> Self {
        let message = "this router is shutting down and takes no new requests";
        let retry = Retry::After(RETRY_MIN);
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "shutting_down",
            message,
            retry,
        )
    }

    /// A request that was taken, and that the end of a drain cuts off.
    pub(crate) fn cut_off() -> Self {
        Self {
            message: "this router is shutting down, and its time for this request is over"
                .to_owned(),
            ..Self::shutting_down()
        }
    }

    /// The fate of a request that got no permit.
    pub(crate) fn of(error: &AdmitError, about: Circumstances<'_>) -> Self {
        match error {
            AdmitError::Ended { outcome, .. } => Self::of_outcome(*outcome, about),
            AdmitError::Refused(EngineRefusal::Invalid(reason)) => {
                Self::invalid("invalid_request", reason.to_string())
            }
            AdmitError::Refused(EngineRefusal::Closed) => Self::shutting_down(),
            AdmitError::Refused(EngineRefusal::Full { what }) => {
                Self::full(about.overload_status, json!({ "what": what.name() }))
            }
            AdmitError::TooMany { max } => Self::full(
                about.overload_status,
                json!({ "what": "requests", "limit": max }),
            ),
            // A kind of error that a later engine adds.
            other => Self::full(about.overload_status, json!({ "what": other.to_string() })),
        }
    }

    /// The router has no room of its own.
    pub(crate) fn full(status: StatusCode, details: Value) -> Self {
        let message = "this router holds as many requests as it may";
        Self::new(status, "router_full", message, Retry::After(RETRY_MIN)).with_details(details)
    }

    fn of_outcome(outcome: Outcome, about: Circumstances<'_>) -> Self {
        match outcome {
            Outcome::Rejected(rejection) => Self::of_rejection(rejection, about),
            Outcome::Expired => Self::new(
                StatusCode::GATEWAY_TIMEOUT,
                "deadline_exceeded",
                "no worker had room before the request's deadline",
                Retry::Never,
            )
            .with_details(json!({ "class": about.class })),
            Outcome::Failed(reason) => Self::of_failure(reason, about),
            Outcome::ShuttingDown => Self::cut_off(),
            // Nobody reads it: its client is gone.
            Outcome::Cancelled => Self::invalid("cancelled", "the request was cancelled"),
        }
    }

    fn of_rejection(rejection: Rejection, about: Circumstances<'_>) -> Self {
        let class = about.class;
        let (code, unit) = match rejection.kind {
            LimitKind::Requests => ("queue_limit_requests", "requests"),
            LimitKind::RawIslTokens => ("queue_limit_raw_isl_tokens", "prompt tokens"),
            LimitKind::CachedTokens => ("queue_limit_cached_tokens", "cached prompt tokens"),
            LimitKind::MayWait => ("would_wait", ""),
        };
        let message = match rejection.kind {
            LimitKind::MayWait => {
                format!("class {class} lets no request wait, and no worker has room now")
            }
            _ => format!(
                "class {class} is full: {} {unit} wait, and its limit is {}",
                rejection.current, rejection.limit
            ),
        };
        let details = json!({
            "class": class,
            "limit_kind": rejection.kind.code(),
            "current": rejection.current,
            "limit": rejection.limit,
            "workers": rejection.workers,
        });
        let retry = Retry::After(about.drain.clamp(RETRY_MIN, RETRY_MAX));
        Self::new(about.overload_status, code, message, retry).with_details(details)
    }

    fn of_failure(reason: FailReason, about: Circumstances<'_>) -> Self {
        const UNAVAILABLE: StatusCode = StatusCode::SERVICE_UNAVAILABLE;
        const BAD: StatusCode = StatusCode::BAD_REQUEST;
        let later = Retry::After(about.next_look.clamp(RETRY_MIN, RETRY_MAX));
        let (status, message, retry) = match reason {
            FailReason::NoWorkers => (UNAVAILABLE, "no worker is known for this model", later),
            FailReason::NoEligibleWorker => (
                UNAVAILABLE,
                "no worker that may run this request is available",
                later,
            ),
            FailReason::AllEligibleOverloaded => (
                about.overload_status,
                "every worker that may run this request is overloaded",
                later,
            ),
            FailReason::PinnedWorkerOverloaded => (
                about.overload_status,
                "the worker that this request is bound to is overloaded",
                later,
            ),
            FailReason::HandOff => (
                StatusCode::BAD_GATEWAY,
                "the request was handed to as many workers as it may be, and each failed",
                later,
            ),
            FailReason::PinnedWorkerUnknown => (
                UNAVAILABLE,
                "the worker that this request is bound to is not known",
                later,
            ),
            FailReason::PinnedWorkerUnavailable => (
                UNAVAILABLE,
                "the worker that this request is bound to is not available",
                later,
            ),
            FailReason::PinnedWorkerNotAllowed => (
                BAD,
                "the worker that this request is bound to may not run it",
                Retry::Never,
            ),
            FailReason::PinnedRankOutOfRange => (
                BAD,
                "the worker that this request is bound to has no such rank",
                Retry::Never,
            ),
            FailReason::PinnedTaintMissing => (
                BAD,
                "the worker that this request is bound to lacks a taint",
                Retry::Never,
            ),
        };
        let code = match reason {
            FailReason::HandOff => "upstream_failed",
            _ => reason.code(),
        };
        Self::new(status, code, message, retry).with_details(json!({ "class": about.class }))
    }

    /// OpenAI's `type` of an error.
    fn kind(&self) -> &'static str {
        match self.status.as_u16() {
            404 => "not_found_error",
            429 => "rate_limit_error",
            529 => "overloaded_error",
            400..=499 => "invalid_request_error",
            _ => "server_error",
        }
    }

    /// The envelope.
    pub(crate) fn body(&self) -> Value {
        let mut error = json!({
            "message": self.message,
            "type": self.kind(),
            "param": self.param,
            "code": self.code,
        });
        if let Some(details) = &self.details {
            error["details"] = Value::clone(details);
        }
        json!({ "error": error })
    }

    /// The whole response.
    pub(crate) fn response(&self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.body().to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        match self.retry {
            Retry::After(after) => {
                let millis = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
                headers.insert(
                    RETRY_AFTER,
                    HeaderValue::from(millis.div_ceil(1_000).max(1)),
                );
                let name = HeaderName::from_static("retry-after-ms");
                headers.insert(name, HeaderValue::from(millis));
            }
            Retry::Never => {
                let name = HeaderName::from_static("x-should-retry");
                headers.insert(name, HeaderValue::from_static("false"));
            }
        }
        response
    }
}

impl axum::response::IntoResponse for Refusal {
    fn into_response(self) -> Response<Body> {
        self.response()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn about() -> Circumstances<'static> {
        Circumstances {
            overload_status: StatusCode::TOO_MANY_REQUESTS,
            class: "premium",
            drain: Duration::from_millis(9_400),
            next_look: Duration::from_secs(5),
        }
    }

    fn rejected(kind: LimitKind) -> Outcome {
        Outcome::Rejected(Rejection {
            kind,
            current: 8,
            limit: 8,
            workers: 4,
        })
    }

    fn all() -> Vec<Outcome> {
        let limits = LimitKind::ALL.into_iter().map(rejected);
        let failures = FailReason::ALL.into_iter().map(Outcome::Failed);
        limits
            .chain(failures)
            .chain([Outcome::Expired, Outcome::ShuttingDown])
            .collect()
    }

    #[test]
    fn errors_89_every_outcome_has_one_status_and_a_code_of_its_own() {
        let refusals: Vec<_> = all()
            .into_iter()
            .map(|fate| Refusal::of_outcome(fate, about()))
            .collect();
        let codes: BTreeSet<_> = refusals.iter().map(|refusal| refusal.code).collect();
        assert_eq!(codes.len(), refusals.len());
        assert!(
            refusals
                .iter()
                .all(|refusal| refusal.status.as_u16() != 500)
        );
    }

    #[test]
    fn errors_88_overload_and_unavailability_are_told_apart() {
        let limit = Refusal::of_outcome(rejected(LimitKind::Requests), about());
        assert_eq!(
            (limit.status.as_u16(), limit.code),
            (429, "queue_limit_requests")
        );
        let none = Refusal::of_outcome(Outcome::Failed(FailReason::NoWorkers), about());
        assert_eq!((none.status.as_u16(), none.code), (503, "no_workers"));
        let overloaded = Outcome::Failed(FailReason::AllEligibleOverloaded);
        assert_eq!(
            Refusal::of_outcome(overloaded, about()).status.as_u16(),
            429
        );
    }

    #[test]
    fn errors_90_a_message_is_one_short_sentence_without_inner_names() {
        for fate in all() {
            let message = Refusal::of_outcome(fate, about()).message;
            assert!(
                message.len() < 120 && !message.contains(['\n', '{', ':', '_'])
                    || message.contains("is full: "),
                "{message}"
            );
            assert!(!message.ends_with('.'), "{message}");
        }
    }

    #[test]
    fn errors_93_a_refusal_by_a_limit_says_when_the_class_has_drained() {
        let refusal = Refusal::of_outcome(rejected(LimitKind::Requests), about());
        let response = refusal.response();
        assert_eq!(response.headers()["retry-after"], "10");
        assert_eq!(response.headers()["retry-after-ms"], "9400");
        assert!(!response.headers().contains_key("x-should-retry"));
        let quick = Circumstances {
            drain: Duration::from_millis(3),
            ..about()
        };
        let response = Refusal::of_outcome(rejected(LimitKind::Requests), quick).response();
        assert_eq!(response.headers()["retry-after"], "1");
    }

    #[test]
    fn what_no_retry_can_cure_says_so() {
        let response = Refusal::invalid("invalid_json", "the body is not JSON").response();
        assert_eq!(response.headers()["x-should-retry"], "false");
        assert!(!response.headers().contains_key("retry-after"));
        assert_eq!(response.headers()["content-type"], "application/json");
    }

    #[test]
    fn the_overload_status_is_settable_and_changes_nothing_else() {
        let status = StatusCode::from_u16(529).expect("a status");
        let about = Circumstances {
            overload_status: status,
            ..about()
        };
        let refusal = Refusal::of_outcome(rejected(LimitKind::RawIslTokens), about);
        assert_eq!(refusal.status, status);
        let error = &refusal.body()["error"];
        assert_eq!(error["type"], "overloaded_error");
        assert_eq!(error["code"], "queue_limit_raw_isl_tokens");
        let details = json!({
            "class": "premium", "limit_kind": "raw_isl_tokens", "current": 8, "limit": 8, "workers": 4
        });
        assert_eq!(error["details"], details);
        let none = Outcome::Failed(FailReason::NoWorkers);
        assert_eq!(Refusal::of_outcome(none, about).status.as_u16(), 503);
    }
}
