//! How many tokens a prompt is, learnt from what workers report.

use std::sync::atomic::{AtomicU64, Ordering};

use super::body::Prompt;

/// Tokens that a chat template adds to each message.
pub const MESSAGE_TOKENS: u64 = 4;
/// Tokens that an image, a sound or a file is taken for.
pub const MEDIA_TOKENS: u64 = 256;
/// Tokens per byte before anything was learnt: English text with a large vocabulary.
pub const RATIO_DEFAULT: f64 = 0.25;
/// The least that is learnt, in tokens per byte.
pub const RATIO_MIN: f64 = 1.0 / 64.0;
/// The most that is learnt, in tokens per byte: each byte is a token.
pub const RATIO_MAX: f64 = 1.0;

/// How far outside the range a report may be and still say that the ratio is at the range's end; beyond
/// it, what was reported is no count of this text.
const ABSURD: f64 = 4.0;
/// What one report weighs at most.
const WEIGHT_MAX: f64 = 0.125;
/// A text of so many bytes has half of that weight: what a template adds blurs a short one.
const HALF_WEIGHT_BYTES: f64 = 512.0;
/// One report speaks for a change by this factor at most, so that a single odd one moves little.
const STEP_MAX: f64 = 2.0;

/// What an estimate needs of a prompt. The body, and the prompt's blocks, need not outlive it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// See [`Prompt::token_ids`].
    pub token_ids: u64,
    /// See [`Prompt::text_bytes`].
    pub text_bytes: u64,
    /// See [`Prompt::messages`].
    pub messages: u32,
    /// See [`Prompt::media_parts`].
    pub media_parts: u32,
}

impl From<&Prompt> for Facts {
    fn from(prompt: &Prompt) -> Self {
        Self {
            token_ids: prompt.token_ids,
            text_bytes: prompt.text_bytes,
            messages: prompt.messages,
            media_parts: prompt.media_parts,
        }
    }
}

impl Facts {
    /// The tokens of a prompt whose text has so many: with its ids, [`MESSAGE_TOKENS`] for each message and
    /// [`MEDIA_TOKENS`] for each part that is no text. At most `u32::MAX`.
    #[must_use]
    pub fn tokens_with_text(self, text_tokens: u64) -> u32 {
        let tokens = self.tokens_besides_text().saturating_add(text_tokens);
        u32::try_from(tokens).unwrap_or(u32::MAX)
    }

    /// Tokens besides those of the text.
    fn tokens_besides_text(self) -> u64 {
        let messages = u64::from(self.messages) * MESSAGE_TOKENS;
        let media = u64::from(self.media_parts) * MEDIA_TOKENS;
        self.token_ids.saturating_add(messages + media)
    }
}

/// The tokens per byte of one model. Any thread may ask and teach at any time; none waits.
#[derive(Debug)]
pub struct TokenEstimate {
    /// The bits of an `f64` within `RATIO_MIN ..= RATIO_MAX`.
    ratio: AtomicU64,
}

impl Default for TokenEstimate {
    fn default() -> Self {
        Self {
            ratio: AtomicU64::new(RATIO_DEFAULT.to_bits()),
        }
    }
}

impl TokenEstimate {
    /// Tokens per byte of text, as far as is known; within [`RATIO_MIN`] and [`RATIO_MAX`].
    #[must_use]
    pub fn ratio(&self) -> f64 {
        f64::from_bits(self.ratio.load(Ordering::Relaxed))
    }

