//! Both forms of the exposition, read back by a strict checker.

mod checker;

use http::HeaderName;
use http_body_util::BodyExt;

use self::checker::{Exposition, check};
use super::*;
use crate::account::Account;
use crate::admin::fixture::{Fixture, POLICY, until};
use crate::cost::{Api, Usage};

/// A model's name with everything that must be escaped.
const ODD: &str = "m\"o\\d\nel";
const ODD_LABEL: &str = r#"model="m\"o\\d\nel""#;

fn fixture() -> Fixture {
    let fixture = Fixture::start(POLICY, &[ODD]);
    fixture.add_worker("http://10.0.0.1:8000", &[ODD]);
    fixture
}

async fn scrape(fixture: &Fixture, exporter: &Exporter, form: Form) -> Exposition {
    let shared = Arc::clone(&fixture.shared);
    let response = exporter.scrape(shared, form).await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()[CONTENT_TYPE], form.content_type());
    let body = response.into_body().collect().await.expect("a body");
    let text = String::from_utf8(body.to_bytes().to_vec()).expect("UTF-8");
    check(&text, form)
}

/// A request that ran and ended.
fn end(fixture: &Fixture, class: &str) {
    let mut account = Account::open(Arc::clone(&fixture.shared), Api::Chat, "r".to_owned());
    account.facts.model = ODD.into();
    account.facts.class = class.into();
    account.facts.wait = Some(std::time::Duration::from_millis(2));
    account.facts.first_byte = Some(std::time::Duration::from_millis(5));
    account.facts.usage = Some(Usage {
        prompt_tokens: 10,
        completion_tokens: 20,
        cached_tokens: None,
    });
    account.ends(200, "ok");
}

#[tokio::test]
async fn both_forms_keep_their_rules_and_say_the_same() {
    let fixture = fixture();
    let model = fixture.model(ODD).index;
    let permit = fixture.admit(model, "premium", 700).await.expect("room");
    end(&fixture, "premium");
    let exporter = Exporter::new();
    let series = format!("tollgate_dispatched_total{{{ODD_LABEL},class=\"premium\"}}");
    let plain = until(async || {
        let read = scrape(&fixture, &exporter, Form::Prometheus).await;
        (read.value(&series) == 1.0).then_some(read)
    });
    let plain = plain.await;
    let open = scrape(&fixture, &exporter, Form::OpenMetrics).await;
    let names = |read: &Exposition| -> Vec<String> { read.series.keys().cloned().collect() };
    assert_eq!(names(&plain), names(&open));
    for read in [&plain, &open] {
        let labels = format!("{ODD_LABEL},worker=\"1\",url=\"http://10.0.0.1:8000\",rank=\"0\"");
        assert_eq!(
            read.value(&format!("tollgate_worker_load_tokens{{{labels}}}")),
            700.0
        );
        let class = format!("{{{ODD_LABEL},class=\"premium\"}}");
        assert_eq!(
            read.value(&format!("tollgate_running_requests{class}")),
            1.0
        );
        assert_eq!(
            read.value(&format!("tollgate_limit_requests{class}")),
            100.0
        );
        assert_eq!(
            read.value(&format!("tollgate_wait_seconds_count{class}")),
            1.0
        );
        assert!(
            !read
                .series
                .contains_key(&format!("tollgate_limit_raw_tokens{class}"))
        );
        assert_eq!(read.value("tollgate_policy_generation"), 1.0);
        let build = format!(
            "tollgate_build_info{{version=\"{}\"}}",
            env!("CARGO_PKG_VERSION")
        );
        assert_eq!(read.value(&build), 1.0);
    }
    drop(permit);
}

#[tokio::test]
async fn only_models_that_are_routed_to_are_shown() {
    let fixture = fixture();
    let read = scrape(&fixture, &Exporter::new(), Form::Prometheus).await;
    assert!(read.series.keys().any(|series| series.contains(ODD_LABEL)));
    assert!(!read.series.keys().any(|series| series.contains("place-")));
}

#[tokio::test]
async fn a_model_whose_last_worker_is_gone_is_told_as_served_by_none() {
    let fixture = Fixture::start(POLICY, &[ODD, "other"]);
    let id = fixture.add_worker("http://10.0.0.1:8000", &[ODD]);
    let exporter = Exporter::new();
    let series = |label: &str| format!("tollgate_model_workers_well{{{label}}}");
    let read = scrape(&fixture, &exporter, Form::Prometheus).await;
    assert_eq!(read.value(&series(ODD_LABEL)), 1.0);
    assert_eq!(
        read.value(&series("model=\"other\"")),
        0.0,
        "nobody serves it"
    );
    fixture.shared.fleet.remove_worker(id).expect("it is there");
    let read = scrape(&fixture, &exporter, Form::Prometheus).await;
    assert_eq!(read.value(&series(ODD_LABEL)), 0.0);
}

