//! The state of a real engine, blocked lanes included.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::build::state;
use super::query::Query;
use super::*;
use crate::admin::fixture::{Fixture, POLICY, until};

async fn ask(fixture: &Fixture, query: &str) -> RouterState {
    let query = Query::read(query).expect("a query");
    state(&fixture.shared, query).await.expect("a state")
}

fn class<'a>(state: &'a RouterState, name: &str) -> &'a ClassState {
    let mut classes = state.models[0].classes.iter();
    classes
        .find(|class| class.name == name)
        .expect("it is there")
}

#[tokio::test]
async fn a_blocked_lane_says_which_gate_and_which_threshold() {
    let fixture = Arc::new(Fixture::start(POLICY, &["m", "other"]));
    fixture.add_worker("http://10.0.0.1:8000", &["m"]);
    let model = fixture.model("m").index;
    let permit = fixture.admit(model, "regular", 1_500).await.expect("room");
    for tokens in [300, 200] {
        let fixture = Arc::clone(&fixture);
        tokio::spawn(async move { fixture.admit(model, "regular", tokens).await.map(drop) });
    }
    let state = until(async || {
        let state = ask(&fixture, "model=m&entries=1").await;
        (state.models[0].waiting == 2).then_some(state)
    });
    let state = state.await;
    assert_eq!(state.models.len(), 1);
    let regular = class(&state, "regular");
    assert_eq!(
        (regular.waiting, regular.raw_tokens, regular.outstanding),
        (2, 500, 1)
    );
    let policy = regular.policy.expect("it is in the policy");
    assert_eq!(policy.prefill_busy_threshold, Some(1_000));
    let [lane] = regular.lanes.as_slice() else {
        panic!("one lane: {:?}", regular.lanes);
    };
    assert_eq!(lane.lane, "shared");
    let shut = HeadState::Shut {
        busy: 1,
        eligible: 1,
        shut_at: 1,
        threshold_tokens: Some(1_000),
    };
    assert_eq!(lane.head, shut);
    assert!(lane.why.contains("the only worker"), "{}", lane.why);
    assert!(lane.why.contains("above 1000 tokens"), "{}", lane.why);
    let [entry] = lane.entries.as_slice() else {
        panic!("one entry was asked for: {:?}", lane.entries);
    };
    assert_eq!((entry.attempts, entry.deadline_in_ms), (0, None));
    let [endpoint] = state.models[0].endpoints.as_slice() else {
        panic!("one endpoint: {:?}", state.models[0].endpoints);
    };
    assert_eq!((endpoint.load_tokens, endpoint.active), (1_500, 1));
    assert_eq!(endpoint.url.as_deref(), Some("http://10.0.0.1:8000"));
    assert_eq!(endpoint.busy_for, ["regular", "premium"]);
    let thresholds = [("premium", 1_000), ("regular", 1_000)].map(|(name, at)| (name.into(), at));
    assert_eq!(endpoint.busy_above_tokens, thresholds.into());
    drop(permit);
    let open = until(async || {
        let state = ask(&fixture, "").await;
        (state.models[0].waiting == 0).then_some(state)
    });
    let open = open.await;
    assert_eq!(open.models.len(), 2, "all models, and no spare place");
    assert!(class(&open, "regular").lanes.is_empty());
}

#[tokio::test]
async fn a_state_without_entries_shows_the_gates_all_the_same() {
    let fixture = Arc::new(Fixture::start(POLICY, &["m"]));
    let worker = fixture.add_worker("http://10.0.0.1:8000", &["m"]);
    let model = fixture.model("m").index;
    let permit = fixture.admit(model, "premium", 1_500).await.expect("room");
    let waiting = Arc::clone(&fixture);
    tokio::spawn(async move { waiting.admit(model, "premium", 10).await.map(drop) });
    let state = until(async || {
        let state = ask(&fixture, "entries=0").await;
        (state.models[0].waiting == 1).then_some(state)
    });
    let state = state.await;
    let premium = class(&state, "premium");
    assert_eq!(premium.limits.requests, Some(100));
    assert!(premium.lanes[0].entries.is_empty());
    assert!(matches!(
        premium.lanes[0].head,
        HeadState::Shut { busy: 1, .. }
    ));
    assert_eq!(state.workers[0].id, worker);
    assert_eq!(state.workers[0].standing, Standing::Well);
    drop(permit);
}

#[tokio::test]
async fn names_are_stable_and_what_is_written_can_be_read() {
    let fixture = Fixture::start(POLICY, &["m"]);
    fixture.add_worker("http://10.0.0.1:8000", &["m"]);
    let state = ask(&fixture, "").await;
    let value = serde_json::to_value(&state).expect("it is JSON");
    assert_eq!(value["phase"], "serving");
    assert_eq!(value["policy_generation"], 1);
    let model = &value["models"][0];
    assert_eq!(model["arbitration"], "exact");
    assert_eq!(model["ring"], json!(["regular", "premium"]));
    assert_eq!(
        model["classes"][1]["policy"]["prefill_busy_threshold"],
        1_000
    );
    assert_eq!(model["classes"][1]["counters"]["rejected"]["requests"], 0);
    assert_eq!(model["classes"][1]["counters"]["failed"]["no_workers"], 0);
    let read: RouterState = serde_json::from_value(value).expect("it is a state");
    assert_eq!(read, state);
}

#[tokio::test]
async fn an_unknown_model_is_told_those_that_there_are() {
    let fixture = Fixture::start(POLICY, &["m"]);
    let query = Query::read("model=n").expect("a query");
    let refusal = state(&fixture.shared, query)
        .await
        .expect_err("there is none");
    assert_eq!(refusal.status.as_u16(), 404);
    assert!(refusal.message.contains("[\"m\"]"), "{}", refusal.message);
}

#[tokio::test]
async fn an_engine_that_has_stopped_has_no_state() {
    let fixture = Fixture::start(POLICY, &["m"]);
    let control = fixture.engine.handles().control();
    control.stop(Duration::ZERO).expect("it runs");
    let refusal = until(async || {
        let query = Query::read("").expect("a query");
        state(&fixture.shared, query).await.err()
    });
    let refusal = refusal.await;
    assert_eq!(
        (refusal.status.as_u16(), refusal.code),
        (503, "engine_closed")
    );
}
