//! The exact tokens of a text, with a model's own tokenizer.
//!
//! The feature `tokenizer` brings the reference implementation, the crate `tokenizers`. Without it there is no
//! [`TokenCounter`]: whoever wants one is told so, and the code that would use it stays the same.

use thiserror::Error;

/// Whether the crate was built with the feature `tokenizer`.
pub const IS_BUILT: bool = cfg!(feature = "tokenizer");

/// Why there is no count.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// Nothing here can read a tokenizer.
    #[error("this program was built without the feature `tokenizer`")]
    NotBuilt,
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
    tokenizer: implementation::Tokenizer,
}

impl TokenCounter {
    /// Reads a `tokenizer.json`, as it lies beside a model. What it says of truncation and padding is not
    /// followed: a prompt counts in full.
    ///
    /// # Errors
    /// [`TokenizerError::Unreadable`], or [`TokenizerError::NotBuilt`].
    pub fn from_json(json: &[u8]) -> Result<Self, TokenizerError> {
        let tokenizer = implementation::read(json)?;
        Ok(Self { tokenizer })
    }

    /// The tokens of a text, without those that a model puts around a whole prompt. A tokenizer that panics over a
    /// text cannot take it.
    ///
    /// # Errors
    /// [`TokenizerError::Untokenizable`]: a word is not in the vocabulary, and nothing stands for such words.
    ///
    /// # Complexity
    /// The tokenizer's: somewhat more than linear in the text's bytes.
    pub fn tokens(&self, text: &str) -> Result<u64, TokenizerError> {
        // A panic leaves nothing half done that is seen again: a tokenizer's cache is filled in one step.
        let counting = || implementation::count(&self.tokenizer, text);
        let counted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(counting));
        let counted = counted.unwrap_or_else(|_| Err("it panicked".to_owned()));
        counted.map_err(|problem| TokenizerError::Untokenizable { problem })
    }
}

#[cfg(feature = "tokenizer")]
mod implementation {
    pub(super) use tokenizers::Tokenizer;

    use super::TokenizerError;

    pub(super) fn read(json: &[u8]) -> Result<Tokenizer, TokenizerError> {
        let unreadable = |error: tokenizers::Error| TokenizerError::Unreadable {
            problem: error.to_string(),
        };
        let mut tokenizer = Tokenizer::from_bytes(json).map_err(unreadable)?;
        tokenizer.with_truncation(None).map_err(unreadable)?;
        tokenizer.with_padding(None);
        Ok(tokenizer)
    }

    pub(super) fn count(tokenizer: &Tokenizer, text: &str) -> Result<u64, String> {
        let encoding = tokenizer.encode_fast(text, false);
        let encoding = encoding.map_err(|error| error.to_string())?;
        Ok(encoding.len() as u64)
    }
}

#[cfg(not(feature = "tokenizer"))]
mod implementation {
    use super::TokenizerError;

    /// There is none.
    pub(super) type Tokenizer = std::convert::Infallible;

    pub(super) const fn read(_: &[u8]) -> Result<Tokenizer, TokenizerError> {
        Err(TokenizerError::NotBuilt)
    }

    pub(super) const fn count(tokenizer: &Tokenizer, _: &str) -> Result<u64, String> {
        match *tokenizer {}
    }
}

#[cfg(all(test, feature = "tokenizer"))]
pub(crate) mod tests {
    use super::*;

    /// A word is a token; so are what is not a word, and what the vocabulary has not.
    pub(crate) const WORDS: &str = r#"{
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
    fn threads_count_at_once() {
        let counter = TokenCounter::from_json(WORDS.as_bytes()).expect("a tokenizer");
        std::thread::scope(|scope| {
            for words in 1..5 {
                let counter = &counter;
                scope.spawn(move || {
                    let text = "hello ".repeat(words);
                    assert_eq!(counter.tokens(&text), Ok(words as u64));
                });
            }
        });
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
