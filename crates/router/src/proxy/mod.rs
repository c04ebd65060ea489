//! A request's way: taken in, quoted, admitted, handed over, answered.
//!
//! | step | module | ends early when |
//! |---|---|---|
//! | the body is taken in, within its limits | [`intake`] | it is too large, too slow, cut |
//! | model, hints, cost and where the prompt may be cached | [`quote`], [`hints`] | something is wrong with it |
//! | a permit from the engine | here | a limit, a deadline, no worker, the stop (S8) |
//! | the hand-over, again and again until a worker begins to answer | [`hand_over`] | it was handed over as often as it may be |
//! | the answer, as it comes | [`answer`] | the worker breaks off |
//!
//! All of it is one future and then one body. Whoever drops either, as the server does when the client went
//! away, gives back what it holds: a waiting request is cancelled, a permit is completed, the worker's
//! connection is closed.

mod answer;
mod hand_over;
mod headers;
mod hints;
mod intake;
mod quote;

use std::fmt::Write as _;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrayvec::ArrayVec;
use axum::body::{Body, HttpBody};
use http::header::{CONNECTION, HeaderValue};
use http::{HeaderMap, Request, Response, StatusCode};
use tollgate::{
    AdmitError, Endpoint, FailReason, LimitKind, Outcome, Permit, REQUIRED_TAINTS_MAX,
    Request as EngineRequest,
};

use self::hand_over::Begun;
use self::quote::{Bound, Quote};
use crate::account::Account;
use crate::config::OnLoss;
use crate::cost::Api;
use crate::refusal::{Circumstances, RETRY_MIN, Refusal, Retry};
use crate::shared::Shared;

/// The longest request id that is taken from a client, in bytes.
const REQUEST_ID_MAX: usize = 128;

/// Answers a request for a completion of some kind.
pub(crate) async fn serve(shared: Arc<Shared>, api: Api, request: Request<Body>) -> Response<Body> {
    let request_id = request_id(request.headers());
    let mut account = Account::open(Arc::clone(&shared), api, request_id.clone());
    let mut response = match pass(&shared, api, request, &mut account).await {
        Ok((permit, quote, begun)) => {
            answer::respond(Arc::clone(&shared), account, permit, quote, begun).await
        }
        Err(refusal) => {
            account.ends(refusal.status.as_u16(), refusal.code);
            let response = refusal.response();
            account.facts.bytes_out = response.body().size_hint().lower();
            response
        }
    };
    if let Ok(id) = HeaderValue::from_str(&request_id) {
        response.headers_mut().insert(headers::REQUEST_ID, id);
    }
    if !shared.is_serving() {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    response
}

/// The client's own, or a new one.
fn request_id(headers: &HeaderMap) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let own = headers.get(headers::REQUEST_ID);
    let own = own.and_then(|id| id.to_str().ok()).map(str::trim);
    let own = own.filter(|id| !id.is_empty() && id.len() <= REQUEST_ID_MAX);
    own.map_or_else(
        || {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            format!("{:08x}-{number:012x}", process_seed())
        },
        str::to_owned,
    )
}

/// Tells the ids of one process from those of another.
fn process_seed() -> u32 {
    use std::hash::{BuildHasher, RandomState};
    use std::sync::OnceLock;
    static SEED: OnceLock<u32> = OnceLock::new();
    *SEED.get_or_init(|| {
        let [a, b, c, d, ..] = RandomState::new().hash_one(0).to_le_bytes();
        u32::from_le_bytes([a, b, c, d])
    })
}

/// Everything up to the first byte of a worker's answer.
async fn pass(
    shared: &Arc<Shared>,
    api: Api,
    request: Request<Body>,
    account: &mut Account,
) -> Result<(Permit, Quote, Begun), Refusal> {
    if !shared.is_serving() {
        return Err(Refusal::shutting_down());
    }
    let (head, body) = request.into_parts();
    check_headers(&head, shared.config.limits.header_bytes)?;
    let held = intake::take_in(shared, &head.headers, body).await?;
    account.facts.bytes_in = held.bytes.len() as u64;
    let mut quote = quote::quote(shared, api, &head.headers, &held.bytes).await?;
    account.facts.model = Arc::clone(&quote.model.name);
    account.facts.is_streamed = quote.is_streamed;
    account.facts.prompt_tokens = quote.tokens;
    let permit = admit(shared, &mut quote, account).await?;
    let order = hand_over::Order {
        api,
        headers: headers::to_worker(head.headers, &account.facts.request_id),
        query: head.uri.query(),
        body: &held.bytes,
    };
    let cut = shared.until_cut();
    let handed = hand_over::hand_over(shared, &order, &mut quote, permit, account);
    let (permit, begun) = tokio::select! {
        handed = handed => handed?,
        () = cut => return Err(Refusal::cut_off()),
    };
    Ok((permit, quote, begun))
}

/// A request's head as it came, within its limit: the server's own is a buffer's, and soft.
fn check_headers(head: &http::request::Parts, most: usize) -> Result<(), Refusal> {
    /// What separates name, value and the next header.
    const BETWEEN: usize = 4;
    let line = head.uri.path().len() + head.uri.query().map_or(0, str::len);
    let headers = head.headers.iter();
    let bytes = headers.map(|(name, value)| name.as_str().len() + value.len() + BETWEEN);
    if line + bytes.sum::<usize>() <= most {
        return Ok(());
    }
    let message = format!("line and headers are larger than {most} bytes, the most that is taken");
    let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
    Err(Refusal::new(
        status,
        "headers_too_large",
        message,
        Retry::Never,
    ))
}

