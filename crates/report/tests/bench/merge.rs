//! Benchmark reports put together: exactly, in any order, and only if they fit.
use proptest::prelude::*;
use tollgate_report::Recording;
use tollgate_report::bench::{BenchReport, Better, MergeError, Population};

use crate::made_up;

fn merge(reports: &[&BenchReport]) -> BenchReport {
    let reports = reports.iter().map(|&report| report.clone());
    BenchReport::merge(reports.collect()).unwrap()
}

fn refusal(change: impl FnOnce(&mut BenchReport)) -> String {
    let mut other = made_up::report(2, 1.0);
    change(&mut other);
    let merged = BenchReport::merge(vec![made_up::report(1, 1.0), other]);
    merged.unwrap_err().to_string()
}

#[test]
fn one_report_merged_is_itself() {
    let report = made_up::report(1, 1.0);
    assert_eq!(merge(&[&report]).json().unwrap(), report.json().unwrap());
    assert!(matches!(
        BenchReport::merge(Vec::new()),
        Err(MergeError::Nothing)
    ));
}

#[test]
fn repetitions_of_the_same_arms_are_appended() {
    let (one, mut two) = (made_up::report(1, 1.0), made_up::report(2, 1.0));
    let mut extra = two.suites[0].arms[0].clone();
    extra.name = "another".to_owned();
    two.suites[0].arms.push(extra);
    let merged = merge(&[&one, &two]);
    let arm = &merged.suites[0].arms[0];
    assert_eq!(
        arm.metrics[0].samples,
        [
            one.suites[0].arms[0].metrics[0].samples.clone(),
            two.suites[0].arms[0].metrics[0].samples.clone()
        ]
        .concat()
    );
    assert_eq!(
        arm.populations[0].repetitions.len(),
        2 * made_up::REPETITIONS
    );
    let count = 2 * made_up::REPETITIONS * made_up::DURATIONS;
    assert_eq!(arm.populations[0].whole().count(), count as u64);
    assert_eq!(merged.suites[0].arms.len(), 3);
    assert_eq!(merged.suites[0].attempts, 2);
    assert_eq!(merged.suites[0].notes.len(), 1, "the same note stands once");
    assert_eq!(
        merged.suites[0].arms[1].classes[0].served_tokens,
        2 * 801_000
    );
    assert_eq!(
        merged.command,
        "tollgate bench --seed 1\ntollgate bench --seed 2"
    );
    BenchReport::from_json(&merged.json().unwrap()).unwrap();
}

#[test]
fn facts_that_differ_are_both_kept() {
    let (one, mut two) = (made_up::report(1, 1.0), made_up::report(2, 1.0));
    two.machine[0].value = "Made-up 9001".to_owned();
    two.machine.push(made_up::fact("kernel", "6.1"));
    let merged = merge(&[&one, &two, &two]);
    assert_eq!(
        merged.machine[0].value,
        "Made-up 9000 at 3.1 GHz | Made-up 9001"
    );
    assert_eq!(merged.machine.last().unwrap().value, "6.1");
}

#[test]
fn arms_that_were_run_otherwise_are_refused_with_both_values() {
    for (change, wanted) in [
        (
            (|report| report.suites[0].arms[0].settings[0].value = "4".to_owned())
                as fn(&mut BenchReport),
            "suite engine, arm full_life/fcfs/spin: threads is 2 in one report and 4 in another",
        ),
        (
            |report| drop(report.suites[0].arms[0].settings.pop()),
            "slots is 4096 in one report and not set in another",
        ),
        (
            |report| report.suites[0].arms[0].metrics[0].better = Better::Lower,
            "lives a second is PerSecond, Higher in one report and PerSecond, Lower in another",
        ),
        (
            |report| report.suites[0].arms[1].classes[0].quantum_tokens = 1,
            "the quantum of class premium is 4096 in one report and 1 in another",
        ),
        (
            |report| {
                report.suites[0].arms[0].populations[0] = Population {
                    repetitions: vec![Recording::new("life", "life", "others")],
                };
            },
            "the population of life is all requests in one report and others in another",
        ),
    ] {
        let told = refusal(change);
        assert!(told.contains(wanted), "{told}");
    }
}

#[test]
fn what_is_not_trusted_alone_is_not_trusted_in_company() {
    let quiet = made_up::report(1, 1.0);
    let changes: [fn(&mut BenchReport); 6] = [
        |report| report.suites[0].after.line_ns = Some(200.0),
        |report| report.suites[0].before.clock_ns = 200.0,
        |report| report.suites[0].after.gaps.lost = 0.02,
        |report| report.suites[0].after.steal = Some(0.2),
        |report| report.suites[0].before.gaps.longest_ns = 20_000_000,
        |report| report.suites[0].after.gaps.longest_ns = 20_000_000,
    ];
    for change in changes {
        let mut moved = made_up::report(2, 1.0);
        change(&mut moved);
        let alone = moved.suites[0].distrust();
        assert_eq!(alone.len(), 1);
        // Another whose readings are high, but do not move, must not hide it.
        let mut high = made_up::report(3, 1.0);
        let suite = &mut high.suites[0];
        for calibration in [&mut suite.before, &mut suite.after] {
            calibration.line_ns = Some(300.0);
            calibration.clock_ns = 300.0;
            calibration.gaps.lost = 0.5;
        }
        for order in [
            [&quiet, &moved, &high],
            [&high, &moved, &quiet],
            [&moved, &high, &quiet],
        ] {
            let merged = merge(&order);
            assert_eq!(merged.suites[0].distrust(), alone);
        }
    }
    assert!(merge(&[&quiet, &quiet]).suites[0].distrust().is_empty());
}

fn of(values: &[u64]) -> BenchReport {
    let mut report = made_up::report(1, 1.0);
    report.suites.truncate(1);
    report.suites[0].arms.truncate(1);
    let mut recording = Recording::new("life", "life", "all");
    for &value in values {
        recording.record(value);
    }
    report.suites[0].arms[0].populations = vec![Population {
        repetitions: vec![recording],
    }];
    report
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn merging_is_exact_and_its_order_does_not_matter(
        parts in prop::collection::vec(prop::collection::vec(any::<u64>(), 0..30), 1..5),
        turn in 0..5usize,
    ) {
        let reports: Vec<BenchReport> = parts.iter().map(|values| of(values)).collect();
        let mut turned: Vec<&BenchReport> = reports.iter().collect();
        turned.rotate_left(turn % reports.len());
        let straight: Vec<&BenchReport> = reports.iter().collect();
        let whole = |report: &BenchReport| {
            let whole = report.suites[0].arms[0].populations[0].whole();
            serde_json::to_string(&whole).unwrap()
        };
        let expected = whole(&of(&parts.concat()));
        prop_assert_eq!(whole(&merge(&straight)), expected.clone());
        prop_assert_eq!(whole(&merge(&turned)), expected);
    }
}
