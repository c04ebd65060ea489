//! Workers behind TLS: those whom somebody vouches for, and those whom nobody should believe.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Method;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;
use tollgate_router::config::{Config, WorkerConfig};

use crate::support::{ANY_PORT, CHAT, Stage, TWO_CLASSES, chat, completion, streamed, worker};

/// How long anything may take that must not hang.
const SOON: Duration = Duration::from_secs(5);

/// Who signs certificates.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new([]).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("a certificate"))
    }

    /// A server whose certificate is for this name.
    fn server_for(&self, name: &str) -> ServerConfig {
        let params = CertificateParams::new([name.to_owned()]).expect("a name");
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        ServerConfig::builder_with_provider(default_provider().into())
            .with_safe_default_protocol_versions()
            .expect("the provider knows them")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key.into())
            .expect("the key is the certificate's")
    }

    /// Has a router trust it.
    fn vouch_for(&self, config: &mut Config) {
        let beside = config.policy.as_ref().expect("there is a policy");
        let path = beside.with_file_name("authority.pem");
        std::fs::write(&path, self.0.pem()).expect("a file");
        config.worker_ca = Some(path);
    }
}

/// Ends TLS before a worker; where it listens.
async fn front_of(worker: SocketAddr, server: ServerConfig) -> SocketAddr {
    let (_, server) = watch::channel(Some(Arc::new(server)));
    changing_front_of(worker, server).await
}

/// The same. When the server changes, all connections end; without one, those that come are kept and not served.
async fn changing_front_of(
    worker: SocketAddr,
    server: watch::Receiver<Option<Arc<ServerConfig>>>,
) -> SocketAddr {
    let listener = TcpListener::bind(ANY_PORT).await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let mut server = server.clone();
            let acceptor = server.borrow_and_update().clone().map(TlsAcceptor::from);
            tokio::spawn(async move {
                let pass = async {
                    let Some(acceptor) = acceptor else {
                        return std::future::pending().await;
                    };
                    // Whoever does not believe the certificate goes away.
                    let Ok(mut client) = acceptor.accept(client).await else {
                        return;
                    };
                    let mut worker = TcpStream::connect(worker).await.expect("it listens");
                    // Either side may close at any time.
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut worker).await;
                };
                tokio::select! {
                    () = pass => {}
                    Ok(()) = server.changed() => {}
                }
            });
        }
    });
    address
}

fn at(scheme: &str, address: SocketAddr) -> WorkerConfig {
    let url = format!("{scheme}://{address}");
    WorkerConfig::new(url.parse().expect("an address"))
}

/// A router that trusts this authority, before a worker behind this server.
async fn stage(trusted: &Authority, server: ServerConfig) -> Stage {
    let worker = worker(50.0).await;
    let front = front_of(worker.address(), server).await;
    Stage::before(vec![worker], TWO_CLASSES, |config| {
        config.workers = vec![at("https", front)];
        trusted.vouch_for(config);
    })
    .await
}

/// The first worker's report.
async fn report(stage: &Stage) -> Value {
    let answer = stage.operator(Method::GET, "/workers", "").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["workers"][0].clone()
}

