//! What a policy file says, rule by rule, and the profiles that come out.

use crate::common::{one_class, profile, read, refused};
use tollgate_policy::{
    Arbitration, Fraction, Matching, OrderPolicy, OverloadAction, PolicyFile, Profile, SelectorKind,
};

#[test]
fn s3_1_a_file_with_every_key_of_dynamo_loads_unchanged() {
    let file = read(
        r#"
default_policy_family: chat
uncached_isl_buckets:
  - min_tokens: 0
    bucket: cached
  - min_tokens: 3072
    bucket: uncached
policy_classes:
  - name: hot
    policy_family: chat
    cache_bucket: cached
    queue_policy: wspt
    quantum: 0x200
    prefill_busy_threshold: 1536
    prefill_busy_threshold_frac: 16.0
    request_queue_limit_per_worker: 0
    raw_isl_token_queue_limit_per_worker: +7
    cached_token_queue_limit_per_worker: ~
  - {name: "cold", policy_family: 'chat', cache_bucket: uncached, quantum: 5}
  - name: 42
    policy_family: null
    cache_bucket:
    quantum: 1
models:
  example/large-model:
    default_policy_family: all
    uncached_isl_buckets: [{min_tokens: 0, bucket: any}]
    policy_classes: [{name: all, policy_family: all, cache_bucket: any, quantum: 1}]
"#,
    );
    let root = file.root().expect("a root profile");
    assert_eq!(root.default_family(), Some("chat"));
    assert_eq!(
        root.buckets()
            .iter()
            .map(|bucket| bucket.min_tokens)
            .collect::<Vec<_>>(),
        [0, 3_072]
    );
    let hot = &root.classes()[0];
    assert_eq!(
        hot.matching,
        Matching::Matrix {
            family: "chat".into(),
            bucket: 0
        }
    );
    assert_eq!((hot.order, hot.quantum), (OrderPolicy::Wspt, 512));
    assert_eq!(hot.prefill_busy_threshold, Some(1_536));
    assert_eq!(hot.prefill_busy_threshold_frac, Some(Fraction::new(16, 0)));
    assert_eq!(hot.request_queue_limit_per_worker, Some(0));
    assert_eq!(hot.raw_isl_token_queue_limit_per_worker, Some(7));
    assert_eq!(hot.cached_token_queue_limit_per_worker, None);
    let cold = &root.classes()[1];
    assert_eq!((&*cold.name, cold.order), ("cold", OrderPolicy::Fcfs));
    let named_by_number = &root.classes()[2];
    assert_eq!(&*named_by_number.name, "42");
    assert_eq!(named_by_number.matching, Matching::Explicit);
    assert_eq!(
        file.models().map(|(name, _)| name).collect::<Vec<_>>(),
        ["example/large-model"]
    );
}

#[test]
fn s3_1_extensions_of_a_class_are_read() {
    let text = one_class(
        "quantum: 9223372036854775808\nqueue_policy: edf\nprefill_busy_threshold: 0\n\
         busy_worker_ratio: 0.5\nqueue_timeout_ms: 18446744073709551615",
    );
    let class = read(&text).profile(None).classes()[0].clone();
    assert_eq!((class.order, class.quantum), (OrderPolicy::Edf, 1 << 63));
    assert_eq!(class.prefill_busy_threshold, Some(0));
    assert_eq!(class.busy_worker_ratio, Some(Fraction::new(5, 1)));
    assert_eq!(class.queue_timeout_ms, Some(u64::MAX));
    let lcfs = read(&one_class("quantum: 1\nqueue_policy: lcfs"));
    assert_eq!(lcfs.profile(None).classes()[0].order, OrderPolicy::Lcfs);
}

