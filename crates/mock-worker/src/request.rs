//! Requests for inference.

use http::StatusCode;
use serde::Deserialize;

use crate::input::{Input, Message};
use crate::prompt::{Counter, Prompt};
use crate::refusal::Refusal;

/// Output tokens of a request that gives no limit.
const DEFAULT_OUTPUT_TOKENS: u32 = 16;
/// The most that a request may ask for: its text must fit into memory.
const MOST_OUTPUT_TOKENS: u32 = 1 << 20;

/// The interfaces for inference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Api {
    Chat,
    Completions,
    Embeddings,
    Responses,
}

impl Api {
    /// The field that holds the prompt.
    const fn prompt_field(self) -> &'static str {
        match self {
            Self::Chat => "messages",
            Self::Completions => "prompt",
            Self::Embeddings | Self::Responses => "input",
        }
    }
}

/// What a request asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) api: Api,
    pub(crate) prompt: Prompt,
    /// How many prompts it has; each gets an embedding.
    pub(crate) part_count: usize,
    pub(crate) output_tokens: u32,
    /// The request says how many output tokens it wants.
    pub(crate) is_limited: bool,
    pub(crate) stream: bool,
    /// A stream ends with the usage.
    pub(crate) include_usage: bool,
}

/// The fields of all interfaces that mean something here.
#[derive(Deserialize)]
struct Body {
    model: Option<String>,
    messages: Option<Vec<Message>>,
    prompt: Option<Input>,
    input: Option<Input>,
    instructions: Option<String>,
    max_tokens: Option<u32>,
    max_completion_tokens: Option<u32>,
    max_output_tokens: Option<u32>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
}

#[derive(Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
}

impl Ask {
    /// Reads the body of a request to a worker that serves `model`.
    ///
    /// # Errors
    /// Where the body is not JSON, not a request, or for another model.
    pub(crate) fn parse(api: Api, body: &[u8], model: &str) -> Result<Self, Refusal> {
        let body: Body = serde_json::from_slice(body).map_err(|error| {
            let what = if error.is_data() {
                "the body is not a request"
            } else {
                "the body is not valid JSON"
            };
            Refusal::new(StatusCode::BAD_REQUEST, format!("{what}: {error}"))
        })?;
        check_model(body.model.as_deref(), model)?;
        let (prompt, part_count) = body.count_prompt(api)?;
        let limit = body.limit(api)?;
        let include_usage = body
            .stream_options
            .and_then(|options| options.include_usage);
        Ok(Self {
            api,
            prompt,
            part_count,
            output_tokens: match api {
                Api::Embeddings => 0,
                _ => limit.unwrap_or(DEFAULT_OUTPUT_TOKENS),
            },
            is_limited: limit.is_some(),
            stream: body.stream == Some(true) && api != Api::Embeddings,
            include_usage: include_usage == Some(true),
        })
    }
}

fn check_model(asked: Option<&str>, served: &str) -> Result<(), Refusal> {
    match asked {
        Some(asked) if asked == served => Ok(()),
        Some(asked) => Err(Refusal {
            status: StatusCode::NOT_FOUND,
            message: format!("there is no model {asked:?}; this worker serves {served:?}"),
            field: Some("model"),
            code: Some("model_not_found"),
        }),
        None => {
            let message = format!("the field `model` is missing; this worker serves {served:?}");
            Err(Refusal::bad_field("model", message))
        }
    }
}

impl Body {
    /// The prompt, and how many there are in it.
    fn count_prompt(&self, api: Api) -> Result<(Prompt, usize), Refusal> {
        let field = api.prompt_field();
        let missing = || {
            let message = format!("the field `{field}` is missing; it holds the prompt");
            Refusal::bad_field(field, message)
        };
        let mut counter = Counter::default();
        let part_count = if api == Api::Chat {
            let messages = self.messages.as_ref().ok_or_else(missing)?;
            messages
                .iter()
                .for_each(|message| message.count(&mut counter));
            messages.len()
        } else {
            let input = match api {
                Api::Completions => &self.prompt,
                _ => &self.input,
            };
            let input = input.as_ref().ok_or_else(missing)?;
            if api == Api::Responses {
                let instructions = self.instructions.iter();
                instructions.for_each(|text| counter.put_text(text));
            } else if input.has_messages() {
                let message = format!("`{field}` holds texts or token ids, not messages");
                return Err(Refusal::bad_field(field, message));
            }
            input.count(&mut counter);
            input.0.len()
        };
        let prompt = counter.finish();
        if prompt.tokens == 0 {
            let message = format!("`{field}` is empty; at least one token is needed");
            return Err(Refusal::bad_field(field, message));
        }
        Ok((prompt, part_count))
    }

