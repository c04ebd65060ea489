//! The layer for HTTP services: where a request waits, what the inner service sees, how long the permit
//! is held.

use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};

use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Full};
use tollgate::policy::{Bucket, ClassPolicy, Profile, ProfileSpec};
use tollgate::tower::{AdmissionLayer, AsRequest, Extract, Granted};
use tollgate::{
    Admission, AdmissionByHand, AdmitError, Builder, Engine, ModelIndex, Nanos, Outcome, Worker,
};
use tower::{Service, service_fn};
use tower_layer::Layer;

type Bytes = &'static [u8];

struct Hand(AdmissionByHand);

impl Hand {
    fn new(set: impl FnOnce(Builder) -> Builder) -> Self {
        let buckets = vec![Bucket::new(0, "all")];
        let class = ClassPolicy {
            prefill_busy_threshold: Some(0),
            ..ClassPolicy::matrix("all", "all", 0, 1_000)
        };
        let profile = Profile::build(ProfileSpec::new("all", buckets, vec![class]));
        let builder = Engine::builder(profile.expect("it is valid")).worker(Worker::new(3));
        let built = set(builder).build_admission_by_hand();
        Self(built.unwrap_or_else(|errors| panic!("{errors}")))
    }

    fn settle(&mut self) {
        for _ in 0..20 {
            let now = self.0.handles.clock().now();
            self.0.core.turn(now);
            for courier in &mut self.0.couriers {
                let _ = courier.turn();
            }
        }
    }

    fn outstanding(&mut self) -> u64 {
        self.settle();
        let command = tollgate::Command::Snapshot {
            model: ModelIndex(0),
            entries_per_lane: 1,
        };
        match self.0.core.execute(&self.0.handles.control(), command) {
            Ok(tollgate::Done::State(state)) => state.outstanding,
            other => panic!("{other:?}"),
        }
    }
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

struct Ask(Option<String>, u32);

impl AsRequest for Ask {
    fn as_request(&self) -> tollgate::Request<'_, ()> {
        tollgate::Request {
            family: self.0.as_deref(),
            ..tollgate::Request::new(self.1, ())
        }
    }
}

#[derive(Clone)]
struct FromHeaders;

impl<B> Extract<B> for FromHeaders {
    type Metadata = Ask;

    fn extract(&self, request: &Request<B>) -> Ask {
        let header = |name: &str| request.headers().get(name)?.to_str().ok();
        let tokens = header("x-tokens").and_then(|tokens| tokens.parse().ok());
        Ask(header("x-class").map(str::to_owned), tokens.unwrap_or(1))
    }
}

fn respond(error: &AdmitError) -> Response<Full<Bytes>> {
    let status = match error.outcome() {
        Some(Outcome::Rejected(_)) => StatusCode::TOO_MANY_REQUESTS,
        Some(Outcome::ShuttingDown) => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_GATEWAY,
    };
    let mut response = Response::new(Full::new(&b""[..]));
    *response.status_mut() = status;
    response
}

fn answer(request: Request<Empty<Bytes>>) -> Ready<Result<Response<Full<Bytes>>, Infallible>> {
    let granted = request.extensions().get::<Granted>().copied();
    let granted = granted.expect("it was dispatched");
    let mut response = Response::new(Full::new(&b"hello"[..]));
    response.extensions_mut().insert(granted);
    ready(Ok(response))
}

type Respond = fn(&AdmitError) -> Response<Full<Bytes>>;

fn layer(admission: &Admission) -> AdmissionLayer<FromHeaders, Respond> {
    AdmissionLayer::new(admission.clone(), FromHeaders, respond)
}

fn request() -> Request<Empty<Bytes>> {
    Request::builder()
        .header("x-tokens", "512")
        .body(Empty::new())
        .expect("it is well formed")
}

#[test]
fn the_inner_service_is_called_once_its_request_was_dispatched() {
    let mut hand = Hand::new(|builder| builder);
    let mut service = layer(&hand.0.admission).layer(service_fn(answer));
    let mut call = service.call(request());
    assert!(poll(&mut call).is_pending());
    hand.settle();
    let Poll::Ready(Ok(response)) = poll(&mut call) else {
        panic!("it was dispatched");
    };
    let granted = response.extensions().get::<Granted>().expect("put there");
    assert_eq!((granted.endpoint.worker.0, granted.attempt), (3, 1));
    let permit = response.body().permit().expect("the body has not ended");
    assert_eq!(permit.snapshot().cost(), 512);
}

