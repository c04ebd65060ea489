//! `tollgate replay` on traces that are right.

use std::fmt::Write;

use serde_json::Value;

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

/// What `--json` says of the first policy.
fn run_of(report: &Run) -> Value {
    assert_eq!(report.code, Some(0), "{}", report.stderr);
    let report: Value = serde_json::from_str(&report.stdout).expect("JSON");
    assert_eq!(report["schema"], "tollgate.replay/1");
    report["runs"][0].clone()
}

fn class<'a>(run: &'a Value, name: &str) -> &'a Value {
    let classes = run["classes"].as_array().expect("classes");
    let found = classes.iter().find(|class| class["name"] == name);
    found.unwrap_or_else(|| panic!("no class {name} in {run}"))
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is no count"))
}

fn counts(list: &Value) -> u64 {
    let counts = list.as_array().expect("counts").iter();
    counts.map(|count| number(&count["count"])).sum()
}

/// How far each of the two classes is off its entitlement.
fn off(run: &Value) -> [f64; 2] {
    ["premium", "regular"].map(|name| {
        let class = class(run, name);
        let tokens = |key: &str| class[key].as_f64().expect("tokens");
        (tokens("served_tokens") / tokens("entitled_tokens") - 1.0).abs()
    })
}

#[test]
fn backlogged_classes_get_what_their_quanta_say() {
    let report = replay(&trace(4_000), &["--speed", "50", "--json"]);
    let run = run_of(&report);
    assert!(off(&run).iter().all(|off| *off < 0.01), "{:?}", off(&run));
    let notes = run["notes"].as_array().expect("notes");
    assert!(notes.iter().any(|note| {
        note.as_str()
            .is_some_and(|note| note.starts_with("Balance: 4000 rows, 4000 outcomes"))
    }));
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_wall_time_stays_on_standard_error() {
    let text = trace(1_500);
    for form in [&[][..], &["--json"]] {
        let report = |seed: &str| {
            let arguments = [&["--speed", "50", "--seed", seed][..], form].concat();
            replay(&text, &arguments)
        };
        let first = report("7");
        assert_eq!(first.stdout, report("7").stdout);
        assert_ne!(first.stdout, report("8").stdout);
        let lines: Vec<&str> = first.stderr.lines().collect();
        assert!(lines[0].starts_with("read 1,500 rows in "), "{lines:?}");
        assert!(
            lines[1].starts_with("built-in: 1,500 requests in "),
            "{lines:?}"
        );
        // How much it took is not told where the machine was busy with something else.
        assert!(lines[1].contains("; of that the arbiter"), "{lines:?}");
        assert!(!first.stdout.contains("a second;"));
    }
}

#[test]
fn options_choose_rows_workers_and_families() {
    let text = trace(200);
    let run = run_of(&replay(
        &text,
        &["--limit", "50", "--workers", "1", "--json"],
    ));
    assert_eq!(run["totals"]["requests"], 50);
    assert_eq!(run["workers"].as_array().map(Vec::len), Some(1));
    let run = run_of(&replay(&text, &["--family", "premium=2", "--json"]));
    assert_eq!(class(&run, "premium")["requests"], 200);
    let run = run_of(&replay(&text, &["--repeat", "3", "--json"]));
    assert_eq!(run["totals"]["requests"], 600);
    let by_length = [
        "--family",
        "premium=isl:2000..",
        "--family",
        "regular=1",
        "--json",
    ];
    let run = run_of(&replay(&text, &by_length));
    let longest = |name: &str| {
        let class = class(&run, name);
        number(&class["prompt_tokens"]) / number(&class["requests"])
    };
    assert!(longest("premium") > 2_000 && longest("regular") < 2_000);
    let headless = text.lines().skip(1).collect::<Vec<_>>().join("\n");
    assert_eq!(replay(&headless, &[]).stdout, replay(&text, &[]).stdout);
}

#[test]
fn rows_with_equal_values_of_a_column_are_of_one_family() {
    let mut text = String::from("TIMESTAMP,ContextTokens,GeneratedTokens,user\n");
    for n in 0..400 {
        writeln!(text, "2023-11-16 18:17:{:02},100,1,{}", n / 10, n % 2).expect("a string grows");
    }
    let run = run_of(&replay(&text, &["--family-by", "user", "--json"]));
    // Two users: each is of one class, whichever.
    for name in ["premium", "regular"] {
        assert_eq!(number(&class(&run, name)["requests"]) % 200, 0);
    }
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
        "--json",
    ];
    let run_json = run_of(&run(files.path(), &arguments, b""));
    assert_eq!(run_json["policy"], "policy");
    let (short, long) = (
        class(&run_json, "chat-short"),
        class(&run_json, "chat-long"),
    );
    assert!(counts(&short["rejected"]) > 0 && number(&short["expired"]) == 0);
    assert!(counts(&long["rejected"]) == 0 && number(&long["expired"]) > 0);
    assert_eq!(class(&run_json, "probe")["requests"], 0);
    assert_eq!(number(&short["requests"]) + number(&long["requests"]), 300);

    let mut known = arguments.to_vec();
    known.extend(["--family", "probe=1"]);
    let probed = run_of(&run(files.path(), &known, b""));
    assert_eq!(class(&probed, "probe")["requests"], 300);
}

