//! A policy file's tree to profiles: which keys mean what.

use std::collections::BTreeMap;

use crate::Fraction;
use crate::draft::{Draft, DraftBucket, DraftClass, DraftMatching, Fault};
use crate::keys;
use crate::locate::Source;
use crate::path::Path;
use crate::profile::{ClassPolicy, MAX_ATTEMPTS_MAX, Profile, QUANTUM_MAX, Settings};
use crate::reader::{Fields, Reader, Whole};
use crate::report::{Finding, listed, quoted};
use crate::rules;
use crate::suggest::closest;
use crate::warnings::{self, Warning};
use crate::yaml::{Entry, Node};

/// All that a file says; complete only if nothing was reported.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub(crate) root: Option<Profile>,
    /// What the root sets where it has no profile.
    pub(crate) settings: Settings,
    pub(crate) models: Vec<(Box<str>, Profile)>,
    pub(crate) warnings: Vec<Warning>,
}

/// Reads a whole file.
pub(crate) fn read(node: &Node<'_>, reader: &mut Reader<'_>) -> Contents {
    let mut contents = Contents::default();
    let Some(fields) = reader.fields(node, Path::Root, &keys::FILE) else {
        return contents;
    };
    warnings::of_foreign_sections(&fields, &mut contents.warnings);
    contents.settings = read_settings(&fields, reader);
    let has_profile = keys::MATRIX.iter().any(|key| fields.entry(key).is_some());
    if has_profile {
        let root = read_profile(node, &fields, reader, &mut contents.warnings);
        contents.root = root.map(|root| root.with_settings(contents.settings));
    }
    if let Some(models) = fields.entry(keys::MODELS) {
        read_models(models, &fields, reader, &mut contents);
        if !has_profile {
            warnings::of_root_settings(&fields, &mut contents.warnings);
        }
    }
    let is_bare = keys::FILE
        .keys
        .iter()
        .all(|key| fields.entry(key).is_none());
    if is_bare && reader.report.is_empty() {
        reader.report.add(Some(fields.mark), || {
            Finding::new(
                "",
                "the file defines nothing",
                format!(
                    "write a profile ({}), or `{}`",
                    keys::MATRIX.join(", "),
                    keys::MODELS
                ),
            )
        });
    }
    contents
}

fn read_models(
    models: &Entry<'_>,
    root: &Fields<'_>,
    reader: &mut Reader<'_>,
    contents: &mut Contents,
) {
    let models_path = root.path.key(keys::MODELS);
    let Some(entries) = reader.entries(&models.value, &models_path, "the models") else {
        return;
    };
    for Entry { key, mark, value } in entries {
        let path = models_path.key(key);
        if key.is_empty() {
            reader.report.add(Some(*mark), || {
                Finding::new(path, "a model without a name", "write the model's name")
            });
        }
        if value.is_null() {
            reader.report.add(Some(*mark), || {
                let remedy = format!("give the model {}", keys::MATRIX.join(", "));
                Finding::new(path, "a model without a profile", remedy)
            });
            continue;
        }
        let Some(fields) = reader.fields(value, path, &keys::MODEL) else {
            continue;
        };
        let settings = read_settings(&fields, reader);
        let profile = read_profile(value, &fields, reader, &mut contents.warnings);
        let profile = profile.map(|profile| profile.with_settings(settings));
        contents
            .models
            .extend(profile.map(|profile| (key.as_str().into(), profile)));
    }
}

/// Reads what makes a profile: default family, buckets and classes.
fn read_profile(
    node: &Node<'_>,
    fields: &Fields<'_>,
    reader: &mut Reader<'_>,
    warnings: &mut Vec<Warning>,
) -> Option<Profile> {
    report_missing_parts(fields, reader);
    let default_family = reader.text(fields, keys::DEFAULT_FAMILY).value();
    let buckets = read_buckets(fields, reader);
    let classes = read_classes(fields, buckets.as_deref(), reader);
    let draft = Draft {
        default_family,
        buckets,
        classes,
        settings: Settings::default(),
    };
    let source = Source::new(node, fields.path);
    let mut is_sound = true;
    rules::check(&draft, &mut |Fault {
                                   place,
                                   message,
                                   remedy,
                               }| {
        is_sound = false;
        let mark = source.mark(place);
        reader.report.add(Some(mark), || {
            Finding::new(source.path(place), message, remedy)
        });
    });
    let profile = draft.into_profile().filter(|_| is_sound)?;
    warnings::of_classes(&source, &profile, warnings);
    Some(profile)
}

