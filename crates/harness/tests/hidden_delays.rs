//! A delay that happens now and then has to show where requests come at their own pace, and does not show in
//! a loop that waits for its answers: the same engine, the same delay, measured both ways in virtual time.

use tollgate::{ByHand, Clock, ManualClock, Nanos};
use tollgate_arbiter::EndpointIndex;
use tollgate_arbiter::selector::{Activity, Draws, LeastLoaded, Pool, Selector};
use tollgate_harness::machine::Cores;
use tollgate_harness::open_loop::{
    Arrivals, Closed, Feed, Feeder, Intakes, Outside, Quiet, Random, Rooms, Turner, Watch,
};
use tollgate_harness::pipeline::{Asks, Rig, SLOTS};
use tollgate_report::Recording;

const MICRO: u64 = 1_000;
const MILLI: u64 = 1_000_000;
/// What a selection takes.
const SELECTION_NS: u64 = 300;

/// Chooses as one that ships does, and takes its time on the engine's clock: more of it every thousandth
/// time.
#[derive(Debug)]
struct Slow {
    chooses: LeastLoaded,
    hand: ManualClock,
    chosen: u64,
    delay_ns: u64,
}

impl Selector for Slow {
    fn standing(&self, activity: Activity) -> u128 {
        self.chooses.standing(activity)
    }

    fn choose(&mut self, pool: &Pool<'_>, draws: &mut Draws) -> EndpointIndex {
        self.chosen += 1;
        let delayed = self.chosen.is_multiple_of(1_000);
        let delay = if delayed { self.delay_ns } else { 0 };
        self.hand.advance(Nanos(SELECTION_NS + delay));
        self.chooses.choose(pool, draws)
    }
}

/// The egress shard is not looked at from 10 ms to 60 ms.
struct Stalled;

impl Outside for Stalled {
    fn stalls(&mut self, _egress: usize, now: u64) -> bool {
        (10 * MILLI..60 * MILLI).contains(&now)
    }
}

/// What came of a run: the rooms, and what each selection took.
struct Ran {
    rooms: Rooms,
    selection: Recording,
}

/// Runs a schedule in virtual time, in which an idle turn takes `idle_ns`.
fn run(delay_ns: u64, idle_ns: u64, outside: impl Outside, arrivals: impl Arrivals) -> Ran {
    let (clock, hand) = Clock::manual();
    let slow = Slow {
        chooses: LeastLoaded { decode_weight: 0 },
        hand: hand.clone(),
        chosen: 0,
        delay_ns,
    };
    let built = Rig::USUAL
        .builder(Cores::NOBODY)
        .clock(clock.clone())
        .selector(Box::new(slow))
        .build_by_hand();
    let ByHand {
        core,
        mut ingress,
        egress,
        handles: _handles,
    } = built.expect("the rig is valid");
    let intakes = Intakes::new(SLOTS);
    let mut turner = Turner::new(core, clock.clone(), Some(intakes.clone()));
    let mut feeder = Feeder::new(Feed {
        ingress: ingress.remove(0),
        egress,
        asks: Asks::default().unpinned(),
        clock,
        arrivals,
        outside,
        watch: Watch::default(),
        intakes: Some(intakes),
        live: SLOTS,
    });
    while feeder.step() {
        if turner.turn(|_, _, _| ()).is_idle() {
            hand.advance(Nanos(idle_ns));
        }
    }
    let (rooms, _) = feeder.finish();
    Ran {
        rooms,
        selection: turner.selection,
    }
}

fn at(recording: &Recording, quantile: f64) -> u64 {
    recording.quantile(quantile).expect("it is not empty")
}

#[test]
fn five_microseconds_every_thousandth_selection_show_in_the_open_loop_and_hide_in_the_closed_one() {
    const DELAY_NS: u64 = 5 * MICRO;
    // 70 % of what the selections allow.
    let rate = 0.7 * 1e9 / 300.0;
    let arrivals = Random::poisson(rate, 0, 130 * MILLI);
    let open = run(DELAY_NS, 20, Quiet, arrivals);
    let requests = open.rooms.end_to_end.count();
    assert!(requests > 200_000, "{requests}");
    let closed = run(DELAY_NS, 20, Quiet, Closed::new(requests, 1, 0));
    assert_eq!(closed.rooms.end_to_end.count(), requests);

    // Whoever arrives while a selection is held up waits for it, and so do those behind.
    assert!(at(&open.rooms.end_to_end, 0.999) >= 4 * MICRO);
    assert!(at(&open.rooms.end_to_end, 0.99) >= 3 * MICRO);
    assert!(at(&open.rooms.end_to_end, 1.0) >= DELAY_NS + SELECTION_NS);
    // The turn that was held up shows it itself.
    assert!(at(&open.selection, 1.0) >= DELAY_NS);
    // Asked one by one, one request in a thousand is held up, and 99.9 % are told to be fast.
    assert!(at(&closed.rooms.end_to_end, 0.999) <= 2 * SELECTION_NS);
    assert!(at(&closed.rooms.end_to_end, 1.0) >= DELAY_NS);
}

#[test]
fn without_the_delay_neither_loop_shows_one() {
    let rate = 0.7 * 1e9 / 300.0;
    let open = run(0, 20, Quiet, Random::poisson(rate, 0, 40 * MILLI));
    assert!(at(&open.rooms.end_to_end, 0.999) < 5 * MICRO);
    assert_eq!(at(&open.selection, 1.0), SELECTION_NS);
}

#[test]
fn a_receiver_that_stalls_for_50_ms_shows_in_the_open_loop_and_hides_in_the_closed_one() {
    let open = run(0, MICRO, Stalled, Random::poisson(1e5, 0, 1_000 * MILLI));
    let requests = open.rooms.end_to_end.count();
    let closed = run(0, MICRO, Stalled, Closed::new(requests, 64, 0));

    // 5 % of all arrive meanwhile, and wait for 25 ms on average.
    assert!(at(&open.rooms.end_to_end, 0.999) >= 45 * MILLI);
    assert!(at(&open.rooms.end_to_end, 0.99) >= 35 * MILLI);
    let longest = at(&open.rooms.end_to_end, 1.0);
    assert!((49 * MILLI..52 * MILLI).contains(&longest), "{longest}");
    // It shows in the room where it happens: requests are decided on time and wait to be handed out, as
    // long as there is room for them.
    assert!(at(&open.rooms.ring, 1.0) >= 45 * MILLI);
    // 64 requests of the closed loop meet the stall, and nobody asks until it is over.
    assert!(at(&closed.rooms.end_to_end, 0.999) < MILLI);
    assert!(at(&closed.rooms.end_to_end, 1.0) >= 45 * MILLI);
}

#[test]
fn the_rooms_of_all_requests_add_up_to_the_whole_way() {
    let ran = run(0, 20, Quiet, Random::poisson(1e6, 0, 5 * MILLI));
    let rooms = [
        &ran.rooms.late,
        &ran.rooms.doorway,
        &ran.rooms.intake,
        &ran.rooms.wait,
        &ran.rooms.ring,
    ];
    let sum = |recording: &Recording| {
        let count = recording.count();
        assert_eq!(count, ran.rooms.end_to_end.count());
        recording.mean().expect("it is not empty")
    };
    let parts: f64 = rooms.into_iter().map(sum).sum();
    let whole = sum(&ran.rooms.end_to_end);
    assert!((parts - whole).abs() < 1.0, "{parts} against {whole}");
}
