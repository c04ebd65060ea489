//! A router with its workers, and clients for it.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tollgate_mock_worker::{MockWorker, Settings};
use tollgate_router::Router;
use tollgate_router::config::{AccessLog, Config, EngineSizes, WorkerConfig};
use tollgate_sim::worker::WorkerModel;

pub(crate) const ANY_PORT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
pub(crate) const CHAT: &str = "/v1/chat/completions";
pub(crate) const COMPLETIONS: &str = "/v1/completions";

/// Four premium tokens for each regular one; a worker takes one prefill at a time.
pub(crate) const TWO_CLASSES: &str = "\
default_policy_family: regular
uncached_isl_buckets: [{min_tokens: 0, bucket: any}]
policy_classes:
- {name: premium, policy_family: premium, cache_bucket: any, quantum: 2048, prefill_busy_threshold: 0}
- {name: regular, policy_family: regular, cache_bucket: any, quantum: 512, prefill_busy_threshold: 0}
";

/// A router, its workers, and the folder of its files.
pub(crate) struct Stage {
    pub(crate) router: Router,
    pub(crate) workers: Vec<MockWorker>,
    pub(crate) dir: TempDir,
}

/// A fast worker of the model `m`.
pub(crate) async fn worker(speed: f64) -> MockWorker {
    worker_of("m", speed).await
}

pub(crate) async fn worker_of(model: &str, speed: f64) -> MockWorker {
    let settings = Settings {
        model: model.to_owned(),
        worker: WorkerModel::default(),
        speed,
    };
    MockWorker::start(settings, ANY_PORT)
        .await
        .expect("a free port")
}

pub(crate) fn config_of(address: SocketAddr) -> WorkerConfig {
    let url = format!("http://{address}").parse().expect("an address");
    WorkerConfig::new(url)
}

/// What tests set out from: quick looks, no log, small sizes.
pub(crate) fn config() -> Config {
    let mut config = Config {
        listen: ANY_PORT,
        admin: ANY_PORT,
        access_log: AccessLog::Off,
        engine: EngineSizes {
            models: 3,
            slots: 1_024,
            ..EngineSizes::default()
        },
        drain: Duration::from_secs(5),
        ..Config::default()
    };
    config.health.interval = Duration::from_millis(200);
    config.health.timeout = Duration::from_secs(2);
    config
}

impl Stage {
    /// So many fast workers behind a router with this policy.
    pub(crate) async fn with_policy(workers: usize, policy: &str) -> Self {
        Self::start(workers, policy, |_| {}).await
    }

    /// The same, with settings changed.
    pub(crate) async fn start(
        workers: usize,
        policy: &str,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let mut started = Vec::new();
        for _ in 0..workers {
            started.push(worker(50.0).await);
        }
        Self::before(started, policy, change).await
    }

    pub(crate) async fn before(
        workers: Vec<MockWorker>,
        policy: &str,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let dir = TempDir::new().expect("a folder");
        let mut config = config();
        config.workers = workers
            .iter()
            .map(|worker| config_of(worker.address()))
            .collect();
        if !policy.is_empty() {
            let path = dir.path().join("policy.yaml");
            std::fs::write(&path, policy).expect("a file");
            config.policy = Some(path);
        }
        change(&mut config);
        let router = Router::start(config).await.expect("it starts");
        Self {
            router,
            workers,
            dir,
        }
    }

    pub(crate) async fn post(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
        post(self.router.address(), path, headers, body.to_string()).await
    }

