//! A policy file's text to a [`PolicyFile`].
//!
//! # The file
//! A file of NVIDIA Dynamo's router loads unchanged. Its root holds a profile, and `models` holds
//! one profile for each model that has its own; other models use the root's. A profile consists of
//! `default_policy_family`, `uncached_isl_buckets` and `policy_classes`, all three or none, and of
//! the settings `arbitration`, `overload_action`, `selector`, `decode_weight` and `max_attempts`,
//! which are Tollgate's own, as are `busy_worker_ratio`, `queue_timeout_ms` and the orders `lcfs`
//! and `edf` of a class. The sections `router`, `worker_selection` and `request_classifier`
//! configure other parts of Dynamo; they are skipped with a warning.
//!
//! # Forms of values
//! - A key without a value, or with `~` or `null`, is as good as absent.
//! - Whole numbers are written in digits, or in digits after `0x`, `0o` or `0b`; not in quotes, not
//!   with underscores, an exponent, or a zero in front.
//! - Fractions are decimal numbers of at most 19 significant digits, perhaps with an exponent; they
//!   are kept exactly.
//! - Names are texts with or without quotes. A number serves as a name, as it is written.
//! - A model's name is any text that is not empty.
//! - Aliases, tags, repeated keys and further documents are refused, anchors alone are harmless.
//!
//! # Where the root has no profile
//! A model without a profile of its own then gets the [synthetic](Profile::synthetic) class, with
//! the settings of the root.
//!
//! # Beside Dynamo's own reader
//! Read off its release 1.6.1, so that a file means the same in both: keys and nesting, which keys
//! may be null, how numbers and names are written, that a model's profile needs all three keys,
//! that the default family needs classes (a profile of explicit classes alone is refused), and that
//! a file which defines nothing is refused. Some files load there and are refused here, because
//! they rarely mean what they say: with aliases or tags, with two profiles for one model (there the
//! last one wins), with fractions of more than 19 digits or above 64 bits, with a class named
//! `null`, with more than 1,024 classes, or larger than a mebibyte.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use crate::Fraction;
use crate::error::{PolicyErrors, PolicyWarning, Position};
use crate::profile::Profile;
use crate::reader::Reader;
use crate::report::{Finding, Mark, Report};
use crate::schema::{self, Contents};
use crate::yaml;

/// How large a policy file may be, in bytes (S3.2).
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// A file's contents, or as much of them as shows that they are larger than so many bytes.
///
/// # Errors
/// If there is no readable file at `path`.
pub fn read_bounded(path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = bytes_max as u64 + 1;
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A valid policy file: the root profile and the profiles of single models.
///
/// # Examples
/// ```
/// use tollgate_policy::PolicyFile;
///
/// let text = b"
/// default_policy_family: chat
/// uncached_isl_buckets:
/// - {min_tokens: 0, bucket: all}
/// policy_classes:
/// - {name: chat, policy_family: chat, cache_bucket: all, quantum: 512}
/// - {name: probe, quantum: 8}
/// ";
/// let file = PolicyFile::parse("policy.yaml", text)?;
/// let profile = file.profile(Some("some-model"));
/// assert_eq!(profile.classes().len(), 2);
/// assert_eq!(profile.resolve(Some("probe"), 100).class, 1);
///
/// let errors = PolicyFile::parse("policy.yaml", b"policy_classes: [{quantom: 5}]").unwrap_err();
/// assert!(errors.to_string().contains("did you mean `quantum`?"));
/// # Ok::<(), tollgate_policy::PolicyErrors>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyFile {
    root: Option<Profile>,
    models: Vec<(Box<str>, Profile)>,
    synthetic: Profile,
    warnings: Vec<PolicyWarning>,
}

