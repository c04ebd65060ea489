//! What the suites of the whole engine share: its peak, and open loops over it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tollgate::{Builder, Built, ByHand, Core, EgressShard, Handles, IngressShard};
use tollgate_report::Recording;
use tollgate_report::bench::{Better, ClassShare, Unit};

use super::again_and_again;
use crate::machine::{on_core, pin};
use crate::method::{Kind, Sample};
use crate::open_loop::{Arrivals, Feed, Feeder, Intakes, Outside, Quiet, Random, Turner, Watch};
use crate::pipeline::{Asks, Flow, Receiver, Rig, SLOTS, Submitter};
use crate::{Plan, Summary};

const OFFERED: Kind = Kind::new(
    "requests offered a second",
    Unit::PerSecond,
    Better::Neither,
);
const ACHIEVED: Kind = Kind::rate("requests achieved a second");
const TRIES_FULL: Kind = Kind::new("tries without room", Unit::Count, Better::Neither);

/// Requests in flight in the closed loop that measures the peak.
const WINDOW: usize = 1_024;
const PEAK_ROUNDS: usize = 5;
/// At which part of the peak, and how long, requests arrive before anything is recorded.
const WARM_LOAD: f64 = 0.5;
const WARM: Duration = Duration::from_millis(200);

/// Full lives a second that loads are parts of: those of the plan, or what a closed loop reaches, the median
/// of some rounds.
pub(super) fn peak(plan: &Plan) -> f64 {
    if let Some(peak) = plan.peak {
        return peak;
    }
    let span = plan.span(Duration::from_millis(500));
    let round = |_| {
        let built = Rig::USUAL
            .builder(plan.cores)
            .build()
            .expect("the rig is valid");
        let Built {
            engine,
            ingress,
            mut egress,
            ..
        } = built;
        let receiver = Receiver::new(egress.remove(0), true);
        let mut flow = Flow::new(Submitter::new(ingress), receiver);
        let (lives, nanos) = on_core(plan.cores.shards, || {
            again_and_again(span / 10, || {
                flow.step(WINDOW);
            });
            let mut lives = 0;
            let (steps, each) = again_and_again(span, || lives += flow.step(WINDOW) as u64);
            (lives, each * as_f64(steps))
        });
        drop(engine);
        as_f64(lives) * 1e9 / nanos
    };
    Summary::of((0..PEAK_ROUNDS).map(round).collect()).median
}

/// Says of which peak loads are parts.
pub(super) fn peak_note(plan: &Plan, peak: f64) -> String {
    let whose = if plan.peak.is_some() {
        "given"
    } else {
        "that of a closed loop, measured first"
    };
    format!(
        "Loads are parts of a peak of {:.2} million lives a second ({whose}).",
        peak / 1e6
    )
}

/// What is done to the core besides, on the thread that turns it, between turns.
pub(super) trait AtCore: Send {
    fn between(&mut self, core: &mut Core<u64>, handles: &Handles, now: u64);

    /// What it recorded of that.
    fn recordings(self) -> Vec<Recording>;
}

impl AtCore for Quiet {
    fn between(&mut self, _: &mut Core<u64>, _: &Handles, _: u64) {}

    fn recordings(self) -> Vec<Recording> {
        Vec::new()
    }
}

/// Sets a flag when it is dropped.
struct EndsWith<'a>(&'a AtomicBool);

impl Drop for EndsWith<'_> {
    fn drop(&mut self) {
        // ORDERING: pairs with `Turner::turn_until`.
        self.0.store(true, Ordering::Release);
    }
}

/// An open loop over an engine of its own.
pub(super) struct OpenLoop<O> {
    pub(super) builder: Builder,
    pub(super) load: Load<O>,
}

/// What a feeder's thread does.
pub(super) struct Load<O> {
    /// Full lives a second at most.
    pub(super) peak: f64,
    pub(super) outside: O,
    pub(super) watch: Watch,
    /// How long everything is kept up before it counts.
    pub(super) warm: Duration,
}

impl OpenLoop<Quiet> {
    /// Nothing happens besides.
    pub(super) fn quiet(plan: &Plan, peak: f64, watch: Watch) -> Self {
        Self {
            builder: Rig::USUAL.builder(plan.cores),
            load: Load {
                peak,
                outside: Quiet,
                watch,
                warm: plan.span(WARM),
            },
        }
    }
}

