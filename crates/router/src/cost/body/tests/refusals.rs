//! Bodies that are refused, and what is said of them.

use super::*;

/// Body, code, param, and the message in full.
fn assert_refused(api: Api, body: &str, code: &str, param: Option<&str>, message: &str) {
    let error = bad(api, body);
    assert_eq!(error.to_string(), message, "{body}");
    assert_eq!((error.code(), error.param()), (code, param), "{body}");
}

/// A value that is not `expected`, in words.
fn assert_wrong_type(api: Api, body: &str, param: &str, expected: &str, found: &str) {
    let message = format!("`{param}` must be {expected}, but is {found}");
    assert_refused(api, body, "invalid_type", Some(param), &message);
}

#[test]
fn wrong_types_say_where_what_and_what_would_be_right() {
    let content = "a string, null or an array of parts";
    let part = "an object with a `type`, or a string";
    let messages = "an array of messages";
    for (body, param, expected, found) in [
        (r#"{"model": 5}"#, "model", "a string", "the number 5"),
        (
            r#"{"stream": 0}"#,
            "stream",
            "true or false",
            "the number 0",
        ),
        (r#"{"messages": null}"#, "messages", messages, "null"),
        (r#"{"messages": "hi"}"#, "messages", messages, "a string"),
        (
            r#"{"messages": [{}, 7]}"#,
            "messages[1]",
            "an object",
            "the number 7",
        ),
        (
            r#"{"messages": [{"role": []}]}"#,
            "messages[0].role",
            "a string",
            "an array",
        ),
        (
            r#"{"messages": [{}, {"content": {}}]}"#,
            "messages[1].content",
            content,
            "an object",
        ),
        (
            r#"{"messages": [{"content": ["a", true]}]}"#,
            "messages[0].content[1]",
            part,
            "a boolean",
        ),
        (
            r#"{"messages": [{"content": [{"text": -1}]}]}"#,
            "messages[0].content[0].text",
            "a string",
            "the number -1",
        ),
    ] {
        assert_wrong_type(Api::Chat, body, param, expected, found);
    }
    let input = "a string or an array of items";
    assert_wrong_type(
        Api::Responses,
        r#"{"input": 1}"#,
        "input",
        input,
        "the number 1",
    );
    let instructions = r#"{"instructions": ["x"]}"#;
    assert_wrong_type(
        Api::Responses,
        instructions,
        "instructions",
        "a string",
        "an array",
    );
}

#[test]
fn wrong_hints_are_errors() {
    let count = "a whole number of 0 to 4294967295";
    for (hint, json, expected, found) in [
        ("priority", r#""high""#, "a number", "a string"),
        ("strict_priority", "-1", count, "the number -1"),
        (
            "strict_priority",
            "4294967296",
            count,
            "the number 4294967296",
        ),
        ("policy_class", "{}", "a string", "an object"),
    ] {
        let body = format!(r#"{{"nvext": {{"agent_hints": {{"{hint}": {json}}}}}}}"#);
        let param = format!("nvext.agent_hints.{hint}");
        assert_wrong_type(Api::Chat, &body, &param, expected, found);
    }
    assert_wrong_type(
        Api::Chat,
        r#"{"nvext": []}"#,
        "nvext",
        "an object",
        "an array",
    );
    let hints = r#"{"nvext": {"agent_hints": 1.5}}"#;
    assert_wrong_type(
        Api::Chat,
        hints,
        "nvext.agent_hints",
        "an object",
        "the number 1.5",
    );
}

#[test]
fn wrong_elements_of_a_batch_are_named() {
    let refused = |json: &str, param: &str, found: &str| {
        let error = bad(Api::Completions, &format!(r#"{{"prompt": {json}}}"#));
        assert_eq!(
            (error.code(), error.param()),
            ("invalid_type", Some(param)),
            "{json}"
        );
        assert!(
            error.to_string().ends_with(&format!("but is {found}")),
            "{error}"
        );
    };
    refused("null", "prompt", "null");
    refused("{}", "prompt", "an object");
    refused("[1, 2.5]", "prompt[1]", "the number 2.5");
    refused("[1, -3]", "prompt[1]", "the number -3");
    refused("[4294967296]", "prompt[0]", "the number 4294967296");
    refused(r#"[1, "a"]"#, "prompt[1]", "a string");
    refused(r#"["a", 1]"#, "prompt[1]", "the number 1");
    refused("[1, [1]]", "prompt[1]", "an array");
    refused("[[1], 2]", "prompt[1]", "the number 2");
    refused("[[1], [2, [3]]]", "prompt[1][1]", "an array");
    refused("[null]", "prompt[0]", "null");
}

#[test]
fn a_missing_prompt_is_named_by_its_api() {
    let apis = [Api::Chat, Api::Completions, Api::Embeddings, Api::Responses];
    for (api, name) in apis
        .into_iter()
        .zip(["messages", "prompt", "input", "input"])
    {
        let error = bad(api, r#"{"model": "m", "other": 1}"#);
        assert_eq!(
            (error.code(), error.param()),
            ("missing_parameter", Some(name))
        );
        assert!(
            error
                .to_string()
                .starts_with(&format!("`{name}` is missing: it must be a"))
        );
    }
}

#[test]
fn empty_prompts_are_refused() {
    for (api, body, param) in [
        (Api::Chat, r#"{"messages": []}"#, "messages"),
        (Api::Completions, r#"{"prompt": []}"#, "prompt"),
        (Api::Embeddings, r#"{"input": [[1], []]}"#, "input[1]"),
        (Api::Responses, r#"{"input": []}"#, "input"),
    ] {
        assert_refused(
            api,
            body,
            "empty_array",
            Some(param),
            &format!("`{param}` must not be empty"),
        );
    }
}

#[test]
fn members_that_decide_are_given_once() {
    let model = r#"{"model": "a", "messages": [{}], "model": null}"#;
    let message = "`model` must be given once, but is given twice";
    assert_refused(
        Api::Chat,
        model,
        "duplicate_parameter",
        Some("model"),
        message,
    );
    let error = bad(Api::Completions, r#"{"prompt": "a", "prompt": "b"}"#);
    assert_eq!(
        (error.code(), error.param()),
        ("duplicate_parameter", Some("prompt"))
    );
}

#[test]
fn what_is_no_json_object_is_refused_with_its_place() {
    let message = "the body is not JSON: expected value at line 2, column 11";
    assert_refused(
        Api::Chat,
        "{\n \"model\": ?}",
        "invalid_json",
        None,
        message,
    );
    let message = "the body must be a JSON object, but is an array";
    assert_refused(Api::Chat, "[]", "invalid_type", None, message);
    for body in [
        "",
        "{",
        r#"{"messages": [{"content": "a"#,
        r#"{"messages": [{}]} x"#,
    ] {
        assert_eq!(bad(Api::Chat, body).code(), "invalid_json", "{body}");
    }
    let error = read(Api::Chat, b"{\"a\": 1,\n \"b\": \"\xc3\"}").expect_err("it is cut");
    assert_eq!(error, BodyError::NotUtf8 { line: 2, column: 8 });
    assert_eq!((error.code(), error.param()), ("invalid_json", None));
}
