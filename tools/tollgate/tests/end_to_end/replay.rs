//! `tollgate replay` on traces that are right.

use std::fmt::Write;

use crate::tool::{Files, Run, beside_workspace, run};

/// `count` rows, 20 a second, of 500 to 3,499 prompt tokens and 1 to 40 output tokens.
fn trace(count: u32) -> String {
    let mut text = String::from("TIMESTAMP,ContextTokens,GeneratedTokens\n");
    for n in 0..count {
        let (second, rest) = (n / 20, n % 20);
        let (minute, second) = (second / 60, second % 60);
        let prompt = 500 + n.wrapping_mul(7_919) % 3_000;
        let output = 1 + n.wrapping_mul(31) % 40;
        writeln!(
            text,
            "2023-11-16 18:{minute:02}:{second:02}.{:07},{prompt},{output}",
            rest * 500_000
        )
        .expect("a string grows");
    }
    text
}

fn replay(trace: &str, arguments: &[&str]) -> Run {
    let files = Files::new();
    files.write("trace.csv", trace);
    let mut all = vec!["replay", "trace.csv"];
    all.extend(arguments);
    run(files.path(), &all, b"")
}

/// `served/entitled` of the two classes of the default policy.
fn served_by_entitled(report: &str) -> Vec<f64> {
    let (_, shares) = report
        .split_once("served/entitled")
        .expect("a table of shares");
    let ratio = |line: &str| line.split_whitespace().last()?.parse().ok();
    let rows = shares
        .lines()
        .filter(|line| line.starts_with("premium") || line.starts_with("reg"));
    rows.filter_map(ratio).collect()
}

#[test]
fn backlogged_classes_get_what_their_quanta_say() {
    let report = replay(&trace(4_000), &["--speed", "50"]);
    assert_eq!(report.code, Some(0), "{}", report.stderr);
    let ratios = served_by_entitled(&report.stdout);
    assert_eq!(ratios.len(), 2, "{}", report.stdout);
    assert!(
        ratios.iter().all(|ratio| (ratio - 1.0).abs() < 0.01),
        "{}",
        report.stdout
    );
    assert!(
        report.stdout.contains("Balance: 4000 rows, 4000 outcomes"),
        "{}",
        report.stdout
    );
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_wall_time_stays_on_standard_error() {
    let text = trace(500);
    let report = |seed: &str| replay(&text, &["--speed", "50", "--seed", seed]);
    let first = report("7");
    assert_eq!(first.stdout, report("7").stdout);
    assert_ne!(first.stdout, report("8").stdout);
    assert!(first.stderr.starts_with("replayed in "), "{}", first.stderr);
    assert!(!first.stdout.contains("replayed in "));
}

#[test]
fn options_choose_rows_workers_and_families() {
    let text = trace(200);
    let limited = replay(&text, &["--limit", "50", "--workers", "1"]);
    assert!(
        limited.stdout.starts_with("50 requests, "),
        "{}",
        limited.stdout
    );
    assert!(
        limited.stdout.contains("\n1 modelled worker of 16"),
        "{}",
        limited.stdout
    );
    let premium = replay(&text, &["--family", "premium=2"]);
    let row = premium
        .stdout
        .lines()
        .find(|line| line.starts_with("premium"))
        .unwrap_or_default();
    assert_eq!(
        row.split_whitespace().nth(1),
        Some("200"),
        "{}",
        premium.stdout
    );
    let headless = text.lines().skip(1).collect::<Vec<_>>().join("\n");
    assert_eq!(replay(&headless, &[]).stdout, replay(&text, &[]).stdout);
}

#[test]
fn a_policy_of_ones_own_is_replayed() {
    let files = Files::new();
    files.write("trace.csv", trace(300));
    files.write(
        "policy.yaml",
        "\
default_policy_family: chat
uncached_isl_buckets: [{min_tokens: 0, bucket: short}, {min_tokens: 2000, bucket: long}]
policy_classes:
- {name: chat-short, policy_family: chat, cache_bucket: short, quantum: 900,
   prefill_busy_threshold_frac: 0.25, request_queue_limit_per_worker: 10}
- {name: chat-long, policy_family: chat, cache_bucket: long, quantum: 100,
   prefill_busy_threshold_frac: 0.25, queue_timeout_ms: 500}
- {name: probe, quantum: 50, prefill_busy_threshold_frac: 0.25}
",
    );
    let arguments = [
        "replay",
        "trace.csv",
        "--policy",
        "policy.yaml",
        "--speed",
        "20",
    ];
    let report = run(files.path(), &arguments, b"");
    assert_eq!(report.code, Some(0), "{}", report.stderr);
    let cells = |class: &str| {
        let line = report
            .stdout
            .lines()
            .find(|line| line.starts_with(class))
            .unwrap_or_default();
        let number = |cell: &str| cell.parse::<u64>().expect("a count");
        line.split_whitespace()
            .skip(1)
            .map(number)
            .collect::<Vec<_>>()
    };
    let (short, long) = (cells("chat-short"), cells("chat-long"));
    assert!(
        short[2] > 0 && short[3] == 0,
        "rejected, not expired: {}",
        report.stdout
    );
    assert!(
        long[2] == 0 && long[3] > 0,
        "expired, not rejected: {}",
        report.stdout
    );
    assert_eq!(cells("probe")[0], 0);
    assert_eq!(short[0] + long[0], 300);

    let mut known = arguments.to_vec();
    known.extend(["--family", "probe=1"]);
    assert_eq!(
        run(files.path(), &known, b"").code,
        Some(0),
        "an explicit class is named"
    );
}

#[test]
fn a_recorded_hour_is_shared_within_a_hundredth() {
    let Some(trace) = beside_workspace("shared/traces/azure_llm_2023_code.csv") else {
        return;
    };
    let trace = trace.display().to_string();
    let directory = std::env::temp_dir();
    let report = run(
        &directory,
        &["replay", &trace, "--workers", "4", "--speed", "100"],
        b"",
    );
    assert_eq!(report.code, Some(0), "{}", report.stderr);
    assert!(
        report.stdout.contains("8819 rows, 8819 outcomes"),
        "{}",
        report.stdout
    );
    let ratios = served_by_entitled(&report.stdout);
    assert_eq!(ratios.len(), 2, "{}", report.stdout);
    assert!(
        ratios.iter().all(|ratio| (ratio - 1.0).abs() < 0.01),
        "{}",
        report.stdout
    );
}
