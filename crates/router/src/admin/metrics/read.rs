//! What a scrape collects.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use tollgate::FailReason;
use tollgate::stats::{ClassSnapshot, ModelSnapshot, Snapshot, Timing};
use tollgate::stats::{CoreSnapshot, EgressSnapshot, EndpointGauges, IngressSnapshot};

use super::encode::{self, Labels, Number};
use super::figures;
use crate::cost::estimate::ErrorSums;
use crate::fleet::{CounterFigures, Model, Standing};
use crate::shared::{PIECE, Shared};

/// One class, with counters that do not fall.
#[derive(Debug)]
pub(super) struct ClassFigures {
    pub(super) class: ClassSnapshot,
    pub(super) dispatched: u64,
    pub(super) charged_tokens: u64,
}

#[derive(Debug)]
pub(super) struct WorkerFigures {
    pub(super) requests: u64,
    pub(super) failures: u64,
    standing: Standing,
}

#[derive(Debug)]
pub(super) struct ModelFigures {
    pub(super) workers_well: u64,
    pub(super) waiting_for_room: u64,
    pub(super) sessions: u64,
    /// Blocks that are remembered, and those that made room; none without an index.
    pub(super) prefixes: Option<(u64, u64)>,
    pub(super) tokens_per_byte: f64,
    /// None without a tokenizer.
    pub(super) counted: Option<CounterFigures>,
}

#[derive(Debug)]
pub(super) struct RouterFigures {
    pub(super) open: u64,
    pub(super) draining: bool,
    pub(super) generation: u64,
    pub(super) buffered_bytes: u64,
    pub(super) log_lines_lost: u64,
    pub(super) start_seconds: f64,
}

type Rows<T> = Vec<(Labels, T)>;

/// Everything that the router's own counters do not hold, as it was at one scrape.
#[derive(Debug)]
pub(super) struct Reading {
    classes: Rows<ClassFigures>,
    endpoints: Rows<EndpointGauges>,
    workers: Rows<WorkerFigures>,
    models: Rows<ModelFigures>,
    estimates: Rows<ErrorSums>,
    core: CoreSnapshot,
    ingress: Rows<IngressSnapshot>,
    egress: Rows<EgressSnapshot>,
    router: RouterFigures,
}

