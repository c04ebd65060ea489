//! The rules that classes and buckets of one profile obey together (S3.2), each standing once.
//!
//! Both ways to a profile lead through here: a policy file and a [`crate::ProfileSpec`] become a
//! [`Draft`], the draft is checked, and a draft without faults becomes a [`crate::Profile`].

use std::collections::BTreeMap;

use crate::Fraction;
use crate::draft::{Draft, DraftMatching, Fault, Place};
use crate::keys;
use crate::profile::{CLASSES_MAX, ClassPolicy, QUANTUM_MAX};
use crate::report::{LISTED_MAX, listed, quoted};

/// Reports every broken rule of a draft.
pub(crate) fn check(draft: &Draft, report: &mut impl FnMut(Fault)) {
    let mut rules = Rules {
        draft,
        report,
        is_bucket_repeated: false,
    };
    rules.check_counts();
    rules.check_buckets();
    rules.check_classes();
    let families = rules.families();
    rules.check_explicit_names(&families);
    rules.check_pairs(&families);
    rules.check_default_family(&families);
}

/// One check of one draft.
struct Rules<'a, R> {
    draft: &'a Draft,
    report: &'a mut R,
    /// Whether two buckets have one name, so that nobody can tell which pairs are missing.
    is_bucket_repeated: bool,
}

/// The first class that names each family.
type Families<'a> = BTreeMap<&'a str, usize>;

impl<'a, R: FnMut(Fault)> Rules<'a, R> {
    fn fault(&mut self, place: Place, message: String, remedy: impl Into<String>) {
        (self.report)(Fault {
            place,
            message,
            remedy: remedy.into(),
        });
    }

    fn check_counts(&mut self) {
        let count = self.draft.classes().len();
        if count == 0 && self.draft.classes.is_some() {
            self.fault(
                Place::Key(keys::CLASSES),
                "no classes".to_owned(),
                "list at least one class for every pair of family and bucket",
            );
        }
        if count > CLASSES_MAX {
            self.fault(
                Place::Key(keys::CLASSES),
                format!("{count} classes, more than {CLASSES_MAX}"),
                format!("merge classes until there are at most {CLASSES_MAX}"),
            );
        }
        if self.draft.buckets.as_ref().is_some_and(Vec::is_empty) {
            self.fault(
                Place::Key(keys::BUCKETS),
                "no buckets".to_owned(),
                "list at least one bucket, the first with `min_tokens: 0`",
            );
        }
    }

    fn check_buckets(&mut self) {
        let draft = self.draft;
        let mut names = BTreeMap::new();
        let mut floor_before = None;
        for (index, bucket) in draft.buckets().iter().enumerate() {
            if let Some(name) = bucket.name.as_deref() {
                let place = Place::bucket(index, keys::BUCKET);
                self.check_name(place, "bucket", name);
                self.is_bucket_repeated |= !self.check_unique(place, "bucket", name, &mut names);
            }
            let place = Place::bucket(index, keys::MIN_TOKENS);
            match (bucket.min_tokens, floor_before) {
                (Some(floor), None) if index == 0 && floor != 0 => self.fault(
                    place,
                    format!("the first bucket begins at {floor}"),
                    "begin the first bucket at 0, so that every request has a bucket",
                ),
                (Some(floor), Some(before)) if floor <= before => self.fault(
                    place,
                    format!("{floor} does not rise above the {before} of the bucket before"),
                    format!("write a number above {before}, or put the buckets in rising order"),
                ),
                _ => {}
            }
            floor_before = bucket.min_tokens;
        }
    }

    fn check_classes(&mut self) {
        let draft = self.draft;
        let mut names = BTreeMap::new();
        for (index, class) in draft.classes().iter().enumerate() {
            if let Some(name) = class.name.as_deref() {
                let place = Place::class(index, keys::NAME);
                self.check_name(place, "class", name);
                self.check_unique(place, "class", name, &mut names);
            }
            if let Some(DraftMatching::Matrix {
                family: Some(family),
                ..
            }) = &class.matching
            {
                self.check_name(Place::class(index, keys::FAMILY), "family", family);
            }
            self.check_numbers(index, &class.policy);
        }
    }

    /// The quantum and the ratio of one class.
    fn check_numbers(&mut self, index: usize, class: &ClassPolicy) {
        if class.quantum == 0 || class.quantum > QUANTUM_MAX {
            self.fault(
                Place::class(index, keys::QUANTUM),
                format!("{} is no quantum", class.quantum),
                format!("write a whole number of tokens from 1 to {QUANTUM_MAX}"),
            );
        }
        let Some(ratio) = class.busy_worker_ratio else {
            return;
        };
        let place = Place::class(index, keys::RATIO);
        if ratio.is_zero() || ratio > Fraction::ONE {
            self.fault(
                place,
                format!("{ratio} is no share of the workers"),
                "write a number above 0 and not above 1",
            );
        }
        if !class.has_threshold() {
            self.fault(
                place,
                "a ratio of busy workers, but nothing makes a worker busy for this class".to_owned(),
                "set `prefill_busy_threshold` or `prefill_busy_threshold_frac`, or remove the ratio",
            );
        }
    }

