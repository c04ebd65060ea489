//! Traces of every format, right and wrong.

use super::*;

fn parse(text: &[u8]) -> Result<Trace, String> {
    parse_with(text, &ReadOptions::default())
}

fn parse_with(text: &[u8], options: &ReadOptions) -> Result<Trace, String> {
    read(text, "t.csv", options).map_err(|error| error.to_string())
}

fn tokens(trace: &Trace) -> Vec<(u64, u32, u32)> {
    let row = |row: &TraceRow| (row.at.as_micros(), row.prompt_tokens, row.output_tokens);
    trace.rows.iter().map(row).collect()
}

#[test]
fn a_file_with_and_without_header_reads_the_same() {
    let body = "2023-11-16 18:17:03.5,10,1\n2023-11-16 18:17:04.0,20,2\n";
    let bare = parse(body.as_bytes()).expect("no header");
    assert_eq!(tokens(&bare), [(0, 10, 1), (500_000, 20, 2)]);
    let headed = format!("TIMESTAMP,ContextTokens,GeneratedTokens\r\n\r\n{body}");
    assert_eq!(parse(headed.as_bytes()), Ok(bare));
}

#[test]
fn a_header_may_order_and_add_columns_and_quote_fields() {
    let text = "Model,GeneratedTokens,TIMESTAMP,ContextTokens\n\
                m,7,\"2024-05-10 00:00:00+00:00\",\" 5\"\n";
    assert!(
        parse(text.as_bytes()).is_err(),
        "a blank inside quotes is no digit"
    );
    let text = text.replace("\" 5\"", " \"5\" ");
    assert_eq!(tokens(&parse(text.as_bytes()).expect("a row")), [(0, 5, 7)]);
}

#[test]
fn time_that_goes_backwards_is_sorted_and_told() {
    let text = "2023-11-16 18:17:05,1,1\n2023-11-16 18:17:04,2,1\n\
                2023-11-16 18:17:05,3,1\n2023-11-16 18:17:04.5,4,1\n";
    let trace = parse(text.as_bytes()).expect("rows");
    let order: Vec<u32> = trace.rows.iter().map(|row| row.prompt_tokens).collect();
    assert_eq!(order, [2, 4, 1, 3]);
    assert_eq!(trace.rows[0].at, Nanos(0));
    assert_eq!(
        trace.unsorted,
        Some(Unsorted {
            first_line: 2,
            rows: 2
        })
    );
}

#[test]
fn the_limit_stops_before_what_follows() {
    let text = "2023-11-16 18:17:03,10,1\nnonsense\n";
    let options = ReadOptions {
        limit: Some(1),
        ..ReadOptions::default()
    };
    let trace = parse_with(text.as_bytes(), &options).expect("one row");
    assert_eq!(trace.rows.len(), 1);
}

#[test]
fn every_wrong_line_is_named() {
    let good = "2023-11-16 18:17:03,10,1\n";
    for (line, wanted) in [
        ("2023-11-16 18:17:03,10", "3 fields expected, 2 found"),
        ("2023-11-16 18:17:03,10,1,9", "3 fields expected, 4 found"),
        (
            "2023-11-16 18:17:03,-5,1",
            "ContextTokens must be a whole number",
        ),
        (
            "2023-11-16 18:17:03,NaN,1",
            "ContextTokens must be a whole number",
        ),
        (
            "2023-11-16 18:17:03,1.5,1",
            "ContextTokens must be a whole number",
        ),
        ("2023-11-16 18:17:03,4294967296,1", "not \"4294967296\""),
        (
            "2023-11-16 18:17:03,1,",
            "GeneratedTokens must be a whole number",
        ),
        (
            "2023-11-16 18:17:03,1,1e400",
            "GeneratedTokens must be a whole number",
        ),
        (
            "yesterday,1,1",
            "TIMESTAMP: \"yesterday\" is not a time stamp",
        ),
        (",1,1", "TIMESTAMP: \"\" is not a time stamp"),
    ] {
        let error = parse(format!("{good}{line}\n").as_bytes()).expect_err(line);
        assert!(
            error.starts_with("t.csv:2: ") && error.contains(wanted),
            "{line}: {error}"
        );
    }
}

