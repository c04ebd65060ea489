//! A model: what the router learns about its prompts, and a recent view of its classes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tollgate::stats::ModelSnapshot;
use tollgate::{ClassIndex, Handles, ModelIndex};

use super::counters::PromptCounter;
use crate::affinity::Sessions;
use crate::config::Config;
use crate::cost::{EstimateErrors, PrefixIndex, TokenEstimate};
use crate::refusal::{RETRY_MAX, RETRY_UNKNOWN};

/// A model that requests are routed to.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) name: Arc<str>,
    /// Its place in the engine.
    pub(crate) index: ModelIndex,
    pub(crate) tokens: TokenEstimate,
    pub(crate) errors: EstimateErrors,
    /// Counts prompts, where the model's tokenizer is known.
    pub(crate) counter: Option<Arc<PromptCounter>>,
    /// None where the index is switched off.
    pub(crate) prefixes: Option<PrefixIndex>,
    pub(crate) sessions: Sessions,
    classes: ArcSwap<Vec<ClassView>>,
}

/// What was seen of a class a moment ago.
#[derive(Clone, Debug)]
pub(crate) struct ClassView {
    index: ClassIndex,
    pub(crate) name: Arc<str>,
    waiting: u64,
    dispatched: u64,
    /// Dispatches a second, averaged over some ten looks; none before the second look.
    rate: Option<f64>,
    seen: Instant,
}

/// What a new look at a rate counts for against those before.
const WEIGHT: f64 = 0.2;

impl Model {
    pub(super) fn new(
        name: &str,
        index: ModelIndex,
        config: &Config,
        counter: Option<Arc<PromptCounter>>,
    ) -> Self {
        let blocks = config.prefix_blocks;
        Self {
            name: name.into(),
            index,
            tokens: TokenEstimate::default(),
            errors: EstimateErrors::default(),
            counter,
            prefixes: (blocks > 0).then(|| PrefixIndex::new(blocks)),
            sessions: Sessions::new(&config.affinity),
            classes: ArcSwap::default(),
        }
    }

    /// Looks at its classes anew.
    pub(crate) fn see_classes(&self, handles: &Handles) {
        let read = handles.stats().read();
        if let Some(snapshot) = read.models.get(usize::from(self.index.0)) {
            self.saw_classes(snapshot);
        }
    }

    /// Takes in a look at its classes.
    pub(crate) fn saw_classes(&self, snapshot: &ModelSnapshot) {
        let now = Instant::now();
        let before = self.classes.load();
        let views = snapshot.classes.iter().map(|class| {
            let dispatched = class.gauges.counters.dispatched;
            let same = before
                .iter()
                .find(|view| view.index == class.index && view.name == class.name);
            ClassView {
                index: class.index,
                name: Arc::clone(&class.name),
                waiting: class.gauges.waiting,
                dispatched,
                rate: same.and_then(|view| view.rate_with(dispatched, now)),
                seen: now,
            }
        });
        self.classes.store(Arc::new(views.collect()));
    }

    /// The name of a class; empty for one that was never looked at.
    pub(crate) fn class_name(&self, index: ClassIndex) -> Arc<str> {
        let classes = self.classes.load();
        let found = classes.iter().find(|view| view.index == index);
        found.map_or_else(|| Arc::from(""), |view| Arc::clone(&view.name))
    }

    /// How long the backlog of a class takes to drain at its present rate, with so many waiting requests where
    /// that is known better than from the last look.
    pub(crate) fn drain_time(&self, index: ClassIndex, waiting: Option<u64>) -> Duration {
        let classes = self.classes.load();
        let found = classes.iter().find(|view| view.index == index);
        found.map_or(RETRY_UNKNOWN, |view| view.drain_time(waiting))
    }
}

impl ClassView {
    #[expect(
        clippy::cast_precision_loss,
        reason = "a rate in whole per cents is all that is asked for"
    )]
    fn rate_with(&self, dispatched: u64, now: Instant) -> Option<f64> {
        let seconds = now.duration_since(self.seen).as_secs_f64();
        // A requeue takes a dispatch out again.
        let more = dispatched.saturating_sub(self.dispatched);
        if seconds < 0.05 || self.waiting == 0 && more == 0 {
            // It had nothing to do: that says nothing of how fast it is served.
            return self.rate;
        }
        let rate = more as f64 / seconds;
        Some(
            self.rate
                .map_or(rate, |before| before + WEIGHT * (rate - before)),
        )
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "a time in whole per cents is all that is asked for"
    )]
    fn drain_time(&self, waiting: Option<u64>) -> Duration {
        let Some(rate) = self.rate else {
            return RETRY_UNKNOWN;
        };
        let seconds = waiting.unwrap_or(self.waiting) as f64 / rate;
        Duration::try_from_secs_f64(seconds).map_or(RETRY_MAX, |time| time.min(RETRY_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(waiting: u64, rate: Option<f64>) -> ClassView {
        ClassView {
            index: ClassIndex(0),
            name: "a".into(),
            waiting,
            dispatched: 0,
            rate,
            seen: Instant::now(),
        }
    }

    #[test]
    fn errors_93_a_backlog_of_1000_drains_in_10_s_at_100_a_second() {
        let time = |waiting, rate| view(waiting, rate).drain_time(None);
        assert_eq!(time(1_000, Some(100.0)), Duration::from_secs(10));
        assert_eq!(time(1_000_000, Some(1.0)), RETRY_MAX);
        assert_eq!(time(5, Some(0.0)), RETRY_MAX);
        assert_eq!(time(5, None), RETRY_UNKNOWN);
        let newer = view(5, Some(100.0)).drain_time(Some(1_000));
        assert_eq!(newer, Duration::from_secs(10));
    }

    #[test]
    fn a_class_that_had_nothing_to_do_keeps_the_rate_that_it_had() {
        let later = |view: &ClassView| view.seen + Duration::from_secs(1);
        let idle = view(0, Some(50.0));
        assert_eq!(idle.rate_with(0, later(&idle)), Some(50.0));
        let new = view(0, None);
        assert_eq!(new.rate_with(0, later(&new)), None);
        let stuck = view(5, Some(50.0));
        assert!(stuck.rate_with(0, later(&stuck)) < Some(50.0));
    }

    #[test]
    fn a_rate_follows_what_is_dispatched() {
        let mut view = view(10, None);
        for _ in 0..40 {
            let later = view.seen + Duration::from_secs(1);
            view.rate = view.rate_with(view.dispatched + 50, later);
            view.dispatched += 50;
            view.seen = later;
        }
        let rate = view.rate.expect("it was looked at twice");
        assert!((rate - 50.0).abs() < 0.1, "{rate}");
    }
}
