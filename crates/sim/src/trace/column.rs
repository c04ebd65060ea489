//! Hashes of what a column holds, and what serde says of a line.

use serde_json::Value;

/// FNV-1a, 64 bits: the same on every machine and in every version.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    const BASIS: u64 = 0xCBF2_9CE4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01B3;
    let mix = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(PRIME);
    bytes.iter().fold(BASIS, mix)
}

/// The hash of what a JSON object has under `key`; of a list, of its first element.
pub(super) fn hash_of_member(line: &str, key: Option<&str>) -> Result<u64, String> {
    let Some(key) = key else {
        return Ok(0);
    };
    let object: Value = serde_json::from_str(line).map_err(|error| json_message(&error))?;
    let value = object
        .get(key)
        .ok_or_else(|| format!("the object has no member {key:?}"))?;
    let value = match value {
        Value::Array(elements) => elements.first().unwrap_or(&Value::Null),
        value => value,
    };
    Ok(match value {
        Value::String(text) => hash(text.as_bytes()),
        value => hash(value.to_string().as_bytes()),
    })
}

/// What is wrong with a line of JSON, with the column; the line is said elsewhere.
pub(super) fn json_message(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((message, _)) => format!("{message}, at column {}", error.column()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_members_hash_equal() {
        let of = |line, key| hash_of_member(line, Some(key)).expect("it is there");
        let line = r#"{"user": "ann", "hash_ids": [7, 8], "n": 3, "empty": []}"#;
        assert_eq!(of(line, "user"), hash(b"ann"));
        assert_eq!(of(line, "hash_ids"), hash(b"7"));
        assert_eq!(of(line, "n"), hash(b"3"));
        assert_eq!(of(line, "empty"), hash(b"null"));
        // As Fowler, Noll and Vo publish it.
        assert_eq!(hash(b"a"), 0xAF63_DC4C_8601_EC8C);
        assert_eq!(hash_of_member(line, None), Ok(0));
        assert_eq!(
            hash_of_member(line, Some("model")),
            Err("the object has no member \"model\"".to_owned())
        );
    }
}
