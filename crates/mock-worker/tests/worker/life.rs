//! Starting and stopping.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tollgate_mock_worker::{MockWorker, Settings, StartError};
use tollgate_sim::worker::WorkerModel;

use crate::client::{completion, fast, frames, get, next_data, post, send, until, within, worker};

const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

#[tokio::test]
async fn settings_out_of_range_are_refused() {
    for speed in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let settings = Settings {
            speed,
            ..Settings::default()
        };
        let refused = MockWorker::start(settings, ANY)
            .await
            .expect_err("no speed");
        assert!(
            refused
                .to_string()
                .ends_with("it must be finite and above 0")
        );
    }
    let nameless = Settings {
        model: String::new(),
        ..Settings::default()
    };
    let refused = MockWorker::start(nameless, ANY).await.expect_err("no name");
    assert!(matches!(refused, StartError::NoModel));
}

#[tokio::test]
async fn an_address_in_use_is_refused_by_name() {
    let first = fast().await;
    let refused = MockWorker::start(Settings::default(), first.address()).await;
    let refused = refused.expect_err("it is in use");
    assert_eq!(
        refused.to_string(),
        format!("cannot listen at {}", first.address())
    );
}

#[tokio::test]
async fn stopping_closes_every_connection_and_frees_the_address() {
    let worker = worker(1.0, WorkerModel::default()).await;
    let address = worker.address();
    let mut stream = send(&worker, post("/v1/completions", completion(5, 1_000, true))).await;
    assert!(next_data(&mut stream).await.is_some());
    within(worker.stop()).await;
    // What was on its way still comes, but no proper end.
    while within(stream.frame()).await.expect("no proper end").is_ok() {}
    assert!(
        TcpStream::connect(address).await.is_err(),
        "nothing listens"
    );
    let again = MockWorker::start(Settings::default(), address).await;
    assert_eq!(again.expect("the address is free").address(), address);
}

#[tokio::test]
async fn dropping_stops_as_well() {
    let worker = fast().await;
    let address = worker.address();
    drop(worker);
    let gone = async {
        while TcpStream::connect(address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    within(gone).await;
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let worker = fast().await;
    let socket = TcpStream::connect(worker.address())
        .await
        .expect("it listens");
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(socket)).await;
    let (mut sender, connection) = handshake.expect("a connection");
    tokio::spawn(connection);
    for _ in 0..3 {
        sender.ready().await.expect("it is open");
        let asked = post("/v1/completions", completion(5, 3, true));
        let response = within(sender.send_request(asked)).await.expect("an answer");
        assert_eq!(frames(response).await.len(), 5);
        sender.ready().await.expect("it is open");
        let response = within(sender.send_request(get("/health")))
            .await
            .expect("an answer");
        within(response.into_body().collect())
            .await
            .expect("no body");
    }
}

#[tokio::test]
async fn hundreds_of_streams_run_at_one_time() {
    let model = WorkerModel {
        sequences: 400,
        max_batched_tokens: 1 << 20,
        ..WorkerModel::default()
    };
    let worker = Arc::new(worker(1.0, model).await);
    let mut clients = JoinSet::new();
    for _ in 0..400 {
        let worker = Arc::clone(&worker);
        clients.spawn(async move {
            let asked = post("/v1/completions", completion(5, 40, true));
            frames(send(&worker, asked).await).await.len()
        });
    }
    let counts = within(clients.join_all()).await;
    assert!(counts.iter().all(|count| *count == 42), "{counts:?}");
    let counters = until(&worker, |counters| counters.running == 0).await;
    assert_eq!((counters.completed, counters.output_tokens), (400, 16_000));
    assert!(counters.running_max > 16, "{counters:?}");
}