#[test]
fn what_is_no_trace_at_all_is_refused() {
    for text in ["", "\n\n", "TIMESTAMP,ContextTokens,GeneratedTokens\n"] {
        let error = parse(text.as_bytes()).expect_err("no requests");
        assert!(error.starts_with("t.csv: no requests"), "{error}");
    }
    let missing = parse(b"TIMESTAMP,ContextTokens\n2023-11-16 18:17:03,10\n");
    assert!(missing.is_err_and(|error| error.contains("no column GeneratedTokens")));
    let binary = parse(b"2023-11-16 18:17:03,10,1\n2023\xff\xfe,1,1\n");
    assert_eq!(binary, Err("t.csv:2: not UTF-8 text".to_owned()));
    let mut endless = b"2023-11-16 18:17:03,10,1\n".to_vec();
    endless.resize(1 << 22, b'[');
    let endless = parse(&endless).expect_err("a long line");
    assert_eq!(endless, "t.csv:2: the line is longer than 1048576 bytes");
}

#[test]
fn mooncake_rows_bring_the_blocks_of_their_prompts() {
    let text = r#"{"timestamp": 1000, "input_length": 1025, "output_length": 5, "hash_ids": [0, 17, 3]}
{"timestamp": 1000.25, "input_length": 512, "output_length": 0, "hash_ids": [0], "more": null}
{"input_length": 0, "timestamp": 1001, "output_length": 9, "hash_ids": []}"#;
    let trace = parse(text.as_bytes()).expect("three rows");
    assert_eq!(
        tokens(&trace),
        [(0, 1_025, 5), (250, 512, 0), (1_000, 0, 9)]
    );
    let blocks: Vec<&[u64]> = (trace.rows.iter().map(|row| trace.blocks_of(row.blocks))).collect();
    assert_eq!(blocks, [&[0, 17, 3][..], &[0], &[]]);
}

#[test]
fn a_wrong_mooncake_row_is_named() {
    let good = r#"{"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": [9]}"#;
    for (row, wanted) in [
        (
            r#"{"timestamp": 0, "input_length": 5}"#,
            "missing field `output_length`",
        ),
        (
            r#"{"timestamp": -1, "input_length": 5, "output_length": 1, "hash_ids": []}"#,
            "timestamp must be",
        ),
        (
            r#"{"timestamp": 1e300, "input_length": 5, "output_length": 1, "hash_ids": []}"#,
            "timestamp must be",
        ),
        (
            r#"{"timestamp": "0", "input_length": 5, "output_length": 1, "hash_ids": []}"#,
            "invalid type: string",
        ),
        (
            r#"{"timestamp": NaN, "input_length": 5, "output_length": 1, "hash_ids": []}"#,
            "expected value, at column",
        ),
        (
            r#"{"timestamp": 0, "input_length": -5, "output_length": 1, "hash_ids": []}"#,
            "invalid value: integer `-5`",
        ),
        (
            r#"{"timestamp": 0, "input_length": 4294967296, "output_length": 1, "hash_ids": []}"#,
            "invalid value: integer `4294967296`",
        ),
        (
            r#"{"timestamp": 0, "input_length": 512, "output_length": 1, "hash_ids": [1, 2]}"#,
            "2 hash_ids for 512 prompt tokens",
        ),
        (
            r#"{"timestamp": 0, "input_length": 5, "output_le"#,
            "EOF while parsing a string, at column 46",
        ),
        ("nonsense", "a row is a JSON object: it begins with {"),
        ("[0, 5, 1, [9]]", "a row is a JSON object"),
    ] {
        let error = parse(format!("{good}\n{row}\n").as_bytes()).expect_err(row);
        assert!(
            error.starts_with("t.csv:2: ") && error.contains(wanted),
            "{row}: {error}"
        );
    }
}

