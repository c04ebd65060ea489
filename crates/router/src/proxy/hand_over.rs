//! Handing a request to a worker, until one begins to answer.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::header::HeaderValue;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use serde_json::json;
use tollgate::{AdmitError, Outcome, Permit};

use super::quote::{Bound, Quote};
use super::{admit, leave, refuse, went};
use crate::account::Account;
use crate::config::OnLoss;
use crate::cost::Api;
use crate::fleet::{Severity, Worker};
use crate::refusal::Refusal;
use crate::shared::Shared;
use crate::upstream::plain;

/// What a worker is sent.
#[derive(Debug)]
pub(super) struct Order<'r> {
    pub(super) api: Api,
    pub(super) headers: HeaderMap,
    pub(super) query: Option<&'r str>,
    pub(super) body: &'r Bytes,
}

/// An answer that has begun.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) head: http::response::Parts,
    /// The first part of its body; none: it is empty.
    pub(super) first: Option<Bytes>,
    pub(super) rest: Incoming,
}

/// Why a hand-over failed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Failure {
    /// The worker was removed in the meantime.
    Gone,
    /// It cannot be connected to.
    Unreachable(String),
    /// It broke off before the first byte.
    Broken(String),
    /// It said that it cannot serve now.
    Status(StatusCode),
    /// Nothing came.
    Timeout(Duration),
}

impl Failure {
    fn text(&self) -> String {
        match self {
            Self::Gone => "it was removed".to_owned(),
            Self::Unreachable(why) | Self::Broken(why) => why.clone(),
            Self::Status(status) => format!("status {}", status.as_u16()),
            Self::Timeout(within) => format!("no first byte within {} s", within.as_secs_f64()),
        }
    }
}

/// Hands a request over. Where a worker fails before the first byte of its answer, the request goes back to its
/// place and waits for its next dispatch (S9.4).
///
/// # Errors
/// It was handed over as often as it may be, or ended while it waited again.
pub(super) async fn hand_over(
    shared: &Shared,
    order: &Order<'_>,
    quote: &mut Quote,
    mut permit: Permit,
    account: &mut Account,
) -> Result<(Permit, Begun), Refusal> {
    loop {
        let endpoint = permit.endpoint();
        let failure = match shared.fleet.worker(endpoint.worker) {
            None => Failure::Gone,
            Some(worker) => match attempt(shared, order, &worker, endpoint.rank).await {
                Ok(begun) => {
                    worker.hand_over_succeeded();
                    permit.prefill_done();
                    account.facts.first_byte = Some(account.began.elapsed());
                    return Ok((permit, begun));
                }
                Err(failure) => {
                    report(shared, &worker, &failure).await;
                    failure
                }
            },
        };
        shared.telemetry.hand_over_failures.inc();
        let rehomes = shared.config.affinity.on_loss == OnLoss::Rehome;
        if matches!(quote.bound, Bound::Session(_)) && rehomes {
            // Its place is in the lane of a worker that fails: it takes a new one.
            leave(quote, endpoint);
            drop(permit);
            permit = admit(shared, quote, account).await?;
            continue;
        }
        permit = match permit.requeue().await {
            Ok(permit) => permit,
            Err(error) => {
                let refusal = refuse(shared, quote, account, &error);
                return Err(explain(refusal, &error, endpoint.worker.0, &failure));
            }
        };
        went(quote, &permit, account);
    }
}

/// Adds the last failure to what the client is told.
fn explain(refusal: Refusal, error: &AdmitError, worker: u64, failure: &Failure) -> Refusal {
    if !matches!(
        error.outcome(),
        Some(Outcome::Failed(tollgate::FailReason::HandOff))
    ) {
        return refusal;
    }
    let mut refusal = refusal;
    if matches!(failure, Failure::Timeout(_)) {
        refusal.status = StatusCode::GATEWAY_TIMEOUT;
        refusal.code = "upstream_timeout";
    }
    refusal.add_detail("last_worker", json!(worker));
    refusal.add_detail("last_failure", json!(failure.text()));
    refusal
}

/// Counts a failure against a worker. One that nobody can connect to is taken out, and one that fails one
/// hand-over after another; a single failure may be the request's own doing, and has the worker looked at.
async fn report(shared: &Shared, worker: &Worker, failure: &Failure) {
    let (id, why) = (worker.id, failure.text());
    worker.hand_over_failed(&why);
    let is_dead = matches!(failure, Failure::Unreachable(_));
    let told = shared.fleet.change(move |fleet| {
        if is_dead {
            fleet.saw_failing(id, &why, Severity::Dead)
        } else {
            fleet.relieve(id)
        }
    });
    // The engine is closed: there is nobody to tell.
    let _ = told.await;
    worker.suspect();
}

async fn attempt(
    shared: &Shared,
    order: &Order<'_>,
    worker: &Worker,
    rank: u32,
) -> Result<Begun, Failure> {
    worker.requests.fetch_add(1, Ordering::Relaxed);
    let request = request(shared, order, worker, rank);
    let within = shared.config.timeouts.first_byte;
    let begun = async {
        let response = shared.upstream.send(request).await;
        let response = response.map_err(|error| match error.is_connect() {
            true => Failure::Unreachable(plain(&error)),
            false => Failure::Broken(plain(&error)),
        })?;
        if is_refusal(response.status()) {
            return Err(Failure::Status(response.status()));
        }
        begin(response).await
    };
    let begun = tokio::time::timeout(within, begun).await;
    begun.unwrap_or(Err(Failure::Timeout(within)))
}

/// Statuses by which a server, or a proxy before it, says that it did not take the request; and those that are
/// no answer, since nobody asked for another protocol.
fn is_refusal(status: StatusCode) -> bool {
    status.is_informational()
        || matches!(
            status,
            StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT
        )
}

/// Waits for the first part of a body.
async fn begin(response: Response<Incoming>) -> Result<Begun, Failure> {
    let (head, mut rest) = response.into_parts();
    loop {
        let first = match rest.frame().await {
            None => None,
            Some(Err(error)) => return Err(Failure::Broken(plain(&error))),
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) if data.is_empty() => continue,
                Ok(data) => Some(data),
                // Trailers: there is nothing else to come.
                Err(_) => None,
            },
        };
        return Ok(Begun { head, first, rest });
    }
}

fn request(shared: &Shared, order: &Order<'_>, worker: &Worker, rank: u32) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(order.body.clone()));
    *request.method_mut() = Method::POST;
    let path = order.api.path();
    *request.uri_mut() = match order.query {
        Some(query) => worker.config.url.join(&format!("{path}?{query}")),
        None => worker.config.url.join(path),
    };
    *request.headers_mut() = order.headers.clone();
    if worker.config.ranks > 1 {
        let name = shared.config.headers.rank.clone();
        request.headers_mut().insert(name, HeaderValue::from(rank));
    }
    request
}
