//! Behaviour of the splitter.

use proptest::prelude::*;

use super::*;

/// A stream in such pieces: all bytes that were passed on, those that never were, and all that was seen.
fn through<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<u8>, Bytes, Seen) {
    let mut frames = SseFrames::new();
    let (mut passed, mut seen) = (Vec::new(), Seen::default());
    for piece in pieces {
        let chunk = frames.push(Bytes::copy_from_slice(piece));
        passed.extend_from_slice(&chunk.bytes);
        seen.merge(chunk.seen);
        assert!(frames.held.len() <= FRAME_MAX);
    }
    (passed, frames.rest(), seen)
}

fn seen_in(stream: &str) -> Seen {
    through([stream.as_bytes()]).2
}

fn events(count: u64) -> Seen {
    Seen {
        data_events: count,
        ..Seen::default()
    }
}

#[test]
fn whole_events_pass_and_the_beginning_of_one_is_held_back() {
    let mut frames = SseFrames::new();
    let first = frames.push(Bytes::from_static(b"data: {}\n\ndata: {\"a\""));
    assert_eq!(first.bytes, "data: {}\n\n");
    assert_eq!(first.seen, events(1));
    let second = frames.push(Bytes::from_static(b":1}\n"));
    assert_eq!((second.bytes.len(), second.seen), (0, events(0)));
    let third = frames.push(Bytes::from_static(b"\n: ping\n\ndata: [DO"));
    assert_eq!(third.bytes, "data: {\"a\":1}\n\n: ping\n\n");
    assert_eq!(third.seen, events(1));
    assert_eq!(frames.rest(), "data: [DO");
}

#[test]
fn events_that_come_whole_are_not_copied() {
    let mut frames = SseFrames::new();
    let bytes = Bytes::from(b"data: {}\n\ndata: {}\n\ndata: ".to_vec());
    let chunk = frames.push(bytes.clone());
    assert_eq!(chunk.bytes.as_ptr(), bytes.as_ptr());
    assert_eq!((chunk.bytes.len(), chunk.seen), (20, events(2)));
}

#[test]
fn all_three_ends_of_lines_end_events() {
    for end in ["\n", "\r\n", "\r"] {
        let stream = format!("data: {{}}{end}{end}: c{end}data: {{}}{end}id: 4{end}{end}");
        let (passed, rest, seen) = through([stream.as_bytes()]);
        assert_eq!(passed, stream.as_bytes(), "{end:?}");
        assert!(rest.is_empty(), "{end:?}");
        assert_eq!(seen, events(2), "{end:?}");
    }
}

#[test]
fn a_line_feed_that_comes_late_belongs_to_the_event_before() {
    let mut frames = SseFrames::new();
    assert_eq!(
        frames.push(Bytes::from_static(b"data: {}\r\n\r")).bytes,
        "data: {}\r\n\r"
    );
    assert_eq!(frames.push(Bytes::from_static(b"\n")).bytes, "\n");
    let chunk = frames.push(Bytes::from_static(b"data: {}\r"));
    assert!(chunk.bytes.is_empty());
    let chunk = frames.push(Bytes::from_static(b"\n"));
    assert!(
        chunk.bytes.is_empty(),
        "the end of a line, not of the event"
    );
    let chunk = frames.push(Bytes::from_static(b"\r\n"));
    assert_eq!(
        (chunk.bytes, chunk.seen),
        (Bytes::from_static(b"data: {}\r\n\r\n"), events(1))
    );
}

#[test]
fn a_byte_order_mark_passes_and_does_not_hide_the_first_event() {
    let stream = "\u{feff}data: [DONE]\n\n";
    let (passed, _, seen) = through([stream.as_bytes()]);
    assert_eq!(passed, stream.as_bytes());
    assert!(seen.done);
}

#[test]
fn comments_and_events_without_data_count_as_nothing() {
    let stream = ": ping\n\n\n\nevent: note\n\nid: 3\nretry: 5\n\nnonsense\n\n";
    let (passed, _, seen) = through([stream.as_bytes()]);
    assert_eq!((passed.as_slice(), seen), (stream.as_bytes(), events(0)));
}