#[test]
fn tollgate_rows_bring_everything_and_are_written_as_they_are_read() {
    let text = r#"{"arrival_ns":7,"isl":10,"output":1}
{"arrival_ns":8,"family":"chat","isl":1030,"cached":512,"output":5,"pin":3,"tier":2,"deadline_ns":108}
{"arrival_ns":9,"family":"chat","isl":1,"output":5,"deadline_ns":1}
"#;
    let trace = parse(text.as_bytes()).expect("three rows");
    assert_eq!(trace.families, ["chat"]);
    let row = trace.rows[1];
    assert_eq!(
        (row.at, row.cached_tokens, row.family),
        (Nanos(1), 512, Some(0))
    );
    assert_eq!(
        (row.pin, row.tier, row.patience),
        (Some(3), 2, Some(Nanos(100)))
    );
    assert_eq!(
        trace.rows[2].patience,
        Some(Nanos(0)),
        "it expired before it came"
    );
    let again: String = text
        .lines()
        .map(|line| {
            serde_json::from_str::<native::Record>(line)
                .expect("a record")
                .line()
        })
        .collect();
    assert_eq!(again, text);
    let wrong = parse(br#"{"arrival_ns":7,"isl":10,"cached":11,"output":1}"#);
    assert!(wrong.is_err_and(|error| error == "t.csv:1: cached must be at most isl, 10, not 11"));
    let wrong = parse(br#"{"arrival_ns":7,"isl":10,"output":1,"tire":1}"#);
    assert!(wrong.is_err_and(|error| error.starts_with("t.csv:1: unknown field `tire`")));
}

#[test]
fn a_format_that_is_named_is_not_guessed() {
    let text = br#"{"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": [9]}"#;
    for format in Format::ALL {
        let options = ReadOptions {
            format: Some(format),
            ..ReadOptions::default()
        };
        let read = parse_with(text, &options);
        assert_eq!(
            read.is_ok(),
            format == Format::Mooncake,
            "{format}: {read:?}"
        );
    }
}

#[test]
fn wrong_lines_are_left_out_and_counted_where_that_is_asked() {
    let skip_bad = ReadOptions {
        skip_bad: true,
        ..ReadOptions::default()
    };
    let text =
        "2023-11-16 18:17:03,10,1\nnonsense\n2023-11-16 18:17:04,20,x\n2023-11-16 18:17:05,30,3\n";
    let trace = parse_with(text.as_bytes(), &skip_bad).expect("two rows");
    assert_eq!(trace.rows.len(), 2);
    let skipped = trace.skipped.expect("two lines");
    assert_eq!((skipped.first_line, skipped.lines), (2, 2));
    assert_eq!(skipped.message, "3 fields expected, 1 found");
    // A header that lacks a column leaves every line without meaning.
    let headed = parse_with(b"TIMESTAMP,Context\n2023-11-16 18:17:03,10,1\n", &skip_bad);
    assert!(headed.is_err_and(|error| error.starts_with("t.csv:1: the header names no column")));
    let nothing = parse_with(b"{\n}\n", &skip_bad).expect_err("no row");
    assert!(
        nothing.starts_with("t.csv: no requests: all 2 lines are wrong; line 1: "),
        "{nothing}"
    );
}

#[test]
fn a_column_tells_rows_apart() {
    let key = |key: &str| ReadOptions {
        key: Some(key.to_owned()),
        ..ReadOptions::default()
    };
    let text = b"TIMESTAMP,ContextTokens,GeneratedTokens,user\n2023-11-16 18:17:03,10,1,ann\n\
                 2023-11-16 18:17:03,10,1,bob\n2023-11-16 18:17:03,20,1,ann\n";
    let trace = parse_with(text, &key("user")).expect("three rows");
    let keys: Vec<u64> = trace.rows.iter().map(|row| row.key).collect();
    assert!(keys[0] == keys[2] && keys[0] != keys[1]);
    let missing = parse_with(text, &key("tenant"));
    assert_eq!(
        missing,
        Err("t.csv:1: there is no column \"tenant\"; there are \
             TIMESTAMP,ContextTokens,GeneratedTokens,user"
            .to_owned())
    );
}
