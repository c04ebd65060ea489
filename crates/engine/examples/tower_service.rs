//! An HTTP service behind a layer of permits: the inner service is called when its request was
//! dispatched, finds the worker in the request's extensions, and the permit is held until the answer's
//! body has ended.
//!
//! The outer half, a server such as hyper or axum, is left out; requests are made by hand.
#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::convert::Infallible;
use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use tollgate::policy::{Bucket, ClassPolicy, Profile, ProfileSpec};
use tollgate::tower::{AdmissionLayer, AsRequest, Extract, Granted};
use tollgate::{AdmitError, Engine, Outcome, Refusal, Worker};
use tower::{ServiceBuilder, ServiceExt, service_fn};

type Body = Full<Bytes>;

/// What the engine has to know of a request.
struct Ask {
    class: Option<String>,
    prompt_tokens: u32,
}

impl AsRequest for Ask {
    fn as_request(&self) -> tollgate::Request<'_, ()> {
        tollgate::Request {
            family: self.class.as_deref(),
            ..tollgate::Request::new(self.prompt_tokens, ())
        }
    }
}

/// Finds it in the headers.
#[derive(Clone)]
struct FromHeaders;

impl Extract<Body> for FromHeaders {
    type Metadata = Ask;

    fn extract(&self, request: &Request<Body>) -> Ask {
        let header = |name: &str| request.headers().get(name)?.to_str().ok();
        let tokens = header("x-prompt-tokens").and_then(|tokens| tokens.parse().ok());
        Ask {
            class: header("x-class").map(str::to_owned),
            prompt_tokens: tokens.unwrap_or(1),
        }
    }
}

/// What a client is told that gets no permit.
fn respond(error: &AdmitError) -> Response<Body> {
    let status = match error {
        AdmitError::Ended {
            outcome: Outcome::Rejected(_),
            ..
        } => StatusCode::TOO_MANY_REQUESTS,
        AdmitError::Ended {
            outcome: Outcome::Expired,
            ..
        } => StatusCode::GATEWAY_TIMEOUT,
        AdmitError::Refused(Refusal::Invalid(_)) => StatusCode::BAD_REQUEST,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    let mut response = Response::new(Full::from("no worker took it"));
    *response.status_mut() = status;
    response
}

/// Stands for a proxy: serves a request on the worker that it was dispatched to.
async fn proxy(request: Request<Body>) -> Result<Response<Body>, Infallible> {
    let granted = request.extensions().get::<Granted>();
    let worker = granted.map_or(0, |granted| granted.endpoint.worker.0);
    tokio::time::sleep(Duration::from_millis(5)).await;
    let mut response = Response::new(Full::from("an answer"));
    response.extensions_mut().insert(worker);
    Ok(response)
}

/// At most two wait for each worker; a worker takes one prompt at a time.
fn policy() -> Result<Profile, Box<dyn Error>> {
    let class = ClassPolicy {
        prefill_busy_threshold: Some(0),
        request_queue_limit_per_worker: Some(2),
        ..ClassPolicy::matrix("all", "all", 0, 1_024)
    };
    let buckets = vec![Bucket::new(0, "all")];
    Ok(Profile::build(ProfileSpec::new(
        "all",
        buckets,
        vec![class],
    ))?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    let builder = Engine::builder(policy()?)
        .worker(Worker::new(1))
        .worker(Worker::new(2));
    let built = builder.build_admission()?;
    let layer = AdmissionLayer::new(built.admission, FromHeaders, respond);
    let service = ServiceBuilder::new()
        .layer(layer)
        .service(service_fn(proxy));

    runtime.block_on(async {
        let calls = (0..8).map(|number| {
            let service = service.clone();
            tokio::spawn(async move {
                let request = Request::builder()
                    .header("x-prompt-tokens", "512")
                    .body(Full::from("a prompt"))?;
                let response = service.oneshot(request).await?;
                let (status, worker) = (response.status(), response.extensions().get().copied());
                let body = response.into_body().collect().await?.to_bytes();
                let text = String::from_utf8_lossy(&body).into_owned();
                Ok::<_, Box<dyn Error + Send + Sync>>((number, status, worker, text))
            })
        });
        for call in calls.collect::<Vec<_>>() {
            let (number, status, worker, text): (u32, _, Option<u64>, _) =
                call.await?.map_err(|error| error as Box<dyn Error>)?;
            let worker = worker.map_or("nobody".to_owned(), |worker| format!("worker {worker}"));
            println!("request {number}: {status}, {worker}: {text}");
        }
        Ok::<(), Box<dyn Error>>(())
    })?;
    built.engine.stop()?;
    built.engine.join()?;
    Ok(())
}