#[test]
fn ends_of_streams_are_seen() {
    assert!(seen_in("data: [DONE]\n\n").done);
    assert!(seen_in("data:[DONE]\n\n").done);
    assert!(!seen_in("data: {\"content\": \"[DONE]\"}\n\n").done);
    for stream in [
        "event: response.completed\ndata: {}\n\n",
        "data: {\"type\":\"response.completed\",\"response\":{}}\n\n",
        "data: {\"type\": \"response.incomplete\"}\n\n",
        "data: {\"type\": \"response.failed\"}\n\n",
    ] {
        assert!(seen_in(stream).response_ended, "{stream}");
    }
    for stream in [
        "event: response.created\ndata: {\"type\":\"response.created\"}\n\n",
        "data: {\"delta\":\"{\\\"type\\\":\\\"response.completed\\\"}\"}\n\n",
        "data: {\"type\":\"response.completed",
    ] {
        assert!(!seen_in(stream).response_ended, "{stream}");
    }
}

#[test]
fn a_finish_reason_is_seen_unless_it_is_null_or_text() {
    assert!(seen_in("data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n").finish_reason);
    assert!(!seen_in("data: {\"choices\":[{\"finish_reason\": null}]}\n\n").finish_reason);
    let text = "data: {\"choices\":[{\"delta\":{\"content\":\"\\\"finish_reason\\\": \"}}]}\n\n";
    assert!(!seen_in(text).finish_reason);
}

#[test]
fn the_last_usage_is_the_one_that_counts() {
    let chunk = |tokens| {
        format!("data: {{\"usage\":{{\"prompt_tokens\":9,\"completion_tokens\":{tokens}}}}}\n\n")
    };
    let stream = format!(
        "{}{}data: {{\"usage\":null}}\n\ndata: [DONE]\n\n",
        chunk(1),
        chunk(2)
    );
    let usage = seen_in(&stream).usage.expect("it is there");
    assert_eq!((usage.prompt_tokens, usage.completion_tokens), (9, 2));
}

#[test]
fn data_of_several_lines_is_one_text() {
    let seen = seen_in("data: {\"usage\":\ndata:  {\"prompt_tokens\":\ndata: 5}}\n\n");
    assert_eq!(seen.usage.map(|usage| usage.prompt_tokens), Some(5));
    assert_eq!((seen.data_events, seen.garbage), (1, false));
}

#[test]
fn data_that_looks_like_no_object_is_garbage() {
    for data in ["oops", "", "[1]", "<html>", "\"text\"", "DONE"] {
        assert!(seen_in(&format!("data: {data}\n\n")).garbage, "{data}");
    }
    assert!(!seen_in("data: {}\n\ndata:  {\"a\":1}\n\n: x\n\ndata: [DONE]\n\n").garbage);
}

#[test]
fn an_event_that_is_too_large_passes_unread_and_is_reported() {
    let large = format!("data: [DONE]{}\n\n", " ".repeat(FRAME_MAX));
    let stream = format!("data: {{}}\n\n{large}data: {{}}\n\n");
    let expected = Seen {
        oversized: true,
        ..events(2)
    };
    for size in [
        1_000,
        FRAME_MAX - 1,
        FRAME_MAX,
        FRAME_MAX + 20,
        stream.len(),
    ] {
        let (passed, rest, seen) = through(stream.as_bytes().chunks(size));
        assert!(
            passed == stream.as_bytes() && rest.is_empty(),
            "in pieces of {size}"
        );
        assert_eq!(seen, expected, "in pieces of {size}");
    }
}

#[test]
fn the_largest_event_is_read() {
    let frame = "data: [DONE]\n\n";
    let padding = " ".repeat(FRAME_MAX - frame.len());
    let stream = format!("data: [DONE]{padding}\n\n");
    assert_eq!(stream.len(), FRAME_MAX);
    for size in [5_000, stream.len()] {
        let (_, _, seen) = through(stream.as_bytes().chunks(size));
        assert!(seen.done && !seen.oversized, "in pieces of {size}");
    }
}

