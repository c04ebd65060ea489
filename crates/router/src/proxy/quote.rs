//! What a request asks for: its model, its cost, where it may go.

use std::sync::Arc;
use std::time::Instant;

use arrayvec::ArrayVec;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde_json::json;
use tollgate::{Endpoint, Hint, Nanos};

use super::hints::{self, Hints};
use crate::cost::{self, Api, BodyError, Facts, LONG_BYTES, RequestBody};
use crate::fleet::{Model, Unroutable};
use crate::refusal::{RETRY_MIN, Refusal, Retry};
use crate::shared::Shared;

/// A request as it is submitted.
#[derive(Debug)]
pub(super) struct Quote {
    pub(super) model: Arc<Model>,
    pub(super) hints: Hints,
    pub(super) is_streamed: bool,
    /// Prompt tokens, counted or estimated.
    pub(super) tokens: u32,
    /// What an estimate stands on.
    pub(super) facts: Facts,
    /// Where how much of the prompt is expected in a cache.
    pub(super) cached: ArrayVec<Hint, { tollgate::HINTS_MAX }>,
    /// The prompt's blocks, for the index.
    pub(super) blocks: Vec<u64>,
    /// Absolute, on the engine's clock.
    pub(super) deadline: Option<Nanos>,
    pub(super) bound: Bound,
}

/// Which endpoint a request is bound to, and by whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    Free,
    /// The client named it.
    Pinned(Endpoint),
    /// Its session stays there.
    Session(Endpoint),
}

impl Bound {
    pub(super) const fn endpoint(self) -> Option<Endpoint> {
        match self {
            Self::Free => None,
            Self::Pinned(endpoint) | Self::Session(endpoint) => Some(endpoint),
        }
    }
}

/// Reads a request.
///
/// # Errors
/// What is wrong with it.
pub(super) async fn quote(
    shared: &Shared,
    api: Api,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<Quote, Refusal> {
    // The deadline counts from here.
    let now = shared.fleet.handles.clock().now();
    let read = read(api, body).await.map_err(|error| refuse_body(&error))?;
    let model = shared.fleet.route(read.model.as_deref());
    let model = model.map_err(|why| refuse_model(read.model.as_deref(), &why))?;
    let hints = hints::read(headers, &read.hints, &shared.config)?;
    let deadline = hints.deadline.map(|within| {
        let nanos = u64::try_from(within.as_nanos()).unwrap_or(u64::MAX);
        now.saturating_add(Nanos(nanos))
    });
    let bound = match (hints.pin, &hints.session) {
        (Some(endpoint), _) => Bound::Pinned(endpoint),
        (None, Some(session)) => model
            .sessions
            .find(session, Instant::now())
            .map_or(Bound::Free, Bound::Session),
        (None, None) => Bound::Free,
    };
    let counted = match &model.counter {
        Some(counter) => counter.tokens(api, body, &read.prompt).await,
        None => None,
    };
    let tokens = counted.unwrap_or_else(|| model.tokens.tokens(&read.prompt));
    let mut cached = ArrayVec::new();
    if let Some(prefixes) = &model.prefixes {
        let matches = prefixes.matches(&read.prompt.blocks).into_iter();
        cached.extend(matches.map(|(endpoint, blocks)| Hint {
            endpoint,
            cached: cost::cached_tokens(blocks, &read.prompt, tokens),
        }));
    }
    Ok(Quote {
        model,
        hints,
        is_streamed: read.stream,
        tokens,
        facts: Facts::from(&read.prompt),
        cached,
        blocks: read.prompt.blocks,
        deadline,
        bound,
    })
}

async fn read(api: Api, body: &Bytes) -> Result<RequestBody, BodyError> {
    if body.len() < LONG_BYTES {
        return cost::read(api, body);
    }
    let body = body.clone();
    let read = tokio::task::spawn_blocking(move || cost::read(api, &body)).await;
    read.expect("reading does not panic, and nobody aborts it")
}

fn refuse_body(error: &BodyError) -> Refusal {
    let refusal = Refusal::invalid(error.code(), error.to_string());
    match error.param() {
        Some(param) => refusal.with_param(param),
        None => refusal,
    }
}

fn refuse_model(name: Option<&str>, why: &Unroutable) -> Refusal {
    let list = |names: &[Arc<str>]| {
        let names: Vec<&str> = names.iter().map(|name| &**name).collect();
        names.join(", ")
    };
    match why {
        Unroutable::NoneKnown => {
            let message = "no worker has told yet which models it serves";
            let retry = Retry::After(RETRY_MIN);
            Refusal::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "no_workers",
                message,
                retry,
            )
        }
        Unroutable::Unnamed(names) => {
            let message = format!("model is missing; it must be one of: {}", list(names));
            Refusal::invalid("missing_parameter", message).with_param("model")
        }
        Unroutable::Unknown(names) => {
            let name: String = name.unwrap_or_default().chars().take(100).collect();
            let message = format!("there is no model {name:?}; there are: {}", list(names));
            Refusal::new(
                StatusCode::NOT_FOUND,
                "model_not_found",
                message,
                Retry::Never,
            )
            .with_param("model")
            .with_details(json!({ "models": names.iter().map(|name| &**name).collect::<Vec<_>>() }))
        }
    }
}
