//! Values of settings, as flags, environment and file write them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use http::HeaderName;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use tollgate::Idle;
use tollgate::policy::Fraction;
use tollgate_router::config::{AccessLog, OnLoss, TokenizerConfig, WorkerConfig};

/// Lets a file write a value as a flag does, as a text or a number.
macro_rules! deserialize_as_text {
    ($($kind:ty),*) => {$(
        impl<'de> Deserialize<'de> for $kind {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = String::deserialize(from)?;
                text.parse().map_err(D::Error::custom)
            }
        }
    )*};
}

/// A time in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seconds(pub(super) Duration);

impl FromStr for Seconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let seconds: Option<f64> = text.parse().ok();
        let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        time.map(Self)
            .ok_or_else(|| format!("`{text}` is no time: write a number of seconds, as 30 or 0.5"))
    }
}

/// The name of a header.
#[derive(Clone, Debug)]
pub(super) struct Header(pub(super) HeaderName);

impl FromStr for Header {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = HeaderName::from_str(text);
        name.map(Self)
            .map_err(|_| format!("`{text}` is no name of a header, as x-session-id is"))
    }
}

/// The name of a header that is written, or `off`.
#[derive(Clone, Debug)]
pub(super) struct Told(pub(super) Option<HeaderName>);

impl FromStr for Told {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self(None));
        }
        Ok(Self(Some(text.parse::<Header>()?.0)))
    }
}

/// A fraction of `max_batched_tokens`.
#[derive(Clone, Debug)]
pub(super) struct Threshold(pub(super) Fraction);

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fraction = text.parse::<Fraction>();
        fraction.map(Self).map_err(|error| error.to_string())
    }
}

/// What the arbiter's thread does when it has nothing to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting(pub(super) Idle);

impl FromStr for Waiting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "park" => Ok(Self(Idle::Park)),
            "spin-then-park" => Ok(Self(Idle::default())),
            "spin" => Ok(Self(Idle::Spin)),
            _ => Err(format!("`{text}` is none of park, spin-then-park, spin")),
        }
    }
}

/// What becomes of a session's request whose worker is gone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loss(pub(super) OnLoss);

impl FromStr for Loss {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "fail" => Ok(Self(OnLoss::Fail)),
            "rehome" => Ok(Self(OnLoss::Rehome)),
            _ => Err(format!("`{text}` is neither fail nor rehome")),
        }
    }
}

/// The form of the access log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Log(pub(super) AccessLog);

impl FromStr for Log {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self(AccessLog::Off)),
            "text" => Ok(Self(AccessLog::Text)),
            "json" => Ok(Self(AccessLog::Json)),
            _ => Err(format!("`{text}` is none of off, text, json")),
        }
    }
}

deserialize_as_text!(Header, Told, Threshold, Waiting, Loss, Log, Seconds);

/// A worker: an address, or, in a file, all that is to be said about it.
#[derive(Clone, Debug)]
pub(super) struct Worker(pub(super) WorkerConfig);

impl FromStr for Worker {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let url = text.parse();
        url.map(|url| Self(WorkerConfig::new(url)))
            .map_err(|error: tollgate_router::config::UrlError| error.to_string())
    }
}

impl<'de> Deserialize<'de> for Worker {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Entry {
            url: String,
            #[serde(default)]
            models: Vec<String>,
            ranks: Option<u32>,
            max_batched_tokens: Option<u64>,
            #[serde(default)]
            taints: Vec<String>,
        }

        let entry = Entry::deserialize(from)?;
        let Self(worker) = entry.url.parse().map_err(D::Error::custom)?;
        Ok(Self(WorkerConfig {
            models: entry.models,
            ranks: entry.ranks.unwrap_or(worker.ranks),
            max_batched_tokens: entry.max_batched_tokens,
            taints: entry.taints,
            ..worker
        }))
    }
}

/// A model's tokenizer, as MODEL=FILE.
#[derive(Clone, Debug)]
pub(super) struct Tokenizer(pub(super) TokenizerConfig);

impl FromStr for Tokenizer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((model, file)) if !model.is_empty() && !file.is_empty() => {
                Ok(Self(TokenizerConfig {
                    model: model.to_owned(),
                    file: file.into(),
                }))
            }
            _ => Err(format!(
                "`{text}` is no model's tokenizer: write MODEL=FILE, as m=m/tokenizer.json"
            )),
        }
    }
}

/// Tokenizers as a file has them: a map of models to files.
pub(super) fn tokenizers<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Vec<Tokenizer>>, D::Error> {
    let files = Option::<BTreeMap<String, PathBuf>>::deserialize(from)?;
    Ok(files.map(|files| {
        let tokenizers = files.into_iter();
        tokenizers
            .map(|(model, file)| Tokenizer(TokenizerConfig { model, file }))
            .collect()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds() {
        let Seconds(time) = "0.25".parse().expect("a time");
        assert_eq!(time, Duration::from_millis(250));
        for wrong in ["-1", "NaN", "soon", "inf", "1e300"] {
            let error = wrong.parse::<Seconds>().expect_err(wrong);
            assert!(error.contains("number of seconds"), "{error}");
        }
    }

    #[test]
    fn a_tokenizer_is_a_model_and_its_file() {
        let Tokenizer(found) = "org/m=a/b=c.json".parse().expect("both are there");
        assert_eq!((&*found.model, found.file), ("org/m", "a/b=c.json".into()));
        for wrong in ["", "m", "m=", "=file"] {
            let error = wrong.parse::<Tokenizer>().expect_err(wrong);
            assert!(error.contains("MODEL=FILE"), "{error}");
        }
    }

    #[test]
    fn a_told_header_may_be_off() {
        assert!(matches!("off".parse(), Ok(Told(None))));
        let Told(name) = "X-Wait".parse().expect("a name");
        assert_eq!(name.expect("not off"), "x-wait");
        assert!("two words".parse::<Told>().is_err());
    }
}
