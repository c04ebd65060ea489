//! The processes of a measurement.

use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};

use axum::body::Body;
use axum::routing::{get, post};
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tollgate::Nanos;
use tollgate_mock_worker::{MockWorker, Settings};
use tollgate_router::Router;
use tollgate_router::config::{AccessLog, Config, EngineSizes, WorkerConfig};
use tollgate_sim::worker::{PrefillTime, WorkerModel};

const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const MODELS: &str = r#"{"object":"list","data":[{"id":"m","object":"model"}]}"#;
const ANSWER: &str = r#"{"id":"c","object":"text_completion","created":0,"model":"m","choices":[{"index":0,"text":"a","finish_reason":"length"}],"usage":{"prompt_tokens":8,"completion_tokens":1,"total_tokens":9}}"#;

/// A process, killed with this.
pub(crate) struct Part {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Part {
    /// Starts a part and waits until it says where it listens.
    pub(crate) fn start(part: &str, arguments: &[String]) -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        let mut child = Command::new(program)
            .arg(part)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program starts again");
        let mut line = String::new();
        let output = child.stdout.as_mut().expect("it is piped");
        BufReader::new(output)
            .read_line(&mut line)
            .expect("it tells its address");
        let address = line.trim().parse();
        let address = address.unwrap_or_else(|_| panic!("{part} told `{line}`, no address"));
        Self { child, address }
    }

    /// Resident memory, now and at its peak, in bytes.
    pub(crate) fn memory(&self) -> (u64, u64) {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).unwrap_or_default();
        let kilobytes = |key: &str| {
            let line = status.lines().find(|line| line.starts_with(key));
            let number = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
            number.unwrap_or(0) * 1_024
        };
        (kilobytes("VmRSS:"), kilobytes("VmHWM:"))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // It ends when it is killed; one that has ended already is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a part until whoever started it is gone.
pub(crate) async fn run(part: &str, arguments: Vec<String>) {
    let address = match part {
        "part:instant" => instant().await,
        "part:worker" => worker().await,
        "part:proxy" => proxy(&arguments).await,
        "part:router" => router(&arguments).await,
        other => panic!("there is no {other}"),
    };
    println!("{address}");
    let end = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    // Its end is the end, whatever it read.
    let _ = end.await;
}

/// A worker that answers at once.
async fn instant() -> SocketAddr {
    let answer = || async {
        let mut response = http::Response::new(ANSWER.to_owned());
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, json);
        response
    };
    let routes = axum::Router::new()
        .route("/health", get(|| async { "" }))
        .route("/v1/models", get(|| async { MODELS }))
        .route("/v1/completions", post(answer));
    listen(routes).await
}

/// A proxy that decides nothing: what the libraries take that the router stands on.
async fn proxy(arguments: &[String]) -> SocketAddr {
    let [worker] = arguments else {
        panic!("a proxy has one worker")
    };
    let worker: http::uri::Authority = worker.parse().expect("an address");
    let client = Client::builder(TokioExecutor::new()).build_http::<Body>();
    let pass = move |request: http::Request<Body>| {
        let (client, worker) = (client.clone(), worker.clone());
        async move {
            let (mut head, body) = request.into_parts();
            let mut uri = head.uri.into_parts();
            uri.scheme = Some(http::uri::Scheme::HTTP);
            uri.authority = Some(worker);
            head.uri = uri.try_into().expect("an address and a path");
            let answer = client.request(http::Request::from_parts(head, body)).await;
            answer.expect("the worker answers").map(Body::new)
        }
    };
    listen(axum::Router::new().fallback(pass)).await
}

async fn listen(routes: axum::Router) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind(ANY_PORT)
        .await
        .expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move { axum::serve(listener, routes).await });
    address
}

/// A modelled worker that holds as many streams as come: a prefill takes 50 ms, a token half a second.
async fn worker() -> SocketAddr {
    const MILLI: u64 = 1_000_000_000_000_000;
    let settings = Settings {
        model: "m".to_owned(),
        worker: WorkerModel {
            sequences: 1 << 16,
            cache_blocks: 0,
            prefill: PrefillTime {
                per_token_squared_as: 0,
                per_token_as: 0,
                base_as: 50 * MILLI,
            },
            decode_step: Nanos::from_millis(500),
            ..WorkerModel::default()
        },
        speed: 1.0,
    };
    let worker = MockWorker::start(settings, ANY_PORT)
        .await
        .expect("a free port");
    let address = worker.address();
    // It lives as long as the process.
    std::mem::forget(worker);
    address
}

/// A router with a policy, before workers.
async fn router(arguments: &[String]) -> SocketAddr {
    let (policy, workers) = arguments.split_first().expect("a policy");
    let workers = workers.iter().map(|address| {
        let url = format!("http://{address}").parse();
        WorkerConfig::new(url.expect("an address"))
    });
    let config = Config {
        listen: ANY_PORT,
        admin: ANY_PORT,
        policy: (!policy.is_empty()).then(|| policy.into()),
        workers: workers.collect(),
        access_log: AccessLog::Off,
        engine: EngineSizes {
            models: 1,
            ..EngineSizes::default()
        },
        ..Config::default()
    };
    let router = Router::start(config).await.expect("it starts");
    let address = router.address();
    // It lives as long as the process.
    std::mem::forget(router);
    address
}