/// A worker that cannot be used was never well, says why, gets nothing, and holds nobody up.
async fn assert_unusable(stage: &Stage, why: &str) {
    let began = Instant::now();
    let seen = report(stage).await;
    assert_eq!(seen["standing"], "unseen", "{seen}");
    let last_failure = seen["last_failure"].as_str().unwrap_or_default();
    assert!(last_failure.contains(why), "{why:?} is not in: {seen}");
    let answer = stage.post(CHAT, &[], &chat("x")).await;
    let expected = (503, "no_workers".to_owned());
    assert_eq!(answer.refusal(), expected, "{}", answer.text());
    assert_eq!(stage.received(), 0);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

/// A worker that is added while the router runs fails its first look with an event that says why.
async fn assert_told(stage: &Stage, worker: &WorkerConfig, why: &str) {
    let mut events = stage.router.events();
    let body = serde_json::json!({ "url": worker.url.to_string() });
    let added = stage
        .operator(Method::POST, "/workers", body.to_string())
        .await;
    assert!(added.status < 300, "{}", added.text());
    let told = async {
        loop {
            let event = events.recv().await.expect("the router lives");
            if event.contains(why) {
                return;
            }
        }
    };
    let told = tokio::time::timeout(SOON, told).await;
    told.unwrap_or_else(|_| panic!("no event says {why:?}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_pass_from_a_worker_that_somebody_vouches_for() {
    let authority = Authority::new("ours");
    let stage = stage(&authority, authority.server_for("127.0.0.1")).await;
    let seen = report(&stage).await;
    assert_eq!(seen["standing"], "well", "{seen}");
    let url = seen["url"].as_str().unwrap_or_default();
    assert!(url.starts_with("https://127.0.0.1:"), "{seen}");
    let answer = stage.post(CHAT, &[], &chat("x")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["usage"]["completion_tokens"], 4);
    let answer = stage.post(CHAT, &[], &streamed(chat("x"))).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.events().last().map(String::as_str), Some("[DONE]"));
    // Larger than a record of TLS, and than the buffers on its way.
    let long = completion(1, 100_000);
    let answer = stage.post("/v1/completions", &[], &long).await;
    assert_eq!(answer.json()["usage"]["prompt_tokens"], 100_000);
    let body = streamed(chat("x"));
    let cut = stage.post(CHAT, &[("x-mock-fault", "cut")], &body).await;
    let events = cut.events();
    let last = events.last().expect("an event");
    assert!(last.contains("upstream_failed"), "{last}");
    stage.until_free().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_nobody_vouches_for_is_not_used() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let stage = stage(&ours, other.server_for("127.0.0.1")).await;
    assert_unusable(&stage, "TLS: invalid peer certificate: UnknownIssuer").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_for_another_name_is_not_believed() {
    let authority = Authority::new("ours");
    let stage = stage(&authority, authority.server_for("worker.example")).await;
    assert_unusable(&stage, "certificate not valid for name").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_speaks_plain_http_is_not_used_at_an_https_address() {
    let authority = Authority::new("ours");
    let stage = Stage::start(1, TWO_CLASSES, |config| {
        let plain = std::mem::take(&mut config.workers);
        let plain = plain[0].url.to_string().replace("http://", "https://");
        config.workers = vec![WorkerConfig::new(plain.parse().expect("an address"))];
        authority.vouch_for(config);
    })
    .await;
    assert_unusable(&stage, "it does not speak TLS: ").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_behind_tls_is_not_used_at_a_plain_address() {
    let authority = Authority::new("ours");
    let worker = worker(50.0).await;
    let front = front_of(worker.address(), authority.server_for("127.0.0.1")).await;
    let stage = Stage::before(vec![worker], TWO_CLASSES, |config| {
        config.workers = vec![at("http", front)];
    })
    .await;
    assert_unusable(&stage, "it does not speak HTTP/1.1: ").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_say_why_a_worker_behind_tls_is_not_taken() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let stage = stage(&ours, ours.server_for("127.0.0.1")).await;
    let unknown = front_of(stage.workers[0].address(), other.server_for("127.0.0.1")).await;
    assert_told(&stage, &at("https", unknown), "UnknownIssuer").await;
    let plain = stage.workers[0].address();
    assert_told(&stage, &at("https", plain), "it does not speak TLS: ").await;
    assert_eq!(stage.post(CHAT, &[], &chat("x")).await.status, 200);
    stage.until_free().await;
}

/// A router before a worker behind a server that may change. Requests find out what is wrong with it, not looks.
async fn changing_stage(
    authority: &Authority,
    server: watch::Receiver<Option<Arc<ServerConfig>>>,
) -> Stage {
    let worker = worker(50.0).await;
    let front = changing_front_of(worker.address(), server).await;
    let stage = Stage::before(vec![worker], TWO_CLASSES, |config| {
        config.workers = vec![at("https", front)];
        config.health.interval = Duration::from_secs(60);
        config.timeouts.connect = Duration::from_millis(300);
        authority.vouch_for(config);
    })
    .await;
    assert_eq!(stage.post(CHAT, &[], &chat("x")).await.status, 200);
    stage
}

/// Requests fail until the worker is out, for this reason, and book nothing.
async fn assert_taken_out(stage: &Stage, why: &str) {
    let out = async {
        while report(stage).await["standing"] != "ejected" {
            let answer = stage.post(CHAT, &[], &chat("x")).await;
            assert!([502, 503].contains(&answer.status), "{}", answer.text());
        }
    };
    let out = tokio::time::timeout(SOON, out).await;
    out.expect("it is taken out");
    let seen = report(stage).await;
    let last_failure = seen["last_failure"].as_str().unwrap_or_default();
    assert!(last_failure.contains(why), "{why:?} is not in: {seen}");
    stage.until_free().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_whose_certificate_is_replaced_by_a_wrong_one_is_taken_out_and_back() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let [right, wrong] =
        [&ours, &other].map(|authority| Some(Arc::new(authority.server_for("127.0.0.1"))));
    let (server, front) = watch::channel(right.clone());
    let stage = changing_stage(&ours, front).await;
    server.send_replace(wrong);
    assert_taken_out(&stage, "TLS: invalid peer certificate: UnknownIssuer").await;
    server.send_replace(right);
    let back = async {
        while stage.post(CHAT, &[], &chat("x")).await.status != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let back = tokio::time::timeout(SOON, back).await;
    back.expect("it is taken back");
    stage.until_free().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_do_not_wait_for_a_server_that_falls_silent_in_tls() {
    let ours = Authority::new("ours");
    let (server, front) = watch::channel(Some(Arc::new(ours.server_for("127.0.0.1"))));
    let stage = changing_stage(&ours, front).await;
    server.send_replace(None);
    assert_taken_out(&stage, "no connection within 300 ms").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_never_takes_part_in_tls_says_so_in_its_report() {
    let ours = Authority::new("ours");
    let (_server, silent) = watch::channel(None);
    let silent = changing_front_of(ANY_PORT, silent).await;
    let stage = Stage::start(0, TWO_CLASSES, |config| {
        config.workers = vec![at("https", silent)];
        config.timeouts.connect = Duration::from_millis(200);
        ours.vouch_for(config);
    })
    .await;
    assert_unusable(&stage, "no connection within 200 ms").await;
}
