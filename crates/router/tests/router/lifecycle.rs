//! Reload, drain, workers that come and go.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use http::Method;
use serde_json::json;
use tokio::task::JoinSet;

use crate::support::{
    CHAT, COMPLETIONS, Stage, TWO_CLASSES, chat, completion, config_of, post, streamed, worker,
    worker_listing,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn config_101_an_invalid_policy_is_refused_with_its_errors_and_changes_nothing() {
    let stage = Stage::with_policy(1, TWO_CLASSES).await;
    let path = stage.dir.path().join("policy.yaml");
    let wrong = TWO_CLASSES
        .replace("quantum: 512", "quantom: 512")
        .replace("quantum: 2048", "quantum: 0");
    std::fs::write(&path, wrong).expect("a file");
    let refused = stage.operator(Method::POST, "/config/reload", "").await;
    assert_eq!(refused.refusal(), (400, "invalid_policy".to_owned()));
    let errors = refused.json()["error"]["details"]["errors"].clone();
    let errors = errors.as_array().expect("a list");
    assert!(errors.len() >= 2, "{errors:?}");
    assert!(
        errors
            .iter()
            .all(|error| error["line"].is_u64() && error["remedy"].is_string()),
        "{errors:?}"
    );
    assert_eq!(
        stage.operator(Method::GET, "/config", "").await.json()["generation"],
        1
    );
    std::fs::write(&path, TWO_CLASSES.replace("2048", "4096")).expect("a file");
    let done = stage.operator(Method::POST, "/config/reload", "").await;
    assert_eq!(
        (done.status, done.json()["generation"].clone()),
        (200, json!(2))
    );
    let shown = stage.operator(Method::GET, "/config", "").await;
    assert!(shown.text().contains("4096"), "{}", shown.text());
    let done = stage.operator(Method::PUT, "/config", TWO_CLASSES).await;
    assert_eq!(done.json()["generation"], 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_under_load_splits_what_comes_after_by_the_new_quanta() {
    let equal = TWO_CLASSES.replace("2048", "512");
    let stage = Stage::before(vec![worker(10.0).await], &equal, |_| {}).await;
    let address = stage.router.address();
    let runs = Arc::new(AtomicBool::new(true));
    let (done, mut ended) = tokio::sync::mpsc::unbounded_channel();
    let mut clients = JoinSet::new();
    // Both classes are backlogged all the time.
    for client in 0..60_u32 {
        let (runs, done) = (Arc::clone(&runs), done.clone());
        clients.spawn(async move {
            let class = client % 2;
            let name = ["premium", "regular"][class as usize];
            let mut number = client * 100_000;
            while runs.load(Ordering::Relaxed) {
                number += 1;
                let headers = [("x-dynamo-meta-policy-class", name)];
                let answer = post(
                    address,
                    COMPLETIONS,
                    &headers,
                    completion(number, 512).to_string(),
                )
                .await;
                assert_eq!(answer.status, 200, "{}", answer.text());
                done.send(class).expect("it is read");
            }
        });
    }
    let mut count = async |ends: usize| {
        let mut counts = [0_usize; 2];
        for _ in 0..ends {
            counts[ended.recv().await.expect("an end") as usize] += 1;
        }
        counts
    };
    count(100).await;
    let before = count(100).await;
    assert!((45..=55).contains(&before[0]), "{before:?}");
    std::fs::write(stage.dir.path().join("policy.yaml"), TWO_CLASSES).expect("a file");
    assert_eq!(stage.router.reload().await, Ok(2));
    // What was dispatched before the call came back is on its way.
    count(4).await;
    let after = count(320).await;
    assert!(
        (246..=266).contains(&after[0]),
        "{after:?}: 256 : 64, within 3 %"
    );
    runs.store(false, Ordering::Relaxed);
    while let Some(client) = clients.join_next().await {
        client.expect("no client saw anything but 200");
    }
    stage.until_free().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stop_130_a_drain_answers_everything_and_refuses_what_comes() {
    let stage = Stage::before(vec![worker(0.1).await], TWO_CLASSES, |_| {}).await;
    let address = stage.router.address();
    let mut clients = JoinSet::new();
    for number in 0..12 {
        clients.spawn(async move {
            post(
                address,
                COMPLETIONS,
                &[],
                completion(number, 512).to_string(),
            )
            .await
        });
    }
    stage.until_waiting(11).await;
    let asked = stage
        .operator(Method::POST, "/drain", json!({ "seconds": 10 }).to_string())
        .await;
    assert_eq!(asked.status, 202, "{}", asked.text());
    let again = stage.operator(Method::POST, "/drain", "").await;
    assert_eq!(again.status, 202, "{}", again.text());
    let late = stage.post(CHAT, &[], &chat("late")).await;
    assert_eq!(late.refusal(), (503, "shutting_down".to_owned()));
    assert_eq!(late.header("connection"), "close");
    assert_eq!(stage.get("/ready").await.status, 503);
    stage.router.until_drained().await;
    while let Some(answer) = clients.join_next().await {
        assert_eq!(answer.expect("an answer").status, 200);
    }
    stage.router.end().await.expect("no panic");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_ends_what_is_left_at_its_deadline() {
    let stage = Stage::before(vec![worker(0.1).await], TWO_CLASSES, |_| {}).await;
    let address = stage.router.address();
    let mut body = completion(0, 8);
    body["max_tokens"] = json!(10_000);
    let running =
        tokio::spawn(
            async move { post(address, COMPLETIONS, &[], streamed(body).to_string()).await },
        );
    while stage.workers[0].counters().running == 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    // Its prefill is over at its first token.
    tokio::time::sleep(Duration::from_millis(400)).await;
    let held = tokio::spawn(async move {
        post(
            address,
            COMPLETIONS,
            &[("x-mock-fault", "stall-before")],
            completion(1, 8).to_string(),
        )
        .await
    });
    while stage.received() < 2 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let waiting =
        tokio::spawn(
            async move { post(address, COMPLETIONS, &[], completion(2, 8).to_string()).await },
        );
    stage.until_waiting(1).await;
    let began = Instant::now();
    stage.router.drain(Duration::from_millis(500)).await;
    stage.router.until_drained().await;
    assert!(
        began.elapsed() < Duration::from_secs(3),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(
        waiting.await.expect("an answer").refusal(),
        (503, "shutting_down".to_owned())
    );
    assert_eq!(
        held.await.expect("an answer").refusal(),
        (503, "shutting_down".to_owned())
    );
    let running = running.await.expect("an answer");
    assert!(
        running.text().contains("shutting_down"),
        "{}",
        running.text()
    );
    stage.router.end().await.expect("no panic");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_come_and_go_by_the_operators_address() {
    let stage = Stage::with_policy(1, TWO_CLASSES).await;
    let second = worker(50.0).await;
    let body = json!({ "url": format!("http://{}", second.address()) }).to_string();
    let added = stage.operator(Method::POST, "/workers", body.clone()).await;
    assert_eq!(added.status, 201, "{}", added.text());
    assert_eq!(
        (added.json()["id"].clone(), added.json()["standing"].clone()),
        (json!(2), json!("well"))
    );
    let again = stage.operator(Method::POST, "/workers", body).await;
    assert_eq!(again.refusal(), (409, "known_worker".to_owned()));
    let removed = stage.operator(Method::DELETE, "/workers/1", "").await;
    assert_eq!(removed.status, 200);
    for number in 0..4 {
        let answer = stage.post(COMPLETIONS, &[], &completion(number, 64)).await;
        assert_eq!(
            (answer.status, answer.header("x-tollgate-worker")),
            (200, "2")
        );
    }
    assert_eq!(
        stage
            .operator(Method::DELETE, "/workers/1", "")
            .await
            .refusal(),
        (404, "unknown_worker".to_owned())
    );
    let taints = json!({ "taints": ["gpu"] }).to_string();
    assert_eq!(
        stage
            .operator(Method::PUT, "/workers/2/taints", taints)
            .await
            .status,
        200
    );
    let listed = stage.operator(Method::GET, "/workers", "").await.json();
    assert_eq!(listed["workers"][0]["taints"], json!(["gpu"]));
    for (body, part) in [
        ("{\"url\": \"localhost\"}", "scheme"),
        ("{\"ranks\": 1}", "url"),
        ("{\"url\": \"http://h:1\", \"rank\": 1}", "rank"),
        (
            "{\"url\": \"http://h:1\", \"ranks\": 0}",
            "between 1 and 65536",
        ),
    ] {
        let refused = stage.operator(Method::POST, "/workers", body).await;
        assert_eq!(refused.status, 400);
        assert!(refused.text().contains(part), "{part}: {}", refused.text());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_comes_back_is_taken_back() {
    let first = worker(50.0).await;
    let address = first.address();
    let stage = Stage::start(0, TWO_CLASSES, |config| {
        config.workers = vec![config_of(address)];
    })
    .await;
    assert_eq!(stage.post(CHAT, &[], &chat("x")).await.status, 200);
    assert_eq!(stage.get("/ready").await.status, 200);
    first.stop().await;
    let mut status = 0;
    for _ in 0..100 {
        status = stage.post(CHAT, &[], &chat("x")).await.status;
        if status == 503 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(status, 503, "it is taken out");
    assert_eq!(stage.get("/ready").await.status, 503);
    let settings = tollgate_mock_worker::Settings {
        model: "m".to_owned(),
        speed: 50.0,
        ..Default::default()
    };
    let _second = tollgate_mock_worker::MockWorker::start(settings, address)
        .await
        .expect("the same port");
    for _ in 0..100 {
        status = stage.post(CHAT, &[], &chat("x")).await.status;
        if status == 200 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(status, 200, "it is taken back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn churn_10_a_worker_that_was_removed_and_added_again_has_its_own_load() {
    let stage = Stage::before(vec![worker(0.2).await], TWO_CLASSES, |_| {}).await;
    let first = stage.hold().await;
    assert_eq!(
        stage
            .operator(Method::DELETE, "/workers/1", "")
            .await
            .status,
        200
    );
    let url = format!("http://{}", stage.workers[0].address());
    let added = stage
        .operator(Method::POST, "/workers", json!({ "url": url }).to_string())
        .await;
    assert_eq!(added.status, 201, "{}", added.text());
    let second = stage.send_of(1, 200, &[("x-mock-fault", "stall-before")]);
    let load = async || stage.state().await["endpoints"][0]["load_tokens"].clone();
    while stage.received() < 2 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(load().await, 200);
    first.abort();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(
        load().await,
        200,
        "what ends at the former worker is not this one's"
    );
    second.abort();
    stage.until_free().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn churn_82_what_is_pinned_to_a_removed_worker_is_answered_at_once() {
    let stage = Stage::start(2, TWO_CLASSES, |config| config.allow_pins = true).await;
    let held = [stage.hold().await, stage.hold().await];
    let pinned = [("x-tollgate-worker", "2")];
    let waiting: Vec<_> = (0..20).map(|number| stage.send(number, &pinned)).collect();
    stage.until_waiting(20).await;
    let began = Instant::now();
    assert_eq!(
        stage
            .operator(Method::DELETE, "/workers/2", "")
            .await
            .status,
        200
    );
    for one in waiting {
        let answer = one.await.expect("an answer");
        assert_eq!(answer.refusal(), (503, "pinned_worker_unknown".to_owned()));
    }
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(stage.state().await["waiting"], 0);
    for one in held {
        one.abort();
    }
    stage.until_free().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn churn_85_a_reload_that_takes_classes_out_loses_nobody() {
    let stage = Stage::with_policy(1, TWO_CLASSES).await;
    let held = stage.hold().await;
    let premium = [("x-dynamo-meta-policy-class", "premium")];
    let mut waiting: Vec<_> = (0..10).map(|number| stage.send(number, &premium)).collect();
    stage.until_waiting(10).await;
    let lines = TWO_CLASSES.lines().filter(|line| !line.contains("premium"));
    let policy = lines.map(|line| format!("{line}\n")).collect::<String>();
    // Out, in, and out again: each of them while its requests wait.
    for policy in [&*policy, TWO_CLASSES, &policy] {
        let done = stage
            .operator(Method::PUT, "/config", policy.to_owned())
            .await;
        assert_eq!(done.status, 200, "{}", done.text());
    }
    waiting.extend((10..20).map(|number| stage.send(number, &premium)));
    stage.until_waiting(20).await;
    let state = stage.state().await;
    let ring = state["ring"].as_array().expect("a list");
    let mut names: Vec<_> = ring.iter().map(ToString::to_string).collect();
    names.sort();
    names.dedup();
    assert_eq!(
        names.len(),
        ring.len(),
        "each class stands there once: {ring:?}"
    );
    held.abort();
    let mut classes = std::collections::BTreeMap::new();
    for one in waiting {
        let answer = one.await.expect("an answer");
        assert_eq!(answer.status, 200, "{}", answer.text());
        *classes
            .entry(answer.header("x-tollgate-class").to_owned())
            .or_insert(0) += 1;
    }
    assert_eq!(
        classes,
        [("premium".to_owned(), 10), ("regular".to_owned(), 10)].into()
    );
    stage.until_free().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn churn_82_what_the_engine_refuses_of_a_worker_leaves_no_ghost_of_it() {
    let stage = Stage::with_policy(2, TWO_CLASSES).await;
    let names =
        |count: usize| -> Vec<String> { (0..count).map(|at| format!("taint-{at}")).collect() };
    let few = json!({ "taints": names(3) }).to_string();
    assert_eq!(
        stage
            .operator(Method::PUT, "/workers/1/taints", few)
            .await
            .status,
        200
    );
    let many = json!({ "taints": names(300) }).to_string();
    let refused = stage.operator(Method::PUT, "/workers/1/taints", many).await;
    assert_eq!(refused.refusal(), (409, "engine_refused".to_owned()));
    let listed = stage.operator(Method::GET, "/workers", "").await.json();
    assert_eq!(
        listed["workers"][0]["taints"],
        json!(names(3)),
        "nothing has changed"
    );
    assert_eq!(listed["workers"][0]["standing"], "well");
    assert_eq!(listed["workers"][0]["models"], json!(["m"]));
    assert_eq!(
        stage
            .operator(Method::DELETE, "/workers/1", "")
            .await
            .status,
        200
    );
    let state = stage.state().await;
    let endpoints = state["endpoints"].as_array().expect("a list");
    assert_eq!(endpoints.len(), 1, "{state:#}");
    for number in 0..20 {
        let answer = stage.post(COMPLETIONS, &[], &completion(number, 64)).await;
        assert_eq!(
            (answer.status, answer.header("x-tollgate-worker")),
            (200, "2")
        );
    }
    assert_eq!(stage.state().await["classes"][1]["counters"]["requeued"], 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_whose_models_find_no_place_is_told_once() {
    let many = worker_listing(json!(
        (0..5)
            .map(|at| json!({ "id": format!("m{at}") }))
            .collect::<Vec<_>>()
    ))
    .await;
    let stage = Stage::start(0, TWO_CLASSES, |config| {
        config.workers = vec![config_of(many)];
        config.health.interval = Duration::from_millis(120);
    })
    .await;
    let mut events = stage.router.events();
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let mut told = 0;
    while events.try_recv().is_ok() {
        told += 1;
    }
    assert!(told <= 1, "{told} events in a dozen looks");
    let report = stage.operator(Method::GET, "/workers", "").await.json();
    let why = report["workers"][0]["last_failure"]
        .as_str()
        .expect("why")
        .to_owned();
    assert!(why.contains("setting models"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_a_worker_lists_are_checked() {
    for (name, part) in [
        ("a\nb", "a control character"),
        ("", "is empty"),
        (" a", "a blank"),
    ] {
        let ill = worker_listing(json!([{ "id": "m" }, { "id": name }])).await;
        let stage = Stage::start(0, TWO_CLASSES, |config| {
            config.workers = vec![config_of(ill)];
        })
        .await;
        let report = stage.operator(Method::GET, "/workers", "").await.json();
        let worker = &report["workers"][0];
        assert_eq!(
            (&worker["standing"], &worker["models"]),
            (&json!("unseen"), &json!([]))
        );
        let why = worker["last_failure"].as_str().expect("why").to_owned();
        assert!(why.contains(part), "{why}");
    }
}
