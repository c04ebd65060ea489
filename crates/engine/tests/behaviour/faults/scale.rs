//! Work for one that costs what all the others cost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tollgate::{ByHand, Command, Endpoint, Engine, ManualClock, ModelIndex, Request, Worker};

use super::{by_hand, dispatch, now, turn};
use crate::common::{classes, pause};

/// An engine with so many blocked lanes, and worker 0 free.
fn blocked_lanes(lanes: u64) -> (ByHand<u64>, ManualClock) {
    let count = usize::try_from(lanes).expect("a few") + 1;
    let profile = classes(&["a quantum: 100, prefill_busy_threshold: 0"]);
    let builder = Engine::builder(profile).slots(2 * count).ring(64);
    let builder = builder.workers(count).endpoints(count);
    let builder = (0..=lanes).fold(builder, |builder, id| builder.worker(Worker::new(id)));
    let (mut built, hand) = by_hand::<u64>(builder);
    for id in 1..=lanes {
        set_load(&mut built, id, 1);
        let pinned = Request {
            pin: Some(Endpoint::new(id, 0)),
            ..Request::new(1, id)
        };
        built.ingress[0].try_submit(pinned).expect("there is room");
        if id.is_multiple_of(32) || id == lanes {
            turn(&mut built, &hand);
        }
    }
    (built, hand)
}

fn set_load(built: &mut ByHand<u64>, id: u64, tokens: u64) {
    let command = Command::SetLoad {
        model: ModelIndex(0),
        endpoint: Endpoint::new(id, 0),
        tokens,
    };
    let done = built.core.execute(&built.handles.control(), command);
    done.expect("a known worker");
}

/// The shortest time from an update of the free worker's load to the dispatch that it allows.
fn shortest(lanes: u64) -> Duration {
    let (mut built, hand) = blocked_lanes(lanes);
    let mut once = |payload| {
        set_load(&mut built, 0, 1);
        let pinned = Request {
            pin: Some(Endpoint::new(0, 0)),
            ..Request::new(1, payload)
        };
        built.ingress[0].try_submit(pinned).expect("there is room");
        assert_eq!(turn(&mut built, &hand).dispatched, 0);
        let begun = now();
        set_load(&mut built, 0, 0);
        assert_eq!(turn(&mut built, &hand).dispatched, 1);
        let took = begun.elapsed();
        let dispatch = dispatch(built.egress[0].try_recv().expect("open"));
        assert_eq!(dispatch.payload, payload);
        built.egress[0].complete(dispatch.receipt());
        turn(&mut built, &hand);
        took
    };
    (0..300).map(&mut once).min().unwrap_or_default()
}

/// Ten thousand blocked lanes make the free one at most five times slower than ten do. The shortest of
/// many tries, so that it is the code that is measured and not its neighbours.
#[test]
fn blocked_lanes_do_not_slow_a_free_one() {
    let (few, many) = (shortest(10), shortest(10_000));
    assert!(
        many <= few * 5,
        "{few:?} beside 10 lanes, {many:?} beside 10,000"
    );
}

/// A hundred thousand wait while somebody reads all figures a hundred times a second: the usual dispatch
/// takes as long as when nobody looks. Rounds of both take turns, so that what else the machine does
/// meets both.
#[test]
fn readers_do_not_slow_a_dispatch() {
    const WAITING: u64 = 100_000;
    const ROUNDS: usize = 20;
    let profile = classes(&["a quantum: 100, prefill_busy_threshold: 0"]);
    let builder = Engine::builder(profile).slots(1 << 17).ring(64);
    let builder = builder.worker(Worker::new(0)).worker(Worker::new(1));
    let (mut built, hand) = by_hand::<u64>(builder);
    set_load(&mut built, 1, 1);
    for payload in 0..WAITING {
        let pinned = Request {
            pin: Some(Endpoint::new(1, 0)),
            ..Request::new(1, payload)
        };
        built.ingress[0].try_submit(pinned).expect("there is room");
        if payload % 64 == 63 || payload == WAITING - 1 {
            turn(&mut built, &hand);
        }
    }
    let stats = built.handles.stats();
    let [mut alone, mut read] = [(); 2].map(|()| Vec::new());
    let (is_on, over) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Acquire) {
                if is_on.load(Ordering::Acquire) {
                    assert_eq!(stats.read().models.len(), 1);
                }
                pause(10);
            }
        });
        for round in 0..ROUNDS {
            is_on.store(round % 2 == 1, Ordering::Release);
            let times = if round % 2 == 1 {
                &mut read
            } else {
                &mut alone
            };
            // Long enough for some ten looks.
            let begun = now();
            while begun.elapsed() < Duration::from_millis(100) {
                times.push(dispatch_one(&mut built, &hand));
            }
        }
        over.store(true, Ordering::Release);
    });
    let [alone, read] = [alone, read].map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2]
    });
    assert!(
        read <= alone * 2,
        "{alone:?} alone, {read:?} beside a reader"
    );
}

/// From a submission to its dispatch by the free worker.
fn dispatch_one(built: &mut ByHand<u64>, hand: &ManualClock) -> Duration {
    let begun = now();
    built.ingress[0]
        .try_submit(Request::new(1, 0))
        .expect("there is room");
    assert_eq!(turn(built, hand).dispatched, 1);
    let took = begun.elapsed();
    let dispatch = dispatch(built.egress[0].try_recv().expect("open"));
    built.egress[0].complete(dispatch.receipt());
    turn(built, hand);
    took
}
