//! When things happen.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;
use tollgate_arbiter::Nanos;
use tollgate_sim::worker::{PrefillTime, WorkerModel};

use crate::client::{completion, fast, frames, json, post, send, within, worker};

/// How much later than the model a frame may come on a machine that is not busy.
const LATE: Duration = Duration::from_millis(20);

/// Tries again where only the machine was late.
const ATTEMPTS: usize = 10;

/// A prefill of 100 ms whatever its size, a decode step of 20 ms.
fn by_hand(sequences: u32) -> WorkerModel {
    WorkerModel {
        sequences,
        prefill: PrefillTime {
            per_token_squared_as: 0,
            per_token_as: 0,
            base_as: 100_000_000_000_000_000,
        },
        decode_step: Nanos::from_millis(20),
        ..WorkerModel::default()
    }
}

/// When the frames of a stream with four tokens come, since it was asked for.
async fn token_times(speed: f64, model: WorkerModel) -> Vec<Duration> {
    let worker = worker(speed, model).await;
    let begun = Instant::now();
    let stream = send(&worker, post("/v1/completions", completion(512, 4, true))).await;
    let frames = frames(stream).await;
    assert_eq!(frames.len(), 6, "four tokens, the end and [DONE]");
    frames.iter().take(4).map(|(at, _)| *at - begun).collect()
}

/// Whether `times` are as expected; none may be early.
fn are_on_time(times: &[Duration], expected: &[Duration]) -> bool {
    for (time, expected) in times.iter().zip(expected) {
        assert!(time >= expected, "early: {times:?}, not {expected:?}");
    }
    let is_late = |(time, expected): (&Duration, &Duration)| *time > *expected + LATE;
    !times.iter().zip(expected).any(is_late)
}

#[tokio::test]
async fn alone_the_first_token_comes_with_the_prefill_and_the_others_step_by_step() {
    let model = WorkerModel::default();
    let first = Duration::from_nanos(model.prefill.of(512).0);
    let step = Duration::from_nanos(model.decode_step.0);
    let expected: Vec<Duration> = (0..4).map(|index| first + step * index).collect();
    for _ in 0..ATTEMPTS {
        if are_on_time(&token_times(1.0, model).await, &expected) {
            return;
        }
    }
    panic!("never on time in {ATTEMPTS} attempts");
}

#[tokio::test]
async fn speed_divides_all_times() {
    let expected = [50, 60, 70, 80].map(Duration::from_millis);
    for _ in 0..ATTEMPTS {
        if are_on_time(&token_times(2.0, by_hand(16)).await, &expected) {
            return;
        }
    }
    panic!("never on time in {ATTEMPTS} attempts");
}

#[tokio::test]
async fn eight_requests_run_in_two_waves_on_four_sequences() {
    let worker = Arc::new(worker(1.0, by_hand(4)).await);
    let mut clients = JoinSet::new();
    for _ in 0..8 {
        let worker = Arc::clone(&worker);
        clients.spawn(async move {
            let stream = send(&worker, post("/v1/completions", completion(5, 21, true))).await;
            let frames = frames(stream).await;
            (frames[0].0, frames[20].0)
        });
    }
    let mut times = within(clients.join_all()).await;
    times.sort();
    let first_ends = times[..4].iter().map(|(_, last)| *last).min();
    let first_ends = first_ends.expect("there are four");
    for (first, _) in &times[4..] {
        assert!(*first > first_ends, "the second wave waits for a sequence");
    }
    let counters = worker.counters();
    assert_eq!((counters.running_max, counters.completed), (4, 8));
    assert_eq!((counters.waiting, counters.running), (0, 0));
    assert_eq!(counters.output_tokens, 8 * 21);
}

#[tokio::test]
async fn a_prefix_is_found_by_the_second_request_and_by_no_other() {
    let worker = fast().await;
    let cached = async |prompt: serde_json::Value| {
        let body = json!({"model": "mock", "prompt": prompt, "max_tokens": 1});
        let (_, answer) = json(send(&worker, post("/v1/completions", body)).await).await;
        answer["usage"]["prompt_tokens_details"]["cached_tokens"].clone()
    };
    let ids: Vec<u32> = (0..1_300).collect();
    assert_eq!(cached(json!(ids)).await, 0);
    assert_eq!(cached(json!(ids)).await, 1_024, "the full blocks");
    let mut other = ids.clone();
    other[600] = 0;
    assert_eq!(cached(json!(other)).await, 512, "up to the difference");
    let text = "word".repeat(600);
    assert_eq!(cached(json!(text)).await, 0);
    assert_eq!(cached(json!(text)).await, 512);
    let counters = worker.counters();
    assert_eq!(counters.cached_tokens, 1_024 + 512 + 512);
    assert_eq!(counters.prompt_tokens, 3 * 1_300 + 2 * 600);
}

#[tokio::test]
async fn without_a_cache_nothing_is_found() {
    let model = WorkerModel {
        cache_blocks: 0,
        ..WorkerModel::default()
    };
    let worker = worker(20.0, model).await;
    for _ in 0..2 {
        let asked = post("/v1/completions", completion(1_024, 1, false));
        let (_, answer) = json(send(&worker, asked).await).await;
        let details = &answer["usage"]["prompt_tokens_details"];
        assert_eq!(details["cached_tokens"], 0);
    }
}