    pub(crate) async fn operator(
        &self,
        method: Method,
        path: &str,
        body: impl Into<Bytes>,
    ) -> Answer {
        ask(self.router.admin_address(), method, path, &[], body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        ask(self.router.address(), Method::GET, path, &[], Bytes::new()).await
    }

    /// Sends a completion of 512 tokens in a task of its own.
    pub(crate) fn send(
        &self,
        number: u32,
        headers: &[(&'static str, &'static str)],
    ) -> JoinHandle<Answer> {
        self.send_of(number, 512, headers)
    }

    /// The same, of so many tokens.
    pub(crate) fn send_of(
        &self,
        number: u32,
        tokens: u32,
        headers: &[(&'static str, &'static str)],
    ) -> JoinHandle<Answer> {
        let (address, headers) = (self.router.address(), headers.to_vec());
        let body = completion(number, tokens).to_string();
        tokio::spawn(async move { post(address, COMPLETIONS, &headers, body).await })
    }

    /// A request that keeps its worker in a prefill until this is aborted.
    pub(crate) async fn hold(&self) -> JoinHandle<Answer> {
        let before = self.received();
        let held = self.send(9_999, &[("x-mock-fault", "stall-before")]);
        while self.received() == before {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        held
    }

    /// Requests that workers received.
    pub(crate) fn received(&self) -> u64 {
        self.workers
            .iter()
            .map(|worker| worker.counters().received)
            .sum()
    }

    /// The state of the model `m`, as operators see it.
    pub(crate) async fn state(&self) -> Value {
        let answer = self.operator(Method::GET, "/state", "").await;
        assert_eq!(answer.status, 200, "{:?}", answer.body);
        answer.json()["models"][0].clone()
    }

    /// Waits until so many requests wait.
    pub(crate) async fn until_waiting(&self, requests: u64) {
        let mut seen = Value::Null;
        for _ in 0..200 {
            seen = self.state().await["waiting"].clone();
            if seen == requests {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{requests} requests should wait, and {seen} do");
    }

    /// Waits until nothing waits, runs or is booked.
    pub(crate) async fn until_free(&self) {
        let mut state = Value::Null;
        for _ in 0..300 {
            state = self.state().await;
            let endpoints = state["endpoints"].as_array().expect("a list").iter();
            let booked = endpoints.map(|endpoint| {
                let number = |key: &str| endpoint[key].as_u64().expect("a number");
                number("load_tokens") + number("active")
            });
            if state["waiting"] == 0 && state["outstanding"] == 0 && booked.sum::<u64>() == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("something is still booked: {state:#}");
    }
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().expect("text"))
    }

    /// Status and code of a refusal, which must have the form of one.
    pub(crate) fn refusal(&self) -> (u16, String) {
        let body = self.json();
        let error = &body["error"];
        for key in ["message", "type", "code"] {
            assert!(error[key].is_string(), "{key} of {body}");
        }
        assert!(error.get("param").is_some(), "{body}");
        (
            self.status,
            error["code"].as_str().unwrap_or_default().to_owned(),
        )
    }

    /// The data of its events.
    pub(crate) fn events(&self) -> Vec<String> {
        let text = self.text();
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        data.map(str::to_owned).collect()
    }
}

/// Sends a request on a connection of its own and waits for the answer's head.
pub(crate) async fn open(
    address: SocketAddr,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> hyper::Result<Response<Incoming>> {
    let stream = TcpStream::connect(address).await.expect("it listens");
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", address.to_string());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(body.into())).expect("a request");
    sender.send_request(request).await
}

/// Sends a request and waits for the whole answer.
pub(crate) async fn ask(
    address: SocketAddr,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Answer {
    let response = open(address, method, path, headers, body)
        .await
        .expect("an answer");
    let (head, body) = response.into_parts();
    let body = body.collect().await.expect("a whole body").to_bytes();
    Answer {
        status: head.status.as_u16(),
        headers: head.headers,
        body,
    }
}

pub(crate) async fn post(
    address: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Answer {
    ask(address, Method::POST, path, headers, body).await
}

/// A completion of so many prompt tokens, no two numbers with a common beginning.
pub(crate) fn completion(number: u32, tokens: u32) -> Value {
    let prompt: Vec<u32> = (0..tokens)
        .map(|at| if at == 0 { number } else { at })
        .collect();
    json!({ "model": "m", "prompt": prompt, "max_tokens": 1 })
}

pub(crate) fn chat(text: &str) -> Value {
    json!({ "model": "m", "messages": [{ "role": "user", "content": text }], "max_tokens": 4 })
}

pub(crate) fn streamed(mut body: Value) -> Value {
    body["stream"] = json!(true);
    body
}

/// A worker of the model `m` that is well by its looks and answers every request in this way.
pub(crate) async fn answering<F, A>(answer: F) -> SocketAddr
where
    F: Fn(Request<axum::body::Body>) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Response<axum::body::Body>> + Send,
{
    let models = json!([{ "id": "m", "object": "model" }]);
    serving(models, axum::routing::post(answer)).await
}

/// A worker that lists these models, and answers no request.
pub(crate) async fn worker_listing(models: Value) -> SocketAddr {
    serving(models, axum::routing::MethodRouter::new()).await
}

async fn serving(models: Value, answer: axum::routing::MethodRouter) -> SocketAddr {
    use axum::routing::get;
    let models = json!({ "object": "list", "data": models }).to_string();
    let routes = axum::Router::new()
        .route("/health", get(|| async { "" }))
        .route("/v1/models", get(move || async move { models }))
        .route("/v1/{*path}", answer);
    let listener = tokio::net::TcpListener::bind(ANY_PORT)
        .await
        .expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move { axum::serve(listener, routes).await });
    address
}

/// A worker that answers every request with these bytes.
pub(crate) async fn answering_with(content_type: &'static str, body: &'static [u8]) -> SocketAddr {
    answering(move |_| async move {
        let response = Response::builder().header("content-type", content_type);
        response.body(body.into()).expect("an answer")
    })
    .await
}

/// A worker that answers every request with what it was sent.
pub(crate) async fn echoing() -> SocketAddr {
    answering(|request| async move {
        let (head, body) = request.into_parts();
        let body = body.collect().await.expect("a body").to_bytes();
        let headers = head.headers.iter();
        let headers: Vec<_> = headers
            .map(|(name, value)| (name.as_str(), String::from_utf8_lossy(value.as_bytes())))
            .collect();
        let told = json!({
            "uri": head.uri.to_string(), "headers": headers, "body": String::from_utf8_lossy(&body),
        });
        let response = Response::builder()
            .header("content-type", "application/json")
            .header("x-worker-own", "yes")
            .header("keep-alive", "timeout=5");
        response.body(told.to_string().into()).expect("an answer")
    })
    .await
}

/// A worker that refuses every request.
pub(crate) async fn refusing() -> SocketAddr {
    answering(|_| async {
        let mut response = Response::default();
        *response.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
        response
    })
    .await
}
