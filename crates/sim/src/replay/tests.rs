//! Replays of small, generated traces.

use tollgate_policy::{PolicyFile, Profile};
use tollgate_report::replay::ClassRun;

use super::*;
use crate::trace::{ReadOptions, TraceRow, read};
use crate::worker::PrefillTime;

/// `count` requests, one each `every_ms`, of 500 to 1,499 prompt tokens and 1 to 8 output tokens.
fn trace(count: u32, every_ms: u64) -> Trace {
    let row = |n: u32| TraceRow {
        at: Nanos::from_millis(u64::from(n) * every_ms),
        prompt_tokens: 500 + n.wrapping_mul(7_919) % 1_000,
        output_tokens: 1 + n % 8,
        ..TraceRow::default()
    };
    Trace {
        rows: (0..count).map(row).collect(),
        ..Trace::default()
    }
}

fn options(profile: &Profile) -> ReplayOptions {
    ReplayOptions {
        workers: 2,
        model: WorkerModel::default(),
        speed: 1.0,
        repeat: 1,
        seed: 1,
        families: equal_shares(profile),
        keeps_families: true,
        is_by_key: false,
        clock: None,
    }
}

fn profile(text: &str) -> Profile {
    let file = PolicyFile::parse("policy.yaml", text.as_bytes());
    file.expect("a valid policy").profile(None).clone()
}

fn play_all(profile: &Profile, trace: &Trace, options: &ReplayOptions) -> ReplayRun {
    run("p", profile, trace, options, &mut |_| {})
        .expect("it adds up")
        .run
}

fn rejected(class: &ClassRun) -> u64 {
    class.rejected.iter().map(|count| count.count).sum()
}

#[test]
fn backlogged_classes_get_what_their_quanta_say() {
    let profile = default_policy();
    let report = play_all(&profile, &trace(4_000, 1), &options(&profile));
    let [premium, regular] = &report.classes[..] else {
        panic!("two classes: {report:?}");
    };
    for class in [premium, regular] {
        let served = class.served_tokens as f64;
        let off = (served / class.entitled_tokens - 1.0).abs();
        assert!(off < 0.01, "{} is off by {off}", class.name);
    }
    let entitled = premium.entitled_tokens / regular.entitled_tokens;
    assert!(
        (entitled - 4.0).abs() < 1e-9,
        "4096 to 1024, not {entitled}"
    );
    assert!(report.totals.contended_dispatches > 1_000);
    assert_eq!(premium.dispatched + regular.dispatched, 4_000);
}

#[test]
fn a_calm_replay_has_no_waits_and_no_shares() {
    let profile = default_policy();
    let report = play_all(&profile, &trace(50, 1_000), &options(&profile));
    assert_eq!(report.totals.contended_dispatches, 0);
    for class in &report.classes {
        assert_eq!(
            (
                class.served_tokens,
                class.wait.max(),
                class.wait_queued.count()
            ),
            (0, Some(0), 0)
        );
    }
    assert_eq!(
        Nanos(report.totals.last_arrival_ns),
        Nanos::from_millis(49_000)
    );
}

#[test]
fn speed_moves_the_arrivals_together() {
    let profile = default_policy();
    let fast = ReplayOptions {
        speed: 4.0,
        ..options(&profile)
    };
    let report = play_all(&profile, &trace(50, 1_000), &fast);
    assert_eq!(
        Nanos(report.totals.last_arrival_ns),
        Nanos::from_millis(12_250)
    );
    let endless = ReplayOptions {
        speed: f64::MIN_POSITIVE,
        ..options(&profile)
    };
    let out_of_time =
        run("p", &profile, &trace(2, 1_000), &endless, &mut |_| {}).expect_err("beyond 2^64 ns");
    assert!(
        matches!(out_of_time, ReplayError::OutOfTime),
        "{out_of_time}"
    );
}

