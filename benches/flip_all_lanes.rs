//! How long does the arbiter pause when one event shuts or opens every lane at once?
//!
//! One class, 10,000 exact lanes with one request each. All their endpoints become busy, or free
//! again, and one selection follows (dry while all is shut). Three kinds of event:
//!
//! - `worker`: all endpoints are ranks of one worker, which becomes overloaded under
//!   `overload_action: hold`;
//! - `reload`: the class's threshold moves below, or above, what every endpoint has booked;
//! - `loads`: 10,000 load reports, one an endpoint.
//!
//! Prints minimum, median and maximum over the repetitions, in microseconds; the minimum is what
//! the arbiter needs, the rest is the machine's. Not a criterion benchmark, which knows no minimum.
#![expect(clippy::print_stdout, reason = "what it prints is its result")]

use std::sync::Arc;

use std::time::{Duration, Instant};

use tollgate_arbiter::WorkerId;
use tollgate_benches::{Draw, Driver, Lane, Setup, is_smoke, sized};
use tollgate_policy::Profile;

const LANES: u32 = 10_000;
const REPETITIONS: usize = 50;

/// The load that each endpoint carries in the `reload` arm, and the thresholds around it.
const REPORTED: u64 = 1_000;
const BELOW: u64 = 500;
const ABOVE: u64 = 2_000;

/// Requests in all lanes, and a way to shut and open them.
struct Flipper {
    driver: Driver,
    lanes: u32,
    shut: Box<dyn FnMut(&mut Driver)>,
    open: Box<dyn FnMut(&mut Driver)>,
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
        move |driver: &mut Driver| {
            driver
                .arbiter()
                .reload(Arc::new(profile.clone()))
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
    /// One shutting and one opening, each with the selection that follows.
    fn flip(&mut self) -> [Duration; 2] {
        let begin = Instant::now();
        (self.shut)(&mut self.driver);
        let served = self.driver.select();
        let shutting = begin.elapsed();
        assert!(served.is_none(), "every lane is shut");

        let begin = Instant::now();
        (self.open)(&mut self.driver);
        let served = self.driver.select();
        let opening = begin.elapsed();
        let served = served.expect("every lane is open");
        self.driver.complete(served);
        let lane = u32::try_from(served.payload).expect("payloads are lanes");
        assert!(lane < self.lanes, "payloads are lanes");
        self.driver
            .submit(0, Draw::of(1), Lane::Exact(lane), served.payload);
        [shutting, opening]
    }
}

fn print_line(name: &str, mut spans: Vec<Duration>) {
    spans.sort();
    let micros = |span: Duration| span.as_secs_f64() * 1e6;
    println!(
        "{name:<16} {:>10.1} {:>10.1} {:>10.1}",
        micros(spans[0]),
        micros(spans[spans.len() / 2]),
        micros(spans[spans.len() - 1])
    );
}

fn main() {
    let lanes = sized(LANES);
    let repetitions = if is_smoke() { 1 } else { REPETITIONS };
    println!("{lanes} lanes flipped by one event, and the selection after it; microseconds");
    println!(
        "{:<16} {:>10} {:>10} {:>10}",
        "event", "min", "median", "max"
    );
    let arms = [
        ("worker", by_worker(lanes)),
        ("reload", by_reload(lanes)),
        ("loads", by_loads(lanes)),
    ];
    for (name, mut flipper) in arms {
        let spans: Vec<[Duration; 2]> = (0..repetitions).map(|_| flipper.flip()).collect();
        print_line(
            &format!("{name}, shuts"),
            spans.iter().map(|[shut, _]| *shut).collect(),
        );
        print_line(
            &format!("{name}, opens"),
            spans.iter().map(|[_, open]| *open).collect(),
        );
    }
}