#[test]
fn s3_1_settings_have_defaults_and_are_read() {
    let plain = read(&one_class("quantum: 1"));
    let plain = plain.profile(None);
    assert_eq!(plain.arbitration(), Arbitration::Exact);
    assert_eq!(plain.overload_action(), OverloadAction::Fail);
    assert_eq!(plain.selector(), SelectorKind::Cost);
    assert_eq!((plain.decode_weight(), plain.max_attempts()), (0, 3));

    let text = one_class("quantum: 1")
        + "arbitration: page\noverload_action: hold\nselector: power_of_two\n\
           decode_weight: 18446744073709551615\nmax_attempts: 255\n";
    let set = read(&text);
    let set = set.profile(None);
    assert_eq!(set.arbitration(), Arbitration::Page);
    assert_eq!(set.overload_action(), OverloadAction::Hold);
    assert_eq!(set.selector(), SelectorKind::PowerOfTwo);
    assert_eq!((set.decode_weight(), set.max_attempts()), (u64::MAX, 255));
}

#[test]
fn s3_1_unset_and_zero_are_different() {
    let unset = read(&one_class("quantum: 1\nprefill_busy_threshold:"));
    let zero = read(&one_class("quantum: 1\nprefill_busy_threshold: 0"));
    let threshold = |file: &PolicyFile| file.profile(None).classes()[0].prefill_busy_threshold;
    assert_eq!(threshold(&unset), None);
    assert_eq!(threshold(&zero), Some(0));
    assert!(!unset.profile(None).classes()[0].has_threshold());
    assert!(zero.profile(None).classes()[0].has_threshold());
}

#[test]
fn s3_2_sections_of_other_parts_give_one_warning_each_and_are_skipped() {
    let text = one_class("quantum: 1")
        + "router: {anything: [1, {deep: {er: ~}}]}\n\
           worker_selection:\n  parameters: !custom {a: 1}\n\
           request_classifier: x\n";
    let file = read(&text);
    let warnings: Vec<_> = file
        .warnings()
        .iter()
        .map(|w| (w.position().line, w.path()))
        .collect();
    assert_eq!(
        warnings,
        [
            (9, "router"),
            (10, "worker_selection"),
            (12, "request_classifier")
        ]
    );
    assert!(
        file.warnings()[0]
            .to_string()
            .starts_with("p.yaml:9:1: router: ")
    );
}

#[test]
fn s3_2_a_file_with_nothing_but_a_foreign_section_means_the_synthetic_class() {
    let file = read("worker_selection: {aggregated: default}\n");
    assert_eq!(file.warnings().len(), 1);
    assert!(file.root().is_none());
    assert_eq!(file.profile(None), &Profile::synthetic(None));
}

#[test]
fn s3_2_different_thresholds_give_one_warning() {
    let c = "{name: c, policy_family: c, cache_bucket: all, quantum: 1, prefill_busy_threshold: 9}";
    let buckets = ["{min_tokens: 0, bucket: all}"];
    for (other, path) in [
        (
            "prefill_busy_threshold: 8",
            "policy_classes[1].prefill_busy_threshold",
        ),
        (
            "queue_policy: wspt",
            "policy_classes[1].prefill_busy_threshold",
        ),
        (
            "prefill_busy_threshold: 9, prefill_busy_threshold_frac: 0.5",
            "policy_classes[1].prefill_busy_threshold_frac",
        ),
    ] {
        let other = format!("{{name: d, quantum: 1, {other}}}");
        let file = read(&profile(&buckets, &[c, &other, "{name: e, quantum: 1}"]));
        let paths: Vec<&str> = file
            .warnings()
            .iter()
            .map(|warning| warning.path())
            .collect();
        assert_eq!(paths, [path], "{other}");
        assert!(
            file.warnings()[0].message().contains("`c` and `d`"),
            "{other}"
        );
    }
    let same = "{name: d, quantum: 1, prefill_busy_threshold: 9}";
    assert_eq!(read(&profile(&buckets, &[c, same])).warnings(), []);
}

#[test]
fn s3_1_a_timeout_of_zero_is_taken_with_a_warning() {
    let file = read(&one_class("quantum: 1\nqueue_timeout_ms: 0"));
    assert_eq!(file.profile(None).classes()[0].queue_timeout_ms, Some(0));
    assert_eq!(file.warnings().len(), 1);
    assert_eq!(
        file.warnings()[0].path(),
        "policy_classes[0].queue_timeout_ms"
    );
}

