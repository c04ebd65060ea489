//! What is wrong with settings is told with its place and with what would be right, and an exit status.

use crate::stage::{Files, Router, serve_to_end, text};

/// Runs with a file of settings; what it says, which begins with the file's name.
fn with_file(contents: &str) -> String {
    let files = Files::new();
    let file = files.write("settings.yaml", contents);
    let run = serve_to_end(&[], &["--config", text(&file)]);
    assert_eq!(run.code, Some(2), "{contents}: {}", run.stderr);
    let said = run.stderr.strip_prefix(text(&file));
    said.unwrap_or_else(|| panic!("it does not name the file: {}", run.stderr))
        .to_owned()
}

fn assert_says(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "{part:?} is not in: {said}");
    }
}

#[test]
fn a_mistake_in_the_file_is_told_with_key_and_line() {
    for (contents, parts) in [
        (
            "# mine\nlissten: 127.0.0.1:0\n",
            &["lissten", "line 2", "listen"] as &[&str],
        ),
        (
            "\n\noverload_status: often\n",
            &[
                "overload_status: often",
                "line 3, column 18: it must be a whole number",
            ],
        ),
        (
            "allow_pins: perhaps\n",
            &["allow_pins", "line 1", "it must be true or false"],
        ),
        (
            "idle_timeout: -1\n",
            &[
                "idle_timeout",
                "line 1",
                "`-1` is no time",
                "number of seconds",
            ],
        ),
        (
            "access_log: xml\n",
            &["access_log", "line 1", "off, text, json"],
        ),
        (
            "class_header: two words\n",
            &["class_header", "line 1", "name of a header"],
        ),
        ("listen: here\n", &["listen", "line 1", "socket address"]),
        (
            "workers:\n- url: localhost:8000\n",
            &["url", "line 2", "no scheme", "write it as http://host:port"],
        ),
        (
            "workers:\n- url: http://h:1\n  rank: 2\n",
            &["rank", "line 3", "ranks"],
        ),
        (
            "sessions: 1\nsessions: 2\n",
            &["sessions", "line 2", "duplicate"],
        ),
        ("workers: 7\n", &["workers: 7", "it must be a list"]),
        ("drain: [1]\n", &["drain: [1]", "it must be one value"]),
        ("[1, 2]\n", &["line 1"]),
        ("listen: [\n", &["line"]),
    ] {
        let said = with_file(contents);
        assert_says(&said, parts);
    }
}

#[test]
fn everything_that_is_wrong_with_a_file_is_told_at_once() {
    let said = with_file(
        "lissten: 127.0.0.1:0\noverload_status: often\nheader_bytes: 1\nworkers:\n- url: nowhere\n\
         - url: http://h:1\n  models: ['']\n- url: http://h:2\n  rank: 2\nidle: dance\n\
         listen: 127.0.0.1:9090\nadmin: there\n",
    );
    assert_says(
        &said,
        &[
            "lissten",
            "line 1",
            "line 2",
            "often",
            "line 5",
            "`nowhere` is no worker's address",
            "line 9",
            "unknown field `rank`",
            "line 10",
            "`dance` is none of park, spin-then-park, spin",
            "line 12",
            "\nworker: models of http://h:1: \"\", number 1, is empty",
            "\nheader-bytes: 1; it must be between",
        ],
    );
    // Where operators come was not understood, so that it is not known to be the clients' address.
    assert!(!said.contains("is also listen"), "{said}");
}

#[test]
fn a_worker_that_there_is_no_room_for_is_told_at_the_start() {
    let files = Files::new();
    let file = "endpoints: 8\nworkers:\n- {url: 'http://127.0.0.1:1', ranks: 5, models: [m]}\n\
                - {url: 'http://127.0.0.1:2', ranks: 5, models: [m]}\n";
    let file = files.write("settings.yaml", file);
    let any = "127.0.0.1:0";
    let run = serve_to_end(
        &[],
        &["--config", text(&file), "--listen", any, "--admin", any],
    );
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    let said = "worker http://127.0.0.1:2: ranks: 5; model m has room for 3 more of 8";
    assert_says(&run.stderr, &[said]);
    let file = "endpoints: 8\nworkers: [{url: 'http://127.0.0.1:1', ranks: 9}]\n";
    let file = files.write("settings.yaml", file);
    let run = serve_to_end(&[], &["--config", text(&file)]);
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    let said = "ranks of http://127.0.0.1:1: 9; a model has at most 8";
    assert_says(&run.stderr, &[said]);
}