/// Waits for a permit. A session whose worker is gone goes elsewhere, where that is wanted.
async fn admit(
    shared: &Shared,
    quote: &mut Quote,
    account: &mut Account,
) -> Result<Permit, Refusal> {
    // The future borrows them, and the quote may lose its session meanwhile.
    let taints = quote.hints.taints.clone();
    let taints: ArrayVec<&str, REQUIRED_TAINTS_MAX> = taints.iter().map(|name| &**name).collect();
    loop {
        let request = EngineRequest {
            model: quote.model.index,
            family: quote.hints.class.as_deref(),
            hints: &quote.cached,
            strict_priority: quote.hints.strict_priority,
            priority_jump: quote.hints.priority_jump,
            pin: quote.bound.endpoint(),
            require_taints: &taints,
            deadline: quote.deadline,
            ..EngineRequest::new(quote.tokens, ())
        };
        let mut admitted = std::pin::pin!(shared.admission.admit(request));
        // A client that goes away while it waits is accounted for in its class.
        let ended = poll_fn(|context| {
            let polled = admitted.as_mut().poll(context);
            if let Some(class) = admitted.class()
                && account.facts.class.is_empty()
            {
                account.facts.class = quote.model.class_name(class);
            }
            polled
        });
        match ended.await {
            Ok(permit) => {
                went(quote, &permit, account);
                return Ok(permit);
            }
            Err(error) => {
                if let Bound::Session(endpoint) = quote.bound
                    && lost(&error)
                {
                    leave(quote, endpoint);
                    if shared.config.affinity.on_loss == OnLoss::Rehome {
                        continue;
                    }
                }
                return Err(refuse(shared, quote, account, &error));
            }
        }
    }
}

/// A request was dispatched: its session and the index learn where it goes.
fn went(quote: &Quote, permit: &Permit, account: &mut Account) {
    let endpoint = permit.endpoint();
    if let Some(session) = &quote.hints.session {
        quote.model.sessions.went(session, endpoint, Instant::now());
    }
    if let Some(prefixes) = &quote.model.prefixes {
        prefixes.learn(endpoint, &quote.blocks);
    }
    let facts = &mut account.facts;
    facts.class = quote.model.class_name(permit.class());
    facts.endpoint = Some(endpoint);
    facts.attempts = facts.attempts.saturating_add(1);
    let there = quote.cached.iter().find(|hint| hint.endpoint == endpoint);
    facts.cached_tokens = there.map_or(0, |hint| hint.cached);
    let waited = permit.dispatched_at().saturating_sub(permit.submitted_at());
    facts.wait = Some(Duration::from_nanos(waited.0));
}

/// A session leaves a worker that is gone.
fn leave(quote: &mut Quote, endpoint: Endpoint) {
    if let Some(session) = &quote.hints.session {
        quote.model.sessions.forget(session, endpoint);
    }
    quote.bound = Bound::Free;
}

/// Whether a request found that the worker it was bound to is gone.
const fn lost(error: &AdmitError) -> bool {
    matches!(
        error.outcome(),
        Some(Outcome::Failed(
            FailReason::PinnedWorkerUnknown
                | FailReason::PinnedWorkerUnavailable
                | FailReason::PinnedRankOutOfRange
                | FailReason::HandOff
        ))
    )
}

/// What a request that got no permit is told.
fn refuse(shared: &Shared, quote: &Quote, account: &mut Account, error: &AdmitError) -> Refusal {
    let class = match error {
        AdmitError::Ended { class, .. } => Some(*class),
        _ => None,
    };
    if let Some(class) = class {
        account.facts.class = quote.model.class_name(class);
    }
    let waiting = match error.outcome() {
        Some(Outcome::Rejected(rejection)) if rejection.kind == LimitKind::Requests => {
            Some(rejection.current)
        }
        _ => None,
    };
    let drain = class.map(|class| quote.model.drain_time(class, waiting));
    let about = Circumstances {
        overload_status: shared.config.overload_status(),
        class: &account.facts.class,
        drain: drain.unwrap_or(RETRY_MIN),
        next_look: shared.fleet.next_look(),
    };
    Refusal::of(error, about)
}

/// `3`, or `3:1` for a worker with several ranks.
fn endpoint_text(shared: &Shared, endpoint: Endpoint) -> String {
    let mut text = endpoint.worker.0.to_string();
    let worker = shared.fleet.worker(endpoint.worker);
    if endpoint.rank > 0 || worker.is_some_and(|worker| worker.config.ranks > 1) {
        let _ = write!(text, ":{}", endpoint.rank);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_keeps_its_request_id_and_others_get_one_each() {
        let mut headers = HeaderMap::new();
        let (first, second) = (request_id(&headers), request_id(&headers));
        assert_ne!(first, second);
        headers.insert(headers::REQUEST_ID, HeaderValue::from_static(" mine "));
        assert_eq!(request_id(&headers), "mine");
        let long = "x".repeat(REQUEST_ID_MAX + 1);
        headers.insert(
            headers::REQUEST_ID,
            HeaderValue::from_str(&long).expect("a value"),
        );
        assert_ne!(request_id(&headers), long);
    }
}
