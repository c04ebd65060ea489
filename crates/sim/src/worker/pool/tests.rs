//! Workers whose times a hand can compute.

use super::*;
use crate::worker::PrefillTime;

/// A prefill of 80 ms whatever its size, a decode step of 20 ms.
fn model(sequences: u32) -> WorkerModel {
    let prefill = PrefillTime {
        per_token_squared_as: 0,
        per_token_as: 0,
        base_as: 80 * 1_000_000_000_000_000,
    };
    let decode_step = Nanos::from_millis(20);
    WorkerModel {
        sequences,
        prefill,
        decode_step,
        ..WorkerModel::default()
    }
}

fn job(request: u32, output_tokens: u32) -> Job<&'static [u64]> {
    Job {
        request,
        prompt_tokens: 100,
        cached_tokens: 0,
        blocks: &[],
        output_tokens,
    }
}

/// Runs until nothing happens any more: (milliseconds, step).
fn run(pool: &mut Pool<&[u64]>) -> Vec<(u64, Step)> {
    run_from(pool, 0)
}

/// The same from a millisecond on.
fn run_from(pool: &mut Pool<&[u64]>, millis: u64) -> Vec<(u64, Step)> {
    let mut seen = Vec::new();
    pool.start(Nanos::from_millis(millis), &mut |_| {});
    while let Some(now) = pool.next_at() {
        while let Some(step) = pool.step(now) {
            seen.push((now.0 / 1_000_000, step));
        }
        pool.start(now, &mut |_| {});
    }
    seen
}

#[test]
fn one_request_prefills_then_decodes() {
    let mut pool = Pool::new(model(4), 1);
    pool.hand_over(0, job(7, 2));
    let expected = [
        (80, Step::PrefillDone { request: 7 }),
        (100, Step::Complete { request: 7 }),
    ];
    assert_eq!(run(&mut pool), expected);
}

#[test]
fn what_waits_goes_as_one_batch_up_to_the_sequence_limit() {
    let mut pool = Pool::new(model(2), 1);
    for request in 0..3 {
        pool.hand_over(0, job(request, 1));
    }
    let expected = [
        (80, Step::PrefillDone { request: 0 }),
        (80, Step::PrefillDone { request: 1 }),
        (80, Step::Complete { request: 0 }),
        (80, Step::Complete { request: 1 }),
        (160, Step::PrefillDone { request: 2 }),
        (160, Step::Complete { request: 2 }),
    ];
    assert_eq!(run(&mut pool), expected);
}

#[test]
fn a_decoding_sequence_keeps_its_place_beside_the_next_prefill() {
    let mut pool = Pool::new(model(2), 1);
    pool.hand_over(0, job(0, 3)); // Decodes until 120 ms.
    pool.hand_over(0, job(1, 1)); // Complete at 80 ms; makes room for one.
    pool.hand_over(0, job(2, 1)); // 80 ms to 160 ms.
    pool.hand_over(0, job(3, 1)); // Room at 120 ms, but the prefill lasts to 160 ms.
    let complete: Vec<_> = run(&mut pool)
        .into_iter()
        .filter_map(|(at, step)| match step {
            Step::Complete { request } => Some((at, request)),
            Step::PrefillDone { .. } => None,
        })
        .collect();
    assert_eq!(complete, [(80, 1), (120, 0), (160, 2), (240, 3)]);
}

#[test]
fn workers_do_not_wait_for_each_other() {
    let mut pool = Pool::new(model(1), 2);
    pool.hand_over(0, job(0, 1));
    pool.hand_over(1, job(1, 4));
    pool.hand_over(0, job(2, 1));
    let last = run(&mut pool).pop();
    assert_eq!(last, Some((160, Step::Complete { request: 2 })));
}

#[test]
fn nothing_happens_before_its_time() {
    let mut pool = Pool::new(model(1), 1);
    pool.hand_over(0, job(0, 1));
    assert_eq!(pool.next_at(), None, "not started yet");
    pool.start(Nanos(0), &mut |_| {});
    assert_eq!(pool.next_at(), Some(Nanos::from_millis(80)));
    assert_eq!(pool.step(Nanos::from_millis(79)), None);
    assert!(pool.step(Nanos::from_millis(80)).is_some());
}

