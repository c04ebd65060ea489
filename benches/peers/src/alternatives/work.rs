//! The requests that every route is given, the check that each comes out once, and the two closed loops.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{Scope, scope};

use crossbeam_utils::{Backoff, CachePadded};
use tollgate_harness::machine::{Cores, pin};
use tollgate_harness::pipeline::Asks;

use crate::measure::time;

/// Classes of the requests.
pub(super) const CLASSES: u32 = 8;
/// Requests that wait, or are in flight, at any time.
pub(super) const WINDOW: u32 = 1_024;
/// Endpoints to choose from, where a route chooses and nothing else is said.
pub(super) const ENDPOINTS: u32 = 64;

/// One request, as far as routes that decide nothing but its order are told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    /// Counted from 0, in the order of arrival.
    pub(super) id: u32,
    /// Below [`CLASSES`].
    pub(super) class: u8,
    /// Its cost: 64 to 4,159.
    pub(super) tokens: u32,
}

/// The requests that the benchmarks of the engine use: classes and costs are uniform.
#[derive(Clone, Debug)]
pub(super) struct Items {
    asks: Asks,
    next_id: u32,
}

impl Items {
    pub(super) fn new() -> Self {
        Self {
            asks: asks(),
            next_id: 0,
        }
    }

    /// The same from another one on, for a task with this number.
    pub(super) fn numbered(task: usize) -> Self {
        Self {
            asks: asks().from(task),
            next_id: 0,
        }
    }
}

/// The same requests in the words of the engine. None is pinned.
pub(super) fn asks() -> Asks {
    Asks::default().unpinned()
}

impl Iterator for Items {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        let id = self.next_id;
        self.next_id += 1;
        let ask = self.asks.ask(());
        // Families are called `family0` to `family7`, and each has one class.
        let last = ask.family.and_then(|family| family.bytes().last());
        Some(Item {
            id,
            class: last.expect("each request names its family") - b'0',
            tokens: ask.raw_tokens,
        })
    }
}

/// Ticks off what came out.
#[derive(Debug)]
pub(super) struct Once {
    seen: Vec<u64>,
    missing: u32,
}

impl Once {
    /// Of requests 0 up to `count`, nothing came out yet.
    pub(super) fn new(count: u32) -> Self {
        Self {
            seen: vec![0; count.div_ceil(64) as usize],
            missing: count,
        }
    }

    /// A request came out.
    pub(super) fn tick(&mut self, id: u32) {
        let (word, bit) = (&mut self.seen[(id / 64) as usize], 1 << (id % 64));
        assert!(*word & bit == 0, "request {id} came out twice");
        *word |= bit;
        self.missing -= 1;
    }

    /// Nothing more will come out.
    pub(super) fn finish(&self) {
        assert_eq!(self.missing, 0, "requests that went in never came out");
    }
}

/// What one thread puts requests into and takes them from.
pub(super) trait Queue {
    fn put(&mut self, item: Item);

    /// The id of the next request, its handling ended.
    fn take(&mut self) -> Option<u32>;
}

/// Nanoseconds a request on the calling thread: a step puts one in and takes one, while [`WINDOW`] wait.
pub(super) fn on_one_thread(mut queue: impl Queue, requests: u32) -> f64 {
    let (mut items, mut once) = (Items::new(), Once::new(requests + WINDOW));
    let mut steps = |steps: u32, takes: bool| {
        for item in items.by_ref().take(steps as usize) {
            queue.put(item);
            if takes {
                once.tick(queue.take().expect("many wait, and nothing blocks"));
            }
        }
    };
    steps(WINDOW, false);
    let ((), nanos) = time(u64::from(requests), || steps(requests, true));
    while let Some(id) = queue.take() {
        once.tick(id);
    }
    once.finish();
    nanos
}

/// What threads put requests into and take them from at the same time.
pub(super) trait Shared: Sync {
    fn put(&self, item: Item);

    /// The id of the next request, if one waits. `turn` is the consumer's own, to remember where it was.
    fn take(&self, turn: &mut usize) -> Option<u32>;
}

/// [`Shared`] in the hands of one thread.
pub(super) struct Alone<S> {
    pub(super) shared: S,
    turn: usize,
}

impl<S> Alone<S> {
    pub(super) fn new(shared: S) -> Self {
        Self { shared, turn: 0 }
    }
}

impl<S: Shared> Queue for Alone<S> {
    fn put(&mut self, item: Item) {
        self.shared.put(item);
    }

    fn take(&mut self) -> Option<u32> {
        self.shared.take(&mut self.turn)
    }
}

/// Nanoseconds a request from a thread on one core to a thread on the other. The consumer publishes how
/// many it has taken, so that no more than [`WINDOW`] are in between; whoever has nothing to do spins for
/// a while, then yields.
pub(super) fn across_two_threads(shared: &impl Shared, requests: u32, cores: Cores) -> f64 {
    let (taken, begin) = (CachePadded::new(AtomicU32::new(0)), Barrier::new(2));
    scope(|scope| {
        produce(scope, shared, requests, cores, &taken, &begin);
        let consumer = scope.spawn(|| {
            pin(cores.arbiter);
            let (mut once, mut turn, idle) = (Once::new(requests), 0, Backoff::new());
            begin.wait();
            let ((), nanos) = time(u64::from(requests), || {
                let mut count = 0;
                while count < requests {
                    let Some(id) = shared.take(&mut turn) else {
                        idle.snooze();
                        continue;
                    };
                    idle.reset();
                    once.tick(id);
                    count += 1;
                    // ORDERING: pairs with the producer's load; the queue itself orders what it holds.
                    taken.store(count, Ordering::Release);
                }
            });
            once.finish();
            nanos
        });
        consumer.join().expect("the consumer does not panic")
    })
}

fn produce<'scope>(
    scope: &'scope Scope<'scope, '_>,
    shared: &'scope impl Shared,
    requests: u32,
    cores: Cores,
    taken: &'scope AtomicU32,
    begin: &'scope Barrier,
) {
    scope.spawn(move || {
        pin(cores.shards);
        let (idle, mut known_taken) = (Backoff::new(), 0);
        begin.wait();
        for item in Items::new().take(requests as usize) {
            while item.id - known_taken >= WINDOW {
                // ORDERING: pairs with the consumer's store.
                known_taken = taken.load(Ordering::Acquire);
                if item.id - known_taken >= WINDOW {
                    idle.snooze();
                }
            }
            idle.reset();
            shared.put(item);
        }
    });
}
