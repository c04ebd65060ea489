//! The policy file: reading it, and putting another one in force.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use tollgate::ControlError;
use tollgate::policy::file::{FILE_BYTES_MAX, read_bounded};
use tollgate::policy::{PolicyErrors, PolicyFile};

use super::Fleet;
use crate::config::Config;

/// A policy that is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reloaded {
    /// Which it is, from 1.
    pub(crate) generation: u64,
    pub(crate) warnings: Vec<String>,
}

/// Why a policy is not in force.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PolicyFailure {
    #[error("no policy file was given at the start, so that there is none to read again")]
    NoFile,
    #[error("{}: {error}", path.display())]
    Unreadable {
        path: PathBuf,
        error: std::io::Error,
    },
    #[error("{0}")]
    Invalid(PolicyErrors),
    #[error("for model {model}: {error}")]
    Engine { model: String, error: ControlError },
}

impl PolicyFailure {
    /// Each error on its own, for an answer.
    pub(crate) fn errors(&self) -> Value {
        let Self::Invalid(errors) = self else {
            return json!([{ "message": self.to_string() }]);
        };
        let errors = errors.errors().iter().map(|error| {
            json!({
                "line": error.line(),
                "column": error.column(),
                "path": error.path(),
                "message": error.message(),
                "remedy": error.remedy(),
            })
        });
        errors.collect()
    }
}

/// Reads the policy file of a configuration; none is one class for everybody.
pub(crate) fn read_policy(config: &Config) -> Result<PolicyFile, PolicyFailure> {
    let Some(path) = config.policy.as_deref() else {
        return Ok(complete(PolicyFile::default(), config));
    };
    let bytes = read_regular(path, FILE_BYTES_MAX).map_err(|error| PolicyFailure::Unreadable {
        path: path.to_owned(),
        error,
    })?;
    parse_policy(&path.display().to_string(), &bytes, config)
}

/// Reads a policy from a text; `source` is its name for messages.
fn parse_policy(source: &str, text: &[u8], config: &Config) -> Result<PolicyFile, PolicyFailure> {
    let policy = PolicyFile::parse(source, text).map_err(PolicyFailure::Invalid)?;
    Ok(complete(policy, config))
}

fn complete(policy: PolicyFile, config: &Config) -> PolicyFile {
    match config.queue_threshold {
        Some(threshold) => policy.with_queue_threshold(threshold),
        None => policy,
    }
}

/// The contents of a regular file, or as much of them as shows that they are larger than so many bytes. Opening a
/// pipe would wait for whoever writes to it.
pub(super) fn read_regular(path: &Path, bytes_max: usize) -> std::io::Result<Vec<u8>> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(std::io::Error::other("it is no regular file"));
    }
    read_bounded(path, bytes_max)
}

impl Fleet {
    /// Reads the policy file again and puts it in force (S3.7).
    pub(crate) fn reload_file(&self) -> Result<Reloaded, PolicyFailure> {
        let policy = match self.config.policy {
            Some(_) => read_policy(&self.config),
            None => Err(PolicyFailure::NoFile),
        };
        self.told(policy.and_then(|policy| self.reload(policy)))
    }

    /// Puts the policy of a text in force; `source` is its name for messages.
    pub(crate) fn reload_text(&self, source: &str, text: &[u8]) -> Result<Reloaded, PolicyFailure> {
        let policy = parse_policy(source, text, &self.config);
        self.told(policy.and_then(|policy| self.reload(policy)))
    }

    /// Tells operators what came of it.
    fn told(&self, done: Result<Reloaded, PolicyFailure>) -> Result<Reloaded, PolicyFailure> {
        match &done {
            Ok(reloaded) => self.say(format!("policy {} is in force", reloaded.generation)),
            Err(failure) => self.say(format!("the policy stays as it was\n{failure}")),
        }
        done
    }

    /// Puts a policy in force for every model; it returns when each later submission is judged by it.
    ///
    /// What can be wrong with a policy for an engine is its size alone, so that the largest profile is tried
    /// first where models differ: a policy that does not fit changes nothing.
    fn reload(&self, policy: PolicyFile) -> Result<Reloaded, PolicyFailure> {
        let _changes = self.lock();
        let models = self.models();
        let mut order: Vec<_> = models.iter().collect();
        order.sort_by_key(|model| {
            let profile = policy.profile(Some(&model.name));
            std::cmp::Reverse(profile.classes().len())
        });
        for model in order {
            let profile = policy.profile(Some(&model.name)).clone();
            let done = self.control.reload(model.index, profile);
            done.map_err(|error| PolicyFailure::Engine {
                model: model.name.to_string(),
                error,
            })?;
            model.see_classes(&self.handles);
        }
        let generation = self.generation.fetch_add(1, Ordering::Relaxed) + 1;
        let warnings = policy.warnings().iter().map(ToString::to_string).collect();
        self.policy.store(Arc::new(policy));
        Ok(Reloaded {
            generation,
            warnings,
        })
    }

    /// Which policy is in force, from 1. Does not wait for a change.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// The policy in force.
    pub(crate) fn policy(&self) -> Arc<PolicyFile> {
        self.policy.load_full()
    }
}