/// A token a millisecond, and nothing else.
fn by_token(max_batched_tokens: u64) -> WorkerModel {
    let prefill = PrefillTime {
        per_token_squared_as: 0,
        per_token_as: 1_000_000_000_000_000,
        base_as: 0,
    };
    WorkerModel {
        prefill,
        max_batched_tokens,
        ..model(16)
    }
}

fn ends(pool: &mut Pool<&[u64]>) -> Vec<(u64, u32)> {
    let complete = |(at, step)| match step {
        Step::Complete { request } => Some((at, request)),
        Step::PrefillDone { .. } => None,
    };
    run(pool).into_iter().filter_map(complete).collect()
}

#[test]
fn a_batch_ends_before_it_has_too_many_tokens() {
    let mut pool = Pool::new(by_token(250), 1);
    for request in 0..3 {
        pool.hand_over(0, job(request, 1));
    }
    let huge = Job {
        prompt_tokens: 1_000,
        ..job(3, 1)
    };
    pool.hand_over(0, huge);
    // Two of 100 together, the third alone, since the fourth is too much beside it.
    assert_eq!(ends(&mut pool), [(200, 0), (200, 1), (300, 2), (1_300, 3)]);
}

#[test]
fn sequences_wait_for_room_for_their_tokens() {
    let limited = WorkerModel {
        kv_tokens: Some(250),
        ..model(16)
    };
    let mut pool = Pool::new(limited, 1);
    pool.hand_over(0, job(0, 11)); // 111 tokens, to 280 ms.
    pool.hand_over(0, job(1, 2)); // 102 tokens, to 100 ms.
    pool.hand_over(0, job(2, 1)); // 101 tokens: fits when the second is gone.
    let huge = Job {
        prompt_tokens: 1_000,
        ..job(3, 1)
    };
    pool.hand_over(0, huge); // Alone.
    assert_eq!(ends(&mut pool), [(100, 1), (180, 2), (280, 0), (360, 3)]);
}

#[test]
fn what_a_prompt_begins_with_is_computed_once() {
    let mut pool = Pool::new(by_token(1 << 20), 2);
    let prompt = |request, blocks: &'static [u64]| Job {
        prompt_tokens: 1_536,
        blocks,
        ..job(request, 1)
    };
    assert_eq!(pool.cached_tokens(0, 1_536, &[1, 2, 3]), 0);
    pool.hand_over(0, prompt(0, &[1, 2, 3]));
    pool.hand_over(0, prompt(1, &[1, 2, 3])); // In one batch: neither finds the other.
    assert_eq!(ends(&mut pool), [(3_072, 0), (3_072, 1)]);
    assert_eq!(pool.cached_tokens(0, 1_536, &[1, 2, 9]), 1_024);
    assert_eq!(
        pool.cached_tokens(0, 1_536, &[1, 2, 3]),
        1_535,
        "not the last token"
    );
    assert_eq!(
        pool.cached_tokens(1, 1_536, &[1, 2, 3]),
        0,
        "of another worker"
    );
    pool.hand_over(0, prompt(2, &[1, 2, 9]));
    let mut began = None;
    pool.start(Nanos(0), &mut |batch| {
        began = Some(batch.requests[0].new_tokens());
    });
    assert_eq!(began, None, "the clock of the last batch is ahead");
    pool.touched.push(0);
    pool.start(Nanos::from_millis(4_000), &mut |batch| {
        began = Some(batch.requests[0].new_tokens());
    });
    assert_eq!(began, Some(512));
}

fn completed(request: u32) -> [Step; 2] {
    [Step::PrefillDone { request }, Step::Complete { request }]
}

#[test]
fn a_waiting_job_that_is_cancelled_is_never_begun() {
    let mut pool = Pool::new(model(1), 1);
    for request in 0..3 {
        pool.hand_over(0, job(request, 1));
    }
    assert!(pool.cancel(1));
    assert!(!pool.cancel(1), "it is gone");
    let [first, last] = [completed(0), completed(2)];
    let expected = [
        (80, first[0]),
        (80, first[1]),
        (160, last[0]),
        (160, last[1]),
    ];
    assert_eq!(run(&mut pool), expected);
}

