//! A worker: where it is, how it fares, what the engine is told of it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tollgate::Worker as EngineWorker;

use crate::config::WorkerConfig;

/// How a worker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It was not seen to be well yet.
    Unseen,
    /// It takes requests.
    Well,
    /// It failed too often and takes none.
    Ejected,
}

/// A worker that the router knows.
#[derive(Debug)]
pub(crate) struct Worker {
    /// Its number, from 1; never used again.
    pub(crate) id: u64,
    pub(crate) config: WorkerConfig,
    state: Mutex<State>,
    /// Requests that were handed to it.
    pub(crate) requests: AtomicU64,
    /// Hand-overs that failed.
    pub(crate) failures: AtomicU64,
    /// Wakes whoever watches it, before its time.
    pub(super) look_now: Notify,
}

#[derive(Debug)]
struct State {
    standing: Standing,
    failures_in_a_row: u32,
    successes_in_a_row: u32,
    last_failure: Option<String>,
    overloaded: bool,
    taints: Vec<String>,
    /// The models for which the engine knows it.
    models: BTreeSet<String>,
    watch: Option<AbortHandle>,
    /// Hand-overs that failed since the last that did not.
    hand_overs_failed_in_a_row: u32,
    /// How often it was taken out for failing hand-overs since one succeeded.
    strikes: u32,
    /// Until then, a good look does not bring it back.
    out_until: Option<Instant>,
}

/// Hand-overs in a row that fail, whatever the looks say, take a worker out while another one is well: one that
/// fails at once is never busy, and would draw all requests to itself. A request alone cannot do it with the
/// usual number of attempts.
const HAND_OVERS_FAILED_MAX: u32 = 5;
/// So many of a worker's models are named in a line of text.
const SHOWN: usize = 8;
/// How long it stays out, the first time; each further time twice as long.
const OUT: Duration = Duration::from_secs(5);
/// So often the time is doubled.
const DOUBLINGS: u32 = 4;

/// How bad a failure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    /// Nobody listens: it is taken out at once.
    Dead,
    /// It is taken out when it fails again and again.
    Ill,
}

/// What a good look brought.
#[derive(Debug)]
pub(super) struct Changed {
    /// Models that it no longer serves.
    pub(super) left: Vec<String>,
    /// The engine must be told.
    pub(super) is_news: bool,
}

/// What a failure brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Failing {
    /// Nothing that operators or the engine need to know.
    AsBefore,
    /// It was never well, and now for another reason: operators must be told.
    Unseen,
    /// It is taken out: operators and the engine must be told.
    Out,
}

/// A worker as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerReport {
    /// Its number, from 1; never used again.
    pub id: u64,
    /// Where it is.
    pub url: String,
    /// How it stands.
    pub standing: Standing,
    /// The models that it serves, as far as is known.
    pub models: Vec<String>,
    /// Data-parallel ranks behind its one address.
    pub ranks: u32,
    /// What fractions of thresholds refer to, in tokens; none: the common figure.
    pub max_batched_tokens: Option<u64>,
    /// An operator said that it takes no requests for now.
    pub overloaded: bool,
    /// The taints that it carries.
    pub taints: Vec<String>,
    /// Requests that were handed to it.
    pub requests: u64,
    /// Hand-overs that failed.
    pub failures: u64,
    /// What was wrong last, while it is not well.
    pub last_failure: Option<String>,
}

impl Worker {
    pub(super) fn new(id: u64, config: WorkerConfig) -> Self {
        let state = State {
            standing: Standing::Unseen,
            failures_in_a_row: 0,
            successes_in_a_row: 0,
            last_failure: None,
            overloaded: false,
            taints: config.taints.clone(),
            models: BTreeSet::new(),
            watch: None,
            hand_overs_failed_in_a_row: 0,
            strikes: 0,
            out_until: None,
        };
        Self {
            id,
            config,
            state: Mutex::new(state),
            requests: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            look_now: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A hand-over failed.
    pub(crate) fn hand_over_failed(&self, why: &str) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        let mut state = self.lock();
        state.last_failure = Some(why.to_owned());
        state.hand_overs_failed_in_a_row = state.hand_overs_failed_in_a_row.saturating_add(1);
    }

    /// A hand-over did not fail.
    pub(crate) fn hand_over_succeeded(&self) {
        let mut state = self.lock();
        state.hand_overs_failed_in_a_row = 0;
        state.strikes = 0;
    }

    /// Whether it fails so many hand-overs that it should be out.
    pub(super) fn is_out_of_order(&self) -> bool {
        let state = self.lock();
        state.standing == Standing::Well
            && state.hand_overs_failed_in_a_row >= HAND_OVERS_FAILED_MAX
    }

    /// Takes it out for a time, whatever the looks say.
    pub(super) fn bar(&self, now: Instant) {
        let mut state = self.lock();
        let time = OUT * 2_u32.pow(state.strikes.min(DOUBLINGS));
        state.strikes = state.strikes.saturating_add(1);
        state.hand_overs_failed_in_a_row = 0;
        state.standing = Standing::Ejected;
        state.successes_in_a_row = 0;
        state.out_until = Some(now + time);
    }

    /// Has it looked at soon.
    pub(crate) fn suspect(&self) {
        self.look_now.notify_one();
    }

    pub(crate) fn standing(&self) -> Standing {
        self.lock().standing
    }

    /// The models for which the engine knows it.
    pub(crate) fn models(&self) -> Vec<String> {
        self.lock().models.iter().cloned().collect()
    }

    /// Whether the engine knows it for a model, or will.
    pub(crate) fn serves(&self, name: &str) -> bool {
        self.config.models.iter().any(|model| model == name) || self.lock().models.contains(name)
    }

    pub(super) fn take_models(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.lock().models)
    }

