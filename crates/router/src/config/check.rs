//! What is wrong with a configuration, all of it at once.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::{Config, TokenizerConfig};
use crate::cost::tokenizer;

/// One thing that is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {found}; {remedy}")]
pub struct ConfigError {
    /// The setting, as its flag is called without dashes.
    pub what: &'static str,
    /// What was found.
    pub found: String,
    /// What would be right.
    pub remedy: String,
}

/// Everything that is wrong with a configuration; at least one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors(pub(crate) Vec<ConfigError>);

impl ConfigErrors {
    /// The errors, in the order of the settings.
    #[must_use]
    pub fn errors(&self) -> &[ConfigError] {
        &self.0
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, error) in self.0.iter().enumerate() {
            let end = if at > 0 { "\n" } else { "" };
            write!(f, "{end}{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// The longest time that may be set.
pub(crate) const DAY: Duration = Duration::from_secs(86_400);

/// Collects errors.
struct Check(Vec<ConfigError>);

impl Check {
    fn number(&mut self, what: &'static str, found: usize, range: RangeInclusive<usize>) {
        if !range.contains(&found) {
            let remedy = format!("it must be between {} and {}", range.start(), range.end());
            self.wrong(what, found.to_string(), remedy);
        }
    }

    fn time(&mut self, what: &'static str, found: Duration) {
        if found.is_zero() || found > DAY {
            let remedy = "it must be above 0 and at most 86400 s".to_owned();
            self.wrong(what, format!("{} s", found.as_secs_f64()), remedy);
        }
    }

    fn wrong(&mut self, what: &'static str, found: String, remedy: String) {
        self.0.push(ConfigError {
            what,
            found,
            remedy,
        });
    }
}

impl Config {
    /// Checks what can be checked without opening anything.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub fn check(&self) -> Result<(), ConfigErrors> {
        let mut check = Check(Vec::new());
        if self.listen == self.admin && self.listen.port() != 0 {
            let remedy = "clients and operators need an address each".to_owned();
            check.wrong("admin", format!("{} is also listen", self.admin), remedy);
        }
        if ![429, 503, 529].contains(&self.overload_status) {
            let remedy = "it must be 429, 503 or 529".to_owned();
            check.wrong("overload-status", self.overload_status.to_string(), remedy);
        }
        if self.max_batched_tokens == Some(0) {
            let remedy = "it must be at least 1, or be left away".to_owned();
            check.wrong("max-batched-tokens", "0".to_owned(), remedy);
        }
        if self.drain > DAY {
            let remedy = "it must be at most 86400 s".to_owned();
            let found = format!("{} s", self.drain.as_secs_f64());
            check.wrong("drain", found, remedy);
        }
        self.check_tokenizers(&mut check);
        self.check_headers(&mut check);
        self.check_workers(&mut check);
        self.check_numbers(&mut check);
        if check.0.is_empty() {
            Ok(())
        } else {
            Err(ConfigErrors(check.0))
        }
    }

    fn check_tokenizers(&self, check: &mut Check) {
        if !self.tokenizers.is_empty() && !tokenizer::IS_BUILT {
            let models = self.tokenizers.iter().map(|tokenizer| &*tokenizer.model);
            let found = format!("one for {}", models.collect::<Vec<_>>().join(", "));
            let remedy = "this program was built without the feature `tokenizer`: build it by \
                `cargo build --release -p tollgate-cli --features tokenizer`, or leave the setting away";
            check.wrong("tokenizer", found, remedy.to_owned());
        }
        for (at, TokenizerConfig { model, .. }) in self.tokenizers.iter().enumerate() {
            if self.tokenizers[..at]
                .iter()
                .any(|other| other.model == *model)
            {
                let remedy = "name each model once".to_owned();
                check.wrong("tokenizer", format!("{model} stands there twice"), remedy);
            }
        }
    }

    /// Names that HTTP itself needs, and one name for two things.
    fn check_headers(&self, check: &mut Check) {
        const TAKEN: [&str; 12] = [
            "connection",
            "content-encoding",
            "content-length",
            "content-type",
            "date",
            "host",
            "keep-alive",
            "te",
            "trailer",
            "transfer-encoding",
            "upgrade",
            "x-request-id",
        ];
        let names = &self.headers;
        let read = [
            ("class-header", Some(&names.class)),
            ("strict-priority-header", Some(&names.strict_priority)),
            ("priority-header", Some(&names.priority)),
            ("deadline-header", Some(&names.deadline)),
            ("session-header", Some(&names.session)),
            ("worker-header", Some(&names.worker)),
            ("taints-header", Some(&names.taints)),
            ("rank-header", Some(&names.rank)),
        ];
        let told = [
            ("told-class-header", names.told_class.as_ref()),
            ("told-wait-header", names.told_wait.as_ref()),
            ("told-worker-header", names.told_worker.as_ref()),
        ];
        for group in [&read[..], &told] {
            for (at, (what, name)) in group.iter().enumerate() {
                let Some(name) = name else { continue };
                if TAKEN.contains(&name.as_str()) {
                    let remedy = "it must be a name that means nothing else".to_owned();
                    check.wrong(what, format!("`{name}`"), remedy);
                }
                if group[..at].iter().any(|(_, other)| *other == Some(name)) {
                    let remedy = "each needs a name of its own".to_owned();
                    check.wrong(what, format!("`{name}` stands for two"), remedy);
                }
            }
        }
    }

    fn check_workers(&self, check: &mut Check) {
        for (at, worker) in self.workers.iter().enumerate() {
            if self.workers[..at]
                .iter()
                .any(|other| other.url == worker.url)
            {
                let remedy = "name each worker once".to_owned();
                check.wrong(
                    "worker",
                    format!("{} stands there twice", worker.url),
                    remedy,
                );
            }
            for fault in worker.faults() {
                let (found, remedy) = fault.of(&worker.url);
                check.wrong("worker", found, remedy);
            }
            let (ranks, most) = (worker.ranks, self.engine.endpoints);
            if ranks <= 65_536 && usize::try_from(ranks).is_ok_and(|ranks| ranks > most) {
                let found = format!("ranks of {}: {ranks}", worker.url);
                let remedy = format!("a model has at most {most}, which endpoints sets");
                check.wrong("worker", found, remedy);
            }
        }
    }

    fn check_numbers(&self, check: &mut Check) {
        let limits = &self.limits;
        check.number("body-bytes", limits.body_bytes, 1..=1 << 30);
        check.number(
            "buffered-bytes",
            limits.buffered_bytes,
            limits.body_bytes..=1 << 40,
        );
        check.number("header-bytes", limits.header_bytes, 8_192..=1 << 24);
        if let Some(connections) = limits.connections {
            check.number("connections", connections, 1..=1 << 20);
        }
        let timeouts = &self.timeouts;
        check.time("client-headers-timeout", timeouts.client_headers);
        check.time("client-body-timeout", timeouts.client_body);
        check.time("client-write-timeout", timeouts.client_write);
        check.time("connect-timeout", timeouts.connect);
        check.time("first-byte-timeout", timeouts.first_byte);
        check.time("idle-timeout", timeouts.idle);
        check.time("health-interval", self.health.interval);
        check.time("health-timeout", self.health.timeout);
        check.number(
            "health-eject-after",
            self.health.eject_after as usize,
            1..=1_000,
        );
        check.number(
            "health-readmit-after",
            self.health.readmit_after as usize,
            1..=1_000,
        );
        if http::uri::PathAndQuery::try_from(&*self.health.path).is_err()
            || !self.health.path.starts_with('/')
        {
            let remedy = "it must be a path such as /health".to_owned();
            check.wrong("health-path", format!("`{}`", self.health.path), remedy);
        }
        check.time("session-ttl", self.affinity.ttl);
        check.number("sessions", self.affinity.capacity, 1..=1 << 24);
        check.number("prefix-blocks", self.prefix_blocks, 0..=1 << 26);
        let engine = &self.engine;
        check.number("models", engine.models, 1..=256);
        check.number("slots", engine.slots, 1..=1 << 24);
        check.number("classes", engine.classes, 1..=1 << 14);
        check.number("model-workers", engine.workers, 1..=1 << 20);
        check.number("endpoints", engine.endpoints, 1..=1 << 20);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::WorkerConfig;

    #[test]
    fn the_defaults_are_right() {
        Config::default().check().expect("nothing is wrong");
    }

    #[test]
    fn headers_that_http_needs_are_no_names_for_hints() {
        let mut config = Config::default();
        config.headers.told_class = Some(http::header::CONTENT_LENGTH);
        config.headers.session = config.headers.class.clone();
        let errors = config.check().expect_err("two things are wrong");
        let found: Vec<_> = errors.errors().iter().map(|error| error.what).collect();
        assert_eq!(found, ["session-header", "told-class-header"]);
    }

    #[test]
    fn a_model_has_one_tokenizer_at_most() {
        let mut config = Config::default();
        let of = |model: &str| TokenizerConfig {
            model: model.to_owned(),
            file: "tokenizer.json".into(),
        };
        config.tokenizers = vec![of("a"), of("b"), of("a")];
        let errors = config.check().expect_err("it is named twice").to_string();
        let expected = "tokenizer: a stands there twice; name each model once";
        assert!(errors.contains(expected), "{errors}");
        config.tokenizers.pop();
        assert_eq!(config.check().is_ok(), tokenizer::IS_BUILT);
    }

    #[cfg(not(feature = "tokenizer"))]
    #[test]
    fn tokenizers_need_the_feature() {
        let tokenizer = TokenizerConfig {
            model: "a".to_owned(),
            file: "tokenizer.json".into(),
        };
        let config = Config {
            tokenizers: vec![tokenizer],
            ..Config::default()
        };
        let errors = config.check().expect_err("it is not built").to_string();
        let expected =
            "tokenizer: one for a; this program was built without the feature `tokenizer`";
        assert!(errors.starts_with(expected), "{errors}");
    }

    #[test]
    fn what_is_wrong_with_a_worker_is_told_with_its_member() {
        let url: crate::config::WorkerUrl = "http://h:1".parse().expect("an address");
        let worker = WorkerConfig {
            models: vec![" m".to_owned()],
            ranks: 1_025,
            taints: vec!["a".to_owned(), "a".to_owned()],
            ..WorkerConfig::new(url)
        };
        let config = Config {
            workers: vec![worker],
            ..Config::default()
        };
        let text = config
            .check()
            .expect_err("three things are wrong")
            .to_string();
        let lines: Vec<&str> = text.lines().collect();
        let expected = [
            "worker: models of http://h:1: \" m\", number 1, begins or ends with a blank; \
             write the name without blanks before and after it",
            "worker: taints of http://h:1: \"a\", number 2, stands there twice; name each once",
            "worker: ranks of http://h:1: 1025; a model has at most 1024, which endpoints sets",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn everything_that_is_wrong_is_told_at_once() {
        let mut config = Config {
            overload_status: 418,
            admin: Config::default().listen,
            max_batched_tokens: Some(0),
            drain: DAY * 2,
            ..Config::default()
        };
        let url: crate::config::WorkerUrl = "http://h:1".parse().expect("an address");
        config.workers = vec![WorkerConfig::new(url.clone()), WorkerConfig::new(url)];
        config.timeouts.idle = Duration::ZERO;
        config.limits.header_bytes = 1;
        let errors = config.check().expect_err("seven things are wrong");
        let found: Vec<_> = errors.errors().iter().map(|error| error.what).collect();
        let expected = [
            "admin",
            "overload-status",
            "max-batched-tokens",
            "drain",
            "worker",
            "header-bytes",
        ];
        assert_eq!(found, [&expected[..], &["idle-timeout"]].concat());
        let text = errors.to_string();
        assert!(
            text.contains("overload-status: 418; it must be 429, 503 or 529"),
            "{text}"
        );
    }
}