#[test]
fn s3_5_without_a_file_there_is_one_class() {
    let profile = Profile::synthetic(None);
    assert_eq!(profile.classes().len(), 1);
    let class = &profile.classes()[0];
    assert_eq!(
        (&*class.name, class.quantum, class.has_threshold()),
        ("default", 1, false)
    );
    let half = Fraction::new(5, 1);
    let threshold = Profile::synthetic(Some(half)).classes()[0].prefill_busy_threshold_frac;
    assert_eq!(threshold, Some(half));
}

#[test]
fn s3_6_a_model_replaces_the_root_whole_and_others_get_the_root() {
    let text = one_class("quantum: 5")
        + "arbitration: page\nmodels:\n  small:\n    "
        + &one_class("quantum: 7").replace('\n', "\n    ")
        + "max_attempts: 9\n";
    let file = read(&text);
    let quantum = |model| file.profile(model).classes()[0].quantum;
    assert_eq!(quantum(None), 5);
    assert_eq!(quantum(Some("small")), 7);
    for other in ["Small", "small ", "smal", ""] {
        assert_eq!(quantum(Some(other)), 5, "{other:?}");
    }
    let small = file.profile(Some("small"));
    assert_eq!(
        (small.arbitration(), small.max_attempts()),
        (Arbitration::Exact, 9)
    );
    assert_eq!(file.profile(None).arbitration(), Arbitration::Page);
}

#[test]
fn s3_6_without_a_root_profile_unlisted_models_get_the_synthetic_class() {
    let text = "selector: round_robin\nmodels:\n  small:\n    ".to_owned()
        + &one_class("quantum: 7").replace('\n', "\n    ");
    let file = read(&text).with_queue_threshold(Fraction::new(25, 2));
    let other = file.profile(Some("other"));
    assert_eq!(&*other.classes()[0].name, "default");
    assert_eq!(
        other.classes()[0].prefill_busy_threshold_frac,
        Some(Fraction::new(25, 2))
    );
    assert_eq!(other.selector(), SelectorKind::RoundRobin);
    assert_eq!(file.profile(Some("small")).selector(), SelectorKind::Cost);
    let paths: Vec<&str> = file
        .warnings()
        .iter()
        .map(|warning| warning.path())
        .collect();
    assert_eq!(paths, ["selector"]);
}

#[test]
fn s3_4_a_mistyped_class_is_taken_from_a_request_and_refused_in_a_file() {
    let file = read(&one_class("quantum: 1"));
    let resolution = file.profile(None).resolve(Some("Premuim"), 10);
    assert_eq!((resolution.class, resolution.unknown_name), (0, true));
    let text = one_class("quantum: 1").replace("family: c\nuncached", "family: Premuim\nuncached");
    assert_eq!(refused(&text).errors()[0].path(), "default_policy_family");
}

#[test]
fn s3_1_text_with_a_byte_order_mark_windows_line_ends_or_anchors_loads() {
    let text = one_class("quantum: 1");
    read(&format!("\u{feff}{text}"));
    read(&text.replace('\n', "\r\n"));
    read(&format!("%YAML 1.2\n---\n{text}...\n"));
    read(&text.replace("policy_classes:", "policy_classes: &classes"));
}

#[test]
fn the_sample_policy_is_valid_and_says_what_its_comments_say() {
    let sample = include_bytes!("../../sample-policy.yaml");
    let file = PolicyFile::parse("sample-policy.yaml", sample).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(file.warnings(), []);
    let root = file.profile(None);
    let sum: u64 = root.classes().iter().map(|class| class.quantum).sum();
    assert_eq!(root.classes()[0].quantum * 2, sum);
    assert_eq!(root.settings(), Profile::synthetic(None).settings());
    let class = |name, uncached| &*root.classes()[root.resolve(name, uncached).class].name;
    assert_eq!(class(None, 0), "chat_warm");
    assert_eq!(class(Some("batch"), 3_072), "batch_cold");
    assert_eq!(class(Some("probe"), 3_072), "probe");
    assert_eq!(file.profile(Some("example/small-model")).classes().len(), 1);
}
