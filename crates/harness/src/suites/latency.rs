//! How long do requests take when they come at their own pace, and where?
//!
//! First the peak of a closed loop: full lives, an arbiter that spins, one thread that submits and
//! receives. Then arrivals at parts of that peak, whatever the engine does meanwhile:
//!
//! - `poisson`: at random, one by one;
//! - `bursts`: the same mean rate, all of it in one millisecond of every three;
//! - `at_once`: ten thousand at one moment;
//! - `rooms`: as `poisson`, but the core is turned by the harness, which sees where requests spend their
//!   time, and how long each turn takes;
//! - `closed`: a loop that waits for its answers, for contrast: it asks less while the engine is slow.

use std::time::Duration;

use super::percent;
use super::running::{OpenLoop, peak, peak_note};
use crate::machine::nanos;
use crate::method::{Case, Cases, Sample};
use crate::open_loop::{AtOnce, Closed, Quiet, Random, Watch};
use crate::pipeline::Rig;
use crate::{Plan, Suite};

pub(super) const SUITE: Suite = Suite {
    name: "latency",
    about: "How long do requests take that come at their own pace, and in which room?",
    once: false,
    cases,
};

const LOADS: [f64; 3] = [0.5, 0.7, 0.9];
/// How long requests arrive in one repetition of a full run.
const SPAN: Duration = Duration::from_secs(3);
/// The burst, and the period that it is part of.
const BURST_NS: (u64, u64) = (1_000_000, 3_000_000);
const BURST_LOAD: f64 = 0.5;
const AT_ONCE: u32 = 10_000;
const CLOSED_WINDOW: u64 = 64;

/// One arm.
#[derive(Clone, Copy, Debug)]
enum Pace {
    Poisson(f64),
    Rooms(f64),
    Bursts,
    AtOnce,
    Closed,
}

impl Pace {
    /// All arms for these parts of the peak.
    fn all(loads: &[f64]) -> Vec<Self> {
        let at_loads = loads
            .iter()
            .flat_map(|&load| [Self::Poisson(load), Self::Rooms(load)]);
        at_loads
            .chain([Self::Bursts, Self::AtOnce, Self::Closed])
            .collect()
    }

    fn name(self) -> String {
        match self {
            Self::Poisson(load) => format!("poisson/{}", percent(load)),
            Self::Rooms(load) => format!("rooms/{}", percent(load)),
            Self::Bursts => format!("bursts/{}", percent(BURST_LOAD)),
            Self::AtOnce => format!("at_once/{AT_ONCE}"),
            Self::Closed => format!("closed/w{CLOSED_WINDOW}"),
        }
    }

    fn case(self, plan: &Plan, peak: f64) -> Case {
        let (name, plan) = (self.name(), plan.clone());
        match self {
            Self::Poisson(load) => poisson(name, plan, peak, load),
            Self::Rooms(load) => rooms(name, plan, peak, load),
            Self::Bursts => bursts(name, plan, peak),
            Self::AtOnce => at_once(name, plan, peak),
            Self::Closed => closed(name, plan, peak),
        }
    }
}

fn cases(plan: &Plan) -> Cases {
    let loads = match plan.axes.loads.as_slice() {
        [] => &LOADS,
        asked => asked,
    };
    let mut wanted = Pace::all(loads);
    wanted.retain(|pace| plan.wants(SUITE.name, &pace.name()));
    if wanted.is_empty() {
        return Cases::default();
    }
    let peak = peak(plan);
    let mut cases = Cases {
        notes: vec![peak_note(plan, peak)],
        ..Cases::default()
    };
    for pace in wanted {
        cases.add(plan, SUITE.name, pace.name(), |_| pace.case(plan, peak));
    }
    cases
}

fn watch(plan: &Plan) -> Watch {
    Watch {
        course_ns: Some(nanos(plan.span(SPAN))),
        ..Watch::default()
    }
}

fn poisson(name: String, plan: Plan, peak: f64, load: f64) -> Case {
    let span = nanos(plan.span(SPAN));
    Case::new(name, move || {
        let open = OpenLoop::quiet(&plan, peak, watch(&plan));
        let arrivals = |start| Random::poisson(load * peak, start, span);
        open.run(&plan, arrivals).0
    })
}

fn rooms(name: String, plan: Plan, peak: f64, load: f64) -> Case {
    let span = nanos(plan.span(SPAN));
    Case::new(name, move || {
        let watch = Watch {
            classes: Rig::class_names().collect(),
            intake: true,
            ..watch(&plan)
        };
        let open = OpenLoop::quiet(&plan, peak, watch);
        let arrivals = |start| Random::poisson(load * peak, start, span);
        open.run_watched(&plan, arrivals, Quiet).0
    })
    .setting("core", "turned by the harness, every turn timed")
}

fn bursts(name: String, plan: Plan, peak: f64) -> Case {
    let span = nanos(plan.span(SPAN));
    Case::new(name, move || {
        let open = OpenLoop::quiet(&plan, peak, watch(&plan));
        let arrivals = |start| Random::bursts(BURST_LOAD * peak, BURST_NS, start, span);
        open.run(&plan, arrivals).0
    })
}

fn at_once(name: String, plan: Plan, peak: f64) -> Case {
    let count = plan.size(AT_ONCE);
    Case::new(name, move || {
        let open = OpenLoop::quiet(&plan, peak, Watch::default());
        open.run(&plan, |start| AtOnce::new(count.into(), start)).0
    })
}

fn closed(name: String, plan: Plan, peak: f64) -> Case {
    let count = plan.count(1_000_000);
    let measure = move || -> Sample {
        let open = OpenLoop::quiet(&plan, peak, Watch::default());
        open.run(&plan, |start| Closed::new(count, CLOSED_WINDOW, start))
            .0
    };
    Case::new(name, measure).note(
        "For contrast only: this loop asks again when it is answered, so that what delays the engine delays \
         the questions as well.",
    )
}