    /// The limit of output tokens, if the request gives one.
    fn limit(&self, api: Api) -> Result<Option<u32>, Refusal> {
        let (field, limit) = match api {
            Api::Responses => ("max_output_tokens", self.max_output_tokens),
            Api::Chat if self.max_completion_tokens.is_some() => {
                ("max_completion_tokens", self.max_completion_tokens)
            }
            _ => ("max_tokens", self.max_tokens),
        };
        match limit {
            Some(limit) if !(1..=MOST_OUTPUT_TOKENS).contains(&limit) => {
                let message = format!("`{field}` is {limit}; it must be 1 to {MOST_OUTPUT_TOKENS}");
                Err(Refusal::bad_field(field, message))
            }
            limit => Ok(limit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(api: Api, body: &str) -> Result<Ask, Refusal> {
        Ask::parse(api, body.as_bytes(), "mock")
    }

    fn accepted(api: Api, body: &str) -> Ask {
        parse(api, body).unwrap_or_else(|refusal| panic!("{body}: {refusal:?}"))
    }

    #[test]
    fn each_interface_has_its_prompt_and_its_limit() {
        let chat = accepted(
            Api::Chat,
            r#"{"model": "mock", "messages": [{"role": "user", "content": "fives"}], "max_tokens": 3}"#,
        );
        assert_eq!((chat.prompt.tokens, chat.output_tokens), (6, 3));
        assert!(chat.is_limited && !chat.stream);
        let text = accepted(Api::Completions, r#"{"model": "mock", "prompt": "fives"}"#);
        assert_eq!((text.prompt.tokens, text.output_tokens), (2, 16));
        assert!(!text.is_limited);
        let answer = accepted(
            Api::Responses,
            r#"{"model": "mock", "input": "fives", "instructions": "four", "max_output_tokens": 9}"#,
        );
        assert_eq!((answer.prompt.tokens, answer.output_tokens), (3, 9));
        let embeddings = accepted(
            Api::Embeddings,
            r#"{"model": "mock", "input": ["a", "b"], "max_tokens": 5, "stream": true}"#,
        );
        assert_eq!((embeddings.part_count, embeddings.output_tokens), (2, 0));
        assert!(!embeddings.stream);
    }

    #[test]
    fn the_newer_limit_of_a_chat_goes_before_the_older() {
        let both =
            r#"{"model": "mock", "messages": [{}], "max_tokens": 3, "max_completion_tokens": 4}"#;
        assert_eq!(accepted(Api::Chat, both).output_tokens, 4);
    }

    #[test]
    fn a_stream_tells_its_usage_where_it_is_asked_to() {
        let body = |options: &str| {
            let body = format!(r#"{{"model": "mock", "prompt": "a", "stream": true{options}}}"#);
            accepted(Api::Completions, &body).include_usage
        };
        assert!(!body(""));
        assert!(!body(r#", "stream_options": null"#));
        assert!(body(r#", "stream_options": {"include_usage": true}"#));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (api, body, part) in [
            (
                Api::Chat,
                "{",
                "not valid JSON: EOF while parsing an object at line 1 column 1",
            ),
            (
                Api::Chat,
                "{\n \"model\" 7}",
                "not valid JSON: expected `:` at line 2 column 10",
            ),
            (Api::Chat, "[]", "the body is not a request: "),
            (
                Api::Chat,
                r#"{"model": 7}"#,
                "expected a string at line 1 column 11",
            ),
            (
                Api::Chat,
                r#"{"messages": []}"#,
                "the field `model` is missing",
            ),
            (
                Api::Chat,
                r#"{"model": "mock"}"#,
                "the field `messages` is missing",
            ),
            (
                Api::Completions,
                r#"{"model": "mock"}"#,
                "the field `prompt` is missing",
            ),
            (
                Api::Responses,
                r#"{"model": "mock"}"#,
                "the field `input` is missing",
            ),
            (
                Api::Embeddings,
                r#"{"model": "mock", "input": ""}"#,
                "`input` is empty",
            ),
            (
                Api::Embeddings,
                r#"{"model": "mock", "input": [{}]}"#,
                "not messages",
            ),
            (
                Api::Completions,
                r#"{"model": "mock", "prompt": "a", "max_tokens": 0}"#,
                "`max_tokens` is 0; it must be 1 to 1048576",
            ),
        ] {
            let refusal = parse(api, body).expect_err(body);
            assert_eq!(refusal.status, StatusCode::BAD_REQUEST, "{body}");
            assert!(
                refusal.message.contains(part),
                "{body}: {}",
                refusal.message
            );
        }
    }

    #[test]
    fn another_model_is_not_found_and_the_message_names_the_one_there_is() {
        let refusal = parse(Api::Chat, r#"{"model": "other"}"#).expect_err("another model");
        assert_eq!(refusal.status, StatusCode::NOT_FOUND);
        assert_eq!(
            refusal.message,
            r#"there is no model "other"; this worker serves "mock""#
        );
    }
}
