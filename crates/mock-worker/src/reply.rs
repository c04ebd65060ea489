//! The API's objects: whole answers, and what streams share with them.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::request::{Api, Ask};
use crate::text;

/// Numbers of an embedding.
const DIMENSIONS: u32 = 8;

/// What an answer says about itself and its request.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) api: Api,
    pub(crate) model: String,
    /// Tells this answer's id from others of the worker.
    pub(crate) number: u64,
    /// Seconds since 1970.
    pub(crate) created: u64,
    pub(crate) prompt_tokens: u32,
    pub(crate) output_tokens: u32,
    pub(crate) is_limited: bool,
    pub(crate) part_count: usize,
}

impl Reply {
    pub(crate) fn new(ask: &Ask, model: &str, number: u64) -> Self {
        Self {
            api: ask.api,
            model: model.to_owned(),
            number,
            created: seconds_now(),
            prompt_tokens: ask.prompt.tokens,
            output_tokens: ask.output_tokens,
            is_limited: ask.is_limited,
            part_count: ask.part_count,
        }
    }

    pub(crate) fn id(&self) -> String {
        let kind = match self.api {
            Api::Chat => "chatcmpl",
            Api::Completions => "cmpl",
            Api::Embeddings => "embd",
            Api::Responses => "resp",
        };
        let mark = if self.api == Api::Responses { '_' } else { '-' };
        format!("{kind}{mark}{:016x}", self.number)
    }

    /// The id of the message in a response.
    pub(crate) fn message_id(&self) -> String {
        format!("msg_{:016x}", self.number)
    }

    /// Why the text ends. It always has as many words as were asked for.
    pub(crate) const fn finish_reason(&self) -> &'static str {
        if self.is_limited { "length" } else { "stop" }
    }

    /// The whole answer.
    pub(crate) fn whole(&self, cached_tokens: u32) -> Value {
        match self.api {
            Api::Chat => self.chat(cached_tokens),
            Api::Completions => self.completion(cached_tokens),
            Api::Embeddings => self.embeddings(),
            Api::Responses => self.response(Some(cached_tokens)),
        }
    }

    fn chat(&self, cached_tokens: u32) -> Value {
        json!({
            "id": self.id(),
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "choices": [{
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": text::of(self.output_tokens),
                    "refusal": null,
                    "annotations": [],
                },
                "logprobs": null,
                "finish_reason": self.finish_reason(),
            }],
            "usage": self.usage(cached_tokens),
        })
    }

    fn completion(&self, cached_tokens: u32) -> Value {
        json!({
            "id": self.id(),
            "object": "text_completion",
            "created": self.created,
            "model": self.model,
            "choices": [{
                "index": 0,
                "text": text::of(self.output_tokens),
                "logprobs": null,
                "finish_reason": self.finish_reason(),
            }],
            "usage": self.usage(cached_tokens),
        })
    }

    fn embeddings(&self) -> Value {
        let embedding = |index: usize| {
            let numbers = (0..DIMENSIONS).map(|at| f64::from(at) / f64::from(DIMENSIONS));
            let embedding: Vec<f64> = numbers.collect();
            json!({"object": "embedding", "index": index, "embedding": embedding})
        };
        let data: Vec<Value> = (0..self.part_count).map(embedding).collect();
        json!({
            "object": "list",
            "data": data,
            "model": self.model,
            "usage": {
                "prompt_tokens": self.prompt_tokens,
                "total_tokens": self.prompt_tokens,
            },
        })
    }

    /// A response that is complete and knows its cached tokens, or one that is in progress.
    pub(crate) fn response(&self, cached_tokens: Option<u32>) -> Value {
        let (status, output, usage) = match cached_tokens {
            None => ("in_progress", json!([]), Value::Null),
            Some(cached_tokens) => (
                "completed",
                json!([self.message("completed", &[self.output_text()])]),
                self.response_usage(cached_tokens),
            ),
        };
        json!({
            "id": self.id(),
            "object": "response",
            "created_at": self.created,
            "status": status,
            "error": null,
            "incomplete_details": null,
            "instructions": null,
            "max_output_tokens": self.is_limited.then_some(self.output_tokens),
            "model": self.model,
            "output": output,
            "parallel_tool_calls": true,
            "previous_response_id": null,
            "temperature": 1.0,
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
            "truncation": "disabled",
            "usage": usage,
            "metadata": {},
        })
    }

    /// The message of a response.
    pub(crate) fn message(&self, status: &str, content: &[Value]) -> Value {
        json!({
            "id": self.message_id(),
            "type": "message",
            "status": status,
            "role": "assistant",
            "content": content,
        })
    }

    /// The content of a response's message.
    pub(crate) fn output_text(&self) -> Value {
        output_text(&text::of(self.output_tokens))
    }

    pub(crate) fn usage(&self, cached_tokens: u32) -> Value {
        json!({
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.output_tokens,
            "total_tokens": self.total_tokens(),
            "prompt_tokens_details": {"cached_tokens": cached_tokens},
        })
    }

    fn response_usage(&self, cached_tokens: u32) -> Value {
        json!({
            "input_tokens": self.prompt_tokens,
            "input_tokens_details": {"cached_tokens": cached_tokens},
            "output_tokens": self.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": self.total_tokens(),
        })
    }

    fn total_tokens(&self) -> u64 {
        u64::from(self.prompt_tokens) + u64::from(self.output_tokens)
    }
}

