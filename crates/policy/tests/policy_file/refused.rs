//! Files that are refused: which error, and where it points.

use crate::common::{all_errors, one_class, only_error, profile, read, refused};
use tollgate_policy::PolicyFile;
use tollgate_policy::error::ERRORS_MAX;
use tollgate_policy::file::FILE_BYTES_MAX;

const ALL: [&str; 1] = ["{min_tokens: 0, bucket: all}"];
const C: &str = "{name: c, policy_family: c, cache_bucket: all, quantum: 1}";

#[test]
fn s3_2_a_number_that_is_none_is_refused_where_it_stands() {
    for (value, message) in [
        ("0", "0 is no quantum"),
        ("-1", "`-1` is negative"),
        ("1e30", "`1e30` is not a whole number written in digits"),
        ("ten", "`ten` is not a whole number written in digits"),
        ("1.0", "`1.0` is not a whole number written in digits"),
        ("1_000", "`1_000` is not a whole number written in digits"),
        ("010", "`010` is not clear, with a zero in front"),
        ("9223372036854775809", "9223372036854775809 is no quantum"),
        (
            "18446744073709551616",
            "`18446744073709551616` is too large",
        ),
        ("true", "`true` is not a whole number written in digits"),
        ("\"5\"", "the quoted text `5` is not a number"),
        ("[5]", "a list is not a whole number"),
        ("{a: 5}", "a mapping is not a whole number"),
    ] {
        let error = only_error(&one_class(&format!("quantum: {value}")));
        assert_eq!(
            error,
            format!("8:12 policy_classes[0].quantum: {message}"),
            "{value}"
        );
    }
    for key in [
        "prefill_busy_threshold",
        "request_queue_limit_per_worker",
        "raw_isl_token_queue_limit_per_worker",
        "cached_token_queue_limit_per_worker",
        "queue_timeout_ms",
    ] {
        let error = only_error(&one_class(&format!("quantum: 1\n{key}: -5")));
        assert!(
            error.ends_with(&format!("policy_classes[0].{key}: `-5` is negative")),
            "{error}"
        );
    }
}

#[test]
fn s3_2_a_fraction_that_is_none_is_refused() {
    for (value, message) in [
        ("-0.1", "`-0.1` is negative"),
        (".nan", "`.nan` is not a finite number"),
        (".inf", "`.inf` is not a finite number"),
        ("-.inf", "`-.inf` is not a finite number"),
        ("half", "`half` is not a decimal number"),
        ("'0.5'", "the quoted text `0.5` is not a number"),
        ("1e400", "`1e400` is larger than 18446744073709551615"),
        (
            "0.12345678901234567890123",
            "`0.12345678901234567890123` is written with 23 significant digits, more than 19",
        ),
    ] {
        let error = only_error(&one_class(&format!(
            "quantum: 1\nprefill_busy_threshold_frac: {value}"
        )));
        let expected = format!("9:32 policy_classes[0].prefill_busy_threshold_frac: {message}");
        assert_eq!(error, expected, "{value}");
    }
}

#[test]
fn s3_2_a_ratio_lies_above_0_up_to_1_and_needs_a_threshold() {
    let path = "policy_classes[0].busy_worker_ratio";
    for value in ["0", "0.0", "1.0000000001", "2"] {
        let text = one_class(&format!(
            "quantum: 1\nprefill_busy_threshold: 1\nbusy_worker_ratio: {value}"
        ));
        let error = only_error(&text);
        assert!(error.starts_with(&format!("10:22 {path}: ")), "{error}");
        assert!(error.ends_with("is no share of the workers"), "{error}");
    }
    let error = only_error(&one_class("quantum: 1\nbusy_worker_ratio: 0.5"));
    assert!(
        error.starts_with(&format!("9:22 {path}: a ratio of busy workers, but")),
        "{error}"
    );
    // A threshold that cannot be read is a threshold all the same.
    let text = one_class("quantum: 1\nprefill_busy_threshold_frac: x\nbusy_worker_ratio: 1");
    assert!(only_error(&text).contains("prefill_busy_threshold_frac"));
}

