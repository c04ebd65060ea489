//! Requests that wait: their order, their limits, and those that give up.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::json;

use crate::support::{COMPLETIONS, Stage, TWO_CLASSES, worker};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_58_a_higher_tier_goes_first() {
    let stage = Stage::before(vec![worker(1.0).await], TWO_CLASSES, |_| {}).await;
    let held = stage.hold().await;
    let mut waiting = Vec::new();
    for (number, tier) in [(1, "0"), (2, "5"), (3, "1")] {
        let began = Instant::now();
        let headers = [("x-dynamo-request-strict-priority", tier)];
        waiting.push((began, stage.send(number, &headers)));
        stage.until_waiting(number.into()).await;
    }
    held.abort();
    let mut dispatched = Vec::new();
    for (began, one) in waiting {
        let answer = one.await.expect("an answer");
        assert_eq!(answer.status, 200);
        let wait: f64 = answer
            .header("x-tollgate-wait-ms")
            .parse()
            .expect("a number");
        dispatched.push(began + Duration::from_secs_f64(wait / 1e3));
    }
    // One prefill, some 20 ms, lies between two of them.
    assert!(
        dispatched[1] < dispatched[2] && dispatched[2] < dispatched[0],
        "{dispatched:?}"
    );
    stage.until_free().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn premium_is_served_four_to_one_while_both_wait() {
    let stage = Stage::with_policy(1, TWO_CLASSES).await;
    let held = stage.hold().await;
    let classes = [
        [("x-dynamo-meta-policy-class", "premium")],
        [("x-dynamo-meta-policy-class", "regular")],
    ];
    let (done, mut ended) = tokio::sync::mpsc::unbounded_channel();
    for number in 0..40 {
        let class = number as usize % 2;
        let one = stage.send(number, &classes[class]);
        let done = done.clone();
        tokio::spawn(async move {
            assert_eq!(one.await.expect("an answer").status, 200);
            done.send(class).expect("it is read");
        });
    }
    stage.until_waiting(40).await;
    held.abort();
    let mut first = [0, 0];
    for _ in 0..20 {
        first[ended.recv().await.expect("an end")] += 1;
    }
    assert!((15..=17).contains(&first[0]), "{first:?}");
    for _ in 0..20 {
        ended.recv().await.expect("an end");
    }
    stage.until_free().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancel_6_clients_that_go_while_they_wait_never_reach_a_worker() {
    let stage = Stage::with_policy(1, TWO_CLASSES).await;
    let held = stage.hold().await;
    let received = stage.received();
    let waiting: Vec<_> = (0..20).map(|number| stage.send(number, &[])).collect();
    stage.until_waiting(20).await;
    for (at, one) in waiting.iter().enumerate() {
        if at % 2 == 0 {
            one.abort();
        }
    }
    stage.until_waiting(10).await;
    held.abort();
    for (at, one) in waiting.into_iter().enumerate() {
        match one.await {
            Ok(answer) => assert!(at % 2 == 1 && answer.status == 200),
            Err(error) => assert!(at % 2 == 0 && error.is_cancelled()),
        }
    }
    assert_eq!(stage.received(), received + 10);
    stage.until_free().await;
    let metrics = stage.operator(Method::GET, "/metrics", "").await.text();
    // The one that was held, and the ten that left.
    let left = "tollgate_requests_total{model=\"m\",class=\"regular\",code=\"client_closed\"} 11\n";
    assert!(metrics.contains(left), "{metrics}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_goes_in_the_middle_of_a_stream_frees_its_worker() {
    // Ten tokens a second.
    let stage = Stage::before(vec![worker(0.1).await], TWO_CLASSES, |_| {}).await;
    let body = json!({ "model": "m", "prompt": [1, 2, 3], "max_tokens": 1_000, "stream": true });
    let response = crate::support::open(
        stage.router.address(),
        Method::POST,
        COMPLETIONS,
        &[],
        body.to_string(),
    );
    let response = response.await.expect("an answer");
    assert_eq!(response.status(), 200);
    assert_eq!(stage.workers[0].counters().running, 1);
    drop(response);
    stage.until_free().await;
    for _ in 0..200 {
        if stage.workers[0].counters().running == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let counters = stage.workers[0].counters();
    assert_eq!((counters.running, counters.cancelled), (0, 1));
}
