//! Prompts are counted by their models' own tokenizers, in a program that was built for it.

use crate::stage::{Files, serve_to_end, text};

/// A word is a token; so are what is not a word, and what the vocabulary has not.
const WORDS: &str = r#"{
    "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
    "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
    "model": {"type": "WordLevel", "vocab": {"hello": 0, "world": 1, "?": 2}, "unk_token": "?"}
}"#;

#[cfg(not(feature = "tokenizer"))]
#[test]
fn a_program_without_tokenizers_says_how_to_build_one_with_them() {
    let files = Files::new();
    let path = files.write("tokenizer.json", WORDS);
    let setting = format!("m={}", text(&path));
    let file = format!("tokenizers: {{m: {}}}\n", text(&path));
    let file = files.write("settings.yaml", &file);
    for (environment, arguments) in [
        (&[] as &[(&str, &str)], &["--tokenizer", &*setting]),
        (&[], &["--config", text(&file)]),
    ] {
        let run = serve_to_end(environment, arguments);
        assert_eq!(run.code, Some(2), "{}", run.stderr);
        let expected = "tokenizer: one for m; this program was built without the feature `tokenizer`: build it by \
            `cargo build --release -p tollgate-cli --features tokenizer`, or leave the setting away";
        assert_eq!(run.stderr, expected);
    }
}

#[cfg(feature = "tokenizer")]
mod built {
    use rustix::process::Signal;
    use serde_json::{Value, json};

    use super::*;
    use crate::http::{self, COMPLETIONS, post};
    use crate::stage::{Process, Router, Worker, tool};

    /// A completion of so many words, in a language that is always of four letters and a space.
    fn words(count: usize) -> Value {
        json!({ "model": "m", "prompt": "word ".repeat(count), "max_tokens": 1 })
    }

    /// A number of the model `m` among the metrics.
    fn metric(router: &Router, name: &str) -> u64 {
        let metrics = http::get(&router.admin, "/metrics").body;
        let start = format!("tollgate_{name}{{model=\"m\"}} ");
        let mut found = metrics.lines().filter_map(|line| line.strip_prefix(&start));
        let found = found.next().unwrap_or_else(|| panic!("{name}: {metrics}"));
        found.parse().expect("a number")
    }

    #[test]
    fn the_log_shows_the_count_of_the_models_tokenizer() {
        let files = Files::new();
        let path = files.write("tokenizer.json", WORDS);
        let (m, other) = (format!("m={}", text(&path)), format!("n={}", text(&path)));
        let worker = Worker::start("1000");
        let arguments = [
            "--access-log",
            "json",
            "--tokenizer",
            &m,
            "--tokenizer",
            &other,
        ];
        let mut router = Router::start(&[&worker], &arguments);
        let chat = json!({
            "model": "m",
            "messages": [{ "role": "user", "content": "hello world, hello" }],
            "max_tokens": 1,
        });
        let bodies = [
            (COMPLETIONS, words(7), 7),
            (COMPLETIONS, words(5_000), 5_000),
            ("/v1/chat/completions", chat, 4 + 4),
        ];
        for (path, body, _) in &bodies {
            let answer = post(&router.address, path, &[], body);
            assert_eq!(answer.status, 200, "{answer:?}");
        }
        assert_eq!(metric(&router, "tokenizer_counted_total"), 3);
        // More than a mebibyte of text.
        let long = words((1 << 20) / 5 + 1);
        assert_eq!(post(&router.address, COMPLETIONS, &[], &long).status, 200);
        assert_eq!(metric(&router, "tokenizer_skipped_total"), 1);
        assert_eq!(metric(&router, "tokenizer_failures_total"), 0);
        router.process.signal(Signal::TERM);
        assert_eq!(router.process.end(), Some(0));
        let lines = router.process.out.count(bodies.len());
        for ((_, _, tokens), line) in bodies.iter().zip(lines) {
            let logged: Value = serde_json::from_str(&line).expect("an object");
            assert_eq!(logged["prompt_tokens_estimated"], *tokens, "{line}");
        }
    }