#[tokio::test]
async fn a_hundred_thousand_made_up_names_add_no_series() {
    const NAMES: usize = 100_000;
    const ASKERS: usize = 256;
    let fixture = Arc::new(fixture());
    let model = fixture.model(ODD).index;
    let exporter = Exporter::new();
    drop(fixture.admit(model, "made-up", 1).await.expect("room"));
    end(&fixture, "regular");
    // The engine publishes its endpoints a slice at a time.
    let before = until(async || {
        let read = scrape(&fixture, &exporter, Form::Prometheus).await;
        let is_of_a_worker = |series: &String| series.starts_with("tollgate_worker_available");
        read.series.keys().any(is_of_a_worker).then_some(read)
    });
    let before = before.await;
    let asking = (0..ASKERS).map(|asker| {
        let fixture = Arc::clone(&fixture);
        tokio::spawn(async move {
            for number in (asker..NAMES).step_by(ASKERS) {
                let class = format!("made-up-{number}");
                drop(fixture.admit(model, &class, 1).await.expect("room"));
            }
        })
    });
    for asker in asking.collect::<Vec<_>>() {
        asker.await.expect("it got all its permits");
    }
    let all = until(async || {
        let read = scrape(&fixture, &exporter, Form::Prometheus).await;
        let names = |series: &&String| series.starts_with("tollgate_ingress_unknown_names_total");
        let unknown: f64 = read
            .series
            .keys()
            .filter(names)
            .map(|name| read.value(name))
            .sum();
        (unknown == 100_001.0).then_some(read)
    });
    let all = all.await;
    let names = |read: &Exposition| -> Vec<String> { read.series.keys().cloned().collect() };
    assert_eq!(names(&before), names(&all));
}

#[tokio::test]
async fn a_counter_does_not_fall_when_a_dispatch_is_taken_back() {
    let fixture = fixture();
    let model = fixture.model(ODD).index;
    let exporter = Exporter::new();
    let permit = fixture.admit(model, "regular", 100).await.expect("room");
    let label = format!("{{{ODD_LABEL},class=\"regular\"}}");
    let charged = format!("tollgate_charged_tokens_total{label}");
    let requeued = format!("tollgate_requeued_total{label}");
    let with = async |series: &str, value: f64| {
        until(async || {
            let read = scrape(&fixture, &exporter, Form::Prometheus).await;
            (read.value(series) == value).then_some(read)
        })
        .await
    };
    with(&charged, 100.0).await;
    // Nobody can take it meanwhile.
    fixture
        .shared
        .fleet
        .set_overloaded(1, true)
        .expect("it is known");
    let waiting = tokio::spawn(permit.requeue());
    assert_eq!(with(&requeued, 1.0).await.value(&charged), 100.0);
    waiting.abort();
}

#[tokio::test]
async fn every_metric_of_the_dashboard_is_there() {
    let fixture = fixture();
    end(&fixture, "premium");
    let read = scrape(&fixture, &Exporter::new(), Form::Prometheus).await;
    let names = read.sample_names();
    let text = include_str!("../../../../../docs/grafana/tollgate.json");
    let dashboard: serde_json::Value = serde_json::from_str(text).expect("it is JSON");
    let mut used = 0;
    for expression in expressions(&dashboard) {
        let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for word in words.filter(|word| word.starts_with("tollgate_")) {
            assert!(names.contains(word), "{word} in {expression}");
            used += 1;
        }
    }
    assert!(used >= 10, "{used} metrics are used");
}

/// All queries in a dashboard.
fn expressions(value: &serde_json::Value) -> Vec<&str> {
    match value {
        serde_json::Value::Array(values) => values.iter().flat_map(expressions).collect(),
        serde_json::Value::Object(fields) => {
            let found = fields.iter().flat_map(|(key, value)| match value.as_str() {
                Some(text) if ["expr", "query", "definition"].contains(&key.as_str()) => vec![text],
                _ => expressions(value),
            });
            found.collect()
        }
        _ => Vec::new(),
    }
}

fn form(values: &[&str]) -> Form {
    let mut headers = HeaderMap::new();
    for value in values {
        let name: HeaderName = ACCEPT;
        headers.append(name, value.parse().expect("a value"));
    }
    Form::asked_by(&headers)
}

#[test]
fn openmetrics_is_for_those_who_ask_for_it() {
    let prometheus =
        "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.4";
    assert_eq!(form(&[prometheus]), Form::OpenMetrics);
    assert_eq!(
        form(&["text/plain", "application/OpenMetrics-text"]),
        Form::OpenMetrics
    );
    assert_eq!(form(&[]), Form::Prometheus);
    assert_eq!(form(&["*/*"]), Form::Prometheus);
    assert_eq!(
        form(&["application/openmetrics-text;q=0, text/plain"]),
        Form::Prometheus
    );
}
