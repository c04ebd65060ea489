//! How many requests a second go through the engine, which part is the narrowest, and how long does a lone
//! request take?
//!
//! Closed loops: a thread keeps a window of requests in flight, with the arbiter on a core of its own. 8
//! classes, 256 endpoints, every request pinned to one, so that exact lanes are used throughout; or none
//! (`unpinned`), so that the engine chooses.
//!
//! - `one_shot`: submit, dispatch, `complete`, slot back;
//! - `full_life`: the same with `prefill_done` before `complete`, the headline;
//! - `backlog`: full lives while each endpoint takes one prefill at a time, so that every dispatch shuts
//!   lanes, every `prefill_done` opens them, and thousands of requests wait;
//! - `parts`: the same lives on one thread, with an engine that is turned by hand: what each part takes when no
//!   line moves between cores. The one that takes longest bounds the rate;
//! - `round_trip`, `asleep`, `idle`: one request and nothing else to do.
//!
//! One thread submits and receives in turns, through one ingress shard or two (`i1`, `i2`); with `separate`,
//! one thread submits and another receives, both on the core that is not the arbiter's.

mod round_trip;

use std::iter::repeat_n;
use std::time::{Duration, Instant};

use tollgate::policy::OrderPolicy;
use tollgate::stats::{CoreSnapshot, Stats};
use tollgate::{Built, Idle};
use tollgate_report::bench::{Better, Unit};

use super::again_and_again;
use super::running::as_f64;
use crate::machine::{on_core, pin};
use crate::method::{Case, Cases, Kind, Sample};
use crate::pipeline::{Asks, BATCH, CoreLoad, Flow, Gate, Parts, Receiver, Rig, Submitter};
use crate::{Plan, Suite};

pub(super) const SUITE: Suite = Suite {
    name: "pipeline",
    about: "How many requests a second go through the engine, and how long does a lone one take?",
    once: false,
    cases,
};

const LIVES: Kind = Kind::rate("lives a second");
const BUSY: Kind = Kind::new("the arbiter's thread is busy", Unit::Share, Better::Neither);
const IN_A_TURN: Kind = Kind::new("dispatches of a turn", Unit::Count, Better::Neither);
const DOORWAY: Kind = Kind::nanos("submitting a request");
const CORE: Kind = Kind::nanos("the core's turns for a request");
const EGRESS: Kind = Kind::nanos("receiving and releasing a request");

/// Requests in flight where nothing has to wait.
const WINDOW: usize = 1_024;
/// Requests in flight where most of them wait.
const BACKLOG: usize = 8_192;
/// How long one repetition of a full run takes.
const SPAN: Duration = Duration::from_secs(1);
/// Lives of a repetition where threads are told beforehand how many there are.
const COUNT: u64 = 1_000_000;

/// What is done with each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    OneShot,
    Full,
    Backlog,
}

/// Who submits and receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Threads {
    One,
    Separate,
}

#[derive(Clone, Copy, Debug)]
struct Shape {
    life: Life,
    order: OrderPolicy,
    ingress_shards: usize,
    idle: Idle,
    threads: Threads,
    pinned: bool,
}

impl Shape {
    const HEADLINE: Self = Self {
        life: Life::Full,
        order: OrderPolicy::Fcfs,
        ingress_shards: 1,
        idle: Idle::Spin,
        threads: Threads::One,
        pinned: true,
    };

    fn asks(&self) -> Asks {
        if self.pinned {
            Asks::default()
        } else {
            Asks::default().unpinned()
        }
    }

    const fn rig(&self) -> Rig {
        Rig {
            order: self.order,
            gate: match self.life {
                Life::OneShot | Life::Full => Gate::Open,
                Life::Backlog => Gate::OneAtATime,
            },
            ingress_shards: self.ingress_shards,
            idle: self.idle,
        }
    }

    fn prefill(&self) -> bool {
        self.life != Life::OneShot
    }

    const fn window(&self) -> usize {
        match self.life {
            Life::OneShot | Life::Full => WINDOW,
            Life::Backlog => BACKLOG,
        }
    }

    fn life_and_order(&self) -> String {
        let life = match self.life {
            Life::OneShot => "one_shot",
            Life::Full => "full_life",
            Life::Backlog => "backlog",
        };
        let order = format!("{:?}", self.order).to_lowercase();
        let pins = if self.pinned { "" } else { "/unpinned" };
        format!("{life}/{order}{pins}")
    }

    fn name(&self) -> String {
        let idle = if self.idle == Idle::Spin {
            "spin"
        } else {
            "default"
        };
        let threads = match self.threads {
            Threads::One => "",
            Threads::Separate => "/separate",
        };
        let (life, shards) = (self.life_and_order(), self.ingress_shards);
        format!("{life}/{idle}/i{shards}{threads}")
    }
}

