//! Sessions and the workers they stay with.

use std::collections::BTreeSet;
use std::time::Duration;

use tollgate_router::config::OnLoss;

use crate::support::{Answer, COMPLETIONS, Stage, TWO_CLASSES, completion, post};

async fn went(stage: &Stage, session: &str, number: u32) -> (u16, String) {
    let headers = [("x-session-id", session)];
    let answer = stage
        .post(COMPLETIONS, &headers, &completion(number, 64))
        .await;
    (answer.status, answer.header("x-tollgate-worker").to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_stays_with_its_worker_and_others_do_not() {
    let stage = Stage::with_policy(3, "").await;
    let mut workers = BTreeSet::new();
    for (at, session) in ["a", "b", "c", "d", "e", "f"].into_iter().enumerate() {
        // No two prompts begin alike: nothing but the session keeps them together.
        let number = 100 * u32::try_from(at).expect("small");
        let (_, first) = went(&stage, session, number).await;
        for more in 1..5 {
            assert_eq!(
                went(&stage, session, number + more).await,
                (200, first.clone())
            );
        }
        workers.insert(first);
    }
    assert!(workers.len() > 1, "{workers:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_was_not_heard_of_for_its_time_is_free() {
    let ttl = Duration::from_millis(50);
    let stage = Stage::start(3, "", |config| config.affinity.ttl = ttl).await;
    let mut workers = BTreeSet::new();
    for number in 0..6 {
        workers.insert(went(&stage, "a", number).await.1);
        tokio::time::sleep(ttl * 2).await;
    }
    assert!(workers.len() > 1, "{workers:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn churn_83_a_session_of_a_dead_worker_finds_another() {
    let mut stage = Stage::with_policy(2, "").await;
    let (_, first) = went(&stage, "a", 0).await;
    let at = first.parse::<usize>().expect("a number") - 1;
    stage.workers.remove(at).stop().await;
    let (status, second) = went(&stage, "a", 1).await;
    assert_eq!(status, 200);
    assert_ne!(second, first);
    assert_eq!(went(&stage, "a", 2).await, (200, second));
    stage.until_free().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn churn_82_a_session_of_a_dead_worker_fails_where_that_is_wanted_and_then_is_free() {
    let mut stage = Stage::start(2, "", |config| config.affinity.on_loss = OnLoss::Fail).await;
    let (_, first) = went(&stage, "a", 0).await;
    let at = first.parse::<usize>().expect("a number") - 1;
    stage.workers.remove(at).stop().await;
    let headers = [("x-session-id", "a")];
    let answer = stage.post(COMPLETIONS, &headers, &completion(1, 64)).await;
    let (status, code) = answer.refusal();
    assert!(
        status == 503 && code == "pinned_worker_unavailable"
            || status == 502 && code == "upstream_failed",
        "{status} {code}"
    );
    let mut status = 0;
    for number in 2..10 {
        status = went(&stage, "a", number).await.0;
        if status == 200 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(status, 200, "the session never finds another worker");
    stage.until_free().await;
}

/// A session's request that waits for its worker, which dies.
async fn waits_for_a_worker_that_dies(on_loss: OnLoss) -> Answer {
    let mut stage = Stage::start(2, TWO_CLASSES, |config| {
        config.affinity.on_loss = on_loss;
        config.allow_pins = true;
    })
    .await;
    let (_, first) = went(&stage, "a", 0).await;
    let at = first.parse::<usize>().expect("a number") - 1;
    let address = stage.router.address();
    let before = stage.received();
    // It keeps this very worker busy, and goes nowhere else.
    let held = tokio::spawn(async move {
        let headers = [
            ("x-tollgate-worker", &*first),
            ("x-mock-fault", "stall-before"),
        ];
        post(
            address,
            COMPLETIONS,
            &headers,
            completion(1, 64).to_string(),
        )
        .await
    });
    while stage.received() == before {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let waiting = tokio::spawn(async move {
        let headers = [("x-session-id", "a")];
        post(
            address,
            COMPLETIONS,
            &headers,
            completion(2, 64).to_string(),
        )
        .await
    });
    stage.until_waiting(1).await;
    stage.workers.remove(at).stop().await;
    let answer = waiting.await.expect("an answer");
    assert!(held.await.expect("an answer").status >= 500);
    stage.until_free().await;
    answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn churn_82_what_waits_for_a_dead_worker_goes_elsewhere() {
    let answer = waits_for_a_worker_that_dies(OnLoss::Rehome).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn churn_82_what_waits_for_a_dead_worker_fails_where_that_is_wanted() {
    let answer = waits_for_a_worker_that_dies(OnLoss::Fail).await;
    let refusal = answer.refusal();
    assert_eq!(refusal, (503, "pinned_worker_unavailable".to_owned()));
}