/// Reports that a profile has some, but not all, of its three keys.
fn report_missing_parts(fields: &Fields<'_>, reader: &mut Reader<'_>) {
    let missing = || {
        keys::MATRIX
            .into_iter()
            .filter(|key| fields.entry(key).is_none())
    };
    let count = missing().count();
    if count == 0 {
        return;
    }
    let present = keys::MATRIX
        .into_iter()
        .find(|key| fields.entry(key).is_some());
    let mark = present.map_or(fields.mark, |key| fields.key_mark(key));
    reader.report.add(Some(mark), || {
        let verb = if count == 1 { "is" } else { "are" };
        Finding::new(
            fields.path,
            format!("{} {verb} missing", listed(missing(), count)),
            format!("a profile needs all of {}", keys::MATRIX.join(", ")),
        )
    });
}

fn read_settings(fields: &Fields<'_>, reader: &mut Reader<'_>) -> Settings {
    let default = Settings::default();
    let weight = Whole::of(0..=u64::MAX);
    let attempts = Whole::of(1..=u64::from(MAX_ATTEMPTS_MAX));
    let max_attempts = reader.whole(fields, keys::MAX_ATTEMPTS, &attempts).value();
    Settings {
        arbitration: reader
            .choice(fields, keys::ARBITRATION)
            .value()
            .unwrap_or_default(),
        overload_action: reader
            .choice(fields, keys::OVERLOAD_ACTION)
            .value()
            .unwrap_or_default(),
        selector: reader
            .choice(fields, keys::SELECTOR)
            .value()
            .unwrap_or_default(),
        decode_weight: reader
            .whole(fields, keys::DECODE_WEIGHT, &weight)
            .value()
            .unwrap_or(default.decode_weight),
        max_attempts: max_attempts
            .and_then(|attempts| u8::try_from(attempts).ok())
            .and_then(|attempts| attempts.try_into().ok())
            .unwrap_or(default.max_attempts),
    }
}

fn read_buckets(fields: &Fields<'_>, reader: &mut Reader<'_>) -> Option<Vec<DraftBucket>> {
    let items = reader.list(fields, keys::BUCKETS).value()?;
    let list = fields.path.key(keys::BUCKETS);
    let unreadable = || DraftBucket {
        min_tokens: None,
        name: None,
    };
    let floor = Whole::of(0..=u64::MAX);
    let mut read = |(index, item)| match reader.fields(item, list.index(index), &keys::A_BUCKET) {
        None => unreadable(),
        Some(bucket) => DraftBucket {
            min_tokens: reader.required_whole(&bucket, keys::MIN_TOKENS, &floor),
            name: reader.required_text(&bucket, keys::BUCKET),
        },
    };
    Some(items.iter().enumerate().map(&mut read).collect())
}

fn read_classes(
    fields: &Fields<'_>,
    buckets: Option<&[DraftBucket]>,
    reader: &mut Reader<'_>,
) -> Option<Vec<DraftClass>> {
    let items = reader.list(fields, keys::CLASSES).value()?;
    let list = fields.path.key(keys::CLASSES);
    let names = buckets.map(BucketNames::new);
    let mut read = |(index, item)| match reader.fields(item, list.index(index), &keys::A_CLASS) {
        None => DraftClass {
            name: None,
            matching: None,
            policy: ClassPolicy::explicit("", 1),
        },
        Some(class) => DraftClass {
            name: reader.required_text(&class, keys::NAME),
            matching: read_matching(&class, names.as_ref(), reader),
            policy: read_class(&class, reader),
        },
    };
    Some(items.iter().enumerate().map(&mut read).collect())
}

