//! Settings stand in three places, and mean the same in each.

use std::collections::BTreeSet;

use crate::http;
use crate::stage::{Files, POLICY, Process, Router, Worker, text, tool};

/// Every setting but the addresses and files, with a value that is not its default.
const SETTINGS: &[(&str, &str)] = &[
    ("queue_threshold", "0.5"),
    ("max_batched_tokens", "4096"),
    ("overload_status", "529"),
    ("allow_pins", "true"),
    ("class_header", "x-a-class"),
    ("strict_priority_header", "x-a-tier"),
    ("priority_header", "x-a-priority"),
    ("deadline_header", "x-a-deadline"),
    ("session_header", "x-a-session"),
    ("worker_header", "x-a-worker"),
    ("taints_header", "x-a-taints"),
    ("rank_header", "x-a-rank"),
    ("told_class_header", "x-b-class"),
    ("told_wait_header", "off"),
    ("told_worker_header", "x-b-worker"),
    ("body_bytes", "1048576"),
    ("buffered_bytes", "2097152"),
    ("header_bytes", "16384"),
    ("connections", "100"),
    ("client_headers_timeout", "1.5"),
    ("client_body_timeout", "2.5"),
    ("client_write_timeout", "3.5"),
    ("connect_timeout", "0.5"),
    ("first_byte_timeout", "4.5"),
    ("idle_timeout", "5.5"),
    ("health_path", "/well"),
    ("health_interval", "6.5"),
    ("health_timeout", "0.75"),
    ("health_eject_after", "3"),
    ("health_readmit_after", "4"),
    ("session_ttl", "60.5"),
    ("sessions", "100"),
    ("session_on_loss", "fail"),
    ("prefix_blocks", "1024"),
    ("models", "3"),
    ("slots", "2048"),
    ("classes", "32"),
    ("model_workers", "16"),
    ("endpoints", "64"),
    ("idle", "spin-then-park"),
    ("core", "0"),
    ("drain", "7.5"),
    ("access_log", "json"),
];

/// Nobody listens there.
const WORKERS: [&str; 2] = ["http://127.0.0.1:1", "http://127.0.0.1:2/team"];

/// Starts a router and reads what it says is in effect; the addresses come apart.
fn effective(
    environment: &[(String, String)],
    arguments: &[String],
) -> (Vec<(String, String)>, [String; 2]) {
    let mut command = tool(&["serve"]);
    command.args(arguments);
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    let router = Router::wait_for(Process::start(command));
    let mut settings = router.effective();
    let at = settings.iter().position(|(key, _)| key == "admin");
    let (_, admin) = settings.remove(at.expect("it is told"));
    let at = settings.iter().position(|(key, _)| key == "listen");
    let (_, listen) = settings.remove(at.expect("it is told"));
    assert_eq!((&listen, &admin), (&router.address, &router.admin));
    (settings, [listen, admin])
}

