//! A worker's answer on its way to the client.
//!
//! A streamed answer passes event by event, as it comes; the permit is held until its end. Where the worker
//! breaks off after the first byte, the stream ends with the event on which OpenAI's clients raise an error. An
//! answer in one piece is held back until it is whole, up to [`WHOLE_BYTES`], so that one that breaks off is
//! told with a status; what is longer passes as it comes.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures_util::stream;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::json;
use tollgate::Permit;

use super::hand_over::Begun;
use super::quote::Quote;
use super::{endpoint_text, headers};
use crate::account::Account;
use crate::cost::{self, Usage};
use crate::refusal::{RETRY_MIN, Refusal, Retry};
use crate::shared::Shared;
use crate::sse::{self, Seen, SseFrames};
use crate::upstream::plain;

/// An answer in one piece that is held back until it is whole, in bytes.
const WHOLE_BYTES: usize = 1 << 20;

/// Ends an event.
const BLANK: &[u8] = b"\n\n";

/// What the next part of a body came to.
enum Part {
    Data(Bytes),
    End,
    Broken(Break),
}

/// Why an answer ends before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Break {
    /// The worker broke off.
    Broken(String),
    /// Nothing came for too long.
    Idle(std::time::Duration),
    /// It sent what is no answer.
    Garbage,
    /// The router stops.
    Cut,
}

impl Break {
    const fn code(&self) -> &'static str {
        match self {
            Self::Broken(_) => "upstream_failed",
            Self::Idle(_) => "upstream_timeout",
            Self::Garbage => "upstream_invalid",
            Self::Cut => "shutting_down",
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Broken(why) => format!("the worker broke off its answer: {why}"),
            Self::Idle(within) => {
                format!("the worker sent nothing for {} s", within.as_secs_f64())
            }
            Self::Garbage => "the worker sent what is no answer of this API".to_owned(),
            Self::Cut => "this router is shutting down".to_owned(),
        }
    }

    fn refusal(&self) -> Refusal {
        let status = match self {
            Self::Broken(_) | Self::Garbage => StatusCode::BAD_GATEWAY,
            Self::Idle(_) => StatusCode::GATEWAY_TIMEOUT,
            Self::Cut => return Refusal::cut_off(),
        };
        Refusal::new(status, self.code(), self.message(), Retry::After(RETRY_MIN))
    }
}

/// An answer under way; dropping it gives everything back.
struct Answer {
    shared: Arc<Shared>,
    account: Account,
    quote: Quote,
    /// Held until the answer's end.
    permit: Option<Permit>,
    first: Option<Bytes>,
    rest: Incoming,
    frames: SseFrames,
    /// What was seen in the events so far.
    seen: Seen,
    /// The status of the worker's answer.
    status: StatusCode,
    is_over: bool,
}

