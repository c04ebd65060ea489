//! `tollgate bench`: what it prints and writes. How fast anything is, is no matter of these tests.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::tool::{Files, Run, run, start};

/// The least that measures something; `--force`, since tests are not optimised builds.
const LEAST: [&str; 5] = ["bench", "--quick", "--force", "--repetitions", "1"];

fn bench(files: &Files, arguments: &[&str]) -> Run {
    run(files.path(), &[&LEAST, arguments].concat(), b"")
}

#[test]
fn a_report_is_printed_and_every_form_of_it_written() {
    let files = Files::new();
    let asked = [
        "--suite",
        "arbiter",
        "--filter",
        "l256/n1024",
        "--out",
        "out",
    ];
    let told = bench(&files, &asked);
    assert_eq!(told.code, Some(0), "{}", told.stderr);
    for part in [
        "Tollgate measured",
        "suite arbiter",
        "step/fcfs/c8/l256/n1024/b0%",
        "the machine",
    ] {
        assert!(told.stdout.contains(part), "{part} in\n{}", told.stdout);
    }
    assert!(told.stdout.contains("page for a browser: out/report.html"));
    let read = |name: &str| {
        let path = files.path().join("out").join(name);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    assert!(told.stdout.starts_with(&read("report.txt")));
    assert!(read("report.html").starts_with("<!DOCTYPE html>"));
    let report: Value = serde_json::from_str(&read("report.json")).expect("JSON");
    assert_eq!(report["schema"], "tollgate.bench/1");
    assert!(
        report["command"]
            .as_str()
            .expect("text")
            .starts_with("tollgate bench --quick")
    );
    let machine = report["machine"].as_array().expect("facts");
    for fact in [
        "processor",
        "cores",
        "clock source",
        "frequency governor",
        "build",
    ] {
        assert!(machine.iter().any(|known| known["name"] == fact), "{fact}");
    }
    let suite = &report["suites"][0];
    for when in ["before", "after"] {
        assert!(suite[when]["clock_ns"].as_f64().expect("a number") > 0.0);
        assert!(suite[when]["gaps"]["span_ns"].as_u64().expect("a number") > 0);
    }
    assert!(
        !files.path().join("out/unfinished").exists(),
        "the run is over"
    );
    // What was written can be rendered, and compared with itself.
    let again = ["report", "out/report.json", "--against", "out/report.json"];
    let compared = run(files.path(), &again, b"");
    assert_eq!(compared.code, Some(0), "{}", compared.stderr);
}

#[test]
fn requests_at_their_own_pace_have_rooms() {
    let files = Files::new();
    let asked = [
        "--suite", "latency", "--filter", "rooms", "--load", "0.1", "--json",
    ];
    let told = bench(&files, &asked);
    assert_eq!(told.code, Some(0), "{}", told.stderr);
    let report: Value = serde_json::from_str(&told.stdout).expect("JSON alone on standard output");
    let arm = &report["suites"][0]["arms"][0];
    assert_eq!(arm["name"], "rooms/10%");
    let tags: Vec<&str> = (arm["populations"].as_array().expect("populations").iter())
        .map(|population| population["repetitions"][0]["tag"].as_str().expect("text"))
        .collect();
    for room in [
        "late",
        "intake",
        "wait",
        "ring",
        "end_to_end",
        "selection",
        "end_to_end.class7",
    ] {
        assert!(tags.contains(&room), "{room} is among {tags:?}");
    }
    let counts = ["late", "intake", "wait", "ring"].map(|room| {
        let at = tags
            .iter()
            .position(|tag| *tag == room)
            .expect("it is there");
        arm["populations"][at]["repetitions"][0]["count"].clone()
    });
    assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");
    let steps = arm["course"]["handed_out"].as_array().expect("steps");
    assert!(steps.len() >= 90, "{}", steps.len());
}

#[test]
fn a_run_that_was_interrupted_goes_on_after_the_last_whole_suite() {
    let files = Files::new();
    let asked = [
        &LEAST[..],
        &["--suite", "arbiter", "--suite", "soak", "--minutes", "0.03"],
        &[
            "--filter",
            "0%",
            "--classes",
            "1",
            "--lanes",
            "1",
            "--waiting",
            "1",
        ],
        &["--out", "out"],
    ]
    .concat();
    let mut first = start(files.path(), &asked);
    let part = files.path().join("out/unfinished/arbiter.json");
    let begun = Instant::now();
    while !part.exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "no suite ends");
        assert!(
            first.try_wait().expect("it can be asked").is_none(),
            "it ended by itself"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    first.kill().expect("it runs");
    first.wait().expect("it was killed");
    let kept = std::fs::read_to_string(&part).expect("it is whole");

    let second = run(files.path(), &asked, b"");
    assert_eq!(second.code, Some(0), "{}", second.stderr);
    assert!(
        second.stderr.contains("suite arbiter: kept"),
        "{}",
        second.stderr
    );
    let report =
        std::fs::read_to_string(files.path().join("out/report.json")).expect("it is there");
    let [report, kept]: [Value; 2] =
        [report, kept].map(|text| serde_json::from_str(&text).expect("JSON"));
    assert_eq!(report["suites"][0], kept["suites"][0]);
    assert_eq!(report["suites"][1]["name"], "soak");
}

/// One arm that takes a moment.
const ONE_ARM: [&str; 8] = [
    "--suite",
    "arbiter",
    "--filter",
    "/step/",
    "--lanes",
    "1",
    "--waiting",
    "1",
];

#[test]
fn what_another_command_has_left_is_measured_again_and_that_is_said() {
    let files = Files::new();
    let first = bench(&files, &[&ONE_ARM[..], &["--out", "out"]].concat());
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    std::fs::create_dir(files.path().join("out/unfinished")).expect("the run is over");
    let left = std::fs::read(files.path().join("out/report.json")).expect("it was written");
    files.write("out/unfinished/arbiter.json", left);
    let other = [&ONE_ARM[..], &["--classes", "2", "--out", "out"]].concat();
    let told = bench(&files, &other);
    assert_eq!(told.code, Some(0), "{}", told.stderr);
    let wanted = "suite arbiter: measured again";
    assert!(told.stderr.contains(wanted), "{}", told.stderr);
    assert!(told.stdout.contains("step/fcfs/c2/"), "{}", told.stdout);
}

#[test]
fn a_second_run_into_the_same_directory_is_refused() {
    let files = Files::new();
    std::fs::create_dir_all(files.path().join("out/unfinished")).expect("a directory");
    let lock = std::fs::File::create(files.path().join("out/unfinished/lock")).expect("a file");
    lock.lock().expect("nobody else has it");
    let told = bench(&files, &[&ONE_ARM[..], &["--out", "out"]].concat());
    assert_eq!(told.code, Some(2), "{}", told.stderr);
    assert!(
        told.stderr.contains("another run writes there"),
        "{}",
        told.stderr
    );
}

#[test]
fn a_value_given_twice_is_one_arm_and_two_runs_of_one_command_can_be_merged() {
    let files = Files::new();
    let twice = [&ONE_ARM[..], &["--classes", "3,3", "--out", "twice"]].concat();
    let told = bench(&files, &twice);
    assert_eq!(told.code, Some(0), "{}", told.stderr);
    let latency = [
        "--suite",
        "latency",
        "--filter",
        "poisson/10%",
        "--load",
        "0.1",
        "--out",
    ];
    for directory in ["one", "two"] {
        let told = bench(&files, &[&latency[..], &[directory]].concat());
        assert_eq!(told.code, Some(0), "{}", told.stderr);
    }
    let read = |arguments: &[&str]| run(files.path(), arguments, b"");
    let told = read(&["report", "twice/report.json"]);
    assert_eq!(told.code, Some(0), "{}", told.stderr);
    assert_eq!(told.stdout.matches("step/fcfs/c3/").count(), 1);
    // Each has measured a peak of its own.
    let told = read(&["report", "one/report.json", "two/report.json"]);
    assert_eq!(told.code, Some(0), "{}", told.stderr);
}

#[test]
fn what_cannot_be_measured_is_bad_usage() {
    let files = Files::new();
    files.write("file", "");
    let cases: [(&[&str], &str); 13] = [
        (
            &["--suite", "speed"],
            "arbiter, ring, pipeline, latency, adversity, soak",
        ),
        (
            &["--suite", "ring", "--filter", "nothing"],
            "no arm of these suites contains \"nothing\"",
        ),
        (&["--cpu", "0"], "two numbers of cores"),
        (&["--cpu", "0,0"], "core 0 twice"),
        (&["--cpu", "0,4000"], "may not use core 4000"),
        (&["--repetitions", "0"], "0 is not in 1..=1000"),
        (&["--load", "1"], "from 0.001 to 0.999"),
        (&["--peak", "0"], "from 0.001 to 1000"),
        (&["--blocked", "1.5"], "from 0 to 1"),
        (&["--minutes", "-1"], "minutes above 0"),
        (&["--classes", "256", "--lanes", "16384"], "lanes in all"),
        (&["--fresh"], "--out"),
        (&["--out", "file"], "--out file"),
    ];
    for (arguments, expected) in cases {
        // Without `--repetitions 1`, which one of them gives itself.
        let all = [&["bench", "--quick", "--force"], arguments].concat();
        let told = run(files.path(), &all, b"");
        assert_eq!(told.code, Some(2), "{arguments:?}: {}", told.stderr);
        assert!(
            told.stderr.contains(expected),
            "{arguments:?}: {}",
            told.stderr
        );
        assert!(told.stdout.is_empty(), "{arguments:?}");
    }
}

#[cfg(debug_assertions)]
#[test]
fn a_build_that_is_not_optimised_refuses() {
    let files = Files::new();
    let told = run(files.path(), &["bench", "--quick"], b"");
    assert_eq!(told.code, Some(2));
    assert!(told.stderr.contains("not optimised"), "{}", told.stderr);
    assert!(told.stderr.contains("--force"), "{}", told.stderr);
}
