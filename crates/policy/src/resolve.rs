//! From a requested name and a number of tokens to a class (S3.4), without allocation.

use crate::profile::{Bucket, ClassPolicy, Matching, Resolution};

/// What a name that clients may use stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    /// Index of an explicit class.
    Class(usize),
    /// Where the family's classes begin in [`ClassIndex::classes_by_bucket`].
    Family(usize),
}

/// The look-up tables of one profile.
///
/// Invariants:
/// - I1: `names` is sorted by length, then bytes, so most comparisons end at the length.
/// - I2: every family start is followed by one class per bucket in `classes_by_bucket`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClassIndex {
    names: Vec<(Box<str>, Target)>,
    classes_by_bucket: Vec<usize>,
    fallback: Target,
}

impl ClassIndex {
    /// Indexes classes that obey S3.2. Without a default family the first class is for all.
    pub(crate) fn new(
        default_family: Option<&str>,
        buckets: &[Bucket],
        classes: &[ClassPolicy],
    ) -> Self {
        let mut index = Self {
            names: Vec::new(),
            classes_by_bucket: Vec::new(),
            fallback: Target::Class(0),
        };
        for (position, class) in classes.iter().enumerate() {
            match &class.matching {
                Matching::Explicit => index.insert(&class.name, Target::Class(position)),
                Matching::Matrix { family, bucket } => {
                    let start = index.family_start(family, buckets.len());
                    index.classes_by_bucket[start + bucket] = position;
                }
            }
        }
        if let Some(target) = default_family.and_then(|family| index.target(family)) {
            index.fallback = target;
        }
        index
    }

    /// The class of a request; see [`crate::Profile::resolve`].
    pub(crate) fn resolve(
        &self,
        buckets: &[Bucket],
        requested: Option<&str>,
        uncached: u64,
    ) -> Resolution {
        let requested = requested.filter(|name| !name.is_empty());
        let known = requested.and_then(|name| self.target(name));
        let class = match known.unwrap_or(self.fallback) {
            Target::Class(class) => class,
            Target::Family(start) => {
                let above = buckets.partition_point(|bucket| bucket.min_tokens <= uncached);
                self.classes_by_bucket[start + above.saturating_sub(1)]
            }
        };
        Resolution {
            class,
            unknown_name: requested.is_some() && known.is_none(),
        }
    }

    fn search(&self, name: &str) -> Result<usize, usize> {
        let key = (name.len(), name.as_bytes());
        self.names
            .binary_search_by(|(known, _)| (known.len(), known.as_bytes()).cmp(&key))
    }

    fn target(&self, name: &str) -> Option<Target> {
        self.search(name).ok().map(|at| self.names[at].1)
    }

    fn insert(&mut self, name: &str, target: Target) {
        if let Err(at) = self.search(name) {
            self.names.insert(at, (name.into(), target));
        }
    }

    /// Where a family's classes begin; room for one class per bucket is made on first sight.
    fn family_start(&mut self, family: &str, buckets: usize) -> usize {
        if let Some(Target::Family(start)) = self.target(family) {
            return start;
        }
        let start = self.classes_by_bucket.len();
        self.classes_by_bucket.resize(start + buckets, 0);
        self.insert(family, Target::Family(start));
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Profile, ProfileSpec};

    fn two_families() -> Profile {
        Profile::build(ProfileSpec::new(
            "chat",
            vec![Bucket::new(0, "cached"), Bucket::new(3_072, "uncached")],
            vec![
                ClassPolicy::matrix("chat_hot", "chat", 0, 1),
                ClassPolicy::matrix("chat_cold", "chat", 1, 1),
                // A class may be called like its family: the name then means the family.
                ClassPolicy::matrix("batch_cold", "batch", 1, 1),
                ClassPolicy::matrix("batch", "batch", 0, 1),
                ClassPolicy::explicit("probe", 1),
            ],
        ))
        .expect("a valid profile")
    }

    fn resolved(requested: Option<&str>, uncached: u64) -> (String, bool) {
        let profile = two_families();
        let resolution = profile.resolve(requested, uncached);
        (
            profile.classes()[resolution.class].name.to_string(),
            resolution.unknown_name,
        )
    }

    fn known(class: &str) -> (String, bool) {
        (class.to_owned(), false)
    }

    fn unknown(class: &str) -> (String, bool) {
        (class.to_owned(), true)
    }

    #[test]
    fn s3_4_the_last_floor_not_above_the_uncached_tokens_is_the_bucket() {
        for (uncached, class) in [
            (0, "chat_hot"),
            (3_071, "chat_hot"),
            (3_072, "chat_cold"),
            (u64::MAX, "chat_cold"),
        ] {
            assert_eq!(resolved(Some("chat"), uncached), known(class), "{uncached}");
        }
        assert_eq!(resolved(Some("batch"), 3_071), known("batch"));
        assert_eq!(resolved(Some("batch"), 3_072), known("batch_cold"));
    }

    #[test]
    fn s3_4_an_explicit_class_is_taken_by_its_name_whatever_the_tokens() {
        assert_eq!(resolved(Some("probe"), 0), known("probe"));
        assert_eq!(resolved(Some("probe"), u64::MAX), known("probe"));
    }

    #[test]
    fn s3_4_a_missing_or_empty_name_is_the_default_family_and_not_counted() {
        assert_eq!(resolved(None, 0), known("chat_hot"));
        assert_eq!(resolved(Some(""), 4_000), known("chat_cold"));
    }

    #[test]
    fn s3_4_unknown_names_and_names_of_matrix_classes_are_the_default_family_and_counted() {
        for name in [
            "Premuim",
            "chat_hot",
            "batch_cold",
            "Chat",
            "PROBE",
            "chat ",
            "cached",
            "\0",
        ] {
            assert_eq!(resolved(Some(name), 4_000), unknown("chat_cold"), "{name}");
        }
    }

    #[test]
    fn s3_5_the_synthetic_class_takes_every_name_and_counts_the_foreign_ones() {
        let profile = Profile::synthetic(None);
        for (requested, unknown_name) in [
            (None, false),
            (Some(""), false),
            (Some("default"), false),
            (Some("premium"), true),
        ] {
            let resolution = profile.resolve(requested, 7);
            assert_eq!(
                resolution,
                Resolution {
                    class: 0,
                    unknown_name
                },
                "{requested:?}"
            );
        }
    }

    #[test]
    fn s3_4_every_name_of_a_large_profile_is_found() {
        let names: Vec<String> = (0..500).map(|i| format!("{:x}", i * 7_919)).collect();
        let mut classes: Vec<ClassPolicy> = names
            .iter()
            .map(|name| ClassPolicy::explicit(name, 1))
            .collect();
        classes.push(ClassPolicy::matrix("rest", "rest", 0, 1));
        let spec = ProfileSpec::new("rest", vec![Bucket::new(0, "all")], classes);
        let profile = Profile::build(spec).expect("a valid profile");
        for (class, name) in names.iter().enumerate() {
            assert_eq!(
                profile.resolve(Some(name), 1),
                Resolution {
                    class,
                    unknown_name: false
                }
            );
        }
        assert_eq!(profile.resolve(None, 1).class, 500);
    }
}
