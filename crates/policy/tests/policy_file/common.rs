//! Small policy files and what is said about them.

use tollgate_policy::{PolicyError, PolicyErrors, PolicyFile};

/// A profile with one family `c`, one bucket `all` and one class, which gets further lines.
pub(crate) fn one_class(lines: &str) -> String {
    let mut text = String::from(
        "default_policy_family: c\n\
         uncached_isl_buckets:\n\
         - {min_tokens: 0, bucket: all}\n\
         policy_classes:\n\
         - name: c\n  policy_family: c\n  cache_bucket: all\n",
    );
    for line in lines.lines() {
        text.push_str("  ");
        text.push_str(line);
        text.push('\n');
    }
    text
}

/// A profile with the family `c` and these buckets and classes, each written as a flow value.
pub(crate) fn profile<B: AsRef<str>, C: AsRef<str>>(buckets: &[B], classes: &[C]) -> String {
    format!(
        "default_policy_family: c\nuncached_isl_buckets: {}\npolicy_classes: {}\n",
        list(buckets),
        list(classes)
    )
}

fn list<T: AsRef<str>>(items: &[T]) -> String {
    if items.is_empty() {
        return "[]".to_owned();
    }
    items
        .iter()
        .map(|item| format!("\n- {}", item.as_ref()))
        .collect()
}

/// The file that a text is.
pub(crate) fn read(text: &str) -> PolicyFile {
    PolicyFile::parse("p.yaml", text.as_bytes()).unwrap_or_else(|errors| panic!("{text}\n{errors}"))
}

/// What is wrong with a text.
pub(crate) fn refused(text: &str) -> PolicyErrors {
    match PolicyFile::parse("p.yaml", text.as_bytes()) {
        Ok(_) => panic!("this was taken:\n{text}"),
        Err(errors) => errors,
    }
}

/// The only error of a text, as `line:column path: message`.
pub(crate) fn only_error(text: &str) -> String {
    let errors = refused(text);
    assert_eq!(errors.errors().len(), 1, "{text}\n{errors}");
    shown(&errors.errors()[0])
}

/// All errors of a text, as `line:column path: message`.
pub(crate) fn all_errors(text: &str) -> Vec<String> {
    refused(text).errors().iter().map(shown).collect()
}

fn shown(error: &PolicyError) -> String {
    assert!(
        !error.message().is_empty() && !error.remedy().is_empty(),
        "{error}"
    );
    let place = error.position().map_or_else(
        || "-".to_owned(),
        |position| {
            assert!(error.snippet().is_some(), "{error}");
            format!("{}:{}", position.line, position.column)
        },
    );
    format!("{place} {}: {}", error.path(), error.message())
}