#[test]
fn s3_2_unknown_choices_list_the_known_ones() {
    let errors =
        refused(&(one_class("quantum: 1\nqueue_policy: fifo") + "selector: leastloaded\n"));
    let [order, selector] = errors.errors() else {
        panic!("{errors}")
    };
    assert_eq!(order.message(), "`fifo` is not one of the known names");
    assert_eq!(order.remedy(), "write one of fcfs, wspt, lcfs, edf");
    assert!(
        selector
            .remedy()
            .starts_with("did you mean `least_loaded`?"),
        "{selector}"
    );
    for (line, path) in [
        ("arbitration: Exact", "arbitration"),
        ("overload_action: drop", "overload_action"),
        ("decode_weight: 0.5", "decode_weight"),
        ("max_attempts: 0", "max_attempts"),
        ("max_attempts: 256", "max_attempts"),
    ] {
        let error = only_error(&(one_class("quantum: 1") + line));
        assert!(error.contains(&format!(" {path}: ")), "{error}");
    }
}

#[test]
fn s3_2_unknown_keys_come_with_a_guess() {
    for (text, key, remedy) in [
        (
            one_class("quantum: 1\nquantom: 2"),
            "quantom",
            "did you mean `quantum`?",
        ),
        (
            one_class("quantum: 1\narbitration: page"),
            "arbitration",
            "move it: this key belongs to the root of the file",
        ),
        (
            one_class("quantum: 1") + "model: {}",
            "model",
            "did you mean `models`?",
        ),
        (
            one_class("quantum: 1") + "quantum: 2",
            "quantum",
            "move it: this key belongs to a class",
        ),
        (
            one_class("quantum: 1\nweight: 2"),
            "weight",
            "remove it; the keys here are name, ",
        ),
        (
            one_class("quantum: 1\nQuantum: 2"),
            "Quantum",
            "did you mean `quantum`?",
        ),
    ] {
        let errors = refused(&text);
        let [error] = errors.errors() else {
            panic!("{errors}")
        };
        assert!(
            error.message().ends_with(&format!("has no key `{key}`")),
            "{error}"
        );
        assert!(error.remedy().starts_with(remedy), "{error}");
    }
    let error = only_error(&profile(&["{min_tokens: 0, bucket: all, name: x}"], &[C]));
    assert_eq!(
        error,
        "3:32 uncached_isl_buckets[0].name: a bucket has no key `name`"
    );
}

#[test]
fn s3_2_a_repeated_key_is_refused_anywhere() {
    let error = only_error(&one_class("quantum: 1\nquantum: 2"));
    assert_eq!(
        error,
        "9:3 policy_classes[0]: the key `quantum` stands here a second time"
    );
    let text = one_class("quantum: 1") + "router: {a: {b: 1, b: 2}}\n";
    assert!(only_error(&text).contains("router.a: the key `b`"));
    let text = one_class("quantum: 1") + "policy_classes: []\n";
    assert!(only_error(&text).contains("the key `policy_classes`"));
    let model = "default_policy_family: c, uncached_isl_buckets: [{min_tokens: 0, bucket: b}], \
                 policy_classes: [{name: c, policy_family: c, cache_bucket: b, quantum: 1}]";
    let error = only_error(&format!("models:\n  m: {{{model}}}\n  m: {{{model}}}\n"));
    assert_eq!(error, "3:3 models: the key `m` stands here a second time");
}

#[test]
fn s3_2_floors_start_at_0_and_rise() {
    let error_of = |floors: &[&str]| {
        let bucket = |(i, floor)| format!("{{min_tokens: {floor}, bucket: b{i}}}");
        let class = |i| format!("{{name: c{i}, policy_family: c, cache_bucket: b{i}, quantum: 1}}");
        let buckets: Vec<String> = floors.iter().enumerate().map(bucket).collect();
        let classes: Vec<String> = (0..floors.len()).map(class).collect();
        only_error(&profile(&buckets, &classes))
    };
    let path = |index: usize| format!("uncached_isl_buckets[{index}].min_tokens");
    assert_eq!(
        error_of(&["1"]),
        format!("3:16 {}: the first bucket begins at 1", path(0))
    );
    for (floors, before) in [(["0", "5", "5"], 5), (["0", "5", "4"], 5)] {
        let expected = format!(
            "5:16 {}: {} does not rise above the {before} of the bucket before",
            path(2),
            floors[2]
        );
        assert_eq!(error_of(&floors), expected);
    }
    assert!(error_of(&["0", "-5"]).ends_with("`-5` is negative"));
}