    /// The tokens of a prompt: those of its text by the ratio, rounded up, and [those besides
    /// it](Facts::tokens_with_text). At most `u32::MAX`.
    ///
    /// ```
    /// use tollgate_router::cost::body::Prompt;
    /// use tollgate_router::cost::estimate::TokenEstimate;
    ///
    /// let prompt = Prompt { text_bytes: 401, messages: 2, ..Prompt::default() };
    /// assert_eq!(TokenEstimate::default().tokens(&prompt), 101 + 8);
    /// ```
    #[must_use]
    pub fn tokens(&self, prompt: &Prompt) -> u32 {
        let facts = Facts::from(prompt);
        let text = (facts.text_bytes as f64 * self.ratio()).ceil();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is no less than 0, and the cast saturates"
        )]
        let text = text as u64;
        facts.tokens_with_text(text)
    }

    /// Learns from a worker's count of a prompt.
    ///
    /// The ratio moves towards what was reported, by an eighth of the way for a long text and by less for a
    /// short one. Nothing is learnt from a prompt without text, from one with images and the like, whose tokens
    /// nobody knows, or from a count that cannot be right.
    pub fn learn(&self, prompt: Facts, actual_prompt_tokens: u64) {
        if prompt.text_bytes == 0 || prompt.media_parts > 0 {
            return;
        }
        let besides = prompt.tokens_besides_text();
        let bytes = prompt.text_bytes as f64;
        let told = actual_prompt_tokens.saturating_sub(besides) as f64 / bytes;
        if !(RATIO_MIN / ABSURD..=RATIO_MAX * ABSURD).contains(&told) {
            return;
        }
        let weight = WEIGHT_MAX * bytes / (bytes + HALF_WEIGHT_BYTES);
        let moved = |bits: u64| {
            let ratio = f64::from_bits(bits);
            let told = told.clamp(ratio / STEP_MAX, ratio * STEP_MAX);
            let ratio = ratio + (told - ratio) * weight;
            Some(ratio.clamp(RATIO_MIN, RATIO_MAX).to_bits())
        };
        // Reports come in any order anyway: nothing else is read or written by it.
        let taught = self
            .ratio
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, moved);
        debug_assert!(taught.is_ok(), "every ratio has a next one");
    }
}

/// How good the estimates were. Any thread may note at any time; none waits.
#[derive(Debug, Default)]
pub struct EstimateErrors {
    prompt: Counters,
    cached: Counters,
}

impl EstimateErrors {
    /// Notes what was estimated, and what a worker counted, of a prompt's tokens.
    pub fn note_prompt(&self, estimated_tokens: u32, actual_tokens: u64) {
        self.prompt.note(estimated_tokens, actual_tokens);
    }

    /// The same, of those that were cached.
    pub fn note_cached(&self, estimated_tokens: u32, actual_tokens: u64) {
        self.cached.note(estimated_tokens, actual_tokens);
    }

    /// The sums for prompts' tokens.
    ///
    /// Read while others note, they may be those of different moments, one request apart for each of them.
    #[must_use]
    pub fn prompt(&self) -> ErrorSums {
        self.prompt.read()
    }

    /// The sums for cached tokens; the same holds.
    #[must_use]
    pub fn cached(&self) -> ErrorSums {
        self.cached.read()
    }
}

/// Sums over all requests for which both an estimate and a count were there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorSums {
    /// Requests.
    pub requests: u64,
    /// What was estimated.
    pub estimated_tokens: u64,
    /// What workers counted; a count above `u32::MAX` as that.
    pub actual_tokens: u64,
    /// How far apart the two were, request by request.
    pub absolute_error_tokens: u64,
}

#[derive(Debug, Default)]
struct Counters {
    requests: AtomicU64,
    estimated: AtomicU64,
    actual: AtomicU64,
    absolute_error: AtomicU64,
}

impl Counters {
    fn note(&self, estimated: u32, actual: u64) {
        // A worker that counts in quintillions does not turn the sums over.
        let actual = u32::try_from(actual).unwrap_or(u32::MAX);
        let add = |counter: &AtomicU64, tokens: u32| {
            counter.fetch_add(u64::from(tokens), Ordering::Relaxed);
        };
        add(&self.requests, 1);
        add(&self.estimated, estimated);
        add(&self.actual, actual);
        add(&self.absolute_error, estimated.abs_diff(actual));
    }