    #[test]
    fn what_a_tokenizer_cannot_take_is_estimated_and_counted() {
        let files = Files::new();
        let strict = WORDS.replace("\"unk_token\": \"?\"", "\"unk_token\": \"-\"");
        let path = files.write("tokenizer.json", &strict);
        let setting = format!("m={}", text(&path));
        let worker = Worker::start("1000");
        let router = Router::start(&[&worker], &["--tokenizer", &setting]);
        for count in [3, 300] {
            let answer = post(&router.address, COMPLETIONS, &[], &words(count));
            assert_eq!(answer.status, 200, "{answer:?}");
        }
        assert_eq!(metric(&router, "tokenizer_failures_total"), 2);
        assert_eq!(metric(&router, "tokenizer_counted_total"), 0);
    }

    #[test]
    fn flag_environment_and_file_name_tokenizers_and_all_are_told() {
        let files = Files::new();
        let path = files.write("tokenizer.json", WORDS);
        let path = text(&path);
        let (flags, both) = (
            [format!("a={path}"), format!("b={path}")],
            format!("a={path},b={path}"),
        );
        let file = format!("tokenizers:\n  a: {path}\n  b: {path}\n");
        let file = files.write("settings.yaml", &file);
        let any = "127.0.0.1:0";
        let addresses = ["serve", "--listen", any, "--admin", any];
        let mut by_flags = tool(&addresses);
        by_flags.args(["--tokenizer", &flags[0], "--tokenizer", &flags[1]]);
        let mut by_environment = tool(&addresses);
        by_environment.env("TOLLGATE_TOKENIZER", &both);
        let mut by_file = tool(&addresses);
        by_file.args(["--config", text(&file)]);
        for command in [by_flags, by_environment, by_file] {
            let router = Router::wait_for(Process::start(command));
            let told = router.effective();
            let told = told.iter().find(|(key, _)| key == "tokenizers");
            assert_eq!(told.map(|(_, value)| value), Some(&both));
            let settings = &router.operator("/config")["settings"];
            assert_eq!(settings["tokenizers"], json!({ "a": path, "b": path }));
        }
    }

    #[test]
    fn every_file_that_is_no_tokenizer_is_told_at_once() {
        let files = Files::new();
        let good = files.write("good.json", WORDS);
        let wrong = files.write("wrong.json", "{\"model\": 1}");
        let none = files.path().join("none.json");
        let of = |model: &str, path: &std::path::Path| format!("{model}={}", text(path));
        let all = [of("a", &wrong), of("b", &good), of("c", &none)].join(",");
        let run = serve_to_end(&[("TOLLGATE_TOKENIZER", &all)], &[]);
        assert_eq!(run.code, Some(2), "{}", run.stderr);
        let lines: Vec<_> = run.stderr.lines().collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        for (line, path, model, why) in [
            (lines[0], &wrong, "a", "it is no tokenizer.json: "),
            (lines[1], &none, "c", "No such file"),
        ] {
            let begin = format!("tokenizer: {}, for {model}: {why}", text(path));
            assert!(line.starts_with(&begin), "{line}");
        }
    }

    #[test]
    fn a_model_that_is_named_twice_is_told() {
        let files = Files::new();
        let path = files.write("tokenizer.json", WORDS);
        let setting = format!("m={}", text(&path));
        let run = serve_to_end(&[], &["--tokenizer", &setting, "--tokenizer", &setting]);
        assert_eq!(run.code, Some(2), "{}", run.stderr);
        let expected = "tokenizer: m stands there twice; name each model once";
        assert_eq!(run.stderr, expected);
        let file = format!("tokenizers:\n  m: {0}\n  m: {0}\n", text(&path));
        let file = files.write("settings.yaml", &file);
        let run = serve_to_end(&[], &["--config", text(&file)]);
        assert_eq!(run.code, Some(2), "{}", run.stderr);
        for part in ["duplicate", "line 3", "settings.yaml"] {
            assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
        }
    }
}
