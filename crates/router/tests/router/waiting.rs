//! Requests that wait: their order, their limits, and those that give up.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinHandle;

use crate::support::{Answer, COMPLETIONS, Stage, TWO_CLASSES, completion, post, worker};

/// One class in which nothing waits beyond two requests a worker.
const LIMITED: &str = "\
default_policy_family: d
uncached_isl_buckets: [{min_tokens: 0, bucket: any}]
policy_classes:
- {name: d, policy_family: d, cache_bucket: any, quantum: 100, prefill_busy_threshold: 0, request_queue_limit_per_worker: 2}
";

/// A request that keeps its worker in a prefill until this is aborted.
async fn hold(stage: &Stage) -> JoinHandle<Answer> {
    let before = stage.received();
    let held = send(stage, 9_999, &[("x-mock-fault", "stall-before")]);
    while stage.received() == before {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    held
}

fn send(
    stage: &Stage,
    number: u32,
    headers: &[(&'static str, &'static str)],
) -> JoinHandle<Answer> {
    let address = stage.router.address();
    let headers = headers.to_vec();
    tokio::spawn(async move {
        post(
            address,
            COMPLETIONS,
            &headers,
            completion(number, 512).to_string(),
        )
        .await
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_58_a_higher_tier_goes_first() {
    let stage = Stage::before(vec![worker(1.0).await], TWO_CLASSES, |_| {}).await;
    let held = hold(&stage).await;
    let mut waiting = Vec::new();
    for (number, tier) in [(1, "0"), (2, "5"), (3, "1")] {
        let began = Instant::now();
        let headers = [("x-dynamo-request-strict-priority", tier)];
        waiting.push((began, send(&stage, number, &headers)));
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
    let held = hold(&stage).await;
    let classes = [
        [("x-dynamo-meta-policy-class", "premium")],
        [("x-dynamo-meta-policy-class", "regular")],
    ];
    let (done, mut ended) = tokio::sync::mpsc::unbounded_channel();
    for number in 0..40 {
        let class = number as usize % 2;
        let one = send(&stage, number, &classes[class]);
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
async fn limit_65_beyond_the_limit_a_request_is_refused_with_the_facts() {
    for status in [429, 529] {
        let stage = Stage::start(1, LIMITED, |config| config.overload_status = status).await;
        let held = hold(&stage).await;
        let waiting = [send(&stage, 1, &[]), send(&stage, 2, &[])];
        stage.until_waiting(2).await;
        let refused = stage.post(COMPLETIONS, &[], &completion(3, 512)).await;
        assert_eq!(
            refused.refusal(),
            (status, "queue_limit_requests".to_owned())
        );
        let details = &refused.json()["error"]["details"];
        let expected = json!({ "class": "d", "limit_kind": "requests", "current": 2, "limit": 2, "workers": 1 });
        assert_eq!(*details, expected);
        let seconds: u64 = refused
            .header("retry-after")
            .parse()
            .expect("whole seconds");
        let millis: u64 = refused
            .header("retry-after-ms")
            .parse()
            .expect("milliseconds");
        assert!((1..=60).contains(&seconds) && millis.div_ceil(1_000).max(1) == seconds);
        assert_eq!(refused.header("x-should-retry"), "");
        held.abort();
        for one in waiting {
            assert_eq!(one.await.expect("an answer").status, 200);
        }
        stage.until_free().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limit_60_a_limit_of_0_lets_through_what_need_not_wait() {
    let policy = LIMITED.replace("worker: 2", "worker: 0");
    let stage = Stage::with_policy(1, &policy).await;
    assert_eq!(
        stage
            .post(COMPLETIONS, &[], &completion(1, 512))
            .await
            .status,
        200
    );
    stage.until_free().await;
    let held = hold(&stage).await;
    let refused = stage.post(COMPLETIONS, &[], &completion(2, 512)).await;
    assert_eq!(refused.refusal(), (429, "queue_limit_requests".to_owned()));
    let details = &refused.json()["error"]["details"];
    assert_eq!(
        (&details["current"], &details["limit"]),
        (&json!(0), &json!(0))
    );
    assert_eq!(stage.state().await["waiting"], 0);
    held.abort();
    stage.until_free().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limit_64_what_is_on_its_way_is_no_backlog() {
    let policy = LIMITED
        .replace("worker: 2", "worker: 1")
        .replace("threshold: 0", "threshold: 1000000");
    let stage = Stage::with_policy(8, &policy).await;
    let all: Vec<_> = (0..200).map(|number| send(&stage, number, &[])).collect();
    for one in all {
        let answer = one.await.expect("an answer");
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    stage.until_free().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limit_73_a_deadline_ends_the_wait_in_time() {
    let stage = Stage::with_policy(1, TWO_CLASSES).await;
    let held = hold(&stage).await;
    let received = stage.received();
    let began = Instant::now();
    let answer = stage
        .post(
            COMPLETIONS,
            &[("x-tollgate-deadline-ms", "300")],
            &completion(1, 512),
        )
        .await;
    let waited = began.elapsed();
    assert_eq!(answer.refusal(), (504, "deadline_exceeded".to_owned()));
    assert_eq!(answer.header("x-should-retry"), "false");
    assert!(
        waited >= Duration::from_millis(299) && waited < Duration::from_millis(1_500),
        "{waited:?}"
    );
    assert_eq!(stage.received(), received, "it never reached a worker");
    held.abort();
    stage.until_free().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancel_6_clients_that_go_while_they_wait_never_reach_a_worker() {
    let stage = Stage::with_policy(1, TWO_CLASSES).await;
    let held = hold(&stage).await;
    let received = stage.received();
    let waiting: Vec<_> = (0..20).map(|number| send(&stage, number, &[])).collect();
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
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_goes_in_the_middle_of_a_stream_frees_its_worker() {
    // Ten tokens a second.
    let stage = Stage::before(vec![worker(0.1).await], TWO_CLASSES, |_| {}).await;
    let body = json!({ "model": "m", "prompt": [1, 2, 3], "max_tokens": 1_000, "stream": true });
    let response = crate::support::open(
        stage.router.address(),
        http::Method::POST,
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