#[test]
fn a_job_cancelled_in_its_prefill_frees_its_sequence_but_not_the_worker() {
    let mut pool = Pool::new(model(2), 1);
    for request in 0..3 {
        pool.hand_over(0, job(request, 2));
    }
    pool.start(Nanos(0), &mut |_| {});
    assert!(pool.cancel(0));
    // The prefill lasts to 80 ms; the third one needs not wait until the second is over at 100 ms.
    let [second, third] = [completed(1), completed(2)];
    let expected = [
        (80, second[0]),
        (100, second[1]),
        (160, third[0]),
        (180, third[1]),
    ];
    assert_eq!(run_from(&mut pool, 40), expected);
}

#[test]
fn a_prefill_whose_only_job_is_cancelled_reports_nothing() {
    let mut pool = Pool::new(model(1), 1);
    pool.hand_over(0, job(0, 2));
    pool.start(Nanos(0), &mut |_| {});
    assert!(pool.cancel(0));
    pool.hand_over(0, job(1, 1));
    let [first, last] = completed(1);
    assert_eq!(run_from(&mut pool, 40), [(160, first), (160, last)]);
}

#[test]
fn a_decoding_job_that_is_cancelled_makes_room_at_once() {
    let limited = WorkerModel {
        kv_tokens: Some(250),
        ..model(16)
    };
    let mut pool = Pool::new(limited, 1);
    pool.hand_over(0, job(0, 100)); // 200 tokens, to 2,060 ms.
    pool.hand_over(0, job(1, 1)); // 101 tokens: no room beside it.
    pool.start(Nanos(0), &mut |_| {});
    let begun = Nanos::from_millis(80);
    assert_eq!(pool.step(begun), Some(Step::PrefillDone { request: 0 }));
    assert_eq!(pool.step(begun), None);
    pool.start(begun, &mut |_| {});
    assert!(pool.cancel(0));
    let [first, last] = completed(1);
    assert_eq!(run_from(&mut pool, 100), [(180, first), (180, last)]);
    assert_eq!(pool.next_at(), None);
    assert!(!pool.cancel(0) && !pool.cancel(1), "both are over");
}

#[test]
fn a_step_that_was_not_taken_yet_goes_with_its_job() {
    let mut pool = Pool::new(model(2), 1);
    pool.hand_over(0, job(0, 2));
    pool.hand_over(0, job(1, 2));
    pool.start(Nanos(0), &mut |_| {});
    let begun = Nanos::from_millis(80);
    assert_eq!(pool.step(begun), Some(Step::PrefillDone { request: 0 }));
    assert!(
        pool.cancel(1),
        "its first token is out, but nobody was told"
    );
    assert_eq!(
        run_from(&mut pool, 80),
        [(100, Step::Complete { request: 0 })]
    );
}

#[test]
fn a_cancelled_prefill_leaves_nothing_in_the_cache() {
    let mut pool = Pool::new(model(2), 1);
    for (request, blocks) in [(0, &[1_u64][..]), (1, &[2])] {
        pool.hand_over(
            0,
            Job {
                prompt_tokens: 1_000,
                blocks,
                ..job(request, 1)
            },
        );
    }
    pool.start(Nanos(0), &mut |_| {});
    assert!(pool.cancel(0));
    assert_eq!(run_from(&mut pool, 40).len(), 2);
    assert_eq!(pool.cached_tokens(0, 1_000, &[1]), 0);
    assert_eq!(pool.cached_tokens(0, 1_000, &[2]), 512);
}

#[test]
fn jobs_may_own_their_blocks() {
    let mut pool: Pool<std::sync::Arc<[u64]>> = Pool::new(model(1), 1);
    let job = Job {
        request: 0,
        prompt_tokens: 600,
        cached_tokens: 0,
        blocks: [1].into(),
        output_tokens: 1,
    };
    pool.hand_over(0, job);
    pool.start(Nanos(0), &mut |_| {});
    assert!(pool.step(Nanos::from_millis(80)).is_some());
    assert_eq!(pool.cached_tokens(0, 600, &[1]), 512);
}
