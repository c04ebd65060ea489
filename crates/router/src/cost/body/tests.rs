//! Behaviour of the body reader.

mod refusals;
mod texts;

use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;

fn chat(body: &str) -> RequestBody {
    good(Api::Chat, body)
}

fn good(api: Api, body: &str) -> RequestBody {
    read(api, body.as_bytes()).unwrap_or_else(|error| panic!("{error}: {body:.200}"))
}

fn bad(api: Api, body: &str) -> BodyError {
    match read(api, body.as_bytes()) {
        Ok(read) => panic!("{read:?}: {body:.200}"),
        Err(error) => error,
    }
}

/// So many bytes of text without much repetition.
fn long(bytes: usize) -> String {
    let mut text = String::new();
    for word in 0.. {
        write!(text, "word {word}, ").expect("memory is there");
        if text.len() >= bytes {
            break;
        }
    }
    text.truncate(bytes);
    text
}

#[test]
fn a_chat_request_is_read_in_any_order_of_members() {
    let first = r#"{"model": "m", "stream": true, "messages": [
        {"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]}"#;
    let last = r#"{"messages": [{"content": "be brief", "role": "system"},
        {"content": "hi", "role": "user"}], "temperature": 0.5, "stream": true, "model": "m"}"#;
    let request = chat(first);
    assert_eq!(request.model.as_deref(), Some("m"));
    assert!(request.stream);
    let prompt = &request.prompt;
    assert_eq!((prompt.messages, prompt.text_bytes), (2, 10));
    assert_eq!((prompt.token_ids, prompt.media_parts), (0, 0));
    assert_eq!(chat(last), request);
}

#[test]
fn what_is_null_is_absent() {
    let request = chat(
        r#"{"model": null, "stream": null, "nvext": null, "tools": null,
            "messages": [{"role": "assistant", "content": null, "tool_calls": null}]}"#,
    );
    assert_eq!((request.model, request.stream), (None, false));
    assert_eq!(request.hints, AgentHints::default());
    assert_eq!(request.prompt.messages, 1);
    let empty = r#"{"nvext": {"agent_hints": {"priority": null, "strict_priority": null}}, "messages": [{}]}"#;
    assert_eq!(chat(empty).hints, AgentHints::default());
}

#[test]
fn hints_are_read_and_others_ignored() {
    let request = chat(
        r#"{"messages": [{}], "nvext": {"x": [1], "agent_hints": {"priority": -2.5, "osl": 7,
            "strict_priority": 3, "policy_class": "gold"}}}"#,
    );
    assert_eq!(request.hints.priority, Some(-2.5));
    assert_eq!(request.hints.strict_priority, Some(3));
    assert_eq!(request.hints.policy_class.as_deref(), Some("gold"));
    let whole = chat(r#"{"messages": [{}], "nvext": {"agent_hints": {"priority": 4}}}"#);
    assert_eq!(whole.hints.priority, Some(4.0));
}

