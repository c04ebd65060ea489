//! The exact tokens of a text, with a model's own tokenizer.

use thiserror::Error;
use tokenizers::Tokenizer;

/// Why there is no count.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// The file says no tokenizer.
    #[error("it is no tokenizer.json: {problem}")]
    Unreadable {
        /// What is wrong with it.
        problem: String,
    },
    /// The tokenizer cannot take the text.
    #[error("the tokenizer cannot take the text: {problem}")]
    Untokenizable {
        /// Why.
        problem: String,
    },
}

/// Counts tokens as one model does. Any thread may count at any time.
#[derive(Debug)]
pub struct TokenCounter {
    tokenizer: Tokenizer,
}

impl TokenCounter {
    /// Reads a `tokenizer.json`, as it lies beside a model. What it says of truncation and padding is not
    /// followed: a prompt counts in full.
    ///
    /// # Errors
    /// [`TokenizerError::Unreadable`].
    pub fn from_json(json: &[u8]) -> Result<Self, TokenizerError> {
        let unreadable = |error: tokenizers::Error| TokenizerError::Unreadable {
            problem: error.to_string(),
        };
        let mut tokenizer = Tokenizer::from_bytes(json).map_err(unreadable)?;
        tokenizer.with_truncation(None).map_err(unreadable)?;
        tokenizer.with_padding(None);
        Ok(Self { tokenizer })
    }

    /// The tokens of a text, without those that a model puts around a whole prompt.
    ///
    /// # Errors
    /// [`TokenizerError::Untokenizable`]: a word is not in the vocabulary, and nothing stands for such words.
    pub fn tokens(&self, text: &str) -> Result<u64, TokenizerError> {
        match self.tokenizer.encode_fast(text, false) {
            Ok(encoding) => Ok(encoding.len() as u64),
            Err(error) => Err(TokenizerError::Untokenizable {
                problem: error.to_string(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A word is a token; so are what is not a word, and what the vocabulary has not.
    const WORDS: &str = r#"{
        "version": "1.0",
        "truncation": {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0},
        "padding": null,
        "added_tokens": [],
        "normalizer": null,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": null,
        "decoder": null,
        "model": {"type": "WordLevel", "vocab": {"hello": 0, "world": 1, "?": 2}, "unk_token": "?"}
    }"#;

    #[test]
    fn tokens_are_counted_as_the_model_does() {
        let counter = TokenCounter::from_json(WORDS.as_bytes()).expect("a tokenizer");
        assert_eq!(counter.tokens("hello world"), Ok(2));
        assert_eq!(
            counter.tokens("hello, unknown world"),
            Ok(4),
            "no truncation"
        );
        assert_eq!(counter.tokens(""), Ok(0));
    }

    #[test]
    fn what_is_no_tokenizer_is_refused() {
        for json in ["", "{}", "[1]", r#"{"model": {"type": "None"}}"#] {
            let error = TokenCounter::from_json(json.as_bytes()).expect_err("it is none");
            assert!(
                error.to_string().starts_with("it is no tokenizer.json: "),
                "{error}"
            );
        }
    }

    #[test]
    fn a_word_that_nothing_stands_for_is_an_error() {
        let strict = WORDS.replace("\"unk_token\": \"?\"", "\"unk_token\": \"<none>\"");
        let counter = TokenCounter::from_json(strict.as_bytes()).expect("a tokenizer");
        assert_eq!(counter.tokens("world"), Ok(1));
        let error = counter.tokens("what").expect_err("nothing stands for it");
        assert!(
            matches!(error, TokenizerError::Untokenizable { .. }),
            "{error}"
        );
    }
}