#[test]
fn a_file_that_cannot_be_read_is_told_why() {
    let files = Files::new();
    let directory = text(files.path());
    let missing = format!("{directory}/none.yaml");
    for flag in ["--config", "--policy", "--worker-ca"] {
        let is_directory = match flag {
            "--policy" => "no regular file",
            _ => "Is a directory",
        };
        for (path, why) in [(&*missing, "No such file"), (directory, is_directory)] {
            let run = serve_to_end(&[], &[flag, path]);
            assert_eq!(run.code, Some(2), "{flag} {path}: {}", run.stderr);
            assert_says(&run.stderr, &[path, why]);
        }
    }
    let empty = files.write("empty", "");
    let run = serve_to_end(&[], &["--worker-ca", text(&empty)]);
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert_says(
        &run.stderr,
        &["worker-ca", text(&empty), "certificates in PEM"],
    );
}

#[test]
fn a_file_of_settings_that_is_too_large_is_not_read_in_part() {
    let said = with_file(&"#".repeat((1 << 20) + 1));
    assert_says(&said, &["larger than 1048576 bytes"]);
}

#[test]
fn bad_flags_and_variables_are_told_by_name() {
    for (flag, value, part) in [
        ("--listen", "here", "socket address"),
        ("--worker", "ftp://h", "neither http nor https"),
        ("--worker", "", "no worker's address"),
        ("--tokenizer", "m", "write MODEL=FILE"),
        ("--drain", "soon", "number of seconds"),
        ("--overload-status", "often", "invalid digit"),
        ("--queue-threshold", "much", "much"),
        ("--access-log", "xml", "off, text, json"),
        ("--session-on-loss", "cry", "neither fail nor rehome"),
        ("--idle", "dance", "park, spin-then-park, spin"),
        ("--told-wait-header", "a b", "name of a header"),
    ] {
        let run = serve_to_end(&[], &[flag, value]);
        assert_eq!(run.code, Some(2), "{flag} {value}: {}", run.stderr);
        assert_says(&run.stderr, &[flag, part]);
    }
    let run = serve_to_end(&[("TOLLGATE_IDLE_TIMEOUT", "soon")], &[]);
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert_says(&run.stderr, &["--idle-timeout", "`soon` is no time"]);
}

#[test]
fn everything_that_is_out_of_range_is_told_at_once() {
    let files = Files::new();
    let file = "header_bytes: 1\nsession_ttl: 0\ndrain: 1.8e19\n";
    let file = files.write("settings.yaml", file);
    let run = serve_to_end(
        &[("TOLLGATE_MODELS", "0")],
        &["--overload-status", "418", "--config", text(&file)],
    );
    assert_eq!(run.code, Some(2));
    let expected = [
        "overload-status: 418; it must be 429, 503 or 529",
        "drain: 18000000000000000000 s; it must be at most 86400 s",
        "header-bytes: 1; it must be between 8192 and 16777216",
        "session-ttl: 0 s; it must be above 0 and at most 86400 s",
        "models: 0; it must be between 1 and 256",
    ];
    let lines: Vec<&str> = run.stderr.lines().collect();
    assert_eq!(lines, expected);
}

#[test]
fn every_error_of_a_policy_is_told_with_its_line() {
    let files = Files::new();
    let policy = "default_policy_family: d\nuncached_isl_buckets: [{min_tokens: 0, bucket: any}]\n\
        policy_classes:\n- {name: d, policy_family: d, cache_bucket: any, quantum: 0}\n\
        - {name: e, policy_family: e, cache_bucket: none, quantom: 3}\n";
    let policy = files.write("policy.yaml", policy);
    let run = serve_to_end(&[], &["--policy", text(&policy)]);
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    let path = text(&policy);
    assert_says(
        &run.stderr,
        &[
            &format!("{path}:4"),
            &format!("{path}:5"),
            "quantum",
            "quantom",
        ],
    );
}

#[test]
fn an_address_in_use_is_told_with_status_1() {
    let router = Router::start(&[], &[]);
    for (flag, other) in [("--listen", "--admin"), ("--admin", "--listen")] {
        let run = serve_to_end(&[], &[flag, &router.address, other, "127.0.0.1:0"]);
        assert_eq!(run.code, Some(1), "{flag}: {}", run.stderr);
        let address = &router.address;
        let expected = format!("tollgate: cannot listen on {address}: Address already in use");
        assert!(run.stderr.starts_with(&expected), "{flag}: {}", run.stderr);
    }
}
