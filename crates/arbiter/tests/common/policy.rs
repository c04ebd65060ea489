//! Profiles in a line per class.

use tollgate_policy::{PolicyFile, Profile};

/// A profile of classes, each a family of its own, written as `name key: value, key: value`; the
/// first is the default family.
pub(crate) fn classes(lines: &[&str]) -> Profile {
    classes_and(lines, "")
}

/// The same with settings, written as lines of a policy file.
pub(crate) fn classes_and(lines: &[&str], settings: &str) -> Profile {
    let name = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
    let mut text = format!(
        "{settings}\ndefault_policy_family: {}\n\
         uncached_isl_buckets: [{{min_tokens: 0, bucket: all}}]\npolicy_classes:\n",
        name(lines[0])
    );
    for line in lines {
        let (name, keys) = line.split_once(' ').expect("a name and its keys");
        text.push_str(&format!(
            "- {{name: {name}, policy_family: {name}, cache_bucket: all, {keys}}}\n"
        ));
    }
    let file = PolicyFile::parse("test.yaml", text.as_bytes());
    file.unwrap_or_else(|errors| panic!("{errors}"))
        .profile(None)
        .clone()
}
