//! Comparisons: what is judged, what is not, and what is kept apart.
use tollgate_report::bench::{BenchReport, Better, Comparison, Metric, Row, Unit, Verdict};

use crate::made_up;

/// Two reports with one metric each, and the row that comes of it.
fn row(better: Better, old: &[f64], new: &[f64]) -> (Comparison, Row) {
    let report = |samples: &[f64]| {
        let mut report = made_up::report(1, 1.0);
        report.suites.truncate(1);
        report.suites[0].arms.truncate(1);
        report.suites[0].arms[0].populations.clear();
        report.suites[0].arms[0].metrics = vec![Metric {
            name: "x".to_owned(),
            unit: Unit::Count,
            better,
            samples: samples.to_vec(),
        }];
        report
    };
    let comparison = Comparison::of(&report(old), &report(new));
    assert_eq!(comparison.rows.len(), 1);
    let row = comparison.rows[0].clone();
    (comparison, row)
}

const FIVE: [f64; 5] = [100.0, 101.0, 99.0, 100.5, 99.5];

fn times(factor: f64) -> Vec<f64> {
    FIVE.iter().map(|sample| sample * factor).collect()
}

#[test]
fn a_change_beyond_the_noise_is_judged_by_its_direction() {
    for (better, factor, verdict) in [
        (Better::Lower, 1.2, Verdict::Worse),
        (Better::Lower, 0.8, Verdict::Better),
        (Better::Higher, 1.2, Verdict::Better),
        (Better::Higher, 0.8, Verdict::Worse),
        (Better::Neither, 1.2, Verdict::Changed),
        (Better::Lower, 1.001, Verdict::Noise),
        (Better::Neither, 1.0, Verdict::Noise),
    ] {
        let (_, row) = row(better, &FIVE, &times(factor));
        assert_eq!(row.verdict, verdict, "{better:?} {factor}");
        assert!((row.ratio.unwrap() - factor).abs() < 1e-9);
        let (low, high) = row.interval.unwrap();
        assert!(low <= factor && factor <= high);
    }
}

#[test]
fn a_loss_counts_against_the_limit_in_the_bad_direction() {
    for (better, factor, loss) in [
        (Better::Lower, 1.25, 0.25),
        (Better::Higher, 0.75, 0.25),
        (Better::Lower, 0.5, 0.0),
        (Better::Higher, 2.0, 0.0),
        (Better::Neither, 3.0, 0.0),
    ] {
        let (comparison, row) = row(better, &FIVE, &times(factor));
        assert!((row.loss().unwrap() - loss).abs() < 1e-9);
        assert_eq!(comparison.worse_by(0.2).len(), usize::from(loss > 0.2));
        assert!(comparison.worse_by(0.26).is_empty());
    }
    let (comparison, _) = row(Better::Lower, &FIVE, &FIVE);
    assert!(comparison.worse_by(0.0).is_empty(), "the same is not worse");
}

#[test]
fn few_repetitions_know_no_noise_and_are_told_apart() {
    let (comparison, row) = row(Better::Lower, &FIVE, &[150.0, 151.0, 152.0, 153.0]);
    assert_eq!((row.verdict, row.interval), (Verdict::Unknown, None));
    assert!(row.ratio.is_some());
    assert!(comparison.worse_by(0.1).is_empty());
    assert_eq!(comparison.unknown().count(), 1);
}

#[test]
fn the_limit_itself_is_within_the_limit() {
    let (comparison, _) = row(Better::Lower, &[100.0; 5], &[110.0; 5]);
    assert!(comparison.worse_by(0.1).is_empty());
    assert_eq!(comparison.worse_by(0.099).len(), 1);
}

#[test]
fn nothing_infinity_and_numbers_below_nothing_make_no_nonsense() {
    type Case<'a> = (&'a [f64], &'a [f64], Verdict, Option<f64>, f64);
    let cases: [Case<'_>; 7] = [
        (&[0.0; 5], &[0.0; 5], Verdict::Noise, Some(1.0), 0.0),
        (&[0.0; 5], &[5.0; 5], Verdict::Worse, None, f64::INFINITY),
        (&[5.0; 5], &[0.0; 5], Verdict::Better, Some(0.0), 0.0),
        (&[-1.0; 5], &[1.0; 5], Verdict::Worse, None, f64::INFINITY),
        (&[1.0; 5], &[-1.0; 5], Verdict::Better, None, 0.0),
        (
            &[1e-300; 5],
            &[1e300; 5],
            Verdict::Worse,
            None,
            f64::INFINITY,
        ),
        (&[0.0], &[5.0], Verdict::Unknown, None, f64::INFINITY),
    ];
    for (old, new, verdict, ratio, loss) in cases {
        let (comparison, row) = row(Better::Lower, old, new);
        assert_eq!(
            (row.verdict, row.ratio),
            (verdict, ratio),
            "{old:?} {new:?}"
        );
        assert!(
            row.loss().unwrap().total_cmp(&loss).is_eq(),
            "{old:?} {new:?}"
        );
        let is_worse = verdict == Verdict::Worse;
        assert_eq!(comparison.worse_by(1e9).len(), usize::from(is_worse));
        for told in [comparison.text(), comparison.json().unwrap()] {
            assert!(!told.contains("NaN") && !told.contains("inf"), "{told}");
        }
    }
    let (_, row) = row(Better::Lower, &[f64::NAN, 1.0], &[f64::INFINITY]);
    assert_eq!((row.verdict, row.new), (Verdict::OnlyOld, None));
}

