//! Models' own tokenizers, and how prompts are counted by them without holding anybody up.
//!
//! 1. All tokenizers are read before the router listens; a file that is wrong is an error of the start.
//! 2. A prompt is counted only if its text is not too long. A short one is counted on the spot; a longer one on
//!    a thread of its own, where at most half of the machine's cores count at a time.
//! 3. Whatever is not counted is estimated: a tokenizer never fails a request.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Semaphore;

use super::policy::read_regular;
use crate::config::TokenizerConfig;
use crate::cost::{self, Api, Facts, LONG_BYTES, Prompt, TokenCounter};

/// A file of more bytes is no tokenizer. The largest ones have some 40 MiB.
const FILE_BYTES_MAX: usize = 256 << 20;
/// A prompt with more bytes of text is estimated: it would take a core for more than a second.
const TEXT_BYTES_MAX: u64 = 1 << 20;
/// A prompt with at least so many bytes of text is counted on a thread of its own. Byte-level tokenizers with
/// 8,000 tokens took English at 1 to 2 MB a second where this was measured, so that less takes some 100
/// microseconds, about as much as holds up nobody.
const TEXT_BYTES_LONG: u64 = 256;
/// How long a prompt waits for its turn to be counted before it is estimated.
const PATIENCE: Duration = Duration::from_millis(100);

/// What is wrong with one tokenizer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("tokenizer: {}, for {model}: {problem}", file.display())]
pub struct CounterError {
    /// Whose it is.
    pub model: String,
    /// Where it is.
    pub file: PathBuf,
    /// What is wrong.
    pub problem: String,
}

/// Everything that is wrong with tokenizers; at least one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterErrors(Vec<CounterError>);

impl CounterErrors {
    /// The errors, in the order of the setting.
    #[must_use]
    pub fn errors(&self) -> &[CounterError] {
        &self.0
    }
}

impl fmt::Display for CounterErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, error) in self.0.iter().enumerate() {
            let end = if at > 0 { "\n" } else { "" };
            write!(f, "{end}{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for CounterErrors {}

/// The counters of all models that have one.
#[derive(Debug, Default)]
pub(crate) struct Counters(BTreeMap<String, Arc<PromptCounter>>);

impl Counters {
    /// Reads all tokenizers.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub(crate) fn read(tokenizers: &[TokenizerConfig]) -> Result<Self, CounterErrors> {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let turns = Arc::new(Semaphore::new((cores / 2).max(1)));
        let mut counters = BTreeMap::new();
        let mut errors = Vec::new();
        for TokenizerConfig { model, file } in tokenizers {
            let bytes = read_regular(file, FILE_BYTES_MAX).map_err(|error| error.to_string());
            let counter = bytes.and_then(|bytes| {
                if bytes.len() > FILE_BYTES_MAX {
                    return Err(format!("it is larger than {FILE_BYTES_MAX} bytes"));
                }
                TokenCounter::from_json(&bytes).map_err(|error| error.to_string())
            });
            match counter {
                Ok(counter) => {
                    let counter = PromptCounter::new(counter, Arc::clone(&turns));
                    counters.insert(model.clone(), Arc::new(counter));
                }
                Err(problem) => errors.push(CounterError {
                    model: model.clone(),
                    file: file.clone(),
                    problem,
                }),
            }
        }
        if errors.is_empty() {
            Ok(Self(counters))
        } else {
            Err(CounterErrors(errors))
        }
    }

    /// The counter of a model.
    pub(super) fn of(&self, model: &str) -> Option<Arc<PromptCounter>> {
        self.0.get(model).cloned()
    }
}

/// Counts the prompts of one model.
#[derive(Debug)]
pub(crate) struct PromptCounter {
    counter: TokenCounter,
    /// How many threads may count now; all models have them in common.
    turns: Arc<Semaphore>,
    counted: AtomicU64,
    failures: AtomicU64,
    skipped: AtomicU64,
}

/// What became of a model's prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CounterFigures {
    /// They were counted.
    pub(crate) counted: u64,
    /// The tokenizer could not take them.
    pub(crate) failures: u64,
    /// They were too long, or it was not their turn in time.
    pub(crate) skipped: u64,
}