    pub(super) fn set_overloaded(&self, overloaded: bool) {
        self.lock().overloaded = overloaded;
    }

    /// Returns the taints that it had.
    pub(super) fn set_taints(&self, taints: Vec<String>) -> Vec<String> {
        std::mem::replace(&mut self.lock().taints, taints)
    }

    /// It does not serve a model after all.
    pub(super) fn unserve(&self, name: &str, why: &str) {
        let mut state = self.lock();
        state.models.remove(name);
        state.last_failure = Some(why.to_owned());
    }

    /// It takes no requests.
    pub(super) fn eject(&self) {
        self.lock().standing = Standing::Ejected;
    }

    pub(super) fn watched_by(&self, watch: AbortHandle) {
        self.lock().watch = Some(watch);
    }

    pub(crate) fn stop_watching(&self) {
        if let Some(watch) = self.lock().watch.take() {
            watch.abort();
        }
    }

    /// Takes in a good look; it is taken back after so many in a row. The first look ever suffices.
    pub(super) fn saw_well(&self, models: &[String], readmit_after: u32) -> Changed {
        let mut state = self.lock();
        state.failures_in_a_row = 0;
        state.successes_in_a_row = state.successes_in_a_row.saturating_add(1);
        let was_well = state.standing == Standing::Well;
        let is_barred = state.out_until.is_some_and(|until| Instant::now() < until);
        let is_enough =
            state.standing == Standing::Unseen || state.successes_in_a_row >= readmit_after;
        if is_enough && !is_barred {
            state.standing = Standing::Well;
            state.out_until = None;
        }
        let models: BTreeSet<String> = models.iter().cloned().collect();
        let left = state.models.difference(&models).cloned().collect();
        let has_new = !models.is_subset(&state.models);
        state.models = models;
        let is_well = state.standing == Standing::Well;
        if is_well && !was_well {
            state.last_failure = None;
        }
        Changed {
            left,
            is_news: is_well != was_well || has_new,
        }
    }

    /// Takes in a failure.
    pub(super) fn saw_failing(&self, why: &str, severity: Severity, eject_after: u32) -> Failing {
        let mut state = self.lock();
        let is_new = state.last_failure.as_deref() != Some(why);
        state.successes_in_a_row = 0;
        state.failures_in_a_row = state.failures_in_a_row.saturating_add(1);
        state.last_failure = Some(why.to_owned());
        let is_enough = severity == Severity::Dead || state.failures_in_a_row >= eject_after;
        let is_out = state.standing == Standing::Well && is_enough;
        if is_out {
            state.standing = Standing::Ejected;
            Failing::Out
        } else if state.standing == Standing::Unseen && is_new {
            Failing::Unseen
        } else {
            Failing::AsBefore
        }
    }

    /// What the engine is told.
    pub(super) fn record(&self, max_batched_tokens: Option<u64>) -> EngineWorker {
        let state = self.lock();
        EngineWorker {
            ranks: self.config.ranks,
            max_batched_tokens: self.config.max_batched_tokens.or(max_batched_tokens),
            overloaded: state.overloaded,
            available: state.standing == Standing::Well,
            ..EngineWorker::new(self.id)
        }
        .with_taints(state.taints.iter().map(String::as_str))
    }

    /// For a line of text.
    pub(crate) fn describe(&self) -> String {
        let state = self.lock();
        let models: Vec<&str> = state.models.iter().map(String::as_str).collect();
        let models = match models.as_slice() {
            [] => "no model yet".to_owned(),
            [shown @ .., _] if models.len() > SHOWN => {
                let shown = &shown[..SHOWN];
                format!("{} and {} more", shown.join(", "), models.len() - SHOWN)
            }
            models => models.join(", "),
        };
        let standing = match state.standing {
            Standing::Unseen => "not seen yet",
            Standing::Well => "well",
            Standing::Ejected => "ejected",
        };
        let why = state.last_failure.as_deref().map(|why| format!(" ({why})"));
        let why = why.unwrap_or_default();
        format!("{} {}: {models}; {standing}{why}", self.id, self.config.url)
    }