/// Each life and order with both ways of waiting, one and two ingress shards; then those that differ
/// otherwise.
fn shapes() -> Vec<Shape> {
    let mut shapes = Vec::new();
    for (life, order) in [
        (Life::OneShot, OrderPolicy::Fcfs),
        (Life::OneShot, OrderPolicy::Wspt),
        (Life::Full, OrderPolicy::Fcfs),
    ] {
        for ingress_shards in [1, 2] {
            for idle in [Idle::Spin, Idle::default()] {
                shapes.push(Shape {
                    life,
                    order,
                    ingress_shards,
                    idle,
                    ..Shape::HEADLINE
                });
            }
        }
    }
    let separate = Shape {
        threads: Threads::Separate,
        ..Shape::HEADLINE
    };
    let unpinned = Shape {
        pinned: false,
        ..Shape::HEADLINE
    };
    shapes.extend([separate, unpinned]);
    shapes.extend([OrderPolicy::Fcfs, OrderPolicy::Wspt].map(|order| Shape {
        life: Life::Backlog,
        order,
        ..Shape::HEADLINE
    }));
    shapes
}

fn cases(plan: &Plan) -> Cases {
    let mut made = Vec::new();
    for shape in shapes() {
        let of = plan.clone();
        made.push(Case::new(shape.name(), move || repeat(&shape, &of)));
    }
    for shape in shapes() {
        if shape.threads == Threads::One && shape.idle == Idle::Spin && shape.ingress_shards == 1 {
            let (name, of) = (format!("parts/{}", shape.life_and_order()), plan.clone());
            made.push(Case::new(name, move || parts(&shape, &of)));
        }
    }
    made.extend(round_trip::cases(plan));
    let wanted = made.into_iter();
    Cases {
        cases: wanted
            .filter(|case| plan.wants(SUITE.name, case.name()))
            .collect(),
        notes: Vec::new(),
    }
}

/// A fresh engine, a tenth of the time untimed, then the rest.
fn repeat(shape: &Shape, plan: &Plan) -> Sample {
    let built = shape.rig().builder(plan.cores).build::<u64>();
    let Built {
        engine,
        ingress,
        mut egress,
        ..
    } = built.expect("the rig is valid");
    let stats = engine.handles().stats();
    let submitter = Submitter::of(shape.asks(), ingress);
    let receiver = Receiver::new(egress.remove(0), shape.prefill());
    let sample = match shape.threads {
        Threads::One => {
            let mut flow = Flow::new(submitter, receiver);
            let (window, span) = (shape.window(), plan.span(SPAN));
            on_core(plan.cores.shards, || {
                again_and_again(span / 10, || {
                    flow.step(window);
                });
                let watch = Stopwatch::start(&stats);
                let mut lives = 0;
                again_and_again(span, || lives += flow.step(window) as u64);
                watch.stop(lives)
            })
        }
        Threads::Separate => separately(submitter, receiver, plan, &stats),
    };
    // What is still in flight is dispatched to nobody.
    drop(engine);
    sample
}

/// The same with a thread that submits as long as there is room, and another that receives. Both are
/// on one core, so each offers it to the other when it finds nothing to do.
fn separately(
    mut submitter: Submitter,
    mut receiver: Receiver,
    plan: &Plan,
    stats: &Stats,
) -> Sample {
    let batch = BATCH as u64;
    let (warm, lives) = (plan.count(COUNT / 10) + 1, plan.count(COUNT) + batch);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            pin(plan.cores.shards);
            // More than are counted: the receiver takes whole batches.
            let mut left = usize::try_from(warm + lives).expect("a few millions") + BATCH;
            while left > 0 {
                let accepted = submitter.submit(repeat_n(0, BATCH.min(left)), |_| ());
                left -= accepted;
                if accepted == 0 {
                    std::thread::yield_now();
                }
            }
        });
        let receiving = scope.spawn(move || {
            pin(plan.cores.shards);
            let mut receive = |count| {
                let mut received = 0;
                while received < count {
                    let some = receiver.receive(|_| ());
                    received += some as u64;
                    if some == 0 {
                        std::thread::yield_now();
                    }
                }
                received
            };
            receive(warm);
            let watch = Stopwatch::start(stats);
            let received = receive(lives - batch);
            watch.stop(received)
        });
        receiving.join().expect("it does not panic")
    })
}

/// Times what passes between [`start`](Self::start) and [`stop`](Self::stop), and looks at the core.
struct Stopwatch<'a> {
    stats: &'a Stats,
    before: CoreSnapshot,
    begun: Instant,
}

impl<'a> Stopwatch<'a> {
    fn start(stats: &'a Stats) -> Self {
        Self {
            before: stats.read().core,
            stats,
            begun: Instant::now(),
        }
    }

    fn stop(self, lives: u64) -> Sample {
        let span = self.begun.elapsed();
        let load = CoreLoad::between(&self.before, &self.stats.read().core);
        Sample::of(LIVES, as_f64(lives) / span.as_secs_f64())
            .metric(BUSY, load.busy)
            .metric(IN_A_TURN, load.dispatches_a_turn)
    }
}

fn parts(shape: &Shape, plan: &Plan) -> Sample {
    let (rig, prefill, window) = (shape.rig(), shape.prefill(), shape.window());
    let (lives, asks) = (plan.count(COUNT / 2), shape.asks());
    let parts = on_core(plan.cores.arbiter, move || {
        Parts::by_hand(&rig, asks, prefill, lives, window)
    });
    Sample::of(DOORWAY, parts.doorway)
        .metric(CORE, parts.core)
        .metric(EGRESS, parts.egress)
}
