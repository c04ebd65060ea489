//! Replays of small, generated traces.

use tollgate_arbiter::{ClassIndex, Outcome};
use tollgate_policy::{PolicyFile, Profile};

use super::*;

/// `count` requests, one each `every_ms`, of 500 to 1,499 prompt tokens and 1 to 8 output tokens.
fn trace(count: u32, every_ms: u64) -> Trace {
    let row = |n: u32| TraceRow {
        at: Nanos::from_millis(u64::from(n) * every_ms),
        prompt_tokens: 500 + n.wrapping_mul(7_919) % 1_000,
        output_tokens: 1 + n % 8,
    };
    Trace {
        rows: (0..count).map(row).collect(),
        unsorted: None,
    }
}

fn options(profile: &Profile) -> ReplayOptions {
    ReplayOptions {
        workers: 2,
        model: WorkerModel::default(),
        speed: 1.0,
        seed: 1,
        families: equal_shares(profile),
    }
}

fn profile(text: &str) -> Profile {
    let file = PolicyFile::parse("policy.yaml", text.as_bytes());
    file.expect("a valid policy").profile(None).clone()
}

#[test]
fn backlogged_classes_get_what_their_quanta_say() {
    let profile = default_policy();
    let report = run(&profile, &trace(4_000, 1), options(&profile)).expect("it adds up");
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
    assert!(report.contended > 1_000);
    assert_eq!(premium.dispatched + regular.dispatched, 4_000);
}

#[test]
fn a_calm_replay_has_no_waits_and_no_shares() {
    let profile = default_policy();
    let report = run(&profile, &trace(50, 1_000), options(&profile)).expect("it adds up");
    assert_eq!(report.contended, 0);
    for class in &report.classes {
        assert_eq!(
            (class.served_tokens, class.waits.longest()),
            (0, "0.000 s".to_owned())
        );
    }
    assert_eq!(report.last_arrival, Nanos::from_millis(49_000));
}

#[test]
fn speed_moves_the_arrivals_together() {
    let profile = default_policy();
    let fast = ReplayOptions {
        speed: 4.0,
        ..options(&profile)
    };
    let report = run(&profile, &trace(50, 1_000), fast).expect("it adds up");
    assert_eq!(report.last_arrival, Nanos::from_millis(12_250));
    let endless = ReplayOptions {
        speed: f64::MIN_POSITIVE,
        ..options(&profile)
    };
    let out_of_time = run(&profile, &trace(2, 1_000), endless).expect_err("beyond 2^64 ns");
    assert!(
        matches!(out_of_time, ReplayError::OutOfTime),
        "{out_of_time}"
    );
}

#[test]
fn prompts_that_take_for_ever_are_no_result() {
    let profile = default_policy();
    let row = TraceRow {
        at: Nanos(0),
        prompt_tokens: u32::MAX,
        output_tokens: 1,
    };
    let trace = |count| Trace {
        rows: vec![row; count],
        unsorted: None,
    };
    // A prompt of 2^32 - 1 tokens takes 246 years, and the clock holds 584.
    let few = run(&profile, &trace(2), options(&profile)).expect("it adds up");
    assert!(few.finish < Nanos::MAX);
    let many = run(&profile, &trace(20), options(&profile)).expect_err("beyond 2^64 ns");
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
    let report = run(&profile, &trace(1_000, 1), options(&profile)).expect("it adds up");
    let [a, b] = &report.classes[..] else {
        panic!("two classes: {report:?}");
    };
    assert!(a.rejected > 0 && a.expired == 0, "{a:?}");
    assert!(b.expired > 0 && b.rejected == 0, "{b:?}");
    assert_eq!(a.dispatched + a.rejected + b.dispatched + b.expired, 1_000);
    let text = report.to_string();
    assert!(text.contains("Balance: 1000 rows, 1000 outcomes"), "{text}");
}

#[test]
fn a_seed_decides_a_report_to_the_byte() {
    let profile = default_policy().with_selector(tollgate_policy::SelectorKind::PowerOfTwo);
    let text = |seed| {
        let options = ReplayOptions {
            seed,
            ..options(&profile)
        };
        run(&profile, &trace(500, 1), options)
            .expect("it adds up")
            .to_string()
    };
    assert_eq!(text(1), text(1));
    assert_ne!(text(1), text(2));
}

#[test]
fn a_row_without_tokens_costs_one() {
    let profile = Profile::synthetic(None);
    let row = TraceRow {
        at: Nanos(0),
        prompt_tokens: 0,
        output_tokens: 0,
    };
    let trace = Trace {
        rows: vec![row],
        unsorted: None,
    };
    let report = run(&profile, &trace, options(&profile)).expect("it adds up");
    assert_eq!(report.classes[0].charged_tokens, 1);
    assert_eq!(
        report.finish,
        Nanos(16_501_420),
        "a prefill of nothing takes the base time"
    );
}

#[test]
fn totals_that_differ_are_found() {
    let profile = default_policy();
    let arrivals: Vec<Arrival<'_>> = (0..3)
        .map(|n| Arrival {
            at: Nanos(n),
            family: "premium",
            prompt_tokens: 10,
            output_tokens: 1,
        })
        .collect();
    let model = WorkerModel::default();
    let setup = Setup {
        profile: &profile,
        seed: 0,
        model,
        workers: 1,
    };
    let play = || {
        let mut tally = Tally::new(&profile, arrivals.len());
        let finish = simulate(&setup, &arrivals, &mut tally).expect("it fits");
        (tally, finish.state)
    };
    let (tally, state) = play();
    assert_eq!(balance(&tally, &arrivals, &state), Ok(()));
    let (mut tally, state) = play();
    tally.classes[0].charged_tokens += 1;
    let charged = balance(&tally, &arrivals, &state);
    assert_eq!(
        charged,
        Err("tokens charged of class premium: 31 against 30".to_owned())
    );
    let (mut tally, state) = play();
    tally.ended(0, ClassIndex(0), Outcome::Expired);
    assert!(balance(&tally, &arrivals, &state).is_err_and(|what| what.contains("one fate: 1")));
}