fn word(text: &str) -> Arc<str> {
    text.into()
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

impl Reading {
    /// Reads everything. Waits for nothing but another scrape and the short locks of workers and sessions.
    pub(super) fn take(shared: &Shared, started: SystemTime, peaks: &Peaks) -> Self {
        // Before the statistics are read: a peak is never of a later moment than they.
        let mut peaks = peaks.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stats = shared.fleet.handles.stats().read();
        let Snapshot {
            models,
            core,
            ingress,
            egress,
        } = stats;
        let mut reading = Self {
            classes: Vec::new(),
            endpoints: Vec::new(),
            workers: workers(shared),
            models: Vec::new(),
            estimates: Vec::new(),
            core,
            ingress: by_shard(ingress),
            egress: by_shard(egress),
            router: router(shared, started),
        };
        for model in shared.fleet.models().iter() {
            if let Some(snapshot) = models.get(usize::from(model.index.0)) {
                reading.add_model(shared, model, snapshot);
            }
        }
        raise(&mut peaks, &mut reading.classes);
        reading
    }

    fn add_model(&mut self, shared: &Shared, model: &Model, snapshot: &ModelSnapshot) {
        let label = ("model", Arc::clone(&model.name));
        let mut names = BTreeSet::new();
        for class in &snapshot.classes {
            // While a policy is loaded, a place may for a moment have no name, or that of another one.
            if class.name.is_empty() || !names.insert(&class.name) {
                continue;
            }
            let labels = vec![label.clone(), ("class", Arc::clone(&class.name))];
            let counters = &class.gauges.counters;
            let row = ClassFigures {
                dispatched: counters.dispatched,
                charged_tokens: counters.charged_tokens,
                class: class.clone(),
            };
            self.classes.push((labels, row));
        }
        let mut blocks = 0;
        for endpoint in &snapshot.endpoints {
            let who = endpoint.gauges.endpoint;
            // The engine may know for a moment whom the fleet no longer knows.
            let Some(worker) = shared.fleet.worker(who.worker) else {
                continue;
            };
            let prefixes = model.prefixes.as_ref();
            blocks += prefixes.map_or(0, |prefixes| prefixes.len(who));
            let mut labels = vec![label.clone()];
            labels.extend(worker_labels(worker.id, &worker.config.url.to_string()));
            labels.push(("rank", word(&who.rank.to_string())));
            self.endpoints.push((labels, endpoint.gauges));
        }
        for (tokens, sums) in [
            ("prompt", model.errors.prompt()),
            ("cached", model.errors.cached()),
        ] {
            let labels = vec![label.clone(), ("tokens", word(tokens))];
            self.estimates.push((labels, sums));
        }
        let prefixes = model.prefixes.as_ref();
        let workers = shared.fleet.workers();
        let workers = workers.values();
        let well = workers
            .filter(|worker| worker.standing() == Standing::Well && worker.serves(&model.name));
        let row = ModelFigures {
            workers_well: count(well.count()),
            waiting_for_room: shared.admission.waiting_for_room(model.index).into(),
            sessions: count(model.sessions.len()),
            prefixes: prefixes.map(|prefixes| (count(blocks), prefixes.evicted())),
            tokens_per_byte: model.tokens.ratio(),
            counted: model.counter.as_ref().map(|counter| counter.figures()),
        };
        self.models.push((vec![label], row));
    }

    /// Refusals and failures of each class by kind; and one sample for each way in which a worker may stand, of
    /// which that in which it does is 1.
    fn encode_words(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let rejected = self.classes.iter().flat_map(|(labels, row)| {
            figures::rejected(&row.class).map(|found| with_word(labels, "kind", found))
        });
        let help = "Requests that a queue limit refused.";
        encode::encode(encoder, "rejected", help, true, rejected)?;
        let failed = self.classes.iter().flat_map(|(labels, row)| {
            figures::failed(&row.class).map(|found| with_word(labels, "reason", found))
        });
        let help = "Requests that no worker could run.";
        encode::encode(encoder, "failed", help, true, failed)?;
        let ways = [
            ("unseen", Standing::Unseen),
            ("well", Standing::Well),
            ("ejected", Standing::Ejected),
        ];
        let standings = self.workers.iter().flat_map(|(labels, row)| {
            ways.map(|(name, way)| {
                with_word(labels, "standing", (name, u64::from(row.standing == way)))
            })
        });
        let help = "1: the worker stands like this.";
        encode::encode(encoder, "worker_standing", help, false, standings)
    }
}

fn with_word(labels: &Labels, key: &'static str, (value, number): (&str, u64)) -> (Labels, Number) {
    let mut labels = labels.clone();
    labels.push((key, word(value)));
    (labels, Number::Whole(number))
}

fn worker_labels(id: u64, url: &str) -> Labels {
    vec![("worker", word(&id.to_string())), ("url", word(url))]
}

fn workers(shared: &Shared) -> Rows<WorkerFigures> {
    let workers = shared.fleet.workers();
    let rows = workers.values().map(|worker| {
        let labels = worker_labels(worker.id, &worker.config.url.to_string());
        let row = WorkerFigures {
            requests: worker.requests.load(Ordering::Relaxed),
            failures: worker.failures.load(Ordering::Relaxed),
            standing: worker.standing(),
        };
        (labels, row)
    });
    rows.collect()
}

fn by_shard<T>(shards: Vec<T>) -> Rows<T> {
    let shards = shards.into_iter().enumerate();
    shards
        .map(|(index, shard)| (vec![("shard", word(&index.to_string()))], shard))
        .collect()
}

fn router(shared: &Shared, started: SystemTime) -> RouterFigures {
    let pieces = shared.config.limits.buffered_bytes.div_ceil(PIECE);
    let held = pieces.saturating_sub(shared.buffers.available_permits());
    let started = started.duration_since(SystemTime::UNIX_EPOCH);
    RouterFigures {
        open: count(shared.open()),
        draining: !shared.is_serving(),
        generation: shared.fleet.generation(),
        buffered_bytes: count(held * PIECE),
        log_lines_lost: shared.journalist.lost(),
        start_seconds: started.map_or(0.0, |since| since.as_secs_f64()),
    }
}

impl Collector for Reading {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        encode::encode_all(encoder, figures::CLASSES, &self.classes)?;
        encode::encode_all(encoder, figures::ENDPOINTS, &self.endpoints)?;
        encode::encode_all(encoder, figures::WORKERS, &self.workers)?;
        self.encode_words(encoder)?;
        encode::encode_all(encoder, figures::MODELS, &self.models)?;
        encode::encode_all(encoder, figures::ESTIMATES, &self.estimates)?;
        encode::encode_one(encoder, figures::CORE, &self.core)?;
        let selection = [&self.core.selection];
        let help = "What a selection took; a sample of all selections.";
        encode::encode_timings(encoder, "selection_seconds", help, &selection)?;
        encode::encode_all(encoder, figures::INGRESS, &self.ingress)?;
        encode::encode_all(encoder, figures::EGRESS, &self.egress)?;
        let delivery: Vec<&Timing> = self.egress.iter().map(|(_, shard)| &shard.ring).collect();
        let help = "From a dispatch to its hand-out.";
        encode::encode_timings(encoder, "delivery_seconds", help, &delivery)?;
        encode::encode_one(encoder, figures::ROUTER, &self.router)?;
        let help = "The version that runs.";
        let mut build = encoder.encode_descriptor("build", help, None, MetricType::Info)?;
        build.encode_info(&[("version", env!("CARGO_PKG_VERSION"))])
    }
}

/// The highest counts of each class so far.
///
/// A failed hand-over takes a dispatch out of its class's counts (S9.4), which the readers of a counter would
/// take for a restart. So the highest count seen stands until the count is above it: a request that is
/// dispatched again counts once. Bounded: a class that is gone is forgotten at the next scrape.
#[derive(Debug, Default)]
pub(super) struct Peaks(Mutex<BTreeMap<Labels, Peak>>);

#[derive(Clone, Copy, Debug, Default)]
struct Peak {
    /// Dispatches with those that were taken back: it falls only where another class has the name.
    decided: u64,
    dispatched: u64,
    charged_tokens: u64,
}

fn raise(peaks: &mut BTreeMap<Labels, Peak>, classes: &mut Rows<ClassFigures>) {
    let before = std::mem::take(peaks);
    for (labels, row) in classes {
        let counters = &row.class.gauges.counters;
        let handed = FailReason::ALL.iter().zip(counters.failed);
        let handed = handed.filter(|(reason, _)| **reason == FailReason::HandOff);
        let given_up: u64 = handed.map(|(_, count)| count).sum();
        let decided = counters.dispatched + counters.requeued + given_up;
        let peak = before.get(labels).filter(|peak| peak.decided <= decided);
        let peak = peak.copied().unwrap_or_default();
        row.dispatched = row.dispatched.max(peak.dispatched);
        row.charged_tokens = row.charged_tokens.max(peak.charged_tokens);
        let peak = Peak {
            decided,
            dispatched: row.dispatched,
            charged_tokens: row.charged_tokens,
        };
        peaks.insert(labels.clone(), peak);
    }
}