impl PromptCounter {
    const fn new(counter: TokenCounter, turns: Arc<Semaphore>) -> Self {
        Self {
            counter,
            turns,
            counted: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
        }
    }

    /// The tokens of a body's prompt, if they can be counted. Dropping the future gives up what has not begun.
    pub(crate) async fn tokens(
        self: &Arc<Self>,
        api: Api,
        body: &Bytes,
        prompt: &Prompt,
    ) -> Option<u32> {
        let facts = Facts::from(prompt);
        let text_tokens = if facts.text_bytes == 0 {
            Some(0)
        } else if facts.text_bytes < TEXT_BYTES_LONG && body.len() < LONG_BYTES {
            self.count(api, body)
        } else {
            self.count_aside(api, body, facts).await?
        };
        let outcome = match text_tokens {
            Some(_) => &self.counted,
            None => &self.failures,
        };
        outcome.fetch_add(1, Ordering::Relaxed);
        text_tokens.map(|tokens| facts.tokens_with_text(tokens))
    }

    /// Counts on a thread of its own; none if it does not come to that.
    async fn count_aside(
        self: &Arc<Self>,
        api: Api,
        body: &Bytes,
        facts: Facts,
    ) -> Option<Option<u64>> {
        let turn = async {
            if facts.text_bytes > TEXT_BYTES_MAX {
                return None;
            }
            let turn = Arc::clone(&self.turns).acquire_owned();
            tokio::time::timeout(PATIENCE, turn).await.ok()?.ok()
        };
        let Some(turn) = turn.await else {
            self.skipped.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let (counter, body) = (Arc::clone(self), body.clone());
        let counting = tokio::task::spawn_blocking(move || {
            // It ends with the counting, even if nobody waits for that any more.
            let _turn = turn;
            counter.count(api, &body)
        });
        Some(counting.await.unwrap_or(None))
    }

    /// The tokens of all texts; none if the tokenizer cannot take one of them.
    fn count(&self, api: Api, body: &[u8]) -> Option<u64> {
        let texts = cost::texts(api, body).ok()?;
        let tokens = texts.iter().map(|text| self.counter.tokens(text).ok());
        tokens.sum()
    }

    /// What became of the prompts so far.
    pub(crate) fn figures(&self) -> CounterFigures {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CounterFigures {
            counted: read(&self.counted),
            failures: read(&self.failures),
            skipped: read(&self.skipped),
        }
    }
}

#[cfg(all(test, feature = "tokenizer"))]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::cost::tokenizer::tests::WORDS;

    fn counter(tokenizer: &str) -> Arc<PromptCounter> {
        let counter = TokenCounter::from_json(tokenizer.as_bytes()).expect("a tokenizer");
        Arc::new(PromptCounter::new(counter, Arc::new(Semaphore::new(1))))
    }

    async fn tokens(counter: &Arc<PromptCounter>, api: Api, body: &Value) -> Option<u32> {
        let body = Bytes::from(body.to_string());
        let request = cost::read(api, &body).expect("a request");
        counter.tokens(api, &body, &request.prompt).await
    }

    fn chat(text: &str) -> Value {
        json!({ "messages": [{ "role": "user", "content": text }] })
    }

    fn became(counter: &PromptCounter) -> [u64; 3] {
        let figures = counter.figures();
        [figures.counted, figures.failures, figures.skipped]
    }

