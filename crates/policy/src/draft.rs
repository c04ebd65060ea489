//! A profile as it was read, before anybody knows whether it obeys the rules.
//!
//! A part that could not be read at all is reported by whoever read it; here it is `None`, so that
//! no rule speaks about it a second time.

use std::fmt;

use crate::keys;
use crate::profile::{Bucket, ClassPolicy, Matching, Profile, Settings};
use crate::resolve::ClassIndex;

/// A place inside a profile, by the keys of a policy file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A key of the profile.
    Key(&'static str),
    /// A key of an item of one of the profile's lists.
    Item(&'static str, usize, &'static str),
}

impl Place {
    pub(crate) fn bucket(index: usize, key: &'static str) -> Self {
        Self::Item(keys::BUCKETS, index, key)
    }

    pub(crate) fn class(index: usize, key: &'static str) -> Self {
        Self::Item(keys::CLASSES, index, key)
    }

    /// The item of a list that this is in.
    pub(crate) fn item(&self) -> String {
        match self {
            Self::Key(key) => (*key).to_owned(),
            Self::Item(list, index, _) => format!("{list}[{index}]"),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => f.write_str(key),
            Self::Item(list, index, key) => write!(f, "{list}[{index}].{key}"),
        }
    }
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) place: Place,
    pub(crate) message: String,
    pub(crate) remedy: String,
}

/// A bucket as it was read.
#[derive(Clone, Debug)]
pub(crate) struct DraftBucket {
    pub(crate) min_tokens: Option<u64>,
    pub(crate) name: Option<Box<str>>,
}

/// How a class is reached, as it was read.
#[derive(Clone, Debug)]
pub(crate) enum DraftMatching {
    Explicit,
    Matrix {
        family: Option<Box<str>>,
        bucket: Option<usize>,
    },
}

/// A class as it was read.
#[derive(Clone, Debug)]
pub(crate) struct DraftClass {
    pub(crate) name: Option<Box<str>>,
    pub(crate) matching: Option<DraftMatching>,
    /// Everything else; its own name and matching mean nothing yet.
    pub(crate) policy: ClassPolicy,
}

/// A profile as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) default_family: Option<Box<str>>,
    pub(crate) buckets: Option<Vec<DraftBucket>>,
    pub(crate) classes: Option<Vec<DraftClass>>,
    pub(crate) settings: Settings,
}

impl Draft {
    pub(crate) fn buckets(&self) -> &[DraftBucket] {
        self.buckets.as_deref().unwrap_or_default()
    }

    pub(crate) fn classes(&self) -> &[DraftClass] {
        self.classes.as_deref().unwrap_or_default()
    }

    /// Whether the families and buckets of all classes, and all buckets, could be read.
    pub(crate) fn is_matrix_known(&self) -> bool {
        let is_known = |class: &DraftClass| match &class.matching {
            Some(DraftMatching::Matrix { family, bucket }) => family.is_some() && bucket.is_some(),
            Some(DraftMatching::Explicit) => true,
            None => false,
        };
        self.buckets.is_some()
            && self.buckets().iter().all(|bucket| bucket.name.is_some())
            && self.families_are_known()
            && self.classes().iter().all(is_known)
    }

    /// Whether the families of all classes could be read.
    pub(crate) fn families_are_known(&self) -> bool {
        let is_unread = |class: &DraftClass| {
            matches!(
                class.matching,
                None | Some(DraftMatching::Matrix { family: None, .. })
            )
        };
        self.classes.is_some() && !self.classes().iter().any(is_unread)
    }

    /// The profile, if no part is missing. The draft must have passed
    /// [`crate::rules::check`].
    pub(crate) fn into_profile(self) -> Option<Profile> {
        let default_family = self.default_family?;
        let buckets = self
            .buckets?
            .into_iter()
            .map(|bucket| {
                Some(Bucket {
                    min_tokens: bucket.min_tokens?,
                    name: bucket.name?,
                })
            })
            .collect::<Option<Vec<Bucket>>>()?;
        let classes = self
            .classes?
            .into_iter()
            .map(|class| {
                let matching = match class.matching? {
                    DraftMatching::Explicit => Matching::Explicit,
                    DraftMatching::Matrix { family, bucket } => Matching::Matrix {
                        family: family?,
                        bucket: bucket?,
                    },
                };
                Some(ClassPolicy {
                    name: class.name?,
                    matching,
                    ..class.policy
                })
            })
            .collect::<Option<Vec<ClassPolicy>>>()?;
        let index = ClassIndex::new(Some(&default_family), &buckets, &classes);
        let default_family = Some(default_family);
        Some(Profile {
            default_family,
            buckets,
            classes,
            settings: self.settings,
            index,
        })
    }
}