#[test]
fn s3_2_names_are_plain_and_unique() {
    for name in [
        "\"a b\"",
        "a/b",
        "\u{e9}",
        "\"\"",
        "\"a\\u202eb\"",
        "\"\\0\"",
    ] {
        let error = only_error(&profile(
            &ALL,
            &[C, &format!("{{name: {name}, quantum: 1}}")],
        ));
        assert!(
            error.starts_with("6:10 policy_classes[1].name: "),
            "{error}"
        );
        assert!(error.ends_with("is not a name for a class"), "{error}");
    }
    for name in ["_", ".", "-", "a.b_c-D9"] {
        read(&profile(
            &ALL,
            &[C, &format!("{{name: \"{name}\", quantum: 1}}")],
        ));
    }
    let error = only_error(&profile(
        &ALL,
        &[C, "{name: d, quantum: 1}", "{name: d, quantum: 1}"],
    ));
    assert_eq!(
        error,
        "7:10 policy_classes[2].name: `d` is already the name of policy_classes[1]"
    );
    let buckets = [ALL[0], "{min_tokens: 9, bucket: all}"];
    assert_eq!(
        only_error(&profile(&buckets, &[C])),
        "4:27 uncached_isl_buckets[1].bucket: `all` is already the name of uncached_isl_buckets[0]"
    );
    let family = "{name: d, policy_family: x/y, cache_bucket: all, quantum: 1}";
    let error = only_error(&profile(&ALL, &[C, family]));
    assert_eq!(
        error,
        "6:28 policy_classes[1].policy_family: `x/y` is not a name for a family"
    );
}

#[test]
fn s3_2_families_and_buckets_come_in_pairs_with_one_class_each() {
    let error = only_error(&profile(
        &ALL,
        &[C, "{name: d, policy_family: c, quantum: 1}"],
    ));
    assert_eq!(
        error,
        "6:13 policy_classes[1].cache_bucket: a class with `policy_family` and without `cache_bucket`"
    );
    let error = only_error(&profile(
        &ALL,
        &[C, "{name: d, cache_bucket: all, quantum: 1}"],
    ));
    assert_eq!(
        error,
        "6:13 policy_classes[1].policy_family: a class with `cache_bucket` and without `policy_family`"
    );
    let twice = "{name: d, policy_family: c, cache_bucket: all, quantum: 1}";
    let error = only_error(&profile(&ALL, &[C, twice]));
    assert_eq!(
        error,
        "6:45 policy_classes[1].cache_bucket: the family `c` and the bucket `all` have a class \
         already, policy_classes[0]"
    );
    let unknown = "{name: d, policy_family: c, cache_bucket: al, quantum: 1}";
    let error = only_error(&profile(&ALL, &[C, unknown]));
    assert_eq!(
        error,
        "6:45 policy_classes[1].cache_bucket: there is no bucket `al`"
    );
    let two = [
        "{min_tokens: 0, bucket: all}",
        "{min_tokens: 9, bucket: long}",
    ];
    let error = only_error(&profile(&two, &[C]));
    assert_eq!(
        error,
        "6:28 policy_classes[0].policy_family: the family `c` has no class for the bucket `long`"
    );
}

#[test]
fn s3_2_the_default_family_has_classes_and_no_class_is_called_like_a_family() {
    let text = profile(&ALL, &["{name: d, quantum: 1}"]);
    let error = only_error(&text);
    assert_eq!(
        error,
        "1:24 default_policy_family: no class belongs to the family `c`"
    );
    let text = profile(&ALL, &[&C.replace("policy_family: c", "policy_family: d")]);
    assert!(refused(&text).errors()[0].remedy().contains("`d`"));
    let other = "{name: e, policy_family: d, cache_bucket: all, quantum: 1}";
    let error = only_error(&profile(&ALL, &[C, other, "{name: d, quantum: 1}"]));
    assert_eq!(
        error,
        "7:10 policy_classes[2].name: the explicit class `d` is called like the family of \
         policy_classes[1]"
    );
}

#[test]
fn s3_2_what_has_to_be_there_is_missed() {
    for (class, path) in [
        ("{policy_family: d, cache_bucket: all, quantum: 1}", "name"),
        ("{name: d}", "quantum"),
        ("{name: d, quantum: ~}", "quantum"),
    ] {
        let error = only_error(&profile(&ALL, &[C, class]));
        assert!(
            error.contains(&format!("policy_classes[1].{path}: `{path}` is missing")),
            "{error}"
        );
    }
    let error = only_error(&profile(&["{min_tokens: 0}"], &[C]));
    assert_eq!(
        error,
        "3:3 uncached_isl_buckets[0].bucket: `bucket` is missing"
    );
    let error = only_error(&profile(&["{bucket: all}"], &[C]));
    assert_eq!(
        error,
        "3:3 uncached_isl_buckets[0].min_tokens: `min_tokens` is missing"
    );
    assert!(
        all_errors(&profile::<&str, _>(&[], &[C]))
            .iter()
            .any(|error| error.ends_with("no buckets"))
    );
    assert!(
        all_errors(&profile::<_, &str>(&ALL, &[]))
            .iter()
            .any(|error| error.ends_with("no classes"))
    );
}