    fn check_name(&mut self, place: Place, what: &str, name: &str) {
        if !is_name(name) {
            self.fault(
                place,
                format!("{} is not a name for a {what}", quoted(name)),
                "use one or more of the letters a to z and A to Z, digits, `_`, `.` and `-`",
            );
        }
    }

    /// Reports a name that an item of the same list has already; returns whether it is new.
    fn check_unique(
        &mut self,
        place: Place,
        what: &str,
        name: &'a str,
        names: &mut BTreeMap<&'a str, Place>,
    ) -> bool {
        if let Some(first) = names.get(name) {
            let message = format!("{} is already the name of {}", quoted(name), first.item());
            self.fault(
                place,
                message,
                format!("give every {what} a name of its own"),
            );
            return false;
        }
        names.insert(name, place);
        true
    }

    /// The families that classes name, each with its first class.
    fn families(&self) -> Families<'a> {
        let mut families = BTreeMap::new();
        for (index, class) in self.draft.classes().iter().enumerate() {
            if let Some(DraftMatching::Matrix {
                family: Some(family),
                ..
            }) = &class.matching
            {
                families.entry(&**family).or_insert(index);
            }
        }
        families
    }

    fn check_explicit_names(&mut self, families: &Families<'a>) {
        let draft = self.draft;
        for (index, class) in draft.classes().iter().enumerate() {
            let (Some(name), Some(DraftMatching::Explicit)) = (&class.name, &class.matching) else {
                continue;
            };
            if let Some(first) = families.get(&**name) {
                self.fault(
                    Place::class(index, keys::NAME),
                    format!(
                        "the explicit class {} is called like the family of {}[{first}]",
                        quoted(name),
                        keys::CLASSES
                    ),
                    "rename one of them, since requests choose both by that name",
                );
            }
        }
    }

    /// Every pair of a family and a bucket has exactly one class.
    fn check_pairs(&mut self, families: &Families<'a>) {
        let draft = self.draft;
        let mut pairs = BTreeMap::new();
        for (index, class) in draft.classes().iter().enumerate() {
            let Some(DraftMatching::Matrix {
                family: Some(family),
                bucket: Some(bucket),
            }) = &class.matching
            else {
                continue;
            };
            let (family, bucket) = (&**family, *bucket);
            if let Some(first) = pairs.get(&(family, bucket)) {
                self.fault(
                    Place::class(index, keys::CACHE_BUCKET),
                    format!(
                        "the family {} and the bucket {} have a class already, {}[{first}]",
                        quoted(family),
                        self.bucket_name(bucket),
                        keys::CLASSES
                    ),
                    "remove one of the two classes, or give this one another family or bucket",
                );
            } else {
                pairs.insert((family, bucket), index);
            }
        }
        if draft.is_matrix_known() && !self.is_bucket_repeated {
            self.check_missing_pairs(families, &pairs);
        }
    }

    fn check_missing_pairs(
        &mut self,
        families: &Families<'a>,
        pairs: &BTreeMap<(&'a str, usize), usize>,
    ) {
        let draft = self.draft;
        for (family, first) in families {
            let present = pairs.range((*family, 0)..=(*family, usize::MAX)).count();
            let missing = draft.buckets().len().saturating_sub(present);
            if missing == 0 {
                continue;
            }
            let names = (0..draft.buckets().len())
                .filter(|bucket| !pairs.contains_key(&(*family, *bucket)))
                .filter_map(|bucket| draft.buckets()[bucket].name.as_deref())
                .take(LISTED_MAX);
            let (plural, names) = (if missing == 1 { "" } else { "s" }, listed(names, missing));
            self.fault(
                Place::class(*first, keys::FAMILY),
                format!(
                    "the family {} has no class for the bucket{plural} {names}",
                    quoted(family)
                ),
                "add a class for each bucket that the family lacks",
            );
        }
    }

    fn check_default_family(&mut self, families: &Families<'a>) {
        let draft = self.draft;
        let Some(family) = draft.default_family.as_deref() else {
            return;
        };
        // A class whose family could not be read may have been the one.
        if families.contains_key(family) || !draft.families_are_known() {
            return;
        }
        let remedy = if families.is_empty() {
            "add a class with this `policy_family` for each bucket".to_owned()
        } else {
            let known = listed(families.keys().copied(), families.len());
            format!("name a family that has classes: {known}")
        };
        let message = format!("no class belongs to the family {}", quoted(family));
        self.fault(Place::Key(keys::DEFAULT_FAMILY), message, remedy);
    }

    fn bucket_name(&self, bucket: usize) -> String {
        self.draft
            .buckets()
            .get(bucket)
            .and_then(|bucket| bucket.name.as_deref())
            .map_or_else(|| bucket.to_string(), quoted)
    }
}

/// Whether a text may name a class, a family or a bucket.
fn is_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    !text.is_empty() && text.bytes().all(allowed)
}
