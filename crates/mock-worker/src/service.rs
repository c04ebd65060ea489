//! What is answered to which request.

use std::future::pending;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use tollgate_arbiter::Nanos;

use crate::body::Body;
use crate::clock::Clock;
use crate::counters::Board;
use crate::driver::{Handle, Submission};
use crate::fault::{self, Fault};
use crate::frames::Frames;
use crate::job::Job;
use crate::refusal::Refusal;
use crate::reply::{self, Reply};
use crate::request::{Api, Ask};
use crate::wire::{Break, Switch};

/// The largest body of a request.
const MOST_BODY_MIB: usize = 32;

/// A worker as its connections know it.
#[derive(Debug)]
pub(crate) struct Service {
    model: String,
    decode_step: Nanos,
    clock: Clock,
    driver: Handle,
    board: Board,
    /// Seconds since 1970.
    created: u64,
    answers: AtomicU64,
}

/// What is behind a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    Infer(Api),
    Models,
    Health,
    Stats,
}

const ROUTES: [(&str, Route); 7] = [
    ("/v1/chat/completions", Route::Infer(Api::Chat)),
    ("/v1/completions", Route::Infer(Api::Completions)),
    ("/v1/embeddings", Route::Infer(Api::Embeddings)),
    ("/v1/responses", Route::Infer(Api::Responses)),
    ("/v1/models", Route::Models),
    ("/health", Route::Health),
    ("/stats", Route::Stats),
];

impl Route {
    const fn method(self) -> Method {
        match self {
            Self::Infer(_) => Method::POST,
            Self::Models | Self::Health | Self::Stats => Method::GET,
        }
    }
}

impl Service {
    pub(crate) fn new(
        model: String,
        decode_step: Nanos,
        clock: Clock,
        driver: Handle,
        board: Board,
    ) -> Self {
        Self {
            model,
            decode_step,
            clock,
            driver,
            board,
            created: reply::seconds_now(),
            answers: AtomicU64::new(0),
        }
    }

    /// Answers one request; does not return if its fault breaks the connection instead.
    pub(crate) async fn answer(
        &self,
        switch: Switch,
        request: Request<Incoming>,
    ) -> Response<Body> {
        let path = request.uri().path();
        let Some((_, route)) = ROUTES.iter().find(|(known, _)| *known == path) else {
            let known = ROUTES.map(|(path, _)| path).join(", ");
            let message = format!("there is no path {path:?}; there are {known}");
            return refuse(&Refusal::new(StatusCode::NOT_FOUND, message));
        };
        let method = route.method();
        if *request.method() != method {
            let message = format!("{path} takes {method}, not {}", request.method());
            let mut response = refuse(&Refusal::new(StatusCode::METHOD_NOT_ALLOWED, message));
            let allowed = HeaderValue::from_str(method.as_str()).expect("methods are plain");
            response.headers_mut().insert(ALLOW, allowed);
            return response;
        }
        match route {
            Route::Infer(api) => match self.infer(*api, switch, request).await {
                Ok(response) => response,
                Err(refusal) => {
                    self.board.refuse();
                    refuse(&refusal)
                }
            },
            Route::Models => json(reply::models(&self.model, self.created).to_string()),
            Route::Health => Response::new(Body::whole("")),
            Route::Stats => {
                let counters = serde_json::to_string(&self.board.read());
                json(counters.expect("numbers are JSON"))
            }
        }
    }

