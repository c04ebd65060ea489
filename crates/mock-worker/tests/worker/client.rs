//! A client that sees what comes and when, and one that sees bytes alone.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tollgate_mock_worker::{Counters, MockWorker, Settings};
use tollgate_sim::worker::WorkerModel;

/// How long anything may take before it counts as hung.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A worker at an address of its own.
pub(crate) async fn worker(speed: f64, model: WorkerModel) -> MockWorker {
    let settings = Settings {
        worker: model,
        speed,
        ..Settings::default()
    };
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    MockWorker::start(settings, address)
        .await
        .expect("it starts")
}

/// A worker so fast that its times do not matter.
pub(crate) async fn fast() -> MockWorker {
    worker(20.0, WorkerModel::default()).await
}

/// Waits, but not for ever.
pub(crate) async fn within<T>(what: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(PATIENCE, what).await;
    done.expect("it is done in time")
}

/// Waits until the counters are as they should be.
pub(crate) async fn until(worker: &MockWorker, is_so: impl Fn(&Counters) -> bool) -> Counters {
    let begun = Instant::now();
    loop {
        let counters = worker.counters();
        if is_so(&counters) {
            return counters;
        }
        assert!(begun.elapsed() < PATIENCE, "still {counters:?}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Sends a request on a connection of its own. Dropping the response closes it.
pub(crate) async fn send(worker: &MockWorker, request: Request<Full<Bytes>>) -> Response<Incoming> {
    let sent = try_send(worker, request);
    within(sent).await.expect("an answer comes")
}

/// The same, where there may be no answer.
pub(crate) async fn try_send(
    worker: &MockWorker,
    request: Request<Full<Bytes>>,
) -> hyper::Result<Response<Incoming>> {
    let socket = TcpStream::connect(worker.address())
        .await
        .expect("it listens");
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(socket)).await?;
    tokio::spawn(connection);
    sender.send_request(request).await
}

pub(crate) fn get(path: &str) -> Request<Full<Bytes>> {
    let request = Request::get(path).header("host", "mock");
    request.body(Full::default()).expect("a request")
}

pub(crate) fn post(path: &str, body: impl ToString) -> Request<Full<Bytes>> {
    let request = Request::post(path).header("host", "mock");
    let body = Bytes::from(body.to_string());
    request.body(Full::new(body)).expect("a request")
}

/// A completion of so many tokens for a prompt of as many ids.
pub(crate) fn completion(prompt_tokens: usize, output_tokens: u32, stream: bool) -> Value {
    let prompt: Vec<usize> = (0..prompt_tokens).collect();
    serde_json::json!({
        "model": "mock",
        "prompt": prompt,
        "max_tokens": output_tokens,
        "stream": stream,
    })
}

/// The same, with a fault.
pub(crate) fn faulty(fault: &str, output_tokens: u32, stream: bool) -> Request<Full<Bytes>> {
    let mut request = post("/v1/completions", completion(10, output_tokens, stream));
    let fault = fault.parse().expect("a header's value");
    request.headers_mut().insert("x-mock-fault", fault);
    request
}

/// The whole body as JSON, and the status.
pub(crate) async fn json(response: Response<Incoming>) -> (StatusCode, Value) {
    let status = response.status();
    let body = within(response.into_body().collect()).await;
    let body = body.expect("the whole body comes").to_bytes();
    let json = serde_json::from_slice(&body);
    (
        status,
        json.unwrap_or_else(|error| panic!("{error}: {body:?}")),
    )
}

/// The frames of a stream to its end, each with the time when it came.
pub(crate) async fn frames(mut response: Response<Incoming>) -> Vec<(Instant, String)> {
    let mut frames = Vec::new();
    let mut rest = String::new();
    while let Some(data) = next_data(&mut response).await {
        let at = Instant::now();
        rest.push_str(std::str::from_utf8(&data).expect("text"));
        while let Some((frame, after)) = rest.split_once("\n\n") {
            frames.push((at, frame.to_owned()));
            rest = after.to_owned();
        }
    }
    assert_eq!(rest, "", "the last frame is whole");
    frames
}

/// The next bytes of a body that does not break off.
pub(crate) async fn next_data(response: &mut Response<Incoming>) -> Option<Bytes> {
    let frame = within(response.frame()).await?;
    let frame = frame.expect("the stream does not break off");
    Some(frame.into_data().expect("data"))
}

/// What a request brings on the bare socket: the bytes, and how they end.
pub(crate) async fn raw(
    worker: &MockWorker,
    fault: &str,
    stream: bool,
) -> (String, io::Result<()>) {
    let mut socket = TcpStream::connect(worker.address())
        .await
        .expect("it listens");
    let body = completion(10, 6, stream).to_string();
    let request = format!(
        "POST /v1/completions HTTP/1.1\r\nhost: mock\r\nx-mock-fault: {fault}\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    socket
        .write_all(request.as_bytes())
        .await
        .expect("it takes it");
    let mut bytes = Vec::new();
    let end = within(socket.read_to_end(&mut bytes)).await;
    (String::from_utf8_lossy(&bytes).into_owned(), end.map(drop))
}