#[test]
fn requests_wait_in_call_and_the_service_stays_ready() {
    let mut hand = Hand::new(|builder| builder);
    let mut service = layer(&hand.0.admission).layer(service_fn(answer));
    let mut context = Context::from_waker(Waker::noop());
    let mut calls = Vec::new();
    for _ in 0..3 {
        let is_ready = Service::<Request<Empty<Bytes>>>::poll_ready(&mut service, &mut context);
        assert!(is_ready.is_ready());
        let mut call = service.call(request());
        assert!(poll(&mut call).is_pending());
        calls.push(call);
    }
    hand.settle();
    let mut answers = calls.iter_mut().map(|call| poll(call).is_ready());
    assert_eq!(answers.next(), Some(true));
    assert!(answers.all(|is_ready| !is_ready), "the worker takes one");
}

/// The inner service is made ready after the dispatch, and only then called.
#[test]
fn the_inner_service_is_asked_whether_it_is_ready_before_it_is_called() {
    #[derive(Clone)]
    struct Slow {
        asked: Arc<AtomicU32>,
        is_ready: bool,
    }

    impl Service<Request<Empty<Bytes>>> for Slow {
        type Response = Response<Full<Bytes>>;
        type Error = Infallible;
        type Future = Ready<Result<Self::Response, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            self.is_ready = self.asked.fetch_add(1, Ordering::Relaxed) > 0;
            if self.is_ready {
                Poll::Ready(Ok(()))
            } else {
                Poll::Pending
            }
        }

        fn call(&mut self, request: Request<Empty<Bytes>>) -> Self::Future {
            assert!(self.is_ready, "called before it was ready");
            answer(request)
        }
    }

    let mut hand = Hand::new(|builder| builder);
    let asked = Arc::new(AtomicU32::new(0));
    let inner = Slow {
        asked: Arc::clone(&asked),
        is_ready: false,
    };
    let mut service = layer(&hand.0.admission).layer(inner);
    let mut call = service.call(request());
    assert!(poll(&mut call).is_pending());
    assert_eq!(asked.load(Ordering::Relaxed), 0, "it is not dispatched yet");
    hand.settle();
    assert!(poll(&mut call).is_pending());
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    assert!(poll(&mut call).is_ready());
}

#[test]
fn the_body_holds_the_permit_to_its_end() {
    let mut hand = Hand::new(|builder| builder);
    let mut service = layer(&hand.0.admission).layer(service_fn(answer));
    let mut first = service.call(request());
    assert!(poll(&mut first).is_pending());
    hand.settle();
    let Poll::Ready(Ok(response)) = poll(&mut first) else {
        panic!("it was dispatched");
    };
    drop(first);
    assert_eq!(hand.outstanding(), 1, "the answer is not read yet");
    let mut collected = Box::pin(response.into_body().collect());
    let Poll::Ready(Ok(body)) = poll(&mut collected) else {
        panic!("it is all there");
    };
    assert_eq!(body.to_bytes(), &b"hello"[..]);
    assert_eq!(hand.outstanding(), 0);
}

#[test]
fn the_first_data_says_that_the_prefill_is_done() {
    let mut hand = Hand::new(|builder| builder);
    let streaming = service_fn(|_: Request<Empty<Bytes>>| {
        let pieces = Pieces(vec![b"one", b"two"]);
        ready(Ok::<_, Infallible>(Response::new(pieces)))
    });
    let refuse = |_: &AdmitError| -> Response<Pieces> { panic!("it is dispatched") };
    let mut service =
        AdmissionLayer::new(hand.0.admission.clone(), FromHeaders, refuse).layer(streaming);
    let (mut first, mut second) = (service.call(request()), service.call(request()));
    assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
    hand.settle();
    let Poll::Ready(Ok(response)) = poll(&mut first) else {
        panic!("it was dispatched");
    };
    assert!(
        poll(&mut second).is_pending(),
        "the worker is busy with the prompt"
    );
    let mut body = response.into_body();
    let mut frame = Box::pin(body.frame());
    assert!(poll(&mut frame).is_ready());
    drop(frame);
    hand.settle();
    let other = poll(&mut second);
    assert!(other.is_ready(), "the prompt is through");
    assert_eq!(hand.outstanding(), 2, "and the answer goes on");
    drop((body, other));
    assert_eq!(hand.outstanding(), 0);
}