#[test]
fn what_one_side_alone_has_is_listed() {
    let (old, mut new) = (made_up::report(1, 1.0), made_up::report(2, 1.0));
    new.suites[1].name = "new_suite".to_owned();
    new.suites[0].arms[1].name = "new_arm".to_owned();
    new.suites[0].arms[0].metrics[0].name = "new metric".to_owned();
    new.suites[0].arms[0].metrics[1].unit = Unit::Count;
    let comparison = Comparison::of(&old, &new);
    let found = |suite: &str, arm: &str, what: &str| -> Vec<Verdict> {
        let is_it = |row: &&Row| row.suite == suite && row.arm == arm && row.what == what;
        comparison
            .rows
            .iter()
            .filter(is_it)
            .map(|row| row.verdict)
            .collect()
    };
    let (spin, park) = ("full_life/fcfs/spin", "full_life/fcfs/park");
    assert_eq!(found("engine", spin, "new metric"), [Verdict::OnlyNew]);
    assert_eq!(found("engine", spin, "lives a second"), [Verdict::OnlyOld]);
    let other_unit = found("engine", spin, "processor time a life");
    assert_eq!(other_unit, [Verdict::OnlyNew, Verdict::OnlyOld]);
    assert_eq!(found("engine", park, "memory"), [Verdict::OnlyOld]);
    assert_eq!(found("engine", "new_arm", "memory"), [Verdict::OnlyNew]);
    assert_eq!(
        found("courier", "hand_over/batch", "memory"),
        [Verdict::OnlyOld]
    );
    assert_eq!(
        found("new_suite", "hand_over/batch", "memory"),
        [Verdict::OnlyNew]
    );
}

#[test]
fn populations_have_rows_for_the_quantiles_that_the_whole_tells() {
    let report = made_up::report(1, 1.0);
    let comparison = Comparison::of(&report, &made_up::report(2, 1.5));
    let of_life = |row: &&Row| row.arm == "full_life/fcfs/spin" && row.what.starts_with("life");
    let rows: Vec<&Row> = comparison.rows.iter().filter(of_life).collect();
    let whats: Vec<&str> = rows.iter().map(|row| row.what.as_str()).collect();
    assert_eq!(
        whats,
        ["life p50", "life p99", "life max"],
        "20,000 tell no p99.9"
    );
    assert_eq!(
        (rows[0].verdict, rows[1].verdict),
        (Verdict::Worse, Verdict::Worse)
    );
    assert_eq!(rows[0].old.unwrap().count, made_up::REPETITIONS);
    assert_eq!(rows[2].better, Better::Neither);
    assert_eq!(rows[2].loss(), Some(0.0));
}

#[test]
fn distrusted_suites_are_marked_and_kept_apart() {
    let comparison = Comparison::of(&made_up::report(1, 1.0), &made_up::report(2, 2.0));
    let by_suite = |rows: Vec<&Row>, suite: &str| rows.iter().all(|row| row.suite == suite);
    assert!(!comparison.worse_by(0.5).is_empty());
    assert!(by_suite(comparison.worse_by(0.5), "engine"));
    assert!(!comparison.distrusted_worse_by(0.5).is_empty());
    assert!(by_suite(comparison.distrusted_worse_by(0.5), "courier"));
    let text = comparison.text();
    assert!(text.contains("\nsuite courier *** NOT TO BE TRUSTED ***\n"));
    assert!(text.contains("WORSE (not trusted)"));
    assert!(text.contains("!! Suite courier of the old report: The transfer"));
    assert!(comparison.html().contains("courier (NOT TO BE TRUSTED)"));
}

#[test]
fn other_machines_and_settings_are_noted() {
    let (old, mut new) = (made_up::report(1, 1.0), made_up::report(1, 1.0));
    assert!(Comparison::of(&old, &new).notes.is_empty());
    new.machine[0].value = "another".to_owned();
    new.suites[0].arms[0].settings[0].value = "4".to_owned();
    new.suites[0].arms[0].settings.pop();
    assert_eq!(
        Comparison::of(&old, &new).notes,
        [
            "Of the machine, processor was Made-up 9000 at 3.1 GHz and is another.",
            "Of engine/full_life/fcfs/spin, threads was 2 and is 4.",
            "Of engine/full_life/fcfs/spin, slots was 4096 and is not told.",
        ]
    );
}

#[test]
fn the_same_reports_give_the_same_bytes() {
    let of = || Comparison::of(&made_up::report(1, 1.0), &made_up::report(2, 1.01));
    assert_eq!(of().text(), of().text());
    assert_eq!(of().html(), of().html());
    let json: serde_json::Value = serde_json::from_str(&of().json().unwrap()).unwrap();
    assert!(
        of().json()
            .unwrap()
            .starts_with(r#"{"schema":"tollgate.comparison/1","old":"#)
    );
    assert_eq!(json["rows"][0]["verdict"], "noise");
    assert_eq!(json["rows"][0]["interval"].as_array().unwrap().len(), 2);
}

#[test]
fn nothing_to_compare_is_said() {
    let (old, mut new) = (made_up::report(1, 1.0), made_up::report(1, 1.0));
    new.suites.clear();
    let comparison = Comparison::of(&old, &new);
    assert_eq!(comparison.judged().count(), 0);
    let empty = Comparison::of(&new, &new);
    assert!(
        empty
            .text()
            .contains("0 rows: there is nothing to compare.")
    );
}

#[test]
fn a_long_tag_does_not_hide_the_quantile() {
    let mut log = Vec::new();
    made_up::report(1, 1.0).write_hlog(&mut log).unwrap();
    let log = BenchReport::from_hlog("log", &String::from_utf8(log).unwrap()).unwrap();
    let text = Comparison::of(&log, &log).text();
    for head in ["p50", "p99", "max"] {
        let what = format!("engine.full_life_fcfs_park.hand_over {head} ");
        assert!(text.contains(&what), "{what}");
    }
}
