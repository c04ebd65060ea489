//! The texts of prompts are those whose bytes are counted.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::cost::body::{Api, read, texts};

/// The texts of a body, which have all the bytes that are counted.
fn said(api: Api, body: &str) -> Vec<String> {
    let said = texts(api, body.as_bytes()).unwrap_or_else(|error| panic!("{error}: {body}"));
    let said: Vec<String> = said.iter().map(str::to_owned).collect();
    let bytes: usize = said.iter().map(String::len).sum();
    let request = read(api, body.as_bytes()).unwrap_or_else(|error| panic!("{error}: {body}"));
    assert_eq!(request.prompt.text_bytes, bytes as u64, "{body}");
    said
}

#[test]
fn each_text_of_a_conversation_is_one() {
    let body = r#"{"messages": [
        {"role": "system", "content": "be \"brief\"", "name": "n"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, "\u00e9", {"type": "image_url", "image_url": "u"}]},
        {"role": "assistant", "content": null, "refusal": "no"}, {"content": ""}], "model": "m", "user": "u"}"#;
    assert_eq!(said(Api::Chat, body), ["be \"brief\"", "a", "é"]);
}

#[test]
fn definitions_and_calls_of_tools_are_a_text_each_as_they_are_written_compactly() {
    let tools =
        r#"[{"type":"function","function":{"name":"f","a":[1,-2.5,true,null,{},[],""]}},{}]"#;
    let calls = r#"[{"id":"c","arguments":"{\"x\":1}"},["y"],7]"#;
    let spaced = |json: &str| {
        let value: Value = serde_json::from_str(json).expect("JSON");
        serde_json::to_string_pretty(&value).expect("it is JSON")
    };
    let body = format!(
        r#"{{"messages": [{{"tool_calls": {}, "content": "hi"}}, {{"content": "so"}}], "tools": {}}}"#,
        spaced(calls),
        spaced(tools)
    );
    let calls = calls.replace('\\', "");
    assert_eq!(said(Api::Chat, &body), ["hi", &*calls, "so", tools]);
}

#[test]
fn each_prompt_of_a_batch_is_a_text_and_ids_are_none() {
    for api in [Api::Completions, Api::Embeddings] {
        let of = |json: &str| said(api, &format!(r#"{{"{}": {json}}}"#, api.prompt()));
        assert_eq!(of(r#""one""#), ["one"]);
        assert_eq!(of(r#"["one", "", "two"]"#), ["one", "two"]);
        assert!(of("[1, 2]").is_empty() && of("[[1], [2]]").is_empty());
    }
}

#[test]
fn instructions_and_items_of_a_response_are_texts() {
    let body = r#"{"input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "function_call", "name": "f", "arguments": "{}"}, {"output": "sunny"}], "instructions": "be brief"}"#;
    assert_eq!(
        said(Api::Responses, body),
        ["hi", "{}", "sunny", "be brief"]
    );
    assert_eq!(said(Api::Responses, r#"{"input": "hi"}"#), ["hi"]);
}

#[test]
fn what_is_no_body_has_no_texts() {
    for body in ["", "[]", r#"{"messages": [{"content": 1}]}"#] {
        assert!(texts(Api::Chat, body.as_bytes()).is_err(), "{body}");
    }
}

/// Any JSON.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u32>().prop_map(Value::from),
        "[a-z\"\\\\\n é]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let members = prop::collection::vec(("[a-z\"é]{0,4}", inner.clone()), 0..4);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            members.prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// As a text is compared: JSON without escapes.
fn compact(value: &Value) -> String {
    match value {
        Value::String(text) => format!("\"{text}\""),
        Value::Array(all) => {
            let all: Vec<_> = all.iter().map(compact).collect();
            format!("[{}]", all.join(","))
        }
        Value::Object(members) => {
            let pair = |(name, value): (&String, &Value)| format!("\"{name}\":{}", compact(value));
            let members: Vec<_> = members.iter().map(pair).collect();
            format!("{{{}}}", members.join(","))
        }
        other => other.to_string(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_definition_of_tools_is_its_compact_text(tools in value(), text in "[a-z\" é]{0,9}") {
        let body = json!({ "tools": tools, "messages": [{ "content": text }] });
        let mut expected = vec![compact(&tools)];
        if !text.is_empty() {
            expected.push(text);
        }
        prop_assert_eq!(said(Api::Chat, &body.to_string()), expected);
    }
}