    async fn infer(
        &self,
        api: Api,
        switch: Switch,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Refusal> {
        let (head, body) = request.into_parts();
        let body = read(body).await?;
        let fault = head.headers.get(fault::HEADER);
        let fault = fault.map(|name| Fault::parse(name.as_bytes())).transpose();
        let fault = fault.map_err(|message| Refusal::new(StatusCode::BAD_REQUEST, message))?;
        self.fail_at_once(fault, &switch).await?;
        let ask = Ask::parse(api, &body, &self.model)?;
        drop(body);
        // ORDERING: Relaxed; the numbers only have to differ.
        let number = self.answers.fetch_add(1, Ordering::Relaxed);
        let reply = Reply::new(&ask, &self.model, number);
        let submission = Submission {
            prompt: ask.prompt,
            output_tokens: ask.output_tokens,
            holds_its_sequence: fault.is_some_and(Fault::holds_its_sequence),
        };
        let job = Job::submit(
            &self.driver,
            self.clock,
            self.decode_step,
            submission,
            fault,
        );
        if fault == Some(Fault::StallBefore) {
            let _held = job;
            return pending().await;
        }
        if ask.stream {
            let frames = Frames::new(reply, ask.include_usage);
            return Ok(stream(Body::stream(job, frames, switch)));
        }
        Ok(answer_whole(job, &reply, &switch).await)
    }

    /// The faults that need no job.
    async fn fail_at_once(&self, fault: Option<Fault>, switch: &Switch) -> Result<(), Refusal> {
        let status = match fault {
            Some(Fault::InternalError) => StatusCode::INTERNAL_SERVER_ERROR,
            Some(Fault::Unavailable) => StatusCode::SERVICE_UNAVAILABLE,
            Some(fault @ (Fault::Reset | Fault::Garbage)) => {
                self.board.refuse();
                let is_reset = fault == Fault::Reset;
                switch.arm(if is_reset {
                    Break::Reset
                } else {
                    Break::Garbage
                });
                return pending().await;
            }
            _ => return Ok(()),
        };
        let message = format!("failed on request, by {}", fault::HEADER);
        Err(Refusal::new(status, message))
    }
}

/// The answer to a request that is not streamed, when its last token is out.
async fn answer_whole(mut job: Job, reply: &Reply, switch: &Switch) -> Response<Body> {
    let breaks = match job.fault() {
        Some(Fault::Cut) => Some(Break::Close),
        Some(Fault::ResetAfter) => Some(Break::Reset),
        Some(Fault::Stall) => None,
        fault => {
            std::future::poll_fn(|cx| job.poll_end(cx)).await;
            let text = if fault == Some(Fault::GarbageBody) {
                "<this is not JSON>".to_owned()
            } else {
                reply.whole(job.cached_tokens()).to_string()
            };
            return json(text);
        }
    };
    job.all_tokens().await;
    let whole = Bytes::from(reply.whole(job.cached_tokens()).to_string());
    if let Some(breaks) = breaks {
        job.fail();
        switch.arm(breaks);
    }
    with_type(Body::half(&whole, job), "application/json")
}

/// The body of a request.
async fn read(body: Incoming) -> Result<Bytes, Refusal> {
    const MOST_BODY_BYTES: usize = MOST_BODY_MIB << 20;
    let declared = http_body::Body::size_hint(&body).lower();
    let too_large = || {
        let message = format!("the body is larger than {MOST_BODY_MIB} MiB");
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, message)
    };
    if declared > MOST_BODY_BYTES as u64 {
        return Err(too_large());
    }
    let read = Limited::new(body, MOST_BODY_BYTES).collect().await;
    read.map(|body| body.to_bytes()).map_err(|error| {
        if error.is::<LengthLimitError>() {
            return too_large();
        }
        let message = format!("the body cannot be read: {error}");
        Refusal::new(StatusCode::BAD_REQUEST, message)
    })
}

fn refuse(refusal: &Refusal) -> Response<Body> {
    let mut response = json(refusal.json());
    *response.status_mut() = refusal.status;
    if refusal.status == StatusCode::PAYLOAD_TOO_LARGE {
        // The rest of the body is not read.
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    response
}

fn json(text: String) -> Response<Body> {
    with_type(Body::whole(text), "application/json")
}

fn stream(body: Body) -> Response<Body> {
    let mut response = with_type(body, "text/event-stream; charset=utf-8");
    let no_cache = HeaderValue::from_static("no-cache");
    response.headers_mut().insert(CACHE_CONTROL, no_cache);
    response
}

fn with_type(body: Body, content_type: &'static str) -> Response<Body> {
    let mut response = Response::new(body);
    let content_type = HeaderValue::from_static(content_type);
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}
