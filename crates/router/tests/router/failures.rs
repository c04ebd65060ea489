//! Workers that fail, before the first byte of an answer and after it.

use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinSet;

use crate::support::{
    Answer, CHAT, COMPLETIONS, Stage, TWO_CLASSES, answering_with, chat, completion, config_of,
    post, refusing, streamed, worker,
};

/// The error of a stream's last event.
fn last_error(answer: &Answer) -> Value {
    let events = answer.events();
    let last = events.last().expect("an event");
    let last: Value = serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {last}"));
    assert!(last["error"]["message"].is_string(), "{last}");
    last["error"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_over_that_fails_before_the_first_byte_is_repeated_and_then_told() {
    // Each of them fails it.
    let stage = Stage::with_policy(3, TWO_CLASSES).await;
    for (fault, part) in [("reset", ""), ("garbage", ""), ("503", "status 503")] {
        let before = stage.received();
        let answer = stage
            .post(CHAT, &[("x-mock-fault", fault)], &chat("x"))
            .await;
        assert_eq!(
            answer.refusal(),
            (502, "upstream_failed".to_owned()),
            "{fault}"
        );
        let details = &answer.json()["error"]["details"];
        assert!(
            details["last_failure"]
                .as_str()
                .is_some_and(|why| why.contains(part)),
            "{details}"
        );
        assert_eq!(
            stage.received(),
            before + 3,
            "{fault}: as often as max_attempts says"
        );
    }
    let answer = stage.post(CHAT, &[], &chat("x")).await;
    assert_eq!(
        answer.status,
        200,
        "no worker was taken out for it: {}",
        answer.text()
    );
    stage.until_free().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_of_a_worker_passes_as_it_is() {
    let stage = Stage::with_policy(1, TWO_CLASSES).await;
    let answer = stage
        .post(CHAT, &[("x-mock-fault", "500")], &chat("x"))
        .await;
    assert_eq!(answer.status, 500);
    assert_eq!(answer.header("x-tollgate-worker"), "1");
    assert_eq!(stage.received(), 1, "it is an answer: nobody else is asked");
    stage.until_free().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_breaks_off_ends_with_the_event_on_which_clients_raise() {
    let stage = Stage::start(1, TWO_CLASSES, |config| {
        config.timeouts.idle = Duration::from_millis(300);
        config.health.eject_after = 1_000;
    })
    .await;
    for (fault, code) in [
        ("cut", "upstream_failed"),
        ("reset-after", "upstream_failed"),
        ("stall", "upstream_timeout"),
        ("garbage-body", "upstream_invalid"),
    ] {
        for path in [CHAT, COMPLETIONS] {
            let mut body = if path == CHAT {
                chat("x")
            } else {
                completion(1, 8)
            };
            body["max_tokens"] = 8.into();
            let answer = stage
                .post(path, &[("x-mock-fault", fault)], &streamed(body))
                .await;
            assert_eq!(answer.status, 200, "{fault}: {}", answer.text());
            assert_eq!(
                last_error(&answer)["code"],
                code,
                "{fault}: {}",
                answer.text()
            );
            let events = answer.events();
            for event in &events {
                serde_json::from_str::<Value>(event)
                    .unwrap_or_else(|_| panic!("{fault}: half an event: {event}"));
            }
        }
    }
    stage.until_free().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_in_one_piece_that_breaks_off_is_told_with_a_status() {
    let stage = Stage::start(1, TWO_CLASSES, |config| {
        config.timeouts.idle = Duration::from_millis(300);
        config.timeouts.first_byte = Duration::from_millis(600);
        config.health.eject_after = 1_000;
    })
    .await;
    for (fault, status, code) in [
        ("cut", 502, "upstream_failed"),
        ("garbage-body", 502, "upstream_invalid"),
        ("stall", 504, "upstream_timeout"),
        ("stall-before", 504, "upstream_timeout"),
    ] {
        let answer = stage
            .post(CHAT, &[("x-mock-fault", fault)], &chat("x"))
            .await;
        assert_eq!(
            answer.refusal(),
            (status, code.to_owned()),
            "{fault}: {}",
            answer.text()
        );
    }
    stage.until_free().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn churn_83_a_worker_that_dies_under_load_costs_no_waiting_request() {
    let mut stage = Stage::before(
        vec![worker(2.0).await, worker(2.0).await],
        TWO_CLASSES,
        |_| {},
    )
    .await;
    let address = stage.router.address();
    let mut clients = JoinSet::new();
    for number in 0..100 {
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
    tokio::time::sleep(Duration::from_millis(150)).await;
    stage.workers.remove(0).stop().await;
    while let Some(answer) = clients.join_next().await {
        let answer = answer.expect("an answer");
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    stage.until_free().await;
    let reports = stage
        .operator(http::Method::GET, "/workers", "")
        .await
        .json();
    assert_eq!(reports["workers"][0]["standing"], "ejected", "{reports}");
    assert_eq!(reports["workers"][1]["standing"], "well", "{reports}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn churn_86_dead_workers_hold_up_neither_the_start_nor_anybody() {
    let alive = worker(50.0).await;
    let address = alive.address();
    let began = std::time::Instant::now();
    let stage = Stage::start(0, TWO_CLASSES, |config| {
        config.workers = (1..=3)
            .map(|port| config_of(([127, 0, 0, 1], port).into()))
            .chain([config_of(address)])
            .collect();
    })
    .await;
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    for number in 0..10 {
        assert_eq!(
            stage
                .post(COMPLETIONS, &[], &completion(number, 64))
                .await
                .status,
            200
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_looks_well_and_fails_hand_overs_does_not_draw_all_requests_to_itself() {
    let good = worker(2.0).await;
    let bad = refusing().await;
    let addresses = [good.address(), bad];
    let stage = Stage::start(0, TWO_CLASSES, |config| {
        config.workers = addresses.map(config_of).to_vec();
    })
    .await;
    let address = stage.router.address();
    let mut clients = JoinSet::new();
    for client in 0..20 {
        clients.spawn(async move {
            let mut statuses = Vec::new();
            for number in 0..5 {
                let body = completion(client * 100 + number, 512).to_string();
                statuses.push(post(address, COMPLETIONS, &[], body).await.status);
            }
            statuses
        });
    }
    let mut failed = 0;
    while let Some(statuses) = clients.join_next().await {
        failed += statuses
            .expect("answers")
            .iter()
            .filter(|status| **status != 200)
            .count();
    }
    // The first few find out, nobody after them.
    assert!(failed <= 5, "{failed} of 100 failed");
    let reports = stage
        .operator(http::Method::GET, "/workers", "")
        .await
        .json();
    assert_eq!(reports["workers"][1]["standing"], "ejected", "{reports}");
    assert_eq!(
        reports["workers"][1]["last_failure"], "status 503",
        "{reports}"
    );
}

/// What a client gets from a worker that answers everything with these bytes.
async fn answer_of(
    content_type: &'static str,
    body: &'static [u8],
    request: &Value,
) -> (Answer, String) {
    let worker = answering_with(content_type, body).await;
    let stage = Stage::start(0, TWO_CLASSES, |config| {
        config.workers = vec![config_of(worker)];
    })
    .await;
    let answer = stage.post(CHAT, &[], request).await;
    stage.until_free().await;
    (
        answer,
        stage
            .operator(http::Method::GET, "/metrics", "")
            .await
            .text(),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_that_is_not_utf_8_is_garbage() {
    let piece = b"{\"choices\": [{\"message\": {\"content\": \"\xff\"}}]}";
    let (answer, _) = answer_of("application/json", piece, &chat("x")).await;
    assert_eq!(answer.refusal(), (502, "upstream_invalid".to_owned()));
    let events = b"data: {\"choices\": [{\"delta\": {\"content\": \"\xff\"}}]}\n\ndata: [DONE]\n\n";
    let (answer, _) = answer_of("text/event-stream", events, &streamed(chat("x"))).await;
    assert_eq!(last_error(&answer)["code"], "upstream_invalid");
    assert!(!answer.body.contains(&0xff));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workers_own_error_in_a_stream_is_the_only_one() {
    const OWN: &[u8] =
        b"data: {\"choices\": []}\n\ndata: {\"error\": {\"message\": \"out of memory\"}}\n\n";
    let (answer, metrics) = answer_of("text/event-stream", OWN, &streamed(chat("x"))).await;
    assert_eq!(answer.body, OWN, "nothing is added");
    let counted =
        "tollgate_requests_total{model=\"m\",class=\"regular\",code=\"worker_failed\"} 1\n";
    assert!(metrics.contains(counted), "{metrics}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_that_no_prompt_has_are_not_counted() {
    let piece = b"{\"usage\": {\"prompt_tokens\": 18446744073709551615, \"completion_tokens\": 1}}";
    let (answer, metrics) = answer_of("application/json", piece, &chat("x")).await;
    assert_eq!((answer.status, &answer.body[..]), (200, &piece[..]));
    let sum = "tollgate_estimate_actual_tokens_total{model=\"m\",tokens=\"prompt\"} 0\n";
    assert!(metrics.contains(sum), "{metrics}");
}
