//! The waiter table: one entry for each future that waits for a request, and for each permit.
//!
//! # Who owns an entry
//! | phase | means | owner | may go to |
//! |---|---|---|---|
//! | `FREE` | in the stock of its front | the front | `WAITING`, `ROOM` |
//! | `ROOM` | waits for room in the engine | the future | `INVITED`, `ENDED` (usher), `GONE` (future) |
//! | `INVITED` | there is room: it may submit | the future | `WAITING`, `ROOM`, `FREE` |
//! | `WAITING` | its request is in the engine, or about to be | the future | `GRANTED`, `ENDED` (courier), `GONE` (future) |
//! | `GRANTED` | its words hold a grant | the future, then the permit | `WAITING` (a requeue), `FREE` |
//! | `ENDED` | its words hold a fate | the future | `FREE` |
//! | `GONE` | its future was dropped | the courier, the usher | `FREE` |
//!
//! # Protocol
//! 1. A future takes an entry out of the stock of the front that it holds, leaves its waker, sets
//!    `WAITING`, and only then submits: whoever delivers finds the entry ready.
//! 2. Each submission that was accepted has exactly one delivery at a time; its payload is the entry's
//!    number. Who delivers writes the words, then moves `WAITING` to `GRANTED` or `ENDED`, then takes the
//!    waker.
//! 3. A future that is dropped moves `WAITING` to `GONE`. The one of the two that comes second gives the
//!    entry back, and releases the dispatch if there is one.
//! 4. Entries come back by a stack of each front: pushed by anybody, taken as a whole by the front. So
//!    no entry is popped by two, and a stale head is never compared (no ABA).
//!
//! # Invariants
//! - W1. Of a delivery and a drop exactly one finds `WAITING`.
//! - W2. Words are written only before the move out of `WAITING`, and read only after it.
//! - W3. A future that found `WAITING` after it left its waker is woken by the delivery.
//! - W4. An entry is in a stock at most once.
//! - W5. After [`Waiters::close_all`] nobody waits who was told nothing: of the close and somebody who
//!   begins to wait for room one sees the other. Who begins to submit is refused by the engine.

use std::task::Waker;

use crossbeam::utils::CachePadded;

use super::news::{Fate, Grant, WORDS};
use crate::sync::shim::{AtomicU32, AtomicU64, Ordering, WakerCell, fence};

const FREE: u32 = 0;
const ROOM: u32 = 1;
const INVITED: u32 = 2;
const WAITING: u32 = 3;
const GRANTED: u32 = 4;
const ENDED: u32 = 5;
const GONE: u32 = 6;

/// No entry.
const NONE: u32 = u32::MAX;

/// The table.
#[derive(Debug)]
pub(super) struct Waiters {
    entries: Box<[CachePadded<Entry>]>,
    /// By front: the last entry that came back.
    returned: Box<[CachePadded<AtomicU32>]>,
    per_front: u32,
    /// 1: nothing more is delivered.
    closed: AtomicU32,
}

#[derive(Debug)]
struct Entry {
    phase: AtomicU32,
    /// The entry that came back before, while it is in a stock.
    next: AtomicU32,
    waker: WakerCell,
    words: [AtomicU64; WORDS],
}

/// Free entries of one front; of it alone.
#[derive(Debug)]
pub(super) struct Stock {
    front: usize,
    first: u32,
    /// Entries that were never used; handed out last, so that memory is touched as far as the load goes.
    fresh: std::ops::Range<u32>,
}

/// What a future finds in its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing new.
    Nothing,
    /// There is room now.
    Invitation,
    /// The request goes to an endpoint.
    Granted(Grant),
    /// It ended otherwise.
    Ended(Fate),
}

/// What is asked of whoever waits for room, in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wish {
    /// Which one in the order of arrival.
    pub(super) arrival: u64,
    pub(super) model: usize,
    /// Extension blocks that the request takes.
    pub(super) blocks: usize,
}