/// All settings, with those that name files and addresses; the workers come apart.
fn all(files: &Files) -> Vec<(String, String)> {
    let policy = files.write("policy.yaml", POLICY);
    let authority = files.write("authority.pem", include_str!("authority.pem"));
    let mut all = vec![
        ("listen".to_owned(), "127.0.0.1:0".to_owned()),
        ("admin".to_owned(), "127.0.0.1:0".to_owned()),
        ("policy".to_owned(), text(&policy).to_owned()),
        ("worker_ca".to_owned(), text(&authority).to_owned()),
    ];
    let others = SETTINGS.iter();
    all.extend(others.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
    all
}

fn as_flags(settings: &[(String, String)]) -> Vec<String> {
    let flag = |key: &str| format!("--{}", key.replace('_', "-"));
    let pairs = settings.iter();
    pairs
        .flat_map(|(key, value)| [flag(key), value.clone()])
        .collect()
}

fn as_environment(settings: &[(String, String)]) -> Vec<(String, String)> {
    let name = |key: &str| format!("TOLLGATE_{}", key.to_uppercase());
    let pairs = settings.iter();
    pairs
        .map(|(key, value)| (name(key), value.clone()))
        .collect()
}

fn as_file(settings: &[(String, String)]) -> String {
    let lines = settings.iter();
    let lines = lines.map(|(key, value)| format!("{key}: {value}\n"));
    let workers = WORKERS.map(|url| format!("- url: {url}\n")).concat();
    format!("{}workers:\n{workers}", lines.collect::<String>())
}

#[test]
fn flags_environment_and_file_give_the_same_configuration() {
    let files = Files::new();
    let all = all(&files);
    let mut flags = as_flags(&all);
    for url in WORKERS {
        flags.extend(["--worker".to_owned(), url.to_owned()]);
    }
    let (by_flags, _) = effective(&[], &flags);
    for (key, value) in SETTINGS {
        let found = by_flags.iter().find(|(found, _)| found == key);
        let (_, found) = found.unwrap_or_else(|| panic!("{key} is not told: {by_flags:?}"));
        assert_eq!(found, value, "{key}");
    }
    let mut environment = as_environment(&all);
    environment.push(("TOLLGATE_WORKER".to_owned(), WORKERS.join(",")));
    let (by_environment, _) = effective(&environment, &[]);
    assert_eq!(by_environment, by_flags);
    let file = files.write("settings.yaml", &as_file(&all));
    let (by_file, _) = effective(&[], &["--config".to_owned(), text(&file).to_owned()]);
    assert_eq!(by_file, by_flags);
    let named = [("TOLLGATE_CONFIG".to_owned(), text(&file).to_owned())];
    assert_eq!(effective(&named, &[]).0, by_flags);
}

/// The settings that operators are told at `/config`, as a file.
fn asked(arguments: &[String]) -> (Vec<(String, String)>, String) {
    let mut command = tool(&["serve"]);
    command.args(arguments);
    let router = Router::wait_for(Process::start(command));
    let mut settings = router.operator("/config")["settings"].take();
    // The port is in use.
    settings["listen"] = "127.0.0.1:0".into();
    settings["admin"] = "127.0.0.1:0".into();
    let printed = router.effective().into_iter();
    let printed = printed.filter(|(key, _)| !["listen", "admin"].contains(&key.as_str()));
    (printed.collect(), settings.to_string())
}

#[test]
fn everything_that_is_printed_can_be_read_back() {
    let files = Files::new();
    let given = as_flags(&all(&files));
    let defaults = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"].map(str::to_owned);
    for arguments in [&given[..], &defaults] {
        let (printed, asked_for) = asked(arguments);
        let file = files.write("asked.json", &asked_for);
        let (again, _) = effective(&[], &["--config".to_owned(), text(&file).to_owned()]);
        assert_eq!(again, printed, "as /config tells it");
        let set = printed.iter().filter(|(_, value)| value != "unset");
        let lines = set.map(|(key, value)| format!("{key}: {value}\n"));
        let file = files.write("printed.yaml", &lines.collect::<String>());
        let flags = [
            "--config",
            text(&file),
            "--listen",
            "127.0.0.1:0",
            "--admin",
            "127.0.0.1:0",
        ];
        let (again, _) = effective(&[], &flags.map(str::to_owned));
        assert_eq!(again, printed, "as it is printed");
    }
}

#[test]
fn an_empty_variable_is_as_good_as_none() {
    let files = Files::new();
    let addresses = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"].map(str::to_owned);
    let (defaults, _) = effective(&[], &addresses);
    let mut empty: Vec<_> = as_environment(&all(&files))
        .into_iter()
        .map(|(name, _)| (name, String::new()))
        .collect();
    for name in ["TOLLGATE_WORKER", "TOLLGATE_CONFIG"] {
        empty.push((name.to_owned(), String::new()));
    }
    assert_eq!(effective(&empty, &addresses).0, defaults);
}

#[test]
fn a_flag_wins_over_the_environment_and_that_over_the_file() {
    let files = Files::new();
    let file = "overload_status: 429\nidle_timeout: 1\nsessions: 1\nworkers: [{url: 'http://127.0.0.1:1'}]\n";
    let file = files.write("settings.yaml", file);
    let environment = [
        ("TOLLGATE_OVERLOAD_STATUS", "503"),
        ("TOLLGATE_IDLE_TIMEOUT", "2"),
    ];
    let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let arguments = [
        "--config",
        text(&file),
        "--overload-status",
        "529",
        "--worker",
        "http://127.0.0.1:2",
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
    ];
    let (settings, _) = effective(&environment, &arguments.map(str::to_owned));
    let of = |key: &str| {
        let found = settings.iter().filter(|(found, _)| found == key);
        let found: Vec<_> = found.map(|(_, value)| value.as_str()).collect();
        found.join("; ")
    };
    assert_eq!(of("overload_status"), "529", "of the flag");
    assert_eq!(of("idle_timeout"), "2.0", "of the environment");
    assert_eq!(of("sessions"), "1", "of the file");
    let workers = of("worker");
    assert!(
        workers.contains("127.0.0.1:2:") && !workers.contains("127.0.0.1:1:"),
        "the lists are not merged: {workers}"
    );
}

#[test]
fn an_empty_file_of_settings_leaves_the_defaults() {
    let files = Files::new();
    let addresses = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"].map(str::to_owned);
    let (defaults, _) = effective(&[], &addresses);
    for contents in ["", "# nothing yet\n"] {
        let file = text(&files.write("settings.yaml", contents)).to_owned();
        let named = [("TOLLGATE_CONFIG".to_owned(), file)];
        assert_eq!(effective(&named, &addresses).0, defaults, "{contents:?}");
    }
}

#[test]
fn the_help_mentions_every_setting_with_its_variable() {
    let help = tool(&["serve", "--help"]).output().expect("it runs");
    assert!(help.status.success());
    let help = String::from_utf8(help.stdout).expect("text");
    let files = Files::new();
    let addresses = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"].map(str::to_owned);
    let told: BTreeSet<String> = effective(&[], &addresses)
        .0
        .into_iter()
        .map(|(key, _)| key)
        .collect();
    let mut all: BTreeSet<String> = all(&files).into_iter().map(|(key, _)| key).collect();
    // Not every program takes tokenizers, and those that do are tested beside it.
    let others: Vec<_> = told
        .difference(&all)
        .filter(|key| *key != "tokenizers")
        .collect();
    assert!(others.is_empty(), "no test knows of {others:?}");
    all.extend(["worker", "tokenizer", "config"].map(str::to_owned));
    for key in all {
        let flag = format!("--{} ", key.replace('_', "-"));
        let variable = format!("[env: TOLLGATE_{}=", key.to_uppercase());
        assert!(help.contains(&flag), "{flag}: {help}");
        assert!(help.contains(&variable), "{variable}: {help}");
    }
}

#[test]
fn the_usual_command_lines_work() {
    let worker = [
        "--listen",
        "127.0.0.1:0",
        "--model",
        "m",
        "--max-num-seqs",
        "4",
        "--max-num-batched-tokens",
        "2048",
        "--no-prefix-cache",
        "--speed",
        "50",
    ];
    let (first, second) = (Worker::with(&worker), Worker::with(&worker));
    let files = Files::new();
    let policy = files.write("policy.yaml", POLICY);
    let command = tool(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
        "--policy",
        text(&policy),
        "--worker",
        &first.url(),
        "--worker",
        &second.url(),
        "--overload-status",
        "529",
    ]);
    let router = Router::wait_for(Process::start(command));
    let answer = http::post(
        &router.address,
        http::COMPLETIONS,
        &[],
        &http::completion(4),
    );
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["usage"]["completion_tokens"], 4);
    let workers = router.operator("/workers");
    for at in 0..2 {
        let worker = &workers["workers"][at];
        assert_eq!(worker["standing"], "well", "{workers}");
        assert_eq!(worker["models"][0], "m", "{workers}");
    }
}