    fn read(&self) -> ErrorSums {
        ErrorSums {
            requests: self.requests.load(Ordering::Relaxed),
            estimated_tokens: self.estimated.load(Ordering::Relaxed),
            actual_tokens: self.actual.load(Ordering::Relaxed),
            absolute_error_tokens: self.absolute_error.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: u64) -> Facts {
        Facts {
            text_bytes: bytes,
            messages: 1,
            ..Facts::default()
        }
    }

    /// What a worker counts of it whose tokens are 3.1 bytes long.
    fn counted(prompt: Facts) -> u64 {
        prompt.tokens_besides_text() + prompt.text_bytes * 10 / 31
    }

    fn is_near(ratio: f64) -> bool {
        (ratio * 3.1 - 1.0).abs() < 0.02
    }

    fn taught() -> TokenEstimate {
        let estimate = TokenEstimate::default();
        for round in 0..50 {
            let prompt = text(300 + round * 137 % 4_000);
            estimate.learn(prompt, counted(prompt));
        }
        estimate
    }

    #[test]
    fn tokens_are_those_of_ids_text_messages_and_media() {
        let prompt = Prompt {
            token_ids: 7,
            text_bytes: 9,
            messages: 2,
            media_parts: 1,
            ..Prompt::default()
        };
        assert_eq!(TokenEstimate::default().tokens(&prompt), 7 + 3 + 8 + 256);
        assert_eq!(TokenEstimate::default().tokens(&Prompt::default()), 0);
    }

    #[test]
    fn tokens_saturate() {
        for (token_ids, text_bytes) in [(u64::MAX, 0), (0, u64::MAX), (u64::MAX, u64::MAX)] {
            let prompt = Prompt {
                token_ids,
                text_bytes,
                messages: u32::MAX,
                media_parts: u32::MAX,
                ..Prompt::default()
            };
            assert_eq!(TokenEstimate::default().tokens(&prompt), u32::MAX);
        }
    }

    #[test]
    fn fifty_reports_teach_a_workers_ratio() {
        let ratio = taught().ratio();
        assert!(is_near(ratio), "{ratio}");
        let short = TokenEstimate::default();
        for _ in 0..50 {
            short.learn(text(400), counted(text(400)));
        }
        assert!(is_near(short.ratio()), "{}", short.ratio());
    }

    #[test]
    fn one_outlier_does_not_throw_it_off() {
        for odd in [1, 40, 100_000, u64::MAX] {
            let estimate = taught();
            let before = estimate.ratio();
            estimate.learn(text(30_000), odd);
            let moved = (estimate.ratio() / before - 1.0).abs();
            assert!(moved < 0.13, "{odd} tokens moved it by {moved}");
            for _ in 0..20 {
                estimate.learn(text(3_000), counted(text(3_000)));
            }
            assert!(is_near(estimate.ratio()), "{odd}: {}", estimate.ratio());
        }
    }

    #[test]
    fn a_long_text_says_more_than_a_short_one() {
        let (long, short) = (TokenEstimate::default(), TokenEstimate::default());
        long.learn(text(20_000), counted(text(20_000)));
        short.learn(text(100), counted(text(100)));
        assert!(long.ratio() > short.ratio() && short.ratio() > RATIO_DEFAULT);
    }

    #[test]
    fn the_ratio_stays_in_its_range() {
        let (high, low) = (TokenEstimate::default(), TokenEstimate::default());
        for _ in 0..1_000 {
            high.learn(text(10_000), 39_000);
            low.learn(text(1_000_000), 4_100);
        }
        assert_eq!(high.ratio(), RATIO_MAX);
        assert_eq!(low.ratio(), RATIO_MIN);
    }

    #[test]
    fn nothing_is_learnt_from_what_says_nothing() {
        let estimate = TokenEstimate::default();
        let ids = Facts {
            token_ids: 100,
            ..Facts::default()
        };
        let image = Facts {
            media_parts: 1,
            ..text(1_000)
        };
        let told = [
            (ids, 500),
            (image, 5_000),
            (text(1_000), 0),
            (text(1_000), 4),
            (text(1_000), 5_000),
            (text(1_000), u64::MAX),
            (text(u64::MAX), 1_000),
            (Facts::default(), 0),
        ];
        for (prompt, actual) in told {
            estimate.learn(prompt, actual);
            assert_eq!(estimate.ratio(), RATIO_DEFAULT, "{prompt:?}, {actual}");
        }
    }

    #[test]
    fn threads_teach_at_once() {
        let estimate = TokenEstimate::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        estimate.learn(text(2_000), counted(text(2_000)));
                    }
                });
            }
        });
        assert!(is_near(estimate.ratio()), "{}", estimate.ratio());
    }

    #[test]
    fn errors_are_summed_by_request_and_without_sign() {
        let errors = EstimateErrors::default();
        errors.note_prompt(100, 90);
        errors.note_prompt(50, 70);
        errors.note_cached(0, 64);
        let sums = |requests, estimated, actual, error| ErrorSums {
            requests,
            estimated_tokens: estimated,
            actual_tokens: actual,
            absolute_error_tokens: error,
        };
        assert_eq!(errors.prompt(), sums(2, 150, 160, 30));
        assert_eq!(errors.cached(), sums(1, 0, 64, 64));
        errors.note_cached(0, u64::MAX);
        let most = u64::from(u32::MAX);
        assert_eq!(errors.cached(), sums(2, 0, 64 + most, 64 + most));
    }
}