impl Entry {
    fn new() -> Self {
        Self {
            phase: AtomicU32::new(FREE),
            next: AtomicU32::new(NONE),
            waker: WakerCell::new(),
            words: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    fn write(&self, words: [u64; WORDS]) {
        for (place, word) in self.words.iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
    }

    fn read(&self) -> [u64; WORDS] {
        std::array::from_fn(|at| self.words[at].load(Ordering::Relaxed))
    }

    /// Moves it from one phase to another, or says in which it is.
    fn shift(&self, from: u32, to: u32) -> Result<(), u32> {
        // ORDERING: Release: what this thread wrote into the entry is visible to who finds the new
        // phase. Acquire: what was written before the old one is visible here. Pairs with itself and
        // with the load of `look`.
        self.phase
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .map(drop)
    }
}

impl Waiters {
    /// A table with `per_front` entries for each of so many fronts, and the fronts' stocks.
    pub(super) fn new(fronts: usize, per_front: u32) -> (Self, Vec<Stock>) {
        let count = fronts * per_front as usize;
        let entries = (0..count).map(|_| CachePadded::new(Entry::new()));
        let returned = (0..fronts).map(|_| CachePadded::new(AtomicU32::new(NONE)));
        let number = |front: usize| u32::try_from(front).expect("fronts are few") * per_front;
        let stocks = (0..fronts).map(|front| Stock {
            front,
            first: NONE,
            fresh: number(front)..number(front + 1),
        });
        let stocks = stocks.collect();
        let table = Self {
            entries: entries.collect(),
            returned: returned.collect(),
            per_front,
            closed: AtomicU32::new(0),
        };
        (table, stocks)
    }

    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.entries.len()).expect("numbered in 32 bits")
    }

    /// Takes a free entry.
    pub(super) fn take(&self, stock: &mut Stock) -> Option<u32> {
        if stock.first == NONE {
            // ORDERING: Acquire with the Release of `give_back`: the chain is whole.
            let returned = &self.returned[stock.front];
            if returned.load(Ordering::Relaxed) != NONE {
                stock.first = returned.swap(NONE, Ordering::Acquire);
            }
        }
        if stock.first == NONE {
            return stock.fresh.next();
        }
        let taken = stock.first;
        stock.first = self.entry(taken).next.load(Ordering::Relaxed);
        Some(taken)
    }

    /// Gives an entry back, from any thread; its owner does. The waker that is left in it, to be dropped
    /// where nothing is held.
    #[must_use = "a waker is a task's own"]
    pub(super) fn give_back(&self, index: u32) -> Option<Waker> {
        let entry = self.entry(index);
        let waker = entry.waker.take();
        entry.phase.store(FREE, Ordering::Relaxed);
        let returned = &self.returned[(index / self.per_front) as usize];
        let mut head = returned.load(Ordering::Relaxed);
        loop {
            entry.next.store(head, Ordering::Relaxed);
            // ORDERING: Release with the Acquire of `take`.
            let pushed =
                returned.compare_exchange_weak(head, index, Ordering::Release, Ordering::Relaxed);
            match pushed {
                Ok(_) => return waker,
                Err(now) => head = now,
            }
        }
    }

    /// Its request is about to be submitted, or to go back: leaves the waker.
    pub(super) fn expect(&self, index: u32, waker: &Waker) {
        let entry = self.entry(index);
        entry.waker.register(waker);
        // ORDERING: Release with the Acquire of `shift`, where the courier has not got the entry's
        // number by a ring already.
        entry.phase.store(WAITING, Ordering::Release);
    }

    /// It waits for room: leaves the waker and what it wishes. The usher is told after this.
    pub(super) fn wish(&self, index: u32, waker: &Waker, wish: Wish) {
        let entry = self.entry(index);
        entry.waker.register(waker);
        entry.write([wish.arrival, wish.model as u64, wish.blocks as u64, 0, 0, 0]);
        // ORDERING: Release with the Acquire of `shift`.
        entry.phase.store(ROOM, Ordering::Release);
    }

    /// What an entry that waits for room wishes; for the usher, who was told of it.
    pub(super) fn wished(&self, index: u32) -> Wish {
        let [arrival, model, blocks, ..] = self.entry(index).read();
        let size = |word: u64| usize::try_from(word).expect("written as a size");
        Wish {
            arrival,
            model: size(model),
            blocks: size(blocks),
        }
    }