/// Everything about a class but its name and how it is reached.
fn read_class(class: &Fields<'_>, reader: &mut Reader<'_>) -> ClassPolicy {
    let any = Whole::of(0..=u64::MAX);
    let quantum = Whole::narrowed_later(1..=QUANTUM_MAX);
    let quantum = reader
        .required_whole(class, keys::QUANTUM, &quantum)
        .unwrap_or(1);
    let mut number = |key| reader.whole(class, key, &any).or_stand_in(1);
    let prefill_busy_threshold = number(keys::THRESHOLD);
    let request_queue_limit_per_worker = number(keys::REQUEST_LIMIT);
    let raw_isl_token_queue_limit_per_worker = number(keys::RAW_ISL_LIMIT);
    let cached_token_queue_limit_per_worker = number(keys::CACHED_LIMIT);
    let queue_timeout_ms = number(keys::TIMEOUT);
    let mut fraction = |key| reader.fraction(class, key).or_stand_in(Fraction::ONE);
    let prefill_busy_threshold_frac = fraction(keys::THRESHOLD_FRAC);
    let busy_worker_ratio = fraction(keys::RATIO);
    ClassPolicy {
        order: reader
            .choice(class, keys::QUEUE_POLICY)
            .value()
            .unwrap_or_default(),
        prefill_busy_threshold,
        prefill_busy_threshold_frac,
        busy_worker_ratio,
        request_queue_limit_per_worker,
        raw_isl_token_queue_limit_per_worker,
        cached_token_queue_limit_per_worker,
        queue_timeout_ms,
        ..ClassPolicy::explicit("", quantum)
    }
}

/// How a class is reached: by a family and a bucket, or, with neither, by its name.
fn read_matching(
    class: &Fields<'_>,
    buckets: Option<&BucketNames<'_>>,
    reader: &mut Reader<'_>,
) -> Option<DraftMatching> {
    let family = reader.text(class, keys::FAMILY);
    let bucket = reader.text(class, keys::CACHE_BUCKET);
    let (present, missing) = match (family.is_absent(), bucket.is_absent()) {
        (true, true) => return Some(DraftMatching::Explicit),
        (false, false) => {
            let bucket = bucket.value().zip(buckets);
            let bucket = bucket.and_then(|(name, buckets)| buckets.find(&name, class, reader));
            return Some(DraftMatching::Matrix {
                family: family.value(),
                bucket,
            });
        }
        (false, true) => (keys::FAMILY, keys::CACHE_BUCKET),
        (true, false) => (keys::CACHE_BUCKET, keys::FAMILY),
    };
    reader.report.add(Some(class.key_mark(present)), || {
        Finding::new(
            class.path.key(missing),
            format!("a class with `{present}` and without `{missing}`"),
            format!("add `{missing}`, or remove `{present}` to choose the class by its name alone"),
        )
    });
    None
}

/// The buckets of a profile by name.
struct BucketNames<'b> {
    by_name: BTreeMap<&'b str, usize>,
    /// Whether every bucket has a readable name.
    is_complete: bool,
}

impl<'b> BucketNames<'b> {
    fn new(buckets: &'b [DraftBucket]) -> Self {
        let mut by_name = BTreeMap::new();
        for (index, bucket) in buckets.iter().enumerate() {
            if let Some(name) = bucket.name.as_deref() {
                by_name.entry(name).or_insert(index);
            }
        }
        Self {
            by_name,
            is_complete: buckets.iter().all(|bucket| bucket.name.is_some()),
        }
    }

    /// The index of a bucket. An unknown name is reported, unless a bucket without a readable name
    /// may be the one that is meant.
    fn find(&self, name: &str, class: &Fields<'_>, reader: &mut Reader<'_>) -> Option<usize> {
        let found = self.by_name.get(name).copied();
        if found.is_none() && self.is_complete {
            let mark = class
                .entry(keys::CACHE_BUCKET)
                .map_or(class.mark, |entry| entry.value.mark);
            reader.report.add(Some(mark), || {
                let known = || self.by_name.keys().copied();
                let remedy = match closest(name, known()) {
                    Some(meant) => format!("did you mean {}?", quoted(meant)),
                    None => format!("name one of {}", listed(known(), self.by_name.len())),
                };
                let message = format!("there is no bucket {}", quoted(name));
                Finding::new(class.path.key(keys::CACHE_BUCKET), message, remedy)
            });
        }
        found
    }
}