#[test]
fn prompts_that_take_for_ever_are_no_result() {
    let profile = default_policy();
    let row = TraceRow {
        prompt_tokens: u32::MAX,
        output_tokens: 1,
        ..TraceRow::default()
    };
    let trace = |count| Trace {
        rows: vec![row; count],
        ..Trace::default()
    };
    // A prompt of 2^32 - 1 tokens takes 246 years, and the clock holds 584.
    let few = play_all(&profile, &trace(2), &options(&profile));
    assert!(few.totals.finish_ns < u64::MAX);
    let many = run("p", &profile, &trace(20), &options(&profile), &mut |_| {})
        .expect_err("beyond 2^64 ns");
    let message = many.to_string();
    assert!(
        message.starts_with("virtual time ran out at 18446744073.710 s"),
        "{message}"
    );
}

#[test]
fn refusals_and_expiries_are_counted_and_add_up() {
    let profile = profile(
        "
default_policy_family: a
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
- {name: a, policy_family: a, cache_bucket: all, quantum: 1000, prefill_busy_threshold: 1000,
   request_queue_limit_per_worker: 5}
- {name: b, policy_family: b, cache_bucket: all, quantum: 1000, prefill_busy_threshold: 1000,
   queue_timeout_ms: 200}
",
    );
    let report = play_all(&profile, &trace(1_000, 1), &options(&profile));
    let [a, b] = &report.classes[..] else {
        panic!("two classes: {report:?}");
    };
    assert!(rejected(a) > 0 && a.expired == 0, "{a:?}");
    assert_eq!(a.rejected[0].code, "requests");
    assert!(b.expired > 0 && rejected(b) == 0, "{b:?}");
    assert_eq!(a.dispatched + rejected(a) + b.dispatched + b.expired, 1_000);
    let balance = &report.notes[0];
    assert!(
        balance.starts_with("Balance: 1000 rows, 1000 outcomes"),
        "{balance}"
    );
}

#[test]
fn a_seed_decides_a_report_to_the_byte() {
    let profile = default_policy().with_selector(tollgate_policy::SelectorKind::PowerOfTwo);
    let text = |seed| {
        let options = ReplayOptions {
            seed,
            ..options(&profile)
        };
        format!("{:?}", play_all(&profile, &trace(500, 1), &options))
    };
    assert_eq!(text(1), text(1));
    assert_ne!(text(1), text(2));
}

#[test]
fn a_row_without_tokens_costs_one() {
    let profile = Profile::synthetic(None);
    let trace = Trace {
        rows: vec![TraceRow::default()],
        ..Trace::default()
    };
    let report = play_all(&profile, &trace, &options(&profile));
    assert_eq!(report.classes[0].charged_tokens, 1);
    assert_eq!(
        report.totals.finish_ns, 16_501_420,
        "a prefill of nothing takes the base time"
    );
}