/// A body whose data comes in pieces.
struct Pieces(Vec<Bytes>);

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        let piece = (!self.0.is_empty()).then(|| self.0.remove(0));
        Poll::Ready(piece.map(|data| Ok(http_body::Frame::data(data))))
    }
}

#[test]
fn a_body_that_is_dropped_or_empty_releases_at_once() {
    let mut hand = Hand::new(|builder| builder);
    let mut service = layer(&hand.0.admission).layer(service_fn(answer));
    let mut call = service.call(request());
    assert!(poll(&mut call).is_pending());
    hand.settle();
    let response = poll(&mut call);
    assert_eq!(hand.outstanding(), 1);
    drop(response);
    assert_eq!(hand.outstanding(), 0, "the client has gone");

    let empty = service_fn(|_: Request<Empty<Bytes>>| {
        ready(Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())))
    });
    let refuse = |_: &AdmitError| Response::new(Empty::<Bytes>::new());
    let mut service =
        AdmissionLayer::new(hand.0.admission.clone(), FromHeaders, refuse).layer(empty);
    let mut call = service.call(request());
    assert!(poll(&mut call).is_pending());
    hand.settle();
    let response = poll(&mut call);
    assert!(response.is_ready());
    assert_eq!(hand.outstanding(), 0, "there is nothing to read");
}

#[test]
fn a_call_that_is_dropped_cancels_its_request() {
    let mut hand = Hand::new(|builder| builder);
    let mut service = layer(&hand.0.admission).layer(service_fn(answer));
    let (mut first, mut second) = (service.call(request()), service.call(request()));
    assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
    assert_eq!(hand.outstanding(), 1);
    drop((first, second));
    assert_eq!(hand.outstanding(), 0);
}

#[test]
fn an_error_of_the_inner_service_completes_the_request() {
    let mut hand = Hand::new(|builder| builder);
    let broken = service_fn(|_: Request<Empty<Bytes>>| {
        ready(Err::<Response<Full<Bytes>>, _>("connection refused"))
    });
    let mut service = layer(&hand.0.admission).layer(broken);
    let mut call = service.call(request());
    assert!(poll(&mut call).is_pending());
    hand.settle();
    let Poll::Ready(Err(error)) = poll(&mut call) else {
        panic!("it failed");
    };
    assert_eq!(error, "connection refused");
    drop(call);
    assert_eq!(hand.outstanding(), 0);
}

#[test]
fn an_outcome_becomes_the_embedder_s_response() {
    let mut hand = Hand::new(|builder| builder);
    let mut service = layer(&hand.0.admission).layer(service_fn(answer));
    let (mut first, mut second) = (service.call(request()), service.call(request()));
    assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
    hand.settle();
    let stop = tollgate::Command::Stop { drain: Nanos(0) };
    let stopped = hand.0.core.execute(&hand.0.handles.control(), stop);
    assert!(stopped.is_ok());
    hand.settle();
    let Poll::Ready(Ok(response)) = poll(&mut second) else {
        panic!("it was stopped");
    };
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(response.body().permit().is_none());
}

#[test]
fn a_layer_may_refuse_where_there_is_no_room() {
    let hand = Hand::new(|builder| builder.slots(1));
    let mut service = layer(&hand.0.admission)
        .refuse_when_full()
        .layer(service_fn(answer));
    let (mut first, mut second) = (service.call(request()), service.call(request()));
    assert!(poll(&mut first).is_pending());
    let Poll::Ready(Ok(response)) = poll(&mut second) else {
        panic!("there is no room");
    };
    assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
}

/// A request that borrows nothing is its own metadata, and a function extracts it.
#[test]
fn a_function_extracts() {
    let mut hand = Hand::new(|builder| builder);
    let extract = |_: &Request<Empty<Bytes>>| tollgate::Request::new(64, ());
    let respond: fn(&AdmitError) -> Response<Full<Bytes>> = respond;
    let layer = AdmissionLayer::new(hand.0.admission.clone(), extract, respond);
    let mut service = layer.layer(service_fn(answer));
    let mut call = service.call(request());
    assert!(poll(&mut call).is_pending());
    hand.settle();
    assert!(poll(&mut call).is_ready());
}