/// A text as a part of a response's message.
pub(crate) fn output_text(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": []})
}

/// The models that there are, which is one.
pub(crate) fn models(model: &str, created: u64) -> Value {
    json!({
        "object": "list",
        "data": [{
            "id": model,
            "object": "model",
            "created": created,
            "owned_by": "tollgate",
        }],
    })
}

/// Seconds since 1970.
pub(crate) fn seconds_now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(api: Api, body: &str) -> Reply {
        let ask = Ask::parse(api, body.as_bytes(), "mock").expect("a request");
        Reply::new(&ask, "mock", 0xab)
    }

    #[test]
    fn a_chat_answer_has_a_message_and_its_usage() {
        let body = r#"{"model": "mock", "messages": [{"content": "four"}], "max_tokens": 3}"#;
        let whole = reply(Api::Chat, body).whole(2);
        assert_eq!(whole["id"], "chatcmpl-00000000000000ab");
        assert_eq!(whole["object"], "chat.completion");
        assert_eq!(whole["choices"][0]["message"]["content"], "the gate is");
        assert_eq!(whole["choices"][0]["finish_reason"], "length");
        let usage = json!({
            "prompt_tokens": 5,
            "completion_tokens": 3,
            "total_tokens": 8,
            "prompt_tokens_details": {"cached_tokens": 2},
        });
        assert_eq!(whole["usage"], usage);
    }

    #[test]
    fn a_completion_without_a_limit_stops_by_itself() {
        let whole = reply(Api::Completions, r#"{"model": "mock", "prompt": "a"}"#).whole(0);
        assert_eq!(whole["object"], "text_completion");
        assert_eq!(whole["choices"][0]["finish_reason"], "stop");
        let text = whole["choices"][0]["text"].as_str().expect("a text");
        assert_eq!(text.split(' ').count(), 16);
    }

    #[test]
    fn every_prompt_gets_an_embedding() {
        let whole = reply(Api::Embeddings, r#"{"model": "mock", "input": ["a", "b"]}"#).whole(0);
        let data = whole["data"].as_array().expect("a list");
        assert_eq!(data.len(), 2);
        assert_eq!(data[1]["index"], 1);
        assert_eq!(data[1]["embedding"].as_array().map(Vec::len), Some(8));
        assert_eq!(
            whole["usage"],
            json!({"prompt_tokens": 2, "total_tokens": 2})
        );
    }

    #[test]
    fn a_response_has_its_output_once_it_is_complete() {
        let body = r#"{"model": "mock", "input": "four", "max_output_tokens": 2}"#;
        let reply = reply(Api::Responses, body);
        let begun = reply.response(None);
        assert_eq!(begun["status"], "in_progress");
        assert_eq!(
            (&begun["output"], &begun["usage"]),
            (&json!([]), &Value::Null)
        );
        let whole = reply.whole(1);
        assert_eq!(whole["status"], "completed");
        assert_eq!(whole["output"][0]["content"][0]["text"], "the gate");
        let usage = json!({
            "input_tokens": 1,
            "input_tokens_details": {"cached_tokens": 1},
            "output_tokens": 2,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 3,
        });
        assert_eq!(whole["usage"], usage);
    }
}