#[test]
fn totals_that_differ_are_found() {
    let profile = default_policy();
    let (trace, options) = (trace(3, 1), options(&profile));
    let played = || {
        let mut tally = Tally::new(&profile, options.workers);
        let finish = play(&profile, &trace, &options, &mut |_| {}, &mut tally).expect("it fits");
        (tally, finish)
    };
    let (tally, finish) = played();
    assert_eq!(tally.balance(&finish.state), Ok(()));
    assert_eq!(tally.capacity(finish.at), Ok(()));
    type Fault = (fn(&mut Tally), &'static str);
    let faults: [Fault; 4] = [
        (
            |tally| tally.classes[0].run.charged_tokens += 1,
            "tokens charged of class",
        ),
        (
            |tally| tally.classes[0].run.expired += 1,
            "expired of class",
        ),
        (
            |tally| tally.arrived += 1,
            "requests and requests with a fate: 4 against 3",
        ),
        (
            |tally| tally.workers[0].run.requests += 1,
            "dispatched and run by a worker: 3 against 4",
        ),
    ];
    for (fault, wanted) in faults {
        let (mut tally, finish) = played();
        fault(&mut tally);
        let found = tally.balance(&finish.state).expect_err(wanted);
        assert!(found.starts_with(wanted), "{found}");
    }
    let (mut tally, finish) = played();
    tally.workers[1].run.busy_ns = finish.at.0 + 1;
    assert!(
        tally
            .capacity(finish.at)
            .is_err_and(|what| what.starts_with("worker 2: "))
    );
}

/// Prefill 80 ms whatever the size, 20 ms a decode step.
fn round_figures() -> WorkerModel {
    WorkerModel {
        prefill: PrefillTime {
            per_token_squared_as: 0,
            per_token_as: 0,
            base_as: 80_000_000_000_000_000,
        },
        decode_step: Nanos::from_millis(20),
        ..WorkerModel::default()
    }
}

/// One worker, one class, arrivals far apart: each request has its first token after 80 ms and its last
/// 20 ms later for each further token.
#[test]
fn without_a_queue_the_account_is_that_of_a_hand() {
    let profile = Profile::synthetic(None);
    let row = |(second, prompt_tokens, output_tokens): (u64, u32, u32)| TraceRow {
        at: Nanos::from_millis(1_000 * second),
        prompt_tokens,
        output_tokens,
        ..TraceRow::default()
    };
    // Arrival s, prompt, output: first token, last token in ms after it.
    // 0, 100, 2: 80, 100. 1, 200, 1: 80, 80. 2, 300, 6: 80, 180. 3, 0, 0: 80, 80.
    let rows = [(0, 100, 2), (1, 200, 1), (2, 300, 6), (3, 0, 0)];
    let trace = Trace {
        rows: rows.map(row).into(),
        ..Trace::default()
    };
    let options = ReplayOptions {
        workers: 1,
        model: round_figures(),
        ..options(&profile)
    };
    let report = play_all(&profile, &trace, &options);
    let class = &report.classes[0];
    assert_eq!(
        (class.requests, class.dispatched, class.completed),
        (4, 4, 4)
    );
    assert_eq!(
        (
            class.prompt_tokens,
            class.charged_tokens,
            class.output_tokens
        ),
        (600, 601, 9)
    );
    assert_eq!(
        (class.first_token.min(), class.first_token.max()),
        (Some(80_000_000), Some(80_000_000))
    );
    assert_eq!(
        (
            class.wait.count(),
            class.wait.max(),
            class.wait_queued.count()
        ),
        (4, Some(0), 0)
    );
    let worker = &report.workers[0];
    assert_eq!(
        (worker.busy_ns, worker.prefill_ns),
        (440_000_000, 320_000_000)
    );
    assert_eq!((worker.prefill_tokens, worker.peak_sequences), (600, 1));
    assert_eq!(report.totals.finish_ns, 3_080_000_000);
    let timeline = &report.timeline;
    assert_eq!(timeline.step_ns, 8_000_000);
    let busy: f64 = timeline.workers[0].busy.iter().sum();
    assert!((busy * 8.0 - 440.0).abs() < 1e-6, "{busy}");
}

/// Ninety requests at once on a worker that takes them all, ten more that wait for it for a second.
#[test]
fn waits_of_all_and_of_those_that_waited_are_told_apart() {
    let profile = profile(
        "
default_policy_family: a
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
- {name: a, policy_family: a, cache_bucket: all, quantum: 1000, prefill_busy_threshold: 890}
",
    );
    let row = TraceRow {
        prompt_tokens: 10,
        output_tokens: 1,
        ..TraceRow::default()
    };
    let trace = Trace {
        rows: vec![row; 100],
        ..Trace::default()
    };
    let slow = PrefillTime {
        base_as: 1_000_000_000_000_000_000,
        ..round_figures().prefill
    };
    let options = ReplayOptions {
        workers: 1,
        model: WorkerModel {
            sequences: 100,
            prefill: slow,
            ..round_figures()
        },
        ..options(&profile)
    };
    let report = play_all(&profile, &trace, &options);
    let class = &report.classes[0];
    assert_eq!(
        (class.wait.count(), class.wait.quantile(0.5)),
        (100, Some(0))
    );
    assert_eq!(
        (class.wait_queued.count(), class.wait_queued.min()),
        (10, Some(1_000_000_000))
    );
    assert!(
        class
            .wait
            .population()
            .starts_with("all dispatched requests")
    );
    assert!(
        class
            .wait_queued
            .population()
            .starts_with("dispatched requests that had to wait")
    );
}

#[test]
fn prompts_are_charged_and_computed_by_what_is_not_cached() {
    let profile = default_policy();
    let text: String = (0..40)
        .map(|n| {
            let at = 500 * n;
            let own = 100 + n;
            format!(
                "{{\"timestamp\": {at}, \"input_length\": 1536, \"output_length\": 2, \
                 \"hash_ids\": [1, 2, {own}]}}\n"
            )
        })
        .collect();
    let trace = read(text.as_bytes(), "t", &ReadOptions::default()).expect("rows");
    let cached = |cache_blocks| {
        let options = ReplayOptions {
            workers: 1,
            model: WorkerModel {
                cache_blocks,
                ..WorkerModel::default()
            },
            ..options(&profile)
        };
        let report = play_all(&profile, &trace, &options);
        let charged = report.totals.charged_tokens;
        assert_eq!(charged, report.workers[0].prefill_tokens);
        assert_eq!(charged + report.totals.cached_tokens, 40 * 1_536);
        (
            report.totals.cached_tokens,
            report.workers[0].evicted_blocks,
        )
    };
    // All but the first find two blocks.
    assert_eq!(cached(2_048), (39 * 1_024, 0));
    assert_eq!(cached(0), (0, 0));
    // Room for one prompt: the end of the last one goes for each new one.
    assert_eq!(cached(3), (39 * 1_024, 39));
}

#[test]
fn a_repeated_trace_goes_on_where_it_ended() {
    let profile = default_policy();
    let twice = ReplayOptions {
        repeat: 2,
        ..options(&profile)
    };
    let report = play_all(&profile, &trace(5, 1_000), &twice);
    assert_eq!(report.totals.requests, 10);
    // Rows at 0 to 4 s, a second of a usual gap, and again.
    assert_eq!(report.totals.last_arrival_ns, 9_000_000_000);
    let endless = ReplayOptions {
        repeat: u64::MAX,
        ..options(&profile)
    };
    let refused =
        run("p", &profile, &trace(5, 1_000), &endless, &mut |_| {}).expect_err("too often");
    assert!(
        refused
            .to_string()
            .starts_with("5 rows 18446744073709551615 times"),
        "{refused}"
    );
}

#[test]
fn what_is_recorded_can_be_replayed_with_the_same_account() {
    let profile = default_policy();
    let text = r#"{"arrival_ns":7,"family":"premium","isl":1000,"cached":300,"output":1,"pin":2,"tier":2}
{"arrival_ns":8,"isl":1030,"output":5,"deadline_ns":9000000000}
{"arrival_ns":1000000007,"isl":2000,"cached":50,"output":5,"pin":9}
"#;
    let read = |text: &str| read(text.as_bytes(), "t", &ReadOptions::default()).expect("rows");
    let trace = read(text);
    let faster = ReplayOptions {
        speed: 2.0,
        ..options(&profile)
    };
    let records = record(&profile, &trace, &faster).expect("it fits");
    let again: String = records.iter().map(Record::line).collect();
    assert_eq!(records[2].arrival_ns, 500_000_000);
    assert_eq!(records[1].deadline_ns, Some(9_000_000_000 - 8 + 1));
    let first = play_all(&profile, &trace, &faster);
    let second = play_all(&profile, &read(&again), &options(&profile));
    let told = |run: &ReplayRun| format!("{:?}{:?}{:?}", run.totals, run.classes, run.workers);
    assert_eq!(told(&first), told(&second));
    // Worker 9 does not exist.
    let failed: u64 = first
        .classes
        .iter()
        .flat_map(|class| &class.failed)
        .map(|c| c.count)
        .sum();
    assert_eq!(failed, 1);
}

/// The estimate is of the size of what the clock says, and none without a clock.
#[test]
fn the_arbiters_time_is_estimated_by_a_sample() {
    fn tick() -> u64 {
        use std::sync::atomic::{AtomicU64, Ordering};
        static TICKS: AtomicU64 = AtomicU64::new(0);
        // The second look of each pair is 100 later than a look takes.
        let at = TICKS.fetch_add(1, Ordering::Relaxed);
        at * 50
    }
    let profile = default_policy();
    let with = |clock| {
        let options = ReplayOptions {
            clock,
            ..options(&profile)
        };
        run("p", &profile, &trace(640, 1_000), &options, &mut |_| {})
            .expect("it adds up")
            .arbiter_ns
    };
    assert_eq!(with(None), 0);
    assert_eq!(with(Some(tick)), 0, "every look takes as long as a call");
}
