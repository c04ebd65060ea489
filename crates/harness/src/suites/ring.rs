//! What does it cost to hand a record of 64 bytes from one thread to another, by the ring that the
//! engine uses and by what else is at hand?
//!
//! `throughput`: one thread sends as fast as there is room, another one receives. `round_trip`: one record
//! goes there, another one comes back. Both threads have a core of their own (`apart`), or share the
//! arbiter's (`same`), where each offers it to the other when it can do nothing. Without two cores to pin to,
//! both go where the system puts them (`unpinned`).

mod queues;

use std::hint::black_box;
use std::time::Instant;

use tollgate::placement::CoreId;
use tollgate_report::Recording;

use self::queues::{
    CrossbeamArray, CrossbeamChannel, Line, Queue, Receiver, Rtrb, RtrbBatched, Sender, Std,
};
use crate::machine::{nanos, pin};
use crate::method::{Case, Cases, Kind, Sample};
use crate::{Plan, Suite};

pub(super) const SUITE: Suite = Suite {
    name: "ring",
    about: "What does handing over a record cost, by the engine's rings and by other queues?",
    once: false,
    cases,
};

const RECORDS: Kind = Kind::rate("records a second");

/// Records, and round trips, of one repetition of a full run.
const COUNT: u64 = 2_000_000;
const TRIPS: u64 = 100_000;
/// Capacities that are tried; the last one is the engine's usual one.
const CAPACITIES: [u32; 4] = [1, 2, 16, 1_024];
const USUAL_CAPACITY: u32 = 1_024;
/// Looks at a full or empty queue before the core is offered to others.
const LOOKS: u32 = 1_024;

/// Where the two threads run.
#[derive(Clone, Copy, Debug)]
struct Place {
    sender: Option<CoreId>,
    receiver: Option<CoreId>,
}

impl Place {
    fn is_shared(self) -> bool {
        self.sender == self.receiver
    }
}

fn cases(plan: &Plan) -> Cases {
    let mut cases = Cases::default();
    add::<RtrbBatched>(plan, &mut cases);
    add::<Rtrb>(plan, &mut cases);
    add::<CrossbeamChannel>(plan, &mut cases);
    add::<CrossbeamArray>(plan, &mut cases);
    add::<Std>(plan, &mut cases);
    cases
}

fn add<Q: Queue>(plan: &Plan, cases: &mut Cases) {
    let apart = Place {
        sender: plan.cores.shards,
        receiver: plan.cores.arbiter,
    };
    let same = Place {
        sender: plan.cores.arbiter,
        receiver: plan.cores.arbiter,
    };
    let capacities: &[u32] = match plan.axes.capacities.as_slice() {
        [] => &CAPACITIES,
        asked => asked,
    };
    let apart_or_not = if apart.is_shared() {
        "unpinned"
    } else {
        "apart"
    };
    let count = plan.count(COUNT);
    let throughput = |capacity: u32, name: &str, place| {
        let name = format!("throughput/{}/{capacity}/{name}", Q::NAME);
        // So small a queue needs a switch of threads or cores for each record.
        let count = if capacity < 16 { count / 20 } else { count };
        Case::new(name, move || {
            Sample::of(RECORDS, send_through::<Q>(capacity, place, count.max(1)))
        })
    };
    let mut made: Vec<Case> = (capacities.iter())
        .map(|&capacity| throughput(capacity, apart_or_not, apart))
        .collect();
    made.push(throughput(USUAL_CAPACITY, "same", same));
    let trips = plan.count(TRIPS);
    let name = format!("round_trip/{}/{USUAL_CAPACITY}/{apart_or_not}", Q::NAME);
    made.push(Case::new(name, move || {
        Sample::default().recordings([round_trips::<Q>(apart, trips)])
    }));
    for case in made {
        cases.add(plan, SUITE.name, case.name().to_owned(), |_| case);
    }
}

/// Waits a little for the other side.
struct Patience {
    is_shared: bool,
    looks: u32,
}

impl Patience {
    const fn new(is_shared: bool) -> Self {
        Self {
            is_shared,
            looks: 0,
        }
    }

    #[inline]
    fn wait(&mut self) {
        self.looks += 1;
        if self.is_shared || self.looks.is_multiple_of(LOOKS) {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}

/// Records a second.
#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
fn send_through<Q: Queue>(capacity: u32, place: Place, count: u64) -> f64 {
    let (mut sender, mut receiver) = Q::ends(capacity as usize);
    let warm = count / 10;
    let elapsed = std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(place.sender);
            let mut patience = Patience::new(place.is_shared());
            for number in 0..warm + count {
                while !sender.try_send([number; 8]) {
                    patience.wait();
                }
            }
            while !sender.flush() {
                patience.wait();
            }
        });
        let receiving = scope.spawn(|| {
            pin(place.receiver);
            let mut patience = Patience::new(place.is_shared());
            let mut receive = |numbers: std::ops::Range<u64>| {
                for number in numbers {
                    assert_eq!(receive(&mut receiver, &mut patience)[0], number);
                }
            };
            receive(0..warm);
            let begun = Instant::now();
            receive(warm..warm + count);
            begun.elapsed()
        });
        receiving.join().expect("it does not panic")
    });
    count as f64 / elapsed.as_secs_f64()
}

#[inline]
fn receive(receiver: &mut impl Receiver, patience: &mut Patience) -> Line {
    loop {
        match receiver.try_recv() {
            Some(line) => return line,
            None => patience.wait(),
        }
    }
}

/// One record at a time, there and back.
fn round_trips<Q: Queue>(place: Place, trips: u64) -> Recording {
    let (mut there, mut at_other) = Q::ends(USUAL_CAPACITY as usize);
    let (mut back, mut at_home) = Q::ends(USUAL_CAPACITY as usize);
    let mut times = Recording::new("round_trip", "there and back", "round trips");
    let warm = trips / 10;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(place.receiver);
            let mut patience = Patience::new(place.is_shared());
            for _ in 0..warm + trips {
                let line = receive(&mut at_other, &mut patience);
                assert!(back.try_send(line) && back.flush(), "there is room for one");
            }
        });
        scope.spawn(|| {
            pin(place.sender);
            let mut patience = Patience::new(place.is_shared());
            for number in 0..warm + trips {
                let begun = Instant::now();
                let sent = there.try_send([number; 8]) && there.flush();
                assert!(sent, "there is room for one");
                black_box(receive(&mut at_home, &mut patience));
                if number >= warm {
                    times.record(nanos(begun.elapsed()));
                }
            }
        });
    });
    times
}