    pub(crate) fn report(&self) -> WorkerReport {
        let state = self.lock();
        WorkerReport {
            id: self.id,
            url: self.config.url.to_string(),
            standing: state.standing,
            models: state.models.iter().cloned().collect(),
            ranks: self.config.ranks,
            max_batched_tokens: self.config.max_batched_tokens,
            overloaded: state.overloaded,
            taints: state.taints.clone(),
            requests: self.requests.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            last_failure: state.last_failure.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker() -> Worker {
        Worker::new(
            7,
            WorkerConfig::new("http://h:1".parse().expect("an address")),
        )
    }

    fn models(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_worker_is_ejected_after_failures_in_a_row_and_taken_back() {
        let worker = worker();
        assert!(!worker.record(None).available);
        assert!(worker.saw_well(&models(&["m"]), 2).is_news);
        assert!(worker.record(None).available);
        assert_eq!(
            worker.saw_failing("late", Severity::Ill, 2),
            Failing::AsBefore
        );
        assert!(
            !worker.saw_well(&models(&["m"]), 2).is_news,
            "the row is broken"
        );
        assert_eq!(
            worker.saw_failing("late", Severity::Ill, 2),
            Failing::AsBefore
        );
        assert_eq!(worker.saw_failing("late", Severity::Ill, 2), Failing::Out);
        assert_eq!(
            worker.saw_failing("late", Severity::Ill, 2),
            Failing::AsBefore,
            "it is out already"
        );
        assert_eq!(worker.standing(), Standing::Ejected);
        assert!(!worker.saw_well(&models(&["m"]), 2).is_news);
        assert!(worker.saw_well(&models(&["m"]), 2).is_news);
        assert_eq!(worker.standing(), Standing::Well);
    }

    #[test]
    fn a_worker_that_fails_hand_overs_stays_out_for_a_time_that_grows() {
        let worker = worker();
        worker.saw_well(&models(&["m"]), 1);
        for _ in 0..4 {
            worker.hand_over_failed("status 503");
        }
        worker.hand_over_succeeded();
        for _ in 0..4 {
            worker.hand_over_failed("status 503");
        }
        assert!(!worker.is_out_of_order(), "the row is broken");
        worker.hand_over_failed("status 503");
        assert!(worker.is_out_of_order());
        let past = Instant::now().checked_sub(OUT + Duration::from_secs(1));
        let past = past.expect("the machine has run for longer");
        worker.bar(Instant::now());
        assert!(
            !worker.saw_well(&models(&["m"]), 1).is_news,
            "its time is not over"
        );
        worker.bar(past);
        worker.saw_well(&models(&["m"]), 1);
        assert_eq!(
            worker.standing(),
            Standing::Ejected,
            "the second time is twice as long"
        );
    }

    #[test]
    fn a_worker_that_nobody_can_connect_to_is_ejected_at_once() {
        let worker = worker();
        worker.saw_well(&models(&["m"]), 1);
        let failing = worker.saw_failing("refused", Severity::Dead, 1_000);
        assert_eq!(failing, Failing::Out);
        assert_eq!(worker.standing(), Standing::Ejected);
    }

    #[test]
    fn each_new_reason_why_a_worker_was_never_well_is_told_once() {
        let worker = worker();
        for (why, expected) in [
            ("refused", Failing::Unseen),
            ("refused", Failing::AsBefore),
            ("TLS", Failing::Unseen),
        ] {
            assert_eq!(
                worker.saw_failing(why, Severity::Dead, 1),
                expected,
                "{why}"
            );
        }
        worker.saw_well(&models(&["m"]), 1);
        assert_eq!(
            worker.saw_failing("late", Severity::Ill, 2),
            Failing::AsBefore
        );
    }

    #[test]
    fn a_worker_that_serves_other_models_leaves_those_it_served() {
        let worker = worker();
        worker.saw_well(&models(&["a", "b"]), 1);
        let changed = worker.saw_well(&models(&["b", "c"]), 1);
        assert_eq!(changed.left, ["a"]);
        assert!(changed.is_news);
        assert_eq!(worker.models(), ["b", "c"]);
        let changed = worker.saw_well(&models(&["b"]), 1);
        assert_eq!((changed.left, changed.is_news), (models(&["c"]), false));
    }

    #[test]
    fn a_worker_without_a_figure_of_its_own_takes_the_common_one() {
        let worker = worker();
        assert_eq!(worker.record(Some(8_192)).max_batched_tokens, Some(8_192));
        assert_eq!(worker.record(None).max_batched_tokens, None);
    }
}
