//! Profiles that a program fills in, without a file.

use crate::draft::{Draft, DraftBucket, DraftClass, DraftMatching, Fault, Place};
use crate::error::PolicyErrors;
use crate::keys;
use crate::profile::{Bucket, ClassPolicy, Matching, Profile, Settings};
use crate::report::{Finding, Report};
use crate::rules::check;

/// What [`Profile::build`] makes a profile of.
///
/// # Examples
/// ```
/// use tollgate_policy::{Bucket, ClassPolicy, Profile, ProfileSpec};
///
/// let mut premium = ClassPolicy::matrix("premium", "premium", 0, 2_048);
/// premium.prefill_busy_threshold = Some(16_384);
/// let regular = ClassPolicy::matrix("regular", "regular", 0, 512);
/// let buckets = vec![Bucket::new(0, "all")];
/// let profile = Profile::build(ProfileSpec::new("regular", buckets, vec![premium, regular]))?;
/// assert_eq!(profile.resolve(Some("premium"), 100).class, 0);
/// assert_eq!(profile.resolve(None, 100).class, 1);
/// # Ok::<(), tollgate_policy::PolicyErrors>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileSpec {
    /// The family for requests without a known name. It must have classes.
    pub default_family: Box<str>,
    /// The buckets by rising floor, the first from 0.
    pub buckets: Vec<Bucket>,
    /// The classes, 1 to [`CLASSES_MAX`](crate::profile::CLASSES_MAX): exactly one for every pair
    /// of a family and a bucket, and any number of explicit ones.
    pub classes: Vec<ClassPolicy>,
    /// Everything that belongs to no single class.
    pub settings: Settings,
}

impl ProfileSpec {
    /// Families, buckets and classes with the default settings.
    #[must_use]
    pub fn new(default_family: &str, buckets: Vec<Bucket>, classes: Vec<ClassPolicy>) -> Self {
        let settings = Settings::default();
        Self {
            default_family: default_family.into(),
            buckets,
            classes,
            settings,
        }
    }
}

impl Profile {
    /// A profile of these classes, after the same rules as for a policy file (S3.2).
    ///
    /// # Errors
    /// Every broken rule at once. The errors have no line; their paths are written with the keys
    /// of a policy file, such as `policy_classes[2].quantum`.
    ///
    /// # Examples
    /// ```
    /// use tollgate_policy::{Bucket, ClassPolicy, Profile, ProfileSpec};
    ///
    /// let class = ClassPolicy::matrix("a", "a", 0, 0);
    /// let errors = Profile::build(ProfileSpec::new("b", vec![Bucket::new(5, "all")], vec![class]))
    ///     .unwrap_err();
    /// let paths: Vec<&str> = errors.errors().iter().map(|error| error.path()).collect();
    /// assert_eq!(
    ///     paths,
    ///     ["uncached_isl_buckets[0].min_tokens", "policy_classes[0].quantum", "default_policy_family"]
    /// );
    /// ```
    pub fn build(spec: ProfileSpec) -> Result<Self, PolicyErrors> {
        let mut report = Report::default();
        let buckets: Vec<DraftBucket> = spec
            .buckets
            .into_iter()
            .map(|Bucket { min_tokens, name }| DraftBucket {
                min_tokens: Some(min_tokens),
                name: Some(name),
            })
            .collect();
        let classes = draft_classes(spec.classes, buckets.len(), &mut report);
        let draft = Draft {
            default_family: Some(spec.default_family),
            buckets: Some(buckets),
            classes: Some(classes),
            settings: spec.settings,
        };
        check(&draft, &mut |Fault {
                                place,
                                message,
                                remedy,
                            }| {
            report.add(None, || Finding {
                path: place.to_string(),
                message,
                remedy,
            });
        });
        match draft.into_profile() {
            Some(profile) if report.is_empty() => Ok(profile),
            _ => Err(report.into_errors("profile", "")),
        }
    }
}

/// The classes as the rules take them; an index of a bucket that does not exist is reported here.
fn draft_classes(
    classes: Vec<ClassPolicy>,
    buckets: usize,
    report: &mut Report,
) -> Vec<DraftClass> {
    let mut drafts = Vec::with_capacity(classes.len());
    for (index, policy) in classes.into_iter().enumerate() {
        let matching = match &policy.matching {
            Matching::Explicit => DraftMatching::Explicit,
            Matching::Matrix { family, bucket } => {
                if *bucket >= buckets {
                    report.add(None, || {
                        Finding::new(
                            Place::Item(keys::CLASSES, index, keys::CACHE_BUCKET),
                            format!("index {bucket}, but there are {buckets} buckets"),
                            "use the index of one of the buckets, counted from 0",
                        )
                    });
                }
                let bucket = Some(*bucket).filter(|bucket| *bucket < buckets);
                DraftMatching::Matrix {
                    family: Some(family.clone()),
                    bucket,
                }
            }
        };
        drafts.push(DraftClass {
            name: Some(policy.name.clone()),
            matching: Some(matching),
            policy,
        });
    }
    drafts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fraction;

    fn errors(spec: ProfileSpec) -> Vec<String> {
        let errors = Profile::build(spec).expect_err("a broken rule");
        errors.errors().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn s3_2_a_program_obeys_the_rules_of_a_file() {
        let buckets = || vec![Bucket::new(0, "all")];
        let class = || ClassPolicy::matrix("c", "c", 0, 1);
        assert!(Profile::build(ProfileSpec::new("c", buckets(), vec![class()])).is_ok());

        let found = errors(ProfileSpec::new("c", buckets(), vec![class(), class()]));
        assert_eq!(found.len(), 2, "{found:?}");
        let beyond = ClassPolicy::matrix("d", "d", 1, 1);
        let found = errors(ProfileSpec::new("c", buckets(), vec![class(), beyond]));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("policy_classes[1].cache_bucket: index 1, but there are 1"));
        let mut ratio = class();
        ratio.busy_worker_ratio = Some(Fraction::new(2, 0));
        ratio.quantum = (1 << 63) + 1;
        assert_eq!(
            errors(ProfileSpec::new("c", buckets(), vec![ratio])).len(),
            3
        );
        assert_eq!(
            errors(ProfileSpec::new("", Vec::new(), Vec::new())).len(),
            3
        );
    }

    #[test]
    fn s3_1_settings_of_a_specification_are_kept() {
        let mut spec = ProfileSpec::new(
            "c",
            vec![Bucket::new(0, "all")],
            vec![ClassPolicy::matrix("c", "c", 0, 1)],
        );
        spec.settings.decode_weight = 7;
        assert_eq!(
            Profile::build(spec).map(|profile| profile.decode_weight()),
            Ok(7)
        );
    }
}