const POLICY: &str = "\
default_policy_family: regular
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
- {name: premium, policy_family: premium, cache_bucket: all, quantum: 1000, prefill_busy_threshold: 4096}
- {name: regular, policy_family: regular, cache_bucket: all, quantum: QUANTUM, prefill_busy_threshold: 4096}
";

#[test]
fn policies_are_compared_and_told_in_every_form() {
    let files = Files::new();
    files.write("trace.csv", trace(1_000));
    files.write("even.yaml", POLICY.replace("QUANTUM", "1000"));
    files.write("steep.yaml", POLICY.replace("QUANTUM", "100"));
    let arguments = [
        "replay",
        "trace.csv",
        "--policy",
        "even.yaml",
        "--policy",
        "steep.yaml",
        "--speed",
        "50",
        "--out",
        "out",
    ];
    let report = run(files.path(), &arguments, b"");
    assert_eq!(report.code, Some(0), "{}", report.stderr);
    let read = |name: &str| {
        let path = files.path().join("out").join(name);
        std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    assert_eq!(read("report.txt"), report.stdout);
    let json: Value = serde_json::from_str(&read("report.json")).expect("JSON");
    let premium = |run: usize| {
        let wait = &class(&json["runs"][run], "premium")["wait"];
        number(&wait["p50_ns"])
    };
    assert!(
        premium(1) < premium(0),
        "ten times the quantum of the others"
    );
    let page = read("report.html");
    assert!(page.contains("even") && page.contains("steep") && page.contains("<svg"));
    for run in [1, 2] {
        assert!(read(&format!("policy-{run}.hlog")).contains("Tag=premium.wait"));
        let hgrm = read(&format!("policy-{run}.premium.wait.hgrm"));
        assert!(hgrm.contains("Percentile"), "{hgrm}");
    }
    let once = [&arguments[..4], &["--policy", "even.yaml"]].concat();
    let twice = run(files.path(), &once, b"");
    assert_eq!(twice.code, Some(2), "{}", twice.stderr);
    assert_eq!(twice.stderr, "--policy even.yaml: given twice\n");
}

#[test]
fn what_is_emitted_is_replayed_alike() {
    let files = Files::new();
    files.write("trace.csv", trace(300));
    let first = [
        "replay",
        "trace.csv",
        "--speed",
        "20",
        "--emit",
        "own.jsonl",
        "--json",
    ];
    let first = run_of(&run(files.path(), &first, b""));
    let second = run_of(&run(files.path(), &["replay", "own.jsonl", "--json"], b""));
    for key in ["totals", "classes", "workers", "timeline"] {
        assert_eq!(first[key], second[key], "{key}");
    }
    let own = std::fs::read_to_string(files.path().join("own.jsonl")).expect("it is there");
    assert_eq!(own.lines().count(), 300);
}

#[test]
fn the_worker_is_what_it_is_told_to_be() {
    let text = "2023-11-16 18:17:03,100,3\n2023-11-16 18:17:03,100,1\n";
    let finish = |arguments: &[&str]| {
        let common = [
            "--family",
            "premium=1",
            "--workers",
            "1",
            "--prefill",
            "0,0,80",
            "--decode",
            "20",
            "--json",
        ];
        let run = run_of(&replay(text, &[&common[..], arguments].concat()));
        number(&run["totals"]["finish_ns"]) / 1_000_000
    };
    // One batch: 80 ms, two more tokens.
    assert_eq!(finish(&[]), 120);
    assert_eq!(finish(&["--batched-tokens", "100"]), 160);
    assert_eq!(finish(&["--sequences", "1"]), 200);
    assert_eq!(finish(&["--kv-tokens", "203"]), 200);
    assert_eq!(finish(&["--kv-tokens", "204"]), 120);
}

#[test]
fn a_recorded_hour_is_shared_within_a_hundredth() {
    let Some(trace) = beside_workspace("shared/traces/azure_llm_2023_code.csv") else {
        return;
    };
    let trace = trace.display().to_string();
    let directory = std::env::temp_dir();
    let arguments = [
        "replay",
        &trace,
        "--workers",
        "4",
        "--speed",
        "100",
        "--json",
    ];
    let run = run_of(&run(&directory, &arguments, b""));
    assert_eq!(run["totals"]["requests"], 8_819);
    assert!(off(&run).iter().all(|off| *off < 0.01), "{:?}", off(&run));
}

#[test]
fn recorded_conversations_find_their_beginnings_cached() {
    let Some(trace) = beside_workspace("shared/traces/mooncake_conversation.jsonl") else {
        return;
    };
    let trace = trace.display().to_string();
    let directory = std::env::temp_dir();
    let run = |more: &[&str]| {
        let arguments = [&["replay", &trace, "--workers", "8", "--json"], more].concat();
        run_of(&run(&directory, &arguments, b""))
    };
    let with = run(&[]);
    assert_eq!(with["totals"]["requests"], 12_031);
    assert_eq!(with["totals"]["completed"], 12_031);
    let tokens = |run: &Value, key: &str| number(&run["totals"][key]);
    assert!(tokens(&with, "cached_tokens") * 10 > tokens(&with, "prompt_tokens"));
    let without = run(&["--cache-blocks", "0"]);
    assert_eq!(tokens(&without, "cached_tokens"), 0);
    assert!(tokens(&without, "charged_tokens") > tokens(&with, "charged_tokens"));
}

#[test]
fn classes_with_long_names_have_files_of_their_own() {
    let files = Files::new();
    files.write("trace.csv", trace(40));
    let long = "c".repeat(300);
    let class = |end: char| {
        let name = format!("{long}{end}");
        format!("- {{name: {name}, policy_family: {name}, cache_bucket: any, quantum: 100}}\n")
    };
    let policy = format!(
        "default_policy_family: {long}a\nuncached_isl_buckets: [{{min_tokens: 0, bucket: any}}]\n\
         policy_classes:\n{}{}",
        class('a'),
        class('b'),
    );
    files.write("policy.yaml", &policy);
    let replayed = run(
        files.path(),
        &[
            "replay",
            "trace.csv",
            "--policy",
            "policy.yaml",
            "--out",
            "out",
        ],
        b"",
    );
    assert_eq!(replayed.code, Some(0), "{}", replayed.stderr);
    let written = std::fs::read_dir(files.path().join("out")).expect("a folder");
    let names = written.map(|entry| entry.expect("an entry").file_name());
    let percentiles = names.filter(|name| name.to_string_lossy().ends_with(".hgrm"));
    assert_eq!(percentiles.count(), 6, "three recordings of two classes");
}