#[test]
fn texts_count_without_their_escapes() {
    let prompt = chat(r#"{"messages": [{"content": "a\n\u00e9\ud83d\ude00"}]}"#).prompt;
    assert_eq!(prompt.text_bytes, 2 + 2 + 4);
    let plain = chat("{\"messages\": [{\"content\": \"a\\né😀\"}]}").prompt;
    assert_eq!(prompt, plain);
}

#[test]
fn parts_are_text_or_media() {
    let request = chat(
        r#"{"messages": [{"role": "user", "content": [{"type": "text", "text": "what"},
            {"image_url": {"url": "data:image/png;base64,AAAA"}, "type": "image_url"},
            {"type": "input_audio", "input_audio": {"data": "BB", "format": "wav"}},
            {"type": "refusal", "refusal": "no"}, "and", {"text": null, "type": "text"}]}]}"#,
    );
    assert_eq!(request.prompt.media_parts, 3);
    assert_eq!(request.prompt.text_bytes, 4 + 2 + 3);
    assert!(chat(r#"{"messages": [{"content": []}]}"#).prompt.text_bytes == 0);
}

#[test]
fn definitions_and_calls_of_tools_are_text() {
    let with = |members: &str| {
        chat(&format!(
            r#"{{"messages": [{{"content": "hi"{members}}}]}}"#
        ))
    };
    let calls = r#"[{"id":"c1","n":[1,-2.5,true,null,{}]}]"#;
    let called = with(&format!(r#", "tool_calls": {calls}"#));
    assert_eq!(called.prompt.text_bytes, 2 + calls.len() as u64);
    let first = format!(r#"{{"messages": [{{"tool_calls": {calls}, "content": "hi"}}]}}"#);
    assert_eq!(chat(&first), called, "the calls come before the content");
    let tools = r#"{"messages": [{"content": "hi"}], "tools": [{"type": "function"}]}"#;
    assert_eq!(chat(tools).prompt.text_bytes, 2 + 21);
}

#[test]
fn completions_and_embeddings_take_four_forms() {
    for api in [Api::Completions, Api::Embeddings] {
        let prompt = |json: &str| good(api, &format!(r#"{{"{}": {json}}}"#, api.prompt())).prompt;
        assert_eq!(prompt(r#""hello""#).text_bytes, 5);
        assert_eq!(prompt(r#"["hello", "you"]"#).text_bytes, 8);
        assert_eq!(prompt("[1, 0, 4294967295]").token_ids, 3);
        assert_eq!(prompt("[[1, 2], [3]]").token_ids, 3);
        assert_eq!(prompt(r#""hello""#), prompt(r#"["hello"]"#));
        assert_eq!(prompt("[1, 2]"), prompt("[[1, 2]]"));
        assert_eq!(prompt("[1, 2]").text_bytes, 0);
        assert_eq!(prompt(r#""""#).text_bytes, 0);
    }
}

#[test]
fn responses_take_a_string_or_items_and_instructions() {
    let one = good(
        Api::Responses,
        r#"{"input": "hi", "instructions": "be brief"}"#,
    );
    assert_eq!((one.prompt.messages, one.prompt.text_bytes), (1, 10));
    let items = r#"{"instructions": "be brief", "input": [{"type": "message", "role": "user",
        "content": [{"type": "input_text", "text": "hi"}]}]}"#;
    assert_eq!(good(Api::Responses, items), one);
    let tools = good(
        Api::Responses,
        r#"{"input": [{"type": "function_call", "name": "f", "call_id": "c", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "sunny"},
            {"type": "computer_call_output", "output": {"type": "screenshot", "image_url": "u"}},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}]}"#,
    );
    assert_eq!((tools.prompt.messages, tools.prompt.media_parts), (4, 1));
    assert_eq!(tools.prompt.text_bytes, 2 + 5 + 2);
    let null = good(Api::Responses, r#"{"input": "hi", "instructions": null}"#);
    assert_ne!(null.prompt, one.prompt);
}

#[test]
fn a_block_is_64_ids_or_256_bytes() {
    let ids = |count: u32| {
        let ids: Vec<_> = (0..count).map(|id| id.to_string()).collect();
        good(
            Api::Completions,
            &format!(r#"{{"prompt": [{}]}}"#, ids.join(",")),
        )
        .prompt
    };
    assert_eq!(ids(63).blocks.len(), 0);
    assert_eq!(ids(64).blocks.len(), 1);
    assert_eq!(ids(200).blocks.len(), 3);
    assert_eq!(ids(200).blocks[..2], ids(128).blocks);
    assert_eq!(ids(200).stream_bytes, 800);
    let text = |bytes| {
        good(
            Api::Completions,
            &format!(r#"{{"prompt": "{}"}}"#, long(bytes)),
        )
        .prompt
    };
    assert_eq!(text(255).blocks.len(), 0);
    assert_eq!(text(700).blocks.len(), 2);
    assert_eq!(text(700).blocks[..1], text(256).blocks);
}

#[test]
fn each_prompt_of_a_batch_of_ids_begins_a_block() {
    let ids = vec!["7"; 64].join(",");
    let batch = |first: &str| {
        good(
            Api::Completions,
            &format!(r#"{{"prompt": [[{first}], [{ids}]]}}"#),
        )
        .prompt
    };
    assert_eq!(batch("1,2,3").blocks.len(), 1);
    assert_ne!(batch("1,2,3").blocks, batch("1,2,4").blocks);
}

#[test]
fn conversations_share_the_blocks_of_their_beginning() {
    let say = |text: &str| format!(r#"{{"role": "user", "content": "{text}"}}"#);
    let talk = |messages: &[String]| {
        chat(&format!(r#"{{"messages": [{}]}}"#, messages.join(",")))
            .prompt
            .blocks
    };
    let (one, two) = (
        talk(&[say(&long(1_000))]),
        talk(&[say(&long(1_000)), say(&long(900))]),
    );
    assert_eq!(one.len(), 3);
    assert_eq!(two[..3], one);
    assert_eq!(two.len(), 7);
}

#[test]
fn what_differs_in_meaning_differs_in_blocks() {
    let text = long(300);
    let after = |head: &str| {
        let body = format!(r#"{{"messages": [{head}, {{"role": "user", "content": "{text}"}}]}}"#);
        chat(&body).prompt.blocks
    };
    let heads = [
        r#"{"role": "user", "content": "ab"}"#,
        r#"{"role": "system", "content": "ab"}"#,
        r#"{"role": "user", "name": "ab", "content": ""}"#,
        r#"{"role": "user", "content": "a"}, {"role": "user", "content": "b"}"#,
        r#"{"role": "user", "content": ["a", "b"]}"#,
        r#"{"role": "user", "content": [{"type": "image_url", "image_url": "a"}]}"#,
        r#"{"role": "user", "content": [{"type": "image_url", "image_url": "b"}]}"#,
        r#"{"role": "user", "tool_calls": ["ab"]}"#,
        r#"{"role": "user", "tool_calls": ["a", "b"]}"#,
        r#"{"role": "user", "tool_calls": [["a"], "b"]}"#,
        r#"{"role": "user", "tool_calls": [{"a": "b"}]}"#,
        r#"{"role": "user", "tool_calls": [1]}"#,
        r#"{"role": "user", "tool_calls": ["1"]}"#,
    ];
    let mut all: Vec<_> = heads.iter().map(|head| after(head)).collect();
    assert!(all.iter().all(|blocks| !blocks.is_empty()));
    all.sort();
    all.dedup();
    assert_eq!(all.len(), heads.len());
    let prompt = |api: Api| {
        good(api, &format!(r#"{{"{}": "{text}"}}"#, api.prompt()))
            .prompt
            .blocks
    };
    assert_ne!(prompt(Api::Completions), prompt(Api::Embeddings));
}

#[test]
fn tools_come_before_messages_wherever_they_stand() {
    let message = format!(r#""messages": [{{"content": "{}"}}]"#, long(600));
    let tools = format!(r#""tools": [{{"description": "{}"}}]"#, long(400));
    let before = chat(&format!("{{{tools}, {message}}}")).prompt;
    let after = chat(&format!("{{{message}, {tools}}}")).prompt;
    assert_eq!(before, after);
    let others = chat(&format!(r#"{{{tools}, "messages": [{{"content": "x"}}]}}"#)).prompt;
    assert_eq!(before.blocks[..1], others.blocks);
    let without = chat(&format!("{{{message}}}")).prompt;
    assert_ne!(without.blocks[0], before.blocks[0]);
}

#[test]
fn a_prompt_has_at_most_so_many_blocks() {
    let text = long((BLOCKS_MAX + 10) * BLOCK_BYTES);
    let prompt = chat(&format!(r#"{{"messages": [{{"content": "{text}"}}]}}"#)).prompt;
    assert_eq!(prompt.blocks.len(), BLOCKS_MAX);
    assert_eq!(prompt.text_bytes, text.len() as u64);
}

#[test]
fn depth_is_bounded() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let tools = |levels| format!(r#"{{"messages": [{{}}], "tools": {}}}"#, nested(levels));
    let calls = |levels| format!(r#"{{"messages": [{{"tool_calls": {}}}]}}"#, nested(levels));
    for body in [tools(100), calls(100)] {
        assert_eq!(chat(&body).prompt.messages, 1);
    }
    for body in [tools(200_000), calls(200_000)] {
        let error = bad(Api::Chat, &body);
        assert_eq!(error.code(), "invalid_json");
        assert!(error.to_string().contains("recursion limit"), "{error}");
    }
    let ignored = format!(r#"{{"other": {}, "messages": [{{}}]}}"#, nested(200_000));
    assert_eq!(chat(&ignored).prompt.messages, 1);
}

/// A conversation, and whether to spell each of its texts in the other ways.
fn conversation() -> impl Strategy<Value = Vec<(String, bool, bool, bool)>> {
    let text = prop_oneof!["[a-z\"\\\\\n é😀]{0,20}", "[a-z ]{200,400}"];
    prop::collection::vec((text, any::<bool>(), any::<bool>(), any::<bool>()), 1..6)
}

/// With every character as an escape.
fn escaped(text: &str) -> String {
    let units = text.encode_utf16().map(|unit| format!("\\u{unit:04x}"));
    format!("\"{}\"", units.collect::<String>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn equal_prompts_are_equal_however_they_are_spelled(talk in conversation()) {
        let (mut plain, mut other) = (Vec::new(), Vec::new());
        for (text, escapes, in_part, swaps) in &talk {
            let quoted = serde_json::to_string(text).expect("a string is JSON");
            plain.push(format!(r#"{{"role":"user","content":{quoted}}}"#));
            let text = if *escapes { escaped(text) } else { quoted };
            let content = if *in_part {
                format!("[ {{\"text\" : {text}, \"type\":\"text\"}} ]")
            } else {
                text
            };
            other.push(if *swaps {
                format!("{{\"content\": {content},\n\"role\": \"user\"}}")
            } else {
                format!(r#"{{"\u0072ole": "user", "x": 1, "content": {content}}}"#)
            });
        }
        let plain = chat(&format!(r#"{{"messages":[{}]}}"#, plain.join(",")));
        let other = chat(&format!(r#"{{"messages" : [ {} ]}}"#, other.join(" , ")));
        let bytes: usize = talk.iter().map(|(text, ..)| text.len()).sum();
        prop_assert_eq!(plain.prompt.text_bytes, bytes as u64);
        prop_assert_eq!(plain, other);
    }

    #[test]
    fn cut_and_damaged_bodies_are_refused_or_read_but_never_panic(
        which in 0_usize..4,
        cut in any::<prop::sample::Index>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let bodies = [
            r#"{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a\n"}],"tool_calls":[{"a":1}]}],"tools":[{"x":[1.5,null]}]}"#,
            r#"{"prompt":[[1,2,3],[4]],"nvext":{"agent_hints":{"priority":1,"policy_class":"p"}}}"#,
            r#"{"input":["a\u00e9","b"],"model":null,"stream":false}"#,
            r#"{"input":[{"role":"user","content":"é"},{"output":{"image_url":"u"}}],"instructions":"i"}"#,
        ];
        let api = [Api::Chat, Api::Completions, Api::Embeddings, Api::Responses][which];
        let mut body = bodies[which].as_bytes().to_vec();
        for (place, byte) in damage {
            let place = place.index(body.len());
            body[place] = byte;
        }
        if let Err(error) = read(api, &body) {
            prop_assert!(!error.to_string().is_empty());
        }
        body.truncate(cut.index(body.len()));
        prop_assert!(read(api, &body).is_err());
    }
}