#[test]
fn s3_2_one_or_two_of_the_three_root_keys_are_an_error() {
    let whole = profile(&ALL, &[C]);
    for key in [
        "default_policy_family",
        "uncached_isl_buckets",
        "policy_classes",
    ] {
        let text = whole.replace(key, "router");
        let error = only_error(&text);
        assert!(error.ends_with(&format!("`{key}` is missing")), "{error}");
    }
    let error = only_error("default_policy_family: c\npolicy_classes:\n");
    assert_eq!(
        error,
        "1:1 : `uncached_isl_buckets`, `policy_classes` are missing"
    );
    let error = only_error("models:\n  m: {selector: cost}\n");
    assert!(
        error.starts_with("2:6 models.m: `default_policy_family`, "),
        "{error}"
    );
}

#[test]
fn s3_2_values_of_the_wrong_kind_are_refused() {
    for (text, error) in [
        ("policy_classes", "not a list"),
        ("uncached_isl_buckets", "not a list"),
        ("default_policy_family", "not a text"),
    ] {
        let mut lines = vec!["default_policy_family: c"];
        let buckets = format!("uncached_isl_buckets: [{}]", ALL[0]);
        let classes = format!("policy_classes: [{C}]");
        lines.extend([buckets.as_str(), classes.as_str()]);
        let broken = format!("{text}: {{a: b}}");
        for line in &mut lines {
            if line.starts_with(text) {
                *line = &broken;
            }
        }
        let found = only_error(&lines.join("\n"));
        assert!(
            found.ends_with(&format!("{text}: a mapping is {error}")),
            "{found}"
        );
    }
    for (text, error) in [
        ("[]", "1:1 : a list is not a mapping"),
        ("policy", "1:1 : `policy` is not a mapping"),
        ("models: 5", "1:9 models: `5` is not a mapping"),
        ("models: {m: []}", "1:13 models.m: a list is not a mapping"),
        ("models: {m: ~}", "1:10 models.m: a model without a profile"),
    ] {
        assert_eq!(only_error(text), error);
    }
    assert!(
        all_errors("models: {'': {}}")[0].starts_with("1:10 models[\"\"]: a model without a name")
    );
    let error = only_error(&profile(&ALL, &[C, "5"]));
    assert_eq!(error, "6:3 policy_classes[1]: `5` is not a mapping");
}

#[test]
fn s3_2_aliases_and_tags_are_refused_also_as_a_bomb() {
    let text = one_class("quantum: &q 1\nprefill_busy_threshold: *q\nqueue_timeout_ms: *nowhere");
    let errors = all_errors(&text);
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(errors[0].starts_with("9:27 policy_classes[0].prefill_busy_threshold: an alias"));
    assert!(errors[1].starts_with("10:21 policy_classes[0].queue_timeout_ms: an alias"));
    let error = only_error(&one_class("quantum: !!int 1"));
    assert!(
        error.starts_with("8:12 policy_classes[0].quantum: the tag `!!int`"),
        "{error}"
    );
    let merged = one_class("quantum: 1\n<<: *base");
    assert!(only_error(&merged).contains("an alias"));

    let mut bomb = String::from("router:\n  a0: &a0 [x, x]\n");
    for level in 1..60 {
        let before = level - 1;
        bomb.push_str(&format!("  a{level}: &a{level} [*a{before}, *a{before}]\n"));
    }
    let errors = refused(&bomb);
    assert_eq!(
        (errors.errors().len(), errors.omitted()),
        (ERRORS_MAX, 118 - ERRORS_MAX)
    );
}

