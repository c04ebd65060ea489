//! What a builder refuses, all at once, and what it says is in effect.

use tollgate::placement::{CoreId, Placement};
use tollgate::policy::{Bucket, ClassPolicy, Profile, ProfileSpec};
use tollgate::{Engine, Idle, Worker};

fn errors(builder: tollgate::Builder) -> Vec<String> {
    let errors = builder.build::<u64>().expect_err("something is wrong");
    errors.errors().iter().map(ToString::to_string).collect()
}

#[test]
fn everything_that_is_wrong_is_reported_at_once() {
    let builder = Engine::builder(Profile::synthetic(None))
        .model("default", Profile::synthetic(None))
        .ingress_shards(0)
        .egress_shards(65)
        .slots(0)
        .ring(1)
        .dispatch_ring(3)
        .feedback_ring(1 << 21)
        .extension_ring(132)
        .extension_blocks(1 << 27)
        .classes(0)
        .workers(0)
        .endpoints((1 << 20) + 1);
    assert_eq!(
        errors(builder),
        [
            "ingress_shards must be between 1 and 64, not 0",
            "egress_shards must be between 1 and 64, not 65",
            "slots must be between 1 and 16777216, not 0",
            "ring must be between 2 and 1048576, not 1",
            "dispatch_ring must be between 4 and 1048576, not 3",
            "feedback_ring must be between 2 and 1048576, not 2097152",
            "extension_ring must be between 133 and 1048576, not 132",
            "extension_blocks must be between 0 and 67108864, not 134217728",
            "classes must be between 1 and 16384, not 0",
            "workers must be between 1 and 1048576, not 0",
            "endpoints must be between 1 and 1048576, not 1048577",
            "two models are called \"default\"",
        ]
    );
}

#[test]
fn numbers_at_the_ends_of_their_ranges_never_panic() {
    for number in [0, 1, 2, 3, 1 << 20, 1 << 24, usize::MAX] {
        let builder = Engine::builder(Profile::synthetic(None))
            .ingress_shards(number)
            .egress_shards(number)
            .slots(number)
            .ring(number);
        if let Err(errors) = builder.build::<u64>() {
            assert!(!errors.errors().is_empty());
        }
    }
}

#[test]
fn slots_that_are_too_many_once_they_are_rounded_up_are_refused() {
    let builder = Engine::builder(Profile::synthetic(None))
        .ingress_shards(3)
        .slots(1 << 24);
    assert_eq!(
        errors(builder),
        [
            "3 ingress shards with 8388608 slots each, rounded up together to 33554432 for a model, are more than 16777216"
        ]
    );
}

#[test]
fn slots_of_more_models_than_can_be_numbered_are_refused() {
    let mut builder = Engine::builder(Profile::synthetic(None)).slots(1 << 24);
    for model in 1..256 {
        builder = builder.model(&model.to_string(), Profile::synthetic(None));
    }
    assert_eq!(
        errors(builder),
        [
            "1 ingress shards with 16777216 slots each, rounded up together to 16777216 for a model, are more than 16777215"
        ]
    );
}

#[test]
fn a_core_that_does_not_exist_is_refused_by_name() {
    let placement = Placement {
        arbiter: Some(CoreId(9_999)),
        ..Placement::default()
    };
    let builder = Engine::builder(Profile::synthetic(None)).placement(placement);
    let errors = errors(builder);
    assert!(
        errors.len() == 1 && errors[0].contains("9999"),
        "{errors:?}"
    );
}

#[test]
fn a_worker_that_cannot_be_added_is_refused() {
    let wrong = Worker {
        ranks: 0,
        ..Worker::new(5)
    };
    let builder = Engine::builder(Profile::synthetic(None))
        .worker(wrong)
        .worker(Worker::new(6));
    assert_eq!(
        errors(builder),
        ["worker 5: ranks 0 .. 0 + 0 are not a range of 1 or more ranks below 2^32"]
    );
}

#[test]
fn the_settings_in_effect_are_printed() {
    let classes = (0..70).map(|n| ClassPolicy::matrix(&format!("c{n}"), &format!("f{n}"), 0, 1));
    let spec = ProfileSpec::new("f0", vec![Bucket::new(0, "all")], classes.collect());
    let profile = Profile::build(spec).expect("it is valid");
    let built = Engine::builder(profile)
        .model("embeddings", Profile::synthetic(None))
        .ingress_shards(3)
        .egress_shards(64)
        .slots(1_000)
        .idle(Idle::Park)
        .build_by_hand::<[u64; 2]>()
        .expect("it is valid");
    let printed = built.handles.settings().to_string();
    for line in [
        "models                     default, embeddings",
        "slots_per_shard            512",
        "slots_per_model            1536",
        "classes                    70",
        "payload_bytes              16",
        "ingress_record_bytes       64",
        "delivery_bytes             64",
        "idle                       park",
        "arbiter_core               not placed",
    ] {
        assert!(printed.contains(line), "{line}\n{printed}");
    }
    assert_eq!((built.ingress.len(), built.egress.len()), (3, 64));
    assert!(built.handles.model("embeddings").is_some() && built.handles.model("x").is_none());
}