    /// Tells an entry that waits for room that there is some; false if its future is gone.
    pub(super) fn invite(&self, index: u32) -> bool {
        self.entry(index).shift(ROOM, INVITED).is_ok()
    }

    /// An invitation could not be followed yet.
    pub(super) fn stay_invited(&self, index: u32) {
        self.entry(index).phase.store(INVITED, Ordering::Release);
    }

    /// A permit did not go back after all.
    pub(super) fn hold(&self, index: u32) {
        self.entry(index).phase.store(GRANTED, Ordering::Release);
    }

    /// Delivers to an entry; false if its future is gone, and the entry is the caller's.
    pub(super) fn grant(&self, index: u32, grant: Grant) -> bool {
        self.settle(index, grant.to_words(), GRANTED)
    }

    /// The same.
    pub(super) fn end(&self, index: u32, fate: Fate) -> bool {
        self.settle(index, fate.to_words(), ENDED)
    }

    fn settle(&self, index: u32, words: [u64; WORDS], phase: u32) -> bool {
        let entry = self.entry(index);
        entry.write(words);
        entry.shift(WAITING, phase).is_ok()
    }

    /// The waker that an entry's future left, for whoever has told it something.
    pub(super) fn waker(&self, index: u32) -> Option<Waker> {
        self.entry(index).waker.take()
    }

    /// Nothing is delivered any more: ends all that wait, for room or in the engine, and hands their
    /// wakers to `wake`.
    pub(super) fn close_all(&self, mut wake: impl FnMut(Waker)) {
        self.closed.store(1, Ordering::Relaxed);
        // ORDERING: with the fence of `is_closed` (W5).
        fence(Ordering::SeqCst);
        for index in 0..self.len() {
            if self.close_one(index) {
                self.waker(index).into_iter().for_each(&mut wake);
            }
        }
    }

    /// Whether nothing is delivered any more: asked by whoever waits for room, once it does.
    pub(super) fn is_closed(&self) -> bool {
        // ORDERING: with the fence of `close_all` (W5).
        fence(Ordering::SeqCst);
        self.closed.load(Ordering::Relaxed) == 1
    }

    /// Ends an entry that waits; whether it did.
    pub(super) fn close_one(&self, index: u32) -> bool {
        let entry = self.entry(index);
        let phase = entry.phase.load(Ordering::Relaxed);
        if phase != WAITING && phase != ROOM {
            return false;
        }
        entry.write(Fate::Closed.to_words());
        entry.shift(phase, ENDED).is_ok()
    }

    /// What there is for the entry's future, which leaves its waker where there is nothing.
    pub(super) fn look(&self, index: u32, waker: &Waker) -> Found {
        match self.found(index) {
            Found::Nothing => {
                self.entry(index).waker.register(waker);
                self.found(index)
            }
            found => found,
        }
    }

    fn found(&self, index: u32) -> Found {
        let entry = self.entry(index);
        // ORDERING: Acquire with the Release of `shift`: the words are there.
        match entry.phase.load(Ordering::Acquire) {
            GRANTED => Found::Granted(Grant::from_words(entry.read())),
            ENDED => Found::Ended(Fate::from_words(entry.read())),
            INVITED => Found::Invitation,
            _ => Found::Nothing,
        }
    }

    /// Its future goes away: `Nothing` if the entry is now whoever's who would have told it something.
    /// Else the entry is the caller's, with what it was told.
    pub(super) fn leave(&self, index: u32) -> Found {
        let entry = self.entry(index);
        let mut phase = entry.phase.load(Ordering::Relaxed);
        while phase == WAITING || phase == ROOM {
            match entry.shift(phase, GONE) {
                Ok(()) => return Found::Nothing,
                Err(now) => phase = now,
            }
        }
        self.found(index)
    }

    fn entry(&self, index: u32) -> &Entry {
        &self.entries[index as usize]
    }
}

#[cfg(all(test, loom))]
mod model;
