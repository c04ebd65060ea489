//! Benchmark reports: what is told, what is left untold, and what is marked.
use tollgate_report::Recording;
use tollgate_report::bench::{BenchReport, Population};
use tollgate_report::recording::enough_for;

use crate::made_up;

#[test]
fn a_quantile_is_told_from_a_hundred_durations_above_it() {
    for (q, least) in [
        (0.5, 200),
        (0.9, 1_000),
        (0.99, 10_000),
        (0.999, 100_000),
        (0.9999, 1_000_000),
    ] {
        assert!(enough_for(q, least), "{q}");
        assert!(!enough_for(q, least - 1), "{q}");
    }
    assert!(!enough_for(1.0, u64::MAX), "the greatest is one event");
    assert!(!enough_for(f64::NAN, u64::MAX));
    assert!(enough_for(-1.0, 100) && !enough_for(0.0, 99));
}

fn of_durations(count: usize) -> BenchReport {
    let mut report = made_up::report(1, 1.0);
    let mut recording = Recording::new("life", "life", "all");
    (0..count).for_each(|_| recording.record(1_000));
    report.suites.truncate(1);
    report.suites[0].arms.truncate(1);
    report.suites[0].arms[0].populations = vec![Population {
        repetitions: vec![recording],
    }];
    report
}

#[test]
fn what_cannot_be_known_is_a_dash_in_text_and_null_in_json() {
    let row = |report: &BenchReport| {
        let text = report.text();
        let after = text.lines().skip_while(|line| !line.contains("p99.99"));
        after.skip(1).take(1).map(str::to_owned).collect::<String>()
    };
    let report = of_durations(9_999);
    assert_eq!(row(&report).matches(" - ").count(), 3, "{}", row(&report));
    assert!(row(&report).ends_with(" -"), "nor is the spread of the p99");
    let json: serde_json::Value = serde_json::from_str(&report.json().unwrap()).unwrap();
    let population = &json["suites"][0]["arms"][0]["populations"][0];
    for of in [&population["whole"], &population["repetitions"][0]] {
        assert_eq!(of["p90_ns"], 1_000);
        assert!(of["p99_ns"].is_null() && of["p999_ns"].is_null(), "{of}");
        assert_eq!(
            (&of["max_ns"], &of["count"]),
            (&1_000.into(), &9_999.into())
        );
    }
    let report = of_durations(10_000);
    assert_eq!(row(&report).matches(" - ").count(), 2);
    assert!(row(&report).ends_with("1.00..1.00 µs"));
}

#[test]
fn no_mean_stands_in_text_or_page() {
    let report = made_up::report(1, 1.0);
    assert!(!report.text().contains("mean"));
    assert!(!report.html().contains(">mean"));
}

/// The reasons of the first suite after `change` of its calibrations.
fn reasons(change: impl FnOnce(&mut tollgate_report::bench::SuiteRun)) -> Vec<String> {
    let mut suite = made_up::report(1, 1.0).suites.remove(0);
    change(&mut suite);
    suite.distrust()
}

#[test]
fn a_machine_that_kept_still_is_trusted() {
    assert!(reasons(|_| {}).is_empty());
    assert!(reasons(|suite| suite.after.line_ns = Some(62.5 * 1.499)).is_empty());
    assert!(reasons(|suite| suite.after.line_ns = None).is_empty());
    assert!(
        reasons(|suite| suite.after.gaps.lost = 0.01).is_empty(),
        "not above 1 %"
    );
    assert!(reasons(|suite| suite.after.steal = Some(0.01)).is_empty());
    assert!(
        reasons(|suite| suite.before.steal = Some(0.9)).is_empty(),
        "before it began"
    );
    assert!(reasons(|suite| suite.after.gaps.longest_ns = 10_000_000).is_empty());
}

#[test]
fn each_way_to_move_is_a_reason_with_both_numbers() {
    let one = |reasons: Vec<String>, numbers: [&str; 2]| {
        assert_eq!(reasons.len(), 1, "{reasons:?}");
        assert!(
            numbers.iter().all(|number| reasons[0].contains(number)),
            "{reasons:?}"
        );
    };
    one(
        reasons(|suite| suite.after.line_ns = Some(93.75)),
        ["62.5 ns", "93.8 ns"],
    );
    one(
        reasons(|suite| suite.after.line_ns = Some(62.5 / 1.5)),
        ["62.5 ns", "41.7 ns"],
    );
    one(
        reasons(|suite| suite.before.clock_ns = 60.0),
        ["60 ns", "21.4 ns"],
    );
    one(
        reasons(|suite| suite.before.clock_ns = 0.0),
        ["0 s", "21.4 ns"],
    );
    one(
        reasons(|suite| suite.after.gaps.lost = 0.011),
        ["0.23 %", "1.10 %"],
    );
    one(
        reasons(|suite| suite.after.steal = Some(0.011)),
        ["1.10 %", "1 %"],
    );
    one(
        reasons(|suite| suite.before.gaps.longest_ns = 10_000_001),
        ["10.0 ms", "10.0 ms"],
    );
}

#[test]
fn a_suite_that_is_not_trusted_is_marked_in_words() {
    let report = made_up::report(1, 1.0);
    let text = report.text();
    assert!(text.contains("\nsuite courier *** NOT TO BE TRUSTED ***\n"));
    assert!(text.contains("\nsuite engine\n"));
    assert!(text.contains(
        "!! The transfer of a cache line moved from 62.5 ns before it to 125 ns after it."
    ));
    let html = report.html();
    assert!(html.contains("courier (NOT TO BE TRUSTED)"));
    assert!(!html.contains("engine (NOT TO BE TRUSTED)"));
}

#[test]
fn the_text_fits_120_columns() {
    let text = made_up::report(1, 1.0).text();
    for line in text.lines() {
        assert!(line.chars().count() <= 120, "{line}");
    }
    assert!(text.contains("1.82 M/s"), "{text}");
}

#[test]
fn tags_in_logs_are_plain_and_unique() {
    let mut report = made_up::report(1, 1.0);
    let mut twin = report.suites[0].arms[0].clone();
    twin.name = "full_life_FCFS_spin".to_owned();
    report.suites[0].arms.push(twin);
    let tags: Vec<String> = report
        .recordings()
        .into_iter()
        .map(|(tag, _)| tag)
        .collect();
    assert_eq!(tags[0], "engine.full_life_fcfs_spin.life");
    assert!(
        tags.contains(&"engine.full_life_FCFS_spin.life-2".to_owned()),
        "{tags:?}"
    );
    report.suites[0].arms[0].name = "x".repeat(10_000);
    assert!(report.recordings().iter().all(|(tag, _)| tag.len() <= 120));
}
