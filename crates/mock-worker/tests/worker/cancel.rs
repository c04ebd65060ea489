//! Clients that leave.

use tollgate_arbiter::Nanos;
use tollgate_mock_worker::MockWorker;
use tollgate_sim::worker::WorkerModel;

use crate::client::{completion, json, next_data, post, send, try_send, until, worker};

/// One sequence, and steps that nobody waits for.
async fn narrow() -> MockWorker {
    let model = WorkerModel {
        sequences: 1,
        decode_step: Nanos::from_millis(60_000),
        ..WorkerModel::default()
    };
    worker(1.0, model).await
}

#[tokio::test]
async fn a_client_that_leaves_its_stream_frees_the_sequence_for_the_next() {
    let worker = narrow().await;
    let mut stream = send(&worker, post("/v1/completions", completion(5, 9, true))).await;
    assert!(next_data(&mut stream).await.is_some());
    let second = try_send(&worker, post("/v1/completions", completion(5, 1, false)));
    let leave = async {
        until(&worker, |counters| counters.waiting == 1).await;
        drop(stream);
    };
    let (second, ()) = tokio::join!(second, leave);
    let (_, answer) = json(second.expect("an answer comes")).await;
    assert_eq!(answer["usage"]["completion_tokens"], 1);
    let counters = worker.counters();
    assert_eq!((counters.cancelled, counters.completed), (1, 1));
    assert_eq!(
        counters.output_tokens, 2,
        "one of the stream, one of the other"
    );
    assert_eq!(counters.running_max, 1);
}

#[tokio::test]
async fn a_client_that_leaves_while_it_waits_is_forgotten() {
    let worker = narrow().await;
    let stream = send(&worker, post("/v1/completions", completion(5, 9, true))).await;
    until(&worker, |counters| counters.running == 1).await;
    let waiting = try_send(&worker, post("/v1/completions", completion(5, 9, false)));
    tokio::select! {
        _ = waiting => panic!("there is no room for it"),
        counters = until(&worker, |counters| counters.waiting == 1) => {
            assert_eq!(counters.received, 2);
        }
    }
    let counters = until(&worker, |counters| counters.cancelled == 1).await;
    assert_eq!((counters.waiting, counters.running), (0, 1));
    assert_eq!(counters.prompt_tokens, 5, "it never ran");
    drop(stream);
    let counters = until(&worker, |counters| counters.cancelled == 2).await;
    assert_eq!(counters.running, 0);
}
