//! What do ordinary requests notice while something goes wrong?
//!
//! Requests arrive at half of the peak. Meanwhile, every ten milliseconds:
//!
//! - `calm`: nothing, to compare with;
//! - `flip`: every worker becomes overloaded and recovers, so that every lane shuts and opens;
//! - `cancel_storm`: a thousand requests for a worker that holds are submitted and cancelled;
//! - `deadline_storm`: a thousand such requests run out of time at one moment;
//! - `churn`: a worker for which a hundred requests wait leaves, which fails them, and comes back;
//! - `slow_egress`: of two egress shards one is not looked at for 50 ms of every 200.
//!
//! The core is turned by the harness, which does to it what is to be done between turns.

mod storms;

use std::time::Duration;

use tollgate::{Builder, Command, Core, Handles, ModelIndex, Worker, WorkerId};
use tollgate_report::Recording;

use super::running::{AtCore, Load, OpenLoop, peak, peak_note};
use crate::machine::nanos;
use crate::method::{Case, Cases};
use crate::open_loop::{Outside, Quiet, Random, Watch};
use crate::pipeline::workers;
use crate::{Plan, Suite};

pub(super) use self::storms::CancelStorm;
use self::storms::{Crowd, DeadlineStorm, PERIOD_NS};

pub(super) const SUITE: Suite = Suite {
    name: "adversity",
    about: "What do ordinary requests notice of flips, storms, churn and a slow receiver?",
    once: false,
    cases,
};

const LOAD: f64 = 0.5;
const SPAN: Duration = Duration::from_secs(2);
const MODEL: ModelIndex = ModelIndex(0);
/// Workers that hold: they are known, overloaded, and no ordinary request is for them.
const HELD: WorkerId = WorkerId(1_000);
const LEAVING: WorkerId = WorkerId(1_001);
/// The slow egress shard is not looked at for so long of each period.
const STALL_NS: (u64, u64) = (50_000_000, 200_000_000);

const NAMES: [&str; 6] = [
    "calm",
    "flip",
    "cancel_storm",
    "deadline_storm",
    "churn",
    "slow_egress",
];

fn held(id: WorkerId) -> Worker {
    Worker {
        overloaded: true,
        ..Worker::new(id.0)
    }
}

/// A worker more, which holds whatever is for it.
pub(super) fn with_held_worker(builder: Builder) -> Builder {
    builder.worker(held(HELD))
}

fn cases(plan: &Plan) -> Cases {
    let wanted: Vec<&str> = NAMES
        .into_iter()
        .filter(|name| plan.wants(SUITE.name, name))
        .collect();
    if wanted.is_empty() {
        return Cases::default();
    }
    let peak = peak(plan);
    Cases {
        cases: wanted
            .into_iter()
            .map(|name| case(plan, name, peak))
            .collect(),
        notes: vec![peak_note(plan, peak)],
    }
}

fn case(plan: &Plan, name: &'static str, peak: f64) -> Case {
    let plan = plan.clone();
    Case::new(name, move || {
        let span = nanos(plan.span(SPAN));
        let arrivals = move |start| Random::poisson(LOAD * peak, start, span);
        let quiet = || OpenLoop::quiet(&plan, peak, watch(span));
        match name {
            "flip" => quiet().run_watched(&plan, arrivals, Flips::new()).0,
            "cancel_storm" => {
                let open = besieged(&plan, peak, CancelStorm::new(span));
                open.run_watched(&plan, arrivals, Quiet).0
            }
            "deadline_storm" => {
                let open = besieged(&plan, peak, DeadlineStorm::new(span));
                open.run_watched(&plan, arrivals, Quiet).0
            }
            "churn" => {
                let open = besieged(&plan, peak, Crowd::new(LEAVING, span));
                open.run_watched(&plan, arrivals, Churn::new()).0
            }
            "slow_egress" => {
                let mut open = besieged(&plan, peak, SlowEgress { began: None });
                open.builder = open.builder.egress_shards(2);
                open.load.watch.by_egress = true;
                open.run_watched(&plan, arrivals, Quiet).0
            }
            _ => quiet().run_watched(&plan, arrivals, Quiet).0,
        }
    })
}

fn watch(span: u64) -> Watch {
    Watch {
        course_ns: Some(span),
        ..Watch::default()
    }
}

/// With the workers that hold.
fn besieged<O>(plan: &Plan, peak: f64, outside: O) -> OpenLoop<O> {
    let quiet = OpenLoop::quiet(plan, peak, watch(nanos(plan.span(SPAN))));
    OpenLoop {
        builder: with_held_worker(quiet.builder).worker(held(LEAVING)),
        load: Load {
            peak,
            outside,
            watch: quiet.load.watch,
            warm: quiet.load.warm,
        },
    }
}

/// Whether a period is over; the first begins with the first call.
#[derive(Debug, Default)]
struct Ticks {
    next: Option<u64>,
}

impl Ticks {
    fn is_due(&mut self, now: u64) -> bool {
        let next = *self.next.get_or_insert(now + PERIOD_NS);
        let is_due = next <= now;
        if is_due {
            self.next = Some(next + PERIOD_NS);
        }
        is_due
    }
}

/// Commands at each tick, and how long they took.
fn command(core: &mut Core<u64>, handles: &Handles, command: Command) {
    let done = core.execute(&handles.control(), command);
    done.expect("the worker is known");
}

/// Every worker becomes overloaded and recovers.
struct Flips {
    ticks: Ticks,
    took: Recording,
}

impl Flips {
    fn new() -> Self {
        Self {
            ticks: Ticks::default(),
            took: Recording::new("event", "shutting and opening every lane", "events"),
        }
    }
}

impl AtCore for Flips {
    fn between(&mut self, core: &mut Core<u64>, handles: &Handles, now: u64) {
        if !self.ticks.is_due(now) {
            return;
        }
        let clock = handles.clock();
        let begun = clock.now();
        for overloaded in [true, false] {
            for worker in workers() {
                let id = worker.id;
                let set = Command::SetOverloaded {
                    model: MODEL,
                    id,
                    overloaded,
                };
                command(core, handles, set);
            }
        }
        self.took.record(clock.now().saturating_sub(begun).0);
    }

    fn recordings(self) -> Vec<Recording> {
        vec![self.took]
    }
}

/// A worker leaves, and comes back when those who waited for it have heard of that.
struct Churn {
    ticks: Ticks,
    is_away: bool,
    took: Recording,
}

impl Churn {
    fn new() -> Self {
        Self {
            ticks: Ticks::default(),
            is_away: false,
            took: Recording::new("event", "a worker leaves", "events"),
        }
    }
}

impl AtCore for Churn {
    fn between(&mut self, core: &mut Core<u64>, handles: &Handles, now: u64) {
        let (model, id) = (MODEL, LEAVING);
        if std::mem::take(&mut self.is_away) {
            let worker = held(LEAVING);
            command(core, handles, Command::UpsertWorker { model, worker });
        } else if self.ticks.is_due(now) {
            let clock = handles.clock();
            let begun = clock.now();
            command(core, handles, Command::RemoveWorker { model, id });
            self.took.record(clock.now().saturating_sub(begun).0);
            self.is_away = true;
        }
    }

    fn recordings(self) -> Vec<Recording> {
        vec![self.took]
    }
}

/// The second egress shard is not looked at now and then.
struct SlowEgress {
    began: Option<u64>,
}

impl Outside for SlowEgress {
    fn stalls(&mut self, egress: usize, now: u64) -> bool {
        let (stall, period) = STALL_NS;
        let began = *self.began.get_or_insert(now);
        egress == 1 && (now - began) % period < stall
    }
}
