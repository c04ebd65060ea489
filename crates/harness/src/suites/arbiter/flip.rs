//! One event that shuts or opens every lane at once, and the selection after it.
//!
//! One class, exact lanes with one request each. Three kinds of event:
//!
//! - `worker`: all endpoints are ranks of one worker, which becomes overloaded while such workers are held;
//! - `reload`: the class's threshold moves below, or above, what every endpoint has booked;
//! - `loads`: a load report for each endpoint.

use std::sync::Arc;
use std::time::Instant;

use tollgate_arbiter::WorkerId;
use tollgate_policy::Profile;

use super::SUITE;
use crate::machine::{nanos, on_core};
use crate::method::{Case, Cases, Kind, Sample};
use crate::{Draw, Driver, Lane, Plan, Setup};

const LANES: u32 = 10_000;
/// Events of each kind in one repetition of a full run.
const EVENTS: u64 = 50;

// The least of a repetition's events: what the arbiter needs. The rest is the machine's.
const SHUTS: Kind = Kind::nanos("an event that shuts, the least");
const OPENS: Kind = Kind::nanos("an event that opens, the least");

/// The load that each endpoint carries in the `reload` arm, and the thresholds around it.
const REPORTED: u64 = 1_000;
const BELOW: u64 = 500;
const ABOVE: u64 = 2_000;

/// Adds the arms.
pub(super) fn add(plan: &Plan, cases: &mut Cases) {
    add_kind(plan, cases, "worker", by_worker);
    add_kind(plan, cases, "reload", by_reload);
    add_kind(plan, cases, "loads", by_loads);
}

fn add_kind(plan: &Plan, cases: &mut Cases, kind: &str, make: fn(u32) -> Flipper) {
    let (events, core) = (plan.count(EVENTS), plan.cores.arbiter);
    let name = format!("flip/{kind}/l{LANES}");
    cases.add(plan, SUITE.name, name, |name| {
        let mut flipper = make(plan.size(LANES));
        Case::new(name, move || on_core(core, || flipper.repeat(events)))
    });
}

/// Shuts or opens all lanes.
type Event = Box<dyn FnMut(&mut Driver) + Send>;

/// Requests in all lanes, and a way to shut and open them.
struct Flipper {
    driver: Driver,
    lanes: u32,
    shut: Event,
    open: Event,
}

fn filled(setup: &Setup, lanes: u32) -> Driver {
    let mut driver = Driver::new(setup);
    for lane in 0..lanes {
        driver.submit(0, Draw::of(1), Lane::Exact(lane), u64::from(lane));
    }
    driver
}

fn by_worker(lanes: u32) -> Flipper {
    let setup = Setup {
        ranks: lanes,
        slots: lanes,
        hold: true,
        ..Setup::default()
    };
    let set = |overloaded| {
        move |driver: &mut Driver| {
            driver
                .arbiter()
                .set_overloaded(WorkerId(0), overloaded)
                .expect("the worker is known");
        }
    };
    Flipper {
        driver: filled(&setup, lanes),
        lanes,
        shut: Box::new(set(true)),
        open: Box::new(set(false)),
    }
}

fn by_reload(lanes: u32) -> Flipper {
    let setup = Setup {
        workers: lanes,
        slots: lanes,
        ..Setup::default()
    };
    let mut driver = filled(&setup, lanes);
    for lane in 0..lanes {
        let endpoint = driver.endpoint(lane);
        driver
            .arbiter()
            .load(endpoint, REPORTED)
            .expect("every endpoint is known");
    }
    let reload = |profile: Profile| {
        let profile = Arc::new(profile);
        move |driver: &mut Driver| {
            driver
                .arbiter()
                .reload(Arc::clone(&profile))
                .expect("the new policy needs no more room");
        }
    };
    let (low, high) = (setup.profile(BELOW), setup.profile(ABOVE));
    Flipper {
        driver,
        lanes,
        shut: Box::new(reload(low)),
        open: Box::new(reload(high)),
    }
}

fn by_loads(lanes: u32) -> Flipper {
    let setup = Setup {
        workers: lanes,
        slots: lanes,
        ..Setup::default()
    };
    let set = move |busy| {
        move |driver: &mut Driver| (0..lanes).for_each(|lane| driver.set_busy(lane, busy))
    };
    Flipper {
        driver: filled(&setup, lanes),
        lanes,
        shut: Box::new(set(true)),
        open: Box::new(set(false)),
    }
}

impl Flipper {
    fn repeat(&mut self, events: u64) -> Sample {
        let mut least = [u64::MAX; 2];
        for _ in 0..events {
            for (least, took) in least.iter_mut().zip(self.flip()) {
                *least = took.min(*least);
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        let [shuts, opens] = least.map(|least| least as f64);
        Sample::of(SHUTS, shuts).metric(OPENS, opens)
    }

    /// One shutting and one opening, each with the selection that follows, in nanoseconds.
    fn flip(&mut self) -> [u64; 2] {
        let begun = Instant::now();
        (self.shut)(&mut self.driver);
        let served = self.driver.select();
        let shutting = nanos(begun.elapsed());
        assert!(served.is_none(), "every lane is shut");

        let begun = Instant::now();
        (self.open)(&mut self.driver);
        let served = self.driver.select();
        let opening = nanos(begun.elapsed());
        let served = served.expect("every lane is open");
        self.driver.complete(served);
        let lane = u32::try_from(served.payload).expect("payloads are lanes");
        assert!(lane < self.lanes, "payloads are lanes");
        self.driver
            .submit(0, Draw::of(1), Lane::Exact(lane), served.payload);
        [shutting, opening]
    }
}
