//! What workers report of a request's tokens.

use serde::Deserialize;

use super::values;

/// The tokens of a finished request, as its worker counted them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt, cached or not.
    pub prompt_tokens: u64,
    /// Those of them that the worker did not have to compute; unset where it does not say.
    pub cached_tokens: Option<u64>,
    /// Tokens that it made.
    pub completion_tokens: u64,
}

/// Finds the report in an answer, in a chunk of a stream, or in an event of a response's stream.
///
/// `None` where there is none, and where it is not understood: a worker may say what it likes. A count above
/// `u32::MAX`, which no prompt has, is not understood either, nor are more cached tokens than the prompt has.
///
/// # Complexity
/// Without a report, a search for one word; with one, linear in the text's bytes, and no copy of it.
///
/// # Examples
/// ```
/// use tollgate_router::cost::usage;
///
/// let chunk = br#"{"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 3}}"#;
/// let usage = usage::read(chunk).expect("it is there");
/// assert_eq!((usage.prompt_tokens, usage.cached_tokens), (12, None));
/// assert_eq!(usage::read(br#"{"choices": [], "usage": null}"#), None);
/// ```
#[must_use]
pub fn read(json: &[u8]) -> Option<Usage> {
    values(json, b"\"usage\"").next()?;
    let answer: Answer = serde_json::from_slice(json).ok()?;
    let inside = answer.response.and_then(|response| response.usage);
    answer.usage.or(inside).and_then(Report::usage)
}

#[derive(Deserialize)]
struct Answer {
    usage: Option<Report>,
    /// Events of a response's stream have the whole response.
    response: Option<Response>,
}

#[derive(Deserialize)]
struct Response {
    usage: Option<Report>,
}

/// Responses say input and output where the others say prompt and completion.
#[derive(Deserialize)]
struct Report {
    prompt_tokens: Option<u32>,
    input_tokens: Option<u32>,
    completion_tokens: Option<u32>,
    output_tokens: Option<u32>,
    prompt_tokens_details: Option<Details>,
    input_tokens_details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    cached_tokens: Option<u32>,
}

impl Report {
    fn usage(self) -> Option<Usage> {
        let details = self.prompt_tokens_details.or(self.input_tokens_details);
        let completion_tokens = self.completion_tokens.or(self.output_tokens);
        let prompt_tokens = self.prompt_tokens.or(self.input_tokens)?;
        let cached_tokens = details.and_then(|details| details.cached_tokens);
        if cached_tokens > Some(prompt_tokens) {
            return None;
        }
        Some(Usage {
            prompt_tokens: prompt_tokens.into(),
            cached_tokens: cached_tokens.map(Into::into),
            // Embeddings have none.
            completion_tokens: completion_tokens.unwrap_or(0).into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(prompt: u64, cached: Option<u64>, completion: u64) -> Option<Usage> {
        Some(Usage {
            prompt_tokens: prompt,
            cached_tokens: cached,
            completion_tokens: completion,
        })
    }

    #[test]
    fn chat_and_completions_report_prompt_and_completion() {
        let whole = br#"{"id": "x", "choices": [{"message": {"content": "\"usage\": 5"}}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107,
                "prompt_tokens_details": {"cached_tokens": 64, "audio_tokens": 0}}}"#;
        assert_eq!(read(whole), usage(100, Some(64), 7));
        let without =
            br#"{"usage":{"prompt_tokens":5,"completion_tokens":1,"prompt_tokens_details":null}}"#;
        assert_eq!(read(without), usage(5, None, 1));
    }

    #[test]
    fn embeddings_report_a_prompt_only() {
        let answer = br#"{"data": [{"embedding": [0.1]}], "usage": {"prompt_tokens": 8, "total_tokens": 8}}"#;
        assert_eq!(read(answer), usage(8, None, 0));
    }

    #[test]
    fn responses_report_input_and_output_in_objects_and_in_events() {
        let report = r#""usage": {"input_tokens": 30, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 16}}"#;
        let object = format!(r#"{{"object": "response", {report}}}"#);
        assert_eq!(read(object.as_bytes()), usage(30, Some(16), 4));
        let event =
            format!(r#"{{"type": "response.completed", "response": {{"id": "r", {report}}}}}"#);
        assert_eq!(read(event.as_bytes()), usage(30, Some(16), 4));
    }

    #[test]
    fn what_is_no_report_gives_none() {
        for json in [
            "",
            "[DONE]",
            r#"{"usage""#,
            r#"{"usage":"#,
            r#"{"usage":null}"#,
            r#"{"usage":5}"#,
            r#"{"usage":{}}"#,
            r#"{"usage":{"prompt_tokens":-1}}"#,
            r#"{"usage":{"prompt_tokens":"many"}}"#,
            r#"{"usage":{"prompt_tokens":1.5}}"#,
            r#"{"usage":{"prompt_tokens":4294967296}}"#,
            r#"{"usage":{"prompt_tokens":5,"completion_tokens":18446744073709551615}}"#,
            r#"{"usage":{"prompt_tokens":5,"prompt_tokens_details":{"cached_tokens":4294967296}}}"#,
            r#"{"usage":{"prompt_tokens":5,"prompt_tokens_details":{"cached_tokens":6}}}"#,
            r#"{"usage":{"prompt_tokens":5}"#,
            r#"{"choices":[{"usage":{"prompt_tokens":5}}]}"#,
            r#"["usage"]"#,
        ] {
            assert_eq!(read(json.as_bytes()), None, "{json}");
        }
        assert_eq!(read(b"\xff\"usage\": {\"prompt_tokens\": 5}"), None);
    }

    #[test]
    fn a_report_in_the_response_is_found_beside_an_empty_one_outside() {
        let event = br#"{"usage": null, "response": {"usage": {"input_tokens": 3}}}"#;
        assert_eq!(read(event), usage(3, None, 0));
    }
}