#[test]
fn s3_2_what_is_no_yaml_text_is_refused() {
    let bytes = |bytes: &[u8]| {
        PolicyFile::parse("p", bytes)
            .expect_err("refused")
            .to_string()
    };
    for empty in [&b""[..], b"\n\n", b"# nothing\n", b"---\n", b"~"] {
        assert!(
            bytes(empty).starts_with("p: the file is empty"),
            "{empty:?}"
        );
    }
    assert!(
        bytes(b"a: b\nc\xff\xfe")
            .starts_with("p:2:2: not text: the byte 0xff is not UTF-8\n  2 | c")
    );
    assert!(bytes(b"\x7fELF\x02\x01\x01\0\0\0\xf8").contains("is not UTF-8"));
    assert!(bytes(b"\x7fELF\x02\x01\x01\0\0\0").starts_with("p:1:"));
    assert!(bytes(b"a: \0").contains("not valid YAML"));
    let syntax = only_error("default_policy_family: c\npolicy_classes: [1, 2\n");
    assert_eq!(syntax, "2:17 : not valid YAML: unclosed bracket '['");
    let errors = all_errors(&(one_class("quantum: 0") + "---\na: 1\n"));
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert_eq!(errors[1], "9:1 : a second document begins here");
    assert!(only_error("? [a]\n: 1\n").contains("a list or a mapping as a key"));
    let deep = format!("router: {}1{}", "[".repeat(70), "]".repeat(70));
    assert!(only_error(&deep).contains("recursion limit exceeded"));
}

#[test]
fn s3_2_a_file_over_one_mebibyte_is_refused_unread() {
    let text = one_class("quantum: 1");
    let filled = |size: usize| format!("{text}{}", "#".repeat(size - text.len()));
    read(&filled(FILE_BYTES_MAX));
    let error = only_error(&filled(FILE_BYTES_MAX + 1));
    assert_eq!(error, "- : the file is larger than 1048576 bytes");
    let brackets = "[".repeat(FILE_BYTES_MAX);
    assert!(only_error(&brackets).starts_with("1:65 : not valid YAML: recursion"));
}

#[test]
fn s3_2_every_error_of_a_file_is_reported_in_its_order() {
    let errors = all_errors(
        "default_policy_family: x\n\
         selector: best\n\
         uncached_isl_buckets:\n\
         - {min_tokens: 1, bucket: a a}\n\
         policy_classes:\n\
         - {name: c, policy_family: c, cache_bucket: b, quantum: 0}\n\
         - {name: c, quantom: 5}\n\
         models:\n  m: {policy_classes: 3}\n\
         extra: 1\n",
    );
    let paths: Vec<&str> = errors
        .iter()
        .map(|error| error.split([' ', ':']).nth(2).unwrap_or_default())
        .collect();
    assert_eq!(
        paths,
        [
            "default_policy_family",
            "selector",
            "uncached_isl_buckets[0].min_tokens",
            "uncached_isl_buckets[0].bucket",
            "policy_classes[0].cache_bucket",
            "policy_classes[0].quantum",
            "policy_classes[1].quantum",
            "policy_classes[1].name",
            "policy_classes[1].name",
            "policy_classes[1].quantom",
            "models.m",
            "models.m.policy_classes",
            "extra",
        ],
        "{errors:#?}"
    );
}

#[test]
fn s3_2_at_most_1024_classes_and_at_most_100_errors_listed() {
    let class = |i: usize| format!("{{name: x{i}, quantum: 1}}");
    let many = |count: usize| {
        let classes: Vec<String> = (0..count).map(class).collect();
        let mut refs = vec![C];
        refs.extend(classes.iter().map(String::as_str));
        profile(&ALL, &refs)
    };
    assert_eq!(read(&many(1_023)).profile(None).classes().len(), 1_024);
    let error = only_error(&many(1_024));
    assert_eq!(error, "4:1 policy_classes: 1025 classes, more than 1024");

    let mut text = profile(&ALL, &[C]);
    text.push_str(&"- {}\n".repeat(100_000));
    let errors = refused(&text);
    assert_eq!((errors.errors().len(), errors.omitted()), (100, 199_901));
    assert!(
        errors
            .to_string()
            .ends_with("p.yaml: 199901 more errors are not listed")
    );
}

#[test]
fn s3_2_an_error_reads_well() {
    assert_eq!(
        refused(&one_class(
            "quantum: 0\nrequest_queue_limit_per_worker: many"
        ))
        .to_string(),
        "p.yaml:8:12: policy_classes[0].quantum: 0 is no quantum\n  \
           8 |   quantum: 0\n    \
             |            ^\n  \
           help: write a whole number of tokens from 1 to 9223372036854775808\n\
         p.yaml:9:35: policy_classes[0].request_queue_limit_per_worker: `many` is not a whole \
         number written in digits\n  \
           9 |   request_queue_limit_per_worker: many\n    \
             |                                   ^\n  \
           help: write a whole number from 0 to 18446744073709551615"
    );
}
