//! Permits as a [`tower`](https://docs.rs/tower) layer: a service behind it is called once its request
//! was dispatched, and the permit is held until the response's body has ended.
//!
//! ```
//! use http::{Request, Response, StatusCode};
//! use tollgate::policy::Profile;
//! use tollgate::tower::{AdmissionLayer, AsRequest, Extract, Granted};
//! use tollgate::{AdmitError, Engine, Worker};
//! use tower::{Service, ServiceExt, service_fn};
//! use tower_layer::Layer;
//!
//! /// What the engine has to know of a request; it is kept until the request is dispatched.
//! struct Ask {
//!     family: Option<String>,
//!     tokens: u32,
//! }
//!
//! impl AsRequest for Ask {
//!     fn as_request(&self) -> tollgate::Request<'_, ()> {
//!         tollgate::Request {
//!             family: self.family.as_deref(),
//!             ..tollgate::Request::new(self.tokens, ())
//!         }
//!     }
//! }
//!
//! #[derive(Clone)]
//! struct Headers;
//!
//! impl Extract<String> for Headers {
//!     type Metadata = Ask;
//!
//!     fn extract(&self, request: &Request<String>) -> Ask {
//!         let family = request.headers().get("x-class").and_then(|value| value.to_str().ok());
//!         // A byte estimate: four bytes are about a token.
//!         let tokens = u32::try_from(request.body().len() / 4).unwrap_or(u32::MAX);
//!         Ask { family: family.map(str::to_owned), tokens }
//!     }
//! }
//!
//! fn respond(error: &AdmitError) -> Response<String> {
//!     let mut response = Response::new(error.to_string());
//!     *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
//!     response
//! }
//!
//! # fn block_on<F: Future>(future: F) -> F::Output {
//! #     tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
//! # }
//! let profile = Profile::synthetic(None);
//! let built = Engine::builder(profile).worker(Worker::new(7)).build_admission()?;
//! let proxy = service_fn(|request: Request<String>| async move {
//!     let granted = request.extensions().get::<Granted>().expect("it was dispatched");
//!     let answer = format!("served by worker {}", granted.endpoint.worker.0);
//!     Ok::<_, std::convert::Infallible>(Response::new(answer))
//! });
//! let mut service = AdmissionLayer::new(built.admission, Headers, respond).layer(proxy);
//! let response = block_on(async {
//!     service.ready().await?.call(Request::new("hello".to_owned())).await
//! })?;
//! assert_eq!(response.body().get_ref(), "served by worker 7");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod body;
mod future;

use std::task::{Context, Poll};

use http::{Request as HttpRequest, Response};
use tollgate_arbiter::{ClassIndex, Endpoint};
use tower_layer::Layer;
use tower_service::Service;

pub use self::body::PermitBody;
pub use self::future::ResponseFuture;
use crate::{Admission, AdmitError, Permit, Request, Ticket};

/// What the engine has to know of a request, kept until it is dispatched.
pub trait AsRequest {
    /// The request in the engine's words; asked more than once, and the same each time.
    fn as_request(&self) -> Request<'_, ()>;
}

/// A request that borrows nothing is its own metadata.
impl AsRequest for Request<'static, ()> {
    fn as_request(&self) -> Request<'_, ()> {
        *self
    }
}

/// Finds out what the engine has to know of an HTTP request.
pub trait Extract<B> {
    /// What it finds out.
    type Metadata: AsRequest;

    /// Reads a request's head, its extensions, and its body if that is there already. Runs in `call`, on
    /// the caller's thread.
    fn extract(&self, request: &HttpRequest<B>) -> Self::Metadata;
}

/// A function is an extractor.
impl<B, M: AsRequest, F: Fn(&HttpRequest<B>) -> M> Extract<B> for F {
    type Metadata = M;

    fn extract(&self, request: &HttpRequest<B>) -> M {
        self(request)
    }
}

/// Where a request goes: in the extensions of the request that the inner service gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The endpoint to call.
    pub endpoint: Endpoint,
    /// Its class's place in its model's tables.
    pub class: ClassIndex,
    /// Which dispatch of the request this is, from 1.
    pub attempt: u8,
    /// Its handle.
    pub ticket: Ticket,
}

impl Granted {
    const fn of(permit: &Permit) -> Self {
        Self {
            endpoint: permit.endpoint(),
            class: permit.class(),
            attempt: permit.attempt(),
            ticket: permit.ticket(),
        }
    }
}

/// Puts services behind an admission.
#[derive(Clone, Debug)]
pub struct AdmissionLayer<E, R> {
    admission: Admission,
    extract: E,
    respond: R,
    waits: bool,
}

impl<E, R> AdmissionLayer<E, R> {
    /// A layer that asks for permits of `admission`. `extract` tells what a request costs and wants
    /// ([`Extract`]); `respond`, `Fn(&AdmitError) -> http::Response`, answers where there is no permit.
    /// Where the engine has no room, a request waits for some.
    pub const fn new(admission: Admission, extract: E, respond: R) -> Self {
        Self {
            admission,
            extract,
            respond,
            waits: true,
        }
    }

    /// The same, but a request is refused where the engine has no room
    /// ([`Admission::try_admit`]).
    #[must_use]
    pub fn refuse_when_full(self) -> Self {
        Self {
            waits: false,
            ..self
        }
    }
}

impl<S, E: Clone, R: Clone> Layer<S> for AdmissionLayer<E, R> {
    type Service = AdmissionService<S, E, R>;

    fn layer(&self, inner: S) -> Self::Service {
        AdmissionService {
            inner,
            layer: self.clone(),
        }
    }
}

/// A service behind an admission.
///
/// It is always ready: a request waits in `call`, each for itself, so that one that waits does not keep
/// others from being seen. The inner service is made ready once the request was dispatched.
#[derive(Clone, Debug)]
pub struct AdmissionService<S, E, R> {
    inner: S,
    layer: AdmissionLayer<E, R>,
}

impl<S, E, R, B, ResBody> Service<HttpRequest<B>> for AdmissionService<S, E, R>
where
    S: Service<HttpRequest<B>, Response = Response<ResBody>> + Clone,
    E: Extract<B>,
    R: Fn(&AdmitError) -> Response<ResBody> + Clone,
    ResBody: http_body::Body,
{
    type Response = Response<PermitBody<ResBody>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, B, E::Metadata, R>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HttpRequest<B>) -> Self::Future {
        let layer = &self.layer;
        let metadata = layer.extract.extract(&request);
        let passage = layer.admission.passage(layer.waits);
        ResponseFuture::new(
            self.inner.clone(),
            request,
            metadata,
            passage,
            layer.respond.clone(),
        )
    }
}
