//! Looking for members of a JSON text without parsing it.

use memchr::memmem;

/// What follows each `name:` in a JSON text, up to the text's end, where the value is not `null`.
///
/// `quoted_name` is the name in quotation marks. Inside a string those are escaped, so that what a model
/// writes is not taken for a member; at which depth the member is, is not told.
pub(crate) fn values<'a>(
    json: &'a [u8],
    quoted_name: &'static [u8],
) -> impl Iterator<Item = &'a [u8]> {
    memmem::find_iter(json, quoted_name).filter_map(move |at| {
        let after = json[at + quoted_name.len()..].trim_ascii_start();
        let value = after.strip_prefix(b":")?.trim_ascii_start();
        (!value.starts_with(b"null")).then_some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(json: &str) -> Vec<&str> {
        let values = values(json.as_bytes(), b"\"a\"");
        values
            .map(|value| str::from_utf8(value).expect("cut between characters"))
            .collect()
    }

    #[test]
    fn members_are_found_with_and_without_space() {
        assert_eq!(found(r#"{"b":{"a":1}}"#), ["1}}"]);
        assert_eq!(found("{\"a\" :\n {}, \"a\": 2}"), ["{}, \"a\": 2}", "2}"]);
    }

    #[test]
    fn nulls_strings_and_other_names_are_not_members() {
        for json in [
            r#"{"a":null}"#,
            r#"{"b":"a"}"#,
            r#"{"b":"\"a\": 1"}"#,
            r#"{"aa":1}"#,
            r#"{"a"#,
            r#"{"a""#,
            "",
        ] {
            assert!(found(json).is_empty(), "{json}");
        }
    }
}