/// Makes the response of an answer that has begun.
pub(super) async fn respond(
    shared: Arc<Shared>,
    account: Account,
    permit: Permit,
    quote: Quote,
    begun: Begun,
) -> Response<Body> {
    let Begun { head, first, rest } = begun;
    let told = told(&shared, &account, &permit);
    let is_events = is_of_type(&head.headers, "text/event-stream");
    let is_json = is_of_type(&head.headers, "application/json");
    let answer = Answer {
        shared,
        account,
        quote,
        permit: Some(permit),
        first,
        rest,
        frames: SseFrames::new(),
        seen: Seen::default(),
        status: head.status,
        is_over: false,
    };
    let body = if is_events && head.status.is_success() {
        answer.events()
    } else {
        match answer.whole(is_json).await {
            Ok(body) => body,
            Err(refusal) => return with_told(refusal.response(), told),
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() = head.status;
    *response.headers_mut() = headers::to_client(head.headers);
    with_told(response, told)
}

fn is_of_type(headers: &HeaderMap, kind: &str) -> bool {
    let value = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    value.is_some_and(|value| {
        value.len() >= kind.len() && value[..kind.len()].eq_ignore_ascii_case(kind.as_bytes())
    })
}

/// What the client is told about its request's way.
fn told(shared: &Shared, account: &Account, permit: &Permit) -> Vec<(HeaderName, HeaderValue)> {
    let names = &shared.config.headers;
    let facts = &account.facts;
    let wait = facts.wait.unwrap_or_default().as_secs_f64() * 1e3;
    let told = [
        (&names.told_class, facts.class.to_string()),
        (&names.told_wait, format!("{wait:.3}")),
        (&names.told_worker, endpoint_text(shared, permit.endpoint())),
    ];
    let told = told.into_iter().filter_map(|(name, value)| {
        let value = HeaderValue::try_from(value).ok()?;
        Some((name.clone()?, value))
    });
    told.collect()
}

fn with_told(mut response: Response<Body>, told: Vec<(HeaderName, HeaderValue)>) -> Response<Body> {
    for (name, value) in told {
        response.headers_mut().insert(name, value);
    }
    response
}

/// How a worker's answer is counted.
fn code_of(status: StatusCode) -> &'static str {
    match status.as_u16() {
        0..=399 => "ok",
        400..=499 => "worker_refused",
        _ => "worker_failed",
    }
}

impl Answer {
    /// The next part of the worker's body.
    async fn part(&mut self) -> Part {
        if let Some(first) = self.first.take() {
            return Part::Data(first);
        }
        let within = self.shared.config.timeouts.idle;
        loop {
            let frame = tokio::select! {
                frame = tokio::time::timeout(within, self.rest.frame()) => frame,
                () = self.shared.until_cut() => return Part::Broken(Break::Cut),
            };
            match frame {
                Err(_) => return Part::Broken(Break::Idle(within)),
                Ok(None) => return Part::End,
                Ok(Some(Err(error))) => return Part::Broken(Break::Broken(plain(&error))),
                // Trailers say nothing that a client of these APIs reads.
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => return Part::Data(data),
                    _ => {}
                },
            }
        }
    }

    /// The body of a stream of events.
    fn events(self) -> Body {
        let events = stream::unfold(self, |mut answer| async move {
            let bytes = answer.next_events().await?;
            answer.account.facts.bytes_out += bytes.len() as u64;
            Some((Ok::<_, Infallible>(bytes), answer))
        });
        Body::from_stream(events)
    }

    /// The next events; none: the stream is over.
    async fn next_events(&mut self) -> Option<Bytes> {
        while !self.is_over {
            let ends = match self.part().await {
                Part::Data(data) => match self.pass(data) {
                    Ok(events) if events.is_empty() => continue,
                    Ok(events) => return Some(events),
                    Err(ends) => ends,
                },
                Part::End if self.is_finished() => {
                    self.ends_well();
                    return None;
                }
                Part::End => {
                    // A last event without its blank line is one all the same, if it is the end.
                    let last = self.pass(Bytes::from_static(BLANK));
                    if self.is_finished() {
                        self.ends_well();
                        // Where nothing was held back, there is no more to end.
                        return last.ok().filter(|last| last.len() > BLANK.len());
                    }
                    Break::Broken("the stream ended before the answer did".to_owned())
                }
                Part::Broken(why) => why,
            };
            self.ends(self.status.as_u16(), ends.code());
            let api = self.account.facts.api;
            let event = sse::error_event(api, &ends.message(), ends.code());
            if !self.seen.oversized {
                return Some(event);
            }
            // A part of an event may have passed.
            return Some([&b"\n\n"[..], &event].concat().into());
        }
        None
    }

    /// The whole events that some bytes complete.
    fn pass(&mut self, data: Bytes) -> Result<Bytes, Break> {
        let chunk = self.frames.push(data);
        self.seen.merge(chunk.seen);
        if chunk.seen.garbage {
            return Err(Break::Garbage);
        }
        self.account.facts.usage = self.seen.usage;
        Ok(chunk.bytes)
    }

    /// Whether the worker said that its answer is whole, or why it is not.
    const fn is_finished(&self) -> bool {
        let seen = self.seen;
        seen.done || seen.response_ended || seen.finish_reason || seen.error
    }

    /// The worker ended its stream, by an answer or by an error of its own.
    fn ends_well(&mut self) {
        let is_whole = !self.seen.error;
        let code = if is_whole {
            code_of(self.status)
        } else {
            "worker_failed"
        };
        self.ends(self.status.as_u16(), code);
    }

    /// The body of an answer in one piece.
    async fn whole(mut self, is_json: bool) -> Result<Body, Refusal> {
        let mut held = BytesMut::new();
        loop {
            match self.part().await {
                Part::Data(data) => {
                    held.extend_from_slice(&data);
                    if held.len() > WHOLE_BYTES {
                        self.first = Some(held.freeze());
                        return Ok(self.passing());
                    }
                }
                Part::End => break,
                Part::Broken(why) => return Err(self.breaks(&why)),
            }
        }
        let held = held.freeze();
        let is_success = self.status.is_success();
        if is_success && is_json && !sse::is_json(&held) {
            return Err(self.breaks(&Break::Garbage));
        }
        self.account.facts.usage = is_success.then(|| cost::read_usage(&held)).flatten();
        self.account.facts.bytes_out = held.len() as u64;
        self.ends(self.status.as_u16(), code_of(self.status));
        Ok(Body::from(held))
    }

    fn breaks(&mut self, why: &Break) -> Refusal {
        let refusal = why.refusal();
        let worker = self
            .account
            .facts
            .endpoint
            .map(|endpoint| endpoint.worker.0);
        self.ends(refusal.status.as_u16(), refusal.code);
        refusal.with_details(json!({ "last_worker": worker }))
    }

    /// The body of a long answer: it passes as it comes, and is cut where the worker breaks off.
    fn passing(self) -> Body {
        let parts = stream::unfold(self, |mut answer| async move {
            if answer.is_over {
                return None;
            }
            let part = match answer.part().await {
                Part::Data(data) => {
                    answer.account.facts.bytes_out += data.len() as u64;
                    Ok(data)
                }
                Part::End => {
                    answer.ends(answer.status.as_u16(), code_of(answer.status));
                    return None;
                }
                Part::Broken(why) => {
                    answer.ends(answer.status.as_u16(), why.code());
                    Err(std::io::Error::other(why.message()))
                }
            };
            Some((part, answer))
        });
        Body::from_stream(parts)
    }

    /// It is over: the worker is free again, and its figures are learnt from.
    fn ends(&mut self, status: u16, code: &'static str) {
        self.is_over = true;
        self.account.ends(status, code);
        self.permit = None;
        if let Some(usage) = self.account.facts.usage {
            self.learn(usage);
        }
    }

    fn learn(&self, usage: Usage) {
        let facts = &self.account.facts;
        let model = &self.quote.model;
        model.tokens.learn(self.quote.facts, usage.prompt_tokens);
        model
            .errors
            .note_prompt(facts.prompt_tokens, usage.prompt_tokens);
        if let Some(cached) = usage.cached_tokens {
            model.errors.note_cached(facts.cached_tokens, cached);
        }
    }
}