impl<O: Outside + Send> OpenLoop<O> {
    /// Lets requests arrive as `arrivals` says, given the moment of the start, through an engine that turns
    /// itself. What happened besides comes back.
    pub(super) fn run<A: Arrivals + Send>(
        self,
        plan: &Plan,
        arrivals: impl FnOnce(u64) -> A + Send,
    ) -> (Sample, O) {
        let built = self.builder.build().expect("the rig is valid");
        let Built {
            engine,
            mut ingress,
            egress,
            ..
        } = built;
        let handles = engine.handles().clone();
        let ends = (ingress.remove(0), egress);
        let (sample, outside) = on_core(plan.cores.shards, || {
            self.load.feed(ends, &handles, None, || (), arrivals)
        });
        drop(engine);
        (sample, outside)
    }

    /// The same, but the core is turned by the harness, which sees every turn.
    pub(super) fn run_watched<A: Arrivals + Send>(
        self,
        plan: &Plan,
        arrivals: impl FnOnce(u64) -> A + Send,
        mut at_core: impl AtCore,
    ) -> (Sample, O) {
        let by_hand = self.builder.build_by_hand();
        let ByHand {
            core,
            handles,
            mut ingress,
            egress,
        } = by_hand.expect("the rig is valid");
        let ends = (ingress.remove(0), egress);
        let intakes = self.load.watch.intake.then(|| Intakes::new(SLOTS));
        let mut turner = Turner::new(core, handles.clock(), intakes.clone());
        let [warmed, over] = [const { AtomicBool::new(false) }; 2];
        let (sample, outside) = std::thread::scope(|scope| {
            scope.spawn(|| {
                pin(plan.cores.arbiter);
                turner.turn_until(&warmed, |_, _| ());
                turner.forget();
                turner.turn_until(&over, |core, now| at_core.between(core, &handles, now));
            });
            let feeding = scope.spawn(|| {
                // Also where it panics: the turner must not turn for ever.
                let _ends = [EndsWith(&warmed), EndsWith(&over)];
                pin(plan.cores.shards);
                let warm = || drop(EndsWith(&warmed));
                self.load.feed(ends, &handles, intakes, warm, arrivals)
            });
            feeding.join().expect("it does not panic")
        });
        let sample = sample
            .recordings([turner.selection, turner.turn])
            .recordings(at_core.recordings());
        (sample, outside)
    }
}

impl<O: Outside> Load<O> {
    /// Warms up, says so, and measures.
    fn feed<A: Arrivals>(
        self,
        (ingress, egress): (IngressShard<u64>, Vec<EgressShard<u64>>),
        handles: &Handles,
        intakes: Option<std::sync::Arc<Intakes>>,
        warm: impl FnOnce(),
        arrivals: impl FnOnce(u64) -> A,
    ) -> (Sample, O) {
        let clock = handles.clock();
        let span = crate::machine::nanos(self.warm);
        let at = clock.now().0;
        let mut feeder = Feeder::new(Feed {
            ingress,
            egress,
            asks: Asks::default(),
            arrivals: Random::poisson(WARM_LOAD * self.peak, at, span),
            clock: clock.clone(),
            outside: Quiet,
            watch: Watch::default(),
            intakes,
            live: SLOTS,
        });
        feeder.run();
        let (_, warmed) = feeder.finish();
        warm();
        let mut feeder = Feeder::new(Feed {
            ingress: warmed.ingress,
            egress: warmed.egress,
            asks: warmed.asks,
            arrivals: arrivals(clock.now().0),
            clock,
            outside: self.outside,
            watch: self.watch,
            intakes: warmed.intakes,
            live: SLOTS,
        });
        feeder.run();
        let mut sample = Sample::of(TRIES_FULL, as_f64(feeder.tries_full()));
        for (kind, rate) in [(OFFERED, feeder.offered()), (ACHIEVED, feeder.achieved())] {
            if let Some(rate) = rate {
                sample = sample.metric(kind, rate);
            }
        }
        let (rooms, feed) = feeder.finish();
        let sample = Sample {
            course: rooms.course(),
            classes: shares(handles),
            ..sample
        };
        (sample.recordings(rooms.into_recordings()), feed.outside)
    }
}

/// What classes were served while they were backlogged; nothing where fewer than two ever were.
fn shares(handles: &Handles) -> Vec<ClassShare> {
    let model = handles.stats().read().models.remove(0);
    let of_class = |class: tollgate::stats::ClassSnapshot| ClassShare {
        name: class.name.to_string(),
        quantum_tokens: class.gauges.quantum,
        served_tokens: class.share.served_tokens,
        entitled_tokens: class.share.entitled_tokens,
    };
    let shares: Vec<ClassShare> = model.classes.into_iter().map(of_class).collect();
    let backlogged = shares.iter().filter(|class| class.entitled_tokens > 0);
    if backlogged.count() < 2 {
        return Vec::new();
    }
    shares
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
pub(super) const fn as_f64(count: u64) -> f64 {
    count as f64
}
