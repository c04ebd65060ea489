//! What may wait, and what is told to those that may not.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};

use crate::support::{Answer, COMPLETIONS, Stage, TWO_CLASSES, completion};

/// One class in which nothing waits beyond two requests a worker.
const LIMITED: &str = "\
default_policy_family: d
uncached_isl_buckets: [{min_tokens: 0, bucket: any}]
policy_classes:
- {name: d, policy_family: d, cache_bucket: any, quantum: 100, prefill_busy_threshold: 0, request_queue_limit_per_worker: 2}
";

/// `current` and `limit` of a refusal by a queue limit.
fn current_and_limit(refused: &Answer) -> (Value, Value) {
    let details = &refused.json()["error"]["details"];
    (details["current"].clone(), details["limit"].clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limit_65_beyond_the_limit_a_request_is_refused_with_the_facts() {
    for status in [429, 529] {
        let stage = Stage::start(1, LIMITED, |config| config.overload_status = status).await;
        let held = stage.hold().await;
        let waiting = [stage.send(1, &[]), stage.send(2, &[])];
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
    let held = stage.hold().await;
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
    let all: Vec<_> = (0..200).map(|number| stage.send(number, &[])).collect();
    for one in all {
        let answer = one.await.expect("an answer");
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    stage.until_free().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limit_73_a_deadline_ends_the_wait_in_time() {
    let stage = Stage::with_policy(1, TWO_CLASSES).await;
    let held = stage.hold().await;
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
async fn limit_62_what_a_worker_takes_is_no_rate() {
    // Loads before the ten: 0, 512, .. 4,608.
    let policy = TWO_CLASSES.replace("threshold: 0", "threshold: 4608");
    let stage = Stage::with_policy(1, &policy).await;
    let stalled = [("x-mock-fault", "stall-before")];
    let all: Vec<_> = (0..100)
        .map(|number| stage.send(number, &stalled))
        .collect();
    stage.until_waiting(90).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(stage.received(), 10, "nothing ended, so nothing follows");
    assert_eq!(stage.state().await["waiting"], 90);
    for one in &all {
        one.abort();
    }
    stage.until_free().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limit_69_a_request_larger_than_the_threshold_waits_for_the_threshold_alone() {
    let policy = TWO_CLASSES.replace("threshold: 0", "threshold: 1536");
    let stalled = [("x-mock-fault", "stall-before")];
    for (load, is_taken) in [(0, true), (1_536, true), (1_537, false)] {
        let stage = Stage::with_policy(1, &policy).await;
        let held = (load > 0).then(|| stage.send_of(1, load, &stalled));
        while stage.state().await["endpoints"][0]["load_tokens"] != load {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let large = stage.send_of(2, 100_000, &stalled);
        if is_taken {
            while stage.state().await["endpoints"][0]["load_tokens"] != load + 100_000 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        } else {
            stage.until_waiting(1).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
            assert_eq!(stage.state().await["waiting"], 1);
        }
        large.abort();
        if let Some(held) = held {
            held.abort();
        }
        stage.until_free().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limit_70_of_several_limits_the_first_is_told_and_counted() {
    let limits = "raw_isl_token_queue_limit_per_worker: 0, cached_token_queue_limit_per_worker: 0}";
    let policy = LIMITED.replace("worker: 2}", &format!("worker: 0, {limits}"));
    let stage = Stage::with_policy(1, &policy).await;
    let held = stage.hold().await;
    for _ in 0..20 {
        let refused = stage.post(COMPLETIONS, &[], &completion(1, 512)).await;
        assert_eq!(refused.refusal(), (429, "queue_limit_requests".to_owned()));
    }
    let metrics = stage.operator(Method::GET, "/metrics", "").await.text();
    let rejected = |kind: &str| {
        let of_kind = format!("kind=\"{kind}\"");
        let lines = metrics
            .lines()
            .filter(|line| line.starts_with("tollgate_rejected_total"));
        let line = lines.clone().find(|line| line.contains(&of_kind));
        let line = line.unwrap_or_else(|| panic!("{kind}: {:?}", lines.collect::<Vec<_>>()));
        line.rsplit(' ').next().map(str::to_owned)
    };
    assert_eq!(rejected("requests").as_deref(), Some("20"));
    for other in ["raw_isl_tokens", "cached_tokens"] {
        assert_eq!(rejected(other).as_deref(), Some("0"), "{other}");
    }
    held.abort();
    stage.until_free().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limit_72_a_limit_follows_the_workers_and_ends_nobodys_wait() {
    let stage = Stage::with_policy(3, LIMITED).await;
    let stalled = [("x-mock-fault", "stall-before")];
    let held: Vec<_> = (0..3).map(|number| stage.send(number, &stalled)).collect();
    while stage.received() < 3 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let waiting: Vec<_> = (10..14).map(|number| stage.send(number, &[])).collect();
    stage.until_waiting(4).await;
    let limit =
        async |stage: &Stage| stage.state().await["classes"][0]["limits"]["requests"].clone();
    assert_eq!(limit(&stage).await, 6);
    for id in [2, 3] {
        let path = format!("/workers/{id}");
        assert_eq!(stage.operator(Method::DELETE, &path, "").await.status, 200);
    }
    assert_eq!(limit(&stage).await, 2);
    assert_eq!(
        stage.state().await["waiting"],
        4,
        "nobody's wait ends for it"
    );
    let refused = stage.post(COMPLETIONS, &[], &completion(20, 512)).await;
    assert_eq!(refused.refusal(), (429, "queue_limit_requests".to_owned()));
    assert_eq!(current_and_limit(&refused), (json!(4), json!(2)));
    for one in held {
        one.abort();
    }
    for one in waiting {
        assert_eq!(one.await.expect("an answer").status, 200);
    }
    stage.until_free().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn config_101_after_a_reload_nobody_is_refused_at_the_old_limit() {
    let stage = Stage::with_policy(1, LIMITED).await;
    let held = stage.hold().await;
    let mut waiting = vec![stage.send(1, &[]), stage.send(2, &[])];
    stage.until_waiting(2).await;
    let policy = LIMITED.replace("worker: 2", "worker: 5");
    let path = stage.dir.path().join("policy.yaml");
    std::fs::write(&path, policy.replace("quantum: 100", "quantum: -1")).expect("a file");
    let refused = stage.operator(Method::POST, "/config/reload", "").await;
    assert_eq!(refused.refusal(), (400, "invalid_policy".to_owned()));
    let refused = stage.post(COMPLETIONS, &[], &completion(9, 512)).await;
    assert_eq!(
        current_and_limit(&refused),
        (json!(2), json!(2)),
        "the old one is in force"
    );
    std::fs::write(&path, policy).expect("a file");
    let done = stage.operator(Method::POST, "/config/reload", "").await;
    assert_eq!(done.status, 200, "{}", done.text());
    waiting.extend((3..6).map(|number| stage.send(number, &[])));
    stage.until_waiting(5).await;
    let refused = stage.post(COMPLETIONS, &[], &completion(9, 512)).await;
    assert_eq!(current_and_limit(&refused), (json!(5), json!(5)));
    held.abort();
    for one in waiting {
        assert_eq!(one.await.expect("an answer").status, 200);
    }
    stage.until_free().await;
}
