//! Puts a state together.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use http::{Response, StatusCode, Uri};
use tollgate::policy::{Arbitration, ClassPolicy, Fraction, PolicyFile};
use tollgate::stats::{ClassCounters, CoreSnapshot, ModelSnapshot};
use tollgate::{
    ClassIndex, ClassState as EngineClass, ControlError, EndpointState as EngineEndpoint,
    FailReason, LimitKind, State as EngineState,
};

use super::lane::{self, Context, millis};
use super::query::Query;
use super::{
    ClassState, CountersState, EndpointState, LimitsState, LoopState, ModelState, PhaseState,
    RouterState, ThresholdsState,
};
use crate::fleet::{Fleet, Model, Worker};
use crate::refusal::{Refusal, Retry};
use crate::routes::json_response;
use crate::shared::{Phase, Shared};

/// Answers with the state.
pub(in crate::admin) async fn show(State(shared): State<Arc<Shared>>, uri: Uri) -> Response<Body> {
    let query = match Query::read(uri.query().unwrap_or_default()) {
        Ok(query) => query,
        Err(error) => {
            let mut refusal = Refusal::invalid("invalid_query", error.to_string());
            refusal.param = error.param().map(str::to_owned);
            return refusal.response();
        }
    };
    match state(&shared, query).await {
        Ok(state) => {
            let body = serde_json::to_value(&state).expect("numbers are finite, keys are text");
            json_response(StatusCode::OK, &body)
        }
        Err(refusal) => refusal.response(),
    }
}

/// The state of the router and of the models that are asked for.
pub(super) async fn state(shared: &Arc<Shared>, query: Query) -> Result<RouterState, Refusal> {
    let models = shared.fleet.models();
    let asked = query.model.as_deref();
    let asked: Vec<Arc<Model>> = models
        .iter()
        .filter(|model| asked.is_none_or(|name| *model.name == *name))
        .cloned()
        .collect();
    if let (Some(name), true) = (&query.model, asked.is_empty()) {
        return Err(unknown_model(name, &models));
    }
    let snapshots = shared.fleet.change(move |fleet| {
        let entries = query.entries;
        let models = asked.into_iter().map(|model| {
            let snapshot = fleet.snapshot(&model, entries)?;
            Ok((model, snapshot))
        });
        models.collect::<Result<Vec<_>, ControlError>>()
    });
    let snapshots = snapshots.await.map_err(|error| gone(&error))?;
    let stats = shared.fleet.handles.stats().read();
    let policy = shared.fleet.policy();
    let models = snapshots.iter().map(|(model, snapshot)| {
        let published = stats.models.get(usize::from(model.index.0));
        let view = ModelView {
            model,
            snapshot,
            published,
            policy: &policy,
            fleet: &shared.fleet,
        };
        let waiting_for_room = shared.admission.waiting_for_room(model.index);
        view.state(waiting_for_room.into())
    });
    let workers = shared.fleet.workers();
    Ok(RouterState {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        phase: match shared.phase() {
            Phase::Serving => PhaseState::Serving,
            Phase::Draining(_) => PhaseState::Draining,
            Phase::Cut => PhaseState::Ending,
        },
        uptime_seconds: shared.started.elapsed().as_secs_f64(),
        open_requests: u64::try_from(shared.open()).unwrap_or(u64::MAX),
        policy_generation: shared.fleet.generation(),
        arbiter: loop_state(&stats.core),
        models: models.collect(),
        workers: workers.values().map(|worker| worker.report()).collect(),
    })
}

fn unknown_model(name: &str, models: &[Arc<Model>]) -> Refusal {
    let name: String = name.chars().take(100).collect();
    let names: Vec<_> = models.iter().map(|model| &*model.name).collect();
    let message = match names.as_slice() {
        [] => format!("there is no model {name:?}, nor any other yet"),
        names => format!("there is no model {name:?}; there are {names:?}"),
    };
    Refusal::new(
        StatusCode::NOT_FOUND,
        "model_not_found",
        message,
        Retry::Never,
    )
    .with_param("model")
}

fn gone(error: &ControlError) -> Refusal {
    let message = format!("there is no state to show: {error}");
    let status = StatusCode::SERVICE_UNAVAILABLE;
    Refusal::new(status, "engine_closed", message, Retry::Never)
}

fn loop_state(core: &CoreSnapshot) -> LoopState {
    LoopState {
        turns: core.turns,
        busy_seconds: millis(core.busy_ns) / 1e3,
        idle_seconds: millis(core.idle_ns) / 1e3,
        parks: core.parks,
        dispatches: core.dispatches,
    }
}

/// A model, from all sides.
struct ModelView<'a> {
    model: &'a Model,
    snapshot: &'a EngineState,
    published: Option<&'a ModelSnapshot>,
    policy: &'a PolicyFile,
    fleet: &'a Fleet,
}