#[test]
fn an_event_that_never_ends_is_passed_on_as_it_comes() {
    let mut frames = SseFrames::new();
    let piece = Bytes::from(vec![b'x'; FRAME_MAX]);
    assert!(frames.push(piece.clone()).bytes.is_empty());
    let chunk = frames.push(piece.clone());
    assert_eq!(
        (chunk.bytes.len(), chunk.seen.oversized),
        (2 * FRAME_MAX, true)
    );
    let chunk = frames.push(piece);
    assert_eq!((chunk.bytes.len(), chunk.seen.oversized), (FRAME_MAX, true));
    assert!(frames.rest().is_empty());
}

#[test]
fn an_error_event_is_what_clients_of_its_api_raise() {
    let message = "the worker said \"no\"\nand left";
    let an_error = Seen {
        error: true,
        ..events(1)
    };
    for api in [Api::Chat, Api::Completions] {
        let event = error_event(api, message, "worker_lost");
        let data = event.strip_prefix(b"data: ").expect("data only");
        let json: serde_json::Value = serde_json::from_slice(data).expect("one line of JSON");
        assert_eq!(json["error"]["message"], message);
        assert_eq!(json["error"]["code"], "worker_lost");
        assert_eq!(json["error"]["type"], "server_error");
        assert!(json["error"]["param"].is_null());
        assert_eq!(through([&*event]).2, an_error);
    }
    let event = error_event(Api::Responses, message, "worker_lost");
    let data = event
        .strip_prefix(b"event: error\ndata: ")
        .expect("named and with data");
    let json: serde_json::Value = serde_json::from_slice(data).expect("one line of JSON");
    assert_eq!(
        (&json["type"], &json["code"]),
        (&"error".into(), &"worker_lost".into())
    );
    assert_eq!(
        (&json["message"], &json["error"]["message"]),
        (&message.into(), &message.into())
    );
    assert_eq!(through([&*event]).2, an_error);
}

#[test]
fn an_error_is_seen_unless_it_is_null_or_text() {
    assert!(seen_in("data: {\"error\":{\"message\":\"m\"}}\n\n").error);
    assert!(seen_in("event: error\ndata: {}\n\n").error);
    assert!(!seen_in("data: {\"error\": null}\n\n").error);
    assert!(!seen_in("data: {\"content\": \"\\\"error\\\": {}\"}\n\n").error);
    let garbage = through([&b"data: {\"content\": \"\xff\"}\n\n"[..]]).2;
    assert!(garbage.garbage, "it is not UTF-8");
}

/// Pieces of streams, right and wrong ones.
fn stream() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "data: {\"a\":1}",
        "data: [DONE]",
        "data",
        "event: response.completed",
        "data: {\"usage\":{\"prompt_tokens\":7}}",
        "{\"finish_reason\":\"stop\"}",
        ": ping",
        "\u{feff}",
        "é",
        "x",
        "\n",
        "\n\n",
        "\r\n",
        "\r\n\r\n",
        "\r",
        "\r\r",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn how_a_stream_is_cut_makes_no_difference(
        stream in stream(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let bytes = stream.as_bytes();
        let mut ends: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        ends.push(bytes.len());
        ends.sort_unstable();
        let mut start = 0;
        let pieces = ends.iter().map(|&end| &bytes[std::mem::replace(&mut start, end)..end]);
        let (passed, rest, seen) = through(pieces);
        let (whole_passed, whole_rest, whole_seen) = through([bytes]);
        prop_assert_eq!(&passed, &whole_passed);
        prop_assert_eq!(&rest, &whole_rest);
        prop_assert_eq!(seen, whole_seen);
        prop_assert_eq!([&passed[..], &rest[..]].concat(), bytes);
    }

    #[test]
    fn single_bytes_are_as_good_as_the_whole(stream in stream()) {
        let whole = through([stream.as_bytes()]);
        prop_assert_eq!(through(stream.as_bytes().chunks(1)), whole);
    }
}