    #[tokio::test]
    async fn a_prompt_is_its_texts_and_what_is_no_text() {
        let counter = counter(WORDS);
        let image = json!({ "type": "image_url", "image_url": { "url": "u" } });
        let body = json!({
            "tools": [{ "hello": 1 }],
            "messages": [
                { "role": "user", "content": ["hello world", image] },
                { "role": "assistant", "content": "hello, there" },
            ],
        });
        // The tools are `[{"`, `hello`, `":`, `1`, `}]`.
        let expected = 5 + 2 + 3 + 2 * 4 + 256;
        assert_eq!(tokens(&counter, Api::Chat, &body).await, Some(expected));
        let ids = json!({ "prompt": [5, 6, 7] });
        assert_eq!(tokens(&counter, Api::Completions, &ids).await, Some(3));
        let batch = json!({ "input": ["hello", "hello world"] });
        assert_eq!(tokens(&counter, Api::Embeddings, &batch).await, Some(3));
        assert_eq!(became(&counter), [3, 0, 0]);
    }

    #[tokio::test]
    async fn a_long_prompt_is_counted_too_and_one_that_is_too_long_is_not() {
        let counter = counter(WORDS);
        let most = usize::try_from(TEXT_BYTES_MAX).expect("it is small");
        // Two bytes a word; the last one is longer.
        let words = "a ".repeat(most / 2 - 1) + "ab";
        let expected = u32::try_from(most / 2).expect("it is small") + 4;
        let count = tokens(&counter, Api::Chat, &chat(&words)).await;
        assert_eq!(count, Some(expected));
        let count = tokens(&counter, Api::Chat, &chat(&(words + "c"))).await;
        assert_eq!(count, None);
        assert_eq!(became(&counter), [1, 0, 1]);
    }

    #[tokio::test]
    async fn a_prompt_that_the_tokenizer_cannot_take_is_not_counted() {
        let counter = counter(&WORDS.replace("\"unk_token\": \"?\"", "\"unk_token\": \"-\""));
        for text in ["what".to_owned(), "what ".repeat(100)] {
            let count = tokens(&counter, Api::Chat, &chat(&text)).await;
            assert_eq!(count, None);
        }
        let count = tokens(&counter, Api::Chat, &chat("hello")).await;
        assert_eq!(count, Some(5), "it takes others as before");
        assert_eq!(became(&counter), [1, 2, 0]);
    }

    #[tokio::test]
    async fn a_long_prompt_waits_for_its_turn_but_not_for_long() {
        let counter = counter(WORDS);
        let (long, short) = (chat(&"hello ".repeat(100)), chat("hello"));
        let turn = counter.turns.acquire().await.expect("it is open");
        assert_eq!(tokens(&counter, Api::Chat, &long).await, None);
        assert_eq!(tokens(&counter, Api::Chat, &short).await, Some(5));
        assert_eq!(became(&counter), [1, 0, 1]);
        drop(turn);
        assert_eq!(tokens(&counter, Api::Chat, &long).await, Some(104));
    }

    #[test]
    fn everything_that_is_wrong_with_files_is_told_at_once() {
        let files = tempfile::tempdir().expect("a folder");
        let file = |name: &str, contents: &str| {
            let path = files.path().join(name);
            std::fs::write(&path, contents).expect("a file");
            path
        };
        let of = |model: &str, file: PathBuf| TokenizerConfig {
            model: model.to_owned(),
            file,
        };
        let good = of("good", file("good.json", WORDS));
        let wrong = [
            of("none", files.path().join("none.json")),
            of("folder", files.path().to_owned()),
            of("other", file("other.json", "{}")),
        ];
        let all = [&wrong[..2], std::slice::from_ref(&good), &wrong[2..]].concat();
        let errors = Counters::read(&all).expect_err("three are wrong");
        let text = errors.to_string();
        let lines: Vec<_> = text.lines().collect();
        let parts = ["No such file", "no regular file", "it is no tokenizer.json"];
        assert_eq!((lines.len(), errors.errors().len()), (3, 3), "{text}");
        for ((line, tokenizer), part) in lines.iter().zip(&wrong).zip(parts) {
            let (file, model) = (tokenizer.file.display(), &tokenizer.model);
            let begin = format!("tokenizer: {file}, for {model}: ");
            assert!(line.starts_with(&begin) && line.contains(part), "{line}");
        }
        let counters = Counters::read(&[good]).expect("it is right");
        assert!(counters.of("good").is_some() && counters.of("other").is_none());
    }
}