impl ModelView<'_> {
    fn state(&self, waiting_for_room: u64) -> ModelState {
        let snapshot = self.snapshot;
        let endpoints = snapshot.endpoints.iter();
        ModelState {
            name: self.model.name.to_string(),
            generation: snapshot.generation,
            arbitration: match snapshot.arbitration {
                Arbitration::Exact => "exact".to_owned(),
                Arbitration::Page => "page".to_owned(),
            },
            ring: self.names(&snapshot.ring),
            waiting: snapshot.waiting,
            waiting_for_room,
            outstanding: snapshot.outstanding,
            closed: snapshot.closed,
            classes: snapshot
                .classes
                .iter()
                .map(|class| self.class(class))
                .collect(),
            endpoints: endpoints.map(|endpoint| self.endpoint(endpoint)).collect(),
        }
    }

    fn names(&self, classes: &[ClassIndex]) -> Vec<String> {
        let name = |index: &ClassIndex| {
            let mut classes = self.snapshot.classes.iter();
            classes.find(|class| class.index == *index)
        };
        let names = classes.iter().filter_map(name);
        names.map(|class| class.name.to_string()).collect()
    }

    fn policy_of(&self, class: &EngineClass) -> Option<&ClassPolicy> {
        let profile = self.policy.profile(Some(&self.model.name));
        let mut classes = profile.classes().iter();
        classes.find(|policy| policy.name == class.name)
    }

    fn class(&self, class: &EngineClass) -> ClassState {
        let policy = self.policy_of(class);
        let published = self.published.and_then(|published| {
            let mut classes = published.classes.iter();
            classes.find(|row| row.index == class.index && *row.name == *class.name)
        });
        let share = published.map(|row| row.share).unwrap_or_default();
        let [requests, raw_tokens, cached_tokens] = class.limits;
        let busy = self.busy_for(class.index);
        let context = Context {
            now: self.snapshot.now,
            policy,
            busy: &busy,
        };
        ClassState {
            name: class.name.to_string(),
            draining: class.draining,
            quantum: class.quantum,
            deficit: class.deficit,
            turn_open: class.turn_open,
            waiting: class.waiting,
            raw_tokens: class.raw_isl_tokens,
            cached_tokens: class.cached_tokens,
            outstanding: class.outstanding,
            limits: LimitsState {
                requests,
                raw_tokens,
                cached_tokens,
            },
            policy: policy.map(thresholds),
            oldest_wait_ms: published.map_or(0.0, |row| millis(row.oldest_wait_ns)),
            served_tokens: share.served_tokens,
            entitled_tokens: share.entitled_tokens,
            counters: counters(&class.counters),
            lanes: class
                .lanes
                .iter()
                .map(|lane| lane::lane(lane, context))
                .collect(),
        }
    }

    fn busy_for(&self, class: ClassIndex) -> Vec<(&EngineEndpoint, Option<u64>)> {
        let endpoints = self.snapshot.endpoints.iter();
        let busy = endpoints.filter(|endpoint| endpoint.busy_for.contains(&class));
        let with_size = busy.map(|endpoint| {
            let worker = self.fleet.worker(endpoint.endpoint.worker);
            (endpoint, self.max_batched_tokens(worker.as_deref()))
        });
        with_size.collect()
    }

    fn max_batched_tokens(&self, worker: Option<&Worker>) -> Option<u64> {
        let own = worker.and_then(|worker| worker.config.max_batched_tokens);
        own.or(self.fleet.config.max_batched_tokens)
    }

    fn endpoint(&self, endpoint: &EngineEndpoint) -> EndpointState {
        let who = endpoint.endpoint;
        let worker = self.fleet.worker(who.worker);
        let size = self.max_batched_tokens(worker.as_deref());
        let classes = self.snapshot.classes.iter();
        let thresholds = classes.filter_map(|class| {
            let threshold = lane::threshold(self.policy_of(class)?, size)?;
            Some((class.name.to_string(), threshold))
        });
        EndpointState {
            worker: who.worker.0,
            url: worker.map(|worker| worker.config.url.to_string()),
            rank: who.rank,
            load_tokens: endpoint.prefill_tokens,
            booked_tokens: endpoint.booked_tokens,
            reported_tokens: endpoint.reported_tokens,
            active: endpoint.active,
            available: endpoint.available,
            overloaded: endpoint.overloaded,
            shut: endpoint.shut,
            busy_for: self.names(&endpoint.busy_for),
            busy_above_tokens: thresholds.collect(),
        }
    }
}

fn thresholds(policy: &ClassPolicy) -> ThresholdsState {
    // Written as a decimal, read as the nearest number to it.
    let decimal = |fraction: Fraction| fraction.to_string().parse().ok();
    ThresholdsState {
        prefill_busy_threshold: policy.prefill_busy_threshold,
        prefill_busy_threshold_frac: policy.prefill_busy_threshold_frac.and_then(decimal),
        busy_worker_ratio: policy.busy_worker_ratio.and_then(decimal),
        queue_timeout_ms: policy.queue_timeout_ms,
    }
}

fn counters(counters: &ClassCounters) -> CountersState {
    let rejected = LimitKind::ALL.iter().zip(counters.rejected);
    let failed = FailReason::ALL.iter().zip(counters.failed);
    let rejected = rejected.map(|(kind, count)| (kind.code().to_owned(), count));
    let failed = failed.map(|(reason, count)| (reason.code().to_owned(), count));
    CountersState {
        dispatched: counters.dispatched,
        charged_tokens: counters.charged_tokens,
        requeued: counters.requeued,
        expired: counters.expired,
        cancelled: counters.cancelled,
        shutting_down: counters.shutting_down,
        rejected: rejected.collect::<BTreeMap<_, _>>(),
        failed: failed.collect::<BTreeMap<_, _>>(),
    }
}
