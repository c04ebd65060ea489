//! What is asked for in the address of a state.

/// Waiting requests that are listed of each lane unless more or fewer are asked for.
const ENTRIES: usize = 10;
/// The most that may be asked for.
const ENTRIES_MAX: usize = 1_000;

/// Why a query is not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum QueryError {
    #[error("the query has {0:?}; it may have `model` and `entries`")]
    UnknownKey(String),
    #[error("entries is {0:?}; it must be a whole number from 0 to {ENTRIES_MAX}")]
    Entries(String),
    #[error("model is not UTF-8 with bytes escaped as %XX")]
    Model,
}

impl QueryError {
    /// Which part is wrong.
    pub(super) const fn param(&self) -> Option<&'static str> {
        match self {
            Self::UnknownKey(_) => None,
            Self::Entries(_) => Some("entries"),
            Self::Model => Some("model"),
        }
    }
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Query {
    /// None: all models.
    pub(super) model: Option<String>,
    /// Waiting requests of each lane.
    pub(super) entries: usize,
}

impl Query {
    /// Reads the part of an address behind its question mark.
    pub(super) fn read(text: &str) -> Result<Self, QueryError> {
        let mut query = Self {
            model: None,
            entries: ENTRIES,
        };
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            match key {
                "model" => query.model = Some(decode(value)?),
                "entries" => query.entries = entries(value)?,
                _ => return Err(QueryError::UnknownKey(key.chars().take(40).collect())),
            }
        }
        Ok(query)
    }
}

fn entries(value: &str) -> Result<usize, QueryError> {
    let number = value.parse().ok().filter(|number| *number <= ENTRIES_MAX);
    number.ok_or_else(|| QueryError::Entries(value.chars().take(40).collect()))
}

/// Takes the escapes out of a value.
fn decode(value: &str) -> Result<String, QueryError> {
    let mut bytes = value.bytes();
    let mut decoded = Vec::with_capacity(value.len());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                let pair = digit().zip(digit()).map(|(high, low)| high * 16 + low);
                let byte = pair.and_then(|byte| u8::try_from(byte).ok());
                byte.ok_or(QueryError::Model)?
            }
            byte => byte,
        });
    }
    String::from_utf8(decoded).map_err(|_| QueryError::Model)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Option<String>, usize) {
        let query = Query::read(text).expect(text);
        (query.model, query.entries)
    }

    #[test]
    fn a_query_names_a_model_and_how_much_of_it() {
        assert_eq!(read(""), (None, 10));
        assert_eq!(read("entries=0"), (None, 0));
        let model = Some("meta/llama 3".to_owned());
        assert_eq!(read("model=meta%2Fllama+3&entries=1000"), (model, 1_000));
        assert_eq!(read("model=%C3%A4").0.as_deref(), Some("ä"));
    }

    #[test]
    fn a_wrong_query_is_told_what_would_be_right() {
        let cases = [
            ("entries=1001", "from 0 to 1000"),
            ("entries=-1", "from 0 to 1000"),
            ("entries=many", "\"many\""),
            ("models=a", "`model` and `entries`"),
            ("model=%", "%XX"),
            ("model=%4", "%XX"),
            ("model=%zz", "%XX"),
            ("model=%ff", "UTF-8"),
        ];
        for (text, expected) in cases {
            let error = Query::read(text).expect_err(text).to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
