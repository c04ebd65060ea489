//! A router without connections, for the tests of what operators see.

use std::sync::Arc;
use std::time::Duration;

use tollgate::policy::PolicyFile;
use tollgate::{AdmitError, Engine, ModelIndex, Permit, Request, Waiter};

use crate::config::{Config, WorkerConfig};
use crate::fleet::{Counters, Fleet, Model};
use crate::shared::Shared;
use crate::upstream::Upstream;

/// Two classes in ratio 3 to 1; above a load of 1,000 tokens a worker is busy.
pub(super) const POLICY: &str = "
default_policy_family: regular
uncached_isl_buckets:
- {min_tokens: 0, bucket: all}
policy_classes:
- {name: regular, policy_family: regular, cache_bucket: all, quantum: 512, prefill_busy_threshold: 1000}
- {name: premium, quantum: 1536, prefill_busy_threshold: 1000, request_queue_limit_per_worker: 100}
";

pub(super) struct Fixture {
    pub(super) shared: Arc<Shared>,
    pub(super) engine: Engine<Waiter>,
}

impl Fixture {
    /// A router with these models; places for others are spare.
    pub(super) fn start(policy: &str, models: &[&str]) -> Self {
        let config = Arc::new(Config {
            access_log: crate::config::AccessLog::Off,
            ..Config::default()
        });
        let policy = PolicyFile::parse("policy", policy.as_bytes()).expect("a policy");
        let profile = policy.profile(None).clone();
        let mut builder = Engine::builder(profile.clone());
        for place in 1..4 {
            builder = builder.model(&format!("place-{place}"), profile.clone());
        }
        let built = builder.slots(1_024).room_waiters(64).build_admission();
        let built = built.expect("it can be built");
        let handles = built.engine.handles().clone();
        let fleet = Arc::new(Fleet::new(
            Arc::clone(&config),
            handles,
            policy,
            Counters::default(),
        ));
        for model in models {
            fleet.expect_model(model).expect("there is a place");
        }
        let upstream = Upstream::new(Duration::from_secs(1), None).expect("no certificates");
        Self {
            shared: Arc::new(Shared::new(config, fleet, built.admission, upstream)),
            engine: built.engine,
        }
    }

    pub(super) fn model(&self, name: &str) -> Arc<Model> {
        self.shared.fleet.route(Some(name)).expect("it is there")
    }

    /// A worker that is well; its number.
    pub(super) fn add_worker(&self, url: &str, models: &[&str]) -> u64 {
        let worker = WorkerConfig::new(url.parse().expect("an address"));
        let fleet = &self.shared.fleet;
        let id = fleet.add_worker(worker).expect("it is new").id;
        let models: Vec<String> = models.iter().map(ToString::to_string).collect();
        fleet.saw_well(id, &models).expect("there is room for it");
        id
    }

    /// A request that waits for its permit.
    pub(super) async fn admit(
        &self,
        model: ModelIndex,
        class: &str,
        tokens: u32,
    ) -> Result<Permit, AdmitError> {
        let request = Request {
            model,
            family: Some(class),
            ..Request::new(tokens, ())
        };
        self.shared.admission.admit(request).await
    }
}

/// Asks again and again, until it is so or ten seconds are over.
pub(super) async fn until<T, F: Future<Output = Option<T>>>(mut ask: impl FnMut() -> F) -> T {
    let found = async {
        loop {
            if let Some(found) = ask().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let found = tokio::time::timeout(Duration::from_secs(10), found).await;
    found.expect("it becomes so")
}