impl PolicyFile {
    /// Reads a file's contents; `source` is its name for messages.
    ///
    /// # Errors
    /// Everything that is wrong with the file at once, in its order. Where the text is not UTF-8,
    /// is larger than [`FILE_BYTES_MAX`], or is not YAML, that ends the list.
    pub fn parse(source: &str, bytes: &[u8]) -> Result<Self, PolicyErrors> {
        let mut report = Report::default();
        let text = decode(bytes, &mut report);
        let contents = if report.is_empty() {
            read(text, &mut report)
        } else {
            None
        };
        let Some(contents) = contents.filter(|_| report.is_empty()) else {
            return Err(report.into_errors(source, text));
        };
        let mut warnings = contents.warnings;
        warnings.sort_by_key(|warning| warning.mark);
        let warnings = warnings
            .into_iter()
            .map(|warning| PolicyWarning {
                source: source.to_owned(),
                position: warning.mark.position,
                path: warning.path,
                message: warning.message,
            })
            .collect();
        let synthetic = Profile::synthetic(None).with_settings(contents.settings);
        Ok(Self {
            root: contents.root,
            models: contents.models,
            synthetic,
            warnings,
        })
    }

    /// The same file with a threshold for the class that stands in where no profile applies: a
    /// fraction of a worker's `max_batched_tokens` (S3.5).
    #[must_use]
    pub fn with_queue_threshold(mut self, queue_threshold: Fraction) -> Self {
        let settings = self.synthetic.settings();
        self.synthetic = Profile::synthetic(Some(queue_threshold)).with_settings(settings);
        self
    }

    /// The profile for a model (S3.6): its own if the file has one under exactly that name, else
    /// the root's, else the synthetic class.
    #[must_use]
    pub fn profile(&self, model: Option<&str>) -> &Profile {
        let own = model.and_then(|model| self.models().find(|(name, _)| *name == model));
        own.map(|(_, profile)| profile)
            .or(self.root())
            .unwrap_or(&self.synthetic)
    }

    /// The profiles of single models, in file order.
    pub fn models(&self) -> impl Iterator<Item = (&str, &Profile)> {
        self.models.iter().map(|(name, profile)| (&**name, profile))
    }

    /// The root's profile, if it has one.
    #[must_use]
    pub fn root(&self) -> Option<&Profile> {
        self.root.as_ref()
    }

    /// What the file's author should know, in the order of the file.
    #[must_use]
    pub fn warnings(&self) -> &[PolicyWarning] {
        &self.warnings
    }
}

/// What holds where there is no file (S3.5): the synthetic class for every model.
impl Default for PolicyFile {
    fn default() -> Self {
        Self {
            root: None,
            models: Vec::new(),
            synthetic: Profile::synthetic(None),
            warnings: Vec::new(),
        }
    }
}

/// The contents of a text, or none if there is nothing in it or its syntax is broken.
fn read(text: &str, report: &mut Report) -> Option<Contents> {
    let node = yaml::parse(text, report);
    if let Some(node) = node.filter(|node| !node.is_null()) {
        return Some(schema::read(&node, &mut Reader { report }));
    }
    if report.is_empty() {
        report.add(None, || {
            let remedy = "write a profile; with no policy file at all, one class serves everybody";
            Finding::new("", "the file is empty", remedy)
        });
    }
    None
}

/// The text of a file. If it is too large or not UTF-8, that is reported, and the text is what can
/// be shown of it.
fn decode<'b>(bytes: &'b [u8], report: &mut Report) -> &'b str {
    if bytes.len() > FILE_BYTES_MAX {
        report.add(None, || {
            let message = format!("the file is larger than {FILE_BYTES_MAX} bytes");
            Finding::new("", message, "a policy file is a few kilobytes of YAML")
        });
        return "";
    }
    let error = match std::str::from_utf8(bytes) {
        Ok(text) => return text,
        Err(error) => error,
    };
    let (valid, rest) = bytes.split_at(error.valid_up_to());
    let text = std::str::from_utf8(valid).unwrap_or_default();
    report.add(Some(end_of(text)), || {
        let byte = rest.first().copied().unwrap_or_default();
        let message = format!("not text: the byte 0x{byte:02x} is not UTF-8");
        Finding::new("", message, "save the file as UTF-8 text")
    });
    text
}

/// The place right behind a text.
fn end_of(text: &str) -> Mark {
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let last_line = text.rsplit('\n').next().unwrap_or_default();
    Mark {
        position: Position {
            line: count(text.matches('\n').count() + 1),
            column: count(last_line.chars().count() + 1),
        },
        byte: text.len(),
    }
}
